"""Random VEC words: every operand, step and reduction; no word overwrites what it still reads."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.arch import Arch
from ..ir.isa import (
    RED_ACCUMULATE,
    RED_COLUMNS,
    RED_INTEGER,
    Buffer,
    Format,
    Function,
    Op2,
    Opcode,
    Operand,
    Reduce,
    pack,
    word,
)
from ..ir.operands import operands

F = np.float32

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


class VecWords:
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
