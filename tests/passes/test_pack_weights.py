"""The compiled walk over a weight gives what the steps of `weights.py` give, bit for bit."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from dpu.passes.pack_weights import pack_rows, row_scales, rows_of
from dpu.passes.weights import column_scales, column_sums, conv_matrix, pack_tiles, pad_rows, quantise_columns

ROWS = COLS = 8


def weight(*shape: int) -> np.ndarray:
    """Float16 values of many sizes; one column of zeros, one with ties, one of tiny numbers."""
    rng = np.random.default_rng(sum(shape))
    w = rng.standard_normal(shape) * np.exp(rng.standard_normal((shape[0],) + (1,) * (len(shape) - 1)) * 3)
    w[0] = 0
    w[1] = np.resize(np.arange(-127, 128) / 2, w[1].shape)
    w[2] *= 1e-6
    return w.astype(np.float16)


@pytest.mark.parametrize("widths", [(8,), (24,), (5,), (16, 12), (3, 17)])
@pytest.mark.parametrize("n", [8, 16, 11])
def test_linears(n: int, widths: tuple[int, ...]) -> None:
    w = weight(n, sum(widths)).T  # stored [n, k], read transposed
    wide = w.astype(np.float32)
    scale = column_scales(wide)
    q = quantise_columns(wide, scale)
    bounds = np.cumsum([0, *widths])
    padded = np.concatenate([pad_rows(q[a:b], ROWS) for a, b in pairwise(bounds)])
    rows = rows_of(w.T)
    pieces = list(zip(bounds.tolist(), widths, strict=False))
    found, sums = pack_rows(rows, row_scales(rows), pieces, ROWS, COLS)
    assert row_scales(rows).tobytes() == scale.tobytes()
    assert found.tobytes() == pack_tiles(padded.astype(np.int8), ROWS, COLS).tobytes()
    assert np.array_equal(sums, column_sums(q))


@pytest.mark.parametrize("widths", [(8,), (5,), (16, 3)])
@pytest.mark.parametrize("kernel", [1, 3])
def test_convolutions(kernel: int, widths: tuple[int, ...]) -> None:
    w = weight(11, sum(widths), kernel, kernel).astype(np.float32)
    bounds = np.cumsum([0, *widths])
    parts = [w[:, a:b] for a, b in pairwise(bounds)]
    matrices = [conv_matrix(p, ROWS) for p in parts]
    scale = column_scales(*matrices)
    flat = [rows_of(p.transpose(0, 2, 3, 1)) for p in parts]
    assert row_scales(*flat).tobytes() == scale.tobytes()
    for rows, matrix, width in zip(flat, matrices, widths, strict=True):
        q = quantise_columns(matrix, scale)
        taps = [(k, width) for k in range(0, rows.shape[1], width)]
        found, sums = pack_rows(rows, scale, taps, ROWS, COLS)
        assert found.tobytes() == pack_tiles(q, ROWS, COLS).tobytes()
        assert np.array_equal(sums, column_sums(q))
