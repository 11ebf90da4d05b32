"""Linear attention: the functions of flash-linear-attention, on the kernels of the C++ library fla.

    from fla_cpp import chunk_kda
    o, state = chunk_kda(q, k, v, g, beta, output_final_state=True)

takes and returns arrays of torch, NumPy, CuPy, JAX or anything else that speaks DLPack. `explain(chunk_kda, q, k, …)`
says who would take a call and why not the others, `policy(...)` and `set_policy(...)` steer the choice."""

import sys

if "t" in getattr(sys, "abiflags", ""):
    raise ImportError(
        "fla_cpp: expected a Python with the GIL, got a free-threaded build "
        f"({sys.implementation.cache_tag}{sys.abiflags}); use the build without the letter t"
    )

try:
    from fla_cpp import _fla_cpp
except ImportError as error:
    from fla_cpp import _runtime

    if not _runtime.load(error):
        raise
    from fla_cpp import _fla_cpp

from fla_cpp import _compatibility, _display, _signatures
from fla_cpp._fla_cpp import (
    BackendCounters,
    BackendError,
    BackendStatus,
    ConfigError,
    DeviceLost,
    Error,
    Explanation,
    InvalidArgument,
    OpStatus,
    PluginStatus,
    Policy,
    Tensor,
    __version__,
    counters_json,
    counters_prometheus,
    current_policy,
    load_plugin,
    num_threads,
    registry_json,
    reload_config,
    reload_environment,
    reset_breakers,
    set_num_threads,
    why_no_cuda_device,
)

_functions = {function["name"]: function for function in _compatibility.with_aliases(_fla_cpp.functions())}
_values = {}
globals().update({name: _signatures.make(function) for name, function in _functions.items()})


def explain(function, /, *args, **kwargs):
    """Who would take this call on this thread now, who would not, and why. `function` is one of this module's, or its
    name; the arguments are the call's. Runs no kernel and touches no data."""
    name = getattr(function, "__name__", function)
    if name not in _functions:
        raise InvalidArgument(f"function: expected one of {', '.join(_functions)}, got {name!r}")
    if name not in _values:
        _values[name] = _signatures.make_values(_functions[name])
    explained = _signatures.under_its_names(_functions[name], _fla_cpp.explain)
    return explained(_functions[name]["target"], _values[name](*args, **kwargs))


def ops():
    """Every op of the process, in alphabetical order, its backends loaded: a list that shows itself as a table."""
    return _display.Ops(_fla_cpp.ops())


def counters():
    """Everything counted so far, by all threads: a row for each pair of function and backend."""
    return _display.Counters(_fla_cpp.counters())


def plugins():
    """All plugins, in the order in which they were found."""
    return _display.Plugins(_fla_cpp.plugins())


_display.install()


def set_policy(**settings):
    """Puts a policy on top of the environment, for the whole process; without settings, takes it away again. The
    settings are the fields of Policy. Raises ConfigError, and changes nothing, when one is wrong."""
    _fla_cpp.set_policy(Policy(**settings))


class policy:
    """`with policy(disable_dispatch=True): …` puts a policy on top of everything else for the calls inside, in this
    thread or task alone. Policies nest. The settings are the fields of Policy."""

    def __init__(self, **settings):
        self._policy = Policy(**settings)

    def __enter__(self):
        _fla_cpp.scope.set((*(_fla_cpp.scope.get() or ()), self._policy))
        try:
            _fla_cpp.check_scope()
        except BaseException:
            self.__exit__()
            raise
        return self._policy

    def __exit__(self, *exception):
        # Takes out what was put in last here. The object keeps nothing of it: threads and tasks may share one.
        policies = list(_fla_cpp.scope.get() or ())
        for n in reversed(range(len(policies))):
            if policies[n] is self._policy:
                del policies[n]
                break
        _fla_cpp.scope.set(tuple(policies) or None)


__all__ = [
    *_functions,
    "BackendCounters",
    "BackendError",
    "BackendStatus",
    "ConfigError",
    "DeviceLost",
    "Error",
    "Explanation",
    "InvalidArgument",
    "OpStatus",
    "PluginStatus",
    "Policy",
    "Tensor",
    "counters",
    "counters_json",
    "counters_prometheus",
    "current_policy",
    "explain",
    "load_plugin",
    "num_threads",
    "ops",
    "plugins",
    "policy",
    "registry_json",
    "reload_config",
    "reload_environment",
    "reset_breakers",
    "set_num_threads",
    "set_policy",
    "why_no_cuda_device",
]

if "torch" in sys.modules:  # a torch that is imported later is met at the first call
    from fla_cpp import torch_ops
