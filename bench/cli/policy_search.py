"""`dpubench policy-search`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from ...runtime.cli.common import check_output, progress, say


def policy_search(
    model: Annotated[Path, typer.Argument(help="A diffusers folder of make train, with its classifier.")],
    floor_psnr: Annotated[float | None, typer.Option(help="dB of the pictures against float32, at least.")] = None,
    floor_accuracy: Annotated[float | None, typer.Option(help="Part of the pictures that show their caption.")] = None,
    arch: Annotated[str, typer.Option(help="Where an image costs what the search saves.")] = "dpu_tiny",
    cost: Annotated[str, typer.Option(help="cycles or dram: what is saved.")] = "cycles",
    prompts: Annotated[int, typer.Option(help="Captions that whole policies are tried on.")] = 4,
    ranking: Annotated[int, typer.Option(help="Captions that single layers are tried on.")] = 2,
    steps: Annotated[int, typer.Option(help="Denoising steps.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of the noise that pictures begin with.")] = 100,
    jobs: Annotated[int, typer.Option(min=1, help="Worker processes, one thread each.")] = 1,
    name: Annotated[str, typer.Option(help="What the policy is called.")] = "searched",
    work: Annotated[Path, typer.Option(help="The work folder of dpubench quality: a run goes on there.")] = Path(
        "out/quality"
    ),
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the policy, for --policy.")] = None,
    log: Annotated[Path | None, typer.Option(help="Write every policy that was tried, as JSON.")] = None,
) -> None:
    """Which policy is the cheapest that meets a floor, and does any beat uniform W8A8 at no more cost?

    Without a floor the policy is the best that costs no more than uniform W8A8. Pictures come from float32 arithmetic
    on quantised operands, costs from the compiler's estimate, of what is found also from the timing simulation; verify
    the policy with dpubench quality.

    \b
    Examples:
      dpubench policy-search models/tiny --arch dpu_f2 --jobs 8 -o out/searched.json
      dpubench policy-search models/tiny --floor-psnr 38 --cost cycles -o out/floor.json --log out/floor.log.json
    """
    from ...files import atomic_write
    from ..quality.search import text_of
    from ..quality.search_run import Request, check, search

    check_output(output)
    check_output(log)
    check_output(work, folder=True)
    command = f"dpubench policy-search {model}"
    command += f" --floor-psnr {floor_psnr:g}" if floor_psnr is not None else ""
    command += f" --floor-accuracy {floor_accuracy:g}" if floor_accuracy is not None else ""
    command += f" --arch {arch} --cost {cost} --prompts {prompts} --ranking {ranking} --steps {steps} --seed {seed}"
    request = Request(
        model,
        work,
        name,
        command,
        floor_psnr,
        floor_accuracy,
        arch,
        cast(Literal["cycles", "dram"], cost),
        prompts,
        ranking,
        steps,
        seed,
        jobs,
    )
    check(request)
    with progress("searching") as bar:
        found, policy = search(request, say, lambda _: bar)
    if output:
        with atomic_write(output) as temporary:
            temporary.write_text(text_of(policy))
    if log:
        found.save(log)
    typer.echo(found.text())
