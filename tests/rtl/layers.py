"""Compiled layers of every kind, their sizes in columns of the array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..properties.harness import Net, Value

Rng = np.random.Generator
Build = Callable[[Net, Rng, int], dict[str, Any]]
"""Adds a layer to a net for an array of this many columns; the inputs."""


def _rows(rng: Rng, t: int, c: int, b: int = 1) -> Any:
    return rng.standard_normal((b, t, c)) * np.exp(np.clip(rng.standard_normal((b, t, 1)), -2, 2))


def _matrix(net: Net, rng: Rng, k: int, n: int) -> Value:
    return net.param(rng.standard_normal((k, n)) / k**0.5)


def _kernel(net: Net, rng: Rng, n: int, c: int, k: int = 3) -> Value:
    return net.param(rng.standard_normal((n, c, k, k)) / (c * k * k) ** 0.5)


def _vector(net: Net, rng: Rng, n: int, mean: float = 0.0) -> Value:
    return net.param(mean + rng.standard_normal(n) / 4)


def conv(net: Net, rng: Rng, c: int) -> dict[str, Any]:
    n, k = c + 3, 2 * c - 3
    x, r = net.input("x", 30, k), net.input("r", 30, n)
    net.returns(net.conv(x, _kernel(net, rng, n, k), (6, 5), bias=_vector(net, rng, n), residual=r))
    return {"x": _rows(rng, 30, k), "r": _rows(rng, 30, n)}


def conv_stride(net: Net, rng: Rng, c: int) -> dict[str, Any]:
    """Stride 2 with equal and unequal padding."""
    x = net.input("x", 42, c)
    y = net.conv(x, _kernel(net, rng, c, c), (7, 6), stride=2)
    net.returns(y, net.conv(x, _kernel(net, rng, c - 1, c), (7, 6), stride=2, pad=(0, 0, 1, 1)))
    return {"x": _rows(rng, 42, c)}


def conv_upsample(net: Net, rng: Rng, c: int) -> dict[str, Any]:
    net.returns(net.conv(net.input("x", 12, c), _kernel(net, rng, c, c), (4, 3), upsample=True))
    return {"x": _rows(rng, 12, c)}


def conv_sources(net: Net, rng: Rng, c: int) -> dict[str, Any]:
    """Two sources, a time embedding for each of two images, 1x1 behind."""
    x, x2, t = net.input("x", 12, c), net.input("x2", 12, c - 3), net.input("t", 1, c)
    temb = net.linear(t, _matrix(net, rng, c, c + 1))
    y = net.conv(x, _kernel(net, rng, c + 1, 2 * c - 3), (4, 3), x2=x2, temb=temb)
    net.returns(net.conv(y, _kernel(net, rng, c, c + 1, 1), (4, 3), pad=(0, 0, 0, 0)))
    return {"x": _rows(rng, 12, c, 2), "x2": _rows(rng, 12, c - 3, 2), "t": _rows(rng, 1, c, 2)}


def linear(net: Net, rng: Rng, c: int) -> dict[str, Any]:
    """A scale a token, found while the tensor is read; bias and residual."""
    k, n = 2 * c + 1, c + 2
    x, r = net.input("x", 21, k), net.input("r", 21, n)
    net.returns(net.linear(x, _matrix(net, rng, k, n), bias=_vector(net, rng, n), residual=r))
    return {"x": _rows(rng, 21, k), "r": _rows(rng, 21, n)}


def linear_wide(net: Net, rng: Rng, c: int) -> dict[str, Any]:
    """GEMM over several tiles of every dimension."""
    net.returns(net.linear(net.input("x", 2 * c + 5, 3 * c), _matrix(net, rng, 3 * c, 2 * c + 3)))
    return {"x": _rows(rng, 2 * c + 5, 3 * c)}


def activations(net: Net, rng: Rng, c: int) -> dict[str, Any]:
    x = net.input("x", 9, c)
    net.returns(*(net.linear(x, _matrix(net, rng, c, c), act=act) for act in ("silu", "gelu")))
    return {"x": _rows(rng, 9, c)}


def vector(net: Net, rng: Rng, c: int) -> dict[str, Any]:
    """One token, as time embeddings have: float32 throughout."""
    h = net.linear(net.input("x", 1, c), _matrix(net, rng, c, 2 * c), bias=_vector(net, rng, 2 * c), act="silu")
    net.returns(net.linear(h, _matrix(net, rng, 2 * c, c)))
    return {"x": _rows(rng, 1, c)}


def geglu(net: Net, rng: Rng, c: int) -> dict[str, Any]:
    """A feed-forward block on LayerNorm; the second linear quantises with the first one's row maxima."""
    x = net.input("x", 13, c)
    h = net.layer_norm(x, _vector(net, rng, c, 1), _vector(net, rng, c))
    h = net.linear(h, _matrix(net, rng, c, 4 * c), bias=_vector(net, rng, 4 * c), geglu=True)
    net.returns(net.linear(h, _matrix(net, rng, 2 * c, c), residual=x))
    return {"x": _rows(rng, 13, c)}


