"""A complete SDXL-shaped pipeline of a few million seeded parameters, built offline from configs.

Everything that makes SDXL hard is kept: three resolutions, two text encoders, head dimension 64, transformers of depth
two, channel counts that are no multiples of 64, and GroupNorm groups that straddle the sources of a concatenation
(16 groups over 128 + 48 channels). It generates images of 64x64 and 128x128 pixels.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import diffusers
from diffusers import StableDiffusionXLPipeline
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

from .seeded import fill

_diffusers: Any = diffusers  # most of it is untyped
TOKENS = 77
TEXT_WIDTH, TEXT_2_WIDTH = 64, 128

UNET: dict[str, Any] = {
    "sample_size": 16,
    "in_channels": 4,
    "out_channels": 4,
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
    "block_out_channels": (48, 128, 192),
    "layers_per_block": 1,
    "transformer_layers_per_block": (1, 1, 2),
    "attention_head_dim": (1, 2, 3),  # in diffusers this is the number of heads: 64 channels each
    "norm_num_groups": 16,
    "cross_attention_dim": TEXT_WIDTH + TEXT_2_WIDTH,
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 16,
    "projection_class_embeddings_input_dim": TEXT_2_WIDTH + 6 * 16,
}
VAE: dict[str, Any] = {
    "sample_size": 128,
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "block_out_channels": (16, 32, 32, 32),
    "layers_per_block": 1,
    "latent_channels": 4,
    "norm_num_groups": 8,
    "scaling_factor": 0.13025,
    "force_upcast": False,
}
SCHEDULER: dict[str, Any] = {
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "prediction_type": "epsilon",
    "interpolation_type": "linear",
    "timestep_spacing": "leading",
    "steps_offset": 1,
    "use_karras_sigmas": False,
}
# Words that become one token each; any other text falls back to bytes.
_WORDS = """
a an the of on in at with and to from by under over near photo picture drawing painting portrait image red green
blue yellow orange purple pink brown black white grey gold silver dark bright small big tiny large old new one two
three four cat dog bird fish horse cow sheep bear lion tiger fox rabbit mouse flower tree leaf grass forest river
sea beach mountain hill sky cloud sun moon star rain snow fire water stone house castle bridge road street city
village garden car train boat ship plane bicycle apple cherry banana lemon bread cake coffee tea table chair lamp
book clock window door man woman child king queen robot astronaut dragon background style oil digital art light
shadow detailed realistic abstract
""".split()  # noqa: SIM905 (a list of words reads best as text)


def build_tokenizer(words: Sequence[str] = _WORDS) -> CLIPTokenizer:
    """A byte-level BPE tokenizer of CLIP's kind with one token for each of `words`, the most frequent first.

    The end-of-text id is the highest, as pooling expects.
    """
    from tokenizers.pre_tokenizers import ByteLevel

    alphabet = sorted(ByteLevel.alphabet())
    tokens = alphabet + [c + "</w>" for c in alphabet]
    merges: Any = []  # pairs; the library's own annotation says strings
    for word in words:
        # Merge what the rules so far leave over. Later rules have a lower priority, so earlier words stay whole.
        pieces = _bpe([*word[:-1], word[-1] + "</w>"], merges)
        while len(pieces) > 1:
            merges.append((pieces[0], pieces[1]))
            pieces[:2] = [pieces[0] + pieces[1]]
            tokens.append(pieces[0])
    tokens += ["<|startoftext|>", "<|endoftext|>"]
    vocab = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    return CLIPTokenizer(vocab=vocab, merges=merges, model_max_length=TOKENS)


def _bpe(pieces: list[str], merges: list[tuple[str, str]]) -> list[str]:
    """`pieces` after every rule of `merges`, in order of priority."""
    rank = {pair: i for i, pair in enumerate(merges)}
    while len(pieces) > 1:
        i = min(range(len(pieces) - 1), key=lambda i: rank.get((pieces[i], pieces[i + 1]), len(rank)))
        if (pieces[i], pieces[i + 1]) not in rank:
            break
        pieces = [*pieces[:i], pieces[i] + pieces[i + 1], *pieces[i + 2 :]]
    return pieces


def text_config(tokenizer: CLIPTokenizer, width: int, hidden_act: str) -> CLIPTextConfig:
    """A small CLIP text encoder whose special ids are those of `tokenizer`."""
    return CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=3,
        num_attention_heads=width // 64,
        max_position_embeddings=TOKENS,
        hidden_act=hidden_act,
        projection_dim=width,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


def build_tiny(seed: int = 0) -> StableDiffusionXLPipeline:
    """Build the tiny pipeline in float32. The same seed gives the same weights; no global generator is touched."""
    tokenizer = build_tokenizer()
    parts: dict[str, Any] = {
        "text_encoder": CLIPTextModel(text_config(tokenizer, TEXT_WIDTH, "quick_gelu")),
        "text_encoder_2": CLIPTextModelWithProjection(text_config(tokenizer, TEXT_2_WIDTH, "gelu")),
        "unet": _diffusers.UNet2DConditionModel(**UNET),
        "vae": _diffusers.AutoencoderKL(**VAE),
    }
    for part, module in parts.items():
        fill(module.eval().requires_grad_(False), seed=seed, part=part)
    pipeline: StableDiffusionXLPipeline = _diffusers.StableDiffusionXLPipeline(
        **parts,
        tokenizer=tokenizer,
        tokenizer_2=build_tokenizer(),
        scheduler=_diffusers.EulerDiscreteScheduler(**SCHEDULER),
        force_zeros_for_empty_prompt=True,
        add_watermarker=False,
    )
    return pipeline


def tiny_configs() -> dict[str, dict[str, Any]]:
    """The configs of the four components, as plain dictionaries."""
    tokenizer = build_tokenizer()
    return {
        "unet": {k: list(v) if isinstance(v, tuple) else v for k, v in UNET.items()},
        "vae": {k: list(v) if isinstance(v, tuple) else v for k, v in VAE.items()},
        "text_encoder": text_config(tokenizer, TEXT_WIDTH, "quick_gelu").to_dict(),
        "text_encoder_2": text_config(tokenizer, TEXT_2_WIDTH, "gelu").to_dict(),
    }
