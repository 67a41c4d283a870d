"""Weight quantisation and the order in which weights lie in DRAM.

Symmetric int8 for each output channel: `scale = max |w| / 127`, `q = rint(w / scale)` in [-127, 127] (the array's
stationary operand must not be -128). All arithmetic in float32.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
I8 = npt.NDArray[np.int8]


def column_scales(*parts: F32) -> F32:
    """One scale for each column over all `parts` (each [k, n]): shape [n]; a zero column gets scale 1."""
    amax = np.max([np.abs(p).max(axis=0) for p in parts], axis=0).astype(np.float32)
    scale = (amax / np.float32(127)).astype(np.float32)
    return np.where(amax > 0, scale, np.float32(1)).astype(np.float32)


def quantise_columns(w: F32, scale: F32) -> I8:
    """`rint(w / scale)` clipped to +-127; w is [k, n], scale [n]."""
    q: I8 = np.clip(np.rint(w / scale), -127, 127).astype(np.int8)
    return q


def pad_rows(w: npt.NDArray[np.generic], to: int) -> npt.NDArray[np.generic]:
    """w [k, n] with zero rows appended up to a multiple of `to`."""
    return np.pad(w, ((0, -w.shape[0] % to), (0, 0)))


def pack_tiles(q: I8, rows: int, cols: int) -> npt.NDArray[np.uint8]:
    """q [k, n] (k a multiple of `rows`) as bytes in weight-tile order: column tile, reduction tile, row, column."""
    k, n = q.shape
    q = np.pad(q, ((0, 0), (0, -n % cols)))
    tiles = q.reshape(k // rows, rows, -1, cols).transpose(2, 0, 1, 3)
    return np.ascontiguousarray(tiles).reshape(-1).view(np.uint8)


def conv_matrix(w: F32, rows: int) -> F32:
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
