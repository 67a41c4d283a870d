"""`dpubench queue` and `dpubench sweep`: an image service under load, and many archs at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...errors import DpuError
from ...runtime.cli.common import check_output, say
from .lists import names


def _whole(option: str, text: str) -> list[int]:
    given = names(text)
    if not given or not all(n.isdecimal() and int(n) > 0 for n in given):
        raise DpuError(option, f"'{text}' is no list of whole numbers from 1", hint="such as 4,20", code="E501")
    return [int(n) for n in given]


def queue(
    traffic: Annotated[str, typer.Option(help="A name of configs/traffic, or a file.")] = "steady",
    arch: Annotated[str, typer.Option(help="DPUs, with commas between them.")] = "dpu_f2,dpu_32tops,dpu_asic",
    gpu: Annotated[str, typer.Option(help="Names of configs/gpu or files, with commas.")] = "h200,l40s",
    economics: Annotated[
        str, typer.Option(help="The scenario: a name of configs/economics, or a file.")
    ] = "scenario_a",
    workload: Annotated[Path, typer.Option(help="What one image is.")] = Path("results/sdxl.json"),
    measured: Annotated[list[Path] | None, typer.Option(help="Measurements of the one GPU; repeatable.")] = None,
    cycles: Annotated[list[str] | None, typer.Option(help="ARCH=FILE; default: results/estimate.")] = None,
    rate: Annotated[float | None, typer.Option(help="Requests a second; default: the traffic file's.")] = None,
    arrivals: Annotated[Path | None, typer.Option(help="CSV with the column arrival_s, in place of a process.")] = None,
    runs: Annotated[int, typer.Option(min=1, max=1000, help="Runs with seeds of their own.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Of the first run; the same seed gives the same numbers.")] = 0,
    batch: Annotated[int, typer.Option(min=1, max=1024, help="Requests that a device takes at once, at most.")] = 1,
    hold: Annotated[float, typer.Option(help="Seconds a device waits for its batch to fill.")] = 0.0,
    alone: Annotated[list[str] | None, typer.Option(help="PLATFORM=SECONDS of one image on an idle device.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the table as JSON.")] = None,
) -> None:
    """How many devices does a service need, how busy are they, and what does a served image cost then? Seconds.

    \b
    Examples:
      dpubench queue --traffic diurnal --economics scenario_a
      dpubench queue --traffic gentd26 -o out/queue.json
      dpubench queue --arrivals requests.csv --gpu l4 --batch 4 --hold 2
    """
    from ...simulator.economics.traffic import traffic as load
    from .. import queueing as found

    check_output(output)
    idle: dict[str, float] = {}
    for text in alone or []:
        name, _, value = text.partition("=")
        try:
            idle[name] = float(value)
        except ValueError as e:
            what = f"'{text}' is no PLATFORM=SECONDS"
            raise DpuError("--alone", what, hint="such as h200_torch=0.775", code="E501") from e
    files: dict[str, Path] = {}
    for text in cycles or []:
        name, _, value = text.partition("=")
        if not (name and value):
            raise DpuError("--cycles", f"'{text}' is no ARCH=FILE", hint="such as dpu_asic=a.json", code="E501")
        files[name] = Path(value)
    options = found.Options(rate, arrivals, runs, seed, batch, hold, idle)
    table = found.measure(
        workload, names(arch), names(gpu), economics, load(traffic), options, measured or (), files, say
    )
    if output is not None:
        given = [f"--traffic {traffic} --arch {arch} --gpu {gpu} --economics {economics} --workload {workload}"]
        given += [f"--measured {m}" for m in measured or []] + [f"--cycles {c}" for c in cycles or []]
        given += [f"--alone {a}" for a in alone or []]
        given += [f"--rate {rate:g}"] if rate else []
        given += [f"--arrivals {arrivals}"] if arrivals else [f"--runs {runs} --seed {seed}"]
        command = " ".join(["dpubench queue", *given, f"--batch {batch} --hold {hold:g} -o {output}"])
        table.save(output, command)
    typer.echo(table.text())


def sweep(
    arch: Annotated[str, typer.Option(help="The arch that is varied.")] = "dpu_32tops",
    settings: Annotated[list[str] | None, typer.Option("--set", help="PARAMETER=VALUE,VALUE; repeatable.")] = None,
    precision: Annotated[str, typer.Option(help="Precisions, with commas.")] = "w8a8",
    steps: Annotated[str, typer.Option(help="Denoising steps, with commas.")] = "20",
    images: Annotated[str, typer.Option(help="WIDTHxHEIGHT or WIDTHxHEIGHTxIMAGES, with commas.")] = "1024x1024",
    economics: Annotated[str, typer.Option(help="Scenarios, with commas.")] = "scenario_b",
    model: Annotated[Path | None, typer.Option(help="Graphs of open sizes; default: the 1024x1024 that ship.")] = None,
    objective: Annotated[str, typer.Option(help="The column that the best arch has the best of.")] = "usd_per_image",
    front: Annotated[str, typer.Option(help="Columns of the Pareto front.")] = "usd_per_image,seconds_per_image",
    backend: Annotated[str, typer.Option(help="local or ray.")] = "local",
    address: Annotated[str, typer.Option(help="Of the Ray cluster; default: RAY_ADDRESS, or a new local one.")] = "",
    jobs: Annotated[int, typer.Option(min=0, help="Local processes; 0: one a core.")] = 0,
    cache: Annotated[Path, typer.Option(help="Folder of finished estimates.")] = Path("out/sweep-cache"),
    output: Annotated[Path, typer.Option("-o", "--output", help="The Parquet file.")] = Path("out/sweep.parquet"),
) -> None:
    """Which arch is best? Parameters x precision x steps x images x scenario. Goes on where it was stopped.

    A parameter is a field of the arch file (buffers.act.bytes), `array` (rows, cols, lanes) or `dram.bits`.

    \b
    Examples:
      dpubench sweep --set tiles=2,4,8 --set array=32,64,128 --steps 4,20 --economics scenario_a,scenario_b
      dpubench sweep --arch dpu_asic --set tiles=4,8,16 --set dram.bits=128,256 --objective seconds_per_image
      dpubench sweep --set tiles=1,2,4 --backend ray --address 10.0.0.1:6379
    """
    from tempfile import TemporaryDirectory

    from ...ir.arch import load_arch
    from ...simulator.economics.inputs import scenario, silicon
    from .. import sweep as found
    from ..sweep_run import BACKENDS, local, ray
    from ..sweep_table import check_objectives

    check_output(output, folder=False) if output.parent.exists() else check_output(output.parent, folder=True)
    check_output(cache, folder=True)
    columns = names(front)
    check_objectives([objective, *columns])
    if backend not in BACKENDS:
        raise DpuError(f"--backend {backend}", "there is none", hint=f"one of {', '.join(BACKENDS)}", code="E501")
    axes = found.Axes(
        base=load_arch(arch),
        settings=tuple(found.parse_setting(s) for s in settings or []),
        precisions=names(precision),
        steps=tuple(_whole("--steps", steps)),
        images=tuple(found.parse_images(i) for i in names(images)),
        scenarios=tuple(scenario(s) for s in names(economics)),
        model="" if model is None else str(model.resolve()),
    )
    estimates = ray(address) if backend == "ray" else local(jobs)
    with TemporaryDirectory(prefix="dpu-sweep-") as work:
        table = found.run(axes, silicon(), Path(work), cache, estimates, say)
    output.parent.mkdir(parents=True, exist_ok=True)
    table.save(output)
    typer.echo(table.text(objective, columns))
    typer.echo(f"wrote {output}")
