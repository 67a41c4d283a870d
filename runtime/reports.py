"""The trace and the report of a program's timed entries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from ..errors import DpuError
from ..files import atomic_write
from ..ir.container import Program
from ..simulator import report as page
from ..simulator.profile import profile
from ..simulator.timing_result import Timing
from ..simulator.trace import trace_events


def write_trace(path: Path, program: Program, timings: Mapping[str, Timing]) -> None:
    """One run of each timed entry, one after the other, as a Chrome trace.

    Raises:
        DpuError: the folder cannot be written.
    """
    events: list[dict[str, object]] = []
    at, cycles = 0.0, {}
    missing: dict[str, None] = {}
    for entry in program.entries:
        if entry.name not in timings:
            continue
        timing = timings[entry.name]
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


def write_report(folder: Path, program: Program, timings: Mapping[str, Timing]) -> None:
    """`report.json` and `report.html` of each timed entry, in a subfolder of `folder` with its name.

    Raises:
        DpuError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise DpuError(str(folder), f"cannot make this folder ({e.strerror})", code="E101") from e
    for entry in program.entries:
        if entry.name in timings:
            found = profile(entry, program.words[entry.name], timings[entry.name], program.arch)
            page.write_report(found, folder / entry.name)
