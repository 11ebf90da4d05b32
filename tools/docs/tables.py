"""The documents' tables of measurements, from the kept results, as Markdown."""

import re
from pathlib import Path

import measured
from results import rows

ROOT = Path(__file__).resolve().parent.parent.parent


def markdown(heading, lines):
    made = [heading, ["---"] * len(heading), *lines]
    return "".join("| " + " | ".join("-" if cell is None else cell for cell in line) + " |\n" for line in made)


def formula(op):
    """What an op's header says that a token does to the state."""
    lines = re.findall(r"^///     (S <-.*)", (ROOT / f"fla/ops/{op}/{op}.h").read_text(encoding="utf-8"), re.M)
    parts = [re.split(r" {3,}", line) for line in lines]  # the formula, and a remark behind it
    return "; ".join([", then ".join(f"`{part[0]}`" for part in parts), *(part[1] for part in parts if len(part) > 1)])


def ops():
    recurrences = (ROOT / "fla/ops/ops.h").read_text(encoding="utf-8").partition("#define FLA_RECURRENCE_OPS")[2].partition("\n\n")[0]
    lines = []
    for op in re.findall(r"^  OP\((\w+), ", recurrences, re.M):
        ms, backend = measured.family(op, "prefill")
        lines.append([f"`{op}`", formula(op), measured.family(op, "decode")[0], f"{ms} (`{backend}`)"])
    return markdown(["op", "per token", "decode, ms", "prefill, ms"], lines)


def fastest(texts):
    """The least of them in bold, where there are several."""
    known = [text for text in texts if text is not None]
    least = min(known, key=float)
    return [f"**{text}**" if text == least and len(known) > 1 else text for text in texts]


def prefill():
    lines = []
    for case in measured.prefill_cases():
        random = [measured.prefill(case, "random"), *(measured.prefill_peer(each, case, "random") for each in measured.PREFILL_PEERS)]
        slow = [measured.prefill(case, "slow"), measured.prefill_peer("cuDNN", case, "slow")]
        lines.append([case.removeprefix("B1 "), *fastest(random), *fastest(slow)])
    return markdown(["case", "random: fla", *measured.PREFILL_PEERS, "slow: fla", "cuDNN"], lines)


def decode():
    cases = ["decode N1 H32", "decode N8 H32", "decode N32 H32", "decode N128 H32", "decode N256 H64"]
    lines = [[case.removeprefix("decode "), *fastest([measured.decode(case), measured.decode_peer(case)]), measured.decode(case, "bf16 [V,K]"),
              measured.decode(case, column="of floor")] for case in cases]
    return markdown(["case", "fla, f32 states", "flash-linear-attention", "fla, bf16 states", "f32: of the copy bandwidth"], lines)


def training():
    lines = []
    for row in rows(measured.BACKWARD, ["op", "case", "gates", "backend", "with forward"]):
        if row["backend"] == "cuda_backward":
            peer = None
            if row["op"] == "kda" and row["gates"] == "random":
                found = [each for each in rows(measured.PEERS, ["case", "flash-linear-attention"], after="KDA forward and backward")
                         if each["case"] == row["case"]]
                peer = found[0]["flash-linear-attention"] if found else None
            lines.append([f"`{row['op']}`", row["case"].removeprefix("B1 "), row["gates"], row["backward"].split(" (")[0],
                          row["with forward"].split(" (")[0], peer, row["error"]])
    return markdown(["op", "case", "gates", "backward", "with forward", "flash-linear-attention", "worst gradient's error"], lines)


def cpu():
    lines = [[row["case"], row["threads"], row["backend"], row["ns/token-head"], row["x original"],
              row["arithmetic"] if row["case"] == "prefill" else "", row["copy"] if row["case"] == "decode" else "", row["error o"]]
             for row in rows(measured.CPU, ["case", "threads", "backend", "ns/token-head"])]
    return markdown(["case", "threads", "backend", "ns", "times the original", "of the multiply-add rate", "of the copy bandwidth", "error of o"], lines)


