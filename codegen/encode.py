"""Tile programs to instruction words: each instruction's fields plus the addresses of its operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import DpuError
from ..ir.isa import DTYPE, HEADER, Buffer, Opcode, Words, records, word
from ..ir.tile_program import Dram, Instr, TileProgram

_BUFFER = {
    "act": Buffer.ACT,
    "wgt": Buffer.WGT,
    "acc": Buffer.ACC,
    "vbuf": Buffer.VBUF,
    "param": Buffer.PARAM,
    "table": Buffer.TABLE,
}

Order = list[tuple[int, int]]


@dataclass
class Encoded:
    """Each tile's words in order, END last, and the global order as (tile, index). Semaphores are not set.

    In `relative` the addresses count from each operand's own buffer or tensor, in `placed` from its scratchpad or base
    register.
    """

    relative: list[Words]
    placed: list[Words]
    order: Order


@dataclass
class _Kind:
    """The words of one opcode: fields, what each operand's place adds to which field, and where they go."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    adds: dict[str, tuple[list[int], list[int]]] = field(default_factory=dict)  # field -> rows, places
    tiles: list[int] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)

    def add(self, name: str, at: int) -> None:
        """The operand of the row that comes next lies `at` further."""
        rows, places = self.adds.setdefault(name, ([], []))
        rows.append(len(self.rows))
        places.append(at)


def encode(program: TileProgram, drams: Mapping[Dram, tuple[int, int]], tiles: int) -> Encoded:
    """The words of a program whose tensors lie at `drams` (base register, byte offset).

    Raises:
        DpuError: a value does not fit its field.
    """
    kinds = {o: _Kind() for o in (Opcode.LOAD, Opcode.MM, Opcode.VEC, Opcode.STORE)}
    counts = [0] * tiles
    order: Order = []
    sources: dict[int, str] = {}
    for section, op in program.instructions():
        tile, kind = section.tile, kinds[op.opcode]
        sources[section.tag] = section.source
        row = _row(op, drams, kind)
        row["tag"] = section.tag
        kind.rows.append(row)
        kind.tiles.append(tile)
        kind.indices.append(counts[tile])
        order.append((tile, counts[tile]))
        counts[tile] += 1
    relative, placed = ([np.zeros(n + 1, HEADER) for n in counts] for _ in range(2))
    for opcode, kind in kinds.items():
        try:
            near = records(opcode, kind.rows)
        except ValueError:
            raise _too_large(opcode, kind.rows, sources) from None
        far = _moved(opcode, kind, near, sources)
        home, index = np.array(kind.tiles, np.int64), np.array(kind.indices, np.int64)
        for t in range(tiles):
            mine = home == t
            relative[t][index[mine]] = near[mine].view(HEADER)
            placed[t][index[mine]] = far[mine].view(HEADER)
    for t in range(tiles):
        relative[t][-1:] = placed[t][-1:] = word(Opcode.END)
        order.append((t, counts[t]))
    return Encoded(relative, placed, order)


def _moved(opcode: Opcode, kind: _Kind, near: Words, sources: dict[int, str]) -> Words:
    """The words with the places of their operands added."""
    far = near.copy()
    for name, (rows, places) in kind.adds.items():
        at = np.array(rows, np.int64)
        value = near[name][at].astype(np.int64) + np.array(places, np.int64)
        if int(value.max()) > np.iinfo(DTYPE[opcode][name].base).max:
            row = {**kind.rows[rows[int(np.argmax(value))]], name: int(value.max())}
            raise _too_large(opcode, [row], sources)
        far[name][at] = value
    return far


def _row(op: Instr, drams: Mapping[Dram, tuple[int, int]], kind: _Kind) -> dict[str, Any]:
    row = dict(op.fields)
    for role, value in op.operands.items():
        if isinstance(value, Dram):
            row["base"], offset = drams[value]
            kind.add("offset", offset)
        elif op.opcode == Opcode.LOAD or op.opcode == Opcode.STORE:
            row["buffer"] = int(_BUFFER[value.space])
            kind.add("sram", value.at)
        elif role == "table":
            kind.add("func", value.at << 4)
        else:
            kind.add(role, value.at)
    return row


def _too_large(opcode: Opcode, rows: list[dict[str, Any]], sources: dict[int, str]) -> DpuError:
    """The error of the first row with a value that does not fit its field."""
    for row in rows:
        try:
            records(opcode, [row])
        except ValueError as e:
            return DpuError(
                sources[row["tag"]],
                str(e),
                why="a tensor or block is larger than an instruction can address",
                hint="use an arch with a larger array, such as dpu_f2, or split the operation",
                code="E324",
            )
    raise AssertionError("every row fits")
