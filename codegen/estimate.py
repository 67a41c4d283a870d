"""What an image would cost on an arch, from ONNX graphs alone: no weights, no calibration, no simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from ..errors import DpuError
from ..ir.arch import Arch
from ..passes.lower.estimator import OpEstimate, estimate_entry
from ..passes.quantise import quantise
from .driver import graph_of, latent_size

PARTS = ("text_encoder", "text_encoder_2", "unet", "vae_decoder")
"""Parts that have DPU programs; also their file stem in a workload folder."""

NOT_MODELLED = (
    "stalls inside an operation: every operation takes as long as its busiest engine on the fullest tile; against the"
    " timing simulation of SDXL blocks this is too low, 0.78 to 1.00 of the cycles (dpubench blocks)",
    "DRAM banks and refresh; instruction fetch",
)


@dataclass(frozen=True)
class EntryEstimate:
    """One entry point on one arch. Cycles are those of the fullest tile; bytes and MACs of all tiles."""

    part: str
    entry: str
    arch: Arch
    ops: tuple[OpEstimate, ...]

    @property
    def macs(self) -> int:
        return sum(o.macs for o in self.ops)

    @property
    def executed(self) -> int:
        return sum(o.executed for o in self.ops)

    @property
    def cycles(self) -> int:
        return sum(o.cycles for o in self.ops)

    @property
    def bytes(self) -> int:
        return sum(o.bytes for o in self.ops)

    @property
    def words(self) -> int:
        return sum(o.words for o in self.ops)

    @property
    def seconds(self) -> float:
        return self.cycles / self.arch.clock_hz

    @property
    def utilisation(self) -> float:
        """MACs of the graph, upsampling already folded, over what the array could do."""
        return min(self.macs, self.executed) / (self.arch.peak_macs_per_cycle * max(self.cycles, 1))

    @property
    def bound(self) -> str:
        """The engine that bounds most cycles, and its share."""
        by: dict[str, int] = {}
        for o in self.ops:
            by[o.bound] = by.get(o.bound, 0) + o.cycles
        name = max(by, key=lambda k: by[k])
        return f"{name} {by[name] / max(self.cycles, 1):.0%}"


class Workload:
    """The canonical graphs of a folder, imported once and estimated on any number of archs."""

    def __init__(self, folder: Path, size: tuple[int, int] = (0, 0), batch: int = 2) -> None:
        self.modules: dict[str, ModuleOp] = {}
        for part in PARTS:
            path = next((p for p in (folder / f"{part}.onnx", folder / part / "model.onnx") if p.is_file()), None)
            if path is not None:
                shapes = self._shapes(folder, part, size, batch)
                self.modules[part] = graph_of(path, part, shapes, absent=True)[0]
        if not self.modules:
            raise DpuError(
                str(folder),
                f"holds none of {', '.join(f'{s}.onnx' for s in PARTS)}",
                hint="configs/workload/sdxl_base has the full-size graphs",
                code="E106",
            )

    @staticmethod
    def _shapes(folder: Path, part: str, size: tuple[int, int], batch: int) -> dict[str, tuple[int, ...]]:
        """What an exported folder leaves open; graphs alone have fixed sizes."""
        if not (folder / "vae" / "config.json").is_file():
            return {}
        latent = latent_size(folder, size)
        return {"sample": (batch, 4, *latent)} if part == "unet" else {"latent": (1, 4, *latent)}

    def estimate(self, arch: Arch) -> list[EntryEstimate]:
        """One estimate for each entry point of each part."""
        cache: dict[tuple[Any, ...], OpEstimate] = {}
        found = []
        for part, module in self.modules.items():
            quantised = module.clone()
            quantise(quantised, arch, None, {})
            for f in quantised.ops:
                if isinstance(f, FuncOp):
                    ops = tuple(estimate_entry(f, arch, cache))
                    found.append(EntryEstimate(part, f.sym_name.data, arch, ops))
        return found


def table(estimates: Sequence[EntryEstimate], steps: int) -> str:
    """A table of one arch's entries and an image of `steps` steps."""
    arch = estimates[0].arch
    lines = [
        f"{arch.name}: {arch.tiles} x {arch.rows}x{arch.cols} at {arch.clock_hz / 1e6:g} MHz, {arch.dram.kind}",
        f"{'entry':<14}{'GMAC':>10}{'executed':>10}{'Mcycles':>9}{'ms':>9}{'used':>7}{'DRAM GB':>9}"
        f"{'words/tile':>12}  bound by",
    ]
    total = 0.0
    for e in estimates:
        times = steps if e.entry in ("unet", "time") else 1
        total += times * e.seconds
        lines.append(
            f"{e.entry:<14}{e.macs / 1e9:>10.1f}{e.executed / 1e9:>10.1f}{e.cycles / 1e6:>9.2f}{e.seconds * 1e3:>9.1f}"
            f"{e.utilisation:>7.1%}{e.bytes / 1e9:>9.2f}{e.words:>12}  {e.bound}"
        )
    lines.append(f"image, {steps} steps: {total:.2f} s (provenance: assumed; a closed form over the arch file's rates)")
    return "\n".join(lines)


def estimate_folder(
    folder: Path, archs: Sequence[Arch], steps: int = 20, size: tuple[int, int] = (0, 0), batch: int = 2
) -> str:
    """The tables of several archs, and what they leave out.

    `size` (height, width) and `batch` hold for an exported folder whose graphs leave them open.

    Raises:
        DpuError: the folder holds no graph, or an operation does not fit an arch.
    """
    workload = Workload(folder, size, batch)
    tables = [table(workload.estimate(arch), steps) for arch in archs]
    notes = [f"not modelled: {n}" for n in NOT_MODELLED]
    if any(a.l2_bytes for a in archs):
        notes.append(
            "shared L2: a constant that several tiles read is counted once from DRAM; its capacity is not checked"
        )
    notes.append("on the host: tokenizers, look-ups, sine and cosine, scheduler, guidance, image conversion")
    return "\n\n".join(tables) + "\n\n" + "\n".join(notes)
