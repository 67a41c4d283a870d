"""Lower `dpu.q.conv`: rectangles of output pixels, their input with halo in ACT, panels of column tiles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.arch import Arch
from ...ir.graph import btc, conv_out_size, ints, shape_of
from ...ir.isa import DmaFormat, Format, Op2, Reduce
from ...ir.qgraph import QConvOp, weight_bits
from ...ir.tile_program import Buf, Dram
from ..int4 import contiguous, pack_int4, quantise_int4, run_bytes
from ..pack_weights import pack_rows, row_scales, rows_of
from ..tiling import Blocks, Rect, Unit, conv_blocks, part_index, rectangles, reduction_step, slowest_tile
from ..weights import (
    F32,
    Fixed,
    column_sums,
    conv_matrix,
    pack_tiles,
    quantised,
    shifted_bias,
    upsample_phase,
)
from .constants import PANEL, Bytes
from .context import Block, Lowering, all_units, at, exponent, pitch
from .emitter import Col, Emitter, Factors, Red, View
from .vectors import combine


@dataclass(frozen=True)
class Phase:
    """One set of output pixels: (step * y + py, step * x + px). Without upsampling there is one."""

    py: int
    px: int

    @property
    def name(self) -> str:
        return f"p{self.py}{self.px}"


@dataclass(frozen=True)
class ConvPlan:
    """Shape of a lowered convolution: the grid of pixels its rectangles cut, the kernel of each phase, blocks."""

    phases: tuple[Phase, ...]
    step: int
    grid: tuple[int, int]
    kernel: tuple[int, int]
    stride: int
    origin: tuple[int, int]  # input pixel of tap (0, 0) at output (0, 0), phase (0, 0)
    blocks: Blocks
    grain: int  # units are cut at multiples of so many pixels

    def rects(self, unit: Unit) -> list[Rect]:
        return rectangles(unit.lo, unit.hi, self.grid[1], self.blocks.rows)

    def parts(self, samples: int, tiles: int) -> dict[int, list[tuple[Rect, Phase]]]:
        """Column-statistics partials of each sample, in order: one a rectangle and phase."""
        parts: dict[int, list[tuple[Rect, Phase]]] = {}
        for u in part_index(samples, self.grid[0] * self.grid[1], tiles, self.grain):
            parts.setdefault(u.b, []).extend((r, p) for r in self.rects(u) for p in self.phases)
        return parts


def plan_conv(op: QConvOp, where: str, arch: Arch) -> ConvPlan:
    """How a convolution is cut on an arch; its statistics' partials follow from it."""
    n, _, kh, kw = shape_of(op.w)
    ho, wo = conv_out_size(op)
    top, left, _, _ = ints(op.pad)
    widths = [btc(op.x, "x")[2]] + ([btc(op.x2, "x2")[2]] if op.x2 else [])
    cts = tuple(-(-k // arch.cols) for k in widths)
    nt = -(-n // arch.cols)
    more = (op.planes, reduction_step(arch, weight_bits(op)))
    if op.upsample:
        grid = (op.height.value.data, op.width.value.data)
        blocks = conv_blocks(where, cts, 4, 3, 1, grid[1], nt, arch, *more)
        phases = tuple(Phase(py, px) for py in (0, 1) for px in (0, 1))
        return ConvPlan(phases, 2, grid, (2, 2), 1, (-1, -1), blocks, _grain(op, grid, blocks, arch))
    stride = op.stride.value.data
    blocks = conv_blocks(where, cts, kh * kw, max(kh, kw), stride, wo, nt, arch, *more)
    grain = _grain(op, (ho, wo), blocks, arch)
    return ConvPlan((Phase(0, 0),), 1, (ho, wo), (kh, kw), stride, (-top, -left), blocks, grain)


def _grain(op: QConvOp, grid: tuple[int, int], blocks: Blocks, arch: Arch) -> int:
    return slowest_tile(btc(op.x, "x")[0], grid, arch.tiles, blocks.rows, arch.rows).grain


def source_weights(
    op: QConvOp, w: npt.NDArray[Any] | Fixed, widths: list[int], phase: Phase
) -> tuple[list[npt.NDArray[Any]], F32 | None]:
    """The weight of each source [n, width, kh, kw], and column scales if they are integers.

    Taps of an upsampling phase are summed; the ratio of the sources' scales is folded into the second. Only where
    neither happens a weight keeps integers that the model gives.
    """
    ratio = np.float32(1)
    if op.x2_scale is not None:
        ratio = np.float32(op.x2_scale.value.data) / np.float32(op.x_scale.value.data)
    if isinstance(w, Fixed) and (op.upsample or ratio != 1 or weight_bits(op) == 4):
        w = w.floats()
    if isinstance(w, Fixed):
        whole, scale = quantised(w.map(lambda a: a.transpose(2, 3, 1, 0).reshape(-1, len(a))))
        shape = (*w.q.shape[2:], w.q.shape[1], len(w.q))
        q = whole.reshape(shape).transpose(3, 2, 0, 1)
        return [q[:, a : a + k] for a, k in contiguous(widths)], scale
    w = w.astype(np.float32)
    if op.upsample:
        w = upsample_phase(w, phase.py, phase.px)
    pieces = [w[:, a : a + k] for a, k in contiguous(widths)]
    pieces[1:] = [(m * ratio).astype(np.float32) for m in pieces[1:]]
    return pieces, None


def pack_source(
    op: QConvOp, w: npt.NDArray[Any] | Fixed, widths: list[int], phase: Phase, index: int, arch: Arch
) -> tuple[Bytes, F32, npt.NDArray[np.int64]]:
    """The bytes of one source's weight, the column scales, which sources share, and the columns' sums over all sources.

    Taps lie outside, channels inside, padded to full reduction tiles.
    """
    pieces, scale = source_weights(op, w, widths, phase)
    if scale is not None:
        sums = sum(column_sums(m.reshape(len(m), -1).T) for m in pieces)
        return pack_tiles(conv_matrix(pieces[index], arch.rows), arch.rows, arch.cols), scale, np.asarray(sums)
    flat = [rows_of(m.transpose(0, 2, 3, 1)) for m in pieces]
    if weight_bits(op) == 4:
        cuts = contiguous([width for m, width in zip(flat, widths, strict=True) for _ in range(m.shape[1] // width)])
        packed = quantise_int4(np.concatenate(flat, axis=1), cuts)
        count = len(cuts) // len(widths)
        mine = cuts[index * count : (index + 1) * count]
        sums = packed.integers().sum(axis=1, dtype=np.int64)
        return pack_int4(packed, mine, arch.rows, arch.cols), packed.scale, np.asarray(sums)
    scale = row_scales(*flat)
    found = []
    for m, width in zip(flat, widths, strict=True):
        taps = [(k, width) for k in range(0, m.shape[1], width)]
        found.append(pack_rows(m, scale, taps, arch.rows, arch.cols))
    return found[index][0], scale, np.sum([total for _, total in found], axis=0)


@dataclass(frozen=True)
class _Input:
    """A source's pixels in ACT: [planes][rows][columns][channel tiles]."""

    buf: Buf
    rows: int
    columns: int
    tiles: int


class ConvLowering:
    """One convolution: its constants and DRAM tensors, and the template of a unit's blocks."""

    def __init__(self, low: Lowering, op: QConvOp) -> None:
        self.low, self.op, self.arch = low, op, low.arch
        self.samples = btc(op.x, "x")[0]
        self.n = shape_of(op.w)[0]
        self.plan = plan_conv(op, low.source, low.arch)
        self.out_width = conv_out_size(op)[1]
        low.admit(self._words())
        self.parts = self.plan.parts(self.samples, low.arch.tiles)
        self.sources = [low.operand(op.x, "i8")] + ([low.operand(op.x2, "i8")] if op.x2 else [])
        self.widths = [btc(op.x, "x")[2]] + ([btc(op.x2, "x2")[2]] if op.x2 else [])
        self.nt = low.tiles_of(self.n)
        self._scales: dict[Phase, F32] = {}
        self._sums: dict[Phase, npt.NDArray[np.int64]] = {}
        self._constants()
        self.out = low.result(op.y, "f16", btc(op.y, "y"))
        self.stats: Dram | None = None
        if op.stats is not None:
            self.stats = low.result(op.stats, "f32", (self.samples, len(self.parts[0]), 2 * self.n), ".stats")

    def _words(self) -> int:
        """About the words of one tile: per rectangle the inputs, per panel of it weights, products and one pass."""
        p, blocks = self.plan, self.plan.blocks
        channels = [btc(v, "x")[2] for v in (self.op.x, self.op.x2) if v is not None]
        products = sum(2 * -(-self.low.tiles_of(k) // blocks.chunk) for k in channels)
        panels = len(p.phases) * -(-self.low.tiles_of(self.n) // blocks.panel)
        rectangles = self.low.blocks_of(self.samples, p.grid[0] * p.grid[1], blocks.rows)
        return rectangles * (len(channels) + panels * (products + 3))

    def _constants(self) -> None:
        op, pool, low = self.op, self.low.pool, self.low
        taps = self.plan.kernel[0] * self.plan.kernel[1]
        self.weights: dict[tuple[Phase, int], Dram] = {}
        self.vectors: dict[Phase, Dram] = {}
        for phase in self.plan.phases:
            for i, width in enumerate(self.widths):

                def make_weight(i: int = i, phase: Phase = phase) -> Iterator[Bytes]:
                    return self._panels(phase, i)

                size = self.nt * taps * self._run(low.tiles_of(width))
                self.weights[phase, i] = pool.raw(f"{low.source}.{phase.name}.w{i}", size, make_weight)

            def make_vector(phase: Phase = phase) -> F32:
                scale = self._column_scales(phase) * np.float32(op.x_scale.value.data)
                bias = pool.param(op.bias) if op.bias is not None else np.zeros_like(scale)
                if op.x_zero is not None:
                    bias = shifted_bias(bias, self._sums[phase], scale, op.x_zero.value.data)
                scale, bias = (np.ldexp(v, -exponent(op.y_exp)) for v in (scale, bias))
                out = np.zeros((2, self.nt * self.arch.cols), np.float32)
                out[:, : self.n] = scale, bias
                return out

            name = f"{low.source}.{phase.name}.vectors"
            self.vectors[phase] = pool.add(name, "f32", (1, 2, self.nt * self.arch.cols), make_vector)

    def _run(self, tiles: int) -> int:
        """Bytes of some channel tiles of one tap and column tile of a weight."""
        if weight_bits(self.op) == 4:
            return run_bytes(tiles, self.arch.rows, self.arch.cols)
        return tiles * self.arch.rows * self.arch.cols

    def _panels(self, phase: Phase, index: int) -> Iterator[Bytes]:
        """One source's weight as bytes, a few column tiles at a time; afterwards scales and sums are known."""
        w, c = self.low.pool.weight(self.op.w), self.arch.cols
        kernel = math.prod(shape_of(self.op.w)[1:])
        step, scales, sums = c * max(1, PANEL // (kernel * c)), [], []
        for lo in range(0, self.n, step):
            part = w[lo : lo + step]
            made, scale, total = pack_source(self.op, part, self.widths, phase, index, self.arch)
            scales.append(scale)
            sums.append(total)
            yield made
        self._scales[phase], self._sums[phase] = np.concatenate(scales), np.concatenate(sums)

    def _column_scales(self, phase: Phase) -> F32:
        """The scales of a phase's columns; known already when its weight was written."""
        if phase not in self._scales:
            for _ in self._panels(phase, 0):
                pass
        return self._scales[phase]

    def lower(self) -> None:
        pixels = self.plan.grid[0] * self.plan.grid[1]
        self.low.run(all_units(self.samples, pixels, self.arch, self.plan.grain), self.blocks)

    def blocks(self, unit: Unit) -> Iterator[Block]:
        """The unit's rectangles: the prologue loads the input, the main part computes every phase and panel."""
        for rect in self.plan.rects(unit):
            pro, main = self.low.emitter(), self.low.emitter()
            inputs = [self._input(pro, unit, rect, s) for s in range(len(self.sources))]
            self._main(main, unit, rect, inputs)
            yield pro, main

    def _main(self, e: Emitter, unit: Unit, rect: Rect, inputs: list[_Input]) -> None:
        """Every phase and panel. Each panel's weights and product come before the vector work of the one before."""
        step = self.plan.blocks.panel
        panels = [(f, t0, min(step, self.nt - t0)) for f in self.plan.phases for t0 in range(0, self.nt, step)]
        ahead = self._product(e, rect, *panels[0], inputs)
        for now, after in zip(panels, [*panels[1:], None], strict=True):
            product = ahead
            if after is not None:
                ahead = self._product(e, rect, *after, inputs)
            e.cut()
            self._epilogue(e, unit, rect, *now, product)

    def _input(self, e: Emitter, unit: Unit, rect: Rect, index: int) -> _Input:
        """The rectangle's input pixels; cells outside the image hold the zero point."""
        p, dram, width = self.plan, self.sources[index], self.widths[index]
        h, w = self.op.height.value.data, self.op.width.value.data
        halo = (3, 3) if self.op.upsample else p.kernel
        y0, x0 = rect.y * p.stride + p.origin[0], rect.x * p.stride + p.origin[1]
        rows, columns = (rect.ny - 1) * p.stride + halo[0], (rect.nx - 1) * p.stride + halo[1]
        tiles = self.low.tiles_of(width)
        plane, planes = rows * columns * tiles, self.op.planes
        buf = e.alloc("act", planes * plane)
        top, left = max(0, -y0), max(0, -x0)
        bottom, right = max(0, y0 + rows - h), max(0, x0 + columns - w)
        n: tuple[int, ...] = (columns - left - right, rows - top - bottom)
        strides: tuple[int, ...] = (pitch(dram), w * pitch(dram))
        steps: tuple[int, ...] = (tiles, columns * tiles)
        if planes > 1:
            n, strides, steps = (*n, planes), (*strides, width), (*steps, plane)
        e.load(
            buf,
            dram,
            width,
            n,
            strides,
            steps,
            offset=at(dram, unit.b, (y0 + top) * w + x0 + left),
            pad=(left, right, top, bottom),
            fill=exponent(self.op.x_zero),
        )
        return _Input(buf, rows, columns, tiles)

    def _epilogue(self, e: Emitter, unit: Unit, rect: Rect, phase: Phase, t0: int, g: int, made: Buf) -> None:
        """What the vector unit makes of a panel's product."""
        c, pixels = self.arch.cols, rect.pixels
        valid = min(g * c, self.n - t0 * c)
        tail = self.low.tail(self.n) if t0 + g == self.nt else c
        acc = combine(e, View(made, Format.I32, 1, pixels), self.op.planes, pixels, g, tail)
        vectors, dram = e.alloc("param", 2 * g * c), self.vectors[phase]
        e.load(vectors, dram, 4 * g * c, (2,), (pitch(dram),), (g * c,), offset=4 * t0 * c)
        factors: Factors = {"a1": Col(vectors), "b1": Col(vectors, g * c)}
        if self.op.temb is not None:
            source = self.low.operand(self.op.temb, "f32")
            temb = e.alloc("param", g * c)
            e.load(temb, source, 4 * valid, offset=at(source, unit.b, 0, t0 * c))
            factors["b2"] = Col(temb)
        s = self.plan.step
        token = (s * rect.y + phase.py) * self.out_width + s * rect.x + phase.px
        residual: View | None = None
        if self.op.residual is not None:
            source = self.low.operand(self.op.residual)
            residual = View(e.alloc("vbuf", pixels * g), Format.F16, g, 1)
            strides = (s * pitch(source), s * self.out_width * pitch(source))
            offset = at(source, unit.b, token, t0 * c)
            e.load(residual.buf, source, 2 * valid, (rect.nx, rect.ny), strides, (g, g * rect.nx), offset=offset)
        d = View(e.alloc("vbuf", pixels * g), Format.F16, g, 1)
        red: Red | None = None
        if self.stats is not None:
            red = Red(Reduce.SUM_SQ, e.alloc("param", 2 * g * c), columns=True)
        op2 = Op2.ADD if residual is not None else Op2.NONE
        e.vec(acc, d, pixels, g, tail, op2=op2, b=residual, red=red, **factors)
        strides = (s * pitch(self.out), s * self.out_width * pitch(self.out))
        offset = at(self.out, unit.b, token, t0 * c)
        e.store(self.out, d.buf, 2 * valid, (rect.nx, rect.ny), strides, (g, g * rect.nx), offset=offset)
        if self.stats is not None and red is not None:
            part = self.parts[unit.b].index((rect, phase))
            offset = at(self.stats, unit.b, part, t0 * c)
            e.store(self.stats, red.buf, 4 * valid, (2,), (4 * self.n,), (g * c,), offset=offset)

    def _product(self, e: Emitter, rect: Rect, phase: Phase, t0: int, g: int, inputs: list[_Input]) -> Buf:
        """ACC [planes][g][pixels]: every source, in chunks of channel tiles if its panel is large."""
        p, planes = self.plan, self.op.planes
        kh, kw = p.kernel
        taps = kh * kw
        acc = e.alloc("acc", planes * g * rect.pixels)
        started = False
        for index, source in enumerate(inputs):
            ct = source.tiles
            for c0 in range(0, ct, p.blocks.chunk):
                nc = min(p.blocks.chunk, ct - c0)
                wgt = e.alloc("wgt", g * taps * nc * self.arch.rows)
                self._load_panel(e, wgt, self.weights[phase, index], t0, g, ct, c0, nc)
                line = source.columns * ct
                for plane in range(planes):
                    e.mm(
                        source.buf,
                        wgt,
                        acc,
                        rows=(rect.ny, rect.nx),
                        row_stride=(p.stride * line, p.stride * ct),
                        nc=nc,
                        nn=g,
                        wn=taps * nc * self.arch.rows,
                        an=rect.pixels,
                        taps=(kh, kw),
                        tap_stride=(line, ct),
                        act_at=plane * source.rows * line + phase.py * line + phase.px * ct + c0,
                        acc_at=plane * g * rect.pixels,
                        accumulate=started,
                    )
                started = True
        return acc

    def _load_panel(self, e: Emitter, wgt: Buf, dram: Dram, t0: int, g: int, ct: int, c0: int, nc: int) -> None:
        """Weights of column tiles t0 .. t0 + g - 1 and channel tiles c0 .. c0 + nc - 1 of `ct`: [g][taps][nc][r]."""
        taps = self.plan.kernel[0] * self.plan.kernel[1]
        size = self._run(ct)
        if weight_bits(self.op) == 8 and nc == ct:
            e.load(wgt, dram, g * taps * size, offset=t0 * taps * size)
            return
        words = nc * self.arch.rows
        e.load(
            wgt,
            dram,
            self._run(nc),
            (taps, g),
            (size, taps * size),
            (words, taps * words),
            offset=t0 * taps * size + self._run(c0),
            fmt=DmaFormat.INT4 if weight_bits(self.op) == 4 else DmaFormat.RAW,
        )
