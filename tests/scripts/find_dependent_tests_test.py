"""scripts/find_dependent_tests.py, on a small made-up tree and on this one."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("FLA_SOURCE_DIR", Path(__file__).parents[2]))
BUILD = Path(os.environ.get("FLA_BUILD_DIR", SOURCE / "build"))
SCRIPT = SOURCE / "scripts/find_dependent_tests.py"

# Two ops, a backend for each, tests of the core, the ops and a tool. wave is served in one of its two functions.
MADE_UP_TREE = {
    "CMakeLists.txt": """
        project(fla)
        list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_SOURCE_DIR}/tools/cmake)
        include(Declare)  # fla_tool
        add_subdirectory(fla)
        add_subdirectory(backends)
        add_subdirectory(python)
        add_subdirectory(tools)
        add_subdirectory(tests)""",
    "tools/cmake/Declare.cmake": """
        function(fla_tool NAME)
          add_executable(${NAME} ${ARGN})
          target_link_libraries(${NAME} PRIVATE fla::fla)
        endfunction()""",
    "fla/CMakeLists.txt": """
        set(sources core/tensor.cpp)
        list(APPEND sources ops/wave/wave.cpp ops/tide/tide.cpp)
        add_library(fla SHARED ${sources})
        add_library(fla::fla ALIAS fla)
        target_include_directories(fla PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)""",
    "fla/core/tensor.h": "struct Tensor;",
    "fla/core/tensor.cpp": '#include "fla/core/tensor.h"\n#include "fla/core/private.h"',
    "fla/core/private.h": "",
    "fla/ops/wave/wave.h": '#include "fla/core/tensor.h"\nvoid chunk_wave(); void step_wave(); void wave();',
    "fla/ops/wave/wave.cpp": """
        #include <fla/ops/wave/wave.h>
        #include "wave_kernel.h"
        DISPATCH("wave", Result<int>, chunk_wave, const Args& args) { kernel(); }
        DISPATCH("wave", Result<int>, step_wave,
                 const Args& args) { kernel(); }
        // DISPATCH("wave", int, commented_wave, int) {}""",
    "fla/ops/wave/wave_kernel.h": "inline void kernel() {}",
    "fla/ops/tide/tide.cpp": 'DISPATCH("tide", int, tide, const Args& args) {}',
    "backends/CMakeLists.txt": """
        function(fla_backend NAME)
          file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${NAME}/*.cpp)
          add_library(fla_backend_${NAME} OBJECT ${sources})
          target_sources(fla PRIVATE $<TARGET_OBJECTS:fla_backend_${NAME}>)
        endfunction()
        foreach(backend IN ITEMS fast moon)
          fla_backend(${backend})
        endforeach()""",
    "backends/fast/wave.cpp": """
        #include "backends/fast/kernels.h"
        class FastWave final : public WaveBackend {
         public:
          BackendInfo info() const override { return {}; }
          Verdict chunk_wave_verifier(const Args& args) const override;
          Result<int> chunk_wave(const Args& args) override;
        };
        FLA_REGISTER_BACKEND(wave, fast, FastWave);""",
    "backends/fast/kernels.h": "void fast();",
    "backends/fast/kernels.cpp": '#include "kernels.h"\nvoid fast() {}',
    "backends/moon/tide.cpp": """
        struct Moon : TideBackend { int tide(const Args& args) override; };
        FLA_REGISTER_BACKEND(tide, moon, Moon);""",
    "tools/CMakeLists.txt": """
        add_library(cases STATIC random.cpp)
        target_link_libraries(cases PUBLIC fla::fla)
        fla_tool(meter meter.cpp)""",
    "tools/random.h": "int random_call();",
    "tools/random.cpp": '#include "tools/random.h"\nint random_call() { chunk_wave(); }',
    "tools/meter.cpp": "int main() {}",
    "tests/CMakeLists.txt": """
        function(fla_test NAME LABEL)
          cmake_parse_arguments(PARSE_ARGV 2 ARG "" "" "SOURCES;LIBRARIES")
          add_executable(${NAME} ${ARG_SOURCES})
          target_link_libraries(${NAME} PRIVATE fla::fla cases ${ARG_LIBRARIES})
        endfunction()
        fla_test(core_test unit SOURCES core/tensor_test.cpp core/half_test.cpp core/support.cpp)
        fla_test(wave_test unit SOURCES
          wave_test.cpp    # by both of its functions
          step_test.cpp)
        fla_test(tide_test unit SOURCES tide_test.cpp)
        fla_test(golden_test golden SOURCES golden_test.cpp)
        fla_test(fuzz_test stress SOURCES fuzz_test.cpp)
        if(FLA_SANITIZE MATCHES address)
          add_test(NAME leaks COMMAND core_test)
        elseif(TRUE)
          add_subdirectory(nowhere)
        endif()
        if(NOT FLA_SANITIZE)
          add_subdirectory(tools)
          add_subdirectory(scripts)
          add_subdirectory(python)
        endif()""",
    "tests/core/tensor_test.cpp": '#include "fla/core/tensor.h"\nTEST(Tensor, HasAShape) {}\nTEST_F(Tensor, CanBeSliced) {}',
    "tests/core/half_test.cpp": "TEST(Half, RoundsToEven) {}  // unlike chunk_wave\nTEST(Half, DISABLED_IsFast) {}",
    "tests/core/support.cpp": "",
    "tests/wave_test.cpp": '#include "fla/ops/wave/wave.h"\nTEST(Wave, Works) { chunk_wave(); }\nTEST_P(Waves, Work) {}',
    "tests/step_test.cpp": '#include "fla/ops/wave/wave.h"\nTEST(Step, Works) { step_wave(); }',
    "tests/tide_test.cpp": "TEST(Tide, Works) { tide(); }",
    "tests/golden_test.cpp": "TEST(Golden, Agrees) { read(FLA_GOLDEN_DIR); }",
    "tests/golden/case.bin": "",
    "tests/fuzz_test.cpp": '#include "tools/random.h"\nTEST(Fuzz, NeverCrashes) { random_call(); }',
    "tests/tools/CMakeLists.txt": "add_test(NAME meter.runs COMMAND sh run.sh $<TARGET_FILE:meter>)",
    "tests/tools/run.sh": "",
    "tests/scripts/CMakeLists.txt": "fla_python_test(Build build_test.py)",
    "tests/scripts/build_test.py": "class Build:\n    def test_works(self):\n        pass\n",
    "python/CMakeLists.txt": """
        Python3_add_library(module MODULE WITH_SOABI module.cpp)
        target_link_libraries(module PRIVATE fla::fla)""",
    "python/module.cpp": '#include "fla/ops/wave/wave.h"',
    "python/package/__init__.py": "",
    "tests/python/CMakeLists.txt": """
        function(fla_pytest NAME LABEL)
          add_test(NAME Python.${NAME} COMMAND python3 -m pytest test_${NAME}.py)
          set_tests_properties(Python.${NAME} PROPERTIES
            REQUIRED_FILES "$<TARGET_FILE:module>;${PROJECT_SOURCE_DIR}/python/package")
        endfunction()
        foreach(name IN ITEMS wave)
          fla_pytest(${name} unit)
        endforeach()""",
    "tests/python/test_wave.py": "def test_wave():\n    assert chunk_wave()\n",
    "scripts/count": "",
    "README.md": "",
    "LICENSE": "",
}

