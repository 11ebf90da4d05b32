"""README.md: its example builds and runs, and its tables are what `fla docs` prints."""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["FLA_SOURCE_DIR"])
BUILD = Path(os.environ["FLA_BUILD_DIR"])
README = (SOURCE / "README.md").read_text()
CACHE = (BUILD / "CMakeCache.txt").read_text()
# What backends are built on, where this build may lack it.
LEFT_OUT = [package for package, switch in (("CUDA", "FLA_HAS_CUDA"), ("TileLang", "FLA_HAS_CUDA"),
                                            ("CUTLASS", "FLA_HAS_FLASH_KDA"))
            if f"{switch}:INTERNAL=ON" not in CACHE]


class Readme(unittest.TestCase):
    maxDiff = None

    def run_command(self, *command):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
        return done.stdout

    def compare_table(self, section):
        table = re.search(rf"<!-- fla docs: {section} -->\n(.*?)<!-- end -->", README, re.S)
        self.assertIsNotNone(table, f"README.md has no table between '<!-- fla docs: {section} -->' and '<!-- end -->'")
        printed = self.run_command(BUILD / "bin/fla", "docs", "--section", section)
        rows = table.group(1).strip()
        # The tables are those of a build with everything.
        rows = "\n".join(row for row in rows.splitlines() if not self.is_left_out(row))
        message = f"README.md differs from `build/bin/fla docs --section {section}`; scripts/update_readme puts it right"
        self.assertEqual(rows, printed.strip(), message)

    def is_left_out(self, row):
        if not LEFT_OUT:
            return False
        backends = set(re.findall(rf"^\| `\w+` \| `(\w+)` .*\| (?:{'|'.join(LEFT_OUT)}) \|", README, re.M))
        return bool(set(re.findall(r"^\| `\w+` \| `(\w+)` ", row)) & backends) or any(
            f"`FLA_{backend.upper()}" in row for backend in backends)

    def test_the_first_example_builds_and_runs(self):
        example = re.search(r"^```cpp\n(.*?)^```", README, re.S | re.M)
        self.assertIsNotNone(example, "README.md has no block that starts with ```cpp")
        with tempfile.TemporaryDirectory() as folder:
            source, program = Path(folder) / "example.cpp", Path(folder) / "example"
            source.write_text(example.group(1))
            self.run_command(os.environ.get("CXX", "c++"), "-std=c++20", "-Wall", "-Wextra", source, "-o", program,
                             f"-I{SOURCE}", f"-L{BUILD}/lib", "-lfla", f"-Wl,-rpath,{BUILD}/lib")
            self.run_command(program)

    def test_the_table_of_backends_is_what_the_command_prints(self):
        self.compare_table("backends")

    def test_the_table_of_variables_is_what_the_command_prints(self):
        self.compare_table("variables")


if __name__ == "__main__":
    unittest.main()
