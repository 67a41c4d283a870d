"""`dpurun DIR --target gpu`: the pipeline of `runtime/pipeline.py` with its models on the GPU.

Prompts, seeds, scheduler and guidance are those of every other target; text encoders, UNet and VAE run in float16. The
VAE runs in float32 where its config asks for that (`force_upcast`): SDXL's own overflows in float16.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...errors import DpuError
from ..pipeline import Image, Pipeline, Request, Step
from ..pipeline_files import BundledFiles, FolderFiles, PipelineFiles, read_json
from ..tensors import F32
from .requirements import check_engine, require
from .static_unet import StaticUnet
from .torch_engine import TorchText, TorchUnet, TorchVae
from .weights import stored

if TYPE_CHECKING:
    import torch


class _Unet:
    """A `pipeline.Unet` of a static one: arrays in and out, converted on the GPU."""

    def __init__(self, unet: StaticUnet) -> None:
        self.unet = unet

    def prepare(self, conditioning: Mapping[str, F32]) -> None:
        """Keep the conditioning of one image."""
        import torch

        self.unet.prepare({k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in conditioning.items()})

    def step(self, sample: F32, timestep: float) -> F32:
        """One forward."""
        import torch

        self.unet.buffers["sample"].copy_(torch.from_numpy(sample))
        self.unet.buffers["timestep"].fill_(timestep)
        self.unet.forward()
        return np.asarray(self.unet.out.float().cpu().numpy())


class _Encoder:
    """One text encoder as a `parts.Part`."""

    def __init__(self, module: Any, pooled: bool, device: str) -> None:
        self.module, self.pooled, self.device = module, pooled, device
        self.inputs: Mapping[str, Any] = {"input_ids": np.int64}
        self.outputs: Sequence[str] = ["hidden_states", *(["text_embeds"] if pooled else [])]

    def __call__(self, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, F32]:
        import torch

        ids = torch.from_numpy(np.asarray(inputs["input_ids"], np.int64)).to(self.device)
        with torch.inference_mode():
            found = self.module(ids, output_hidden_states=True)
        out = {"hidden_states": _host(found.hidden_states[-2])}
        return out | ({"text_embeds": _host(found.text_embeds)} if self.pooled else {})


class _Vae:
    """The VAE decoder as a `parts.Part`; it takes latents that are divided by the scaling factor already."""

    def __init__(self, vae: TorchVae) -> None:
        self.vae = vae
        self.inputs: Mapping[str, Any] = {"latent": np.float32}
        self.outputs: Sequence[str] = ["image"]

    def __call__(self, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, F32]:
        import torch

        latent = torch.from_numpy(np.asarray(inputs["latent"], np.float32)).to(self.vae.device)
        image = _host(self.vae.decode(latent * self.vae.config["scaling_factor"]))
        if not np.isfinite(image).all():
            raise DpuError(
                "vae",
                f"its image is not finite in {str(self.vae.dtype).removeprefix('torch.')}",
                why="SDXL's own VAE overflows in float16",
                hint='set "force_upcast": true in vae/config.json, or use the fp16 fix of the VAE',
                code="E406",
            )
        return {"image": image}


def _host(x: torch.Tensor) -> F32:
    return np.asarray(x.float().cpu().numpy())


def make_on_gpu(
    files: PipelineFiles,
    request: Request,
    engine: str,
    on_step: Callable[[Step], None] | None = None,
    device: str = "cuda",
) -> tuple[Image, str]:
    """Make one image; returns it and what ran the UNet.

    Args:
        files: of a folder that `dpuc export` wrote.
        request: prompt, seed, steps, guidance, size.
        engine: of `requirements.ENGINES`.
        on_step: called after each step.
        device: "cuda", or "cpu" in tests, in float32.

    Raises:
        DpuError: something that the GPU path needs is missing, or a model does not run.
    """
    import torch

    if device == "cuda":
        require("--target gpu", engine)
    if not isinstance(files, FolderFiles):
        raise DpuError(
            files.where,
            "is a compiled program, and target gpu runs the model",
            hint="give a folder that dpuc export wrote",
            code="E405",
        )
    folder: Path = files.path
    configs = {name: read_json(files, f"{name}/config.json") for name in ("text_encoder", "text_encoder_2", "unet")}
    configs["vae"] = read_json(files, "vae/config.json")
    states = {name: stored(folder, name) for name in configs}
    half = torch.float16 if device == "cuda" else torch.float32
    later: dict[str, Any] = dict.fromkeys(("text_encoder", "text_encoder_2", "vae_decoder"))
    bare = Pipeline(files, later)  # its sizes only
    height, width = bare.size(request)
    latent = (height // bare.scale, width // bare.scale)
    text = TorchText(configs, states, device, half)
    full = torch.float32 if configs["vae"].get("force_upcast", True) else half
    vae = TorchVae(configs["vae"], states["vae"], latent, "eager", device, full)
    unet = open_unet(engine, configs["unet"], states["unet"], 2 if request.guidance > 1 else 1, latent, device)
    parts: dict[str, Any] = {
        "text_encoder": _Encoder(text.modules[0], False, device),
        "text_encoder_2": _Encoder(text.modules[1], True, device),
        "vae_decoder": _Vae(vae),
    }
    return Pipeline(files, parts).generate(request, _Unet(unet), on_step), unet.label


def make_image_on_gpu(
    model: Path,
    request: Request,
    out: Path,
    engine: str,
    refused: Mapping[str, object] | None = None,
    on_step: Callable[[Step], None] | None = None,
    device: str = "cuda",
) -> str:
    """Make one image, save it, and say what ran where: what `dpurun --target gpu` prints.

    Args:
        model: a folder that `dpuc export` wrote.
        request, engine, on_step, device: as in `make_on_gpu`.
        out: the PNG.
        refused: options by name that this target has none of; those that are not None are an error.

    Raises:
        DpuError: as `make_on_gpu`, or an option does not go with the target.
    """
    check_engine(engine)
    for option, value in (refused or {}).items():
        if value is not None:
            why, hint = "it runs the model, not a compiled program", "--target sim"
            raise DpuError(option, "target gpu has none", why=why, hint=hint, code="E501")
    if device == "cuda":
        require("--target gpu", engine)
    started = time.perf_counter()
    files = FolderFiles(model) if not model.is_file() else BundledFiles({}, str(model))
    image, label = make_on_gpu(files, request, engine, on_step, device)
    image.save(out)
    parts = ", ".join(f"{k} {v:.3f} s" for k, v in image.seconds.items())
    whole = time.perf_counter() - started
    return (
        f"unet             {label}\n"
        f"this computer    {whole:.2f} s for {request.steps} steps, loading included\n"
        f"  of which       {parts}"
    )


def open_unet(
    engine: str, config: Mapping[str, Any], state: Any, batch: int, latent: tuple[int, int], device: str
) -> StaticUnet:
    """The UNet of an engine. torch records its operations as they are: compiling takes longer than one image."""
    import torch

    if engine == "ort":
        from .ort_engine import OrtOptions, OrtUnet

        options = OrtOptions() if device == "cuda" else OrtOptions(("attention", "skip_layer_norm"))
        return OrtUnet(config, state, batch, latent, options, device, "fp16" if device == "cuda" else "fp32")
    mode, dtype = ("graph", torch.float16) if device == "cuda" else ("eager", torch.float32)
    return TorchUnet(config, state, batch, latent, mode, device=device, dtype=dtype)
