"""`dpubench f2-build`, `f2-create`, `f2-wait`, `f2-load`, `f2-clear`, `f2-describe`, `f2-record`, `xrt-build`.

Images for cards, from the sources to the card. `--dry-run` prints what would run, as shell, and runs nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import DpuError
from ...runtime.cli.common import check_output

if TYPE_CHECKING:
    from ...rtl.deploy.steps import Step

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would run, and run nothing.")]
ArchName = Annotated[str, typer.Option(help="The DPU: a name of configs/arch, or a file.")]
Work = Annotated[Path, typer.Option(help="Folder of builds; tens of GB.")]
Slot = Annotated[int, typer.Option(min=0, max=7, help="The card: 0 on f2.6xlarge, to 7 on f2.48xlarge.")]
ImageFile = Annotated[Path, typer.Option(help="The image's record.")]
IMAGE = Path("results/f2/image.json")


def _do(steps: Sequence[Step], dry_run: bool) -> list[str]:
    from ...rtl.deploy.steps import perform, shown

    if dry_run:
        typer.echo(shown(steps))
        return []
    return perform(steps, typer.echo)


def f2_build(
    arch: ArchName = "dpu_f2",
    hdk: Annotated[Path | None, typer.Option(help="A checkout of aws-fpga, branch f2; $AWS_FPGA_REPO_DIR.")] = None,
    work: Work = Path("out/f2"),
    tag: Annotated[str, typer.Option(help="Name of this build; default: the time.")] = "",
    allow_violated: Annotated[
        bool, typer.Option("--allow-violated", help="Go on with a design that misses its timing: for bring-up only.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """What checkpoint for an F2 card do the sources give, by Vivado through AWS's HDK?

    Hours. Needs Vivado with a licence for the VU47P: AWS's FPGA Developer AMI has both.

    \b
    Examples:
      dpubench f2-build --hdk ~/aws-fpga
      dpubench f2-build --arch dpu_tiny --hdk ~/aws-fpga --tag first --dry-run
    """
    from ...ir.arch import load_arch
    from ...rtl.deploy import f2

    folder = hdk or Path(os.environ.get("AWS_FPGA_REPO_DIR", ""))
    if not dry_run and not (folder / "hdk_setup.sh").is_file():
        hint = "git clone -b f2 https://github.com/aws/aws-fpga, and give it with --hdk"
        raise DpuError(f"--hdk {folder}", "holds no hdk_setup.sh", hint=hint, code="E445")
    name = tag or datetime.now(UTC).strftime("%Y_%m_%d-%H%M%S")
    plan = f2.build_plan(load_arch(arch), folder, work, name)
    _do(plan, dry_run)
    if not dry_run:
        typer.echo(f"wrote {f2.checkpoint(work, name, allow_violated)}")


def f2_create(
    checkpoint: Annotated[Path, typer.Argument(help="The .Developer_CL.tar that f2-build left.")],
    bucket: Annotated[str, typer.Option(help="S3 bucket of yours, in the region.")],
    arch: ArchName = "dpu_f2",
    region: Annotated[str, typer.Option(help="AWS region; F2 is in some only.")] = "us-east-1",
    prefix: Annotated[str, typer.Option(help="Folder in the bucket.")] = "dpu",
    output: Annotated[Path, typer.Option("-o", "--output", help="The image's record.")] = IMAGE,
    dry_run: DryRun = False,
) -> None:
    """What F2 image (AFI) does this checkpoint become?

    Uploads it and asks AWS to make the image.

    \b
    Examples:
      dpubench f2-create out/f2/cl_dpu/build/checkpoints/first.Developer_CL.tar --bucket my-bucket
      dpubench f2-create first.Developer_CL.tar --bucket my-bucket --region us-west-2 --dry-run
    """
    from ...ir.arch import load_arch
    from ...rtl.deploy import f2

    if not dry_run:
        check_output(output)
        if not checkpoint.is_file():
            raise DpuError(str(checkpoint), "no such file", hint="dpubench f2-build writes it", code="E106")
    wanted = load_arch(arch)
    text = f"{f2.TOP} for arch {wanted.name}, digest {wanted.digest}"
    found = _do(f2.create_plan(checkpoint, bucket, prefix, region, f"dpu-{wanted.name}", text), dry_run)
    if found:
        image = f2.created(wanted, checkpoint, bucket, prefix, region, found[-1])
        image.save(output)
        typer.echo(f"{image.afi}, {image.agfi}: wrote {output}")


def f2_wait(
    image: ImageFile = IMAGE,
    interval: Annotated[float, typer.Option(min=1, help="Seconds between looks.")] = 60.0,
    limit: Annotated[float, typer.Option(min=1, help="Seconds to give up after.")] = 14400.0,
    dry_run: DryRun = False,
) -> None:
    """When is the image ready to load?

    Asks AWS until it is, and says why if it never will be.

    \b
    Examples:
      dpubench f2-wait
      dpubench f2-wait --image results/f2/image.json --interval 120
    """
    from ...rtl.deploy import f2

    known = f2.load_image(image)
    if dry_run:
        _do([f2.describe_afi(known)], dry_run)
        return
    f2.wait(known, typer.echo, interval, limit).save(image)


def f2_load(slot: Slot = 0, image: ImageFile = IMAGE, dry_run: DryRun = False) -> None:
    """Does the image run on this card?

    Clears the card, loads the image and checks what the card then says.

    \b
    Examples:
      dpubench f2-load
      dpubench f2-load --slot 1 --image results/f2/image.json --dry-run
    """
    from ...rtl.deploy import f2
    from ...rtl.deploy.describe import parse

    known = f2.load_image(image)
    found = _do([*f2.load_plan(slot, known.agfi), *f2.describe_plan(slot)], dry_run)
    if not found:
        return
    card = parse(found[-1])
    if (card.image, card.status) != (known.agfi, "loaded"):
        what = f"shows {card.image}, {card.status} ({card.error}); {known.agfi} was loaded"
        raise DpuError(f"slot {slot}", what, hint="dpubench f2-clear, then load again", code="E446")


def f2_clear(slot: Slot = 0, dry_run: DryRun = False) -> None:
    """Is the card empty again?

    Takes its image off.

    \b
    Examples:
      dpubench f2-clear
      dpubench f2-clear --slot 1 --dry-run
    """
    from ...rtl.deploy import f2

    _do(f2.clear_plan(slot), dry_run)


def f2_describe(slot: Slot = 0, dry_run: DryRun = False) -> None:
    """What is on this card, what power does it take, and has the shell seen timeouts?

    \b
    Examples:
      dpubench f2-describe
      dpubench f2-describe --slot 1 --dry-run
    """
    from ...rtl.deploy import f2
    from ...rtl.deploy.describe import parse

    steps = f2.describe_plan(slot, metrics=True)
    if dry_run:
        _do(steps, dry_run)
        return
    from ...rtl.deploy.steps import perform

    card = parse(perform(steps, lambda _: None)[-1])
    typer.echo(f"slot {card.slot}: {card.image}, {card.status} ({card.error}), shell {card.shell:#010x}")
    typer.echo(f"power of Vccint: {card.power_last} W, mean {card.power_mean} W, most {card.power_max} W")
    typer.echo("timeouts and errors: " + (", ".join(f"{k} {v}" for k, v in card.troubles.items()) or "none"))


def f2_record(
    slot: Slot = 0,
    seconds: Annotated[float, typer.Option(min=0, help="How long to look.")] = 600.0,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between looks.")] = 5.0,
    during: Annotated[str, typer.Option(help="A command to run meanwhile; looks end with it.")] = "",
    output: Annotated[Path, typer.Option("-o", "--output", help="JSON.")] = Path("results/f2/power.json"),
    dry_run: DryRun = False,
) -> None:
    """What power does the card take while it works?

    Keeps every sample; only a real card gives a measurement.

    \b
    Examples:
      dpubench f2-record --seconds 600 -o results/f2/power_idle.json
      dpubench f2-record --during "dpurun out/sdxl.dpu --target f2 --prompt fox -o out/fox.png"
    """
    from ...rtl.deploy import f2

    if dry_run:
        typer.echo(f"# every {interval:g} s" + (f", until this ends: {during}" if during else f" for {seconds:g} s"))
        _do(f2.describe_plan(slot, metrics=True), dry_run)
        return
    from .. import f2_power

    check_output(output)
    measured, samples = f2_power.record(slot, seconds, interval, during, typer.echo, f2_power.identity)
    f2_power.save(output, measured, samples)
    typer.echo(f"{measured.value:.1f} W of Vccint, mean of {len(samples)}: wrote {output}")


def xrt_build(
    output: Annotated[Path, typer.Option("-o", "--output", help="The .xclbin to write.")],
    card: Annotated[str, typer.Option(help="u50, u280 or u55c.")] = "u55c",
    arch: ArchName = "dpu_tiny",
    work: Work = Path("out/xrt"),
    jobs: Annotated[int, typer.Option(min=1, help="Processes of the link.")] = 4,
    dry_run: DryRun = False,
) -> None:
    """What device binary for an Alveo card do the sources give, by Vivado and Vitis?

    \b
    Examples:
      dpubench xrt-build --card u55c -o out/tiny.xclbin
      dpubench xrt-build --card u50 --arch dpu_tiny -o out/tiny.xclbin --dry-run
    """
    from ...ir.arch import load_arch
    from ...rtl.deploy import xrt

    if output.suffix != ".xclbin":
        what = f"value is {output}, expected a name that ends in .xclbin"
        raise DpuError("--output", what, hint="dpurun --target xrt --image takes it", code="E501")
    if not dry_run:
        check_output(output)
    _do(xrt.build_plan(load_arch(arch), card, work, output, jobs), dry_run)


VERBS: dict[str, Callable[..., None]] = {
    "f2-build": f2_build,
    "f2-create": f2_create,
    "f2-wait": f2_wait,
    "f2-load": f2_load,
    "f2-clear": f2_clear,
    "f2-describe": f2_describe,
    "f2-record": f2_record,
    "xrt-build": xrt_build,
}
