"""DRAM models: how fast the transfers that are active at the same time proceed. Times are whole cycles."""

from __future__ import annotations

import heapq
from math import ceil
from typing import Protocol

from ..ir.arch import Arch

_EPSILON = 1e-6  # bytes: a remainder that is only rounding


class Memory(Protocol):
    """Transfers in progress. A key names one transfer at a time (a tile's LOAD or STORE port)."""

    log: list[tuple[int, float]]  # (cycle, bytes a cycle from then on)

    def start(self, now: int, key: int, size: int, cap: float) -> None:
        """Begin to move `size` bytes at no more than `cap` bytes a cycle."""

    def next(self) -> int | None:
        """The cycle at which a transfer ends if nothing else begins before, None when there is none."""

    def finish(self, now: int) -> list[int]:
        """Keys of the transfers that have ended by `now`, in the order in which they began."""


class IdealMemory:
    """Every transfer runs at its own cap: a fixed latency, unlimited bandwidth."""

    def __init__(self) -> None:
        self.log: list[tuple[int, float]] = [(0, 0.0)]
        self._ends: list[tuple[int, int, int, float]] = []
        self._count = 0

    def start(self, now: int, key: int, size: int, cap: float) -> None:
        heapq.heappush(self._ends, (now + ceil(size / cap - _EPSILON), self._count, key, cap))
        self._count += 1
        self.log.append((now, self.log[-1][1] + cap))

    def next(self) -> int | None:
        return self._ends[0][0] if self._ends else None

    def finish(self, now: int) -> list[int]:
        done = []
        while self._ends and self._ends[0][0] <= now:
            _, _, key, cap = heapq.heappop(self._ends)
            done.append(key)
            self.log.append((now, max(0.0, self.log[-1][1] - cap) if self._ends else 0.0))
        return done


class FairMemory:
    """One rate for all transfers together, shared max-min fairly: nobody gets more than its cap, and what one leaves
    is divided equally among the others. Rates change only when a transfer begins or ends."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.log: list[tuple[int, float]] = [(0, 0.0)]
        self._now = 0
        self._active: dict[int, list[float]] = {}  # key: [bytes left, cap, rate]

    def start(self, now: int, key: int, size: int, cap: float) -> None:
        self._advance(now)
        self._active[key] = [float(size), cap, 0.0]
        self._share()

    def next(self) -> int | None:
        if not self._active:
            return None
        return self._now + min(max(0, ceil((left - _EPSILON) / rate)) for left, _, rate in self._active.values())

    def finish(self, now: int) -> list[int]:
        self._advance(now)
        done = [key for key, (left, _, _) in self._active.items() if left <= _EPSILON]
        for key in done:
            del self._active[key]
        if done:
            self._share()
        return done

    def _advance(self, now: int) -> None:
        for transfer in self._active.values():
            transfer[0] -= transfer[2] * (now - self._now)
        self._now = now

    def _share(self) -> None:
        left, waiting = self.rate, len(self._active)
        for transfer in sorted(self._active.values(), key=lambda t: t[1]):
            transfer[2] = min(transfer[1], left / waiting)
            left -= transfer[2]
            waiting -= 1
        self.log.append((self._now, self.rate - left if self._active else 0.0))


def memory(arch: Arch) -> Memory:
    """The model that the arch names."""
    return IdealMemory() if arch.dram.model == "ideal" else FairMemory(arch.dram.bytes_per_cycle)
