"""What the documents show of the kept results: one function a kind of measurement, and the numbers that texts quote."""

import re
from pathlib import Path

from results import commit, quoted, rows, value

ROOT = Path(__file__).resolve().parent.parent.parent
FLASH, CUDA, FAMILY, BACKWARD = "flash_kda_h200.txt", "cuda_h200.txt", "family_h200.txt", "backward_h200.txt"
CPU, XEON, PYTHON, TILELANG = "cpu_neoverse_v1.txt", "cpu_xeon_avx.txt", "python_neoverse_v1.txt", "tilelang_h200.txt"
NUMERICS, PEERS, WHEEL, RANKS = "numerics_neoverse_v1.txt", "peers.txt", "wheel_aarch64.txt", "ranks_h200.txt"
PREFILL_PEERS = ["cuDNN", "FlashKDA", "flash-linear-attention"]
TILELANG_FAMILY = "commit 2343c7d"  # the part of FAMILY with tilelang
FLASH_FAMILY = "Packets carried by a warp a place"  # and that with the prefill of the flash_ backends
PREFILL_BACKENDS = {"gated_delta_rule": "flash_gdn", "delta_rule": "flash_gdn", "gla": "flash_gla", "simple_gla": "flash_simple_gla",
                    "retention": "flash_simple_gla", "lightning_attn": "flash_simple_gla", "linear_attn": "flash_simple_gla"}


def three_digits(text):
    """0.5327 as 0.533 and 0.0436 as it is: as many digits as two runs share."""
    number = float(text)
    return f"{number:.4f}" if number < 0.1 else f"{number:.3f}" if number < 10 else f"{number:.2f}"


def prefill_cases():
    return [row["case"] for row in rows(FLASH, ["case", "ms 2", "goal"])]


def prefill(case, gates):
    return three_digits(value(FLASH, "ms" if gates == "random" else "ms 2", case=case))


def prefill_peer(library, case, gates):
    """None where it was not measured."""
    found = [row[library] for row in rows(PEERS, ["case", "gates", library]) if (row["case"], row["gates"]) == (case, gates)]
    return found[0] if found and found[0] != "-" else None


def decode(case, state="f32 [V,K]", column="graph", backend="cuda_decode"):
    return value(CUDA, column, where={"inputs, state": f"bf16, {state}"}, case=case, backend=backend)


def decode_peer(case):
    return value(PEERS, "flash-linear-attention", after="KDA decode", case=case)


def training(op, case, gates="random", backend="cuda_backward"):
    """Forward and backward in a graph."""
    return value(BACKWARD, "with forward", op=op, case=case, gates=gates, backend=backend).split(" (")[0]


def training_peer(case):
    return value(PEERS, "flash-linear-attention", after="KDA forward and backward", case=case)


def family(op, kind, gates="random"):
    """(ms in a graph, backend) of the backend that takes the call: kind is prefill or decode."""
    tokens = {"prefill": "B=1,T=8192", "decode": "B=32,T=1"}[kind]
    heads = "H=16,HV=32" if op == "gated_delta_rule" else "H=32"
    where = dict(op=op, shape=f"{tokens},{heads},K=128,V=128", gates=gates)
    if op == "kda" and kind == "prefill":
        return prefill("B1 T8192 H32", gates), "flash_kda"
    if op in PREFILL_BACKENDS and kind == "prefill":
        return three_digits(value(FAMILY, "graph", after=FLASH_FAMILY, **where)), PREFILL_BACKENDS[op]
    after = "commit a6d7129" if op == "iplr_delta_rule" else ""
    backend = "cuda_decode" if kind == "decode" else "original"
    ms = value(FAMILY, "graph", after=after, backend=backend, **where)
    return ms if kind == "decode" else three_digits(ms), backend


def family_peer(op, column):
    found = [row for row in rows(PEERS, ["op", "library", column]) if row["op"] == op and row[column] != "-"]
    return [(row["library"], row[column]) for row in found]


def cpu(case, threads, backend="cpu_simd", column="ns/token-head"):
    return value(CPU, column, case=case, threads=str(threads), backend=backend)


def cpu_peer(library, case, threads):
    return value(PEERS, library, case=case, threads=str(threads))


def slowest_with_slow_gates():
    """By how many percent slow gates make the prefill of a case longer, at the most."""
    ratios = [float(row["ms 2"]) / float(row["ms"]) for row in rows(FLASH, ["case", "ms 2", "goal"])]
    return f"{100 * (max(ratios) - 1):.0f}"


def xeon(target, case, backend="cpu_simd", column="ns/token-head"):
    return value(XEON, column, after=f"FLA_CPU_SIMD_TARGET={target}", case=case, backend=backend)


def dispatch(name):
    return quoted(CPU, rf"{name} +([0-9.]+) ns(?: to second_of_three)?, at most")


