"""Layers that no rule of the timing model was found on: sizes and operations drawn from seeds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

Rng = np.random.Generator
CHANNELS = (24, 40, 48, 64, 72, 96, 120, 160)
SIDES = (5, 7, 9, 11, 12, 15, 18)


def _tensor(*shape: int) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf16>"


class _Net:
    """Lines of a function of one input."""

    def __init__(self, rng: Rng) -> None:
        self.rng, self.lines, self.count = rng, list[str](), 0

    def pick(self, some: tuple[int, ...]) -> int:
        return int(self.rng.choice(some))

    def param(self, *shape: int) -> str:
        self.count += 1
        self.lines.append(f'  %p{self.count} = dpu.param "p{self.count}" : {_tensor(*shape)}')
        return f"%p{self.count}"

    def op(self, text: str, operands: str, result: str) -> str:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text} : {operands} -> {result}")
        return f"%v{self.count}"

    def linear(self, x: str, t: int, k: int, n: int, more: str = "", width: int = 0) -> str:
        out = _tensor(1, t, width or n)
        return self.op(f"dpu.linear {x}, {self.param(k, n)}{more}", f"{_tensor(1, t, k)}, {_tensor(k, n)}", out)

    def conv(self, x: str, size: tuple[int, int], k: int, n: int) -> str:
        t = size[0] * size[1]
        pad = "{pad = array<i64: 1, 1, 1, 1>}"
        text = f"dpu.conv {x}, {self.param(n, k, 3, 3)} size {size[0]} x {size[1]} stride 1 {pad}"
        return self.op(text, f"{_tensor(1, t, k)}, {_tensor(n, k, 3, 3)}", _tensor(1, t, n))

    def layer_norm(self, x: str, t: int, c: int) -> str:
        v = _tensor(c)
        text = f"dpu.layer_norm {x}, {self.param(c)}, {self.param(c)} eps 1.0e-5 : f64"
        return self.op(text, f"{_tensor(1, t, c)}, {v}, {v}", _tensor(1, t, c))

    def text(self, t: int, c: int, y: str, n: int) -> str:
        body = "\n".join(self.lines)
        return (
            f'func.func @net(%x: {_tensor(1, t, c)} {{dpu.name = "x"}}) -> ({_tensor(1, t, n)} {{dpu.name = "y"}}) {{\n'
            f"{body}\n  func.return {y} : {_tensor(1, t, n)}\n}}\n"
        )


def _convolutions(rng: Rng) -> str:
    """A residual block: convolution, GroupNorm with SiLU, convolution."""
    net = _Net(rng)
    size, k, n = (net.pick(SIDES), net.pick(SIDES)), net.pick(CHANNELS), net.pick(CHANNELS)
    t, v = size[0] * size[1], _tensor(n)
    h = net.conv("%x", size, k, n)
    text = f'dpu.group_norm {h}, {net.param(n)}, {net.param(n)} groups 4 eps 1.0e-5 : f64 act "silu"'
    h = net.op(text, f"{_tensor(1, t, n)}, {v}, {v}", _tensor(1, t, n))
    return net.text(t, k, net.conv(h, size, n, n), n)


def _attention(rng: Rng) -> str:
    """LayerNorm, self attention, projection."""
    net = _Net(rng)
    heads = net.pick((1, 2, 3))
    c, t = heads * net.pick((32, 48, 64)), net.pick(SIDES) * net.pick(SIDES)
    h = net.layer_norm("%x", t, c)
    q, k, v = (net.linear(h, t, c, c) for _ in range(3))
    x = _tensor(1, t, c)
    text = f"dpu.attention {q}, {k}, {v} heads {heads} scale {(c // heads) ** -0.5!r} key_block 64 prob_bits 8 : i64"
    return net.text(t, c, net.linear(net.op(text, f"{x}, {x}, {x}", x), t, c, c), c)


def _feed_forward(rng: Rng) -> str:
    """LayerNorm, GEGLU, linear."""
    net = _Net(rng)
    c, t = net.pick(CHANNELS), net.pick(SIDES) * net.pick(SIDES)
    h = net.linear(net.layer_norm("%x", t, c), t, c, 4 * c, " geglu", 2 * c)
    return net.text(t, c, net.linear(h, t, 2 * c, c), c)


def _linears(rng: Rng) -> str:
    """Three linears of unequal widths."""
    net = _Net(rng)
    widths, t = [net.pick(CHANNELS) for _ in range(4)], net.pick(SIDES) * net.pick(SIDES)
    x = "%x"
    for k, n in pairwise(widths):
        x = net.linear(x, t, k, n)
    return net.text(t, widths[0], x, widths[-1])


KINDS: dict[str, Callable[[Rng], str]] = {
    "convolutions": _convolutions,
    "attention": _attention,
    "feed forward": _feed_forward,
    "linears": _linears,
}


def net(kind: str, seed: int) -> str:
    """The text of a net of one of `KINDS`, sizes drawn by `seed`."""
    return KINDS[kind](np.random.default_rng([seed, *kind.encode()]))