def self_attention(net: Net, rng: Rng, c: int, bits: int = 8) -> dict[str, Any]:
    x = net.input("x", 19, 2 * c)
    h = net.layer_norm(x, _vector(net, rng, 2 * c, 1), _vector(net, rng, 2 * c))
    q, k, v = (net.linear(h, _matrix(net, rng, 2 * c, 2 * c)) for _ in range(3))
    y = net.attention(q, k, v, 2, c**-0.5, prob_bits=bits)
    net.returns(net.linear(y, _matrix(net, rng, 2 * c, 2 * c), residual=x))
    return {"x": _rows(rng, 19, 2 * c)}


def self_attention_15(net: Net, rng: Rng, c: int) -> dict[str, Any]:
    """Probabilities of 15 bits in two planes."""
    return self_attention(net, rng, c, 15)


def cross_attention(net: Net, rng: Rng, c: int) -> dict[str, Any]:
    """Keys in several blocks."""
    x, text = net.input("x", 11, c), net.input("text", 85, 2 * c)
    q = net.linear(x, _matrix(net, rng, c, c))
    k, v = (net.linear(text, _matrix(net, rng, 2 * c, c)) for _ in range(2))
    net.returns(net.attention(q, k, v, 1, c**-0.5, key_block=64))
    return {"x": _rows(rng, 11, c), "text": _rows(rng, 85, 2 * c)}


def causal_attention(net: Net, rng: Rng, c: int) -> dict[str, Any]:
    x = net.input("x", 17, c)
    q, k, v = (net.linear(x, _matrix(net, rng, c, c)) for _ in range(3))
    net.returns(net.attention(q, k, v, 1, c**-0.5, causal=True))
    return {"x": _rows(rng, 17, c)}


def group_norm(net: Net, rng: Rng, c: int) -> dict[str, Any]:
    """As a residual block has it: GroupNorm and SiLU between convolutions."""
    y = net.conv(net.input("x", 20, c), _kernel(net, rng, 2 * c, c), (5, 4))
    y = net.group_norm(y, _vector(net, rng, 2 * c, 1), _vector(net, rng, 2 * c), 4, act="silu")
    net.returns(net.conv(y, _kernel(net, rng, c, 2 * c), (5, 4)), net.silu(net.input("z", 7, c)))
    return {"x": _rows(rng, 20, c), "z": _rows(rng, 7, c)}


LAYERS: dict[str, Build] = {
    f.__name__: f
    for f in (
        conv,
        conv_stride,
        conv_upsample,
        conv_sources,
        linear,
        linear_wide,
        activations,
        vector,
        geglu,
        self_attention,
        self_attention_15,
        cross_attention,
        causal_attention,
        group_norm,
    )
}
