"""`dpubench metrics`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ...errors import DpuError
from ...runtime.cli.common import check_output, progress


def metrics(
    reference: Annotated[Path, typer.Argument(help="A PNG, or a folder of them.")],
    candidate: Annotated[Path, typer.Argument(help="The same of what is judged; pairs have one name.")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write all values as JSON.")] = None,
    inception: Annotated[Path | None, typer.Option(help="pt_inception-2015-12-05-6726825d.pth, for FID.")] = None,
    statistics: Annotated[Path | None, typer.Option(help="NPZ with mu and sigma, such as val2014.npz.")] = None,
    clip: Annotated[Path | None, typer.Option(help="A CLIP folder of transformers, for the CLIP score.")] = None,
    captions: Annotated[Path | None, typer.Option(help='JSON {"name.png": "caption"}; goes with --clip.')] = None,
    dataset: Annotated[str, typer.Option(help="What the images show; coco-2014-val for MLPerf's window.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Of the intervals.")] = 0,
    draws: Annotated[int, typer.Option(min=100, help="Bootstrap draws.")] = 2000,
) -> None:
    """How far are images from those of a reference, in PSNR, SSIM, FLIP and feature distances, with intervals?

    \b
    Examples:
      dpubench metrics out/reference.png out/out.png
      dpubench metrics out/float32 out/w8a8 -o out/quality.json
    """
    check_output(output)
    _spare_inputs(output, (reference, candidate, inception, statistics, captions))
    for given, other, missing in ((clip, captions, "--captions"), (captions, clip, "--clip")):
        if given and not other:
            raise DpuError(missing, "is missing: --clip and --captions go together", code="E501")
    if statistics and not inception:
        raise DpuError("--inception", "is missing: --statistics are of its features", code="E501")
    from ..metrics.report import Request, measure

    request = Request(reference, candidate, inception, statistics, clip, captions, dataset, seed, draws)
    with progress("pairs") as update:
        found = measure(request, update)
    if output is not None:
        found.save(output)
    typer.echo(found.text())


def _spare_inputs(output: Path | None, inputs: Sequence[Path | None]) -> None:
    """Refuse to write the result over what it is computed from, or over any image in the folders."""
    if output is None:
        return
    for given in inputs:
        if given is None or not given.exists():
            continue
        inside = given.is_dir() and output.suffix.lower() == ".png" and output.parent.samefile(given)
        if inside or (output.exists() and output.samefile(given)):
            raise DpuError(
                "--output",
                f"value is {output}, which is an input or would be one",
                why="the result would take its place",
                hint="choose another file",
                code="E501",
            )
