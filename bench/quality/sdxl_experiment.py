"""Which pictures SDXL's quality is judged on: the 40 prompts of the experiment, or MLPerf's 5,000 captions.

MLPerf's way (mlcommons/inference @b66003e, text_to_image/backend_pytorch.py and tools/latent.py): 20 Euler steps,
guidance 8, one negative prompt, and one noise for all captions, which is that of seed 0 (its latents.npy differs from
torch's by 2.4e-7 at most).
"""

from __future__ import annotations

import csv
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ...errors import DpuError, refusing
from ...runtime.workload import evaluation_set
from ..gate_conditions import DATASET, QUALITY_IMAGES

GUIDANCE = 5.0
STEPS = 20
"""Fewer steps, or fewer prompts than the experiment has, are a rehearsal."""
MLPERF_GUIDANCE = 8.0
MLPERF_NEGATIVE = "normal quality, low quality, worst quality, low res, blurry, nsfw, nude"
MLPERF_CAPTIONS = "7a70c1a8351e5b07f8bd4050e0995ad7fe3a59e8246c5ea1ed822876ba9c9a02"
"""SHA-256 of the captions in text_to_image/coco2014/captions/captions_source.tsv @b66003e, one a line."""


class Asked(NamedTuple):
    """One picture: what it shows and the seed of its noise."""

    prompt: str
    seed: int


@dataclass(frozen=True)
class Experiment:
    """The pictures of one way to judge. `whole` are all of it, of which `asked` are the first."""

    name: str  # "prompts" or "captions": a folder of the work folder
    asked: tuple[Asked, ...]
    whole: int
    guidance: float
    negative: str | None
    dataset: str  # as `metrics.mlperf.verdict` wants it
    says: str

    def digest(self) -> str:
        """Over everything that decides a picture, but model and steps."""
        content = [self.name, [*self.asked], self.guidance, self.negative]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def rehearsal(self, steps: int) -> tuple[str, ...]:
        """Why so few pictures or steps are no result."""
        why = []
        if len(self.asked) < self.whole:
            why.append(f"it has {len(self.asked):,} of the {self.whole:,} {self.name}")
        if steps < STEPS:
            why.append(f"it has {steps} of {STEPS} steps")
        return tuple(why)


def prompts(count: int) -> Experiment:
    """The first `count` of the experiment's prompts with their seeds; 0: all.

    Raises:
        DpuError: E501, there are not so many.
    """
    every = tuple(Asked(p.prompt, p.seed) for p in evaluation_set())
    says = f"configs/workload/prompts.json, guidance {GUIDANCE:g}, no negative prompt"
    return Experiment("prompts", _first(every, count), len(every), GUIDANCE, None, "", says)


def captions(path: Path, count: int) -> Experiment:
    """The first `count` captions of a file, made as MLPerf does; 0: all.

    Only MLPerf's own 5,000, known by their digest, are called `coco-2014-val`; scores of others are not comparable.

    Raises:
        DpuError: E106, no such file; E107, it holds no captions; E501, not so many.
    """
    found = read_captions(path)
    official = hashlib.sha256("\n".join(found).encode()).hexdigest() == MLPERF_CAPTIONS
    asked = tuple(Asked(text, 0) for text in found)
    dataset = DATASET if official else f"captions of {path.name}"
    says = (
        f"{'the captions of MLPerf' if official else f'captions of {path.name}, not those of MLPerf'}, as MLPerf makes"
        f" pictures: guidance {MLPERF_GUIDANCE:g}, its negative prompt, the noise of seed 0 for all"
    )
    first = _first(asked, count)
    return Experiment("captions", first, QUALITY_IMAGES, MLPERF_GUIDANCE, MLPERF_NEGATIVE, dataset, says)


def read_captions(path: Path) -> list[str]:
    """Captions in order: of a table like MLPerf's captions_source.tsv, of a JSON list, or a text with one a line.

    Raises:
        DpuError: E106, no such file; E107, it holds none.
    """
    hint = "give MLPerf's captions_source.tsv, a JSON list of texts, or a text file with a caption a line"
    if not path.is_file():
        raise DpuError(str(path), "no such file", hint=hint, code="E106")
    with refusing(str(path), "holds no captions", hint=hint, code="E107"):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".tsv":
            rows = list(csv.DictReader(text.splitlines(), delimiter="\t"))
            if not rows or "caption" not in rows[0]:
                raise ValueError("its first line names no column 'caption'")
            found = [row["caption"] for row in rows]
        elif path.suffix == ".json":
            found = json.loads(text)
            if not isinstance(found, list):
                raise ValueError("it is no list of texts")
        else:
            found = [line.strip() for line in text.splitlines() if line.strip()]
        if not found or not all(isinstance(one, str) and one.strip() for one in found):
            raise ValueError("one is no text" if found else "it is empty")
    return found


def _first(every: tuple[Asked, ...], count: int) -> tuple[Asked, ...]:
    if not 0 <= count <= len(every):
        raise DpuError("--count", f"{count} is not between 1 and {len(every):,}", hint="0: all", code="E501")
    return every[:count] if count else every
