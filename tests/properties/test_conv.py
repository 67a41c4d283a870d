"""Convolutions against float: every difference is within the bound of their quantisers (`bounds.py`)."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from . import bounds
from .bounds import Approx, Window, add, exact, f16
from .harness import Net, compile_net
from .strategies import ARCHES, CHANNELS, F32, SAMPLES, SEEDS, half, inside

SIDES = st.sampled_from([1, 2, 3, 5, 7, 8, 11, 16, 17])


def weights(rng: np.random.Generator, n: int, c: int, k: int) -> F32:
    """Outputs of different sizes."""
    return half(rng.standard_normal((n, c, k, k)) / (c * k * k) ** 0.5 * np.exp(rng.standard_normal((n, 1, 1, 1))))


def image(rng: np.random.Generator, b: int, size: tuple[int, int], c: int) -> F32:
    return half(rng.standard_normal((b, size[0] * size[1], c)) * np.exp(rng.standard_normal(c)))


def quantised(x: F32) -> Approx:
    return bounds.static_int8(exact(x), float(np.abs(x).max()))


@settings(max_examples=40)
@given(
    arch=ARCHES,
    b=SAMPLES,
    h=SIDES,
    w=SIDES,
    c=CHANNELS,
    n=CHANNELS,
    kind=st.sampled_from(["3x3", "1x1", "stride 2", "stride 2 asymmetric"]),
    extra=st.booleans(),
    seed=SEEDS,
)
def test_conv(arch: str, b: int, h: int, w: int, c: int, n: int, kind: str, extra: bool, seed: int) -> None:
    """With `extra`: bias and residual."""
    if kind == "stride 2 asymmetric":
        h, w = max(h, 2), max(w, 2)
    window = {
        "3x3": Window((h, w)),
        "1x1": Window((h, w), pad=(0, 0, 0, 0)),
        "stride 2": Window((h, w), stride=2),
        "stride 2 asymmetric": Window((h, w), stride=2, pad=(0, 0, 1, 1)),
    }[kind]
    rng = np.random.default_rng(seed)
    x, weight, bias = image(rng, b, (h, w), c), weights(rng, n, c, 1 if kind == "1x1" else 3), rng.standard_normal(n)
    want = add(bounds.conv(quantised(x), bounds.conv_weight(weight), window), exact(bias if extra else 0.0))
    r = half(rng.standard_normal(want.y.shape))
    net = Net(b)
    a = net.input("x", h * w, c)
    p = net.param(weight)
    if extra:
        rest = net.input("r", r.shape[1], n)
        y = net.conv(a, p, (h, w), stride=window.stride, pad=window.pad, bias=net.param(bias), residual=rest)
        want = add(want, exact(r))
    else:
        y = net.conv(a, p, (h, w), stride=window.stride, pad=window.pad)
    net.returns(y)
    inside(f"conv {kind}", compile_net(net, arch, {"x": x, "r": r}).run()["y0"], f16(want))


@settings(max_examples=20)
@given(arch=ARCHES, b=SAMPLES, h=SIDES, w=SIDES, c=CHANNELS, n=CHANNELS, seed=SEEDS)
def test_upsample(arch: str, b: int, h: int, w: int, c: int, n: int, seed: int) -> None:
    """Nearest enlargement and 3x3 as four convolutions of 2x2 taps."""
    rng = np.random.default_rng(seed)
    x, weight = image(rng, b, (h, w), c), weights(rng, n, c, 3)
    net = Net(b)
    net.returns(net.conv(net.input("x", h * w, c), net.param(weight), (h, w), upsample=True))
    y = compile_net(net, arch, {"x": x}).run()["y0"]
    want = bounds.conv(quantised(x), bounds.upsample_weight(weight), Window((h, w), upsample=True))
    inside("conv upsample", y, f16(want))


@settings(max_examples=20)
@given(arch=ARCHES, b=SAMPLES, h=SIDES, w=SIDES, c1=CHANNELS, c2=CHANNELS, n=CHANNELS, seed=SEEDS)
def test_two_sources(arch: str, b: int, h: int, w: int, c1: int, c2: int, n: int, seed: int) -> None:
    """Each source has its own scale; their ratio is folded into the second one's weights."""
    rng = np.random.default_rng(seed)
    x, x2 = image(rng, b, (h, w), c1), half(image(rng, b, (h, w), c2) * np.exp(rng.standard_normal()))
    weight = weights(rng, n, c1 + c2, 3)
    net = Net(b)
    a, c = net.input("x", h * w, c1), net.input("x2", h * w, c2)
    net.returns(net.conv(a, net.param(weight), (h, w), x2=c))
    y = compile_net(net, arch, {"x": x, "x2": x2}).run()["y0"]
    ratio = np.concatenate([np.ones(c1), np.full(c2, np.abs(x2).max() / np.abs(x).max())])
    source = bounds.concat(quantised(x), quantised(x2))
    inside("conv two sources", y, f16(bounds.conv(source, bounds.conv_weight(weight, ratio), Window((h, w)))))


@settings(max_examples=20)
@given(arch=ARCHES, b=SAMPLES, h=SIDES, w=SIDES, c=CHANNELS, n=CHANNELS, seed=SEEDS)
def test_time_embedding(arch: str, b: int, h: int, w: int, c: int, n: int, seed: int) -> None:
    """`temb` is a vector an image, from a linear in float32 (y0) or from the host (y1)."""
    rng = np.random.default_rng(seed)
    x, weight, m = image(rng, b, (h, w), c), weights(rng, n, c, 3), weights(rng, n, c, 1)[:, :, 0, 0].T
    t, host = half(rng.standard_normal((b, 1, c))), half(rng.standard_normal((b, 1, n)))
    net = Net(b)
    a, p = net.input("x", h * w, c), net.param(weight)
    emb = net.linear(net.input("t", 1, c), net.param(m))
    net.returns(net.conv(a, p, (h, w), temb=emb), net.conv(a, p, (h, w), temb=net.input("host", 1, n)))
    got = compile_net(net, arch, {"x": x, "t": t, "host": host}).run()
    plain = bounds.conv(quantised(x), bounds.conv_weight(weight), Window((h, w)))
    inside("conv temb", got["y0"], f16(add(plain, bounds.linear(exact(t), m))))
    inside("conv temb", got["y1"], f16(add(plain, exact(host))))
