"""The networks of `tiny`: an SDXL-shaped pipeline that compiles for every arch. Its judge is in `judge.py`."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import diffusers
import torch
from torch import nn
from transformers import CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

from ...frontend import tiny
from .captions import FORMS, Combination, caption, words
from .compose import SIZE

_diffusers: Any = diffusers  # most of it is untyped

# 64 channels a head, 16 groups, as `tiny-seeded`; 6.95 M parameters, so that the file stays below 15 MB in float16.
UNET: dict[str, Any] = {
    **tiny.UNET,
    "sample_size": SIZE // 8,
    "block_out_channels": (64, 128, 128),
    "transformer_layers_per_block": (1, 1, 1),
    "attention_head_dim": (1, 2, 2),
}
VAE: dict[str, Any] = {**tiny.VAE, "sample_size": SIZE, "block_out_channels": (24, 48, 64, 64)}
TIME_IDS = (SIZE, SIZE, 0, 0, SIZE, SIZE)
"""Original size, crop, target size: what the pipeline passes for a picture of the trained size."""


class Conditioning(NamedTuple):
    """What the UNet is told: hidden states [n, 77, width] of both encoders, and the second's pooled text [n, width]."""

    hidden: torch.Tensor
    pooled: torch.Tensor


class Denoiser(nn.Module):
    """UNet and text encoders, which train together."""

    def __init__(self) -> None:
        super().__init__()
        tokenizer = tokenizer_of_captions()
        self.text_encoder: Any = CLIPTextModel(tiny.text_config(tokenizer, tiny.TEXT_WIDTH, "quick_gelu"))
        self.text_encoder_2: Any = CLIPTextModelWithProjection(tiny.text_config(tokenizer, tiny.TEXT_2_WIDTH, "gelu"))
        self.unet: Any = _diffusers.UNet2DConditionModel(**UNET)
        self.time_ids: torch.Tensor
        self.register_buffer("time_ids", torch.tensor(TIME_IDS, dtype=torch.float32), persistent=False)

    def encode(self, tokens: torch.Tensor) -> Conditioning:
        """The conditioning of token ids [n, 77], as the SDXL pipeline makes it: the layers before the last."""
        first = self.text_encoder(tokens, output_hidden_states=True)
        second = self.text_encoder_2(tokens, output_hidden_states=True)
        return Conditioning(torch.cat([first.hidden_states[-2], second.hidden_states[-2]], -1), second.text_embeds)

    def forward(
        self, noisy: torch.Tensor, timesteps: torch.Tensor, tokens: torch.Tensor, keep: torch.Tensor
    ) -> torch.Tensor:
        """The predicted noise [n, 4, h, w]; where `keep` [n] is 0 the conditioning is zeros, SDXL's empty prompt."""
        hidden, pooled = self.encode(tokens)
        ids = self.time_ids.expand(len(noisy), -1)
        predicted: torch.Tensor = self.unet(
            noisy,
            timesteps,
            encoder_hidden_states=hidden * keep[:, None, None],
            added_cond_kwargs={"text_embeds": pooled * keep[:, None], "time_ids": ids},
            return_dict=False,
        )[0]
        return predicted


def build_vae() -> Any:
    """The AutoencoderKL, untrained."""
    return _diffusers.AutoencoderKL(**VAE)


def tokenizer_of_captions() -> CLIPTokenizer:
    """One token a word of the captions; any other text falls back to bytes."""
    return tiny.build_tokenizer(words())


def token_table(combinations: tuple[Combination, ...], device: torch.device) -> torch.Tensor:
    """[combinations, FORMS, 77] token ids of every caption."""
    texts = [caption(c, form) for c in combinations for form in range(FORMS)]
    different = list(dict.fromkeys(texts))
    ids = tokenizer_of_captions()(different, padding="max_length", max_length=tiny.TOKENS)["input_ids"]
    rows = dict(zip(different, range(len(different)), strict=True))
    table = torch.tensor(ids, dtype=torch.int64, device=device)
    order = torch.tensor([rows[t] for t in texts], device=device)
    return table[order].view(len(combinations), FORMS, tiny.TOKENS)


def scheduler() -> Any:
    """SDXL's noise schedule, and Euler's method."""
    return _diffusers.EulerDiscreteScheduler(**tiny.SCHEDULER)


def pipeline(denoiser: Denoiser, vae: Any) -> Any:
    """The whole as a StableDiffusionXLPipeline."""
    return _diffusers.StableDiffusionXLPipeline(
        text_encoder=denoiser.text_encoder,
        text_encoder_2=denoiser.text_encoder_2,
        unet=denoiser.unet,
        vae=vae,
        tokenizer=tokenizer_of_captions(),
        tokenizer_2=tokenizer_of_captions(),
        scheduler=scheduler(),
        force_zeros_for_empty_prompt=True,
        add_watermarker=False,
    )


def parameters(module: nn.Module) -> int:
    """How many parameters."""
    return sum(p.numel() for p in module.parameters())
