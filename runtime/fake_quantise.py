"""One operation of the canonical graph as the DPU computes it: float32 arithmetic on operands that were quantised.

The quantisers are those of `docs/numerics.md` with the scales of `passes/quantise.py`. What is left out is far below
them: float16 storage of results, and tables where here there are `exp2` and a division; int4 weights are rounded to
nearest, without GPTQ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ..errors import DpuError
from ..ir import graph as g
from ..ir.graph import ints, shape_of
from ..ir.locations import where
from ..ir.naming import op_names
from ..passes.calibration import stat_key, statistic_name
from ..passes.int4 import contiguous, quantise_int4
from ..passes.policy import Precision
from ..passes.quantise import Statistics, scale_of
from ..passes.quantise_function import LARGEST
from ..passes.unsupported import check
from ..passes.weights import column_scales, quantise_columns, upsample_phase
from .float_interpreter import Get, evaluate
from .tensors import F32

if TYPE_CHECKING:
    from torch import Tensor

QUANTISED = (g.LinearOp, g.ConvOp, g.AttentionOp)
"""The operations with int8 operands; the others work on float32 and float16 values."""
_W8A8 = Precision()
_LEAST = 2.0**-24  # floor of an absolute maximum
_MASKED = -60000.0  # what is added to a score, in octaves, so that its probability is 0
_CLAMP = 96.0  # octaves by which a later key block may outweigh the first


class FakeQuantiser:
    """Evaluates operations on quantised operands; the statistics are those that a program is compiled from.

    `part` says whose they are. `precisions` may be changed between calls; a layer that is not there is w8a8, with
    probabilities as the graph has them. With `keep` quantised weights stay in memory, for many forwards.
    """

    def __init__(self, module: ModuleOp, statistics: Statistics, part: str = "unet", keep: bool = False) -> None:
        self._names = {op: statistic_name(part, name) for op, name in op_names(module).items()}
        self._statistics = statistics
        self._weights: dict[tuple[Operation, int, float], Any] | None = {} if keep else None
        self.precisions: Mapping[Operation, Precision] = {}

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

    def _precision(self, op: Operation) -> Precision:
        return self.precisions.get(op, _W8A8)

    def _kept(self, op: Operation, bits: int, ratio: float, make: Callable[[], Any]) -> Any:
        """A quantised weight, made once if weights are kept."""
        if self._weights is None:
            return make()
        key = (op, bits, ratio)
        if key not in self._weights:
            self._weights[key] = make()
        return self._weights[key]

    # -- linear: per token or static, weights per output channel; smoothing scales columns, which it does not see -----

    def _linear(self, op: g.LinearOp, get: Get) -> Tensor:
        import torch

        precision, first = self._precision(op), shape_of(op.x)[2]
        most = LARGEST[precision.activation_bits]
        x = get("x") if op.x2 is None else torch.cat([get("x"), get("x2")], dim=-1)
        x = x if isinstance(op.x.owner, g.LayerNormOp) else _half(x)
        if precision.scale == "static":
            roles = ("x",) if op.x2 is None else ("x", "x2")
            amax = max(self._statistics.absmax(stat_key(self._names[op], r)) for r in roles)
            x = _static(x, torch.tensor(scale_of(amax, precision.activation_bits)), most)
        else:
            x = _token_wise(x, most)

        def weight() -> Tensor:
            w = get("w").numpy()
            if precision.weights == 8:
                return torch.from_numpy(_columns(w)[0])
            widths = [first] if op.x2 is None else [first, shape_of(op.x2)[2]]
            return torch.from_numpy(np.ascontiguousarray(_int4(w.T, widths).T))

        w = self._kept(op, precision.weights, 1.0, weight)
        return evaluate(op, _with(get, x=x[..., :first], x2=x[..., first:], w=w))

    # -- convolution: one static scale a source, weights per output channel -------------------------------------------

    def _conv(self, op: g.ConvOp, get: Get) -> Tensor:
        import torch

        roles = ["x"] if op.x2 is None else ["x", "x2"]
        scales = [self.input_scale(op, role) for role in roles]
        inputs = {}
        for role, scale in zip(roles, scales, strict=True):
            normed = isinstance(getattr(op, role).owner, g.GroupNormOp)
            value = get(role) if normed else _half(get(role))
            inputs[role] = _static(value, torch.tensor(scale), LARGEST[self._precision(op).activation_bits])
        ratio = np.float32(scales[-1] / scales[0])
        first, bits = shape_of(op.x)[2], self._precision(op).weights
        if op.upsample is None:

            def kernel() -> Tensor:
                return torch.from_numpy(_kernel(get("w").numpy(), first, ratio, bits))

            return evaluate(op, _with(get, w=self._kept(op, bits, float(ratio), kernel), **inputs))

        def phases() -> dict[tuple[int, int], F32]:
            whole = get("w").numpy()
            places = [(py, px) for py in (0, 1) for px in (0, 1)]
            return {(py, px): _kernel(upsample_phase(whole, py, px), first, ratio, bits) for py, px in places}

        made = self._kept(op, bits, float(ratio), phases)
        return _upsampled(op, torch.cat(list(inputs.values()), dim=-1), made, get)

    def input_scale(self, op: g.ConvOp, role: str) -> np.float32:
        """The static scale of a convolution's input: GroupNorm stores one tensor for all that read it, if all of them
        want as many bits."""
        value, bits = getattr(op, role), self._precision(op).activation_bits
        readers = [(op, role)]
        if isinstance(value.owner, g.GroupNormOp):
            convs = [u.operation for u in value.uses if isinstance(u.operation, g.ConvOp)]
            if {self._precision(c).activation_bits for c in convs} == {bits}:
                readers = [(c, "x" if c.x is value else "x2") for c in convs]
        amax = max(self._statistics.absmax(stat_key(self._names[c], r)) for c, r in readers)
        return np.float32(scale_of(amax, bits))

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
        bits = self.precisions[op].probabilities if op in self.precisions else op.prob_bits.value.data
        block, steps = op.key_block.value.data, 255 if bits == 8 else LARGEST[15]
        if op.causal is not None:  # one block: a later one could have no key that a token sees
            mask, block = torch.full_like(mask, _MASKED).triu(1), k.shape[2]
        y = _softmax_product(q, k, v, op.scale.value.data, mask, block, steps)
        return y.transpose(1, 2).flatten(2) + mean


def _with(get: Get, **replaced: Any) -> Get:
    return lambda name: replaced[name] if name in replaced else get(name)


def _half(x: Tensor) -> Tensor:
    return x.clamp(-65504, 65504).half().float()


def _token_wise(x: Tensor, most: int = 127) -> Tensor:
    amax = x.abs().amax(dim=-1, keepdim=True).clamp(min=_LEAST)
    return (x * (most / amax)).round().clamp(-most, most) * (amax * (1 / most))


def _static(x: Tensor, scale: Tensor, most: int = 127) -> Tensor:
    return (x * (1 / scale)).round().clamp(-most, most) * scale


def _int4(rows: F32, widths: Sequence[int]) -> F32:
    """Channels [n, k] with int4 weights, as floats again; `widths` are the pieces that groups do not cross."""
    made = quantise_int4(np.ascontiguousarray(rows, np.float32), contiguous(widths))
    return np.asarray(made.integers() * made.scale[:, None], np.float32)


def _columns(*parts: F32) -> list[F32]:
    """Matrices [k, n] with int8 columns of common scales, as floats again."""
    scale = column_scales(*parts)
    return [quantise_columns(p, scale) * scale for p in parts]


def _kernel(w: F32, first: int, ratio: np.float32, bits: int = 8) -> F32:
    """A kernel [n, c, kh, kw] as int8 or int4; the channels of a second source are multiplied by `ratio` before."""
    n = len(w)
    parts = [w[:, :first], w[:, first:] * ratio]
    if bits == 4:  # a row: sources outside, then taps, then channels
        moved = [p.transpose(0, 2, 3, 1) for p in parts if p.size]
        widths = [p.shape[3] for p in moved for _ in range(p.shape[1] * p.shape[2])]
        whole = _int4(np.concatenate([p.reshape(n, -1) for p in moved], axis=1), widths)
        ends = np.cumsum([p[0].size for p in moved])[:-1]
        kernels = [
            q.reshape(p.shape).transpose(0, 3, 1, 2) for q, p in zip(np.split(whole, ends, axis=1), moved, strict=True)
        ]
        return np.ascontiguousarray(np.concatenate([kernels[0], *(k / ratio for k in kernels[1:])], axis=1))
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
