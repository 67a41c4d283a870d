"""Bytes of scratchpads and DRAM regions as lines of text, for people who stopped a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ..ir.container import Base
from ..ir.isa import Buffer
from ..simulator.machine import Machine

TYPES: dict[str, np.dtype[np.generic]] = {
    "f16": np.dtype("<f2"),
    "f32": np.dtype("<f4"),
    "i8": np.dtype("i1"),
    "i32": np.dtype("<i4"),
    "u8": np.dtype("u1"),
}
_OWN = {Buffer.ACT: "i8", Buffer.WGT: "i8", Buffer.ACC: "i32", Buffer.VBUF: "f16", Buffer.PARAM: "f32"}
_MOST = 256  # lines of one command
_ROW = 32  # bytes of DRAM a line


def buffer_lines(machine: Machine, tile: int, arguments: Sequence[str]) -> Iterator[str]:
    """`NAME lo n [type]`: words of a scratchpad, one a line.

    Raises:
        ValueError: the arguments name nothing that exists.
    """
    name, low, count, kind = _arguments(arguments, "buffers NAME lo n [type]")
    names = {b.name.lower(): b for b in _OWN}
    if name.lower() not in names:
        raise ValueError(f"no buffer '{name}'; one of {', '.join(names)}")
    buffer = names[name.lower()]
    state = machine.tiles[tile]
    size, unit = state.words[buffer], state.word_bytes[buffer]
    if low + count > size:
        raise ValueError(f"words {low} to {low + count - 1} of {buffer.name}, which holds {size}")
    rows = state.memory[buffer].reshape(size, unit)[low : low + min(count, _MOST)]
    for i, row in enumerate(rows, low):
        yield f"{buffer.name}[{i}]  {_values(row, kind or _OWN[buffer])}"
    yield from _rest(count)


def dram_lines(machine: Machine, arguments: Sequence[str]) -> Iterator[str]:
    """`BASE OFF n [type]`: n bytes of a DRAM region.

    Raises:
        ValueError: the arguments name nothing that exists.
    """
    name, low, count, kind = _arguments(arguments, "dram BASE OFF n [type]")
    bases = {b.name.lower(): int(b) for b in Base}
    base = int(name) if name.isdecimal() else bases.get(name.lower(), -1)
    if base not in machine.regions:
        raise ValueError(f"no base '{name}'; one of {', '.join(bases)} or a number")
    region = machine.regions[base]
    if low + count > len(region):
        raise ValueError(f"bytes {low} to {low + count - 1} of base {base}, which holds {len(region)}")
    lines = -(-count // _ROW)
    for at in range(low, low + min(lines, _MOST) * _ROW, _ROW):
        yield f"{name}+{at}  {_values(region[at : min(at + _ROW, low + count)], kind or 'u8')}"
    yield from _rest(lines)


def _arguments(arguments: Sequence[str], usage: str) -> tuple[str, int, int, str]:
    if len(arguments) not in (3, 4):
        raise ValueError(f"write {usage}")
    name, low, count = arguments[0], int(arguments[1], 0), int(arguments[2], 0)
    kind = arguments[3] if len(arguments) == 4 else ""
    if low < 0 or count < 1:
        raise ValueError(f"{low} and {count} are no place and number")
    if kind and kind not in TYPES:
        raise ValueError(f"no type '{kind}'; one of {', '.join(TYPES)}")
    return name, low, count, kind


def _values(raw: npt.NDArray[np.uint8], kind: str) -> str:
    dtype = TYPES[kind]
    whole = raw[: len(raw) // dtype.itemsize * dtype.itemsize]
    values = np.ascontiguousarray(whole).view(dtype).tolist()
    if kind == "u8":
        return " ".join(f"{v:02x}" for v in values)
    return " ".join(f"{v:.6g}" if dtype.kind == "f" else str(v) for v in values)


def _rest(lines: int) -> Iterator[str]:
    if lines > _MOST:
        yield f"and {lines - _MOST} more lines"
