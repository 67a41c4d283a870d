"""dpu_vpu as a shared library: lists of VEC words on the scratchpads of a Tile, and the same on the simulator."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from dpu.ir import numerics as nu
from dpu.ir.arch import Arch, load_arch
from dpu.ir.isa import (
    RED_ACCUMULATE,
    RED_COLUMNS,
    VEC,
    Buffer,
    Flag,
    Format,
    Function,
    Operand,
    Reduce,
    pack,
)
from dpu.simulator import vpu_numpy
from dpu.simulator.decode import decode
from dpu.simulator.state import Fault, Tally, Tile

from . import shared

CODES = {"E410": 2, "E411": 3, "E415": 6}  # FIELD, SCRATCHPAD, NUMERIC
F = np.float32

U64, POINTER = ctypes.c_uint64, ctypes.c_void_p


class Run(ctypes.Structure):
    """`struct Run` of rtl/bench/dpu_vpu.cpp."""

    _fields_ = [
        ("words", U64),
        ("word", POINTER),
        ("drain", POINTER),
        ("cols", U64),
        ("lanes", U64),
        *((name, POINTER) for name in ("act", "acc", "vbuf", "param")),
        *((f"{name}_words", U64) for name in ("act", "acc", "vbuf", "param")),
        ("tables", POINTER),
        *((name, U64) for name in ("reset", "hold_acc", "hold_param", "hold_start", "seed", "stop_at", "limit")),
        ("started", POINTER),
        ("done", POINTER),
        *((name, U64) for name in ("done_count", "cycles", "busy", "stall", "overflows", "nans")),
        *((name, U64) for name in ("acc_reads", "vbuf_reads", "param_reads", "red_reads", "param_writes")),
        *((f"fault{name}", U64) for name in ("", "_code", "_index", "_address")),
        ("text", ctypes.c_char * 256),
    ]


@cache
def arch(cols: int, lanes: int) -> Arch:
    """Small scratchpads, so that words meet; their sizes are no powers of two."""
    tiny = load_arch("dpu_tiny").model_dump()
    sizes = {"act": 900 * cols, "wgt": 100 * cols, "acc": 4 * 300 * cols, "vbuf": 2 * 1100 * cols, "param": 4 * 5000}
    buffers = {k: {"bytes": v, "banks": 2} for k, v in sizes.items()}
    return Arch.model_validate({**tiny, "rows": cols, "cols": cols, "lanes": lanes, "buffers": buffers})


@cache
def library(shape: Arch) -> Any:
    """The compiled library."""
    sizes = {f"{n.capitalize()}Words": shape.words[n] for n in ("act", "acc", "vbuf", "param")}
    return shared.library("dpu_vpu", {"Cols": shape.cols, "Lanes": shape.lanes, **sizes})


def fresh(shape: Arch, rng: np.random.Generator, wild: bool) -> Tile:
    """A tile with random contents: of ordinary size, or any bits at all. Slot 0 holds `sigmoid`, slot 1 `phi`."""
    t = Tile(shape)
    if wild:
        for b in (Buffer.ACT, Buffer.ACC, Buffer.VBUF, Buffer.PARAM):
            t.memory[b][:] = rng.integers(0, 256, t.memory[b].size)
        size = t.param_f.size
        t.param_f[:] = np.where(rng.random(size) < 0.7, rng.normal(size=size), t.param_f)
        special = np.array([np.inf, -np.inf, np.nan, 1e-40, -1e-44, 0, -0.0, 3e38, 1e-38], F)
        some = rng.random(size) < 0.1
        t.param_f[some] = rng.choice(special, some.sum())
    else:
        t.acc[:] = rng.integers(-3000, 3000, t.acc.shape)
        t.vbuf.view(np.float16)[:] = rng.normal(size=t.vbuf.size // 2)
        t.param_f[:] = rng.normal(size=t.param_f.size)
        t.act[:] = rng.integers(-128, 128, t.act.shape)
    t.tables[0], t.tables[1] = nu.GATES["sigmoid"], nu.GATES["phi"]
    return t


def images(t: Tile) -> Any:
    return np.concatenate([np.zeros(4160, np.uint8) if g is None else nu.table_image(g) for g in t.tables])


@dataclass
class Result:
    """What the RTL did; its memories are in the tile that was given."""

    run: Run
    started: Any
    done: Any


def run(
    shape: Arch,
    t: Tile,
    words: Any,
    drain: Any,
    *,
    seed: int = 1,
    hold: tuple[int, int, int] = (0, 0, 0),
    reset: bool = True,
    stop_at: int = 0,
    limit: int = 400_000,
) -> Result:
    """Run the words on the RTL, on the tile's memories (in place)."""
    words = np.ascontiguousarray(words)
    n = len(words)
    drain = np.ascontiguousarray(drain, np.uint8)
    started, done = np.zeros(n, np.uint64), np.zeros(n, np.uint64)
    table = images(t) if reset else None
    r = Run(words=n, cols=shape.cols, lanes=shape.lanes, reset=reset, seed=seed, stop_at=stop_at, limit=limit)
    r.word, r.drain, r.started, r.done = (x.ctypes.data for x in (words, drain, started, done))
    for name, b in (("act", Buffer.ACT), ("acc", Buffer.ACC), ("vbuf", Buffer.VBUF), ("param", Buffer.PARAM)):
        setattr(r, name, t.memory[b].ctypes.data)
        setattr(r, f"{name}_words", t.words[b])
    r.tables = table.ctypes.data if table is not None else None
    r.hold_acc, r.hold_param, r.hold_start = hold
    library(shape).vpu_run(ctypes.byref(r))
    return Result(r, started, done)


