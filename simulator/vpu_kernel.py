"""The vector unit, compiled: a VEC word in blocks of rows, one loop for every step of docs/numerics.md.

A block fits the first-level cache and every loop is over contiguous elements without branches, so that it becomes
vector instructions. Each loop does one float32 operation and stores its canonical result: nothing can be contracted
to a fused multiply-add, and no result depends on how a word is cut into blocks or shared among threads.

Canonical means: subnormals are zeros of their sign, the one NaN is 0x7FC00000. Operands become canonical as they are
read. Sums are trees over whole column tiles and eight accumulators for columns; maxima are taken on integers in the
order of the values, where the canonical NaN is the largest.

`run` refuses what it does not know to be legal and unambiguous (it returns -1 and has written nothing); `vpu_numpy.py`
then executes the word or says what is wrong with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import compiled

f32, i32, i64, u16, u32 = np.float32, np.int32, np.int64, np.uint16, np.uint32

QNAN = u32(0x7FC00000).view(f32)
PIECE = 1024  # elements of a function evaluated together
BLOCK = 2048  # elements of a block, unless a row is longer
LARGEST = 1 << 24  # elements of a word that is read as a whole before anything is written
NONE, IMM0, IMM1, ROW, COL, ELEM = 0, 1, 2, 3, 4, 5
ACT, ACC, VBUF, PARAM, NOWHERE = 0, 2, 3, 4, 15
I32, F32, F16, I8, I8_OFFSET, I15 = 0, 1, 2, 3, 4, 5
EXP2, RECIP, RSQRT, GATE, GATE_MUL = 1, 2, 3, 4, 5
MUL, ADD, MAX = 1, 2, 3
RMAX, RABSMAX, RSUM, RSUM_SQ = 1, 2, 3, 4


# ------------------------------------------------------------------------------------------------------- one element


@compiled
def _canonical(x: Any) -> Any:
    b = f32(x).view(u32)
    m = b & u32(0x7FFFFFFF)
    b = (b & u32(0x80000000)) if m < u32(0x00800000) else b
    b = u32(0x7FC00000) if m > u32(0x7F800000) else b
    return u32(b).view(f32)


@compiled
def _key(x: Any) -> Any:
    """Bits in the order of the values, -0 below +0, the canonical NaN above all."""
    i = f32(x).view(i32)
    return i32(i ^ ((i >> i32(31)) & i32(0x7FFFFFFF)))


@compiled
def _unkey(i: Any) -> Any:
    return i32(i ^ ((i >> i32(31)) & i32(0x7FFFFFFF))).view(f32)


@compiled
def _larger(a: Any, b: Any) -> Any:
    x, y = _key(a), _key(b)
    return _unkey(x if x > y else y)


@compiled
def _half_value(h: Any) -> Any:
    """float16 bits -> float32."""
    m = u32(h) & u32(0x7FFF)
    small = f32(i32(m)) * f32(2.0**-24)  # subnormal: the mantissa is the value
    b = u32((m << u32(13)) + u32(112 << 23))
    b = f32(small).view(u32) if m < u32(0x0400) else b
    b = u32(0x7F800000) if m == u32(0x7C00) else b
    b = u32(b | (u32(h) & u32(0x8000)) << u32(16))
    b = u32(0x7FC00000) if m > u32(0x7C00) else b
    return u32(b).view(f32)


@compiled
def _half_bits(x: Any) -> Any:
    """float32 -> float16 bits, half to even, saturated to 65504; NaN -> 0x7E00."""
    b = f32(x).view(u32)
    m = b & u32(0x7FFFFFFF)
    a = u32(m).view(f32)
    a = a if a < f32(65504) else f32(65504)
    c = f32(a).view(u32)
    normal = u32((c - u32(112 << 23) + u32(0xFFF) + ((c >> u32(13)) & u32(1))) >> u32(13))
    small = u32(f32(a + f32(0.5)).view(u32) - u32(0x3F000000))  # units of 2^-24: 0.5 has its last bit there
    h = small if c < u32(113 << 23) else normal
    h = u32(h | (b >> u32(16)) & u32(0x8000))
    return u16(u32(0x7E00) if m > u32(0x7F800000) else h)


# ----------------------------------------------------------------------------------------- arithmetic, over a block


@compiled
def _mul_value(x: Any, y: Any, m: int, v: Any) -> None:
    for k in range(m):
        y[k] = _canonical(x[k] * v)


@compiled
def _mul_vector(x: Any, y: Any, m: int, v: Any) -> None:
    for k in range(m):
        y[k] = _canonical(x[k] * v[k])


@compiled
def _mul_rows(x: Any, y: Any, rows: int, w: int, v: Any) -> None:
    for i in range(rows):
        f = _canonical(v[i])
        xi, yi = x[i * w : i * w + w], y[i * w : i * w + w]
        for j in range(w):
            yi[j] = _canonical(xi[j] * f)


@compiled
def _add_value(x: Any, m: int, v: Any) -> None:
    for k in range(m):
        x[k] = _canonical(x[k] + v)


@compiled
def _add_vector(x: Any, m: int, v: Any) -> None:
    for k in range(m):
        x[k] = _canonical(x[k] + v[k])


@compiled
def _add_rows(x: Any, rows: int, w: int, v: Any) -> None:
    for i in range(rows):
        f = _canonical(v[i])
        xi = x[i * w : i * w + w]
        for j in range(w):
            xi[j] = _canonical(xi[j] + f)


@compiled
def _max_value(x: Any, m: int, v: Any) -> None:
    for k in range(m):
        x[k] = _larger(x[k], v)


@compiled
def _max_vector(x: Any, m: int, v: Any) -> None:
    for k in range(m):
        x[k] = _larger(x[k], v[k])


@compiled
def _multiply(x: Any, y: Any, rows: int, w: int, kind: int, imm: Any, param: Any, at: int, cols: Any) -> None:
    """y = x times a factor; `cols` is the column vector (or operand B) for every element of the block."""
    if kind in (IMM0, IMM1):
        _mul_value(x, y, rows * w, _canonical(imm[kind - IMM0]))
    elif kind == ROW:
        _mul_rows(x, y, rows, w, param[at : at + rows])
    else:
        _mul_vector(x, y, rows * w, cols)


@compiled
def _add(x: Any, rows: int, w: int, kind: int, imm: Any, param: Any, at: int, cols: Any) -> None:
    if kind in (IMM0, IMM1):
        _add_value(x, rows * w, _canonical(imm[kind - IMM0]))
    elif kind == ROW:
        _add_rows(x, rows, w, param[at : at + rows])
    else:
        _add_vector(x, rows * w, cols)


@compiled
def _copy(x: Any, y: Any, m: int) -> None:
    for k in range(m):
        y[k] = x[k]


@compiled
def _spread(to: Any, rows: int, w: int, n: int, v: Any) -> None:
    """A column vector, canonical, once for every row of a block; zero in padding columns."""
    for j in range(n):
        to[j] = _canonical(v[j])
    for j in range(n, w):
        to[j] = 0
    for i in range(1, rows):
        _copy(to, to[i * w : i * w + w], w)


# ------------------------------------------------------------------------------------------------- table functions


@compiled
def _look(index: Any, m: int, table: Any, c0: Any, c12: Any) -> None:
    """`table`: c0, and c1 and c2 in one word of 64 bits. The only loop that does not become vector instructions."""
    t0, t12 = table[0], table[1]
    for k in range(m):
        i = np.uint64(u32(index[k]))
        c0[k], c12[k] = t0[i], t12[i]


@compiled
def _quadratic(y: Any, rest: Any, m: int, c0: Any, c12: Any, d: int, s2: int, s1: int) -> None:
    for k in range(m):
        r = i64(rest[k])
        c = c12[k]
        t = ((i64(i32(c)) * (r >> d)) >> s2) + (c >> 32)
        y[k] = i32(i64(c0[k]) + ((t * r) >> s1))


@compiled
def _exp2_split(x: Any, m: int, index: Any, rest: Any, base: Any) -> None:
    for k in range(m):
        v = x[k]
        a = v if v == v else f32(0)
        a = a if a > f32(-126) else f32(-126)
        a = a if a < f32(128 - 2.0**-17) else f32(128 - 2.0**-17)
        whole = np.trunc(a)
        f = i32(np.rint((a - whole) * f32(2.0**26)))
        base[k] = i32((i32(whole) + (f >> i32(26)) + i32(126)) << i32(23))
        f = i32(f & i32((1 << 26) - 1))
        index[k] = f >> i32(20)
        rest[k] = f & i32((1 << 20) - 1)


@compiled
def _exp2_join(x: Any, m: int, y: Any, base: Any) -> None:
    for k in range(m):
        v = x[k]
        b = i32(((y[k] + ((y[k] >> i32(4)) & i32(1)) + i32(7)) >> i32(4)) + base[k])
        b = i32(0) if v < f32(-126) else b
        b = i32(0x7F800000) if v >= f32(128) else b
        b = b if v == v else i32(0x7FC00000)
        x[k] = i32(b).view(f32)


@compiled
def _root_split(x: Any, m: int, index: Any, rest: Any, rsqrt: bool) -> None:
    """Index and remainder of the mantissa, for recip and rsqrt."""
    for k in range(m):
        b = f32(x[k]).view(i32)
        mantissa = i32(b & i32(0x7FFFFF))
        odd = i32(((b >> i32(23)) & i32(1)) ^ i32(1))  # of the unbiased exponent
        index[k] = ((mantissa >> i32(17)) + i32(64) * odd) if rsqrt else mantissa >> i32(16)
        rest[k] = mantissa & i32(0x1FFFF) if rsqrt else mantissa & i32(0xFFFF)


@compiled
def _recip_join(x: Any, m: int, y: Any) -> None:
    for k in range(m):
        b = f32(x[k]).view(i32)
        e = i32((b >> i32(23)) & i32(255))
        mantissa = i32(b & i32(0x7FFFFF))
        q = i32((y[k] + ((y[k] >> i32(4)) & i32(1)) + i32(7)) >> i32(4))
        q = i32(1 << 24) if mantissa == 0 else q
        z = i32(((i32(252) - e) << i32(23)) + q)
        z = i32(0) if z < i32(1 << 23) else z
        z = i32(0) if e == 255 else z
        z = i32(0x7F800000) if e == 0 else z
        z = i32(z | (b & i32(-0x80000000)))
        z = i32(0x7FC00000) if e == 255 and mantissa != 0 else z
        x[k] = i32(z).view(f32)


@compiled
def _rsqrt_join(x: Any, m: int, y: Any) -> None:
    for k in range(m):
        b = f32(x[k]).view(i32)
        e = i32((b >> i32(23)) & i32(255))
        mantissa = i32(b & i32(0x7FFFFF))
        odd = i32((e & i32(1)) ^ i32(1))
        q = i32((y[k] + ((y[k] >> i32(4)) & i32(1)) + i32(7)) >> i32(4))
        q = i32(1 << 24) if mantissa == 0 and odd == 0 else q
        z = i32(((i32(125) - ((e - i32(127) - odd) >> i32(1))) << i32(23)) + q)
        z = i32(0) if e == 255 else z
        z = i32(0x7F800000) if e == 0 else z
        z = i32(0x7FC00000) if b < 0 and e > 0 else z
        z = i32(0x7FC00000) if e == 255 and mantissa != 0 else z
        x[k] = i32(z).view(f32)


@compiled
def _gate_split(x: Any, m: int, index: Any, rest: Any, lg: int, rb: int) -> None:
    top, last = f32(2.0**lg), f32(2.0 ** (20 + lg) - 1)
    shift, mask = i32(rb), i32((1 << rb) - 1)
    for k in range(m):
        v = x[k]
        a = abs(v)
        a = a if v == v else f32(0)
        a = a if a < top else top
        a = np.rint(a * f32(2.0**20))
        i = i32(a if a < last else last)
        index[k] = i >> shift
        rest[k] = i & mask


@compiled
def _gate_join(x: Any, m: int, y: Any, multiply: bool) -> None:
    for k in range(m):
        v = x[k]
        t = y[k]
        t = t if t > i32(0) else i32(0)
        t = t if t < i32(1 << 24) else i32(1 << 24)
        t = i32(i32(1 << 24) - t) if f32(v).view(i32) < i32(0) else t
        g = f32(t) * f32(2.0**-24)
        if multiply:
            v = f32(0) if v == f32(-np.inf) else v
            x[k] = _canonical(v * g)
        else:
            x[k] = g if v == v else QNAN


@compiled
def _function(x: Any, m: int, kind: int, table: Any, constants: Any, work: Any) -> None:
    """In place. `constants`: d, s2, s1, and lg, rb of a gate."""
    fields, coefficients = work
    index, rest, base, y, c0 = fields[0], fields[1], fields[2], fields[3], fields[4]
    d, s2, s1, lg, rb = constants[0], constants[1], constants[2], constants[3], constants[4]
    for at in range(0, m, PIECE):
        n = min(PIECE, m - at)
        v = x[at : at + n]
        if kind == EXP2:
            _exp2_split(v, n, index, rest, base)
        elif kind == RECIP:
            _root_split(v, n, index, rest, False)
        elif kind == RSQRT:
            _root_split(v, n, index, rest, True)
        else:
            _gate_split(v, n, index, rest, lg, rb)
        _look(index, n, table, c0, coefficients)
        _quadratic(y, rest, n, c0, coefficients, d, s2, s1)
        if kind == EXP2:
            _exp2_join(v, n, y, base)
        elif kind == RECIP:
            _recip_join(v, n, y)
        elif kind == RSQRT:
            _rsqrt_join(v, n, y)
        else:
            _gate_join(v, n, y, kind == GATE_MUL)


# --------------------------------------------------------------------------------- scratchpad to block, and back


@compiled
def _read_integers(x: Any, w: int, source: Any, at: int, rs: int, ts: int, rows: int, n: int, step: int) -> None:
    for i in range(rows):
        for t in range((n + step - 1) // step):
            width = min(step, n - t * step)
            p, o = at + i * rs + t * ts, i * w + t * step
            a, to = source[p : p + width], x[o : o + width]
            for j in range(width):
                to[j] = f32(a[j])


@compiled
def _read_less(x: Any, w: int, source: Any, at: int, rs: int, ts: int, rows: int, n: int, step: int, less: Any) -> None:
    """Integers less one of the row, exact, rounded once."""
    for i in range(rows):
        y = i64(less[i])
        for t in range((n + step - 1) // step):
            width = min(step, n - t * step)
            p, o = at + i * rs + t * ts, i * w + t * step
            a, to = source[p : p + width], x[o : o + width]
            for j in range(width):
                to[j] = f32(i64(a[j]) - y)


@compiled
def _read_halves(x: Any, w: int, source: Any, at: int, rs: int, ts: int, rows: int, n: int, step: int) -> None:
    for i in range(rows):
        for t in range((n + step - 1) // step):
            width = min(step, n - t * step)
            p, o = at + i * rs + t * ts, i * w + t * step
            a, to = source[p : p + width], x[o : o + width]
            for j in range(width):
                to[j] = _half_value(a[j])


@compiled
def _read_floats(x: Any, w: int, source: Any, at: int, rs: int, ts: int, rows: int, n: int, step: int) -> None:
    for i in range(rows):
        for t in range((n + step - 1) // step):
            width = min(step, n - t * step)
            p, o = at + i * rs + t * ts, i * w + t * step
            a, to = source[p : p + width], x[o : o + width]
            for j in range(width):
                to[j] = _canonical(a[j])


@compiled
def _write(
    target: Any, at: int, rs: int, ts: int, x: Any, w: int, rows: int, n: int, step: int, fill: Any, pad: int
) -> None:
    """Rows of a block, and `pad` elements of `fill` behind each."""
    for i in range(rows):
        for t in range((n + step - 1) // step):
            width = min(step, n - t * step)
            p, o = at + i * rs + t * ts, i * w + t * step
            a, to = x[o : o + width], target[p : p + width]
            for j in range(width):
                to[j] = a[j]
            if pad and t * step + step >= n:
                target[p + width : p + width + pad] = fill


# --------------------------------------------------------------------------------------------------- conversions


@compiled
def _to_half(x: Any, h: Any, m: int) -> int:
    """Returns how many overflow."""
    over = 0
    for k in range(m):
        h[k] = _half_bits(x[k])
        over += abs(x[k]) >= f32(65520)
    return over


@compiled
def _from_half(h: Any, x: Any, m: int) -> None:
    for k in range(m):
        x[k] = _half_value(h[k])


@compiled
def _to_integer(x: Any, q: Any, m: int, low: Any, high: Any) -> int:
    """Half to even, saturated, NaN as 0. Returns how many were NaN."""
    nan = 0
    for k in range(m):
        a = x[k]
        nan += a != a
        a = a if a == a else f32(0)
        a = a if a > low else low
        a = a if a < high else high
        q[k] = i32(np.rint(a))
    return nan


@compiled
def _to_bytes(x: Any, b: Any, m: int, v: Any) -> int:
    """`_to_integer` of x * v to int8."""
    nan = 0
    for k in range(m):
        a = _canonical(x[k] * v)
        nan += a != a
        a = a if a == a else f32(0)
        a = a if a > f32(-127) else f32(-127)
        a = a if a < f32(127) else f32(127)
        b[k] = np.int8(i32(np.rint(a)))
    return nan


@compiled
def _to_offset_bytes(x: Any, b: Any, m: int, v: Any) -> int:
    """`_to_integer` of (x * v) + -128 to int8 from -128. The sum keeps no product: every step is rounded."""
    nan = 0
    for k in range(m):
        a = _canonical(_canonical(x[k] * v) + f32(-128))
        nan += a != a
        a = a if a == a else f32(0)
        a = a if a > f32(-128) else f32(-128)
        a = a if a < f32(127) else f32(127)
        b[k] = np.int8(i32(np.rint(a)))
    return nan


@compiled
def _to_offset(x: Any, m: int) -> None:
    for k in range(m):
        x[k] = _canonical(x[k] + f32(-128))


@compiled
def _from_integer(q: Any, x: Any, m: int) -> None:
    for k in range(m):
        x[k] = f32(q[k])


@compiled
def _narrow(q: Any, b: Any, m: int) -> None:
    for k in range(m):
        b[k] = np.int8(q[k])


@compiled
def _planes(q: Any, high: Any, low: Any, m: int) -> None:
    for k in range(m):
        h = i32((q[k] + i32(64)) >> i32(7))
        high[k] = np.int8(h)
        low[k] = np.int8(q[k] - (h << i32(7)))


# --------------------------------------------------------------------------------------------------- reductions


@compiled
def _squares(x: Any, y: Any, m: int) -> None:
    for k in range(m):
        y[k] = _canonical(x[k] * x[k])


@compiled
def _pairs(x: Any, y: Any, m: int) -> None:
    for k in range(m):
        y[k] = _canonical(x[2 * k] + x[2 * k + 1])


@compiled
def _row_sums(x: Any, a: Any, b: Any, rows: int, tiles: int, cols: int, started: bool, out: Any) -> None:
    """Each row's tiles as trees, then one after the other onto `out` (which has the start, if any)."""
    m = rows * tiles * cols
    if cols == 1:
        _copy(x, a, m)
    source = x
    while m > rows * tiles:
        m //= 2
        _pairs(source, a, m)
        source = a
        a, b = b, a
    if cols == 1:
        b = a
    for i in range(rows):
        acc = _canonical(out[i] + b[i * tiles]) if started else b[i * tiles]
        for t in range(1, tiles):
            acc = _canonical(acc + b[i * tiles + t])
        out[i] = acc


