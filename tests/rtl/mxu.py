"""dpu_mxu as a shared library: MM words on the scratchpads of a Tile, the same on the simulator, and the timing."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from dpu.ir.arch import Arch, load_arch
from dpu.ir.isa import Buffer, MmMode, Opcode, RowMax, word
from dpu.simulator import mxu
from dpu.simulator.decode import decode
from dpu.simulator.state import Fault, Tally, Tile

from . import shared

CODES = {"E410": 2, "E411": 3, "E415": 6}  # FIELD, SCRATCHPAD, NUMERIC
CHECK = 8  # cycles from a word's start until the loader may have it, and until the next start
I64 = ctypes.c_int64

Fields = dict[str, int]


class _Shape(ctypes.Structure):
    _fields_ = [(n, I64) for n in ("cols", "lanes", "act", "wgt", "acc", "param")]


class Report(ctypes.Structure):
    """`struct Report` of rtl/bench/dpu_mxu.cpp."""

    _fields_ = [
        (n, I64)
        for n in (
            *("cycles", "rows", "acc_writes", "param_writes", "last_write", "bad_access"),
            *("fault", "code", "index", "address", "fault_cycle", "busy", "stall"),
        )
    ]


@cache
def arch(cols: int, lanes: int) -> Arch:
    """Small scratchpads, so that words meet; not all sizes are powers of two."""
    tiny = load_arch("dpu_tiny").model_dump()
    sizes = {
        "act": 700 * cols,
        "wgt": 40 * cols * cols,
        "acc": 4 * 300 * cols,
        "vbuf": 2 * 16 * cols,
        "param": 4 * 1000,
    }
    buffers = {k: {"bytes": v, "banks": 1} for k, v in sizes.items()}
    return Arch.model_validate({**tiny, "rows": cols, "cols": cols, "lanes": lanes, "buffers": buffers})


@cache
def library(cols: int, lanes: int, fast: bool = False, packed: bool = False) -> Any:
    """The compiled library."""
    words = arch(cols, lanes).words
    sizes = {f"{b.capitalize()}Words": words[b] for b in ("act", "wgt", "acc", "param")}
    parameters = {"Cols": cols, "Lanes": lanes, "Packed": int(packed), **sizes}
    lib = shared.library("dpu_mxu", parameters, fast="-O3" if fast else "-O1")
    lib.mxu_new.restype = ctypes.c_void_p
    return lib


def mm(**fields: int) -> Fields:
    """An MM word of one row and one weight tile, with `fields` changed."""
    return {**dict.fromkeys(("nx", "ny", "nc", "nkx", "nky", "nn"), 1), **fields}


def packed(words: list[Fields]) -> np.ndarray:
    return np.concatenate([word(Opcode.MM, **f) for f in words])


def memory(a: Arch, seed: int = 0) -> Tile:
    """A tile with random scratchpads; no weight is -128."""
    rng = np.random.default_rng(seed)
    tile = Tile(a)
    tile.act[:] = rng.integers(-128, 128, tile.act.shape)
    tile.wgt[:] = rng.integers(-127, 128, tile.wgt.shape)
    tile.acc[:] = rng.integers(-(2**31), 2**31, tile.acc.shape)
    tile.param_i[:] = rng.integers(-(2**18), 2**18, tile.param_i.shape)
    return tile


def copy(tile: Tile, a: Arch) -> Tile:
    other = Tile(a)
    for b, data in tile.memory.items():
        other.memory[b][:] = data
    return other


@dataclass
class Result:
    """What the hardware did."""

    report: Report
    start: list[int]
    done: list[int]
    acc_at_done: list[int]
    param_at_done: list[int]
    rows: list[int] = field(repr=False)


class Device:
    """A Verilated dpu_mxu on the memories of `tile`."""

    def __init__(self, a: Arch, tile: Tile, fast: bool = False, packed: bool = False) -> None:
        self.lib = library(a.cols, a.lanes, fast, packed)
        w = a.words
        shape = _Shape(a.cols, a.lanes, w["act"], w["wgt"], w["acc"], w["param"])
        at = [ctypes.c_void_p(tile.memory[b].ctypes.data) for b in (Buffer.ACT, Buffer.WGT, Buffer.ACC, Buffer.PARAM)]
        self.tile = tile
        self.handle = ctypes.c_void_p(self.lib.mxu_new(ctypes.byref(shape), *at))
        self.lib.mxu_reset(self.handle)

    def run(self, words: list[Fields], gap: list[int] | None = None, drain: list[bool] | None = None) -> Result:
        n = len(words)
        data = np.ascontiguousarray(packed(words))
        gaps = np.array(gap or [0] * n, np.int64)
        drains = np.array(drain or [False] * n, np.uint8)
        out = np.full((4, n), -1, np.int64)
        rows = np.full(1 << 16, -1, np.int64)
        report = Report()
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (data, gaps, drains, *out, rows)]
        self.lib.mxu_run(
            self.handle,
            pointers[0],
            I64(n),
            *pointers[1:3],
            I64(1 << 22),
            *pointers[3:],
            I64(len(rows)),
            ctypes.byref(report),
        )
        return Result(report, *(x.tolist() for x in out), rows[: min(len(rows), report.rows)].tolist())

    def close(self) -> None:
        self.lib.mxu_free(self.handle)


def simulate(words: list[Fields], tile: Tile) -> tuple[int, int] | None:
    """Run the words on the simulator; the code and index of the fault, if there is one."""
    for i, w in enumerate(decode(packed(words))):
        try:
            mxu.matrix(tile, w, Tally())
        except Fault as e:
            return CODES[e.code], i
    return None


def tiles(f: Fields) -> int:
    return f["nn"] * f["nky"] * f["nkx"] * f["nc"]


def max_scalars(f: Fields, cols: int) -> int:
    """PARAM scalars that a word writes: one a row for every column tile that has valid columns."""
    return 0 if f.get("rowmax", 0) == RowMax.NONE else f["nx"] * f["ny"] * -(-f["valid"] // cols)


def schedule(words: list[Fields], start: list[int], a: Arch, packed: bool = False) -> tuple[list[int], list[int]]:
    """The cycles of all ACT addresses and of done, from the starts: the formulas of rtl/doc/dpu_mxu.md.

    Exact while no column vector has to wait for reads of row maxima and no word adds to the last two rows of another.
    """
    r, groups, pieces = a.rows, max(1, a.cols // 8), a.cols // a.lanes
    stages = (int(np.log2(a.cols)) + 1) // 2
    rows: list[int] = []
    done: list[int] = []
    load, enter, last, release = -r, -groups, -1, -1
    for f, begin in zip(words, start, strict=True):
        moved = max(begin + CHECK, release)
        take = max(moved + 1, last)
        height = f["nx"] * f["ny"]
        k = tiles(f) // f["nn"]
        for i in range(tiles(f)):
            column = f.get("mode", 0) == MmMode.COLUMN and i % k == 0
            load = max(load + r, enter + groups, moved + 1)
            enter = max(load + 1 + max(groups, pieces * column), last + 1, take + 1)
            rows += range(enter, enter + height)
            last = enter + height - 1
        release = max(load + r - 1, take)
        done.append(last + r + groups * (1 + packed) + stages + 3)
    return rows, done
