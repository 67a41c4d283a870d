"""Tile operations to instruction words: each operation's fields plus the addresses of its operands."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from ..errors import DpuError
from ..ir.isa import HEADER, Buffer, Opcode, Words, records, word
from ..ir.tile import AllocOp, BufferType, Instruction, ProgramOp, SectionOp

_BUFFER = {
    "act": Buffer.ACT,
    "wgt": Buffer.WGT,
    "acc": Buffer.ACC,
    "vbuf": Buffer.VBUF,
    "param": Buffer.PARAM,
    "table": Buffer.TABLE,
}

Order = list[tuple[int, int]]


def encode(
    program: ProgramOp, drams: dict[SSAValue, tuple[int, int]], tiles: int, placed: bool = True
) -> tuple[list[Words], Order]:
    """Each tile's words in order, END last, and the global order as (tile, index). Semaphores are not set.

    Without `placed`, on-chip operands are relative to their buffer.

    Raises:
        DpuError: a value does not fit its field.
    """
    rows: dict[Opcode, list[dict[str, Any]]] = {o: [] for o in (Opcode.LOAD, Opcode.MM, Opcode.VEC, Opcode.STORE)}
    places: dict[Opcode, list[tuple[int, int]]] = {o: [] for o in rows}
    counts = [0] * tiles
    order: Order = []
    tile = tag = 0
    for op in program.body.block.ops:
        if isinstance(op, SectionOp):
            tile, tag = op.tile.value.data, op.op.value.data
        elif isinstance(op, Instruction):
            row = _row(op, drams, placed)
            row["tag"] = tag
            rows[op.OPCODE].append(row)
            places[op.OPCODE].append((tile, counts[tile]))
            order.append((tile, counts[tile]))
            counts[tile] += 1
    streams = [np.zeros(n + 1, HEADER) for n in counts]
    for opcode, fields in rows.items():
        try:
            words = records(opcode, fields).view(HEADER)
        except ValueError as e:
            raise DpuError(
                program.sym_name.data,
                str(e),
                why="a tensor or block is larger than an instruction can address",
                hint="use an arch with smaller scratchpads, or split the operation",
                code="E324",
            ) from e
        for one, (t, i) in zip(words, places[opcode], strict=True):
            streams[t][i] = one
    for t, stream in enumerate(streams):
        stream[-1:] = word(Opcode.END)
        order.append((t, len(stream) - 1))
    return streams, order


def _row(op: Instruction, drams: dict[SSAValue, tuple[int, int]], placed: bool) -> dict[str, Any]:
    row: dict[str, Any] = dict(op.fields.data)
    for role, value in zip(op.roles.data, op.operands, strict=True):
        if isinstance(value.type, BufferType):
            alloc = value.owner
            assert isinstance(alloc, AllocOp)
            at = alloc.at.value.data if placed else 0
            if op.OPCODE in (Opcode.LOAD, Opcode.STORE):
                row["buffer"] = int(_BUFFER[value.type.space.data])
                row["sram"] = row.get("sram", 0) + at
            elif role == "table":
                row["func"] = row.get("func", 0) | at << 4
            else:
                row[role] = row.get(role, 0) + at
        else:
            base, offset = drams[value]
            row["base"] = base
            row["offset"] = row.get("offset", 0) + offset
    return row
