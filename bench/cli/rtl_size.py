"""`dpubench rtl-size`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...errors import DpuError
from ...runtime.cli.common import check_output, say


def rtl_size(
    shapes: Annotated[str, typer.Option(help="Shapes, with commas between them; all if not given.")] = "",
    flows: Annotated[str, typer.Option(help="fpga (LUT, FF, DSP), gates (NAND2), or both.")] = "fpga,gates",
    jobs: Annotated[int, typer.Option(help="Units at a time: a process of up to 4 GiB each.", min=1)] = 1,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Estimate an image for each choice of dpu_f2's tiles and lanes, too.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="JSON: keep the units here, go on from it; the page beside it, .md."),
    ] = None,
) -> None:
    """How large is each engine of the RTL, in LUTs and gates, and what fits into a die region of F2's FPGA?

    About an hour of one core for all shapes; units that are in the output already are kept, and so are other
    shapes whose units are all of the RTL as it is.

    \b
    Examples:
      dpubench rtl-size --shapes dpu_tiny --flows fpga
      dpubench rtl-size -o results/rtl/size.json
    """
    from ..rtl_size import FLOWS, SHAPES, measure
    from ..rtl_size_candidates import estimated
    from ..rtl_size_table import page, save

    check_output(output)
    if output is not None and output.suffix != ".json":
        what = f"value is {output}, expected a name that ends in .json"
        raise DpuError("--output", what, "the page for readers is kept beside it as .md", code="E501")
    names = [s.strip() for s in shapes.split(",")] if shapes else list(SHAPES)
    wanted = [f.strip() for f in flows.split(",")]
    if bad := [f for f in wanted if f not in FLOWS]:
        raise DpuError("--flows", f"value is '{bad[0]}', allowed: {', '.join(FLOWS)}", code="E501")
    command = "dpubench rtl-size" + (f" -o {output}" if output else "")
    found = measure(names, [f for f in FLOWS if f in wanted], output, command, say, jobs)
    if estimate:
        found = estimated(found, say)
    if output is not None:
        save(found, output)
    typer.echo(page(found))
