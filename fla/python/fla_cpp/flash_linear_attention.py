"""fla_cpp as a backend of the library flash-linear-attention, whose registry (fla.backends) came with version 0.6.0.

    import fla_cpp.flash_linear_attention
    fla_cpp.flash_linear_attention.register()

From then on that library's functions, layers and models run on fla_cpp, forward and backward, with no import changed.
Its dispatch asks backend `fla_cpp` first; a call that fla_cpp refuses goes on to that library's other backends and to its
own kernels. There is one class per op; `FLA_CPP_<OP>=0` (FLA_CPP_KDA, …) switches an op off, and what else that library
says of backends holds: FLA_FLA_CPP=1 enables all of them, FLA_DISABLE_BACKEND_DISPATCH=1 bypasses its dispatch.
`fla_cpp.counters()` shows what ran here.

Served are `chunk_<op>` and `fused_recurrent_<op>` of every op of fla_cpp, `fused_chunk_<op>` of simple_gla, retention and
linear_attn, and with dplr_delta_rule what is built on it: rwkv7's functions. Not served are `parallel_<op>`, which returns
attention scores, fused_mul_recurrent_rwkv7, context parallelism and `reverse`.

That library dispatches chunk_kda, chunk_gated_delta_rule and the fused functions of simple_gla by itself. The others get its decorator, `fla.backends.dispatch`, and every module of that library that has the function's name is
given the decorated one. A module outside that library which imported such a name before register() keeps the function
that it has: call register() first."""

import inspect
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

import fla_cpp
from fla_cpp import _compatibility

BACKEND = "fla_cpp"
PRIORITY = 1  # lower is asked first; that library's own for NVIDIA's GPUs begin at 3

# Functions of that library that compute what one of fla_cpp does.
_OTHER_NAMES = {f"fused_chunk_{op}": f"chunk_{op}" for op in ("simple_gla", "retention", "linear_attn")}

_registered = []  # what takes each registration back


def _verdict(function, given):
    """(ok, reason) of that library's verifiers. Runs nothing."""
    try:
        explanation = fla_cpp.explain(function, **given)
    except (fla_cpp.Error, TypeError, ValueError) as error:
        return False, str(error)
    return (True, None) if explanation.selected else (False, explanation.error)


def _methods(name, function, parameters):
    """What runs a call and what verifies it; arguments are known by that library's names, in its order."""

    def run(self, *args, **kwargs):
        return function(**dict(zip(parameters, args)), **kwargs)

    def verify(self, *args, **kwargs):
        return _verdict(function, {**dict(zip(parameters, args)), **kwargs})

    run.__doc__, verify.__doc__ = f"fla_cpp.{function.__name__}", _verdict.__doc__
    return {name: run, f"{name}_verifier": verify}


def _functions():
    """By op, that library's functions that are served: (name, function, fla_cpp's function)."""
    served = {}
    names = [name for name in fla_cpp._functions if name.startswith(("chunk_", "fused_recurrent_"))]
    ours = {name: name for name in names if not name.endswith("_backward") and name not in _compatibility.ALIASES}
    for name, target in {**ours, **_OTHER_NAMES}.items():
        module = import_module(f"fla.ops.{_compatibility.paths_of(target)[-1]}")
        if hasattr(module, name):
            op = fla_cpp._functions[target]["op"]
            served.setdefault(op, []).append((name, getattr(module, name), getattr(fla_cpp, target)))
    return served


def _registry_of(function, registry_type):
    """The registry that dispatches a function, None where it is not dispatched."""
    while function is not None:
        for cell in getattr(function, "__closure__", None) or ():
            if isinstance(cell.cell_contents, registry_type):
                return cell.cell_contents
        function = getattr(function, "__wrapped__", None)
    return None


def _enabled(function):
    """A function without torch.compiler.disable around it: that decorator, which dispatch() applies itself, drops every
    decorator between two of its own."""
    while hasattr(function, "_torchdynamo_orig_callable"):
        function = function._torchdynamo_orig_callable
    return function


def _replace(old, new):
    """In every module of that library that has it."""
    for name, module in list(sys.modules.items()):
        if module is None or name.partition(".")[0] != "fla":
            continue
        for attribute, value in list(vars(module).items()):
            if value is old:
                setattr(module, attribute, new)


def _installed_version():
    try:
        return version("flash-linear-attention")
    except PackageNotFoundError:
        return "none"


def register():
    """Adds backend `fla_cpp` to that library's registry, and returns the names of the functions that it serves; none where
    FLA_DISABLE_BACKEND_DISPATCH=1 bypasses that library's dispatch. A second call changes nothing. Raises ImportError
    where flash-linear-attention 0.6.0 or newer is not installed."""
    try:
        backends = import_module("fla.backends")
    except ModuleNotFoundError as error:
        if error.name not in ("fla", "fla.backends"):
            raise
        raise ImportError(
            "fla_cpp.flash_linear_attention: expected flash-linear-attention 0.6.0 or newer, whose fla.backends has the"
            f" registry, got {_installed_version()}"
        ) from error
    unregister()
    if backends._DISPATCH_DISABLED:
        return []
    return [name for op, functions in _functions().items() for name in _register(backends, op, functions)]


def _register(backends, op, functions):
    name = "FlaCpp" + op.title().replace("_", "")
    attributes = {
        "__doc__": f"{op} of fla_cpp.",
        "__module__": __name__,
        "backend_type": BACKEND,
        "package_name": "fla_cpp",
        "env_var": f"FLA_CPP_{op.upper()}",
        "priority": PRIORITY,
    }
    for function, theirs, ours in functions:
        attributes |= _methods(function, ours, list(inspect.signature(theirs).parameters))
    backend = type(name, (backends.BaseBackend,), attributes)
    for _, theirs, _ in functions:
        registry = _registry_of(theirs, backends.BackendRegistry)
        if registry is None:
            dispatched = backends.dispatch(_enabled(theirs))
            registry = _registry_of(dispatched, backends.BackendRegistry)
            _replace(theirs, dispatched)
            _registered.append(lambda key=inspect.unwrap(theirs): backends._function_registries.pop(key))
            _registered.append(lambda old=dispatched, new=theirs: _replace(old, new))
        registry.register(backend())
        _registered.append(lambda registry=registry: registry._backends.pop(BACKEND, None))
    return [f"{theirs.__module__}.{function}" for function, theirs, _ in functions]


def unregister():
    """Takes backend `fla_cpp` out of that library again; its functions are as they were."""
    while _registered:
        _registered.pop()()
