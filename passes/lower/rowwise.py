"""Lower the operations that work row by row on float16: GroupNorm's application, quantisation, SiLU, value centring.

Each is one vector pass, `x * a[j] + b[j]`, SiLU, requantise; they differ in where the column vectors come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from xdsl.ir import SSAValue

from ...ir.graph import btc, shape_of
from ...ir.isa import Format, Function, Reduce
from ...ir.qgraph import QCentreOp, QGroupNormOp, QQuantiseOp, QSiluOp, planes_of
from ...ir.tile_program import Buf, Dram
from ..tiling import Unit, row_blocks
from .context import Block, Lowering, all_units, at, grid, pitch
from .emitter import Col, Emitter, Factors, Red, Row, View
from .vectors import norm_vectors

STAT_CHUNK = 64  # partials combined by one column reduction; part of the numerics


@dataclass
class RowPass:
    """What happens to each row: sources, factors by name, function, output format; of 15-bit integers two planes."""

    low: Lowering
    sources: list[Dram]
    out: Dram
    factors: Factors = field(default_factory=Factors)
    silu: bool = False
    row_max: Dram | None = None
    offset: bool = False  # int8 in the offset format
    planes: int = 1

    def blocks(self, e_first: Emitter, unit: Unit) -> Iterator[Block]:
        """Blocks of rows; `e_first` is the first block's prologue, already filled with what the factors need."""
        low, arch = self.low, self.low.arch
        out_channels = [int(d.shape[2]) for d in self.sources]
        widest = max(low.tiles_of(k) for k in out_channels)
        act = arch.words["act"] // 8 // (self.planes * widest)
        rows = max(1, min(arch.words["vbuf"] // 8 // widest, act, arch.words["param"] // 32))
        pro = e_first
        for lo, hi in row_blocks(unit, rows):
            e = low.emitter()
            amax = e.alloc("param", hi - lo) if self.row_max is not None else None
            channel = 0
            for dram, k in zip(self.sources, out_channels, strict=True):
                self._source(e, unit, lo, hi - lo, dram, k, channel, amax)
                channel += k
            if self.row_max is not None and amax is not None:
                e.store(self.row_max, amax, 4 * (hi - lo), offset=at(self.row_max, unit.b, 0, lo))
            yield pro, e
            pro = low.emitter()

    def _source(
        self, e: Emitter, unit: Unit, lo: int, rows: int, dram: Dram, k: int, channel: int, amax: Buf | None
    ) -> None:
        low = self.low
        tiles = low.tiles_of(k)
        wide = dram.dtype == "f32"
        words = 2 if wide else 1
        x = e.alloc("vbuf", rows * tiles * words)
        item = 4 if wide else 2
        offset = at(dram, unit.b, lo)
        e.load(x, dram, item * k, (rows,), (pitch(dram),), (tiles * words,), offset=offset)
        a = View(x, Format.F32 if wide else Format.F16, tiles * words, words)
        line = self.planes * tiles
        if self.out.dtype == "i8":
            kind = Format.I15_SPLIT if self.planes > 1 else Format.I8_OFFSET if self.offset else Format.I8
            d = View(e.alloc("act", rows * line), kind, line, 1)
        else:
            d = View(e.alloc("vbuf", rows * tiles), Format.F16, tiles, 1)
        shifted = self._shifted(channel)
        red = Red(Reduce.ABSMAX, amax, accumulate=channel > 0) if amax is not None else None
        func = Function.GATE_MUL if self.silu else Function.NONE
        table = low.tables[unit.tile]["sigmoid"] if self.silu else None
        e.vec(a, d, rows, tiles, low.tail(k), func=func, table=table, red=red, **shifted)
        size = 1 if self.out.dtype == "i8" else 2
        offset = at(self.out, unit.b, lo, channel)
        dims = self.planes  # rows, and planes where there are two
        n, strides, steps = (rows, self.planes), (pitch(self.out), self.out.shape[2] // self.planes), (line, tiles)
        e.store(self.out, d.buf, size * k, n[:dims], strides[:dims], steps[:dims], offset=offset)

    def _shifted(self, channel: int) -> Factors:
        """The factors for a source whose first channel is `channel`."""
        moved = {n: Col(f.buf, f.at + channel) if isinstance(f, Col) else f for n, f in self.factors.items()}
        return cast(Factors, moved)


def inverse(scale: float) -> float:
    """The float32 factor that quantises with a static scale: 1 / scale rounded once."""
    return float(np.float32(1) / np.float32(scale))


def integer_result(low: Lowering, y: SSAValue) -> Dram:
    """The DRAM tensor of integers, of 15-bit ones with both planes in a row."""
    b, t, c = btc(y, "y")
    return low.result(y, "i8", (b, t, planes_of(y) * c))


def lower_quantise(low: Lowering, op: QQuantiseOp, work: bool = True) -> None:
    samples, tokens = grid(*btc(op.x, "x")[:2])
    out = integer_result(low, op.y)
    factors: Factors = {"r": inverse(op.scale.value.data)}
    if op.zero is not None:  # the offset format takes 128 off
        factors = {"a1": inverse(op.scale.value.data), "b1": float(op.zero.value.data + 128)}
    rows = RowPass(low, [low.tensors[op.x]], out, factors, offset=op.zero is not None, planes=planes_of(op.y))
    if work:
        low.run(all_units(samples, tokens, low.arch), lambda u: rows.blocks(low.emitter(), u))


def lower_silu(low: Lowering, op: QSiluOp, work: bool = True) -> None:
    samples, tokens = grid(*btc(op.x, "x")[:2])
    out = low.result(op.y, "f16", btc(op.y, "y"))
    rows = RowPass(low, [low.tensors[op.x]], out, silu=True)
    if work:
        low.run(all_units(samples, tokens, low.arch), lambda u: rows.blocks(low.emitter(), u))


def column_sums(low: Lowering, e: Emitter, stats: Dram, b: int, channels: int, first: int) -> Buf:
    """Sum of a tensor's partials for each channel, in PARAM: `first` 0 for the sums, 1 for the sums of squares."""
    parts = int(stats.shape[1])
    tiles = low.tiles_of(channels)
    total = e.alloc("param", tiles * low.arch.cols)
    chunk = stat_chunk(tiles, low.arch.words["vbuf"])
    for p0 in range(0, parts, chunk):
        n = min(chunk, parts - p0)
        buf = e.alloc("vbuf", n * tiles * 2)
        offset = at(stats, b, p0, first * channels)
        e.load(buf, stats, 4 * channels, (n,), (pitch(stats),), (2 * tiles,), offset=offset)
        red = Red(Reduce.SUM, total, columns=True, accumulate=p0 > 0)
        e.vec(View(buf, Format.F32, 2 * tiles, 2), None, n, tiles, low.tail(channels), red=red)
    return total


def stat_chunk(tiles: int, vbuf_words: int) -> int:
    """Partials that one column reduction combines, for a tensor of `tiles` column tiles."""
    return max(1, min(STAT_CHUNK, vbuf_words // 8 // (2 * tiles)))


def lower_centre(low: Lowering, op: QCentreOp, work: bool = True) -> None:
    b, t, n = btc(op.v, "v")
    out, mu = low.result(op.y, "i8", (b, t, n)), low.result(op.mu, "f32", (b, 1, n), ".mu")
    scale, stats, v = op.scale, low.operand(op.stats, "f32"), low.operand(op.v)
    scales = low.pool.add(
        f"{low.source}.scale", "f32", (1, 1, n), lambda: (np.float32(1) / low.pool.param(scale)).astype(np.float32)
    )
    padded = low.tiles_of(n) * low.arch.cols
    factor = inverse(float(t))

    def template(u: Unit) -> Iterator[Block]:
        e = low.emitter()
        total = column_sums(low, e, stats, u.b, n, 0)
        vectors = e.alloc("param", 2 * padded)
        e.load(vectors, scales, 4 * n, sram=padded)
        e.vector(total, vectors, n, a1=-factor)
        if u.lo == 0:
            mean = e.alloc("param", n)
            e.vector(total, mean, n, a1=factor)
            e.store(mu, mean, 4 * n, offset=at(mu, u.b))
        factors: Factors = {"b1": Col(vectors), "r": Col(vectors, padded)}
        yield from RowPass(low, [v], out, factors).blocks(e, u)

    if work:
        low.run(all_units(b, t, low.arch), template)


def lower_group_norm(low: Lowering, op: QGroupNormOp, work: bool = True) -> None:
    b, t, c = btc(op.y, "y")
    out = integer_result(low, op.y) if op.scale is not None else low.result(op.y, "f16", (b, t, c))
    row_max = low.result(op.row_max, "f32", (b, 1, t), ".row_max") if op.row_max is not None else None
    sources = [low.operand(op.x)] + ([low.operand(op.x2)] if op.x2 else [])
    stats = [low.tensors[op.stats]] + ([low.tensors[op.stats2]] if op.stats2 else [])
    widths = [shape_of(op.x)[2]] + ([shape_of(op.x2)[2]] if op.x2 else [])
    gamma, beta, pool = op.gamma, op.beta, low.pool
    affine = pool.add(f"{low.source}.affine", "f32", (1, 2, c), lambda: np.stack([pool.param(gamma), pool.param(beta)]))
    scratch: dict[tuple[int, int], tuple[Dram, Dram]] = {}
    groups = op.groups.value.data
    eps = float(np.float32(op.eps.value.data))

    def template(u: Unit) -> Iterator[Block]:
        e = low.emitter()
        key = (u.tile, u.stream)
        if key not in scratch:
            name = f"{low.source}.t{u.tile}s{u.stream}"
            scratch[key] = (
                low.declare(f"{name}.sums", "f32", (1, 2, c)),
                low.declare(f"{name}.groups", "f32", (1, 2, groups)),
            )
        vectors = _coefficients(low, e, u, stats, widths, affine, *scratch[key], groups, eps, t)
        factors: Factors = {"a1": Col(vectors), "b1": Col(vectors, c)}
        if op.scale is not None:
            factors["r"] = inverse(op.scale.value.data)
        rows = RowPass(low, sources, out, factors, op.act is not None, row_max, planes=planes_of(op.y))
        yield from rows.blocks(e, u)

    if work:
        low.run(all_units(b, t, low.arch), template)


def _coefficients(
    low: Lowering,
    e: Emitter,
    u: Unit,
    stats: list[Dram],
    widths: list[int],
    affine: Dram,
    sums: Dram,
    by_group: Dram,
    groups: int,
    eps: float,
    tokens: int,
) -> Buf:
    """`a[j]` then `b[j]` in PARAM. Two small DRAM round trips regroup channels: groups straddle sources and tiles."""
    c = sum(widths)
    channel = 0
    for source, width in zip(stats, widths, strict=True):
        for k in (0, 1):
            total = column_sums(low, e, source, u.b, width, k)
            e.store(sums, total, 4 * width, offset=at(sums, 0, k, channel))
        channel += width
    per = c // groups
    tiles = low.tiles_of(per)
    grouped = e.alloc("param", 2 * groups)
    for k in (0, 1):
        buf = e.alloc("vbuf", groups * tiles * 2)
        e.load(buf, sums, 4 * per, (groups,), (4 * per,), (2 * tiles,), offset=at(sums, 0, k))
        a = View(buf, Format.F32, 2 * tiles, 2)
        e.vec(a, None, groups, tiles, low.tail(per), red=Red(Reduce.SUM, grouped, k * groups))
    r, nb = norm_vectors(e, grouped, grouped, groups, groups, per * tokens, eps)
    e.store(by_group, r, 4 * groups, offset=at(by_group, 0, 0))
    e.store(by_group, nb, 4 * groups, offset=at(by_group, 0, 1))
    # Slack of one column tile: a ragged last tile reads past its valid columns.
    vectors = e.alloc("param", 2 * c + low.arch.cols)
    e.load(vectors, by_group, 4, (per, groups, 2), (0, 4, pitch(by_group)), (1, per, c))
    gb = e.alloc("param", 2 * c)
    e.load(gb, affine, 4 * c, (2,), (pitch(affine),), (c,))
    e.vector(vectors, vectors, c, a1=Row(gb))
    e.vector(vectors, vectors, c, at=c, to=c, a1=Row(gb), b1=Row(gb, c))
    return vectors
