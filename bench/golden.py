"""Goldens: cycles, bytes, instruction counts and SQNR of the reference programs, as data in `results/golden/`.

A figure that moves by more than 0.5 % fails CI with a difference for each layer; `dpubench golden --accept REASON`
takes the new values and keeps the reason in the file. Everything here is simulated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ..errors import DpuError
from ..files import atomic_write
from ..ir.container import Program
from ..ir.isa import Opcode
from ..simulator.profile import profile
from ..simulator.timing import simulate

TOLERANCE = 0.005  # relative
FOLDER = Path("results") / "golden"
PROGRAMS = ("tiny-dpu_tiny", "tiny-dpu_f2")
SIZE = (64, 64)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Layer(_Model):
    """One graph operation of an entry."""

    name: str
    kind: str
    words: int
    executed_macs: int
    span: int  # cycles
    bytes_read: int
    bytes_written: int


class EntryGolden(_Model):
    """One entry point: the whole, and each layer in the order in which layers begin."""

    entry: str
    cycles: int
    bytes_read: int
    bytes_written: int
    instructions: dict[str, int]
    layers: tuple[Layer, ...]


class Golden(_Model):
    """One reference program on one arch. `sqnr_db` is of the UNet's first forward, fed from the float trajectory."""

    program: str
    arch: str
    provenance: str = "simulated"
    reason: str
    entries: tuple[EntryGolden, ...]
    sqnr_db: float | None = None


def measure(name: str, program: Program, reason: str = "", sqnr_db: float | None = None) -> Golden:
    """Time every entry of a compiled program."""
    entries = []
    for entry in program.entries:
        words = program.words[entry.name]
        report = profile(entry, words, simulate(program.arch, words, entry.name), program.arch)
        counts = {o.name: sum(int((w["opcode"] == o).sum()) for w in words) for o in Opcode}
        layers = tuple(Layer(**{k: getattr(r, k) for k in Layer.model_fields}) for r in report.rows)
        entries.append(
            EntryGolden(
                entry=entry.name,
                cycles=report.cycles,
                bytes_read=report.bytes_read,
                bytes_written=report.bytes_written,
                instructions=counts,
                layers=layers,
            )
        )
    return Golden(program=name, arch=program.arch.name, reason=reason, entries=tuple(entries), sqnr_db=sqnr_db)


def first_forward_db(program: Program, folder: Path) -> float:
    """SQNR in dB of the UNet's first forward on an evaluation prompt, against float32 on the same inputs."""
    from ..runtime.pipeline import Pipeline, Request
    from ..runtime.pipeline_files import FolderFiles
    from ..runtime.session import Session
    from ..runtime.sim_device import SimDevice
    from ..runtime.sqnr import compare
    from ..runtime.unets import DpuUnet, OnnxUnet
    from ..runtime.workload import evaluation_prompts

    files = FolderFiles(folder)
    request = Request(evaluation_prompts()[0], seed=0, steps=1, height=SIZE[0], width=SIZE[1])
    with Session(program, SimDevice(program.arch, timed=False)) as session:
        found = compare(Pipeline(files), request, OnnxUnet(files), DpuUnet(session))
    return round(found.teacher_forced[0], 3)


def load(name: str, folder: Path = FOLDER) -> Golden:
    """A golden by program name.

    Raises:
        DpuError: there is none.
    """
    path = folder / f"{name}.json"
    if not path.is_file():
        raise DpuError(str(path), "no golden", hint='make it: dpubench golden --accept "first values"', code="E510")
    return Golden.model_validate_json(path.read_text())


