"""`dpurun`: make an image with a compiled program on a device, or with the reference on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import DpuError
from .common import check_output, new_app, parse_size, progress, run_app

if TYPE_CHECKING:
    from ..pipeline import Request

app = new_app("")


@app.command(epilog="--debug, anywhere, shows the traceback of an error.")
def dpurun(
    model: Annotated[Path, typer.Argument(help="A .dpu file; an exported folder for targets cpu and gpu.")],
    prompt: Annotated[str, typer.Option(help="What the image shows.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The PNG to write.")] = Path("out.png"),
    target: Annotated[
        str, typer.Option(help="sim: simulated; rtl: its Verilog; f2, xrt: AWS, Alveo card; cpu: float32; gpu: CUDA.")
    ] = "sim",
    engine: Annotated[str, typer.Option(help="Of target gpu: ort, torch, or best (measured: torch).")] = "best",
    device: Annotated[str, typer.Option(help="Where target sim computes: cpu or cuda.")] = "cpu",
    image: Annotated[str, typer.Option(help="What a card is loaded with: for f2 an agfi id, for xrt a .xclbin.")] = "",
    card: Annotated[
        str, typer.Option(help="Which card: for f2 a slot or stand-in, for xrt an index or a BDF; default: the first.")
    ] = "",
    images: Annotated[int, typer.Option(min=1, help="How many, on target f2: seeds from --seed on.")] = 1,
    watch: Annotated[bool, typer.Option("--watch", help="Say on stderr each second what an f2 card does.")] = False,
    negative: Annotated[str | None, typer.Option(help="What the image must not show.")] = None,
    seed: Annotated[int, typer.Option(help="Of the starting noise, as diffusers draws it on the CPU.")] = 0,
    steps: Annotated[int, typer.Option(help="Denoising steps.")] = 20,
    guidance: Annotated[float, typer.Option(help="Guidance scale; 1 or less turns guidance off.")] = 5.0,
    size: Annotated[str | None, typer.Option(help="WIDTHxHEIGHT; default: the program's or the model's.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Write a trace for ui.perfetto.dev, .json or .json.gz.")] = None,
    trace_detail: Annotated[str, typer.Option(help="ops, instructions, or auto: what 25 MB hold.")] = "auto",
    waves: Annotated[Path | None, typer.Option(help="Write all signals of target rtl, VCD: keep runs short.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write the device's report into this folder.")] = None,
    compare: Annotated[Path | None, typer.Option(help="Exported folder: SQNR of each step against float32.")] = None,
    reference: Annotated[Path | None, typer.Option(help="With --compare: a PNG for the image in float32.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Folder of finished steps: a killed run goes on there.")] = None,
    timing: Annotated[bool, typer.Option("--timing/--no-timing", help="Simulate the device's cycles.")] = True,
    dump_tensors: Annotated[list[str] | None, typer.Option(help="[ENTRY:]GLOB of operations, nodes, tensors.")] = None,
    dump_to: Annotated[Path | None, typer.Option(help="Folder for the dumped tensors of every run.")] = None,
    break_at: Annotated[str | None, typer.Option(help="[ENTRY:]GLOB: stop at this operation and step.")] = None,
    break_commands: Annotated[Path | None, typer.Option(help="Commands of the stepper; default: stdin.")] = None,
) -> None:
    """What image, in what time, does this program make of a prompt?

    \b
    Examples:
      dpurun out/tiny.dpu --prompt "a red fox in the snow" --seed 7 -o out/fox.png
      dpurun out/tiny.dpu --device cuda --prompt "a red fox in the snow" --seed 7 -o out/fox.png
      dpurun out/tiny.dpu --target rtl --prompt "a red fox in the snow" --seed 7 --steps 1 -o out/fox.png
      dpurun out/tiny.dpu --target f2 --card 0,1 --images 8 --prompt "a red fox in the snow" -o out/fox.png
      dpurun out/tiny --target cpu --prompt "a red fox in the snow" --seed 7 -o out/reference.png
      dpurun out/tiny --target gpu --engine ort --prompt "a red fox in the snow" --seed 7 -o out/gpu.png
    """
    from ..generate import make_image
    from ..looking import Looking, quitting
    from ..pipeline import Request
    from ..targets import check_card

    check_card(target, image, card, watch, images)
    for option, value in (("--resume", resume), ("--compare", compare), ("--watch", watch)):
        if images > 1 and value:
            raise DpuError("--images", f"does not go with {option}", hint="leave out one of the two", code="E501")
    height, width = parse_size(size)
    request = Request(prompt, negative, seed, steps, guidance, height, width)
    for file in (out, reference, trace, waves):
        check_output(file)
    for folder in (report, dump_to, resume):
        check_output(folder, folder=True)
    looking = Looking(tuple(dump_tensors or ()), dump_to, break_at, break_commands, trace_detail)
    passes = 3 if compare else 1
    done = 0

    with progress("denoising") as bar, quitting():

        def on_step(_: object) -> None:
            nonlocal done
            done += 1
            if break_at is None and not watch:  # it would draw over what the stepper or the watch shows
                bar(done, passes * steps)

        if target == "gpu":
            from ..gpu.images import make_image_on_gpu

            given: dict[str, object] = {
                "--trace": trace,
                "--waves": waves,
                "--report": report,
                "--compare": compare,
                "--resume": resume,
            }
            given |= {"--dump-tensors": dump_to if dump_tensors else None, "--break-at": break_at}
            given |= {"--image": image or None, "--card": card or None}
            typer.echo(f"wrote            {out}\n{make_image_on_gpu(model, request, out, engine, given, on_step)}")
            return
        if images > 1:
            _several(model, request, images, out, image, card)
            return
        summary = make_image(
            model,
            target,
            request,
            out,
            trace,
            report,
            compare,
            on_step,
            looking,
            waves,
            device,
            resume,
            timing,
            reference,
            image,
            card,
            watch,
        )
    typer.echo(f"wrote            {', '.join(str(p) for p in (out, reference, trace, waves, report, dump_to) if p)}")
    typer.echo(summary.text())


def _several(model: Path, request: Request, count: int, out: Path, image: str, card: str) -> None:
    """Make images on the slots of `card`, and say which slots made them and which failed."""
    from ..f2.fleet import make_images

    with progress("images") as bar:
        made, failed = make_images(model, request, count, out, image, card, lambda done: bar(done, count))
    for path, slot, summary in made:
        typer.echo(f"wrote            {path}, in slot {slot}\n{summary.text()}")
    for slot, error in failed.items():
        typer.echo(f"slot {slot} failed, the others made its images\n{error.text()}", err=True)


def main() -> None:
    """The entry point of the package."""
    run_app(app, "dpurun")
