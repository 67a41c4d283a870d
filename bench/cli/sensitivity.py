"""`dpubench sensitivity`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output, progress, say


def sensitivity(
    model: Annotated[Path, typer.Argument(help="A diffusers folder of make train, with its classifier.")],
    precision: Annotated[str, typer.Option(help="What the layers are quantised to: a name or a policy file.")] = "w8a8",
    prompts: Annotated[int, typer.Option(help="Captions of the training, none of calibration or evaluation.")] = 2,
    steps: Annotated[int, typer.Option(help="Denoising steps.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of the noise that pictures begin with.")] = 100,
    arch: Annotated[str, typer.Option(help="What the work folder's programs are for.")] = "dpu_tiny",
    jobs: Annotated[int, typer.Option(min=1, help="Worker processes, one thread each.")] = 1,
    top: Annotated[int, typer.Option(min=0, help="Layers to print.")] = 20,
    work: Annotated[Path, typer.Option(help="The work folder of dpubench quality: a run goes on there.")] = Path(
        "out/quality"
    ),
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write all rows as JSON.")] = None,
) -> None:
    """Which layers change the final picture most when they alone are quantised?

    A float32 pipeline in which one layer has quantised operands makes whole pictures; blocks, parts and everything at
    once are rows too. About 1 CPU second a layer and prompt.

    \b
    Examples:
      dpubench sensitivity models/tiny --prompts 1 --steps 4
      dpubench sensitivity models/tiny --prompts 2 --jobs 8 -o results/quality/sensitivity.json
    """
    from ..quality.sensitivity import check, measure

    check_output(output)
    check_output(work, folder=True)
    check(prompts, steps)
    command = f"dpubench sensitivity {model} --precision {precision} --prompts {prompts} --steps {steps} --seed {seed}"
    with progress("quantising one by one") as bar:
        found = measure(model, work, command, precision, arch, prompts, steps, seed, jobs, say, bar)
    if output:
        found.save(output)
    typer.echo(found.text(top))
