"""`dpubench predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...errors import DpuError
from ...runtime.cli.common import check_output, progress, say
from . import lists


def predict(
    model: Annotated[Path, typer.Argument(help="The diffusers folder of dpubench quality.")],
    precisions: Annotated[
        str, typer.Option(help="With commas between them, as dpubench quality has them; policy files too.")
    ] = "w8a8,w8a8-static,w4a8,w8a16",
    prompts: Annotated[int, typer.Option(help="The first so many of the 40 prompts.")] = 40,
    seeds: Annotated[int, typer.Option(help="Pictures of each prompt.")] = 10,
    steps: Annotated[str, typer.Option(help="Denoising steps, with commas between them.")] = "20",
    arch: Annotated[str, typer.Option(help="What the work folder's programs are for.")] = "dpu_tiny",
    jobs: Annotated[int, typer.Option(min=1, help="Worker processes, one thread each.")] = 1,
    device: Annotated[str, typer.Option(help="Where torch computes: cpu or cuda (all seeds at once).")] = "cpu",
    work: Annotated[Path, typer.Option(help="The work folder of dpubench quality: a run goes on there.")] = Path(
        "out/quality"
    ),
    pictures_only: Annotated[
        bool, typer.Option("--pictures-only", help="Compare nothing: another machine will.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A result of dpubench quality: predictions go into its rows.")
    ] = None,
) -> None:
    """Does an implementation written apart give the simulator's PSNR against FP16?

    Its pictures of the same prompts and seeds lie beside the simulator's. About 2 CPU seconds a picture.

    \b
    Examples:
      dpubench predict models/tiny --precisions w8a8 --prompts 2 --seeds 1
      dpubench predict models/tiny --jobs 8 -o results/quality/tiny.json
    """
    from ..quality.predict import HEADER, Request, add_to, compare, make_pictures

    if pictures_only and output:
        raise DpuError("--output", "nothing is compared", hint="leave out --pictures-only or --output", code="E501")
    check_output(output)
    check_output(work, folder=True)
    request = Request(
        model, work, lists.precisions(precisions), lists.step_counts(steps), prompts, seeds, arch, jobs, device
    )
    with progress("predicting") as bar:
        plan = make_pictures(request, bar)
    if pictures_only:
        return
    with progress("scoring") as bar:
        found = compare(request, plan, bar)
    if output:
        add_to(output, plan, work, found)
        say(f"wrote {output} and its README.md")
    typer.echo("\n".join([HEADER, *(c.text for c in found)]))
