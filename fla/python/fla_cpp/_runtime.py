"""The C++ runtime in a wheel of scripts/wheel, for systems that have none, or one that is too old.

It lies on no search path: where the system has its own, that one is loaded, which may be newer, and which libraries of
other packages in the process may need."""

import os
from pathlib import Path

_FOLDER = Path(__file__).parent / "runtime"
_LIBRARIES = ("libgcc_s.so.1", "libstdc++.so.6")  # the second needs the first
_is_loaded = False


def load(error):
    """Loads it, and returns True, where the wheel has it and its absence is what `error` of an import says. The loader
    knows libraries by name: what needs one of these has the one loaded here from now on."""
    global _is_loaded
    if not _FOLDER.is_dir() or not any(name in str(error) for name in _LIBRARIES):
        return False
    import ctypes

    for name in _LIBRARIES:
        ctypes.CDLL(str(_FOLDER / name))
    _is_loaded = True
    return True


def environment():
    """That of a program that needs it, too."""
    variables = dict(os.environ)
    if _is_loaded:
        variables["LD_LIBRARY_PATH"] = ":".join(filter(None, [variables.get("LD_LIBRARY_PATH"), str(_FOLDER)]))
    return variables
