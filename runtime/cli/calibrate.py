"""`dpuc calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def calibrate(
    model: Annotated[Path, typer.Argument(help="An exported pipeline folder.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The file to write.")],
    prompts: Annotated[
        int | None, typer.Option(help="How many of the calibration prompts, or of --captions; default: 8, or all.")
    ] = None,
    captions: Annotated[
        Path | None, typer.Option(help="A text file with the model's own captions, one a line, to calibrate with.")
    ] = None,
    steps: Annotated[int, typer.Option(help="Denoising steps a prompt.")] = 20,
    guidance: Annotated[float, typer.Option(help="Guidance scale.")] = 5.0,
    size: Annotated[str | None, typer.Option(help="WIDTHxHEIGHT; default: the model's.")] = None,
    of_steps: Annotated[
        int, typer.Option(min=0, help="Choose the steps evenly from a schedule of so many; 0: --steps is the schedule.")
    ] = 0,
    device: Annotated[str, typer.Option(help="Where the graphs run: cpu or cuda.")] = "cpu",
    grams: Annotated[
        bool, typer.Option("--grams", help="Record x^T x of the UNet's linears too, for dpuc compile --gptq: large.")
    ] = False,
) -> None:
    """How large do the activations of this model get?

    An interrupted run continues with the first step that is missing.

    \b
    Examples:
      dpuc calibrate out/tiny -o out/calib.safetensors
      dpuc calibrate out/sdxl --prompts 2 --steps 5 --of-steps 20 -o out/sdxl-calib.safetensors
    """
    from ..calibrate import calibrate_folder, first_of, read_captions
    from .common import check_output, parse_size, progress

    check_output(out)
    default = prompts if prompts is not None else 8
    chosen = default if captions is None else first_of(read_captions(captions), prompts)
    with progress("calibrating") as bar:
        calibrate_folder(model, out, chosen, steps, guidance, parse_size(size), bar, of_steps, device, grams)
    typer.echo(f"wrote {out}")
