"""dpu_mxu_packed, two columns on one multiplier, equal to two columns of cells and to numpy."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import pytest
from dpu.ir.numerics import matmul_i8

from . import shared


@cache
def library(rows: int) -> Any:
    """The compiled library."""
    return shared.library("dpu_mxu_packed_tb", {"Rows": rows}, fast="-O2")


def run(weights: np.ndarray, acts: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sums of dpu_mxu_packed and of the cells; int8 [rows, 2], [n, rows], int32 [n, 2]."""
    rows, n = len(weights), len(acts)
    out = np.zeros((2, n, 2), np.int32)
    data = [np.ascontiguousarray(x) for x in (weights, acts, sums)]
    at = [ctypes.c_void_p(x.ctypes.data) for x in (*data, *out)]
    i64 = ctypes.c_int64
    library(rows).packed_run(i64(rows), at[0], i64(n), *at[1:])
    return out[0], out[1]


def check(weights: np.ndarray, acts: np.ndarray, sums: np.ndarray) -> None:
    packed, cells = run(weights, acts, sums)
    expected = matmul_i8(acts, weights) + sums
    assert np.array_equal(cells, expected)
    assert np.array_equal(packed, expected)


def pairs(first: int, last: int) -> None:
    """Every activation with every weight pair whose upper weight is first .. last."""
    acts = np.arange(-128, 128, dtype=np.int8)[:, None]
    sums = np.arange(512, dtype=np.int32).reshape(256, 2) * 8388607
    product = np.arange(-128, 128, dtype=np.int32)
    for w1 in range(first, last + 1):
        for w0 in range(-127, 128):
            packed, _ = run(np.array([[w0, w1]], np.int8), acts, sums)
            assert np.array_equal(packed[:, 0], product * w0 + sums[:, 0]), (w0, w1)
            assert np.array_equal(packed[:, 1], product * w1 + sums[:, 1]), (w0, w1)


@pytest.mark.parametrize("w1", [-127, -1, 0, 1, 127])
def test_products_with_an_upper_weight(w1: int) -> None:
    pairs(w1, w1)


@pytest.mark.slow
def test_all_products() -> None:
    """255 x 255 weight pairs with 256 activations: every multiplication there is."""
    pairs(-127, 127)


def test_cascade_of_eight() -> None:
    rng = np.random.default_rng(8)
    for extreme in (0.0, 0.5, 1.0):
        for _ in range(200):
            weights = rng.integers(-127, 128, (8, 2)).astype(np.int8)
            acts = rng.integers(-128, 128, (64, 8)).astype(np.int8)
            weights[rng.random(weights.shape) < extreme] = rng.choice([-127, 127])
            acts[rng.random(acts.shape) < extreme] = rng.choice([-128, 127])
            check(weights, acts, rng.integers(-(2**30), 2**30, (64, 2)).astype(np.int32))


def test_cascade_at_its_limits() -> None:
    """All sign patterns of eight products of the largest magnitude, in both columns."""
    signs = 1 - 2 * (np.arange(256)[:, None] >> np.arange(8) & 1)
    acts = np.where(signs > 0, 127, -128).astype(np.int8)
    zero = np.zeros((256, 2), np.int32)
    for low in range(0, 256, 5):
        for high in (0, 255, low, 255 - low):
            weights = np.stack([127 * signs[low], 127 * signs[high]], 1).astype(np.int8)
            check(weights, acts, zero)
