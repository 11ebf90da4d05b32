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
    for function in _fla_cpp.functions():
        made = getattr(fla_cpp, function["name"])
        if function["name"] != function["op"]:  # a front door would hide its op's module
            setattr(package, function["name"], made)
        for path in {function["op"], _PATHS.get(function["op"], function["op"])}:
            name = f"{__name__}.{path}"
            if name not in sys.modules:
                sys.modules[name] = types.ModuleType(name, f"{function['op']} of fla_cpp.")
                setattr(package, path, sys.modules[name])
            setattr(sys.modules[name], function["name"], made)


_fill()
