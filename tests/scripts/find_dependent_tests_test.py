"""scripts/find_dependent_tests.py, on a small made-up tree and on this one."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("FLA_SOURCE_DIR", Path(__file__).parents[2]))
BUILD = Path(os.environ.get("FLA_BUILD_DIR", SOURCE / "build"))
SCRIPT = SOURCE / "scripts/find_dependent_tests.py"

# Two ops, a backend for each, tests of the core, the ops and a tool.
MADE_UP_TREE = {
    "CMakeLists.txt": """
        cmake_minimum_required(VERSION 3.25)
        project(fla LANGUAGES CXX)
        include_directories(${PROJECT_SOURCE_DIR})
        enable_testing()
        foreach(folder fla backends python tools tests)
          add_subdirectory(${folder})
        endforeach()""",
    "fla/CMakeLists.txt": "add_library(fla SHARED core/tensor.cpp ops/wave/wave.cpp ops/tide/tide.cpp)\n"
        "set_target_properties(fla PROPERTIES VERSION 1.2.3)",
    "fla/core/tensor.h": "struct Tensor;",
    "fla/core/tensor.cpp": '#include "fla/core/tensor.h"\n#include "fla/core/private.h"',
    "fla/core/private.h": "",
    "fla/ops/common/gate.h": "",
    "fla/ops/wave/wave.h": '#include "fla/core/tensor.h"\nvoid chunk_wave(); void wave();',
    "fla/ops/wave/wave.cpp": '#include <fla/ops/wave/wave.h>\n#include "wave_kernel.h"\n#include "fla/ops/common/gate.h"',
    "fla/ops/wave/wave_kernel.h": "inline void kernel() {}",
    "fla/ops/wave/cuda/wave.cu": "",
    "fla/ops/tide/tide.h": "",
    "fla/ops/tide/tide.cpp": '#include "fla/ops/tide/tide.h"',
    "backends/CMakeLists.txt": """
        foreach(name fast moon)
          file(GLOB sources CONFIGURE_DEPENDS ${name}/*.cpp)
          add_library(backend_${name} OBJECT ${sources})
          set_target_properties(backend_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
          target_link_libraries(fla PRIVATE backend_${name})
        endforeach()""",
    "backends/fast/wave.cpp": '#include "backends/fast/kernels.h"\n#include "fla/ops/wave/wave.h"',
    "backends/fast/kernels.h": "void fast();",
    "backends/fast/kernels.cpp": '#include "kernels.h"\nvoid fast() {}',
    "backends/moon/tide.cpp": '#include "fla/ops/tide/tide.h"',
    "tools/CMakeLists.txt": """
        add_library(cases STATIC random.cpp)
        target_link_libraries(cases PUBLIC fla)
        add_executable(meter meter.cpp)""",
    "tools/random.h": '#include "fla/ops/wave/wave.h"\nint random_call();',
    "tools/random.cpp": '#include "tools/random.h"\nint random_call() { return 0; }',
    "tools/meter.cpp": "int main() {}",
    "tests/CMakeLists.txt": """
        function(fla_test PROGRAM TESTS)
          add_executable(${PROGRAM} ${ARGN} main.cpp)
          target_link_libraries(${PROGRAM} PRIVATE fla cases)
          foreach(test IN LISTS TESTS)
            add_test(NAME ${test} COMMAND ${PROGRAM} --gtest_filter=${test})
          endforeach()
        endfunction()
        fla_test(core_test "Tensor.HasAShape;Many/Tensor.CanBeSliced/2;Half.RoundsToEven" core/tensor_test.cpp core/half_test.cpp)
        fla_test(wave_test "Wave.Works" wave_test.cpp)
        fla_test(tide_test "Tide.Works" tide_test.cpp)
        set_target_properties(tide_test PROPERTIES UNITY_BUILD ON)
        fla_test(golden_test "Golden.Agrees" golden_test.cpp)
        fla_test(fuzz_test "Fuzz.NeverCrashes" fuzz_test.cpp)
        fla_test(command_test "Command.Works" command_test.cpp)
        add_dependencies(command_test meter)
        add_executable(not_compiled EXCLUDE_FROM_ALL not_compiled.cpp)
        add_test(NAME NotCompiled COMMAND not_compiled)
        add_test(NAME Unknown COMMAND true)
        add_subdirectory(tools)
        add_subdirectory(scripts)
        add_subdirectory(python)""",
    "tests/main.cpp": "int main() {}",
    "tests/test.h": "#define TEST(suite, test) void suite##test()",
    "tests/core/tensor_test.cpp": '#include "tests/test.h"\n#include "fla/core/tensor.h"\nTEST(Tensor, HasAShape) {}',
    "tests/core/half_test.cpp": '#include "tests/test.h"\nTEST(Half, RoundsToEven) {}  // unlike a wave',
    "tests/wave_test.cpp": '#include "tests/test.h"\n#include "fla/ops/wave/wave.h"\nTEST(Wave, Works) {}',
    "tests/tide_test.cpp": '#include "tests/test.h"\nTEST(Tide, Works) { (void)"tide"; }',
    "tests/golden_test.cpp": '#include "tests/test.h"\nTEST(Golden, Agrees) { (void)"FLA_GOLDEN_DIR"; }',
    "tests/golden/case.bin": "",
    "tests/fuzz_test.cpp": '#include "tests/test.h"\n#include "tools/random.h"\nTEST(Fuzz, NeverCrashes) {}',
    "tests/command_test.cpp": '#include "tests/test.h"\nTEST(Command, Works) {}',
    "tests/not_compiled.cpp": '#include "fla/core/private.h"\nint main() {}',
    "tests/tools/CMakeLists.txt": "add_test(NAME meter.runs COMMAND sh run.sh $<TARGET_FILE:meter>\n"
        "         WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})",
    "tests/tools/run.sh": "",
    "tests/scripts/CMakeLists.txt": """
        foreach(name build count)
          add_test(NAME Scripts.${name} COMMAND python3 -m unittest ${name}_test.All WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
        endforeach()""",
    "tests/scripts/build_test.py": "",
    "tests/scripts/count_test.py": 'SCRIPT = "tools/count"',
    "python/CMakeLists.txt": "add_library(module MODULE module.cpp)\ntarget_link_libraries(module PRIVATE fla)",
    "python/module.cpp": '#include "fla/ops/wave/wave.h"',
    "python/package/__init__.py": "",
    "tests/python/CMakeLists.txt": """
        add_test(NAME Python.wave COMMAND python3 -m pytest test_wave.py WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
        set_tests_properties(Python.wave PROPERTIES
          REQUIRED_FILES "$<TARGET_FILE:module>;${PROJECT_SOURCE_DIR}/python/package")
        add_test(NAME Install COMMAND ${CMAKE_COMMAND} --version)
        set_tests_properties(Install PROPERTIES REQUIRED_FILES $<TARGET_FILE:fla>)""",
    "tests/python/test_wave.py": "def test_wave():\n    assert chunk_wave()\n",
    "tests/python/conftest.py": "",
    "scripts/clean": "",
    "README.md": "",
    "LICENSE": "",
}

TENSOR = {"Tensor.HasAShape", "Many/Tensor.CanBeSliced/2"}
CORE = TENSOR | {"Half.RoundsToEven"}
USERS_OF_WAVE = {"Wave.Works", "Fuzz.NeverCrashes", "Python.wave"}
PROGRAMS = CORE | {"Wave.Works", "Fuzz.NeverCrashes", "Tide.Works", "Golden.Agrees", "Command.Works"}
USERS_OF_THE_LIBRARY = PROGRAMS | {"Python.wave", "Install"}
OF_NO_TARGET = {"Unknown"}


def dependent(build, *files, options=()):
    command = [sys.executable, SCRIPT, "--build", build, *options, *files]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return set(done.stdout.splitlines())


def listed(*options):
    """The names that ctest -N lists."""
    done = subprocess.run(["ctest", "--test-dir", BUILD, "-N", *options], check=True, capture_output=True, text=True)
    return set(re.findall(r"^ *Test +#\d+: (.*)$", done.stdout, re.M))


def make(root):
    for path, text in MADE_UP_TREE.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    for command in (["cmake", "-S", root, "-B", root / "build", "-G", "Ninja"], ["cmake", "--build", root / "build"]):
        subprocess.run(command, check=True, capture_output=True)
    (root / "build/tests/not_compiled").touch(mode=0o755)  # CTest wants to see the program


class MadeUpTree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Built once, by the first of these tests that runs."""
        digest = hashlib.sha256(repr(MADE_UP_TREE).encode()).hexdigest()
        folder = BUILD / "tests/scripts"
        folder.mkdir(parents=True, exist_ok=True)
        cls.root = folder / "made_up_tree"
        with open(folder / "made_up_tree.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            stamp = cls.root / "build/stamp"
            if not stamp.is_file() or stamp.read_text() != digest:
                shutil.rmtree(cls.root, ignore_errors=True)
                make(cls.root)
                stamp.write_text(digest)

    def expect(self, expected, *files):
        unknown = set() if expected in ({"all"}, {"none"}) else OF_NO_TARGET
        self.assertEqual(dependent(self.root / "build", *files), expected | unknown)

    def test_a_source_of_tests_leads_to_its_own_tests(self):
        self.expect(TENSOR, "tests/core/tensor_test.cpp")
        self.expect({"Half.RoundsToEven"}, "tests/core/half_test.cpp")

    def test_a_source_compiled_with_others_as_one_leads_to_its_own_tests(self):
        self.expect({"Tide.Works"}, "tests/tide_test.cpp")

    def test_a_source_beside_tests_leads_to_the_whole_program(self):
        self.expect(PROGRAMS, "tests/main.cpp")

    def test_a_public_header_leads_to_all_that_link_what_includes_it(self):
        self.expect(USERS_OF_THE_LIBRARY | {"NotCompiled"}, "fla/core/tensor.h")

    def test_a_library_source_leads_to_all_that_link_it(self):
        self.expect(USERS_OF_THE_LIBRARY, "fla/core/tensor.cpp")

    def test_a_header_may_be_read_by_what_was_not_compiled_yet(self):
        self.expect(USERS_OF_THE_LIBRARY | {"NotCompiled"}, "fla/core/private.h")

    def test_an_op_leads_to_the_tests_that_name_it(self):
        self.expect(USERS_OF_WAVE | {"Install"}, "fla/ops/wave/wave.cpp")
        self.expect(USERS_OF_WAVE | {"Install", "NotCompiled"}, "fla/ops/wave/wave_kernel.h")
        self.expect({"Tide.Works", "Install"}, "fla/ops/tide/tide.cpp")

    def test_what_ops_share_leads_to_the_tests_that_name_one_of_them(self):
        self.expect(USERS_OF_WAVE | {"Install", "NotCompiled"}, "fla/ops/common/gate.h")

    def test_a_source_that_this_build_leaves_out_leads_to_the_tests_of_its_op(self):
        self.expect(USERS_OF_WAVE, "fla/ops/wave/cuda/wave.cu")

    def test_a_backend_leads_to_the_tests_of_its_op(self):
        for file in ("wave.cpp", "kernels.cpp", "new_file.cpp", "kernel.cu", "settings.ini"):
            self.expect(USERS_OF_WAVE, f"backends/fast/{file}")
        self.expect(USERS_OF_WAVE | {"NotCompiled"}, "backends/fast/kernels.h")
        self.expect({"Tide.Works"}, "backends/moon/tide.cpp")

    def test_several_files_lead_to_the_tests_of_each(self):
        self.expect(USERS_OF_WAVE | {"Tide.Works"}, "backends/fast/wave.cpp", "tests/tide_test.cpp")

    def test_a_program_that_a_test_runs_leads_to_it(self):
        self.expect({"meter.runs", "Command.Works"}, "tools/meter.cpp")

    def test_python_tests_depend_on_their_module_and_its_package(self):
        for file in ("python/module.cpp", "python/package/__init__.py", "tests/python/test_wave.py", "tests/python/conftest.py"):
            self.expect({"Python.wave"}, file)

    def test_data_beside_a_target_lead_to_the_tests_that_link_or_run_it(self):
        self.expect(PROGRAMS | {"meter.runs"}, "tools/page.html")

    def test_a_file_beside_a_declared_test_leads_to_it(self):
        self.expect({"meter.runs"}, "tests/tools/run.sh")
        self.expect({"Scripts.build"}, "tests/scripts/build_test.py")
        self.expect({"Scripts.build", "Scripts.count"}, "tests/scripts/support.py")

    def test_a_script_leads_to_the_tests_in_the_mirrored_folder_or_that_name_it(self):
        self.expect({"Scripts.build", "Scripts.count"}, "scripts/clean")
        self.assertIn("Scripts.count", dependent(self.root / "build", "tools/count"))

    def test_data_lead_to_the_tests_that_name_their_folder(self):
        self.expect({"Golden.Agrees"}, "tests/golden/case.bin")

    def test_prose_leads_to_none(self):
        self.expect({"none"}, "README.md", "LICENSE", "CONTRIBUTING.md")
        self.expect(TENSOR, "README.md", "tests/core/tensor_test.cpp")
        self.expect({"none"})

    def test_build_files_lead_to_all(self):
        for file in ("CMakeLists.txt", "tests/CMakeLists.txt", "tools/cmake/Declare.cmake", "CMakePresets.json", "scripts/build"):
            self.expect({"all"}, "README.md", file)

    def test_a_file_that_nothing_is_known_of_leads_to_all(self):
        self.expect({"all"}, "mystery.dat")

    def test_absolute_paths_are_taken_too(self):
        self.expect({"Tide.Works"}, self.root / "tests/tide_test.cpp")

    def test_a_path_outside_the_tree_is_an_error(self):
        with self.assertRaises(subprocess.CalledProcessError) as raised:
            dependent(self.root / "build", "/etc/hostname")
        self.assertIn("expected files of", raised.exception.stderr)

    def test_a_folder_that_is_no_build_is_an_error(self):
        with self.assertRaises(subprocess.CalledProcessError) as raised:
            dependent(self.root / "tests", "README.md")
        self.assertIn("expected a build folder", raised.exception.stderr)

    def test_a_build_that_was_not_asked_about_its_targets_is_configured_again(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.25)\nproject(small LANGUAGES NONE)\nenable_testing()\n"
                "add_test(NAME First COMMAND true)\n"
            )
            subprocess.run(["cmake", "-S", root, "-B", root / "build", "-G", "Ninja"], check=True, capture_output=True)
            self.assertEqual(dependent(root / "build", "README.md"), {"none"})
            reply = root / "build/.cmake/api/v1/reply"
            self.assertTrue(list(reply.glob("codemodel-*")))
            # Older than what was configured since.
            for index in reply.glob("index-*"):
                os.utime(index, (0, 0))
            dependent(root / "build", "README.md")
            self.assertGreater(max(index.stat().st_mtime for index in reply.glob("index-*")), 0)


class ThisTree(unittest.TestCase):
    def dependent(self, *files):
        return dependent(BUILD, *files)

    def suites_in(self, path):
        return set(re.findall(r"^(?:TYPED_)?TEST(?:_F|_P)?\((\w+),", (SOURCE / path).read_text(), re.M))

    def test_the_backend_leads_to_the_tests_of_kda_and_not_to_those_of_the_core(self):
        found = self.dependent("backends/cpu_simd/ops.cpp")
        self.assertEqual(found, self.dependent("backends/cpu_simd/kernels.h"))
        self.assertTrue({name for name in found if "kda" in name.lower()})
        self.assertFalse({name for name in found if name.split(".")[0] in self.suites_in("tests/core/half_test.cpp")})

    def test_the_tensor_leads_to_nearly_everything(self):
        self.assertGreater(len(self.dependent("fla/core/tensor.h")), 0.9 * len(listed()))

    def test_a_test_leads_to_itself(self):
        suites = self.suites_in("tests/core/half_test.cpp")
        found = self.dependent("tests/core/half_test.cpp")
        self.assertEqual({name.split(".")[0].split("/")[-1] for name in found}, suites)

    def test_golden_cases_lead_to_tests_and_not_to_all(self):
        found = self.dependent("tests/golden/kda_decode_f32.safetensors")
        self.assertNotIn(found, ({"all"}, {"none"}))

    def test_this_script_leads_to_these_tests(self):
        self.assertIn("FindDependentTests.this_script_leads_to_these_tests", self.dependent("scripts/find_dependent_tests.py"))

    def test_prose_leads_to_what_requires_it_and_build_files_to_all(self):
        self.assertEqual(self.dependent("LICENSE"), {"none"})
        for file in ("README.md", "tools/docs/pages/performance.md", "tools/bench/results/peers.txt", "fla/core/tensor.h"):
            self.assertIn("Documents.generated_parts_are_what_their_sources_say", self.dependent(file), file)
        self.assertEqual(self.dependent("CMakeLists.txt"), {"all"})

    def test_numbers_are_those_of_ctest(self):
        numbers = dependent(BUILD, "tests/core/half_test.cpp", options=("--numbers",))
        self.assertEqual(listed("-I", *numbers), self.dependent("tests/core/half_test.cpp"))

    def test_the_others_are_all_that_do_not_depend_on_a_file(self):
        these = self.dependent("tests/core/half_test.cpp")
        others = dependent(BUILD, "tests/core/half_test.cpp", options=("--others",))
        self.assertFalse(these & others)
        self.assertEqual(these | others, listed())
        for file, expected in ("LICENSE", "all"), ("CMakeLists.txt", "none"):
            self.assertEqual(dependent(BUILD, file, options=("--others",)), {expected})


if __name__ == "__main__":
    unittest.main()
