"""From an exported model to a `.dpu`: import, graph passes, quantisation, tile programs, words, container."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from ..errors import DpuError
from ..files import sha256
from ..frontend.host_files import host_files
from ..frontend.importer import import_onnx
from ..frontend.weights import WeightStore
from ..ir.arch import Arch, load_arch
from ..ir.container import HostSegment, Program
from ..ir.dialects import print_module
from ..ir.signature import argument_names, result_names
from ..passes.calibration import Calibration, load_calibration
from ..passes.host_segments import segments
from ..passes.lower.program import lower_module
from ..passes.overlap_prologues import OverlapPrologues
from ..passes.pipeline import FLOAT_PIPELINE, PassRecord, run_passes, write_summary
from ..passes.plan_scratchpad import plan_module
from ..passes.quantise import Derived, Statistics, fetcher, quantise
from ..passes.stage import Stage
from .dpufile import save
from .emit import Emitted, HostInputs, assemble

Shapes = Mapping[str, tuple[int, ...]]
PRECISIONS = ("w8a8",)

PIPELINE_SEGMENTS = (
    HostSegment(name="tokenizer", why="text to token ids"),
    HostSegment(name="text_encoder", why="runs in ONNX Runtime; the DPU does not mask attention yet"),
    HostSegment(name="text_encoder_2", why="runs in ONNX Runtime; the DPU does not mask attention yet"),
    HostSegment(name="scheduler step", why="65k elements in float32"),
    HostSegment(name="guidance combination", why="65k elements in float32"),
    HostSegment(name="vae_decoder", why="runs in ONNX Runtime; not compiled yet"),
    HostSegment(name="image conversion", why="float to 8-bit pixels"),
)
"""What the host does around the UNet of a whole pipeline."""


@dataclass
class Compiled:
    """A compiled model and everything that made it, for tools that look closer."""

    emitted: Emitted
    quantised: ModuleOp  # the quantised functions
    fetch: Callable[[str, tuple[str, ...]], npt.NDArray[Any]]
    records: list[PassRecord]
    path: Path | None = None

    @property
    def program(self) -> Program:
        return self.emitted.program

    def summary(self) -> str:
        """What was compiled, in a few lines."""
        p = self.program
        lines = [f"{'entry':<10} {'ops':>5} {'GMAC':>9} {'words a tile':>14}"]
        for e in p.entries:
            gmacs = sum(s.macs for s in e.sources) / 1e9
            longest = max(len(w) for w in p.words[e.name])
            lines.append(f"{e.name:<10} {len(e.sources) - 1:>5} {gmacs:>9.3f} {longest:>14}")
        sizes = ", ".join(
            f"{k} {v / 2**20:.2f} MiB" for k, v in zip(("const", "work", "state", "io"), _sizes(p), strict=True)
        )
        lines.append(f"memory     {sizes}")
        for s in p.host_segments:
            lines.append(f"on the host: {s.name} ({s.why})")
        if self.path is not None:
            lines.append(f"wrote {self.path} ({self.path.stat().st_size / 1e6:.1f} MB) for {p.arch.name}")
        return "\n".join(lines)


def _sizes(p: Program) -> list[int]:
    return [p.base_bytes.get(i, 0) for i in range(4)]


def graph_of(
    onnx: Path, part: str, shapes: Shapes, absent: bool = False, dump_dir: Path | None = None
) -> tuple[ModuleOp, WeightStore, list[PassRecord]]:
    """The canonical float functions of one ONNX file.

    Raises:
        DpuError: the file or its weights cannot be read, or an operator is unknown.
    """
    module, store = import_onnx(onnx, shapes=dict(shapes), part=part, weights="absent" if absent else "required")
    records = run_passes(module, FLOAT_PIPELINE, dump_dir=dump_dir)
    return module, store, records


def compile_onnx(
    onnx: Path, part: str, arch: Arch, shapes: Shapes, statistics: Statistics, dump_dir: Path | None = None
) -> Compiled:
    """Compile one ONNX file. Every pass is dumped, numbered, into `dump_dir` if there is one.

    Raises:
        DpuError: see `graph_of`, `quantise`, `emit`.
    """
    module, store, records = graph_of(onnx, part, shapes, dump_dir=dump_dir)
    host = _host_layouts(module)
    host_segments = [_segment(s) for s in segments(module)]
    derived: Derived = {}
    fetch = fetcher(store.get, derived)

    def run(passes: Sequence[Any]) -> None:
        records.extend(run_passes(module, passes, dump_dir=dump_dir, first=len(records) + 1))

    run([Stage("quantise", lambda m: quantise(m, arch, statistics, derived))])
    text = print_module(module, locations=True)
    quantised = ModuleOp([f.clone() for f in module.ops if isinstance(f, FuncOp)])
    lowered: list[Any] = []
    run(
        [
            Stage("lower-to-tile", lambda m: lowered.extend(lower_module(m, arch, fetch))),
            OverlapPrologues(),
            Stage("plan-scratchpad", lambda m: plan_module(m, arch)),
        ]
    )
    if dump_dir is not None:
        write_summary(records, dump_dir)
    emitted = assemble(lowered, arch, {}, host)
    program = emitted.program
    program.host_segments = host_segments
    program.tables["quantised_graph"] = np.frombuffer(text.encode(), np.uint8)
    program.info.update({"part": part, "precision": "w8a8", "model_sha256": sha256(onnx)})
    return Compiled(emitted, quantised, fetch, records)


def compile_folder(
    model: Path,
    *,
    arch: str | Arch,
    precision: str = "w8a8",
    calibration: Path | None = None,
    size: tuple[int, int] = (0, 0),
    batch: int = 2,
    shapes: Shapes | None = None,
    out: Path | None = None,
    dump_dir: Path | None = None,
) -> Compiled:
    """Compile an exported pipeline folder (its UNet; the rest goes along for the host) or one ONNX file.

    `size` is (height, width) in pixels, zero for the folder's own; `shapes` fixes open dimensions of a single file.

    Raises:
        DpuError: no calibration, one of another model, or anything the stages refuse.
    """
    if precision not in PRECISIONS:
        raise DpuError(f"--precision {precision}", "not available", hint=f"one of {', '.join(PRECISIONS)}", code="E503")
    target = load_arch(arch) if isinstance(arch, str) else arch
    folder = model.is_dir()
    onnx = model / "unet" / "model.onnx" if folder else model
    if not onnx.is_file():
        raise DpuError(
            str(onnx),
            "no such file",
            hint="export first: dpuc export tiny-seeded -o DIR, then dpuc compile DIR",
            code="E102",
        )
    wanted = dict(shapes or {})
    if folder:
        wanted.setdefault("sample", (batch, 4, *latent_size(model, size)))
    statistics = _statistics(calibration, onnx)
    compiled = compile_onnx(onnx, "unet", target, wanted, statistics, dump_dir)
    program = compiled.program
    if folder:
        program.files = host_files(model)
        program.host_segments = [*PIPELINE_SEGMENTS[:3], *program.host_segments, *PIPELINE_SEGMENTS[3:]]
    program.info["calibration"] = dict(statistics.info)
    if out is not None:
        save(program, out)
        compiled.path = out
    return compiled


def latent_size(folder: Path, size: tuple[int, int]) -> tuple[int, int]:
    """(height, width) of the latent for an image size, by the VAE's configuration.

    Raises:
        DpuError: the size is no multiple of the VAE's scale.
    """
    config = json.loads((folder / "vae" / "config.json").read_text())
    scale = 2 ** (len(config["block_out_channels"]) - 1)
    if size == (0, 0):
        unet = json.loads((folder / "unet" / "config.json").read_text())
        side = int(unet["sample_size"])
        return side, side
    if size[0] % scale or size[1] % scale:
        raise DpuError(f"--size {size[1]}x{size[0]}", f"sides must be multiples of {scale}", code="E504")
    return size[0] // scale, size[1] // scale


def _statistics(calibration: Path | None, onnx: Path) -> Calibration:
    if calibration is None:
        raise DpuError(
            str(onnx),
            "no calibration",
            why="convolutions, keys and values have static scales",
            hint="dpuc calibrate DIR -o calib.safetensors, then pass --calibration calib.safetensors",
            code="E243",
        )
    statistics = load_calibration(calibration)
    digest = sha256(onnx)
    if statistics.info.get("model", digest) != digest:
        raise DpuError(
            str(calibration),
            f"made for a model with sha256 {statistics.info['model'][:12]}, {onnx} has {digest[:12]}",
            hint="calibrate this model: dpuc calibrate DIR -o calib.safetensors",
            code="E244",
        )
    return statistics


def _segment(s: Mapping[str, str | int]) -> HostSegment:
    kind = str(s.get("kind", ""))
    why = {
        "sinusoid": "sine and cosine of a few scalars, in float32",
        "embedding": "a table look-up by token id",
        "pick": "the row of the end-of-text token",
    }.get(kind, "not an operation of the DPU")
    names = [str(s[k]) for k in ("output", "input") if k in s]
    return HostSegment(name=f"{kind} {names[0] if names else ''}".strip(), why=why)


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
