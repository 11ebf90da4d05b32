#!/usr/bin/env python3
"""Prints the CTest names of the tests that depend on the given files, one a line.

    scripts/find_dependent_tests.py [--build DIR] [--numbers] [--others] FILES...

`all` stands for every test (a build file changed, or nothing is known of a file), `none` for no test (prose that none
requires).
With --others they are the tests that do not depend on the files.

A file leads to the sources that are compiled from it, and each of those to tests:
  - a test's own source leads to its tests;
  - a source of an op (fla/ops/<op>/) or of a backend (backends/<name>/) leads to the tests that name the op;
  - any other source leads to the tests that link its target, or run it.
Other files lead to the tests whose properties, commands or sources name them.
"""

import argparse
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from build_graph import HEADER_SUFFIXES, SOURCE_SUFFIXES, BuildGraph

ALL, NONE = "all", "none"

PROSE_NAMES = {"LICENSE", ".gitignore", ".clang-format", ".clang-tidy"}
BUILD_NAMES = {"CMakeLists.txt", "CMakePresets.json"}
BUILD_SUFFIXES = {".cmake", ".in"}
BUILD_FILES = {"scripts/build", "scripts/test", ".ci/run"}


def is_prose(path):
    return path.suffix == ".md" or path.name in PROSE_NAMES


def is_build_file(path):
    return path.name in BUILD_NAMES or path.suffix in BUILD_SUFFIXES or path.as_posix() in BUILD_FILES


@dataclass(frozen=True)
class Group:
    """CTest entries that depend on the same: a suite's tests, or those of a script."""

    targets: frozenset  # that they run
    named: frozenset  # files and folders of the tree in their command and their properties
    folder: Path  # that they run in
    is_of_tree: bool  # the folder is, and not one of the build
    words: frozenset  # of the command, where the folder is of the tree
    suites: frozenset

    @staticmethod
    def of(test, graph):
        command, properties = test.get("command", []), test["properties"]
        named = {graph.relative(word) for word in command + properties.get("REQUIRED_FILES", []) if word.startswith("/")}
        # A library's artifact is the link to the file that has its version in the name.
        targets = {graph.makers.get(Path(re.sub(r"\.so[.\d]+$", ".so", str(path)))) for path in named} - {None}
        folder = graph.relative(properties.get("WORKING_DIRECTORY", "/"))
        is_of_tree = (graph.root / folder / "CMakeLists.txt").is_file()
        words = {part for word in command for part in re.split(r"\W", word)} if is_of_tree else set()
        suites = test["name"].split(".")[0].split("/")
        return Group(*map(frozenset, (targets, named)), folder, is_of_tree, *map(frozenset, (words, suites)))


