"""`dpuc compile`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...errors import DpuError


def compile_model(
    model: Annotated[Path, typer.Argument(help="An exported pipeline folder or one UNet ONNX file.")],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The .dpu to write.")] = None,
    arch: Annotated[str, typer.Option(help="A shipped arch or the path of a JSON file.")] = "dpu_tiny",
    precision: Annotated[
        str | None, typer.Option(help="w8a8 (the default), w8a8-static, w4a8 or w8a16: a policy of configs/policy.")
    ] = None,
    policy: Annotated[Path | None, typer.Option(help="A JSON file with the precision of each layer.")] = None,
    calibration: Annotated[Path | None, typer.Option(help="What `dpuc calibrate` wrote.")] = None,
    uncalibrated: Annotated[
        bool, typer.Option("--uncalibrated", help="Take every maximum as 1: real words and timing, wrong images.")
    ] = False,
    weights: Annotated[
        Path | None, typer.Option(help="A safetensors file with other weights for the UNet: float, int8 or int4.")
    ] = None,
    size: Annotated[str | None, typer.Option(help="WIDTHxHEIGHT in pixels; default: the model's.")] = None,
    batch: Annotated[int, typer.Option(help="Samples a forward: 2 for one image with guidance.")] = 2,
    shape: Annotated[list[str] | None, typer.Option(help="Open dimensions of one ONNX file: NAME=AxBxC.")] = None,
    dump_passes: Annotated[Path | None, typer.Option(help="Folder for the text after each pass.")] = None,
    gptq: Annotated[
        bool, typer.Option("--gptq", help="int4 weights that make up for each other's errors; calibrate with --grams.")
    ] = False,
    collector: Annotated[
        str, typer.Option(help="What static scales cover: absmax, mean or percentile (99.99, or percentile99.9).")
    ] = "absmax",
    smooth: Annotated[
        bool, typer.Option("--smooth", help="Move factors of channels from inputs of linears into weights: exact.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Compare every value with the interpreter.")] = False,
    bisect: Annotated[Path | None, typer.Option(help="--check, and write the first difference here.")] = None,
    estimate: Annotated[bool, typer.Option("--estimate", help="Only say what an image would cost.")] = False,
    steps: Annotated[int, typer.Option(help="Denoising steps of the estimated image.")] = 20,
) -> None:
    """What program computes this model on that device?

    \b
    Examples:
      dpuc compile out/tiny --calibration out/calib.safetensors --size 64x64 -o out/tiny.dpu --check
      dpuc compile configs/workload/sdxl_base --arch dpu_f2,dpu_32tops,dpu_asic --estimate
    """
    from ...passes.collectors import parse_collector
    from ...passes.policy import choose_policy
    from ..compiling import compile_text, estimate_text, parse_shapes
    from .common import check_output, parse_size, say_stage

    check_output(out)
    check_output(dump_passes, folder=True)
    check_output(bisect, folder=True)
    if estimate and weights is not None:
        raise DpuError("--weights", "an estimate reads no weights", hint="leave out one of the two", code="E501")
    if uncalibrated and calibration is not None:
        raise DpuError("--uncalibrated", "there is a calibration", hint="leave out one of the two", code="E501")
    chosen = choose_policy(precision, policy)
    if gptq and (estimate or not chosen.has_int4):
        what = "an estimate reads no weights" if estimate else f"policy '{chosen.name}' has no int4 weights"
        raise DpuError("--gptq", what, hint="leave out one of the two", code="E501")
    found = parse_collector(collector)
    if estimate and (smooth or found.text != "absmax"):
        option = "--smooth" if smooth else f"--collector {collector}"
        raise DpuError(option, "an estimate reads no calibration", hint="leave out one of the two", code="E501")
    if estimate:
        typer.echo(estimate_text(model, arch, steps, parse_size(size), batch, chosen))
        return
    text, ok = compile_text(
        model,
        arch,
        chosen,
        calibration,
        parse_size(size),
        batch,
        parse_shapes(shape or []),
        out,
        dump_passes,
        check,
        bisect,
        weights,
        uncalibrated,
        say_stage,
        gptq,
        found,
        smooth,
    )
    typer.echo(text)
    raise typer.Exit(0 if ok else 1)
