"""The functions under flash-linear-attention's paths: `from fla_cpp.ops.gated_delta_rule import chunk_gated_delta_rule`,
so that a program moves over with one sed. `fla_cpp.ops()` is a call still: what ops and backends there are."""

import sys
import types

import fla_cpp
from fla_cpp import _fla_cpp

_PATHS = {"dplr_delta_rule": "generalized_delta_rule"}  # where that library keeps an op under another name


class _Ops(types.ModuleType):
    """A package that is called as well: it has the name of a function."""

    def __call__(self):
        return _fla_cpp.ops()


def _fill():
    package = sys.modules[__name__]
    package.__class__ = _Ops
    for name, function in fla_cpp._functions.items():
        op = name.removeprefix("chunk_").removeprefix("fused_recurrent_")
        if name != op:  # a front door would hide its op's module
            setattr(package, name, getattr(fla_cpp, name))
        for path in {op, _PATHS.get(op, op)}:
            module = f"{__name__}.{path}"
            if module not in sys.modules:
                sys.modules[module] = types.ModuleType(module, f"{op} of fla_cpp.")
                setattr(package, path, sys.modules[module])
            setattr(sys.modules[module], name, getattr(fla_cpp, name))


_fill()
