"""`dpubench report`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from ...runtime.cli.common import check_output, say


def report(
    workload: Annotated[Path, typer.Option(help="What one image is (dpubench profile).")] = Path("results/sdxl.json"),
    arch: Annotated[str, typer.Option(help="DPUs, with commas: the card's and chips.")] = "dpu_f2,dpu_32tops,dpu_asic",
    economics: Annotated[
        str, typer.Option(help="Scenarios, with commas.")
    ] = "scenario_a,scenario_b,scenario_c,scenario_committed",
    detail: Annotated[str, typer.Option(help="Scenario of the details; default: where the best chip does best.")] = "",
    cycles: Annotated[
        list[str] | None, typer.Option(help="ARCH=FILE: cycles of an image; default: results/estimate.")
    ] = None,
    traffic: Annotated[
        str, typer.Option(help="Names of configs/traffic or files, with commas.")
    ] = "steady,diurnal,gentd26",
    runs: Annotated[int, typer.Option(min=1, max=100, help="Runs of the queue, each with its seed.")] = 3,
    samples: Annotated[int, typer.Option(min=100, max=100_000, help="Draws of the Monte Carlo.")] = 4000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same page.")] = 0,
    plan: Annotated[str, typer.Option(help="Of the tape-out: a name of configs/tapeout, or a file.")] = "plan",
    results: Annotated[Path | None, typer.Option(help="Folder of evidence; default: that of the sources.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Default: out/report.html.")] = None,
) -> None:
    """Should this DPU become a chip?

    Verdict, evidence, costs, risks and tape-out on one printable page, in a minute. It needs no network, and ends with
    what is missing and the command that makes each of it.

    \b
    Examples:
      dpubench report
      dpubench report --arch dpu_32tops,dpu_asic --detail scenario_b -o out/owned.html
    """
    from ..report.gather import Request, gather
    from ..report.page import write
    from .lists import names, pairs

    path = output or Path("out/report.html")
    if output is None:
        check_output(path.parent, folder=True)
    if path.parent.exists() or output is not None:
        check_output(path)
    if results is not None and not results.is_dir():
        from ...errors import DpuError

        raise DpuError(
            str(results), "no such folder", hint="leave --results out for the evidence kept here", code="E106"
        )
    request = Request(
        workload=workload,
        archs=names(arch),
        economics=names(economics),
        detail=detail,
        cycles={k: Path(v) for k, v in pairs("--cycles", cycles).items()},
        traffics=names(traffic),
        runs=runs,
        samples=samples,
        seed=seed,
        plan=plan,
        **({} if results is None else {"results": results}),
    )
    write(gather(request, say), path, _command(locals(), report))
    typer.echo(f"wrote {path}")


def _command(given: Mapping[str, Any], verb: Callable[..., None]) -> str:
    """The command line that asks for the same page: options that are not at their defaults."""
    words = ["dpubench report"]
    for name, parameter in signature(verb).parameters.items():
        value = given[name]
        if name != "output" and value != parameter.default:
            words += [f"--{name} {quote(str(v))}" for v in (value if isinstance(value, list) else [value])]
    return " ".join(words)
