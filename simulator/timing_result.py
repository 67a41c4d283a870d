"""What the timing model reports."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..ir.arch import Arch
from ..ir.isa import Engine
from .dram.core import Counters, L2Counters
from .dram.params import DramFile

Ints = npt.NDArray[np.int64]

NOT_MODELLED = (
    "what the VPU uses of shared ports cycle by cycle: it is spread evenly over a word's beats, bank by bank",
    "conflicts at PARAM's ports, but for results of all banks that wait for row maxima",
    "a producer that stalls because a semaphore holds 255 tokens",
    "host submit and interrupt latency",
)
FLUID_NOT_MODELLED = ("DRAM refresh, bank conflicts and read/write turnaround: one sustained rate stands for all",)
BURSTS_NOT_MODELLED = (
    "lateral links of the HBM switch: every port reaches every channel alike",
    "DRAM low-power states, ECC, temperature-dependent refresh, refresh management, calibration, clock synchronisation",
)
L2_NOT_MODELLED = ("the L2's tag ports and a limit of its lines under way: credits of the tiles' ports bound them",)
FLUID_L2_NOT_MODELLED = ("the shared L2 (l2_bytes): a DRAM without addresses, so that every read goes to it",)


@dataclass(frozen=True)
class TileOutcome:
    """What an event loop says of one tile. The times of each word are those of `TileTiming`; `busy` is by engine."""

    start: Ints
    begin: Ints
    issued: Ints
    visible: Ints
    busy: list[int]
    stalls: dict[Engine, dict[str, int]]


@dataclass(frozen=True)
class Outcome:
    """What an event loop says of a run. `dram` is that of `Timing`, `channels` and `l2` those of `DramTiming`."""

    cycles: int
    tiles: list[TileOutcome]
    dram: list[tuple[int, float]]
    channels: tuple[Counters, ...] | None
    l2: L2Counters | None


@dataclass(frozen=True)
class TileTiming:
    """One tile. The arrays have one element a word, in stream order.

    `start` is the cycle in which the engine takes the word, `begin` in which its work begins (MXU: first row, VPU:
    first beat, LOAD and STORE: first data), `issued` the one behind its last row, beat or data, `visible` the one in
    which it is done: all results up to this word of its engine can be read from the next cycle on.
    """

    engine: Ints
    tag: Ints
    start: Ints
    begin: Ints
    issued: Ints
    visible: Ints
    macs: Ints
    payload: Ints  # DRAM bytes the word names
    bus: Ints  # DRAM bytes in whole beats
    busy: dict[Engine, int]
    stalls: dict[Engine, dict[str, int]]

    def _sum(self, engine: Engine, what: Ints) -> int:
        return int(what[self.engine == engine].sum())

    @property
    def bytes_read(self) -> int:
        return self._sum(Engine.LOAD, self.payload)

    @property
    def bytes_written(self) -> int:
        return self._sum(Engine.STORE, self.payload)


@dataclass(frozen=True)
class DramTiming:
    """What the channels of a DRAM of bursts did, and the L2 if there is one. Times of the counters are DRAM clocks."""

    file: DramFile
    channels: tuple[Counters, ...]
    l2: L2Counters | None = None

    @property
    def total(self) -> Counters:
        """The sum over channels; `last` the latest."""
        sums = [sum(c) for c in zip(*self.channels, strict=True)]
        return Counters._make([*sums[:-1], max(c.last for c in self.channels)])

    @property
    def bytes(self) -> list[int]:
        """Moved by each channel, in whole beats."""
        return [c.bytes_read + c.bytes_written for c in self.channels]

    @property
    def hit_rate(self) -> float:
        """Column accesses that needed no activation, of all."""
        t = self.total
        accesses = t.hits + t.misses + t.conflicts
        return t.hits / accesses if accesses else 0.0


@dataclass(frozen=True)
class Timing:
    """A timed program. `dram` is (cycle, bytes a cycle from then on); `channels` only with a DRAM of bursts."""

    arch: Arch
    entry: str
    cycles: int
    tiles: list[TileTiming]
    dram: list[tuple[int, float]]
    not_modelled: tuple[str, ...]
    channels: DramTiming | None = None

    @property
    def seconds(self) -> float:
        return self.cycles / self.arch.clock_hz

    @property
    def executed_macs(self) -> int:
        """Padding included."""
        return sum(int(t.macs.sum()) for t in self.tiles)

    def utilisation(self, macs: int | None = None) -> float:
        """`macs` (default: those executed) over tiles * R * C * cycles."""
        peak = self.arch.peak_macs_per_cycle * self.cycles
        return (self.executed_macs if macs is None else macs) / peak if peak else 0.0
