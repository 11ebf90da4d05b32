"""Reads the kept results, tools/bench/results: tables of text whose columns are two spaces or more apart."""

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "bench/results"


def cells(line):
    return re.split(r"\s{2,}", line.strip())


def rows(file, columns, after=""):
    """The rows, as dicts, of the first table below the text `after` whose heading has all these columns. Of columns
    with one name the second is called `name 2`, and so on. A row ends the table when it has another number of cells."""
    text = (FOLDER / file).read_text(encoding="utf-8")
    if after not in text:
        raise LookupError(f"{file} has no '{after}'")
    lines = iter(text[text.index(after):].splitlines())
    for line in lines:
        heading = cells(line)
        heading = [name if name not in heading[:i] else f"{name} {heading[:i].count(name) + 1}" for i, name in enumerate(heading)]
        if len(heading) > 1 and set(columns) <= set(heading):
            break
    else:
        raise LookupError(f"{file} has no table with the columns {', '.join(columns)}" + (f" below '{after}'" if after else ""))
    found = []
    for line in lines:
        row = cells(line)
        if len(row) != len(heading):
            break
        found.append(dict(zip(heading, row)))
    return found


def value(file, column, after="", where=None, **more):
    """The cell of `column` in the one row that has these values, which columns of one word may have as keywords."""
    where = {**(where or {}), **more}
    found = [row[column] for row in rows(file, [column, *where], after) if all(row[name] == text for name, text in where.items())]
    if len(found) != 1:
        raise LookupError(f"{file}: expected one row with {where}, got {len(found)}")
    return found[0]


def quoted(file, pattern):
    """What the group of a regular expression, or its groups, match in a file of text."""
    found = re.findall(pattern, (FOLDER / file).read_text(encoding="utf-8"))
    if len(found) != 1:
        raise LookupError(f"{file}: expected '{pattern}' once, got it {len(found)} times")
    return found[0]


def commit(file, after=""):
    text = (FOLDER / file).read_text(encoding="utf-8")
    return re.search(r"commit ([0-9a-f]{7})", text[text.index(after):]).group(1)
