"""What FLA_NCCL asks for, and where NCCL is found."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

MODULES = Path(os.environ["FLA_SOURCE_DIR"]) / "tools/cmake"
SAYS = 'message(STATUS "has: ${FLA_HAS_NCCL}, version: ${NCCL_VERSION}, left out: ${FLA_LEFT_OUT}")\n'


def output_of(*command, **environment):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=os.environ | environment)
    return done.returncode, " ".join((done.stdout + done.stderr).split())  # CMake breaks the lines of errors


class NcclOption(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def asked(self, option, has_cuda="ON", *more):
        script = self.folder / "asked.cmake"
        script.write_text(f'list(APPEND CMAKE_MODULE_PATH "{MODULES}")\ninclude(FlaNccl)\n{SAYS}')
        return output_of("cmake", f"-DFLA_NCCL={option}", f"-DFLA_HAS_CUDA={has_cuda}", *more, "-P", script)

    def test_off_leaves_it_out(self):
        self.assertEqual(self.asked("OFF"), (0, "-- has: OFF, version: , left out: fla::distributed over NCCL: FLA_NCCL=OFF"))

    def test_other_words_are_refused(self):
        code, text = self.asked("sideways")
        self.assertEqual(code, 1)
        self.assertIn("FLA_NCCL: expected AUTO, ON or OFF, got SIDEWAYS", text)

    def test_without_cuda_there_is_none(self):
        self.assertIn("left out: fla::distributed over NCCL: the build has no CUDA kernels", self.asked("AUTO", "OFF")[1])
        code, text = self.asked("ON", "OFF")
        self.assertEqual(code, 1)
        self.assertIn("FLA_NCCL=ON: the build has no CUDA kernels", text)

    def test_a_missing_library_is_said(self):
        missing = "no NCCL 2.18 in NCCL_DIR, .deps/nccl, the CUDA toolkit, CMAKE_PREFIX_PATH or python3's packages"
        code, text = self.asked("AUTO", "ON", "-DCMAKE_DISABLE_FIND_PACKAGE_NCCL=ON")
        self.assertEqual((code, text), (0, f"-- has: OFF, version: , left out: fla::distributed over NCCL: {missing}"))
        code, text = self.asked("ON", "ON", "-DCMAKE_DISABLE_FIND_PACKAGE_NCCL=ON")
        self.assertEqual(code, 1)
        self.assertIn(f"FLA_NCCL=ON: {missing}", text)

    def found_in(self, inside, version):
        """The answer of a project, with NCCL_DIR a folder that has that version as pip or a prefix has it."""
        prefix = self.folder / "prefix" / inside
        (prefix / "include").mkdir(parents=True)
        (prefix / "lib").mkdir()
        major, minor, patch = version.split(".")
        (prefix / "include/nccl.h").write_text(
            f"#define NCCL_MAJOR {major}\n#define NCCL_MINOR {minor}\n#define NCCL_PATCH {patch}\n")
        (prefix / "lib/libnccl.so.2").touch()
        (self.folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(probe CXX)\nset(FLA_NCCL AUTO)\nset(FLA_HAS_CUDA ON)\n"
            f'list(APPEND CMAKE_MODULE_PATH "{MODULES}")\ninclude(FlaNccl)\n{SAYS}'
            'message(STATUS "library: ${NCCL_LIBRARY}")\n')
        code, text = output_of("cmake", "-S", self.folder, "-B", self.folder / "build", "-G", "Ninja",
                               NCCL_DIR=str(self.folder / "prefix"))
        self.assertEqual(code, 0, text)
        return text

    def test_a_folder_can_be_named(self):
        text = self.found_in("nvidia/nccl", "2.99.1")
        self.assertIn("has: ON, version: 2.99.1, left out: --", text)
        self.assertIn(f"library: {self.folder}/prefix/nvidia/nccl/lib/libnccl.so.2", text)

    def test_what_is_too_old_is_left_out(self):
        self.assertIn("has: OFF, version: 2.10.3, left out: fla::distributed over NCCL: no NCCL 2.18", self.found_in(".", "2.10.3"))


if __name__ == "__main__":
    unittest.main()
