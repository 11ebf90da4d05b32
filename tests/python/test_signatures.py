"""Signatures, documentation and type stubs come from the ops' tables; the order of arguments is that of
flash-linear-attention."""

import ast
import importlib
import inspect
import os
import textwrap
from pathlib import Path

import fla_cpp
import numpy as np
import pytest
from fla_cpp import _compatibility, _fla_cpp

FUNCTIONS = {function["name"]: function for function in _compatibility.with_aliases(_fla_cpp.functions())}
STEPS = ["kda_step", "gated_delta_rule_step"]  # of whole layers
LAYER_OPS = ["merge", "short_conv", "gated_rms_norm", *STEPS]  # around a recurrence
by_name = pytest.mark.parametrize("name", FUNCTIONS)


def parameters(name):
    return inspect.signature(getattr(fla_cpp, name)).parameters


def test_every_op_has_its_functions():
    ops = ["kda", "gated_delta_rule", "delta_rule", "gla", "simple_gla", "retention", "lightning_attn", "linear_attn"]
    ops += ["dplr_delta_rule", "iplr_delta_rule", "rwkv7"]
    forms = ["{}", "chunk_{}", "fused_recurrent_{}", "chunk_{}_backward", "replay_{}", "fold_{}", "{}_summary"]
    names = [form.format(op) for op in ops for form in forms]
    for name in ("chunk_rwkv7_backward", "replay_rwkv7", "fold_rwkv7", "rwkv7_summary"):
        names.remove(name)
    assert [name for name in FUNCTIONS if name not in LAYER_OPS] == names
    assert set(FUNCTIONS) <= set(fla_cpp.__all__)


def test_chunk_kda_has_its_arguments_where_scripts_expect_them():
    names = [name for name, parameter in parameters("chunk_kda").items() if parameter.kind != parameter.KEYWORD_ONLY]
    assert names[:8] == ["q", "k", "v", "g", "beta", "scale", "initial_state", "output_final_state"]
    assert names.index("lower_bound") == 13 and names.index("state_v_first") == 16 and names.index("cu_seqlens") == 17


def test_fused_recurrent_kda_has_its_arguments_where_scripts_expect_them():
    names = list(parameters("fused_recurrent_kda"))
    assert names[:9] == ["q", "k", "v", "g", "beta", "A_log", "dt_bias", "scale", "initial_state"]


def test_positions_are_those_of_flash_linear_attention():
    names = [name for name, p in parameters("fused_recurrent_gla").items() if p.kind != p.KEYWORD_ONLY]
    assert names == "q k v gk gv scale initial_state output_final_state reverse state_v_first cu_seqlens".split()
    names = list(parameters("fused_recurrent_gated_delta_rule"))
    assert names[:10] == "q k v g gk gv beta scale initial_state output_final_state".split()
    assert list(parameters("chunk_dplr_delta_rule"))[:7] == "q k v a b gk scale".split()
    assert parameters("chunk_linear_attn")["normalize"].default is True
    assert parameters("fused_recurrent_linear_attn")["normalize"].default is False


@by_name
def test_every_argument_of_the_table_is_a_parameter(name):
    known = parameters(name)
    for row in FUNCTIONS[name]["table"]:
        assert row["name"] in known
        required = known[row["name"]].default is inspect.Parameter.empty
        assert required <= row["required"]  # the library itself says what is missing behind others that may be
        assert f"    {row['name']}: " in getattr(fla_cpp, name).__doc__
        assert row["doc"] in getattr(fla_cpp, name).__doc__


@by_name
def test_what_is_no_argument_of_the_table_is_said_to_be_none(name):
    table = {row["name"] for row in FUNCTIONS[name]["table"]}
    extras = set(parameters(name)) - table - {"stream"}
    assert extras <= {key.split(".")[-1] for key in _compatibility.EXTRAS}
    assert not table & set(_compatibility.EXTRAS)


@by_name
def test_the_documentation_has_the_formula_of_the_ops_header(name):
    text, op = getattr(fla_cpp, name).__doc__, FUNCTIONS[name]["op"]
    header = (Path(os.environ["FLA_SOURCE_DIR"]) / f"fla/ops/{op}/{op}.h").read_text()
    start = "" if op in LAYER_OPS and op != "merge" else ", from initial_state or a state S of zeros"
    if name.startswith(("replay_", "fold_")):
        start = ", from state and its ring"
    if op in STEPS:
        start = ", from the states of its slot"
    each = "summary c" if op == "merge" else "token t"
    formula = text.partition(f"For every {each}{start}:\n\n")[2].partition("\n\n")[0]
    lines = [line.strip() for line in formula.splitlines()]
    if op in LAYER_OPS:
        assert lines
        assert all(f"///     {line}" in header for line in lines)
        return
    if "rwkv7" in name:
        assert lines[0] == "S <- diag(exp(w_t)) S + b_t (a_t^T S)^T + k_t v_t^T"
        lines = [line.replace("w_t", "g_t").replace("r_t", "q_t") for line in lines]
    assert lines[-1] == "o_t = scale * q_t^T S" and len(lines) > 1
    for line in lines:
        assert f"///     {line}" in header


