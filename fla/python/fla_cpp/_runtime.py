"""The C++ runtime that scripts/wheel puts into a wheel, for systems that have none.

It is on no search path. Where the system has a C++ runtime, the loader takes that one: it may be newer, and other packages
in the process may need it."""

import os
from pathlib import Path

_FOLDER = Path(__file__).parent / "runtime"
_LIBRARIES = ("libgcc_s.so.1", "libstdc++.so.6")  # the second needs the first
_is_loaded = False


def load(error):
    """Loads the wheel's C++ runtime and returns True, if the wheel has one and `error`, of an import, says that it is missing.
    The loader finds libraries by name, so whatever needs the runtime later gets this one."""
    global _is_loaded
    if not _FOLDER.is_dir() or not any(name in str(error) for name in _LIBRARIES):
        return False
    import ctypes

    for name in _LIBRARIES:
        ctypes.CDLL(str(_FOLDER / name))
    _is_loaded = True
    return True


def environment():
    """The environment for a child process that needs the C++ runtime, too."""
    variables = dict(os.environ)
    if _is_loaded:
        variables["LD_LIBRARY_PATH"] = ":".join(filter(None, [variables.get("LD_LIBRARY_PATH"), str(_FOLDER)]))
    return variables
