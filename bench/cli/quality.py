"""`dpubench quality`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...errors import DpuError
from ...runtime.cli.common import check_output, progress, say
from . import lists


def quality(
    model: Annotated[Path, typer.Argument(help="A diffusers folder of make train, with its classifier.")],
    precisions: Annotated[
        str, typer.Option(help="With commas between them: policies or files; +gptq, +smooth, +percentile, +mean after.")
    ] = "w8a8,w8a8-static,w4a8,w8a16",
    seeds: Annotated[int, typer.Option(help="Pictures of each prompt.")] = 10,
    steps: Annotated[str, typer.Option(help="Denoising steps, with commas between them.")] = "20",
    limit: Annotated[int, typer.Option(help="Only the first so many of the 40 prompts: a rehearsal.")] = 40,
    arch: Annotated[str, typer.Option(help="What the programs are compiled for and timed on.")] = "dpu_tiny",
    jobs: Annotated[int, typer.Option(min=1, help="Worker processes, one thread each.")] = 1,
    device: Annotated[str, typer.Option(help="Where the simulator computes: cpu or cuda.")] = "cpu",
    sqnr: Annotated[int, typer.Option(help="Also look at the steps of so many prompts; three pictures each.")] = 0,
    work: Annotated[Path, typer.Option(help="Programs, pictures and scores: a run goes on there.")] = Path(
        "out/quality"
    ),
    pictures_only: Annotated[
        bool, typer.Option("--pictures-only", help="Score nothing: another machine will.")
    ] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="The result; tables beside it.")] = None,
    gallery: Annotated[Path | None, typer.Option(help="The HTML page; default: WORK/gallery.html.")] = None,
) -> None:
    """Which precision keeps the pictures right, and what does an image cost at it?

    \b
    Examples:
      dpubench quality models/tiny --precisions w8a8 --limit 2 --seeds 1 -o out/quality.json
      dpubench quality models/tiny --seeds 10 --steps 20,30,50 --jobs 8 -o results/quality/tiny.json
    """
    from ..quality.measure import Request, check, make_pictures, measure, write

    for file in (output, gallery):
        check_output(file)
    check_output(work, folder=True)
    if pictures_only and output:
        raise DpuError("--output", "nothing is scored", hint="leave out --pictures-only or --output", code="E501")
    request = Request(
        model,
        work,
        lists.precisions(precisions),
        lists.step_counts(steps),
        seeds,
        limit,
        arch,
        jobs,
        device,
        sqnr,
    )
    check(request)
    with progress("pictures") as bar:
        plan = make_pictures(request, say, bar)
    if pictures_only:
        return
    command = f"dpubench quality {model} --precisions {precisions} --seeds {seeds} --steps {steps}"
    command += (
        f" --limit {limit}" * (limit != 40) + f" --arch {arch}" * (arch != "dpu_tiny") + f" --sqnr {sqnr}" * bool(sqnr)
    )
    with progress("scoring") as bar:
        found, shown = measure(request, plan, command, say, bar)
    if output:
        found = write(found, shown, output, gallery or work / "gallery.html")
    typer.echo(found.text())
