"""What surrounds a matrix product, compiled: column tiles out of a wide product, and the row maximum."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import compiled


@compiled
def narrow(wide: Any, sums: Any, add: bool) -> None:
    """[rows, n * c] -> [n, rows, c], added to the sums or in their place."""
    tiles, rows, c = sums.shape
    for i in range(rows):
        for n in range(tiles):
            a, to = wide[i, n * c : n * c + c], sums[n, i]
            if add:
                for j in range(c):
                    to[j] += a[j]
            else:
                for j in range(c):
                    to[j] = a[j]


@compiled
def row_max(sums: Any, valid: int, best: Any, started: bool) -> None:
    """The maximum of each row over columns 0 .. valid - 1 of its tiles side by side."""
    _, rows, c = sums.shape
    for i in range(rows):
        top = best[i] if started else np.int32(-(1 << 31))
        for n in range((valid + c - 1) // c):
            a = sums[n, i]
            for j in range(min(c, valid - n * c)):
                top = a[j] if a[j] > top else top
        best[i] = top
