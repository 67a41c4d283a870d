"""Linears against float: every difference is within the bound of their quantisers (`bounds.py`)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from . import bounds
from .bounds import Approx, exact, f16
from .harness import Net, compile_net
from .strategies import ARCHES, CHANNELS, F32, SAMPLES, SEEDS, TOKENS, half, inside, on_grid


def weights(rng: np.random.Generator, k: int, n: int) -> F32:
    """Columns of different sizes."""
    return half(rng.standard_normal((k, n)) / k**0.5 * np.exp(np.clip(rng.standard_normal(n), -2, 2)))


def tokens(rng: np.random.Generator, b: int, t: int, k: int) -> F32:
    """Rows of different sizes, one of them zero."""
    x = rng.standard_normal((b, t, k)) * np.exp(np.clip(rng.standard_normal((b, t, 1)), -2, 2))
    x[0, t // 2] = 0
    return half(x)


@settings(max_examples=40)
@given(arch=ARCHES, b=SAMPLES, t=TOKENS, k=CHANNELS, n=CHANNELS, bias=st.booleans(), seed=SEEDS)
def test_linear(arch: str, b: int, t: int, k: int, n: int, bias: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, w, v = tokens(rng, b, t, k), weights(rng, k, n), half(rng.standard_normal(n))
    net = Net(b)
    net.returns(net.linear(net.input("x", t, k), net.param(w), bias=net.param(v) if bias else None))
    y = compile_net(net, arch, {"x": x}).run()["y0"]
    want = bounds.linear(exact(x), w, v if bias else None)
    inside("linear", y, want if t == 1 else f16(want))


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("act", ["", "silu", "gelu", "quick_gelu"])
@settings(max_examples=8)
@given(arch=ARCHES, b=SAMPLES, t=TOKENS, k=CHANNELS, n=CHANNELS, seed=SEEDS)
def test_activation_and_residual(
    arch: str, b: int, t: int, k: int, n: int, seed: int, act: str, residual: bool
) -> None:
    rng = np.random.default_rng(seed)
    x, w, r = tokens(rng, b, t, k), weights(rng, k, n), half(rng.standard_normal((b, t, n)))
    net = Net(b)
    rest = net.input("r", t, n) if residual else None
    net.returns(net.linear(net.input("x", t, k), net.param(w), act=act, residual=rest))
    y = compile_net(net, arch, {"x": x, "r": r}).run()["y0"]
    want = bounds.linear(exact(x), w, None, act, exact(r) if residual else None)
    inside(f"linear {act}{' residual' if residual else ''}", y, want if t == 1 else f16(want))


@settings(max_examples=25)
@given(arch=ARCHES, b=SAMPLES, t=TOKENS, k1=CHANNELS, k2=CHANNELS, n=CHANNELS, seed=SEEDS)
def test_two_sources(arch: str, b: int, t: int, k1: int, k2: int, n: int, seed: int) -> None:
    """One scale for both sources of a token, from the larger maximum."""
    rng = np.random.default_rng(seed)
    x, x2, w = tokens(rng, b, t, k1), half(tokens(rng, b, t, k2) * 3), weights(rng, k1 + k2, n)
    net = Net(b)
    a, c = net.input("x", t, k1), net.input("x2", t, k2)
    net.returns(net.linear(a, net.param(w), x2=c))
    y = compile_net(net, arch, {"x": x, "x2": x2}).run()["y0"]
    want = bounds.linear(bounds.concat(exact(x), exact(x2)), w)
    inside("linear two sources", y, want if t == 1 else f16(want))


@settings(max_examples=30)
@given(arch=ARCHES, b=SAMPLES, t=TOKENS, k=CHANNELS, n=CHANNELS, supplied=st.booleans(), seed=SEEDS)
def test_layer_norm(arch: str, b: int, t: int, k: int, n: int, supplied: bool, seed: int) -> None:
    """LayerNorm as prologue, its statistics supplied by the producer (a linear that passes x through) or its own."""
    rng = np.random.default_rng(seed)
    x = on_grid(rng, (b, t, k), -1) + half(0)
    gamma, beta, w = half(1 + rng.standard_normal(k) / 4), half(rng.standard_normal(k)), weights(rng, k, n)
    net = Net(b)
    h = net.input("x", t, k)
    if supplied:
        h = net.linear(h, net.param(np.eye(k)))
    net.returns(net.linear(net.layer_norm(h, net.param(gamma), net.param(beta)), net.param(w)))
    compiled = compile_net(net, arch, {"x": x})
    normal = bounds.layer_norm(x.astype(np.float64), gamma, beta, 1e-5, compiled.arch.cols)
    want = bounds.linear(normal, w)
    inside("layer_norm linear", compiled.run()["y0"], want if t == 1 else f16(want))


@settings(max_examples=25)
@given(arch=ARCHES, b=SAMPLES, t=TOKENS, k=CHANNELS, n=CHANNELS, seed=SEEDS)
def test_geglu(arch: str, b: int, t: int, k: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, w, v = half(tokens(rng, b, t, k) / 8), weights(rng, k, 2 * n), half(rng.standard_normal(2 * n))
    net = Net(b)
    net.returns(net.linear(net.input("x", t, k), net.param(w), bias=net.param(v), geglu=True))
    y = compile_net(net, arch, {"x": x}).run()["y0"]
    inside("geglu", y, f16(bounds.geglu(exact(x), w, v)))


@settings(max_examples=20)
@given(arch=ARCHES, b=SAMPLES, t=TOKENS, k=CHANNELS, n=CHANNELS, gate=st.booleans(), seed=SEEDS)
def test_feed_forward(arch: str, b: int, t: int, k: int, n: int, gate: bool, seed: int) -> None:
    """The second linear quantises with the row maximum that the first one left."""
    rng = np.random.default_rng(seed)
    x, w1, w2 = half(tokens(rng, b, t, k) / 8), weights(rng, k, 2 * n if gate else n), weights(rng, n, k)
    v = half(rng.standard_normal(w1.shape[1]))
    net = Net(b)
    h = net.linear(net.input("x", t, k), net.param(w1), bias=net.param(v), geglu=gate)
    net.returns(net.linear(h, net.param(w2)))
    y = compile_net(net, arch, {"x": x}).run()["y0"]
    hidden = f16(bounds.geglu(exact(x), w1, v) if gate else bounds.linear(exact(x), w1, v))
    want: Approx = bounds.linear(hidden, w2)
    inside("feed forward", y, want if t == 1 else f16(want))


@pytest.mark.parametrize("arch", ["dpu_f2", "dpu_tiny"])
def test_long_reduction(arch: str) -> None:
    """Rows that fit ACT as int8 but not VBUF as float16, and a weight panel that needs several loads."""
    rng = np.random.default_rng(0)
    t, k, n = (1000, 5120, 64) if arch == "dpu_f2" else (61, 1200, 24)
    x, w = tokens(rng, 1, t, k), weights(rng, k, n)
    net = Net()
    net.returns(net.linear(net.input("x", t, k), net.param(w)))
    y = compile_net(net, arch, {"x": x}).run()["y0"]
    inside("long reduction", y, f16(bounds.linear(exact(x), w)))
