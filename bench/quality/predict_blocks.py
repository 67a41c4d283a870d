"""The predictor's blocks: what takes the place of diffusers' own in its UNet and VAE, and the text encoders' layers.

A block rounds to float16 where the DPU stores a tensor: once after a convolution or linear with all that is added to
it. Everything around the blocks (skips, time sinusoids, the sampler, guidance) stays diffusers'.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch.nn.functional as F
from torch import nn

from ...errors import DpuError
from .predict_layers import Layers, group_norm, layer_norm
from .predict_numbers import half

if TYPE_CHECKING:
    from torch import Tensor


class Resnet(nn.Module):
    """A residual block: GroupNorm, SiLU and convolution twice, with the time embedding added in between."""

    def __init__(self, of: Layers, path: str, block: Any) -> None:
        super().__init__()
        last = f"{path}/Add" if block.time_emb_proj is None else f"{path}/Add_1"
        self.norm1, self.norm2 = block.norm1, block.norm2
        self.conv1 = of.conv(f"{path}/conv1", block.conv1, f"{path}/Add")
        self.conv2 = of.conv(f"{path}/conv2", block.conv2, last)
        self.shortcut = self.time = None
        if block.conv_shortcut is not None:
            self.shortcut = of.conv(f"{path}/conv_shortcut", block.conv_shortcut, last)
        if block.time_emb_proj is not None:
            where = f"{path}/time_emb_proj"
            self.time = of.linear(where, block.time_emb_proj, node="Gemm", same="/time_emb_proj/")

    def forward(self, x: Tensor, temb: Tensor | None = None) -> Tensor:
        """Of x [b, c, h, w] and the time embedding [b, t], which is rounded here."""
        h = self.conv1(group_norm(x, self.norm1, silu=True), normed=True)
        if self.time is not None and temb is not None:
            h = h + self.time(half(F.silu(half(temb))))[:, :, None, None]
        h = self.conv2(group_norm(half(h), self.norm2, silu=True), normed=True)
        return half(h + x) if self.shortcut is None else half(self.shortcut(x) + half(h))


class Upsample(nn.Module):
    """Nearest upsampling and a convolution."""

    def __init__(self, of: Layers, path: str, block: Any) -> None:
        super().__init__()
        self.conv = of.conv(f"{path}/conv", block.conv, upsample=True)

    def forward(self, x: Tensor, output_size: Any = None) -> Tensor:
        """Of x [b, c, h, w]; twice as large each way."""
        if output_size is not None and tuple(output_size[-2:]) != (2 * x.shape[2], 2 * x.shape[3]):
            raise DpuError("predict", f"upsampling {tuple(x.shape[2:])} to {tuple(output_size[-2:])}", code="E501")
        return half(self.conv(x))


class Stored(nn.Module):
    """A convolution whose result is stored, as the first and the last one of a model, and downsampling."""

    def __init__(self, conv: nn.Module, normed: bool = False) -> None:
        super().__init__()
        self.conv, self.normed = conv, normed

    def forward(self, x: Tensor) -> Tensor:
        """Of x [b, c, h, w]."""
        return half(self.conv(x, normed=self.normed))


class Normed(nn.Module):
    """GroupNorm and SiLU, not rounded: a convolution follows."""

    def __init__(self, norm: nn.GroupNorm) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        """Of x [b, c, h, w]."""
        return group_norm(x, self.norm, silu=True)


class Transformer(nn.Module):
    """Transformer2DModel with linear projections."""

    def __init__(self, of: Layers, path: str, block: Any) -> None:
        super().__init__()
        self.norm = block.norm
        self.proj_in = of.linear(f"{path}/proj_in", block.proj_in)
        self.proj_out = of.linear(f"{path}/proj_out", block.proj_out, f"{path}/Add")
        found = [Basic(of, f"{path}/transformer_blocks.{i}", b) for i, b in enumerate(block.transformer_blocks)]
        self.blocks = nn.ModuleList(found)

    def forward(self, x: Tensor, encoder_hidden_states: Tensor, **_: Any) -> tuple[Tensor]:
        """Of x [b, c, h, w] and the text [b, tokens, c]."""
        tokens = x.flatten(2).mT
        y = half(self.proj_in(half(group_norm(x, self.norm, silu=False)).flatten(2).mT))
        for block in self.blocks:
            y = block(y, encoder_hidden_states)
        return (half(self.proj_out(y) + tokens).mT.reshape(x.shape),)


class Basic(nn.Module):
    """Self-attention, cross-attention and GEGLU, each after LayerNorm and with a residual."""

    def __init__(self, of: Layers, path: str, block: Any) -> None:
        super().__init__()
        self.norm1, self.norm2, self.norm3 = block.norm1, block.norm2, block.norm3
        self.own = Projections(of, f"{path}/attn1", block.attn1, f"{path}/Add")
        self.cross = Projections(of, f"{path}/attn2", block.attn2, f"{path}/Add_1")
        self.gate = of.linear(f"{path}/ff/net.0/proj", block.ff.net[0].proj, f"{path}/ff/net.0/Mul")
        self.down = of.linear(f"{path}/ff/net.2", block.ff.net[2], f"{path}/Add_2")

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        """Of x [b, tokens, c]."""
        x = self.own(y := layer_norm(x, self.norm1), y, x)
        x = self.cross(layer_norm(x, self.norm2), half(text), x)
        value, gate = self.gate(layer_norm(x, self.norm3)).chunk(2, dim=-1)
        return half(self.down(half(value * F.gelu(gate))) + x)


class Projections(nn.Module):
    """The linears around an attention, with the smoothing of queries and keys in their weights."""

    names = ("to_q", "to_k", "to_v", "to_out.0")

    def __init__(self, of: Layers, path: str, block: Any, last: str, causal: bool = False) -> None:
        super().__init__()
        q, k, v, out = self.names
        heads = getattr(block, "heads", None) or block.num_heads
        self.attention, smooth = of.attention(path, heads, causal)
        own = rf"^{re.escape(path)}/to_[qkv]/"
        text = r"/attn2/to_[kv]/" if path.endswith("attn2") else own
        self.q = of.linear(f"{path}/{q}", block.get_submodule(q), same=own, factor=1 / smooth)
        self.k = of.linear(f"{path}/{k}", block.get_submodule(k), same=text, factor=smooth)
        self.v = of.linear(f"{path}/{v}", block.get_submodule(v), same=text)
        self.out = of.linear(f"{path}/{out}", block.get_submodule(out), last)

    def forward(self, x: Tensor, keys: Tensor, residual: Tensor) -> Tensor:
        """Of what queries and what keys and values are made from, [b, tokens, c]."""
        return half(self.out(self.attention(self.q(x), self.k(keys), self.v(keys))) + residual)


class ImageAttention(nn.Module):
    """Self-attention over the pixels of the VAE's middle block."""

    def __init__(self, of: Layers, path: str, block: Any) -> None:
        super().__init__()
        self.norm = block.group_norm
        self.inside = Projections(of, path, block, f"{path}/Add")

    def forward(self, x: Tensor, **_: Any) -> Tensor:
        """Of x [b, c, h, w]."""
        y = half(group_norm(x, self.norm, silu=False)).flatten(2).mT
        found: Tensor = self.inside(y, y, x.flatten(2).mT)
        return found.mT.reshape(x.shape)


