"""The trace and the report of a program's timed entries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from ..errors import DpuError
from ..files import atomic_write
from ..ir.container import Entry, Program
from ..simulator import report as page
from ..simulator.profile import profile
from ..simulator.timing_result import Timing
from ..simulator.trace import trace_events

_PROGRAM = 1000  # its process number in a trace; tiles and DRAM count from 0


def write_trace(path: Path, program: Program, timings: Mapping[str, Timing]) -> None:
    """One run of each timed entry, one after the other, as a Chrome trace.

    Raises:
        DpuError: the folder cannot be written.
    """
    events: list[dict[str, object]] = [
        {"ph": "M", "name": "process_name", "pid": _PROGRAM, "args": {"name": "program"}},
        {"ph": "M", "name": "process_sort_index", "pid": _PROGRAM, "args": {"sort_index": -1}},
        {"ph": "M", "name": "thread_name", "pid": _PROGRAM, "tid": 0, "args": {"name": "entry points"}},
    ]
    at, cycles = 0.0, {}
    missing: dict[str, None] = {}
    for entry in program.entries:
        if entry.name not in timings:
            continue
        timing = timings[entry.name]
        events.append(_entry_span(entry, timing, at))
        for event in trace_events(timing, entry):
            start = event.get("ts")
            events.append({**event, "ts": start + at} if isinstance(start, int | float) else event)
        at += 1e6 * timing.seconds
        cycles[entry.name] = timing.cycles
        missing |= dict.fromkeys(timing.not_modelled)
    document = {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "arch": program.arch.name,
            "cycles": cycles,
            "provenance": "simulated",
            "not modelled": list(missing),
        },
    }
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")


def _entry_span(entry: Entry, timing: Timing, at: float) -> dict[str, object]:
    """The whole run of an entry on a track of its own, above those of the tiles."""
    args = {"cycles": timing.cycles, "runs": "once an image" if entry.once else "once a step"}
    place = {"pid": _PROGRAM, "tid": 0, "ts": at, "dur": 1e6 * timing.seconds}
    return {"ph": "X", "name": f"entry {entry.name}", "cat": "entry", **place, "args": args}


def write_report(folder: Path, program: Program, timings: Mapping[str, Timing]) -> None:
    """`report.json` and `report.html` of each timed entry, in a subfolder of `folder` with its name, and an index.

    Raises:
        DpuError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise DpuError(str(folder), f"cannot make this folder ({e.strerror})", code="E101") from e
    found = []
    for entry in program.entries:
        if entry.name in timings:
            found.append(profile(entry, program.words[entry.name], timings[entry.name], program.arch))
            page.write_report(found[-1], folder / entry.name)
    with atomic_write(folder / "index.html") as temporary:
        temporary.write_text(page.index_html(found), encoding="utf-8")
