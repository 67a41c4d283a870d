"""How close the functional simulator's matrix word comes to the bare int8 product of torch on the same operands."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from pydantic import BaseModel, ConfigDict

from ..ir.arch import load_arch
from ..ir.isa import Opcode, word
from ..simulator.machine import Machine

SHAPES = ((342, 1280, 64), (342, 1280, 192), (1024, 640, 64))
"""Rows, reduction, columns of one MM word: panels of SDXL's linears on dpu_f2."""


class ProductRow(BaseModel):
    """One shape: rates in GMAC/s, the best of several runs, and their ratio."""

    model_config = ConfigDict(frozen=True)

    rows: int
    reduction: int
    columns: int
    simulator: float
    torch_int_mm: float

    @property
    def ratio(self) -> float:
        """The simulator's rate over the bare product's."""
        return self.simulator / self.torch_int_mm


def best_seconds(run: Callable[[], object], repeats: int = 20) -> float:
    """The shortest of `repeats` runs after one to warm up."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def measure() -> list[ProductRow]:
    """Every shape on one thread, simulator and peer in turn."""
    import torch

    torch.set_num_threads(1)
    arch = load_arch("dpu_f2")
    rng = np.random.default_rng(0)
    found = []
    for rows, k, n in SHAPES:
        machine = Machine(arch, {})
        tile = machine.tiles[0]
        tile.act[...] = rng.integers(-127, 128, tile.act.shape, np.int8)
        tile.wgt[...] = rng.integers(-127, 128, tile.wgt.shape, np.int8)
        nk, nn = k // arch.rows, n // arch.cols
        mm = word(Opcode.MM, nx=rows, ny=1, sx=nk, nc=nk, sc=1, nkx=1, nky=1, nn=nn, wn=nk * arch.rows, an=rows)
        stream = np.concatenate([mm, word(Opcode.END)])
        idle = [word(Opcode.END) for _ in range(arch.tiles - 1)]
        a = torch.from_numpy(rng.integers(-127, 128, (rows, k), np.int8))
        w = torch.from_numpy(rng.integers(-127, 128, (k, n), np.int8))
        macs = rows * k * n / 1e9
        simulator = macs / best_seconds(lambda s=stream, m=machine, i=idle: m.run([s, *i]))  # type: ignore[misc]
        peer = macs / best_seconds(lambda a=a, w=w: torch._int_mm(a, w))  # type: ignore[misc]
        found.append(ProductRow(rows=rows, reduction=k, columns=n, simulator=simulator, torch_int_mm=peer))
    return found


def text(rows: list[ProductRow]) -> str:
    """A table of rates and ratios."""
    lines = [f"{'rows x K x N':<18}{'simulator':>12}{'torch':>10}  GMAC/s   ratio"]
    for r in rows:
        shape = f"{r.rows} x {r.reduction} x {r.columns}"
        lines.append(f"{shape:<18}{r.simulator:>12.1f}{r.torch_int_mm:>10.1f}{r.ratio:>15.2f}")
    return "\n".join(lines)
