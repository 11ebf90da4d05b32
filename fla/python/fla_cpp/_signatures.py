"""A Python function for each function of the extension, with a signature and documentation from its op's table.

The functions are written as text and compiled: Python itself then checks names and counts, tools see a signature, and
what is called costs no more than a call with positions."""

import sys
import warnings

from fla_cpp import _compatibility

_modules = sys.modules  # which sys itself has no more when an interpreter ends
STREAM_DOC = "the CUDA stream: an object of torch's or CuPy's, or a handle; the current one when left out"


class Parameter:
    """One argument of a function: `default` is the text of it, None where there has to be a value."""

    def __init__(self, name, default, doc, statement=""):
        self.name, self.default, self.doc, self.statement = name, default, doc, statement

    def __str__(self):
        return self.name if self.default is None else f"{self.name}={self.default}"


def _from_row(row):
    doc = row["doc"] + (f"; needs {row['needs']}" if row["needs"] else "")
    if row["kind"] == "flag":
        return Parameter(row["name"], "False", doc)
    if row["kind"] in ("number", "integer"):
        return Parameter(row["name"], "None", f"{row['kind']} or None: {doc}")
    return Parameter(row["name"], None if row["required"] else "None", f"[{row['shape']}], {row['dtypes']}: {doc}")


def parameters(function):
    """Those that may be given by position, and those by keyword alone."""
    if "parameters" not in function:  # an import asks three times for each
        function["parameters"] = _parameters(function)
    return function["parameters"]


def _parameters(function):
    table = {row["name"]: _from_row(row) for row in function["table"]}
    for name, default in _compatibility.DEFAULTS.get(function["name"], {}).items():
        table[name].default = default
    order = _compatibility.POSITIONS.get(function["name"])
    if order is None:
        by_position = sorted(table.values(), key=lambda parameter: parameter.default is not None)
        by_keyword = []
    else:

        def named(name):
            return table.get(name) or Parameter(name, *_compatibility.extra(function["op"], function["name"], name))

        by_position = [named(name) for name in order.split()]
        by_keyword = [parameter for parameter in table.values() if parameter not in by_position]
        # Behind one that may be left out, and where another name may stand for it, the library says what is missing.
        first = next((n for n, parameter in enumerate(by_position) if parameter.default is not None), len(by_position))
        for parameter in by_position[first:] + by_keyword:
            parameter.default = parameter.default or "None"
        by_keyword += [named(name) for name in _compatibility.KEYWORDS.get(function["name"], ())]
    return by_position, [*by_keyword, Parameter("stream", "None", STREAM_DOC)]


def signature(function):
    """The text between the parentheses."""
    by_position, by_keyword = parameters(function)
    return ", ".join([*map(str, by_position), "*", *map(str, by_keyword)])


def documentation(function):
    by_position, by_keyword = parameters(function)
    results = [function["table"][output] for output, *_ in function["results"]]
    names = [row["name"] for row in results]
    start = ""
    if "S <-" in function["formula"]:
        rows = {row["name"] for row in function["table"]}
        start = ", from initial_state or a state S of zeros"
        if "state" in rows:
            start = ", from state and its ring" if "ring_k" in rows else ", from the states of its slot"
    each = "summary c" if "_c " in function["formula"] else "token t"
    lines = [function["doc"], "", f"For every {each}{start}:", ""]
    lines += [f"    {line}" for line in function["formula"].splitlines()]
    lines += ["", "Example:", "", *(f"    {line}" for line in example(function))]
    lines += ["", "Arguments, arrays by their shapes:"]
    lines += [f"    {parameter.name}: {parameter.doc}" for parameter in by_position + by_keyword]
    lines += [f"    {sentence}" for *_, sentence in _compatibility.COMPOSED.get(function["name"], ()) if sentence]
    if not names:
        lines += ["", "Returns None."]
    elif len(names) == 1:
        lines += ["", f"Returns the array that {names[0]} would hold."]
    else:
        lines += ["", f"Returns a tuple of the arrays that {' and '.join(names)} would hold; None for one not asked for."]
    lines += ["An array with one axis, indices aside, may come in any shape that has its numbers in a row."]
    lines += ["Arrays are the caller's kind (torch, NumPy, CuPy, JAX, …), and so are the results, without a copy."]
    return "\n".join(lines)


