"""SDXL pipelines -> folders of ONNX files: the tiny seeded one, SDXL base by its configs, or a local folder.

One flow serves all three. A component's weights are written once, as safetensors (seeded tensor by tensor, linked, or
converted), and its graph is traced from the config and points into that file.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from ..errors import DpuError
from .clip_vocabulary import clip_tokenizer, find_vocabulary
from .export import PARTS, ExportSpec, Precision, export_part, meta_module
from .pipeline_folder import (
    COMPONENTS,
    FORMAT,
    MANIFEST,
    RECORD,
    WEIGHT_STEMS,
    check_diffusers_folder,
    read_json,
    record_of,
    unit,
    write_json,
)
from .seeded import realistic_tensor, seeded_tensor
from .weight_files import WeightRef, find_weights, link_or_copy, read_header, write_weights

TINY = "tiny-seeded"
SDXL_CONFIGS = Path(__file__).parent.parent / "configs" / "workload" / "sdxl_base"
Progress = Callable[[str], None]


@dataclass(frozen=True)
class _Source:
    """Where configs and weights come from: `folder` if there is one, else seeded, or no weights at all."""

    configs: Mapping[str, Mapping[str, Any]]
    scheduler: Mapping[str, Any]
    seed: int = 0
    folder: Path | None = None
    weights: bool = True
    label: str = field(default="")
    realistic: bool = False

    def key(self, component: str) -> dict[str, Any]:
        """What the weights of a component depend on, to recognise a finished unit."""
        key: dict[str, Any] = {"source": self.label, "weights": self.weights, "config": self.configs[component]}
        if self.folder is None:
            return {**key, "seed": self.seed, **({"realistic": True} if self.realistic else {})}
        files = sorted((self.folder / component).glob("*.safetensors"))
        return {**key, "files": [[f.name, f.stat().st_size, f.stat().st_mtime_ns] for f in files]}


def export_tiny(
    out: Path,
    *,
    seed: int = 0,
    size: int = 128,
    opset: int = 23,
    precision: Precision = "fp16",
    symbolic: bool = True,
    realistic: bool = False,
    parts: Sequence[str] = PARTS,
    progress: Progress | None = None,
) -> None:
    """Export the tiny seeded pipeline of `tiny.build_tiny` to `out`.

    Args:
        out: the folder to write; parts that an earlier run finished with the same arguments are kept.
        seed: of the weights.
        size: image side in pixels; only an example where `symbolic` leaves the sizes open.
        opset: 18 to 24.
        precision: type of weights, activations and most inputs.
        symbolic: leave batch, height and width open.
        realistic: with the outliers of trained weights (`seeded.py`).
        parts: which ONNX files to write.
        progress: called with a line of text before each step.

    Raises:
        DpuError: an argument is out of range or `out` cannot be written.
    """
    from .tiny import SCHEDULER, tiny_configs

    source = _Source(tiny_configs(), SCHEDULER, seed, label=TINY, realistic=realistic)
    spec = _spec(size, opset, precision, symbolic)
    _export(out, source, spec, parts, progress)


def export_sdxl(
    out: Path,
    *,
    source: Path | None = None,
    graph_only: bool = False,
    seed: int = 0,
    size: int = 1024,
    opset: int = 23,
    precision: Precision = "fp16",
    symbolic: bool = False,
    realistic: bool = False,
    parts: Sequence[str] = PARTS,
    progress: Progress | None = None,
) -> None:
    """Export a full-size SDXL pipeline to `out`: SDXL base by its published configs, or any local diffusers folder.

    Args:
        out: the folder to write; parts that an earlier run finished with the same arguments are kept.
        source: a diffusers SDXL folder; without it, the published configs of SDXL base 1.0 with seeded weights.
        graph_only: write graphs whose weights are absent, and nothing else; needs no memory for weights.
        realistic: seeded weights with the outliers of trained ones (`seeded.py`).
        seed, size, opset, precision, symbolic, parts, progress: as in `export_tiny`.

    Raises:
        DpuError: `source` is no diffusers SDXL folder (the missing file is named), or an argument is out of range.
    """
    if source is not None:
        check_diffusers_folder(source)
        configs = {c: read_json(source / c / "config.json") for c in COMPONENTS}
        scheduler = read_json(source / "scheduler" / "scheduler_config.json")
        label = str(source.resolve())
    else:
        configs = {c: read_json(SDXL_CONFIGS / f"{c}.json") for c in COMPONENTS}
        scheduler = read_json(SDXL_CONFIGS / "scheduler.json")
        label = "sdxl-configs"
    spec = _spec(size, opset, precision, symbolic)
    made = _Source(configs, scheduler, seed, source, not graph_only, label, realistic)
    _export(out, made, spec, parts, progress)


def write_workload_graphs(folder: Path = SDXL_CONFIGS, parts: Sequence[str] = PARTS) -> None:
    """Write the weightless graphs of SDXL base at 1024x1024 (batch 2, VAE decoder 1) that `configs/` keeps."""
    spec = ExportSpec(opset=23, precision="fp16", batch=2, latent=(128, 128), symbolic=False)
    for part in parts:
        config = read_json(SDXL_CONFIGS / f"{'vae' if part == 'vae_decoder' else part}.json")
        export_part(part, config, folder / f"{part}.onnx", spec, None)


def versions() -> dict[str, str]:
    """The packages that decide what an exported graph looks like."""
    found = {}
    for name in ("dpu", "torch", "diffusers", "transformers", "onnx-ir", "onnxscript"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _spec(size: int, opset: int, precision: Precision, symbolic: bool) -> ExportSpec:
    if size < 32 or size % 32:
        raise DpuError(
            "--size",
            f"an image size of {size} pixels",
            why="the VAE and the UNet together halve each side five times",
            hint="choose a multiple of 32, such as 64, 128 or 1024",
            code="E501",
        )
    return ExportSpec(opset, precision, latent=(size // 8, size // 8), symbolic=symbolic)


def _export(out: Path, source: _Source, spec: ExportSpec, parts: Sequence[str], progress: Progress | None) -> None:
    say = progress or (lambda _: None)
    for part in parts:
        if part not in PARTS:
            raise DpuError("export", f"no part '{part}'", hint=f"choose from {', '.join(PARTS)}", code="E501")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise DpuError(str(out), f"cannot make this folder ({e.strerror})", code="E101") from e
    # Without weights the VAE's folder holds its configuration, which says what size of latent an image has.
    needed = {*parts, *(["vae"] if "vae_decoder" in parts else [])}
    components = COMPONENTS if source.weights else tuple(c for c in COMPONENTS if c in needed)
    if source.weights:
        _write_tables(out, source, say)
    entries: dict[str, Any] = {}
    for name in (*components, *(p for p in ("vae_decoder",) if p in parts)):
        component = "vae" if name == "vae_decoder" else name
        key = {**source.key(component), "versions": versions(), "precision": spec.precision}
        own = _own(spec, name)
        if name in parts:
            key["export"] = asdict(own)
        record = record_of(out / name, key)
        if record is None:
            what = "exporting" if name in parts else "writing weights" if source.weights else "writing its config"
            say(f"{name}: {what}")
            _write_unit(out, name, component, key, source, own, name in parts, say)
            record = read_json(out / name / RECORD)
        else:
            say(f"{name}: kept")
        entries[name] = {
            "onnx": f"{name}/model.onnx" if name in parts else None,
            **{k: v for k, v in record.items() if k not in ("key", "files")},
            "files": {f"{name}/{file}": digest for file, digest in record["files"].items()},
        }
    manifest = {
        "format": FORMAT,
        "source": source.label if source.folder is None else "local diffusers folder",
        "seed": None if source.folder or not source.weights else source.seed,
        **asdict(spec),
        "weights": "safetensors" if source.weights else "absent",
        "exporter": versions(),
        "parts": entries,
    }
    write_json(out / MANIFEST, manifest)


def _own(spec: ExportSpec, part: str) -> ExportSpec:
    """The spec of one part. A text encoder's batch is always open: prompts are encoded one by one, or as a pair."""
    return replace(spec, symbolic=True) if part in ("text_encoder", "text_encoder_2") else spec


