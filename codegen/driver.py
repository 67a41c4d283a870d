"""From an exported model to a `.dpu`: import, graph passes, quantisation, tile programs, words, container."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from ..errors import DpuError
from ..files import sha256
from ..frontend.host_files import host_files, vae_config
from ..frontend.importer import import_onnx
from ..frontend.onnx_load import Weights, weights_digest
from ..frontend.onnx_load import read as read_onnx
from ..frontend.part_shapes import part_shapes
from ..frontend.pipeline_folder import read_json
from ..frontend.weights import WeightStore
from ..ir.arch import Arch, load_arch
from ..ir.container import HostSegment, Program
from ..ir.dialects import print_module
from ..ir.signature import argument_names, result_names
from ..ir.tile_program import TileProgram, uncollected
from ..ir.tile_text import to_text
from ..passes.calibration import Calibration, load_calibration
from ..passes.collectors import ABSMAX, Collected, Collector
from ..passes.derived import DERIVED, Derived, Statistics, fetcher
from ..passes.host_segments import segments
from ..passes.lower.constants import ConstantPool, Fetch
from ..passes.lower.program import LoweredEntry, lower_module
from ..passes.overlap_prologues import overlap
from ..passes.pipeline import FLOAT_PIPELINE, PassRecord, run_passes, write_summary
from ..passes.plan_scratchpad import plan
from ..passes.policy import Choices, Policy, kept_lines, named_policy
from ..passes.quantise import quantise
from ..passes.smooth import SmoothQuant
from ..passes.stage import Stage
from ..passes.weave_attention import weave
from .emit import Assembler, Emitted, HostInputs, Lowered
from .precisions import GRAPHS
from .verify.verify import verify_program

Shapes = Mapping[str, tuple[int, ...]]
Say = Callable[[str], None]
"""Takes a line about what happens next."""
MAX_BATCH = 64  # diffusers' upsampling takes another branch from here on

UNCALIBRATED = "every maximum is taken as 1; words and timing are real, images are not"
"""What a program without calibration says of itself."""

PARTS = ("text_encoder", "text_encoder_2", "vae_decoder")
"""Parts of a pipeline beside the UNet that have programs."""

PIPELINE_SEGMENTS = (
    HostSegment(name="tokenizer", why="text to token ids"),
    HostSegment(name="scheduler step", why="a few operations on the latent, in float32"),
    HostSegment(name="guidance combination", why="a few operations on the latent, in float32"),
    HostSegment(name="image conversion", why="float to 8-bit pixels"),
)
"""What the host does around the programs of a pipeline, beside the segments cut out of its graphs."""


@dataclass
class Compiled:
    """A compiled model and everything that made it, for tools that look closer."""

    emitted: Emitted
    fetch: Fetch
    records: list[PassRecord]
    path: Path | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def program(self) -> Program:
        """The program with its constants in memory, or mapped if it was written."""
        return self.emitted.program

    def summary(self) -> str:
        """What was compiled, in a few lines."""
        p = self.emitted.bare
        lines = [f"{'entry':<14} {'ops':>5} {'GMAC':>9} {'words a tile':>14}"]
        for e in p.entries:
            gmacs = sum(s.macs for s in e.sources) / 1e9
            longest = max(len(w) for w in p.words[e.name])
            lines.append(f"{e.name:<14} {len(e.sources) - 1:>5} {gmacs:>9.3f} {longest:>14}")
        sizes = ", ".join(
            f"{k} {v / 2**20:.2f} MiB" for k, v in zip(("const", "work", "state", "io"), _sizes(p), strict=True)
        )
        lines.append(f"memory         {sizes}")
        for s in p.host_segments:
            lines.append(f"on the host    {s.name}: {s.why}")
        lines += [f"note           {n}" for n in self.notes]
        if self.path is not None:
            lines.append(f"wrote {self.path} ({self.path.stat().st_size / 1e6:.1f} MB) for {p.arch.name}")
        return "\n".join(lines)


def _sizes(p: Program) -> list[int]:
    return [p.base_bytes.get(i, 0) for i in range(4)]


def graph_of(
    onnx: Path,
    part: str,
    shapes: Shapes,
    absent: bool = False,
    dump_dir: Path | None = None,
    checkpoint: Path | None = None,
) -> tuple[ModuleOp, WeightStore, list[PassRecord]]:
    """The canonical float functions of one ONNX file; `checkpoint` holds other weights for it.

    Raises:
        DpuError: the file or its weights cannot be read, or an operator is unknown.
    """
    weights: Weights = "absent" if absent else "required"
    module, store = import_onnx(onnx, shapes=dict(shapes), part=part, weights=weights, checkpoint=checkpoint)
    records = run_passes(module, FLOAT_PIPELINE, dump_dir=dump_dir)
    return module, store, records


def _silent(_: str) -> None:
    pass


@dataclass
class Front:
    """One model lowered and scheduled, before words: what `assemble` and the container need of it."""

    part: str
    lowered: Lowered
    text: str  # the quantised graph
    fetch: Fetch
    host: HostInputs
    segments: list[dict[str, str | int]]
    tables: dict[str, npt.NDArray[Any]]
    records: list[PassRecord]


def lower_onnx(
    onnx: Path,
    part: str,
    arch: Arch,
    shapes: Shapes,
    statistics: Statistics | None,
    dump_dir: Path | None = None,
    checkpoint: Path | None = None,
    absent: bool = False,
    say: Say = _silent,
    choices: Choices | None = None,
    smoothing: SmoothQuant | None = None,
) -> Front:
    """Lower one ONNX file. Every pass is dumped, numbered, into `dump_dir` if there is one.

    With `absent` no weight is read and none needs to be there: what comes out can be timed and proved, not run.
    `smoothing`, where there is one, changes `statistics` as it changes the graph.

    Raises:
        DpuError: see `graph_of`, `quantise`, `lower_module`.
    """
    say(f"{part}: graph passes")
    module, store, records = graph_of(onnx, part, shapes, absent, dump_dir, checkpoint)
    host = _host_layouts(module)
    cut = segments(module)
    named = [str(s[k]) for s in cut for k in ("table", "position") if k in s]
    tables = {} if absent else {name: store.get(name) for name in named}
    derived: Derived = {}
    fetch = fetcher(store.get, derived)

    def run(passes: Sequence[Any]) -> None:
        records.extend(run_passes(module, passes, dump_dir=dump_dir, first=len(records) + 1))

    if smoothing is not None:
        say(f"{part}: smoothing")
        run([Stage("smooth", lambda m: smoothing.apply(m, derived, fetch, part))])
    run([Stage("quantise", lambda m: quantise(m, arch, statistics, derived, part, choices))])
    text = print_module(module, locations=True)
    say(f"{part}: tile programs")
    lowered: list[tuple[LoweredEntry, ConstantPool]] = []

    def stage(name: str, work: Callable[[], None]) -> Stage:
        """A step on the tile programs; they are printed only where somebody wants to see them."""

        def apply(m: ModuleOp) -> None:
            work()
            if dump_dir is not None:
                for op in list(m.ops):
                    op.detach()
                m.body.block.add_ops([to_text(e.program, e.locations) for e, _ in lowered])

        return Stage(name, apply)

    def each(change: Callable[[TileProgram], None]) -> Callable[[], None]:
        def work() -> None:
            for e, _ in lowered:
                change(e.program)

        return work

    run(
        [
            stage("lower-to-tile", lambda: lowered.extend(lower_module(module, arch, fetch, part))),
            stage("overlap-prologues", each(overlap)),
            stage("weave-attention", each(lambda p: weave(p, arch))),
            stage("plan-scratchpad", each(lambda p: plan(p, arch))),
        ]
    )
    if dump_dir is not None:
        write_summary(records, dump_dir)
    return Front(part, lowered, text, fetch, host, cut, tables, records)


def _join(models: Iterable[Front], arch: Arch, constants: bool = True, say: Say = _silent) -> Compiled:
    """One program of several models, lowered one after the other."""
    assembler, fronts = Assembler(arch), []
    for f in models:
        say(f"{f.part}: words and semaphores")
        host = {f"{entry.name}/{name}": layout for entry, _ in f.lowered for name, layout in f.host.items()}
        assembler.add(f.lowered, host)
        fronts.append(f)
    emitted = assembler.finish(constants)
    program = emitted.bare
    say("proof of bounds, order and values")
    verify_program(program)
    program.host_segments = [_segment(f.part, s) for f in fronts for s in f.segments]
    program.info["segments"] = {f.part: f.segments for f in fronts if f.segments}
    for f in fronts:
        program.tables[f"{GRAPHS}{f.part}"] = np.frombuffer(f.text.encode(), np.uint8)
        for source, array in f.tables.items():
            program.tables[f"embedding/{source}"] = array
    fetchers = {f.part: f.fetch for f in fronts}

    def fetch(source: str, transform: tuple[str, ...]) -> npt.NDArray[Any]:
        return fetchers[source.removeprefix(DERIVED).partition("::")[0]](source, transform)

    first = fronts[0]
    return Compiled(emitted, first.fetch if len(fronts) == 1 else fetch, [r for f in fronts for r in f.records])


def compile_onnx(
    onnx: Path,
    part: str,
    arch: Arch,
    shapes: Shapes,
    statistics: Statistics | None,
    dump_dir: Path | None = None,
    checkpoint: Path | None = None,
    absent: bool = False,
) -> Compiled:
    """Compile one ONNX file into a program of its own; with `absent` one without weights, see `lower_onnx`.

    Raises:
        DpuError: see `lower_onnx`, `assemble`.
    """
    front = lower_onnx(onnx, part, arch, shapes, statistics, dump_dir, checkpoint, absent)
    compiled = _join([front], arch, constants=not absent)
    compiled.emitted.bare.info.update({"part": part, "precision": "w8a8", "model_sha256": sha256(onnx)})
    return compiled


@uncollected()
def compile_folder(
    model: Path,
    *,
    arch: str | Arch,
    precision: str | Policy = "w8a8",
    calibration: Path | None = None,
    size: tuple[int, int] = (0, 0),
    batch: int = 2,
    shapes: Shapes | None = None,
    out: Path | None = None,
    dump_dir: Path | None = None,
    parts: Sequence[str] = PARTS,
    checkpoint: Path | None = None,
    uncalibrated: bool = False,
    progress: Say | None = None,
    gptq: bool = False,
    collector: Collector = ABSMAX,
    smooth: bool = False,
) -> Compiled:
    """Compile an exported pipeline folder, or one ONNX file of a UNet.

    `precision` is the name of a shipped policy, or a policy. `size` is (height, width) in pixels, zero for the folder's
    own; `shapes` fixes open dimensions of a single file.
    `parts` of a folder are compiled beside the UNet; the others go along for the host. `checkpoint` is a safetensors
    file with other weights for the UNet (`frontend/checkpoint.py`). `uncalibrated` programs take every maximum as one:
    their words and their timing are those of a calibrated one, their images are not. `progress` is called with a line
    of text before each stage. `gptq` compensates the errors of int4 weights, by a calibration with gram matrices.
    `collector` says what static scales cover (`passes/collectors.py`), `smooth` moves factors of channels from inputs
    of linears into their weights (`passes/smooth.py`); both need a calibration.

    Raises:
        DpuError: no calibration, one of another model, a rule of the policy without effect, or anything the stages
            refuse.
    """
    policy = named_policy(precision) if isinstance(precision, str) else precision
    choices = Choices(policy, gptq)
    if not 1 <= batch < MAX_BATCH:
        what = f"{batch} is not between 1 and {MAX_BATCH - 1}"
        raise DpuError("--batch", what, hint="2 is one image with guidance", code="E501")
    target = load_arch(arch) if isinstance(arch, str) else arch
    folder = model.is_dir()
    onnx = model / "unet" / "model.onnx" if folder else model
    if not onnx.is_file():
        raise DpuError(
            str(onnx),
            "no such file",
            hint="export first: dpuc export tiny-seeded -o DIR, then dpuc compile DIR",
            code="E106",
        )
    wanted = dict(shapes or {})
    latent = latent_size(model, size) if folder else (0, 0)
    if folder:
        wanted.setdefault("sample", (batch, 4, *latent))
    statistics = None if uncalibrated and calibration is None else _statistics(calibration, onnx)
    if gptq and (statistics is None or not statistics.grams):
        raise DpuError(
            str(calibration) if calibration is not None else "--gptq",
            "no gram matrices",
            why="--gptq compensates errors by them",
            hint="dpuc calibrate DIR --grams -o calib.safetensors",
            code="E240",
        )
    if statistics is None and (smooth or collector != ABSMAX):
        option = "--smooth" if smooth else f"--collector {collector.text}"
        hint = "leave out one of the two, or give --calibration"
        raise DpuError(option, "an uncalibrated program has no statistics", hint=hint, code="E501")
    seen = Collected(statistics, collector) if statistics is not None else None
    smoothing = SmoothQuant(seen, choices) if smooth and seen is not None else None
    say = progress or _silent
    dumps = dump_dir / "unet" if dump_dir is not None and folder else dump_dir

    def models() -> Iterator[Front]:
        same: dict[str, Any] = {"say": say, "choices": choices, "smoothing": smoothing}
        yield lower_onnx(onnx, "unet", target, wanted, seen, dumps, checkpoint, **same)
        for part in parts if folder else ():
            file = model / part / "model.onnx"
            own = dump_dir / part if dump_dir is not None else None
            yield lower_onnx(file, part, target, part_shapes(file, latent), seen, own, **same)

    compiled = _join(models(), target, say=say)
    choices.check()
    program = compiled.emitted.bare
    program.info.update(
        {"part": "pipeline" if folder else "unet", "precision": policy.name, "model_sha256": sha256(onnx)}
    )
    if policy != named_policy("w8a8"):
        program.info["policy"] = {"digest": policy.digest, "text": policy.text, **({"int4": "gptq"} if gptq else {})}
    if collector != ABSMAX:
        program.info["collector"] = collector.text
        compiled.notes.append(f"collector: {collector.text}: larger values of static inputs saturate")
    if smoothing is not None:
        program.info["smooth"] = smoothing.info()
        compiled.notes.append(smoothing.line())
    if choices.kept:
        program.info["kept"] = [asdict(k) for k in choices.kept]
        compiled.notes += [f"kept: {line}" for line in kept_lines(choices.kept)]
    if folder:
        program.files = host_files(model, parts)
        on_host = tuple(HostSegment(name=p, why="not compiled; runs in ONNX Runtime") for p in PARTS if p not in parts)
        program.host_segments = [*PIPELINE_SEGMENTS[:1], *program.host_segments, *on_host, *PIPELINE_SEGMENTS[1:]]
    program.info["calibration"] = dict(statistics.info) if statistics is not None else {"none": UNCALIBRATED}
    if statistics is None:
        compiled.notes.append(f"not calibrated: {UNCALIBRATED}")
    if checkpoint is not None:
        program.info["checkpoint_sha256"] = sha256(checkpoint)
    made = statistics.info.get("size", "") if statistics is not None else ""
    if folder and made:
        scale = 2 ** (len(_config(model, "vae", "block_out_channels")) - 1)
        size_here = f"{latent[0] * scale}x{latent[1] * scale}"
        if made != size_here:
            compiled.notes.append(f"calibrated at {made} pixels (height x width), compiled for {size_here}")
    if out is not None:
        compiled.emitted.save(out, _each_gigabyte(say))
        compiled.path = out
    return compiled


def _each_gigabyte(say: Say) -> Callable[[int, int], None]:
    """Says how much of the constants is written, once each GB."""
    said = 0

    def written(done: int, total: int) -> None:
        nonlocal said
        if done // 10**9 > said:
            said = done // 10**9
            say(f"weights: {done / 1e9:.1f} of {total / 1e9:.1f} GB written")

    return written


def latent_size(folder: Path, size: tuple[int, int]) -> tuple[int, int]:
    """(height, width) of the latent for an image size, by the VAE's configuration.

    Raises:
        DpuError: the size is no multiple of what the VAE and the UNet need, or a configuration cannot be read.
    """
    scale = 2 ** (len(_config(folder, "vae", "block_out_channels")) - 1)
    if size == (0, 0):
        side = int(_config(folder, "unet", "sample_size"))
        return side, side
    # The UNet halves the latent once a block but the last, and returns to the same size.
    multiple = scale * 2 ** (len(_config(folder, "unet", "block_out_channels")) - 1)
    if size[0] % multiple or size[1] % multiple:
        raise DpuError(
            f"--size {size[1]}x{size[0]}",
            f"sides must be multiples of {multiple}",
            why=f"the VAE makes {scale}x{scale} pixels of a latent, the UNet halves those {multiple // scale} to 1",
            hint=f"the nearest is {_nearest(size[1], multiple)}x{_nearest(size[0], multiple)}",
            code="E504",
        )
    return size[0] // scale, size[1] // scale


def _nearest(side: int, multiple: int) -> int:
    return max(1, round(side / multiple)) * multiple


def _config(folder: Path, part: str, key: str) -> Any:
    """One entry of a part's `config.json`."""
    file = vae_config(folder) if part == "vae" else folder / part / "config.json"
    config = read_json(file)
    if key not in config:
        raise DpuError(str(file), f"has no '{key}'", hint="export the pipeline again", code="E110")
    return config[key]


