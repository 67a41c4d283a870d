"""What one image asks of a device: the task, its MACs, and the cycles that a DPU takes for it.

Of a workload file (`dpubench profile`) only this is read:

    {"format": "dpu.workload/1", "model": "sdxl-base-1.0", "resolution": 1024, "steps": 20, "scheduler": "euler",
     "guidance": 8.0, "parts": [{"name": "unet", "macs": 3380618000000, "runs": 40}, ...]}

`macs` are those of one run, `runs` how often an image has it (two a step with guidance). Cycles come from a file
`dpu.cycles/1`, which `dpubench estimate` or a simulation writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveInt, ValidationError

from ...errors import DpuError
from ...evidence import Provenance, Quantity
from ...ir.arch import Arch
from .inputs import Accelerator, Task
from .schema import Config, Factor, Stated, load, place, read_json

WORKLOAD, CYCLES = "dpu.workload/1", "dpu.cycles/1"
_PROFILE = "write it again: dpubench profile --resolution 1024 --steps 20 --output results/sdxl.json"


Count = Annotated[int, Field(ge=0, le=10**18)]
EACH_STEP = ("unet", "time")
"""Entry points of SDXL's programs that run at every step; the others run once an image."""


class WorkPart(BaseModel):
    """One part of the model."""

    model_config = ConfigDict(frozen=True)  # a workload file may hold more

    name: str
    macs: Count
    runs: Count


class Workload(BaseModel):
    """What evaluation reads of a workload file."""

    model_config = ConfigDict(frozen=True)

    model: str = "sdxl-base-1.0"
    resolution: PositiveInt
    steps: PositiveInt
    scheduler: str
    guidance: NonNegativeFloat | bool
    parts: Annotated[tuple[WorkPart, ...], Field(min_length=1)]

    @property
    def task(self) -> Task:
        """The experiment."""
        return Task(
            model=self.model,
            resolution=self.resolution,
            steps=self.steps,
            guidance=bool(self.guidance),
            scheduler=self.scheduler,
        )

    @property
    def macs(self) -> int:
        """Of one image."""
        return sum(p.macs * p.runs for p in self.parts)


class EntryCycles(Config):
    """One entry point of the DPU's program: cycles of the fullest tile, MACs and DRAM bytes of all, of one run."""

    entry: str
    cycles: Count
    macs: Count
    executed: Count
    dram_bytes: Count
    runs: Count


class Cycles(Config):
    """What an image takes a DPU. `error` is by how much the true cycles exceed those given."""

    format: Literal["dpu.cycles/1"]
    arch: str
    arch_sha256: str
    clock_hz: float = Field(gt=0)
    provenance: Literal["assumed", "simulated"]
    source: Annotated[str, Field(pattern=r"\S")]
    task: Task
    error: Factor
    entries: Annotated[tuple[EntryCycles, ...], Field(min_length=1)]

    def sums(self, field: Literal["cycles", "macs", "executed", "dram_bytes"]) -> int:
        """Of one image."""
        return sum(getattr(e, field) * e.runs for e in self.entries)


def runs_of(entry: str, steps: int) -> int:
    """How often an image of `steps` steps runs this entry point of SDXL."""
    return steps if entry in EACH_STEP else 1


def sdxl_cycles(
    arch: Arch,
    steps: int,
    entries: Iterable[EntryCycles],
    error: Stated,
    source: str,
    *,
    provenance: Literal["assumed", "simulated"] = "assumed",
    arch_sha256: str = "",
    resolution: int = 1024,
) -> Cycles:
    """What a guided image of SDXL base takes on `arch`; without `arch_sha256` no file may be compared with it."""
    return Cycles(
        format="dpu.cycles/1",
        arch=arch.name,
        arch_sha256=arch_sha256,
        clock_hz=arch.clock_hz,
        provenance=provenance,
        source=source,
        task=Task(model="sdxl-base-1.0", resolution=resolution, steps=steps, guidance=True, scheduler="euler"),
        error=error,
        entries=tuple(entries),
    )


