"""The arithmetic of `docs/numerics.md`, written a second time, in whole arrays; sections are that page's.

Nothing here comes from the simulator or from `ir/numerics.py` and `ir/functions.py`, so that a mistake must be made
twice to go unseen. The integers of the function tables are shared as data: `ir/numerics_tables.json`.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F16 = npt.NDArray[np.float16]
I8 = npt.NDArray[np.int8]
I64 = npt.NDArray[np.int64]

LEAST_NORMAL = np.float32(2.0**-126)
NAN = np.array(0x7FC00000, np.uint32).view(np.float32)[()]
FLOOR = np.float32(2.0**-24)  # where absolute maxima start
EXACT_ROWS = 1024  # products summed in one float32 matrix product: 1024 * 128 * 127 < 2^24, exact in any order


# -- section 3: float32 ------------------------------------------------------------------------------------------------


def settle(x: npt.ArrayLike) -> F32:
    """Subnormals become zeros of their sign, every NaN the canonical one: what happens to operands and to results."""
    v = np.asarray(x, np.float32)
    if not v.size:
        return v
    size = np.abs(v)
    if size.min() >= LEAST_NORMAL:  # false for a NaN
        return v
    v = np.where(size < LEAST_NORMAL, np.copysign(np.float32(0), v), v)
    return np.where(np.isnan(v), NAN, v)


def add(a: npt.ArrayLike, b: npt.ArrayLike) -> F32:
    """One addition."""
    with np.errstate(all="ignore"):
        return settle(settle(a) + settle(b))


def mul(a: npt.ArrayLike, b: npt.ArrayLike) -> F32:
    """One multiplication. IEEE rounding comes first, so what rounds up to 2^-126 stays."""
    with np.errstate(all="ignore"):
        return settle(settle(a) * settle(b))


def larger(a: npt.ArrayLike, b: npt.ArrayLike) -> F32:
    """The maximum: NaN if either is, +0 of two zeros unless both are -0."""
    x, y = np.broadcast_arrays(settle(a), settle(b))
    picked = np.where((x > y) | ((x == y) & ~np.signbit(x)), x, y)
    return np.where(np.isnan(x) | np.isnan(y), NAN, picked)


# -- section 2: conversions --------------------------------------------------------------------------------------------


def from_int(x: npt.NDArray[np.integer[Any]]) -> F32:
    """Integer to float32, half to even."""
    return x.astype(np.float32)


def from_half(x: npt.NDArray[Any]) -> F32:
    """A float16 or float32 tensor as float32."""
    return settle(x.astype(np.float32))


def to_half(x: F32) -> F16:
    """float32 to float16: subnormals kept, overflow and infinities become the largest finite, NaN 0x7E00."""
    with np.errstate(all="ignore"):
        half = x.astype(np.float16)
    half = np.where(np.isinf(half), np.copysign(np.float16(65504), half), half)
    return np.where(np.isnan(x), np.array(0x7E00, np.uint16).view(np.float16), half)


def rounded(x: F32, low: int, high: int) -> npt.NDArray[np.int32]:
    """Half to even, saturated; NaN gives 0."""
    with np.errstate(all="ignore"):
        y = np.clip(np.rint(x), low, high)
    return np.where(np.isnan(y), np.float32(0), y).astype(np.int32)


def to_int8(x: F32) -> I8:
    """float32 to int8 in [-127, 127]."""
    return rounded(x, -127, 127).astype(np.int8)


def to_offset(x: F32) -> I8:
    """float32 to the offset form, [-128, 127]."""
    return rounded(x, -128, 127).astype(np.int8)


def to_planes(x: F32) -> tuple[I8, I8]:
    """float32 to 15 bits as two int8 planes, x15 = 128 hi + lo."""
    wide = rounded(x, -16319, 16319)
    high = (wide + 64) >> 7
    return high.astype(np.int8), (wide - 128 * high).astype(np.int8)


# -- section 4: functions ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Coefficients of one function: c0, c1, c2 have `of`, `f1`, `f2` fraction bits; gates cover |x| < 2^lg."""

    c0: I64
    c1: I64
    c2: I64
    of: int
    f1: int
    f2: int
    lg: int

    def evaluate(self, i: I64, r: I64, rb: int) -> I64:
        """The piecewise quadratic at remainder r (rb bits) of piece i."""
        d = max(0, rb - 17)
        inner = (self.c2[i] * (r >> d)) >> (rb - d + self.f2 - self.f1)
        return self.c0[i] + (((inner + self.c1[i]) * r) >> (rb + self.f1 - self.of))


@cache
def table(name: str) -> Table:
    """The table called `name`, its checksum verified.

    Raises:
        ValueError: the integers are not those of the checksum.
    """
    text = resources.files("dpu.ir").joinpath("numerics_tables.json").read_text()
    t = json.loads(text)["tables"][name]
    c0, c1, c2 = (np.array(t[k], "<i8") for k in ("c0", "c1", "c2"))
    crc = zlib.crc32(c0.tobytes() + c1.tobytes() + c2.tobytes())
    if f"{crc:08x}" != t["crc32"]:
        raise ValueError(f"table '{name}' has CRC32 {crc:08x}, expected {t['crc32']}")
    return Table(c0, c1, c2, t["of"], t["f1"], t["f2"], t.get("lg", 0))


def _sixteenth(y: I64) -> I64:
    """y / 16, half to even."""
    low = y & 15
    up = (low > 8) | ((low == 8) & (((y >> 4) & 1) == 1))
    return np.asarray((y >> 4) + up, np.int64)


def _scaled(mantissa: I64, exponent: I64) -> F32:
    """mantissa * 2^exponent, below 2^-126 a zero."""
    with np.errstate(all="ignore"):
        return settle(np.ldexp(mantissa.astype(np.float64), exponent.astype(np.int32)).astype(np.float32))