def _statistics(calibration: Path | None, onnx: Path) -> Calibration:
    if calibration is None:
        read_onnx(onnx)  # a damaged model is the first thing to say
        raise DpuError(
            str(onnx),
            "no calibration",
            why="convolutions, keys and values have static scales",
            hint="dpuc calibrate DIR -o calib.safetensors, then pass --calibration calib.safetensors",
            code="E243",
        )
    statistics = load_calibration(calibration)
    check_calibration(statistics, onnx)
    return statistics


def check_calibration(statistics: Calibration, onnx: Path) -> None:
    """Refuse statistics of another model than `onnx`, or of the same graph with other weights.

    Raises:
        DpuError: they are; or the model cannot be read.
    """
    info = statistics.info
    digests = {"model": sha256(onnx)} if "model" in info else {}
    if info.get("model") == digests.get("model") and "weights" in info:
        digests["weights"] = weights_digest(onnx)
    for what, found in digests.items():
        if info[what] != found:
            read_onnx(onnx)  # a damaged model is no other model
            have = "the weights of " if what == "weights" else ""
            raise DpuError(
                statistics.where,
                f"made for {'weights' if have else 'a model'} with sha256 {info[what][:12]}, "
                f"{have}{onnx} {'have' if have else 'has'} {found[:12]}",
                hint="calibrate this model: dpuc calibrate DIR -o calib.safetensors",
                code="E244",
            )


