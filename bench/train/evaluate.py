"""Does a picture show what its caption says? The trained pipeline through diffusers, judged by the classifier.

The prompts are combinations that no network saw in training. Noise is drawn as the runtime draws it: on the CPU, in
float32, from the image's seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from .captions import ATTRIBUTES, FORMS, Combination, caption, evaluation_prompts, split
from .compose import SIZE, Composer, class_numbers
from .judge import Classifier

STEPS, GUIDANCE, SEEDS = 20, 5.0, 10
_BATCH = 100  # images of one call
_RESAMPLES = 10_000  # of the bootstrap
Pictures = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Score:
    """Shares of pictures, in [0, 1]: each attribute right, all of them right, and the latter's 95 % interval."""

    n: int
    attributes: dict[str, float]
    all_correct: float
    low: float
    high: float

    def as_json(self) -> dict[str, Any]:
        """Rounded to four digits."""
        shares = {**self.attributes, "all_correct": self.all_correct, "low_95": self.low, "high_95": self.high}
        return {"n": self.n, **{k: round(v, 4) for k, v in shares.items()}}


@torch.no_grad()
def right(classifier: Classifier, pictures: torch.Tensor, classes: torch.Tensor) -> npt.NDArray[np.bool_]:
    """[n, attributes]: whether the classifier sees `classes` [n, 4] in `pictures` [n, 3, h, w] in [-1, 1]."""
    seen = [
        torch.cat(rows) for rows in zip(*(_classes(classifier, p) for p in torch.split(pictures, _BATCH)), strict=True)
    ]
    return np.stack([(row == classes[:, i]).cpu().numpy() for i, row in enumerate(seen)], 1)


def _classes(classifier: Classifier, pictures: torch.Tensor) -> list[torch.Tensor]:
    return [row.argmax(1) for row in classifier(pictures)]


def score(found: npt.NDArray[np.bool_], groups: int) -> Score:
    """The shares of `found` [groups * k, attributes], and a bootstrap over groups, then over the k of each.

    A group is the pictures of one prompt. They are alike: resampling pictures alone would give too narrow an interval.
    """
    together = found.all(1).reshape(groups, -1)
    draw = np.random.default_rng(0)
    means = np.empty(_RESAMPLES)
    for i in range(_RESAMPLES):
        rows = draw.integers(groups, size=groups)
        columns = draw.integers(together.shape[1], size=together.shape)
        means[i] = together[rows[:, None], columns].mean()
    low, high = np.quantile(means, [0.025, 0.975])
    shares = dict(zip(ATTRIBUTES, found.mean(0).tolist(), strict=True))
    return Score(len(found), shares, float(together.mean()), float(low), float(high))


def real_score(classifier: Classifier, composer: Composer, vae: Any = None, each: int = 10) -> Score:
    """The classifier on composed pictures of all held-out combinations, through `vae` if one is given."""
    held = split()[1]
    classes = class_numbers(held, composer.device).repeat_interleave(each, 0)
    pictures = composer(classes, torch.Generator(composer.device).manual_seed(1))
    if vae is not None:
        pictures = reconstruct(vae, pictures)
    return score(right(classifier, pictures, classes), len(held))


@torch.no_grad()
def reconstruct(vae: Any, pictures: torch.Tensor) -> torch.Tensor:
    """Pictures through encoder and decoder, in the VAE's own type, rounded to bytes."""
    kind = next(vae.parameters()).dtype
    made = [vae.decode(vae.encode(p).latent_dist.mean).sample for p in torch.split(pictures.to(kind), _BATCH)]
    return _bytes(torch.cat(made).float()) / 127.5 - 1


def psnr(vae: Any, composer: Composer) -> float:
    """Peak signal-to-noise ratio in dB of reconstructions of held-out compositions."""
    classes = class_numbers(split()[1], composer.device)
    pictures = composer(classes, torch.Generator(composer.device).manual_seed(2))
    error = (reconstruct(vae, pictures) - pictures).square().mean().item()
    return 10 * math.log10(4 / error)


def prompts_of_training() -> tuple[tuple[Combination, str], ...]:
    """As many prompts as the evaluation's, evenly out of the training combinations."""
    seen = split()[0]
    n = len(evaluation_prompts())
    return tuple((c, caption(c, i % FORMS)) for i, c in enumerate(seen[:: len(seen) // n][:n]))


def generate(
    pipeline: Any,
    prompts: Sequence[str],
    seeds: int = SEEDS,
    guidance: float = GUIDANCE,
) -> Pictures:
    """Pictures [prompts * seeds, h, w, 3] as bytes, seed by seed within a prompt."""
    kind, device = pipeline.unet.dtype, pipeline.unet.device
    shape = (1, 4, SIZE // 8, SIZE // 8)
    noise = torch.cat([torch.randn(shape, generator=torch.Generator().manual_seed(s)) for s in range(seeds)])
    texts = [p for p in prompts for _ in range(seeds)]
    latents = noise.repeat(len(prompts), 1, 1, 1).to(device, kind)
    made = []
    for at in range(0, len(texts), _BATCH):
        images = pipeline(
            prompt=texts[at : at + _BATCH],
            latents=latents[at : at + _BATCH],
            num_inference_steps=STEPS,
            guidance_scale=guidance,
            output_type="pt",
        ).images
        made.append(_bytes(images.float() * 2 - 1).permute(0, 2, 3, 1).to(torch.uint8).cpu().numpy())
    return np.concatenate(made)


def caption_score(
    pipeline: Any,
    classifier: Classifier,
    prompts: Sequence[tuple[Combination, str]],
    seeds: int = SEEDS,
    guidance: float = GUIDANCE,
) -> tuple[Score, Pictures, npt.NDArray[np.bool_]]:
    """(how often pictures show their prompts, the pictures, what was right of each [n, attributes])."""
    pictures = generate(pipeline, [text for _, text in prompts], seeds, guidance)
    device = pipeline.unet.device
    classes = class_numbers(tuple(c for c, _ in prompts), device).repeat_interleave(seeds, 0)
    inputs = torch.from_numpy(pictures).to(device).permute(0, 3, 1, 2).float() / 127.5 - 1
    found = right(classifier, inputs, classes)
    return score(found, len(prompts)), pictures, found


def chance(prompts: Sequence[tuple[Combination, str]]) -> float:
    """The share of prompt pairs whose combinations are equal: what pictures that ignore their prompt would score."""
    rows = [astuple(c) for c, _ in prompts]
    return sum(a == b for a in rows for b in rows) / len(rows) ** 2


def write_grid(pictures: Pictures, columns: int, path: Path) -> None:
    """A PNG of pictures [n, h, w, 3] side by side, row by row."""
    from PIL import Image

    n, height, width, _ = pictures.shape
    assert n % columns == 0, "the last row must be full"
    rows = pictures.reshape(n // columns, columns, height, width, 3).transpose(0, 2, 1, 3, 4)
    Image.fromarray(rows.reshape(n // columns * height, columns * width, 3)).save(path, optimize=True)


def _bytes(pictures: torch.Tensor) -> torch.Tensor:
    """[-1, 1] to 0..255, rounded, still floats."""
    return ((pictures + 1) * 127.5).round().clamp(0, 255)
