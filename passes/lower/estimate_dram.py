"""How much of a DRAM's peak each kind of transfer reaches, for estimates: measured on the DRAM model itself.

A few short traces of the patterns that an arch's words have, all tiles at once, run on the closed form of
`simulator/dram`; nothing is fitted to programs. A word then counts in the DRAM as the bytes that the peak rate would
move in its time. Tiles start SPREAD bytes apart, which is no multiple of what banks and channels repeat at: tiles of a
program drift, and lie in no fixed relation to each other's banks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from ...ir import cost
from ...ir.arch import Arch
from ...ir.cost import BEAT_BYTES
from ...simulator.dram.core import Note
from ...simulator.dram.native import core
from ...simulator.dram.params import Config, DramFile, config, load_dram

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SHORT = 512  # bytes: runs up to these are measured by size and distance, longer ones count as streams
SPREAD = 131 * 1280  # bytes from tile to tile
STRIDES = (512, 640, 768, 1280, 2560)
"""Distances of short runs that are measured: pitches of SDXL's tensors. The nearest stands for others."""
PORT_BOUND = 1.25  # times as long as if each tile were alone: below, tiles are taken not to slow each other
_STREAM = 65536  # bytes of a word in a measurement of streams, of which each tile moves two
_RUNS, _LEAST_RUNS = 1024, 192
"""Short runs of one tile alone, many times what a port may have under way; and of each of many tiles."""
_FAR = 1 << 28  # from what is read to what is written


@dataclass(frozen=True)
class Pattern:
    """Transfers of all tiles: runs of `run` bytes, `stride` apart; `own`: each tile has its own, else all have the
    same."""

    write: bool
    own: bool
    run: int
    stride: int


@dataclass(frozen=True)
class _Trace:
    """What one port moves: (address, bytes of a run, runs, bytes between)."""

    port: int
    write: bool
    words: tuple[tuple[int, int, int, int], ...]


