"""The references of C++ and C: comments and declarations of the public headers, as Markdown."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# What a program uses, in reading order; other installed headers are what these include.
GROUPS = {
    "Tensors, devices, errors": [
        "fla/core/tensor.h", "fla/core/dtype.h", "fla/core/device.h", "fla/core/half.h", "fla/core/errors.h", "fla/core/workspace.h",
        "fla/core/device_memory.h", "fla/core/cuda_devices.h", "fla/core/threads.h", "fla/core/version.h"],
    "Ops": [
        "fla/ops/recurrence/recurrence.h", "fla/ops/recurrence/replay.h", "fla/ops/kda/kda.h", "fla/ops/short_conv/short_conv.h",
        "fla/ops/gated_rms_norm/gated_rms_norm.h", "fla/ops/step/step.h", "fla/ops/kda_step/kda_step.h", "fla/ops/merge/merge.h"],
    "Sequences over ranks": [
        "fla/distributed/ops.h", "fla/distributed/context.h", "fla/distributed/placement.h", "fla/distributed/mpi.h",
        "fla/distributed/nccl.h", "fla/distributed/transport.h"],
    "Choosing and seeing": [
        "fla/dispatch/observe/explain.h", "fla/dispatch/choice/plan.h", "fla/dispatch/choice/call_by_name.h", "fla/dispatch/settings/policy.h",
        "fla/core/environment.h", "fla/dispatch/config/config.h", "fla/dispatch/failure/breaker.h", "fla/dispatch/observe/counters.h",
        "fla/dispatch/observe/ops.h", "fla/dispatch/observe/registry_snapshot.h"],
    "For authors of backends": [
        "fla/dispatch/backend/backend.h", "fla/dispatch/backend/verdict.h", "fla/dispatch/catalog/registration.h",
        "fla/dispatch/choice/function_backend.h", "fla/dispatch/plugins/plugin.h"],
}


def escaped(text):
    """Plain words as Markdown; what stands between backticks is code already."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\\*_\[\]>|#])", r"\\\1", part).replace("<", "&lt;") for part in parts[::2]]  # no Markdown escapes a <
    return "`".join(parts)


def prose(comment):
    """A comment's lines: paragraphs, and code where they are indented."""
    lines, text = [re.sub(r"^\s*(///|/\*| \*) ?", "", line) for line in comment], []
    for line in lines:
        text.append(line if line.startswith("    ") or not line.strip() else escaped(line))
    return "\n".join(text).strip("\n")


def end_of_braces(text, begin):
    depth = 0
    for i in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    raise ValueError(f"a brace is never closed: {text[begin:begin + 60]}")


def without_bodies(text):
    """Declarations alone: bodies of functions, private members and lists of initialisers are left out."""
    text = re.sub(r"^ private:\n.*?(?=^\}|^ (public|protected):)", "", text, flags=re.M | re.S)
    made, begin = "", 0
    while True:
        brace = text.find("{", begin)
        if brace < 0:
            return (made + text[begin:]).replace("\n\n};", "\n};")
        statement = re.split(r"[;{}]|\b(?:public|protected):", (made + text[begin:brace]))[-1]
        code = re.sub(r"//.*", "", statement)
        is_type = re.match(r"\s*(template\s*<[^{]*>\s*)?(requires[^{]*\s)?(class|struct|enum|union|namespace)\b", code)
        if code.count("(") > code.count(")"):  # a default argument
            end = end_of_braces(text, brace)
            made += text[begin:end]
            begin = end
        elif "(" in code and not is_type:
            declaration = re.sub(r"\)\s*(const\s*|noexcept\s*)*\s:\s.*$", lambda found: found.group(0).split(":")[0].rstrip(), text[begin:brace], flags=re.S)
            end = end_of_braces(text, brace)
            while more := re.match(r"(\s*,\s*\w+(\([^()]*\))?)*\s*\{", text[end:]):  # the brace was a member's, and the body comes
                end = end_of_braces(text, end + more.end() - 1)
            made += declaration.rstrip() + ";"
            begin = end + 1 if text[end:end + 1] == ";" else end
        else:
            made += text[begin:brace + 1]
            begin = brace + 1


