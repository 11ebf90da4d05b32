"""What `cmake --install` leaves behind: programs build against it with CMake and with pkg-config, and it holds what is
public and no more."""

import itertools
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CONSUMER = Path(__file__).parent / "consumer"
PREFIX = Path(os.environ["FLA_BUILD_DIR"]) / "tests/install/prefix"
CXX = os.environ.get("CXX", "c++")
RANKS = Path(__file__).parent / "ranks"
NEEDS_MPI = "fla/distributed/mpi.h"  # compiled by the consumer of that component
CONSUMER_SAYS = "f32[1, 3, 2, 8] on cpu, state f32[1, 2, 8, 8] on cpu\n"


def output_of(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def library():
    (link,) = PREFIX.rglob("libfla.so")
    return link


def in_turns(include):
    """Every header once, in lists whose headers each include all that come before them: compiled one after another, a header
    sees no more than alone, and the standard library is read once a list."""
    def add_included(header, seen):
        for name in re.findall(r'#include ["<]([^">]+)[">]', (include / header).read_text()):
            if name not in seen and (include / name).is_file():
                seen.add(name)
                add_included(name, seen)
        return seen

    headers = sorted(str(header.relative_to(include)) for header in include.rglob("*.h"))
    headers = [header for header in headers if header != NEEDS_MPI]
    included = {header: add_included(header, set()) for header in headers}
    turns = []
    for header in sorted(headers, key=lambda header: len(included[header])):
        before = [turn for turn in turns if turn[-1] in included[header]]
        if before:
            max(before, key=lambda turn: len(included[turn[-1]])).append(header)
        else:
            turns.append([header])
    return turns


class Installed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_cmake_finds_the_package(self):
        output_of("cmake", "-S", CONSUMER, "-B", self.folder, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={PREFIX}",
                  f"-DCMAKE_CXX_COMPILER={CXX}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Werror")
        output_of("cmake", "--build", self.folder)
        self.assertEqual(output_of(self.folder / "consumer"), CONSUMER_SAYS)

    @unittest.skipUnless((PREFIX / "include" / NEEDS_MPI).exists(), "built without MPI")
    def test_cmake_finds_the_component_for_ranks(self):
        output_of("cmake", "-S", RANKS, "-B", self.folder, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={PREFIX}",
                  f"-DCMAKE_CXX_COMPILER={CXX}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Werror")
        output_of("cmake", "--build", self.folder)
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        self.assertEqual(output_of(self.folder / "ranks", env=os.environ | as_root), "2 pieces, 8 tokens\n")

    def test_cmake_refuses_another_version(self):
        with self.assertRaisesRegex(AssertionError, "version: 0.1"):
            shutil.copytree(CONSUMER, self.folder / "source")
            lists = self.folder / "source/CMakeLists.txt"
            lists.write_text(lists.read_text().replace("find_package(fla 0.1 ", "find_package(fla 7.0 "))
            output_of("cmake", "-S", self.folder / "source", "-B", self.folder / "build", "-G", "Ninja",
                      f"-DCMAKE_PREFIX_PATH={PREFIX}", f"-DCMAKE_CXX_COMPILER={CXX}")

    def test_pkg_config_finds_the_package_even_when_it_was_moved(self):
        moved = self.folder / "elsewhere"
        shutil.copytree(PREFIX, moved, symlinks=True)
        (package,) = moved.rglob("fla.pc")
        environment = os.environ | {"PKG_CONFIG_PATH": str(package.parent)}
        flags = output_of("pkg-config", "--cflags", "--libs", "fla", env=environment).split()
        libdir = output_of("pkg-config", "--variable=libdir", "fla", env=environment).strip()
        program = self.folder / "consumer"
        output_of(CXX, "-std=c++20", CONSUMER / "consumer.cpp", "-o", program, *flags, f"-Wl,-rpath,{libdir}")
        self.assertEqual(output_of(program), CONSUMER_SAYS)
        self.assertIn(str(moved), libdir.replace("/lib/pkgconfig/../..", ""))

    @unittest.skipUnless((PREFIX / "bin/fla").exists(), "built without the command")
    def test_the_command_finds_its_library(self):
        # Folders with other libraries that the machine needs may stay; another libfla may not.
        folders = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
        others = [folder for folder in folders if not any(Path(folder).glob("libfla.so*"))]
        environment = os.environ | {"LD_LIBRARY_PATH": ":".join(others)}
        self.assertIn("kda", output_of(PREFIX / "bin/fla", "ops", env=environment))
        linked = re.search(r"libfla\.so\S* => (\S+)", output_of("ldd", PREFIX / "bin/fla", env=environment))
        self.assertEqual(Path(linked.group(1)).resolve(), library().resolve())

    def test_the_soname_carries_the_major_version(self):
        major = re.search(r"project\(fla VERSION (\d+)", (Path(os.environ["FLA_SOURCE_DIR"]) / "CMakeLists.txt").read_text())
        soname = re.search(r"SONAME.*\[(.*)\]", output_of("readelf", "-d", library()))
        self.assertEqual(soname.group(1), f"libfla.so.{major.group(1)}")

    def test_only_names_of_namespace_fla_and_of_the_c_header_are_exported(self):
        symbols = [line.split(maxsplit=2)[-1] for line in output_of("nm", "-DC", "--defined-only", library()).splitlines()]
        self.assertTrue(symbols)
        ours = re.compile(r"(vtable for |typeinfo for |typeinfo name for )?fla::")
        declared = re.findall(r"^FLA_C_API .*?(fla_\w+)\(", (PREFIX / "include/fla/c_api.h").read_text(), re.M)
        self.assertCountEqual([symbol for symbol in symbols if not ours.match(symbol)], declared)

    def test_public_headers_need_only_each_other_and_the_standard_library(self):
        include = PREFIX / "include"
        for header in include.rglob("*.h"):
            for name in re.findall(r'#include ["<]([^">]+)[">]', header.read_text()):
                standard = r"[a-z_0-9]+|std(def|int)\.h" + (r"|mpi\.h" if header == include / NEEDS_MPI else "")
                known = (include / name).is_file() or re.fullmatch(standard, name)
                self.assertTrue(known, f"{header.relative_to(include)} includes {name}, which is not installed")

    def test_every_public_header_compiles_alone(self):
        def compile_in_turn(headers):
            included = [word for header in headers for word in ("-include", header)]
            output_of(CXX, "-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", PREFIX / "include",
                      *included, "-x", "c++", os.devnull)

        turns = in_turns(PREFIX / "include")
        self.assertIn("fla/fla.h", itertools.chain(*turns))
        with ThreadPoolExecutor(max_workers=2) as pool:
            list(pool.map(compile_in_turn, turns))

    def test_the_c_header_is_c99(self):
        output_of(shutil.which("cc") or "gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I",
                  PREFIX / "include", "-include", "fla/c_api.h", "-x", "c", os.devnull)


if __name__ == "__main__":
    unittest.main()
