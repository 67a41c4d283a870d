"""Where reductions are cut: the one thing of a schedule that is part of a program's numerics (`docs/numerics.md`).

These cuts are what the lowering planned, not arithmetic: rows of each column-statistics partial, and how many partials
one instruction combines.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...ir.arch import Arch
from ...ir.graph import btc, conv_out_size
from ...ir.qgraph import QConvOp, QLinearOp
from ...passes.lower.context import stat_parts
from ...passes.lower.conv import plan_conv
from ...passes.lower.linear import plan_linear
from ...passes.lower.rowwise import stat_chunk

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Cuts:
    """The cuts of one arch."""

    arch: Arch

    @property
    def columns(self) -> int:
        """Columns that one tree of a row sum takes."""
        return self.arch.cols

    def linear(self, op: QLinearOp) -> list[list[Rows]]:
        """Tokens of each partial of each sample, in order."""
        samples, tokens, _ = btc(op.x, "x")
        rows = plan_linear(op, op.name, self.arch)[0].blocks.rows
        parts = stat_parts(samples, tokens, self.arch.tiles, rows)
        return [[np.arange(lo, hi) for lo, hi in parts[b]] for b in sorted(parts)]

    def conv(self, op: QConvOp) -> list[list[Rows]]:
        """Pixels of each partial of each sample, in order."""
        plan, width = plan_conv(op, op.name, self.arch), conv_out_size(op)[1]
        parts = plan.parts(btc(op.x, "x")[0], self.arch.tiles)
        step = plan.step
        return [
            [
                (
                    (step * np.arange(r.y, r.y + r.ny)[:, None] + p.py) * width
                    + step * np.arange(r.x, r.x + r.nx)
                    + p.px
                ).reshape(-1)
                for r, p in parts[b]
            ]
            for b in sorted(parts)
        ]

    def combined(self, channels: int) -> int:
        """Partials that one instruction combines, for a tensor of so many channels."""
        return stat_chunk(-(-channels // self.arch.cols), self.arch.words["vbuf"])
