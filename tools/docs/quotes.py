"""Files of the tree that documents show, whole or in parts, so that nothing is shown which is not built and run."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LANGUAGES = {".cpp": "cpp", ".c": "c", ".h": "cpp", ".py": "python", ".rs": "rust", ".txt": "cmake"}
# What may stand before a definition and belongs to it: comments, decorators, attributes; nothing of the preprocessor.
BEFORE = r"(?:(?://|/\*| \*|@|#(?!include|if|else|endif|define)).*\n)*"


def definition(text, name):
    """What a file defines at its left margin under that name, with the comment before it: a function, a class, a struct or
    constants. Indented lines behind the first belong to it, and so does the bracket that closes them."""
    named = rf"(?:{name}\b|.*?\b{name}\b(?= ?[({{:=]| final))"
    first = re.search(rf"^{BEFORE}(?![/#\s}}]){named}.*\n", text, re.M)
    if first is None:
        return None
    is_whole = first.group(0).rstrip().endswith((";", "}"))
    rest = "" if is_whole else re.match(r"(?:(?:[ \t].*)?\n)*(?:[)}\]].*\n)?", text[first.end():]).group(0)
    return (first.group(0) + rest).strip("\n")


def quoted(what):
    """`PATH`, or `PATH: NAME, NAME`: a file, or what it defines under these names, as a block of Markdown."""
    path, _, names = what.partition(": ")
    if not (ROOT / path).is_file():
        raise LookupError(f"a block is to hold {path}, which is not there")
    text = (ROOT / path).read_text(encoding="utf-8").rstrip()
    if names:
        parts = {name: definition(text + "\n", name) for name in names.split(", ")}
        if missing := [name for name, part in parts.items() if part is None]:
            raise LookupError(f"{path} defines no {', '.join(missing)}, which a block is to hold")
        text = "\n\n".join(parts.values())
    return f"```{LANGUAGES[Path(path).suffix]}\n{text}\n```\n"
