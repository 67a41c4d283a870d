"""VEC words against a scalar interpreter: one float32 operation at a time, reductions as explicit trees."""

import math

import numpy as np
import pytest
from dpu.errors import DpuError
from dpu.ir import numerics as nu
from dpu.ir.arch import load_arch
from dpu.ir.isa import (
    RED_ACCUMULATE,
    RED_COLUMNS,
    RED_INTEGER,
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
from dpu.simulator.machine import Machine
from hypothesis import given, settings
from hypothesis import strategies as st

TINY = load_arch("dpu_tiny")
C = TINY.cols
END = word(Opcode.END)
F = np.float32
TABLE = nu.GATES["sigmoid"]


def flush(x: np.float32) -> np.float32:
    if np.isnan(x):
        return np.uint32(0x7FC00000).view(F)
    return F(math.copysign(0, x)) if abs(x) < F(2.0**-126) else F(x)


@np.errstate(all="ignore")
def add(a, b) -> np.float32:
    return flush(F(flush(a) + flush(b)))


@np.errstate(all="ignore")
def mul(a, b) -> np.float32:
    return flush(F(flush(a) * flush(b)))


def larger(a, b) -> np.float32:
    a, b = flush(a), flush(b)
    if np.isnan(a) or np.isnan(b):
        return flush(F(np.nan))
    if a == b == 0:
        return F(0) if not (np.signbit(a) and np.signbit(b)) else F(-0.0)
    return max(a, b)


def tree(x: list) -> np.float32:
    x = list(x)
    while len(x) > 1:
        x = [add(x[i], x[i + 1]) for i in range(0, len(x), 2)]
    return x[0]


class Scalar:
    """The meaning of a VEC word on one machine's state."""

    def __init__(self, m: Machine, f: dict) -> None:
        self.t, self.f = m.tiles[0], f
        self.n = (f["tiles"] - 1) * C + f["valid"]

    def element(self, name: str, i: int, j: int):
        f, t = self.f, j // C
        buffer, fmt = f[f"{name}_src"] & 15, f[f"{name}_src"] >> 4
        at = f[name] + i * f[f"{name}_rs"] + t * f[f"{name}_ts"]
        if buffer == Buffer.ACC:
            return int(self.t.acc[at, j % C])
        if buffer == Buffer.PARAM:
            return int(self.t.param_i[at + j % C]) if fmt == Format.I32 else flush(self.t.param_f[at + j % C])
        if fmt == Format.F16:
            return F(self.t.vbuf.view(np.float16)[at * C + j % C])
        raw = self.t.vbuf[at * 2 * C + 4 * (j % C) :][:4]
        return flush(raw.copy().view(F)[0])

    def factor(self, kind: int, at: int, i: int, j: int, b) -> np.float32:
        p, imm = self.t.param_f, self.f["imm"]
        return {
            Operand.IMM0: lambda: F(imm[0]),
            Operand.IMM1: lambda: F(imm[1]),
            Operand.ROW: lambda: p[at + i],
            Operand.COL: lambda: p[at + j],
            Operand.ELEM: lambda: b,
        }[Operand(kind)]()

    def value(self, i: int, j: int):
        """(stored bits or None, float tap, integer tap) of one element."""
        f = self.f
        x = self.element("a", i, j)
        if f["a_src"] >> 4 == Format.I32:
            x = F(np.int64(x - (int(self.t.param_i[f["sub_at"] + i]) if f["sub"] else 0)))
        b = self.element("b", i, j) if f["b_src"] else None
        b = F(b) if isinstance(b, int) else b
        for m, scale, bias in (("m1", "a1", "b1"), ("m2", "a2", "b2")):
            if f[m] & 15:
                x = mul(x, self.factor(f[m] & 15, f[scale], i, j, b))
            if f[m] >> 4:
                x = add(x, self.factor(f[m] >> 4, f[bias], i, j, b))
        one = np.array([x], F)
        y = {
            Function.NONE: lambda: x,
            Function.EXP2: lambda: nu.exp2(one)[0],
            Function.RECIP: lambda: nu.recip(one)[0],
            Function.RSQRT: lambda: nu.rsqrt(one)[0],
            Function.GATE: lambda: nu.gate(one, TABLE)[0],
            Function.GATE_MUL: lambda: F(0) if x == -np.inf else mul(x, nu.gate(one, TABLE)[0]),
        }[Function(f["func"] & 15)]()
        if f["op2"] & 15:
            second = self.factor(f["op2"] >> 4, 0, i, j, b)
            y = {Op2.MUL: mul, Op2.ADD: add, Op2.MAX: larger}[Op2(f["op2"] & 15)](y, second)
        z = mul(y, self.factor(f["rq"], f["r"], i, j, b)) if f["rq"] else y
        fmt = Format(f["d_src"] >> 4)
        if fmt == Format.F16:
            with np.errstate(over="ignore"):
                h = np.float16(np.clip(z, F(-65504), F(65504))) if not np.isnan(z) else np.float16(np.nan)
            h = np.uint16(0x7E00).view(np.float16) if np.isnan(h) else h
            return h, flush(F(h)), None
        if fmt == Format.F32:
            return z, z, None
        low, high = {Format.I8: (-127, 127), Format.I8_OFFSET: (-128, 127), Format.I15_SPLIT: (-16319, 16319)}[fmt]
        z = add(z, F(-128)) if fmt == Format.I8_OFFSET else z
        q = 0 if np.isnan(z) else int(max(low, min(high, np.rint(z))))
        return q, y, q

    def reduce(self, tap: np.ndarray, ints: np.ndarray) -> list[tuple[int, np.float32]]:
        """(PARAM address, value) pairs."""
        f = self.f
        red, at = f["red"], f["red_at"]
        kind, columns, rows = red & 15, bool(red & RED_COLUMNS), f["rows"]
        p = self.t.param_f
        out = []
        lines = range(self.n) if columns else range(rows)
        pair = f["tiles"] * C if columns else rows
        for k in lines:
            for second in range(2 if kind == Reduce.SUM_SQ else 1):
                where = at + k + second * pair
                init = p[where] if red & RED_ACCUMULATE else None
                if red & RED_INTEGER and kind == Reduce.SUM:
                    total = F(int((ints[:, k] if columns else ints[k]).sum()))
                    out.append((where, total if init is None else add(init, total)))
                    continue
                x = [F(v) for v in (ints if red & RED_INTEGER else tap)[(slice(None), k) if columns else (k,)]]
                x = [mul(v, v) for v in x] if second else x
                if kind in (Reduce.MAX, Reduce.ABSMAX):
                    x = [F(abs(v)) for v in x] + [F(2.0**-24)] if kind == Reduce.ABSMAX else x
                    best = x[0] if init is None else init
                    for v in x:
                        best = larger(best, v)
                    out.append((where, best))
                elif columns:
                    acc: list = [None] * 8
                    for i, v in enumerate(x):
                        acc[i % 8] = v if acc[i % 8] is None else add(acc[i % 8], v)
                    total = tree([F(0) if v is None else v for v in acc])
                    out.append((where, total if init is None else add(init, total)))
                else:
                    total = init
                    for t in range(0, len(x), C):
                        part = tree(x[t : t + C] + [F(0)] * (C - len(x[t : t + C])))
                        total = part if total is None else add(total, part)
                    out.append((where, total))
        return out

    def run(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Bytes of VBUF, ACT and PARAM after the word."""
        f, t = self.f, self.t
        rows, tiles = f["rows"], f["tiles"]
        vbuf, act, param = t.vbuf.copy(), t.act.copy(), t.param_f.copy()
        values = [[self.value(i, j) for j in range(self.n)] for i in range(rows)]
        buffer, fmt = f["d_src"] & 15, f["d_src"] >> 4
        for i in range(rows):
            for j in range(tiles * C):
                at = f["d"] + i * f["d_rs"] + j // C * f["d_ts"]
                v = values[i][j][0] if j < self.n else None
                if buffer == Buffer.PARAM and v is not None:
                    param[at + j % C] = v
                elif buffer == Buffer.VBUF and fmt == Format.F16:
                    vbuf.view(np.float16)[at * C + j % C] = 0 if v is None else v
                elif buffer == Buffer.VBUF:
                    vbuf[at * 2 * C + 4 * (j % C) :][:4] = np.array([0 if v is None else v], F).view(np.uint8)
                elif buffer == Buffer.ACT and fmt == Format.I15_SPLIT:
                    hi = ((v or 0) + 64) >> 7
                    act[at * C + j % C] = hi
                    act[(at + tiles * f["d_ts"]) * C + j % C] = (v or 0) - 128 * hi
                elif buffer == Buffer.ACT:
                    act[at * C + j % C] = (-128 if fmt == Format.I8_OFFSET else 0) if v is None else v
        if f["red"] & 15:
            tap = np.array([[v[1] for v in row] for row in values], F)
            ints = np.array([[v[2] or 0 for v in row] for row in values])
            for at, v in self.reduce(tap, ints):
                param[at] = v
        return vbuf, act, param


def fresh(seed: int, wild: bool) -> Machine:
    rng = np.random.default_rng(seed)
    m = Machine(TINY, {})
    t = m.tiles[0]
    t.acc[:] = rng.integers(-(2**31), 2**31, t.acc.shape) if wild else rng.integers(-3000, 3000, t.acc.shape)
    t.vbuf.view(np.float16)[:] = rng.normal(size=t.vbuf.size // 2)
    halves = t.vbuf.view(F)[2048:]
    halves[:] = rng.normal(size=halves.size) * (10.0 ** rng.integers(-44, 39, halves.size) if wild else 1)
    t.param_f[:] = rng.normal(size=t.param_f.size)
    t.param_i[:512] = rng.integers(-4000, 4000, 512)
    if wild:
        special = np.array([np.inf, -np.inf, np.nan, 1e-40, -1e-44, 0, -0.0, 3e38], F)
        t.param_f[600:700] = rng.choice(special, 100)
    t.tables[1] = TABLE
    return m


FACTORS = st.sampled_from([Operand.NONE, Operand.IMM0, Operand.IMM1, Operand.ROW, Operand.COL])
FACTORS2 = st.sampled_from([Operand.NONE, Operand.IMM0, Operand.IMM1, Operand.ROW, Operand.COL, Operand.ELEM])
A = {
    pack(Buffer.ACC, Format.I32): 0,
    pack(Buffer.PARAM, Format.I32): 0,
    pack(Buffer.PARAM, Format.F32): 900,
    pack(Buffer.VBUF, Format.F16): 64,
    pack(Buffer.VBUF, Format.F32): 1024,
}
D = [pack(Buffer.ACT, x) for x in (Format.I8, Format.I8_OFFSET, Format.I15_SPLIT)]
D += [pack(Buffer.VBUF, Format.F16), pack(Buffer.VBUF, Format.F32), pack(Buffer.PARAM, Format.F32)]
D += [pack(Buffer.NONE, x) for x in (Format.I8, Format.F16, Format.F32)]


@settings(max_examples=250, deadline=None)
@given(data=st.data(), wild=st.booleans())
def test_every_field_of_vec(data: st.DataObject, wild: bool) -> None:
    draw = data.draw
    rows, tiles, valid = draw(st.integers(1, 20)), draw(st.integers(1, 3)), draw(st.integers(1, C))
    a_src, d_src = draw(st.sampled_from(sorted(A))), draw(st.sampled_from(D))
    row_major = draw(st.booleans())

    def layout(src: int, name: str, at: int) -> dict[str, int]:
        unit = C if src & 15 == Buffer.PARAM else 2 if src >> 4 == Format.F32 else 1
        planes = 2 if src >> 4 == Format.I15_SPLIT else 1
        if row_major:
            return {name: at, f"{name}_rs": unit * tiles * planes, f"{name}_ts": unit}
        return {name: at, f"{name}_rs": unit, f"{name}_ts": unit * rows}

    f = {"rows": rows, "tiles": tiles, "valid": valid, "a_src": a_src, "d_src": d_src} | layout(a_src, "a", A[a_src])
    f |= layout(d_src, "d", 4000 if d_src & 15 == Buffer.PARAM else 2800)
    m1, m2 = (draw(FACTORS), draw(FACTORS)), (draw(FACTORS2), draw(FACTORS2))
    op2 = draw(st.sampled_from(Op2))
    source = draw(st.sampled_from([Operand.ELEM, Operand.IMM0, Operand.IMM1])) if op2 else Operand.NONE
    f |= {
        "m1": pack(*m1),
        "m2": pack(*m2),
        "op2": pack(op2, source),
        "a1": 500,
        "b1": 530,
        "a2": 620,
        "b2": 660,
        "r": 700,
    }
    b_src = draw(st.sampled_from([k for k in sorted(A) if k != pack(Buffer.PARAM, Format.I32)]))
    used = Operand.ELEM in (*m2, source)
    f |= {"b_src": b_src if used else 0} | layout(b_src, "b", A[b_src] + 8)
    f |= {"func": pack(draw(st.sampled_from(Function)), 1), "rq": int(draw(FACTORS)), "red_at": 6000, "sub_at": 100}
    f |= {"sub": int(a_src >> 4 == Format.I32 and draw(st.booleans()))}
    f |= {"imm": [draw(st.floats(-300, 300, width=32)), draw(st.floats(-2, 2, width=32))]}
    red = int(draw(st.sampled_from(Reduce)))
    if red:
        red |= draw(st.sampled_from([0, RED_COLUMNS])) | draw(st.sampled_from([0, RED_ACCUMULATE]))
        if d_src >> 4 in (Format.I8, Format.I8_OFFSET, Format.I15_SPLIT) and red & 15 != Reduce.SUM_SQ:
            red |= draw(st.sampled_from([0, RED_INTEGER]))
    f["red"] = red
    m = fresh(rows * 7 + tiles, wild)
    vbuf, act, param = Scalar(m, f).run()
    m.run([np.concatenate([word(Opcode.VEC, **f), END])])
    t = m.tiles[0]
    assert np.array_equal(t.act, act)
    assert np.array_equal(t.vbuf, vbuf)
    assert np.array_equal(t.param_f.view(np.uint32), param.view(np.uint32))


def one(**f) -> np.ndarray:
    base = {"rows": 1, "tiles": 1, "valid": 8, "a_src": pack(Buffer.PARAM, Format.F32), "a": 900}
    return np.concatenate([word(Opcode.VEC, tag=9, **(base | f)), END])


def test_overflow_and_nan_are_counted_by_tag() -> None:
    m = Machine(TINY, {})
    m.tiles[0].param_f[900:908] = [1e6, -1e6, np.nan, np.inf, 1, 2, 3, 65519]
    to_half = one(d_src=pack(Buffer.VBUF, Format.F16))[:1]
    to_int = one(d_src=pack(Buffer.ACT, Format.I8))
    counters = m.run([np.concatenate([to_half, to_int])])
    assert (counters.tags[9].fp16_overflow, counters.tags[9].nan) == (3, 1)
    assert counters.total.fp16_overflow == 3
    with pytest.raises(DpuError) as e:
        m.run([one(d_src=pack(Buffer.VBUF, Format.F16), flags=int(Flag.TRAP))])
    assert str(e.value) == (
        "error[E415]: entry 'program' tile 0 word 0 (VEC, tag 9): field 'flags': "
        "3 results overflow float16 or are NaN, and the word asks to trap\n"
        "  try: dpuc verify names the word at fault; compile the model again"
    )


def test_columns_beyond_valid_take_no_part() -> None:
    """Infinities beyond the valid columns are neither counted nor reduced nor stored."""
    m = Machine(TINY, {})
    t = m.tiles[0]
    t.param_f[900:908] = [1, 2, 3, np.inf, np.inf, np.nan, np.nan, np.inf]
    f = {
        "valid": 3,
        "d_src": pack(Buffer.ACT, Format.I8_OFFSET),
        "red": int(Reduce.SUM),
        "red_at": 10,
        "op2": pack(Op2.ADD, 2),
    }
    counters = m.run([one(imm=[0, 130], **f)])
    assert t.act[:8].tolist() == [3, 4, 5, -128, -128, -128, -128, -128]
    assert t.param_f[10] == 131 + 132 + 133
    assert counters.total.nan == 0


def test_the_float_tap_sees_the_value_as_stored() -> None:
    m = Machine(TINY, {})
    m.tiles[0].param_f[900:908] = 1 + 2.0**-12
    m.run([one(d_src=pack(Buffer.NONE, Format.F16), red=int(Reduce.SUM), red_at=0)])
    assert m.tiles[0].param_f[0] == 8  # 1 + 2^-12 rounds to 1 in float16
    m.run([one(d_src=pack(Buffer.NONE, Format.I32), red=int(Reduce.SUM), red_at=0)])
    assert m.tiles[0].param_f[0] == 8 + 8 * 2.0**-12


@pytest.mark.parametrize("source", [Buffer.PARAM, Buffer.VBUF])
def test_a_float32_operand_counts_subnormals_as_zero_even_when_only_moved(source: Buffer) -> None:
    m = Machine(TINY, {})
    t = m.tiles[0]
    t.param_f[900:908] = t.vbuf.view(F)[:8] = [1e-40, -1e-40, 2.0**-126, -0.0, 5, np.inf, -(2.0**-126), -1e-45]
    at = 900 if source == Buffer.PARAM else 0
    m.run([one(a_src=pack(source, Format.F32), a=at, d_src=pack(Buffer.PARAM, Format.F32), d=10)])
    expected = np.array([0, -0.0, 2.0**-126, -0.0, 5, np.inf, -(2.0**-126), -0.0], F)
    assert np.array_equal(t.param_f[10:18].view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"valid": 9}, "field 'valid': is 9, must be 1 to 8"),
        ({"rows": 0}, "field 'rows': is 0, must be at least 1"),
        ({"a_src": pack(Buffer.ACT, Format.I8)}, "field 'a_src': buffer 0 with format 3 is not allowed here"),
        ({"a": 16380}, "field 'a': words 16380 to 16387 of PARAM, which holds 16384"),
        ({"func": int(Function.GATE)}, "field 'func': table slot 0 holds no gate table"),
        ({"m1": pack(Operand.ELEM, 0)}, "field 'a1': operand kind 5 is not allowed here"),
        ({"sub": 1}, "field 'sub': only an int32 operand A can be subtracted from"),
        ({"red": int(Reduce.SUM) | RED_INTEGER}, "field 'red': the integer tap needs an integer destination format"),
        (
            {"d_src": pack(Buffer.VBUF, Format.F32), "d": 4095},
            "field 'd': words 4095 to 4096 of VBUF, which holds 4096",
        ),
    ],
)
def test_illegal_fields_are_named(fields: dict[str, int], text: str) -> None:
    with pytest.raises(DpuError) as e:
        Machine(TINY, {}).run([one(**({"d_src": pack(Buffer.NONE, Format.F32)} | fields))])
    assert text in str(e.value)
