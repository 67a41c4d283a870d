"""LOAD and STORE: strided copies between DRAM regions and scratchpads, with padding, int4 expansion and corner-turn."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir.container import Base
from ..ir.isa import TABLE_BYTES, TABLE_SLOTS, Buffer, DmaFormat
from ..ir.numerics import W4_GROUP, expand_w4, table_from_image
from .decode import Decoded
from .state import Fault, Region, Tally, Tile

LOADS = frozenset({Buffer.ACT, Buffer.WGT, Buffer.VBUF, Buffer.PARAM, Buffer.TABLE})
STORES = frozenset({Buffer.ACT, Buffer.VBUF, Buffer.PARAM})


def _dram(
    regions: Mapping[int, Region], base: int, offset: int, n: tuple[int, int, int], inner: int, d: tuple[int, int, int]
) -> Region:
    """The DRAM runs as [n3, n2, n1, inner], in place."""
    region = regions.get(base)
    if region is None:
        raise Fault("E412", "base", f"base register {base} is not bound")
    low = high = offset
    for count, stride in zip(n, d, strict=True):
        if stride < 0:
            low += (count - 1) * stride
        else:
            high += (count - 1) * stride
    high += inner
    if 0 not in n and (low < 0 or high > len(region)):
        raise Fault("E412", "offset", f"bytes {low} to {high - 1} of base {base}, which holds {len(region)}")
    if 0 in n:
        return np.empty((n[2], n[1], n[0], inner), np.uint8)
    return np.ndarray((n[2], n[1], n[0], inner), np.uint8, region, offset, (d[2], d[1], d[0], 1))


def _once(n: tuple[int, ...], d: tuple[int, ...], s: tuple[int, ...]) -> tuple[int, int, int]:
    """The runs of a word without repetitions: the same run to the same place again changes nothing.

    A word may ask for it 2^48 times. Bounds and faults are those of all its runs.
    """
    n1, n2, n3 = (c if a or b else min(c, 1) for c, a, b in zip(n, d, s, strict=True))
    return n1, n2, n3


def disjoint(inner: int, n: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether the cells provably do not overlap: each stride spans all that lies inside it."""
    extent = inner
    for stride, count in sorted((abs(s), c) for s, c in zip(strides, n, strict=True) if c > 1):
        if stride < extent:
            return False
        extent += stride * (count - 1)
    return True


def load(tile: Tile, regions: Mapping[int, Region], w: Decoded, tally: Tally) -> None:
    """Execute a LOAD word."""
    (_, _, _, _, _, _, base, buffer, fmt, fill, offset, sram, inner) = w[:13]
    if not inner:
        return
    n, d, s, pad = w[13:16], w[16:19], w[19:22], w[22:26]
    if buffer not in LOADS:
        raise Fault("E410", "buffer", f"LOAD cannot write {_name(buffer)}")
    if fmt not in DmaFormat._value2member_map_:
        raise Fault("E410", "format", f"{fmt} is no format")
    runs = _once(n, (0, 0, 0) if fmt == DmaFormat.FILL else d, s)
    if buffer == Buffer.TABLE:
        _load_table(tile, regions, base, offset, sram, inner, n)
    elif fmt == DmaFormat.TRANSPOSE:  # dimension 1 goes across a word's bytes
        _load_transposed(tile, _dram(regions, base, offset, (n[0], *runs[1:]), inner, d), buffer, sram, s, pad)
    elif fmt == DmaFormat.INT4:
        _load_int4(tile, _dram(regions, base, offset, runs, inner, d), buffer, sram, s, pad)
    else:
        source = None if fmt == DmaFormat.FILL else _dram(regions, base, offset, runs, inner, d)
        _load_raw(tile, source, buffer, fill & 255, sram, inner, runs, s, pad)
    if fmt != DmaFormat.FILL:
        tally.read += inner * n[0] * n[1] * n[2]


def _name(buffer: int) -> str:
    return Buffer(buffer).name if buffer in Buffer._value2member_map_ else f"buffer {buffer}"


