"""Timing by graph operation: where cycles, multiply-accumulates and bytes go, and what bounds each operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from ..ir.arch import Arch
from ..ir.container import Entry, SourceOp
from ..ir.cost import L2_LINE, mm_k_tiles, mm_rows
from ..ir.isa import MM, Engine, Opcode, Words
from .dram.core import Counters as DramCounters
from .dram.core import L2Counters
from .energy import DEFAULT_NODE, Counts, Energy, Prices
from .idle import Idle
from .memory_map import MemoryMap, memory_map
from .occupancy import BINS, WAITING, Owned, bin_edges, busy_bins, by_tag, dram_bins, owned, owner_bins
from .plan import ENGINES
from .timing_result import DramTiming, TileTiming, Timing
from .traffic import BUFFERS, Traffic, traffic

Bound = Literal["mxu", "vpu", "memory", "sync"]
Ints = npt.NDArray[np.int64]
Stalls = dict[str, dict[str, int]]
"""Engine: reason: cycles, all tiles together."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Row(_Model):
    """One graph operation. Spans are those of its slowest tile; bytes, MACs, `own`, stalls and energy of all tiles.

    `own` divides the time: each cycle of each tile belongs to one operation (`occupancy.py`), so the sum over rows is
    tiles times cycles. Spans overlap, and `utilisation` and the roofline are over spans.
    `bound`: "sync" when none of its words runs for more than half of its span on the tile where the span is longest
    (it waits for tokens, latencies or another operation's use of the engines); else the busiest of MXU, VPU and memory
    (the busier of LOAD's and STORE's data phases, waiting for DRAM bandwidth included) on that tile.
    """

    tag: int
    name: str
    kind: str
    nodes: tuple[str, ...]
    shapes: tuple[str, ...]  # of its results, samples x tokens x channels
    tiling: str  # of its most frequent matrix word
    words: int
    logical_macs: int  # of the graph operation
    executed_macs: int  # counted from the decoded words, padding included
    start: int  # first word of it begins
    span: int  # cycles from there until all of it is visible
    own: int  # tile cycles that are this operation's
    waiting: int  # of these, cycles in which no word runs
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
    elements: int  # that the VPU works on
    sram_read: dict[str, int]  # buffer: bytes
    sram_written: dict[str, int]
    ran: dict[str, int]  # engine: cycles in which its words run
    idle: Stalls  # cycles in which an engine waits to begin a word of it (`idle.py`)
    energy: float  # J without leakage
    bound: Bound

    @property
    def dram_bytes(self) -> int:
        """Read and written."""
        return self.bytes_read + self.bytes_written

    @property
    def sram_bytes(self) -> int:
        """Read and written, all scratchpads."""
        return sum(self.sram_read.values()) + sum(self.sram_written.values())

    @property
    def work(self) -> int:
        """MACs, or VPU elements of an operation without MACs."""
        return self.executed_macs or self.elements


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


class L2Row(_Model):
    """The shared L2. Look-ups, one a line that a burst of a LOAD touches; bytes that tiles got, and from DRAM."""

    hits: int
    merged: int  # the line was asked for and not yet there
    misses: int
    bytes: int
    filled: int

    @property
    def hit_rate(self) -> float:
        """Look-ups that read nothing from DRAM, of all."""
        lookups = self.hits + self.merged + self.misses
        return (self.hits + self.merged) / lookups if lookups else 0.0


class DramReport(_Model):
    """The channels of a DRAM of bursts, and the L2 in front of it."""

    file: str  # of parameters
    clock_hz: float
    clocks: int  # until the last data passed the pins of any channel
    total: ChannelRow
    channels: tuple[ChannelRow, ...]
    l2: L2Row | None = None


class Occupancy(_Model):
    """The run in equal bins. Parts of a bin are between 0 and 1."""

    bins: int
    busy: dict[str, list[list[float]]]  # engine: tile: part of each bin
    dram: list[float]  # bytes a cycle
    runs: dict[str, list[float]]  # what the tiles' cycles are spent on, WAITING included; adds up to 1
    operation: list[int]  # index of the row that owns most of each bin


