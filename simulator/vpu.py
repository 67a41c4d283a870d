"""VPU: executes VEC words, by the compiled passes of `vpu_kernel.py` or, with DPU_VPU=numpy, by `vpu_numpy.py`."""

from __future__ import annotations

import os
import threading
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..ir.functions import GateTable, Table, function_table
from ..ir.isa import Format, Function
from . import threads, vpu_numpy
from .decode import Decoded
from .state import Tally, Tile

SWITCH = "DPU_VPU"
LONGEST = 1 << 16  # rows of a word, and more than its columns
PIECE = 1024  # as in `vpu_kernel.py`
SHARE = 1 << 15  # elements worth a thread of their own

Coefficients = tuple[tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]], tuple[int, int, int, int, int]]


class _Scratch(threading.local):
    """What a word in progress is kept in, one set for each thread. `elements` bound a block."""

    def __init__(self) -> None:
        self.arrays: Any = ()
        self.grow(1 << 15)

    def grow(self, elements: int) -> Any:
        f: Any = np.float32
        x, b, z = (np.zeros(elements, f) for _ in range(3))
        factors = np.zeros((6, elements), f)  # column vectors for each row of a block; the last: sums
        q, half, narrow = np.zeros(elements, np.int32), np.zeros(elements, np.uint16), np.zeros((2, elements), np.int8)
        work = (np.zeros((5, PIECE), np.int32), np.zeros(PIECE, np.int64))
        sums, keys = np.zeros((16, LONGEST), f), np.zeros(LONGEST, np.int32)
        totals, out = np.zeros(LONGEST, np.int64), np.zeros((2, LONGEST), f)
        self.arrays = (x, b, z, factors, q, half, narrow, work, sums, keys, totals, out)
        return self.arrays


_scratch = _Scratch()
_NONE: Coefficients = ((np.zeros(1, np.int32), np.zeros(1, np.int64)), (0, 0, 0, 0, 0))


def _packed(t: GateTable | Table) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    return t.c0.astype(np.int32), t.c1 << 32 | t.c2 & 0xFFFFFFFF


@cache
def _fixed(kind: int) -> Coefficients:
    """The table of exp2, recip or rsqrt."""
    name, rb = {
        int(Function.EXP2): ("exp2", 20),
        int(Function.RECIP): ("recip", 16),
        int(Function.RSQRT): ("rsqrt", 17),
    }[kind]
    t = function_table(name)
    return _packed(t), (*t.shifts(rb), 0, rb)


@lru_cache(64)
def _gate(t: GateTable) -> Coefficients:
    return _packed(t), (*t.table.shifts(t.rb), t.lg, t.rb)


def coefficients(tile: Tile, func: int) -> Coefficients | None:
    kind, slot = func & 15, func >> 4
    if kind in (Function.EXP2, Function.RECIP, Function.RSQRT):
        return _fixed(kind)
    table = tile.tables[slot] if slot < len(tile.tables) else None
    return _gate(table) if table is not None else None


def _memory(tile: Tile) -> Any:
    """The scratchpads as `vpu_kernel.run` takes them."""
    flat = tile.acc.reshape(-1)
    return tile.act, flat, tile.vbuf.view(np.uint16), tile.vbuf.view(np.float32), tile.param_f, tile.param_i


def kernel(tile: Tile, w: Decoded, tally: Tally) -> None:
    """Execute a VEC word."""
    found = coefficients(tile, w[27]) if w[27] & 15 else _NONE
    if found is None:
        return vpu_numpy.vector(tile, w, tally)
    if tile.views is None:
        tile.views = _memory(tile)
    imm = (np.float32(w[34]), np.float32(w[35]))
    rows = w[5]
    parts = min(threads.count(), rows * w[6] * tile.cols // SHARE, rows)
    bad = -2
    if parts > 1:
        bad = _shared(tile, w, imm, found, parts)
    if bad == -2:
        bad, _ = _part(tile, w, imm, found, 0, rows)
    if bad > 0:
        if w[10] >> 4 == Format.F16:
            tally.fp16_overflow += bad
        else:
            tally.nan += bad
    elif bad < 0:
        vpu_numpy.vector(tile, w, tally)
    return None


def _part(tile: Tile, w: Decoded, imm: Any, found: Coefficients, first: int, last: int) -> tuple[int, Any]:
    """Some rows of a word, and the scratch that has their reductions."""
    from .vpu_kernel import run

    bad = run(tile.views, tile.cols, w[5:34], imm, *found, _scratch.arrays, first, last)
    if bad < -2:
        _scratch.grow(-3 - bad)
        bad = run(tile.views, tile.cols, w[5:34], imm, *found, _scratch.arrays, first, last)
    return bad, _scratch.arrays[-1]


def _shared(tile: Tile, w: Decoded, imm: Any, found: Coefficients, parts: int) -> int:
    """The rows of a word among threads. Each is computed as in one thread; reductions wait until all have read."""
    from .vpu_kernel import finish

    cuts = [w[5] * k // parts for k in range(parts + 1)]
    others = [threads.submit(_part, tile, w, imm, found, a, b) for a, b in pairwise(cuts[1:])]
    results = [_part(tile, w, imm, found, cuts[0], cuts[1]), *(o.result() for o in others)]
    counts = [bad for bad, _ in results]
    if min(counts) < 0:
        return min(counts)
    if w[31] & 15:
        for (_, out), (a, b) in zip(results, pairwise(cuts), strict=True):
            finish(w[5:34], tile.cols, tile.param_f, out, a, b)
    return sum(counts)


vector = vpu_numpy.vector if os.environ.get(SWITCH) == "numpy" else kernel
