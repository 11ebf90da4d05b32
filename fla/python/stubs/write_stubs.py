"""write_stubs.py TEMPLATE OUTPUT: writes the type stubs of fla_cpp, its ops from their argument tables. Run while
building, with the module that was built in PYTHONPATH."""

import sys
from pathlib import Path

from fla_cpp import _compatibility, _fla_cpp, _signatures

TYPES = {
    "tensor": "_Array",
    "output": "_Array",
    "index": "Any",
    "number": "float",
    "integer": "int",
    "flag": "bool",
}


def annotation(parameter, rows):
    row = rows.get(parameter.name)
    if row is None:  # an argument that no table has
        return {"False": "bool", "None": "Any"}.get(parameter.default, "int")
    kind = TYPES[row["kind"]]
    return kind if parameter.default != "None" or kind == "Any" else f"{kind} | None"


def stub(function):
    rows = {row["name"]: row for row in function["table"]}
    by_position, by_keyword = _signatures.parameters(function)

    def line(parameter):
        default = "" if parameter.default is None else f" = {parameter.default}"
        return f"    {parameter.name}: {annotation(parameter, rows)}{default},"

    results = [
        "_Array" if flag < 0 and gradient_of < 0 else "_Array | None"
        for _, flag, _, gradient_of in function["results"]
    ]
    returned = results[0] if len(results) == 1 else f"tuple[{', '.join(results)}]" if results else "None"
    return "\n".join(
        [
            f"def {function['name']}(",
            *map(line, by_position),
            "    *,",
            *map(line, by_keyword),
            f") -> {returned}: ...",
        ]
    )


def write_paths(functions, folder):
    """Stubs of fla_cpp.ops: one file per module, which re-exports its functions."""
    folder.mkdir(exist_ok=True)
    paths = {}
    for name in (function["name"] for function in functions):
        for path in _compatibility.paths_of(name):
            paths.setdefault(path, []).append(name)
    for path, names in paths.items():
        lines = [f"from fla_cpp import {name} as {name}\n" for name in names]
        (folder / f"{path}.pyi").write_text("".join(lines))
    named = sorted({name for names in paths.values() for name in names if name not in paths})
    lines = [f"from fla_cpp import {name} as {name}\n" for name in named]
    (folder / "__init__.pyi").write_text("".join(lines))


def main():
    template, output = map(Path, sys.argv[1:])
    functions = _compatibility.with_aliases(_fla_cpp.functions())
    write_paths(functions, output.parent / "ops")
    output.write_text(template.read_text().replace("@functions@", "\n".join(map(stub, functions))))


if __name__ == "__main__":
    main()
