"""Give every DRAM tensor its base register and offset.

Constants, state and host tensors lie one behind the other. Work tensors live from the first to the last operation that
touches them, in program order, and share one region: each takes the first gap that is free for its whole life.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir.container import Base
from ..ir.tile_program import Dram, Instr, TileProgram

ALIGN = 256  # bytes; a burst never straddles two tensors' first beat

_BASE = {"const": Base.CONST, "work": Base.WORK, "state": Base.STATE, "io": Base.IO}


def dram_bytes(dram: Dram) -> int:
    """Bytes of a DRAM tensor, row pitch included, rounded up to the alignment."""
    b, t, _ = dram.shape
    return -(-b * t * dram.row_bytes // ALIGN) * ALIGN


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

    def plan(self, program: TileProgram) -> dict[Dram, tuple[int, int]]:
        """(base register, byte offset) of every DRAM tensor of one entry."""
        placed: dict[Dram, tuple[int, int]] = {}
        work: list[Dram] = []
        for op in program.drams:
            base = _BASE[op.kind]
            if base == Base.WORK:
                work.append(op)
                continue
            name = op.name
            key = (int(base), name if base == Base.STATE else f"{program.name}/{name}")
            if base in (Base.STATE, Base.IO) and key in self.named:
                placed[op] = (int(base), self.named[key])
                continue
            placed[op] = (int(base), self.base_bytes[base])
            self.named[key] = self.base_bytes[base]
            self.base_bytes[base] += dram_bytes(op)
        lives = _lifetimes(program, work)
        top = _place(list(lives.values()))
        for dram, life in lives.items():
            placed[dram] = (int(Base.WORK), life.offset)
        self.lifetimes[program.name] = list(lives.values())
        self.base_bytes[Base.WORK] = max(self.base_bytes[Base.WORK], top)
        return placed


def _lifetimes(program: TileProgram, work: list[Dram]) -> dict[Dram, Lifetime]:
    """A tensor lives through every graph operation that touches it, to the end.

    Tiles run an operation at the same time, whatever the order of its words. If one tile's scratch took the place of
    another's that is dead in that order, the tiles would wait for each other, one behind the other.
    """
    lives = {d: Lifetime(d.name, -1, 0, dram_bytes(d)) for d in work}
    spans: dict[int, tuple[int, int]] = {}  # of each operation, by tag
    uses: dict[Dram, set[int]] = {d: set() for d in work}
    number = 0
    for section in program.sections:
        start = number
        for op in section.ops:
            if isinstance(op, Instr):
                number += 1
                for value in op.things:
                    if isinstance(value, Dram) and value in uses:
                        uses[value].add(section.tag)
        first, last = spans.get(section.tag, (start, start))
        spans[section.tag] = (min(first, start), max(last, number - 1))
    for dram, tags in uses.items():
        lives[dram].first = min((spans[t][0] for t in tags), default=0)
        lives[dram].last = max((spans[t][1] for t in tags), default=0)
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
