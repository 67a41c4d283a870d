"""`dpuc compile`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def compile_model(
    model: Annotated[Path, typer.Argument(help="An exported pipeline folder or one ONNX file.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The .dpu to write.")],
    arch: Annotated[str, typer.Option(help="Name of a shipped arch or path of a JSON file.")] = "dpu_tiny",
    precision: Annotated[str, typer.Option(help="w8a8.")] = "w8a8",
    calibration: Annotated[Path | None, typer.Option(help="What `dpuc calibrate` wrote.")] = None,
    size: Annotated[str | None, typer.Option(help="WIDTHxHEIGHT in pixels; default: the model's.")] = None,
    dump_passes: Annotated[Path | None, typer.Option(help="Folder for the text after each pass.")] = None,
    shape: Annotated[list[str] | None, typer.Option(help="One ONNX file: NAME=AxBxC of an input; repeatable.")] = None,
) -> None:
    """What program computes this model on that device?

    \b
    Examples:
      dpuc compile out/tiny --calibration out/calib.safetensors -o out/tiny.dpu
      dpuc compile out/tiny --arch dpu_f2 --size 64x64 --calibration out/calib.safetensors -o out/f2.dpu
    """
    from ..texts import parse_shape
    from .common import check_output, parse_size

    check_output(out)
    check_output(dump_passes, folder=True)
    sides, shapes = parse_size(size), dict(map(parse_shape, shape or []))
    from ...codegen.driver import compile_folder

    compiled = compile_folder(
        model,
        arch=arch,
        precision=precision,
        calibration=calibration,
        size=sides,
        shapes=shapes,
        out=out,
        dump_dir=dump_passes,
    )
    typer.echo(compiled.summary())
