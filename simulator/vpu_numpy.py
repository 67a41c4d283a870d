"""VPU by numpy: one pass over [rows, columns], every step one operation of `ir/numerics.py`.

It judges the compiled passes of `vpu_kernel.py`, and says what is wrong with a word that they refuse.

All operands are read before anything is written. Columns beyond `valid` take no part; they are stored as zero (as -128
in the offset form), except in PARAM, where only valid scalars are written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..ir import numerics as nu
from ..ir.isa import RED_ACCUMULATE, RED_COLUMNS, RED_INTEGER, Buffer, Format, Function, Op2, Operand, Reduce
from .decode import Decoded
from .state import Fault, Tally, Tile

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]

_A = {(Buffer.ACC, Format.I32), (Buffer.PARAM, Format.I32), (Buffer.PARAM, Format.F32)}
_A |= {(Buffer.VBUF, Format.F16), (Buffer.VBUF, Format.F32)}
_B = _A - {(Buffer.PARAM, Format.I32)}
_D = {(Buffer.VBUF, Format.F16), (Buffer.VBUF, Format.F32), (Buffer.PARAM, Format.F32)}
_D |= {(Buffer.ACT, f) for f in (Format.I8, Format.I8_OFFSET, Format.I15_SPLIT)}
_D |= {(Buffer.NONE, f) for f in Format}
_SOURCES = {k: frozenset(int(b) | int(f) << 4 for b, f in v) for k, v in (("a", _A), ("b", _B), ("d", _D))}
_OFFSET = np.full((), -128, np.float32)


class _Shape:
    """Rows, column tiles and valid columns `n` = (tiles - 1) * C + valid of a word."""

    __slots__ = ("cols", "n", "rows", "tile", "tiles")

    def __init__(self, tile: Tile, rows: int, tiles: int, valid: int) -> None:
        self.tile, self.rows, self.tiles, self.cols = tile, rows, tiles, tile.cols
        if not rows:
            raise Fault("E410", "rows", "is 0, must be at least 1")
        if not tiles:
            raise Fault("E410", "tiles", "is 0, must be at least 1")
        if not 1 <= valid <= tile.cols:
            raise Fault("E410", "valid", f"is {valid}, must be 1 to {tile.cols}")
        self.n = (tiles - 1) * tile.cols + valid

    def scalars(self, field: str, at: int, rs: int, ts: int) -> npt.NDArray[np.intp] | None:
        """PARAM addresses [rows, n] when there are several tiles; None for one tile, which is a plain box."""
        last = self.n - (self.tiles - 1) * self.cols
        ends = [at + (self.tiles - 1) * ts + last]
        if self.tiles > 1:
            ends.append(at + (self.tiles - 2) * ts + self.cols)
        self.tile.check(Buffer.PARAM, field, at, (self.rows - 1) * rs + max(ends))
        if self.tiles == 1:
            return None
        j = np.arange(self.n)
        return np.asarray(at + np.arange(self.rows)[:, None] * rs + j // self.cols * ts + j % self.cols)

    def box(self, buffer: int, field: str, at: int, rs: int, ts: int, dtype: Any, width: int = 1) -> npt.NDArray[Any]:
        """[rows, tiles, C] in place; an element of `dtype` C times is `width` words."""
        tile, c = self.tile, self.cols
        unit = tile.word_bytes[Buffer(buffer)]
        tile.check(buffer, field, at, at + (self.rows - 1) * rs + (self.tiles - 1) * ts + width)
        strides = (rs * unit, ts * unit, unit * width // c)
        return np.ndarray((self.rows, self.tiles, c), dtype, tile.memory[buffer], at * unit, strides)

    def flat(self, box: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """[rows, n] of a box: a view for one tile, else a copy."""
        if self.tiles == 1:
            return box[:, 0, : self.n]
        return np.ascontiguousarray(box).reshape(self.rows, self.tiles * self.cols)[:, : self.n]


def _integers(s: _Shape, field: str, source: int, at: int, rs: int, ts: int) -> I32:
    if source & 15 == Buffer.ACC:
        return s.flat(s.box(Buffer.ACC, field, at, rs, ts, np.int32))
    index = s.scalars(field, at, rs, ts)
    if index is None:
        return np.ndarray((s.rows, s.n), np.int32, s.tile.memory[Buffer.PARAM], at * 4, (rs * 4, 4))
    return np.asarray(s.tile.param_i[index])


def _floats(s: _Shape, field: str, source: int, at: int, rs: int, ts: int) -> F32:
    """Operand A or B as float32 [rows, n]; a float32 operand counts subnormals as zero."""
    buffer, fmt = source & 15, source >> 4
    if fmt == Format.I32:
        return nu.i32_to_f32(_integers(s, field, source, at, rs, ts))
    if fmt == Format.F16:
        return nu.f16_to_f32(s.flat(s.box(buffer, field, at, rs, ts, np.float16)))
    if buffer == Buffer.VBUF:
        return nu.ftz(s.flat(s.box(buffer, field, at, rs, ts, np.float32, 2)))
    index = s.scalars(field, at, rs, ts)
    if index is None:
        box: F32 = np.ndarray((s.rows, s.n), np.float32, s.tile.memory[Buffer.PARAM], at * 4, (rs * 4, 4))
        return nu.ftz(box)
    return nu.ftz(np.asarray(s.tile.param_f[index]))


def _subtract(s: _Shape, x: I32, sub_at: int) -> F32:
    """x - PARAM int32[sub_at + i], exact, then rounded once."""
    s.tile.check(Buffer.PARAM, "sub_at", sub_at, sub_at + s.rows)
    y = s.tile.param_i[sub_at : sub_at + s.rows][:, None]
    low, high = int(x.min()) - int(y.max()), int(x.max()) - int(y.min())
    if low >= -(1 << 31) and high < 1 << 31:
        return nu.i32_to_f32(x - y)
    return (x.astype(np.int64) - y).astype(np.float32)


def _factor(s: _Shape, field: str, kind: int, at: int, imm: tuple[float, float], elem: F32 | None) -> Any:
    """One scale or bias, to broadcast over [rows, n]."""
    if kind == Operand.IMM0 or kind == Operand.IMM1:
        return np.float32(imm[kind - Operand.IMM0])
    if kind == Operand.ROW:
        s.tile.check(Buffer.PARAM, field, at, at + s.rows)
        return s.tile.param_f[at : at + s.rows][:, None]
    if kind == Operand.COL:
        s.tile.check(Buffer.PARAM, field, at, at + s.n)
        return s.tile.param_f[at : at + s.n]
    if kind == Operand.ELEM and elem is not None:
        return elem
    raise Fault("E410", field, f"operand kind {kind} is not allowed here")


def _function(s: _Shape, func: int, x: F32) -> F32:
    kind, slot = func & 15, func >> 4
    if kind == Function.EXP2:
        return nu.exp2(x)
    if kind == Function.RECIP:
        return nu.recip(x)
    if kind == Function.RSQRT:
        return nu.rsqrt(x)
    if kind not in (Function.GATE, Function.GATE_MUL):
        raise Fault("E410", "func", f"{kind} is no function")
    table = s.tile.tables[slot] if slot < len(s.tile.tables) else None
    if table is None:
        raise Fault("E415", "func", f"table slot {slot} holds no gate table")
    return nu.gate(x, table) if kind == Function.GATE else nu.gate_mul(x, table)


def vector(tile: Tile, w: Decoded, tally: Tally) -> None:
    """Execute a VEC word."""
    (_, _, _, _, _, rows, tiles, valid, a_src, b_src, d_src, op2) = w[:12]
    (a, a_rs, a_ts, b, b_rs, b_ts, d, d_rs, d_ts, m1, m2, a1, b1, a2, b2) = w[12:27]
    func, rq, r, sub, red, sub_at, red_at = w[27:34]
    imm: tuple[float, float] = w[34:36]
    s = _Shape(tile, rows, tiles, valid)
    for field, source in (("a", a_src), ("d", d_src)):
        if source not in _SOURCES[field]:
            raise Fault("E410", f"{field}_src", f"buffer {source & 15} with format {source >> 4} is not allowed here")
    if sub:
        if a_src >> 4 != Format.I32:
            raise Fault("E410", "sub", "only an int32 operand A can be subtracted from")
        x = _subtract(s, _integers(s, "a", a_src, a, a_rs, a_ts), sub_at)
    else:
        x = _floats(s, "a", a_src, a, a_rs, a_ts)
    elem: F32 | None = None
    if (m2 & 15) == Operand.ELEM or (m2 >> 4) == Operand.ELEM or (op2 & 15 and op2 >> 4 == Operand.ELEM):
        if b_src not in _SOURCES["b"]:
            raise Fault("E410", "b_src", f"buffer {b_src & 15} with format {b_src >> 4} is not allowed here")
        elem = _floats(s, "b", b_src, b, b_rs, b_ts)
    if m1 & 15:
        x = nu.fmul(x, _factor(s, "a1", m1 & 15, a1, imm, None))
    if m1 >> 4:
        x = nu.fadd(x, _factor(s, "b1", m1 >> 4, b1, imm, None))
    if m2 & 15:
        x = nu.fmul(x, _factor(s, "a2", m2 & 15, a2, imm, elem))
    if m2 >> 4:
        x = nu.fadd(x, _factor(s, "b2", m2 >> 4, b2, imm, elem))
    y = _function(s, func, x) if func & 15 else x
    if op2 & 15:
        if op2 >> 4 not in (Operand.ELEM, Operand.IMM0, Operand.IMM1):
            raise Fault("E410", "op2", f"operand kind {op2 >> 4} is not allowed here")
        second = _factor(s, "op2", op2 >> 4, 0, imm, elem)
        if op2 & 15 == Op2.MUL:
            y = nu.fmul(y, second)
        elif op2 & 15 == Op2.ADD:
            y = nu.fadd(y, second)
        elif op2 & 15 == Op2.MAX:
            y = nu.fmax(y, second)
        else:
            raise Fault("E410", "op2", f"{op2 & 15} is no operation")
    z = nu.fmul(y, _factor(s, "r", rq & 15, r, imm, None)) if rq & 15 else y
    writes, tap, integers = _convert(s, d_src, z, y, tally)
    reductions = _reduce(s, red, red_at, integers if red & RED_INTEGER else tap) if red & 15 else []
    buffer = d_src & 15
    if buffer != Buffer.NONE:
        _store(s, buffer, d_src >> 4, d, d_rs, d_ts, writes)
    for at, value in reductions:
        tile.param_f[at : at + len(value)] = value


def _convert(
    s: _Shape, d_src: int, z: F32, y: F32, tally: Tally
) -> tuple[list[npt.NDArray[Any]], F32, npt.NDArray[np.integer[Any]] | None]:
    """What is stored (one array, or two planes), what the float tap sees, and what the integer tap sees."""
    fmt = d_src >> 4
    if fmt == Format.F16:
        half, over = nu.f32_to_f16(z)
        tally.fp16_overflow += over
        return [half], nu.f16_to_f32(half), None
    if fmt == Format.I8 or fmt == Format.I8_OFFSET:
        offset = fmt == Format.I8_OFFSET
        q, nan = nu.f32_to_i8(nu.fadd(z, _OFFSET) if offset else z, offset)
        tally.nan += nan
        return [q], y, q
    if fmt == Format.I15_SPLIT:
        hi, lo, nan = nu.f32_to_i15(z)
        tally.nan += nan
        return [hi, lo], y, hi.astype(np.int32) * 128 + lo
    if fmt == Format.F32:
        return [z], z, None
    return [], y, None  # I32 with buffer NONE: nothing is stored


def _store(s: _Shape, buffer: int, fmt: int, d: int, d_rs: int, d_ts: int, writes: list[npt.NDArray[Any]]) -> None:
    if buffer == Buffer.PARAM:
        index = s.scalars("d", d, d_rs, d_ts)
        if index is None:
            box: F32 = np.ndarray((s.rows, s.n), np.float32, s.tile.memory[Buffer.PARAM], d * 4, (d_rs * 4, 4))
            box[...] = writes[0]
        else:
            s.tile.param_f[index] = writes[0]
        return
    fill = -128 if fmt == Format.I8_OFFSET else 0
    width = 2 if fmt == Format.F32 else 1
    if len(writes) == 2:  # both planes are inside before either is written
        s.tile.check(buffer, "d", d, d + (s.rows - 1) * d_rs + (2 * s.tiles - 1) * d_ts + 1)
    for plane, values in enumerate(writes):
        box = s.box(buffer, "d", d + plane * s.tiles * d_ts, d_rs, d_ts, values.dtype, width)
        if s.tiles == 1:
            box[:, 0, : s.n] = values
            box[:, 0, s.n :] = fill
            continue
        full = s.n // s.cols
        box[:, :full] = values[:, : full * s.cols].reshape(s.rows, full, s.cols)
        if full < s.tiles:
            box[:, full, : s.n - full * s.cols] = values[:, full * s.cols :]
            box[:, full, s.n - full * s.cols :] = fill


def _reduce(s: _Shape, red: int, at: int, x: npt.NDArray[Any] | None) -> list[tuple[int, F32]]:
    """Vectors to write into PARAM: (address, values)."""
    kind, columns = red & 15, bool(red & RED_COLUMNS)
    if x is None:
        raise Fault("E410", "red", "the integer tap needs an integer destination format")
    count, second = (s.n, at + s.tiles * s.cols) if columns else (s.rows, at + s.rows)
    starts = [at, second] if kind == Reduce.SUM_SQ else [at]
    inits: list[F32 | None] = []
    for start in starts:
        s.tile.check(Buffer.PARAM, "red_at", start, start + count)
        inits.append(s.tile.param_f[start : start + count].copy() if red & RED_ACCUMULATE else None)
    if red & RED_INTEGER and kind == Reduce.SUM:
        try:
            return [(at, nu.col_sum_i(x, inits[0]) if columns else nu.row_sum_i(x, inits[0]))]
        except ValueError as e:
            raise Fault("E415", "red", str(e)) from e
    if red & RED_INTEGER and kind == Reduce.SUM_SQ:
        raise Fault("E410", "red", "the integer tap has no sum of squares")
    f: F32 = np.asarray(x).astype(np.float32) if red & RED_INTEGER else x
    if kind == Reduce.MAX:
        return [(at, nu.col_max(f, inits[0]) if columns else nu.row_max(f, s.cols, inits[0]))]
    if kind == Reduce.ABSMAX:
        return [(at, nu.col_absmax(f, inits[0]) if columns else nu.row_absmax(f, s.cols, inits[0]))]
    if kind not in (Reduce.SUM, Reduce.SUM_SQ):
        raise Fault("E410", "red", f"{kind} is no reduction")
    total = nu.col_sum(f, inits[0]) if columns else nu.row_sum(f, s.cols, inits[0])
    if kind == Reduce.SUM:
        return [(at, total)]
    squares = nu.col_sum_sq(f, inits[1]) if columns else nu.row_sum_sq(f, s.cols, inits[1])
    return [(at, total), (second, squares)]
