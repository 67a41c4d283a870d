"""Lower `dpu.q.linear`: prologue (normalise, quantise each token), then panels of column tiles with their epilogues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from ...ir.arch import Arch
from ...ir.graph import btc, shape_of
from ...ir.isa import DmaFormat, Format, Function, Op2, Reduce
from ...ir.qgraph import QLinearOp, section_bits
from ...ir.tile_program import Buf, Dram
from ..int4 import contiguous, inputs_of, pack_int4, quantise_int4, run_bytes
from ..pack_weights import pack_rows, row_scales, rows_of
from ..tiling import Blocks, Unit, act_parts, linear_blocks, longest_product, reduction_step, row_blocks
from ..weights import F32, Fixed, column_sums, pack_tiles, pad_rows, quantised, shifted_bias
from .constants import PANEL, Bytes
from .context import Block, Lowering, all_units, at, exponent, grid, pitch, stat_parts
from .emitter import Col, Emitter, Factor, Factors, Red, Row, View
from .rowwise import inverse
from .vectors import combine, norm_vectors, token_scales

BATCH = 4  # pieces of a prologue in VBUF together, each at most an eighth of it
GATE = {"silu": "sigmoid", "gelu": "phi", "quick_gelu": "quick_gelu"}
"""The gate table of each activation."""


@dataclass(frozen=True)
class SectionPlan:
    """One section's shape: `n` output columns, `halves` 2 for GEGLU, `group` tiles that must stay together, bits of
    the weight."""

    kind: str
    stats: str
    n: int
    halves: int
    group: int
    bits: int
    blocks: Blocks


def linear_grid(op: QLinearOp) -> tuple[int, int]:
    """(samples, tokens) as lowered. What belongs to samples, such as statistics, keeps them apart."""
    samples, tokens, _ = btc(op.x, "x")
    plain = op.rows is None and all(s.data == "none" for s in op.stats.data)
    plain = plain and all(k.data != "q8_head" for k in op.kinds.data)
    return grid(samples, tokens) if plain else (samples, tokens)


def plan_linear(op: QLinearOp, where: str, arch: Arch) -> list[SectionPlan]:
    """Blocks of every section; all sections share the rows of a block."""
    c = arch.cols
    sources = [btc(op.x, "x")[2]] + ([btc(op.x2, "x2")[2]] if op.x2 else [])
    kt = sum(-(-k // c) for k in sources)
    samples, tokens = linear_grid(op)
    most = max((u.hi - u.lo for group in all_units(samples, tokens, arch) for u in group), default=1)
    plans: list[SectionPlan] = []

    def cut(n: int, most: int, group: int, bits: int, kind: str) -> Blocks:
        longest = longest_product(arch, kind)
        return linear_blocks(where, kt, n, most, group, arch, longest, op.planes, reduction_step(arch, bits))

    sections = zip(op.weights, op.kinds.data, op.stats.data, section_bits(op), strict=True)
    for w, kind, stats, bits in sections:
        halves = 2 if kind.data == "geglu" else 1
        n = shape_of(w)[1] // halves
        group = halves
        if kind.data == "q8_head":
            group = -(-n // op.heads.value.data // c) if op.heads else 1
        blocks = cut(halves * -(-n // c), most, group, bits, kind.data)
        plans.append(SectionPlan(kind.data, stats.data, n, halves, group, bits, blocks))
    rows = min(p.blocks.rows for p in plans)
    return [replace(p, blocks=cut(p.halves * -(-p.n // c), rows, p.group, p.bits, p.kind)) for p in plans]


@dataclass(frozen=True)
class Piece:
    """Rows [lo, hi) of a block, in VBUF [rows][kt], in ACT [rows][planes][kt]."""

    lo: int
    hi: int
    buf: Buf

    @property
    def rows(self) -> int:
        return self.hi - self.lo


Act = list[Piece]
"""The rows of a block in ACT, in parts."""


@dataclass(frozen=True)
class Panel:
    """Column tiles t0 .. t0+tiles-1 of a section: `valid` columns, `tail` of them in the last tile."""

    section: int
    t0: int
    tiles: int
    valid: int
    tail: int


def _token(s: Buf | None) -> Factor:
    """The factor of each token's scale; static scales are in the column vectors."""
    return Row(s) if s is not None else None


