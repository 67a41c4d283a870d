"""`dpubench`: the command of measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output, new_app, run_app

app = new_app("Measure against a peer or a bound, in one run, and print the ratio.")


@app.command()
def products() -> None:
    """How close does the simulator's matrix word come to the bare int8 product of torch?

    \b
    Examples:
      dpubench products
      OMP_NUM_THREADS=1 dpubench products
    """
    from ..products import measure, text

    typer.echo(text(measure()))


@app.command()
def blocks(
    arch: Annotated[str, typer.Option(help="Archs, with commas between them.")] = "dpu_f2,dpu_32tops",
    dram: Annotated[str, typer.Option(help="DRAM timing instead of the arch's: ideal, simple, or a file.")] = "",
) -> None:
    """How far is --estimate from the timing simulation on blocks of full-size SDXL?

    \b
    Examples:
      dpubench blocks
      dpubench blocks --arch dpu_f2 --dram simple
    """
    from ..blocks import measure, text

    typer.echo(text(measure([a.strip() for a in arch.split(",")], dram)))


@app.command()
def functional(
    arch: Annotated[str, typer.Option(help="The arch to compile for.")] = "dpu_f2",
    blocks: Annotated[str, typer.Option(help="Blocks, with commas between them; all of them if left out.")] = "",
    runs: Annotated[int, typer.Option(min=1, help="Runs of each side; the shortest counts.")] = 3,
) -> None:
    """How long is the functional simulator's time beside ONNX Runtime's for the same 8-bit products? Minutes.

    \b
    Examples:
      dpubench functional
      OMP_NUM_THREADS=1 dpubench functional --blocks "transformer 1280 @ 32x32" --runs 2
    """
    from ..blocks import BLOCKS
    from ..functional import measure

    names = [b.strip() for b in blocks.split(",") if b.strip()]
    unknown = [b for b in names if b not in BLOCKS]
    if unknown:
        raise typer.BadParameter(f"no block '{unknown[0]}'; there are: {', '.join(BLOCKS)}", param_hint="--blocks")
    typer.echo(measure(arch, names, runs).text())


@app.command()
def dram(
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the tables as JSON.")] = None,
) -> None:
    """What bandwidth does each access pattern reach, and how far is the closed form from single commands?

    \b
    Examples:
      dpubench dram
      dpubench dram -o results/dram/patterns.json
    """
    from ..dram import measure

    check_output(output)
    found = measure()
    if output is not None:
        found.save(output)
    typer.echo(found.text())


@app.command()
def cycles(
    program: Annotated[Path | None, typer.Argument(help="A .dpu file; default: the tiny pipeline on 3 archs.")] = None,
    entry: Annotated[str, typer.Option(help="Entries of the file, with commas between them; default: all.")] = "",
    dram: Annotated[str, typer.Option(help="DRAM timing for the file instead of the arch's.")] = "",
    words: Annotated[int, typer.Option(min=0, help="Also show the first words of the file that differ.")] = 0,
    archs: Annotated[str, typer.Option(help="Of the table, only these archs.")] = "",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the table as JSON.")] = None,
) -> None:
    """Do timing model and RTL take the same cycles? Exit code 1 if a program or a layer is beyond the bounds.

    \b
    Examples:
      dpubench cycles out/tiny.dpu --entry text_encoder --words 12
      dpubench cycles -o results/rtl/cycles.json
    """
    from ...codegen.dpufile import load
    from ...simulator.memory import with_dram
    from .. import cycles as found

    check_output(output)
    rows, lines = [], []
    if program is None:
        for row in found.measure([a.strip() for a in archs.split(",") if a.strip()]):
            typer.echo(f"{row.arch} {row.dram} {row.entry}: {100 * row.error:+.3f} %", err=True)
            rows.append(row)
    else:
        loaded = load(program)
        arch = with_dram(loaded.arch, dram) if dram else loaded.arch
        names = [e.strip() for e in entry.split(",")] if entry else [e.name for e in loaded.entries]
        for one, rtl, model in found.run(loaded, arch, names):
            rows.append(found.compare(rtl, model, dram or arch.dram.model, one))
            lines += found.differences(rtl, model, words)
    command = "dpubench cycles" + (f" -o {output}" if output else "")
    table = found.Cycles(command=command, seen=("dpu_tiny",), rows=tuple(rows))
    if output is not None:
        table.save(output)
    typer.echo("\n".join([table.text(), *lines]))
    raise typer.Exit(0 if table.agrees else 1)


@app.command()
def rates(
    program: Annotated[Path, typer.Argument(help="A .dpu file of a whole pipeline.")],
    runs: Annotated[int, typer.Option(min=1, help="Runs of simulator and timing model; the shortest counts.")] = 3,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the result as JSON.")] = None,
) -> None:
    """How many cycles a CPU second do RTL, simulator and timing model run for one UNet forward? Minutes.

    \b
    Examples:
      dpubench rates out/tiny.dpu
      dpubench rates out/tiny.dpu -o results/rtl/rates.json
    """
    from ..rates import measure

    check_output(output)
    found = measure(program, runs)
    if output is not None:
        found.save(output)
    typer.echo(found.text())


@app.command()
def rtl_image(
    program: Annotated[Path, typer.Argument(help="A .dpu file of a whole pipeline.")],
    prompt: Annotated[str, typer.Option(help="What the image shows.")] = "a red fox in the snow",
    seed: Annotated[int, typer.Option(help="Of the starting noise.")] = 7,
    steps: Annotated[int, typer.Option(min=1, help="Denoising steps.")] = 20,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the result as JSON.")] = None,
) -> None:
    """Does the RTL make the simulator's image, byte for byte? 20 steps take 10 minutes; exit code 1 if not.

    \b
    Examples:
      dpubench rtl-image out/tiny.dpu --steps 1
      dpubench rtl-image out/tiny.dpu -o results/rtl/image-20-steps.json
    """
    from ...runtime.cli.common import progress
    from ..rtl_image import measure

    check_output(output)
    with progress("denoising") as bar:
        found = measure(program, prompt, seed, steps, lambda _, done: bar(done, steps))
    if output is not None:
        found.save(output)
    typer.echo(found.text())
    raise typer.Exit(0 if found.same else 1)


@app.command()
def exporters(
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the table as JSON.")] = None,
) -> None:
    """Does every exporter's file become the same canonical graph? Exports the tiny model several times: minutes.

    \b
    Examples:
      dpubench exporters
      dpubench exporters -o results/exporters.json
    """
    from ..exporters import measure

    check_output(output)
    found = measure(lambda exporter: typer.echo(f"{exporter} ...", err=True))
    if output is not None:
        found.save(output)
    typer.echo(found.text())


@app.command()
def memory(
    layers: Annotated[int, typer.Option(help="Linears of the model.")] = 19,
    width: Annotated[int, typer.Option(help="Rows and columns of each.")] = 8192,
    arch: Annotated[str, typer.Option(help="The arch to compile for.")] = "dpu_f2",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the result as JSON.")] = None,
) -> None:
    """How much memory beyond the page cache does compiling a large model take? Minutes; 1.3 GB of disk.

    \b
    Examples:
      dpubench memory -o results/memory/model-2.5GB.json
      dpubench memory --layers 6 --width 4096
    """
    from ..memory import measure

    check_output(output)
    found = measure(layers, width, arch)
    if output is not None:
        found.save(output)
    typer.echo(found.text())


@app.command()
def golden(
    accept: Annotated[str, typer.Option(help="Take the new values; the reason is kept with them.")] = "",
) -> None:
    """Have cycles, bytes or instruction counts of the reference programs moved?

    \b
    Examples:
      dpubench golden
      dpubench golden --accept "panels are twice as wide: fewer words"
    """
    import tempfile
    from pathlib import Path

    from .. import golden as goldens

    with tempfile.TemporaryDirectory() as work:
        if accept:
            typer.echo("\n".join(goldens.accept(accept, Path(work))))
            return
        moved = []
        for name, program in goldens.reference_programs(Path(work)):
            moved += [f"{name}: {d}" for d in goldens.differences(goldens.load(name), goldens.measure(name, program))]
    typer.echo("\n".join(moved) or "nothing moved by more than 0.5 %")
    raise typer.Exit(1 if moved else 0)


@app.command()
def mutate(
    program: Annotated[Path | None, typer.Argument(help="A .dpu file; default: built-in nets, 1 and 3 tiles.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Mutants.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Of the mutations and the orders of execution.")] = 0,
    entry: Annotated[str, typer.Option(help="Entry of the file; default: its first.")] = "",
    orders: Annotated[int, typer.Option(min=1, help="Random legal orders for each accepted mutant.")] = 8,
    latent: Annotated[int, typer.Option(min=0, help="Random legal orders for each rejected mutant.")] = 2,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the table as JSON.")] = None,
) -> None:
    """Does the verifier let a program through that computes something else? Exit code 1 if one escapes.

    \b
    Examples:
      dpubench mutate --count 150
      dpubench mutate --count 2000 --seed 0 -o results/mutations/nets.json
      dpubench mutate out/tiny.dpu --entry unet --count 100 --orders 4 --latent 0
    """
    from ...runtime.cli.common import progress
    from ..mutation_run import builtin, command_line, file, measure

    check_output(output)
    subjects = builtin() if program is None else [file(program, entry)]
    command = command_line(program, count, seed, entry, orders, latent, output)
    with progress("mutants") as update:
        found = measure(subjects, count, seed, orders, latent, command, update)
    if output is not None:
        found.save(output)
    typer.echo(found.text())
    raise typer.Exit(1 if found.escapes else 0)


@app.command()
def fuzz(
    cases: Annotated[int, typer.Option(min=1, help="Cases of each format; case n is seed n.")] = 1000,
    format: Annotated[str, typer.Option(help="onnx, dpu, json or text; all of them if left out.")] = "",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Keep and continue here (one format).")] = None,
) -> None:
    """Does damaged input of any format end in a traceback, a hang or a crash? About 10 minutes for 10,000 cases.

    \b
    Examples:
      dpubench fuzz --cases 200
      dpubench fuzz --cases 10000 --format onnx -o results/fuzz/onnx.json
    """
    from ..fuzz import chosen, fuzz

    failed = False
    for name in chosen(format, output):
        found = fuzz(name, cases, output, lambda line: typer.echo(line, err=True))
        typer.echo(found.text())
        failed |= bool(found.findings)
    raise typer.Exit(1 if failed else 0)


def main() -> None:
    """The entry point of the package."""
    run_app(app, "dpubench")
