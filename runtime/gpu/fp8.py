"""Linears of the transformer blocks in FP8 (e4m3) on the tensor cores: what the MLPerf entries run, in torch.

Weights have one scale a column, activations one a row, taken from each row while it runs. The product is
`torch._scaled_mm`, which calls cuBLAS; nothing is emulated. As in MLPerf's entries the embeddings, the first and the
last convolution and all convolutions stay in float16.
"""

from __future__ import annotations

from typing import Any

import torch

LARGEST = 448.0
"""The largest float8_e4m3fn."""


class Fp8Linear(torch.nn.Module):
    """A linear with FP8 operands; bfloat16 leaves the product, as row scales demand, and becomes the input's type."""

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        w = linear.weight.detach().float()
        scale = (w.abs().amax(1, keepdim=True) / LARGEST).clamp_min(1e-12)
        self.register_buffer("weight", (w / scale).to(torch.float8_e4m3fn).contiguous())
        self.register_buffer("scale", scale.reshape(1, -1).contiguous())
        bias = linear.bias
        self.register_buffer("bias", None if bias is None else bias.detach().to(torch.bfloat16))

    def _held(self) -> tuple[Any, Any, Any]:
        return self.weight, self.scale, self.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., K] to [..., N]."""
        weight, columns, bias = self._held()
        flat = x.reshape(-1, x.shape[-1]).float()
        scale = (flat.abs().amax(1, keepdim=True) / LARGEST).clamp_min(1e-12)
        rows = (flat / scale).to(torch.float8_e4m3fn)
        out = torch._scaled_mm(
            rows,
            weight.t(),
            scale_a=scale,
            scale_b=columns,
            bias=bias,
            out_dtype=torch.bfloat16,
            use_fast_accum=True,
        )
        return out.to(x.dtype).reshape(*x.shape[:-1], out.shape[-1])


def to_fp8(module: torch.nn.Module) -> int:
    """Replace the linears of every transformer block, in place; returns how many."""
    found = 0
    blocks = [m for m in module.modules() if type(m).__name__ == "BasicTransformerBlock"]
    for block in blocks:
        for parent in list(block.modules()):
            for name, child in list(parent.named_children()):
                if type(child) is torch.nn.Linear and child.in_features % 16 == 0 and child.out_features % 16 == 0:
                    setattr(parent, name, Fp8Linear(child))
                    found += 1
    return found
