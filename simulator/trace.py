"""A timed program as a Chrome trace, which https://ui.perfetto.dev opens: one process a tile, one track an engine."""

from __future__ import annotations

import json
from pathlib import Path

from ..files import atomic_write
from ..ir.container import Entry
from ..ir.isa import Engine
from .plan import ENGINES
from .timing_result import Timing


def trace_events(timing: Timing, entry: Entry) -> list[dict[str, object]]:
    """The `traceEvents`: a span for each word, named by its graph operation; times in microseconds."""
    sources = {s.tag: s for s in entry.sources}
    unit = 1e6 / timing.arch.clock_hz
    events: list[dict[str, object]] = []
    for t, tile in enumerate(timing.tiles):
        events.append({"ph": "M", "name": "process_name", "pid": t, "args": {"name": f"tile {t}"}})
        for e in ENGINES:
            events.append({"ph": "M", "name": "thread_name", "pid": t, "tid": int(e), "args": {"name": e.name}})
            events.append(
                {"ph": "M", "name": "thread_sort_index", "pid": t, "tid": int(e), "args": {"sort_index": int(e)}}
            )
        columns = (tile.engine, tile.tag, tile.start, tile.begin, tile.issued, tile.visible, tile.macs, tile.payload)
        for i, (engine, tag, start, begin, issued, visible, macs, payload) in enumerate(
            zip(*(c.tolist() for c in columns), strict=True)
        ):
            if engine == Engine.CTRL:
                continue
            source = sources.get(tag)
            args: dict[str, object] = {"word": i, "tag": tag, "start": start, "begin": begin, "visible": visible}
            if source is not None:
                args |= {"kind": source.kind, "nodes": list(source.nodes)}
            if macs:
                args["macs"] = macs
            if payload:
                args["bytes"] = payload
            events.append(
                {
                    "ph": "X",
                    "name": source.name if source is not None else f"tag {tag}",
                    "cat": Engine(engine).name,
                    "pid": t,
                    "tid": engine,
                    "ts": begin * unit,
                    "dur": (issued - begin) * unit,
                    "args": args,
                }
            )
    memory = len(timing.tiles)
    events.append({"ph": "M", "name": "process_name", "pid": memory, "args": {"name": "DRAM"}})
    for cycle, rate in timing.dram:
        events.append(
            {"ph": "C", "name": "bytes/cycle", "pid": memory, "ts": cycle * unit, "args": {"rate": round(rate, 6)}}
        )
    return events


def write_trace(path: Path | str, timing: Timing, entry: Entry) -> None:
    """Write the trace, atomically.

    Raises:
        DpuError: the folder cannot be written.
    """
    document = {
        "traceEvents": trace_events(timing, entry),
        "displayTimeUnit": "ns",
        "otherData": {
            "arch": timing.arch.name,
            "entry": entry.name,
            "cycles": timing.cycles,
            "provenance": "simulated",
            "not modelled": list(timing.not_modelled),
        },
    }
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")
