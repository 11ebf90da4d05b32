#!/usr/bin/env python3
"""Prints the CTest names of the tests that depend on the given files, one a line.

    scripts/find_dependent_tests.py [--build DIR] [--numbers] [--others] FILES...

`all` stands for every test (a build file changed, or a file that nothing is known of), `none` for no test (prose).
With --others they are the tests that do not depend on the files.

A changed file leads to the translation units that include it, and each of those to tests:
  - a test's own source leads to its tests;
  - a source of an op (fla/ops/<op>/) or of a backend (backends/<name>/) leads to the entry points that it serves, the
    DISPATCH functions, and from there to the tests that name one of them or the op;
  - any other source leads to the tests that link its CMake target, or run it.

The names come from the build folder. Without one they are read off the TEST macros, which leaves out parameterised
tests: their names exist only in a built program.
"""

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ALL, NONE = "all", "none"

SOURCE_SUFFIXES = {".cpp", ".cc", ".c", ".cu"}
CODE_SUFFIXES = SOURCE_SUFFIXES | {".h", ".hpp", ".cuh", ".inc"}
PROSE_NAMES = {"LICENSE", ".gitignore", ".clang-format", ".clang-tidy"}
BUILD_NAMES = {"CMakeLists.txt", "CMakePresets.json"}
BUILD_SUFFIXES = {".cmake", ".in"}
BUILD_FILES = {"scripts/build", "scripts/test", ".ci/run"}


def is_prose(path):
    return path.suffix == ".md" or path.name in PROSE_NAMES


def is_build_file(path):
    return path.name in BUILD_NAMES or path.suffix in BUILD_SUFFIXES or path.as_posix() in BUILD_FILES


# ---- CMake: which sources make which target, what a target links, which entries CTest has


@dataclass
class Target:
    folder: Path
    sources: set = field(default_factory=set)
    mentions: set = field(default_factory=set)  # words that may name other targets


@dataclass
class Entry:
    """A test that add_test() declares: it depends on its folder and on what its command names."""

    folder: Path
    words: list


