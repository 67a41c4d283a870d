"""Ports that two engines share, for the timing model: when the one that goes first uses a bank, what the other gets.

The reads of an MM word are known cycle by cycle (`timing_walk.py`): it goes from bank to bank with its lines, and reads
ACC only in the tiles that add. Spread evenly they would slow an engine that needs half the cycles not at all, when the
RTL lets it wait for whole tiles. What VEC words use is spread evenly over their beats.

PARAM is written by both: a row maximum of the MXU takes one bank, a write of the VPU up to all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from ..ir.cost import ACT_READ, Ports, Span
from .plan import MmWork
from .timing_walk import Walk

_ROUNDING = 1e-6  # of a cycle


@dataclass
class Use:
    """The engine that goes first takes, in these cycles, that part of each bank's."""

    begin: int
    end: int
    banks: dict[int, float]

    def touches(self, bank: int) -> bool:
        """Whether it uses this bank."""
        return bank in self.banks


class SharedPort:
    """One port of a buffer of one tile."""

    def __init__(self, number: int, ports: Ports) -> None:
        self.number, self.ports = number, ports
        self.uses: deque[Use | Walk] = deque()
        self.working = -1  # since when the engine that goes second works, or -1

    def _forget(self, now: int) -> None:
        before = self.working if self.working >= 0 else now
        while self.uses and self.uses[0].end < before:
            self.uses.popleft()

    def use(self, now: int, begin: int, end: int, words: float, spans: Sequence[Span]) -> Use:
        """Book `words` accesses, spread evenly over the cycles and over the addresses."""
        self._forget(now)
        rate = words / max(1, end - begin)
        banks: dict[int, float] = {}
        for bank, part in self.ports.banks(self.number, spans):
            banks[bank] = banks.get(bank, 0.0) + part * rate
        use = Use(begin, end, banks)
        self.uses.append(use)
        return use

    def walk(self, now: int, begin: int, end: int, each: int, work: MmWork, spans: Sequence[Span]) -> None:
        """Book the reads of an MM word, cycle by cycle; the spans are where they may be."""
        self._forget(now)
        size = self.ports.bank_words[self.number]
        low, high = min(lo for lo, _ in spans) // size, (max(hi for _, hi in spans) - 1) // size
        self.uses.append(Walk(begin, end, each, low, high, size, self.number == ACT_READ, work))

    def finish(self, begin: int, cycles: int, words: float, spans: Sequence[Span], held: float, room: float) -> int:
        """When work ends that would take `cycles`, if its `words` accesses get what is left of each bank in turn.

        `held` cycles of work have been read ahead, up to `room` can be: so much waiting does not show.
        """
        if not self.uses or not cycles:
            return begin + cycles
        need = words / cycles
        gain = 1.0 / need - 1.0  # cycles of work that are read ahead in a free cycle
        t = float(begin)
        for bank, part in self.ports.banks(self.number, spans):
            work = part * cycles
            for use in self.uses:
                if use.end <= t or not use.touches(bank):
                    continue
                if work <= use.begin - t:
                    break
                if use.begin > t:
                    held = min(room, held + (use.begin - t) * gain)
                    work -= use.begin - t
                    t = float(use.begin)
                if isinstance(use, Use):
                    rate = min(1.0, max(0.0, 1.0 - use.banks[bank]) / need)
                    if work <= rate * (use.end - t):
                        work /= rate
                        break
                    work -= rate * (use.end - t)
                    t = float(use.end)
                    continue
                while t < use.end:
                    taken, until = use.segment(t)
                    until = min(until, use.end)
                    most = until - t if taken != bank else min(held, until - t)
                    if work <= most:
                        break
                    work -= most
                    held = held - most if taken == bank else min(room, held + most * gain)
                    t = float(until)
                else:
                    continue
                break
            t += work
        return ceil(t - _ROUNDING)


class ParamWrites:
    """The write port of PARAM of one tile: a row maximum a cycle, and the VPU's results, which wait for them.

    Only results that take all banks do here: what has fewer scalars finds its banks free before long.
    """

    def __init__(self) -> None:
        self.maxima: deque[tuple[int, int]] = deque()  # (first cycle, one past the last), ascending
        self.late = -1  # the last write that had to wait

    def book(self, end: int, each: int, work: MmWork) -> None:
        """Book the row maxima of an MM word: `rows` cycles in the last of each `k` tiles of `each` cycles.

        `end` is one past the last tile, seen from this port.
        """
        for n in range(work.tiles // work.k, 0, -1):
            begin = end - ((n - 1) * work.k + 1) * each
            if self.maxima and self.maxima[-1][1] == begin:
                begin = self.maxima.pop()[0]
            self.maxima.append((begin, begin + work.rows))

    def last(self, first: int, last: int, writes: int, room: int) -> tuple[int, int]:
        """When the last of `writes` results is written that are there evenly from cycle `first` to `last`, and how much
        later it is made: nothing is while `room` results wait."""
        first = min(first, last + 1 - writes)
        while self.maxima and self.maxima[0][1] <= first:
            self.maxima.popleft()
        rate, stop = writes / (last + 1 - first), float(last + 1)
        t = float(max(first, self.late + 1))
        waiting = min(room, rate * (min(t, stop) - first))  # results that are there before cycle t, and not written
        for begin, end in self.maxima:
            if end <= t:
                continue
            if begin > t:
                more = max(0.0, min(begin, stop) - t)
                waiting, t = max(0.0, waiting - (1.0 - rate) * more), t + more
                if t >= stop and waiting <= begin - t:
                    break
                waiting, t = waiting - (begin - t), float(begin)
            more = max(0.0, min(end, stop) - t)
            held = max(0.0, more - (room - waiting) / rate)
            waiting, stop, t = waiting + rate * (more - held), stop + held, float(end)
        if t < stop:
            waiting, t = max(0.0, waiting - (1.0 - rate) * (stop - t)), stop
        done = ceil(t + waiting - _ROUNDING) - 1
        if done > last:
            self.late = done
        return done, ceil(stop - _ROUNDING) - last - 1