@compiled
def _row_keys(x: Any, rows: int, w: int, n: int, absolute: bool, started: bool, out: Any) -> None:
    """Maximum, or maximum of magnitudes with the floor 2^-24, of each row, onto `out`."""
    for i in range(rows):
        v = x[i * w : i * w + n]
        best = i32(0x33800000) if absolute else i32(-0x80000000)
        if absolute:
            for j in range(n):
                a = i32(f32(v[j]).view(i32) & i32(0x7FFFFFFF))
                best = a if a > best else best
        else:
            for j in range(n):
                a = _key(v[j])
                best = a if a > best else best
        y = _unkey(best)
        out[i] = _larger(out[i], y) if started else y


@compiled
def _column_sums(x: Any, first: int, rows: int, w: int, n: int, acc: Any) -> None:
    """Row i of the word, `first` the block's first, to accumulator i mod 8."""
    for i in range(rows):
        v, to = x[i * w : i * w + n], acc[(first + i) % 8]
        if first + i < 8:
            for j in range(n):
                to[j] = v[j]
        else:
            for j in range(n):
                to[j] = _canonical(to[j] + v[j])


@compiled
def _column_total(acc: Any, n: int, started: bool, out: Any) -> None:
    for half in (4, 2, 1):
        for k in range(half):
            a, b, to = acc[2 * k], acc[2 * k + 1], acc[k]
            for j in range(n):
                to[j] = _canonical(a[j] + b[j])
    for j in range(n):
        out[j] = _canonical(out[j] + acc[0, j]) if started else acc[0, j]


