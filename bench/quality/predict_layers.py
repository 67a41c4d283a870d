"""The predictor's layers: linears, convolutions, normalisations and attention on float32 tensors that hold integers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from ...errors import DpuError
from .predict_numbers import Weight, dynamic, half, int4_weight, int8_weight, scale_of, static

if TYPE_CHECKING:
    from torch import Tensor

    from ...passes.calibration import Calibration
    from ...passes.policy import Policy, Precision

_LOG2E = math.log2(math.e)
_HIDDEN = -60000.0  # what is added to the score of a later key, in octaves
_STEPS = {8: 255, 15: 16319}  # of a probability


class Compiled(NamedTuple):
    """What a program says of a layer: bits of its weights, bits of its input or of its probabilities, how its input is
    scaled, and of an attention the keys that one block holds."""

    weights: frozenset[int]
    bits: int
    scale: str
    key_block: int = 0


class Linear(nn.Module):
    """`((acc * s[i]) * cs[j]) + b[j]`; of a static scale there is no s[i]. Results are not rounded.

    `node` is the ONNX node whose result the DPU stores: what follows the linear and is fused into it.
    """

    q: Tensor
    cs: Tensor
    bias: Tensor | None
    step: Tensor | None

    def __init__(self, node: str, weight: Weight, bias: Tensor | None, bits: int, step: Tensor | None) -> None:
        super().__init__()
        self.node = node
        self.bits, self.in_features = bits, weight.q.shape[1]
        self.register_buffer("q", weight.q)
        self.register_buffer("cs", weight.scale if step is None else weight.scale * step)
        self.register_buffer("bias", bias)
        self.register_buffer("step", step)

    def forward(self, x: Tensor) -> Tensor:
        """Of x [..., k], which holds float16 values or what LayerNorm makes."""
        if self.step is None:
            q, s = dynamic(x, self.bits)
            y = F.linear(q, self.q) * s * self.cs
        else:
            y = F.linear(static(x, self.step, self.bits), self.q) * self.cs
        return y if self.bias is None else y + self.bias


class Conv(nn.Module):
    """`(acc * cs[j]) + b[j]` with a static step for each source of the input. Results are not rounded; `node` as in
    `Linear`."""

    bias: Tensor | None

    def __init__(
        self, node: str, weights: list[Weight], kernel: nn.Conv2d, steps: list[Tensor], first: int, bits: int
    ) -> None:
        super().__init__()
        self.node = node
        self.bits, self.first = bits, first
        self.stride: Any = kernel.stride
        self.padding: Any = kernel.padding
        self.count = len(weights)  # 4 where nearest upsampling is part of it
        side = kernel.kernel_size if self.count == 1 else (2, 2)
        for i, w in enumerate(weights):
            self.register_buffer(f"q{i}", torch.unflatten(w.q, 1, (kernel.in_channels, *side)).contiguous())
            self.register_buffer(f"cs{i}", (w.scale * steps[0])[:, None, None])
        self.register_buffer("bias", None if kernel.bias is None else kernel.bias.float()[:, None, None])
        for i, s in enumerate(steps):
            self.register_buffer(f"step{i}", s)
        self.sources = len(steps)

    def forward(self, x: Tensor, normed: bool = False) -> Tensor:
        """Of x [b, c, h, w]. `normed`: it is what GroupNorm makes, which is never rounded to float16."""
        x = x if normed else half(x)
        parts = torch.split(x, [self.first, x.shape[1] - self.first], dim=1) if self.sources == 2 else [x]
        q = torch.cat([static(p, self.get_buffer(f"step{i}"), self.bits) for i, p in enumerate(parts)], dim=1)
        if self.count == 1:
            y: Tensor = F.conv2d(q, self.weight(0), stride=self.stride, padding=self.padding) * self.scale(0)
            return y if self.bias is None else y + self.bias
        b, _, h, w = q.shape
        q = F.pad(q, (1, 1, 1, 1))
        y = q.new_empty(b, len(self.weight(0)), 2 * h, 2 * w)
        for i in range(4):
            py, px = divmod(i, 2)
            of_phase = F.conv2d(q[:, :, py : py + h + 1, px : px + w + 1], self.weight(i))
            y[:, :, py::2, px::2] = of_phase * self.scale(i)
        return y if self.bias is None else y + self.bias

    def weight(self, i: int) -> Tensor:
        """Integers [n, c, kh, kw] of a phase of upsampling, or of the convolution."""
        return self.get_buffer(f"q{i}")

    def scale(self, i: int) -> Tensor:
        """What its sums are multiplied by, [n, 1, 1]."""
        return self.get_buffer(f"cs{i}")


def phase(w: Tensor, py: int, px: int) -> Tensor:
    """The 2x2 kernel of output pixels (2y + py, 2x + px) of nearest upsampling, then w [n, c, 3, 3]."""
    w = w.double()
    rows = [w[:, :, 0], w[:, :, 1] + w[:, :, 2]] if py == 0 else [w[:, :, 0] + w[:, :, 1], w[:, :, 2]]
    w = torch.stack(rows, dim=2)
    columns = [w[..., 0], w[..., 1] + w[..., 2]] if px == 0 else [w[..., 0] + w[..., 1], w[..., 2]]
    return torch.stack(columns, dim=3).float()


def group_norm(x: Tensor, norm: nn.GroupNorm, silu: bool) -> Tensor:
    """Of float16 values x [b, c, ...], by sums and sums of squares; not rounded."""
    m, r = _moments(torch.unflatten(x, 1, (norm.num_groups, -1)).flatten(2), norm.eps)
    each = norm.num_channels // norm.num_groups
    shape = (len(x), -1, *[1] * (x.dim() - 2))
    a = r.repeat_interleave(each, dim=1) * norm.weight
    b = (-m * r).repeat_interleave(each, dim=1) * norm.weight + norm.bias
    y = x * a.view(shape) + b.view(shape)
    return y * y.sigmoid() if silu else y


def layer_norm(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    """Of float16 values, over the last dimension; not rounded."""
    m, r = (v.unsqueeze(-1) for v in _moments(x, norm.eps))
    return (x * r + -m * r) * norm.weight + norm.bias


def _moments(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and reciprocal deviation over the last dimension."""
    m = x.mean(dim=-1)
    return m, ((x.square().mean(dim=-1) - m * m).clamp(min=0) + eps).rsqrt()


