"""Between tile programs as plain objects and as text IR (`tile.program`): the same content, either way."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from .isa import Opcode
from .tile import AllocOp, DramOp, Instruction, LoadOp, MmOp, ProgramOp, SectionOp, StoreOp, VecOp
from .tile_program import Buf, Dram, Instr, Section, TileProgram

_OPERATION: dict[Opcode, type[Instruction]] = {
    Opcode.LOAD: LoadOp,
    Opcode.MM: MmOp,
    Opcode.VEC: VecOp,
    Opcode.STORE: StoreOp,
}


def to_text(program: TileProgram, locations: Mapping[int, LocationAttr] | None = None) -> ProgramOp:
    """The text form of a program; `locations` gives the operations of a tag their ONNX nodes."""
    values: dict[Dram | Buf, SSAValue] = {}
    ops: list[Operation] = []
    for d in program.drams:
        dram = DramOp(d.name, d.dtype, d.shape, d.kind, d.row_bytes)
        values[d] = dram.tensor
        ops.append(dram)
    for s in program.sections:
        first = len(ops)
        ops.append(SectionOp(s.tile, s.tag, s.stream, s.step, s.phase, s.source))
        for one in s.ops:
            if isinstance(one, Buf):
                alloc = AllocOp(one.space, one.words, one.at)
                values[one] = alloc.buffer
                ops.append(alloc)
            else:
                operands = {role: values[v] for role, v in one.operands.items()}
                ops.append(_OPERATION[one.opcode](operands, one.fields))
        location = (locations or {}).get(s.tag)
        if location is not None:
            for op in ops[first:]:
                if not isinstance(op, AllocOp):
                    op.location = location
    return ProgramOp(program.name, Region(Block(ops)))


def from_text(op: ProgramOp) -> TileProgram:
    """The program that a `tile.program` says. Instructions before the first section are those of tile 0, tag 0."""
    program = TileProgram(op.sym_name.data)
    objects: dict[SSAValue, Dram | Buf] = {}
    section: Section | None = None
    for one in op.body.block.ops:
        if isinstance(one, DramOp):
            dram = Dram.of(
                one.sym_name.data, one.dtype.data, one.shape.get_values(), one.kind.data, one.row_bytes.value.data
            )
            objects[one.tensor] = dram
            program.drams.append(dram)
            continue
        if isinstance(one, SectionOp):
            numbers = (one.tile.value.data, one.op.value.data, one.stream.value.data, one.step.value.data)
            section = Section(*numbers, one.phase.data, one.source.data, [])
            program.sections.append(section)
            continue
        if section is None:
            section = Section(0, 0, 0, 0, "main", "", [])
            program.sections.append(section)
        if isinstance(one, AllocOp):
            buffer = Buf(one.space, one.words.value.data, one.at.value.data)
            objects[one.buffer] = buffer
            section.ops.append(buffer)
        else:
            assert isinstance(one, Instruction)
            operands = {r: objects[v] for r, v in zip(one.roles.data, one.operands, strict=True)}
            section.ops.append(Instr(one.OPCODE, operands, dict(one.fields.data)))
    return program


def locations_of(op: ProgramOp) -> dict[int, LocationAttr]:
    """The location of each tag's operations, where they have one."""
    found: dict[int, LocationAttr] = {}
    for one in op.body.block.ops:
        if isinstance(one, SectionOp):
            found.setdefault(one.op.value.data, one.location)
    return found