def _load_raw(
    tile: Tile,
    source: Region | None,
    buffer: int,
    fill: int,
    sram: int,
    inner: int,
    n: tuple[int, ...],
    s: tuple[int, ...],
    pad: tuple[int, ...],
) -> None:
    """Cell (i3, i2, i1): the run it stands for, its last word's tail and padding cells filled."""
    unit = tile.word_bytes[Buffer(buffer)]
    words = -(-inner // unit)
    before1, after1, before2, after2 = pad
    n1, n2, n3 = n
    cells = (n1 + before1 + after1, n2 + before2 + after2, n3)
    if 0 in cells:
        return
    top = sram + (cells[0] - 1) * s[0] + (cells[1] - 1) * s[1] + (cells[2] - 1) * s[2] + words
    tile.check(buffer, "sram", sram, top)
    width = words * unit
    target: Region = np.ndarray(
        (cells[2], cells[1], cells[0], width),
        np.uint8,
        tile.memory[buffer],
        sram * unit,
        (s[2] * unit, s[1] * unit, s[0] * unit, 1),
    )
    if source is None:
        target[...] = fill
        return
    if not disjoint(words, cells, s):
        _load_in_order(target, source, fill, before1, before2)
        return
    if width != inner:
        target[..., inner:] = fill
    if before1 | after1:
        target[:, :, :before1] = fill
        target[:, :, before1 + n1 :] = fill
    if before2 | after2:
        target[:, :before2] = fill
        target[:, before2 + n2 :] = fill
    target[:, before2 : before2 + n2, before1 : before1 + n1, :inner] = source


def _load_in_order(target: Region, source: Region, fill: int, before1: int, before2: int) -> None:
    """Overlapping cells: later ones win, i1 fastest."""
    _, n2, n1, inner = source.shape
    for i3, i2, i1 in np.ndindex(target.shape[:3]):
        cell = target[i3, i2, i1]
        cell[...] = fill
        if 0 <= i2 - before2 < n2 and 0 <= i1 - before1 < n1:
            cell[:inner] = source[i3, i2 - before2, i1 - before1]


def _weights_only(buffer: int, pad: tuple[int, ...], name: str) -> None:
    if buffer != Buffer.WGT:
        raise Fault("E410", "buffer", f"{name} writes WGT, not {_name(buffer)}")
    if any(pad):
        raise Fault("E410", "pad", f"{name} has no padding cells")


def _load_transposed(
    tile: Tile, source: Region, buffer: int, sram: int, s: tuple[int, ...], pad: tuple[int, ...]
) -> None:
    """Tile (i3, i2): word r, byte c = byte r of run c; the rest of the R words is zero."""
    _weights_only(buffer, pad, "TRANSPOSE")
    n3, n2, n1, inner = source.shape
    if n1 > tile.cols:
        raise Fault("E410", "n", f"TRANSPOSE turns {n1} runs, a tile has {tile.cols} columns")
    if inner > tile.rows:
        raise Fault("E410", "inner", f"TRANSPOSE turns runs of {inner} bytes, a tile has {tile.rows} rows")
    if 0 in (n2, n3):
        return
    c = tile.cols
    tile.check(buffer, "sram", sram, sram + (n2 - 1) * s[1] + (n3 - 1) * s[2] + tile.rows)
    target: Region = np.ndarray(
        (n3, n2, tile.rows, c), np.uint8, tile.memory[buffer], sram * c, (s[2] * c, s[1] * c, c, 1)
    )
    for i3, i2 in np.ndindex(n3, n2):
        target[i3, i2] = 0
        target[i3, i2, :inner, :n1] = source[i3, i2].T


def _load_int4(tile: Tile, source: Region, buffer: int, sram: int, s: tuple[int, ...], pad: tuple[int, ...]) -> None:
    """Each run is blocks of C group integers and up to 128 rows of C nibbles; a row becomes the word q * g."""
    _weights_only(buffer, pad, "INT4")
    if 0 in source.shape:
        return
    n3, n2, n1, inner = source.shape
    c = tile.cols
    block = c + W4_GROUP * (c // 2)
    full, rest = divmod(inner, block)
    short, odd = divmod(rest - c, c // 2) if rest else (0, 0)
    if odd or (rest and short < 1):
        raise Fault("E410", "inner", f"{inner} bytes are not whole int4 rows (blocks of {block} bytes)")
    rows = full * W4_GROUP + short
    tile.check(buffer, "sram", sram, sram + (n1 - 1) * s[0] + (n2 - 1) * s[1] + (n3 - 1) * s[2] + rows)
    words = tile.wgt.reshape(-1, c)
    for i3, i2, i1 in np.ndindex(n3, n2, n1):
        at = sram + i1 * s[0] + i2 * s[1] + i3 * s[2]
        run = source[i3, i2, i1]
        whole = run[: full * block].reshape(full, block)
        g = whole[:, :c].reshape(full, c)
        nibbles = whole[:, c:].reshape(full * W4_GROUP, c // 2)
        if rest:
            g = np.concatenate([g, run[full * block : full * block + c][None]])
            nibbles = np.concatenate([nibbles, run[full * block + c :].reshape(short, c // 2)])
        q = np.empty((rows, c), np.int8)
        q[:, 0::2] = (nibbles << 4).astype(np.uint8).view(np.int8) >> 4
        q[:, 1::2] = nibbles.view(np.int8) >> 4 if nibbles.flags.c_contiguous else nibbles.copy().view(np.int8) >> 4
        try:
            words[at : at + rows] = expand_w4(q, np.ascontiguousarray(g).view(np.int8))
        except ValueError as e:
            raise Fault("E415", "offset", str(e)) from e


def _load_table(
    tile: Tile, regions: Mapping[int, Region], base: int, offset: int, slot: int, inner: int, n: tuple[int, ...]
) -> None:
    if slot >= TABLE_SLOTS:
        raise Fault("E411", "sram", f"table slot {slot}, a tile has {TABLE_SLOTS}")
    if inner != TABLE_BYTES or n != (1, 1, 1):
        raise Fault("E410", "inner", f"a gate table is one run of {TABLE_BYTES} bytes, not {inner} x {n}")
    try:
        tile.tables[slot] = table_from_image(_dram(regions, base, offset, (1, 1, 1), inner, (0, 0, 0)).reshape(-1))
    except ValueError as e:
        raise Fault("E415", "offset", str(e)) from e


def store(tile: Tile, regions: Mapping[int, Region], w: Decoded, tally: Tally) -> None:
    """Execute a STORE word."""
    (_, _, _, _, _, _, base, buffer, fmt, _, offset, sram, inner) = w[:13]
    n, d, s, pad = w[13:16], w[16:19], w[19:22], w[22:26]
    if not inner or 0 in n:
        return
    if buffer not in STORES:
        raise Fault("E410", "buffer", f"STORE cannot read {_name(buffer)}")
    if fmt != DmaFormat.RAW:
        raise Fault("E410", "format", f"STORE knows only format RAW, not {fmt}")
    if any(pad):
        raise Fault("E410", "pad", "STORE has no padding cells")
    if base == Base.CONST:
        raise Fault("E412", "base", "base register 0 (constants) is read only")
    unit = tile.word_bytes[Buffer(buffer)]
    top = sram + (n[0] - 1) * s[0] + (n[1] - 1) * s[1] + (n[2] - 1) * s[2] - (-inner // unit)
    tile.check(buffer, "sram", sram, top)
    runs = _once(n, d, s)
    target = _dram(regions, base, offset, runs, inner, d)
    source: Region = np.ndarray(
        (runs[2], runs[1], runs[0], inner),
        np.uint8,
        tile.memory[buffer],
        sram * unit,
        (s[2] * unit, s[1] * unit, s[0] * unit, 1),
    )
    if disjoint(inner, runs, d):
        target[...] = source
    else:
        for i in np.ndindex(target.shape[:3]):
            target[i] = source[i]
    tally.written += inner * n[0] * n[1] * n[2]
