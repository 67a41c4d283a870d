"""The judge of the pictures of `tiny`: a classifier, its file, and what it sees in words.

It needs torch only, so that a command that judges starts without diffusers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from ...errors import DpuError, refusing
from .captions import ATTRIBUTES, Combination

FILE = Path("classifier") / "model.safetensors"
"""The judge's weights, float16, in the model's folder."""


class Classifier(nn.Module):
    """Object, colour, place and count of a picture [n, 3, 128, 128] in [-1, 1]: a row of logits for each."""

    def __init__(self) -> None:
        super().__init__()
        widths = (24, 48, 96, 128)
        layers: list[nn.Module] = []
        before = 3
        for width in widths:
            for stride, source in ((2, before), (1, width)):
                layers += [nn.Conv2d(source, width, 3, stride, 1), nn.GroupNorm(8, width), nn.SiLU()]
            before = width
        self.features = nn.Sequential(*layers, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16 * before, 128), nn.SiLU())
        self.heads = nn.ModuleList(nn.Linear(128, len(values)) for values in ATTRIBUTES.values())

    def forward(self, pictures: torch.Tensor) -> list[torch.Tensor]:
        """Logits [n, classes] of each of `ATTRIBUTES`."""
        features = self.features(pictures)
        return [head(features) for head in self.heads]


@dataclass(frozen=True)
class Seen:
    """What the judge sees in a picture, and the softmax probability of the attribute that it is least sure of."""

    combination: Combination
    sure: float

    def against(self, wanted: Combination) -> str:
        """Say "correct", or what is wrong: "count 2, not 3"."""
        rows = zip(ATTRIBUTES, self.combination.words(), wanted.words(), strict=True)
        wrong = [f"{name} {seen}, not {said}" for name, seen, said in rows if seen != said]
        return "; ".join(wrong) or "correct"


def load_judge(model: Path) -> Classifier:
    """The judge in a model's folder, in float32.

    Raises:
        DpuError: the folder has none, or the file is not this classifier's.
    """
    from safetensors.torch import load_file

    file = model / FILE
    if not file.is_file():
        raise DpuError(
            str(file),
            "missing",
            why="the pictures are judged by the classifier that was trained beside the model",
            hint="give the folder models/tiny, or one that python -m dpu.bench.train wrote",
            code="E111",
        )
    judge = Classifier().eval()
    with refusing(str(file), "holds no weights of this classifier", code="E112"):
        judge.load_state_dict({name: value.float() for name, value in load_file(file).items()})
    return judge


@torch.no_grad()
def look(judge: Classifier, pictures: npt.NDArray[np.uint8]) -> list[Seen]:
    """What the judge sees in `pictures` [n, 128, 128, 3], sRGB bytes."""
    inputs = torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 127.5 - 1
    probabilities = [row.softmax(1) for row in judge(inputs)]
    best = [p.max(1) for p in probabilities]
    return [
        Seen(Combination(*(int(b.indices[i]) for b in best)), min(float(b.values[i]) for b in best))
        for i in range(len(pictures))
    ]
