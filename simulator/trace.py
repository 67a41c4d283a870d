"""A timed program as a Chrome trace, which https://ui.perfetto.dev opens: one process a tile, one track an engine.

Two levels of detail. `instructions` has a span for every word. `ops` has one for each graph operation and engine, from
its first word to its last; where the words of two operations alternate, the later span is on a further track.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from ..ir.container import Entry
from ..ir.isa import Engine
from .plan import ENGINES
from .timing_result import TileTiming, Timing
from .trace_file import write_events

Event = dict[str, object]
Events = Callable[[Timing, Entry], Iterator[Event]]

DRAM_POINTS = 4000  # of the DRAM rate at level `ops`; more are averaged
_LANES = 8  # track numbers an engine has in level `ops`


def instruction_events(timing: Timing, entry: Entry) -> Iterator[Event]:
    """The `traceEvents` with a span for each word, named by its graph operation; times in microseconds."""
    sources = {s.tag: s for s in entry.sources}
    unit = 1e6 / timing.arch.clock_hz
    for t, tile in enumerate(timing.tiles):
        yield from _tracks(t, {int(e): e.name for e in ENGINES})
        columns = (tile.engine, tile.tag, tile.start, tile.begin, tile.issued, tile.visible, tile.macs, tile.payload)
        for i, (engine, tag, start, begin, issued, visible, macs, payload) in enumerate(
            zip(*(c.tolist() for c in columns), strict=True)
        ):
            if engine == Engine.CTRL:
                continue
            source = sources.get(tag)
            args: Event = {"word": i, "tag": tag, "start": start, "begin": begin, "visible": visible}
            if source is not None:
                args |= {"kind": source.kind, "nodes": list(source.nodes)}
            if macs:
                args["macs"] = macs
            if payload:
                args["bytes"] = payload
            yield {
                "ph": "X",
                "name": source.name if source is not None else f"tag {tag}",
                "cat": Engine(engine).name,
                "pid": t,
                "tid": engine,
                "ts": begin * unit,
                "dur": (issued - begin) * unit,
                "args": args,
            }
    yield from _dram(timing, timing.dram, unit)


def op_events(timing: Timing, entry: Entry) -> Iterator[Event]:
    """The `traceEvents` with a span for each graph operation and engine of a tile."""
    sources = {s.tag: s for s in entry.sources}
    unit = 1e6 / timing.arch.clock_hz
    for t, tile in enumerate(timing.tiles):
        names: dict[int, str] = {}
        spans: list[Event] = []
        for engine in ENGINES:
            ends: list[int] = []
            for tag, begin, end, work in _op_spans(tile, engine):
                lane = next((i for i, e in enumerate(ends) if e <= begin), len(ends))
                lane = min(lane, _LANES - 1)
                ends[lane : lane + 1] = [end]
                track = int(engine) if not lane else 8 + int(engine) * _LANES + lane
                names[track] = engine.name if not lane else f"{engine.name} +{lane}"
                source = sources.get(tag)
                args: Event = {"tag": tag, **work}
                if source is not None:
                    args |= {"kind": source.kind} | ({"nodes": list(source.nodes)} if not t else {})
                spans.append(
                    {
                        "ph": "X",
                        "name": source.name if source is not None else f"tag {tag}",
                        "cat": engine.name,
                        "pid": t,
                        "tid": track,
                        "ts": begin * unit,
                        "dur": (end - begin) * unit,
                        "args": args,
                    }
                )
        yield from _tracks(t, names)
        yield from spans
    yield from _dram(timing, _averaged(timing, DRAM_POINTS), unit)


def _op_spans(tile: TileTiming, engine: Engine) -> list[tuple[int, int, int, dict[str, int]]]:
    """(tag, first begin, last issue, work) of each operation that has words of `engine`, by first begin."""
    mine = np.flatnonzero(tile.engine == int(engine))
    if not len(mine):
        return []
    tags, at, words = np.unique(tile.tag[mine], return_inverse=True, return_counts=True)
    begin = np.full(len(tags), np.iinfo(np.int64).max)
    end = np.zeros(len(tags), np.int64)
    np.minimum.at(begin, at, tile.begin[mine])
    np.maximum.at(end, at, tile.issued[mine])
    sums = [np.zeros(len(tags), np.int64) for _ in range(3)]
    for total, what in zip(
        sums, (tile.issued[mine] - tile.begin[mine], tile.macs[mine], tile.payload[mine]), strict=True
    ):
        np.add.at(total, at, what)
    columns = (tags, begin, end, words, *sums)
    found = []
    for tag, b, e, n, busy, macs, size in zip(*(c.tolist() for c in columns), strict=True):
        work = {"words": n, "busy": busy} | ({"macs": macs} if macs else {}) | ({"bytes": size} if size else {})
        found.append((tag, b, e, work))
    return sorted(found, key=lambda x: (x[1], x[0]))


def _tracks(pid: int, names: dict[int, str]) -> Iterator[Event]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": f"tile {pid}"}}
    for tid, name in sorted(names.items()):
        order = tid if tid < 8 else (tid - 8) // _LANES  # further tracks below that of their engine
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": order}}


def _averaged(timing: Timing, points: int) -> list[tuple[int, float]]:
    """The DRAM rate as it is, or its mean over so many equal stretches."""
    if len(timing.dram) <= points:
        return timing.dram
    cycle, rate = (np.array(c, np.float64) for c in zip(*timing.dram, strict=True))
    ends = np.append(cycle[1:], max(float(timing.cycles), float(cycle[-1])))
    moved = np.concatenate([[0.0], np.cumsum(rate * (ends - cycle))])  # bytes until each change
    edges = np.linspace(0, ends[-1], points + 1)
    until = np.interp(edges, np.append(cycle, ends[-1]), moved)
    return list(zip(edges[:-1].astype(int).tolist(), (np.diff(until) / np.diff(edges)).tolist(), strict=True))


def _dram(timing: Timing, rates: list[tuple[int, float]], unit: float) -> Iterator[Event]:
    memory = len(timing.tiles)
    yield {"ph": "M", "name": "process_name", "pid": memory, "args": {"name": "DRAM"}}
    for cycle, rate in rates:
        yield {"ph": "C", "name": "bytes/cycle", "pid": memory, "ts": cycle * unit, "args": {"rate": round(rate, 6)}}


def trace_events(timing: Timing, entry: Entry) -> list[Event]:
    """All events of level `instructions`."""
    return list(instruction_events(timing, entry))


def write_trace(path: Path | str, timing: Timing, entry: Entry, detail: str = "auto") -> str:
    """Write the trace of one entry, atomically, compressed if the name ends in `.gz`; the level that was written.

    Raises:
        DpuError: the folder cannot be written.
    """
    about: Event = {
        "arch": timing.arch.name,
        "entry": entry.name,
        "cycles": timing.cycles,
        "provenance": "simulated",
        "not modelled": list(timing.not_modelled),
    }
    levels: dict[str, Callable[[], Iterator[Event]]] = {
        "instructions": lambda: instruction_events(timing, entry),
        "ops": lambda: op_events(timing, entry),
    }
    words = sum(len(t.tag) for t in timing.tiles) + len(timing.dram)
    return write_events(Path(path), levels, about, detail, {"instructions": words})
