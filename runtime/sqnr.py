"""How far a UNet is from another: signal to quantisation noise, step by step, and PSNR of the images.

Two views. Teacher-forced: the candidate sees the reference's samples, so each step shows one forward's error alone.
Free-running: the candidate sees its own, so errors accumulate as in a real image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .pipeline import Image, Pipeline, Request, Step, Unet
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


def psnr(reference: npt.ArrayLike, found: npt.ArrayLike, peak: float = 255.0) -> float:
    """10 log10(peak^2 / mean (r - f)^2) in dB; infinite when equal."""
    r, f = np.asarray(reference, np.float64), np.asarray(found, np.float64)
    error = float(np.mean((r - f) ** 2))
    return 10 * float(np.log10(peak**2 / error)) if error else float("inf")


@dataclass(frozen=True)
class Comparison:
    """SQNR in dB of the UNet's output in each step, of the final latents, and the PSNR of the images."""

    timesteps: list[float]
    teacher_forced: list[float]
    free_running: list[float]
    latents: float
    image_psnr: float
    reference: Image
    found: Image


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
) -> Comparison:
    """Make the image of `request` twice; `on_step` is called after each of the 2 x steps forwards of the candidate."""
    truth: list[Step] = []
    free: list[Step] = []

    def record(steps: list[Step]) -> Callable[[Step], None]:
        def observe(step: Step) -> None:
            steps.append(step)
            if on_step:
                on_step(step)

        return observe

    both = _Both(reference, candidate)
    expected = pipeline.generate(request, both, record(truth))
    found = pipeline.generate(request, candidate, record(free))
    return Comparison(
        [s.timestep for s in truth],
        [sqnr(s.noise, a) for s, a in zip(truth, both.answers, strict=True)],
        [sqnr(s.noise, f.noise) for s, f in zip(truth, free, strict=True)],
        sqnr(expected.latents, found.latents),
        psnr(expected.pixels, found.pixels),
        expected,
        found,
    )