@compiled
def _column_keys(x: Any, rows: int, w: int, n: int, absolute: bool, out: Any) -> None:
    """Maxima of magnitudes or of values, onto `out`, which holds keys."""
    for i in range(rows):
        v = x[i * w : i * w + n]
        if absolute:
            for j in range(n):
                a = i32(f32(v[j]).view(i32) & i32(0x7FFFFFFF))
                out[j] = a if a > out[j] else out[j]
        else:
            for j in range(n):
                a = _key(v[j])
                out[j] = a if a > out[j] else out[j]


@compiled
def _column_finish(keys: Any, n: int, started: bool, out: Any) -> None:
    for j in range(n):
        y = _unkey(keys[j])
        out[j] = _larger(out[j], y) if started else y


# ------------------------------------------------------------------------------------------------- checks of a word


@compiled
def _inside(size: int, at: int, rows: int, rs: int, tiles: int, ts: int, width: int) -> bool:
    return at + (rows - 1) * rs + (tiles - 1) * ts + width <= size


@compiled
def _apart(rows: int, rs: int, tiles: int, ts: int, width: int) -> bool:
    """Whether no two (row, tile) cells of a box overlap."""
    if rows == 1:
        return tiles == 1 or ts >= width
    if tiles == 1:
        return rs >= width
    if ts <= rs:
        return ts >= width and rs >= ts * (tiles - 1) + width
    return rs >= width and ts >= rs * (rows - 1) + width