class Report(_Model):
    """One timed entry point. `dram`: only where the DRAM is modelled burst by burst.

    Sums over `rows` are the totals here: MACs, bytes, `own` with `unowned` (tiles times cycles), words with
    `control_words`, `energy` without leakage; and of each engine `ran`, `idle` and `finished` are together tiles times
    cycles.
    """

    arch: str
    arch_digest: str
    entry: str
    provenance: Literal["simulated"] = "simulated"
    clock_hz: float
    tiles: int
    lanes: int
    peak_macs_per_cycle: int
    dram_bytes_per_cycle: float  # of the arch: sustained
    dram_peak_bytes_per_cycle: float | None  # of the DRAM's pins, where a file describes them
    port_bytes_per_cycle: float  # of the DRAM ports of all tiles
    sram_bytes_per_cycle: float  # of all bank ports, one word each a cycle
    cycles: int
    seconds: float
    words: int
    control_words: int  # END
    unowned: int  # cycles of tiles on which nothing runs at all
    logical_macs: int
    executed_macs: int
    utilisation: float  # logical MACs over tiles * R * C * cycles
    executed_utilisation: float
    bytes_read: int
    bytes_written: int
    busy: dict[str, list[int]]  # engine: cycles on each tile
    stalls: Stalls
    finished: dict[str, int]  # engine: cycles after its last word
    rows: tuple[Row, ...]
    occupancy: Occupancy
    memory: MemoryMap
    energy: Energy
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


class _OnTile:
    """One operation on one tile: `pick` are its words."""

    def __init__(self, t: TileTiming, work: Traffic, idle: Idle, pick: npt.NDArray[np.intp]) -> None:
        engine, begin, issued = t.engine[pick], t.begin[pick], t.issued[pick]
        took = issued - begin
        self.words = len(pick)
        self.start, self.end = int(begin.min()), int(t.visible[pick].max())
        self.active = covered(begin, issued)
        self.busy = {e: int(took[engine == e].sum()) for e in ENGINES}
        self.read = int(t.payload[pick][engine == Engine.LOAD].sum())
        self.written = int(t.payload[pick][engine == Engine.STORE].sum())
        self.elements = int(work.elements[pick].sum())
        self.sram_read = {b.name: int(work.read[b][pick].sum()) for b in BUFFERS}
        self.sram_written = {b.name: int(work.written[b][pick].sum()) for b in BUFFERS}
        self.counts = Counts(
            macs=int(work.macs[pick].sum()),
            multiplications=int(work.multiplications[pick].sum()),
            additions=int(work.additions[pick].sum()),
            sram={b: n + self.sram_written[b] for b, n in self.sram_read.items()},
            dram_bytes=int(t.bus[pick].sum()),
        )
        self.ran = {e.name: int(idle.ran[pick][engine == e].sum()) for e in ENGINES}
        self.idle = {key: int(cycles[pick].sum()) for key, cycles in idle.waits.items()}

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


def _summed(counts: Sequence[Counts]) -> Counts:
    return Counts(
        macs=sum(c.macs for c in counts),
        multiplications=sum(c.multiplications for c in counts),
        additions=sum(c.additions for c in counts),
        sram={b.name: sum(c.sram.get(b.name, 0) for c in counts) for b in BUFFERS},
        dram_bytes=sum(c.dram_bytes for c in counts),
    )


def _nested(stalls: Mapping[tuple[str, str], int]) -> Stalls:
    found: Stalls = {}
    for (engine, reason), cycles in stalls.items():
        if cycles:
            found.setdefault(engine, {})[reason] = cycles
    return found


