"""README.md and tools/docs/pages: their examples build and run, and what is generated in them is what its sources say."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from urllib.parse import urlsplit

SOURCE = Path(os.environ["FLA_SOURCE_DIR"])
BUILD = Path(os.environ["FLA_BUILD_DIR"])
PAGES = Path("tools/docs/pages")
README = (SOURCE / "README.md").read_text()
UPDATE = SOURCE / "scripts/update_documents"
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`|^ {4}[^\n]*$", re.M | re.S)
QUOTED = re.compile(r"<!-- generated: file .*?<!-- end -->", re.S)

# `fla docs` of a build without CUDA, made of that of any build.
DOCS_WITHOUT_CUDA = """#!/usr/bin/env python3
import re, subprocess, sys
text = subprocess.run([{fla!r}, *sys.argv[1:]], check=True, capture_output=True, text=True).stdout
left_out = re.compile("cuda_(backward|decode)|flash_\\\\w+|tilelang|FLA_CUDA_(BACKWARD|DECODE)|FLA_FLASH_\\\\w+|FLA_TILELANG")
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

    def test_the_readmes_example_builds_and_runs(self):
        example = re.search(r"^```cpp\n(.*?)^```", README, re.S | re.M)
        self.assertIsNotNone(example, "there is no block that starts with ```cpp")
        with tempfile.TemporaryDirectory() as folder:
            source, program = Path(folder) / "example.cpp", Path(folder) / "example"
            source.write_text(example.group(1))
            self.run_command(os.environ.get("CXX", "c++"), "-std=c++20", "-Wall", "-Wextra", source, "-o", program,
                             f"-I{SOURCE}", f"-L{BUILD}/lib", "-lfla", f"-Wl,-rpath,{BUILD}/lib")
            self.assertIn("state f32[1, 4, 64, 64] on cpu", self.run_command(program))

    def test_what_readme_and_tutorials_show_is_built_and_run(self):
        """Programs are files that tests build and run; Python is that, or blocks of the page, which Python.examples runs."""
        run = (SOURCE / "tests/python/test_examples.py").read_text()
        for path in (Path("README.md"), *sorted(path.relative_to(SOURCE) for path in (SOURCE / PAGES / "tutorials").glob("*.md"))):
            loose = QUOTED.sub("", (SOURCE / path).read_text())
            self.assertNotRegex(loose, r"(?m)^```(c|cpp|rust)$", path)
            blocks = loose.count("```python")
            self.assertTrue(blocks == 0 or f'("{path}", {blocks})' in run, path)

    def test_the_readme_is_short(self):
        self.assertLessEqual(len(README.splitlines()), 150)

    def test_no_link_is_dead_where_markdown_is_read_as_it_is(self):
        files = [SOURCE / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "tools/examples/README.md")]
        wrong = []
        for path in (*files, *(SOURCE / "tools/docs/pages").rglob("*.md")):
            targets = re.findall(r"\]\(([^)#\s]+)", CODE.sub("", path.read_text()))
            wrong += [f"{path.name}: {target}" for target in targets if not urlsplit(target).scheme and not (path.parent / target).exists()]
        self.assertEqual(wrong, [])

    def test_generated_parts_are_what_their_sources_say(self):
        self.run_command(UPDATE, "--check", "--build", BUILD)

    def test_a_number_that_differs_from_the_results_is_found(self):
        self.expect_drift("README.md", "<!--=training-->1.", "<!--=training-->0.")

    def test_an_example_that_differs_from_its_file_is_found(self):
        self.expect_drift("README.md", "T = 100;", "T = 99;")

    def test_a_part_that_differs_from_its_file_is_found(self):
        self.expect_drift(PAGES / "tutorials/decode-loop.md", "cudaGraphLaunch(", "cudaGraphLunch(")

    def test_a_part_that_its_file_does_not_define_is_refused(self):
        self.expect_drift(PAGES / "tutorials/decode-loop.md", "plan_and_graph.cpp: replayed", "plan_and_graph.cpp: replaid",
                          "tools/examples/plan_and_graph.cpp defines no replaid")

    def test_a_reference_that_differs_from_its_header_is_found(self):
        self.expect_drift(PAGES / "reference/c.md", "FLA_OUT_OF_MEMORY = 5", "FLA_OUT_OF_MEMORY = 7")
        self.expect_drift(PAGES / "reference/cpp.md", "kMaxRank = 5", "kMaxRank = 7")

    def test_a_plot_that_differs_from_the_results_is_found(self):
        self.expect_drift(PAGES / "images/peers.svg", "1.398 ms", "0.433 ms")

    def test_a_cell_that_differs_from_the_results_is_found(self):
        self.expect_drift(PAGES / "performance.md", "| 1.096 |", "| 2.096 |")

    def test_a_measured_number_without_a_result_is_refused(self):
        for words in ("With random gates", "Licence: MIT"):  # before and behind code
            self.expect_drift("README.md", words, f"A call takes 0.3 ms. {words}", "0.3 ms: no result is named for it")

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