@compiled
def _operand(
    source: int, at: int, rows: int, rs: int, tiles: int, ts: int, n: int, cols: int, sizes: Any, integers: bool
) -> bool:
    """Whether operand A or B is of an allowed kind and inside its scratchpad."""
    buffer, fmt = source & 15, source >> 4
    if buffer == ACC and fmt == I32:
        return _inside(sizes[1], at, rows, rs, tiles, ts, 1)
    if buffer == VBUF and fmt in (F16, F32):
        return _inside(sizes[2], at, rows, rs, tiles, ts, 2 if fmt == F32 else 1)
    if buffer == PARAM and (fmt == F32 or (fmt == I32 and integers)):
        ok = _inside(sizes[3], at, rows, rs, tiles, ts, n - (tiles - 1) * cols)
        return ok and (tiles == 1 or _inside(sizes[3], at, rows, rs, tiles - 1, ts, cols))
    return False


@compiled
def _target(source: int, at: int, rows: int, rs: int, tiles: int, ts: int, n: int, cols: int, sizes: Any) -> bool:
    """Whether the destination is of an allowed kind, inside, and does not overlap itself."""
    buffer, fmt = source & 15, source >> 4
    if buffer == NOWHERE:
        return fmt <= I15
    if buffer == VBUF and fmt in (F16, F32):
        width = 2 if fmt == F32 else 1
        return _inside(sizes[2], at, rows, rs, tiles, ts, width) and _apart(rows, rs, tiles, ts, width)
    if buffer == ACT and fmt in (I8, I8_OFFSET, I15):
        boxes = 2 * tiles if fmt == I15 else tiles
        return _inside(sizes[0], at, rows, rs, boxes, ts, 1) and _apart(rows, rs, boxes, ts, 1)
    if buffer == PARAM and fmt == F32:
        width = cols if tiles > 1 else n
        return _inside(sizes[3], at, rows, rs, tiles, ts, width) and _apart(rows, rs, tiles, ts, width)
    return False


