"""Quantising and packing weights, compiled: what `weights.py` does step by step, in one walk over a few columns.

A weight comes as float32 rows, one for each output channel, whose elements are the reduction in pieces (sources, taps
of a kernel). Each piece is padded with zeros to full reduction tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..compiled import compiled

F32 = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
Sums = npt.NDArray[np.int64]


@compiled
def _maxima(w: F32, out: F32) -> None:
    for j in range(len(w)):
        most = np.float32(0)
        for value in w[j]:
            most = max(most, abs(value))
        out[j] = max(out[j], most)


@compiled
def _pack(
    w: F32, scale: F32, starts: Sums, widths: Sums, rows: int, cols: int, out: npt.NDArray[np.int8], sums: Sums
) -> None:
    tiles = 0
    for width in widths:
        tiles += -(-width // rows)
    block = np.empty((cols, rows), np.int8)
    for first in range(0, len(w), cols):
        count = min(cols, len(w) - first)
        at = first // cols * tiles * rows * cols
        for piece in range(len(starts)):
            for k in range(0, widths[piece], rows):
                here, length = starts[piece] + k, min(rows, widths[piece] - k)
                for c in range(count):
                    divisor, total = scale[first + c], np.int64(0)
                    source, target = w[first + c, here : here + length], block[c]
                    for r in range(length):
                        q = np.rint(source[r] / divisor)
                        target[r] = np.int8(min(max(q, np.float32(-127)), np.float32(127)))
                    for r in range(length):
                        total += target[r]
                    sums[first + c] += total
                for r in range(length):
                    for c in range(count):
                        out[at + r * cols + c] = block[c, r]
                at += rows * cols


def rows_of(w: npt.NDArray[Any]) -> F32:
    """A weight [n, ...] as float32 rows."""
    return np.ascontiguousarray(w, np.float32).reshape(len(w), -1)


def row_scales(*parts: F32) -> F32:
    """`column_scales` of weights in rows: one scale for each row over all parts."""
    most = np.zeros(len(parts[0]), np.float32)
    for part in parts:
        _maxima(part, most)
    return np.where(most > 0, most / np.float32(127), np.float32(1)).astype(np.float32)


def pack_rows(w: F32, scale: F32, pieces: Sequence[tuple[int, int]], rows: int, cols: int) -> tuple[Bytes, Sums]:
    """The weight's bytes in the order of `pack_tiles`, and the sum of each row's integers.

    `pieces` are (start, width) of the parts of a row that are padded each to a multiple of `rows`.
    """
    starts, widths = (np.array(x, np.int64) for x in zip(*pieces, strict=True))
    tiles = int((-(-widths // rows)).sum())
    out = np.zeros(-(-len(w) // cols) * tiles * rows * cols, np.int8)
    sums = np.zeros(len(w), np.int64)
    _pack(w, scale, starts, widths, rows, cols, out, sums)
    return out.view(np.uint8), sums
