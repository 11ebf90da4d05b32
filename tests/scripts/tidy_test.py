"""scripts/tidy, with a clang-tidy that only says what it was asked."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("FLA_SOURCE_DIR", Path(__file__).parents[2]))
SCRIPT = SOURCE / "scripts/tidy"

TREE = {
    "CMakeLists.txt": """
        cmake_minimum_required(VERSION 3.25)
        project(small LANGUAGES CXX)
        set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
        add_library(small STATIC a.cpp b.cpp large.cpp)
        target_precompile_headers(small PRIVATE <cstddef>)""",
    ".gitignore": "build/",
    "a.h": "int a();\n",
    "a.cpp": '#include "a.h"\n#include "both.h"\nint a() { return 1; }\nint more() { return 2; }\n',
    "b.cpp": '#include "both.h"\n#include "inner.h"\nint b() { return 1; }\n',
    "large.cpp": '#include "a.h"\n#include "both.h"\n#include "inner.h"\nint large() { return 1; }\n',
    "both.h": "\n",
    "inner.h": "\n",
    "kernel.cu": "\n",
    "notes.md": "\n",
}

CLANG_TIDY = """#!/bin/sh
for word; do :; done
echo "$*" >>"$TIDY_LOG"
[ "$word" != "$TIDY_FINDS" ]
"""


class Tidy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve() / "tree"
        self.log = self.root.parent / "log"
        self.bin = self.root.parent / "bin"
        for folder in (self.root, self.bin):
            folder.mkdir()
        for path, text in TREE.items():
            (self.root / path).write_text(text)
        (self.bin / "clang-tidy").write_text(CLANG_TIDY)
        (self.bin / "clang-tidy").chmod(0o755)
        self.run_command("cmake", "-S", ".", "-B", "build", "-G", "Ninja")
        self.run_command("cmake", "--build", "build")
        self.run_command("git", "init", "-q")
        self.run_command("git", "add", ".")
        self.run_command("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "first")

    def run_command(self, *command):
        subprocess.run(command, check=True, capture_output=True, cwd=self.root)

    def tidy(self, *options, path=None, finds=""):
        environment = os.environ | {"PATH": path or f"{self.bin}:{os.environ['PATH']}", "TIDY_LOG": self.log, "TIDY_FINDS": finds}
        command = [sys.executable, SCRIPT, "--build", self.root / "build", *options]
        return subprocess.run(command, capture_output=True, text=True, cwd=self.root, env=environment)

    def asked(self):
        """The sources that clang-tidy was given, and the lines of files that it was to speak of."""
        calls = self.log.read_text().splitlines() if self.log.is_file() else []
        filters = {re.search(r"--line-filter=(.*\]) ", call)[1] for call in calls}
        self.assertLessEqual(len(filters), 1)
        shown = {entry["name"]: entry.get("lines") for text in filters for entry in json.loads(text)}
        return {call.split(" ")[-1] for call in calls}, shown

    def test_changed_lines_are_looked_at_in_the_sources_that_changed_or_include_what_did(self):
        # a.cpp reads both.h, so nobody else has to; inner.h is read by b.cpp, which reads less than large.cpp.
        (self.root / "a.cpp").write_text(TREE["a.cpp"].replace("return 2", "return 3"))
        for name in ("both.h", "inner.h", "kernel.cu", "notes.md"):
            (self.root / name).write_text("\n#define NEW\n")
        done = self.tidy("--changed", "HEAD")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        sources, shown = self.asked()
        self.assertEqual(sources, {"a.cpp", "b.cpp"})
        self.assertEqual(shown, {"/a.cpp": [[4, 4]], "/both.h": [[2, 2]], "/inner.h": [[2, 2]]})
        self.assertIn("NOT LOOKED AT (kernels, or not compiled in this build): kernel.cu\n", done.stdout)
        self.assertIn("2 sources", done.stdout)
        commands = json.loads((self.root / "build/tidy/compile_commands.json").read_text())
        self.assertEqual([entry for entry in commands if "cmake_pch" in entry["command"]], [])
        # A header goes with the source of its name.
        self.assertEqual(self.tidy("a.h", finds="a.cpp").returncode, 1)
        self.assertEqual(self.log.read_text().splitlines()[-1].split(" ")[-1], "a.cpp")

    def test_what_there_is_no_time_for_is_named(self):
        (self.root / "a.cpp").write_text(TREE["a.cpp"] + "int last;\n")
        done = self.tidy("--changed", "HEAD", "--seconds", "0")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(self.asked(), (set(), {}))
        self.assertIn("NOT LOOKED AT (no time within 0 s): a.cpp\n", done.stdout)
        self.assertIn("1 left out for want of time", done.stdout)

    def test_without_clang_tidy_it_says_that_it_was_left_out(self):
        (self.bin / "clang-tidy").unlink()
        for tool in ("bash", "cat", "dirname", "env", "python3", "sed", "sort"):
            (self.bin / tool).symlink_to(shutil.which(tool))
        done = self.tidy("--changed", "HEAD", path=str(self.bin))
        self.assertEqual(done.returncode, 77)
        self.assertIn("LEFT OUT: there is no clang-tidy", done.stdout)


if __name__ == "__main__":
    unittest.main()
