"""Writes instructions: friendly arguments in, buffers and instructions of a section out. No decisions are made here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypedDict

import numpy as np

from ...ir.arch import Arch
from ...ir.isa import (
    RED_ACCUMULATE,
    RED_COLUMNS,
    RED_INTEGER,
    Buffer,
    DmaFormat,
    Format,
    Function,
    MmMode,
    Op2,
    Opcode,
    Operand,
    Reduce,
    RowMax,
    pack,
)
from ...ir.tile_program import Buf, Dram, Instr

_SPACE = {"act": Buffer.ACT, "wgt": Buffer.WGT, "acc": Buffer.ACC, "vbuf": Buffer.VBUF, "param": Buffer.PARAM}


@dataclass(frozen=True)
class View:
    """An operand of a vector pass: element (row i, column tile t) starts at word `at + i * rs + t * ts` of `buf`."""

    buf: Buf
    fmt: Format
    rs: int
    ts: int
    at: int = 0

    def tile(self, t: int) -> View:
        """The operand from its column tile `t` on."""
        return replace(self, at=self.at + t * self.ts)


@dataclass(frozen=True)
class Row:
    """A factor for each row: PARAM[at + i]."""

    buf: Buf
    at: int = 0


@dataclass(frozen=True)
class Col:
    """A factor for each column: PARAM[at + t * C + j]."""

    buf: Buf
    at: int = 0


@dataclass(frozen=True)
class Red:
    """A reduction into PARAM."""

    kind: Reduce
    buf: Buf
    at: int = 0
    columns: bool = False
    accumulate: bool = False
    integer: bool = False


Factor = Row | Col | float | None


class Factors(TypedDict, total=False):
    """Factors of a vector pass by name: affine 1, affine 2, requantise."""

    a1: Factor
    b1: Factor
    a2: Factor
    b2: Factor
    r: Factor


class Emitter:
    """Collects the operations of one section."""

    def __init__(self, arch: Arch) -> None:
        self.arch = arch
        self.c = arch.cols
        self.ops: list[Buf | Instr] = []
        self.cuts: list[int] = []  # numbers of operations before which other work may come

    def cut(self) -> None:
        """Other work may come here: nothing that is needed soon is half done."""
        if self.ops and (not self.cuts or self.cuts[-1] < len(self.ops)):
            self.cuts.append(len(self.ops))

    @property
    def parts(self) -> list[list[Buf | Instr]]:
        """The operations, cut."""
        edges = [0, *(n for n in self.cuts if n < len(self.ops)), len(self.ops)]
        return [self.ops[a:z] for a, z in pairwise(edges) if z > a]

    def alloc(self, space: str, words: int) -> Buf:
        """A new buffer of `words` words."""
        buffer = Buf(space, words)
        self.ops.append(buffer)
        return buffer

    def add(self, opcode: Opcode, operands: dict[str, Buf | Dram], fields: dict[str, Any]) -> None:
        """Append one instruction."""
        self.ops.append(Instr(opcode, operands, fields))

    def load(
        self,
        dst: Buf,
        src: Dram | None,
        inner: int,
        n: tuple[int, ...] = (1,),
        dstride: tuple[int, ...] = (),
        sstride: tuple[int, ...] = (),
        *,
        sram: int = 0,
        offset: int = 0,
        pad: tuple[int, int, int, int] = (0, 0, 0, 0),
        fmt: DmaFormat = DmaFormat.RAW,
        fill: int = 0,
    ) -> None:
        operands: dict[str, Buf | Dram] = {"dst": dst} if src is None else {"dst": dst, "src": src}
        self.add(Opcode.LOAD, operands, self._dma(inner, n, dstride, sstride, sram, offset, pad, fmt, fill))

    def store(
        self,
        dst: Dram,
        src: Buf,
        inner: int,
        n: tuple[int, ...] = (1,),
        dstride: tuple[int, ...] = (),
        sstride: tuple[int, ...] = (),
        *,
        sram: int = 0,
        offset: int = 0,
    ) -> None:
        fields = self._dma(inner, n, dstride, sstride, sram, offset, (0, 0, 0, 0), DmaFormat.RAW, 0)
        self.add(Opcode.STORE, {"src": src, "dst": dst}, fields)

    def _dma(
        self,
        inner: int,
        n: tuple[int, ...],
        dstride: tuple[int, ...],
        sstride: tuple[int, ...],
        sram: int,
        offset: int,
        pad: tuple[int, int, int, int],
        fmt: DmaFormat,
        fill: int,
    ) -> dict[str, Any]:
        return {
            "format": int(fmt),
            "fill": fill,
            "offset": offset,
            "sram": sram,
            "inner": inner,
            "n": (*n, 1, 1)[:3],
            "dstride": (*dstride, 0, 0, 0)[:3],
            "sstride": (*sstride, 0, 0, 0)[:3],
            "pad": pad,
        }

    def mm(
        self,
        act: Buf,
        wgt: Buf,
        acc: Buf,
        *,
        rows: tuple[int, int],
        row_stride: tuple[int, int],
        nc: int,
        nn: int,
        wn: int,
        an: int,
        taps: tuple[int, int] = (1, 1),
        tap_stride: tuple[int, int] = (0, 0),
        act_at: int = 0,
        wgt_at: int = 0,
        acc_at: int = 0,
        accumulate: bool = False,
        rowmax: Buf | None = None,
        rowmax_at: int = 0,
        valid: int = 0,
    ) -> None:
        """`rows`, `row_stride`, `taps`, `tap_stride` are (y, x) pairs; `nc` reduction tiles lie side by side."""
        operands: dict[str, Buf | Dram] = {"act": act, "wgt": wgt, "acc": acc}
        if rowmax is not None:
            operands["rowmax_at"] = rowmax
        self.add(
            Opcode.MM,
            operands,
            {
                "act": act_at,
                "wgt": wgt_at,
                "acc": acc_at,
                "ny": rows[0],
                "nx": rows[1],
                "sy": row_stride[0],
                "sx": row_stride[1],
                "nc": nc,
                "sc": 1,
                "nky": taps[0],
                "nkx": taps[1],
                "sky": tap_stride[0],
                "skx": tap_stride[1],
                "nn": nn,
                "wn": wn,
                "an": an,
                "mode": int(MmMode.ACCUMULATE if accumulate else MmMode.ZERO),
                "rowmax": int(RowMax.INIT) if rowmax is not None else 0,
                "rowmax_at": rowmax_at,
                "valid": valid,
            },
        )

    def vec(
        self,
        a: View,
        d: View | None,
        rows: int,
        tiles: int = 1,
        valid: int = 1,
        *,
        a1: Factor = None,
        b1: Factor = None,
        a2: Factor = None,
        b2: Factor = None,
        func: Function = Function.NONE,
        table: Buf | None = None,
        op2: Op2 = Op2.NONE,
        b: View | float | None = None,
        r: Factor = None,
        sub: Row | None = None,
        red: Red | None = None,
    ) -> None:
        """One vector pass over `rows` x `tiles` column tiles, `valid` columns of the last tile counting."""
        operands: dict[str, Buf | Dram] = {}
        fields: dict[str, Any] = {"rows": rows, "tiles": tiles, "valid": valid}
        immediates: list[float] = []

        def view(name: str, v: View | None) -> None:
            if v is None:
                fields[f"{name}_src"] = pack(Buffer.NONE, Format.F32)
                return
            operands[name] = v.buf
            fields[f"{name}_src"] = pack(_SPACE[v.buf.space], v.fmt)
            fields.update({name: v.at, f"{name}_rs": v.rs, f"{name}_ts": v.ts})

        def factor(name: str, f: Factor) -> Operand:
            if f is None:
                return Operand.NONE
            if isinstance(f, Row | Col):
                operands[name] = f.buf
                fields[name] = f.at
                return Operand.ROW if isinstance(f, Row) else Operand.COL
            value = float(np.float32(f))
            if value not in immediates:
                immediates.append(value)
            return (Operand.IMM0, Operand.IMM1)[immediates.index(value)]

        view("a", a)
        view("d", d)
        fields["m1"] = pack(factor("a1", a1), factor("b1", b1))
        fields["m2"] = pack(factor("a2", a2), factor("b2", b2))
        fields["rq"] = int(factor("r", r))
        fields["func"] = int(func)
        if table is not None:
            operands["table"] = table
        if isinstance(b, View):
            view("b", b)
            fields["op2"] = pack(op2, Operand.ELEM)
        elif b is not None:
            fields["op2"] = pack(op2, factor("", b))
        if sub is not None:
            operands["sub_at"] = sub.buf
            fields.update({"sub": 1, "sub_at": sub.at})
        if red is not None:
            operands["red_at"] = red.buf
            flags = (red.columns and RED_COLUMNS) | (red.integer and RED_INTEGER) | (red.accumulate and RED_ACCUMULATE)
            fields.update({"red": int(red.kind) | flags, "red_at": red.at})
        if len(immediates) > 2:
            raise ValueError(f"three immediates in one vector pass: {immediates}")
        if immediates:
            fields["imm"] = (*immediates, 0.0)[:2]
        self.add(Opcode.VEC, operands, fields)

    # -- vectors in PARAM: n rows of one column -------------------------------------------------------------------

    def vector(self, a: Buf, d: Buf, n: int, *, at: int = 0, to: int = 0, **kwargs: Any) -> None:
        """A vector pass over float32 scalars PARAM `a[at + i]` into PARAM `d[to + i]`."""
        self.vec(View(a, Format.F32, 1, 1, at), View(d, Format.F32, 1, 1, to), n, **kwargs)

    def scalars(self, buf: Buf, at: int = 0) -> View:
        """PARAM float32 scalars as a second operand of `vector`."""
        return View(buf, Format.F32, 1, 1, at)
