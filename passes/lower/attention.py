"""Lower `dpu.q.attention`: scores of a block of queries with a block of keys stay in ACC, probabilities in ACT.

For each head, blocks of queries pass over blocks of keys. The engines work on different items (blocks of queries and
keys, of all heads in a row): while the vector unit takes the exponentials of one, the array makes the scores of the
next and then the product of the one before with values, whose sums the vector unit takes afterwards. So neither waits
for the other's pipeline. Scores never leave the chip.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

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


@dataclass
class Keys:
    """A block of keys [lo, lo + n) of one head on chip."""

    lo: int
    n: int
    k: Buf
    v: Buf
    colsum: Buf | None = None  # 128 * column sum of V times its scale; made with the first product


@dataclass(frozen=True)
class Scores:
    """Scores of one block of queries with one block of keys."""

    keys: Keys
    acc: Buf
    maximum: Buf


@dataclass(frozen=True)
class Product:
    """Probabilities of a block times its values, ACC [planes][ht][first + rows], and the row sums of the former; with
    `first` 1 the row before the block's is the column sum of V."""

    acc: Buf
    total: Buf
    first: int


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
    line: int  # words of `q` from row to row
    first: int = 0  # word of `q` of the block's first row
    at: int = 0  # the block's first row in `c`

    def part(self, lo: int, hi: int) -> Queries:
        """Rows [lo, hi)."""
        down = lo - self.lo
        return replace(self, lo=lo, rows=hi - lo, first=self.first + down * self.line, at=self.at + down)