@dataclass(frozen=True)
class ImageWork:
    """One image on one DPU, as evidence."""

    seconds: Quantity
    executed: Quantity  # MAC/image
    dram_bytes: Quantity  # byte/image
    cycles: Quantity


def read_workload(path: Path) -> Workload:
    """The part of a workload file that evaluation needs.

    Raises:
        DpuError: unreadable, or a field is missing or wrong.
    """
    content = read_json(path, WORKLOAD, _PROFILE)
    try:
        return Workload.model_validate(content)
    except ValidationError as e:
        first = e.errors()[0]
        seen = "" if first["type"] == "missing" else f" (value is {first['input']!r})"
        what = "is missing" if first["type"] == "missing" else str(first["msg"])
        raise DpuError(str(path), f"field '{place(first['loc'])}': {what}{seen}", hint=_PROFILE, code="E520") from e


def read_cycles(path: Path, arch: Arch, sha256: str) -> Cycles:
    """The cycles of an arch from a file.

    Raises:
        DpuError: unreadable, a field is wrong, or they are those of another arch.
    """
    found = load(path, Cycles, CYCLES)
    if found.arch_sha256 != sha256:
        raise DpuError(
            str(path),
            f"field 'arch_sha256': value is {found.arch_sha256[:12]} (arch '{found.arch}'), allowed: {sha256[:12]},"
            f" that of '{arch.name}'",
            why="cycles of another arch, or of an earlier version of its file",
            hint=f"dpubench estimate --arch {arch.name} -o FILE",
            code="E522",
        )
    return found


def image_work(cycles: Cycles, arch: Arch) -> ImageWork:
    """Seconds, MACs and bytes of one image; the weakest of its inputs is the clock, which an arch file assumes."""
    name = arch.name
    provenance = Provenance[cycles.provenance.upper()]

    def given(value: float, unit: str, field: str) -> Quantity:
        return Quantity(value=value, unit=unit, provenance=provenance, source=cycles.source, name=f"{name}.{field}")

    clock = Quantity(
        value=arch.clock_hz,
        unit="Hz",
        provenance=Provenance.ASSUMED,
        source=f"arch file {name}: a design choice, met by no chip yet",
        name=f"{name}.clock",
    )
    count = given(cycles.sums("cycles"), "cycle", "cycles_of_image")
    error = cycles.error.quantity(f"{name}.error")
    seconds = (count * error / clock).to("s").called(f"{name}.seconds_of_image", "cycles x error / clock")
    return ImageWork(
        seconds=seconds,
        executed=given(cycles.sums("executed"), "MAC/image", "executed_macs"),
        dram_bytes=given(cycles.sums("dram_bytes"), "byte/image", "dram_bytes"),
        cycles=count,
    )


def check_same(
    workload: Workload, where: str, cycles: Cycles, cycles_file: str, gpu: Accelerator, gpu_file: str
) -> None:
    """Refuse to compare different images.

    Raises:
        DpuError: GPU, cycles and workload are not of one task, or their MACs differ by more than 2 %.
    """
    for task, place_of in ((gpu.task, gpu_file), (cycles.task, cycles_file)):
        for field in Task.model_fields:
            mine = getattr(workload.task, field)
            if task is not None and (seen := getattr(task, field)) != mine:
                raise DpuError(
                    place_of,
                    f"field 'task.{field}': value is {seen!r}, allowed: {mine!r}, as in {where}",
                    why="costs of different images cannot be compared",
                    hint="profile and estimate the task that the GPU was measured on",
                    code="E522",
                )
    if (
        abs(cycles.sums("macs") - workload.macs) > 0.02 * workload.macs
    ):  # caching cross-attention's K and V saves 0.75 %
        raise DpuError(
            cycles_file,
            f"field 'entries': value is {cycles.sums('macs') / 1e12:.2f} TMAC an image, allowed:"
            f" {workload.macs / 1e12:.2f} TMAC within 2 %, as in {where}",
            why="the DPU would do other work than the GPU",
            hint="profile and estimate the same model",
            code="E522",
        )
