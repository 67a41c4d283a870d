"""`--estimate` against the timing simulation, entry by entry and layer by layer, on full-size SDXL without weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from ..codegen.dpufile import load
from ..codegen.driver import graph_of
from ..codegen.emit import emit
from ..codegen.estimate import entry_shapes
from ..files import atomic_write
from ..ir.arch import Arch, load_arch
from ..ir.container import Program
from ..ir.isa import Engine
from ..passes.lower.estimate_shapes import EntryShape
from ..passes.lower.estimator import Estimator
from ..passes.quantise import Derived, fetcher, quantise
from ..simulator.timing import simulate
from ..simulator.timing_result import Timing

WORKLOAD = Path(__file__).parent.parent / "configs" / "workload" / "sdxl_base"
LEAST = 0.001  # of an entry's cycles: smaller layers are not compared
LAYER, ENTRY = 0.10, 0.03
"""The aim: every layer that is compared, and every entry."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Layers(_Model):
    """Layers of an entry that have the same estimate, `count` of them."""

    kind: str
    first: str
    count: int
    estimated: int
    simulated: int  # mean
    lowest: float  # ratios estimated / simulated
    highest: float


class EntryError(_Model):
    """One entry on one arch. `beyond`: layers whose estimate is off by more than LAYER, of `compared`."""

    arch: str
    entry: str
    estimated: int
    simulated: int
    compared: int
    beyond: int
    layers: tuple[Layers, ...]

    @property
    def ratio(self) -> float:
        """Estimated over simulated cycles."""
        return self.estimated / self.simulated


class EstimateErrors(_Model):
    """All entries that were compared."""

    command: str
    provenance: str = "simulated"
    entries: tuple[EntryError, ...]

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        with atomic_write(path) as temporary:
            temporary.write_text(self.model_dump_json(indent=1) + "\n")

    def text(self) -> str:
        """The table for people."""
        lines = [
            f"{'arch':<12}{'entry':<16}{'estimated':>13}{'simulated':>13}{'ratio':>8}{'layers':>8}{'> 10 %':>8}  worst"
        ]
        for e in self.entries:
            worst = max(e.layers, key=lambda x: max(abs(x.lowest - 1), abs(x.highest - 1)), default=None)
            says = "" if worst is None else f"{worst.lowest:.2f} to {worst.highest:.2f} {worst.kind} {worst.first}"
            lines.append(
                f"{e.arch:<12}{e.entry:<16}{e.estimated:>13,}{e.simulated:>13,}{e.ratio:>8.3f}{e.compared:>8}"
                f"{e.beyond:>8}  {says}"
            )
        return "\n".join(lines)


def layer_cycles(timing: Timing, tags: Sequence[int]) -> list[int]:
    """Of each operation in order, the cycles from when all before it are done on all tiles until it is.

    They add up to when the last one is done. Where one runs under another, the later one has only what is left.
    """
    done: npt.NDArray[np.int64] = np.zeros(max(tags, default=0) + 1, np.int64)
    for t in timing.tiles:
        words = t.engine != int(Engine.CTRL)
        np.maximum.at(done, t.tag[words], t.visible[words])
    until = np.maximum.accumulate(done[list(tags)])
    return [int(n) for n in np.diff(until, prepend=0)]


def compare(program: Program, arch: Arch, shapes: Sequence[EntryShape]) -> Iterator[EntryError]:
    """Simulate the entries of a program whose shapes are given, and estimate them."""
    by_name = {s.name: s for s in shapes}
    for entry in program.entries:
        if entry.name not in by_name:
            continue
        shape = by_name[entry.name]
        estimates = {e.name: e for e in Estimator(arch).estimate([shape])[0]}
        timing = simulate(arch, program.words[entry.name], entry.name)
        sources = sorted(entry.sources, key=lambda s: s.tag)
        found: dict[tuple[str, int], list[tuple[int, str]]] = {}
        for s, cycles in zip(sources, layer_cycles(timing, [s.tag for s in sources]), strict=True):
            if cycles > LEAST * timing.cycles:
                estimated = estimates[s.name].cycles if s.name in estimates else 0
                found.setdefault((s.kind, estimated), []).append((cycles, s.name))
        layers = []
        for (kind, estimated), rows in found.items():
            ratios = [estimated / cycles for cycles, _ in rows]
            mean = round(sum(cycles for cycles, _ in rows) / len(rows))
            layers.append(
                Layers(
                    kind=kind,
                    first=rows[0][1],
                    count=len(rows),
                    estimated=estimated,
                    simulated=mean,
                    lowest=round(min(ratios), 4),
                    highest=round(max(ratios), 4),
                )
            )
        off = [abs(e / cycles - 1) > LAYER for (_, e), rows in found.items() for cycles, _ in rows]
        yield EntryError(
            arch=arch.name,
            entry=entry.name,
            estimated=sum(e.cycles for e in estimates.values()),
            simulated=timing.cycles,
            compared=len(off),
            beyond=sum(off),
            layers=tuple(layers),
        )


def compiled(part: str, arch: Arch) -> tuple[Program, tuple[EntryShape, ...]]:
    """A part of the workload compiled without weights (cycles do not depend on them), and its shapes."""
    module = graph_of(WORKLOAD / f"{part}.onnx", part, {}, absent=True)[0]
    shapes = entry_shapes(module, arch, part)
    derived: Derived = {}
    quantise(module, arch, None, derived, part)
    zeros = fetcher(lambda source, transform: np.zeros(1, np.float16), derived)
    return emit(module, arch, zeros, {}, constants=False).program, shapes


def measure(programs: Sequence[Path], parts: Sequence[tuple[str, str]], say: Callable[[str], None]) -> list[EntryError]:
    """Programs of the full-size UNet, and parts (arch, part) that are compiled here.

    Raises:
        DpuError: a program or an arch cannot be read.
    """
    found: list[EntryError] = []

    def add(program: Program, arch: Arch, shapes: Sequence[EntryShape]) -> None:
        for e in compare(program, arch, shapes):
            say(f"{e.arch} {e.entry}: {e.ratio:.4f}")
            found.append(e)

    for path in programs:
        program = load(path)
        module = graph_of(WORKLOAD / "unet.onnx", "unet", {}, absent=True)[0]
        add(program, program.arch, entry_shapes(module, program.arch))
    for name, part in parts:
        arch = load_arch(name)
        program, shapes = compiled(part, arch)
        add(program, arch, shapes)
    return found
