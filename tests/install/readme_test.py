"""README.md: its first example is one that is built and run, and its tables are what `fla docs` prints."""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["FLA_SOURCE_DIR"])
BUILD = Path(os.environ["FLA_BUILD_DIR"])
README = (SOURCE / "README.md").read_text()
UPDATE = SOURCE / "scripts/update_readme"

# `fla docs` of a build without CUDA, made of that of any build.
DOCS_WITHOUT_CUDA = """#!/usr/bin/env python3
import re, subprocess, sys
text = subprocess.run([{fla!r}, *sys.argv[1:]], check=True, capture_output=True, text=True).stdout
left_out = re.compile("cuda_(backward|decode)|flash_(gdn|kda)|tilelang|FLA_CUDA_(BACKWARD|DECODE)|FLA_FLASH_(GDN|KDA)|FLA_TILELANG")
rows = [row for row in text.splitlines() if not left_out.search(" ".join(row.split(" | ")[:2]))]
print("\\n".join(rows).replace("CPU threads", "threads of the CPU"))
"""


class Readme(unittest.TestCase):
    maxDiff = None

    def run_command(self, *command):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
        return done.stdout

    def test_the_first_example_is_that_of_tools_examples(self):
        example = re.search(r"^```cpp\n(.*?)^```", README, re.S | re.M)
        self.assertIsNotNone(example, "README.md has no block that starts with ```cpp")
        # Lines may be broken elsewhere.
        self.assertEqual(example.group(1).split(), (SOURCE / "tools/examples/first_call.cpp").read_text().split())

    def test_the_tables_are_what_the_command_prints(self):
        for section in ("backends", "variables"):
            self.assertRegex(README, rf"<!-- fla docs: {section} -->\n\|")
        self.run_command(UPDATE, "--check", "--build", BUILD)

    def test_the_tables_are_updated_in_a_build_without_cuda(self):
        with tempfile.TemporaryDirectory() as folder:
            fla, readme = Path(folder) / "bin/fla", Path(folder) / "README.md"
            fla.parent.mkdir()
            fla.write_text(DOCS_WITHOUT_CUDA.format(fla=str(BUILD / "bin/fla")))
            fla.chmod(0o755)
            self.assertNotIn("flash_kda", self.run_command(fla, "docs", "--section", "backends"))
            readme.write_text(README)
            done = subprocess.run([UPDATE, "--check", "--build", folder, "--readme", readme], capture_output=True, text=True)
            self.assertEqual((done.returncode, readme.read_text()), (1, README), done.stderr)
            self.run_command(UPDATE, "--build", folder, "--readme", readme)
            self.assertEqual(readme.read_text(), README.replace("| CPU threads |", "| threads of the CPU |"))
            self.run_command(UPDATE, "--check", "--build", folder, "--readme", readme)


if __name__ == "__main__":
    unittest.main()
