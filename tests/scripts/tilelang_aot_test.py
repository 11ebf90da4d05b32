"""tools/tilelang_aot without TileLang: hashes of the kernels' sources and of what was made of them."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("FLA_SOURCE_DIR", Path(__file__).parents[2]))
TOOL = Path("tools/tilelang_aot")
FOLDER = Path("backends/tilelang")
GENERATED = FOLDER / "generated"
MOST_SHARED_BYTES = 227 * 1024  # that a block may have on sm_90


def run(root, *options, python=()):
    return subprocess.run([sys.executable, *python, str(root / TOOL), *options], capture_output=True, text=True)


@unittest.skipIf(sys.version_info < (3, 11), "tools/tilelang_aot needs Python 3.11")
class TileLangAot(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for part in (TOOL.parent, FOLDER.parent):
            (self.root / part).mkdir()
        shutil.copy(SOURCE / TOOL, self.root / TOOL)
        shutil.copytree(SOURCE / FOLDER, self.root / FOLDER)

    def test_names_scripts_that_are_there(self):
        named = set(re.findall(r"\bscripts/\w+", (SOURCE / TOOL).read_text()))
        self.assertIn("scripts/requirements", named)
        for script in sorted(named):
            self.assertTrue((SOURCE / script).is_file(), script)

    def expect_out_of_date(self, count, *lines):
        done = run(self.root, "--hashes")
        self.assertEqual(done.returncode, 1, done.stderr)
        for line in lines:
            self.assertIn(f"{GENERATED}/{line}; run tools/tilelang_aot\n", done.stdout)
        self.assertTrue(done.stdout.endswith(f"24 instances, {count} out of date\n"), done.stdout)

    def test_what_is_committed_was_made_of_what_is_committed(self):
        done = run(SOURCE, "--hashes")
        self.assertEqual((done.returncode, done.stdout), (0, "24 instances, 0 out of date\n"), done.stderr)

    def test_a_changed_kernel_is_found_in_its_instances(self):
        source = self.root / FOLDER / "kernels/kda_state.py"
        source.write_text(source.read_text() + "\n")
        self.expect_out_of_date(
            12, "kda_state_k64_bf16.cu: made of another kda_state.py, instances.toml or tilelang")

    def test_what_kernels_share_counts_for_all(self):
        source = self.root / FOLDER / "kernels/sequences.py"
        source.write_text(source.read_text() + "\n")
        self.expect_out_of_date(24)

    def test_another_version_of_tilelang_is_found(self):
        table = self.root / FOLDER / "instances.toml"
        table.write_text(table.read_text().replace('tilelang = "', 'tilelang = "9.'))
        self.expect_out_of_date(24)

    def test_an_edited_file_is_found(self):
        file = self.root / GENERATED / "kda_prepare_k128_f16.cu"
        file.write_text(file.read_text().replace("__syncthreads();", "", 1))
        self.expect_out_of_date(1, "kda_prepare_k128_f16.cu: was edited")

    def test_missing_and_superfluous_files_are_found(self):
        (self.root / GENERATED / "kda_state_k64_f16.cu").rename(self.root / GENERATED / "kda_state_k32_f16.cu")
        self.expect_out_of_date(2, "kda_state_k64_f16.cu: not made yet", "kda_state_k32_f16.cu: made of no instance")

    def test_without_tilelang_it_says_what_it_needs_and_changes_nothing(self):
        for options in ([], ["--check"]):
            done = run(self.root, *options, python=["-S", "-E"])
            self.assertEqual(done.returncode, 3)
            self.assertRegex(done.stderr, r"^tools/tilelang_aot: needs tilelang [0-9.]+ of PyPI, got none\n$")
        self.assertEqual(run(self.root, "--hashes").returncode, 0)

    def test_two_modes_at_once_are_bad_usage(self):
        self.assertEqual(run(self.root, "--check", "--hashes").returncode, 2)

    def test_every_instance_fits_an_sm(self):
        header = (SOURCE / GENERATED / "instances.h").read_text()
        shared = [int(bytes) for bytes in re.findall(r"\.shared_bytes = (\d+),", header)]
        self.assertEqual(len(shared), 24)
        self.assertLessEqual(max(shared), MOST_SHARED_BYTES)

    def test_no_kernel_takes_descriptors_and_only_packed_ones_read_cu_seqlens(self):
        header = (SOURCE / GENERATED / "instances.h").read_text()
        self.assertIn("\n// TMA descriptors: none\n", header)
        rows = re.findall(r"\.varlen = (\w+),\n +\.signature = \"(.*)\"", header)
        self.assertEqual(len(rows), 24)
        for varlen, signature in rows:
            self.assertEqual("cu_seqlens" in signature.split(", "), varlen == "true", signature)

    def test_generated_code_includes_nothing_of_the_host_that_lowered_it(self):
        for file in (SOURCE / GENERATED).glob("*.cu"):
            for line in re.findall(r"^#include (.*)$", file.read_text(), re.M):
                self.assertRegex(line, r'^(<tl_templates/cuda/[\w/]+\.h>|"backends/tilelang/[\w/]+\.(h|cuh)")$')


if __name__ == "__main__":
    unittest.main()
