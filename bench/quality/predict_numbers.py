"""The predictor's quantisers, written in torch from docs/numerics.md alone: integers are kept as whole float32 numbers.

Nothing here comes from `passes/`, `simulator/` or `runtime/`: what both sides say alike, two people would have to get
wrong alike. Sums of products are torch's float32 ones: above 2^24 they round, a millionth of the steps measured here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

TOP = {8: 127, 15: 16319}
"""The largest integer of an activation of so many bits."""
FLOOR = 2.0**-24
"""Of an absolute maximum, so that a row of zeros has a scale."""
GROUP = 128
"""Weights of int4 that share a group integer."""
CLIPS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65)
"""Parts of a group's largest weight that its last code may stand for: the compiler's search."""
LARGEST = (15, 14, 13, 12, 11, 10)
"""Integers that the group with the largest step may have: the compiler's search."""
DAMPING = 0.01
"""Of GPTQ: part of the mean energy of an input that is added to each."""


def half(x: Tensor) -> Tensor:
    """As it is stored: rounded to float16, beyond its range the largest float16."""
    return x.clamp(-65504.0, 65504.0).half().float()


def scale_of(amax: Tensor, bits: int = 8) -> Tensor:
    """A calibrated maximum as a step; 1 where nothing was seen."""
    return (amax.float() / TOP[bits]).where(amax > 0, 1.0)


def static(x: Tensor, scale: Tensor, bits: int = 8) -> Tensor:
    """Integers of a step that calibration gave."""
    return (x * (1.0 / scale)).round().clamp(-TOP[bits], TOP[bits])


def dynamic(x: Tensor, bits: int = 8) -> tuple[Tensor, Tensor]:
    """Integers of each row (the last dimension) by its own maximum, and the rows' steps [..., 1]."""
    amax = x.abs().amax(dim=-1, keepdim=True).clamp(min=FLOOR)
    q = (x * (TOP[bits] * (1.0 / amax))).round().clamp(-TOP[bits], TOP[bits])
    return q, amax * (1.0 / TOP[bits])


@dataclass(frozen=True)
class Weight:
    """Integers [n, k] and a scale for each output channel [n]."""

    q: Tensor
    scale: Tensor


def int8_weight(w: Tensor) -> Weight:
    """Of [n, k]: the largest of a channel is 127."""
    scale = scale_of(w.abs().amax(dim=1))
    return Weight((w / scale[:, None]).round().clamp(-127, 127), scale)


def int4_weight(w: Tensor, widths: Sequence[int], gram: Tensor | None = None) -> Weight:
    """Of [n, k]: codes of 4 bits times group integers, |g| <= 15. Groups begin anew in each of the pieces `widths`.

    A group's step is the best of a few that reach its largest weight, of either sign; the channel's scale is one of
    which all steps are multiples, last fitted by least squares. With a `gram` matrix [k, k] of the inputs codes are
    chosen anew by GPTQ (`_compensated`).
    """
    import torch

    pieces = [p for piece in torch.split(w, list(widths), dim=1) for p in torch.split(piece, GROUP, dim=1)]
    blocks = torch.stack([torch.nn.functional.pad(p, (0, GROUP - p.shape[1])) for p in pieces], dim=1)  # [n, G, 128]
    peak = blocks.gather(2, blocks.abs().argmax(dim=2, keepdim=True)).squeeze(2)
    tried = torch.stack([peak * clip / code for clip in CLIPS for code in (-8.0, 7.0)])
    step = _least(blocks, tried)
    most = step.abs().amax(dim=1)
    scales = torch.stack([most / m for m in LARGEST]).where(most > 0, 1.0)
    errors = torch.stack([_error(blocks, _multiple(step, s) * s[:, None]).double().sum(dim=1) for s in scales])
    scale = scales.gather(0, errors.argmin(dim=0, keepdim=True)).squeeze(0)
    near = _multiple(step, scale)
    around = torch.stack([(near.abs() + d).clamp(1, 15) * near.sign() for d in (0.0, -1.0, 1.0)])
    chosen = torch.stack([_error(blocks, g * scale[:, None]) for g in around]).argmin(dim=0, keepdim=True)
    g = around.gather(0, chosen).squeeze(0)
    whole = _codes(blocks, g * scale[:, None]) * g[:, :, None]
    above, below = (x.mul(whole).double().sum(dim=(1, 2)) for x in (blocks, whole))
    scale = (above / below.clamp(min=1e-300)).float().where(above > 0, scale)
    if gram is not None:
        group = torch.cat([torch.full((p.shape[1],), i, device=w.device) for i, p in enumerate(pieces)])
        return Weight(_compensated(w, g[:, group], scale, gram), scale)
    q = torch.cat([whole[:, i, : p.shape[1]] for i, p in enumerate(pieces)], dim=1)
    return Weight(q, scale)


def _codes(blocks: Tensor, step: Tensor) -> Tensor:
    """4-bit codes [n, G, 128] of steps [n, G]; 0 of a step of 0."""
    safe = step.where(step != 0, 1.0)[:, :, None]
    return (blocks / safe).round().clamp(-8, 7).where((step != 0)[:, :, None], 0.0)


def _error(blocks: Tensor, step: Tensor) -> Tensor:
    """Squared error of each group, in float32 and summed from the first weight to the last: several steps are often
    equally good, and the compiler's search takes the one that such a sum makes the least."""
    import torch

    squares = (blocks - _codes(blocks, step) * step[:, :, None]).square()
    total = torch.zeros_like(step)
    for x in squares.permute(2, 0, 1).contiguous():
        total = total + x
    return total


def _least(blocks: Tensor, tried: Tensor) -> Tensor:
    """Of each group's steps [tries, n, G] the one with the least error."""
    import torch

    errors = torch.stack([_error(blocks, s) for s in tried])
    return tried.gather(0, errors.argmin(dim=0, keepdim=True)).squeeze(0)


def _multiple(step: Tensor, scale: Tensor) -> Tensor:
    """The group integers [n, G] whose multiples of a channel's scale [n] are nearest to its steps."""
    g = (step.abs() / scale[:, None]).round().clamp(1, 15)
    return g.where(step >= 0, -g)


def _compensated(w: Tensor, g: Tensor, scale: Tensor, gram: Tensor) -> Tensor:
    """Integers [n, k] by GPTQ (arXiv 2210.17323): input by input, those with the most energy first; what rounding one
    weight loses is made up for by those that follow."""
    import torch

    energy = gram.diagonal().double()
    order = energy.argsort(descending=True, stable=True)
    hessian = gram.double()[order][:, order]
    hessian.diagonal().copy_(energy[order] + DAMPING * max(float(energy.mean()), 1e-30))
    upper = torch.linalg.cholesky(torch.linalg.inv(hessian)).mT
    left, steps = w.double()[:, order], (g.double() * scale.double()[:, None])[:, order]
    q = torch.empty_like(left)
    for i in range(left.shape[1]):
        q[:, i] = (left[:, i] / steps[:, i]).round().clamp(-8, 7)
        lost = (left[:, i] - q[:, i] * steps[:, i]) / upper[i, i]
        left[:, i + 1 :] -= lost[:, None] * upper[i, i + 1 :]
    found = torch.empty_like(w)
    found[:, order] = q.float()
    return found * g
