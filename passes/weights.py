"""Weight quantisation and the order in which weights lie in DRAM.

Symmetric int8 for each output channel: `scale = max |w| / 127`, `q = rint(w / scale)` in [-127, 127] (the array's
stationary operand must not be -128). All arithmetic in float32. A weight that the model stores as int8 keeps its
integers and scales, but for columns that hold -128: those are quantised anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
I8 = npt.NDArray[np.int8]

INTEGERS, SCALES = "integers", "scales"
"""First transforms of a weight that is stored as int8: its integers, its scales (broadcast to the same shape)."""


@dataclass(frozen=True)
class Fixed:
    """A weight whose integers and scales the model gives: two arrays of one shape, views where possible."""

    q: I8
    scale: F32

    def __getitem__(self, key: Any) -> Fixed:
        return Fixed(self.q[key], self.scale[key])

    def floats(self) -> F32:
        """The weight's values."""
        return (self.q.astype(np.float32) * self.scale).astype(np.float32)

    def map(self, change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Fixed:
        """The weight after a change of its layout."""
        return Fixed(change(self.q), change(self.scale))


def fixed(
    fetch: Callable[[str, tuple[str, ...]], npt.NDArray[Any]], source: str, transform: tuple[str, ...]
) -> Fixed | None:
    """The integers and scales of a parameter that is stored as int8; none for others."""
    q = np.asarray(fetch(source, (INTEGERS, *transform)))
    if q.dtype != np.int8:
        return None
    return Fixed(q, np.asarray(fetch(source, (SCALES, *transform)), np.float32))


def quantised(w: F32 | Fixed, *others: F32) -> tuple[I8, F32]:
    """Integers [k, n] and column scales [n] of a weight [k, n]; `others` are parts that share its scales.

    A weight with integers keeps them where a column has one scale, no -128 and no other part.
    """
    if not isinstance(w, Fixed):
        scale = column_scales(w, *others)
        return quantise_columns(w, scale), scale
    own = w.scale[0] if len(w.scale) else np.ones(w.scale.shape[1], np.float32)
    keep = (w.scale.max(axis=0) == w.scale.min(axis=0)) & (w.q.min(axis=0) > -128) & (own > 0)
    if not others and keep.all():
        return w.q, np.ascontiguousarray(own)
    floats = w.floats()
    scale = column_scales(floats, *others)
    q = quantise_columns(floats, scale)
    if not others:
        q, scale = np.where(keep, w.q, q), np.where(keep, own, scale)
    return q, scale


def column_scales(*parts: F32) -> F32:
    """One scale for each column over all `parts` (each [k, n]): shape [n]; a zero column gets scale 1."""
    amax = np.max([np.abs(p).max(axis=0) for p in parts], axis=0).astype(np.float32)
    scale = (amax / np.float32(127)).astype(np.float32)
    return np.where(amax > 0, scale, np.float32(1)).astype(np.float32)


def quantise_columns(w: F32, scale: F32) -> I8:
    """`rint(w / scale)` clipped to +-127; w is [k, n], scale [n]."""
    q: I8 = np.clip(np.rint(w / scale), -127, 127).astype(np.int8)
    return q


def column_sums(q: I8) -> npt.NDArray[np.int64]:
    """The sum of each column's integers; q is [k, n]."""
    return np.asarray(q.sum(axis=0, dtype=np.int64))


def pad_rows(w: npt.NDArray[np.generic], to: int) -> npt.NDArray[np.generic]:
    """w [k, n] with zero rows appended up to a multiple of `to`."""
    return np.pad(w, ((0, -w.shape[0] % to), (0, 0)))


def pack_tiles(q: I8, rows: int, cols: int) -> npt.NDArray[np.uint8]:
    """q [k, n] (k a multiple of `rows`) as bytes in weight-tile order: column tile, reduction tile, row, column."""
    k, n = q.shape
    q = np.pad(q, ((0, 0), (0, -n % cols)))
    tiles = q.reshape(k // rows, rows, -1, cols).transpose(2, 0, 1, 3)
    return np.ascontiguousarray(tiles).reshape(-1).view(np.uint8)


def conv_matrix(w: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """w [n, c, kh, kw] as a matrix [kh * kw * ct * rows, n]: taps outer, channels padded to full reduction tiles."""
    n, c = w.shape[:2]
    m = np.pad(w, ((0, 0), (0, -c % rows), (0, 0), (0, 0)))
    return np.ascontiguousarray(m.transpose(2, 3, 1, 0).reshape(-1, n))


def upsample_phase(w: F32, py: int, px: int) -> F32:
    """The 2x2 kernel [n, c, 2, 2] for output pixels (2y + py, 2x + px) of nearest upsampling, then w [n, c, 3, 3].

    Phase 0 reads input rows y-1, y; phase 1 reads y, y+1. Taps that fall on the same input pixel are summed.
    """
    groups = ([[0], [1, 2]], [[0, 1], [2]])
    wide = w.astype(np.float64)
    rows = np.stack([wide[:, :, g].sum(axis=2) for g in groups[py]], axis=2)
    return np.stack([rows[..., g].sum(axis=3) for g in groups[px]], axis=3).astype(np.float32)


def shifted_bias(bias: F32, sums: npt.NDArray[np.int64], scale: F32, zero: int) -> F32:
    """The bias of a product whose input is `(x - zero) * x_scale`: `bias - zero * sums * scale`, rounded once.

    `sums` are the column sums of the weight's integers, `scale` what the epilogue multiplies by. Padding cells hold
    `zero`, so every tap counts everywhere.
    """
    return np.asarray(bias.astype(np.float64) - zero * sums.astype(np.float64) * scale.astype(np.float64), np.float32)
