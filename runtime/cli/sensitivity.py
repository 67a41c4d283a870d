"""`dpuc sensitivity`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def sensitivity(
    model: Annotated[Path, typer.Argument(help="An exported pipeline folder.")],
    calibration: Annotated[Path, typer.Option(help="What `dpuc calibrate` wrote.")],
    size: Annotated[str | None, typer.Option(help="WIDTHxHEIGHT; default: the model's.")] = None,
    steps: Annotated[int, typer.Option(help="Steps of one image whose inputs are tried.")] = 3,
    own: Annotated[bool, typer.Option("--own", help="Compare each layer's own result: two forwards in all.")] = False,
    top: Annotated[int, typer.Option(min=0, help="Layers to print.")] = 15,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write all layers as JSON.")] = None,
) -> None:
    """Which layers of the UNet cost most when they are quantised?

    Each is quantised alone, in a float32 UNet, on inputs of a prompt that calibration did not see, and the UNet's
    output is compared: a forward a layer. At full size --own is affordable.

    \b
    Examples:
      dpuc sensitivity out/tiny --calibration out/calib.safetensors --size 64x64
      dpuc sensitivity out/sdxl --calibration out/sdxl.safetensors --own --steps 1 -o out/layers.json
    """
    from ..sensitivity import sensitivity_of_folder
    from .common import check_output, parse_size, progress

    check_output(out)
    with progress("quantising one by one") as bar:
        found = sensitivity_of_folder(model, calibration, parse_size(size), steps, bar, own)
    if out is not None:
        found.save(out)
    typer.echo(found.text(top))