def save(golden: Golden, folder: Path = FOLDER) -> Path:
    """Write a golden, one line a layer so that a change reads well in a diff."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{golden.program}.json"
    data = golden.model_dump(mode="json")
    head = {k: v for k, v in data.items() if k != "entries"}
    lines = [json.dumps(head)[:-1] + ', "entries": [']
    for i, e in enumerate(data["entries"]):
        rest = {k: v for k, v in e.items() if k != "layers"}
        lines.append(json.dumps(rest)[:-1] + ', "layers": [')
        lines += [json.dumps(x) + ("," if n + 1 < len(e["layers"]) else "") for n, x in enumerate(e["layers"])]
        lines.append("]}" + ("," if i + 1 < len(data["entries"]) else ""))
    with atomic_write(path) as temporary:
        temporary.write_text("\n".join([*lines, "]}"]) + "\n")
    return path


def differences(old: Golden, new: Golden) -> list[str]:
    """What moved by more than the tolerance: totals first, then the layers that moved, most first. Empty: nothing."""
    lines = []
    if old.sqnr_db is not None and new.sqnr_db is not None and _moved(old.sqnr_db, new.sqnr_db):
        lines.append(f"SQNR {old.sqnr_db:.2f} -> {new.sqnr_db:.2f} dB")
    before, after = ({e.entry: e for e in g.entries} for g in (old, new))
    for name in [*before, *(n for n in after if n not in before)]:
        if name not in before or name not in after:
            lines.append(f"{name}: entry {'appeared' if name in after else 'is gone'}")
            continue
        lines += _entry(before[name], after[name])
    return lines


def _entry(old: EntryGolden, new: EntryGolden) -> Iterator[str]:
    for key in ("cycles", "bytes_read", "bytes_written"):
        a, b = getattr(old, key), getattr(new, key)
        if _moved(a, b):
            yield f"{old.entry}: {key} {a:,} -> {b:,} ({_percent(a, b)})"
    for op in {**old.instructions, **new.instructions}:
        a, b = old.instructions.get(op, 0), new.instructions.get(op, 0)
        if _moved(a, b):
            yield f"{old.entry}: {op} words {a:,} -> {b:,} ({_percent(a, b)})"
    olds, news = ({x.name: x for x in e.layers} for e in (old, new))
    found: list[tuple[float, str]] = []
    for name in {**olds, **news}:
        if name not in olds or name not in news:
            found.append((float("inf"), f"{old.entry}: layer {name} {'appeared' if name in news else 'is gone'}"))
            continue
        for key in ("span", "words", "executed_macs", "bytes_read", "bytes_written"):
            a, b = getattr(olds[name], key), getattr(news[name], key)
            if _moved(a, b):
                found.append((abs(b - a) / max(a, 1), f"{old.entry}: {name}: {key} {a:,} -> {b:,} ({_percent(a, b)})"))
    yield from (text for _, text in sorted(found, key=lambda x: -x[0]))


def _moved(a: float, b: float) -> bool:
    return abs(b - a) > TOLERANCE * max(abs(a), 1e-9)


def _percent(a: float, b: float) -> str:
    return f"{(b - a) / a:+.1%}" if a else "new"


def reference_programs(work: Path) -> Iterator[tuple[str, Program]]:
    """The reference programs, exported, calibrated and compiled anew in folder `work`."""
    from ..codegen.driver import compile_folder
    from ..frontend.sdxl import export_tiny
    from ..runtime.calibrate import calibrate_folder

    folder, statistics = work / "tiny", work / "calib.safetensors"
    export_tiny(folder)
    calibrate_folder(folder, statistics, prompts=2, steps=10, size=SIZE)
    for name in PROGRAMS:
        arch = name.removeprefix("tiny-")
        yield name, compile_folder(folder, arch=arch, calibration=statistics, size=SIZE).program


def accept(reason: str, work: Path, folder: Path = FOLDER) -> list[str]:
    """Measure the reference programs and take their figures as the new goldens; says what moved.

    Raises:
        DpuError: no reason is given.
    """
    if not reason.strip():
        raise DpuError("--accept", "no reason", why="a golden that moved without one is a bug", code="E511")
    lines = []
    for name, program in reference_programs(work):
        new = measure(name, program, reason, first_forward_db(program, work / "tiny"))
        known = (folder / f"{name}.json").is_file()
        lines += [f"{name}: {d}" for d in differences(load(name, folder), new)] if known else [f"{name}: new"]
        lines.append(f"wrote {save(new, folder)}")
    return lines
