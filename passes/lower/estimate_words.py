"""The words of one tile of an operation as a few segments that repeat: what an estimate times in place of a program.

A segment is a run of words; a schedule says in which order segments run, how often, and for which rows. Buffers are
slots: a slot has one instance, or one for each block, item, query block, key block or unit, as its mode says, so that
the next block's prologue can fill its own while this one is at work. Only what timing depends on is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...ir.arch import Arch
from ...ir.container import ROW_ALIGN
from ...ir.isa import DTYPE, Buffer, DmaFormat, Format, Function, Op2, Opcode, Operand, Reduce, Words, pack
from ...ir.tile_program import ITEM_BYTES
from .estimate_kernel import LEAD, TAIL, WINDOW

Ints = npt.NDArray[np.int64]

LOAD, MXU, VPU, STORE, NOTHING = range(5)  # engines, as `isa.Engine`; NOTHING only frees slots
ONE, BLOCK, ITEM, QUERY, KEY, UNIT = range(6)  # modes of a slot: one instance, or one for each
MODES, INSTANCES = 8, 64  # slots are numbered address * MODES + mode; instances beyond INSTANCES share
_INSTANCES = {ONE: 1, BLOCK: 2, ITEM: 2, QUERY: INSTANCES, KEY: INSTANCES, UNIT: 2}
SPACES = ("act", "wgt", "acc", "vbuf", "param")
BUFFERS = (Buffer.ACT, Buffer.WGT, Buffer.ACC, Buffer.VBUF, Buffer.PARAM)
ROWS, ALL = 0, 1  # which rows of a tensor a word reads: those of the schedule, or all of the sample, of all tiles
READ, WRITE = 1, 2

ACC, VEC16, VEC32 = pack(Buffer.ACC, Format.I32), pack(Buffer.VBUF, Format.F16), pack(Buffer.VBUF, Format.F32)
PAR32, PARI32 = pack(Buffer.PARAM, Format.F32), pack(Buffer.PARAM, Format.I32)
ACT8, ACT15 = pack(Buffer.ACT, Format.I8), pack(Buffer.ACT, Format.I15_SPLIT)
NONE = pack(Buffer.NONE, Format.F32)
IMM, ROW, COL = int(Operand.IMM0), int(Operand.ROW), int(Operand.COL)

VEC_FIELDS = ("rows", "tiles", "valid", "a_src", "b_src", "d_src", "m1", "m2", "rq", "op2", "func", "red", "sub")
STEP_FIELDS = (
    *("segment", "times", "block", "item", "query", "key", "unit", "sample", "lo", "hi", "prologue"),
    *("mark", "extra", "window"),
)
S_BLOCK, S_UNIT, S_SAMPLE, S_LO, S_HI, S_PROLOGUE, S_MARK, S_EXTRA, S_WINDOW = 2, 6, 7, 8, 9, 10, 11, 12, 13
CUT, PART = 2, 3  # in the place of `prologue`: what may be separated from the step before, in a main part or prologue

Slot = int


class At(NamedTuple):
    """Where a step is: numbers of the block, item, query block, key block and unit; the sample; rows of the tile."""

    block: int = 0
    unit: int = 0
    sample: int = 0
    rows: tuple[int, int] = (0, 0)
    item: int = 0
    query: int = 0
    key: int = 0


@dataclass(frozen=True)
class Kept:
    """Which of `n` equal repetitions are timed, and between which of them lies the window."""

    numbers: tuple[int, ...]
    begin: int = -1  # the window begins before this one
    end: int = -1
    extra: int = 0
    window: int = 1


def kept(n: int, lead: int = LEAD, window: int = WINDOW, tail: int = TAIL) -> Kept:
    """The first `lead`, a window and the last `tail`, if that leaves any out."""
    extra = n - lead - window - tail
    if extra <= 1:
        return Kept(tuple(range(n)))
    return Kept((*range(lead + window), *range(n - tail, n)), lead, n - tail, extra, window)


def pitch(channels: int, item: int) -> int:
    """Bytes from one token of a DRAM tensor to the next."""
    return -(-channels * item // ROW_ALIGN) * ROW_ALIGN


class Unfit(ValueError):
    """A value does not fit its field; `word` is the number of the word."""

    def __init__(self, text: str, word: int) -> None:
        super().__init__(text)
        self.word = word


def _fill(out: Words, opcode: Opcode, **fields: Ints) -> None:
    """Set fields, [words] or [words, n].

    Raises:
        Unfit: a value does not fit.
    """
    for name, values in fields.items():
        info = np.iinfo(DTYPE[opcode][name].base)
        bad = (values < info.min) | (values > info.max)
        if bad.any():
            word = int(np.flatnonzero(bad.reshape(len(out), -1).any(axis=1))[0])
            value = int(values[bad][0])
            raise Unfit(f"{opcode.name}.{name} = {value}: the field holds {info.min} to {info.max}", word)
        out[name] = values


@dataclass
class Program:
    """One operation: `steps` rows have STEP_FIELDS; segments are numbers of the builder."""

    steps: list[tuple[int, ...]] = field(default_factory=list)
    slots: int = 0
    tiles: float = 0.0  # that do as much as this one, together
    blocked: list[Slot] = field(default_factory=list)  # slots that end with a block
    united: list[Slot] = field(default_factory=list)  # slots that end with a unit
    named: dict[str, Slot] = field(default_factory=dict)  # slots that several segments allocate


class Builder:
    """Collects segments of all operations of one arch, in columns."""

    def __init__(self, arch: Arch) -> None:
        self.arch, self.c = arch, arch.cols
        self.size = dict(zip(SPACES, (arch.words[s] for s in SPACES), strict=True))
        self.engine: list[int] = []
        self.cost: list[int] = []  # number among the words of its engine's kind
        self.dram: list[tuple[int, int, int]] = []  # role read or -1, mode, role written or -1
        self.ref_at, self.refs = [0], list[tuple[int, int]]()
        self.alloc_at, self.allocs = [0], list[tuple[int, int, int]]()
        self.free_at, self.frees = [0], list[int]()
        self.segment_at = [0]
        self.words: list[int] = []  # of each segment
        self.constants: list[int] = []  # bytes that each segment loads
        self.mm: list[tuple[int, ...]] = []
        self.vec_rows: list[tuple[int, ...]] = []
        self.dma: list[tuple[int, ...]] = []
        self.program = Program()
        self._new: list[tuple[int, int, int]] = []
        self._local: list[Slot] = []

    # -- segments and slots ----------------------------------------------------------------------------------------

    def slot(self, space: str, words: int, mode: int = ONE, kept: bool = False) -> Slot:
        """A new slot, allocated before the next word. ONE slots end with their last use in the segment unless kept."""
        p = self.program
        name = p.slots * MODES + mode
        p.slots += _INSTANCES[mode]
        self.again(name, space, words)
        if mode == BLOCK:
            p.blocked.append(name)
        elif mode == UNIT:
            p.united.append(name)
        elif mode == ONE and not kept:
            self._local.append(name)
        return name

    def again(self, slot: Slot, space: str, words: int) -> None:
        """Allocate a slot that another segment also allocates."""
        self._new.append((slot, SPACES.index(space), words))

    def end(self) -> int:
        """Close the segment; its number."""
        first = self.segment_at[-1]
        if self._local:
            last = dict.fromkeys(self._local, len(self.engine) - 1)
            for i in range(first, len(self.engine)):
                for name, _ in self.refs[self.ref_at[i] : self.ref_at[i + 1]]:
                    if name in last:
                        last[name] = i
            ends: dict[int, list[Slot]] = {}
            for name, i in last.items():
                ends.setdefault(i, []).append(name)
            frees: list[Slot] = []
            start, at = self.free_at[first], list[int]()
            for i in range(first, len(self.engine)):
                frees += self.frees[self.free_at[i] : self.free_at[i + 1]]
                frees += ends.get(i, ())
                at.append(start + len(frees))
            self.frees[start:] = frees
            self.free_at[first + 1 :] = at
            self._local = []
        self.segment_at.append(len(self.engine))
        self.words.append(sum(e < NOTHING for e in self.engine[first:]))
        loads = [self.cost[i] for i in range(first, len(self.engine)) if self.engine[i] == LOAD and self.dram[i][0] < 0]
        self.constants.append(sum(prod(self.dma[i][2:6]) for i in loads if self.dma[i][1] != FILL))
        return len(self.segment_at) - 2

    def release(self, slots: Sequence[Slot]) -> None:
        """A step that ends slots."""
        self._word(NOTHING, 0, (), ())
        self.frees += slots
        self.free_at[-1] = len(self.frees)

    def step(self, segment: int, times: int, at: At, prologue: int = 0, rows: tuple[int, int] | None = None) -> None:
        """The next step of the schedule: a segment so many times. `rows`: other rows than those of `at`."""
        lo, hi = at.rows if rows is None else rows
        where = (at.block & 1, at.item & 1, at.query % INSTANCES, at.key % INSTANCES, at.unit & 1, at.sample)
        self.program.steps.append((segment, times, *where, lo, hi, prologue, 0, 0, 1))

    def panels(self, panels: Sequence[tuple[int, int, int]], at: At) -> None:
        """The steps of panels, (product, epilogue, times) each. A product comes before the epilogue of the panel
        before; what passes from one to the other has an instance for each item."""
        turns: list[tuple[int, int, tuple[bool, int, int] | None]] = []
        for product, epilogue, times in panels:
            k = kept(times, 2, 2, 16)  # over the last ones a prologue is spread
            for n in k.numbers:
                mark = (n == k.end, k.extra, k.window) if n in (k.begin, k.end) else None
                turns.append((product, epilogue, mark))
        self.step(turns[0][0], 1, at._replace(item=0))
        for n, (_, epilogue, mark) in enumerate(turns):
            if mark is not None:
                self.mark(1, *mark, at)
            if n + 1 < len(turns):
                self.step(turns[n + 1][0], 1, at._replace(item=n + 1))
            self.step(epilogue, 1, at._replace(item=n), CUT)

    def mark(self, level: int, ends: bool, extra: int, window: int, at: At) -> None:
        """A window of repetitions begins, or ends: `extra` more take as long as each of the `window` in between.

        Windows of level 1 may lie in one of level 0."""
        row = (0, 0, at.block & 1, 0, 0, 0, at.unit & 1, at.sample, *at.rows, 0, 2 * level + 2 + int(ends), extra)
        self.program.steps.append((*row, window))

    # -- words -----------------------------------------------------------------------------------------------------

    def _word(
        self,
        engine: int,
        cost: int,
        reads: Sequence[Slot],
        writes: Sequence[Slot],
        dram: tuple[int, int, int] = (-1, 0, -1),
    ) -> None:
        self.engine.append(engine)
        self.cost.append(cost)
        self.dram.append(dram)
        self.refs += [(s, READ) for s in reads]
        self.refs += [(s, WRITE) for s in writes]
        self.ref_at.append(len(self.refs))
        self.allocs += self._new
        self._new = []
        self.alloc_at.append(len(self.allocs))
        self.free_at.append(len(self.frees))

    def _moves(
        self,
        buffer: int,
        inner: int,
        n: tuple[int, ...],
        stride: tuple[int, ...],
        pad: tuple[int, int, int, int] = (0, 0, 0, 0),
        fmt: int = 0,
    ) -> int:
        self.dma.append((buffer, fmt, inner, *(*n, 1, 1)[:3], *(*stride, 0, 0, 0)[:3], *pad))
        return len(self.dma) - 1

    def load(
        self,
        dst: Slot,
        space: str,
        inner: int,
        n: tuple[int, ...] = (1,),
        stride: tuple[int, ...] = (),
        *,
        role: int = -1,
        mode: int = ROWS,
        pad: tuple[int, int, int, int] = (0, 0, 0, 0),
        fmt: int = 0,
    ) -> None:
        """A LOAD of `role`, one of the tensors that the operation reads; -1: a constant."""
        cost = self._moves(int(BUFFERS[SPACES.index(space)]), inner, n, stride, pad, fmt)
        self._word(LOAD, cost, (), (dst,), (role, mode, -1))

    def store(
        self,
        src: Slot,
        space: str,
        inner: int,
        n: tuple[int, ...] = (1,),
        stride: tuple[int, ...] = (),
        *,
        role: int,
    ) -> None:
        """A STORE to `role`, one of the tensors that the operation writes."""
        cost = self._moves(int(BUFFERS[SPACES.index(space)]), inner, n, stride)
        self._word(STORE, cost, (src,), (), (-1, 0, role))

    def product(
        self,
        act: Slot,
        wgt: Slot,
        acc: Slot,
        rows: int,
        k_tiles: int,
        nn: int,
        *,
        accumulate: bool = False,
        maximum: Slot = -1,
    ) -> None:
        """An MM word: `nn` column tiles of `k_tiles` weight tiles, `rows` rows each."""
        self.mm.append((rows, k_tiles, nn, int(accumulate)))
        writes = (acc,) if maximum < 0 else (acc, maximum)
        self._word(MXU, len(self.mm) - 1, (act, wgt, acc) if accumulate else (act, wgt), writes)

    def vec(
        self,
        reads: Sequence[Slot],
        writes: Sequence[Slot],
        rows: int,
        tiles: int,
        valid: int,
        a: int,
        d: int,
        *,
        m1: int = 0,
        m2: int = 0,
        r: int = 0,
        op2: int = 0,
        b: int = NONE,
        func: int = 0,
        red: int = 0,
        sub: int = 0,
    ) -> None:
        """A VEC word; fields as in `isa.VEC`."""
        self.vec_rows.append((rows, tiles, valid, a, b, d, m1, m2, r, op2, func, red, sub))
        self._word(VPU, len(self.vec_rows) - 1, reads, writes)

    def vector(
        self,
        a: Slot,
        d: Slot,
        n: int,
        *,
        also: Sequence[Slot] = (),
        m1: int = 0,
        func: int = 0,
        op2: int = 0,
        b: bool = False,
    ) -> None:
        """A pass over scalars in PARAM; `b`: the second operand is in PARAM too."""
        op2 = pack(op2, Operand.ELEM if b else IMM) if op2 else 0
        self.vec((a, *also), (d,), n, 1, 1, PAR32, PAR32, m1=m1, func=func, op2=op2, b=PAR32 if b else NONE)

    def norm_vectors(self, s: Slot, q: Slot, rows: int, mode: int = ONE, kept: bool = False) -> tuple[Slot, Slot]:
        """As `vectors.norm_vectors`; the mode is that of its results."""
        m, t = self.slot("param", rows), self.slot("param", rows)
        r, nb = self.slot("param", rows, mode, kept), self.slot("param", rows, mode, kept)
        self.vector(s, m, rows, m1=IMM)
        self.vector(m, t, rows, also=(m,), m1=IMM, op2=Op2.MUL, b=True)
        self.vector(q, t, rows, also=(t,), m1=pack(IMM, ROW), op2=Op2.MAX)
        self.vector(t, r, rows, m1=pack(0, IMM), func=Function.RSQRT)
        self.vector(m, nb, rows, also=(r,), m1=IMM, op2=Op2.MUL, b=True)
        return r, nb

    def token_scales(self, amax: Slot, inv: Slot, s: Slot, rows: int) -> None:
        """As `vectors.token_scales`."""
        self.vector(amax, inv, rows, func=Function.RECIP, op2=Op2.MUL)
        self.vector(amax, s, rows, m1=IMM)

    def combine(self, acc: Slot, rows: int, tiles: int, valid: int) -> Slot:
        """As `vectors.combine` of two planes."""
        x = self.slot("vbuf", rows * tiles * 2)
        op2 = pack(Op2.ADD, Operand.ELEM)
        self.vec((acc,), (x,), rows, tiles, valid, ACC, VEC32, m1=IMM, op2=op2, b=ACC)
        return x

    # -- records ---------------------------------------------------------------------------------------------------

    def mm_records(self) -> Words:
        """The MM words."""
        rows = np.array(self.mm, np.int64).reshape(-1, 4).T
        out: Words = np.zeros(len(self.mm), DTYPE[Opcode.MM])
        one = np.ones(len(out), np.int64)
        out["opcode"] = Opcode.MM
        _fill(out, Opcode.MM, nx=rows[0], ny=one, nkx=one, nky=one, nc=rows[1], nn=rows[2], mode=rows[3])
        return out

    def vec_records(self) -> Words:
        """The VEC words."""
        rows = np.array(self.vec_rows, np.int64).reshape(-1, len(VEC_FIELDS)).T
        out: Words = np.zeros(len(self.vec_rows), DTYPE[Opcode.VEC])
        out["opcode"] = Opcode.VEC
        _fill(out, Opcode.VEC, **dict(zip(VEC_FIELDS, rows, strict=True)))
        for name in ("a_rs", "b_rs", "d_rs"):
            out[name] = 1  # of an operand in PARAM; others have longer rows, which no cost depends on
        return out

    def dma_records(self) -> Words:
        """The LOAD and STORE words, all as LOAD: cost is the same."""
        rows = np.array(self.dma, np.int64).reshape(-1, 13).T
        out: Words = np.zeros(len(self.dma), DTYPE[Opcode.LOAD])
        out["opcode"] = Opcode.LOAD
        box = {"n": rows[3:6].T, "dstride": rows[6:9].T, "pad": rows[9:13].T}
        _fill(out, Opcode.LOAD, buffer=rows[0], format=rows[1], inner=rows[2], **box)
        return out


def item_bytes(kind: str) -> int:
    """Bytes of an element of a linear section's result."""
    return ITEM_BYTES[{"f32": "f32", "q8_head": "i8", "q8_static": "i8"}.get(kind, "f16")]


FILL, INT4, TRANSPOSE = int(DmaFormat.FILL), int(DmaFormat.INT4), int(DmaFormat.TRANSPOSE)
SUM, ABSMAX, MAXIMUM, PAIR = int(Reduce.SUM), int(Reduce.ABSMAX), int(Reduce.MAX), int(Reduce.SUM_SQ)
