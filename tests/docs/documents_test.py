"""README.md and tools/docs/pages: their examples build and run, and what is generated in them is what its sources say."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["FLA_SOURCE_DIR"])
BUILD = Path(os.environ["FLA_BUILD_DIR"])
PAGES = Path("tools/docs/pages")
README = (SOURCE / "README.md").read_text()
UPDATE = SOURCE / "scripts/update_documents"

# `fla docs` of a build without CUDA, made of that of any build.
DOCS_WITHOUT_CUDA = """#!/usr/bin/env python3
import re, subprocess, sys
text = subprocess.run([{fla!r}, *sys.argv[1:]], check=True, capture_output=True, text=True).stdout
left_out = re.compile("cuda_(backward|decode)|flash_(gdn|kda)|tilelang|FLA_CUDA_(BACKWARD|DECODE)|FLA_FLASH_(GDN|KDA)|FLA_TILELANG")
rows = [row for row in text.splitlines() if not left_out.search(" ".join(row.split(" | ")[:2]))]
print("\\n".join(rows).replace("| CPU threads |", "| threads of the CPU |"))
"""


class Documents(unittest.TestCase):
    maxDiff = None

    def run_command(self, *command):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
        return done.stdout

    def copy_of_the_documents(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        tree = Path(folder.name)
        (tree / "README.md").write_text(README)
        shutil.copytree(SOURCE / PAGES, tree / PAGES)
        return tree

    def expect_drift(self, file, old, new, *words):
        """--check names the file, and the words, once `old` says `new`."""
        tree = self.copy_of_the_documents()
        text = (tree / file).read_text()
        self.assertIn(old, text)
        (tree / file).write_text(text.replace(old, new, 1))
        done = subprocess.run([UPDATE, "--check", "--build", BUILD, "--tree", tree], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        for word in (file, *words):
            self.assertIn(str(word), done.stderr)

    def build_and_run(self, text):
        example = re.search(r"^```cpp\n(.*?)^```", text, re.S | re.M)
        self.assertIsNotNone(example, "there is no block that starts with ```cpp")
        with tempfile.TemporaryDirectory() as folder:
            source, program = Path(folder) / "example.cpp", Path(folder) / "example"
            source.write_text(example.group(1))
            self.run_command(os.environ.get("CXX", "c++"), "-std=c++20", "-Wall", "-Wextra", source, "-o", program,
                             f"-I{SOURCE}", f"-L{BUILD}/lib", "-lfla", f"-Wl,-rpath,{BUILD}/lib")
            return self.run_command(program)

    def test_the_readmes_example_builds_and_runs(self):
        self.assertIn("state f32[1, 4, 64, 64] on cpu", self.build_and_run(README))

    def test_the_decode_loop_builds_and_runs(self):
        said = self.build_and_run((SOURCE / PAGES / "tutorials/decode-loop.md").read_text())
        self.assertRegex(said, r"took the steps; o of the first request 0\.\d")

    def test_the_readme_is_short(self):
        self.assertLessEqual(len(README.splitlines()), 150)

    def test_generated_parts_are_what_their_sources_say(self):
        self.run_command(UPDATE, "--check", "--build", BUILD)

    def test_a_number_that_differs_from_the_results_is_found(self):
        self.expect_drift("README.md", "<!--=training-->1.", "<!--=training-->0.")

    def test_a_plot_that_differs_from_the_results_is_found(self):
        self.expect_drift(PAGES / "images/peers.svg", "0.533 ms", "0.433 ms")

    def test_a_cell_that_differs_from_the_results_is_found(self):
        self.expect_drift(PAGES / "performance.md", "| 1.096 |", "| 2.096 |")

    def test_a_measured_number_without_a_result_is_refused(self):
        self.expect_drift("README.md", "With random gates", "A call takes 0.3 ms. With random gates", "0.3 ms: no result is named for it")

    def test_a_number_that_no_result_has_is_refused(self):
        self.expect_drift(PAGES / "performance.md", "<!--=slow_more-->", "<!--=slow_moor-->", "there is no number called 'slow_moor'")

    def test_tables_are_updated_in_a_build_without_cuda(self):
        tree = self.copy_of_the_documents()
        page = PAGES / "reference/variables.md"
        fla = tree / "build/bin/fla"
        fla.parent.mkdir(parents=True)
        fla.write_text(DOCS_WITHOUT_CUDA.format(fla=str(BUILD / "bin/fla")))
        fla.chmod(0o755)
        update = [UPDATE, "--build", tree / "build", "--tree", tree]
        self.assertNotIn("flash_kda", self.run_command(fla, "docs", "--section", "backends"))
        before = (tree / page).read_text()
        done = subprocess.run([*update, "--check"], capture_output=True, text=True)
        self.assertEqual((done.returncode, (tree / page).read_text()), (1, before), done.stderr)
        self.assertEqual(self.run_command(*update), f"{page}\n")
        self.assertEqual((tree / page).read_text(), before.replace("| CPU threads |", "| threads of the CPU |"))
        self.run_command(*update, "--check")


if __name__ == "__main__":
    unittest.main()
