"""What a run will take in disk, memory and hours, said before it begins.

Constants are those of full-size SDXL at 1024x1024, from records of this repository; other models are scaled by
parameters and pixels. Where pictures are there already, theirs is the time of a picture.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from ...errors import DpuError
from .pictures import folder_name
from .plan import program_path
from .sdxl_model import Given
from .sdxl_pictures import digest_of, key_of, missing, note, picture_path
from .sdxl_plan import REFERENCE, Request, calibration_path, needs_grams
from .sdxl_score import scored

PARAMETERS, SIDE = 3.47e9, 1024
"""Of SDXL base: all four parts, and pixels each way."""
_PROGRAM = 1.1
"""Bytes of a W8A8 program a parameter: 3.77 GB (results/sim/image.json). int4 weights take less, 16-bit ones more."""
_RESIDENT = 2.8
"""Bytes of memory a parameter at the compiler's peak, mapped files included: 9.44 GB (results/sim/image.json)."""
_GPU_BYTES = 15.8e9
"""Of the GPU, calibration's float32 weights among them (results/sim/image.json)."""
_PNG = 0.75
"""Of a picture's bytes that its PNG has."""
_EXPORT, _COMPILE = 140.0, 146.0
"""s, of one process on the host of an H200: means of results/sim/image.json and image_realistic.json."""
_CALIBRATION = {"cuda": (40.0, 1.6), "cpu": (60.0, 150.0)}
"""s, beforehand and a forward. cuda: of the same records; cpu: assumed, one thread at 45 GMAC a second."""
_FORWARD = {
    "cuda": (17.0, "measured on one H200: results/sim/image.json"),
    "cpu": (340.0, "one thread, measured on blocks: 285 s for five sixths of a forward, simulator/README.md"),
}
"""s of a guided forward on the simulated device. Text encoders and VAE decoder take about one more."""
_REFERENCE = {"cuda": (0.15, "assumed, three times eager torch's UNet"), "cpu": (150.0, "assumed")}
"""s of a guided forward of diffusers in float16; its VAE and encoders take about four more."""


_SCORE = 16.0
"""CPU seconds that the metrics of one pair take on one thread of an EPYC; measured."""


@dataclass(frozen=True)
class Stage:
    """One part of the work."""

    name: str
    seconds: float
    source: str


@dataclass(frozen=True)
class Estimate:
    """Everything that is still to do. Bytes by what they are of."""

    stages: tuple[Stage, ...]
    disk: Mapping[str, float]
    free: float
    memory: float
    available: float
    gpu: float  # 0: none is used
    left: int
    pictures: int
    work: Path
    small: bool  # far below full size: constants that do not shrink are left out

    @property
    def seconds(self) -> float:
        """Of all of it."""
        return sum(s.seconds for s in self.stages)

    def text(self) -> str:
        """The lines that are printed before the work."""
        gpu = f"; on the GPU about {self.gpu / 1e9:.1f} GB" if self.gpu else ""
        parts = ", ".join(f"{k} {_size(v)}" for k, v in self.disk.items() if v)
        lines = [
            f"to make      {self.left:,} of {self.pictures:,} pictures",
            f"disk         about {_size(sum(self.disk.values()))} in {self.work}, {_size(self.free)} free"
            + (f": {parts}" if parts else ""),
            f"memory       about {_size(self.memory)}, {_size(self.available)} available{gpu}",
        ]
        lines += [f"{s.name:<12} about {_time(s.seconds)} ({s.source})" for s in self.stages if s.seconds]
        about = "scaled down from full-size SDXL, and so too short: " * self.small
        return "\n".join([*lines, f"in all       {about}about {_time(self.seconds)}; it can be stopped, and goes on"])

    def check_room(self) -> None:
        """Refuse a run that fills the disk.

        Raises:
            DpuError: E101.
        """
        if (needed := sum(self.disk.values())) > self.free:
            raise DpuError(
                str(self.work),
                f"about {_size(needed)} are needed, {_size(self.free)} are free",
                why="export, programs and pictures lie there",
                hint="make room, or choose another --work",
                code="E101",
            )


