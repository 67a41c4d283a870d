"""Give every on-chip buffer its address.

A buffer lives from where it is named to its last use in program order. Each scratchpad is a ring: the next buffer goes
behind the last one, so that a new block seldom waits for the one before it (this is the double buffering). Where the
ring is blocked by something long-lived, the first gap that fits is taken.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ..errors import DpuError, ScratchpadFull
from ..ir.arch import Arch, load_arch
from ..ir.isa import TABLE_SLOTS
from ..ir.tile import ProgramOp
from ..ir.tile_program import Buf, TileProgram, uncollected
from .text_form import rewrite


@dataclass(frozen=True)
class PlanScratchpad(ModulePass):
    """Give every on-chip buffer an address, by lifetime."""

    name = "plan-scratchpad"

    arch: str = "dpu_tiny"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        arch = load_arch(self.arch)
        for program in [p for p in op.ops if isinstance(p, ProgramOp)]:
            rewrite(program, lambda p: plan(p, arch))


@dataclass
class _Ring:
    """One scratchpad of one tile: live intervals, sorted, and where the last buffer ended."""

    words: int
    banks: int = 1
    live: list[tuple[int, int]] = field(default_factory=list)
    cursor: int = 0

    def place(self, size: int) -> int | None:
        """An address for `size` words: the first gap from the cursor on, then from the start."""
        gaps = []
        end = 0
        for lo, hi in self.live:
            if lo > end:
                gaps.append((end, lo))
            end = max(end, hi)
        gaps.append((end, self.words))
        for lo, hi in gaps:
            at = max(lo, self.cursor)
            if at + size <= hi:
                return self._take(at, size)
        for lo, hi in gaps:
            if lo + size <= hi:
                return self._take(lo, size)
        return None

    def _take(self, at: int, size: int) -> int:
        insort(self.live, (at, at + size))
        # Behind the last buffer; where several banks can work side by side, at the start of the next bank, so that
        # what one engine fills is not in the bank that another reads.
        bank = self.words // self.banks
        self.cursor = at + size if self.banks == 1 else -(-(at + size) // bank) * bank % self.words
        return at

    def free(self, at: int, size: int) -> None:
        self.live.remove((at, at + size))


def last_uses(program: TileProgram) -> dict[Buf, int]:
    """Of each buffer, the number of its last use in program order (an unused buffer dies where it is made)."""
    last: dict[Buf, int] = {}
    number = 0
    for section in program.sections:
        for op in section.ops:
            if isinstance(op, Buf):
                last[op] = number
            else:
                for value in op.things:
                    if isinstance(value, Buf):
                        last[value] = number
            number += 1
    return last


@uncollected()
def plan(program: TileProgram, arch: Arch) -> None:
    """Set `at` of every buffer.

    Raises:
        DpuError: live buffers exceed a scratchpad.
    """
    for buf, at in _places(program, arch):
        buf.at = at


@uncollected()
def fits(program: TileProgram, arch: Arch) -> bool:
    """Whether every buffer finds its place."""
    try:
        deque(_places(program, arch), maxlen=0)
    except ScratchpadFull:
        return False
    return True


def _places(program: TileProgram, arch: Arch) -> Iterator[tuple[Buf, int]]:
    """Each buffer and its address, in program order."""
    words = {**arch.words, "table": TABLE_SLOTS}
    rings: dict[tuple[int, str], _Ring] = {}
    last = last_uses(program)
    dying: dict[int, list[tuple[_Ring, int, int]]] = {}  # address and words of the buffers that live
    number = 0
    for section in program.sections:
        for op in section.ops:
            if isinstance(op, Buf):
                key = (section.tile, op.space)
                if key not in rings:
                    rings[key] = _Ring(words[op.space], arch.buffers.acc.banks if op.space == "acc" else 1)
                ring = rings[key]
                place = ring.place(op.words)
                if place is None:
                    held = sum(hi - lo for lo, hi in ring.live)
                    raise DpuError(
                        section.source,
                        f"a buffer of {op.words} words does not fit {op.space} of tile {section.tile}",
                        why=f"{held} of {ring.words} words are in use by the same and the overlapping block",
                        hint="use an arch with a larger scratchpad",
                        code="E233",
                    )
                yield op, place
                dying.setdefault(last[op], []).append((ring, place, op.words))
            for ring, at, size in dying.pop(number, ()):
                ring.free(at, size)
            number += 1