def _write_unit(
    out: Path,
    name: str,
    component: str,
    key: Mapping[str, Any],
    source: _Source,
    spec: ExportSpec,
    traced: bool,
    say: Progress,
) -> None:
    info: dict[str, Any] = {}
    with unit(out / name, key, info) as made:
        folder = made.folder
        refs: Mapping[str, WeightRef] | None = None
        file = f"{WEIGHT_STEMS[component]}.safetensors"
        module = meta_module(component, source.configs[component])
        if name == component:
            _write_config(folder, module)
            weights = {k: v for k, v in key.items() if k != "export"}  # what they depend on
            if source.weights and made.is_whole(file, weights):
                say(f"{component}: weights kept")
                refs = read_header(folder / file)
            elif source.weights:
                refs = _write_component(folder / file, component, module, source, spec, say)
                made.whole(file, weights)
        elif source.weights:  # vae_decoder: its graph must have the weights in its own folder
            link_or_copy(out / component / file, folder / file)
            refs = read_header(folder / file)
        if traced:
            say(f"{name}: tracing")
            config = _config(module)
            model = export_part(name, config, folder / "model.onnx", spec, refs)
            info["nodes"] = model.graph.num_nodes()
            for label, values in (("inputs", model.graph.inputs), ("outputs", model.graph.outputs)):
                info[label] = {str(v.name): {"shape": _dims(v.shape), "dtype": str(v.dtype)} for v in values}


