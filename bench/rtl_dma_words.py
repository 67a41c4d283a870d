"""Random LOAD and STORE words: runs, strides of any sign, padding, formats, at any byte of DRAM."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..ir.arch import Arch
from ..ir.isa import Buffer, DmaFormat, Opcode, Words, word

Bytes = npt.NDArray[np.uint8]
Rng = np.random.Generator


class Dram(Protocol):
    """What the generator asks of memory."""

    @property
    def arch(self) -> Arch: ...

    @property
    def regions(self) -> dict[int, tuple[int, int]]:
        """(first byte, bytes) of each base register."""

    def views(self) -> dict[int, Bytes]:
        """The bytes of each base register."""


def dma_word(opcode: Opcode, **fields: Any) -> Words:
    """One word; what is left out is one run without strides."""
    return word(opcode, **{"n": (1, 1, 1), "base": 1, **fields})


def _strides(rng: Rng, n: list[int], inner: int) -> list[int]:
    """DRAM strides: contiguous ones often, else anything small."""
    out, run = [], inner
    for count in n:
        kind = rng.integers(0, 10)
        out.append(run if kind < 5 else 0 if kind == 5 else int(rng.integers(-400, 400)))
        run = out[-1] * count if out[-1] == run else run
    return out


def _place(rng: Rng, n: list[int], d: list[int], inner: int, size: int) -> int | None:
    """An offset at which the runs fit `size` bytes."""
    spans = [(c - 1) * s for c, s in zip(n, d, strict=True)]
    low, high = sum(min(s, 0) for s in spans), sum(max(s, 0) for s in spans) + inner
    if high - low > size:
        return None
    k = int(rng.integers(0, 8))
    room = size - (high - low)
    return -low + (0 if k == 0 else room if k == 1 else int(rng.integers(0, room + 1)))


def attempt(rng: Rng, m: Dram, opcode: Opcode, int4: bool = True) -> Words | None:
    """A legal word, or None where what was drawn does not fit. INT4 words change DRAM."""
    a, load = m.arch, opcode == Opcode.LOAD
    c = a.cols
    base = int(rng.integers(0 if load else 1, 4))
    size = m.regions[base][1]
    kind = int(rng.integers(0, 20))
    if kind == 0:
        return dma_word(opcode, base=9, buffer=15, inner=0)
    fmt = DmaFormat.RAW
    buffer = rng.choice([Buffer.ACT, Buffer.WGT, Buffer.VBUF, Buffer.PARAM] if load else [0, 3, 4])
    n = [int(x) for x in rng.choice([0, 1, 1, 2, 3, 4, 5], 3, p=[0.02, 0.25, 0.2, 0.2, 0.15, 0.1, 0.08])]
    unit = a.word_bytes[Buffer(int(buffer)).name.lower()]
    shape = int(rng.integers(0, 6))
    inner = int(
        rng.integers(1, 3 * unit)
        if shape < 2
        else unit * rng.integers(1, 5)
        if shape < 4
        else rng.integers(1, 70)
        if shape == 4
        else rng.integers(1, 3000)
    )
    pad = [int(x) for x in rng.integers(0, 3, 4)] if load and rng.random() < 0.4 else [0] * 4
    words = -(-inner // unit)
    cells = [n[0] + pad[0] + pad[1], n[1] + pad[2] + pad[3], n[2]]
    if load and int4 and kind < 4:
        fmt, buffer, pad = DmaFormat.INT4, Buffer.WGT, [0] * 4
        rows = int(rng.choice([1, 2, 127, 128, 129, 200, 256, 300]))
        inner, n = -(-rows // 128) * c + rows * (c // 2), [min(x, 2) for x in n]
        words, cells = rows, n
    elif load and kind < 7:
        fmt, buffer, pad = DmaFormat.TRANSPOSE, Buffer.WGT, [0] * 4
        n[0], inner = int(rng.integers(0, c + 1)), int(rng.integers(1, c + 1))
        words, cells = c, [1, n[1], n[2]]
    elif load and kind < 9:
        fmt = DmaFormat.FILL
    d = _strides(rng, n, inner)
    offset = _place(rng, n, d, inner, size)
    s, extent = [], words
    for count in cells:
        s.append(extent if rng.random() < 0.7 else int(rng.integers(0, 2 * extent + 3)))
        extent = max(extent, s[-1] * max(count, 1))
        if s[-1] > 65535:
            return None
    capacity = a.words[Buffer(int(buffer)).name.lower()]
    top = sum(max(k - 1, 0) * x for k, x in zip(cells, s, strict=True)) + words
    if offset is None or top > capacity:
        return None
    sram = int(rng.choice([0, capacity - top, int(rng.integers(0, capacity - top + 1))]))
    if fmt == DmaFormat.INT4 and 0 not in n:
        _group_integers(rng, m, base, offset, n, d, inner)
    return dma_word(
        opcode,
        base=base,
        buffer=int(buffer),
        format=int(fmt),
        fill=int(rng.integers(-128, 128)),
        offset=offset,
        sram=sram,
        inner=inner,
        n=n,
        dstride=d,
        sstride=s,
        pad=pad,
    )


def _group_integers(rng: Rng, m: Dram, base: int, offset: int, n: list[int], d: list[int], inner: int) -> None:
    """Make the bytes legal that an INT4 word takes for group integers. Nibbles of other runs may become legal too."""
    c = m.arch.cols
    view = m.views()[base]
    for i in np.ndindex(*n):
        at = offset + sum(k * s for k, s in zip(i, d, strict=True))
        for block in range(0, inner, c + 64 * c):
            view[at + block : at + block + c] = rng.integers(-15, 16, c).astype(np.int8).view(np.uint8)
