"""What a given folder is: SDXL with trained weights, or something whose pictures say nothing about SDXL's quality.

Seeded weights are recognised by what they hold, not only by what a file says: the UNet of every seeded model carries an
exact identity in its first convolution (`frontend/seeded.py`), which no training leaves behind.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from ...errors import DpuError
from ...files import sha256
from ..rates import Result

SEEDED, UNTRAINED = "seeded weights", "untrained weights"
_SAME: dict[str, tuple[str, ...]] = {
    "unet": (
        "in_channels",
        "block_out_channels",
        "down_block_types",
        "up_block_types",
        "layers_per_block",
        "transformer_layers_per_block",
        "attention_head_dim",
        "cross_attention_dim",
        "projection_class_embeddings_input_dim",
        "sample_size",
    ),
    "vae": ("block_out_channels", "latent_channels", "layers_per_block"),
    "text_encoder": ("hidden_size", "num_hidden_layers", "num_attention_heads"),
    "text_encoder_2": ("hidden_size", "num_hidden_layers", "num_attention_heads"),
}
"""Fields of the configs that make a pipeline SDXL base; one that a config leaves out has the library's default."""


class Given(Result):
    """The model that a user gave. `not_sdxl` are reasons why its pictures are not of SDXL's quality; none: they are."""

    name: str  # `seeded weights`, `untrained weights`, or the digest of trained ones
    model_sha256: str  # over names and contents of all files that decide a picture
    weights_sha256: dict[str, str]  # of the weight files by part; of shards: over their digests
    parameters: dict[str, int]  # by part
    gram_bytes: int  # of a calibration with grams: matrices of the UNet's linears, see `_grams`
    size: int  # pixels, each way
    exported: bool  # by dpuc export: it is used as it is
    not_sdxl: tuple[str, ...]


def look(model: Path) -> Given:
    """What is in a diffusers SDXL folder, or in one that `dpuc export` wrote.

    Raises:
        DpuError: E106, no such folder; E110, another pipeline class; E111, a file is missing; E112, weights that cannot
            be read.
    """
    from ...frontend.pipeline_folder import COMPONENTS, MANIFEST, WEIGHT_STEMS, PipelineFolder, check_diffusers_folder
    from ...frontend.weight_files import find_weights  # loads torch
    from ...runtime.export import own_size

    check_is_folder(model)
    check_diffusers_folder(model)
    check_tokenizers(model)
    exported = (model / MANIFEST).is_file()
    manifest: Mapping[str, Any] = PipelineFolder.load(model).manifest if exported else {}
    refs = {part: find_weights(model / part, WEIGHT_STEMS[part], prefer_fp16=True) for part in COMPONENTS}
    files = {part: sorted({r.file for r in found.values()}) for part, found in refs.items()}
    digests = {part: _together([sha256(f) for f in of_part]) for part, of_part in files.items()}
    why = _origin(manifest, refs["unet"])
    name = why[0] if why else f"weights {_together(list(digests.values()))[:12]}"
    return Given(
        name=name,
        model_sha256=_model_digest(model, digests),
        weights_sha256=digests,
        parameters={part: sum(prod(r.shape) for r in found.values()) for part, found in refs.items()},
        gram_bytes=_grams(refs["unet"]),
        size=own_size(model),
        exported=exported,
        not_sdxl=(*why[1:], *_other_architecture(model)),
    )


def check_is_folder(model: Path) -> None:
    """Refuse what is no folder.

    Raises:
        DpuError: E106.
    """
    if not model.is_dir():
        raise DpuError(
            str(model),
            "is a file, expected a folder" if model.exists() else "no such folder",
            why="the model is a diffusers SDXL folder with model_index.json; nothing is downloaded",
            hint="give what pipeline.save_pretrained(...) wrote; for a rehearsal: dpuc export sdxl -o out/sdxl",
            code="E106",
        )


def check_tokenizers(model: Path) -> None:
    """Refuse a folder whose prompts nothing can read.

    Raises:
        DpuError: E111.
    """
    for name in ("tokenizer", "tokenizer_2"):
        if not (model / name).is_dir():
            raise DpuError(
                str(model / name),
                "missing",
                why="a prompt becomes tokens there",
                hint="give the whole pipeline's folder, as pipeline.save_pretrained(...) writes it",
                code="E111",
            )


def _origin(manifest: Mapping[str, Any], unet: Mapping[str, Any]) -> tuple[str, ...]:
    """(what the weights are, why nobody trained them); nothing where that does not show."""
    if manifest.get("seed") is not None:
        return SEEDED, f"its weights are seeded: dpu_pipeline.json says seed {manifest['seed']}"
    if _carries_identity(unet):
        return SEEDED, "its weights are seeded: the UNet's conv_in holds the identity of dpuc export's seeded weights"
    scales = [r for n, r in unet.items() if n.endswith(".weight") and "norm" in n and len(r.shape) == 1]
    if scales and all(bool((r.load() == 1).all()) for r in scales):
        return UNTRAINED, "its weights are untrained: the scale of every normalisation in the UNet is exactly 1"
    return ()


def _grams(unet: Mapping[str, Any]) -> int:
    """Bytes of x^T x in float32 of all inputs of linears: of a transformer block five of k channels and one of 4 k."""
    shapes = [r.shape for n, r in unet.items() if n.endswith(".ff.net.2.weight")]
    return sum(4 * (5 * wide**2 + hidden**2) for wide, hidden in shapes)


def _carries_identity(unet: Mapping[str, Any]) -> bool:
    """Whether the first convolution copies the latent x to channels 0 to 3, -x and x again, as seeded weights do."""
    import torch

    found = unet.get("conv_in.weight")
    if found is None or found.shape[0] < 12 or found.shape[1] != 4:
        return False
    copied, eye = found.load()[:12].float(), torch.eye(4)
    wanted = torch.zeros_like(copied)
    wanted[:, :, 1, 1] = torch.cat([eye, -eye, eye])
    return bool(torch.equal(copied, wanted))


def _other_architecture(model: Path) -> tuple[str, ...]:
    """The first field of each part whose value is not SDXL base's."""
    from ...frontend.pipeline_folder import read_json
    from ...frontend.sdxl import SDXL_CONFIGS

    found = []
    for part, names in _SAME.items():
        ours, theirs = read_json(SDXL_CONFIGS / f"{part}.json"), read_json(model / part / "config.json")
        for name in names:
            if name in ours and name in theirs and (seen := _plain(theirs[name])) != _plain(ours[name]):
                found.append(f"it is not SDXL base: {name} of {part} is {seen}, SDXL base's is {_plain(ours[name])}")
                break
    return tuple(found)


def _plain(value: Any) -> Any:
    """Lists and tuples alike, as JSON."""
    return json.loads(json.dumps(value))


def _model_digest(model: Path, weights: Mapping[str, str]) -> str:
    """Over the weights that are used and all small files around them."""
    names = ["model_index.json", "scheduler/scheduler_config.json", *(f"{part}/config.json" for part in weights)]
    names += [
        f.relative_to(model).as_posix()
        for part in ("tokenizer", "tokenizer_2")
        for f in sorted((model / part).rglob("*"))
        if f.is_file()
    ]
    digest = hashlib.sha256(json.dumps(dict(weights), sort_keys=True).encode())
    for name in names:
        digest.update(f"{name}\0{sha256(model / name)}\n".encode())
    return digest.hexdigest()


def _together(digests: list[str]) -> str:
    return digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()
