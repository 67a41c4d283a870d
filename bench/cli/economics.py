"""`dpubench estimate`, `evaluate`, `uncertainty`, `size-chip`, `gate`, `explain`: the verbs of the economics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...runtime.cli.common import check_output, new_app, run_app, say
from .lists import names, pairs
from .sweeps import queue, sweep

if TYPE_CHECKING:
    from ..evaluate import Request

WorkloadFile = Annotated[Path, typer.Option(help="What one image is (dpubench profile).")]
ArchName = Annotated[str, typer.Option(help="The DPU: a name of configs/arch, or a file.")]
Economics = Annotated[str, typer.Option(help="The scenario: a name of configs/economics, or a file.")]
Gpus = Annotated[list[str] | None, typer.Option(help="Names of configs/gpu or files, with commas; default: all.")]
CyclesFile = Annotated[
    Path | None,
    typer.Option(help="Cycles: of dpubench estimate or sizes, or a dpuc report; default: results/estimate."),
]
Measured = Annotated[list[Path] | None, typer.Option(help="Measurements of the one GPU; repeatable.")]
Card = Annotated[str, typer.Option(help="The card that carries the DPU; default: the one of configs/card, or a chip.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="JSON; default: out/evaluate.json.")]


def _request(
    workload: Path,
    arch: str,
    economics: str,
    gpu: list[str] | None,
    cycles: Path | None,
    measured: list[Path] | None,
    card: str,
) -> Request:
    from ..evaluate import Request

    gpus = names(",".join(gpu or []))
    return Request(workload, arch, economics, gpus, cycles, tuple(measured or ()), card)


def estimate(
    arch: Annotated[str, typer.Option(help="Archs, with commas between them.")] = "dpu_f2,dpu_32tops,dpu_asic",
    steps: Annotated[int, typer.Option(min=1, help="Denoising steps of the image.")] = 20,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder.")] = Path("results/estimate"),
) -> None:
    """How many cycles does an image take each arch, by the compiler's estimate? Writes what evaluate reads.

    \b
    Examples:
      dpubench estimate
      dpubench estimate --arch dpu_32tops --steps 30 -o out/cycles
    """
    from ...ir.arch import load_arch
    from .. import estimate_cycles as found

    check_output(output, folder=True)
    archs = [load_arch(a.strip()) for a in arch.split(",")]
    output.mkdir(parents=True, exist_ok=True)
    for cycles in found.estimate(archs, steps, say):
        found.save(cycles, output / f"{cycles.arch}.json")
        typer.echo(found.text(cycles))


def evaluate(
    workload: WorkloadFile,
    arch: ArchName,
    economics: Economics,
    gpu: Gpus = None,
    cycles: CyclesFile = None,
    measured: Measured = None,
    card: Card = "",
    output: Output = None,
) -> None:
    """What does an image cost on the DPU and on GPUs, and what does that decide?

    \b
    Examples:
      dpubench evaluate --workload results/sdxl.json --arch configs/arch/dpu_32tops.json \\
        --economics configs/economics/scenario_a.json --gpu configs/gpu/h200.json
      dpubench evaluate --workload results/sdxl.json --arch dpu_f2 --economics scenario_a --gpu l4,l40s
    """
    from .. import evaluate as found

    path = output or found.DEFAULT_OUTPUT
    check_output(path) if output else None
    result = found.run(_request(workload, arch, economics, gpu, cycles, measured, card), say)
    found.save(result, path)
    typer.echo(found.text(result))
    typer.echo(f"wrote {path}")


def uncertainty(
    workload: WorkloadFile,
    arch: ArchName,
    economics: Economics,
    gpu: Gpus = None,
    cycles: CyclesFile = None,
    measured: Measured = None,
    card: Card = "",
    samples: Annotated[int, typer.Option(min=100, max=1_000_000, help="Draws.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 0,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="JSON; default: out/uncertainty.json.")] = None,
) -> None:
    """How sure is the comparison, and which input decides it?

    \b
    Examples:
      dpubench uncertainty --workload results/sdxl.json --arch dpu_32tops --economics scenario_b
      dpubench uncertainty --workload results/sdxl.json --arch dpu_f2 --economics scenario_a --gpu l4 --seed 1
    """
    from .. import evaluate as comparison
    from .. import uncertainty as found

    path = output or Path("out/uncertainty.json")
    check_output(path) if output else None
    result = comparison.run(_request(workload, arch, economics, gpu, cycles, measured, card), say)
    report = found.run(result.comparison, samples, seed)
    found.save(report, path)
    typer.echo(found.text(report))
    typer.echo(f"wrote {path}")


def size_chip(
    arch: Annotated[str, typer.Option(help="The arch that is varied.")] = "dpu_asic",
    economics: Economics = "scenario_b",
    tiles: Annotated[str, typer.Option(help="Numbers of tiles, with commas.")] = "4,8,12,16,24,32",
    bits: Annotated[str, typer.Option(help="Widths of the memory, with commas.")] = "128,256,512",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the table as JSON.")] = None,
) -> None:
    """Which chip makes the cheapest image: how many tiles, how wide a memory, at which node? Minutes.

    \b
    Examples:
      dpubench size-chip -o results/economics/chips.json
      dpubench size-chip --arch dpu_32tops --tiles 4,8 --bits 128 --economics scenario_a
    """
    import tempfile

    from ...ir.arch import load_arch
    from ...simulator.economics.inputs import scenario, silicon
    from .. import size_chip as found

    check_output(output)
    sizes, widths = ([int(x) for x in text.split(",")] for text in (tiles, bits))
    with tempfile.TemporaryDirectory(prefix="dpu-chips-") as work:
        table = found.measure(load_arch(arch), scenario(economics), silicon(), Path(work), sizes, widths, say)
    command = f"dpubench size-chip --arch {arch} --economics {economics} --tiles {tiles} --bits {bits}"
    if output is not None:
        table.save(output, command)
    typer.echo(table.text())


def gate(
    workload: WorkloadFile = Path("results/sdxl.json"),
    arch: Annotated[str, typer.Option(help="DPUs, with commas: the card's and chips.")] = "dpu_f2,dpu_32tops,dpu_asic",
    economics: Annotated[
        str, typer.Option(help="Scenarios, with commas; the goal must hold in each.")
    ] = "scenario_a,scenario_b,scenario_c,scenario_committed",
    gpu: Annotated[list[Path] | None, typer.Option(help="GPU measurements, repeatable; default: results/gpu.")] = None,
    fpga: Annotated[list[Path] | None, typer.Option(help="F2 measurements, one file; default: results/f2.")] = None,
    simulated: Annotated[
        list[Path] | None, typer.Option(help="Simulated cycles of the F2 binary; default: results/sim.")
    ] = None,
    quality: Annotated[list[Path] | None, typer.Option(help="Scores of images; default: results/quality.")] = None,
    cycles: Annotated[
        list[str] | None, typer.Option(help="ARCH=FILE: cycles of an image; default: results/estimate.")
    ] = None,
    floor: Annotated[
        list[str] | None, typer.Option(help="SCORE=VALUE: a stated floor, such as psnr=26.4; never enough for GO.")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="JSON; default: out/gate.json.")] = None,
) -> None:
    """GO, NO-GO or NOT PROVEN: does the evidence show images of equal quality at half a GPU's cost?

    Exit code 0 GO, 1 NO-GO, 3 NOT PROVEN, 2 refused input.

    \b
    Examples:
      dpubench gate
      dpubench gate --arch dpu_f2 --economics scenario_a --gpu results/gpu/h200.json --fpga results/f2/sdxl.json
    """
    from .. import gate as found
    from ..gate_report import save, text

    path = output or Path("out/gate.json")
    check_output(path) if output else None

    def several(given: list[Path] | None) -> tuple[Path, ...] | None:
        return None if given is None else tuple(given)

    request = found.Request(
        workload=workload,
        archs=names(arch),
        economics=names(economics),
        gpu=several(gpu),
        fpga=several(fpga),
        simulated=several(simulated),
        quality=several(quality),
        cycles={k: Path(v) for k, v in pairs("--cycles", cycles).items()},
        floors=found.floors_of(pairs("--floor", floor)),
    )
    decision = found.run(request, say)
    save(decision, path)
    typer.echo(text(decision))
    typer.echo(f"wrote {path}")
    raise typer.Exit(decision.exit_code)


def explain(
    name: Annotated[str, typer.Argument(help="A number, such as cost_per_1000_images.")],
    file: Annotated[Path, typer.Argument(help="A results file of evaluate.")] = Path("out/evaluate.json"),
    platform: Annotated[str, typer.Option(help="Whose; default: the DPU's.")] = "",
    depth: Annotated[int, typer.Option(min=1, help="Levels of the tree.")] = 12,
) -> None:
    """Where does this number come from? Computes everything it was made from again.

    \b
    Examples:
      dpubench explain cost_per_1000_images
      dpubench explain advantage --platform dpu_32tops.vs.h200 --depth 3
    """
    import sys

    from rich.console import Console

    from ..evaluate import read
    from ..explain import choose, tree

    _, numbers = read(file)
    chosen, others = choose(numbers, name, platform, str(file))
    Console(width=None if sys.stdout.isatty() else 10_000).print(tree(numbers[chosen], depth), crop=False)
    if others:
        typer.echo(f"also there: {', '.join(others)} (--platform)")


def register(app: typer.Typer) -> None:
    """Add the verbs to `dpubench`."""
    for verb in (estimate, evaluate, uncertainty, size_chip, gate, explain, queue, sweep):
        app.command()(verb)


def evaluate_main() -> None:
    """`python -m dpu.bench.evaluate`."""
    app = new_app("Compare the cost of an image on a DPU and on GPUs.")
    app.command()(evaluate)
    run_app(app, "python -m dpu.bench.evaluate")
