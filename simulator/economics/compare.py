"""A DPU against GPUs in one scenario: costs, advantage, break-even volume, and what they decide.

The advantage over a GPU is its cost of an image over the DPU's. A chip breaks even with a GPU when what it saves on
each image has paid its NRE: images = NRE / (cost of the GPU - marginal cost of the chip).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...errors import DpuError
from ...evidence import Provenance, Quantity
from ...ir.arch import Arch
from .chip import chip
from .cost import Cost, MissingField, Terms, cost, from_accelerator
from .inputs import Accelerator, Scenario, Silicon, Task
from .schema import Config, Stated
from .workload import Cycles, image_work

GOAL = 2.0
"""The advantage that the mission asks for at least."""

Verdict = Literal["GO", "NO-GO", "UNPROVEN"]


@dataclass(frozen=True)
class Versus:
    """The DPU against one GPU. Without break-even volume, the GPU is cheaper at any volume, or there is no NRE."""

    gpu: str
    advantage: Quantity
    before_nre: Quantity  # the advantage at a volume without end
    saving: Quantity  # USD/image, before NRE
    images: Quantity | None
    devices: Quantity | None

    def outputs(self, dpu: str) -> dict[str, Quantity]:
        """Every number under `<dpu>.vs.<gpu>.<output>`."""
        found = {"advantage": self.advantage, "advantage_before_nre": self.before_nre, "saving": self.saving}
        found |= {} if self.images is None else {"break_even_images": self.images}
        found |= {} if self.devices is None else {"break_even_devices": self.devices}
        return {f"{dpu}.vs.{self.gpu}.{k}": q for k, q in found.items()}


@dataclass(frozen=True)
class Decision:
    """What the comparison says on cost alone, against the GPU that makes the cheapest image."""

    verdict: Verdict
    gpu: str
    advantage: float
    short: float  # by how much the goal is missed; 1 or less: not
    largest_part: str  # of the DPU's cost
    missing: tuple[str, ...]  # numbers that decide and are not measured

    @property
    def text(self) -> str:
        """In a sentence."""
        said = f"{self.verdict}: the cheapest other image ({self.gpu}) costs {self.advantage:.3g}x the DPU's"
        if self.verdict == "NO-GO":
            return f"{said}, {self.short:.3g}x short of {GOAL:g}x; the largest part of the cost is {self.largest_part}"
        return said + (f"; not measured: {', '.join(self.missing)}" if self.missing else "")


@dataclass(frozen=True)
class Comparison:
    """Costs of a DPU and GPUs. `stated` holds the distribution of every number that a file states, by name."""

    scenario: Scenario
    task: Task
    dpu: Cost
    gpus: tuple[Cost, ...]
    skipped: Mapping[str, str]
    versus: tuple[Versus, ...]
    stated: Mapping[str, Stated] = field(default_factory=dict)

    def outputs(self) -> dict[str, Quantity]:
        """Every number, by name."""
        found = dict(self.dpu.outputs())
        for c in self.gpus:
            found |= c.outputs()
        for v in self.versus:
            found |= v.outputs(self.dpu.platform.name)
        return found

    @property
    def cheapest(self) -> Cost:
        """The GPU with the cheapest image."""
        return min(self.gpus, key=lambda c: c.image.value)

    @property
    def versus_cheapest(self) -> Versus:
        """The DPU against that GPU."""
        return next(v for v in self.versus if v.gpu == self.cheapest.platform.name)

    def decision(self) -> Decision:
        """On cost: NO-GO below the goal, else GO only if rates and powers of both sides are measured."""
        best = self.cheapest
        advantage = best.image.value / self.dpu.image.value
        parts = self.dpu.parts
        missing = [
            f"{q.name or what} ({q.provenance.label})"
            for c in (self.dpu, best)
            for what, q in (("rate", c.platform.rate), ("busy power", c.platform.busy))
            if q.provenance is not Provenance.MEASURED
        ]
        verdict: Verdict = "NO-GO" if advantage < GOAL else "UNPROVEN" if missing else "GO"
        return Decision(
            verdict=verdict,
            gpu=best.platform.name,
            advantage=advantage,
            short=GOAL / advantage,
            largest_part=max(parts, key=lambda k: parts[k].value),
            missing=tuple(missing),
        )


def versus(dpu: Cost, gpu: Cost) -> Versus:
    """The DPU against one GPU."""
    name = f"{dpu.platform.name}.vs.{gpu.platform.name}"
    saving = (gpu.image - dpu.marginal).called(f"{name}.saving", "cost of the GPU - marginal cost of the DPU")
    images = devices = None
    if dpu.platform.nre is not None and saving.value > 0:
        images = (dpu.platform.nre / saving).to("image").called(f"{name}.break_even_images", "NRE / saving")
        devices = (
            (images / dpu.life).to("device").called(f"{name}.break_even_devices", "images / images of a device's life")
        )
    advantage = (gpu.image / dpu.image).called(f"{name}.advantage", "cost of the GPU / cost of the DPU")
    before = (gpu.image / dpu.marginal).called(f"{name}.advantage_before_nre", "cost of the GPU / marginal cost")
    return Versus(gpu.platform.name, advantage, before, saving, images, devices)


def stated_numbers(config: Config, prefix: str) -> dict[str, Stated]:
    """Every stated number of a file with the name that its quantity has."""
    found: dict[str, Stated] = {}

    def walk(value: object, name: str) -> None:
        if isinstance(value, Stated):
            found[name] = value
        elif isinstance(value, Config):
            for key in type(value).model_fields:
                walk(getattr(value, key), f"{name}.{key}")
        elif isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, f"{name}.{key}")

    walk(config, prefix)
    return found


def compare(
    scenario: Scenario,
    arch: Arch,
    cycles: Cycles,
    gpus: Iterable[Accelerator],
    silicon: Silicon,
    *,
    card: Accelerator | None = None,
    measured: Mapping[str, Mapping[str, Quantity]] | None = None,
    strict: Sequence[str] = (),
) -> Comparison:
    """The comparison: the arch on `card`, or as a chip without one.

    GPUs whose file lacks a price that the scenario needs are left out with the reason; those named in `strict` are
    refused. `measured` holds, by device, numbers of results files that take the place of stated ones.

    Raises:
        DpuError: no GPU is left, or a strict one has no price.
    """
    terms = Terms.of(scenario)
    work = image_work(cycles, arch)
    replaced = measured or {}
    stated = stated_numbers(scenario, "scenario") | stated_numbers(cycles, arch.name)
    if card is None:
        platform = chip(arch, work, silicon, terms)
        stated |= stated_numbers(silicon, "silicon")
    else:
        stated |= stated_numbers(card, card.name)
        try:
            own = replaced.get(card.name, {})
            platform = from_accelerator(card, terms, own.get("latency", work.seconds), own)
        except MissingField as e:
            raise _priceless(card, scenario, e) from e
    dpu = cost(platform, terms)
    costs: list[Cost] = []
    skipped: dict[str, str] = {}
    for gpu in gpus:
        try:
            costs.append(cost(from_accelerator(gpu, terms, measured=replaced.get(gpu.name)), terms))
        except MissingField as e:
            if gpu.name in strict:
                raise _priceless(gpu, scenario, e) from e
            skipped[gpu.name] = f"field '{e}' is missing"
        else:
            stated |= stated_numbers(gpu, gpu.name)
    if not costs:
        raise DpuError(
            f"scenario {scenario.name}",
            f"field 'tenure': value is '{scenario.tenure}', and no GPU given has a price for it",
            hint="add the price to a file of configs/gpu, or give another GPU",
            code="E525",
        )
    taken = {f"{device}.{name}" for device, numbers in replaced.items() for name in numbers}
    return Comparison(
        scenario=scenario,
        task=cycles.task,
        dpu=dpu,
        gpus=tuple(costs),
        skipped=skipped,
        versus=tuple(versus(dpu, c) for c in costs),
        stated={k: v for k, v in stated.items() if k not in taken},
    )


def _priceless(device: Accelerator, scenario: Scenario, error: MissingField) -> DpuError:
    kind = "USD/h" if "rental" in str(error) else "USD"
    return DpuError(
        f"{device.kind} {device.name}",
        f"field '{error}': is missing, allowed: 0 or more {kind}",
        why=f"scenario '{scenario.name}' needs it",
        hint="add the price to the file, or choose another scenario",
        code="E525",
    )