@compiled
def _factor(kind: int, at: int, rows: int, n: int, size: int) -> bool:
    return kind <= IMM1 or (kind == ROW and at + rows <= size) or (kind == COL and at + n <= size)


@compiled
def legal(w: Any, cols: int, sizes: Any) -> bool:
    """Whether a word is known to be legal and its destination does not overlap itself."""
    rows, tiles, valid = w[0], w[1], w[2]
    if rows == 0 or tiles == 0 or valid == 0 or valid > cols or cols & (cols - 1):
        return False
    n = (tiles - 1) * cols + valid
    if not _operand(w[3], w[7], rows, w[8], tiles, w[9], n, cols, sizes, True):
        return False
    if not _target(w[5], w[13], rows, w[14], tiles, w[15], n, cols, sizes):
        return False
    if w[25] and (w[3] >> 4 != I32 or w[27] + rows > sizes[3]):
        return False
    op2, kind = w[6] & 15, w[6] >> 4
    scale, bias = w[17] & 15, w[17] >> 4
    if op2 > MAX or (op2 and kind != ELEM and kind != IMM0 and kind != IMM1):
        return False
    with_b = scale == ELEM or bias == ELEM or (op2 != 0 and kind == ELEM)
    if with_b and not _operand(w[4], w[10], rows, w[11], tiles, w[12], n, cols, sizes, False):
        return False
    if not (_factor(w[16] & 15, w[18], rows, n, sizes[3]) and _factor(w[16] >> 4, w[19], rows, n, sizes[3])):
        return False
    if scale != ELEM and not _factor(scale, w[20], rows, n, sizes[3]):
        return False
    if bias != ELEM and not _factor(bias, w[21], rows, n, sizes[3]):
        return False
    if not _factor(w[23] & 15, w[24], rows, n, sizes[3]) or w[22] & 15 > GATE_MUL:
        return False
    reduce = w[26] & 15
    if reduce == 0:
        return True
    if reduce > RSUM_SQ or (w[26] & 32 and (w[5] >> 4 < I8 or reduce == RSUM_SQ)):
        return False
    count, step = (n, tiles * cols) if w[26] & 16 else (rows, rows)
    end = w[28] + (step if reduce == RSUM_SQ else 0) + count
    return bool(end <= sizes[3])


