"""From a shape and a seed to a random program, its memory timing and its pauses: the same everywhere and always."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from .rtl_programs import Piece, Program, lay_out, piece
from .rtl_shapes import card
from .rtl_spoiled import spoiled

BLOCK = 20
"""Programs that run one after the other on one model: what a program leaves behind is there for the next."""

MODES: tuple[tuple[str, int], ...] = (
    ("ideal", 0),
    ("simple", 40),
    ("hbm2_vu47p", 100),
    ("ideal", 150),
    ("lpddr5x_8533_128", 0),
    ("simple", 220),
    ("ideal", 40),
)
"""Memory, and in how many of 256 cycles each AXI channel pauses; block k has mode k modulo their number."""

GAPS = (0, 0x0924_9249_2492_4000, 0x0E38_E38E_38E3_8000)
"""Addresses between regions, by block: every bit of an address goes up and down but the highest, which the DRAM models
take for a sign."""

CONTENTS = 16  # different contents of DRAM


def drawn(shape: str, seed: int) -> tuple[list[Piece | None], int]:
    """The pieces of program `seed`, and the seed of its memory. 4 to 24 words mostly, one in 100 has 300."""
    rng = _rng(shape, seed)
    kind = int(rng.integers(100))
    count = 300 if kind == 0 else int(rng.integers(40, 100)) if kind < 8 else int(rng.integers(4, 25))
    a = card(shape)
    return [piece(rng, a) for _ in range(count)], seed % CONTENTS


def program(shape: str, seed: int, pieces: Sequence[Piece | None] | None = None) -> Program:
    """Program `seed` of a shape; with `pieces`, these instead of its own. One in 16 has an illegal word."""
    own, memory = drawn(shape, seed)
    found = lay_out(card(shape), own if pieces is None else pieces, memory)
    return spoiled(found, _rng(shape, seed, 1)) if is_spoiled(seed) else found


def is_spoiled(seed: int) -> bool:
    """Whether program `seed` has an illegal word."""
    return seed % 16 == 15


def _rng(shape: str, seed: int, stream: int = 0) -> np.random.Generator:
    return np.random.default_rng([zlib.crc32(shape.encode()), seed, stream])


def mode(seed: int) -> tuple[str, int]:
    """Memory and pauses of program `seed`."""
    return MODES[seed // BLOCK % len(MODES)]


def gap(seed: int) -> int:
    """Addresses between the regions of program `seed`."""
    return GAPS[seed // BLOCK % len(GAPS)]
