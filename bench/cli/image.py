"""`dpubench image`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output, say


def image(
    model: Annotated[Path, typer.Option(help="The exported folder; made if it is missing.")],
    arch: Annotated[str, typer.Option(help="The arch to compile for.")] = "dpu_f2",
    device: Annotated[str, typer.Option(help="Where simulator and reference compute: cpu or cuda.")] = "cpu",
    calibration: Annotated[Path, typer.Option(help="The statistics; made if missing.")] = Path("out/image.safetensors"),
    program: Annotated[Path, typer.Option(help="The program; made if missing.")] = Path("out/image.dpu"),
    work: Annotated[Path, typer.Option(help="Folder of finished stages and steps, logs, images.")] = Path("out/image"),
    prompt: Annotated[str, typer.Option(help="What the image shows.")] = "a red fox in the snow",
    seed: Annotated[int, typer.Option(help="Of the starting noise.")] = 7,
    steps: Annotated[int, typer.Option(min=1, help="Denoising steps.")] = 20,
    source: Annotated[str, typer.Option(help="What to export: sdxl, tiny-seeded, or a diffusers folder.")] = "sdxl",
    weights: Annotated[str, typer.Option(help="Of a source without: seeded or realistic.")] = "seeded",
    size: Annotated[str, typer.Option(help="WIDTHxHEIGHT; default: the model's.")] = "",
    prompts: Annotated[int, typer.Option(min=1, help="Calibration prompts.")] = 2,
    calibration_steps: Annotated[int, typer.Option(min=1, help="Steps of each, chosen from the schedule.")] = 5,
    commit: Annotated[str, typer.Option(help="Of the sources, where there is no git.")] = "",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="JSON; a pair of images beside it.")] = None,
) -> None:
    """How far is a whole image on the simulated device from float32? Goes on where it was stopped.

    \b
    Examples:
      dpubench image --model out/sdxl --arch dpu_f2 --device cuda -o results/sim/image.json
      dpubench image --model out/tiny --source tiny-seeded --arch dpu_tiny --size 64x64 --steps 2
    """
    from ..full_image import measure

    check_output(output)
    for path in (model, work):
        check_output(path, folder=True)
    for path in (calibration, program):
        check_output(path)
    command = f"dpubench image --model {model} --source {source} --arch {arch} --device {device} --steps {steps}"
    found = measure(
        model,
        arch,
        device,
        calibration,
        program,
        work,
        output,
        prompt,
        seed,
        steps,
        source,
        weights,
        size,
        prompts,
        calibration_steps,
        commit,
        command,
        say,
    )
    typer.echo(found.text())