def blocks(text):
    """(comment lines, declaration) of what stands at the level of namespaces; no declaration: a comment of the header itself."""
    lines = text.splitlines()
    i, comment = 0, []
    while i < len(lines):
        line = lines[i]
        if line.startswith("///"):
            comment.append(line)
            i += 1
        elif line.startswith(("#define", "#")):
            begin = i
            while lines[i].endswith("\\"):
                i += 1
            i += 1
            if comment and line.startswith("#define"):
                yield comment, re.sub(r"\s*\\$", "", lines[begin]).rstrip() + (" …" if i - begin > 1 else "")
            comment = []
        elif re.match(r"(inline )?namespace\b|\}|//|struct \w+;|class \w+;|extern \"C\" \{", line) or not line.strip():
            if line.startswith("namespace") and comment:
                yield comment, None
            if not line.startswith("//"):
                comment = []
            i += 1
        else:
            declared, depth = [], 0
            while i < len(lines):
                declared.append(lines[i])
                code = re.sub(r"//.*|\"(\\.|[^\"])*\"|'.'", "", lines[i])
                depth += sum(code.count(c) for c in "({") - sum(code.count(c) for c in ")}")
                i += 1
                if depth == 0 and re.search(r"[;}]$", code.rstrip()):
                    break
            yield comment, without_bodies("\n".join(declared))
            comment = []


def is_shown(comment, declaration):
    is_public = re.search(r"FLA_API|^(class|struct|enum)\b", declaration) is not None
    return (bool(comment) or is_public) and not title(declaration).startswith("__")


def title(declaration):
    """The name that is declared."""
    code = re.sub(r"//.*|template <[^{;]*?>\n|requires .*?(?=\w+\()|FLA_API |\[\[\w+\]\] ?", "", declaration)
    for pattern in (r"#define (\w+)", r"^(?:class|struct|enum class|enum|concept|using|union) (\w+)", r"constexpr [\w:]+ (\w+)(?: =|\{)", r"(operator\S+?|~?\w+)\(", r"(\w+)(?:\{.*\}| = .*)?;"):
        if found := re.search(pattern, code, re.M):
            return found.group(1)
    return code.splitlines()[0]


def header(path):
    text = re.sub(r"^namespace (dispatch|recurrence|detail|abi)\b.*?^\}  // namespace \1\n", "", (ROOT / path).read_text(encoding="utf-8"), flags=re.M | re.S)
    text = re.sub(r"^namespace dispatch \{\n.*?^\}\n", "", text, flags=re.M | re.S)
    parts, last = [f"### {path}"], None
    for comment, declaration in blocks(text):
        if declaration is None:
            parts.append(prose(comment))
            last = None
        elif not comment and last == title(declaration) and is_shown(comment, declaration):
            parts[-1] = parts[-1].removesuffix("\n```") + "\n" + declaration + "\n```"  # an overload
        elif is_shown(comment, declaration):
            last = title(declaration)
            parts.append(f"#### `{last}`")
            if comment:
                parts.append(prose(comment))
            parts.append(f"```cpp\n{declaration}\n```")
    return "\n\n".join(parts)


def reference():
    text = []
    for group, paths in GROUPS.items():
        text += [f"## {group}", *map(header, paths)]
    return "\n\n".join(text) + "\n"


# ---- C: comments are /* … */, and what belongs together has no empty line in it

C_HEADER = "fla/c_api.h"


def c_names(declarations):
    """What is declared, in order; the constants of an enumeration are its type's."""
    patterns = (r"^#define (\w+)", r"^typedef [^{}(]*?(\w+);", r"^(?:typedef .*)?\} (\w+);", r"\b(\w+)\((?!\*)[^()]*\);")
    found = [(each.start(), each.group(1)) for pattern in patterns for each in re.finditer(pattern, declarations, re.M)]
    return [name for _, name in sorted(found)]


def c_reference():
    text = re.sub(r'^#ifdef __cplusplus\n(?:extern "C" \{|\})\n#endif\n', "", (ROOT / C_HEADER).read_text(encoding="utf-8"), flags=re.M)
    text = re.sub(r"^#(?:include|if|else|endif|define \w+_H_?$).*\n", "", text, flags=re.M)
    parts = []
    for paragraph in re.split(r"\n\n+", text.strip("\n")):
        if found := re.match(r"(/\*.*?)\s*\*/\n?(.*)", paragraph, re.S):
            comment, declarations = found.group(1), without_bodies(found.group(2)).strip()
            heading = ["## " + ", ".join(f"`{name}`" for name in c_names(declarations))] if declarations else []
            parts += [*heading, prose(comment.splitlines()), *([f"```c\n{declarations}\n```"] if declarations else [])]
    return "\n\n".join(parts) + "\n"
