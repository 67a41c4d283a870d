"""int4 weights: `w ~ scale[n] * g[k div 128, n] * q`, q in [-8, 7], g a signed integer, |g| <= 15 (docs/numerics.md).

Each group first gets the step that fits it best, of either sign, since [-8, 7] reaches farther on one side; then the
channel gets the scale of which all its groups' steps are best multiples. Errors are sums of squares of the weight.

With the gram matrix of the inputs (sums of x^T x), codes are then chosen anew, one input channel after the other, each
error made up for by the weights that follow (GPTQ, arXiv 2210.17323); inputs with the most energy come first, while
the most weights are left. A channel's sums run in one order, so it does not matter which channels are taken together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..compiled import compiled
from ..ir.numerics import W4_GROUP

F32 = npt.NDArray[np.float32]
I8 = npt.NDArray[np.int8]
Bytes = npt.NDArray[np.uint8]
Pieces = Sequence[tuple[int, int]]
"""(start, width) of the parts of a row: one for each source and tap. Groups do not cross them."""

CLIPS = np.array([1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65], np.float32)
"""Parts of a group's largest magnitude that its last code may stand for."""
LARGEST = np.array([15, 14, 13, 12, 11, 10], np.int64)
"""Integers that the group with the largest step may have."""


@dataclass(frozen=True)
class Int4:
    """The integers of n channels: q [n, k], g [n, groups], float scales [n]; `cuts` are where groups begin, and k."""

    q: I8
    g: I8
    scale: F32
    cuts: npt.NDArray[np.int64]

    def integers(self) -> I8:
        """The int8 weights g * q that the array multiplies, [n, k]."""
        return np.asarray(self.q * np.repeat(self.g, np.diff(self.cuts), axis=1), np.int8)


def group_cuts(pieces: Pieces) -> npt.NDArray[np.int64]:
    """Where the groups of a row begin, and where the last one ends."""
    cuts = [k for start, width in pieces for k in range(start, start + width, W4_GROUP)]
    return np.array([*cuts, pieces[-1][0] + pieces[-1][1]], np.int64)


@compiled
def _error(w: F32, lo: int, hi: int, step: np.float32) -> float:
    """Squared error of a group quantised with a step, which may be negative."""
    total = np.float32(0)
    if step == 0:
        for k in range(lo, hi):
            total += w[k] * w[k]
        return float(total)
    for k in range(lo, hi):
        q = min(max(np.rint(w[k] / step), np.float32(-8)), np.float32(7))
        e = w[k] - q * step
        total += e * e
    return float(total)


@compiled
def _step(w: F32, lo: int, hi: int, clips: F32) -> np.float32:
    """The step of a group with the least error: the extreme value is -8 steps, or 7 of them, or is clipped."""
    extreme = np.float32(0)
    for k in range(lo, hi):
        if abs(w[k]) > abs(extreme):
            extreme = w[k]
    best, least = np.float32(0), np.inf
    if extreme == 0:
        return best
    for clip in clips:
        for code in (np.float32(-8), np.float32(7)):
            step = np.float32(extreme * clip / code)
            e = _error(w, lo, hi, step)
            if e < least:
                best, least = step, e
    return best


@compiled
def _integer(step: np.float32, scale: np.float32) -> int:
    """The group integer whose multiple of the scale is nearest to a step: 1 to 15, with its sign."""
    g = int(min(max(np.rint(abs(step) / scale), np.float32(1)), np.float32(15)))
    return -g if step < 0 else g


@compiled
def _quantise(
    rows: F32,
    cuts: npt.NDArray[np.int64],
    clips: F32,
    largest: npt.NDArray[np.int64],
    q: I8,
    g: I8,
    scales: F32,
) -> None:
    groups = len(cuts) - 1
    steps, near = np.empty(groups, np.float32), np.empty(groups, np.int64)
    for j in range(len(rows)):
        w = rows[j]
        most = np.float32(0)
        for i in range(groups):
            steps[i] = _step(w, cuts[i], cuts[i + 1], clips)
            most = max(most, abs(steps[i]))
        if most == 0:
            scales[j] = np.float32(1)
            g[j, :] = 1
            q[j, :] = 0
            continue
        scale, least = np.float32(0), np.inf
        for m in largest:
            tried, total = np.float32(most / np.float32(m)), 0.0
            for i in range(groups):
                total += _error(w, cuts[i], cuts[i + 1], np.float32(_integer(steps[i], tried)) * tried)
            if total < least:
                scale, least = tried, total
        for i in range(groups):
            n = _integer(steps[i], scale)
            near[i], least = n, np.inf
            for other in (n, n - 1, n + 1):
                if 1 <= abs(other) <= 15:
                    e = _error(w, cuts[i], cuts[i + 1], np.float32(other) * scale)
                    if e < least:
                        near[i], least = other, e
        # The integers are chosen; of all scales the one with the least error is a quotient of two sums.
        above, below = 0.0, 0.0
        for i in range(groups):
            g[j, i] = near[i]
            step = np.float32(near[i]) * scale
            for k in range(cuts[i], cuts[i + 1]):
                code = min(max(np.rint(w[k] / step), np.float32(-8)), np.float32(7))
                q[j, k] = np.int8(code)
                whole = code * np.float32(near[i])
                above += float(w[k] * whole)
                below += float(whole * whole)
        scales[j] = np.float32(above / below) if above > 0 else scale


