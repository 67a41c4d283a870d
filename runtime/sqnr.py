"""How far a UNet is from another: signal to quantisation noise, step by step, and PSNR of the images.

Two views. Teacher-forced: the candidate sees the reference's samples, so each step shows one forward's error alone.
Free-running: the candidate sees its own, so errors accumulate as in a real image. Both share text encoders and VAE
decoder; against the image of a pipeline that is float32 as a whole, those of the candidate count too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import sqrt

import numpy as np
import numpy.typing as npt

from .pipeline import Image, Pipeline, Request, Step, Unet
from .resume import KeptUnet, Log, Tensors
from .tensors import F32


def sqnr(reference: npt.ArrayLike, found: npt.ArrayLike) -> float:
    """10 log10(sum r^2 / sum (r - f)^2) in dB; infinite when equal, NaN when `found` is not finite."""
    r, f = np.asarray(reference, np.float64), np.asarray(found, np.float64)
    if not np.isfinite(f).all():
        return float("nan")
    noise, signal = float(np.sum((r - f) ** 2)), float(np.sum(r**2))
    if noise == 0:
        return float("inf")
    return 10 * float(np.log10(signal / noise)) if signal else float("-inf")


def cosine(reference: npt.ArrayLike, found: npt.ArrayLike) -> float:
    """r.f / (|r| |f|) over all elements, in -1 to 1; NaN where one is all zeros or not finite."""
    r, f = np.asarray(reference, np.float64).ravel(), np.asarray(found, np.float64).ravel()
    size = sqrt(float(r @ r)) * sqrt(float(f @ f))
    return float(np.clip(r @ f / size, -1, 1)) if np.isfinite(size) and size > 0 else float("nan")


def psnr(reference: npt.ArrayLike, found: npt.ArrayLike, peak: float = 255.0) -> float:
    """10 log10(peak^2 / mean (r - f)^2) in dB; infinite when equal."""
    r, f = np.asarray(reference, np.float64), np.asarray(found, np.float64)
    error = float(np.mean((r - f) ** 2))
    return 10 * float(np.log10(peak**2 / error)) if error else float("inf")


@dataclass(frozen=True)
class Comparison:
    """SQNR in dB and cosine of the UNet's output in each step, SQNR of the final latents, PSNR of the images."""

    timesteps: list[float]
    teacher_forced: list[float]
    free_running: list[float]
    latents: float
    image_psnr: float
    reference: Image
    found: Image
    whole: Image | None = None  # of the pipeline whose text encoders and VAE decoder are float32 too
    teacher_forced_cosine: list[float] = field(default_factory=list)
    free_running_cosine: list[float] = field(default_factory=list)

    @property
    def whole_latents(self) -> float:
        """SQNR in dB of the final latents against the whole pipeline in float32; NaN without it."""
        return sqnr(self.whole.latents, self.found.latents) if self.whole else float("nan")

    @property
    def whole_psnr(self) -> float:
        """PSNR in dB against the image of the whole pipeline in float32; NaN without it."""
        return psnr(self.whole.pixels, self.found.pixels) if self.whole else float("nan")


class _Both:
    """Runs two UNets on the same samples and goes on with the reference's answer."""

    def __init__(self, reference: Unet, candidate: Unet) -> None:
        self.reference, self.candidate = reference, candidate
        self.answers: list[F32] = []

    def prepare(self, conditioning: Mapping[str, F32]) -> None:
        self.reference.prepare(conditioning)
        self.candidate.prepare(conditioning)

    def step(self, sample: F32, timestep: float) -> F32:
        self.answers.append(self.candidate.step(sample, timestep))
        return self.reference.step(sample, timestep)


def compare(
    pipeline: Pipeline,
    request: Request,
    reference: Unet,
    candidate: Unet,
    on_step: Callable[[Step], None] | None = None,
    whole: Pipeline | None = None,
    log: Log | None = None,
) -> Comparison:
    """Make the image of `request` twice, and with `whole`, a pipeline in float32, a third time.

    Args:
        pipeline: text encoders and VAE decoder of the images compared step by step.
        request: the image.
        reference: the UNet whose samples are the teacher's.
        candidate: the UNet in question.
        on_step: called after each step of each image, `whole` first, then the teacher's.
        whole: text encoders and VAE decoder in float32.
        log: hears of the calls of a UNet in the passes `whole`, `forced` and `found`; takes them from a run before.
    """
    log = log or Log()
    truth: list[Step] = []
    free: list[Step] = []

    def record(steps: list[Step]) -> Callable[[Step], None]:
        def observe(step: Step) -> None:
            steps.append(step)
            if on_step:
                on_step(step)

        return observe

    first = _whole(whole, request, KeptUnet(reference, log, "reference"), on_step, log) if whole else None
    log.enter("forced")
    both = _Both(KeptUnet(reference, log, "reference"), KeptUnet(candidate, log))
    expected = pipeline.generate(request, both, record(truth))
    log.enter("found")
    found = pipeline.generate(request, KeptUnet(candidate, log), record(free))
    log.add_taken("found", found.seconds)
    return Comparison(
        [s.timestep for s in truth],
        [sqnr(s.noise, a) for s, a in zip(truth, both.answers, strict=True)],
        [sqnr(s.noise, f.noise) for s, f in zip(truth, free, strict=True)],
        sqnr(expected.latents, found.latents),
        psnr(expected.pixels, found.pixels),
        expected,
        found,
        first,
        [cosine(s.noise, a) for s, a in zip(truth, both.answers, strict=True)],
        [cosine(s.noise, f.noise) for s, f in zip(truth, free, strict=True)],
    )


def _whole(pipeline: Pipeline, request: Request, unet: Unet, on_step: Callable[[Step], None] | None, log: Log) -> Image:
    """The image of a pipeline in float32; taken as a whole, so that its models are not even loaded."""

    def compute() -> Tensors:
        made = pipeline.generate(request, unet, on_step)
        return {"pixels": made.pixels, "latents": made.latents}

    log.enter("whole")
    found = log("image", {}, compute)
    return Image(found["pixels"], found["latents"])
