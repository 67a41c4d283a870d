"""GroupNorm, SiLU and static quantisation against float, each alone: producers and consumers pass values through.

A 1x1 convolution with the identity as its weight is exact when its input is on the int8 grid (`on_grid`), so what the
GroupNorm sees is known to the bit, and an int8 result can be read.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from . import bounds
from .bounds import Approx, Window, exact, f16
from .harness import Net, Value, compile_net
from .strategies import ARCHES, CHANNELS, SAMPLES, SEEDS, TOKENS, half, inside, on_grid

FLAT = (0, 0, 0, 0)


def identity(net: Net, x: Value) -> Value:
    """The values of x as a convolution stores them."""
    c = x.shape[2]
    return net.conv(x, net.param(np.eye(c)[:, :, None, None]), (1, x.shape[1]), pad=FLAT)


def read_int8(y: Approx) -> Approx:
    """What `identity` makes of a value that is quantised with its own maximum."""
    c = y.y.shape[2]
    weight = bounds.conv_weight(np.eye(c)[:, :, None, None])
    return f16(bounds.conv(bounds.static_int8(y, np.abs(y.y).max()), weight, Window((1, y.y.shape[1]), pad=FLAT)))


@settings(max_examples=25)
@given(arch=ARCHES, b=SAMPLES, t=TOKENS, c=CHANNELS, seed=SEEDS)
def test_silu(arch: str, b: int, t: int, c: int, seed: int) -> None:
    x = half(np.random.default_rng(seed).standard_normal((b, t, c)) * 10)
    net = Net(b)
    net.returns(net.silu(net.input("x", t, c)))
    inside("silu", compile_net(net, arch, {"x": x}).run()["y0"], f16(bounds.act(exact(x), "silu")))


@settings(max_examples=25)
@given(arch=ARCHES, b=SAMPLES, t=TOKENS, c=CHANNELS, seed=SEEDS)
def test_quantise(arch: str, b: int, t: int, c: int, seed: int) -> None:
    x = half(np.random.default_rng(seed).standard_normal((b, t, c)))
    net = Net(b)
    net.returns(identity(net, net.input("x", t, c)))
    inside("quantise", compile_net(net, arch, {"x": x}).run()["y0"], read_int8(exact(x)))


@settings(max_examples=40)
@given(
    arch=ARCHES,
    b=SAMPLES,
    t=TOKENS,
    groups=st.sampled_from([1, 2, 4, 7]),
    per=st.sampled_from([1, 2, 3, 10, 17]),
    producer=st.sampled_from(["conv", "linear"]),
    act=st.sampled_from(["", "silu"]),
    int8=st.booleans(),
    seed=SEEDS,
)
def test_group_norm(
    arch: str, b: int, t: int, groups: int, per: int, producer: str, act: str, int8: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    t = max(t, 2 // per)  # torch refuses groups of one value
    c = groups * per
    x = on_grid(rng, (b, t, c))
    gamma, beta = half(1 + rng.standard_normal(c) / 4), half(rng.standard_normal(c))
    net = Net(b)
    h = net.input("x", t, c)
    h = identity(net, h) if producer == "conv" else net.linear(h, net.param(np.eye(c)))
    y = net.group_norm(h, net.param(gamma), net.param(beta), groups, act=act)
    net.returns(identity(net, y) if int8 else y)
    compiled = compile_net(net, arch, {"x": x})
    want = bounds.group_norm(x.astype(np.float64), gamma, beta, groups, 1e-5, compiled.arch.cols, act == "silu")
    inside(f"group_norm {'int8' if int8 else 'f16'}", compiled.run()["y0"], read_int8(want) if int8 else f16(want))


@settings(max_examples=25)
@given(
    arch=ARCHES,
    b=SAMPLES,
    t=TOKENS,
    c=st.sampled_from([(5, 7, 3), (8, 16, 4), (64, 32, 3), (40, 20, 3), (70, 30, 4)]),
    int8=st.booleans(),
    seed=SEEDS,
)
def test_group_norm_of_two_sources(arch: str, b: int, t: int, c: tuple[int, int, int], int8: bool, seed: int) -> None:
    """Groups straddle the sources: no source's channels are a multiple of a group's, except in one case."""
    c1, c2, groups = c
    rng = np.random.default_rng(seed)
    x, x2 = on_grid(rng, (b, t, c1)), on_grid(rng, (b, t, c2), step=2.0**-4)
    n = c1 + c2
    gamma, beta = half(1 + rng.standard_normal(n) / 4), half(rng.standard_normal(n))
    net = Net(b)
    first, second = identity(net, net.input("x", t, c1)), identity(net, net.input("x2", t, c2))
    y = net.group_norm(first, net.param(gamma), net.param(beta), groups, x2=second, act="silu")
    net.returns(identity(net, y) if int8 else y)
    compiled = compile_net(net, arch, {"x": x, "x2": x2})
    both = np.concatenate([x, x2], -1).astype(np.float64)
    want = bounds.group_norm(both, gamma, beta, groups, 1e-5, compiled.arch.cols, True)
    inside("group_norm two sources", compiled.run()["y0"], read_int8(want) if int8 else f16(want))


@pytest.mark.parametrize(("arch", "tokens", "channels"), [("dpu_tiny", 2304, 32), ("dpu_f2", 24000, 128)])
def test_group_norm_larger_than_the_scratchpads(arch: str, tokens: int, channels: int) -> None:
    rng = np.random.default_rng(0)
    x = on_grid(rng, (1, tokens, channels)) + np.float32(1)
    net = Net()
    # The offset is a bias: what the GroupNorm sees is still exact, with a mean that is not zero.
    h = net.conv(
        net.input("x", tokens, channels),
        net.param(np.eye(channels)[:, :, None, None]),
        (tokens // 48, 48),
        pad=FLAT,
        bias=net.param(np.ones(channels)),
    )
    gamma, beta = np.ones(channels), np.zeros(channels)
    net.returns(net.group_norm(h, net.param(gamma), net.param(beta), 8, act="silu"))
    compiled = compile_net(net, arch, {"x": x - 1})
    assert x.size * 2 > 2 * sum(w * compiled.arch.word_bytes[n] for n, w in compiled.arch.words.items() if n == "vbuf")
    want = bounds.group_norm(x.astype(np.float64), gamma, beta, 8, 1e-5, compiled.arch.cols, True)
    inside("group_norm large", compiled.run()["y0"], f16(want))
