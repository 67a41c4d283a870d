"""The trace and the report of a program's timed entries, and reports of programs that are not run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ..errors import DpuError
from ..files import atomic_write
from ..ir.container import Entry, Program
from ..simulator import energy
from ..simulator import report as files
from ..simulator.compare import compare, compare_page, compare_text
from ..simulator.profile import profile
from ..simulator.timing import simulate
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


def program_report(
    program: Program, timings: Mapping[str, Timing], node_nm: int = energy.DEFAULT_NODE
) -> files.ProgramReport:
    """The report of each timed entry, in the program's order."""
    return files.ProgramReport.of(
        [
            profile(e, program.words[e.name], timings[e.name], program.arch, program.base_bytes, node_nm)
            for e in program.entries
            if e.name in timings
        ]
    )


def write_report(folder: Path, program: Program, timings: Mapping[str, Timing]) -> None:
    """`report.json`, `report.html` and `roofline.png` of the timed entries.

    Raises:
        DpuError: the folder cannot be written.
    """
    files.make_folder(folder, parents=True)
    files.write_report(program_report(program, timings), folder)


Progress = Callable[[int, int], None]


def time_program(
    path: Path, entries: Sequence[str] = (), node_nm: int = energy.DEFAULT_NODE, progress: Progress | None = None
) -> files.ProgramReport:
    """Time a `.dpu` file without running it; of `entries`, or all.

    Raises:
        DpuError: the file is no program, or there is no such entry or node.
    """
    from ..codegen.dpufile import load

    if node_nm not in energy.NODES:
        known = ", ".join(map(str, energy.NODES))
        raise DpuError("--node", f"there are no constants for {node_nm} nm", hint=f"one of {known}", code="E501")
    program = load(path, verify=False)
    names = [e.name for e in program.entries]
    for name in entries:
        if name not in names:
            raise DpuError("--entry", f"no entry '{name}'", hint=f"one of {', '.join(names)}", code="E501")
    chosen = [n for n in names if n in entries or not entries]
    timings = {}
    for i, name in enumerate(chosen):
        if progress is not None:
            progress(i, len(chosen))
        timings[name] = simulate(program.arch, program.words[name], name)
    if progress is not None:
        progress(len(chosen), len(chosen))
    return program_report(program, timings, node_nm)


def report_command(
    program: Path | None,
    out: Path | None,
    entries: Sequence[str],
    node_nm: int,
    pair: tuple[Path, Path] | None,
    progress: Progress | None = None,
) -> str:
    """What `dpuc report` does; what it prints.

    Raises:
        DpuError: the arguments do not go together, or a file is not what it should be.
    """
    if program is None and pair is None:
        hint = "give a .dpu file, or --compare A B"
        raise DpuError("PROGRAM", "there is nothing to report", hint=hint, code="E501")
    if program is not None and out is None:
        raise DpuError("--out", "a report needs a folder", hint="-o DIR", code="E501")

    def report_of(path: Path) -> files.ProgramReport:
        if path.suffix == ".dpu":
            return time_program(path, entries, node_nm, progress)
        return files.load_report(path)

    said = []
    made = None
    if pair is not None:  # first: B may be a report in the folder that is written
        made = compare(report_of(pair[0]), report_of(pair[1]), (str(pair[0]), str(pair[1])))
        said.append(compare_text(made))
    if program is not None and out is not None:
        found = time_program(program, entries, node_nm, progress)
        files.make_folder(out, parents=True)
        files.write_report(found, out)
        said += [_summary(found), f"wrote {out}/report.html, report.json, roofline.png"]
    if made is not None and out is not None:
        files.make_folder(out, parents=True)
        with atomic_write(out / "compare.html") as place:
            place.write_text(compare_page(made), encoding="utf-8")
        said.append(f"wrote {out}/compare.html")
    return "\n".join(said)


def _summary(report: files.ProgramReport) -> str:
    """One line an entry."""
    lines = [f"{'entry':16} {'Mcycles':>9} {'ms':>9} {'used':>7} {'DRAM MB':>9} {'mJ':>9}  most of the time"]
    for e in report.entries:
        top = max(e.rows, key=lambda r: r.own, default=None)
        share = f"{top.name} {100 * top.own / max(1, e.tiles * e.cycles):.1f} %" if top else ""
        moved = (e.bytes_read + e.bytes_written) / 1e6
        lines.append(
            f"{e.entry:16} {e.cycles / 1e6:9.3f} {1e3 * e.seconds:9.3f} {100 * e.executed_utilisation:5.1f} % "
            f"{moved:9.3f} {1e3 * e.energy.total.value:9.4f}  {share}"
        )
    node = report.entries[0].energy.node_nm if report.entries else energy.DEFAULT_NODE
    lines.append(f"one run of each on {report.arch}: cycles simulated, energy assumed (constants at {node} nm)")
    return "\n".join(lines)
