"""Lower `dpu.q.attention`: scores of a block of queries with a block of keys stay in ACC, probabilities in ACT.

For each head, blocks of queries pass over blocks of keys. The product of the next block's scores is issued before this
block's probabilities are needed, so the array works while the vector unit takes exponentials. Scores never leave the
chip.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ...errors import DpuError
from ...ir.arch import Arch
from ...ir.graph import btc
from ...ir.isa import DmaFormat, Format, Function, Op2, Reduce
from ...ir.qgraph import QAttentionOp
from ...ir.tile_program import Buf, Dram
from ..tiling import Unit, cdiv, row_blocks
from .context import Block, Lowering, all_units, at, pitch
from .emitter import Col, Emitter, Factors, Red, Row, View
from .vectors import combine

MASKED = -60000.0  # added to a masked score, in powers of two: its probability is exactly 0
CLAMP = -96.0  # largest power of two by which a later key block may outweigh the first: 2^96


def fitting_key_block(head_dim: int, keys: int, arch: Arch, share: int = 4) -> int:
    """The longest key block up to 1,024: K and V in 1/share of WGT, four rows of scores in 1/4 of ACC."""
    c = arch.cols
    tiles = cdiv(head_dim, c)
    by_wgt = arch.words["wgt"] // share // (2 * tiles * arch.rows)
    by_acc = arch.words["acc"] // 4 // 4
    block = min(1024, max(1, min(by_wgt, by_acc)) * c)
    return min(block, cdiv(keys, c) * c)


@dataclass(frozen=True)
class Keys:
    """A block of keys [lo, lo + n) of one head on chip."""

    lo: int
    n: int
    k: Buf
    v: Buf
    colsum: Buf  # 128 * column sum of V times its scale


@dataclass(frozen=True)
class Scores:
    """Scores of one block of queries with one block of keys."""

    keys: Keys
    acc: Buf
    maximum: Buf


@dataclass
class Head:
    """What one head's blocks share."""

    index: int
    v_scale: Col
    mu: Col
    resident: list[Keys] | None = None
    queries: Queries | None = None  # all of the unit's, where they fit


@dataclass(frozen=True)
class Sums:
    """What a block of queries has after some blocks of keys: the first block's scores, output and divisor so far."""

    first: Scores
    o: Buf
    total: Buf


@dataclass
class Queries:
    """A block of queries [lo, lo + rows) of one head on chip."""

    lo: int
    rows: int
    q: Buf
    c: Buf
    at: int = 0  # the block's first row in `q` and `c`


