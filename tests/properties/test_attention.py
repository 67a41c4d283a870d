"""Attention against float: every difference is within the bound of `bounds.attention`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from . import bounds
from .bounds import F64, Approx, exact, f16
from .harness import Compiled, Net, compile_net
from .strategies import F32, SAMPLES, SEEDS, half, inside, on_grid

TOKENS = st.sampled_from([1, 2, 5, 8, 9, 31, 64, 77, 101, 150])
KEYS = st.sampled_from([1, 3, 8, 9, 31, 64, 77, 150, 301])
HEADS = st.sampled_from([1, 2, 3])
BITS = st.sampled_from([8, 15])


def head_int8(q: Approx, heads: int) -> Approx:
    """Queries: dynamic for each token and head, of the float16 value."""
    b, t, n = q.y.shape
    split = f16(q).map(lambda a: a.reshape(b, t, heads, -1))
    return bounds.dynamic_int8(split).map(lambda a: a.reshape(b, t, n))


def key_int8(k: Approx, heads: int) -> Approx:
    """Keys: one static scale a head, over all samples."""
    b, t, n = k.y.shape
    split = k.map(lambda a: a.reshape(b, t, heads, -1))
    return bounds.static_int8(split, np.abs(split.y).max((0, 1, 3))[:, None]).map(lambda a: a.reshape(b, t, n))


def smoothing(q: F64, k: F64) -> F64:
    """What queries are divided by and keys multiplied, in the weights: sqrt(max |q| / max |k|) for each channel."""
    q_max, k_max = (np.maximum(np.abs(x).max((0, 1)), 1e-6) for x in (q, k))
    return np.clip(np.sqrt(q_max / k_max), 1 / 16, 16)


def cross(
    arch: str, q: F32, k: F32, v: F32, heads: int, scale: float, block: int, bits: int, causal: bool = False
) -> Compiled:
    """Attention of three inputs; linears with the identity as weight quantise them."""
    net = Net(len(q))
    values = [
        net.linear(net.input(name, x.shape[1], x.shape[2]), net.param(np.eye(x.shape[2])))
        for name, x in (("q", q), ("k", k), ("v", v))
    ]
    net.returns(net.attention(*values, heads, scale, key_block=block, prob_bits=bits, causal=causal))
    return compile_net(net, arch, {"q": q, "k": k, "v": v})


def block_of(compiled: Compiled) -> int:
    """The key block that the compiler chose."""
    (op,) = [op for op in compiled.emitted.entries[0].qops.values() if op.name == "dpu.q.attention"]
    return int(op.properties["key_block"].value.data)  # type: ignore[attr-defined]


@settings(max_examples=30)
@given(
    arch=st.sampled_from([("dpu_tiny", 8), ("dpu_tiny", 40), ("dpu_f2", 64), ("dpu_32tops", 64), ("dpu_f2", 128)]),
    b=SAMPLES,
    t=TOKENS,
    keys=KEYS,
    heads=HEADS,
    block=st.sampled_from([64, 128, 1024]),
    bits=BITS,
    seed=SEEDS,
)
def test_exact_scores(
    arch: tuple[str, int], b: int, t: int, keys: int, heads: int, block: int, bits: int, seed: int
) -> None:
    """Queries and keys on their int8 grids: what is left is the probabilities' and the values' quantisers.

    Every channel of both has the same maximum, so smoothing leaves them as they are.
    """
    name, d = arch
    rng = np.random.default_rng(seed)
    n = heads * d
    q = on_grid(rng, (b, t, heads, d)).reshape(b, t, n)
    k = on_grid(rng, (b, keys, heads, d)).reshape(b, keys, n)
    v = on_grid(rng, (b, keys, n))
    scale = float(np.float32(4 / (127**2 * 2.0**-12 * d**0.5) * 3))
    compiled = cross(name, q, k, v, heads, scale, block, bits)
    values = bounds.centred_int8(exact(v))
    want = bounds.attention(exact(q), exact(k), values, heads, scale, block_of(compiled), bits)
    inside(f"attention {bits} bits, exact scores", compiled.run()["y0"], want)


@settings(max_examples=15)
@given(
    arch=st.sampled_from([("dpu_tiny", 8), ("dpu_tiny", 16), ("dpu_f2", 64), ("dpu_32tops", 64)]),
    b=SAMPLES,
    t=TOKENS,
    heads=HEADS,
    bits=BITS,
    seed=SEEDS,
)
def test_causal(arch: tuple[str, int], b: int, t: int, heads: int, bits: int, seed: int) -> None:
    """A token sees itself and earlier ones; scores are exact."""
    name, d = arch
    rng = np.random.default_rng(seed)
    q, k = (on_grid(rng, (b, t, heads, d)).reshape(b, t, -1) for _ in range(2))
    v = on_grid(rng, (b, t, heads * d))
    scale = float(np.float32(12 / (127**2 * 2.0**-12 * d**0.5)))
    compiled = cross(name, q, k, v, heads, scale, 1024, bits, causal=True)
    want = bounds.attention(exact(q), exact(k), bounds.centred_int8(exact(v)), heads, scale, 1024, bits, causal=True)
    inside(f"attention {bits} bits, causal", compiled.run()["y0"], want)


@settings(max_examples=15)
@given(
    arch=st.sampled_from([("dpu_tiny", 1), ("dpu_tiny", 5), ("dpu_f2", 8), ("dpu_f2", 40), ("dpu_32tops", 63)]),
    b=SAMPLES,
    t=TOKENS,
    keys=KEYS,
    bits=BITS,
    seed=SEEDS,
)
def test_one_narrow_head(arch: tuple[str, int], b: int, t: int, keys: int, bits: int, seed: int) -> None:
    """One head that fills a part of one column tile; scores are exact."""
    name, d = arch
    rng = np.random.default_rng(seed)
    q, k, v = on_grid(rng, (b, t, d)), on_grid(rng, (b, keys, d)), on_grid(rng, (b, keys, d))
    scale = float(np.float32(12 / (127**2 * 2.0**-12 * d**0.5)))
    compiled = cross(name, q, k, v, 1, scale, 1024, bits)
    want = bounds.attention(exact(q), exact(k), bounds.centred_int8(exact(v)), 1, scale, block_of(compiled), bits)
    inside(f"attention {bits} bits, narrow", compiled.run()["y0"], want)


@settings(max_examples=25)
@given(
    arch=st.sampled_from([("dpu_tiny", 8), ("dpu_tiny", 16), ("dpu_f2", 64), ("dpu_32tops", 64)]),
    b=SAMPLES,
    t=TOKENS,
    heads=HEADS,
    bits=BITS,
    norm=st.booleans(),
    seed=SEEDS,
)
def test_self_attention(arch: tuple[str, int], b: int, t: int, heads: int, bits: int, norm: bool, seed: int) -> None:
    """Three sections of one linear, with LayerNorm as prologue or without, then attention and the output linear.

    Errors of three linears go through the scores, so the scale is small: the bound is exponential in them.
    """
    name, d = arch
    rng = np.random.default_rng(seed)
    n = heads * d
    x = on_grid(rng, (b, t, n))
    wq, wk, wv, wo = (half(rng.standard_normal((n, n)) / n**0.5) for _ in range(4))
    gamma, beta = half(1 + rng.standard_normal(n) / 4), half(rng.standard_normal(n) / 4)
    scale = float(np.float32(0.25 / d**0.5))
    net = Net(b)
    h = net.input("x", t, n)
    source = exact(x)
    if norm:
        h = net.layer_norm(h, net.param(gamma), net.param(beta))
        source = bounds.layer_norm(x.astype(np.float64), gamma, beta, 1e-5, 8 if name == "dpu_tiny" else 64)
    q, k, v = (net.linear(h, net.param(w)) for w in (wq, wk, wv))
    net.returns(net.linear(net.attention(q, k, v, heads, scale, prob_bits=bits), net.param(wo)))
    compiled = compile_net(net, name, {"x": x})
    f = smoothing(source.y @ wq, source.y @ wk)
    want = bounds.attention(
        head_int8(bounds.linear(source, wq / f), heads),
        key_int8(bounds.linear(source, wk * f), heads),
        bounds.centred_int8(f16(bounds.linear(source, wv))),
        heads,
        scale,
        block_of(compiled),
        bits,
    )
    y = bounds.linear(want, wo)
    inside(f"self attention {bits} bits", compiled.run()["y0"], y if t == 1 else f16(y))


@pytest.mark.parametrize(("arch", "d", "tokens"), [("dpu_f2", 64, 4096), ("dpu_tiny", 8, 4096)])
def test_long(arch: str, d: int, tokens: int) -> None:
    """A head of the SDXL UNet's largest self-attention, as long and on one array as wide; 53,000 words on the other."""
    rng = np.random.default_rng(0)
    q, k, v = (on_grid(rng, (1, tokens, d)) for _ in range(3))
    scale = float(np.float32(12 / (127**2 * 2.0**-12 * d**0.5)))
    compiled = cross(arch, q, k, v, 1, scale, 1024, 8)
    y = compiled.run()["y0"]
    rows = slice(0, tokens, tokens // 256)  # the reference of every row would take longer than the program
    want = bounds.attention(exact(q[:, rows]), exact(k), bounds.centred_int8(exact(v)), 1, scale, block_of(compiled), 8)
    inside("attention long", y[:, rows], want)