class TimeEmbedding(nn.Module):
    """Two linears with SiLU between them; the result of the second of two is rounded where both are added.

    The pipeline asks for `linear_1.in_features`.
    """

    def __init__(self, of: Layers, path: str, block: Any, stored: bool) -> None:
        super().__init__()
        self.stored = stored
        self.linear_1 = of.linear(f"{path}/linear_1", block.linear_1, f"{path}/act/Mul", node="Gemm")
        self.linear_2 = of.linear(f"{path}/linear_2", block.linear_2, "/Add*", node="Gemm")

    def forward(self, x: Tensor, condition: Any = None) -> Tensor:
        """Of sinusoids and pooled text [b, n]."""
        y = self.linear_2(half(F.silu(self.linear_1(half(x)))))
        return half(y) if self.stored else y


class TextProjections(Projections):
    """Those of a text encoder."""

    names = ("q_proj", "k_proj", "v_proj", "out_proj")


class TextLayer(nn.Module):
    """A layer of a CLIP text encoder."""

    def __init__(self, of: Layers, path: str, block: Any) -> None:
        super().__init__()
        self.norm1, self.norm2 = block.layer_norm1, block.layer_norm2
        self.attention = TextProjections(of, f"{path}/self_attn", block.self_attn, f"{path}/Add", causal=True)
        self.first = of.linear(f"{path}/mlp/fc1", block.mlp.fc1, f"{path}/mlp/activation_fn/*")
        self.second = of.linear(f"{path}/mlp/fc2", block.mlp.fc2, f"{path}/Add_1")
        self.gate = block.mlp.activation_fn

    def forward(self, x: Tensor) -> Tensor:
        """Of x [b, tokens, c]."""
        x = self.attention(y := layer_norm(x, self.norm1), y, x)
        return half(self.second(half(self.gate(self.first(layer_norm(x, self.norm2))))) + x)