def python_overhead(call):
    return f"{float(value(PYTHON, 'overhead', where={'microseconds a call': call})):.1f}"


def wheel(kernels):
    """Megabytes of the wheel with these kernels, and of what pip makes of it."""
    return quoted(WHEEL, rf"kernels  {kernels}(?: \(.*\))?\n  size     ([0-9.]+) MB, installed ([0-9.]+) MB")


def percent(text):
    return f"{float(text.rstrip(' %')):.0f}"


def thousands(text):
    return f"{int(text):,}"


def found(path, pattern):
    """What the groups of a regular expression match in a file of the tree."""
    return re.search(pattern, (ROOT / path).read_text(encoding="utf-8")).groups()


def flash_bars():
    """The largest errors of o and the state that flash_kda's tests allow, those with f16 inputs and with equal keys."""
    return found("tests/backends/flash_kda/accuracy_test.cpp",
                 r"kUsual\{([0-9.e-]+), ([0-9.e-]+)\}, kOfF16\{([0-9.e-]+), ([0-9.e-]+)\}, kRepeatedKeys\{([0-9.e-]+), ([0-9.e-]+)\}")


def numbers():
    """By name, what stands between <!--=name--> and <!--/--> in a text."""
    return {
        "slow_more": slowest_with_slow_gates(),
        "prefill": prefill("B1 T8192 H96", "random"),
        "prefill_slow": prefill("B1 T8192 H96", "slow"),
        "prefill_cudnn": prefill_peer("cuDNN", "B1 T8192 H96", "random"),
        "prefill_cudnn_slow": prefill_peer("cuDNN", "B1 T8192 H96", "slow"),
        "prefill_h8": prefill("B1 T8192 H8", "random"),
        "prefill_h8_cudnn": prefill_peer("cuDNN", "B1 T8192 H8", "random"),
        "prefill_commit": commit(FLASH),
        "scaled_h32": value(FLASH, "with scale=1e-9", H="32"),
        "unscaled_h32": value(FLASH, "ms", after="no chunk is plain", H="32"),
        "training": training("kda", "B1 T8192 H32"),
        "training_peer": training_peer("B1 T8192 H32"),
        "training_commit": commit(BACKWARD),
        "decode_commit": commit(CUDA),
        "tilelang_h64": value(TILELANG, "graph", where={"K = V": "128"}),
        "original_h64": three_digits(value(FAMILY, "graph", op="kda", shape="B=1,T=8192,H=64,K=128,V=128", backend="original")),
        "cpu_commit": commit(CPU),
        "xeon_commit": commit(XEON),
        "xeon_prefill_avx3": xeon("AVX3", "prefill"),
        "xeon_prefill_avx2": xeon("AVX2", "prefill"),
        "xeon_times_avx3": f"{float(xeon('AVX3', 'prefill', column='x original')):.1f}",
        "xeon_times_avx2": f"{float(xeon('AVX2', 'prefill', column='x original')):.1f}",
        "xeon_decode_avx3": f"{float(xeon('AVX3', 'decode', column='x original')):.1f}",
        "xeon_decode_avx2": f"{float(xeon('AVX2', 'decode', column='x original')):.1f}",
        "xeon_dispatch_least": percent(quoted(XEON, r"second_of_three .*OVER +([0-9.]+) ns")),
        "xeon_dispatch_most": percent(quoted(XEON, r"second_of_three .*OVER +[0-9.]+ ns +([0-9.]+) ns")),
        "dispatch_second": dispatch("second_of_three"),
        "dispatch_refused": dispatch("all_refuse"),
        "dispatch_disabled": dispatch("disabled"),
        "dispatch_plan": dispatch("plan"),
        "dispatch_rules": dispatch("rules_20"),
        "dispatch_peer": thousands(quoted(PEERS, r"decorator: ([0-9]+) with positional")),
        "python_call": python_overhead("torch fused_recurrent_kda"),
        "python_call_state": python_overhead("torch fused_recurrent_kda, state in and out"),
        "python_import": percent(quoted(PYTHON, r"median +[0-9.]+ +[0-9.]+ +([0-9.]+)")),
        "repeated_keys_flashkda": value(PEERS, "FlashKDA 1ce47ea", data="equal keys, no decay, beta about 1").split(" / ")[0],
        "bf16_rounding": value(NUMERICS, "error o", data="random", dtype="bf16", backend="original"),
        "repeated_keys_bar": flash_bars()[4],
        "resident_growth": quoted(PYTHON, r"torch .*: \+([0-9]+) after"),
        "wheel_cpu": wheel("of CPUs")[0],
        "wheel_cpu_installed": wheel("of CPUs")[1],
        "wheel_cuda": wheel("of CPUs and CUDA")[0],
        "wheel_cuda_installed": wheel("of CPUs and CUDA")[1],
        "python_calls": thousands(quoted(PYTHON, r"over ([0-9]+) calls")),
    }
