"""The trace and the report of a program's timed entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ..errors import DpuError
from ..files import atomic_write
from ..ir.container import Entry, Program
from ..simulator import report as page
from ..simulator.profile import profile
from ..simulator.timing_result import Timing
from ..simulator.trace import Event, Events, instruction_events, op_events
from ..simulator.trace_file import write_events

_PROGRAM = 1000  # its process number in a trace; tiles and DRAM count from 0


def write_trace(path: Path, program: Program, timings: Mapping[str, Timing], detail: str = "auto") -> str:
    """One run of each timed entry, one after the other, as a Chrome trace; the level of detail that was written.

    A name that ends in `.gz` is compressed. Of the levels see `simulator/trace.py`.

    Raises:
        DpuError: no such level, or the folder cannot be written.
    """
    timed = [e for e in program.entries if e.name in timings]
    missing = dict.fromkeys(text for e in timed for text in timings[e.name].not_modelled)
    about: dict[str, object] = {
        "arch": program.arch.name,
        "cycles": {e.name: timings[e.name].cycles for e in timed},
        "provenance": "simulated",
        "not modelled": list(missing),
    }

    def events(level: Events) -> Iterator[Event]:
        yield {"ph": "M", "name": "process_name", "pid": _PROGRAM, "args": {"name": "program"}}
        yield {"ph": "M", "name": "process_sort_index", "pid": _PROGRAM, "args": {"sort_index": -1}}
        yield {"ph": "M", "name": "thread_name", "pid": _PROGRAM, "tid": 0, "args": {"name": "entry points"}}
        at = 0.0
        for entry in timed:
            timing = timings[entry.name]
            yield _entry_span(entry, timing, at)
            for event in level(timing, entry):
                start = event.get("ts")
                yield {**event, "ts": start + at} if isinstance(start, int | float) else event
            at += 1e6 * timing.seconds

    words = sum(len(t.tag) for e in timed for t in timings[e.name].tiles) + sum(
        len(timings[e.name].dram) for e in timed
    )
    levels = {"instructions": lambda: events(instruction_events), "ops": lambda: events(op_events)}
    return write_events(path, levels, about, detail, {"instructions": words})


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
