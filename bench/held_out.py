"""Captions that no network was trained on, drawn by a program on the simulated device and in float32, and judged.

The prompts are the first of the evaluation's 40 (`train/captions.py`), so they are not chosen by how they come out.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..codegen.dpufile import load
from ..errors import DpuError
from ..files import atomic_write
from ..runtime.parts import device_parts
from ..runtime.pipeline import Pipeline, Request
from ..runtime.pipeline_files import BundledFiles, FolderFiles
from ..runtime.session import Session
from ..runtime.sqnr import psnr
from ..runtime.targets import open_device
from ..runtime.unets import DpuUnet, OnnxUnet
from .caption import MODEL
from .metrics.images import Pixels
from .train.captions import Combination, evaluation_prompts
from .train.compose import SIZE
from .train.judge import Seen, load_judge, look

FLOAT = "float32"


@dataclass(frozen=True)
class HeldOut:
    """The prompts, and the pictures [n, h, w, 3] of both sides with what the judge sees in them."""

    prompts: Sequence[tuple[Combination, str]]
    seed: int
    device: str
    drawn: Pixels
    drawn_seen: Sequence[Seen]
    reference: Pixels
    reference_seen: Sequence[Seen]

    @property
    def correct(self) -> tuple[int, int]:
        """How many pictures are correct: in float32, on the device."""
        wanted = [c for c, _ in self.prompts]
        one, other = (
            sum(s.combination == w for s, w in zip(side, wanted, strict=True))
            for side in (self.reference_seen, self.drawn_seen)
        )
        return one, other

    def text(self) -> str:
        """The lines that `dpubench held-out` prints."""
        width = max(len(text) for _, text in self.prompts)
        lines = [f"{'held-out caption':{width}}     PSNR  {FLOAT}  {self.device}"]
        for i, (wanted, text) in enumerate(self.prompts):
            decibel = psnr(self.reference[i], self.drawn[i])
            verdicts = f"{self.reference_seen[i].against(wanted):7}  {self.drawn_seen[i].against(wanted)}"
            lines.append(f"{text:{width}}  {decibel:4.1f} dB  {verdicts}")
        n, (reference, drawn) = len(self.prompts), self.correct
        lines.append(
            f"correct, by the classifier beside the model: {FLOAT} {reference} of {n}, {self.device} {drawn} of {n}"
        )
        return "\n".join(lines)

    def save(self, path: Path) -> None:
        """A PNG: a column for each prompt, at most eight; float32 above the device."""
        from PIL import Image

        columns = min(8, len(self.prompts))
        rows: list[Pixels] = []
        for at in range(0, len(self.prompts), columns):
            for side in (self.reference, self.drawn):
                part = list(side[at : at + columns])
                blank = [np.full_like(part[0], 255)] * (columns - len(part))
                rows.append(np.concatenate([*part, *blank], axis=1))
        with atomic_write(path) as temporary:
            # Of zlib's strategies run lengths give the smallest files: the grounds are flat, the noise has no repeats.
            Image.fromarray(np.concatenate(rows)).save(temporary, format="PNG", optimize=True, compress_type=zlib.Z_RLE)


def draw(
    program: Path,
    reference: Path,
    n: int = 8,
    seed: int = 0,
    steps: int = 20,
    model: Path = MODEL,
    progress: Callable[[int, int], None] | None = None,
) -> HeldOut:
    """Draw the first `n` prompts of the evaluation with `program` on target sim, and with `reference` in float32.

    Args:
        program: a `.dpu` of a pipeline that `dpu.bench.train` made, at 128x128.
        reference: the exported folder it was compiled from.
        n: prompts, 1 to 40.
        seed: of the starting noise of every picture.
        steps: denoising steps; guidance is 5.
        model: the folder with the judge.
        progress: called with (pictures done, pictures in all).

    Raises:
        DpuError: a file is missing or of another kind, or the program makes pictures of another size.
    """
    prompts = evaluation_prompts()
    if not 1 <= n <= len(prompts):
        raise DpuError("--prompts", f"{n} is not between 1 and {len(prompts)}", code="E501")
    prompts = prompts[:n]
    judge = load_judge(model)
    found = load(program)
    requests = [Request(text, None, seed, steps, height=SIZE, width=SIZE) for _, text in prompts]
    drawn, expected = [], []
    whole = Pipeline(FolderFiles(reference))
    with Session(found, open_device("sim", found.arch, timed=False)) as session:
        unet = DpuUnet(session)
        device = Pipeline(BundledFiles(found.files, str(program)), device_parts(session))
        height, width = (side * device.scale for side in unet.latent_size)
        check_size(program, height, width)
        unet.check_samples(2)
        onnx = OnnxUnet(whole.files)
        for i, request in enumerate(requests):
            drawn.append(device.generate(request, unet).pixels)
            expected.append(whole.generate(request, onnx).pixels)
            if progress:
                progress(i + 1, n)
    ours, theirs = np.stack(drawn), np.stack(expected)
    name = f"{found.arch.name} {found.info.get('precision', '')} (simulated)"
    return HeldOut(prompts, seed, name, ours, look(judge, ours), theirs, look(judge, theirs))


def check_size(program: Path, height: int, width: int) -> None:
    """Refuse a program that makes pictures of a size in pixels that the judge does not read.

    Raises:
        DpuError: it does.
    """
    if (height, width) != (SIZE, SIZE):
        raise DpuError(
            str(program),
            f"makes pictures of {width}x{height}, the judge reads {SIZE}x{SIZE}",
            why="it was trained at that size",
            hint=f"compile with --size {SIZE}x{SIZE}",
            code="E405",
        )