class TextEncoder(nn.Module):
    """Hidden states of the last layer but one and, of the second encoder, the projection of the end-of-text token."""

    def __init__(self, of: Layers, model: Any) -> None:
        super().__init__()
        inside = getattr(model, "text_model", model)
        self.embeddings, self.end = inside.embeddings, model.config.eos_token_id
        every = [TextLayer(of, f"{of.root}/encoder/layers.{i}", b) for i, b in enumerate(self._used(model, inside))]
        self.layers = nn.ModuleList(every)
        self.norm, self.projection = inside.final_layer_norm, None
        if (projection := getattr(model, "text_projection", None)) is not None:
            self.projection = of.linear("/text_projection", projection, node="Gemm")

    @staticmethod
    def _used(model: Any, inside: Any) -> list[Any]:
        layers = list(inside.encoder.layers)
        return layers if hasattr(model, "text_projection") else layers[:-1]

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor | None]:
        """Of token ids [1, tokens]."""
        x = hidden = half(self.embeddings(input_ids=ids))
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if self.projection is None or i < len(self.layers) - 1:
                hidden = x
        if self.projection is None:
            return hidden, None
        at = ids.argmax(dim=1) if self.end == 2 else (ids == self.end).int().argmax(dim=1)
        return hidden, half(self.projection(layer_norm(x, self.norm)))[range(len(ids)), at]


def convert(of: Layers, model: Any, where: str = "") -> None:
    """Put the predictor's blocks in the place of diffusers' in a UNet or a VAE's decoder.

    Args:
        of: the layers of the part.
        model: its module, changed in place.
        where: its path in names of nodes, such as `/decoder`.

    Raises:
        DpuError: it has a block that the predictor does not know, or a layer has no statistics.
    """
    for name, child in model.named_children():
        dot = "." if name.isdigit() else "/"
        path = f"{where}{dot}{name}"
        kind = type(child).__name__
        if kind in _BLOCKS:
            setattr(model, name, _BLOCKS[kind](of, path, child))
        elif kind in ("Conv2d", "Downsample2D"):
            conv = of.conv(path if kind == "Conv2d" else f"{path}/conv", child if kind == "Conv2d" else child.conv)
            setattr(model, name, Stored(conv, normed=name == "conv_out"))
        elif kind == "GroupNorm":
            setattr(model, name, Normed(child))
        elif kind == "TimestepEmbedding":
            setattr(model, name, TimeEmbedding(of, path, child, stored=name == "time_embedding"))
        elif kind == "SiLU":
            setattr(model, name, nn.Identity())  # of `Normed`
        elif kind not in ("Timesteps", "Dropout"):
            if not list(child.children()):
                raise DpuError(f"{of.part}: {path}", f"the predictor has no form of '{kind}'", code="E220")
            convert(of, child, path)


_BLOCKS: dict[str, Any] = {
    "ResnetBlock2D": Resnet,
    "Transformer2DModel": Transformer,
    "Upsample2D": Upsample,
    "Attention": ImageAttention,
}
