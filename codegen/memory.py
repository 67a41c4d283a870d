"""Give every DRAM tensor its base register and offset.

Constants, state and host tensors lie one behind the other. Work tensors live from the first to the last operation that
touches them, in program order, and share one region: each takes the first gap that is free for its whole life.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from ..ir.container import Base
from ..ir.tile import DramOp, ProgramOp

ALIGN = 256  # bytes; a burst never straddles two tensors' first beat

_BASE = {"const": Base.CONST, "work": Base.WORK, "state": Base.STATE, "io": Base.IO}


def dram_bytes(dram: DramOp) -> int:
    """Bytes of a DRAM tensor, row pitch included, rounded up to the alignment."""
    b, t, _ = (int(x) for x in dram.shape.get_values())
    return -(-b * t * dram.row_bytes.value.data // ALIGN) * ALIGN


@dataclass
class Lifetime:
    """A work tensor's life, in operation numbers, and where it was put."""

    name: str
    first: int
    last: int
    size: int
    offset: int = 0


@dataclass
class MemoryPlan:
    """Where everything is. `base_bytes` grows as entries are planned one after the other."""

    base_bytes: dict[int, int] = field(default_factory=lambda: {int(b): 0 for b in Base})
    named: dict[tuple[int, str], int] = field(default_factory=dict)  # state and io tensors, state shared by name
    lifetimes: dict[str, list[Lifetime]] = field(default_factory=dict)

    def plan(self, program: ProgramOp) -> dict[SSAValue, tuple[int, int]]:
        """(base register, byte offset) of every DRAM tensor of one entry."""
        placed: dict[SSAValue, tuple[int, int]] = {}
        work: list[DramOp] = []
        for op in program.body.block.ops:
            if not isinstance(op, DramOp):
                continue
            base = _BASE[op.kind.data]
            if base == Base.WORK:
                work.append(op)
                continue
            name = op.sym_name.data
            key = (int(base), name if base == Base.STATE else f"{program.sym_name.data}/{name}")
            if base in (Base.STATE, Base.IO) and key in self.named:
                placed[op.tensor] = (int(base), self.named[key])
                continue
            placed[op.tensor] = (int(base), self.base_bytes[base])
            self.named[key] = self.base_bytes[base]
            self.base_bytes[base] += dram_bytes(op)
        lives = _lifetimes(program, work)
        top = _place(list(lives.values()))
        for dram, life in lives.items():
            placed[dram.tensor] = (int(Base.WORK), life.offset)
        self.lifetimes[program.sym_name.data] = list(lives.values())
        self.base_bytes[Base.WORK] = max(self.base_bytes[Base.WORK], top)
        return placed


def _lifetimes(program: ProgramOp, work: list[DramOp]) -> dict[DramOp, Lifetime]:
    owners: dict[SSAValue, DramOp] = {d.tensor: d for d in work}
    lives: dict[DramOp, Lifetime] = {}
    for number, op in enumerate(program.body.block.ops):
        for value in op.operands:
            dram = owners.get(value)
            if dram is None:
                continue
            if dram not in lives:
                lives[dram] = Lifetime(dram.sym_name.data, number, number, dram_bytes(dram))
            lives[dram].last = number
    for dram in work:
        if dram not in lives:
            lives[dram] = Lifetime(dram.sym_name.data, 0, 0, dram_bytes(dram))
    return lives


def _place(lives: list[Lifetime]) -> int:
    """Largest first, each into the lowest offset free during its life; returns the region's size."""
    placed: list[Lifetime] = []
    top = 0
    for life in sorted(lives, key=lambda x: (-x.size, x.first, x.name)):
        at = 0
        for other in sorted((o for o in placed if _alive_together(o, life)), key=lambda o: o.offset):
            if at + life.size <= other.offset:
                break
            at = max(at, other.offset + other.size)
        life.offset = at
        placed.append(life)
        top = max(top, at + life.size)
    return top


def _alive_together(a: Lifetime, b: Lifetime) -> bool:
    return a.first <= b.last and b.first <= a.last
