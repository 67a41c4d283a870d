"""Pictures of `tiny` against their captions: what the judge beside the model sees in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import DpuError
from .metrics.images import read_rgb
from .train.captions import Combination, caption, combination_of
from .train.compose import SIZE
from .train.judge import Seen, load_judge, look

MODEL = Path("models") / "tiny"
"""The shipped model, from the repository's root."""


@dataclass(frozen=True)
class Judged:
    """What was seen in each picture; `wanted` is what all of them should show, if it was said."""

    images: Sequence[Path]
    seen: Sequence[Seen]
    wanted: Combination | None
    model: Path

    @property
    def correct(self) -> int:
        """How many pictures show `wanted`."""
        return sum(s.combination == self.wanted for s in self.seen)

    def text(self) -> str:
        """The lines that `dpubench caption` prints."""
        names = [str(i) for i in self.images]
        says = [caption(s.combination, 0) for s in self.seen]
        verdicts = [f"  {s.against(self.wanted)}" if self.wanted else "" for s in self.seen]
        name, said = (max(map(len, ("picture", *names))), max(map(len, ("the judge sees", *says))))
        lines = [f"{'picture':{name}}  {'the judge sees':{said}}    sure" + ("  caption" if self.wanted else "")]
        lines += [
            f"{n:{name}}  {text:{said}}  {100 * s.sure:5.1f}%{verdict}"
            for n, text, s, verdict in zip(names, says, self.seen, verdicts, strict=True)
        ]
        if self.wanted:
            lines.append(f"{self.correct} of {len(names)} correct, by the classifier in {self.model} (measured)")
        return "\n".join(lines)


def wanted_of(text: str) -> Combination:
    """What a caption says.

    Raises:
        DpuError: it is not in the grammar of the captions.
    """
    found = combination_of(text)
    if found is None:
        raise DpuError(
            "--prompt",
            f"'{text}' is no caption that the judge knows",
            why="it was trained on the words and orders of words of bench/train/captions.py",
            hint='for example "two cats at the top on a blue background"',
            code="E501",
        )
    return found


def judge_images(images: Sequence[Path], prompt: str | None, model: Path = MODEL) -> Judged:
    """Judge PNG files of 128x128 pixels, against `prompt` if there is one.

    Raises:
        DpuError: no caption, no judge in `model`, or a file is no such picture.
    """
    wanted = wanted_of(prompt) if prompt is not None else None
    judge = load_judge(model)
    pictures = []
    for path in images:
        pixels = read_rgb(path)
        if pixels.shape != (SIZE, SIZE, 3):
            raise DpuError(
                str(path),
                f"is {pixels.shape[1]}x{pixels.shape[0]}, the judge reads {SIZE}x{SIZE}",
                why="it was trained at that size",
                hint=f"make the picture at {SIZE}x{SIZE}",
                code="E117",
            )
        pictures.append(pixels)
    return Judged(images, look(judge, np.stack(pictures)), wanted, model)
