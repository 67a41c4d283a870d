"""DRAM models: how fast the transfers that are active at the same time proceed. Times are whole cycles.

Two kinds. A `Memory` is a fluid: a transfer is a number of bytes, and rates change when one begins or ends. A
`BurstMemory` knows addresses: a transfer is a stream of bursts from its port to the channels, and each waits for its
bank, the bus, and refresh (`dram/`).
"""

from __future__ import annotations

import heapq
from math import ceil
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..errors import DpuError
from ..ir.arch import Arch
from .dram.core import NEVER, Counters, L2Counters, Note
from .dram.native import core
from .dram.params import DramFile, config, load_dram

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


Move = tuple[int, int, tuple[int, int, int], tuple[int, int, int]]
"""(DRAM address, bytes of a run, runs, strides) of a LOAD or STORE word."""


class BurstMemory:
    """Bursts of the ports of all tiles on the channels of a DRAM. A key is a port, as for `Memory`.

    `start` when the word starts: requests go out. Reads: `step` says FIRST when data wait at the port, `open` lets them
    flow, LAST says they are all through. Writes flow at once; LAST, then RESPONSE when they are in DRAM.
    """

    def __init__(
        self, file: DramFile, clock_hz: float, ports: int, l2_bytes: int = 0, native: bool | None = None
    ) -> None:
        self.file = file
        self.config = config(file, clock_hz, ports, l2_bytes)
        self._core = core(self.config, native)
        self.due = NEVER  # the first cycle at which `step` has something to do
        self._flowing: dict[int, tuple[int, int]] = {}
        self._flows: list[tuple[int, int, int]] = []

    def start(self, now: int, key: int, write: bool, floor: int, move: Move, cached: bool = False) -> None:
        """Begin to move a word's runs in no fewer than `floor` cycles; `cached`: through the L2, if there is one."""
        address, inner, n, stride = move
        if write:
            self._flowing[key] = (now, inner * n[0] * n[1] * n[2])
        self.due = self._core.request(now, key, write, floor, address, inner, n, stride, cached)

    def open(self, now: int, key: int, size: int) -> None:
        """The scratchpad takes the data of the port's oldest read, `size` bytes, from now on."""
        self._flowing[key] = (now, size)
        self.due = self._core.open(now, key)

    def step(self, limit: int) -> tuple[Note, int, int]:
        """Advance to cycle `limit`, or to the first thing to report: (what, cycle, key)."""
        note, cycle, key = self._core.step(limit)
        self.due = self._core.due()
        if note == Note.LAST:
            begin, size = self._flowing.pop(key)
            self._flows.append((begin, cycle, size))
        return note, cycle, key

    @property
    def log(self) -> list[tuple[int, float]]:
        """(cycle, bytes a cycle from then on)."""
        return rates(np.array(self._flows, np.int64).reshape(-1, 3))

    def counters(self) -> tuple[Counters, ...]:
        """Of each channel."""
        return tuple(self._core.counters())

    def l2(self) -> L2Counters | None:
        """Of the L2; None without one."""
        return self._core.l2() if self.config.l2_sets else None


def rates(flows: npt.NDArray[np.int64]) -> list[tuple[int, float]]:
    """Mean rates of transfers together: (cycle, bytes a cycle from then on). `flows`: rows of (begin, end, bytes)."""
    begin, end, size = flows.T
    rate = size / np.maximum(1, end - begin)
    cycles = np.concatenate([[0], np.stack([begin, np.maximum(end, begin + 1)], axis=1).reshape(-1)])
    steps = np.concatenate([[0.0], np.stack([rate, -rate], axis=1).reshape(-1)])
    order = np.argsort(cycles, kind="stable")
    cycles, steps = cycles[order], steps[order]
    new = np.concatenate([[True], cycles[1:] != cycles[:-1]])
    found, total = cycles[new], np.cumsum(np.bincount(np.cumsum(new) - 1, steps))
    return list(zip(found.tolist(), np.where(total > _EPSILON, total, 0.0).tolist(), strict=True))


def dram_file(arch: Arch) -> DramFile | None:
    """The parameters of the arch's DRAM of bursts; None where its model is a fluid.

    Raises:
        DpuError: E505, E502 the parameter file.
    """
    dram = arch.dram
    if dram.model in ("ideal", "simple"):
        return None
    file = load_dram(dram.parameters)
    if file.kind != dram.model:
        raise DpuError(
            f"arch '{arch.name}'",
            f"field 'dram.parameters': '{file.name}' is {file.kind}, the model is {dram.model}",
            code="E502",
        )
    return file


def memory(arch: Arch) -> Memory | BurstMemory:
    """The model that the arch names.

    Raises:
        DpuError: E505, E502 the parameter file, E427 the compiled model.
    """
    file = dram_file(arch)
    if file is not None:
        return BurstMemory(file, arch.clock_hz, 4 * arch.tiles, arch.l2_bytes)
    return IdealMemory() if arch.dram.model == "ideal" else FairMemory(arch.dram.bytes_per_cycle)


def with_dram(arch: Arch, name: str) -> Arch:
    """The arch with another DRAM timing: `ideal`, `simple`, or a parameter file by name or path.

    Raises:
        DpuError: E505, E502.
    """
    if name in ("ideal", "simple"):
        change = {"model": name, "parameters": ""}
    else:
        change = {"model": load_dram(name).kind, "parameters": name}
    return arch.model_copy(update={"dram": arch.dram.model_copy(update=change)})
