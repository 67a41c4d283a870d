"""`dpuc explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def explain(
    arch: Annotated[str, typer.Option(help="A shipped arch or the path of a JSON file.")],
    model: Annotated[Path | None, typer.Option(help="Graphs; default: configs/workload/sdxl_base.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Denoising steps of the image.")] = 20,
    economics: Annotated[str, typer.Option(help="The scenario whose node gives the area.")] = "scenario_b",
    rows: Annotated[int, typer.Option(min=0, help="Changes to show; 0: all.")] = 0,
) -> None:
    """Which number of this arch is worth changing, each alone, halved or doubled?

    \b
    Examples:
      dpuc explain --arch dpu_32tops
      dpuc explain --arch configs/arch/dpu_f2.json --steps 4 --rows 8
    """
    from tempfile import TemporaryDirectory

    from ...codegen.estimate import Workload
    from ...ir.arch import load_arch
    from ...simulator.economics.inputs import folder, scenario, silicon
    from ..explain import explain as found

    device, place = load_arch(arch), scenario(economics)
    workload = Workload(model or folder() / "workload" / "sdxl_base")
    with TemporaryDirectory(prefix="dpu-explain-") as work:
        typer.echo(found(device, workload, place, silicon(), Path(work), steps).text(rows))