_SIZES = {"B": 1, "T": 100, "H": 4, "HV": 4, "K": 64, "V": 64, "D": 256, "W": 4, "P": 1, "C": 3, "N": 1}


def example(function):
    """Lines of Python that make a call with tensors of torch."""
    lines = ["import torch, fla_cpp"]
    given = []
    has_rings = any(row["name"] == "ring_k" for row in function["table"])
    sizes = _SIZES | {"T": 4, "L": 16} if has_rings else _SIZES
    if any(row["name"] == "conv_state" for row in function["table"]):
        sizes = sizes | {"T": 1, "D": 2 * 4 * 64 + 4 * 64, "W-1": 3}
    for row in function["table"]:
        if not row["required"] and row["name"] not in _EXAMPLES:
            continue
        first = row["shape"].partition("; ")[0].partition(" | ")[0]
        shape = ", ".join(str(sizes[axis]) for axis in first.split())
        value = _EXAMPLES.get(row["name"], "torch.randn(SHAPE)").replace("SHAPE", shape)
        lines.append(f"{row['name']} = {value}")
        given.append(f"{row['name']}={row['name']}")
    results = [function["table"][output]["name"] for output, *_ in function["results"]]
    if results == ["out"]:
        results = ["o"]
    elif results[:1] == ["out"]:
        results, given = ["o", "state"], [*given, "output_final_state=True"]
    elif results == ["R", "P"]:
        given.append("output_P=True")
    assignment = f"{', '.join(results)} = " if results else ""
    return [*lines, f"{assignment}fla_cpp.{function['name']}({', '.join(given)})"]


# What tensors hold in an example, where that is not any number: keys of length 1, gates that decay, shares.
_EXAMPLES = {name: "torch.nn.functional.normalize(torch.randn(SHAPE), dim=-1)" for name in ("k", "a", "b")}
_EXAMPLES |= {name: "-torch.rand(SHAPE)" for name in ("g", "w")}
_EXAMPLES |= {name: "torch.zeros(SHAPE)" for name in ("state", "conv_state", "ring_k", "ring_u", "ring_g", "ring_b", "ring_w")}
_EXAMPLES |= {name: "torch.zeros(SHAPE, dtype=torch.int64)" for name in ("ring_begin", "ring_end")}
_EXAMPLES |= {"beta": "torch.rand(SHAPE)", "layer_idx": "0", "num_layers": "24"}


def _invalid(op, argument, words):
    from fla_cpp import InvalidArgument

    error = InvalidArgument(f"{op}: {words}")
    error.argument, error.op = argument, op
    return error


def refuse(op, argument, expected, got):
    raise _invalid(op, argument, f"{argument}: expected {expected}, got {got!r}: fla_cpp does not have it")


def under_its_names(function, call):
    """`call`, whose errors name the op and the arguments as an alias calls them."""
    op, called, names = function["op"], function["called"], function["names"]
    if called == op:
        return call

    def run(*values):
        try:
            return call(*values)
        except (TypeError, ValueError) as error:
            if not str(error).startswith(f"{op}: "):
                raise
            argument, _, problem = str(error).removeprefix(f"{op}: ").partition(": ")
            argument = names.get(argument, argument)
            problem = " ".join(names.get(word, word) for word in problem.split(" "))
            raised = type(error)(f"{called}: {argument}: {problem}")
            if hasattr(error, "argument"):
                raised.argument, raised.op = argument, called
        raise raised

    return run


def _refuse_chunk_size(op, got, expected="either 32 or 64"):
    # flash-linear-attention's words, which programs look for.
    raise _invalid(op, "chunk_size", f"`chunk_size` must be {expected}, got {got!r}")


def _wide(state):
    """A first state of f16, which the library has no kernels for, in f32."""
    torch = _modules.get("torch")
    if torch is not None and isinstance(state, torch.Tensor):
        return state.float() if state.dtype is torch.float16 else state
    return state.astype("float32") if getattr(state, "dtype", None) == "float16" else state


