"""Buffers on an UltraScale+ part: every bank (`dpu_ram`, one read and one write port) in block RAM or UltraRAM.

The rule. A bank in UltraRAM takes ceil(words / 4096) x ceil(width / 72) sites, in block RAM the fewest halves of a
RAMB36 that one shape of them gives. A bank that fills at least three quarters of its UltraRAMs' bits goes there, one
that would fill less than a quarter goes to block RAM, and each of the others in turn to the kind of which less is used
then, as a share of what the region has.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import NamedTuple

from .cells import Sites

URAM_WORDS, URAM_BITS = 4096, 72
BRAM_SHAPES = ((512, 36), (1024, 18), (2048, 9), (4096, 4), (8192, 2), (16384, 1))
"""Words and bits of half a RAMB36 with one read and one write port (UG573)."""

_FULL, _POOR = 0.75, 0.25


class Macro(NamedTuple):
    """`number` banks of words x bits."""

    words: int
    bits: int
    number: int


def urams(words: int, bits: int) -> int:
    """UltraRAMs of a bank."""
    return ceil(words / URAM_WORDS) * ceil(bits / URAM_BITS)


def bram_halves(words: int, bits: int) -> int:
    """Halves of RAMB36 of a bank."""
    return min(ceil(words / w) * ceil(bits / b) for w, b in BRAM_SHAPES)


def place(macros: Iterable[Macro], bram: int, uram: int, used: Sites | None = None) -> Sites:
    """What the macros take in a region that has `bram` RAMB36 and `uram` UltraRAMs, of which `used` are taken."""
    start = used or Sites()
    halves, ultra = start.bram_halves, start.uram
    undecided: list[tuple[int, int]] = []
    for m in macros:
        h, u = bram_halves(m.words, m.bits), urams(m.words, m.bits)
        fill = m.words * m.bits / (u * URAM_WORDS * URAM_BITS)
        if fill >= _FULL:
            ultra += m.number * u
        elif fill < _POOR:
            halves += m.number * h
        else:
            undecided += [(h, u)] * m.number
    for h, u in sorted(undecided, reverse=True):
        if (halves + h) / 2 / bram <= (ultra + u) / uram:
            halves += h
        else:
            ultra += u
    return Sites(bram_halves=halves - start.bram_halves, uram=ultra - start.uram)