class DependentTests:
    SUITE = re.compile(r"^\s*(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+)", re.M)

    def __init__(self, build):
        self.graph = BuildGraph(build)
        self.root = self.graph.root
        self.tests = [(test["name"], Group.of(test, self.graph)) for test in self.graph.tests()]
        self.groups = {group for _, group in self.tests}

    @cache
    def text(self, path):
        """Without the comments, which are no use of anything."""
        text = (self.root / path).read_text(errors="replace") if (self.root / path).is_file() else ""
        return re.sub(r"//.*" if path.suffix in SOURCE_SUFFIXES | HEADER_SUFFIXES else r"#.*", "", text)

    @cache
    def suites(self, source):
        return set(self.SUITE.findall(self.text(source)))

    def is_source_of(self, group, target, source):
        """Sources without tests are those of all tests of their program; so are all where no source has the tests."""
        if target not in group.targets:
            return False
        suites = self.suites(source)
        return bool(not suites or suites & group.suites) or not any(self.suites(s) & group.suites for s in target.sources)

    @cache
    def own_files(self, group):
        """What tests are written in: their sources and those of the programs that they run, with their headers, the
        library left out, which names everything; or the scripts that their command names."""
        files = set()
        if group.is_of_tree:
            beside = {self.graph.relative(path) for path in (self.root / group.folder).glob("*.py")}
            files |= {path for path in beside if path.stem in group.words} or beside
        for target in {program for target in group.targets for program in {target, *target.needs} if not program.is_library}:
            for source in target.sources:
                if target not in group.targets or self.is_source_of(group, target, source):
                    files |= {source} | self.graph.read.get((target, source), set())
        return {path for path in files if not path.is_absolute() and path.parts[0] not in ("fla", "backends")}

    def naming(self, pattern):
        matches = cache(lambda path: re.search(pattern, self.text(path), re.I))
        return {group for group in self.groups if any(matches(path) for path in self.own_files(group))}

    def ops(self, path):
        """The ops that an op's or a backend's file is about: its own and those that use it, or those that the backend
        includes. None for other files."""
        parts = path.parts
        if parts[:2] == ("fla", "ops") and len(parts) > 3:
            return {parts[2]} | {op.name for op in (self.root / "fla/ops").iterdir() if parts[2] in self.ops_included(op)}
        if parts[0] == "backends" and len(parts) > 2:
            return self.ops_included(self.root / "backends" / parts[1])
        return set()

    @cache
    def ops_included(self, folder):
        files = [self.graph.relative(file) for file in folder.rglob("*")]
        return {op for file in files for op in re.findall(r"\bfla/ops/(\w+)/", self.text(file))}

    @cache
    def naming_op(self, op):
        return {group for group in self.naming(rf"\b{op}\b") if group.targets}

    def using(self, targets):
        """The tests that run targets, or what links them."""
        return {group for group in self.groups for target in group.targets if targets & {target, *target.needs}}

    def depending_on_source(self, target, source):
        found = {group for group in self.groups if self.is_source_of(group, target, source)}
        if ops := self.ops(source):
            return found.union(*map(self.naming_op, ops))
        return found | {group for group in self.groups if any(target in program.needs for program in group.targets)}

    def requiring(self, path):
        """Tests that name a file, or a folder that it is in."""
        return {group for group in self.groups if group.named & {path, *path.parents[:-1]}}

    def depending_on_name(self, path):
        """Tests that require a file or its folder, or run it, or run beside it."""
        found = self.requiring(path)
        beside = {group for group in self.groups if group.is_of_tree and path.is_relative_to(group.folder)}
        return found | ({group for group in beside if path.stem in group.words} or beside)

    def depending_on(self, path):
        """The tests that depend on a file, or ALL."""
        if is_build_file(path):
            return ALL
        if is_prose(path):
            return self.requiring(path)
        named = self.depending_on_name(path)
        found = set(named)
        for target, source in self.graph.units_reading(path):
            found |= self.depending_on_source(target, source)
        found = found or found.union(*map(self.naming_op, self.ops(path)))
        if path.suffix not in SOURCE_SUFFIXES | HEADER_SUFFIXES:
            found |= self.using({target for target in self.graph.targets if target.folder == path.parent})
            found |= self.naming(re.escape(path.as_posix()))
            if not named and path.parts[0] == "tests" and len(path.parts) > 2:
                found |= self.naming(path.parts[1])  # a folder of data: FLA_GOLDEN_DIR is the way to tests/golden
        if path.parent != Path("."):  # tests/ mirrors the tree
            mirror = Path("tests") / path.parent
            folders = {group: {group.folder, *(target.folder for target in group.targets)} for group in self.groups}
            found |= {group for group in self.groups if any(folder.is_relative_to(mirror) for folder in folders[group])}
        return found or ALL

    def numbers(self, paths):
        """CTest's numbers of the tests that depend on the files, or ALL."""
        found = set()
        for path in paths:
            if (more := self.depending_on(path)) == ALL:
                return ALL
            found |= more
        if found:  # nothing is known of what runs no target
            found |= {group for group in self.groups if not group.targets and not group.is_of_tree}
        return [number for number, (_, group) in enumerate(self.tests, start=1) if group in found]


def main():
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILES", help="paths, relative to the tree's root or not")
    parser.add_argument("--build", type=Path, default=root / "build", help="build folder (default: build/)")
    parser.add_argument("--numbers", action="store_true", help="print CTest's numbers, as ctest -I takes them")
    parser.add_argument("--others", action="store_true", help="print the tests that do not depend on the files")
    options = parser.parse_args()
    if not (options.build / "build.ninja").is_file():
        parser.error(f"--build: expected a build folder of CMake and Ninja, got {options.build}")

    tests = DependentTests(options.build)
    paths = [(tests.root / path).resolve() for path in options.files]
    for path in paths:
        if not path.is_relative_to(tests.root):
            parser.error(f"FILES: expected files of {tests.root}, got {path}")
    numbers = tests.numbers([path.relative_to(tests.root) for path in paths])
    everything = range(1, len(tests.tests) + 1)
    if options.others:
        chosen = set(everything if numbers == ALL else numbers)
        numbers = [number for number in everything if number not in chosen] if chosen else ALL
    if numbers == ALL or not numbers:
        print(numbers or NONE)
    elif options.numbers:
        print(",".join(map(str, [0, 0, 0, *numbers])))
    else:
        print("\n".join(tests.tests[number - 1][0] for number in numbers))


if __name__ == "__main__":
    main()