@by_name
def test_the_example_of_the_documentation_runs(name):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    text = getattr(fla_cpp, name).__doc__.partition("Example:\n\n")[2].partition("\n\n")[0]
    variables = {}
    exec(textwrap.dedent(text), variables)
    if name.startswith("fold_"):
        assert variables["state"].isfinite().all()
        return
    if name.endswith("_backward"):
        assert all(variables[row["name"]].isfinite().all() for row in FUNCTIONS[name]["table"]
                   if row["kind"] == "output" and variables.get(row["name"]) is not None)  # fmt: skip
    elif name.endswith("_summary") or name == "merge":
        result = "final_state" if name == "merge" else "R"
        assert variables[result].shape == (1, 4, 64, 64) and variables[result].isfinite().all()
    else:
        shape = (1, 100, 256) if name == "short_conv" else (1, 4 if name.startswith("replay_") else 100, 4, 64)
        shape = (1, 1, 4, 64) if name in STEPS else shape
        assert variables["o"].shape == shape and variables["o"].isfinite().all()
    first = {"merge": "R"}.get(name, "x" if name in LAYER_OPS else "k")
    assert isinstance(variables[first], torch.Tensor)


def test_a_function_without_an_order_has_its_tables_order():
    from fla_cpp import _signatures

    function = FUNCTIONS["kda"] | {"name": "another"}
    by_position, by_keyword = _signatures.parameters(function)
    assert [parameter.name for parameter in by_position] == [row["name"] for row in function["table"]]
    assert [parameter.name for parameter in by_keyword] == ["stream"]


def stubs():
    (path,) = [Path(folder) / "__init__.pyi" for folder in fla_cpp.__path__]
    return ast.parse(path.read_text()).body


def public(nodes):
    """Names that a stub declares; what it imports and what begins with an underscore is its own."""
    for node in nodes:
        if isinstance(node, ast.AnnAssign):
            yield node.target.id, node
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, node


def test_the_stubs_have_the_public_names_and_no_others():
    names = {name for name, _ in public(stubs())}
    assert names - {"__version__"} == set(fla_cpp.__all__)


def assert_is_there(owner, name, node):
    assert hasattr(owner, name), f"{owner.__name__}.{name}"
    there = getattr(owner, name)
    if isinstance(node, ast.ClassDef):
        assert isinstance(there, type) and there.__name__ == name
        assert [base.__name__ for base in there.__bases__] == (
            [ast.unparse(base) for base in node.bases] or [there.__base__.__name__]
        )
        for member, inner in public(node.body):
            assert_is_there(there, member, inner)
    elif isinstance(node, ast.FunctionDef) and not any(ast.unparse(d) == "property" for d in node.decorator_list):
        assert callable(there), f"{owner.__name__}.{name}"


@pytest.mark.parametrize("name, node", list(public(stubs())), ids=lambda value: value if isinstance(value, str) else "")
def test_what_the_stubs_declare_is_there(name, node):
    assert_is_there(fla_cpp, name, node)


def test_the_stubs_of_paths_are_what_the_paths_have():
    (folder,) = [Path(folder) / "ops" for folder in fla_cpp.__path__]
    found = {path.stem for path in folder.glob("*.pyi")}
    assert {"__init__", "kda", "gated_delta_rule", "generalized_delta_rule", "rwkv7"} <= found
    for path in folder.glob("*.pyi"):
        module = importlib.import_module("fla_cpp.ops" + ("" if path.stem == "__init__" else f".{path.stem}"))
        names = [alias.name for node in ast.parse(path.read_text()).body for alias in node.names]
        assert names
        for name in names:
            assert getattr(module, name) is getattr(fla_cpp, name)


def test_types_of_results_are_those_of_the_stubs():
    call = [np.zeros((1, 1, 1, 16), np.float32)] * 4
    fla_cpp.kda(*call, call[0][..., 0])
    explanation = fla_cpp.explain("kda", *call, call[0][..., 0])
    op = next(op for op in fla_cpp.ops() if op.name == "kda")
    row, *_ = fla_cpp.counters()
    assert type(explanation) is fla_cpp.Explanation and type(explanation.rows[0]) is fla_cpp.Explanation.Row
    assert type(op) is fla_cpp.OpStatus and type(op.backends[0]) is fla_cpp.BackendStatus
    assert type(row) is fla_cpp.BackendCounters
    assert type(fla_cpp.current_policy()) is fla_cpp.Policy


@by_name
def test_the_stubs_have_the_functions_own_signature(name):
    (stub,) = [node for node in stubs() if isinstance(node, ast.FunctionDef) and node.name == name]
    assert [argument.arg for argument in stub.args.args + stub.args.kwonlyargs] == list(parameters(name))
    defaults = [ast.literal_eval(value) for value in stub.args.defaults + stub.args.kw_defaults]
    assert defaults == [p.default for p in parameters(name).values() if p.default is not p.empty]
    results = ["_Array", "_Array | None"]
    if name.endswith("_backward"):
        results = ["_Array | None"] * len(FUNCTIONS[name]["results"])
    expected = "_Array" if name in ("gated_rms_norm", "merge", *STEPS) else f"tuple[{', '.join(results)}]"
    if name.startswith(("replay_", "fold_")):
        expected = "_Array" if name.startswith("replay_") else "None"
    assert ast.unparse(stub.returns) == expected