class Attention(nn.Module):
    """Queries are int8 for each token and head, keys for each head, values for each channel about their mean."""

    k_step: Tensor
    octaves: Tensor
    v_step: Tensor

    def __init__(
        self, heads: int, k_step: Tensor, v_step: Tensor, scale: float, key_block: int, prob_bits: int, causal: bool
    ) -> None:
        super().__init__()
        self.heads, self.key_block, self.steps, self.causal = heads, key_block, _STEPS[prob_bits], causal
        self.register_buffer("k_step", k_step)  # [heads]
        self.register_buffer("octaves", (k_step.double() * scale * _LOG2E).float()[:, None, None])
        self.register_buffer("v_step", v_step)  # [channels]

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Of smoothed q, k and of v, all [b, tokens, channels], before any rounding. What comes out is float16."""
        q, s = dynamic(self._split(half(q)))
        c = s * self.octaves
        k = static(self._split(k), self.k_step[:, None, None])
        v = half(v)
        mean = v.mean(dim=1, keepdim=True)
        v = self._split(static(v - mean, self.v_step) * self.v_step)
        scores, block = q @ k.mT, self.key_block
        if self.causal:  # all keys are one block
            scores = scores * c + torch.full_like(scores[0, 0], _HIDDEN).triu(1)
            c, block = torch.ones_like(c), k.shape[2]
        first: Tensor | None = None
        out = total = torch.zeros(())
        for of_block, values in zip(torch.split(scores, block, dim=3), torch.split(v, block, dim=2), strict=True):
            top = of_block.amax(dim=-1, keepdim=True)
            p = torch.exp2((of_block - top) * c)
            x, sums = (p * self.steps).round() @ values, p.sum(dim=-1, keepdim=True)
            if first is None:
                first, out, total = top, x, sums
            else:
                w = torch.exp2(((top - first) * c).clamp(max=96.0))
                out, total = out + x * w, total + sums * w
        y = out / (total * self.steps)
        return half(y.transpose(1, 2).flatten(2) + mean)

    def _split(self, x: Tensor) -> Tensor:
        return torch.unflatten(x, -1, (self.heads, -1)).transpose(1, 2)


@dataclass
class Layers:
    """Makes the layers of one part: finds their statistics and precisions by name.

    Names are those of ONNX nodes, as exported by torch: `/down_blocks.0/resnets.0/conv1/Conv`. The calibration has a
    layer under the last node that was fused into it, so an addition may stand for the convolution before it.
    """

    part: str
    calibration: Calibration
    policy: Policy
    covered: Callable[[str], float]  # the magnitude that the static scale of an operand covers
    gptq: bool = False
    compiled: Mapping[str, Compiled] | None = None  # by node; what is made must be as compiled
    key_block: int = 1024  # of attention, without a program

    def __post_init__(self) -> None:
        prefix = "" if self.part == "unet" else self.part
        self._prefix = prefix
        self._keys: dict[str, str] = {}
        for tensor in self.calibration.tensors:
            name, operand = tensor.rsplit(":", 2)[0], tensor.rsplit(":", 2)[1]
            inside = name.removeprefix(prefix).startswith("/") and name.startswith(prefix)
            if operand in ("x", "q") and inside:
                self._keys[name.removeprefix(prefix).split("#")[0]] = name
        roots = {k.split("/encoder/")[0] for k in self._keys if "/encoder/layers." in k}
        self.root = roots.pop() if len(roots) == 1 else ""

    # -- the layers ------------------------------------------------------------------------------------------------

    def linear(
        self,
        path: str,
        module: nn.Linear,
        *aliases: str,
        node: str = "MatMul",
        same: str = "",
        factor: Tensor | None = None,
    ) -> Linear:
        """A linear with (w, b) of `module`, its rows multiplied by `factor`.

        `aliases` are other nodes that may carry its name; `same` is a pattern of linears that read the same input.
        """
        key = self._key(path, aliases)
        p = self._precision(key, f"{path}/{node}", aliases, {8, 4})
        w, bias = module.weight.float(), None if module.bias is None else module.bias.float()
        if factor is not None:
            w, bias = w * factor[:, None], None if bias is None else bias * factor
        step = None
        if p.scale == "static":
            step = scale_of(torch.tensor(max(self._absmax(key, o) for o in self._operands(key))), p.activation_bits)
        if p.weights == 8:
            return Linear(self._node(key), int8_weight(w), bias, p.activation_bits, step)
        widths = [len(self.calibration.channel_absmax(f"{key}:{o}")) for o in self._operands(key)]
        weight = int4_weight(w, widths, self._gram(key, same))
        return Linear(self._node(key), weight, bias, p.activation_bits, step)

    def conv(self, path: str, module: nn.Conv2d, *aliases: str, upsample: bool = False) -> Conv:
        """A convolution; with `upsample` of an input enlarged twice, as four of 2x2."""
        key = self._key(path, aliases)
        p = self._precision(key, f"{path}/Conv", aliases, {8, 4})
        operands = self._operands(key)
        steps = [scale_of(torch.tensor(self._absmax(key, o)), p.activation_bits) for o in operands]
        widths = [len(self.calibration.channel_absmax(f"{key}:{o}")) for o in operands]
        kernel = module.weight.float()
        kernels = [phase(kernel, py, px) for py in (0, 1) for px in (0, 1)] if upsample else [kernel]
        found = [_conv_weight(k, widths, [s / steps[0] for s in steps], p.weights) for k in kernels]
        return Conv(self._node(key), found, module, steps, widths[0], p.activation_bits)

    def attention(self, path: str, heads: int, causal: bool = False) -> tuple[Attention, Tensor]:
        """An attention, and what multiplies its keys and divides its queries, for each channel."""
        key = self._keys.get(f"{path}/Attention", "")
        if not key:
            raise self._unknown(f"{path}/Attention")
        p = self._precision(key, f"{path}/Attention", (), set())
        q, k = (torch.from_numpy(self.calibration.channel_absmax(f"{key}:{o}")) for o in ("q", "k"))
        smooth = (q.clamp(min=1e-6) / k.clamp(min=1e-6)).sqrt().clamp(1 / 16, 16)
        k_step = scale_of((k * smooth).view(heads, -1).amax(dim=1))
        v_step = scale_of(torch.from_numpy(self.calibration.centred_absmax(f"{key}:v")))
        block = self.key_block if self.compiled is None else self.compiled[f"{path}/Attention"].key_block
        scale = (len(q) // heads) ** -0.5
        return Attention(heads, k_step, v_step, scale, block, p.probabilities, causal), smooth

    # -- names -----------------------------------------------------------------------------------------------------

    def _key(self, path: str, aliases: tuple[str, ...]) -> str:
        for name in (*(f"{path}/{n}" for n in ("Conv", "Gemm", "MatMul", "Add")), *aliases):
            found = [k for k in self._keys if k == name or ("*" in name and fnmatchcase(k, name))]
            if len(found) == 1:
                return self._keys[found[0]]
        raise self._unknown(path)

    def _node(self, key: str) -> str:
        return key.removeprefix(self._prefix).split("#")[0]

    def _unknown(self, path: str) -> DpuError:
        return DpuError(
            self.calibration.where,
            f"no statistics of '{self._prefix}{path}'",
            why="the predictor finds layers by the names that torch's exporter gives ONNX nodes",
            hint="calibrate an export of dpuc export or dpubench quality",
            code="E240",
        )

    def _operands(self, key: str) -> list[str]:
        return [o for o in ("x", "x2") if f"{key}:{o}" in self.calibration]

    def _absmax(self, key: str, operand: str) -> float:
        return self.covered(f"{key}:{operand}")

    def _gram(self, key: str, same: str) -> Tensor | None:
        if not self.gptq:
            return None
        names = [key, *(k for k in self.calibration.grams if same and re.search(same, k))]
        found = next((g for n in names if (g := self.calibration.gram(f"{n.removesuffix(':x')}:x"))), None)
        return None if found is None else torch.from_numpy(found())

    def _precision(self, key: str, node: str, aliases: tuple[str, ...], weights: set[int]) -> Precision:
        names = (key, node, *(a for a in aliases if "*" not in a))
        rule = next((i for i, r in enumerate(self.policy.rules) if r.names(self.part, names)), None)
        p = self.policy.resolve(rule)
        if self.compiled is not None:
            has = self.compiled.get(node)
            if weights:
                scale = "static" if node.endswith("/Conv") else p.scale
                fits = has and p.weights in has.weights and has[1:3] == (p.activation_bits, scale)
            else:
                fits = has and has.bits == p.probabilities
            if not fits:
                what = f"layer '{node}' of {self.part}: compiled as {has}, the policy says {p}"
                why = "the prediction would be of another precision"
                raise DpuError(self.policy.name, what, why=why, hint="compile the program again", code="E522")
        return p


def _conv_weight(w: Tensor, widths: list[int], ratios: list[Tensor], bits: int) -> Weight:
    """Of a kernel [n, c, kh, kw], its channels in the order of the kernel; of int4 each source and tap has groups of
    its own."""
    n, c, kh, kw = w.shape
    w = torch.cat([p * r for p, r in zip(torch.split(w, widths, dim=1), ratios, strict=True)], dim=1)
    if bits == 8:
        return int8_weight(w.flatten(1))
    taps = [p.permute(0, 2, 3, 1).flatten(1) for p in torch.split(w, widths, dim=1)]
    found = int4_weight(torch.cat(taps, dim=1), [width for width in widths for _ in range(kh * kw)])
    sources = torch.split(found.q, [x * kh * kw for x in widths], dim=1)
    back = [torch.unflatten(p, 1, (kh, kw, -1)).permute(0, 3, 1, 2) for p in sources]
    return Weight(torch.cat(back, dim=1).reshape(n, c * kh * kw), found.scale)
