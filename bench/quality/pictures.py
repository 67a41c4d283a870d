"""The pictures: one for each precision, number of steps, prompt and seed; made by worker processes, kept in files.

A file holds the pictures of one prompt with all its seeds, as one PNG (a third smaller than zip). It is written again
after each: a run that was killed loses one picture a worker. The file says what its pictures were made from; those of
another program or model are refused, not mixed.

    WORK/pictures/w8a8/20/07.npz
"""

from __future__ import annotations

import hashlib
import json
import platform
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from ...errors import DpuError
from ...files import atomic_write, sha256
from ..metrics.images import Pixels
from ..train.captions import evaluation_prompts
from .plan import FLOATS, Plan, label, program_path
from .workers import each


class Made(NamedTuple):
    """One picture [height, width, 3], CPU seconds of its process, the float16 overflows and NaN while making it, and
    the processor and versions that made it."""

    pixels: Pixels
    cpu_seconds: float
    exceptions: int
    made_on: str


Maker = Callable[[str, int, int], tuple[Pixels, int]]
"""(prompt, steps, seed) -> pixels, and the overflows and NaN."""


class Batch(NamedTuple):
    """The pictures of one prompt, for one worker. `key` is what they are made from."""

    model: str
    work: str
    precision: str
    steps: int
    prompt: int  # its place among the evaluation's
    seeds: tuple[int, ...]
    key: str
    device: str
    size: int
    guidance: float

    @property
    def path(self) -> Path:
        """Where its pictures are kept."""
        return picture_path(Path(self.work), self.precision, self.steps, self.prompt)


def folder_name(precision: str) -> str:
    """Of a precision in the work folder."""
    return precision if precision in FLOATS else label(precision)


def picture_path(work: Path, precision: str, steps: int, prompt: int) -> Path:
    """The file of one prompt."""
    return work / "pictures" / folder_name(precision) / str(steps) / f"{prompt:02}.npz"


