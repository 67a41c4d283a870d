"""Instruction words as tuples of plain Python numbers, decoded in blocks: about a microsecond a word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from ..errors import DpuError
from ..ir.isa import DTYPE, ENGINE_OF, HEADER, WORD_BYTES, Engine, Opcode, Words

BLOCK = 4096  # words decoded together

Decoded = tuple[Any, ...]
"""Fields in the order of the ISA tables; vector fields are flattened (`n` gives three numbers), `reserved` left out."""


def _flat(dtype: np.dtype[np.void]) -> np.dtype[np.void]:
    names: list[str] = []
    formats: list[np.dtype[Any]] = []
    offsets: list[int] = []
    assert dtype.fields is not None
    for name in dtype.names or ():
        if name == "reserved":
            continue
        kind, offset = dtype.fields[name][0], dtype.fields[name][1]
        for i in range(int(np.prod(kind.shape, dtype=np.int64))):
            names.append(f"{name}{i}" if kind.shape else name)
            formats.append(kind.base)
            offsets.append(offset + i * kind.base.itemsize)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": WORD_BYTES})


_FLAT = {int(opcode): _flat(dtype) for opcode, dtype in DTYPE.items()}
_HEADER = _flat(HEADER)


def decode(words: Words) -> list[Decoded]:
    """Every word as a tuple. An illegal opcode gives its header fields only."""
    words = np.ascontiguousarray(words)
    out: list[Any] = [None] * len(words)
    opcodes = words["opcode"]
    for opcode in np.unique(opcodes).tolist():
        at = np.flatnonzero(opcodes == opcode)
        for i, w in zip(at.tolist(), words[at].view(_FLAT.get(opcode, _HEADER)).tolist(), strict=True):
            out[i] = w
    return out


def stream(words: Words) -> Iterator[Decoded]:
    """The words of a stream in order, decoded `BLOCK` at a time."""
    for at in range(0, len(words), BLOCK):
        yield from decode(words[at : at + BLOCK])


@cache
def bits(mask: int) -> tuple[int, ...]:
    """Positions of the set bits."""
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)


@cache
def wait_ids(mask: int, consumer: int) -> tuple[int, ...]:
    """Semaphore numbers ((producer * 5 + consumer) * 4 + k) that a `wait` field names."""
    return tuple((b // 4 * 5 + consumer) * 4 + b % 4 for b in bits(mask))


@cache
def signal_ids(mask: int, producer: int) -> tuple[int, ...]:
    """Semaphore numbers that a `signal` field names."""
    return tuple((producer * 5 + b // 4) * 4 + b % 4 for b in bits(mask))


SEMAPHORES = 5 * 5 * 4


def semaphore_name(number: int) -> str:
    """`LOAD->MXU[2]`."""
    pair, k = divmod(number, 4)
    return f"{Engine(pair // 5).name}->{Engine(pair % 5).name}[{k}]"


def opcode_name(opcode: int) -> str:
    return Opcode(opcode).name if opcode in DTYPE else f"opcode {opcode}"


def where(entry: str, tile: int, index: int, word: Words) -> str:
    """`entry 'unet' tile 0 word 17 (LOAD, tag 3)`."""
    return f"entry '{entry}' tile {tile} word {index} ({opcode_name(int(word['opcode']))}, tag {int(word['tag'])})"


def check_stream(words: Words, entry: str, tile: int) -> int:
    """Length of the stream up to and with its END.

    Raises:
        DpuError: an illegal opcode, or no END.
    """
    opcodes = words["opcode"]
    ends = np.flatnonzero(opcodes == Opcode.END)
    length = int(ends[0]) + 1 if len(ends) else len(words)
    bad = np.flatnonzero(~np.isin(opcodes[:length], [int(o) for o in ENGINE_OF]))
    if len(bad):
        i = int(bad[0])
        raise DpuError(
            where(entry, tile, i, words[i]),
            f"field 'opcode': {int(opcodes[i])} is no instruction",
            hint="legal are " + ", ".join(f"{o.name} {int(o)}" for o in Opcode),
            code="E410",
        )
    if not len(ends):
        raise DpuError(
            f"entry '{entry}' tile {tile}",
            f"the stream of {len(words)} words has no END",
            why="CTRL would fetch past the program",
            code="E410",
        )
    return length


def deadlock_error(entry: str, waiting: Sequence[tuple[int, int, Words, str]]) -> DpuError:
    """The error for tiles that wait for ever: (tile, word index, word, what it waits for) of each."""
    lines = [f"{where(entry, t, i, w)} waits for {what}" for t, i, w, what in waiting]
    return DpuError(
        f"entry '{entry}'",
        "deadlock: " + "; ".join(lines),
        why="no tile can advance, so the tokens never come",
        code="E414",
    )
