"""int4 weights: their ranges and error, their bytes as LOAD reads them, compensation by the inputs' gram matrix."""

from __future__ import annotations

import numpy as np
import pytest
from dpu.ir.numerics import expand_w4
from dpu.passes.int4 import Int4, contiguous, group_cuts, inputs_of, pack_int4, quantise_int4, run_bytes

F32 = np.ndarray


def decibels(w: F32, found: Int4, x: F32 | None = None) -> float:
    """Signal over error of the weight, or of its products with inputs."""
    error = w - found.integers() * found.scale[:, None]
    signal = w
    if x is not None:
        signal, error = x @ w.T, x @ error.T
    return float(10 * np.log10((signal.astype(np.float64) ** 2).sum() / (error.astype(np.float64) ** 2).sum()))


def gaussian(n: int, k: int) -> F32:
    return np.random.default_rng(n + k).standard_normal((n, k)).astype(np.float32)


@pytest.mark.parametrize("widths", [(300,), (70, 150), (5,), (128, 128), (1, 1)])
def test_ranges(widths: tuple[int, ...]) -> None:
    w = gaussian(20, sum(widths)) * np.exp(gaussian(20, 1))
    w[3] = 0
    found = quantise_int4(w, contiguous(widths))
    assert found.q.min() >= -8 and found.q.max() <= 7
    assert np.abs(found.g).min() >= 1 and np.abs(found.g).max() <= 15
    assert np.abs(found.integers().astype(int)).max() <= 120
    assert (found.scale > 0).all() and not found.integers()[3].any()
    assert found.g.shape[1] == sum(-(-n // 128) for n in widths) == len(group_cuts(contiguous(widths))) - 1


def test_error_of_a_gaussian() -> None:
    """20.25 dB with the same format and more steps tried, 18.35 with codes of [-7, 7] and the maximum as scale: what
    a prototype measured for K = 1,280."""
    w = gaussian(64, 1280)
    assert decibels(w, quantise_int4(w, [(0, 1280)])) > 20.1


def test_values_of_the_grid_are_exact() -> None:
    """Multiples of one step, in groups whose steps are whole multiples of each other."""
    rng = np.random.default_rng(1)
    q, g = rng.integers(-8, 8, (6, 256)), np.repeat([[15, -5]], 6, axis=0)
    q[:, [0, 130]] = -8
    w = (q * np.repeat(g, 128, axis=1) * 0.25).astype(np.float32)
    found = quantise_int4(w, [(0, 256)])
    np.testing.assert_array_equal(found.integers() * found.scale[:, None], w)


def unpacked(data: F32, tiles: list[int], rows: int, cols: int, columns: int) -> F32:
    """The int8 weights of packed bytes, [k, columns], as LOAD INT4 makes them; `tiles` of each piece."""
    per_tile = sum(run_bytes(t, rows, cols) for t in tiles)
    found = []
    for tile in data.reshape(columns, per_tile):
        at, parts = 0, []
        for t in tiles:
            run, left = tile[at : at + run_bytes(t, rows, cols)], t * rows
            at += len(run)
            g, q = [], []
            while left:
                n = min(left, 128)
                g.append(run[:cols].view(np.int8))
                nibbles = run[cols : cols + n * cols // 2].reshape(n, cols // 2)
                q.append(np.stack([nibbles & 15, nibbles >> 4], axis=2).reshape(n, cols).astype(np.int8))
                run, left = run[cols + n * cols // 2 :], left - n
            codes = np.concatenate(q)
            parts.append(expand_w4(np.where(codes > 7, codes - 16, codes).astype(np.int8), np.stack(g)))
        found.append(np.concatenate(parts))
    return np.concatenate(found, axis=1)


@pytest.mark.parametrize("side", [8, 64])
@pytest.mark.parametrize("widths", [(300,), (70, 150), (5,), (128, 128)])
def test_bytes(widths: tuple[int, ...], side: int) -> None:
    n = side + 3
    pieces = contiguous(widths)
    found = quantise_int4(gaussian(n, sum(widths)), pieces)
    tiles = [-(-k // side) for k in widths]
    loaded = unpacked(pack_int4(found, pieces, side, side), tiles, side, side, 2)
    at, begin = 0, 0
    for width, count in zip(widths, tiles, strict=True):
        rows = loaded[at : at + count * side]
        np.testing.assert_array_equal(rows[:width, :n], found.integers()[:, begin : begin + width].T)
        assert not rows[width:].any() and not rows[:, n:].any()
        at, begin = at + count * side, begin + width


def correlated(rows: int, k: int) -> F32:
    rng = np.random.default_rng(4)
    mix = rng.standard_normal((k, k)) * np.exp(rng.standard_normal(k))
    return (rng.standard_normal((rows, k)) @ mix.T / k**0.5).astype(np.float32)


def test_compensation() -> None:
    """What later weights can make up for is half of the error and more where inputs are as correlated as here; the
    group integers and scales stay, and it does not matter which channels are taken together."""
    x, w, pieces = correlated(2000, 200), gaussian(40, 200), contiguous((150, 50))
    inputs = inputs_of(x.T @ x)
    plain, better = quantise_int4(w, pieces), quantise_int4(w, pieces, inputs)
    assert decibels(w, better, x) > decibels(w, plain, x) + 3
    assert np.array_equal(plain.g, better.g) and np.array_equal(plain.scale, better.scale)
    assert better.q.min() >= -8 and better.q.max() <= 7
    assert np.array_equal(quantise_int4(w[7:19], pieces, inputs).q, better.q[7:19])


def test_compensation_of_inputs_that_are_never_seen() -> None:
    """Uncorrelated inputs leave nothing to make up for; inputs that are always zero harm nothing."""
    w = gaussian(8, 64)
    plain = quantise_int4(w, [(0, 64)])
    step = plain.g.astype(np.float64) * plain.scale[:, None]
    nearest = np.clip(np.rint(w / step), -8, 7)
    for gram in (np.eye(64, dtype=np.float32), np.zeros((64, 64), np.float32)):
        assert np.array_equal(quantise_int4(w, [(0, 64)], inputs_of(gram)).q, nearest)
