"""Move each block's prologue into the main part before it, so that it runs under that part's matrix work.

Sections of one block (all tiles) move together, and only where none of its loads reads what the main part in between
stores. This is also what makes the two streams alternate: one stream's normalisation runs under the other's product.

A prologue's sections are spread over the main part, so that they hold up neither weights nor the epilogues of products
for long. They begin behind its first section: engines take words in order, and a queue full of vector words of
the prologue would keep the weights of that first section from being loaded. Where they read what the main part before
stores, they begin in the middle: until those stores are done their loads, too, would stand before weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ..ir.isa import Opcode
from ..ir.tile import ProgramOp
from ..ir.tile_program import Buf, Dram, Instr, Section, TileProgram, uncollected
from .text_form import rewrite

_WRITTEN = {
    Opcode.LOAD: ("dst",),
    Opcode.MM: ("acc", "rowmax_at"),
    Opcode.VEC: ("d", "red_at"),
    Opcode.STORE: (),
}
"""Operands that an instruction writes on chip."""

Extent = tuple[Dram, int, int]


@dataclass(frozen=True)
class OverlapPrologues(ModulePass):
    """Let each block's prologue run under the previous block's matrix work."""

    name = "overlap-prologues"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in [p for p in op.ops if isinstance(p, ProgramOp)]:
            rewrite(program, overlap)


@dataclass
class Group:
    """Consecutive sections of one block and phase, over all tiles."""

    key: tuple[int, int, int, str]
    sections: list[Section] = field(default_factory=list)
    loads: list[Extent] = field(default_factory=list)
    stores: list[Extent] = field(default_factory=list)
    made: set[Buf] = field(default_factory=set)  # buffers that begin to live here
    reads: set[Buf] = field(default_factory=set)
    writes: set[Buf] = field(default_factory=set)
    full: bool = False  # whether a prologue is in it

    @property
    def is_prologue(self) -> bool:
        return self.key[3] == "prologue"

    def add(self, section: Section) -> None:
        self.sections.append(section)
        for op in section.ops:
            if isinstance(op, Buf):
                self.made.add(op)
                continue
            written = _WRITTEN[op.opcode]
            for role, value in zip(op.roles, op.things, strict=True):
                if isinstance(value, Buf):
                    (self.writes if role in written else self.reads).add(value)
            if op.opcode == Opcode.LOAD or op.opcode == Opcode.STORE:
                touched = extent(op)
                if touched is not None:
                    (self.loads if op.opcode == Opcode.LOAD else self.stores).append(touched)


def extent(op: Instr) -> Extent | None:
    """(tensor, first byte, end byte) that a DMA instruction touches, strides included; None if it touches no DRAM."""
    role = "src" if op.opcode == Opcode.LOAD else "dst"
    value = op.things[op.roles.index(role)] if role in op.roles else None
    if not isinstance(value, Dram):
        return None
    fields = op.fields
    lo = hi = fields.get("offset", 0)
    hi += fields.get("inner", 0)
    for n, stride in zip(fields.get("n", (1, 1, 1)), fields.get("dstride", (0, 0, 0)), strict=True):
        if stride > 0:
            hi += (n - 1) * stride
        elif stride < 0:
            lo += (n - 1) * stride
    return value, lo, hi


def _groups(program: TileProgram) -> Iterator[Group]:
    """One after the other: what a group touches is forgotten with it."""
    group: Group | None = None
    for section in program.sections:
        key = (section.tag, section.stream, section.step, section.phase)
        if group is None or group.key != key:
            if group is not None:
                yield group
            group = Group(key)
        group.add(section)
    if group is not None:
        yield group


def conflict(reads: list[Extent], writes: list[Extent]) -> bool:
    """Whether some bytes are in both."""
    by_tensor: dict[Dram, list[tuple[int, int]]] = {}
    for value, lo, hi in writes:
        by_tensor.setdefault(value, []).append((lo, hi))
    return any(lo < z and a < hi for value, lo, hi in reads for a, z in by_tensor.get(value, ()))


def _movable(prologue: Group, main: Group) -> bool:
    """The prologue needs nothing that the main part makes, on chip or in DRAM, and disturbs nothing there."""
    used = prologue.reads | prologue.writes
    if not used.isdisjoint(main.made):
        return False
    if not used.isdisjoint(main.writes) or not prologue.writes.isdisjoint(main.reads):
        return False
    touched = prologue.loads + prologue.stores
    return not conflict(touched, main.stores) and not conflict(main.loads, prologue.stores)


AT = 0.5
"""The part of a main part's sections behind which a prologue begins that reads what the main part before stores."""


def _by_tile(sections: list[Section]) -> dict[int, list[Section]]:
    found: dict[int, list[Section]] = {}
    for section in sections:
        found.setdefault(section.tile, []).append(section)
    return found


def _woven(prologue: Group, main: Group, at: float) -> list[Section]:
    """A prologue's sections spread over those of a main part from a part `at` of each tile's on."""
    found: list[Section] = []
    parts = _by_tile(prologue.sections)
    mains = _by_tile(main.sections)
    for tile in {**mains, **parts}:
        mine = mains.get(tile, [])
        first, count = begin(len(mine), at), len(parts.get(tile, ()))
        before: dict[int, list[Section]] = {}
        for n, section in enumerate(parts.get(tile, ())):
            before.setdefault(first + n * (len(mine) - first) // count, []).append(section)
        for n, section in enumerate(mine):
            found += [*before.pop(n, ()), section]
        found += before.pop(len(mine), [])
    return found


def begin(sections: int, at: float) -> int:
    """The section of a main part before which a prologue begins: of several at least the second one."""
    return max(min(1, sections - 1), round(at * sections)) if sections else 0


@uncollected()
def overlap(program: TileProgram) -> None:
    """Reorder the sections of one program in place."""
    order: list[Section] = []
    stored: list[Extent] = []  # by the main part before `last`
    last: Group | None = None  # its sections are not in `order` yet
    for group in _groups(program):
        if last is not None and group.is_prologue and not last.is_prologue and not last.full and _movable(group, last):
            last.sections = _woven(group, last, AT if conflict(group.loads, stored) else 0.0)
            last.full = True
        else:
            if last is not None:
                order += last.sections
                stored = stored if last.is_prologue else last.stores
            last = group
    program.sections = order + (last.sections if last is not None else [])