def _cycles(c: Config, traces: list[_Trace], beats: bool = False) -> tuple[int, int]:
    """(bytes, cycles from the first data until all is moved) of traces that all begin at once; with `beats` a port
    moves no more than a beat a cycle."""
    model, total = core(c), 0
    for t in traces:
        for address, run, n, stride in t.words:
            size = -(-run // BEAT_BYTES) * BEAT_BYTES * n
            total += size
            least = size // BEAT_BYTES if beats else 1
            model.request(0, t.port, t.write, least, address, run, (n, 1, 1), (stride, 0, 0))
    first, last = 1 << 60, 0
    while True:
        note, cycle, port = model.step(1 << 40)
        if note == Note.NONE:
            break
        first, last = min(first, cycle), max(last, cycle)
        if note == Note.FIRST:
            model.open(cycle, port)
    way = -(-(c.request + c.response) // c.cycle)
    return total, max(1, last - (first if not traces[0].write else way))


def _stream(tiles: int, write: bool, apart: int, size: int) -> list[_Trace]:
    """Two words of contiguous bytes for each tile."""
    base = _FAR if write else 0
    return [
        _Trace(4 * t + 3 * write, write, tuple((base + t * apart + i * size, size, 1, 0) for i in (0, 1)))
        for t in range(tiles)
    ]


class Rates:
    """Bytes at peak rate that a byte of each kind of transfer costs, 1 or more."""

    def __init__(self, file: DramFile, clock_hz: float, tiles: int) -> None:
        self.config, self.tiles = config(file, clock_hz, 4 * tiles), tiles
        self.peak = float(file.peak_bytes_per_second) / clock_hz
        # A channel serves one tile at a time. Of more tiles than channels all are in its way in a measurement; in a
        # program they queue behind each other, those that wait do not ask, and those that read the same follow each
        # other. Fewer drift apart.
        self.crowd = min(1.0, self.config.channels / tiles)
        drift = 0 if self.crowd < 1 else _STREAM // tiles // BEAT_BYTES * BEAT_BYTES
        self.same = self._cost(_stream(tiles, False, drift, _STREAM))
        reads, writes = _stream(tiles, False, SPREAD, _STREAM), _stream(tiles, True, SPREAD, _STREAM // 2)
        self.read, self.write = self._cost(reads), self._cost(writes)
        both = self._cost(reads + writes)
        # Turning the bus round, booked to what is written: a third of the bytes here.
        self.turn = max(0.0, 3 * both - 2 * self.read - self.write)
        moved, cycles = _cycles(self.config, _stream(1, False, 0, _STREAM), beats=True)
        self.port = cycles / moved
        self._short: dict[Pattern, tuple[float, float]] = {}

    def _cost(self, traces: list[_Trace]) -> float:
        moved, cycles = _cycles(self.config, traces)
        return max(1.0, cycles * self.peak / moved)

    def cost(self, p: Pattern) -> tuple[float, float]:
        """Of a byte of a pattern's transfers, in the DRAM and in cycles of its port."""
        turn = self.turn if p.write else 0.0
        if p.run > SHORT:
            dram, port = self.write if p.write else self.read if p.own else self.same, self.port
        else:
            if p not in self._short:
                self._short[p] = self._measure(p)
            dram, port = self._short[p]
            turn *= max(1.0, self.config.interleave / p.run)
        return 1 + self.crowd * (dram + turn - 1), port

    def _measure(self, p: Pattern) -> tuple[float, float]:
        alone = _cycles(self.config, self._runs(p, 1, _RUNS))
        together = _cycles(self.config, self._runs(p, self.tiles, max(_LEAST_RUNS, 4 * _RUNS // (1 + self.tiles))))
        port, dram = alone[1] / alone[0], together[1] / together[0]
        # Where tiles do not slow each other, it is the port that waits, and the DRAM has room.
        slow = dram > PORT_BOUND * port / self.tiles
        return (max(1.0, dram * self.peak) if slow else 1.0), port

    def _runs(self, p: Pattern, tiles: int, n: int) -> list[_Trace]:
        """Short runs. Of more tiles than channels those that read the same follow each other through open rows."""
        follow = self.crowd < 1 and not p.own and not p.write
        apart = (n // self.tiles + 1) * p.stride if follow else SPREAD
        base = _FAR if p.write else 0
        return [_Trace(4 * t + 3 * p.write, p.write, ((base + t * apart, p.run, n, p.stride),)) for t in range(tiles)]


@cache
def _rates(name: str, clock_hz: float, tiles: int) -> Rates:
    return Rates(load_dram(name), clock_hz, tiles)


def has_l2(arch: Arch) -> bool:
    """Whether constants go through a shared L2, as in the timing simulation."""
    return arch.l2_bytes > 0 and arch.dram.model in ("hbm2", "lpddr5x")


def l2_times(arch: Arch) -> Floats:
    """Of the shared L2: cycles to the first data of a hit; bytes a cycle; cycles that a miss takes more than without.

    The last is how long a line takes in its slice."""
    line = cost.L2_LINE // cost.L2_SLICE_BYTES
    return np.array([cost.L2_LATENCY + line, cost.L2_SLICES * cost.L2_SLICE_BYTES, line], np.float64)


def weights(
    arch: Arch,
    dma: Ints,
    writes: npt.NDArray[np.bool_],
    own: npt.NDArray[np.bool_],
    cached: npt.NDArray[np.bool_],
) -> Floats:
    """What a byte of each word costs in the DRAM, and in cycles of its port: [words, 2].

    `dma`: inner, n (3), stride (3), in columns; `cached`: through the L2, which reads whole lines, as a stream.
    """
    if arch.dram.model in ("ideal", "simple"):
        return np.array([[1.0, 0.0]] * len(dma)).reshape(-1, 2)
    rates = _rates(arch.dram.parameters, arch.clock_hz, arch.tiles)
    run, stride = dma[:, 0].copy(), np.zeros(len(dma), np.int64)
    joined = np.ones(len(dma), np.bool_)
    for d in range(3):
        n, step = dma[:, 1 + d], dma[:, 4 + d]
        stops = joined & (n > 1) & (step != run)
        stride[stops] = step[stops]
        joined &= ~stops
        run = np.where(joined, run * n, run)
    run = np.where(stride > 0, -(-run // BEAT_BYTES) * BEAT_BYTES, np.maximum(run, SHORT + 1))
    run = np.minimum(run, SHORT + 1)
    stride = np.where(run > SHORT, 0, stride)
    nearest = np.abs(np.log(np.maximum(stride, 1))[:, None] - np.log(STRIDES)).argmin(axis=1)
    stride = np.where(stride > 0, np.array(STRIDES)[nearest], 0)
    run = np.where(stride > 0, 1 << np.ceil(np.log2(run)).astype(np.int64), run)
    run, stride, own = np.where(cached, SHORT + 1, run), np.where(cached, 0, stride), own | cached
    keys, at = np.unique(np.stack([writes, own, run, stride], axis=1), axis=0, return_inverse=True)
    costs = [rates.cost(Pattern(bool(w), bool(o), r, s)) for w, o, r, s in keys.tolist()]
    return np.array(costs, np.float64).reshape(-1, 2)[at.reshape(-1)]
