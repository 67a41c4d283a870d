"""MXU: one instruction's whole matrix product, exact in int32."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..ir.isa import Buffer, MmMode, RowMax
from ..ir.numerics import matmul_i8
from . import threads
from .decode import Decoded
from .state import Fault, Tally, Tile

TORCH_MACS = 1 << 24  # a product of this size pays for importing torch (about two seconds, once)
SHARED_MACS = 1 << 23  # a product of this size is shared among threads
WIDE_MACS = 1 << 22  # smaller products of several column tiles are done as one

I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]


class _Product:
    """a[m, k] w[k, n] -> int32 on the CPU's int8 units through torch if it proves exact here, else by numpy."""

    def __init__(self) -> None:
        self.torch: Any = None
        self.refused = False

    def __call__(self, a: I8, w: I8, out: I32 | None = None) -> I32:
        """The product, in `out` (contiguous) when given."""
        if self.torch is None and not self.refused:
            size = a.shape[0] * a.shape[1] * w.shape[1]
            if "torch" in sys.modules or size >= TORCH_MACS:
                self._probe()
        if self.torch is None:
            result = matmul_i8(a, w)
            if out is not None:
                out[...] = result
            return result if out is None else out
        torch = self.torch
        # torch takes no view whose rows overlap, such as column tiles that overlap in WGT; what is contiguous stays.
        a, w = np.ascontiguousarray(a), np.ascontiguousarray(w)
        if out is None:
            out = np.empty((a.shape[0], w.shape[1]), np.int32)
        before = torch.get_num_threads()
        large = a.shape[0] * a.shape[1] * w.shape[1] >= SHARED_MACS
        wanted = threads.count() if large else 1  # waking a pool takes long, much longer on a busy machine
        if wanted != before:
            torch.set_num_threads(wanted)
        try:
            torch._int_mm(torch.from_numpy(a), torch.from_numpy(w), out=torch.from_numpy(out))
        finally:
            if wanted != before:
                torch.set_num_threads(before)
        return out

    def _probe(self) -> None:
        """Accept torch only if extreme operands come out exact: CPUs without VNNI saturate pairs in 16 bits."""
        self.refused = True
        try:
            torch = importlib.import_module("torch")
            extremes = np.array([[-128, 127, -1, 1], [-128, -128, 127, 127]], np.int8).repeat(64, axis=1)
            weights = np.array([127, -127], np.int8).repeat(32)[None].repeat(256, axis=0)
            self.torch = torch
            for m in (1, 2, 64):
                a = np.ascontiguousarray(np.resize(extremes, (m, 256)))
                if not np.array_equal(self(a, weights), matmul_i8(a, weights)):
                    self.torch = None
                    return
        except (ImportError, AttributeError, RuntimeError):
            self.torch = None


product = _Product()


@cache
def kernels() -> ModuleType:
    """The compiled copies, imported when the first word needs them."""
    return importlib.import_module(".mxu_kernel", __package__)


def checked(tile: Tile, w: Decoded) -> tuple[int, int]:
    """Rows and length of the reduction of an MM word, its fields checked."""
    (_, _, _, _, _, act, wgt, acc, nx, ny, sx, sy, nc, sc, nkx, nky, skx, sky, nn, wn, an) = w[:21]
    mode, rowmax, rowmax_at, init_at, valid = w[21:26]
    for name, count in (("nx", nx), ("ny", ny), ("nc", nc), ("nkx", nkx), ("nky", nky), ("nn", nn)):
        if not count:
            raise Fault("E410", name, "is 0, must be at least 1")
    c = tile.cols
    rows, k = nx * ny, nky * nkx * nc * tile.rows
    last = act + (ny - 1) * sy + (nx - 1) * sx + (nky - 1) * sky + (nkx - 1) * skx + (nc - 1) * sc
    tile.check(Buffer.ACT, "act", act, last + 1)
    tile.check(Buffer.WGT, "wgt", wgt, wgt + (nn - 1) * wn + k)
    tile.check(Buffer.ACC, "acc", acc, acc + (nn - 1) * an + rows)
    if nn > 1 and an < rows:
        raise Fault("E410", "an", f"is {an}: column tiles of {rows} rows would overlap in ACC")
    if mode == MmMode.COLUMN:
        tile.check(Buffer.PARAM, "init_at", init_at, init_at + nn * c)
    elif mode > MmMode.COLUMN:
        raise Fault("E410", "mode", f"{mode} is no mode")
    if rowmax > RowMax.ACCUMULATE:
        raise Fault("E410", "rowmax", f"{rowmax} is no row maximum mode")
    if rowmax != RowMax.NONE:
        if not 0 < valid <= nn * c:
            raise Fault("E410", "valid", f"is {valid}, must be 1 to {nn * c}")
        tile.check(Buffer.PARAM, "rowmax_at", rowmax_at, rowmax_at + rows)
    return rows, k


def matrix(tile: Tile, w: Decoded, tally: Tally) -> None:
    """Execute an MM word."""
    rows, k = checked(tile, w)
    (act, wgt, acc, nx, ny, sx, sy, nc, sc, nkx, nky, skx, sky, nn, wn, an) = w[5:21]
    mode, rowmax, rowmax_at, init_at, valid = w[21:26]
    c = tile.cols
    if k == nc * c and (sc == 1 or nc == 1) and (rows == 1 or (ny == 1 and sx == nc)):
        a: I8 = tile.act[act * c : act * c + rows * k].reshape(rows, k)
    else:
        streamed: I8 = np.ndarray(
            (ny, nx, nky, nkx, nc, c), np.int8, tile.act, act * c, (sy * c, sx * c, sky * c, skx * c, sc * c, 1)
        )
        a = np.ascontiguousarray(streamed.reshape(rows, k))
    weights: I8 = np.ndarray((nn, k, c), np.int8, tile.wgt, wgt * c, (wn * c, c, 1))
    if int(np.minimum.reduce(weights, axis=None)) == -128:
        raise Fault("E415", "wgt", "a weight is -128", "stationary operands saturate to +-127")
    sums: I32 = np.ndarray((nn, rows, c), np.int32, tile.acc, acc * 4 * c, (an * 4 * c, 4 * c, 4))
    if mode == MmMode.COLUMN:
        sums[...] = tile.param_i[init_at : init_at + nn * c].reshape(nn, 1, c)
    if nn > 1 and rows * k * c < WIDE_MACS:
        wide = weights.transpose(1, 0, 2).reshape(k, nn * c)
        kernels().narrow(product(a, wide), sums, mode != MmMode.ZERO)
    else:
        for n in range(nn):
            if mode == MmMode.ZERO:
                product(a, weights[n], sums[n])
            else:
                sums[n] += product(a, weights[n])
    if rowmax != RowMax.NONE:
        best = tile.param_i[rowmax_at : rowmax_at + rows]
        kernels().row_max(sums, valid, best, rowmax == RowMax.ACCUMULATE)
    tally.macs += rows * k * nn * c
