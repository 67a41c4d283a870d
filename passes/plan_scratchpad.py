"""Give every on-chip buffer its address.

A buffer lives from its `tile.alloc` to its last use in program order. Each scratchpad is a ring: the next buffer goes
behind the last one, so that a new block seldom waits for the one before it (this is the double buffering). Where the
ring is blocked by something long-lived, the first gap that fits is taken.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ..errors import DpuError
from ..ir.arch import Arch, load_arch
from ..ir.isa import TABLE_SLOTS
from ..ir.tile import AllocOp, ProgramOp, SectionOp


@dataclass(frozen=True)
class PlanScratchpad(ModulePass):
    """Give every on-chip buffer an address, by lifetime."""

    name = "plan-scratchpad"

    arch: str = "dpu_tiny"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plan_module(op, load_arch(self.arch))


def plan_module(module: ModuleOp, arch: Arch) -> None:
    """Plan every program of a module."""
    for program in module.ops:
        if isinstance(program, ProgramOp):
            plan(program, arch)


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


def last_uses(program: ProgramOp) -> dict[Operation, list[AllocOp]]:
    """For each operation, the buffers whose last use it is (an unused buffer dies where it is made)."""
    last: dict[SSAValue, Operation] = {}
    for op in program.body.block.ops:
        if isinstance(op, AllocOp):
            last[op.buffer] = op
        else:
            for value in op.operands:
                if value in last:
                    last[value] = op
    dying: dict[Operation, list[AllocOp]] = {}
    for value, op in last.items():
        owner = value.owner
        assert isinstance(owner, AllocOp)
        dying.setdefault(op, []).append(owner)
    return dying


def plan(program: ProgramOp, arch: Arch) -> None:
    """Set `at` of every `tile.alloc`.

    Raises:
        DpuError: live buffers exceed a scratchpad.
    """
    words = {**arch.words, "table": TABLE_SLOTS}
    rings: dict[tuple[int, str], _Ring] = {}
    dying = last_uses(program)
    tile, source = 0, ""
    homes: dict[AllocOp, tuple[int, str]] = {}
    for op in program.body.block.ops:
        if isinstance(op, SectionOp):
            tile, source = op.tile.value.data, op.source.data
        if isinstance(op, AllocOp):
            key = (tile, op.space)
            banks = arch.buffers.acc.banks if op.space == "acc" else 1
            ring = rings.setdefault(key, _Ring(words[op.space], banks))
            size = op.words.value.data
            at = ring.place(size)
            if at is None:
                held = sum(hi - lo for lo, hi in ring.live)
                raise DpuError(
                    source,
                    f"a buffer of {size} words does not fit {op.space} of tile {tile}",
                    why=f"{held} of {ring.words} words are in use by the same and the overlapping block",
                    hint="use an arch with a larger scratchpad",
                    code="E233",
                )
            op.properties["at"] = IntegerAttr(at, 64)
            homes[op] = key
        for dead in dying.get(op, ()):
            rings[homes[dead]].free(dead.at.value.data, dead.words.value.data)