class _Rows:
    """Gathers what the tiles did by operation."""

    def __init__(self, arch: Arch, timing: Timing, words: Sequence[Words], prices: Prices) -> None:
        self.arch, self.prices = arch, prices
        self.words = [w[: len(t.engine)] for w, t in zip(words, timing.tiles, strict=True)]
        self.tilings = self._tilings()
        self.parts: dict[int, list[_OnTile]] = {}
        self.own: dict[int, int] = {}
        self.waiting: dict[int, int] = {}
        self.owned: list[Owned] = []
        self.finished = {e.name: 0 for e in ENGINES}
        for number, (stream, t) in enumerate(zip(self.words, timing.tiles, strict=True)):
            work, idle = traffic(arch, stream), Idle(arch, words, timing, number)
            for name, n in idle.finished.items():
                self.finished[name] += n
            for tag, pick in by_tag(np.where(t.engine == Engine.CTRL, -1, t.tag)):
                if tag >= 0:
                    self.parts.setdefault(tag, []).append(_OnTile(t, work, idle, pick))
            mine = owned(t, timing.cycles)
            self.owned.append(mine)
            for into, some in ((self.own, slice(None)), (self.waiting, mine.engine == WAITING)):
                tags, at = np.unique(mine.tag[some], return_inverse=True)
                cycles = np.zeros(len(tags), np.int64)
                np.add.at(cycles, at, (mine.end - mine.begin)[some])
                for tag, n in zip(tags.tolist(), cycles.tolist(), strict=True):
                    into[tag] = into.get(tag, 0) + n

    def _tilings(self) -> dict[int, str]:
        """How the matrix words of each operation divide it: the most frequent one, and how many there are."""
        found: dict[int, dict[tuple[int, int, int], int]] = {}
        for stream in self.words:
            mm = stream[stream["opcode"] == Opcode.MM].view(MM)
            columns = (mm["tag"].astype(np.int64), mm_rows(mm), mm["nn"].astype(np.int64), mm_k_tiles(mm))
            shapes, counts = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
            for (tag, rows, nn, k), n in zip(shapes.tolist(), counts.tolist(), strict=True):
                mine = found.setdefault(tag, {})
                mine[rows, nn, k] = mine.get((rows, nn, k), 0) + n
        texts = {}
        for tag, shape in found.items():
            (rows, nn, k), n = max(shape.items(), key=lambda x: (x[1], x[0]))
            size = f"{rows} row{'s' if rows != 1 else ''} x {nn * self.arch.cols} columns x {k * self.arch.rows} deep"
            texts[tag] = f"{size}, {n} of {sum(shape.values())} MM words"
        return texts

    def row(self, source: SourceOp) -> Row:
        parts, arch, tag = self.parts.get(source.tag, []), self.arch, source.tag
        start = min((p.start for p in parts), default=0)
        span = max((p.end for p in parts), default=0) - start
        longest = max(parts, key=lambda p: p.span, default=None)
        counts = _summed([p.counts for p in parts])
        read, written = sum(p.read for p in parts), sum(p.written for p in parts)
        busy = {e: max((p.busy[e] for p in parts), default=0) for e in ENGINES}
        peak = arch.peak_macs_per_cycle
        waits: dict[tuple[str, str], int] = {}
        for p in parts:
            for key, cycles in p.idle.items():
                waits[key] = waits.get(key, 0) + cycles
        return Row(
            tag=tag,
            name=source.name,
            kind=source.kind,
            nodes=source.nodes,
            shapes=tuple("x".join(map(str, o.shape)) + f" {o.dtype}" for o in source.outputs),
            tiling=self.tilings.get(tag, ""),
            words=sum(p.words for p in parts),
            logical_macs=source.macs,
            executed_macs=counts.macs,
            start=start,
            span=span,
            own=self.own.get(tag, 0),
            waiting=self.waiting.get(tag, 0),
            active=longest.active if longest else 0,
            mxu_busy=busy[Engine.MXU],
            vpu_busy=busy[Engine.VPU],
            load_busy=busy[Engine.LOAD],
            store_busy=busy[Engine.STORE],
            utilisation=counts.macs / (peak * span) if span else 0.0,
            mxu_utilisation=counts.macs / (peak * busy[Engine.MXU]) if busy[Engine.MXU] else 0.0,
            bytes_read=read,
            bytes_written=written,
            intensity=counts.macs / (read + written) if read + written else 0.0,
            elements=sum(p.elements for p in parts),
            sram_read={b.name: sum(p.sram_read[b.name] for p in parts) for b in BUFFERS},
            sram_written={b.name: sum(p.sram_written[b.name] for p in parts) for b in BUFFERS},
            ran={e.name: sum(p.ran[e.name] for p in parts) for e in ENGINES},
            idle=_nested(waits),
            energy=self.prices.dynamic(counts),
            bound=longest.bound if longest else "sync",
        )


def _channel(c: DramCounters) -> ChannelRow:
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


def _l2(c: L2Counters) -> L2Row:
    return L2Row(**c._asdict(), filled=c.misses * L2_LINE)