@dataclass
class Kept:
    """What a file holds: pictures by seed."""

    key: str
    found: dict[int, Made] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write it, atomically; its folder is made."""
        path.parent.mkdir(parents=True, exist_ok=True)
        seeds = sorted(self.found)
        rows = [self.found[s] for s in seeds]
        with atomic_write(path) as temporary, temporary.open("wb") as f:
            np.savez(
                f,
                key=np.array(self.key),
                seeds=np.array(seeds, np.int64),
                png=_encoded(np.stack([r.pixels for r in rows])),
                cpu_seconds=np.array([r.cpu_seconds for r in rows]),
                exceptions=np.array([r.exceptions for r in rows], np.int64),
                made_on=np.array([r.made_on for r in rows]),
            )


def read_pictures(path: Path, key: str) -> Kept:
    """The pictures of a file; none if there is no file.

    Raises:
        DpuError: it is damaged; E522, its pictures were made from something else.
    """
    if not path.is_file():
        return Kept(key)
    hint = "delete the file, and its pictures are made again"
    try:
        with np.load(path, allow_pickle=False) as f:
            seen = str(f["key"])
            seeds, *columns = (f[n] for n in ("seeds", "cpu_seconds", "exceptions", "made_on"))
            pixels = _decoded(f["png"], len(seeds))
    except (OSError, ValueError, KeyError, BadZipFile, EOFError) as e:
        raise DpuError(str(path), f"is no file of pictures ({e})", hint=hint, code="E102") from e
    if seen != key:
        what = f"field 'key': value is {seen[:12]}, allowed: {key[:12]}"
        why = "the pictures were made from another program or model"
        raise DpuError(str(path), what, why=why, hint=f"{hint}; or choose another --work", code="E522")
    rows = zip(seeds, pixels, *columns, strict=True)
    return Kept(key, {int(s): Made(p, float(c), int(e), str(m)) for s, p, c, e, m in rows})


def _encoded(pixels: Pixels) -> Pixels:
    """Pictures [n, height, width, 3], one below the other, as the bytes of a PNG."""
    from PIL import Image

    out = BytesIO()
    Image.fromarray(pixels.reshape(-1, *pixels.shape[2:])).save(out, format="PNG")
    return np.frombuffer(out.getvalue(), np.uint8)


def _decoded(png: Pixels, count: int) -> Pixels:
    from PIL import Image

    strip = np.array(Image.open(BytesIO(png.tobytes())), np.uint8)  # torch wants it writable
    return strip.reshape(count, -1, *strip.shape[1:])


def key_of(plan: Plan, work: Path, precision: str) -> str:
    """A digest of what decides the pictures of a precision, except prompt, steps and seed.

    Raises:
        DpuError: there is no program of it.
    """
    made_from: dict[str, object] = {"model": plan.model_sha256, "size": plan.size, "guidance": plan.guidance}
    if precision in FLOATS:
        made_from["float"] = precision
    else:
        path = program_path(work, precision)
        if not path.is_file():
            raise DpuError(str(path), "no such program", hint="leave out --pictures-only to compile it", code="E106")
        made_from["program"] = sha256(path)
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()


def batches(
    model: Path,
    plan: Plan,
    work: Path,
    precisions: Sequence[str],
    steps: Sequence[int],
    prompts: int,
    seeds: int,
    device: str = "cpu",
) -> list[Batch]:
    """Every file of the run, with the seeds that it lacks; those with all are left out.

    Raises:
        DpuError: a file is damaged or of something else.
    """
    found = []
    for precision in precisions:
        key = key_of(plan, work, precision)
        for count in steps:
            for prompt in range(prompts):
                kept = read_pictures(picture_path(work, precision, count, prompt), key).found
                missing = tuple(s for s in range(seeds) if s not in kept)
                where = (str(model), str(work), precision, count, prompt, missing)
                if missing:
                    found.append(Batch(*where, key, device, plan.size, plan.guidance))
    return found


def run(todo: Sequence[Batch], jobs: int, progress: Callable[[int, int], None] = lambda done, total: None) -> list[int]:
    """Make the pictures of all batches on `jobs` processes; how many each made. `progress` counts pictures.

    Raises:
        DpuError: what a worker met.
    """
    total, made = sum(len(b.seeds) for b in todo), []
    for count in each(make_batch, todo, jobs, ordered=False):
        made.append(count)
        progress(sum(made), total)
    return made


def make_batch(batch: Batch) -> int:
    """Make what the batch's file lacks, and write the file after each picture; how many were made."""
    kept = read_pictures(batch.path, batch.key)
    text = evaluation_prompts()[batch.prompt][1]
    maker = open_maker(batch.model, batch.work, batch.precision, batch.device, batch.size, batch.guidance)
    made, where = 0, made_on(batch.device)
    for seed in batch.seeds:
        if seed in kept.found:
            continue
        start = cpu_seconds()
        pixels, exceptions = maker(text, batch.steps, seed)
        kept.found[seed] = Made(pixels, cpu_seconds() - start, exceptions, where)
        kept.save(batch.path)
        made += 1
    return made


@cache
def made_on(device: str) -> str:
    """This processor and the libraries that decide what floats come out; the simulator's results depend on none."""
    info = Path("/proc/cpuinfo")
    names = [n for n in info.read_text().splitlines() if n.startswith("model name")] if info.is_file() else []
    processor = names[0].split(":", 1)[1].strip() if names else platform.machine()
    libraries = ", ".join(f"{n} {version(n)}" for n in ("torch", "onnxruntime", "diffusers"))
    return f"{processor}, simulator on {device}, {libraries}"