DAMP = 0.01
"""Part of the mean energy of an input channel that is added to each: as in GPTQ, for inputs that were never seen."""


@compiled
def _compensate(
    rows: npt.NDArray[np.float64],
    group: npt.NDArray[np.int64],
    upper: npt.NDArray[np.float64],
    g: I8,
    scale: F32,
    q: I8,
) -> None:
    k = rows.shape[1]
    for j in range(len(rows)):
        w = rows[j]
        for i in range(k):
            step = float(g[j, group[i]]) * float(scale[j])
            code = min(max(np.rint(w[i] / step), -8.0), 7.0)
            q[j, i] = np.int8(code)
            error = (w[i] - code * step) / upper[i, i]
            for m in range(i + 1, k):
                w[m] -= error * upper[i, m]


@dataclass(frozen=True)
class Inputs:
    """What compensation needs of a weight's inputs: their order, and the upper Cholesky factor of the inverse of their
    gram matrix in that order."""

    order: npt.NDArray[np.int64]
    upper: npt.NDArray[np.float64]


def inputs_of(gram: F32) -> Inputs:
    """From the gram matrix [k, k]; made once for all channels of a weight."""
    energy = np.diagonal(gram).astype(np.float64)
    order = np.argsort(-energy, kind="stable")
    damped = gram.astype(np.float64)[np.ix_(order, order)]
    np.fill_diagonal(damped, energy[order] + DAMP * max(float(energy.mean()), 1e-30))
    return Inputs(order, np.ascontiguousarray(np.linalg.cholesky(np.linalg.inv(damped)).T))


def _codes(rows: F32, found: Int4, inputs: Inputs) -> I8:
    """The codes [n, k] that leave the least error of products with these inputs."""
    group = np.repeat(np.arange(len(found.cuts) - 1), np.diff(found.cuts))[inputs.order]
    wide = np.ascontiguousarray(rows[:, inputs.order], np.float64)
    chosen, q = np.empty(rows.shape, np.int8), np.empty(rows.shape, np.int8)
    _compensate(wide, group, inputs.upper, found.g, found.scale, chosen)
    q[:, inputs.order] = chosen
    return q


def quantise_int4(rows: F32, pieces: Pieces, inputs: Inputs | None = None) -> Int4:
    """The int4 form of channels, one a row of `rows` [n, k]; with `inputs` errors are compensated."""
    cuts = group_cuts(pieces)
    n = len(rows)
    q, g = np.empty(rows.shape, np.int8), np.empty((n, len(cuts) - 1), np.int8)
    scale = np.empty(n, np.float32)
    _quantise(np.ascontiguousarray(rows, np.float32), cuts, CLIPS, LARGEST, q, g, scale)
    found = Int4(q, g, scale, cuts)
    return found if inputs is None else Int4(_codes(np.asarray(rows, np.float32), found, inputs), g, scale, cuts)


def run_bytes(tiles: int, rows: int, cols: int) -> int:
    """DRAM bytes of `tiles` reduction tiles of one column tile: whole blocks, then one that may be short."""
    k = tiles * rows
    return -(-k // W4_GROUP) * cols + k * (cols // 2)


def pack_int4(w: Int4, pieces: Pieces, rows: int, cols: int) -> Bytes:
    """The bytes of the pieces in the order in which LOAD takes them: column tile, piece, block.

    A block is `cols` group integers, then up to 128 rows of `cols` nibbles, the lower one first. Each piece is padded
    with zeros to whole reduction tiles of `rows`, the channels to whole column tiles.
    """
    n = len(w.q)
    tiles = -(-n // cols)
    pad = ((0, tiles * cols - n), (0, 0))
    g = np.pad(w.g, pad, constant_values=1).reshape(tiles, cols, -1)
    parts: list[Bytes] = []
    for start, width in pieces:
        q = np.pad(w.q[:, start : start + width], (pad[0], (0, -width % rows))).reshape(tiles, cols, -1)
        nibbles = q.transpose(0, 2, 1).view(np.uint8) & 15
        packed: Bytes = (nibbles[..., 0::2] | (nibbles[..., 1::2] << 4)).astype(np.uint8)
        first = int(np.searchsorted(w.cuts, start))
        for i, lo in enumerate(range(0, packed.shape[1], W4_GROUP)):
            block = packed[:, lo : lo + W4_GROUP].reshape(tiles, -1)
            parts += [np.ascontiguousarray(g[:, :, first + i]).view(np.uint8), block]
    return np.concatenate(parts, axis=1).reshape(-1)


def contiguous(widths: Sequence[int]) -> list[tuple[int, int]]:
    """Pieces of these widths, one behind the other."""
    return [(a, b - a) for a, b in pairwise(np.cumsum([0, *widths]).tolist())]