def _segment(part: str, s: Mapping[str, str | int]) -> HostSegment:
    kind = str(s.get("kind", ""))
    why = {
        "sinusoid": "sine and cosine of a few scalars, in float32",
        "embedding": "a table look-up by token id",
        "pick": "the row of the end-of-text token",
    }.get(kind, "not an operation of the DPU")
    names = [str(s[k]) for k in ("output", "input") if k in s]
    return HostSegment(name=" ".join([kind, *names[:1], "of", part]), why=why)


def _host_layouts(module: ModuleOp) -> HostInputs:
    """Layout and spatial size of the host's tensors, from the attributes that canonicalise left."""
    found: dict[str, tuple[str, int, int]] = {}
    for f in module.ops:
        if not isinstance(f, FuncOp):
            continue
        named = list(zip(argument_names(f), f.arg_attrs.data if f.arg_attrs else (), strict=False))
        named += zip(result_names(f), f.res_attrs.data if f.res_attrs else (), strict=False)
        for name, attrs in named:
            found[name] = _layout(attrs)
    return found


def _layout(attrs: DictionaryAttr) -> tuple[str, int, int]:
    layout, shape = attrs.data.get("dpu.layout"), attrs.data.get("dpu.shape")
    if isinstance(layout, StringAttr) and layout.data == "NCHW" and isinstance(shape, DenseArrayBase):
        _, _, h, w = (int(x) for x in shape.get_values())
        return "NCHW", h, w
    return "BTC", 0, 0