def estimate(request: Request, given: Given) -> Estimate:
    """What the run still takes.

    Raises:
        DpuError: a picture that is there was made from something else.
    """
    todo = {p: len(missing(request, given, p)) for p in request.every}
    compiled = [p for p in request.precisions if not program_path(request.work, p).is_file()]
    size = sum(given.parameters.values()) / PARAMETERS
    work = size * (request.side(given) / SIDE) ** 2
    # Its manifest is written last.
    exported = given.exported or (request.folder(given) / "dpu_pipeline.json").is_file()
    grams = needs_grams(compiled)
    calibrated = not compiled or calibration_path(request.work, grams).is_file()
    forwards = request.calibration_prompts * request.calibration_steps
    before, each = _CALIBRATION[request.device]
    records = "measured on the host of an H200: results/sim/image.json, image_realistic.json"
    stages = [
        Stage("export", 0.0 if exported else _EXPORT * size, records),
        Stage("calibration", 0.0 if calibrated else before * size + each * work * forwards, f"{forwards} forwards"),
        Stage("compilation", _COMPILE * size * len(compiled), f"{len(compiled)} programs; {records}"),
    ]
    for precision, count in todo.items():
        one, source = _picture(request, given, precision, work)
        rate = f"{one:.3g} s a picture, {3600 / one:.3g} images an hour"
        stages.append(Stage(folder_name(precision), one * count, f"{count} pictures; {rate}; {source}"))
    pairs = len(request.precisions) * len(request.experiment.asked)
    lacking = pairs - len(scored(request))
    pixels = (request.side(given) / SIDE) ** 2
    where = f"{lacking} pairs, {request.jobs} processes; one thread, measured"
    stages.append(Stage("scores", _SCORE * pixels * lacking / request.jobs, where))
    disk = {
        "export": 0.0 if exported else 2.0 * sum(given.parameters.values()),
        "calibration": 0.0 if calibrated else given.gram_bytes * grams + 2e7 * size,
        "programs": _PROGRAM * sum(given.parameters.values()) * len(compiled),
        "pictures": sum(todo.values()) * 3 * request.side(given) ** 2 * _PNG,
    }
    place = request.work
    while not place.exists():
        place = place.parent
    return Estimate(
        tuple(stages),
        disk,
        shutil.disk_usage(place).free,
        _RESIDENT * sum(given.parameters.values()) + given.gram_bytes * grams,
        _available(),
        _GPU_BYTES * size if request.device == "cuda" else 0.0,
        sum(todo.values()),
        len(todo) * len(request.experiment.asked),
        request.work,
        work < 0.1,
    )


def _picture(request: Request, given: Given, precision: str, work: float) -> tuple[float, str]:
    """(seconds, where they come from) of one picture."""
    if here := _here(request, given, precision):
        return max(median(here), 1e-3), f"median of {len(here)} pictures that are there"
    if precision == REFERENCE:
        forward, source = _REFERENCE[request.device]
        return forward * work * (request.steps + 4), source
    forward, source = _FORWARD[request.device]
    return forward * work * (request.steps + 1), source


def _here(request: Request, given: Given, precision: str) -> list[float]:
    if precision != REFERENCE and not program_path(request.work, precision).is_file():
        return []
    key = key_of(request, given, precision)
    notes = [
        note(picture_path(request, precision, n), digest_of(key, asked))
        for n, asked in enumerate(request.experiment.asked)
    ]
    return [found.seconds for found in notes if found]


def _available() -> float:
    """Bytes of memory that the system can give."""
    info = Path("/proc/meminfo")
    if info.is_file():
        fields = dict(line.split(":", 1) for line in info.read_text().splitlines() if ":" in line)
        if "MemAvailable" in fields:
            return float(fields["MemAvailable"].split()[0]) * 1024
    return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def _size(value: float) -> str:
    return f"{value / 1e9:.1f} GB" if value >= 1e8 else f"{value / 1e6:.1f} MB"


def _time(seconds: float) -> str:
    if seconds >= 7200:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 120 else f"{seconds:.0f} s"