def cpu_seconds() -> float:
    """Of this process, all its threads and the compilers it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@lru_cache(maxsize=1)  # a worker keeps one program loaded; batches come precision by precision
def open_maker(model: str, work: str, precision: str, device: str, size: int, guidance: float) -> Maker:
    """What makes the pictures of a precision.

    Raises:
        DpuError: the program cannot be loaded.
    """
    if precision == "fp16":
        return diffusers_maker(Path(model), guidance)
    if precision == "fp32":
        return _reference(Path(work) / "export", size, guidance)
    return _simulated(program_path(Path(work), precision), device, size, guidance)


def _reference(folder: Path, size: int, guidance: float) -> Maker:
    from ...runtime.pipeline import Pipeline, Request
    from ...runtime.pipeline_files import FolderFiles
    from ...runtime.unets import OnnxUnet

    files = FolderFiles(folder)
    pipeline, unet = Pipeline(files), OnnxUnet(files)

    def make(prompt: str, steps: int, seed: int) -> tuple[Pixels, int]:
        request = Request(prompt, seed=seed, steps=steps, guidance=guidance, height=size, width=size)
        return pipeline.generate(request, unet).pixels, 0

    return make


def _simulated(path: Path, device: str, size: int, guidance: float) -> Maker:
    from ...codegen.dpufile import load
    from ...runtime.parts import device_parts
    from ...runtime.pipeline import Pipeline, Request
    from ...runtime.pipeline_files import BundledFiles
    from ...runtime.session import Session
    from ...runtime.targets import check_device, open_device
    from ...runtime.unets import DpuUnet

    check_device(device, "sim")
    program = load(path)
    session = Session(program, open_device("sim", program.arch, device=device, timed=False))
    pipeline, unet = Pipeline(BundledFiles(program.files, str(path)), device_parts(session)), DpuUnet(session)

    def make(prompt: str, steps: int, seed: int) -> tuple[Pixels, int]:
        before = sum(session.exceptions.values()) + session.input_overflows
        request = Request(prompt, seed=seed, steps=steps, guidance=guidance, height=size, width=size)
        pixels = pipeline.generate(request, unet).pixels
        return pixels, sum(session.exceptions.values()) + session.input_overflows - before

    return make


def diffusers_maker(
    model: Path, guidance: float, device: str = "cpu", negative: str | None = None, side: int = 0
) -> Maker:
    """Pictures of a diffusers folder in float16, its VAE in float32 where its config asks for that (`force_upcast`).

    Args:
        model: the folder.
        guidance: scale of the guidance.
        device: "cpu" or "cuda".
        negative: the negative prompt.
        side: pixels, each way; 0: the model's own.
    """
    import torch

    from ...runtime.float_interpreter import full_float32

    pipeline = _float16(model, device)
    latent = side // pipeline.vae_scale_factor or pipeline.unet.config.sample_size
    shape = (1, pipeline.unet.config.in_channels, latent, latent)
    sized = {"height": side, "width": side} if side else {}

    def make(prompt: str, steps: int, seed: int) -> tuple[Pixels, int]:
        # The runtime's noise: drawn in float32 on the CPU.
        noise = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).half()
        with full_float32():
            image = pipeline(
                prompt=prompt,
                negative_prompt=negative,
                latents=noise.to(device),
                num_inference_steps=steps,
                guidance_scale=guidance,
                output_type="pt",
                **sized,
            ).images[0]
        bad = int((~torch.isfinite(image)).sum())
        pixels = (image.float() * 255).round().clamp(0, 255).permute(1, 2, 0).to(torch.uint8).cpu().numpy()
        return np.ascontiguousarray(pixels), bad

    return make


def _float16(model: Path, device: str) -> Any:
    """The pipeline of a folder, all of it in float16, without the library's advice against float16 on a CPU."""
    import warnings

    import diffusers
    import torch
    import transformers

    libraries: Any = diffusers, transformers  # mostly untyped
    logging = libraries[0].utils.logging
    for library in libraries:
        library.utils.logging.disable_progress_bar()
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # the argument's name changes from torch_dtype to dtype
            pipeline = libraries[0].StableDiffusionXLPipeline.from_pretrained(
                model, torch_dtype=torch.float16, add_watermarker=False, local_files_only=True
            )
            pipeline.to(device, torch.float16)
    finally:
        logging.set_verbosity(before)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline
