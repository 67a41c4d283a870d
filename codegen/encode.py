"""Tile programs to instruction words: each instruction's fields plus the addresses of its operands.

Instructions with the same fields and operands are taken together, a column at a time: a full-size model has a million.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
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
    """One operand of many words of a tile: its role, the words by index, and the object that each means.

    Objects are counted: buffers in the order of `Encoded.buffers`, then the program's tensors.
    """

    opcode: Opcode
    role: str
    indices: npt.NDArray[np.int32]
    objects: npt.NDArray[np.int32]


@dataclass
class Encoded:
    """Each tile's words in order, END last, and the global order as (tile, index). Semaphores are not set.

    In `relative` the addresses count from each operand's own buffer or tensor, in `placed` from its scratchpad or base
    register. `operands` are those of each tile, `buffers` all on-chip buffers (tile, space, first word, words).
    """

    relative: list[Words]
    placed: list[Words]
    order: npt.NDArray[np.int32]  # [n, 2]
    operands: list[list[Operands]]
    buffers: npt.NDArray[np.int32]  # [n, 4]
    written: npt.NDArray[np.int32]  # [n, 2], the order of `written` sections, without END


@dataclass
class _Group:
    """Instructions of one opcode with the same fields and operands, and their places in the global order."""

    ops: list[Instr] = field(default_factory=list)
    at: list[int] = field(default_factory=list)


_CHUNK = 1 << 16  # instructions that are encoded together


def encode(
    program: TileProgram, drams: Places, tiles: int, written: Sequence[Section] = (), take: bool = False
) -> Encoded:
    """The words of a program whose tensors lie at `drams` (base register, byte offset).

    `written` are its sections in another order, that of the lowering. With `take` the sections are empty afterwards, so
    that memory never holds all objects and all words.

    Raises:
        DpuError: a value does not fit its field.
    """
    encoder = _Encoder(program, drams, tiles, written)
    groups: dict[tuple[Opcode, int, int], _Group] = {}  # names and roles are objects of their own, see `Instr`
    number = 0
    for section in program.sections:
        for op in section.ops:
            if isinstance(op, Buf):
                continue
            key = (op.opcode, id(op.names), id(op.roles))
            group = groups.get(key)
            if group is None:
                group = groups[key] = _Group()
            group.ops.append(op)
            group.at.append(number)
            number += 1
            if len(group.ops) == _CHUNK:
                encoder.add(group)
                group.ops, group.at = [], []
        if take:
            section.ops = []
    for group in groups.values():
        if group.ops:
            encoder.add(group)
    return encoder.encoded


class _Encoder:
    """Puts words into the streams of an `Encoded`, a group of instructions at a time."""

    def __init__(self, program: TileProgram, drams: Places, tiles: int, written: Sequence[Section]) -> None:
        counts = [0] * tiles
        buffers: list[int] = []
        self.object_of: dict[Buf | Dram, int] = {}
        sections: dict[Section, tuple[int, int, int]] = {}
        for section in program.sections:
            tile, named = section.tile, len(self.object_of)
            for op in section.ops:
                if isinstance(op, Buf):
                    buffers += (tile, int(_BUFFER[op.space]), op.at, op.words)
                    self.object_of[op] = len(self.object_of)
            words = len(section.ops) - (len(self.object_of) - named)
            sections[section] = (tile, counts[tile], words)
            counts[tile] += words
        self.sections, self.ends = list(sections), np.cumsum([n for _, _, n in sections.values()])
        self.tag = np.repeat([s.tag for s in sections] or [0], [n for _, _, n in sections.values()] or [0])
        self.order = section_order(list(sections.values()))
        self.buffers = np.array(buffers, np.int32).reshape(-1, 4)
        places = [drams[d] for d in program.drams]
        self.drams = np.array(places, np.int64).reshape(-1, 2)
        self.object_of |= {d: len(self.buffers) + i for i, d in enumerate(program.drams)}
        relative, placed = ([np.zeros(n + 1, HEADER) for n in counts] for _ in range(2))
        for t in range(tiles):
            relative[t][-1:] = placed[t][-1:] = word(Opcode.END)
        ends = np.array([(t, counts[t]) for t in range(tiles)], np.int32).reshape(-1, 2)
        order = np.concatenate([self.order, ends])
        first = section_order([sections[s] for s in written])
        self.encoded = Encoded(relative, placed, order, [[] for _ in range(tiles)], self.buffers, first)

    def add(self, group: _Group) -> None:
        """Encode the instructions of a group.

        Raises:
            DpuError: a value does not fit its field.
        """
        opcode, roles = group.ops[0].opcode, group.ops[0].roles
        at = np.array(group.at, np.int64)
        things = [np.array([self.object_of[op.things[k]] for op in group.ops], np.int32) for k in range(len(roles))]
        found = self._words(group.ops, self.tag[at], things)
        if found is None:
            raise self._too_large(group)
        home, index = self.order[at].T
        by_tile = np.argsort(home, kind="stable")
        ends = np.searchsorted(home[by_tile], np.arange(len(self.encoded.relative) + 1))
        for t, (a, z) in enumerate(pairwise(ends.tolist())):
            mine = by_tile[a:z]
            if a == z:
                continue
            for streams, made in zip((self.encoded.relative, self.encoded.placed), found, strict=True):
                streams[t][index[mine]] = made[mine].view(HEADER)
            operands = self.encoded.operands[t]
            operands += [
                Operands(opcode, r, index[mine], objects[mine]) for r, objects in zip(roles, things, strict=True)
            ]

    def _words(self, ops: list[Instr], tags: Ints, things: list[npt.NDArray[np.int32]]) -> tuple[Words, Words] | None:
        """The words of a group without and with the places of their operands; None if a value does not fit."""
        opcode = ops[0].opcode
        dtype = DTYPE[opcode]
        distinct = {id(op.values): op.values for op in ops}
        number = dict(zip(distinct, range(len(distinct)), strict=True))
        some: Words = np.zeros(len(distinct), dtype)
        some["opcode"] = opcode
        for name, column in zip(ops[0].names, zip(*distinct.values(), strict=True), strict=False):
            if not _set(some, name, _array(column)):
                return None
        near = some[np.array([number[id(op.values)] for op in ops])]
        places = [
            c for role, objects in zip(ops[0].roles, things, strict=True) for c in self._places(opcode, role, objects)
        ]
        if not all(_set(near, name, values) for name, values, added in [("tag", tags, False), *places] if not added):
            return None
        far = near.copy()
        if not all(_set(far, name, far[name].astype(np.int64) + values) for name, values, added in places if added):
            return None
        return near, far

    def _places(self, opcode: Opcode, role: str, objects: npt.NDArray[np.int32]) -> list[tuple[str, Ints, bool]]:
        """What the places of one operand set in, or add to, the fields of words: field, values, whether they add."""
        if objects[0] >= len(self.buffers):
            found = self.drams[objects - len(self.buffers)]
            return [("base", found[:, 0], False), ("offset", found[:, 1], True)]
        found = self.buffers[objects].astype(np.int64)
        if opcode == Opcode.LOAD or opcode == Opcode.STORE:
            return [("buffer", found[:, 1], False), ("sram", found[:, 2], True)]
        if role == "table":
            return [("func", found[:, 2] << 4, True)]
        return [(role, found[:, 2], True)]

    def _too_large(self, group: _Group) -> DpuError:
        """The error of the first instruction of a group with a value that does not fit its field."""
        for op, number in zip(group.ops, group.at, strict=True):
            section = self.sections[int(np.searchsorted(self.ends, number, side="right"))]
            row: dict[str, Any] = {**op.fields, "tag": section.tag}
            places = [
                place
                for role, thing in zip(op.roles, op.things, strict=True)
                for place in self._places(op.opcode, role, np.array([self.object_of[thing]], np.int32))
            ]
            try:
                row |= {name: int(values[0]) for name, values, added in places if not added}
                records(op.opcode, [row])
                for name, values, added in places:
                    if added:
                        row[name] = row.get(name, 0) + int(values[0])
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


def section_order(places: Sequence[tuple[int, int, int]]) -> npt.NDArray[np.int32]:
    """The words of sections (tile, first word, number of words), one behind the other, as rows (tile, index)."""
    tile, first, count = np.array(places, np.int32).reshape(-1, 3).T
    within = np.arange(int(count.sum()), dtype=np.int32) - np.repeat(np.cumsum(count, dtype=np.int32) - count, count)
    return np.stack([np.repeat(tile, count), np.repeat(first, count) + within], axis=1)


def _set(words: Words, name: str, values: npt.NDArray[Any]) -> bool:
    """Set a field; False if a value does not fit. A field that the words do not have is left out."""
    if name not in (words.dtype.names or ()) or name in ("opcode", "reserved"):
        return True
    base = words.dtype[name].base
    if base.kind in "iu" and values.size:
        info = np.iinfo(base)
        if values.min() < info.min or values.max() > info.max:
            return False
    words[name] = values
    return True


def _array(column: Sequence[Any]) -> npt.NDArray[Any]:
    """A column of numbers or of tuples of numbers."""
    if not isinstance(column[0], tuple):
        return np.array(column)
    return np.array(list(chain.from_iterable(column))).reshape(len(column), -1)
