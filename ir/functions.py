"""The vector unit's functions: integer piecewise quadratics with committed tables, bit for bit.

Every function is float32 -> float32, takes subnormals as zero, flushes subnormal results to zero and returns the one
NaN 0x7FC00000. Inside, the argument becomes a table index `i` and a remainder `r` of `rb` bits, and

    y = c0[i] + ((((c2[i] * (r >> d)) >> s2) + c1[i]) * r >> s1)        d = max(0, rb - 17), >> is floor
    s2 = rb - d + f2 - f1,   s1 = rb + f1 - of

`of`, `f1`, `f2` are the fraction bits of c0, c1, c2. The integers are in `numerics_tables.json`; they were fitted once
and are never derived at run time. docs/numerics.md has the special values and the errors.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

QNAN_BITS: Final = 0x7FC00000
INF_BITS: Final = 0x7F800000
TABLE_FILE: Final = Path(__file__).with_name("numerics_tables.json")

IMAGE_ENTRIES: Final = 256
IMAGE_HEADER: Final = struct.Struct("<4sHHBBBBI32s12xI")  # 64 bytes, see table_image
IMAGE_BYTES: Final = IMAGE_HEADER.size + 16 * IMAGE_ENTRIES
_MAGIC: Final = b"DPUG"
_VERSION: Final = 1
_BLOCK: Final = 1 << 13  # elements worked on at a time, so that temporaries stay in the cache


@dataclass(frozen=True, eq=False)
class Table:
    """Coefficients of one piecewise quadratic; `crc` is over c0, c1, c2 as little-endian int64."""

    name: str
    c0: I64  # [entries]
    c1: I64
    c2: I64
    of: int
    f1: int
    f2: int
    crc: int

    def __post_init__(self) -> None:
        found = coefficients_crc(self.c0, self.c1, self.c2)
        if found != self.crc:
            raise ValueError(f"table {self.name!r}: checksum {found:08x}, expected {self.crc:08x}")

    def shifts(self, rb: int) -> tuple[int, int, int]:
        """`d`, `s2`, `s1` of the evaluator for a remainder of `rb` bits."""
        d = max(0, rb - 17)
        return d, rb - d + self.f2 - self.f1, rb + self.f1 - self.of

    def quadratic(self, i: I64, r: I64, rb: int) -> I64:
        """The evaluator, as defined: index `i`, remainder `r` of `rb` bits, result with `of` fraction bits."""
        d, s2, s1 = self.shifts(rb)
        t = ((self.c2[i] * (r >> d)) >> s2) + self.c1[i]
        return self.c0[i] + ((t * r) >> s1)

    def narrow(self, rb: int) -> Callable[[I32, I32], I32]:
        """`quadratic` in 32-bit integers, about five times as fast; falls back where the products do not fit.

        The product t * r is split at k = rb // 2 bits: with r = h 2^k + l,
        floor(t r / 2^s1) = floor((t h + floor(t l / 2^k)) / 2^(s1 - k)), exact because t h is an integer.
        """
        d, s2, s1 = self.shifts(rb)
        k = rb // 2
        t_max = int(np.max(np.abs(self.c1) + ((np.abs(self.c2) << (rb - d)) >> s2))) + 1
        first = int(np.abs(self.c2).max()) << (rb - d)
        second = t_max << max(k, rb - k)  # bounds t l, and t h + (t l >> k) = floor(t r / 2^k)
        unsigned = int(min(self.c1.min(), self.c2.min())) >= 0
        limit = 1 << (32 if unsigned else 31)
        if first >= 1 << 31 or second >= limit or s1 < k:
            return lambda i, r: self.quadratic(i.astype(np.int64), r.astype(np.int64), rb).astype(np.int32)
        dtype: Any = np.uint32 if unsigned else np.int32
        c0, c1, c2 = self.c0.astype(np.int32), self.c1.astype(dtype), self.c2.astype(dtype)
        mask = dtype((1 << k) - 1)

        def evaluate(i: I32, r: I32) -> I32:
            index = i.astype(np.intp)
            rest = r.view(dtype)
            t = c2.take(index, mode="wrap")
            t *= rest >> dtype(d) if d else rest
            t >>= dtype(s2)
            t += c1.take(index, mode="wrap")
            low = t * (rest & mask)
            low >>= dtype(k)
            t *= rest >> dtype(k)
            t += low
            t >>= dtype(s1 - k)
            y: I32 = t.view(np.int32)
            y += c0.take(index, mode="wrap")
            return y

        return evaluate


@dataclass(frozen=True, eq=False)
class GateTable:
    """A gate T on |x| < 2^lg, with T(-x) = 1 - T(x): what the loadable table RAM holds.

    |x| is rounded to 20 fraction bits, T has `of` = 24. `crc` is over the coefficients (see `Table`).
    """

    name: str
    lg: int
    c0: I64 = field(repr=False)  # [entries], entries a power of two, at most 256
    c1: I64 = field(repr=False)
    c2: I64 = field(repr=False)
    f1: int
    f2: int
    of: int
    crc: int

    def __post_init__(self) -> None:
        n = len(self.c0)
        if not (2 <= n <= IMAGE_ENTRIES and n & (n - 1) == 0 and len(self.c1) == len(self.c2) == n):
            raise ValueError(f"gate table {self.name!r}: {n} entries, need a power of two from 2 to {IMAGE_ENTRIES}")
        if self.of != 24 or not 0 <= self.f2 <= self.f1 <= 24:
            found = f"of {self.of}, f1 {self.f1}, f2 {self.f2}"
            raise ValueError(f"gate table {self.name!r}: {found}; need f2 <= f1 <= of = 24")
        d, s2, s1 = self.table.shifts(self.rb)
        if not (0 <= self.lg <= 4 and self.rb >= 8 and s1 >= 0 and s2 >= 0 and d <= 17):
            raise ValueError(f"gate table {self.name!r}: range 2^{self.lg} does not fit {n} entries")
        for c, bits in ((self.c0, 28), (self.c1, 22), (self.c2, 16)):
            if int(np.abs(c).max()) >= 1 << (bits - 1):
                raise ValueError(f"gate table {self.name!r}: a coefficient does not fit {bits} signed bits")

    @cached_property
    def table(self) -> Table:
        """The coefficients as a plain table; checks the checksum."""
        return Table(self.name, self.c0, self.c1, self.c2, self.of, self.f1, self.f2, self.crc)

    @property
    def rb(self) -> int:
        """Bits of the remainder: 20 + lg bits of |x|, less the index."""
        return 20 + self.lg - (len(self.c0).bit_length() - 1)

    @cached_property
    def evaluate(self) -> Callable[[I32, I32], I32]:
        """`Table.narrow` of this gate."""
        return self.table.narrow(self.rb)


def coefficients_crc(c0: I64, c1: I64, c2: I64) -> int:
    """CRC32 of the three coefficient vectors as little-endian int64, one after the other."""
    return zlib.crc32(np.stack([c0, c1, c2]).astype("<i8").tobytes())


@cache
def _file() -> dict[str, Any]:
    tables: dict[str, Any] = json.loads(TABLE_FILE.read_text(encoding="utf-8"))["tables"]
    return tables


def _coefficients(name: str) -> dict[str, Any]:
    entry = _file()[name]
    values: dict[str, Any] = {c: np.array(entry[c], np.int64) for c in ("c0", "c1", "c2")}
    values |= {k: entry[k] for k in ("of", "f1", "f2")}
    return {"name": name, "crc": int(entry["crc32"], 16), **values}


@cache
def function_table(name: str) -> Table:
    """The committed table of `exp2`, `recip` or `rsqrt`, checksum verified on first use."""
    return Table(**_coefficients(name))


class _Gates(Mapping[str, GateTable]):
    """The committed gate tables, each read and verified on first use."""

    _names = ("sigmoid", "phi", "tanh_gelu", "quick_gelu")

    def __init__(self) -> None:
        self._loaded: dict[str, GateTable] = {}

    def __getitem__(self, name: str) -> GateTable:
        if name not in self._loaded:
            if name not in self._names:
                raise KeyError(name)
            self._loaded[name] = GateTable(lg=_file()[name]["lg"], **_coefficients(name))
        return self._loaded[name]

    def __iter__(self) -> Any:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


GATES: Final[Mapping[str, GateTable]] = _Gates()
"""`sigmoid` (SiLU), `phi` (GELU with erf), `tanh_gelu` (GELU with tanh), `quick_gelu`."""


def _round4(y: I64) -> I64:
    """y / 16, half to even: 28 fraction bits become 24 (exp2: 27 become 23)."""
    q = y >> 4
    rest = y & 15
    up: npt.NDArray[np.bool_] = (rest > 8) | ((rest == 8) & (q & 1 == 1))
    return np.asarray(q + up)


def _fields(x: F32) -> tuple[npt.NDArray[np.uint32], I64, I64]:
    """Sign (in place, bit 31), biased exponent, mantissa (0 for zero and subnormals)."""
    u = x.view(np.uint32)
    e = ((u >> 23) & 255).astype(np.int64)
    m = np.where(e == 0, 0, (u & 0x7FFFFF).astype(np.int64))
    return u & np.uint32(0x80000000), e, m


@cache
def _exp2_evaluate() -> Callable[[I32, I32], I32]:
    return function_table("exp2").narrow(20)


def _exp2_block(x: F32) -> F32:
    """exp2 of a block without NaN: X = rne(x 2^26); n = X >> 26; f = X mod 2^26; 2^n times the table at f."""
    inside = np.clip(x, np.float32(-126), np.float32(128 - 2.0**-17))
    whole = np.trunc(inside)
    inside -= whole  # exact; whole * 2^26 is even, so rounding the fraction rounds X
    inside *= np.float32(2.0**26)
    fraction: I32 = np.rint(inside, out=inside).astype(np.int32)
    n = whole.astype(np.int32)
    n += fraction >> np.int32(26)
    fraction &= np.int32((1 << 26) - 1)
    y = _exp2_evaluate()(fraction >> np.int32(20), fraction & np.int32((1 << 20) - 1))
    odd = (y >> np.int32(4)) & np.int32(1)
    y += odd
    y += np.int32(7)
    y >>= np.int32(4)  # half to even: add 7 plus the bit that will be the last
    n += np.int32(126)  # y is in [2^23, 2^24]: its top bits complete the exponent, a carry moves it on
    n <<= np.int32(23)
    y += n
    z = y.view(np.float32)
    if float(np.minimum.reduce(x)) < -126:
        z[x < -126] = 0
    if float(np.maximum.reduce(x)) >= 128:
        z[x >= 128] = np.inf
    return z


def _blocks(x: F32, block: Callable[[F32], F32]) -> F32:
    """Apply `block` to pieces that stay in the cache; NaN is taken out before and put back after."""
    x = np.asarray(x, np.float32)
    flat = np.ascontiguousarray(x).reshape(-1)
    if flat.size == 0:
        return x.copy()
    nan = np.isnan(flat) if np.isnan(np.maximum.reduce(flat)) else None
    if nan is not None:
        flat = np.where(nan, np.float32(0), flat)
    if flat.size <= _BLOCK:
        y = block(flat)
    else:
        y = np.empty_like(flat)
        for at in range(0, flat.size, _BLOCK):
            y[at : at + _BLOCK] = block(flat[at : at + _BLOCK])
    if nan is not None:
        y[nan] = np.uint32(QNAN_BITS).view(np.float32)
    return y.reshape(x.shape)


def exp2(x: F32) -> F32:
    """2^x, any shape. At most 0.83 ulp, monotone, never above 1 for x <= 0; 0 below -126, inf from 128."""
    return _blocks(x, _exp2_block)


def recip(x: F32) -> F32:
    """1/x, any shape. At most 0.87 ulp; recip(+-0) = +-inf, recip(+-inf) = +-0."""
    x = np.asarray(x, np.float32)
    sign, e, m = _fields(x)
    y = _round4(function_table("recip").quadratic(m >> 16, m & 0xFFFF, 16))
    y = np.where(m == 0, 1 << 24, y)  # 24 fraction bits, in (0.5, 1]
    bits = ((252 - e) << 23) + y
    bits = np.where(bits < 1 << 23, 0, bits)
    bits = np.where(e == 0, INF_BITS, np.where(e == 255, 0, bits))
    return _finish(bits.astype(np.uint32) | sign, np.isnan(x))


def rsqrt(x: F32) -> F32:
    """1/sqrt(x), any shape. At most 1.22 ulp; rsqrt(+-0) = inf, rsqrt(inf) = 0, rsqrt(x < 0) = NaN."""
    x = np.asarray(x, np.float32)
    sign, e, m = _fields(x)
    odd = (e - 127) & 1
    y = _round4(function_table("rsqrt").quadratic((m >> 17) + 64 * odd, m & 0x1FFFF, 17))
    y = np.where((m == 0) & (odd == 0), 1 << 24, y)
    bits = ((125 - ((e - 127 - odd) >> 1)) << 23) + y
    bits = np.where(e == 0, INF_BITS, np.where(e == 255, 0, bits))
    return _finish(bits.astype(np.uint32), np.isnan(x) | ((sign != 0) & (e > 0)))


def _finish(bits: npt.NDArray[np.uint32], nan: npt.NDArray[np.bool_]) -> F32:
    y: F32 = np.asarray(np.where(nan, np.uint32(QNAN_BITS), bits)).view(np.float32)
    return y


def gate(x: F32, table: GateTable) -> F32:
    """T(x), any shape: v = min(rne(|x| 2^20), 2^(20+lg) - 1), T clamped to [0, 1], 1 - T for a set sign bit.

    The result is an integer of at most 2^24, times 2^-24: exact in float32. T(-0) is 1 - T(+0).
    """
    rb, evaluate = table.rb, table.evaluate
    top = np.float32(2.0**table.lg)
    last = np.float32(2.0 ** (20 + table.lg) - 1)

    def block(x: F32) -> F32:
        a = np.clip(x, -top, top)
        np.abs(a, out=a)
        a *= np.float32(2.0**20)
        np.rint(a, out=a)
        v: I32 = np.clip(a, np.float32(0), last, out=a).astype(np.int32)
        y = evaluate(v >> np.int32(rb), v & np.int32((1 << rb) - 1))
        np.clip(y, np.int32(0), np.int32(1 << 24), out=y)
        negative = x.view(np.int32) >> np.int32(31)  # 0 or -1
        y ^= negative
        y -= negative
        y += negative & np.int32(1 << 24)
        t = y.astype(np.float32)
        t *= np.float32(2.0**-24)
        return t

    return _blocks(x, block)


def table_image(table: GateTable) -> npt.NDArray[np.uint8]:
    """The image that LOAD writes into table RAM: a 64-byte header and 256 entries of 16 bytes, little endian.

    Header: magic "DPUG", version u16, entries u16, lg u8, of u8, f1 u8, f2 u8, CRC of the coefficients u32, name
    (32 bytes ASCII, zero padded), 12 zero bytes, CRC of all other bytes of the image u32.
    Entry: c0, c1, c2 int32, four zero bytes; entries past the last are zero.
    """
    body = np.zeros((IMAGE_ENTRIES, 4), "<i4")
    body[: len(table.c0), :3] = np.stack([table.c0, table.c1, table.c2], axis=1)
    name = table.name.encode("ascii")
    if len(name) > 32:
        raise ValueError(f"gate table name {table.name!r} is longer than 32 bytes")
    numbers = (len(table.c0), table.lg, table.of, table.f1, table.f2, table.crc)
    head = IMAGE_HEADER.pack(_MAGIC, _VERSION, *numbers, name, 0)
    crc = zlib.crc32(head[:60] + body.tobytes())
    return np.frombuffer(head[:60] + struct.pack("<I", crc) + body.tobytes(), np.uint8).copy()


def table_from_image(image: bytes | npt.NDArray[np.uint8]) -> GateTable:
    """The table in an image made by `table_image`.

    Raises:
        ValueError: wrong size, magic or version, or either checksum does not match.
    """
    data = bytes(image) if isinstance(image, (bytes, bytearray, memoryview)) else image.tobytes()
    if len(data) != IMAGE_BYTES:
        raise ValueError(f"gate table image of {len(data)} bytes, expected {IMAGE_BYTES}")
    magic, version, entries, lg, of, f1, f2, crc, name, image_crc = IMAGE_HEADER.unpack_from(data)
    if magic != _MAGIC or version != _VERSION:
        raise ValueError(f"gate table image begins with {magic!r} {version}, not {_MAGIC!r} {_VERSION}")
    found = zlib.crc32(data[:60] + data[64:])
    if found != image_crc:
        raise ValueError(f"gate table image: checksum {found:08x}, expected {image_crc:08x}")
    body = np.frombuffer(data, "<i4", offset=IMAGE_HEADER.size).reshape(IMAGE_ENTRIES, 4).astype(np.int64)
    c0, c1, c2 = (body[:entries, k].copy() for k in range(3))
    return GateTable(name.rstrip(b"\0").decode("ascii"), lg, c0, c1, c2, f1, f2, of, crc)
