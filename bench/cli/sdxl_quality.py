"""`dpubench sdxl-quality`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output, progress, say
from . import lists


def sdxl_quality(
    model: Annotated[Path, typer.Argument(help="A diffusers SDXL folder, or one that dpuc export wrote.")],
    precisions: Annotated[
        str, typer.Option(help="With commas between them; +gptq after one with int4 weights, or policy files.")
    ] = "w8a8,w8a8-static,w4a8",
    count: Annotated[int, typer.Option(min=0, help="Only the first so many prompts or captions; 0: all.")] = 0,
    steps: Annotated[int, typer.Option(help="Denoising steps.")] = 20,
    device: Annotated[str, typer.Option(help="Where simulator, calibration and reference compute: cpu or cuda.")] = (
        "cpu"
    ),
    arch: Annotated[str, typer.Option(help="What the programs are compiled for.")] = "dpu_f2",
    size: Annotated[int, typer.Option(help="Pixels, each way; 0: the model's own.")] = 0,
    inception: Annotated[Path | None, typer.Option(help="pt_inception-2015-12-05-6726825d.pth, for FID.")] = None,
    statistics: Annotated[Path | None, typer.Option(help="NPZ with mu and sigma, such as val2014.npz.")] = None,
    clip: Annotated[Path | None, typer.Option(help="A CLIP folder of transformers, for the CLIP score.")] = None,
    captions: Annotated[
        Path | None, typer.Option(help="MLPerf's captions_source.tsv: its 5,000 captions, made as MLPerf does.")
    ] = None,
    calibration_prompts: Annotated[int, typer.Option(min=1, help="Prompts of the calibration.")] = 8,
    calibration_steps: Annotated[int, typer.Option(help="Steps of each, chosen from the schedule.")] = 5,
    rehearsal: Annotated[bool, typer.Option("--rehearsal", help="Declare that this says nothing of SDXL.")] = False,
    costs: Annotated[bool, typer.Option("--costs/--no-costs", help="Seconds, DRAM, energy, cost of an image.")] = True,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that score.")] = 1,
    plan: Annotated[bool, typer.Option("--plan", help="Only say what it will take in disk, memory, hours.")] = False,
    work: Annotated[Path, typer.Option(help="Export, programs, pictures, scores: a run goes on there.")] = Path(
        "out/sdxl-quality"
    ),
    output: Annotated[Path | None, typer.Option("-o", "--output", help="The result; page and figure beside it.")] = (
        None
    ),
    gallery: Annotated[Path | None, typer.Option(help="The HTML page; default: WORK/gallery.html.")] = None,
) -> None:
    """How good are SDXL's pictures at each precision, with weights that you have?

    \b
    Examples:
      dpubench sdxl-quality out/sdxl --precisions w8a8 --count 1 --steps 2 --plan
      dpubench sdxl-quality ~/sdxl --device cuda -o results/quality/sdxl.json
    """
    for file in (output, gallery):
        check_output(file)
    check_output(work, folder=True)
    from ..quality import sdxl, sdxl_experiment
    from ..quality.sdxl_plan import Request

    experiment = sdxl_experiment.captions(captions, count) if captions else sdxl_experiment.prompts(count)
    request = Request(
        model=model,
        work=work,
        precisions=lists.precisions(precisions),
        experiment=experiment,
        steps=steps,
        arch=arch,
        device=device,
        size=size,
        calibration_prompts=calibration_prompts,
        calibration_steps=calibration_steps,
        inception=inception,
        clip=clip,
        statistics=statistics,
        rehearsal=rehearsal,
        costs=costs,
        jobs=jobs,
    )
    given, estimate = sdxl.begin(request, output)
    say(sdxl.heading(request, given))
    say(estimate.text())
    if plan:
        return
    command = f"dpubench sdxl-quality {model} --precisions {precisions} --steps {steps} --device {device} --arch {arch}"
    command += f" --count {count}" * bool(count) + f" --size {size}" * bool(size) + " --rehearsal" * rehearsal
    command += f" --captions {captions}" * bool(captions)
    command += f" --calibration-prompts {calibration_prompts} --calibration-steps {calibration_steps}"
    found, shown = sdxl.measure(request, given, command, say, progress)
    page = gallery or work / "gallery.html"
    if output:
        found = sdxl.write(found, shown, output, page)
    else:
        sdxl.write_pictures(found, shown, page)
    typer.echo(found.text())
