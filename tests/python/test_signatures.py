"""Signatures, documentation and type stubs come from the ops' tables; the order of arguments is that of
flash-linear-attention."""

import ast
import inspect
from pathlib import Path

import fla_cpp
import pytest
from fla_cpp import _compatibility, _fla_cpp

FUNCTIONS = {function["name"]: function for function in _fla_cpp.functions()}
by_name = pytest.mark.parametrize("name", FUNCTIONS)


def parameters(name):
    return inspect.signature(getattr(fla_cpp, name)).parameters


def test_the_functions_are_those_of_kda():
    assert list(FUNCTIONS) == ["kda", "chunk_kda", "fused_recurrent_kda"]
    assert set(FUNCTIONS) <= set(fla_cpp.__all__)


def test_chunk_kda_has_its_arguments_where_scripts_expect_them():
    names = [name for name, parameter in parameters("chunk_kda").items() if parameter.kind != parameter.KEYWORD_ONLY]
    assert names[:8] == ["q", "k", "v", "g", "beta", "scale", "initial_state", "output_final_state"]
    assert names.index("lower_bound") == 13 and names.index("state_v_first") == 16 and names.index("cu_seqlens") == 17


def test_fused_recurrent_kda_has_its_arguments_where_scripts_expect_them():
    names = list(parameters("fused_recurrent_kda"))
    assert names[:9] == ["q", "k", "v", "g", "beta", "A_log", "dt_bias", "scale", "initial_state"]


@by_name
def test_every_argument_of_the_table_is_a_parameter(name):
    known = parameters(name)
    for row in FUNCTIONS[name]["table"]:
        assert row["name"] in known
        required = known[row["name"]].default is inspect.Parameter.empty
        assert required == row["required"]
        assert f"    {row['name']}: " in getattr(fla_cpp, name).__doc__
        assert row["doc"] in getattr(fla_cpp, name).__doc__


@by_name
def test_what_is_no_argument_of_the_table_is_said_to_be_none(name):
    table = {row["name"] for row in FUNCTIONS[name]["table"]}
    extras = set(parameters(name)) - table - {"stream"}
    assert extras <= set(_compatibility.EXTRAS)
    assert not table & set(_compatibility.EXTRAS)


def test_a_function_that_nobody_ordered_has_its_tables_order():
    from fla_cpp import _signatures

    function = FUNCTIONS["kda"] | {"name": "another"}
    by_position, by_keyword = _signatures.parameters(function)
    assert [parameter.name for parameter in by_position] == [row["name"] for row in function["table"]]
    assert [parameter.name for parameter in by_keyword] == ["stream"]


def stubs():
    (path,) = [Path(folder) / "__init__.pyi" for folder in fla_cpp.__path__]
    return ast.parse(path.read_text()).body


def test_the_stubs_have_every_public_name():
    names = {node.name for node in stubs() if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert set(fla_cpp.__all__) <= names


@by_name
def test_the_stubs_have_the_functions_own_signature(name):
    (stub,) = [node for node in stubs() if isinstance(node, ast.FunctionDef) and node.name == name]
    assert [argument.arg for argument in stub.args.args + stub.args.kwonlyargs] == list(parameters(name))
    defaults = [ast.literal_eval(value) for value in stub.args.defaults + stub.args.kw_defaults]
    assert defaults == [p.default for p in parameters(name).values() if p.default is not p.empty]
    assert ast.unparse(stub.returns) == "tuple[_Array, _Array | None]"


def test_the_stubs_of_classes_have_the_attributes_that_are_there():
    for node in stubs():
        there = getattr(fla_cpp, getattr(node, "name", ""), None) or getattr(_fla_cpp, getattr(node, "name", ""), None)
        if isinstance(node, ast.ClassDef) and not issubclass(there, Exception):
            for member in node.body:
                name = member.target.id if isinstance(member, ast.AnnAssign) else member.name
                assert hasattr(there, name), f"{node.name}.{name}"
