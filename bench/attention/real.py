"""Operands of real attentions: those of a trained pipeline in float32, on its own prompts' images.

`models/tiny` was trained at 128x128, where its self-attentions have 64 and 16 keys and its VAE's 256. With 1024x1024
they have SDXL's 4,096 and 1,024 (the VAE's 4,096 at 512x512): scores of trained weights, on pictures of a size that it
was not trained on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import DpuError
from .operands import F32, QUERIES, Operands

PROMPT = "three hearts on the left on a green background"  # in no training (bench/train/captions.py)
STEPS, KEPT = 4, (0, 3)  # denoising steps of a picture, and those whose attentions are looked at
TRAINED, FULL, VAE = 128, 1024, 512  # pixels


def captured(model: Path, seed: int, say: Callable[[str], None]) -> Iterator[tuple[str, str, Operands]]:
    """(layer, source, operands) of every attention: UNet at the trained size and at 1024x1024, VAE decoder.

    The samples of an operand are the kept steps, each with and without the prompt; 64 queries of each.

    Raises:
        DpuError: `model` is no folder of a pipeline.
    """
    if not (model / "model_index.json").is_file():
        raise DpuError(
            str(model),
            "is no folder of diffusers: there is no model_index.json",
            hint="models/tiny is one; leave out --model for synthetic scores alone",
            code="E501",
        )
    pipeline = _pipeline(model)
    for size, what in ((TRAINED, "the trained size"), (FULL, "beyond the trained size")):
        say(f"running {model} at {size}x{size} ...")
        heard = _Heard(pipeline.unet)
        _latents(pipeline, size, seed)
        for name, operands in heard.operands(seed, KEPT):
            cross = name.endswith("attn2")
            if not cross or size == TRAINED:
                source = f"models/{model.name} {size}x{size}, {what}"
                yield f"unet.{name} ({'cross' if cross else 'self'})", source, operands
    for size, what in ((TRAINED, "the trained size"), (VAE, "beyond the trained size")):
        say(f"decoding at {size}x{size} ...")
        latents = _latents(pipeline, size, seed)
        heard = _Heard(pipeline.vae.decoder)
        _decode(pipeline, latents)
        for name, operands in heard.operands(seed, (0,)):
            yield f"vae_decoder.{name} (self)", f"models/{model.name} {size}x{size}, {what}", operands


def _pipeline(model: Path) -> Any:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import diffusers
    import torch

    found: Any = diffusers
    pipeline = found.StableDiffusionXLPipeline.from_pretrained(model, dtype=torch.float32, add_watermarker=False)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def _latents(pipeline: Any, size: int, seed: int) -> Any:
    import torch

    noise = torch.Generator().manual_seed(seed)
    made = pipeline(PROMPT, height=size, width=size, num_inference_steps=STEPS, generator=noise, output_type="latent")
    return made.images


def _decode(pipeline: Any, latents: Any) -> None:
    import torch

    with torch.no_grad():
        pipeline.vae.decode(latents / pipeline.vae.config.scaling_factor)


class _Heard:
    """Keeps what the projections of every attention below a module give, call by call."""

    def __init__(self, module: Any) -> None:
        self.calls: dict[str, dict[str, list[F32]]] = {}
        self.modules: dict[str, Any] = {}
        self._hooks = []
        for name, part in module.named_modules():
            if all(hasattr(part, r) for r in ("to_q", "to_k", "to_v", "heads")):
                self.modules[name], self.calls[name] = part, {r: [] for r in "qkv"}
                for role in "qkv":
                    hook = self._keep(self.calls[name][role])
                    self._hooks.append(getattr(part, f"to_{role}").register_forward_hook(hook))

    @staticmethod
    def _keep(into: list[F32]) -> Callable[[Any, Any, Any], None]:
        return lambda module, inputs, output: into.append(output.detach().half().float().numpy())

    def operands(self, seed: int, kept: tuple[int, ...]) -> Iterator[tuple[str, Operands]]:
        """Of each attention, the calls `kept` as samples; the hooks are taken away."""
        for hook in self._hooks:
            hook.remove()
        rng = np.random.default_rng(seed)
        for name, calls in self.calls.items():
            q, k, v = (np.concatenate([calls[r][i] for i in kept]) for r in "qkv")
            rows = np.sort(rng.permutation(q.shape[1])[:QUERIES])
            part = self.modules[name]
            yield name, Operands(q[:, rows], k, v, part.heads, float(part.scale), np.abs(q).max((0, 1)))
