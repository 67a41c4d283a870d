"""Full-size SDXL at every image size and batch: what its programs take, without weights.

Each program is compiled from graphs with open sizes (`dpuc export sdxl --open-sizes --graph-only`) and proved in a
process of its own, which watches its anonymous memory; then, where asked for, timed. A size that cannot be compiled is
a row with its error. The file is written after each program, and a run that was stopped continues there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from ..codegen.driver import Compiled, compile_onnx, latent_size
from ..errors import DpuError
from ..files import atomic_write, sha256
from ..frontend.part_shapes import part_shapes
from ..ir.arch import Arch, load_arch
from ..ir.container import Base
from ..ir.cost import stream_macs
from ..ir.isa import Words
from ..simulator.timing import simulate
from .memory import anonymous
from .resumed import read_record

SIZES = (
    (1024, 1024),
    (832, 1216),
    (1216, 832),
    (1152, 896),
    (896, 1152),
    (1344, 768),
    (768, 1344),
    (1536, 640),
    (640, 1536),
    (512, 512),
)
"""(width, height) in pixels: the native size, the aspect buckets of SDXL, and a small one."""
BATCHES = (1, 4, 8)
"""Samples a forward at the native size beside 2: one image without guidance, two and four images with it."""
ARCHS = ("dpu_f2", "dpu_32tops")
CRASHED = "crashed: "
PARTS = ("unet", "vae_decoder", "text_encoder", "text_encoder_2")

Say = Callable[[str], None]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Case(_Model):
    """One program: a part of the model at one size (pixels) and batch (samples a forward) for one arch."""

    part: str
    width: int
    height: int
    batch: int
    arch: str

    @property
    def name(self) -> str:
        """As in `unet-1024x1024-b2-dpu_f2`."""
        return f"{self.part}-{self.width}x{self.height}-b{self.batch}-{self.arch}"


class EntryRow(_Model):
    """One entry point. MACs are of all tiles: those of the graph, and those of the words, padding included.

    Cycles and DRAM bytes are simulated; none while the program has not been timed.
    """

    words: int  # of the longest tile
    macs: int
    executed: int
    cycles: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None

    def utilisation(self, arch: Arch) -> float | None:
        """MACs of the graph over what the arrays could do; above the executed share where upsampling is folded."""
        return self.macs / (arch.peak_macs_per_cycle * self.cycles) if self.cycles else None


class SizeRow(_Model):
    """One compiled program, or why there is none. Seconds and memory are of the compiling process, without weights."""

    case: Case
    error: str = ""
    entries: dict[str, EntryRow] = {}
    region_bytes: dict[str, int] = {}  # DRAM by base register: const, work, state, io
    verified: bool = False
    cpu_seconds: float = 0.0  # compilation, proof included
    anonymous_peak: int = 0  # bytes
    simulate_seconds: float | None = None

    @property
    def crashed(self) -> bool:
        """Whether its process ended without an answer; it is tried again."""
        return self.error.startswith(CRASHED)

    @property
    def timed(self) -> bool:
        """Whether nothing is left to do."""
        return bool(self.error) or all(e.cycles is not None for e in self.entries.values())


class SizesResult(_Model):
    """All programs so far."""

    command: str
    graphs: dict[str, str]  # part: SHA-256 of its graph
    provenance: dict[str, str] = {
        "words, macs, executed, region_bytes": "counted in the compiled program",
        "cpu_seconds, anonymous_peak": "measured, on a shared computer",
        "cycles, bytes_read, bytes_written": "simulated",
    }
    rows: list[SizeRow] = []

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        with atomic_write(path) as temporary:
            temporary.write_text(self.model_dump_json(indent=1) + "\n")

    def text(self) -> str:
        """A table with one line an entry point that is not tiny, and one a program that is refused."""
        head = f"{'program':<40}{'entry':<13}{'words':>9}{'GMAC':>10}{'executed':>10}{'const':>7}{'work':>7}"
        lines = [f"{head}{'CPU s':>7}{'GB':>6} proof {'Mcycles':>9}{'used':>7}{'DRAM GB':>9}", f"{'':<82}{'MiB':>8}"]
        for row in self.rows:
            if row.error:
                lines.append(f"{row.case.name:<40}{row.error}")
            for name, e in row.entries.items():
                lines.append(_line(row, name, e))
        return "\n".join(lines)


def _line(row: SizeRow, name: str, e: EntryRow) -> str:
    mib = {k: v / 2**20 for k, v in row.region_bytes.items()}
    line = f"{row.case.name:<40}{name:<13}{e.words:>9}{e.macs / 1e9:>10.1f}{e.executed / 1e9:>10.1f}"
    line += f"{mib['const']:>7.0f}{mib['work']:>7.0f}{row.cpu_seconds:>7.0f}{row.anonymous_peak / 1e9:>6.2f}"
    line += f" {'yes' if row.verified else 'NO':<5} "
    used = e.utilisation(load_arch(row.case.arch))
    if e.cycles is None or e.bytes_read is None or e.bytes_written is None or used is None:
        return line
    return f"{line}{e.cycles / 1e6:>9.1f}{used:>7.1%}{(e.bytes_read + e.bytes_written) / 1e9:>9.2f}"


def cases(archs: Sequence[str] = ARCHS, parts: Sequence[str] = PARTS) -> list[Case]:
    """Every program that is asked for, the native size first. Text encoders have one: no size matters to them."""
    found = []
    for part in parts:
        unet, text = part == "unet", part.startswith("text_encoder")
        for arch in archs:
            more = [(SIZES[0], b) for b in BATCHES] if unet else []
            for (w, h), batch in [(s, 2 if unet else 1) for s in (SIZES[:1] if text else SIZES)] + more:
                found.append(Case(part=part, width=w, height=h, batch=batch, arch=arch))
    return found


def measure(
    graphs: Path,
    wanted: Sequence[Case],
    out: Path | None = None,
    timed: bool = False,
    keep: Path | None = None,
    command: str = "dpubench sizes",
    say: Say = lambda _: None,
    jobs: int = 1,
) -> SizesResult:
    """Compile and prove what `out` does not hold yet, `jobs` programs side by side.

    Args:
        graphs: an exported folder with open sizes.
        wanted: the programs.
        out: the file to continue, written after each program.
        timed: also time each program; those of `out` that were not are done again.
        keep: folder for the words of each program, so that they can be timed later without compiling again.
        command: what the file says made it.
        say: takes a line about each program.
        jobs: programs at a time, each in a process of its own that takes 3 to 6 GB.

    Raises:
        DpuError: `out` is of something else, or `graphs` holds no graphs.
    """
    parts = {c.part: graphs / c.part / "model.onnx" for c in wanted}
    for path in parts.values():
        if not path.is_file():
            hint = "dpuc export sdxl --open-sizes --graph-only -o DIR"
            raise DpuError(str(path), "no such file", hint=hint, code="E106")
    result = _load(out, {p: sha256(path) for p, path in parts.items()}, command)
    rows = {r.case.name: r for r in result.rows}
    written = threading.Lock()

    def keep_row(row: SizeRow) -> None:
        with written:
            rows[row.case.name] = row
            if out is not None:
                result.model_copy(update={"rows": list(rows.values())}).save(out)

    def do(case: Case) -> None:
        known = rows.get(case.name)
        if known is not None and not known.crashed and (known.timed or not timed):
            say(f"{case.name}: kept")
            return
        if known is not None and known.crashed:
            known = known.model_copy(update={"error": ""}) if known.entries else None
        while known is None or (timed and not known.timed):
            say(f"{case.name}: {'timing' if known else 'compiling'}")
            # With the words kept, timing is a process of its own: what was compiled is written down before.
            both = timed and (known is not None or keep is None)
            known = _in_process(graphs, case, known, both, keep)
            keep_row(known)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(do, wanted))
    names = dict.fromkeys([*(r.case.name for r in result.rows), *(c.name for c in wanted)])
    result = result.model_copy(update={"rows": [rows[name] for name in names]})
    if out is not None:
        result.save(out)
    return result


def _load(out: Path | None, digests: dict[str, str], command: str) -> SizesResult:
    fresh = SizesResult(command=command, graphs=digests)
    if out is None or not out.exists():
        return fresh
    found = read_record(out, SizesResult, "sizes that are in it are not compiled again")
    for part, digest in digests.items():
        if found.graphs.get(part, digest) != digest:
            raise DpuError(
                str(out),
                f"holds programs of another graph of '{part}'",
                why=f"its sha256 was {found.graphs[part][:12]}, now it is {digest[:12]}",
                hint="choose another output",
                code="E502",
            )
    return found.model_copy(update={"command": command, "graphs": {**found.graphs, **digests}})


def _in_process(graphs: Path, case: Case, known: SizeRow | None, timed: bool, keep: Path | None) -> SizeRow:
    """One program in a process of its own: its memory is its own, and a crash ends one program only."""
    job = {
        "graphs": str(graphs),
        "case": case.model_dump(),
        "known": known.model_dump() if known is not None else None,
        "timed": timed,
        "keep": str(keep) if keep is not None else None,
    }
    run = subprocess.run(
        [sys.executable, "-m", __name__], input=json.dumps(job), capture_output=True, text=True, check=False
    )
    if run.returncode:
        last = (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[-1]
        return (known or SizeRow(case=case)).model_copy(update={"error": CRASHED + last})
    return SizeRow.model_validate_json(run.stdout)


def _child(job: dict[str, Any]) -> SizeRow:
    case, known = Case(**job["case"]), job["known"]
    arch = load_arch(case.arch)
    words_file = Path(job["keep"]) / f"{case.name}.npz" if job["keep"] else None
    if known is not None and words_file is not None and words_file.is_file():
        row = SizeRow.model_validate(known)
        with np.load(words_file) as stored:
            streams: dict[str, list[Words]] = {
                name: [stored[f"{name}/{t}"] for t in range(arch.tiles)] for name in row.entries
            }
    else:
        row, streams = compile_case(Path(job["graphs"]), case, arch)
        if words_file is not None and streams:
            words_file.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(words_file) as temporary, temporary.open("wb") as file:
                named = {f"{n}/{t}": w for n, tiles in streams.items() for t, w in enumerate(tiles)}
                np.savez_compressed(file, **named)  # type: ignore[arg-type]
    return _timed(row, streams, arch) if job["timed"] else row


def compiled_case(graphs: Path, case: Case, arch: Arch) -> Compiled:
    """One program from a graph with open sizes, without weights.

    Raises:
        DpuError: the size is not one of the model's, or the graph cannot be compiled for the arch.
    """
    latent = latent_size(graphs, (case.height, case.width))
    onnx, unet = graphs / case.part / "model.onnx", case.part == "unet"
    shapes = {"sample": (case.batch, 4, *latent)} if unet else part_shapes(onnx, latent, case.batch)
    return compile_onnx(onnx, case.part, arch, shapes, None, absent=True)


def compile_case(graphs: Path, case: Case, arch: Arch) -> tuple[SizeRow, dict[str, list[Words]]]:
    """The row of one program, compiled and proved here, and its words by entry and tile."""
    with _watched() as peak:
        try:
            start = time.process_time()
            compiled = compiled_case(graphs, case, arch)
            seconds = time.process_time() - start
        except DpuError as e:
            return SizeRow(case=case, error=e.text()), {}
    program = compiled.emitted.bare
    row = SizeRow(
        case=case,
        entries={e.name: _entry(compiled, arch, e.name) for e in program.entries},
        region_bytes={b.name.lower(): program.base_bytes.get(int(b), 0) for b in Base},
        verified=True,  # compile_onnx proves what it makes, and raises
        cpu_seconds=round(seconds, 1),
        anonymous_peak=peak(),
    )
    return row, dict(program.words)


def _entry(compiled: Compiled, arch: Arch, name: str) -> EntryRow:
    program = compiled.emitted.bare
    streams = program.words[name]
    (entry,) = (e for e in program.entries if e.name == name)
    macs = sum(s.macs for s in entry.sources)
    return EntryRow(words=max(len(w) for w in streams), macs=macs, executed=stream_macs(arch, streams))


def _timed(row: SizeRow, streams: dict[str, list[Words]], arch: Arch) -> SizeRow:
    if row.error:
        return row
    start = time.process_time()
    entries = {}
    for name, tiles in streams.items():
        timing = simulate(arch, tiles, name)
        entries[name] = row.entries[name].model_copy(
            update={
                "cycles": timing.cycles,
                "bytes_read": sum(t.bytes_read for t in timing.tiles),
                "bytes_written": sum(t.bytes_written for t in timing.tiles),
            }
        )
    seconds = round(time.process_time() - start, 1)
    return row.model_copy(update={"entries": entries, "simulate_seconds": seconds})


@contextmanager
def _watched() -> Iterator[Callable[[], int]]:
    """Looks at this process's anonymous memory ten times a second; what it yields gives the highest."""
    peak, done = anonymous(), threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.1):
            peak = max(peak, anonymous())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield lambda: max(peak, anonymous())
    finally:
        done.set()
        watcher.join()


if __name__ == "__main__":
    print(_child(json.load(sys.stdin)).model_dump_json())