TENSOR = {"Tensor.HasAShape", "Tensor.CanBeSliced"}
USERS_OF_CHUNK_WAVE = {"Wave.Works", "Fuzz.NeverCrashes", "Python.wave"}
PROGRAMS = TENSOR | {"Wave.Works", "Fuzz.NeverCrashes", "Half.RoundsToEven", "Step.Works", "Tide.Works", "Golden.Agrees"}
USERS_OF_THE_LIBRARY = PROGRAMS | {"meter.runs", "Python.wave"}


def dependent(root, *files, options=()):
    command = [sys.executable, SCRIPT, "--root", root, *options, *files]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return set(done.stdout.splitlines())


def listed(*options):
    """The names that ctest -N lists."""
    done = subprocess.run(["ctest", "--test-dir", BUILD, "-N", *options], check=True, capture_output=True, text=True)
    return set(re.findall(r"^ *Test +#\d+: (.*)$", done.stdout, re.M))


class MadeUpTree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = Path(folder.name)
        for path, text in MADE_UP_TREE.items():
            (cls.root / path).parent.mkdir(parents=True, exist_ok=True)
            (cls.root / path).write_text(text)

    def expect(self, expected, *files):
        self.assertEqual(dependent(self.root, *files), set(expected))

    def test_a_source_of_tests_leads_to_its_own_tests(self):
        self.expect(TENSOR, "tests/core/tensor_test.cpp")

    def test_a_disabled_test_is_left_out(self):
        self.expect({"Half.RoundsToEven"}, "tests/core/half_test.cpp")

    def test_a_source_beside_tests_leads_to_the_whole_program(self):
        self.expect(TENSOR | {"Half.RoundsToEven"}, "tests/core/support.cpp")

    def test_a_public_header_leads_to_all_that_link_what_includes_it(self):
        self.expect(USERS_OF_THE_LIBRARY, "fla/core/tensor.h")

    def test_a_library_source_leads_to_all_that_link_it(self):
        self.expect(USERS_OF_THE_LIBRARY, "fla/core/tensor.cpp")
        self.expect(USERS_OF_THE_LIBRARY, "fla/core/private.h")

    def test_an_op_leads_to_the_tests_that_name_one_of_its_functions(self):
        self.expect(USERS_OF_CHUNK_WAVE | {"Step.Works"}, "fla/ops/wave/wave.cpp")
        self.expect(USERS_OF_CHUNK_WAVE | {"Step.Works"}, "fla/ops/wave/wave_kernel.h")
        self.expect({"Tide.Works"}, "fla/ops/tide/tide.cpp")

    def test_a_backend_leads_to_the_tests_of_the_functions_that_it_serves(self):
        for file in ("wave.cpp", "kernels.h", "kernels.cpp", "new_file.cpp", "settings.ini"):
            self.expect(USERS_OF_CHUNK_WAVE, f"backends/fast/{file}")
        self.expect({"Tide.Works"}, "backends/moon/tide.cpp")

    def test_several_files_lead_to_the_tests_of_each(self):
        self.expect(USERS_OF_CHUNK_WAVE | {"Tide.Works"}, "backends/fast/wave.cpp", "tests/tide_test.cpp")

    def test_a_program_that_a_test_runs_leads_to_it(self):
        self.expect({"meter.runs"}, "tools/meter.cpp")

    def test_python_tests_depend_on_their_module_and_its_package(self):
        for file in ("python/module.cpp", "python/package/__init__.py", "tests/python/test_wave.py"):
            self.expect({"Python.wave"}, file)

    def test_data_beside_a_target_lead_to_the_tests_that_link_or_run_it(self):
        self.expect(PROGRAMS | {"meter.runs"}, "tools/page.html")

    def test_a_file_beside_a_declared_test_leads_to_it(self):
        self.expect({"meter.runs"}, "tests/tools/run.sh")

    def test_a_script_leads_to_the_tests_in_the_mirrored_folder(self):
        self.expect({"Build.works"}, "scripts/count")

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
            dependent(self.root, "/etc/hostname")
        self.assertIn("expected files of", raised.exception.stderr)