@compiled
def _together(w: Any, cols: int) -> bool:
    """Whether something may be written that a later row still reads: then all rows are read before any is written."""
    rows, tiles, d_src, reduce = w[0], w[1], w[5], w[26]
    buffer, fmt = d_src & 15, d_src >> 4
    if reduce & 15 == RSUM and reduce & 32:  # a sum that is not exact must stop the word before it writes
        lengths = rows if reduce & 16 else tiles * cols
        if lengths * (16319 if fmt == I15 else 128) > 1 << 24:
            return True
    if buffer == PARAM:
        return True
    if buffer != VBUF:
        return False
    high = w[13] + (rows - 1) * w[14] + (tiles - 1) * w[15] + (2 if fmt == F32 else 1)
    for k in range(2):
        src, at, rs, ts = w[3 + k], w[7 + 3 * k], w[8 + 3 * k], w[9 + 3 * k]
        if src & 15 != VBUF or (src == d_src and at == w[13] and rs == w[14] and ts == w[15]):
            continue
        end = at + (rows - 1) * rs + (tiles - 1) * ts + (2 if src >> 4 == F32 else 1)
        if at < high and w[13] < end:
            return True
    return False


@compiled
def order(w: Any, cols: int, sizes: Any) -> int:
    """0: not known to be legal. 1: an element may be written as soon as it is known. 2: not before all are read."""
    if not legal(w, cols, sizes):
        return 0
    return 2 if _together(w, cols) else 1


# ------------------------------------------------------------------------------------------------------- the word


@compiled
def _read(
    x: Any, width: int, memory: Any, src: int, at: int, rs: int, ts: int, first: int, rows: int, n: int, cols: int
) -> None:
    """A block of operand A or B, canonical; zero in padding columns."""
    _, acc, halves, floats, param, integers = memory
    buffer, fmt = src & 15, src >> 4
    if buffer == PARAM:
        unit = 1
    elif buffer == VBUF and fmt == F32:
        unit = cols // 2
    else:
        unit = cols
    at, rs, ts = (at + first * rs) * unit, rs * unit, ts * unit
    step = n if ts == cols or n <= cols else cols
    if step == n and n == width and rs == n:  # rows follow each other
        rows, n, step = 1, rows * n, rows * n
    if buffer == ACC:
        _read_integers(x, width, acc, at, rs, ts, rows, n, step)
    elif buffer == PARAM and fmt == I32:
        _read_integers(x, width, integers, at, rs, ts, rows, n, step)
    elif buffer == PARAM:
        _read_floats(x, width, param, at, rs, ts, rows, n, step)
    elif fmt == F16:
        _read_halves(x, width, halves, at, rs, ts, rows, n, step)
    else:
        _read_floats(x, width, floats, at, rs, ts, rows, n, step)