class CMakeTree:
    """What the CMake files under `root` declare for a build without sanitizers. Other conditions are taken to hold;
    generator expressions are only searched for the targets that they name."""

    TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|([()])|([^\s()"#]+)|#[^\n]*')
    TARGET_EXPRESSION = re.compile(r"\$<TARGET_\w+:([\w:]+)>")
    BLOCKS = {"function": "endfunction", "macro": "endmacro", "foreach": "endforeach", "if": "endif"}

    def __init__(self, root):
        self.root = root
        self.targets = {}
        self.aliases = {}
        self.entries = {}
        self.include_folders = set()
        self._functions = {}
        self._variables = {"PROJECT_SOURCE_DIR": [str(root)], "CMAKE_SOURCE_DIR": [str(root)]}
        self._read_folder(root)

    def name_of(self, word):
        """The target that a word of CMake names, or nothing."""
        expression = self.TARGET_EXPRESSION.search(word)
        name = expression.group(1) if expression else word
        name = self.aliases.get(name, name)
        return name if name in self.targets else None

    @cache
    def links(self, name):
        """The target itself and all that it links or depends on."""
        seen, todo = set(), [name]
        while todo:
            current = todo.pop()
            if current not in seen:
                seen.add(current)
                todo += filter(None, map(self.name_of, self.targets[current].mentions))
        return seen

    def _read_folder(self, folder):
        file = folder / "CMakeLists.txt"
        if file.is_file():
            outer = self._variables.get("CMAKE_CURRENT_SOURCE_DIR")
            self._variables["CMAKE_CURRENT_SOURCE_DIR"] = [str(folder)]
            self._run(self._parse(file.read_text()), folder)
            self._variables["CMAKE_CURRENT_SOURCE_DIR"] = outer

    def _parse(self, text):
        commands, name, words, depth = [], None, [], 0
        for quoted, parenthesis, bare in (m.groups() for m in self.TOKEN.finditer(text)):
            if parenthesis == "(":
                depth += 1
            elif parenthesis == ")":
                depth -= 1
                if depth == 0:
                    commands.append((name.lower(), words))
                    words = []
            elif depth == 0:
                name = bare or name
            elif bare is not None:
                words.append((bare, False))
            elif quoted is not None:
                words.append((quoted, True))
        return commands

    def _expand(self, words):
        """Puts the values of variables in; an unquoted list becomes several words."""
        expanded = []
        for word, quoted in words:
            while match := re.search(r"\$\{(\w+)\}", word):
                value = ";".join(self._variables.get(match.group(1)) or [])
                word = word[: match.start()] + value + word[match.end() :]
            expanded += [word] if quoted else filter(None, word.split(";"))
        return expanded

    def _run(self, commands, folder):
        position = 0
        while position < len(commands):
            name, words = commands[position]
            position += 1
            if name in self.BLOCKS:
                start, depth = position, 1
                while depth:
                    depth += {name: 1, self.BLOCKS[name]: -1}.get(commands[position][0], 0)
                    position += 1
                body = commands[start : position - 1]
                if name == "foreach":
                    self._run_loop(self._expand(words), body, folder)
                elif name == "if":
                    self._run_branches(words, body, folder)
                else:
                    function, *parameters = self._expand(words)
                    self._functions[function.lower()] = (parameters, body)
            else:
                self._run_command(name, self._expand(words), folder)

    def _run_branches(self, words, body, folder):
        """Each branch whose condition is not known to be false, up to the first that is known to be true."""
        depth, branches = 0, [(words, [])]
        for name, command in body:
            depth += {"if": 1, "endif": -1}.get(name, 0)
            if depth == 0 and name in ("else", "elseif"):
                branches.append((command, []))
            else:
                branches[-1][1].append((name, command))
        for condition, commands in branches:
            holds = self._holds(self._expand(condition))
            if holds is not False:
                self._run(commands, folder)
            if holds:
                break

    def _holds(self, words):
        """Nothing where only a build knows."""
        if words[:1] == ["FLA_SANITIZE"]:
            return False
        if len(words) == 2 and words[0] in ("EXISTS", "IS_DIRECTORY"):
            return getattr(Path(words[1]), {"EXISTS": "exists", "IS_DIRECTORY": "is_dir"}[words[0]])()
        return None

    def _run_loop(self, words, body, folder):
        variable, *items = words
        if items[:2] == ["IN", "LISTS"]:
            items = [item for name in items[2:] for item in self._variables.get(name) or []]
        elif items[:2] == ["IN", "ITEMS"]:
            items = items[2:]
        for item in items:
            self._variables[variable] = [item]
            self._run(body, folder)

    def _run_command(self, name, words, folder):
        if name == "fla_python_test":
            self._add_python_tests(*words[:2], folder, words)
        elif name in self._functions:
            parameters, body = self._functions[name]
            self._variables |= {p: [w] for p, w in zip(parameters, words)}
            self._variables |= {"ARGV": words, "ARGN": words[len(parameters) :]}
            self._run(body, folder)
        elif name == "cmake_parse_arguments":
            self._parse_arguments(words)
        elif name == "set" and words:
            self._variables[words[0]] = words[1:]
        elif name == "list" and words[:1] == ["APPEND"]:
            self._variables[words[1]] = (self._variables.get(words[1]) or []) + words[2:]
        elif name == "file" and words[:1] == ["GLOB"]:
            pattern = Path(words[-1])
            self._variables[words[1]] = [str(path) for path in sorted(pattern.parent.glob(pattern.name))]
        elif name == "cmake_path" and words[:1] == ["GET"] and words[2] == "FILENAME":
            self._variables[words[3]] = [Path(self._variables[words[1]][0]).name]
        elif name == "add_subdirectory":
            self._read_folder((folder / words[0]).resolve())
        elif name == "include":
            for module_folder in map(Path, self._variables.get("CMAKE_MODULE_PATH") or []):
                file = module_folder / f"{words[0]}.cmake"
                if file.is_relative_to(self.root) and file.is_file():
                    self._run(self._parse(file.read_text()), folder)
        elif name == "add_test":
            if words[:1] == ["NAME"]:
                self.entries[words[1]] = Entry(folder, words[2:])
        elif name == "set_tests_properties" and "PROPERTIES" in words:
            split = words.index("PROPERTIES")
            for test in set(words[:split]) & self.entries.keys():
                self.entries[test].words += words[split + 1 :]
        elif name in ("add_library", "add_executable") and "ALIAS" in words:
            self.aliases[words[0]] = words[2]
        elif words:
            if name in ("add_library", "add_executable", "add_custom_target", "python3_add_library"):
                self.targets.setdefault(words[0], Target(folder))
            if words[0] in self.targets:
                self._describe(self.targets[words[0]], name, words[1:], folder)

    def _add_python_tests(self, name, file, folder, words):
        for method in re.findall(r"^    def test_(\w+)", (folder / file).read_text(), re.M):
            self.entries[f"{name}.{method}"] = Entry(folder, words)

    def _describe(self, target, command, words, folder):
        for word in words:
            path = self.resolve(word, folder)
            if path and path.suffix in SOURCE_SUFFIXES:
                target.sources.add(path)
            elif path and command == "target_include_directories":
                self.include_folders.add(path)
            target.mentions.add(word)

    def resolve(self, word, folder):
        """The path of a file or folder of the tree, relative to its root, that a word names in `folder`."""
        for base in (folder, self.root):
            path = (base / word).resolve()
            if path.is_relative_to(self.root) and path.exists():
                return path.relative_to(self.root)
        return None

    def _parse_arguments(self, words):
        if words[0] == "PARSE_ARGV":
            given = self._variables.get("ARGV", [])[int(words[1]) :]
            words = words[2:]
        else:
            given = words[4:]
        prefix, options, singles, lists = words[:4]
        keywords = set(f"{options};{singles};{lists}".split(";"))
        self._variables |= {f"{prefix}_{keyword}": [] for keyword in keywords}
        current = None
        for word in given:
            if word in keywords:
                current = f"{prefix}_{word}"
            elif current:
                self._variables[current].append(word)


# ---- C++: what includes what, which functions are dispatched, which backend serves them


class SourceTree:
    INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<(fla/[^>]+)>).*$', re.M)
    COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:[^"\\\n]|\\.)*")', re.S)
    DISPATCH = re.compile(r'\bDISPATCH\(\s*"(\w+)"\s*,\s*[^,]+,\s*(\w+)')
    REGISTER = re.compile(r"\bFLA_REGISTER_BACKEND\(\s*(\w+)\s*,\s*\w+\s*,\s*(\w+)\s*\)")
    OVERRIDE = re.compile(r"(\w+)\s*\([^()]*\)\s*(?:const\b\s*)?(?:noexcept\b\s*)?(?:override|final)\b")

    def __init__(self, root, include_folders):
        self.root = root
        self.include_folders = sorted(include_folders | {Path(".")})

    @cache
    def code(self, path):
        """The file's text without its comments, which are no use of anything."""
        text = (self.root / path).read_text(errors="replace") if (self.root / path).is_file() else ""
        return self.COMMENT.sub(lambda match: match.group(1) or " ", text)

    @cache
    def names(self, path):
        """Every word of the code, the include lines left out."""
        return frozenset(re.findall(r"\w+", self.INCLUDE.sub("", self.code(path))))

    @cache
    def includes(self, path):
        found = set()
        for quoted, angled in self.INCLUDE.findall(self.code(path)):
            folders = ([path.parent] if quoted else []) + self.include_folders
            for folder in folders:
                candidate = (self.root / folder / (quoted or angled)).resolve()
                if candidate.is_relative_to(self.root) and candidate.is_file():
                    found.add(candidate.relative_to(self.root))
                    break
        return found

    @cache
    def closure(self, path):
        """The file and everything that it includes, directly or not."""
        seen, todo = set(), [path]
        while todo:
            current = todo.pop()
            if current not in seen:
                seen.add(current)
                todo += self.includes(current)
        return seen

    def files(self, folder):
        return [p.relative_to(self.root) for p in sorted((self.root / folder).rglob("*")) if p.suffix in CODE_SUFFIXES]

    @cache
    def functions(self):
        """The dispatched functions of every op."""
        functions = defaultdict(set)
        for path in self.files("fla"):
            for op, function in self.DISPATCH.findall(self.code(path)):
                functions[op].add(function)
        return functions

    @cache
    def entry_points(self, path):
        """The names by which tests reach the code of an op's or a backend's file: the functions it serves and their
        ops. Empty for other files."""
        parts = path.parts
        if parts[:2] == ("fla", "ops") and len(parts) > 3 and parts[2] in self.functions():
            return self.functions()[parts[2]] | {parts[2]}
        names = set()
        if parts[0] == "backends" and len(parts) > 2:
            files = self.files(Path(*parts[:2]))
            for op, backend_class in (found for p in files for found in self.REGISTER.findall(self.code(p))):
                overridden = self._overridden(backend_class, files)
                names |= {f for f in self.functions()[op] if f in overridden} | {op}
        return names

    def _overridden(self, class_name, files):
        for path in files:
            if match := re.search(rf"\b(?:class|struct)\s+{class_name}\b[^;{{]*\{{", self.code(path)):
                return set(self.OVERRIDE.findall(self.code(path)[match.end() : self._closing(path, match.end())]))
        return set()

    def _closing(self, path, start):
        depth = 1
        for match in re.compile(r"[{}]").finditer(self.code(path), start):
            depth += 1 if match.group() == "{" else -1
            if depth == 0:
                return match.start()
        return len(self.code(path))


# ---- tests: CTest names, grouped by what they depend on in the same way


@dataclass(eq=False)
class Unit:
    names: list
    folder: Path
    sources: set  # their includes are followed
    targets: set  # linked or run
    files: set = field(default_factory=set)  # other files


class TestList:
    MACRO = re.compile(r"\b(TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P)\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)")

    def __init__(self, root, build=None):
        self.root = root
        self.cmake = CMakeTree(root)
        self.tree = SourceTree(root, self.cmake.include_folders)
        self.left_out = 0  # tests whose names only a built program knows
        self.order = []
        if build:
            self._read_build(build)
        self.units = self._programs(build) + self._entries(build)
        known = {name for unit in self.units for name in unit.names}
        self.unknown = {name for name in self.order if name not in known}  # run whenever any test is run
        if not build:
            self.order = [name for unit in self.units for name in unit.names]

    def _read_build(self, build):
        listing = subprocess.run(
            ["ctest", "--test-dir", str(build), "--show-only=json-v1"], check=True, capture_output=True, text=True
        )
        self.built = defaultdict(list)
        for test in json.loads(listing.stdout)["tests"]:
            self.order.append(test["name"])
            for program in {Path(word).name for word in test.get("command", [])} & self.cmake.targets.keys():
                self.built[program].append(test["name"])

    def _suites(self, source):
        return {suite for _, suite, _ in self.MACRO.findall(self.tree.code(source))}

    def _programs(self, build):
        """One unit for each source with tests in it; tests of unknown source depend on all of their program's."""
        units = []
        for name, target in self.cmake.targets.items():
            with_tests = {source: suites for source in sorted(target.sources) if (suites := self._suites(source))}
            if not with_tests:
                continue
            shared = target.sources - with_tests.keys()
            links = self.cmake.links(name) - {name}
            left = list(self.built[name]) if build else []
            for source, suites in with_tests.items():
                if build:
                    names = [test for test in left if suites & set(test.split(".")[0].split("/"))]
                    left = [test for test in left if test not in names]
                else:
                    names = self._scan(source)
                units.append(Unit(names, source.parent, {source} | shared, links))
            if left:
                units.append(Unit(left, target.folder.relative_to(self.root), target.sources, links))
        return units

    def _scan(self, source):
        names = []
        for kind, suite, test in self.MACRO.findall(self.tree.code(source)):
            if kind not in ("TEST", "TEST_F"):
                self.left_out += 1
            elif not test.startswith("DISABLED_"):
                names.append(f"{suite}.{test}")
        return names

    def _entries(self, build):
        units = []
        for name, entry in self.cmake.entries.items():
            if build and name not in self.order:
                continue
            folder = entry.folder.relative_to(self.root)
            words = [part for word in entry.words for part in word.split(";")]
            named = {path for word in words if (path := self.cmake.resolve(word, entry.folder))}
            folders = {entry.folder} | {self.root / path for path in named if (self.root / path).is_dir()} - {self.root}
            named |= {p.relative_to(self.root) for f in folders for p in f.rglob("*") if p.is_file()}
            direct = filter(None, map(self.cmake.name_of, words))
            targets = {linked for target in direct for linked in self.cmake.links(target)}
            sources = {path for path in named if path.suffix in CODE_SUFFIXES}
            units.append(Unit([name], folder, sources, targets, named))
        return units

    @cache
    def _sources_of_tests(self):
        return {source for unit in self.units for source in unit.sources}

    @cache
    def _names_used(self, unit):
        """The words of the tests' code: their sources, what those include, and the sources beside such headers. The
        library's own code is left out: it names everything. Python files count where the tests run something of the
        build."""
        seen, todo, names = set(), list(unit.sources), set()
        if unit.targets:
            todo += [path for path in unit.files if path.suffix == ".py"]
        while todo:
            path = todo.pop()
            if path in seen or path.parts[0] == "fla":
                continue
            seen.add(path)
            names |= self.tree.names(path)
            todo += self.tree.includes(path)
            todo += [beside for s in SOURCE_SUFFIXES if (self.root / (beside := path.with_suffix(s))).is_file()]
        return names

    def _units_naming(self, entry_points):
        return [unit for unit in self.units if entry_points & self._names_used(unit)]

    def _units_naming_folder(self, folder):
        """Tests that read a folder of data know it by name: FLA_GOLDEN_DIR is the way to tests/golden."""
        return [unit for unit in self.units if any(folder in name.lower() for name in self._names_used(unit))]

    def _units_mirroring(self, folder):
        """tests/ mirrors the tree: the tests of backends/x lie in tests/backends/x."""
        mirror = Path("tests") / folder
        return [unit for unit in self.units if unit.folder.is_relative_to(mirror)]

    def units_for(self, path):
        """The units that depend on a file, or ALL."""
        if is_build_file(path):
            return ALL
        if is_prose(path):
            return []
        found = [unit for unit in self.units if path in unit.files]
        if path.suffix in CODE_SUFFIXES or path.parts[0] == "backends":
            found += self._units_for_code(path)
        else:
            beside = {n for n, target in self.cmake.targets.items() if target.folder == self.root / path.parent}
            found += [unit for unit in self.units if beside & unit.targets]
        if len(path.parts) > 1:
            found += self._units_mirroring(path.parent)
        if not found and path.parts[0] == "tests" and len(path.parts) > 2:
            found = self._units_naming_folder(path.parts[1])
        return found or ALL

    def _units_for_code(self, path):
        found = []
        if entry_points := self.tree.entry_points(path) if path.parts[0] == "backends" else set():
            found += self._units_naming(entry_points)
        found += [u for u in self.units if any(path in self.tree.closure(source) for source in u.sources)]
        for name, target in self.cmake.targets.items():
            for source in target.sources - self._sources_of_tests():
                if path not in self.tree.closure(source):
                    continue
                if entry_points := self.tree.entry_points(source):
                    found += self._units_naming(entry_points)
                else:
                    found += [unit for unit in self.units if name in unit.targets]
        return found

    def dependent(self, paths):
        """The names of the tests that depend on the files, in CTest's order, or ALL."""
        names = set()
        for path in paths:
            units = self.units_for(path)
            if units == ALL:
                return ALL
            names |= {name for unit in units for name in unit.names} | (self.unknown if units else set())
        return [name for name in self.order if name in names]


def main():
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILES", help="paths, relative to the tree's root or not")
    parser.add_argument("--build", type=Path, help="build folder to take names from (default: build/ where there is one)")
    parser.add_argument("--scan", action="store_true", help="read the names off the sources though there is a build folder")
    parser.add_argument("--root", type=Path, default=root, help="the tree (default: the one that this script lies in)")
    parser.add_argument("--numbers", action="store_true", help="print CTest's numbers, as ctest -I takes them")
    parser.add_argument("--others", action="store_true", help="print the tests that do not depend on the files")
    options = parser.parse_args()

    root = options.root.resolve()
    build = options.build or root / "build"
    if options.scan or not (build / "CTestTestfile.cmake").is_file():
        if options.build or options.numbers:
            parser.error(f"--build: expected a build folder with tests, got {build}")
        build = None
    tests = TestList(root, build)
    if tests.left_out:
        print(f"without a build folder, {tests.left_out} parameterised tests are left out", file=sys.stderr)

    paths = [root / path for path in options.files]
    outside = [path for path in paths if not path.resolve().is_relative_to(root)]
    if outside:
        parser.error(f"FILES: expected files of {root}, got {outside[0]}")
    names = tests.dependent([path.resolve().relative_to(root) for path in paths])
    if options.others:
        chosen = set(tests.order if names == ALL else names)
        names = [name for name in tests.order if name not in chosen] if chosen else ALL
    if names == ALL:
        print(ALL)
    elif not names:
        print(NONE)
    elif options.numbers:
        chosen = set(names)
        numbers = [str(number) for number, name in enumerate(tests.order, start=1) if name in chosen]
        print(",".join(["0", "0", "0", *numbers]))
    else:
        print("\n".join(names))


if __name__ == "__main__":
    main()
