"""Every number the DPU computes, bit for bit: conversions, float32 arithmetic, fixed-order reductions, int8 products.

The chapter for readers is docs/numerics.md; this file is its executable form and what the simulator calls. The table
functions (exp2, recip, rsqrt, gates) are in `functions.py` and re-exported here.

One rule for all float32 arithmetic: subnormal operands count as zero, one IEEE operation rounded to nearest even, a
subnormal rounded result becomes a zero of its sign, every NaN is 0x7FC00000. numpy gives the IEEE operation; the flush
is done only where a cheap test cannot exclude subnormals (the test is argued where it is used).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from .functions import GATES, GateTable, exp2, gate, recip, rsqrt, table_from_image, table_image

__all__ = [
    "ABSMAX_FLOOR",
    "GATES",
    "GateTable",
    "col_absmax",
    "col_max",
    "col_sum",
    "col_sum_i",
    "col_sum_sq",
    "exp2",
    "expand_w4",
    "f16_to_f32",
    "f32_to_f16",
    "f32_to_i8",
    "f32_to_i15",
    "fadd",
    "fmax",
    "fmul",
    "ftz",
    "gate",
    "gate_mul",
    "i32_to_f32",
    "matmul_i8",
    "recip",
    "row_absmax",
    "row_max",
    "row_sum",
    "row_sum_i",
    "row_sum_sq",
    "rsqrt",
    "table_from_image",
    "table_image",
    "tree_sum",
]

F32 = npt.NDArray[np.float32]
F16 = npt.NDArray[np.float16]
I32 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int8]
Add = Callable[[F32, F32], F32]

QNAN: Final = np.uint32(0x7FC00000).view(np.float32)
F16_QNAN_BITS: Final = np.uint16(0x7E00)
F16_MAX: Final = 65504.0
F16_OVERFLOW: Final = 65520.0  # the least magnitude that rounds past 65504
I15_MAX: Final = 16319
ABSMAX_FLOOR: Final = np.float32(2.0**-24)
COL_ACCUMULATORS: Final = 8
W4_GROUP: Final = 128  # rows that share a group integer
K_EXACT: Final = 1024  # 1024 * 128 * 127 < 2^24: an int8 dot product of this length is exact in float32
K_MAX: Final = 132_104  # 132,104 * 128 * 127 < 2^31

_MIN_NORMAL: Final = 2.0**-126
_SAFE_SUM: Final = 2.0**-103  # see _adder
_BLOCK: Final = 1 << 14  # elements looked at together, so that temporaries stay in the cache

_quiet = np.errstate(all="ignore")  # decorator: infinities and NaN are results here, not accidents


# ---------------------------------------------------------------------------------------------- subnormals and NaN


def _least(x: F32) -> float:
    """The smallest nonzero |x|, inf when there is none. (2 bits - 1) puts zeros last; NaN counts as large."""
    least = 0xFFFFFFFF
    if x.size <= 2 * _BLOCK or not x.flags.c_contiguous:
        pieces = [x] if x.size else []
    else:
        flat = x.reshape(-1)
        pieces = [flat[at : at + _BLOCK] for at in range(0, flat.size, _BLOCK)]
    for piece in pieces:
        u = piece.view(np.uint32)
        t = np.asarray(u + u)
        t -= np.uint32(1)
        least = min(least, int(np.minimum.reduce(t, axis=None)))
    if least == 0xFFFFFFFF:
        return float("inf")
    value: float = struct.unpack("<f", struct.pack("<I", (least + 1) >> 1))[0]
    return value if value == value else float("inf")


def _has_nan(x: F32) -> bool:
    return bool(x.size) and bool(np.isnan(np.maximum.reduce(x, axis=None)))


def _flush(x: F32) -> F32:
    """`x` with subnormals as zeros of their sign and one NaN: always a new array."""
    u = x.view(np.uint32)
    magnitude = u & np.uint32(0x7FFFFFFF)
    u = np.where(magnitude < np.uint32(0x00800000), u & np.uint32(0x80000000), u)
    u = np.where(magnitude > np.uint32(0x7F800000), np.uint32(0x7FC00000), u)
    y: F32 = np.asarray(u).view(np.float32)
    return y


def ftz(x: F32) -> F32:
    """Canonical float32, any shape: subnormals become zeros of their sign, every NaN 0x7FC00000.

    Returns `x` itself when there is nothing to change.
    """
    x = np.asarray(x, np.float32)
    return x if _least(x) >= _MIN_NORMAL and not _has_nan(x) else _flush(x)


def _extreme(x: F32) -> float:
    """max |x|; NaN if any is NaN."""
    if not x.size:
        return 0.0
    low, high = float(np.minimum.reduce(x, axis=None)), float(np.maximum.reduce(x, axis=None))
    return max(-low, high) if low == low else low


# ----------------------------------------------------------------------------------------------- float32 operations


@_quiet
def fadd(a: F32, b: F32) -> F32:
    """a + b, broadcast. One float32 operation.

    When every nonzero |sum| is at least 2^-100, no operand that was subnormal (below 2^-126) reached the sum: it is
    less than half a unit in the last place of it. Then there is also nothing to flush.
    """
    a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
    y: F32 = np.asarray(a + b)
    if _least(y) >= 2.0**-100 and not _has_nan(y):
        return y
    return _flush(np.asarray(_flush(a) + _flush(b)))


@_quiet
def fmul(a: F32, b: F32) -> F32:
    """a * b, broadcast. One float32 operation.

    A subnormal operand gives |product| < 2^-126 max(|a|, |b|); when every nonzero |product| is at least that (and
    2^-126) nothing was subnormal, and all is finite.
    """
    a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
    y: F32 = np.asarray(a * b)
    top_a = _extreme(a)
    top_b = top_a if a is b else _extreme(b)
    if _least(y) >= _MIN_NORMAL * max(1.0, top_a, top_b) and top_a + top_b < float("inf"):
        return y
    return _flush(np.asarray(_flush(a) * _flush(b)))


@_quiet
def fmax(a: F32, b: F32) -> F32:
    """The larger, broadcast; NaN if either is NaN; max(-0, +0) = +0."""
    a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
    y: F32 = np.asarray(np.maximum(a, b))
    if not y.size or float(np.min(np.abs(y))) >= _MIN_NORMAL:
        return y
    a, b = _flush(a), _flush(b)
    larger = np.asarray(np.maximum(_key(a), _key(b)))
    nan = np.isnan(a) | np.isnan(b)
    return np.where(nan, QNAN, _key(larger.view(np.float32)).view(np.float32))


def _key(x: F32) -> I32:
    """Bits as an integer in the order of the values, -0 below +0; its own inverse."""
    i = x.view(np.int32)
    return np.asarray(i ^ ((i >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@_quiet
def gate_mul(x: F32, table: GateTable) -> F32:
    """x * T(x), any shape, and 0 at -inf: SiLU with `GATES["sigmoid"]`, GELU with "phi" or "tanh_gelu".

    quick_gelu has a table of its own, T(x) = sigmoid(1.702 x).
    """
    x = np.asarray(x, np.float32)
    if x.size and float(np.minimum.reduce(x, axis=None)) == -np.inf:
        x = np.where(x == -np.inf, np.float32(0), x)
    elif _has_nan(x):  # minimum is NaN and may hide -inf
        x = np.where(np.isneginf(x), np.float32(0), x)
    return fmul(x, gate(x, table))


# ------------------------------------------------------------------------------------------------------ conversions


def i32_to_f32(x: I32) -> F32:
    """Nearest float32, half to even. Any shape."""
    return np.asarray(x, np.int32).astype(np.float32)


def _to_integer(x: F32, low: float, high: float) -> tuple[F32, int]:
    """Half to even, saturated to [low, high], NaN as 0; and how many were NaN."""
    r = np.asarray(np.rint(np.asarray(x, np.float32)))
    r = np.asarray(np.clip(r, np.float32(low), np.float32(high)))
    if not _has_nan(r):
        return r, 0
    nan = np.isnan(r)
    return np.where(nan, np.float32(0), r), int(np.count_nonzero(nan))


def f32_to_i8(x: F32, offset: bool = False) -> tuple[I8, int]:
    """int8 and the number of NaN: half to even, saturated to [-127, 127] ([-128, 127] when `offset`), NaN -> 0."""
    r, nan_count = _to_integer(x, -128 if offset else -127, 127)
    return r.astype(np.int8), nan_count


def f32_to_i15(x: F32) -> tuple[I8, I8, int]:
    """Planes hi, lo and the number of NaN: x15 = clamp(rne(x), +-16319) = 128 hi + lo.

    hi = (x15 + 64) >> 7 is in [-127, 127], lo in [-64, 63]; NaN -> 0.
    """
    r, nan_count = _to_integer(x, -I15_MAX, I15_MAX)
    x15 = r.astype(np.int32)
    hi = (x15 + np.int32(64)) >> np.int32(7)
    lo = x15 - (hi << np.int32(7))
    return np.asarray(hi).astype(np.int8), np.asarray(lo).astype(np.int8), nan_count


@_quiet
def f32_to_f16(x: F32) -> tuple[F16, int]:
    """float16 and the number of overflows: half to even, subnormals kept, NaN -> 0x7E00.

    A value that would round past 65504 (from 65520, infinities too) becomes +-65504 and is counted.
    """
    x = np.asarray(x, np.float32)
    if _extreme(x) < F16_OVERFLOW:
        return x.astype(np.float16), 0
    over = np.abs(x) >= np.float32(F16_OVERFLOW)
    bits = np.asarray(np.clip(x, np.float32(-F16_MAX), np.float32(F16_MAX))).astype(np.float16).view(np.uint16)
    y: F16 = np.where(np.isnan(x), F16_QNAN_BITS, bits).view(np.float16)
    return y, int(np.count_nonzero(over))


def f16_to_f32(x: F16) -> F32:
    """The same value in float32 (float16 subnormals are normal there); NaN -> 0x7FC00000."""
    y = np.asarray(x, np.float16).astype(np.float32)
    return np.where(np.isnan(y), QNAN, y) if _has_nan(y) else y


# ------------------------------------------------------------------------------------------------------- reductions


def _flushed_add(a: F32, b: F32) -> F32:
    return _flush(np.asarray(a + b))


def _adder(x: F32) -> tuple[F32, Add]:
    """`x` and the addition to use for sums of its elements in any order.

    When every nonzero |x| is at least 2^-103, all are multiples of 2^-126, and so is every sum of them, rounded or
    not: no sum is ever subnormal, and the plain IEEE addition is already the DPU's (NaN is made canonical at the end).
    """
    return (x, np.add) if _least(x) >= _SAFE_SUM else (_flush(x), _flushed_add)


def _halve(x: F32, add: Add) -> F32:
    """[..., 2^k] -> [...]: neighbours first."""
    while x.shape[-1] > 1:
        x = np.asarray(add(x[..., 0::2], x[..., 1::2]))
    return np.asarray(x[..., 0])


def _pad_last(x: F32, n: int) -> F32:
    """`x` with its last axis extended to `n` by +0."""
    if x.shape[-1] == n:
        return x
    y = np.zeros((*x.shape[:-1], n), np.float32)
    y[..., : x.shape[-1]] = x
    return y


def _power_of_two(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


@_quiet
def tree_sum(x: F32, axis: int = -1) -> F32:
    """Balanced tree along `axis`: ((0+1)+(2+3))+..., the length padded with +0 to a power of two."""
    x = np.moveaxis(np.asarray(x, np.float32), axis, -1)
    x, add = _adder(np.ascontiguousarray(_pad_last(x, _power_of_two(x.shape[-1]))))
    return ftz(_halve(x, add))


def _matrix(x: F32) -> F32:
    x = np.ascontiguousarray(x, np.float32)
    if x.ndim != 2 or 0 in x.shape:
        raise ValueError(f"a reduction takes [rows, columns] with at least one of each, not {x.shape}")
    return x


@_quiet
def _row_sum(x: F32, cols: int, init: F32 | None, square: bool) -> F32:
    x = _matrix(x)
    rows, n = x.shape
    tiles, width = -(-n // cols), _power_of_two(cols)
    sums = np.empty((tiles, rows), np.float32)
    plain = init is None or _least(init := np.asarray(init, np.float32)) >= _SAFE_SUM
    step = max(1, _BLOCK // (tiles * width))
    for at in range(0, rows, step):
        part = x[at : at + step]
        if square:
            part = fmul(part, part)
        part, add = _adder(part)
        plain &= add is np.add
        part = _pad_last(_pad_last(part, tiles * cols).reshape(-1, tiles, cols), width)
        sums[:, at : at + step] = _halve(part, add).T
    plus: Add = np.add if plain else _flushed_add
    acc = sums[0] if init is None else plus(init if plain else _flush(init), sums[0])
    for tile in sums[1:]:
        acc = plus(acc, tile)
    return ftz(acc)


def row_sum(x: F32, cols: int, init: F32 | None = None) -> F32:
    """[rows, n] -> [rows]: a tree over each column tile of `cols` (the ragged last one padded with +0), tile by tile.

    acc = tree(tile 0), or init + tree(tile 0); then acc = acc + tree(tile t) in order.
    """
    return _row_sum(x, cols, init, square=False)


def row_sum_sq(x: F32, cols: int, init: F32 | None = None) -> F32:
    """`row_sum` of x * x, each square one float32 operation."""
    return _row_sum(x, cols, init, square=True)


@_quiet
def col_sum(x: F32, init: F32 | None = None) -> F32:
    """[rows, n] -> [n]: eight accumulators, row i into accumulator i mod 8 in order, then their tree, then init + tree.

    An accumulator starts with the first value it sees; one that sees none is +0.
    """
    x = _matrix(x)
    rows, n = x.shape
    x, add = _adder(x)
    full = rows // COL_ACCUMULATORS
    acc = np.zeros((COL_ACCUMULATORS, n), np.float32)
    first = min(rows, COL_ACCUMULATORS)
    acc[:first] = x[:first]
    for group in x[: full * COL_ACCUMULATORS].reshape(full, COL_ACCUMULATORS, n)[1:]:
        if add is np.add:
            np.add(acc, group, out=acc)
        else:
            acc = add(acc, group)
    rest = rows - full * COL_ACCUMULATORS
    if full and rest:
        acc[:rest] = add(acc[:rest], x[rows - rest :])
    while len(acc) > 1:
        acc = add(acc[0::2], acc[1::2])
    total = ftz(acc[0])
    return total if init is None else fadd(init, total)


def col_sum_sq(x: F32, init: F32 | None = None) -> F32:
    """`col_sum` of x * x, each square one float32 operation."""
    x = np.asarray(x, np.float32)
    return col_sum(fmul(x, x), init)


def _max(x: F32, axis: int, init: F32 | None) -> F32:
    x = _matrix(x)
    y = ftz(np.asarray(np.maximum.reduce(x, axis=axis)))
    zero = y == 0
    if zero.any():  # numpy does not say which zero it returns: +0 if there is one (positive subnormals count as +0)
        some = x[zero] if axis == 1 else x[:, zero]
        plus = np.any(some.view(np.uint32) < np.uint32(0x00800000), axis=axis)
        y = y.copy()
        y[zero] = np.where(plus, np.float32(0), np.float32(-0.0))
    return y if init is None else fmax(init, y)


def _absmax(x: F32, axis: int, init: F32 | None, floor: np.float32) -> F32:
    x = _matrix(x)
    y = np.asarray(np.maximum(np.maximum.reduce(x, axis=axis), -np.minimum.reduce(x, axis=axis)))
    y = fmax(y, np.asarray(floor, np.float32))
    return y if init is None else fmax(init, y)


def row_max(x: F32, cols: int | None = None, init: F32 | None = None) -> F32:
    """[rows, n] -> [rows]: the maximum, as `fmax`; the order does not matter, so `cols` is not used."""
    return _max(x, 1, init)


def row_absmax(x: F32, cols: int | None = None, init: F32 | None = None, floor: np.float32 = ABSMAX_FLOOR) -> F32:
    """[rows, n] -> [rows]: the maximum of |x|, at least `floor`, so that an all-zero row has a reciprocal."""
    return _absmax(x, 1, init, floor)


def col_max(x: F32, init: F32 | None = None) -> F32:
    """[rows, n] -> [n]: the maximum, as `fmax`."""
    return _max(x, 0, init)


def col_absmax(x: F32, init: F32 | None = None, floor: np.float32 = ABSMAX_FLOOR) -> F32:
    """[rows, n] -> [n]: the maximum of |x|, at least `floor`."""
    return _absmax(x, 0, init, floor)


def _sum_i(q: npt.NDArray[np.integer], axis: int, init: F32 | None) -> F32:
    total = np.asarray(np.sum(q, axis=axis, dtype=np.int64))
    if total.size and int(np.abs(total).max()) > 1 << 24:
        raise ValueError(f"an integer sum of {int(np.abs(total).max())} is not exact in float32 (bound 2^24)")
    y = total.astype(np.float32)
    return y if init is None else fadd(init, y)


def row_sum_i(q: npt.NDArray[np.integer], init: F32 | None = None) -> F32:
    """[rows, n] integers -> [rows]: exact while |sum| <= 2^24, which int8 keeps up to n = 131,072."""
    return _sum_i(q, 1, init)


def col_sum_i(q: npt.NDArray[np.integer], init: F32 | None = None) -> F32:
    """[rows, n] integers -> [n]: exact while |sum| <= 2^24, which int8 keeps up to 131,072 rows."""
    return _sum_i(q, 0, init)


# -------------------------------------------------------------------------------------------------- integer products


def matmul_i8(a: I8, w: I8) -> I32:
    """a[m, k] w[k, n] -> int32[m, n], exact.

    Computed by float32 matrix products over at most 1,024 of k: every partial sum, in any order and with or without
    FMA, is an integer of magnitude at most 1024 * 128 * 127 = 16,646,144 < 2^24, so float32 holds it exactly. The
    chunks are added in int32, where k <= 132,104 cannot overflow.

    Raises:
        ValueError: not int8, shapes that do not match, k too long, or a stationary operand `w` of -128.
    """
    if a.dtype != np.int8 or w.dtype != np.int8:
        raise ValueError(f"matmul_i8 takes int8, not {a.dtype} and {w.dtype}")
    if a.ndim != 2 or w.ndim != 2 or a.shape[1] != w.shape[0]:
        raise ValueError(f"matmul_i8 of {a.shape} and {w.shape}")
    k = a.shape[1]
    if k > K_MAX:
        raise ValueError(f"a reduction of {k} can overflow int32; at most {K_MAX}")
    if w.size and int(np.minimum.reduce(w, axis=None)) == -128:
        raise ValueError("a stationary operand is -128; stationary operands saturate to +-127")
    acc: I32 = np.matmul(a[:, :K_EXACT].astype(np.float32), w[:K_EXACT].astype(np.float32)).astype(np.int32)
    for at in range(K_EXACT, k, K_EXACT):
        cut = slice(at, at + K_EXACT)
        acc += np.matmul(a[:, cut].astype(np.float32), w[cut].astype(np.float32)).astype(np.int32)
    return acc


def expand_w4(q: I8, g: I8) -> I8:
    """q[k, n] in [-8, 7] and g[ceil(k / 128), n] in [-15, 15] -> the int8 weights g[k // 128, n] * q[k, n].

    |g q| <= 120, so nothing saturates and no weight is -128. The last group may be short.

    Raises:
        ValueError: shapes or values outside these ranges.
    """
    k, n = q.shape
    if g.shape != (-(-k // W4_GROUP), n):
        raise ValueError(f"q is {q.shape}, so g must be {(-(-k // W4_GROUP), n)}, not {g.shape}")
    if q.size and (int(q.min()) < -8 or int(q.max()) > 7):
        raise ValueError(f"a 4-bit weight is outside [-8, 7]: {int(q.min())} to {int(q.max())}")
    if g.size and (int(g.min()) < -15 or int(g.max()) > 15):
        raise ValueError(f"a group integer is outside [-15, 15]: {int(g.min())} to {int(g.max())}")
    spread = np.repeat(g.astype(np.int8), W4_GROUP, axis=0)[:k]
    return np.asarray(q.astype(np.int8) * spread)
