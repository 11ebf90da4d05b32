"""What a build folder knows: targets from CMake's File API, includes from `ninja -t deps`, tests from CTest."""

import fcntl
import json
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

SOURCE_SUFFIXES = {".c", ".cc", ".cpp", ".cu", ".cxx"}
HEADER_SUFFIXES = {".cuh", ".h", ".hpp", ".inc"}


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


@dataclass(eq=False)
class Target:
    name: str
    is_library: bool
    folder: Path  # of its CMakeLists.txt; this and all paths below are relative to the tree
    sources: set
    compiled: set  # of the sources, in a unity build those that CMake wrote
    needs: set = field(default_factory=set)  # all targets that it links or that are built before it


class BuildGraph:
    def __init__(self, build):
        self.build = build.resolve()
        model = self._codemodel()
        self.root = Path(model["paths"]["source"])
        self._read_targets(model["configurations"][0]["targets"])
        self._read_deps()

    @cache
    def relative(self, path):
        """Relative to the tree where it lies there; relative paths are taken from the build folder."""
        path = self.build / path
        return path.relative_to(self.root) if path.is_relative_to(self.root) else path

    @property
    def _reply(self):
        return self.build / ".cmake/api/v1/reply"

    def _codemodel(self):
        """CMake answers queries whenever it runs. scripts/build asks beforehand; another build is configured again."""
        query = self.build / ".cmake/api/v1/query/codemodel-v2"
        query.parent.mkdir(parents=True, exist_ok=True)
        with open(query, "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            written = max((path.stat().st_mtime for path in self._reply.glob("index-*.json")), default=0)
            if written < (self.build / "build.ninja").stat().st_mtime:
                output_of("cmake", str(self.build))
        index = max(self._reply.glob("index-*.json"))
        return self._read(json.loads(index.read_text())["reply"]["codemodel-v2"])

    def _read(self, entry):
        return json.loads((self._reply / entry["jsonFile"]).read_text())

    def _read_targets(self, entries):
        models = {entry["id"]: self._read(entry) for entry in entries}
        by_id = {}
        self.makers = {}  # of artifacts
        self.object_folders = {}
        for id, model in models.items():
            sources = {Path(source["path"]): source for source in model.get("sources", [])}
            by_id[id] = target = Target(
                model["name"],
                model["type"] in ("OBJECT_LIBRARY", "SHARED_LIBRARY", "STATIC_LIBRARY"),
                Path(model["paths"]["source"]),
                {path for path in sources if path.suffix in SOURCE_SUFFIXES},
                {path for path, source in sources.items() if "compileGroupIndex" in source},
            )
            self.makers |= {self.relative(artifact["path"]): target for artifact in model.get("artifacts", [])}
            self.object_folders[Path(model["paths"]["build"]) / f"CMakeFiles/{target.name}.dir"] = target
        direct = {id: {needed["id"] for needed in model.get("dependencies", [])} for id, model in models.items()}
        for id, target in by_id.items():
            seen, todo = set(), list(direct[id])
            while todo:
                if (needed := todo.pop()) not in seen:
                    seen.add(needed)
                    todo += direct[needed]
            target.needs = {by_id[needed] for needed in seen}
        self.targets = list(by_id.values())

    def _read_deps(self):
        """read[target, source]: the files that the source was last compiled from."""
        self.read = {}
        self.not_compiled = {(target, source) for target in self.targets for source in target.compiled}
        for block in output_of("ninja", "-C", str(self.build), "-t", "deps").split("\n\n"):
            head, *lines = block.splitlines() or [""]
            if target := self.object_folders.get(Path(head.partition(".dir/")[0] + ".dir")):
                files = {self.relative(line.strip()) for line in lines}
                self.not_compiled -= {(target, source) for source in files}
                sources = files & target.sources
                # Sources that CMake compiles as one file read the same headers, but not each other.
                together = {path for path in sources if "CMakeFiles" not in path.parts} or sources
                for source in together:
                    self.read[target, source] = files - (together - {source}) | self.read.get((target, source), set())
        self.readers = defaultdict(set)
        for unit, files in self.read.items():
            for file in files:
                self.readers[file].add(unit)

    def units_reading(self, path):
        """The pairs of a target and one of its sources that are compiled from a file; what was not compiled yet may be."""
        of_sources = {(target, path) for target in self.targets if path in target.sources}
        return self.readers[path] | of_sources | (self.not_compiled if path.suffix in HEADER_SUFFIXES else set())

    def tests(self):
        """CTest's entries in its order, their properties as a dictionary."""
        listed = json.loads(output_of("ctest", "--test-dir", str(self.build), "--show-only=json-v1"))["tests"]
        for test in listed:
            test["properties"] = {each["name"]: each["value"] for each in test["properties"]}
        return listed