@compiled
def _clear(x: Any, rows: int, w: int, n: int) -> None:
    """Zero in padding columns."""
    if n < w:
        for i in range(rows):
            x[i * w + n : i * w + w] = 0


@compiled
def _integer_sums(q: Any, first: int, rows: int, w: int, n: int, columns: bool, totals: Any) -> None:
    for i in range(rows):
        v = q[i * w : i * w + n]
        if columns:
            for j in range(n):
                totals[j] += v[j]
        else:
            total = i64(0)
            for j in range(n):
                total += v[j]
            totals[first + i] = total


@compiled
def finish(w: Any, cols: int, param: Any, out: Any, first: int, last: int) -> None:
    """Write the reductions of rows `first` to `last` - 1, or of all columns."""
    rows, tiles, valid, red, at = w[0], w[1], w[2], w[26], w[28]
    if red & 16:
        first, last, second = 0, (tiles - 1) * cols + valid, tiles * cols
    else:
        second = rows
    _copy(out[0, first:last], param[at + first : at + last], last - first)
    if red & 15 == RSUM_SQ:
        _copy(out[1, first:last], param[at + second + first : at + second + last], last - first)


@compiled
def run(
    memory: Any, cols: int, w: Any, imm: Any, table: Any, constants: Any, scratch: Any, first: int, last: int
) -> int:
    """Rows `first` to `last` - 1 of a VEC word.

    Args:
        memory: the scratchpads as ACT int8, ACC int32, VBUF uint16 and float32, PARAM float32 and int32, all flat.
        w: the fields `rows` to `red_at`. imm: the two immediates, float32.
        table: see `_look`. constants: its d, s2, s1, lg, rb.
        scratch: see `vpu._Scratch`.

    Returns:
        How many results overflowed float16 or were NaN, or -1: not executed, nothing written; -2: the same, but all
        rows in one call can be executed; -3 - n: the same, but with a scratch of n elements.
    """
    act, acc, halves, floats, param, integers = memory
    x, b, z, factors, q, half, narrow, work, sums, keys, totals, out = scratch
    rows, tiles, d_src, red = w[0], w[1], w[5], w[26]
    sizes = (act.size // cols, acc.size // cols, halves.size // cols, param.size)
    if not legal(w, cols, sizes):
        return -1
    n = (tiles - 1) * cols + w[2]
    buffer, fmt, reduce, columns = d_src & 15, d_src >> 4, red & 15, red & 16 != 0
    started, taps_integers = red & 64 != 0, red & 32 != 0
    trees = reduce in (RSUM, RSUM_SQ) and not columns and not taps_integers
    width = tiles * cols if trees else n
    parts = first > 0 or last < rows
    together = _together(w, cols)
    if parts and (together or (reduce and columns)):
        return -2
    step = rows if together else max(1, min(rows, BLOCK // width))
    if step * width > x.size:
        return -3 - step * width if step * width <= LARGEST else -1
    scale1, bias1, scale2, bias2, op2, other = w[16] & 15, w[16] >> 4, w[17] & 15, w[17] >> 4, w[6] & 15, w[6] >> 4
    quantise = w[23] & 15
    for k, kind, at in (
        (0, scale1, w[18]),
        (1, bias1, w[19]),
        (2, scale2, w[20]),
        (3, bias2, w[21]),
        (4, quantise, w[24]),
    ):
        if kind == COL:
            _spread(factors[k], step, width, n, param[at : at + n])
    with_b = scale2 == ELEM or bias2 == ELEM or (op2 and other == ELEM)
    if reduce:
        low, high = (0, n) if columns else (first, last)  # threads may share `out`, each its own rows
        pair = 1 if reduce != RSUM_SQ else 2
        for k in range(pair):
            at = w[28] + k * (tiles * cols if columns else rows)
            for i in range(low, high):
                out[k, i] = _canonical(param[at + i]) if started else f32(0)
        if columns:
            sums[: 8 * pair, :n] = 0
            keys[:n] = i32(0x33800000) if reduce == RABSMAX else i32(-0x80000000)
            totals[:n] = 0
    bad = 0
    for at in range(first, last, step):
        k = min(step, last - at)
        m = k * width
        if w[25]:
            source, unit = (acc, cols) if w[3] & 15 == ACC else (integers, 1)
            run_length = n if w[9] * unit == cols or tiles == 1 else cols
            less = integers[w[27] + at : w[27] + at + k]
            _read_less(x, width, source, (w[7] + at * w[8]) * unit, w[8] * unit, w[9] * unit, k, n, run_length, less)
        else:
            _read(x, width, memory, w[3], w[7], w[8], w[9], at, k, n, cols)
        if with_b:
            _read(b, width, memory, w[4], w[10], w[11], w[12], at, k, n, cols)
        if n < width:
            _clear(x, k, width, n)
            _clear(b, k, width, n)
        if scale1:
            _multiply(x, x, k, width, scale1, imm, param, w[18] + at, factors[0])
        if bias1:
            _add(x, k, width, bias1, imm, param, w[19] + at, factors[1])
        if scale2:
            _multiply(x, x, k, width, scale2, imm, param, w[20] + at, b if scale2 == ELEM else factors[2])
        if bias2:
            _add(x, k, width, bias2, imm, param, w[21] + at, b if bias2 == ELEM else factors[3])
        if w[22] & 15:
            _function(x, m, w[22] & 15, table, constants, work)
        if op2 == MUL:
            _multiply(x, x, k, width, other, imm, param, 0, b)
        elif op2 == ADD:
            _add(x, k, width, other, imm, param, 0, b)
        elif op2 == MAX and other == ELEM:
            _max_vector(x, m, b)
        elif op2 == MAX:
            _max_value(x, m, _canonical(imm[other - IMM0]))
        keep = reduce and fmt != F16 and fmt != F32 and not taps_integers  # the tap is before requantisation
        y = z if keep else x
        bytes_only = fmt in (I8, I8_OFFSET) and n == width and not taps_integers and quantise <= IMM1
        if bytes_only:
            y = x
        elif quantise:
            _multiply(x, y, k, width, quantise, imm, param, w[24] + at, factors[4])
        elif keep:
            _copy(x, y, m)
        if n < width:
            _clear(y, k, width, n)
            _clear(x, k, width, n)
        if fmt == F16:
            bad += _to_half(y, half, m)
            if reduce:
                _from_half(half, x, m)
        elif bytes_only:
            factor = _canonical(imm[quantise - IMM0]) if quantise else f32(1)
            if fmt == I8:
                bad += _to_bytes(x, narrow[0], m, factor)
            else:
                bad += _to_offset_bytes(x, narrow[0], m, factor)
        elif fmt in (I8, I8_OFFSET):
            if fmt == I8_OFFSET:
                _to_offset(y, m)
            bad += _to_integer(y, q, m, f32(-128) if fmt == I8_OFFSET else f32(-127), f32(127))
            _narrow(q, narrow[0], m)
        elif fmt == I15:
            bad += _to_integer(y, q, m, f32(-16319), f32(16319))
            _planes(q, narrow[0], narrow[1], m)
        if reduce:
            if taps_integers and reduce == RSUM:
                _integer_sums(q, at, k, width, n, columns, totals)
            else:
                if taps_integers:
                    _from_integer(q, x, m)
                if reduce in (RMAX, RABSMAX):
                    if columns:
                        _column_keys(x, k, width, n, reduce == RABSMAX, keys)
                    else:
                        _row_keys(x, k, width, n, reduce == RABSMAX, started, out[0, at : at + k])
                elif columns:
                    _column_sums(x, at, k, width, n, sums[:8])
                    if reduce == RSUM_SQ:
                        _squares(x, b, m)
                        _column_sums(b, at, k, width, n, sums[8:])
                else:
                    _row_sums(x, b, factors[5], k, tiles, cols, started, out[0, at : at + k])
                    if reduce == RSUM_SQ:
                        _squares(x, z, m)
                        _row_sums(z, b, factors[5], k, tiles, cols, started, out[1, at : at + k])
        if reduce == RSUM and taps_integers and together:
            for i in range(n if columns else rows):
                if abs(totals[i]) > 1 << 24:
                    return -1
        if buffer == NOWHERE:
            continue
        place, rs, ts = w[13] + at * w[14], w[14], w[15]
        pad = 0 if buffer == PARAM else tiles * cols - n
        unit = 1 if buffer == PARAM else cols // 2 if fmt == F32 else cols
        place, rs, ts = place * unit, rs * unit, ts * unit
        run_length = n if ts == cols or tiles == 1 else cols
        count, length = k, n
        if run_length == n and n == width and pad == 0 and rs == n and fmt != I15:
            count, length, run_length = 1, m, m
        if buffer == PARAM:
            _write(param, place, rs, ts, y, width, count, length, run_length, f32(0), 0)
        elif fmt == F32:
            _write(floats, place, rs, ts, y, width, count, length, run_length, f32(0), pad)
        elif fmt == F16:
            _write(halves, place, rs, ts, half, width, count, length, run_length, u16(0), pad)
        else:
            fill = np.int8(-128) if fmt == I8_OFFSET else np.int8(0)
            _write(act, place, rs, ts, narrow[0], width, count, length, run_length, fill, pad)
            if fmt == I15:
                _write(act, place + tiles * ts, rs, ts, narrow[1], width, count, length, run_length, fill, pad)
    if reduce:
        if taps_integers and reduce == RSUM:
            for i in range(0 if columns else first, n if columns else last):
                total = f32(totals[i])
                out[0, i] = _canonical(out[0, i] + total) if started else total
        elif columns and reduce <= RABSMAX:
            _column_finish(keys, n, started, out[0])
        elif columns:
            for k in range(2 if reduce == RSUM_SQ else 1):
                _column_total(sums[8 * k : 8 * k + 8], n, started, out[k])
        if not parts:
            finish(w, cols, param, out, first, last)
    return bad
