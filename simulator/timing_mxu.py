"""The MXU, for the timing model: the equations of rtl/doc/dpu_mxu.md, whose names they keep."""

from __future__ import annotations

from typing import NamedTuple

from ..ir.arch import Arch
from ..ir.cost import ACC_READ, ACT_READ, MXU_CHECK, mxu_blocks, mxu_drain
from .timing_plan import Listed
from .timing_ports import ParamWrites, SharedPort


class MmTimes(NamedTuple):
    """Cycles of one word."""

    next: int  # the next word may start
    first: int  # its first row enters
    after: int  # the row behind its last could enter
    done: int


class Mxu:
    """One tile's MXU. It never waits for a port, so all of a word is known when it starts."""

    def __init__(self, arch: Arch, plan: Listed, ports: list[SharedPort], param: ParamWrites) -> None:
        self.plan, self.ports, self.param = plan, ports, param
        self.rows, self.blocks, self.drain = arch.rows, mxu_blocks(arch), mxu_drain(arch)
        self.column = max(self.blocks, arch.cols // arch.lanes)  # cycles to read a column vector
        self.release = -1  # the loader may take another word
        self.t0 = self.t1 = -(1 << 62)  # of the latest weight tile: first weight address, first ACT address
        self.last_row = -1
        self.last_acc = -1  # ACC address of that row

    def start(self, i: int, now: int) -> MmTimes:
        """Word `i` starts; its use of ports is booked."""
        w = self.plan.mm[i]
        r, g = self.rows, self.blocks
        moved = max(now + MXU_CHECK, self.release)
        taken = max(moved + 1, self.last_row)
        t0 = max(self.t0 + r, self.t1 + g, moved + 1)
        gap = 3 if w.accumulate and 0 <= self.last_acc - w.first <= 1 else 1
        t1 = max(t0 + 1 + (self.column if w.column else g), self.last_row + gap, taken + 1)
        first, left, each = t1, w.tiles - 1, max(w.rows, r)
        while left > 0:
            next0 = max(t0 + r, t1 + g)
            next1 = max(next0 + 1 + g, t1 + w.rows)
            steps = left if next0 - t0 == next1 - t1 == each else 1  # from here on, all tiles take the same
            t0, t1, left = t0 + steps * (next0 - t0), t1 + steps * (next1 - t1), left - steps
        self.t0, self.t1 = t0, t1
        self.last_row, self.last_acc = t1 + w.rows - 1, w.last
        self.release = max(t0 + r - 1, taken)
        self._book(i, now, first, each)
        return MmTimes(moved, first, t1 + each, self.last_row + self.drain)

    def _book(self, i: int, now: int, first: int, each: int) -> None:
        w, end = self.plan.mm[i], self.t1 + each
        if spans := self.plan.ports[ACT_READ].get(i):
            self.ports[ACT_READ].walk(now, first, end, each, w, spans)
        if (w.adds or w.k > 1) and (spans := self.plan.ports[ACC_READ].get(i)):
            late = self.rows + self.blocks
            self.ports[ACC_READ].walk(now, first + late, end + late, each, w, spans)
        if w.maxima:
            self.param.book(end + self.drain, each, w)
