"""What an image costs at a policy: whole policies, by estimate or simulation, and what each choice adds.

A policy is estimated as `dpuc compile --estimate` does it, on the small model's own graphs. What one layer adds is read
from estimates of uniform policies: the operations of an entry stand in the order of its layers, and what lies between
two (quantisers, norms, statistics) is counted with the layer that follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ...codegen.estimate import Workload, entry_shapes
from ...errors import DpuError
from ...ir.arch import Arch
from ...ir.tile_program import uncollected
from ...passes.lower.estimate_shapes import EntryShape
from ...passes.lower.estimator import Estimator, OpEstimate
from ...passes.policy import Choices, Policy, Precision
from ...simulator.economics.workload import runs_of
from .sensitivity_model import Key, Layer, resolved
from .speed import time_policy

_LAYERS = {"dpu.q.linear": "linear", "dpu.q.conv": "conv", "dpu.q.attention": "attention"}


class ImageCost(NamedTuple):
    """Of one image: cycles of the slowest tile, and bytes between the device and its DRAM."""

    cycles: int
    dram_bytes: int


class Costs:
    """Estimates of policies on one arch, for images of `steps` steps; a part whose precisions were seen is not made
    again."""

    def __init__(self, export: Path, arch: Arch, size: int, steps: int, layers: Sequence[Layer]) -> None:
        self.arch, self.steps, self.layers = arch, steps, layers
        self._export, self._size = export, size
        self._workload = Workload(export, (size, size))
        self._shapes: dict[tuple[str, str], tuple[EntryShape, ...]] = {}

    def image(self, policy: Policy) -> ImageCost:
        """The cost of an image.

        Raises:
            DpuError: a rule has no effect, or an operation does not fit the arch.
        """
        total = [0, 0]
        for (_, entry), ops in self._operations(policy).items():
            runs = runs_of(entry, self.steps)
            total[0] += runs * sum(o.cycles for o in ops)
            total[1] += runs * sum(o.bytes for o in ops)
        return ImageCost(*total)

    def simulated(self, policy: Policy) -> ImageCost:
        """The cost of an image by the timing simulation of the policy's program.

        Raises:
            DpuError: a rule has no effect, or an operation does not fit the arch.
        """
        entries = time_policy(self._export, policy, self.arch, self._size).entries
        runs = [runs_of(e.entry, self.steps) for e in entries]
        cycles = sum(n * e.cycles for n, e in zip(runs, entries, strict=True))
        return ImageCost(cycles, sum(n * (e.bytes_read + e.bytes_written) for n, e in zip(runs, entries, strict=True)))

    def by_unit(self, precision: Precision) -> dict[Key, ImageCost]:
        """What the layers of each unit cost an image at a uniform precision; by part and unit.

        Raises:
            DpuError: operations and layers do not match.
        """
        found: dict[Key, ImageCost] = {}
        units = {part: _units(self.layers, part) for part in self._workload.modules}
        for (part, entry), ops in self._operations(Policy(name="uniform", default=precision)).items():
            runs, waiting, last = runs_of(entry, self.steps), [0, 0], None
            for op in ops:
                waiting = [waiting[0] + runs * op.cycles, waiting[1] + runs * op.bytes]
                if op.kind not in _LAYERS:
                    continue
                unit, kind = units[part].pop(0) if units[part] else ("none", "none")
                if kind != _LAYERS[op.kind]:
                    what = f"operation '{op.name}' is a {_LAYERS[op.kind]}, layer '{unit}' a {kind}"
                    raise DpuError(f"{part}: {entry}", what, why="costs are given to layers in order", code="E520")
                found[part, unit], waiting, last = ImageCost(*waiting), [0, 0], (part, unit)
            if last is not None:
                found[last] = ImageCost(found[last].cycles + waiting[0], found[last].dram_bytes + waiting[1])
        return found

    def _operations(self, policy: Policy) -> Mapping[tuple[str, str], Sequence[OpEstimate]]:
        """Of each entry, by part and name."""
        chosen, choices = resolved(policy, self.layers), Choices(policy)
        entries: list[tuple[str, EntryShape]] = []
        for part, module in self._workload.modules.items():
            key = part, str([p for k, p in chosen.items() if k[0] == part])
            if key not in self._shapes:
                self._shapes[key] = entry_shapes(module, self.arch, part, choices)
            entries += [(part, e) for e in self._shapes[key]]
        with uncollected():
            ops = Estimator(self.arch).estimate([e for _, e in entries])
        return {(part, e.name): found for (part, e), found in zip(entries, ops, strict=True)}


def _units(layers: Sequence[Layer], part: str) -> list[tuple[str, str]]:
    """(unit, kind) of a part, in order."""
    return list({x.unit: (x.unit, x.kind) for x in layers if x.part == part}.values())