@dataclass
class Item:
    """A block of queries and one of keys on their way through the engines."""

    head: Head
    block: Queries
    scores: Scores
    sums: dict[int, Sums]  # of the head's blocks of queries, by the first of each
    is_last: bool  # of the block's keys
    product: Product | None = None


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
        self.planes = 2 if self.wide else 1
        self.first = 0 if self.wide else 1  # rows of ones before the probabilities
        block = op.key_block.value.data
        low.admit(b * self.heads * cdiv(self.keys, block) * 8)
        self.key_blocks = [(k, min(block, self.keys - k)) for k in range(0, self.keys, block)]
        kt = cdiv(min(block, self.keys), c)
        w = low.arch.words
        self.rows = min(
            w["acc"] // 4 // kt, w["act"] // 4 // (self.planes * kt), w["vbuf"] // 8 // (2 * self.ht), w["param"] // 32
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
        """One block a head: the prologue loads what the head shares, the main part takes in its items, and what the
        head before left under way."""
        amax: Buf | None = None
        queries = row_blocks(unit, self.rows)
        rows = unit.hi - unit.lo
        scales: Buf | None = None
        shared = 2 * self.shape[2] <= self.arch.words["param"] // 8
        flow: Flow | None = None
        # DRAMs give whole rows faster than a head's part of them; the first head is not to wait for the others'.
        line = (self.heads - 1) * self.ht
        whole, rest = rows * self.ht <= self.arch.words["act"] // 16, rows * line <= self.arch.words["act"] // 4
        every: Buf | None = None
        for h in range(self.heads):
            pro, main = self.low.emitter(), self.low.emitter()
            if flow is None:
                amax = pro.alloc("param", rows) if self.row_max is not None else None
                flow = Flow(self, unit, self._weights(pro, queries), amax)
            first, count = (0, self.heads) if shared else (h, 1)
            if scales is None or not shared:
                scales = self._load_scales(pro, unit, first, count)
            v_at = (h - first) * self.d
            head = Head(h, Col(scales, v_at), Col(scales, count * self.d + v_at))
            if self.is_resident:
                head.resident = [self._load_keys(pro, unit, head, k, n) for k, n in self.key_blocks]
            if whole and rest and h > 0:
                if every is None:
                    every = self._load_rest(pro, unit)
                c = self._load_factors(pro, unit, head, unit.lo, unit.hi)
                head.queries = Queries(unit.lo, rows, every, c, line, (h - 1) * self.ht)
            elif whole:
                head.queries = self._load_queries(pro, unit, head, unit.lo, unit.hi)
            self._attend(main, unit, head, queries, flow)
            if h == self.heads - 1:
                flow.end(main)
                if self.row_max is not None and amax is not None:
                    main.store(self.row_max, amax, 4 * rows, offset=at(self.row_max, unit.b, 0, unit.lo))
            yield pro, main

    def _weights(self, e: Emitter, queries: list[tuple[int, int]]) -> tuple[Buf, ...]:
        """Room for the probabilities of two items, ACT [rows][planes][kt]; of 8 bits with kt words of ones before them:
        what lies there before the first row is a row of ones, however short the block of keys is."""
        rows = max(hi - lo for lo, hi in queries)
        found = tuple(e.alloc("act", self.planes * self.kt * (self.first + rows)) for _ in range(2))
        if self.first:
            for w in found:
                e.load(w, None, self.kt * self.arch.rows, fmt=DmaFormat.FILL, fill=1)
        return found

    def _load_scales(self, e: Emitter, unit: Unit, first: int, count: int) -> Buf:
        """v_scale, then mu, of `count` heads."""
        mu, n = self.low.tensors[self.op.mu], count * self.d
        scales = e.alloc("param", 2 * n)
        e.load(scales, self.v_scale, 4 * n, offset=at(self.v_scale, 0, 0, first * self.d))
        e.load(scales, mu, 4 * n, sram=n, offset=at(mu, unit.b, 0, first * self.d))
        return scales

    def _load_keys(self, e: Emitter, unit: Unit, head: Head, k0: int, n: int) -> Keys:
        """K transposed and V into WGT."""
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
        return Keys(k0, n, k, v)

    def _attend(self, e: Emitter, unit: Unit, head: Head, queries: list[tuple[int, int]], flow: Flow) -> None:
        """All blocks of queries against all blocks of keys."""
        last = len(self.key_blocks) - 1
        items = [(q, k) for q in range(len(queries)) for k in range(last + 1)]
        if head.resident is None and self._sums_fit(unit):
            items.sort(key=lambda item: item[1])  # keys pass once, the sums of all queries wait in VBUF
        blocks: dict[int, Queries] = {}
        keys: dict[int, Keys] = {}
        sums: dict[int, Sums] = {}
        for q, k in items:
            if q not in blocks:
                lo, hi = queries[q]
                every = head.queries
                blocks[q] = every.part(lo, hi) if every is not None else self._load_queries(e, unit, head, lo, hi)
            if head.resident is not None:
                now = head.resident[k]
            else:
                if k not in keys:
                    keys = {k: self._load_keys(e, unit, head, *self.key_blocks[k])}
                now = keys[k]
            flow.push(e, Item(head, blocks[q], self.scores(e, blocks[q], now), sums, k == last))

    def _sums_fit(self, unit: Unit) -> bool:
        """Whether what all queries of a unit need between two blocks of keys fits beside the block at work."""
        rows, w = unit.hi - unit.lo, self.arch.words
        return rows * self.ht * 2 <= w["vbuf"] // 2 and rows * self.ht <= w["act"] // 4 and rows * 3 <= w["param"] // 4

    def _load_queries(self, e: Emitter, unit: Unit, head: Head, lo: int, hi: int) -> Queries:
        rows, ht, dram = hi - lo, self.ht, self.low.tensors[self.op.q]
        q = e.alloc("act", rows * ht)
        offset = at(dram, unit.b, lo, head.index * self.d)
        e.load(q, dram, self.d, (rows,), (pitch(dram),), (ht,), offset=offset)
        return Queries(lo, rows, q, self._load_factors(e, unit, head, lo, hi), ht)

    def _load_rest(self, e: Emitter, unit: Unit) -> Buf:
        """The queries of all heads but the first."""
        rows, dram = unit.hi - unit.lo, self.low.tensors[self.op.q]
        tiles = (self.heads - 1) * self.ht
        q = e.alloc("act", rows * tiles)
        offset = at(dram, unit.b, unit.lo, self.d)
        e.load(q, dram, self.shape[2] - self.d, (rows,), (pitch(dram),), (tiles,), offset=offset)
        return q

    def _load_factors(self, e: Emitter, unit: Unit, head: Head, lo: int, hi: int) -> Buf:
        """The scales of queries, of which `scale` makes the factors of their scores."""
        scales = self.low.tensors[self.op.q_scale]
        c = e.alloc("param", hi - lo)
        e.load(c, scales, 4 * (hi - lo), offset=at(scales, unit.b, head.index, lo))
        return c

    def scale(self, e: Emitter, head: Head, block: Queries) -> None:
        """From the scales of queries to the factors of their scores."""
        factor = score_factor(self.k_scale[head.index], self.op.scale.value.data)
        e.vector(block.c, block.c, block.c.words, a1=factor)

    def scores(self, e: Emitter, block: Queries, keys: Keys) -> Scores:
        """The product of a block of queries with a block of keys, and the maximum of each row."""
        kt, rows = cdiv(keys.n, self.arch.cols), block.rows
        acc, maximum = e.alloc("acc", kt * rows), e.alloc("param", rows)
        e.mm(
            block.q,
            keys.k,
            acc,
            rows=(1, rows),
            row_stride=(0, block.line),
            nc=self.ht,
            nn=kt,
            wn=self.ht * self.arch.rows,
            an=rows,
            act_at=block.first,
            rowmax=maximum,
            valid=keys.n,
        )
        return Scores(keys, acc, maximum)

    def weigh(self, e: Emitter, block: Queries, s: Scores, p: Buf) -> Buf:
        """Probabilities of a block into `p`; their row sums."""
        rows, kt = block.rows, cdiv(s.keys.n, self.arch.cols)
        sums = e.alloc("param", rows)
        line = self.planes * kt
        d = View(p, Format.I15_SPLIT if self.wide else Format.I8_OFFSET, line, 1, self.first * self.kt)
        top = 16319.0 if self.wide else 255.0
        a, tail, red = View(s.acc, Format.I32, 1, rows), self.low.tail(s.keys.n), Red(Reduce.SUM, sums)
        if self.mask is None:
            factors: Factors = {"a1": Row(block.c, block.at), "r": top}
            e.vec(a, d, rows, kt, tail, sub=Row(s.maximum), func=Function.EXP2, red=red, **factors)
        else:
            z, negative = self._masked(e, block, a, kt, tail, self.mask)
            e.vec(z, d, rows, kt, tail, b1=Row(negative), func=Function.EXP2, r=top, red=red)
        return sums

    def multiply(self, e: Emitter, block: Queries, keys: Keys, p: Buf, total: Buf) -> Product:
        """Probabilities times values; where the column sums of V are not known yet, the row of ones too."""
        ht, kt = self.ht, cdiv(keys.n, self.arch.cols)
        first = self.first if keys.colsum is None else 0
        rows, line = first + block.rows, self.planes * kt
        acc = e.alloc("acc", self.planes * ht * rows)
        for plane in range(self.planes):
            e.mm(
                p,
                keys.v,
                acc,
                rows=(1, rows),
                row_stride=(0, line),
                nc=kt,
                nn=ht,
                wn=kt * self.arch.rows,
                an=rows,
                act_at=plane * kt + self.first * self.kt - first * line,
                acc_at=plane * ht * rows,
            )
        return Product(acc, total, first)

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

    def _operand(self, e: Emitter, block: Queries, p: Product) -> View:
        """The product as a vector operand: int32, or for 15 bits the two planes combined in float32."""
        view = View(p.acc, Format.I32, 1, p.first + block.rows, p.first)
        return combine(e, view, self.planes, block.rows, self.ht, self.tail)

    def _affine(self, e: Emitter, head: Head, keys: Keys, p: Product) -> Factors:
        """V's scale, and of 8 bits the column sums of V that the offset asks for: they come with the first product."""
        if self.wide:
            return {"a1": head.v_scale}
        if keys.colsum is None:
            ht, c = self.ht, self.arch.cols
            keys.colsum = e.alloc("param", ht * c)
            a = View(p.acc, Format.I32, 1, self.rows_of(p))
            e.vec(a, View(keys.colsum, Format.F32, ht * c, c), 1, ht, self.tail, a1=128.0, a2=head.v_scale)
        return {"a1": head.v_scale, "b1": Col(keys.colsum)}

    def rows_of(self, p: Product) -> int:
        """Rows of a product in ACC."""
        return p.acc.words // (self.planes * self.ht)

    def start(self, e: Emitter, item: Item, p: Product) -> Sums:
        """The first block's output, float32 in VBUF."""
        rows, ht = item.block.rows, self.ht
        o = e.alloc("vbuf", rows * ht * 2)
        affine = self._affine(e, item.head, item.scores.keys, p)
        a = self._operand(e, item.block, p)
        e.vec(a, View(o, Format.F32, 2 * ht, 2), rows, ht, self.tail, **affine)
        return Sums(item.scores, o, p.total)

    def add(self, e: Emitter, item: Item, p: Product, sums: Sums) -> None:
        """A later block, weighted by 2^(its maximum - the first block's)."""
        rows, block = item.block.rows, item.block
        w = e.alloc("param", rows)
        e.vec(
            View(item.scores.maximum, Format.I32, 1, 1),
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
        affine: Factors = {**self._affine(e, item.head, item.scores.keys, p), "a2": Row(w)}
        a = self._operand(e, block, p)
        e.vec(a, view, rows, self.ht, self.tail, op2=Op2.ADD, b=view, **affine)
        e.vector(p.total, sums.total, rows, a1=Row(w), b1=Row(sums.total))

    def finish(self, e: Emitter, unit: Unit, item: Item, p: Product | None, sums: Sums, amax: Buf | None) -> None:
        """Divide by the sum of probabilities, add the mean of V, store; `p` is all there is of a single block of
        keys."""
        block, head, ht = item.block, item.head, self.ht
        rows = block.rows
        rl = e.alloc("param", rows)
        e.vector(sums.total, rl, rows, func=Function.RECIP, op2=Op2.MUL, b=divisor(self.wide))
        d = View(e.alloc("vbuf", rows * ht), Format.F16, ht, 1)
        red: Red | None = None
        if amax is not None:
            red = Red(Reduce.ABSMAX, amax, block.lo - unit.lo, accumulate=head.index > 0)
        if p is not None:
            affine: Factors = {**self._affine(e, head, item.scores.keys, p), "a2": Row(rl), "b2": head.mu}
            a = self._operand(e, block, p)
            e.vec(a, d, rows, ht, self.tail, red=red, **affine)
        else:
            e.vec(View(sums.o, Format.F32, 2 * ht, 2), d, rows, ht, self.tail, a1=Row(rl), b1=head.mu, red=red)
        offset = at(self.out, unit.b, block.lo, head.index * self.d)
        e.store(self.out, d.buf, 2 * self.d, (rows,), (pitch(self.out),), (ht,), offset=offset)


@dataclass
class Flow:
    """The items of a unit under way. Each goes through three turns: scores, exponentials and the product with values,
    and what the vector unit makes of that."""

    low: AttentionLowering
    unit: Unit
    weights: tuple[Buf, ...]
    amax: Buf | None
    ahead: Item | None = None  # its scores are issued
    late: Item | None = None  # its product is issued
    count: int = 0
    scaled: set[Buf] = field(default_factory=set)  # the queries' scales that are factors of scores already

    def push(self, e: Emitter, item: Item | None) -> None:
        """A turn: the item's scores were issued last."""
        now, before = self.ahead, self.late
        total: Buf | None = None
        p = self.weights[self.count % len(self.weights)]
        if now is not None:
            if now.block.c not in self.scaled:  # not in the prologue: what waits for a LOAD there holds up this one's
                self.low.scale(e, now.head, now.block)
                self.scaled.add(now.block.c)
            total = self.low.weigh(e, now.block, now.scores, p)
        if before is not None:
            self._take(e, before)
        if now is not None and total is not None:
            e.cut()  # the next scores are made, this product waits for exponentials
            now.product = self.low.multiply(e, now.block, now.scores.keys, p, total)
            self.count += 1
        self.ahead, self.late = item, now

    def end(self, e: Emitter) -> None:
        """What is under way, to its end."""
        while self.ahead is not None or self.late is not None:
            self.push(e, None)

    def _take(self, e: Emitter, item: Item) -> None:
        """The vector unit's part of a product."""
        p, key = item.product, item.block.lo
        assert p is not None
        if key not in item.sums and item.is_last:
            self.low.finish(e, self.unit, item, p, Sums(item.scores, p.acc, p.total), self.amax)
            return
        if key not in item.sums:
            item.sums[key] = self.low.start(e, item, p)
        else:
            self.low.add(e, item, p, item.sums[key])
        if item.is_last:
            self.low.finish(e, self.unit, item, None, item.sums.pop(key), self.amax)


def score_factor(k_scale: float, scale: float) -> float:
    """`k_scale * scale * log2(e)`, computed in float64 and rounded once to float32."""
    return float(np.float32(float(k_scale) * float(scale) * float(np.log2(np.e))))


def divisor(wide: bool) -> float:
    """1 / the largest quantised probability, float32."""
    return float(np.float32(1.0 / (16319.0 if wide else 255.0)))
