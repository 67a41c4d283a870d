"""Tile programs to instruction words: each instruction's fields plus the addresses of its operands.

Instructions with the same fields and operands are taken together, a column at a time: a full-size model has a million.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DpuError
from ..ir.isa import DTYPE, HEADER, Buffer, Opcode, Words, records, word
from ..ir.tile_program import Buf, Dram, Instr, Section, TileProgram

_BUFFER = {
    "act": Buffer.ACT,
    "wgt": Buffer.WGT,
    "acc": Buffer.ACC,
    "vbuf": Buffer.VBUF,
    "param": Buffer.PARAM,
    "table": Buffer.TABLE,
}

Ints = npt.NDArray[np.int64]
Places = Mapping[Dram, tuple[int, int]]


@dataclass(frozen=True)
class Operands:
    """One operand of many words: its role, the words as (tile, index), and the object that each means.

    Objects are counted: buffers in the order of `Encoded.buffers`, then the program's tensors.
    """

    opcode: Opcode
    role: str
    tiles: Ints
    indices: Ints
    objects: Ints


@dataclass
class Encoded:
    """Each tile's words in order, END last, and the global order as (tile, index). Semaphores are not set.

    In `relative` the addresses count from each operand's own buffer or tensor, in `placed` from its scratchpad or base
    register. `buffers` are all on-chip buffers with their tiles, `sections` of each section its tile, its first word
    and how many it has.
    """

    relative: list[Words]
    placed: list[Words]
    order: Ints  # [n, 2]
    operands: list[Operands]
    buffers: list[tuple[int, Buf]]
    sections: dict[Section, tuple[int, int, int]]


@dataclass
class _Group:
    """Instructions of one opcode with the same fields and operands, and their places in the global order."""

    ops: list[Instr] = field(default_factory=list)
    at: list[int] = field(default_factory=list)


_Column = tuple[str, Any, bool]  # field, values, whether they are added to what the instruction says


def encode(program: TileProgram, drams: Places, tiles: int) -> Encoded:
    """The words of a program whose tensors lie at `drams` (base register, byte offset).

    Raises:
        DpuError: a value does not fit its field.
    """
    groups: dict[tuple[Opcode, tuple[str, ...], tuple[str, ...]], _Group] = {}
    counts = [0] * tiles
    buffers: list[tuple[int, Buf]] = []
    sections: dict[Section, tuple[int, int, int]] = {}
    number = 0
    for section in program.sections:
        tile, before = section.tile, number
        for op in section.ops:
            if isinstance(op, Buf):
                buffers.append((tile, op))
                continue
            key = (op.opcode, tuple(op.fields), tuple(op.operands))
            group = groups.get(key)
            if group is None:
                group = groups[key] = _Group()
            group.ops.append(op)
            group.at.append(number)
            number += 1
        sections[section] = (tile, counts[tile], number - before)
        counts[tile] += number - before
    order = section_order(list(sections.values()))
    tag = np.repeat([s.tag for s in sections] or [0], [n for _, _, n in sections.values()] or [0])
    relative, placed = ([np.zeros(n + 1, HEADER) for n in counts] for _ in range(2))
    object_of: dict[Buf | Dram, int] = {b: i for i, (_, b) in enumerate(buffers)}
    object_of |= {d: len(buffers) + i for i, d in enumerate(program.drams)}
    operands = []
    for (opcode, names, roles), group in groups.items():
        at = np.array(group.at, np.int64)
        found = _words(opcode, names, roles, group.ops, tag[at], drams)
        if found is None:
            raise _too_large(program, drams)
        home, index = order[at].T
        for t in range(tiles):
            mine = home == t
            for streams, made in zip((relative, placed), found, strict=True):
                streams[t][index[mine]] = made[mine].view(HEADER)
        for role in roles:
            things = np.array([object_of[op.operands[role]] for op in group.ops], np.int64)
            operands.append(Operands(opcode, role, home, index, things))
    for t in range(tiles):
        relative[t][-1:] = placed[t][-1:] = word(Opcode.END)
    order = np.concatenate([order, np.array([(t, counts[t]) for t in range(tiles)], np.int64).reshape(-1, 2)])
    return Encoded(relative, placed, order, operands, buffers, sections)


def section_order(places: Sequence[tuple[int, int, int]]) -> Ints:
    """The words of sections (tile, first word, number of words), one behind the other, as rows (tile, index)."""
    tile, first, count = np.array(places, np.int64).reshape(-1, 3).T
    within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    return np.stack([np.repeat(tile, count), np.repeat(first, count) + within], axis=1)


def _words(
    opcode: Opcode, names: tuple[str, ...], roles: tuple[str, ...], ops: list[Instr], tags: Ints, drams: Places
) -> tuple[Words, Words] | None:
    """The words of a group without and with the places of their operands; None if a value does not fit its field."""
    dtype = DTYPE[opcode]
    near: Words = np.zeros(len(ops), dtype)
    near["opcode"] = opcode
    values = zip(*(op.fields.values() for op in ops), strict=True)
    own: list[tuple[str, Any]] = [("tag", tags), *zip(names, values, strict=False)]
    places = [column for role in roles for column in _places(opcode, role, ops, drams)]
    own += [(name, column) for name, column, added in places if not added]
    for name, column in own:
        if name in (dtype.names or ()) and name not in ("opcode", "reserved"):
            array = _array(column)
            if not _fits(array, dtype[name].base):
                return None
            near[name] = array
    far = near.copy()
    for name, column, added in places:
        if added:
            array = far[name].astype(np.int64) + np.array(column, np.int64)
            if not _fits(array, dtype[name].base):
                return None
            far[name] = array
    return near, far


def _array(column: Sequence[Any] | Ints) -> npt.NDArray[Any]:
    """A column of numbers or of tuples of numbers."""
    if isinstance(column, np.ndarray) or not isinstance(column[0], tuple):
        return np.array(column)
    return np.array(list(chain.from_iterable(column))).reshape(len(column), -1)


def _fits(values: npt.NDArray[Any], base: np.dtype[Any]) -> bool:
    if base.kind not in "iu" or not values.size:
        return True
    info = np.iinfo(base)
    return bool(values.min() >= info.min and values.max() <= info.max)


def _places(opcode: Opcode, role: str, ops: Sequence[Instr], drams: Places) -> Iterator[_Column]:
    """What the places of one operand set in, or add to, the fields of the words."""
    operands: list[Any] = [op.operands[role] for op in ops]
    if isinstance(operands[0], Dram):
        found = [drams[d] for d in operands]
        yield "base", [base for base, _ in found], False
        yield "offset", [offset for _, offset in found], True
        return
    at = [b.at for b in operands]
    if opcode == Opcode.LOAD or opcode == Opcode.STORE:
        yield "buffer", [int(_BUFFER[b.space]) for b in operands], False
        yield "sram", at, True
    elif role == "table":
        yield "func", [a << 4 for a in at], True
    else:
        yield role, at, True


def _too_large(program: TileProgram, drams: Places) -> DpuError:
    """The error of the first instruction with a value that does not fit its field."""
    for section, op in program.instructions():
        row: dict[str, Any] = {**op.fields, "tag": section.tag}
        try:
            for role in op.operands:
                row |= {name: column[0] for name, column, added in _places(op.opcode, role, [op], drams) if not added}
            records(op.opcode, [row])
            for role in op.operands:
                for name, column, added in _places(op.opcode, role, [op], drams):
                    if added:
                        row[name] = row.get(name, 0) + column[0]
            records(op.opcode, [row])
        except ValueError as e:
            return DpuError(
                section.source,
                str(e),
                why="a tensor or block is larger than an instruction can address",
                hint="use an arch with a larger array, such as dpu_f2, or split the operation",
                code="E324",
            )
    raise AssertionError("every word fits")
