"""Ports that two engines share, for the timing model: when the one that goes first uses a bank, what the other gets."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from ..ir.cost import Ports, Span

_ROUNDING = 1e-6  # of a cycle


@dataclass
class Use:
    """The engine that goes first takes, in these cycles, that part of each bank's."""

    begin: int
    end: int
    banks: dict[int, float]


class SharedPort:
    """One port of a buffer of one tile."""

    def __init__(self, number: int, ports: Ports) -> None:
        self.number, self.ports = number, ports
        self.uses: deque[Use] = deque()
        self.working = -1  # since when the engine that goes second works, or -1

    def use(self, now: int, begin: int, end: int, words: float, spans: Sequence[Span]) -> Use:
        """Book `words` accesses, spread evenly over the cycles and over the addresses."""
        before = self.working if self.working >= 0 else now
        while self.uses and self.uses[0].end < before:
            self.uses.popleft()
        rate = words / max(1, end - begin)
        banks: dict[int, float] = {}
        for bank, part in self.ports.banks(self.number, spans):
            banks[bank] = banks.get(bank, 0.0) + part * rate
        self.uses.append(Use(begin, end, banks))
        return self.uses[-1]

    def finish(self, begin: int, cycles: int, words: float, spans: Sequence[Span]) -> int:
        """When work ends that would take `cycles`, if its `words` accesses get what is left of each bank in turn."""
        if not self.uses or not cycles:
            return begin + cycles
        need = words / cycles
        t = float(begin)
        for bank, part in self.ports.banks(self.number, spans):
            work = part * cycles
            for use in self.uses:
                if use.end <= t or bank not in use.banks:
                    continue
                if work <= use.begin - t:
                    break
                if use.begin > t:
                    work -= use.begin - t
                    t = float(use.begin)
                rate = min(1.0, max(0.0, 1.0 - use.banks[bank]) / need)
                if work <= rate * (use.end - t):
                    work /= rate
                    break
                work -= rate * (use.end - t)
                t = float(use.end)
            t += work
        return ceil(t - _ROUNDING)
