"""The functions under flash-linear-attention's paths: `from fla_cpp.ops.gated_delta_rule import chunk_gated_delta_rule`,
so that a program moves over with one sed. `fla_cpp.ops()` is a call still: what ops and backends there are."""

import sys
import types

import fla_cpp
from fla_cpp import _compatibility, _display, _fla_cpp


class _Ops(types.ModuleType):
    """A package that is called as well: it has the name of a function."""

    def __call__(self):
        return _display.Ops(_fla_cpp.ops())


def _fill():
    package = sys.modules[__name__]
    package.__class__ = _Ops
    for name in fla_cpp._functions:
        paths = _compatibility.paths_of(name)
        if name not in paths:  # a front door would hide its op's module
            setattr(package, name, getattr(fla_cpp, name))
        for path in paths:
            module = f"{__name__}.{path}"
            if module not in sys.modules:
                sys.modules[module] = types.ModuleType(module, f"{paths[0]} of fla_cpp.")
                setattr(package, path, sys.modules[module])
            setattr(sys.modules[module], name, getattr(fla_cpp, name))


_fill()
