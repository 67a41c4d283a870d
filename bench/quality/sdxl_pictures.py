"""The pictures of SDXL: one PNG each, which says what it was made from; what is there is not made again.

A picture on the simulated device keeps every call of a model in WORK/steps until it is whole (`runtime/resume.py`): a
run that was killed goes on at the denoising step where it was. The float16 reference goes on at the picture.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...errors import DpuError, refusing
from ...files import atomic_write, sha256
from ..full_image import machine
from ..metrics.images import Pixels, read_rgb
from ..metrics.report import versions
from .pictures import diffusers_maker, folder_name
from .plan import program_path
from .sdxl_experiment import Asked
from .sdxl_model import Given
from .sdxl_plan import REFERENCE, Request, free_memory

Say = Callable[[str], None]
MADE = "dpu.made"
"""Keyword of the text in the PNG."""


class Made(NamedTuple):
    """A picture [height, width, 3]; seconds of its models, resumed ones too; float16 overflows, NaN and inputs beyond
    float16; and what made it."""

    pixels: Pixels
    seconds: float
    exceptions: int
    made_on: str


Maker = Callable[[int, Asked, Callable[[int], None]], tuple[Pixels, float, int]]
"""(number, what, on_step) -> pixels, seconds, exceptions. `on_step` hears the number of steps that are done."""


def picture_path(request: Request, precision: str, number: int) -> Path:
    """Where a picture is kept."""
    folder = request.work / "pictures" / request.experiment.name / folder_name(precision) / str(request.steps)
    return folder / f"{number:04}.png"


def key_of(request: Request, given: Given, precision: str) -> dict[str, object]:
    """What the pictures of a precision are made from, except prompt and seed.

    Raises:
        DpuError: there is no program of it.
    """
    e = request.experiment
    key: dict[str, object] = {"model": given.model_sha256, "size": request.side(given), "steps": request.steps}
    key |= {"guidance": e.guidance, "negative": e.negative}
    if precision == REFERENCE:
        return key | {"float": precision}
    path = program_path(request.work, precision)
    if not path.is_file():
        raise DpuError(str(path), "no such program", hint="run the command again: it is compiled", code="E106")
    return key | {"program": program_digest(path)}


def program_digest(path: Path) -> str:
    """SHA-256 of a program of gigabytes, computed once a process."""
    about = path.stat()
    return _digest(path, about.st_size, about.st_mtime_ns)


@cache
def _digest(path: Path, size: int, changed: int) -> str:
    return sha256(path)


def digest_of(key: Mapping[str, object], asked: Asked) -> str:
    """Of all that decides one picture."""
    return hashlib.sha256(json.dumps([dict(key), *asked], sort_keys=True).encode()).hexdigest()


def save(path: Path, made: Made, key: str) -> None:
    """Write a picture, atomically."""
    from PIL import Image, PngImagePlugin

    path.parent.mkdir(parents=True, exist_ok=True)
    note = PngImagePlugin.PngInfo()
    said = {"key": key, "seconds": made.seconds, "exceptions": made.exceptions, "made_on": made.made_on}
    note.add_text(MADE, json.dumps(said))
    with atomic_write(path) as temporary:
        Image.fromarray(made.pixels).save(temporary, format="PNG", pnginfo=note)


def read(path: Path, key: str) -> Made | None:
    """A picture; none if there is no file.

    Raises:
        DpuError: see `note`.
    """
    said = note(path, key)
    return said and said._replace(pixels=read_rgb(path))


def note(path: Path, key: str) -> Made | None:
    """What a picture says of itself, without its pixels; none if there is no file.

    Raises:
        DpuError: E102, it says nothing; E117, it is no PNG; E522, it was made from something else.
    """
    from PIL import Image

    if not path.is_file():
        return None
    hint = "delete the file, and the picture is made again"
    with refusing(str(path), "is no readable PNG", hint=hint, code="E117"), Image.open(path) as image:
        text = image.info.get(MADE)
    try:
        said = json.loads(text or "")
        seen, nothing = str(said["key"]), np.zeros((0, 0, 3), np.uint8)
        found = Made(nothing, float(said["seconds"]), int(said["exceptions"]), str(said["made_on"]))
    except (ValueError, KeyError, TypeError) as e:
        what = f"does not say what it was made from ({MADE})"
        raise DpuError(str(path), what, hint=hint, code="E102") from e
    if seen != key:
        what = f"field 'key': value is {seen[:12]}, allowed: {key[:12]}"
        why = "the picture was made from another program, model, prompt or number of steps"
        raise DpuError(str(path), what, why=why, hint=f"{hint}; or choose another --work", code="E522")
    return found


def missing(request: Request, given: Given, precision: str) -> list[int]:
    """Numbers of the pictures that are not there; of a precision without a program: all.

    Raises:
        DpuError: see `note`.
    """
    numbers = range(len(request.experiment.asked))
    if precision != REFERENCE and not program_path(request.work, precision).is_file():
        return list(numbers)
    key = key_of(request, given, precision)
    asked = request.experiment.asked
    return [n for n in numbers if note(picture_path(request, precision, n), digest_of(key, asked[n])) is None]


def make(request: Request, given: Given, say: Say, progress: Callable[[int, int], None]) -> int:
    """Make what is missing, the reference first; how many. `progress` counts steps of all pictures.

    Raises:
        DpuError: what a run meets.
    """
    todo = {p: missing(request, given, p) for p in request.every}
    total = request.steps * sum(len(numbers) for numbers in todo.values())
    done = made = 0
    where = made_on(request.device)
    for precision, numbers in todo.items():
        if not numbers:
            continue
        say(f"{folder_name(precision)}: {len(numbers)} pictures to make on {request.device}")
        key = key_of(request, given, precision)
        with _maker(request, given, precision, key) as maker:
            for number in numbers:
                asked = request.experiment.asked[number]
                pixels, seconds, exceptions = maker(number, asked, _behind(progress, done, total))
                done += request.steps
                progress(done, total)
                found = Made(pixels, seconds, exceptions, where)
                save(picture_path(request, precision, number), found, digest_of(key, asked))
                shutil.rmtree(_steps(request, precision, number), ignore_errors=True)
                made += 1
                rate = 3600 / max(seconds, 1e-9)
                say(f"{folder_name(precision)} {number}: {seconds:.1f} s, {rate:.3g} images an hour")
        free_memory(request.device)
    return made


def _behind(progress: Callable[[int, int], None], before: int, total: int) -> Callable[[int], None]:
    """Hears the steps of one picture, where `before` were done before it."""

    def heard(steps: int) -> None:
        progress(before + steps, total)

    return heard


def made_on(device: str) -> str:
    """The GPU, or the processor, and the libraries that decide what floats come out."""
    about = machine(device)
    place = about["device"] if device != "cpu" else f"{about['processor']}, {about['processors']} processors"
    return ", ".join([str(place), *(f"{n} {v}" for n, v in versions(("torch", "diffusers")).items())])


def _steps(request: Request, precision: str, number: int) -> Path:
    folder = request.work / "steps" / request.experiment.name / folder_name(precision) / str(request.steps)
    return folder / f"{number:04}"


@contextmanager
def _maker(request: Request, given: Given, precision: str, key: Mapping[str, object]) -> Iterator[Maker]:
    if precision == REFERENCE:
        yield _reference(request, given)
        return
    from ...codegen.dpufile import load
    from ...runtime.session import Session
    from ...runtime.targets import open_device

    program = load(program_path(request.work, precision))
    with Session(program, open_device("sim", program.arch, device=request.device, timed=False)) as session:
        yield _simulated(request, given, precision, key, session)


def _reference(request: Request, given: Given) -> Maker:
    e = request.experiment
    folder = request.folder(given)
    maker = diffusers_maker(folder, e.guidance, request.device, e.negative, request.side(given))

    def make_one(number: int, asked: Asked, on_step: Callable[[int], None]) -> tuple[Pixels, float, int]:
        start = time.perf_counter()
        pixels, exceptions = maker(asked.prompt, request.steps, asked.seed)
        return pixels, time.perf_counter() - start, exceptions

    return make_one


def _simulated(request: Request, given: Given, precision: str, key: Mapping[str, object], session: object) -> Maker:
    from ...runtime.parts import device_parts
    from ...runtime.pipeline import Pipeline, Step
    from ...runtime.pipeline import Request as Image
    from ...runtime.pipeline_files import BundledFiles
    from ...runtime.resume import Folder, KeptPart, KeptUnet, work_of
    from ...runtime.session import Session
    from ...runtime.unets import DpuUnet

    assert isinstance(session, Session)
    files = BundledFiles(session.program.files, str(program_path(request.work, precision)))
    parts, unet = device_parts(session), DpuUnet(session)
    side, e = request.side(given), request.experiment

    def make_one(number: int, asked: Asked, on_step: Callable[[int], None]) -> tuple[Pixels, float, int]:
        before = work_of(session)
        image = Image(asked.prompt, e.negative, asked.seed, request.steps, e.guidance, side, side)
        log = Folder(_steps(request, precision, number), {**key, "request": asdict(image)}, session)
        pipeline = Pipeline(files, {name: KeptPart(part, log, name) for name, part in parts.items()})

        def heard(step: Step) -> None:
            on_step(step.index + 1)

        pixels = pipeline.generate(image, KeptUnet(unet, log), heard).pixels
        work = log.work(session)
        work.add(before, -1)
        counted = work.device_counters
        exceptions = counted.fp16_overflow + counted.nan + work.input_overflows
        return np.ascontiguousarray(pixels), sum(call.seconds for call in log.calls), exceptions

    return make_one