class AttentionLowering:
    """One attention: the template of a unit's heads."""

    def __init__(self, low: Lowering, op: QAttentionOp) -> None:
        self.low, self.op, self.arch = low, op, low.arch
        b, t, n = btc(op.q, "q")
        self.shape = (b, t, n)
        self.keys = btc(op.k, "k")[1]
        self.heads = op.heads.value.data
        self.d = n // self.heads
        c = low.arch.cols
        if self.d % c and (self.heads > 1 or self.d > c):
            raise DpuError(
                low.source,
                f"head dimension {self.d} is no multiple of the array's {c} columns",
                why="a head's columns must be whole column tiles, or one head a part of one tile",
                hint="pad the heads, or use an arch whose columns divide the head dimension",
                code="E231",
            )
        self.ht = cdiv(self.d, c)
        self.tail = low.tail(self.d)
        self.wide = op.prob_bits.value.data == 15
        block = op.key_block.value.data
        low.admit(b * self.heads * cdiv(self.keys, block) * 8)
        self.key_blocks = [(k, min(block, self.keys - k)) for k in range(0, self.keys, block)]
        kt = cdiv(min(block, self.keys), c)
        w = low.arch.words
        planes = 2 if self.wide else 1
        self.rows = min(
            w["acc"] // 4 // kt, w["act"] // 4 // (planes * kt), w["vbuf"] // 8 // (2 * self.ht), w["param"] // 32
        )
        if op.causal is not None:
            self.rows = min(self.rows, w["vbuf"] // 8 // (3 * kt))  # mask and masked scores
        if self.rows > 0:
            low.admit(self.heads * low.blocks_of(b, t, self.rows) * cdiv(self.keys, block) * 8)
        words = 2 * kt * self.ht * low.arch.rows
        if self.rows < 1 or 2 * words > w["wgt"] or kt > 255:
            raise DpuError(
                low.source,
                f"a block of {block} keys with head dimension {self.d} does not fit the scratchpads",
                why=f"K and V take {2 * words} of {w['wgt']} weight words, scores {kt} of {w['acc']} words a row",
                hint="choose a shorter key_block",
                code="E232",
            )
        self.is_resident = len(self.key_blocks) * words <= w["wgt"] // 3
        self.kt = kt
        v_scale = op.v_scale
        self.v_scale = low.pool.add(f"{low.source}.v_scale", "f32", (1, 1, n), lambda: low.pool.param(v_scale))
        self.k_scale = [float(x) for x in op.k_scale.get_values()]
        self.mask: Dram | None = None
        if op.causal is not None:
            self.mask = low.pool.add(
                f"{low.source}.mask", "f16", (1, t, t), lambda: np.triu(np.full((t, t), MASKED, np.float16), 1)
            )
        self.out = low.result(op.y, "f16", self.shape)
        self.row_max = low.result(op.row_max, "f32", (b, 1, t), ".row_max") if op.row_max is not None else None

    def lower(self) -> None:
        self.low.run(all_units(self.shape[0], self.shape[1], self.arch), self.blocks)

    def blocks(self, unit: Unit) -> Iterator[Block]:
        """One block a head: the prologue loads what the head shares, the main part does its queries."""
        ones: Buf | None = None
        amax: Buf | None = None
        queries = row_blocks(unit, self.rows)
        rows = unit.hi - unit.lo
        scales: Buf | None = None
        shared = 2 * self.shape[2] <= self.arch.words["param"] // 8
        for h in range(self.heads):
            pro, main = self.low.emitter(), self.low.emitter()
            if ones is None:
                ones = pro.alloc("act", self.kt)
                pro.load(ones, None, self.kt * self.arch.rows, fmt=DmaFormat.FILL, fill=1)
                amax = pro.alloc("param", rows) if self.row_max is not None else None
            first, count = (0, self.heads) if shared else (h, 1)
            if scales is None or not shared:
                scales = self._load_scales(pro, unit, first, count)
            v_at = (h - first) * self.d
            head = Head(h, Col(scales, v_at), Col(scales, count * self.d + v_at))
            if self.is_resident:
                head.resident = [self._load_keys(pro, main, unit, head, ones, k, n) for k, n in self.key_blocks]
            if rows * self.ht <= self.arch.words["act"] // 16:
                head.queries = self._load_queries(pro, unit, head, unit.lo, unit.hi)
            self._attend(main, unit, head, ones, queries, amax)
            if h == self.heads - 1 and self.row_max is not None and amax is not None:
                main.store(self.row_max, amax, 4 * rows, offset=at(self.row_max, unit.b, 0, unit.lo))
            yield pro, main

    def _load_scales(self, e: Emitter, unit: Unit, first: int, count: int) -> Buf:
        """v_scale, then mu, of `count` heads."""
        mu, n = self.low.tensors[self.op.mu], count * self.d
        scales = e.alloc("param", 2 * n)
        e.load(scales, self.v_scale, 4 * n, offset=at(self.v_scale, 0, 0, first * self.d))
        e.load(scales, mu, 4 * n, sram=n, offset=at(mu, unit.b, 0, first * self.d))
        return scales

    def _load_keys(self, e: Emitter, main: Emitter, unit: Unit, head: Head, ones: Buf, k0: int, n: int) -> Keys:
        """K transposed and V into WGT by `e`; the column sums of V, which need the array, by `main`."""
        c, r, ht = self.arch.cols, self.arch.rows, self.ht
        kt = cdiv(n, c)
        k_dram, v_dram = self.low.tensors[self.op.k], self.low.tensors[self.op.v]
        k, v = e.alloc("wgt", kt * ht * r), e.alloc("wgt", kt * ht * r)
        column = head.index * self.d
        full, rest = divmod(n, c)
        strides = (pitch(k_dram), r, c * pitch(k_dram))
        for count, tiles, first in ((c, full, 0), (rest, 1, full)):
            if count and tiles:
                offset = at(k_dram, unit.b, k0 + first * c, column)
                at_word = first * ht * r
                steps = (0, r, ht * r)
                e.load(
                    k,
                    k_dram,
                    min(r, self.d),
                    (count, ht, tiles),
                    strides,
                    steps,
                    sram=at_word,
                    offset=offset,
                    fmt=DmaFormat.TRANSPOSE,
                )
        offset = at(v_dram, unit.b, k0, column)
        pad = (0, kt * r - n, 0, 0)
        e.load(v, v_dram, min(c, self.d), (n, ht), (pitch(v_dram), c), (1, kt * r), offset=offset, pad=pad)
        colsum = main.alloc("param", ht * c)
        if not self.wide:
            acc = main.alloc("acc", ht)
            main.mm(ones, v, acc, rows=(1, 1), row_stride=(0, 0), nc=kt, nn=ht, wn=kt * r, an=1)
            a, d = View(acc, Format.I32, 1, 1), View(colsum, Format.F32, ht * c, c)
            main.vec(a, d, 1, ht, self.tail, a1=128.0, a2=head.v_scale)
        return Keys(k0, n, k, v, colsum)

    def _attend(
        self, e: Emitter, unit: Unit, head: Head, ones: Buf, queries: list[tuple[int, int]], amax: Buf | None
    ) -> None:
        """All blocks of queries against all blocks of keys, scores one block ahead."""
        last = len(self.key_blocks) - 1
        items = [(q, k) for q in range(len(queries)) for k in range(last + 1)]
        if head.resident is None and self._sums_fit(unit):
            items.sort(key=lambda item: item[1])  # keys pass once, the sums of all queries wait in VBUF
        blocks: dict[int, Queries] = {}
        keys: dict[int, Keys] = {}

        def scores(item: tuple[int, int]) -> Scores:
            q, k = item
            if q not in blocks:
                lo, hi = queries[q]
                every = head.queries
                if every is not None:
                    blocks[q] = replace(every, lo=lo, rows=hi - lo, at=lo - every.lo)
                else:
                    blocks[q] = self._load_queries(e, unit, head, lo, hi)
            if head.resident is not None:
                return self._scores(e, blocks[q], head.resident[k])
            if k not in keys:
                keys.clear()
                keys[k] = self._load_keys(e, e, unit, head, ones, *self.key_blocks[k])
            return self._scores(e, blocks[q], keys[k])

        ahead = scores(items[0])
        sums: dict[int, Sums] = {}
        for i, (q, k) in enumerate(items):
            now = ahead
            if i + 1 < len(items):
                ahead = scores(items[i + 1])
            block = blocks[q]
            product, total = self._weigh(e, unit, block, now)
            if k == 0:
                o = product if last == 0 else self._start(e, block, head, now, product)
                sums[q] = Sums(now, o, total)
            else:
                self._add(e, block, head, now, product, total, sums[q])
            if k == last:
                self._finish(e, unit, block, head, now, sums.pop(q), amax)
                del blocks[q]

    def _sums_fit(self, unit: Unit) -> bool:
        """Whether what all queries of a unit need between two blocks of keys fits beside the block at work."""
        rows, w = unit.hi - unit.lo, self.arch.words
        return rows * self.ht * 2 <= w["vbuf"] // 2 and rows * self.ht <= w["act"] // 4 and rows * 3 <= w["param"] // 4

    def _load_queries(self, e: Emitter, unit: Unit, head: Head, lo: int, hi: int) -> Queries:
        rows, ht = hi - lo, self.ht
        dram, scales = self.low.tensors[self.op.q], self.low.tensors[self.op.q_scale]
        q, c = e.alloc("act", rows * ht), e.alloc("param", rows)
        offset = at(dram, unit.b, lo, head.index * self.d)
        e.load(q, dram, self.d, (rows,), (pitch(dram),), (ht,), offset=offset)
        e.load(c, scales, 4 * rows, offset=at(scales, unit.b, head.index, lo))
        e.vector(c, c, rows, a1=score_factor(self.k_scale[head.index], self.op.scale.value.data))
        return Queries(lo, rows, q, c)

    def _scores(self, e: Emitter, block: Queries, keys: Keys) -> Scores:
        kt, rows = cdiv(keys.n, self.arch.cols), block.rows
        acc, maximum = e.alloc("acc", kt * rows), e.alloc("param", rows)
        e.mm(
            block.q,
            keys.k,
            acc,
            rows=(1, rows),
            row_stride=(0, self.ht),
            nc=self.ht,
            nn=kt,
            wn=self.ht * self.arch.rows,
            an=rows,
            act_at=block.at * self.ht,
            rowmax=maximum,
            valid=keys.n,
        )
        return Scores(keys, acc, maximum)

    def _weigh(self, e: Emitter, unit: Unit, block: Queries, s: Scores) -> tuple[Buf, Buf]:
        """Probabilities of a block and their product with V: ACC [planes][ht][rows] and the row sums."""
        rows, ht, r = block.rows, self.ht, self.arch.rows
        kt = cdiv(s.keys.n, self.arch.cols)
        planes = 2 if self.wide else 1
        p, sums = e.alloc("act", planes * kt * rows), e.alloc("param", rows)
        d = View(p, Format.I15_SPLIT if self.wide else Format.I8_OFFSET, planes * kt, 1)
        top = 16319.0 if self.wide else 255.0
        a, tail, red = View(s.acc, Format.I32, 1, rows), self.low.tail(s.keys.n), Red(Reduce.SUM, sums)
        if self.mask is None:
            factors: Factors = {"a1": Row(block.c, block.at), "r": top}
            e.vec(a, d, rows, kt, tail, sub=Row(s.maximum), func=Function.EXP2, red=red, **factors)
        else:
            z, negative = self._masked(e, block, a, kt, tail, self.mask)
            e.vec(z, d, rows, kt, tail, b1=Row(negative), func=Function.EXP2, r=top, red=red)
        acc = e.alloc("acc", planes * ht * rows)
        for plane in range(planes):
            e.mm(
                p,
                s.keys.v,
                acc,
                rows=(1, rows),
                row_stride=(0, planes * kt),
                nc=kt,
                nn=ht,
                wn=kt * r,
                an=rows,
                act_at=plane * kt,
                acc_at=plane * ht * rows,
            )
        return acc, sums

    def _masked(self, e: Emitter, block: Queries, scores: View, kt: int, tail: int, mask: Dram) -> tuple[View, Buf]:
        """Scaled scores plus the mask, float32 in VBUF, and the negative of each row's maximum."""
        rows = block.rows
        m, z = e.alloc("vbuf", rows * kt), View(e.alloc("vbuf", 2 * rows * kt), Format.F32, 2 * kt, 2)
        e.load(m, mask, 2 * self.keys, (rows,), (pitch(mask),), (kt,), offset=at(mask, 0, block.lo))
        maximum = e.alloc("param", rows)
        e.vec(
            scores,
            z,
            rows,
            kt,
            tail,
            a1=Row(block.c, block.at),
            op2=Op2.ADD,
            b=View(m, Format.F16, kt, 1),
            red=Red(Reduce.MAX, maximum),
        )
        e.vector(maximum, maximum, rows, a1=-1.0)
        return z, maximum

    def _operand(self, e: Emitter, block: Queries, acc: Buf) -> View:
        """The product as a vector operand: int32, or for 15 bits the two planes combined in float32."""
        return combine(e, View(acc, Format.I32, 1, block.rows), 1 + self.wide, block.rows, self.ht, self.tail)

    def _affine(self, head: Head, keys: Keys) -> Factors:
        return {"a1": head.v_scale} if self.wide else {"a1": head.v_scale, "b1": Col(keys.colsum)}

    def _start(self, e: Emitter, block: Queries, head: Head, s: Scores, acc: Buf) -> Buf:
        """The first block's output, float32 in VBUF."""
        o = e.alloc("vbuf", block.rows * self.ht * 2)
        a = self._operand(e, block, acc)
        e.vec(a, View(o, Format.F32, 2 * self.ht, 2), block.rows, self.ht, self.tail, **self._affine(head, s.keys))
        return o

    def _add(
        self,
        e: Emitter,
        block: Queries,
        head: Head,
        s: Scores,
        acc: Buf,
        divisors: Buf,
        sums: Sums,
    ) -> None:
        """A later block, weighted by 2^(its maximum - the first block's)."""
        rows = block.rows
        w = e.alloc("param", rows)
        e.vec(
            View(s.maximum, Format.I32, 1, 1),
            View(w, Format.F32, 1, 1),
            rows,
            sub=Row(sums.first.maximum),
            a1=Row(block.c, block.at),
            a2=-1.0,
            op2=Op2.MAX,
            b=CLAMP,
        )
        e.vector(w, w, rows, a1=-1.0, func=Function.EXP2)
        view = View(sums.o, Format.F32, 2 * self.ht, 2)
        a = self._operand(e, block, acc)
        affine: Factors = {**self._affine(head, s.keys), "a2": Row(w)}
        e.vec(a, view, rows, self.ht, self.tail, op2=Op2.ADD, b=view, **affine)
        e.vector(divisors, sums.total, rows, a1=Row(w), b1=Row(sums.total))

    def _finish(
        self,
        e: Emitter,
        unit: Unit,
        block: Queries,
        head: Head,
        s: Scores,
        sums: Sums,
        amax: Buf | None,
    ) -> None:
        """Divide by the sum of probabilities, add the mean of V, store."""
        rows, ht = block.rows, self.ht
        rl = e.alloc("param", rows)
        e.vector(sums.total, rl, rows, func=Function.RECIP, op2=Op2.MUL, b=divisor(self.wide))
        d = View(e.alloc("vbuf", rows * ht), Format.F16, ht, 1)
        red: Red | None = None
        if amax is not None:
            red = Red(Reduce.ABSMAX, amax, block.lo - unit.lo, accumulate=head.index > 0)
        mu = head.mu
        if len(self.key_blocks) == 1:
            a = self._operand(e, block, sums.o)
            affine: Factors = {**self._affine(head, s.keys), "a2": Row(rl), "b2": mu}
            e.vec(a, d, rows, ht, self.tail, red=red, **affine)
        else:
            e.vec(View(sums.o, Format.F32, 2 * ht, 2), d, rows, ht, self.tail, a1=Row(rl), b1=mu, red=red)
        offset = at(self.out, unit.b, block.lo, head.index * self.d)
        e.store(self.out, d.buf, 2 * self.d, (rows,), (pitch(self.out),), (ht,), offset=offset)


def score_factor(k_scale: float, scale: float) -> float:
    """`k_scale * scale * log2(e)`, computed in float64 and rounded once to float32."""
    return float(np.float32(float(k_scale) * float(scale) * float(np.log2(np.e))))


def divisor(wide: bool) -> float:
    """1 / the largest quantised probability, float32."""
    return float(np.float32(1.0 / (16319.0 if wide else 255.0)))
