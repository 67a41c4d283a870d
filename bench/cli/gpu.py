"""`dpubench gpu`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output, say


def gpu(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of points: each is kept, none done twice.")],
    points: Annotated[
        str, typer.Option(help="In this order: NAME, NAME* for many, NAMEx3 for three runs, NAME@40 for 40 s; or all.")
    ] = "all",
    budget_seconds: Annotated[float, typer.Option(min=1, help="Begin no point that would take longer.")] = 3600,
    window_seconds: Annotated[float, typer.Option(min=1, help="Work that an energy is taken over.")] = 60,
    repeat_seconds: Annotated[float, typer.Option(min=1, help="The same, of second and later runs.")] = 20,
    again: Annotated[bool, typer.Option("--again", help="Measure points that are there already.")] = False,
    skip_failed: Annotated[bool, typer.Option("--skip-failed", help="Leave out points that failed before.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Only list the points with their guessed seconds.")] = False,
    merge: Annotated[Path | None, typer.Option(help="Only write this file and README.md beside it.")] = None,
    peer: Annotated[str, typer.Option(help="Of configs/gpu: prices, and MLPerf's rate.")] = "h200",
    report: Annotated[Path | None, typer.Option(help="With --merge: a DPU's report, drawn into the roofline.")] = None,
    price_per_hour: Annotated[float, typer.Option(min=0, help="USD of the GPU; 0: the peer's on demand.")] = 0.0,
    note: Annotated[str, typer.Option(help="With --merge: what else the machine did meanwhile.")] = "",
) -> None:
    """How fast does this GPU make the images, at what energy and price? Minutes a point; exit code 1 if one fails.

    \b
    Examples:
      dpubench gpu -o out/gpu --points idle,step-torch,images-20x3,server-80@40 --budget-seconds 500
      dpubench gpu -o out/gpu --merge results/gpu/h200.json --price-per-hour 7.912
    """
    from ...simulator.economics.inputs import accelerator
    from ..gpu import plan_text, planned, run
    from ..gpu_merge import merge as join
    from ..gpu_roofline import write_roofline
    from ..gpu_table import write_table

    if merge is not None:
        check_output(merge)
        known = accelerator(peer)
        join(output, merge, note=note)
        write_table(merge, merge.parent / "README.md", known, price_per_hour)
        write_roofline(merge, report)
        typer.echo((merge.parent / "README.md").read_text())
        return
    runs = planned(points, window_seconds, repeat_seconds)
    if plan:
        typer.echo(plan_text(runs))
        return
    check_output(output, folder=True)
    command = f"dpubench gpu --points {points} --window-seconds {window_seconds:g} --repeat-seconds {repeat_seconds:g}"
    done, failed = run(output, runs, budget_seconds, command, say, again, skip_failed)
    typer.echo(f"{done} points measured, {failed} failed; dpubench gpu -o {output} --merge FILE writes the tables")
    raise typer.Exit(1 if failed else 0)
