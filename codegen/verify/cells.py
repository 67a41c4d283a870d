"""Shadow memory: one number a cell, and how a box of cells is looked at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .boxes import Boxes

Cells = npt.NDArray[np.int32]
Place = tuple[int, int, tuple[int, ...] | None, tuple[int, ...]]
"""(first cell, one past the last, shape or None for one run, strides in bytes of the shadow)."""


def places(b: Boxes) -> list[Place]:
    """The boxes as plain Python."""
    lo, hi = b.lo.tolist(), b.hi.tolist()
    out: list[Place] = [(a, z, None, ()) for a, z in zip(lo, hi, strict=True)]
    for i in np.flatnonzero((b.counts[:, 1:] > 1).any(1)).tolist():
        n = b.counts[i].tolist()
        s = (4 * b.strides[i]).tolist()
        out[i] = (lo[i], hi[i], tuple(reversed(n)), tuple(reversed(s)))
    return out


def view(cells: Cells, place: Place) -> Cells:
    """The cells of a box, in place."""
    lo, hi, shape, strides = place
    if shape is None:
        return cells[lo:hi]
    return np.ndarray(shape, np.int32, cells, 4 * lo, strides)


def uniform(v: Cells) -> int | None:
    """The number that all cells of a box hold, if they do."""
    first: int = v.item(0)
    return first if v.size == 1 or b"\0" not in (v == first).tobytes() else None


def runs(v: Cells) -> tuple[list[int], Cells]:
    """Each stretch of equal numbers in a box, in order: the numbers, and where each stretch starts."""
    flat = v.ravel()
    starts = np.concatenate([[0], np.flatnonzero(flat[1:] != flat[:-1]) + 1])
    return flat[starts].tolist(), starts


def fill(v: Cells, numbers: list[int], starts: Cells) -> None:
    """The opposite of `runs`, in place."""
    lengths = np.diff(starts, append=v.size)
    v[...] = np.repeat(np.array(numbers, np.int32), lengths).reshape(v.shape)


def distinct(v: Cells) -> Sequence[int]:
    """The numbers in a box, each once, ascending."""
    only = uniform(v)
    return (only,) if only is not None else sorted(set(runs(v)[0]))