class ThisTree(unittest.TestCase):
    def dependent(self, *files):
        return dependent(SOURCE, *files, options=("--build", BUILD))

    def suites_in(self, path):
        return set(re.findall(r"^(?:TYPED_)?TEST(?:_F|_P)?\((\w+),", (SOURCE / path).read_text(), re.M))

    def of_label_gpu(self):
        """Patterns of the tests that only a build with CUDA has; none where this build has it."""
        if "FLA_HAS_CUDA:INTERNAL=ON" in (BUILD / "CMakeCache.txt").read_text():
            return []
        patterns = ["Sanitizer\\w*\\.", "TileLangWithoutKernels\\.", "Python\\.(cuda_arrays|torch_cuda)"]
        for lists in (SOURCE / "tests").rglob("CMakeLists.txt"):
            for words in re.findall(r"fla_test\(\w+ gpu\s([^)]*)\)", lists.read_text()):
                sources = [lists.parent / word for word in words.split() if word.endswith(".cpp")]
                patterns += [f"{suite}\\." for source in sources if source.is_file() for suite in self.suites_in(source)]
        return patterns

    def test_the_backend_leads_to_the_tests_of_kda_and_not_to_those_of_the_core(self):
        found = self.dependent("backends/cpu_simd/kda.cpp")
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

    def test_prose_leads_to_none_and_build_files_to_all(self):
        self.assertEqual(self.dependent("README.md"), {"none"})
        self.assertEqual(self.dependent("CMakeLists.txt"), {"all"})

    def test_numbers_are_those_of_ctest(self):
        numbers = dependent(SOURCE, "tests/core/half_test.cpp", options=("--build", BUILD, "--numbers"))
        self.assertEqual(listed("-I", *numbers), self.dependent("tests/core/half_test.cpp"))

    def test_the_others_are_all_that_do_not_depend_on_a_file(self):
        these = self.dependent("tests/core/half_test.cpp")
        others = dependent(SOURCE, "tests/core/half_test.cpp", options=("--build", BUILD, "--others"))
        self.assertFalse(these & others)
        self.assertEqual(these | others, listed())
        for file, expected in ("README.md", "all"), ("CMakeLists.txt", "none"):
            self.assertEqual(dependent(SOURCE, file, options=("--build", BUILD, "--others")), {expected})

    def test_without_a_build_folder_the_names_are_a_part_of_those_with_one(self):
        # The sources also name the tests that only builds with sanitizers, without NVTX, with CUDA or with Python have.
        others = ["Fuzz\\.", "TraceSetting\\..*WithoutNvtx", *self.of_label_gpu()]
        cache = (BUILD / "CMakeCache.txt").read_text()
        if "FLA_HAS_PYTEST:INTERNAL=ON" not in cache:
            others.append("Python\\.")
        if not re.search("^FLA_NVTX_INCLUDE:PATH=/", cache, re.M):
            others.append("Trace(Setting)?\\.")
        of_other_builds = re.compile("|".join(others))
        scanned = dependent(SOURCE, "fla/core/tensor.h", options=("--scan",))
        self.assertGreater(len(scanned), 50)
        more = scanned - self.dependent("fla/core/tensor.h")
        self.assertEqual([name for name in more if not of_other_builds.match(name)], [])


if __name__ == "__main__":
    unittest.main()