def simulate(t: Tile, words: Any) -> tuple[Tally, Fault | None, int]:
    """The words on the simulator, on the tile's memories; the fault that stopped it and at which word."""
    tally = Tally()
    for k, w in enumerate(decode(words)):
        before = tally.fp16_overflow + tally.nan
        try:
            vpu_numpy.vector(t, w, tally)
            if w[1] & Flag.TRAP and tally.fp16_overflow + tally.nan > before:
                raise Fault("E415", "flags", "trap")
        except Fault as e:
            return tally, e, k
    return tally, None, len(words)


def twin(shape: Arch, t: Tile) -> Tile:
    other = Tile(shape)
    for b, m in t.memory.items():
        other.memory[b][:] = m
    other.tables[:] = t.tables
    return other


def same(a: Tile, b: Tile) -> str:
    """The first difference, or nothing."""
    for buffer in (Buffer.ACT, Buffer.ACC, Buffer.VBUF, Buffer.PARAM):
        x, y = a.memory[buffer], b.memory[buffer]
        if not np.array_equal(x, y):
            unit = a.word_bytes[buffer]
            at = np.unique(np.flatnonzero(x != y) // unit)
            k = int(at[0]) * unit
            kind = (
                np.uint32 if buffer in (Buffer.ACC, Buffer.PARAM) else np.uint16 if buffer == Buffer.VBUF else np.uint8
            )
            return (
                f"{buffer.name} words {at[:12].tolist()} ({len(at)}): "
                f"RTL {[hex(v) for v in x[k : k + unit].view(kind)]} "
                f"simulator {[hex(v) for v in y[k : k + unit].view(kind)]}"
            )
    return ""


def mismatch(shape: Arch, t: Tile, words: Any, drain: Any, **options: Any) -> str:
    """Run on both; what differs. The tile becomes what the simulator made of it."""
    rtl = twin(shape, t)
    got = run(shape, rtl, words, drain, **options)
    tally, fault, at = simulate(t, words)
    if got.run.text:
        return got.run.text.decode()
    if fault is not None:
        found = (got.run.fault, got.run.fault_code, got.run.fault_index)
        return (
            ""
            if found == (1, CODES[fault.code], at)
            else f"fault {found}, expected {fault.code} ({fault.what}) at {at}"
        )
    if got.run.fault:
        return f"fault {got.run.fault_code} at word {got.run.fault_index}, address {got.run.fault_address}"
    if got.run.done_count != len(words):
        return f"{got.run.done_count} of {len(words)} done"
    counts = (got.run.overflows, got.run.nans)
    if counts != (tally.fp16_overflow, tally.nan):
        return f"counts {counts}, expected {(tally.fp16_overflow, tally.nan)}"
    return same(rtl, t)


def occupancy(shape: Arch, w: Any) -> int:
    """Cycles from word to word when the same word comes again and again: the formula of rtl/doc/dpu_vpu.md."""
    f = {k: int(v) for k, v in zip(VEC.names, np.atleast_1d(w).view(VEC)[0], strict=True) if np.ndim(v) == 0}
    c, lanes, rows, tiles = shape.cols, shape.lanes, f["rows"], f["tiles"]
    kinds = (f["m1"] & 15, f["m1"] >> 4, f["m2"] & 15, f["m2"] >> 4, f["rq"])
    elem = Operand.ELEM in (*kinds, f["op2"] >> 4 if f["op2"] & 15 else 0)
    sources = [f["a_src"]] + [f["b_src"]] * elem
    row_vectors, col_vectors = kinds.count(Operand.ROW) + bool(f["sub"]), kinds.count(Operand.COL)
    red, accumulate, squares = f["red"] & 15, bool(f["red"] & RED_ACCUMULATE), f["red"] & 15 == Reduce.SUM_SQ
    narrow = f["func"] & 15 in (Function.RECIP, Function.RSQRT)
    in_param = [s & 15 == Buffer.PARAM for s in sources]
    groups = -(-rows // lanes)
    steps = f["a_rs"] == 1 and (not elem or f["b_rs"] == 1) and (f["d_src"] & 15 == Buffer.NONE or f["d_rs"] == 1)
    d_param = f["d_src"] & 15 == Buffer.PARAM
    if tiles == f["valid"] == 1 and not red and all(in_param) and steps and (d_param or f["d_src"] & 15 == Buffer.NONE):
        beats = -(-rows // min(4, lanes)) if narrow else groups
        return max(beats, groups * (sum(in_param) + row_vectors) + col_vectors, 3)
    words = [sum((2 if s >> 4 == Format.F32 else 1) for s in sources if s & 15 == b) for b in (Buffer.ACC, Buffer.VBUF)]
    pair = f["d_src"] in (pack(Buffer.VBUF, Format.F32), pack(Buffer.ACT, Format.I15_SPLIT))
    front = reads = writes = tails = 0
    for t in range(tiles):
        valid = f["valid"] if t == tiles - 1 else c
        beats = -(-valid // lanes)
        parts = -(-valid // min(4, lanes)) if narrow else beats
        front += rows * max(parts, *words, 1 + pair, beats * sum(in_param))
        reads += rows * beats * sum(in_param) + col_vectors * beats
        reads += row_vectors * groups if t == 0 or groups > 1 else 0
        writes += rows * beats * d_param
        if red and f["red"] & RED_COLUMNS:
            tails += 7 * beats + 6 + accumulate * (2 + beats * (1 + squares))
            writes += beats * (1 + squares)
        elif red:
            writes += groups * (1 + squares)
    behind = 0
    if red and not f["red"] & RED_COLUMNS:
        behind = rows * tiles + accumulate * (2 + squares)
        behind += (tiles - 1) * (3 + 2 * squares) if groups == 1 else 0
    return max(front + tails, reads, writes, behind, 3)