def _write_component(
    path: Path, component: str, module: torch.nn.Module, source: _Source, spec: ExportSpec, say: Progress
) -> dict[str, WeightRef]:
    shapes = {name: tuple(t.shape) for name, t in module.state_dict().items()}
    watch = _Watch(component, say)
    if source.folder is None:
        make = realistic_tensor if source.realistic else seeded_tensor
        return write_weights(
            path, shapes, spec.dtype, lambda n: make(source.seed, component, _plain(n), shapes[n]), watch.written
        )
    refs = find_weights(source.folder / component, WEIGHT_STEMS[component], spec.precision == "fp16")
    files = {r.file for r in refs.values()}
    if len(files) == 1 and all(r.dtype == spec.dtype for r in refs.values()):
        link_or_copy(files.pop(), path)
        return read_header(path)
    floats = {n: r for n, r in refs.items() if r.dtype.is_floating_point}
    shapes = {n: r.shape for n, r in floats.items()}
    return write_weights(path, shapes, spec.dtype, lambda n: floats[n].load(), watch.written)


class _Watch:
    """Says how far the weights of a component are, once for each tenth of a large file."""

    def __init__(self, component: str, say: Progress) -> None:
        self.component, self.say, self.tenths = component, say, 0

    def written(self, done: int, total: int) -> None:
        tenths = 10 * done // total
        if tenths > self.tenths and total > 1 << 30:
            self.tenths = tenths
            self.say(f"{self.component}: {done / 1e9:.1f} of {total / 1e9:.1f} GB of weights")


def _plain(name: str) -> str:
    return name.removeprefix("text_model.")


def _config(module: torch.nn.Module) -> dict[str, Any]:
    config: Any = module.config
    return dict(config.to_dict() if hasattr(config, "to_dict") else config)


def _write_config(folder: Path, module: Any) -> None:
    if hasattr(module, "save_config"):
        module.save_config(folder)
    else:
        module.config.save_pretrained(folder)


def _write_tables(out: Path, source: _Source, say: Progress) -> None:
    """Everything of the pipeline that has no weights: index, scheduler, tokenizers."""
    if source.folder is not None:
        for name in ("scheduler", "tokenizer", "tokenizer_2"):
            if (source.folder / name).is_dir():
                shutil.copytree(source.folder / name, out / name, dirs_exist_ok=True)
        write_json(out / "model_index.json", read_json(source.folder / "model_index.json"))
        return
    import diffusers

    from .tiny import build_tokenizer

    untyped: Any = diffusers
    untyped.EulerDiscreteScheduler.from_config(dict(source.scheduler)).save_config(out / "scheduler")
    vocabulary = find_vocabulary() if source.label != TINY else None
    if vocabulary is not None:
        say(f"tokenizer: CLIP's vocabulary of {vocabulary.parent.name}")
    elif source.label != TINY:
        say("tokenizer: a small one of ours; for CLIP's: pip install --no-deps open_clip_torch, then export again")
    for name in ("tokenizer", "tokenizer_2"):
        (build_tokenizer() if vocabulary is None else clip_tokenizer(vocabulary)).save_pretrained(out / name)
    index: dict[str, Any] = {
        "_class_name": "StableDiffusionXLPipeline",
        "_diffusers_version": diffusers.__version__,
        "force_zeros_for_empty_prompt": True,
        "feature_extractor": [None, None],
        "image_encoder": [None, None],
        "scheduler": ["diffusers", "EulerDiscreteScheduler"],
        "text_encoder": ["transformers", "CLIPTextModel"],
        "text_encoder_2": ["transformers", "CLIPTextModelWithProjection"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "tokenizer_2": ["transformers", "CLIPTokenizer"],
        "unet": ["diffusers", "UNet2DConditionModel"],
        "vae": ["diffusers", "AutoencoderKL"],
    }
    write_json(out / "model_index.json", index)


def _dims(shape: Any) -> list[int | str]:
    return [] if shape is None else [d if isinstance(d, int) else str(d.value) for d in shape]
