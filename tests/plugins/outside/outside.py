"""What the tests of projects outside the tree share: running programs, and a folder that plugins may be loaded from."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["FLA_SOURCE_DIR"])
BUILD = Path(os.environ["FLA_BUILD_DIR"])
CXX = os.environ.get("CXX", "c++")
NEW_BACKEND = SOURCE / "scripts/new_backend"


def run(*command, **options):
    # The programs see no setting of ours, and no other libfla.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLA_")}
    environment |= options.pop("variables", {})
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment, **options)


def output_of(*command, **options):
    done = run(*command, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def prefixes(*more):
    """Where this build found its dependencies, for CMAKE_PREFIX_PATH."""
    known = re.findall(r"^CMAKE_PREFIX_PATH:\w+=(.+)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    return ";".join([*map(str, more), *known])


def configure(source, build, *options, prefix=()):
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    output_of("cmake", "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={CXX}",
              f"-DCMAKE_PREFIX_PATH={prefixes(*prefix)}", *launcher, *options)


class OutsideTest(unittest.TestCase):
    def setUp(self):
        self.addCleanup(os.umask, os.umask(0o022))  # others may not write to what is loaded
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
