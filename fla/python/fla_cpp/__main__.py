"""python -m fla_cpp: where the parts of the package are, and the fla command that came with it."""

import argparse
import os
import sys
from pathlib import Path

_FOLDER = Path(__file__).parent  # of the installed package; a build folder's are links and have nothing beside them


def _installed(pattern):
    """The one path below the package that matches."""
    found = sorted(_FOLDER.glob(pattern))
    if not found:
        sys.exit(f"fla_cpp: {_FOLDER} has no {pattern}: expected a package that pip installed, got a build folder's")
    return found[0]


def cmake_dir():
    return _installed("lib*/**/cmake/fla/fla-config.cmake").parent


def include_dir():
    return _installed("include/fla/fla.h").parent.parent


def library():
    return _installed("lib*/**/libfla.so.*")


def fla():
    """The fla command."""
    from fla_cpp._runtime import environment

    command = _installed("bin/fla")
    os.execve(command, [str(command), *sys.argv[1:]], environment())


def main():
    parser = argparse.ArgumentParser(prog="python -m fla_cpp", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--cmake-dir", action="store_true", help="the folder for CMAKE_PREFIX_PATH or fla_DIR")
    what.add_argument("--include-dir", action="store_true", help="the folder of the C++ headers")
    what.add_argument("--library", action="store_true", help="libfla.so")
    what.add_argument("--version", action="store_true", help="the library's version")
    options = parser.parse_args()
    if options.cmake_dir:
        print(cmake_dir())
    elif options.include_dir:
        print(include_dir())
    elif options.library:
        print(library())
    else:
        from fla_cpp import __version__

        print(__version__)


if __name__ == "__main__":
    main()
