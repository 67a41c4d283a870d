"""What calibration records of the activations that a float graph reads and gives.

Of every operand with a scale: the largest magnitude of each channel, over everything (`channel_absmax`) and averaged
over the runs, one a prompt and step (`channel_mean`); the mean of the runs' maxima (`mean_absmax`). Of inputs of
linears and convolutions also how many magnitudes fall into each bin (`counts`), of those of linears the mean square
of each channel (`channel_square`) and that of a token's largest magnitude (`token_square`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation

from ..ir import graph as g
from ..ir.naming import op_names
from ..passes.calibration import GRAM, stat_key, statistic_name
from ..passes.collectors import BINS, LEAST_OCTAVE, PER_OCTAVE

if TYPE_CHECKING:
    from torch import Tensor
    from xdsl.dialects.builtin import ModuleOp

F32 = npt.NDArray[np.float32]
_WATCHED: dict[type[Operation], tuple[str, ...]] = {
    g.LinearOp: ("x", "x2"),
    g.ConvOp: ("x", "x2"),
    g.AttentionOp: ("q", "k", "v"),
}


class Statistics:
    """Running statistics by `<key>:<statistic>`; `operands` and `results` are observers of the float interpreter.

    `tensors` is filled in place, so that the statistics of several parts can share it. With `grams` the sums of x^T x
    of each linear's input are recorded too, once for all linears that read it: a matrix of all its channels.
    """

    def __init__(
        self, module: ModuleOp, tensors: dict[str, F32] | None = None, part: str = "unet", grams: bool = False
    ) -> None:
        self._grams: dict[tuple[object, object], Operation] | None = {} if grams else None
        self._names = {op: statistic_name(part, name) for op, name in op_names(module).items()}
        self.tensors: dict[str, F32] = tensors if tensors is not None else {}

    def operands(self, op: Operation, values: Sequence[Tensor]) -> None:
        """Record the activations that `op` reads."""
        watched = _WATCHED.get(type(op))
        if watched is None:
            return
        given = dict(zip(op.operands, values, strict=True))
        if isinstance(op, g.LinearOp) and self._grams is not None and self._grams.setdefault((op.x, op.x2), op) is op:
            sources = [given[v] for v in (op.x, op.x2) if v is not None]
            self._gram(f"{stat_key(self._names[op], 'x')}:{GRAM}", sources)
        for operand in watched:
            value = getattr(op, operand)
            if value is None:
                continue
            key, x = stat_key(self._names[op], operand), given[value]
            size = x.abs()
            peaks = size.amax(dim=(0, 1))
            self._maximum(f"{key}:channel_absmax", peaks)
            self._average(f"{key}:channel_mean", peaks)
            self._average(f"{key}:mean_absmax", peaks.amax())
            if not isinstance(op, g.AttentionOp):
                self._count(f"{key}:counts", size)
            if isinstance(op, g.LinearOp):
                self._average(f"{key}:channel_square", x.double().square().mean(dim=(0, 1)))
                self._average(f"{key}:token_square", size.amax(dim=-1).double().square().mean())
            if operand == "v":
                mean = x.mean(dim=1, keepdim=True)
                self._maximum(f"{key}:centred_absmax", (x - mean).abs().amax(dim=(0, 1)))
                self._average(f"{key}:mean", mean.mean(dim=(0, 1)))

    def results(self, op: Operation, values: Sequence[Tensor]) -> None:
        """Record the magnitude of what `op` gives."""
        if not isinstance(op, g.ParamOp):
            self._maximum(f"{stat_key(self._names[op], 'y')}:absmax", values[0].abs().amax())

    def _maximum(self, name: str, found: Tensor) -> None:
        new = found.cpu().numpy()
        old = self.tensors.get(name)
        self.tensors[name] = np.array(new if old is None else np.maximum(old, new), np.float32)

    def _count(self, name: str, size: Tensor) -> None:
        """Add magnitudes to a histogram; `passes/collectors.py` says what its bins are."""
        import torch

        first = (127 + LEAST_OCTAVE) * PER_OCTAVE
        bins = (size.contiguous().view(torch.int32) >> 19).sub_(first).clamp_(0, BINS - 1)
        new = torch.bincount(bins.flatten(), minlength=BINS).cpu().numpy()
        old: Any = self.tensors.get(name)
        self.tensors[name] = new if old is None else old + new

    def _gram(self, name: str, sources: list[Tensor]) -> None:
        import torch

        x = torch.cat(sources, dim=-1).flatten(0, -2).double()
        old = self.tensors.get(name)
        new = (x.T @ x).cpu().numpy()
        self.tensors[name] = np.array(new if old is None else old + new, np.float32)

    def _average(self, name: str, found: Tensor) -> None:
        count = f"{name}.count"
        n = float(self.tensors.get(count, np.zeros((), np.float32)))
        old = self.tensors.get(name, np.zeros(found.shape, np.float32))
        self.tensors[name] = np.array(old + (found.cpu().numpy() - old) / np.float32(n + 1), np.float32)
        self.tensors[count] = np.array(n + 1, np.float32)