def _parts(x: F32) -> tuple[I64, I64]:
    """Exponent and 23 mantissa bits of normal numbers."""
    bits = x.view(np.uint32).astype(np.int64)
    return ((bits >> 23) & 255) - 127, bits & 0x7FFFFF


def exp2(x: npt.ArrayLike) -> F32:
    """2^x."""
    v = settle(x)
    inside = (v >= -126) & (v < 128)
    fixed = np.rint(np.where(inside, v, 0).astype(np.float64) * 2.0**26).astype(np.int64)
    f = fixed & ((1 << 26) - 1)
    y = table("exp2").evaluate(f >> 20, f & ((1 << 20) - 1), 20)
    out = _scaled(_sixteenth(y), (fixed >> 26) - 23)
    out = np.where(inside, out, np.where(v < 0, np.float32(0), np.float32(np.inf)))
    return np.where(np.isnan(v), NAN, out).astype(np.float32)


def recip(x: npt.ArrayLike) -> F32:
    """1 / x."""
    v = settle(x)
    usual = np.isfinite(v) & (v != 0) & (np.abs(v) <= np.float32(2.0**126))
    e, m = _parts(np.where(usual, v, np.float32(1)))
    y = _sixteenth(table("recip").evaluate(m >> 16, m & 0xFFFF, 16))
    out = _scaled(np.where(m == 0, 1 << 24, y), -e - 24)
    out = np.where(usual, out, np.where(v == 0, np.float32(np.inf), np.float32(0)))
    return np.where(np.isnan(v), NAN, np.copysign(out, v)).astype(np.float32)


def rsqrt(x: npt.ArrayLike) -> F32:
    """1 / sqrt(x)."""
    v = settle(x)
    usual = np.isfinite(v) & (v > 0)
    e, m = _parts(np.where(usual, v, np.float32(1)))
    p = e & 1
    y = _sixteenth(table("rsqrt").evaluate((m >> 17) + 64 * p, m & 0x1FFFF, 17))
    out = _scaled(np.where((m == 0) & (p == 0), 1 << 24, y), -((e - p) >> 1) - 24)
    out = np.where(usual, out, np.where(v == 0, np.float32(np.inf), np.float32(0)))
    return np.where(np.isnan(v) | (v < 0), NAN, out).astype(np.float32)


def gate(x: npt.ArrayLike, name: str) -> F32:
    """T(x) of a gate table."""
    v, t = settle(x), table(name)
    size = np.where(np.isnan(v), np.float32(0), np.minimum(np.abs(v), np.float32(1 << t.lg)))
    fixed = np.minimum(np.rint(size.astype(np.float64) * 2.0**20).astype(np.int64), (1 << (20 + t.lg)) - 1)
    y = np.clip(t.evaluate(fixed >> 16, fixed & 0xFFFF, 16), 0, 1 << 24)
    y = np.where(np.signbit(v), (1 << 24) - y, y)
    return np.where(np.isnan(v), NAN, (y * 2.0**-24).astype(np.float32)).astype(np.float32)


def gated(x: npt.ArrayLike, name: str) -> F32:
    """x * T(x) of a gate table; +0 at minus infinity."""
    v = settle(x)
    return np.where(np.isneginf(v), np.float32(0), mul(v, gate(v, name))).astype(np.float32)


def activation(x: F32, name: str) -> F32:
    """An activation by its name in the graph."""
    return gated(x, {"silu": "sigmoid", "gelu": "phi", "quick_gelu": "quick_gelu"}[name])


# -- section 5: products -----------------------------------------------------------------------------------------------


def product(a: I8, w: I8) -> I64:
    """a [..., k] times w [k, n], exact."""
    total = np.zeros((*a.shape[:-1], w.shape[1]), np.int64)
    for k in range(0, w.shape[0], EXACT_ROWS):
        part = a[..., k : k + EXACT_ROWS].astype(np.float32) @ w[k : k + EXACT_ROWS].astype(np.float32)
        total += part.astype(np.int64)
    return total


# -- section 6: reductions ---------------------------------------------------------------------------------------------


def tree(x: F32) -> F32:
    """((0+1)+(2+3))+... over the last axis, a power of two long."""
    while x.shape[-1] > 1:
        x = add(x[..., 0::2], x[..., 1::2])
    return x[..., 0]


def row_sum(x: F32, columns: int) -> F32:
    """Sum over the last axis in tiles of `columns`: a tree each, then one after the other."""
    n = x.shape[-1]
    padded = np.zeros((*x.shape[:-1], -(-n // columns) * columns), np.float32)
    padded[..., :n] = x
    sums = tree(padded.reshape(*x.shape[:-1], -1, columns))
    total = sums[..., 0]
    for t in range(1, sums.shape[-1]):
        total = add(total, sums[..., t])
    return total


def row_absmax(x: F32) -> F32:
    """Absolute maximum over the last axis, at least the floor."""
    return larger(np.abs(settle(x)).max(axis=-1), FLOOR)  # the maximum of numpy hands a NaN on


def column_absmax(x: F32) -> F32:
    """Absolute maximum over the rows, at least the floor."""
    return row_absmax(x.T)


def column_sum(x: F32, start: F32 | None = None) -> F32:
    """Sum over the rows of x [rows, columns] as one instruction does: eight accumulators, then their tree."""
    x = settle(x)
    sums = np.zeros((8, x.shape[1]), np.float32)
    sums[: min(8, len(x))] = x[:8]
    for i in range(8, len(x), 8):
        rows = x[i : i + 8]
        sums[: len(rows)] = add(sums[: len(rows)], rows)
    total = tree(sums.T)
    return total if start is None else add(start, total)
