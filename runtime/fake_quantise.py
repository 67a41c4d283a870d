"""One operation of the canonical graph as the DPU computes it: float32 arithmetic on operands that were quantised.

The quantisers are those of `docs/numerics.md` with the scales of `passes/quantise.py`. What is left out is far below
them: float16 storage of results, and tables where here there are `exp2` and a division.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ..errors import DpuError
from ..ir import graph as g
from ..ir.graph import ints, shape_of
from ..ir.locations import where
from ..ir.naming import op_names
from ..passes.calibration import stat_key
from ..passes.quantise import Statistics, scale_of
from ..passes.unsupported import check
from ..passes.weights import column_scales, quantise_columns, upsample_phase
from .float_interpreter import Get, evaluate
from .tensors import F32

if TYPE_CHECKING:
    from torch import Tensor

QUANTISED = (g.LinearOp, g.ConvOp, g.AttentionOp)
"""The operations with int8 operands; the others work on float32 and float16 values."""
_LEAST = 2.0**-24  # floor of an absolute maximum
_MASKED = -60000.0  # what is added to a score, in octaves, so that its probability is 0
_CLAMP = 96.0  # octaves by which a later key block may outweigh the first


class FakeQuantiser:
    """Evaluates operations on quantised operands; the statistics are those that a program is compiled from."""

    def __init__(self, module: ModuleOp, statistics: Statistics) -> None:
        self._names, self._statistics = op_names(module), statistics

    def __call__(self, op: Operation, get: Get) -> Tensor:
        """The result of a linear, a convolution or an attention.

        Raises:
            DpuError: the operation has no quantised form, or no statistics.
        """
        check(op)
        match op:
            case g.LinearOp():
                return self._linear(op, get)
            case g.ConvOp():
                return self._conv(op, get)
            case g.AttentionOp():
                return self._attention(op, get)
        raise DpuError(where(op), f"'{op.name}' has no quantised operands", code="E220")

    # -- linear: dynamic per token, weights per output channel; smoothing scales columns, which it does not see -------

    def _linear(self, op: g.LinearOp, get: Get) -> Tensor:
        import torch

        x = get("x") if op.x2 is None else torch.cat([get("x"), get("x2")], dim=-1)
        x = _token_wise(x if isinstance(op.x.owner, g.LayerNormOp) else _half(x))
        (w,) = _columns(get("w").numpy())
        first = shape_of(op.x)[2]
        return evaluate(op, _with(get, x=x[..., :first], x2=x[..., first:], w=torch.from_numpy(w)))

    # -- convolution: one static scale a source, weights per output channel -------------------------------------------

    def _conv(self, op: g.ConvOp, get: Get) -> Tensor:
        import torch

        roles = ["x"] if op.x2 is None else ["x", "x2"]
        scales = [self.input_scale(op, role) for role in roles]
        inputs = {}
        for role, scale in zip(roles, scales, strict=True):
            normed = isinstance(getattr(op, role).owner, g.GroupNormOp)
            inputs[role] = _static(get(role) if normed else _half(get(role)), torch.tensor(scale))
        ratio = np.float32(scales[-1] / scales[0])
        weight, first = get("w").numpy(), shape_of(op.x)[2]
        if op.upsample is None:
            w = torch.from_numpy(_kernel(weight, first, ratio))
            return evaluate(op, _with(get, w=w, **inputs))
        phases = {(py, px): _kernel(upsample_phase(weight, py, px), first, ratio) for py in (0, 1) for px in (0, 1)}
        return _upsampled(op, torch.cat(list(inputs.values()), dim=-1), phases, get)

    def input_scale(self, op: g.ConvOp, role: str) -> np.float32:
        """The static scale of a convolution's input: GroupNorm stores one int8 tensor for all that read it."""
        value = getattr(op, role)
        readers = [(op, role)]
        if isinstance(value.owner, g.GroupNormOp):
            convs = [u.operation for u in value.uses if isinstance(u.operation, g.ConvOp)]
            readers = [(c, "x" if c.x is value else "x2") for c in convs]
        return np.float32(scale_of(max(self._statistics.absmax(stat_key(self._names[c], r)) for c, r in readers)))

    # -- attention: queries per token and head, keys per head, values per channel about their mean --------------------

    def _attention(self, op: g.AttentionOp, get: Get) -> Tensor:
        import torch

        heads, name = op.heads.value.data, self._names[op]
        q_max, k_max = (
            np.maximum(self._statistics.channel_absmax(stat_key(name, r)), np.float32(1e-6)) for r in ("q", "k")
        )
        smooth = np.clip(np.sqrt(q_max / k_max), 1 / 16, 16).astype(np.float32)
        peaks = self._statistics.channel_absmax(stat_key(name, "k")) * smooth
        k_scale = np.repeat(scale_of(peaks.reshape(heads, -1).max(axis=1)), len(peaks) // heads)
        v_scale = scale_of(self._statistics.centred_absmax(stat_key(name, "v")))
        factor = torch.from_numpy(smooth)
        v = _half(get("v"))
        mean = v.mean(dim=1, keepdim=True)
        q = _token_wise(_heads(_half(get("q") / factor), heads))
        k = _heads(_static(get("k") * factor, torch.from_numpy(k_scale)), heads)
        v = _heads(_static(v - mean, torch.from_numpy(v_scale)), heads)
        mask = torch.zeros(q.shape[2], k.shape[2])
        block, steps = op.key_block.value.data, 255 if op.prob_bits.value.data == 8 else 16319
        if op.causal is not None:  # one block: a later one could have no key that a token sees
            mask, block = torch.full_like(mask, _MASKED).triu(1), k.shape[2]
        y = _softmax_product(q, k, v, op.scale.value.data, mask, block, steps)
        return y.transpose(1, 2).flatten(2) + mean


def _with(get: Get, **replaced: Any) -> Get:
    return lambda name: replaced[name] if name in replaced else get(name)


def _half(x: Tensor) -> Tensor:
    return x.clamp(-65504, 65504).half().float()


def _token_wise(x: Tensor) -> Tensor:
    amax = x.abs().amax(dim=-1, keepdim=True).clamp(min=_LEAST)
    return (x * (127 / amax)).round().clamp(-127, 127) * (amax * (1 / 127))


def _static(x: Tensor, scale: Tensor) -> Tensor:
    return (x * (1 / scale)).round().clamp(-127, 127) * scale


def _columns(*parts: F32) -> list[F32]:
    """Matrices [k, n] with int8 columns of common scales, as floats again."""
    scale = column_scales(*parts)
    return [quantise_columns(p, scale) * scale for p in parts]


def _kernel(w: F32, first: int, ratio: np.float32) -> F32:
    """A kernel [n, c, kh, kw] as int8; the channels of a second source are multiplied by `ratio` before."""
    n = len(w)
    parts = [w[:, :first], w[:, first:] * ratio]
    found = _columns(*(p.reshape(n, -1).T for p in parts if p.size))
    kernels = [m.T.reshape(p.shape) for m, p in zip(found, parts, strict=False)]
    return np.concatenate([kernels[0], *(k / ratio for k in kernels[1:])], axis=1)


def _upsampled(op: g.ConvOp, x: Tensor, phases: Mapping[tuple[int, int], F32], get: Get) -> Tensor:
    """Nearest upsampling and 3x3 as four convolutions of 2x2 taps, and the epilogue."""
    import torch
    import torch.nn.functional as F

    if ints(op.pad) != (1, 1, 1, 1) or shape_of(op.w)[2:] != (3, 3):
        raise DpuError(where(op), "upsampling with other than a 3x3 kernel and a border of 1", code="E220")
    h, w = op.height.value.data, op.width.value.data
    image = F.pad(x.reshape(len(x), h, w, -1).permute(0, 3, 1, 2), (1, 1, 1, 1))
    y = torch.empty(len(x), shape_of(op.w)[0], 2 * h, 2 * w)
    for (py, px), kernel in phases.items():
        window = image[:, :, py : py + h + 1, px : px + w + 1]
        y[:, :, py::2, px::2] = F.conv2d(window, torch.from_numpy(kernel), get("bias"))
    y = y.permute(0, 2, 3, 1).reshape(len(x), 4 * h * w, -1)
    for name in ("temb", "residual"):
        more = get(name)
        y = y if more is None else y + more
    return y


def _heads(x: Any, heads: int) -> Any:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _softmax_product(q: Any, k: Any, v: Any, scale: float, mask: Any, block: int, steps: int) -> Tensor:
    """`softmax(scale q k^T + mask) v` with probabilities in whole steps below the maximum of their block of keys."""
    import torch

    first: Tensor | None = None
    out = total = torch.zeros(())
    blocks = (k.split(block, dim=2), v.split(block, dim=2), mask.split(block, dim=1))
    for keys, values, hidden in zip(*blocks, strict=True):
        scores = q @ keys.transpose(2, 3) * (scale * float(np.log2(np.e))) + hidden
        top = scores.amax(dim=-1, keepdim=True)
        p = torch.exp2(scores - top)
        x, sums = (p * steps).round() / steps @ values, p.sum(dim=-1, keepdim=True)
        if first is None:
            first, out, total = top, x, sums
        else:
            weight = torch.exp2((top - first).clamp(max=_CLAMP))
            out, total = out + x * weight, total + sums * weight
    return out / total
