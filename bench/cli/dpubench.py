"""`dpubench`: the command of measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output, new_app, run_app
from . import economics

app = new_app("Measure against a peer or a bound, in one run, and print the ratio.")
economics.register(app)


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


@app.command("estimate-error")
def estimate_error(
    programs: Annotated[list[Path] | None, typer.Argument(help="Programs of the full-size UNet.")] = None,
    parts: Annotated[str, typer.Option(help="ARCH:PART to compile here, with commas between them.")] = "",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the table as JSON.")] = None,
) -> None:
    """How far is --estimate from the timing simulation of full-size SDXL, by entry and layer? Minutes.

    \b
    Examples:
      dpubench estimate-error --parts dpu_f2:text_encoder,dpu_f2:vae_decoder
      dpubench estimate-error out/unet_f2.dpu -o results/sim/estimate.json
    """
    from ...codegen.estimate import PARTS
    from ..estimate_error import EstimateErrors, measure

    check_output(output)
    wanted = [tuple(p.strip().split(":", 1)) for p in parts.split(",") if p.strip()]
    for w in wanted:
        if len(w) != 2 or w[1] not in PARTS:
            what = f"'{':'.join(w)}' is no ARCH:PART; parts: {', '.join(PARTS)}"
            raise typer.BadParameter(what, param_hint="--parts")
    found = measure(programs or [], [(w[0], w[1]) for w in wanted], lambda line: typer.echo(line, err=True))
    command = " ".join(["dpubench estimate-error", *map(str, programs or []), *(["--parts", parts] if parts else [])])
    table = EstimateErrors(command=command + (f" -o {output}" if output else ""), entries=tuple(found))
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        table.save(output)
    typer.echo(table.text())


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
def timing(
    program: Annotated[Path, typer.Argument(help="A .dpu file.")],
    entry: Annotated[str, typer.Option(help="Entries of the file, with commas between them; default: all.")] = "",
    dram: Annotated[str, typer.Option(help="DRAM timing instead of the arch's.")] = "",
    runs: Annotated[int, typer.Option(min=1, help="Of each entry; the shortest counts.")] = 1,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the result as JSON.")] = None,
) -> None:
    """How many cycles a CPU second does the timing simulation make, beside ONNXim? Runs no data through the program.

    \b
    Examples:
      dpubench timing out/tiny.dpu
      dpubench timing out/unet_f2.dpu -o results/sim/timing_speed.json
    """
    from ..timing_speed import measure

    check_output(output)
    names = tuple(e.strip() for e in entry.split(",") if e.strip())
    command = f"dpubench timing {program}" + (f" -o {output}" if output else "")
    found = measure(program, names, dram, runs, command)
    if output is not None:
        found.save(output)
    typer.echo(found.text())


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
def image(
    model: Annotated[Path, typer.Option(help="The exported folder; made if it is missing.")],
    arch: Annotated[str, typer.Option(help="The arch to compile for.")] = "dpu_f2",
    device: Annotated[str, typer.Option(help="Where simulator and reference compute: cpu or cuda.")] = "cpu",
    calibration: Annotated[Path, typer.Option(help="The statistics; made if missing.")] = Path("out/image.safetensors"),
    program: Annotated[Path, typer.Option(help="The program; made if missing.")] = Path("out/image.dpu"),
    work: Annotated[Path, typer.Option(help="Folder of finished stages and steps, logs, images.")] = Path("out/image"),
    prompt: Annotated[str, typer.Option(help="What the image shows.")] = "a red fox in the snow",
    seed: Annotated[int, typer.Option(help="Of the starting noise.")] = 7,
    steps: Annotated[int, typer.Option(min=1, help="Denoising steps.")] = 20,
    source: Annotated[str, typer.Option(help="What to export: sdxl, tiny-seeded, or a diffusers folder.")] = "sdxl",
    weights: Annotated[str, typer.Option(help="Of a source without: seeded or realistic.")] = "seeded",
    size: Annotated[str, typer.Option(help="WIDTHxHEIGHT; default: the model's.")] = "",
    prompts: Annotated[int, typer.Option(min=1, help="Calibration prompts.")] = 2,
    calibration_steps: Annotated[int, typer.Option(min=1, help="Steps of each, chosen from the schedule.")] = 5,
    commit: Annotated[str, typer.Option(help="Of the sources, where there is no git.")] = "",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="JSON; a pair of images beside it.")] = None,
) -> None:
    """How far is a whole image on the simulated device from float32? Goes on where it was stopped.

    \b
    Examples:
      dpubench image --model out/sdxl --arch dpu_f2 --device cuda -o results/sim/image.json
      dpubench image --model out/tiny --source tiny-seeded --arch dpu_tiny --size 64x64 --steps 2
    """
    from ..full_image import measure

    check_output(output)
    for path in (model, work):
        check_output(path, folder=True)
    for path in (calibration, program):
        check_output(path)
    command = f"dpubench image --model {model} --source {source} --arch {arch} --device {device} --steps {steps}"
    found = measure(
        model,
        arch,
        device,
        calibration,
        program,
        work,
        output,
        prompt,
        seed,
        steps,
        source,
        weights,
        size,
        prompts,
        calibration_steps,
        commit,
        command,
        lambda line: typer.echo(line, err=True),
    )
    typer.echo(found.text())


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


@app.command()
def campaign(
    programs: Annotated[int, typer.Option(min=1, help="Programs in all.")] = 20_000,
    shapes: Annotated[str, typer.Option(help="Shapes, with commas between them; all of them if left out.")] = "",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Keep the state here, go on from it.")] = None,
) -> None:
    """Does the RTL leave the simulator's bytes for random programs, on every shape? Exit code 1 if not. Hours.

    \b
    Examples:
      dpubench campaign --programs 120
      dpubench campaign --programs 20000 -o results/rtl/campaign.json
    """
    from .. import campaign as found

    check_output(output)
    command = f"dpubench campaign --programs {programs}" + (f" -o {output}" if output else "")
    names = [s.strip() for s in shapes.split(",") if s.strip()] or found.SHAPES
    done = found.run(programs, names, output, command, lambda line: typer.echo(line, err=True))
    typer.echo(done.text())
    raise typer.Exit(1 if done.mismatches else 0)


@app.command()
def sizes(
    graphs: Annotated[Path, typer.Argument(help="A folder of `dpuc export sdxl --open-sizes --graph-only`.")],
    arch: Annotated[str, typer.Option(help="Archs, with commas between them.")] = "dpu_f2,dpu_32tops",
    part: Annotated[
        str, typer.Option(help="Parts, with commas between them.")
    ] = "unet,vae_decoder,text_encoder,text_encoder_2",
    only: Annotated[str, typer.Option(help="Only programs whose names hold this, such as 1024x1024-b2.")] = "",
    timed: Annotated[bool, typer.Option("--timed", help="Also simulate the cycles of each program.")] = False,
    keep: Annotated[Path | None, typer.Option(help="Folder for the words, to time them later.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Keep and continue here.")] = None,
) -> None:
    """What does full-size SDXL take at every image size and batch? Two to three CPU minutes a program.

    \b
    Examples:
      dpubench sizes out/sdxl_graphs --only 512x512
      dpubench sizes out/sdxl_graphs --keep out/sizes -o results/sim/sizes.json
    """
    from ..sizes import cases, measure

    check_output(output)
    check_output(keep, folder=True)
    archs, parts = ([x.strip() for x in names.split(",")] for names in (arch, part))
    wanted = [c for c in cases(archs, parts) if only in c.name]
    if not wanted:
        names = ", ".join(c.name for c in cases(archs, parts))
        raise typer.BadParameter(f"no program's name holds '{only}'; there are: {names}", param_hint="--only")
    command = "dpubench sizes" + (" --timed" if timed else "")
    found = measure(graphs, wanted, output, timed, keep, command, lambda line: typer.echo(line, err=True))
    typer.echo(found.text())


@app.command()
def tables(
    programs: Annotated[list[Path] | None, typer.Argument(help="Programs of full-size SDXL, several an arch.")] = None,
    parts: Annotated[str, typer.Option(help="ARCH:PART to compile here, with commas between them.")] = "",
    graphs: Annotated[Path | None, typer.Option(help="For --parts: `dpuc export sdxl --open-sizes`.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Replace these archs here.")] = None,
) -> None:
    """Where do cycles, bytes and seconds of an image go, by entry and class of layers? Writes README.md beside it.

    Without programs and parts: only write README.md again.

    \b
    Examples:
      dpubench tables out/sdxl_f2.dpu -o results/sim/tables.json
      dpubench tables out/unet_32tops.dpu --graphs out/sdxl_graphs --parts dpu_32tops:vae_decoder
      dpubench tables -o results/sim/tables.json
    """
    from ...codegen.estimate import PARTS
    from ...runtime.gpu.identity import commit
    from ..image_tables import measure, read
    from ..image_tables_page import page, write_page

    check_output(output)
    wanted = [tuple(p.strip().split(":", 1)) for p in parts.split(",") if p.strip()]
    for w in wanted:
        if len(w) != 2 or w[1] not in PARTS:
            what = f"'{':'.join(w)}' is no ARCH:PART; parts: {', '.join(PARTS)}"
            raise typer.BadParameter(what, param_hint="--parts")
    if programs or wanted:
        options = [f"--graphs {graphs}"] if graphs else []
        options += [f"--parts {parts}"] if parts else []
        command = " ".join(["dpubench tables", *map(str, programs or []), *options])
        pairs = [(w[0], w[1]) for w in wanted]
        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
        found = measure(
            programs or [], pairs, graphs, output, command, commit(), lambda line: typer.echo(line, err=True)
        )
    elif output is not None:
        found = read(output)
    else:
        raise typer.BadParameter("give programs, parts, or a file to render again", param_hint="PROGRAMS")
    if output is not None:
        write_page(output)
    typer.echo(page(found))


@app.command()
def rtl_mutants(
    seed: Annotated[int, typer.Option(min=0, help="Of the draw of faults.")] = 1,
    each: Annotated[int, typer.Option(min=1, help="Faults of each module.")] = 2,
    benches: Annotated[bool, typer.Option(help="Also the benches of tests/rtl, for faults that live.")] = True,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Keep the state here, go on from it.")] = None,
) -> None:
    """Is every seeded fault of the RTL caught, by which test, after how long? Exit code 1 if one lives. Hours.

    \b
    Examples:
      dpubench rtl-mutants --each 1 --no-benches
      dpubench rtl-mutants -o results/rtl/mutants.json
    """
    from ..rtl_mutants import measure

    check_output(output)
    command = f"dpubench rtl-mutants --seed {seed} --each {each}" + (f" -o {output}" if output else "")
    found = measure(seed, each, output, command, lambda line: typer.echo(line, err=True), benches)
    typer.echo(found.text())
    raise typer.Exit(1 if found.survivors else 0)


@app.command()
def coverage(
    programs: Annotated[int, typer.Option(min=0, help="Random programs of each shape.")] = 280,
    shapes: Annotated[str, typer.Option(help="Shapes, with commas between them.")] = "",
    data: Annotated[Path | None, typer.Option(help="A folder that pytest --rtl-coverage wrote.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the table as JSON and Markdown.")] = None,
) -> None:
    """Which lines of the RTL ran, which bits toggled, and why not the rest? Exit code 1 below the criterion. Minutes.

    \b
    Examples:
      dpubench coverage --programs 40 --shapes pair
      pytest tests/rtl -m "not slow" --rtl-coverage out/coverage
      dpubench coverage --data out/coverage -o results/rtl/coverage.json
    """
    from .. import rtl_coverage as found

    check_output(output)
    names = [s.strip() for s in shapes.split(",") if s.strip()] or list(found.SHAPES)
    command = f"dpubench coverage --programs {programs}" + (" --data FOLDER" if data else "")
    command += f" -o {output}" if output else ""
    files = sorted(data.glob("*.dat")) if data else []
    table = found.measure(programs, names, files, command, lambda line: typer.echo(line, err=True))
    if output is not None:
        table.save(output)
    typer.echo(table.text())
    raise typer.Exit(0 if table.enough else 1)


@app.command()
def cycles_holdout(
    archs: Annotated[str, typer.Option(help="Only these of the holdout's archs, with commas between them.")] = "",
    whole: Annotated[bool, typer.Option(help="Also forwards of the tiny pipeline, not only layers.")] = True,
    picture: Annotated[Path | None, typer.Option("--plot", help="Write the correlation of all layers as PNG.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the table as JSON.")] = None,
) -> None:
    """Does the timing model take the RTL's cycles on an arch and programs that no rule of it was found on? Minutes.

    \b
    Examples:
      dpubench cycles-holdout --no-whole
      dpubench cycles-holdout -o results/rtl/holdout.json --plot results/rtl/correlation.png
    """
    from .. import holdout as found

    check_output(output)
    check_output(picture)
    names = [a.strip() for a in archs.split(",") if a.strip()] or list(found.archs())
    rows, points = found.measure(names, whole, lambda line: typer.echo(line, err=True))
    command = "dpubench cycles-holdout" + (f" --archs {archs}" if archs else "") + (f" -o {output}" if output else "")
    shapes = tuple(a for n, a in found.archs().items() if n in names)
    table = found.Holdout(command=command, seed=found.SEED, archs=shapes, rows=rows)
    if output is not None:
        table.save(output)
    if picture is not None:
        found.plot(points, picture)
    typer.echo(table.text())
    raise typer.Exit(0 if table.agrees else 1)


@app.command()
def gpu(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of points: each is kept, none done twice.")],
    points: Annotated[str, typer.Option(help="Points, with commas between them, NAME* for many, or all.")] = "all",
    budget_seconds: Annotated[float, typer.Option(min=1, help="Begin no point that would take longer.")] = 3600,
    window_seconds: Annotated[float, typer.Option(min=1, help="Work that an energy is taken over.")] = 60,
    again: Annotated[bool, typer.Option("--again", help="Measure points that are there already.")] = False,
    merge: Annotated[Path | None, typer.Option(help="Only write this file and README.md beside it.")] = None,
    peer: Annotated[str, typer.Option(help="Of configs/gpu: prices, and MLPerf's rate.")] = "h200",
    report: Annotated[Path | None, typer.Option(help="With --merge: a DPU's report, drawn into the roofline.")] = None,
    price_per_hour: Annotated[float, typer.Option(min=0, help="USD of the GPU; 0: the peer's on demand.")] = 0.0,
    note: Annotated[str, typer.Option(help="With --merge: what else the machine did meanwhile.")] = "",
) -> None:
    """How fast does this GPU make the images, at what energy and price? Minutes a point; exit code 1 if one fails.

    \b
    Examples:
      dpubench gpu -o out/gpu --points idle,step-torch,images-20 --budget-seconds 500
      dpubench gpu -o out/gpu --merge results/gpu/h200.json --price-per-hour 7.912
    """
    from ...simulator.economics.inputs import accelerator
    from ..gpu import merge as join
    from ..gpu import run
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
    check_output(output, folder=True)
    command = f"dpubench gpu --points {points} --window-seconds {window_seconds:g}"
    say = lambda line: typer.echo(line, err=True)  # noqa: E731
    done, failed = run(output, points, budget_seconds, window_seconds, command, say, again)
    typer.echo(f"{done} points measured, {failed} failed; dpubench gpu -o {output} --merge FILE writes the tables")
    raise typer.Exit(1 if failed else 0)


@app.command()
def profile(
    resolution: Annotated[int, typer.Option(help="Side of the image in pixels.")] = 1024,
    steps: Annotated[int, typer.Option(help="Denoising steps.")] = 20,
    guidance: Annotated[float, typer.Option(help="Guidance scale; 1 or less turns guidance off.")] = 8.0,
    layers: Annotated[bool, typer.Option("--layers", help="Also every product in the JSON.")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the counts as JSON.")] = None,
) -> None:
    """What does one image ask for, in operations, multiply-accumulates and bytes, by part and class?

    \b
    Examples:
      dpubench profile --resolution 1024 --steps 20 --output results/sdxl.json
      dpubench profile --steps 50 --guidance 1
    """
    from ..profile import profile as count

    check_output(output)
    found = count(resolution, steps, guidance, layers)
    if output is not None:
        found.save(output)
    typer.echo(found.text())


def main() -> None:
    """The entry point of the package."""
    run_app(app, "dpubench")
