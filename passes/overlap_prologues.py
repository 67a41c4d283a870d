"""Move each block's prologue ahead of the main part before it, so that it runs under that part's matrix work.

Sections of one block (all tiles) move together, and only where none of its loads reads what the main part in between
stores. This is also what makes the two streams alternate: one stream's normalisation runs under the other's product.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ..ir.isa import Opcode
from ..ir.tile import BufferType, Instruction, LoadOp, ProgramOp, StoreOp, section_groups

_WRITTEN = {
    Opcode.LOAD: ("dst",),
    Opcode.MM: ("acc", "rowmax_at"),
    Opcode.VEC: ("d", "red_at"),
    Opcode.STORE: (),
}
"""Operands that an instruction writes on chip."""

Extent = tuple[SSAValue, int, int]


@dataclass(frozen=True)
class OverlapPrologues(ModulePass):
    """Let each block's prologue run under the previous block's matrix work."""

    name = "overlap-prologues"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in op.ops:
            if isinstance(program, ProgramOp):
                overlap(program)


@dataclass
class _Group:
    """Consecutive sections of one block and phase, over all tiles."""

    key: tuple[int, int, int, str]
    ops: list[Operation]
    loads: list[Extent]
    stores: list[Extent]
    reads: set[SSAValue]  # on-chip buffers
    writes: set[SSAValue]

    @property
    def is_prologue(self) -> bool:
        return self.key[3] == "prologue"


def extent(op: LoadOp | StoreOp) -> Extent | None:
    """(tensor, first byte, end byte) that a DMA operation touches, strides included; None if it touches no DRAM."""
    role = "src" if isinstance(op, LoadOp) else "dst"
    if role not in op.roles.data:
        return None
    value = op.operands[op.roles.data.index(role)]
    lo = hi = op.fields.lookup("offset")
    hi += op.fields.lookup("inner")
    strides = op.fields.lookup("dstride", (0, 0, 0))
    for n, stride in zip(op.fields.lookup("n", (1, 1, 1)), strides, strict=True):
        hi += max(0, (n - 1) * stride)
        lo += min(0, (n - 1) * stride)
    return value, lo, hi


def _groups(program: ProgramOp) -> tuple[list[Operation], list[_Group]]:
    head: list[Operation] = []
    groups: list[_Group] = []
    for section, ops in section_groups(program):
        if section is None:
            head = ops
            continue
        key = (section.op.value.data, section.stream.value.data, section.step.value.data, section.phase.data)
        if not groups or groups[-1].key != key:
            groups.append(_Group(key, [], [], [], set(), set()))
        group = groups[-1]
        group.ops += [section, *ops]
        for op in ops:
            if isinstance(op, Instruction):
                for role, value in zip(op.roles.data, op.operands, strict=True):
                    if isinstance(value.type, BufferType):
                        (group.writes if role in _WRITTEN[op.OPCODE] else group.reads).add(value)
            if isinstance(op, LoadOp | StoreOp) and (touched := extent(op)) is not None:
                (group.loads if isinstance(op, LoadOp) else group.stores).append(touched)
    return head, groups


def _conflict(reads: list[Extent], writes: list[Extent]) -> bool:
    by_tensor: dict[SSAValue, list[tuple[int, int]]] = {}
    for value, lo, hi in writes:
        by_tensor.setdefault(value, []).append((lo, hi))
    return any(lo < z and a < hi for value, lo, hi in reads for a, z in by_tensor.get(value, ()))


def _movable(prologue: _Group, main: _Group) -> bool:
    """The prologue needs nothing that the main part makes, on chip or in DRAM, and disturbs nothing there."""
    made = set(main.ops)
    if any(v.owner in made for op in prologue.ops for v in op.operands):
        return False
    used = prologue.reads | prologue.writes
    if not used.isdisjoint(main.writes) or not prologue.writes.isdisjoint(main.reads):
        return False
    touched = prologue.loads + prologue.stores
    return not _conflict(touched, main.stores) and not _conflict(main.loads, prologue.stores)


def overlap(program: ProgramOp) -> None:
    """Reorder the sections of one program in place."""
    _, groups = _groups(program)
    order: list[_Group] = []
    for group in groups:
        if group.is_prologue and order and not order[-1].is_prologue and _movable(group, order[-1]):
            order.insert(len(order) - 1, group)
        else:
            order.append(group)
    block = program.body.block
    for group in order:
        for op in group.ops:
            op.detach()
    for group in order:
        block.add_ops(group.ops)
