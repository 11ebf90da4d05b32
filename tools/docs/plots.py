"""The plots of README.md and of the documents: small SVG files of bars, made from the kept results."""

import measured
from xml.sax.saxutils import escape

WIDTH, NAMES, BAR, GAP = 560, 168, 16, 5  # the names' column; a bar's height, and what is between two
LIGHT = {"ground": "#ffffff", "text": "#1f2328", "faint": "#59636e", "fla": "#0a58ca", "peer": "#9aa4af"}
DARK = {"ground": "#1e2129", "text": "#e6edf3", "faint": "#9aa4af", "fla": "#6ea8fe", "peer": "#5d6875"}
# An image does not see the page's colours: it has a ground of its own, and follows the reader's setting.
STYLE = """
text { font: 13px sans-serif; fill: %(text)s } .title { font-size: 14px; font-weight: bold } .note, .group { fill: %(faint)s }
.ground { fill: %(ground)s } .fla { fill: %(fla)s } .peer { fill: %(peer)s }
"""


def style():
    return f"<style>{STYLE % LIGHT}@media (prefers-color-scheme: dark) {{{STYLE % DARK}}}</style>"


def bars(title, groups, unit, note=""):
    """groups: (name, [(series, number as text)]). Bars are to scale within a group; series that begin with fla stand out."""
    lines, y = [], 26
    lines.append(f'<text class="title" x="12" y="{y}">{escape(title)}</text>')
    for name, series in groups:
        series = [(each, text) for each, text in series if text is not None]
        most = max(float(text.replace(",", "")) for _, text in series)
        y += 24
        if name:
            lines.append(f'<text class="group" x="12" y="{y}">{escape(name)}</text>')
            y += 8
        for each, text in series:
            width = (WIDTH - NAMES - 100) * float(text.replace(",", "")) / most
            kind = "fla" if each.split()[0] == "fla" else "peer"
            lines.append(f'<text x="{NAMES - 8}" y="{y + 12}" text-anchor="end">{escape(each)}</text>')
            lines.append(f'<rect class="{kind}" x="{NAMES}" y="{y}" width="{max(width, 1):.1f}" height="{BAR}"/>')
            lines.append(f'<text x="{NAMES + max(width, 1) + 6:.1f}" y="{y + 12}">{escape(text)} {unit}</text>')
            y += BAR + GAP
    for line in note.splitlines():
        y += 20
        lines.append(f'<text class="note" x="12" y="{y}">{escape(line)}</text>')
    height = y + 14
    body = "\n".join([f'<rect class="ground" width="{WIDTH}" height="{height}" rx="6"/>', *lines])
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
            f'aria-label="{escape(title)}">\n{style()}\n{body}\n</svg>\n')


def prefill(case, gates):
    peers = [(library, measured.prefill_peer(library, case, gates)) for library in measured.PREFILL_PEERS]
    return [("fla", measured.prefill(case, gates)), *peers]


def cpu(case, threads=1):
    peers = [(library, measured.cpu_peer(library, case, threads)) for library in ("ik_llama.cpp", "ggml")]
    return [("fla", measured.cpu(case, threads)), *peers]


def decode(case):
    return [("fla", measured.decode(case)), ("flash-linear-attention", measured.decode_peer(case))]


def training(case):
    return [("fla", measured.training("kda", case)), ("flash-linear-attention", measured.training_peer(case))]


def heads(case):
    """B1 T8192 H96 as people say it."""
    tokens, _, number = case.removeprefix("B1 ").rpartition(" H")
    return f"{tokens.replace('T', 'T = ')}, {number} heads"


def family_groups():
    for op in OPS:
        ours, backend = measured.family(op, "prefill")
        yield op, [(f"fla ({backend})", ours), *measured.family_peer(op, "forward")]


OPS = ["kda", "gated_delta_rule", "delta_rule", "gla", "simple_gla", "retention", "lightning_attn", "linear_attn"]


def stacked(*parts):
    """Several plots as one picture."""
    inner, y = [], 0
    for part in parts:
        head, _, rest = part.partition("</style>\n")
        height = int(head.split('height="')[1].split('"')[0])
        inner.append(f'<g transform="translate(0 {y})">\n{rest.removesuffix("</svg>" + chr(10))}</g>')
        y += height
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" role="img" '
            f'aria-label="fla beside other libraries">\n{style()}\n' + "\n".join(inner) + "\n</svg>\n")


def plots():
    """By file name."""
    cases = measured.prefill_cases()
    slow = [case for case in cases if measured.prefill_peer("cuDNN", case, "slow")]
    both = [case for case in cases if any(measured.prefill_peer(library, case, "random") for library in measured.PREFILL_PEERS)]
    decodes = ["decode N1 H32", "decode N8 H32", "decode N32 H32", "decode N128 H32", "decode N256 H64"]
    says = "Shorter is better; bars are to scale within a group."
    gpu = [("forward, T = 8192, 96 heads, random gates", prefill("B1 T8192 H96", "random")),
           ("the same, slow gates", prefill("B1 T8192 H96", "slow")),
           ("forward, T = 8192, 8 heads, random gates", prefill("B1 T8192 H8", "random")),
           ("forward and backward, T = 8192, 32 heads", training("B1 T8192 H32")),
           ("decode, 32 requests, 32 heads", decode("decode N32 H32"))]
    of_cpu = [("prefill", cpu("prefill")), ("decode, states out of cache", cpu("decode"))]
    return {
        "peers.svg": stacked(bars("Kimi Delta Attention on one NVIDIA H200, bf16, K = V = 128", gpu, "ms"),
                             bars("on one core of a Neoverse-V1, f32, a token of a head", of_cpu, "ns", says)),
        "prefill_random.svg": bars("KDA forward on an H200, random gates", [(heads(case), prefill(case, "random")) for case in both], "ms", says),
        "prefill_slow.svg": bars("KDA forward on an H200, slow gates", [(heads(case), prefill(case, "slow")) for case in slow], "ms", says),
        "decode.svg": bars("KDA decode on an H200, in a CUDA graph",
                           [(f"{case.split()[1][1:]} requests, {case.split()[2][1:]} heads", decode(case)) for case in decodes], "ms", says),
        "training.svg": bars("KDA forward and backward on an H200",
                             [(case.replace(" H", ", H = "), training(case)) for case in ("B1 T8192 H32", "B4 T4096 H16", "mixed lengths H32")],
                             "ms", says),
        "family.svg": bars("Prefill of every op on an H200, T = 8192", family_groups(), "ms", says),
        "cpu.svg": bars("KDA on a Neoverse-V1, f32, a token of a head",
                        [(f"{case}, {threads} thread{'s' * (threads > 1)}", cpu(case, threads))
                         for case in ("prefill", "decode") for threads in (1, 2)], "ns", says),
    }
