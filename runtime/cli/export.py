"""`dpuc export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    source: Annotated[str, typer.Argument(help="tiny-seeded, sdxl, or a local diffusers SDXL folder.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder to write; finished parts in it are kept.")],
    size: Annotated[int, typer.Option(help="Image side in pixels; 0: the source's own.")] = 0,
    seed: Annotated[int, typer.Option(help="Of the weights, where the source has none.")] = 0,
    opset: Annotated[int, typer.Option(help="ONNX opset, 18 to 24.")] = 23,
    precision: Annotated[str, typer.Option(help="fp16 or fp32: type of weights and activations.")] = "fp16",
    weights: Annotated[
        str, typer.Option(help="Of a source without: seeded, or realistic (seeded, with the outliers of trained ones).")
    ] = "seeded",
    open_sizes: Annotated[
        bool, typer.Option("--open-sizes", help="Leave batch, height and width open, as tiny-seeded always does.")
    ] = False,
    graph_only: Annotated[bool, typer.Option("--graph-only", help="Graphs without weights (not tiny-seeded).")] = False,
) -> None:
    """Which ONNX files and weights make up this pipeline?

    \b
    Examples:
      dpuc export models/tiny -o out/tiny
      dpuc export sdxl --weights realistic -o out/sdxl
    """
    from ..export import export_pipeline
    from .common import check_output

    check_output(out, folder=True)
    export_pipeline(source, out, size, seed, opset, precision, graph_only, weights, open_sizes, typer.echo)
