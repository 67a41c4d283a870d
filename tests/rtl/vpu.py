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
    RED_INTEGER,
    VEC,
    Buffer,
    Flag,
    Format,
    Function,
    Op2,
    Opcode,
    Operand,
    Reduce,
    pack,
    word,
)
from dpu.ir.operands import operands
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


_A = [
    pack(Buffer.ACC, Format.I32),
    pack(Buffer.PARAM, Format.I32),
    pack(Buffer.PARAM, Format.F32),
    pack(Buffer.VBUF, Format.F16),
    pack(Buffer.VBUF, Format.F32),
]
_D = [pack(Buffer.ACT, x) for x in (Format.I8, Format.I8_OFFSET, Format.I15_SPLIT)]
_D += [pack(Buffer.VBUF, Format.F16), pack(Buffer.VBUF, Format.F32), pack(Buffer.PARAM, Format.F32)]
_D += [pack(Buffer.NONE, x) for x in Format]
_INTEGERS = (Format.I8, Format.I8_OFFSET, Format.I15_SPLIT)


class Words:
    """Random legal words. No word overwrites what it still reads, but for results in the place of operand A or B."""

    def __init__(self, shape: Arch, rng: np.random.Generator, rows: int = 40) -> None:
        self.shape, self.rng, self.rows = shape, rng, rows
        self.room = {
            Buffer.ACT: shape.words["act"],
            Buffer.ACC: shape.words["acc"],
            Buffer.VBUF: shape.words["vbuf"],
            Buffer.PARAM: shape.words["param"],
        }

    def pick(self, some: Any, p: Any = None) -> int:
        return int(self.rng.choice(some, p=p))

    def layout(self, name: str, source: int, rows: int, tiles: int, valid: int) -> dict[str, int]:
        """Strides and an address inside the buffer; sometimes gaps between rows, tiles."""
        buffer, fmt, c, rng = Buffer(source & 15), source >> 4, self.shape.cols, self.rng
        unit = c if buffer == Buffer.PARAM else 2 if (buffer, fmt) == (Buffer.VBUF, Format.F32) else 1
        planes = 2 if fmt == Format.I15_SPLIT else 1
        gap = int(rng.integers(0, 3)) * int(rng.random() < 0.3)
        if buffer == Buffer.PARAM and tiles == 1:
            rs, ts = (1 if valid == 1 else valid) + gap, 0
        elif rng.random() < 0.5:
            ts = unit + gap
            rs = ts * tiles * planes
        else:
            rs = unit + gap
            ts = rs * rows
        length = (rows - 1) * rs + (tiles * planes - 1) * ts + unit
        if buffer == Buffer.NONE:
            return {name: 0, f"{name}_rs": 0, f"{name}_ts": 0}
        space = self.room[buffer] - length
        if space < 0:
            raise ValueError
        return {name: int(rng.integers(0, space + 1)), f"{name}_rs": rs, f"{name}_ts": ts}

    def fields(self) -> dict[str, Any]:
        rng, c = self.rng, self.shape.cols
        rows = int(rng.integers(1, self.rows + 1)) if rng.random() < 0.7 else int(rng.integers(1, 10))
        tiles = self.pick([1, 2, 3, 4], [0.55, 0.2, 0.15, 0.1])
        valid = int(rng.integers(1, c + 1)) if rng.random() < 0.7 else c
        a_src, d_src = self.pick(_A), self.pick(_D)
        vector = rng.random() < 0.2
        if vector:
            tiles, valid, a_src = 1, 1, self.pick(_A[1:3])
            d_src = self.pick([pack(Buffer.PARAM, Format.F32)] * 4 + _D)
        f: dict[str, Any] = {"rows": rows, "tiles": tiles, "valid": valid, "a_src": a_src, "d_src": d_src}
        f |= self.layout("a", a_src, rows, tiles, valid) | self.layout("d", d_src, rows, tiles, valid)
        f["rs_one"] = tiles == 1 and valid == 1 and d_src & 15 == Buffer.PARAM and f["d_rs"] == 1
        kinds = [Operand.NONE, Operand.IMM0, Operand.IMM1, Operand.ROW, Operand.COL]
        many = rng.random() < 0.6
        p = [0.2] * 5 if many else [0.6, 0.1, 0.1, 0.1, 0.1]
        m1 = (self.pick(kinds, p), self.pick(kinds, p))
        m2 = (self.pick([*kinds, Operand.ELEM]), self.pick([*kinds, Operand.ELEM]))
        if not many:
            m2 = (self.pick(kinds, p), self.pick(kinds, p))
        op2 = self.pick(list(Op2))
        source = self.pick([Operand.ELEM, Operand.IMM0, Operand.IMM1]) if op2 else 0
        f |= {"m1": pack(*m1), "m2": pack(*m2), "op2": pack(op2, source), "rq": self.pick(kinds, p)}
        b_src = pack(Buffer.PARAM, Format.F32) if vector and rng.random() < 0.7 else self.pick([_A[0], *_A[2:]])
        if Operand.ELEM in (*m2, source):
            f |= {"b_src": b_src} | self.layout("b", b_src, rows, tiles, valid)
        else:
            f["b_src"] = self.pick([0, 0xF, 0x57])
        func = self.pick(list(Function), [0.4, 0.15, 0.1, 0.1, 0.1, 0.15])
        f["func"] = pack(func, self.pick([0, 1]))
        f["sub"] = int(a_src >> 4 == Format.I32 and rng.random() < 0.5)
        f["imm"] = [F(rng.normal() * 10.0 ** rng.integers(-2, 3)), F(rng.normal())]
        span = max(rows, (tiles - 1) * c + valid)
        for name in ("a1", "b1", "a2", "b2", "r", "sub_at"):
            f[name] = int(rng.integers(0, self.room[Buffer.PARAM] - span + 1))
        red = self.pick(list(Reduce), [0.4, 0.12, 0.12, 0.18, 0.18])
        if vector and rng.random() < 0.8:
            red = 0
        if red:
            red |= self.pick([0, RED_COLUMNS]) | self.pick([0, RED_ACCUMULATE])
            if d_src >> 4 in _INTEGERS and red & 15 != Reduce.SUM_SQ and rng.random() < 0.5:
                red |= RED_INTEGER
                if red & 15 == Reduce.SUM and not red & RED_COLUMNS and tiles > 1:
                    red &= ~RED_ACCUMULATE  # doc/dpu_vpu.md, limits
        f["red"] = red
        f["red_at"] = int(rng.integers(0, self.room[Buffer.PARAM] - max(2 * rows, 2 * tiles * c) + 1))
        return f

    def word(self) -> Any:
        while True:
            w = self.attempt()
            if w is not None:
                return w

    def attempt(self) -> Any:
        """A word, or None where what was drawn does not fit."""
        try:
            f = self.fields()
        except ValueError:
            return None
        in_place = ""
        if f["rs_one"] and self.rng.random() < 0.2:
            # A result over a scalar of the row, as running vectors have it.
            for name, kind in (("b1", f["m1"] >> 4), ("a2", f["m2"] & 15), ("r", f["rq"])):
                if kind == Operand.ROW:
                    f[name], in_place = f["d"], name
        elif self.rng.random() < 0.25:
            for name in ("a", "b"):
                same_kind = f[f"{name}_src"] == f["d_src"]
                if same_kind and (name == "a" or "b_rs" in f):
                    f |= {f"d{x}": f[f"{name}{x}"] for x in ("", "_rs", "_ts")}
                    in_place = name
        del f["rs_one"]
        w = word(Opcode.VEC, **f)
        return None if self._clashes(w, in_place) else w

    def _clashes(self, w: Any, in_place: str) -> bool:
        """Whether a result overlaps an operand (other than in place) or the other result."""
        cells = [
            (o.name, int(o.buffer[0]), int(o.lo[0]), int(o.hi[0]), bool(o.write[0]))
            for o in operands(np.atleast_1d(w), self.shape)
            if len(o.index)
        ]
        for name, buffer, lo, hi, write in cells:
            if not write:
                continue
            for other, b, low, high, _ in cells:
                if other != name and b == buffer and low < hi and lo < high and not (name == "d" and other == in_place):
                    return True
        return False

    def batch(self, n: int) -> tuple[Any, Any]:
        """Words, and which of them read what an earlier one wrote (as the compiler's DRAIN)."""
        words = np.concatenate([np.atleast_1d(self.word()) for _ in range(n)])
        drain = np.zeros(n, np.uint8)
        written: list[tuple[int, int, int]] = []
        for k in range(n):
            columns = [o for o in operands(words[k : k + 1], self.shape) if len(o.index)]
            reads = [(int(o.buffer[0]), int(o.lo[0]), int(o.hi[0])) for o in columns if o.read[0]]
            if any(b == x and lo < high and low < hi for b, lo, hi in reads for x, low, high in written):
                drain[k] = 1
                written = []
            written += [(int(o.buffer[0]), int(o.lo[0]), int(o.hi[0])) for o in columns if o.write[0]]
        return words, drain


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
