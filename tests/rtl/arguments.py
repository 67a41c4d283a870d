"""Float32 arguments that find faults: corners of each operation, made from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

SPECIAL = np.array(
    [
        *(0x00000000, 0x00000001, 0x007FFFFF, 0x00800000, 0x00800001, 0x00FFFFFF, 0x01000000),  # around 2^-126
        *(0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x3FFFFFFF, 0x40000000, 0x4B000000, 0x4B7FFFFF),  # 1, 2, 2^23
        *(0x33000000, 0x33000001, 0x32FFFFFF, 0x337FFFFF, 0x33800000, 0x38800000, 0x387FFFFF),  # least float16
        *(0x477FDFFF, 0x477FE000, 0x477FE001, 0x477FEFFF, 0x477FF000, 0x477FF001, 0x47800000),  # greatest float16
        *(0x42FDFFFF, 0x42FE0000, 0x42FEFFFF, 0x42FF0000, 0x42FF0001, 0x43000000, 0x43008000),  # 127, 127.5, 128
        *(0x467EFC00, 0x467EFDFF, 0x467EFE00, 0x467EFE01, 0x467F0000, 0x46800000),  # 16319, 16319.5
        *(0x42FBFFFF, 0x42FC0000, 0x42FC0001, 0x41200000, 0x41800000, 0x417FFFFF, 0x40FFFFFF),  # exp2, gates
        *(0x7E7FFFFF, 0x7E800000, 0x7E800001, 0x7F000000, 0x7F7FFFFF, 0x7F800000),  # 2^126, the greatest, inf
        *(0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FC00001, 0x7FFFFFFF),  # NaN
        *(0x3F000000, 0x3EFFFFFF, 0x3F000001, 0x3FC00000, 0x40200000, 0x40600000),  # ties of whole numbers
    ],
    np.uint32,
)
SPECIAL = np.concatenate([SPECIAL, SPECIAL | np.uint32(1 << 31)])


def any_bits(rng: np.random.Generator, n: int) -> Any:
    """All patterns alike, with special values strewn in."""
    x = rng.integers(0, 1 << 32, n, dtype=np.uint32)
    at = rng.integers(0, n, n // 16)
    x[at] = rng.choice(SPECIAL, len(at))
    return x.view(np.float32)


def few_ones(rng: np.random.Generator, n: int, low: int = 0, high: int = 255) -> Any:
    """Exponents in [low, high], mantissas with long runs of equal bits: ties, carries, cancellation."""
    a, b = (np.uint32(1) << rng.integers(0, 24, n, dtype=np.uint32) for _ in range(2))
    m = np.where(rng.random(n) < 0.5, a - b, a | b) ^ np.where(rng.random(n) < 0.25, a, 0)
    e = rng.integers(low, high + 1, n, dtype=np.uint32)
    s = rng.integers(0, 2, n, dtype=np.uint32)
    return ((s << np.uint32(31)) | (e << np.uint32(23)) | (m.astype(np.uint32) & np.uint32(0x7FFFFF))).view(np.float32)


def around(rng: np.random.Generator, n: int, low: float, high: float) -> Any:
    """Magnitudes spread evenly over the exponents from `low` to `high`, both signs."""
    x = np.exp2(rng.uniform(np.log2(low), np.log2(high), n)) * rng.choice([-1.0, 1.0], n)
    return x.astype(np.float32)


def special_pairs() -> tuple[Any, Any]:
    """Every special value with every other."""
    a, b = np.meshgrid(SPECIAL, SPECIAL)
    return a.ravel().view(np.float32), b.ravel().view(np.float32)


def sums(rng: np.random.Generator, n: int) -> Iterator[tuple[str, Any, Any]]:
    """Pairs for an addition."""
    a = any_bits(rng, n)
    yield "special", *special_pairs()
    yield "any", a, any_bits(rng, n)
    yield "few ones", few_ones(rng, n, 120, 150), few_ones(rng, n, 120, 150)
    yield "few ones, all exponents", few_ones(rng, n), few_ones(rng, n)
    near = (a.view(np.uint32) ^ rng.integers(0, 1 << 8, n, dtype=np.uint32) ^ np.uint32(1 << 31)).view(np.float32)
    yield "cancellation", a, near
    step = rng.integers(-26, 27, n)
    e = np.clip((a.view(np.uint32) >> 23 & 255).astype(np.int64) + step, 0, 255).astype(np.uint32)
    other = rng.integers(0, 1 << 32, n, dtype=np.uint32) & np.uint32(0x807FFFFF)
    yield "near exponents", a, (other | (e << np.uint32(23))).view(np.float32)
    yield "around 2^-126", few_ones(rng, n, 0, 26), few_ones(rng, n, 0, 26)
    yield "around 2^127", few_ones(rng, n, 250, 255), few_ones(rng, n, 250, 255)


def products(rng: np.random.Generator, n: int) -> Iterator[tuple[str, Any, Any]]:
    """Pairs for a multiplication; many products lie just under 2^-126, where rounding on the subnormal grid counts."""
    yield "special", *special_pairs()
    yield "any", any_bits(rng, n), any_bits(rng, n)
    yield "few ones", few_ones(rng, n, 100, 154), few_ones(rng, n, 100, 154)
    yield "few ones, all exponents", few_ones(rng, n), few_ones(rng, n)
    yield "ties", *_near_ties(rng, n)
    for name, target in (("just under 2^-126", -126.0), ("just over the greatest", 128.0)):
        m = (1 + rng.integers(1, 1 << 23, n) / 2.0**23) * rng.choice([-1.0, 1.0], n)
        e = rng.integers(-60, 60, n) + (60 if target > 0 else -60)
        a = np.ldexp(m, e).astype(np.float32)
        with np.errstate(over="ignore"):
            b = (np.exp2(target) / a.astype(np.float64)).astype(np.float32)
        b = (b.view(np.uint32) + rng.integers(-2, 3, n).astype(np.uint32)).view(np.float32)
        yield name, a, b


def _near_ties(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Mantissas whose product is a tie, or one unit of its 48 bits beside: b = tie / a modulo a power of two."""
    a = rng.integers(1 << 23, 1 << 24, n, dtype=np.uint64) | np.uint64(1)
    inverse = a.copy()
    for _ in range(5):  # Newton modulo 2^64: the correct bits double each time
        inverse *= np.uint64(2) - a * inverse
    half = np.uint64(1) << rng.integers(22, 24, n, dtype=np.uint64)  # guard bit of a product below 2, or from 2
    wanted = half + rng.integers(0, 3, n, dtype=np.uint64) - np.uint64(1)
    b = (inverse * wanted) & np.uint64((1 << 23) - 1) | np.uint64(1 << 23)
    low, fraction = np.uint32(120 << 23), np.uint64(0x7FFFFF)
    return tuple(((m & fraction).astype(np.uint32) | low).view(np.float32) for m in (a, b))


