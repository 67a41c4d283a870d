"""What an image would cost on an arch, from ONNX graphs alone: no weights, no calibration, no program."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from ..errors import DpuError
from ..frontend.part_shapes import part_shapes
from ..ir.arch import Arch
from ..ir.graph import AttentionOp
from ..ir.tile_program import uncollected
from ..passes.lower.estimate_dram import has_l2
from ..passes.lower.estimate_shapes import EntryShape, describe
from ..passes.lower.estimator import Estimator, OpEstimate
from ..passes.policy import Choices, Policy, named_policy
from ..passes.quantise import quantise
from ..simulator.timing_result import FLUID_L2_NOT_MODELLED
from .driver import graph_of, latent_size

PARTS = ("text_encoder", "text_encoder_2", "unet", "vae_decoder")
"""Parts that have DPU programs; also their file stem in a workload folder."""

NOT_MODELLED = (
    "tiles other than the one with most to do: they are taken to run beside it, and to share the DRAM evenly",
    "DRAM bank by bank: each kind of transfer has a mean rate, measured on the DRAM model in a short trace; where many"
    " tiles queue for the DRAM (dpu_asic), single layers are off by more than whole entries (dpubench estimate-error)",
    "conflicts at scratchpad ports; instructions in the way of LOAD's data; tiles that wait for each other before DRAM"
    " is written over (runs of 100,000 cycles can be a fifth longer)",
)


L2_ASSUMED = (
    "assumed of the shared L2 (l2_bytes): tiles keep so close together that one read of a constant serves all. The"
    " first block of rows of a layer reads its constants from DRAM; later ones find them, if they fit, else read again;"
    " no layer finds those of another. DRAM bytes are those behind the L2"
)


@dataclass(frozen=True)
class EntryEstimate:
    """One entry point on one arch. Cycles are those of the slowest tile; bytes and MACs of all tiles."""

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
        """MACs of the graph, upsampling already folded, over what the array could do; two passes of a 15-bit operand
        are one."""
        useful = min(self.macs, sum(o.executed / o.passes for o in self.ops))
        return useful / (self.arch.peak_macs_per_cycle * max(self.cycles, 1))

    @property
    def bound(self) -> str:
        """The engine that bounds most cycles, and its share."""
        by: dict[str, int] = {}
        for o in self.ops:
            by[o.bound] = by.get(o.bound, 0) + o.cycles
        name = max(by, key=lambda k: by[k])
        return f"{name} {by[name] / max(self.cycles, 1):.0%}"


class Workload:
    """The canonical graphs of a folder, imported once and estimated on any number of archs, in one policy."""

    def __init__(
        self, folder: Path, size: tuple[int, int] = (0, 0), batch: int = 2, policy: Policy | None = None
    ) -> None:
        self.policy = policy or named_policy("w8a8")
        self.modules: dict[str, ModuleOp] = {}
        self._shapes: dict[str, tuple[EntryShape, ...]] = {}
        for part in PARTS:
            path = next((p for p in (folder / f"{part}.onnx", folder / part / "model.onnx") if p.is_file()), None)
            if path is not None:
                shapes = self._open_shapes(folder, path, part, size, batch)
                self.modules[part] = graph_of(path, part, shapes, absent=True)[0]
        if not self.modules:
            raise DpuError(
                str(folder),
                f"holds none of {', '.join(f'{s}.onnx' for s in PARTS)}",
                hint="configs/workload/sdxl_base has the full-size graphs",
                code="E106",
            )

    @staticmethod
    def _open_shapes(
        folder: Path, onnx: Path, part: str, size: tuple[int, int], batch: int
    ) -> dict[str, tuple[int, ...]]:
        """What an exported folder leaves open; graphs alone have fixed sizes."""
        if not (folder / "vae" / "config.json").is_file():
            return {}
        latent = latent_size(folder, size)
        return {"sample": (batch, 4, *latent)} if part == "unet" else part_shapes(onnx, latent)

    def shapes(self, arch: Arch) -> dict[str, tuple[EntryShape, ...]]:
        """The entries of each part, read from the graph once; they do not depend on the arch.

        Raises:
            DpuError: a rule of the policy has no effect, or see `entry_shapes`.
        """
        if not self._shapes:
            choices = Choices(self.policy)
            self._shapes = {p: entry_shapes(m, arch, p, choices) for p, m in self.modules.items()}
            choices.check()
            gc.collect()  # walk through the graphs now, once, and not in the middle of an estimate
        return self._shapes

    def estimate(self, arch: Arch) -> list[EntryEstimate]:
        """One estimate for each entry point of each part.

        Raises:
            DpuError: an operation does not fit the arch.
        """
        entries = [(part, e) for part, found in self.shapes(arch).items() for e in found]
        with uncollected():  # until the estimator is gone: a collection would walk through all that it wrote
            costs = Estimator(arch).estimate([e for _, e in entries])
        return [EntryEstimate(part, e.name, arch, tuple(ops)) for (part, e), ops in zip(entries, costs, strict=True)]


def entry_shapes(
    module: ModuleOp, arch: Arch, part: str = "unet", choices: Choices | None = None
) -> tuple[EntryShape, ...]:
    """The functions of a canonical float module as shapes of quantised operations.

    Raises:
        DpuError: an operation has no quantised form or no lowering.
    """
    blocks = {
        f.sym_name.data: [op.key_block.value.data for op in f.body.block.ops if isinstance(op, AttentionOp)]
        for f in module.ops
        if isinstance(f, FuncOp)
    }
    quantised = module.clone()
    quantise(quantised, arch, None, {}, part, choices)
    return tuple(describe(f, blocks[f.sym_name.data]) for f in quantised.ops if isinstance(f, FuncOp))


def table(estimates: Sequence[EntryEstimate], steps: int, precision: str = "w8a8") -> str:
    """A table of one arch's entries and an image of `steps` steps."""
    arch = estimates[0].arch
    chip = f"{arch.tiles} x {arch.rows}x{arch.cols} at {arch.clock_hz / 1e6:g} MHz, {arch.dram.kind}"
    lines = [
        f"{arch.name}: {chip}{'' if precision == 'w8a8' else f', {precision}'}",
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
    lines.append(f"image, {steps} steps: {total:.2f} s (provenance: assumed; estimated from one tile, not simulated)")
    return "\n".join(lines)


def estimate_folder(
    folder: Path,
    archs: Sequence[Arch],
    steps: int = 20,
    size: tuple[int, int] = (0, 0),
    batch: int = 2,
    policy: Policy | None = None,
) -> str:
    """The tables of several archs, and what they leave out; without a policy it is w8a8.

    `size` (height, width) and `batch` hold for an exported folder whose graphs leave them open.

    Raises:
        DpuError: the folder holds no graph, or an operation does not fit an arch.
    """
    workload = Workload(folder, size, batch, policy)
    tables = [table(workload.estimate(arch), steps, workload.policy.name) for arch in archs]
    notes = [f"not modelled: {n}" for n in NOT_MODELLED]
    if any(has_l2(a) for a in archs):
        notes.append(L2_ASSUMED)
    if any(a.l2_bytes and not has_l2(a) for a in archs):
        notes.append("not modelled: " + FLUID_L2_NOT_MODELLED[0])
    notes.append("on the host: tokenizers, look-ups, sine and cosine, scheduler, guidance, image conversion")
    return "\n\n".join(tables) + "\n\n" + "\n".join(notes)
