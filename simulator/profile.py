"""Timing by graph operation: where cycles, multiply-accumulates and bytes go, and what bounds each operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from ..ir.arch import Arch
from ..ir.container import Entry, SourceOp
from ..ir.cost import mm_macs
from ..ir.isa import MM, Engine, Opcode, Words
from .dram.core import Counters
from .plan import ENGINES
from .timing_result import DramTiming, TileTiming, Timing

Bound = Literal["mxu", "vpu", "memory", "sync"]
Ints = npt.NDArray[np.int64]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Row(_Model):
    """One graph operation. Cycles are those of its slowest tile, bytes and MACs of all tiles together.

    `bound`: "sync" when none of its words runs for more than half of its span on the tile where the span is longest
    (it waits for tokens, latencies or another operation's use of the engines); else the busiest of MXU, VPU and memory
    (the busier of LOAD's and STORE's data phases, waiting for DRAM bandwidth included) on that tile.
    """

    tag: int
    name: str
    kind: str
    nodes: tuple[str, ...]
    words: int
    logical_macs: int  # of the graph operation
    executed_macs: int  # counted from the decoded words, padding included
    start: int  # first word of it begins
    span: int  # cycles from there until all of it is visible
    active: int  # cycles of the span in which at least one of its words runs, on its longest tile
    mxu_busy: int
    vpu_busy: int
    load_busy: int
    store_busy: int
    utilisation: float  # executed MACs over tiles * R * C * span
    mxu_utilisation: float  # executed MACs over tiles * R * C * mxu_busy
    bytes_read: int
    bytes_written: int
    intensity: float  # executed MACs a DRAM byte
    bound: Bound


class ChannelRow(_Model):
    """What one DRAM channel did. Accesses are single columns; waits are DRAM clocks."""

    bytes_read: int  # in whole beats
    bytes_written: int
    row_hits: int
    row_misses: int  # activations of a closed bank
    row_conflicts: int  # activations that first had to close another row
    refreshes: int
    refresh_wait: int  # clocks in which the next access waited for a refresh
    turns: int  # of the data bus
    turnaround: int  # clocks lost by them

    @property
    def hit_rate(self) -> float:
        """Accesses that found their row open, of all."""
        accesses = self.row_hits + self.row_misses + self.row_conflicts
        return self.row_hits / accesses if accesses else 0.0


class DramReport(_Model):
    """The channels of a DRAM of bursts."""

    file: str  # of parameters
    clock_hz: float
    clocks: int  # until the last data passed the pins of any channel
    total: ChannelRow
    channels: tuple[ChannelRow, ...]


class Report(_Model):
    """One timed entry point. `dram`: only where the DRAM is modelled burst by burst."""

    arch: str
    arch_digest: str
    entry: str
    provenance: Literal["simulated"] = "simulated"
    clock_hz: float
    tiles: int
    peak_macs_per_cycle: int
    dram_bytes_per_cycle: float
    cycles: int
    seconds: float
    words: int
    logical_macs: int
    executed_macs: int
    utilisation: float  # logical MACs over tiles * R * C * cycles
    executed_utilisation: float
    bytes_read: int
    bytes_written: int
    busy: dict[str, list[int]]  # engine: cycles on each tile
    stalls: dict[str, dict[str, int]]  # engine: reason: cycles, all tiles together
    rows: tuple[Row, ...]
    dram: DramReport | None = None
    not_modelled: tuple[str, ...]


def covered(begin: Ints, end: Ints) -> int:
    """Cycles in which at least one of the intervals [begin, end) runs."""
    if not len(begin):
        return 0
    order = np.argsort(begin, kind="stable")
    first, last = begin[order], np.maximum.accumulate(end[order])
    gaps = np.maximum(first[1:] - last[:-1], 0).sum()
    return int(last[-1] - first[0] - gaps)


def _executed(arch: Arch, words: Words) -> Ints:
    """MACs of each word, from its own fields."""
    macs = np.zeros(len(words), np.int64)
    mm = np.flatnonzero(words["opcode"] == Opcode.MM)
    macs[mm] = mm_macs(arch, words[mm].view(MM))
    return macs


class _OnTile:
    """One operation on one tile: `pick` are its words."""

    def __init__(self, t: TileTiming, macs: Ints, pick: npt.NDArray[np.intp]) -> None:
        engine, begin, issued = t.engine[pick], t.begin[pick], t.issued[pick]
        took = issued - begin
        self.words, self.macs = len(pick), int(macs[pick].sum())
        self.start, self.end = int(begin.min()), int(t.visible[pick].max())
        self.active = covered(begin, issued)
        self.busy = {e: int(took[engine == e].sum()) for e in ENGINES}
        self.read = int(t.payload[pick][engine == Engine.LOAD].sum())
        self.written = int(t.payload[pick][engine == Engine.STORE].sum())

    @property
    def span(self) -> int:
        return self.end - self.start

    @property
    def bound(self) -> Bound:
        if 2 * self.active < self.span:
            return "sync"
        busy = self.busy
        by: dict[Bound, int] = {
            "mxu": busy[Engine.MXU],
            "vpu": busy[Engine.VPU],
            "memory": max(busy[Engine.LOAD], busy[Engine.STORE]),
        }
        return max(by, key=lambda k: by[k])


def _row(arch: Arch, source: SourceOp, parts: Sequence[_OnTile]) -> Row:
    start, end = min(p.start for p in parts), max(p.end for p in parts)
    longest = max(parts, key=lambda p: p.span)
    macs = sum(p.macs for p in parts)
    read, written = sum(p.read for p in parts), sum(p.written for p in parts)
    busy = {e: max(p.busy[e] for p in parts) for e in ENGINES}
    peak = arch.peak_macs_per_cycle
    return Row(
        tag=source.tag,
        name=source.name,
        kind=source.kind,
        nodes=source.nodes,
        words=sum(p.words for p in parts),
        logical_macs=source.macs,
        executed_macs=macs,
        start=start,
        span=end - start,
        active=longest.active,
        mxu_busy=busy[Engine.MXU],
        vpu_busy=busy[Engine.VPU],
        load_busy=busy[Engine.LOAD],
        store_busy=busy[Engine.STORE],
        utilisation=macs / (peak * (end - start)) if end > start else 0.0,
        mxu_utilisation=macs / (peak * busy[Engine.MXU]) if busy[Engine.MXU] else 0.0,
        bytes_read=read,
        bytes_written=written,
        intensity=macs / (read + written) if read + written else 0.0,
        bound=longest.bound,
    )


def _channel(c: Counters) -> ChannelRow:
    return ChannelRow(
        bytes_read=c.bytes_read,
        bytes_written=c.bytes_written,
        row_hits=c.hits,
        row_misses=c.misses,
        row_conflicts=c.conflicts,
        refreshes=c.refreshes,
        refresh_wait=c.refresh_wait,
        turns=c.turns,
        turnaround=c.turnaround,
    )


def _dram(d: DramTiming) -> DramReport:
    return DramReport(
        file=d.file.name,
        clock_hz=float(d.file.clock),
        clocks=d.total.last,
        total=_channel(d.total),
        channels=tuple(_channel(c) for c in d.channels),
    )


def profile(entry: Entry, words: Sequence[Words], timing: Timing, arch: Arch) -> Report:
    """Aggregate a timed entry point by graph operation, in the order in which operations begin.

    Words with a tag that the entry does not list appear as an operation called `tag N`.
    """
    sources = {s.tag: s for s in entry.sources}
    parts: dict[int, list[_OnTile]] = {}
    executed = 0
    for stream, t in zip(words, timing.tiles, strict=True):
        macs = _executed(arch, stream[: len(t.engine)])
        executed += int(macs.sum())
        order = np.argsort(np.where(t.engine == Engine.CTRL, -1, t.tag), kind="stable")
        order = order[np.count_nonzero(t.engine == Engine.CTRL) :]
        tags, first = np.unique(t.tag[order], return_index=True)
        for tag, pick in zip(tags.tolist(), np.split(order, first[1:]), strict=True):
            parts.setdefault(tag, []).append(_OnTile(t, macs, pick))
    rows = [
        _row(arch, sources.get(tag) or SourceOp(tag=tag, name=f"tag {tag}", kind="", nodes=(), macs=0), p)
        for tag, p in parts.items()
    ]
    stalls: dict[str, dict[str, int]] = {e.name: {} for e in Engine}
    for t in timing.tiles:
        for e, reasons in t.stalls.items():
            for reason, cycles in reasons.items():
                stalls[e.name][reason] = stalls[e.name].get(reason, 0) + cycles
    logical = sum(s.macs for s in entry.sources)
    return Report(
        arch=arch.name,
        arch_digest=arch.digest,
        entry=entry.name,
        clock_hz=arch.clock_hz,
        tiles=arch.tiles,
        peak_macs_per_cycle=arch.peak_macs_per_cycle,
        dram_bytes_per_cycle=arch.dram.bytes_per_cycle,
        cycles=timing.cycles,
        seconds=timing.seconds,
        words=sum(len(t.engine) for t in timing.tiles),
        logical_macs=logical,
        executed_macs=executed,
        utilisation=timing.utilisation(logical),
        executed_utilisation=timing.utilisation(executed),
        bytes_read=sum(t.bytes_read for t in timing.tiles),
        bytes_written=sum(t.bytes_written for t in timing.tiles),
        busy={e.name: [t.busy[e] for t in timing.tiles] for e in ENGINES},
        stalls=stalls,
        rows=tuple(sorted(rows, key=lambda r: (r.start, r.tag))),
        dram=None if timing.channels is None else _dram(timing.channels),
        not_modelled=timing.not_modelled,
    )