def differences(rng: np.random.Generator, n: int) -> Any:
    """Differences of two int32, ties of their conversion to float32 and neighbours among them."""
    tail = rng.integers(1, 9, n)  # bits below the float's last place
    m = rng.integers(1 << 23, 1 << 24, n) << tail
    near = m + (1 << (tail - 1)) + rng.integers(-1, 2, n)
    wide = rng.integers(-(2**32) + 1, 2**32, n) >> rng.integers(0, 32, n)
    ends = np.array([0, 1, -1, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, -(2**32) + 1, 2**32 - 129, -(2**32) + 384])
    return np.concatenate([ends, wide, near, -near]).astype(np.int64)


def conversions(rng: np.random.Generator, n: int) -> Iterator[tuple[str, Any]]:
    """Arguments of the conversions to float16 and integers."""
    yield "special", SPECIAL.view(np.float32)
    yield "any", any_bits(rng, n)
    yield "float16 range", around(rng, n, 2.0**-27, 2.0**17)
    yield "integers", around(rng, n, 2.0**-3, 2.0**15)
    yield "few ones", few_ones(rng, n, 100, 145)
    halves = rng.integers(-33000, 33000, n) * np.float32(0.5)
    nudged = (halves.astype(np.float32).view(np.uint32) + rng.integers(-1, 2, n).astype(np.uint32)).view(np.float32)
    yield "ties of integers", nudged
    h = rng.integers(0, 1 << 16, n, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    yield "ties of float16", (h + rng.choice([0, 0x1000, -0x1000, 0xFFF, 0x1001], n).astype(np.uint32)).view(np.float32)


def functions(rng: np.random.Generator, n: int) -> Iterator[tuple[str, Any]]:
    """Arguments of the function units."""
    yield "special", SPECIAL.view(np.float32)
    yield "any", any_bits(rng, n)
    yield "exp2", rng.uniform(-130, 130, n).astype(np.float32)
    yield "gates", (rng.standard_normal(n) * 6).astype(np.float32)
    yield "small", around(rng, n, 2.0**-30, 2.0**5)
    yield "few ones", few_ones(rng, n, 90, 140)
    yield "ties of exp2", ((2 * rng.integers(-(1 << 22), 1 << 22, n) + 1) * 2.0**-27).astype(np.float32)
    step = rng.integers(-(1 << 25), 1 << 25, n) * 2.0**-20
    yield "ties of a gate", (step + rng.choice([0.0, 2.0**-21], n)).astype(np.float32)