def kinds():
    """The kinds of data that cases have, and what they are."""
    listed = (ROOT / "tools/cases/random_case.h").read_text(encoding="utf-8")
    return re.findall(r"^  (\w+), +///< (.*)", listed[listed.index("enum class DataKind"):], re.M)


def errors():
    """By kind of data, on the CPU."""
    found = {(row["data"], row["dtype"], row["backend"]): row for row in rows(measured.NUMERICS, ["data", "dtype", "backend", "error o"])}
    lines = []
    for kind, means in kinds():
        cells = [f"{found[kind, dtype, backend]['error o']} / {found[kind, dtype, backend]['error state']}"
                 for dtype in ("f32", "bf16") for backend in ("original", "cpu_simd")]
        lines.append([f"`{kind}`", means, *cells])
    return markdown(["data", "what it is", "f32: original", "cpu_simd", "bf16: original", "cpu_simd"], lines)


def gpu_errors():
    """Of the kernels for GPUs, in the runs that the times are from."""
    lines = []
    seen = set()
    columns = ["op", "shape", "gates", "error o"]
    found = rows(measured.FAMILY, [*columns, "backend"]) + rows(measured.FAMILY, columns, after=measured.FLASH_FAMILY)
    for row in found + rows(measured.FAMILY, [*columns, "backend"], after=measured.TILELANG_FAMILY):
        backend = row.get("backend") or measured.PREFILL_BACKENDS.get(row["op"], "flash_kda")
        key = row["op"], row["gates"], backend
        if row["shape"].startswith("B=1,T=8192") and key not in seen and not row["op"].endswith("*"):
            seen.add(key)
            lines.append([f"`{row['op']}`", row["gates"], f"`{backend}`", row["error o"], row["error state"]])
    return markdown(["op", "gates", "backend", "error of o", "error of the state"], sorted(lines))


def bars():
    """How large an error may be, read off the tests that hold kernels to it."""
    found, usual = measured.found, measured.flash_bars()
    every = found("tools/cases/accuracy.h", r"dtype: ([0-9.e-]+) for f32, ([0-9.e-]+) for bf16, ([0-9.e-]+) for\n/// f16")
    gradient = found("tools/cases/accuracy.h", r"of gradients: ([0-9.e-]+) for f32, ([0-9.e-]+) for bf16, ([0-9.e-]+) for f16")
    return markdown(["what", "at most"], [
        ["results of every backend and op, f32 / bf16 / f16 inputs", " / ".join(every)],
        ["gradients, f32 / bf16 / f16 inputs", " / ".join(gradient)],
        ["the `flash_` backends, bf16 inputs: o / final state", " / ".join(usual[:2])],
        ["the same, f16 inputs", " / ".join(usual[2:4])],
        ["the same, all keys of a head equal", " / ".join(usual[4:])]])


def peers_errors():
    heading = ["data", "flash-linear-attention 0.6.0", "FlashKDA 1ce47ea"]
    return markdown(heading, [[row[name] for name in heading] for row in rows(measured.PEERS, heading)])


def parts_of_a_rank():
    heading = ["parts", "tokens a part", "forward, ms", "of one part", "backward, ms", "of one part 2", "bytes given away each way"]
    return markdown([name.removesuffix(" 2") for name in heading], [[row[name] for name in heading] for row in rows(measured.RANKS, heading)])


def many_ranks():
    heading = ["ranks", "tokens", "gathered, MB", "exchange, ms", "forward, ms", "with backward, ms",
               "all-to-all, ms", "heads: forward, ms", "heads: with backward, ms"]
    return markdown(heading, [[row[name] for name in heading] for row in rows(measured.RANKS, heading)])


def tables():
    """By name, what makes the text of a generated block."""
    return {"ops": ops, "prefill": prefill, "decode": decode, "training": training, "cpu": cpu, "errors": errors, "gpu errors": gpu_errors,
            "bars": bars, "peers' errors": peers_errors, "parts of a rank": parts_of_a_rank, "many ranks": many_ranks}
