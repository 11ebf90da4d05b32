#!/usr/bin/env python3
"""Trains two layers of Kimi Delta Attention to recall: a line of keys and values, then some of the keys again, and the
model names the values. Once with fla_cpp's kernels and their gradients, once with the plain recurrence that torch
differentiates, from the same start on the same data: the two losses go down together.

    python3 tools/examples/train_recall.py [--steps 300] [--svg losses.svg]"""

import argparse
import time

import fla_cpp
import torch

PAIRS, QUERIES, NAMES, WIDTH, HEADS, CHANNELS = 8, 8, 16, 64, 2, 16


def by_fla_cpp(q, k, v, g, beta):
    return fla_cpp.chunk_kda(q, k, v, g, beta, use_qk_l2norm_in_kernel=True)[0]


def by_recurrence(q, k, v, g, beta):
    """The formula, token by token."""
    q, k = (x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6) for x in (q, k))
    S, outputs = q.new_zeros(q.shape[0], HEADS, CHANNELS, v.shape[-1]), []
    for t in range(q.shape[1]):
        S = S * g[:, t].exp().unsqueeze(-1)
        left = v[:, t] - torch.einsum("bhk,bhkv->bhv", k[:, t], S)
        S = S + k[:, t].unsqueeze(-1) * (beta[:, t].unsqueeze(-1) * left).unsqueeze(-2)
        outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t], S) * CHANNELS**-0.5)
    return torch.stack(outputs, 1)


class Layer(torch.nn.Module):
    """Attention over the token and the one before it, and a small network, each added to what comes in."""

    def __init__(self, attention):
        super().__init__()
        self.attention = attention
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2))
        self.projection = torch.nn.Linear(2 * WIDTH, HEADS * (4 * CHANNELS + 1))
        self.out = torch.nn.Linear(HEADS * CHANNELS, WIDTH)
        self.network = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.GELU(), torch.nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, x):
        y = self.norms[0](x)
        before = torch.nn.functional.pad(y, (0, 0, 1, 0))[:, :-1]
        y = self.projection(torch.cat([y, before], -1)).unflatten(-1, (HEADS, 4 * CHANNELS + 1))
        q, k, v, g, beta = y.split([CHANNELS] * 4 + [1], -1)
        g = -0.1 * torch.nn.functional.softplus(g)
        x = x + self.out(self.attention(q, k, v, g, beta.squeeze(-1).sigmoid()).flatten(-2))
        return x + self.network(self.norms[1](x))


def model(attention):
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Embedding(2 * NAMES, WIDTH), Layer(attention), Layer(attention), torch.nn.Linear(WIDTH, NAMES)
    )


def batch(random, size=32):
    """Tokens [size, 2 PAIRS + QUERIES], and the values that the last of them ask for."""
    keys = torch.rand(size, NAMES, generator=random).argsort(-1)[:, :PAIRS]
    values = torch.randint(NAMES, (size, PAIRS), generator=random)
    asked = torch.randint(PAIRS, (size, QUERIES), generator=random)
    line = torch.stack([keys, values + NAMES], -1).flatten(-2)
    return torch.cat([line, keys.gather(1, asked)], -1), values.gather(1, asked)


def losses_of(attention, steps):
    trained, random = model(attention), torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(trained.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        tokens, wanted = batch(random)
        logits = trained(tokens)[:, -QUERIES:]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def picture(curves):
    """The curves as an SVG."""
    width, height, most = 640, 320, max(max(losses) for losses, _ in curves.values())

    def points(losses):
        return " ".join(
            f"{40 + (width - 60) * i / max(1, len(losses) - 1):.1f},{height - 30 - (height - 60) * loss / most:.1f}"
            for i, loss in enumerate(losses)
        )

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<path d="M40 20V{height - 30}H{width - 20}" fill="none" stroke="gray"/>',
        f'<text x="4" y="24">{most:.1f}</text><text x="24" y="{height - 26}">0</text>',
        f'<text x="{width - 60}" y="{height - 12}">{max(len(losses) for losses, _ in curves.values())} steps</text>',
    ]
    for n, (name, (losses, style)) in enumerate(curves.items()):
        lines.append(f'<polyline points="{points(losses)}" fill="none" {style}/>')
        lines.append(f'<line x1="360" x2="390" y1="{30 + 18 * n}" y2="{30 + 18 * n}" {style}/>')
        lines.append(f'<text x="398" y="{34 + 18 * n}">{name}</text>')
    return "\n".join([*lines, "</svg>\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--svg", help="where the picture of both losses goes")
    options = parser.parse_args()
    curves = {}
    for name, attention, style in (
        ("the recurrence, by torch's autograd", by_recurrence, 'stroke="orange" stroke-width="4"'),
        ("fla_cpp.chunk_kda", by_fla_cpp, 'stroke="navy" stroke-width="1.5"'),
    ):
        begin = time.perf_counter()
        losses = losses_of(attention, options.steps)
        curves[name] = losses, style
        print(f"{name}: loss {losses[0]:.4f} -> {losses[-1]:.4f} in {time.perf_counter() - begin:.1f} s")
    if options.svg:
        with open(options.svg, "w") as file:
            file.write(picture(curves))


if __name__ == "__main__":
    main()