def _is_torch(x):
    torch = _modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _is_wide(q, v):
    """More keys or values than a call takes."""
    if not (_is_torch(q) and _is_torch(v) and q.dim() == v.dim() == 4):
        return False
    return max(q.shape[-1], v.shape[-1]) > _compatibility.MOST_CHANNELS


def _expect_torch(op, q, option):
    if not _is_torch(q):
        raise _invalid(op, "q", f"q: expected a tensor of torch with {option}, got {type(q).__name__}")
    return True


def _is_over_ranks(op, context):
    if context is None:
        return False
    if "torch" in _modules:
        from fla_cpp.ops.cp import Context

        if isinstance(context, Context):
            return True
    refuse(op, "cp_context", "None or what fla_cpp.ops.cp.build_cp_context returns", context)


def _compose(op, name, function, given):
    from fla_cpp import _composed

    return getattr(_composed, name)(op, function, given)


def _first_composed(op, name, values, given):
    from fla_cpp import _composed

    return values(**_composed.FIRST[name](op, given))


def _of_old_name(op, old, value, name, value_by_name):
    if value_by_name:
        raise _invalid(op, old, f"{old}: expected {name} alone, got both: {old} is its old name")
    if not _tracing():  # TorchDynamo knows no warnings
        warnings.warn(f"fla_cpp: {old} is the old name of {name}", DeprecationWarning, stacklevel=3)
    return value


def _tracing():
    """Whether torch.compile or torch.export is reading the code that calls. Until torch is imported nobody is."""
    if "torch" not in _modules:
        return False
    from fla_cpp import torch_ops

    return torch_ops.is_compiling()


def _through_torch(name, values):
    from fla_cpp import torch_ops

    return torch_ops.dispatched(name, values)


def _compiled(function, name, last_lines):
    """A function with that signature that ends with these lines, in which VALUES stands for the values of the table's
    arguments, in its order, and the stream."""
    by_position, by_keyword = parameters(function)
    statements = [parameter.statement for parameter in by_position + by_keyword if parameter.statement]
    dtypes = {row["name"]: row["dtypes"].split(" or ") for row in function["table"]}
    if {"initial_state", "final_state", "state_indices"} <= set(dtypes) and "f16" not in dtypes["initial_state"]:
        # Not where it is updated in its place.
        statements.append(
            "if initial_state is not None and final_state is None and state_indices is None:"
            " initial_state = _wide(initial_state)"
        )
    values = ", ".join([*(row["name"] for row in function["table"]), "stream"])
    lines = [*statements, *(line.replace("VALUES", values) for line in last_lines)]
    lines = [line.replace("OP, ", f"{function['called']!r}, ") for line in lines]
    text = "\n    ".join([f"def {name}({signature(function)}):", *lines])
    exec(compile(text, f"<fla_cpp.{name}>", "exec"), globals())
    return globals()[name]


def _composed_lines(function, compose, name):
    return [
        f"if {when}: return {compose}(OP, {how!r}, {name}, locals())"
        for when, how, _ in _compatibility.COMPOSED.get(function["name"], ())
    ]


def make(function):
    """The function that callers see."""
    name = function["name"]
    globals()[f"_call_{name}"] = under_its_names(function, function["call"])
    lines = _composed_lines(function, "_compose", name)
    through_torch, call = f"_through_torch({function['target']!r}, (VALUES))", f"_call_{name}(VALUES)"
    if function["results"]:
        one = "[0]" if len(function["results"]) == 1 else ""
        lines += [f"if _tracing(): return {through_torch}{one}", f"return {call}{one}"]
    else:
        lines += [f"if _tracing(): {through_torch}", f"else: {call}"]
    made = _compiled(function, name, lines)
    made.__module__ = "fla_cpp"
    made.__doc__ = documentation(function)
    return made


def make_values(function):
    """A function of the same signature that returns the values of the table's arguments, and the stream; of a call that is
    several here, those of the first."""
    name = f"_values_{function['name']}"
    return _compiled(function, name, [*_composed_lines(function, "_first_composed", name), "return (VALUES)"])
