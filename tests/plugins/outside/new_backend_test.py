"""scripts/new_backend: what it makes, and what it refuses."""

import re
import unittest

from outside import CXX, NEW_BACKEND, SOURCE, OutsideTest, output_of, run

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wnon-virtual-dtor", "-Wold-style-cast", "-Wcast-qual", "-Werror"]


class NewBackend(OutsideTest):
    def refusal_of(self, *words):
        done = run(NEW_BACKEND, *words)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        return done.stderr

    def files(self):
        return {path.relative_to(self.folder).as_posix(): path.read_text()
                for path in self.folder.rglob("*") if path.is_file()}

    def make_tree(self):
        (self.folder / "backends").mkdir()
        lists = self.folder / "backends/CMakeLists.txt"
        lists.write_text((SOURCE / "backends/CMakeLists.txt").read_text())
        return lists

    def test_plugin_is_the_template_under_another_name(self):
        output_of(NEW_BACKEND, "acme", "--op", "kda", "--plugin", "--into", self.folder)
        template = SOURCE / "backends/plugin_template"
        made = sorted(path.relative_to(self.folder / "acme") for path in (self.folder / "acme").rglob("*"))
        self.assertEqual(made, sorted(path.relative_to(template) for path in template.rglob("*")))
        text = "".join(path.read_text() for path in (self.folder / "acme").rglob("*") if path.is_file())
        for word in ("plugin_template", "PLUGIN_TEMPLATE", "PluginTemplate"):
            self.assertNotIn(word, text)
        self.assertIn("FLA_REGISTER_BACKEND(kda, acme, AcmeKda);", text)
        self.assertIn("FLA_PLUGIN(acme) {}", text)

    def test_backend_of_the_tree_is_a_class_a_line_and_a_test(self):
        lists = self.make_tree()
        before, files_before = lists.read_text(), self.files()
        output_of(NEW_BACKEND, "my_fast", "--op", "kda", "--into", self.folder)
        written = {path for path, text in self.files().items() if files_before.get(path) != text}
        self.assertEqual(written, {"backends/CMakeLists.txt", "backends/my_fast/kda.cpp",
                                   "tests/backends/my_fast/kda_test.cpp"})
        last = re.findall(r"^fla_backend\(\w.*\n", before, re.M)[-1]
        self.assertEqual(lists.read_text(), before.replace(last, last + "fla_backend(my_fast)\n"))
        for source in ("backends/my_fast/kda.cpp", "tests/backends/my_fast/kda_test.cpp"):
            output_of(CXX, "-std=c++20", *WARNINGS, "-fsyntax-only", "-I", SOURCE, self.folder / source)

    def test_build_finds_the_tests_of_a_backend_that_has_no_list_of_them(self):
        self.make_tree()
        output_of(NEW_BACKEND, "my_fast", "--op", "kda", "--into", self.folder)
        (self.folder / "CMakeLists.txt").write_text(f"""
            cmake_minimum_required(VERSION 3.25)
            project(tree NONE)
            include({SOURCE}/tools/cmake/FlaBackendTests.cmake)
            function(fla_test)
              message(STATUS "fla_test: ${{ARGN}}")
            endfunction()
            fla_backend_tests(${{CMAKE_CURRENT_SOURCE_DIR}}/tests/backends)""")
        configured = output_of("cmake", "-S", self.folder, "-B", self.folder / "build")
        tests = self.folder.resolve() / "tests/backends/my_fast/kda_test.cpp"
        self.assertIn(f"-- fla_test: my_fast_test;unit;SOURCES;{tests}\n", configured)

    def test_backend_is_asked_after_those_of_the_tree(self):
        def priorities(folder):
            text = "".join(path.read_text() for path in folder.rglob("*.cpp"))
            return [int(number) for number in re.findall(r"\.priority = (\d+)", text)]

        output_of(NEW_BACKEND, "acme", "--op", "kda", "--plugin", "--into", self.folder)
        (own,) = priorities(self.folder / "acme")
        for name in re.findall(r"^ *fla_backend\((\w+)", (SOURCE / "backends/CMakeLists.txt").read_text(), re.M):
            self.assertLess(max(priorities(SOURCE / "backends" / name)), own, name)

    def test_names_must_be_names(self):
        for name in ("Acme", "9lives", "a-b", "a__b", "_a", "a/b", "", "x" * 41):
            self.assertEqual(self.refusal_of(name, "--op", "kda"),
                             "scripts/new_backend: NAME: expected lower-case letters, digits and single underscores, at "
                             f"most 40, beginning with a letter, got '{name}'\n")
        self.assertEqual(self.refusal_of("original", "--op", "kda"),
                         "scripts/new_backend: NAME: 'original' is what the original kernels are called\n")

    def test_backend_of_any_recurrence_compiles(self):
        self.make_tree()
        recurrences = (SOURCE / "fla/ops/ops.h").read_text().partition("#define FLA_RECURRENCE_OPS")[2].partition("\n\n")[0]
        ops = re.findall(r"^ *OP\((\w+), ", recurrences, re.M)
        self.assertIn("dplr_delta_rule", ops)
        # What all of them include is read once; another test compiles a backend that has to include it by itself.
        header = self.folder / "common.h"
        header.write_text("#include <gtest/gtest.h>\n\n#include \"fla/fla.h\"\n")
        compiler = [CXX, "-std=c++20", *WARNINGS, "-I", SOURCE]
        output_of(*compiler, "-x", "c++-header", header, "-o", self.folder / "common.h.gch")
        for op in ops:
            name = f"my_{op}"
            output_of(NEW_BACKEND, name, "--op", op, "--into", self.folder)
            backend, test = self.folder / f"backends/{name}/{op}.cpp", self.folder / f"tests/backends/{name}/{op}_test.cpp"
            if op != "kda":
                self.assertNotIn("kda", (backend.read_text() + test.read_text()).lower())
            output_of(*compiler, "-include", header, "-include", backend, "-fsyntax-only", test)

    def test_op_must_be_one_of_the_list(self):
        for op in ("mix", "short_conv"):
            self.assertRegex(self.refusal_of("acme", "--op", op),
                             rf"^scripts/new_backend: --op: expected one of kda, gated_delta_rule, .*, iplr_delta_rule, got '{op}'\n$")

    def test_folders_that_exist_are_left_alone(self):
        (self.folder / "acme").mkdir()
        self.assertEqual(self.refusal_of("acme", "--op", "kda", "--plugin", "--into", self.folder),
                         f"scripts/new_backend: {self.folder}/acme: expected a folder that does not exist yet\n")
        self.assertEqual(list((self.folder / "acme").iterdir()), [])
        self.assertIn("/backends/cpu_simd: expected a folder that does not exist yet", self.refusal_of("cpu_simd", "--op", "kda"))

    def test_tree_must_be_one(self):
        self.assertEqual(self.refusal_of("acme", "--op", "kda", "--into", self.folder),
                         f"scripts/new_backend: --into: expected a tree of fla (with backends/CMakeLists.txt), got {self.folder.resolve()}\n")


if __name__ == "__main__":
    unittest.main()
