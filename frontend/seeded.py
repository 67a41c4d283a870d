"""Seeded weights for an SDXL-shaped model, one tensor at a time, with activations in a healthy range.

A tensor depends only on (seed, part, name, shape), so a 5 GB UNet can be written tensor by tensor, and adding a
parameter changes no other. Gains are relative to `1/sqrt(fan_in)`; residual branches add less than they receive, and
attention queries and keys give logits of a standard deviation between 1 and 2.

The UNet also carries an exact identity: the first convolution copies the latent x to channels 0..3 and -x to 4..7, the
outermost skip connections bring both to the last normalisation, and `silu(x) - silu(-x) = x`. So the predicted noise
is the normalised latent plus what the network adds, and Euler sampling contracts instead of drifting away.

Realistic weights (`realistic_tensor`) also have the outliers that make W8A8 of SDXL hard (MixDQ, arXiv 2405.17873):
the text embedding of the begin-of-text token holds 828 where others stay within 10 to 15; a few channels behind every
normalisation of the UNet are many times larger than the rest; and single hidden units of GEGLU spike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch

BEGIN_OF_TEXT = 828.0
"""The outlier in the first token's text embedding. It is in the position table, so it meets any tokenizer."""
NORM_OUTLIER = 12.0
"""How much larger one in 400 channels behind a normalisation of the UNet is."""
GEGLU_SPIKE = 5.0
"""How much larger value and gate of one in 1000 hidden units are: their product is 25 times and more."""

_LATENT = 4  # latent channels of SDXL

# The first rule whose fragment occurs in ".<name>" gives the gain of that weight.
_GAINS: tuple[tuple[str, float], ...] = (
    (".to_q.", 1.2),
    (".to_k.", 1.2),
    (".q_proj.", 1.2),
    (".k_proj.", 1.2),
    (".attn2.to_out.", 1.5),
    (".to_out.", 0.8),
    (".out_proj.", 0.8),
    (".ff.net.2.", 0.7),
    (".mlp.fc2.", 0.7),
    (".proj_out.", 0.6),
    (".time_emb_proj.", 0.8),
    (".time_embedding.linear_1.", 1.4),
    (".add_embedding.linear_1.", 1.4),
    (".time_embedding.linear_2.", 1.6),
    (".add_embedding.linear_2.", 1.6),
    (".conv1.", 1.6),
    (".conv2.", 0.8),
    (".conv_in.", 1.0),
    (".conv_out.", 0.2),
)
_VAE_GAINS: tuple[tuple[str, float], ...] = ((".post_quant_conv.", 0.13), (".conv_in.", 0.4), (".conv_out.", 0.8))


def generator(*key: object) -> torch.Generator:
    """A generator whose seed is a digest of `key`."""
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)


def realistic_tensor(seed: int, part: str, name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """A seeded parameter with what trained SDXL models show and random ones lack; docs in the module's text.

    Everything else is as in `seeded_tensor`: a forward pass stays within float16.
    """
    value = seeded_tensor(seed, part, name, shape)
    if part in ("text_encoder", "text_encoder_2"):
        if "position_embedding" in name and part == "text_encoder":
            value[0, _chosen(seed, part, shape[1], 1)] = BEGIN_OF_TEXT
        return value
    if part != "unet":
        return value
    if ".norm" in name and name.endswith(".weight"):
        value[_chosen(seed, name, shape[0], max(1, shape[0] // 400))] *= NORM_OUTLIER
    block = name.partition(".ff.net.")[0]
    hidden = shape[0] // 2 if name.endswith(".ff.net.0.proj.weight") else shape[-1]
    spikes = _chosen(seed, block, hidden, max(1, hidden // 1000))
    if name.endswith(".ff.net.0.proj.weight"):
        value[torch.cat([spikes, spikes + hidden])] *= GEGLU_SPIKE
    elif name.endswith(".ff.net.2.weight"):
        value[:, spikes] /= GEGLU_SPIKE**2
    return value


def _chosen(seed: int, name: str, of: int, count: int) -> torch.Tensor:
    """`count` of the numbers below `of`, by seed and name."""
    return torch.randperm(of, generator=generator(seed, "outliers", name))[:count]


def seeded_tensor(seed: int, part: str, name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """The float32 value of parameter `name` of `part` ("unet", "vae", "text_encoder", "text_encoder_2")."""
    noise = torch.randn(shape, generator=generator(seed, part, name))
    dotted = f".{name}"
    if name.endswith("embedding.weight") and len(shape) == 2:  # token and position tables
        return noise.mul_(0.3 if "position" in name else 0.9)
    if len(shape) == 1:
        if not name.endswith(".weight"):
            return noise.mul_(0.05)
        return noise.mul_(0.1).add_(1.0)  # a normalisation's scale
    gain = next((g for fragment, g in (_VAE_GAINS if part == "vae" else ()) + _GAINS if fragment in dotted), 1.0)
    fan_in = int(torch.Size(shape[1:]).numel())
    value = noise.mul_(gain / fan_in**0.5)
    return _with_identity(name, value) if part == "unet" else value


def _with_identity(name: str, w: torch.Tensor) -> torch.Tensor:
    """Write the identity of this module's docstring into the three tensors that carry it."""
    n, carried = (
        _LATENT,
        3 * _LATENT,
    )  # x, -x and x again: whole groups of 3 channels, so that no other shifts their mean
    eye = torch.eye(n)
    if name == "conv_in.weight":
        w[:carried] = 0
        w[:carried, :, 1, 1] = torch.cat([eye, -eye, eye])
    elif name.startswith("up_blocks.2.") and name.endswith("conv_shortcut.weight"):
        w[:carried] = 0  # reads [hidden, skip]: take the skip, which comes last
        skip = w.shape[1] - w.shape[0]
        w[:carried, skip : skip + carried, 0, 0] = torch.eye(carried)
    elif name.startswith("up_blocks.2.") and name.endswith("conv2.weight"):
        w[:carried] *= 0.1
    elif name == "conv_out.weight":
        w[:, :carried] = 0
        w[:, carried:] -= w[:, carried:].mean((1, 2, 3), keepdim=True)  # SiLU's positive mean must not drift
        w[:, : 2 * n, 1, 1] = torch.cat([eye, -eye], 1)
    return w


@torch.no_grad()
def fill(module: torch.nn.Module, *, seed: int, part: str) -> None:
    """Overwrite every parameter of `module` with its seeded value."""
    for name, value in named_tensors(module).items():
        value.copy_(seeded_tensor(seed, part, name, tuple(value.shape)))


def named_tensors(module: torch.nn.Module) -> Mapping[str, torch.Tensor]:
    """The state dictionary with the names of the published files (transformers 5 drops `text_model.`)."""
    return {name.removeprefix("text_model."): t for name, t in module.state_dict().items()}
