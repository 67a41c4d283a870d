"""Full-size SDXL on the timing simulation: what each entry, each class of layers and a whole image take on an arch.

Each entry of the programs is simulated and profiled (`simulator/profile.py`). Two accounts add up to tiles x cycles:

- `Spent.own`: a cycle belongs to the operation whose word runs on the MXU, else VPU, LOAD, STORE, else to the one that
  begins next (`simulator/occupancy.py`);
- `EntryTable.engines`: an engine runs, waits to begin a word for the first reason that holds, or has finished
  (`simulator/idle.py`); that of the MXU is also there by class of layers (`Spent.waits`).

An image is what `runtime/pipeline.py` submits: text encoders once (without a negative prompt its conditioning is
zeros, `force_zeros_for_empty_prompt`), `context` once, `time` and `unet` in each model call of the scheduler, the VAE
decoder once. Entries run one after another; work of the host is not in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..codegen.dpufile import load
from ..errors import DpuError
from ..evidence import Provenance
from ..files import sha256
from ..ir.arch import Arch, load_arch
from ..ir.container import Entry, Program
from ..ir.isa import Engine
from ..simulator.economics.workload import runs_of
from ..simulator.occupancy import WAITING, owned
from ..simulator.profile import Report, profile
from ..simulator.timing import simulate
from ..simulator.timing_result import Timing
from .rates import Result
from .resumed import read_record
from .sizes import SIZES, Case, compiled_case

ENTRIES = ("text_encoder", "text_encoder_2", "context", "time", "unet", "vae_decoder")
"""What an image needs, in the order of the table."""
SCHEDULERS = {"Euler": "EulerDiscreteScheduler", "DPM++ 2M": "DPMSolverMultistepScheduler"}
"""Name: class of diffusers. They differ in work of the host, and in how often they call the UNet."""
STEPS = (20, 30, 50)
CLASSES = {
    "dpu.q.conv": "conv",
    "dpu.q.linear": "linear",
    "dpu.q.attention": "attention",
    "dpu.q.group_norm": "norm",
    "dpu.q.quantise": "elementwise",
    "dpu.q.centre": "elementwise",
    "dpu.q.silu": "elementwise",
    "table": "tables",
}
"""Kind of a graph operation: class. Other norms, activations, gates and sums are part of the products they follow."""
NOTHING = "nothing"  # no engine runs

Say = Callable[[str], None]


class Spent(Result):
    """One class of layers in one run of an entry, all tiles together."""

    operations: int
    logical_macs: int
    executed_macs: int
    bytes_read: int
    bytes_written: int
    own: dict[str, int]  # what runs: tile cycles. MXU first, then VPU, LOAD, STORE; or nothing
    waits: dict[str, int]  # reason: tile cycles in which the MXU waits to begin a word of this class


class EntryTable(Result):
    """One run of an entry. MACs, bytes and words are of all tiles."""

    entry: str
    inputs: dict[str, str]  # that the host writes: samples x tokens x channels
    cycles: int
    seconds: float
    words: int
    logical_macs: int
    executed_macs: int
    utilisation: float  # logical MACs over tiles * R * C * cycles
    executed_utilisation: float
    bytes_read: int  # by LOAD words
    bytes_written: int  # by STORE words
    dram_read: int  # at the DRAM's pins, in whole beats, where bursts are modelled; else the same as `bytes_read`
    dram_written: int
    l2_hit_rate: float | None  # look-ups that read nothing from DRAM, of all; none without a modelled L2
    engines: dict[str, dict[str, int]]  # engine: runs, reasons to wait, finished; each adds up to tiles * cycles
    classes: dict[str, Spent]
    simulate_cpu_seconds: float

    @property
    def bytes(self) -> int:
        """DRAM bytes, read and written."""
        return self.dram_read + self.dram_written

    @property
    def tile_cycles(self) -> int:
        """Tiles times cycles."""
        return sum(self.engines["MXU"].values())

    def idle(self) -> dict[str, int]:
        """Reason: tile cycles in which the array does not run."""
        return {k: n for k, n in self.engines["MXU"].items() if k != "runs"}


class ImageTable(Result):
    """One image: `calls` runs of `time` and `unet`, one of the others."""

    scheduler: str
    steps: int
    calls: int
    cycles: int
    seconds: float
    bytes: int
    logical_macs: int
    utilisation: float


class Source(Result):
    """Where entries come from: a `.dpu` file, or a graph that was compiled here without weights."""

    name: str
    sha256: str
    entries: tuple[str, ...]


class ArchTable(Result):
    """All entries of one arch. `missing`: those without which there is no image."""

    arch: str
    arch_digest: str
    commit: str
    command: str
    tiles: int
    peak_macs_per_cycle: int
    clock_hz: float
    dram: str
    dram_bytes_per_second: float  # sustained, of the arch file
    sources: tuple[Source, ...]
    entries: tuple[EntryTable, ...]
    missing: tuple[str, ...]
    images: tuple[ImageTable, ...]
    not_modelled: tuple[str, ...]

    def runs(self, calls: int) -> Iterator[tuple[int, EntryTable]]:
        """(runs in an image, entry)."""
        for e in self.entries:
            yield runs_of(e.entry, calls), e


UNITS = {
    "own, waits, engines": "tile cycles: of all tiles together",
    "simulate_cpu_seconds": "s of the simulating process, measured on a shared computer",
}


class ImageTables(Result):
    """All archs."""

    provenance: str = Provenance.SIMULATED.label
    units: dict[str, str] = UNITS
    archs: tuple[ArchTable, ...] = ()


def model_calls(scheduler: str, steps: int) -> int:
    """UNet calls that a scheduler of diffusers makes in `steps` steps."""
    import diffusers

    made = getattr(diffusers, SCHEDULERS[scheduler])()
    made.set_timesteps(steps)
    return len(made.timesteps)


def of_entry(program: Program, entry: Entry) -> tuple[EntryTable, tuple[str, ...]]:
    """Simulate one entry; its table and what the model leaves out."""
    arch, words = program.arch, program.words[entry.name]
    start = time.process_time()
    timing = simulate(arch, words, entry.name)
    seconds = time.process_time() - start
    report = profile(entry, words, timing, arch, program.base_bytes)
    dram = report.dram
    table = EntryTable(
        entry=entry.name,
        inputs={s.name: "x".join(map(str, s.shape)) for s in entry.inputs if s.base == 3},
        cycles=report.cycles,
        seconds=report.seconds,
        words=report.words,
        logical_macs=report.logical_macs,
        executed_macs=report.executed_macs,
        utilisation=report.utilisation,
        executed_utilisation=report.executed_utilisation,
        bytes_read=report.bytes_read,
        bytes_written=report.bytes_written,
        dram_read=report.bytes_read if dram is None else dram.total.bytes_read,
        dram_written=report.bytes_written if dram is None else dram.total.bytes_written,
        l2_hit_rate=None if dram is None or dram.l2 is None else dram.l2.hit_rate,
        engines=_engines(report),
        classes=_classes(report, timing),
        simulate_cpu_seconds=round(seconds, 2),
    )
    return table, report.not_modelled


def _engines(report: Report) -> dict[str, dict[str, int]]:
    found = {}
    for engine, finished in report.finished.items():
        account = {"runs": sum(r.ran.get(engine, 0) for r in report.rows), "finished": finished}
        for row in report.rows:
            for reason, cycles in row.idle.get(engine, {}).items():
                account[reason] = account.get(reason, 0) + cycles
        found[engine] = account
    return found


def _classes(report: Report, timing: Timing) -> dict[str, Spent]:
    kinds = {r.tag: CLASSES.get(r.kind, "other") for r in report.rows}
    own = _owned(timing, kinds)
    found = {}
    for name in dict.fromkeys([*CLASSES.values(), *kinds.values(), *own]):
        rows = [r for r in report.rows if kinds[r.tag] == name]
        if not rows and name not in own:
            continue
        waits: dict[str, int] = {}
        for r in rows:
            for reason, cycles in r.idle.get("MXU", {}).items():
                waits[reason] = waits.get(reason, 0) + cycles
        found[name] = Spent(
            operations=len(rows),
            logical_macs=sum(r.logical_macs for r in rows),
            executed_macs=sum(r.executed_macs for r in rows),
            bytes_read=sum(r.bytes_read for r in rows),
            bytes_written=sum(r.bytes_written for r in rows),
            own=own.get(name, {}),
            waits=waits,
        )
    return found


def _owned(timing: Timing, kinds: Mapping[int, str]) -> dict[str, dict[str, int]]:
    """Class: what runs: tile cycles. Tiles on which no word runs at all are the class "unused"."""
    found: dict[str, dict[str, int]] = {}
    for t in timing.tiles:
        mine = owned(t, timing.cycles)
        pairs = np.stack([mine.tag, mine.engine], axis=1)
        keys, at = np.unique(pairs, axis=0, return_inverse=True)
        cycles = np.zeros(len(keys), np.int64)
        np.add.at(cycles, at.reshape(-1), mine.end - mine.begin)
        for (tag, engine), n in zip(keys.tolist(), cycles.tolist(), strict=True):
            into = found.setdefault(kinds.get(tag, "unused"), {})
            name = NOTHING if engine == WAITING else Engine(engine).name
            into[name] = into.get(name, 0) + n
    return found


def image(arch: ArchTable, scheduler: str, steps: int, calls: int) -> ImageTable:
    """The sum over all entries that an image runs."""
    runs = list(arch.runs(calls))
    cycles = sum(n * e.cycles for n, e in runs)
    macs = sum(n * e.logical_macs for n, e in runs)
    return ImageTable(
        scheduler=scheduler,
        steps=steps,
        calls=calls,
        cycles=cycles,
        seconds=cycles / arch.clock_hz,
        bytes=sum(n * e.bytes for n, e in runs),
        logical_macs=macs,
        utilisation=macs / (arch.peak_macs_per_cycle * cycles),
    )


Found = tuple[Source, Program]


def programs_of(
    files: Sequence[Path],
    parts: Sequence[tuple[str, str]],
    graphs: Path | None,
    size: tuple[int, int] = SIZES[0],
) -> Iterator[Found]:
    """The programs of `.dpu` files, and parts (arch, part) that are compiled here from graphs with open sizes.

    `size` is (width, height) in pixels of the latter.

    Raises:
        DpuError: a file is no program, a part cannot be compiled, E501 parts without graphs.
    """
    for path in files:
        program = load(path, verify=False)
        yield Source(name=path.name, sha256=sha256(path), entries=tuple(e.name for e in program.entries)), program
    if parts and graphs is None:
        hint = "a folder of dpuc export sdxl --open-sizes --graph-only"
        raise DpuError("--graphs", "is needed to compile --parts", hint=hint, code="E501")
    for arch_name, part in parts:
        assert graphs is not None
        batch = 2 if part == "unet" else 1  # with guidance
        case = Case(part=part, width=size[0], height=size[1], batch=batch, arch=arch_name)
        program = compiled_case(graphs, case, load_arch(arch_name)).emitted.bare
        names = tuple(e.name for e in program.entries)
        digest = sha256(graphs / part / "model.onnx")
        yield Source(name=f"{case.name}, compiled without weights", sha256=digest, entries=names), program


def measure(
    files: Sequence[Path],
    parts: Sequence[tuple[str, str]] = (),
    graphs: Path | None = None,
    out: Path | None = None,
    command: str = "dpubench tables",
    commit: str = "",
    say: Say = lambda _: None,
    size: tuple[int, int] = SIZES[0],
) -> ImageTables:
    """Simulate all entries; archs of `out` that have no program here stay as they are.

    Entries of one arch may come from several files. `out` is written after each file.

    Raises:
        DpuError: E501 an entry comes twice, or two files mean different archs by one name; E502 `out` is something
            else; what `programs_of` raises.
    """
    known = read(out) if out is not None and out.exists() else ImageTables()
    archs: dict[str, Arch] = {}
    sources: dict[str, list[Source]] = {}
    entries: dict[str, dict[str, EntryTable]] = {}
    missing: dict[str, dict[str, None]] = {}
    for source, program in programs_of(files, parts, graphs, size):
        arch = program.arch
        if archs.setdefault(arch.name, arch).digest != arch.digest:
            what = f"another arch '{arch.name}' than the files before it"
            raise DpuError(source.name, what, hint="compile them for the same arch file", code="E501")
        sources.setdefault(arch.name, []).append(source)
        mine = entries.setdefault(arch.name, {})
        for entry in program.entries:
            if entry.name in mine:
                what = f"has entry '{entry.name}' of {arch.name} again"
                raise DpuError(source.name, what, hint="give each entry once", code="E501")
            say(f"{arch.name} {entry.name}: simulating")
            mine[entry.name], left_out = of_entry(program, entry)
            missing.setdefault(arch.name, {}).update(dict.fromkeys(left_out))
            e = mine[entry.name]
            say(f"{arch.name} {entry.name}: {e.cycles:,} cycles, {e.utilisation:.1%} used")
        tables = {a.arch: a for a in known.archs}
        done = (arch, command, commit, sources[arch.name], mine, tuple(missing[arch.name]))
        tables[arch.name] = _arch_table(*done)
        known = known.model_copy(update={"archs": tuple(tables.values())})
        if out is not None:
            known.save(out)
    return known


def _arch_table(
    arch: Arch,
    command: str,
    commit: str,
    sources: Sequence[Source],
    entries: Mapping[str, EntryTable],
    not_modelled: tuple[str, ...],
) -> ArchTable:
    order = [*(n for n in ENTRIES if n in entries), *(n for n in entries if n not in ENTRIES)]
    bare = ArchTable(
        arch=arch.name,
        arch_digest=arch.digest,
        commit=commit,
        command=command,
        tiles=arch.tiles,
        peak_macs_per_cycle=arch.peak_macs_per_cycle,
        clock_hz=arch.clock_hz,
        dram=arch.dram.kind or arch.dram.model,
        dram_bytes_per_second=arch.dram.bytes_per_cycle * arch.clock_hz,
        sources=tuple(sources),
        entries=tuple(entries[n] for n in order),
        missing=tuple(n for n in ENTRIES if n not in entries),
        images=(),
        not_modelled=not_modelled,
    )
    if bare.missing:
        return bare
    images = [image(bare, s, n, model_calls(s, n)) for s in SCHEDULERS for n in STEPS]
    return bare.model_copy(update={"images": tuple(images)})


def read(path: Path) -> ImageTables:
    """The tables of a file.

    Raises:
        DpuError: E106 there is none, E502 it is something else.
    """
    if not path.is_file():
        raise DpuError(str(path), "no such file", hint="dpubench tables PROGRAM... -o FILE", code="E106")
    return read_record(path, ImageTables, "archs that are in it are kept")