class LinearLowering:
    """One linear: its constants and DRAM tensors, and the template of a unit's blocks."""

    def __init__(self, low: Lowering, op: QLinearOp) -> None:
        self.low, self.op, self.arch = low, op, low.arch
        self.samples, self.tokens = linear_grid(op)
        self.supplied = low.tensors[op.rows] if op.rows is not None else None
        self.plans = plan_linear(op, low.source, low.arch)
        low.admit(self._words())
        self.planes = op.planes
        stored = "i8" if op.is_stored else "f16"
        self.sources = [low.operand(v, stored) for v in (op.x, op.x2) if v is not None]
        self.widths = [btc(op.x, "x")[2]] + ([btc(op.x2, "x2")[2]] if op.x2 else [])
        self.source_tiles = [low.tiles_of(k) for k in self.widths]
        self.kt = sum(self.source_tiles)
        self.rows = self.plans[0].blocks.rows
        self.parts = stat_parts(self.samples, self.tokens, low.arch.tiles, self.rows)
        self._scales: dict[int, F32] = {}
        self._sums: dict[int, npt.NDArray[np.int64]] = {}
        self._constants()
        self._results()

    def _words(self) -> int:
        """About the words of one tile: per block of rows the input, per panel of it weights, products and one pass."""
        kt = sum(self.low.tiles_of(btc(v, "x")[2]) for v in (self.op.x, self.op.x2) if v is not None)
        blocks = self.low.blocks_of(self.samples, self.tokens, self.plans[0].blocks.rows)
        panels = sum(
            -(-p.halves * self.low.tiles_of(p.n) // p.blocks.panel) * (2 * -(-kt // p.blocks.chunk) + 3)
            for p in self.plans
        )
        return blocks * (2 + panels)

    # -- constants and DRAM tensors --------------------------------------------------------------------------------

    def _panels(self, index: int) -> Iterator[Bytes]:
        """A section's weight as bytes, a few column tiles at a time; afterwards its scales and sums are known.

        Each source's channels are padded to full reduction tiles.
        """
        p, c = self.plans[index], self.arch.cols
        w = self.low.pool.weight(self.op.weights[index])
        step = c * max(1, PANEL // (self.kt * self.arch.rows * c))
        pieces = contiguous(self.widths)
        inputs = inputs_of(self.low.pool.param(self.op.gram)) if p.bits == 4 and self.op.gram is not None else None
        scales, sums = [], []
        for half in range(p.halves):
            for lo in range(half * p.n, (half + 1) * p.n, step):
                part = w[:, lo : min(lo + step, (half + 1) * p.n)]
                if p.bits == 4:
                    part = part.floats() if isinstance(part, Fixed) else part
                    packed = quantise_int4(rows_of(part.T), pieces, inputs)
                    scale, total = packed.scale, packed.integers().sum(axis=1, dtype=np.int64)
                    made = pack_int4(packed, pieces, self.arch.rows, c)
                elif isinstance(part, Fixed):
                    q, scale = quantised(part)
                    total = column_sums(q)
                    padded = [pad_rows(q[a : a + k], self.arch.rows) for a, k in pieces]
                    made = pack_tiles(np.concatenate(padded).astype(np.int8, copy=False), self.arch.rows, c)
                else:
                    rows = rows_of(part.T)
                    scale = row_scales(rows)
                    made, total = pack_rows(rows, scale, pieces, self.arch.rows, c)
                scales.append(scale)
                sums.append(total)
                yield made
        self._scales[index], self._sums[index] = np.concatenate(scales), np.concatenate(sums)

    def _column_tile(self, p: SectionPlan, tiles: int) -> int:
        """Bytes of the first reduction tiles of one column tile of a section's weight."""
        if p.bits != 4:
            return tiles * self.arch.rows * self.arch.cols
        size = 0
        for source in self.source_tiles:
            size += run_bytes(min(source, tiles), self.arch.rows, self.arch.cols)
            tiles -= min(source, tiles)
        return size

    def _column_scales(self, index: int) -> F32:
        """The scales of a section's columns; known already when its weight was written."""
        if index not in self._scales:
            for _ in self._panels(index):
                pass
        return self._scales[index]

    def _constants(self) -> None:
        op, pool, c = self.op, self.low.pool, self.arch.cols
        flags = [int(x) for x in op.has_bias.get_values()]
        biases, scales = iter(op.biases), iter(op.k_scales)
        self.weights: list[Dram] = []
        self.vectors: list[Dram] = []
        for i, p in enumerate(self.plans):
            bias = next(biases) if flags[i] else None
            k_scale = next(scales) if p.kind == "q8_static" else None
            nt = self.low.tiles_of(p.n)

            def make_weight(i: int = i) -> Iterator[Bytes]:
                return self._panels(i)

            def make_vector(
                i: int = i,
                p: SectionPlan = p,
                nt: int = nt,
                bias: SSAValue | None = bias,
                ks: SSAValue | None = k_scale,
            ) -> F32:
                rows = [self._column_scales(i)]
                rows.append(pool.param(bias) if bias is not None else np.zeros_like(rows[0]))
                if op.x_scale is not None:
                    rows[0] = rows[0] * np.float32(op.x_scale.value.data)
                if op.x_zero is not None:
                    rows[1] = shifted_bias(rows[1], self._sums[i], rows[0], op.x_zero.value.data)
                x_exp, y_exp = 0 if op.gamma is not None else exponent(op.x_exp), exponent(op.y_exp)
                rows = [np.ldexp(rows[0], x_exp - y_exp), np.ldexp(rows[1], -y_exp)]
                if ks is not None:
                    rows.append((np.float32(1) / pool.param(ks)).astype(np.float32))
                out = np.zeros((len(rows), p.halves, nt * c), np.float32)
                for k, row in enumerate(rows):
                    out[k, :, : p.n] = row.reshape(p.halves, p.n)
                return out

            size = p.halves * nt * self._column_tile(p, self.kt)
            name = f"{self.low.source}.w{i}"
            self.weights.append(pool.raw(name, size, make_weight))
            count = 3 if k_scale is not None else 2
            self.vectors.append(pool.add(f"{name}.vectors", "f32", (1, count, p.halves * nt * c), make_vector))
        self.norm: Dram | None = None
        if op.gamma is not None and op.beta is not None:
            gamma, beta = op.gamma, op.beta
            k = self.widths[0]
            self.norm = pool.add(
                f"{self.low.source}.norm", "f32", (1, 2, k), lambda: np.stack([pool.param(gamma), pool.param(beta)])
            )

    def _results(self) -> None:
        low, op = self.low, self.op
        b, t, _ = btc(op.x, "x")
        results = iter(op.results_)
        self.outputs: list[Dram] = []
        self.companions: list[Dram | None] = []
        for i, p in enumerate(self.plans):
            dtype = {"f32": "f32", "q8_head": "i8", "q8_static": "i8"}.get(p.kind, "f16")
            self.outputs.append(low.result(next(results), dtype, (b, t, p.n), f".{i}"))
            companion: Dram | None = None
            if p.kind == "q8_head":
                assert op.heads is not None
                companion = low.result(next(results), "f32", (b, op.heads.value.data, t), f".{i}.scale")
            elif p.stats == "column_pair":
                parts = len(self.parts[0])
                companion = low.result(next(results), "f32", (b, parts, 2 * p.n), f".{i}.stats")
            elif p.stats != "none":
                count = 2 if p.stats == "row_pair" else 1
                companion = low.result(next(results), "f32", (b, count, t), f".{i}.stats")
            self.companions.append(companion)

    # -- work ------------------------------------------------------------------------------------------------------

    def lower(self) -> None:
        self.low.run(all_units(self.samples, self.tokens, self.arch), self.blocks)

    def blocks(self, unit: Unit) -> Iterator[Block]:
        """The unit's row blocks, each a prologue that fills ACT and a main part that empties it."""
        norm: Buf | None = None
        for lo, hi in row_blocks(unit, self.rows):
            pro, main = self.low.emitter(), self.low.emitter()
            if self.norm is not None and norm is None:
                k = self.widths[0]
                norm = pro.alloc("param", 2 * k + self.arch.cols)
                pro.load(norm, self.norm, 4 * k, (2,), (pitch(self.norm),), (k,))
            act, s = self._prologue(pro, unit, lo, hi, norm)
            self._main(main, unit, lo, hi, act, s)
            yield pro, main

    def _prologue(self, e: Emitter, unit: Unit, lo: int, hi: int, norm: Buf | None) -> tuple[Act, Buf | None]:
        """Quantised rows in ACT, and their scales in PARAM unless static. Few rows at a time are in VBUF.

        A row is its sources one behind the other, [tiles] of each, with 15 bits [planes][tiles].
        """
        rows, sub = hi - lo, self.plans[0].blocks.sub
        line = self.planes * self.kt
        act = [Piece(a, z, e.alloc("act", line * (z - a))) for a, z in act_parts(rows, line, self.arch)]
        if self.op.is_stored:
            self._stored_rows(e, unit, lo, act)
            return act, None
        if self.op.x_scale is not None:
            self._static_rows(e, unit, lo, rows, act, norm, self.op.x_scale.value.data)
            return act, None
        amax, inv, s = (e.alloc("param", rows) for _ in range(3))
        known = norm is None and self.supplied is not None
        if known and self.supplied is not None:
            e.load(amax, self.supplied, 4 * rows, offset=at(self.supplied, unit.b, 0, lo))
            token_scales(e, amax, inv, s, rows, planes=self.planes)
        stats = self._supplied_norm(e, unit, lo, rows) if norm is not None else None
        for part, a in [(x, a) for x in act for a in range(x.lo, x.hi, BATCH * sub)]:
            z = min(a + BATCH * sub, part.hi)
            e.cut()
            batch = [self._load_rows(e, unit, lo, i, min(i + sub, z)) for i in range(a, z, sub)]
            affine = {p: self._affine(e, p, norm, stats) for p in batch}
            if not known:
                for p in batch:
                    self._pass(e, p, None, red=Red(Reduce.ABSMAX, amax, p.lo), **affine[p])
                token_scales(e, amax, inv, s, z - a, a, planes=self.planes)
            for p in batch:
                factors: Factors = {**affine[p], "r": Row(inv, p.lo)}
                self._pass(e, p, self._rows_of(part, p), **factors)
        return act, s

    def _rows_of(self, part: Piece, p: Piece) -> View:
        """The rows of a piece in a part of ACT."""
        line = self.planes * self.kt
        fmt = Format.I8 if self.planes == 1 else Format.I15_SPLIT
        return View(part.buf, fmt, line, 1, (p.lo - part.lo) * line)

    def _static_rows(
        self, e: Emitter, unit: Unit, lo: int, rows: int, act: Act, norm: Buf | None, scale: float
    ) -> None:
        """float16 rows quantised with a static scale, after LayerNorm if there is one."""
        stats = self._supplied_norm(e, unit, lo, rows) if norm is not None else None
        sub = self.plans[0].blocks.sub
        for part, a in [(x, a) for x in act for a in range(x.lo, x.hi, sub)]:
            e.cut()
            p = self._load_rows(e, unit, lo, a, min(a + sub, part.hi))
            factors: Factors = {**self._affine(e, p, norm, stats), "r": inverse(scale)}
            self._pass(e, p, self._rows_of(part, p), **factors)

    def _affine(self, e: Emitter, p: Piece, norm: Buf | None, stats: tuple[Buf, Buf] | None) -> Factors:
        """LayerNorm of a piece as the factors of a vector pass; without LayerNorm none."""
        if norm is None:
            return {}
        r, nb = stats or self._norm_rows(e, p)
        first = p.lo if stats else 0
        return {"a1": Row(r, first), "b1": Row(nb, first), "a2": Col(norm), "b2": Col(norm, self.widths[0])}

    def _load_rows(self, e: Emitter, unit: Unit, lo: int, a: int, z: int) -> Piece:
        """Rows [lo + a, lo + z) of every source, side by side."""
        p = Piece(a, z, e.alloc("vbuf", (z - a) * self.kt))
        t0 = 0
        for dram, k, tiles in zip(self.sources, self.widths, self.source_tiles, strict=True):
            offset = at(dram, unit.b, lo + a)
            e.load(p.buf, dram, 2 * k, (p.rows,), (pitch(dram),), (self.kt,), sram=t0, offset=offset)
            t0 += tiles
        return p

    def _stored_rows(self, e: Emitter, unit: Unit, lo: int, act: Act) -> None:
        """Rows that are int8 in DRAM, every source, side by side in ACT."""
        for part in act:
            t0 = 0
            for dram, k, tiles in zip(self.sources, self.widths, self.source_tiles, strict=True):
                offset = at(dram, unit.b, lo + part.lo)
                e.load(part.buf, dram, k, (part.rows,), (pitch(dram),), (self.kt,), sram=t0, offset=offset)
                t0 += tiles

    def _pass(
        self, e: Emitter, p: Piece, d: View | None, *, red: Red | None = None, **factors: Unpack[Factors]
    ) -> None:
        """One vector pass over a piece, source by source: each source has its own ragged last column tile."""
        t0 = 0
        for k, tiles in zip(self.widths, self.source_tiles, strict=True):
            src = View(p.buf, Format.F16, self.kt, 1, t0)
            dst = d.tile(self.planes * t0) if d is not None else None
            step = replace(red, accumulate=t0 > 0) if red is not None else None
            e.vec(src, dst, p.rows, tiles, self.low.tail(k), red=step, **factors)
            t0 += tiles

    def _supplied_norm(self, e: Emitter, unit: Unit, lo: int, rows: int) -> tuple[Buf, Buf] | None:
        """LayerNorm's `r[i]` and `nb[i]` of a block from the producer's row pair, if there is one."""
        if self.supplied is None:
            return None
        assert self.op.eps is not None
        stats = e.alloc("param", 2 * rows)
        offset = at(self.supplied, unit.b, 0, lo)
        e.load(stats, self.supplied, 4 * rows, (2,), (pitch(self.supplied),), (rows,), offset=offset)
        return norm_vectors(e, stats, stats, rows, rows, self.widths[0], self.op.eps.value.data)

    def _norm_rows(self, e: Emitter, p: Piece) -> tuple[Buf, Buf]:
        """LayerNorm's `r[i]` and `nb[i]` of a piece, from a pass of its own."""
        assert self.op.eps is not None
        pair = e.alloc("param", 2 * p.rows)
        self._pass(e, p, None, red=Red(Reduce.SUM_SQ, pair))
        return norm_vectors(e, pair, pair, p.rows, p.rows, self.widths[0], self.op.eps.value.data)

    def _panels_of(self, index: int) -> Iterator[Panel]:
        """The panels of a section."""
        p, c = self.plans[index], self.arch.cols
        nt, step = self.low.tiles_of(p.n), p.blocks.panel // p.halves
        for t0 in range(0, nt, step):
            g = min(step, nt - t0)
            yield Panel(index, t0, g, min(g * c, p.n - t0 * c), self.low.tail(p.n) if t0 + g == nt else c)

    def _main(self, e: Emitter, unit: Unit, lo: int, hi: int, act: Act, s: Buf | None) -> None:
        """All column panels of all sections over rows [lo, hi). Each panel's weights and product come before the vector
        work of the one before, which may be more words than a queue holds."""
        panels = [panel for i in range(len(self.plans)) for panel in self._panels_of(i)]
        stats: dict[int, Buf] = {}
        ahead = self._product(e, panels[0], hi - lo, act)
        for now, after in zip(panels, [*panels[1:], None], strict=True):
            product = ahead
            if after is not None:
                ahead = self._product(e, after, hi - lo, act)
            e.cut()
            self._epilogue(e, now, unit, lo, hi - lo, product, s, stats)

    def _epilogue(
        self,
        e: Emitter,
        panel: Panel,
        unit: Unit,
        lo: int,
        rows: int,
        product: Buf,
        s: Buf | None,
        stats: dict[int, Buf],
    ) -> None:
        """What the vector unit makes of a panel's product; `stats` are the row statistics of sections so far."""
        index, c, g, t0 = panel.section, self.arch.cols, panel.tiles, panel.t0
        p = self.plans[index]
        nt = self.low.tiles_of(p.n)
        if t0 == 0 and p.stats in ("row_pair", "row_max"):
            stats[index] = e.alloc("param", rows * (2 if p.stats == "row_pair" else 1))
        acc = combine(e, View(product, Format.I32, 1, rows), self.planes, rows, p.halves * g, panel.tail)
        count = 3 if p.kind == "q8_static" else 2
        vectors = e.alloc("param", count * p.halves * g * c)
        dram = self.vectors[index]
        strides = (nt * c * 4, pitch(dram))
        e.load(vectors, dram, g * c * 4, (p.halves, count), strides, (g * c, p.halves * g * c), offset=4 * t0 * c)
        if p.kind == "q8_head":
            self._queries(e, index, p, panel, unit, lo, rows, acc, s, vectors)
        elif p.kind == "q8_static":
            self._keys(e, index, panel, unit, lo, rows, acc, s, vectors)
        else:
            self._values(e, index, p, panel, unit, lo, rows, acc, s, vectors, stats.get(index))
        if index in stats and t0 + g == nt:
            companion = self.companions[index]
            assert companion is not None
            n = (2,) if p.stats == "row_pair" else (1,)
            row_stats, offset = stats.pop(index), at(companion, unit.b, 0, lo)
            e.store(companion, row_stats, 4 * rows, n, (pitch(companion),), (rows,), offset=offset)

    def _product(self, e: Emitter, panel: Panel, rows: int, act: Act) -> Buf:
        """ACC [halves * g][rows] = ACT rows x weight panel, in chunks of the reduction if the panel is large."""
        r, g, index = self.arch.rows, panel.tiles, panel.section
        p = self.plans[index]
        acc = e.alloc("acc", self.planes * p.halves * g * rows)
        for k0, nk in self._chunks(p):
            wgt = e.alloc("wgt", p.halves * g * nk * r)
            self._load_panel(e, wgt, index, p, panel, k0, nk)
            for plane, k, n, act_at in self._segments(k0, nk):
                for part in act:
                    e.mm(
                        part.buf,
                        wgt,
                        acc,
                        rows=(1, part.rows),
                        row_stride=(0, self.planes * self.kt),
                        nc=n,
                        nn=p.halves * g,
                        wn=nk * r,
                        an=rows,
                        act_at=act_at,
                        wgt_at=(k - k0) * r,
                        acc_at=plane * p.halves * g * rows + part.lo,
                        accumulate=k > 0,
                    )
        return acc

    def _chunks(self, p: SectionPlan) -> Iterator[tuple[int, int]]:
        """Parts of the reduction that are loaded at once: first tile, tiles. Those of int4 do not cross sources."""
        first = 0
        for tiles in self.source_tiles if p.bits == 4 else [self.kt]:
            for k in range(0, tiles, p.blocks.chunk):
                yield first + k, min(p.blocks.chunk, tiles - k)
            first += tiles

    def _segments(self, k0: int, nk: int) -> Iterator[tuple[int, int, int, int]]:
        """Products of a chunk: plane, first reduction tile, tiles, ACT address. In one plane all tiles lie side by
        side, of two planes those of one source."""
        if self.planes == 1:
            yield 0, k0, nk, k0
            return
        first = 0
        for tiles in self.source_tiles:
            lo, hi = max(k0, first), min(k0 + nk, first + tiles)
            if lo < hi:
                for plane in range(self.planes):
                    yield plane, lo, hi - lo, self.planes * first + plane * tiles + lo - first
            first += tiles

    def _load_panel(self, e: Emitter, wgt: Buf, index: int, p: SectionPlan, panel: Panel, k0: int, nk: int) -> None:
        """A panel's weights of reduction tiles k0 .. k0 + nk - 1 into WGT, [halves][g][nk][r]."""
        c, r, kt, g = self.arch.cols, self.arch.rows, self.kt, panel.tiles
        nt = self.low.tiles_of(p.n)
        dram, size = self.weights[index], self._column_tile(p, kt)
        if p.bits == 8 and nk == kt:
            e.load(wgt, dram, g * size, (p.halves,), (nt * size,), (g * kt * r,), offset=panel.t0 * size)
            return
        e.load(
            wgt,
            dram,
            run_bytes(nk, r, c) if p.bits == 4 else nk * r * c,
            (g, p.halves),
            (size, nt * size),
            (nk * r, g * nk * r),
            offset=panel.t0 * size + self._column_tile(p, k0),
            fmt=DmaFormat.INT4 if p.bits == 4 else DmaFormat.RAW,
        )

    def _values(
        self,
        e: Emitter,
        index: int,
        p: SectionPlan,
        panel: Panel,
        unit: Unit,
        lo: int,
        rows: int,
        acc: View,
        s: Buf | None,
        vectors: Buf,
        row_stats: Buf | None,
    ) -> None:
        """Float epilogue: scales, bias, gate, residual or GEGLU product, statistics, store."""
        c, g, out = self.arch.cols, panel.tiles, self.outputs[index]
        wide = p.kind == "f32"
        bias = p.halves * g * c
        words = 2 if wide else 1
        d = View(e.alloc("vbuf", rows * g * words), Format.F32 if wide else Format.F16, g * words, words)
        affine: Factors = {"a1": _token(s), "a2": Col(vectors), "b2": Col(vectors, bias)}
        column_at: Buf | None = None
        red: Red | None = None
        if row_stats is not None:
            kind = Reduce.SUM_SQ if p.stats == "row_pair" else Reduce.ABSMAX
            red = Red(kind, row_stats, accumulate=panel.t0 > 0)
        elif p.stats == "column_pair":
            column_at = e.alloc("param", 2 * g * c)
            red = Red(Reduce.SUM_SQ, column_at, columns=True)
        if p.halves == 2:
            gate = View(e.alloc("vbuf", rows * g * 2), Format.F32, 2 * g, 2)
            gate_affine: Factors = {"a1": _token(s), "a2": Col(vectors, g * c), "b2": Col(vectors, bias + g * c)}
            table = self.low.tables[unit.tile]["phi"]
            e.vec(acc.tile(g), gate, rows, g, panel.tail, func=Function.GATE_MUL, table=table, **gate_affine)
            e.vec(acc, d, rows, g, panel.tail, op2=Op2.MUL, b=gate, red=red, **affine)
        else:
            extra: dict[str, object] = {}
            if self.op.act is not None:
                table = self.low.tables[unit.tile][GATE[self.op.act.data]]
                extra.update(func=Function.GATE_MUL, table=table)
            if self.op.residual is not None:
                source = self.low.operand(self.op.residual)
                res = e.alloc("vbuf", rows * g)
                offset = at(source, unit.b, lo, panel.t0 * c)
                e.load(res, source, 2 * panel.valid, (rows,), (pitch(source),), (g,), offset=offset)
                extra.update(op2=Op2.ADD, b=View(res, Format.F16, g, 1))
            e.vec(acc, d, rows, g, panel.tail, red=red, **affine, **extra)  # type: ignore[arg-type]
        item = 4 if wide else 2
        offset = at(out, unit.b, lo, panel.t0 * c)
        e.store(out, d.buf, item * panel.valid, (rows,), (pitch(out),), (g * words,), offset=offset)
        if column_at is not None:
            companion = self.companions[index]
            assert companion is not None
            part = self.parts[unit.b].index((lo, lo + rows))
            offset = at(companion, unit.b, part, panel.t0 * c)
            e.store(companion, column_at, 4 * panel.valid, (2,), (4 * p.n,), (g * c,), offset=offset)

    def _keys(
        self,
        e: Emitter,
        index: int,
        panel: Panel,
        unit: Unit,
        lo: int,
        rows: int,
        acc: View,
        s: Buf | None,
        vectors: Buf,
    ) -> None:
        """Int8 with a static scale for each column."""
        c, g, out = self.arch.cols, panel.tiles, self.outputs[index]
        d = View(e.alloc("act", rows * g), Format.I8, g, 1)
        e.vec(
            acc,
            d,
            rows,
            g,
            panel.tail,
            a1=_token(s),
            a2=Col(vectors),
            b2=Col(vectors, g * c),
            r=Col(vectors, 2 * g * c),
        )
        offset = at(out, unit.b, lo, panel.t0 * c)
        e.store(out, d.buf, panel.valid, (rows,), (pitch(out),), (g,), offset=offset)

    def _queries(
        self,
        e: Emitter,
        index: int,
        p: SectionPlan,
        panel: Panel,
        unit: Unit,
        lo: int,
        rows: int,
        acc: View,
        s: Buf | None,
        vectors: Buf,
    ) -> None:
        """Int8 with a scale for each token and head, from the float16-rounded value."""
        c, g, out, scales = self.arch.cols, panel.tiles, self.outputs[index], self.companions[index]
        assert scales is not None and self.op.heads is not None
        ht = p.group
        width = p.n // self.op.heads.value.data
        value = View(e.alloc("vbuf", rows * g), Format.F16, g, 1)
        d = View(e.alloc("act", rows * g), Format.I8, g, 1)
        for h in range(g // ht):
            amax = e.alloc("param", rows)
            cols = h * ht * c
            e.vec(
                acc.tile(h * ht),
                value.tile(h * ht),
                rows,
                ht,
                self.low.tail(width),
                a1=_token(s),
                a2=Col(vectors, cols),
                b2=Col(vectors, g * c + cols),
                red=Red(Reduce.ABSMAX, amax),
            )
            inv, scale = e.alloc("param", rows), e.alloc("param", rows)
            token_scales(e, amax, inv, scale, rows)
            e.vec(value.tile(h * ht), d.tile(h * ht), rows, ht, self.low.tail(width), r=Row(inv))
            head = panel.t0 // ht + h
            e.store(scales, scale, 4 * rows, offset=at(scales, unit.b, head, lo))
        offset = at(out, unit.b, lo, panel.t0 * c)
        e.store(out, d.buf, panel.valid, (rows,), (pitch(out),), (g,), offset=offset)