def _dram(d: DramTiming) -> DramReport:
    return DramReport(
        file=d.file.name,
        clock_hz=float(d.file.clock),
        clocks=d.total.last,
        total=_channel(d.total),
        channels=tuple(_channel(c) for c in d.channels),
        l2=None if d.l2 is None else _l2(d.l2),
    )


def sram_rate(arch: Arch) -> float:
    """Bytes a cycle of all bank ports: every bank reads and writes a word each cycle (PARAM: a beat of 64 bytes)."""
    size = arch.word_bytes | {"param": 64}
    return float(arch.tiles * sum(2 * getattr(arch.buffers, b).banks * size[b] for b in size))


def profile(
    entry: Entry,
    words: Sequence[Words],
    timing: Timing,
    arch: Arch,
    base_bytes: Mapping[int, int] | None = None,
    node_nm: int = DEFAULT_NODE,
) -> Report:
    """Aggregate a timed entry point by graph operation, in the order in which operations begin.

    Words with a tag that the entry does not list appear as an operation called `tag N`; operations without words have a
    row of zeros, so that logical MACs add up. `base_bytes` are the sizes of the program's regions.
    """
    prices = Prices(arch, node_nm)
    gathered = _Rows(arch, timing, words, prices)
    sources = {s.tag: s for s in entry.sources}
    for tag in gathered.parts:
        sources.setdefault(tag, SourceOp(tag=tag, name=f"tag {tag}", kind="", nodes=(), macs=0))
    rows = sorted((gathered.row(s) for s in sources.values()), key=lambda r: (not r.words, r.start, r.tag))
    stalls: Stalls = {e.name: {} for e in Engine}
    for t in timing.tiles:
        for e, reasons in t.stalls.items():
            for reason, cycles in reasons.items():
                stalls[e.name][reason] = stalls[e.name].get(reason, 0) + cycles
    logical = sum(s.macs for s in entry.sources)
    counts = _summed([p.counts for parts in gathered.parts.values() for p in parts])
    channels = timing.channels
    return Report(
        arch=arch.name,
        arch_digest=arch.digest,
        entry=entry.name,
        clock_hz=arch.clock_hz,
        tiles=arch.tiles,
        lanes=arch.lanes,
        peak_macs_per_cycle=arch.peak_macs_per_cycle,
        dram_bytes_per_cycle=arch.dram.bytes_per_cycle,
        dram_peak_bytes_per_cycle=float(channels.file.peak_bytes_per_second) / arch.clock_hz if channels else None,
        port_bytes_per_cycle=arch.tiles * arch.dram.port_bytes_per_cycle,
        sram_bytes_per_cycle=sram_rate(arch),
        cycles=timing.cycles,
        seconds=timing.seconds,
        words=sum(len(t.engine) for t in timing.tiles),
        control_words=sum(int((t.engine == Engine.CTRL).sum()) for t in timing.tiles),
        unowned=gathered.own.get(-1, 0),
        logical_macs=logical,
        executed_macs=timing.executed_macs,
        utilisation=timing.utilisation(logical),
        executed_utilisation=timing.utilisation(),
        bytes_read=sum(t.bytes_read for t in timing.tiles),
        bytes_written=sum(t.bytes_written for t in timing.tiles),
        busy={e.name: [t.busy[e] for t in timing.tiles] for e in ENGINES},
        stalls=stalls,
        finished=gathered.finished,
        rows=tuple(rows),
        occupancy=_occupancy(timing, gathered.owned, [r.tag for r in rows]),
        memory=memory_map(arch, entry, words, timing, base_bytes),
        energy=prices.energy(counts, timing.seconds, f"entry {entry.name}, arch {arch.name} {arch.digest}"),
        dram=None if channels is None else _dram(channels),
        not_modelled=timing.not_modelled,
    )


def _occupancy(timing: Timing, parts: list[Owned], tags: list[int]) -> Occupancy:
    runs, most = owner_bins(parts, bin_edges(timing.cycles, BINS))
    at = {tag: i for i, tag in enumerate(tags)}
    return Occupancy(
        bins=BINS,
        busy=busy_bins(timing),
        dram=dram_bins(timing),
        runs=runs,
        operation=[at.get(tag, -1) for tag in most],
    )
