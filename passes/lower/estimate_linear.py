"""Segments of a linear and of the passes over rows, for estimates: the templates of `linear.py` and `rowwise.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...ir.arch import Arch
from ...ir.isa import RED_ACCUMULATE, RED_COLUMNS, Function, Op2, Operand, pack
from ..int4 import run_bytes
from ..tiling import Blocks, act_parts, balanced, cdiv, linear_blocks, longest_product, reduction_step
from .estimate_kernel import LEAD
from .estimate_shapes import LinearShape, RowwiseShape, SectionShape
from .estimate_words import (
    ABSMAX,
    ACC,
    ACT8,
    ACT15,
    ALL,
    BLOCK,
    COL,
    IMM,
    INT4,
    ITEM,
    NONE,
    PAIR,
    PART,
    ROW,
    SUM,
    UNIT,
    VEC16,
    VEC32,
    At,
    Builder,
    Slot,
    item_bytes,
    kept,
    pitch,
)
from .linear import BATCH
from .rowwise import STAT_CHUNK

FILLED = 10
"""Blocks of a row pass before it is steady: LOAD runs ahead until VBUF, of which a block takes an eighth, is full."""

Panels = list[tuple[int, int, int]]
"""Segments of products and epilogues, and how often each pair comes."""

TiledUnit = tuple[int, int, int]
"""Sample, first and end row of a unit, counted from the tile's first row."""


def tile_units(samples: int, tokens: int, tiles: int) -> list[TiledUnit]:
    """Units of the fullest tile, see `tiling.units`."""
    rows = balanced(tokens, tiles)[0][1]
    if samples > 1:
        return [(b, 0, rows) for b in range(samples)]
    return [(0, lo, hi) for lo, hi in balanced(rows, 2) if hi > lo]


def blocks_of(unit: TiledUnit, rows: int) -> list[tuple[int, int]]:
    """See `tiling.row_blocks`."""
    _, lo, hi = unit
    return [(lo + a, lo + z) for a, z in balanced(hi - lo, cdiv(hi - lo, rows))]


def timed(sizes: Sequence[object], lead: int = LEAD) -> Iterator[tuple[int, bool, int, int]]:
    """The blocks that are timed: (number, whether a window ends, extra, window); extra 0: no mark before this one.

    In a run of equal sizes, only some are. The first block of all is not part of a run: it may load more.
    """
    runs = [[0]] if sizes else []
    for i in range(1, len(sizes)):
        if len(runs) > 1 and sizes[i] == sizes[i - 1]:
            runs[-1].append(i)
        else:
            runs.append([i])
    for run in runs:
        k = kept(len(run), lead)
        for n in k.numbers:
            marked = n in (k.begin, k.end)
            yield run[n], n == k.end, k.extra if marked else 0, k.window


def linear_plan(s: LinearShape, where: str, arch: Arch) -> list[Blocks]:
    """Blocks of every section, as `linear.plan_linear`.

    Raises:
        DpuError: E230, one row does not fit.
    """
    c = arch.cols
    kt = sum(cdiv(k, c) for k in s.widths)
    rows = max(hi - lo for _, lo, hi in tile_units(s.samples, s.tokens, arch.tiles))

    def blocks(p: SectionShape, most: int) -> Blocks:
        group = cdiv(p.n // s.heads, c) if p.kind == "q8_head" and s.heads else p.halves
        nt = p.halves * cdiv(p.n, c)
        longest = longest_product(arch, p.kind)
        return linear_blocks(where, kt, nt, most, group, arch, longest, s.planes, reduction_step(arch, p.bits))

    rows = min(blocks(p, rows).rows for p in s.sections)
    return [blocks(p, rows) for p in s.sections]


def prologue_cycles(s: LinearShape, rows: int, arch: Arch) -> int:
    """About the cycles of the vector unit's passes over rows before they are multiplied: quantisation, with LayerNorm
    or without row maxima the maximum before it."""
    passes = 0 if s.stored else 1 if s.static or (s.supplied and not s.norm) else 2
    return passes * rows * sum(cdiv(k, arch.cols) for k in s.widths) * cdiv(arch.cols, arch.lanes)


def linear_parts(s: LinearShape, rows: int, tiles: int) -> int:
    """Partials of a linear's column statistics: row blocks of one sample."""
    ranges = [hi - lo for lo, hi in balanced(s.tokens, tiles) if hi > lo]
    if s.samples == 1:
        ranges = [z - a for n in ranges for a, z in balanced(n, 2) if z > a]
    return sum(cdiv(n, rows) for n in ranges)


@dataclass
class _Input:
    act: list[tuple[Slot, int]]  # buffers and the rows of each
    scale: Slot  # of each token, or -1


def linear(e: Builder, s: LinearShape, where: str) -> None:
    """Write a linear."""
    arch, c = e.arch, e.c
    plans = linear_plan(s, where, arch)
    kts = [cdiv(k, c) for k in s.widths]
    made: dict[tuple[int, bool], tuple[list[int], Panels]] = {}
    block, end = 0, -1
    for number, unit in enumerate(tile_units(s.samples, s.tokens, arch.tiles)):
        cut = blocks_of(unit, plans[0].rows)
        for i, ends, extra, window in timed([z - a for a, z in cut]):
            lo, hi = cut[i]
            first = s.norm and lo == unit[1]
            key = (hi - lo, first)
            if key not in made:
                made[key] = _block(e, s, plans, kts, hi - lo, first, made)
            prologue, panels = made[key]
            at = At(block, number, unit[0], (lo, hi))
            for n, part in enumerate(prologue):
                e.step(part, 1, at, PART if n else 1)
            if extra:
                e.mark(0, ends, extra, window, at)
            e.panels(panels, at)
            if end < 0:
                e.release(e.program.blocked)
                end = e.end()
            e.step(end, 1, at)
            block += 1


def _block(
    e: Builder,
    s: LinearShape,
    plans: list[Blocks],
    kts: list[int],
    rows: int,
    first: bool,
    made: dict[tuple[int, bool], tuple[list[int], Panels]],
) -> tuple[list[int], Panels]:
    """The parts of a block's prologue and its panels with how often each comes."""
    slots = e.program.named
    prologue = _prologue(e, s, plans[0].sub, kts, rows, first, slots)
    for (known_rows, _), (_, panels) in made.items():
        if known_rows == rows:
            return prologue, panels
    panels = []
    for index, (p, b) in enumerate(zip(s.sections, plans, strict=True)):
        panels += _section(e, s, index, p, b, kts, rows, _Input(_parts(e, s, kts, rows), slots["s"]))
    return prologue, panels


def _shared(e: Builder, slots: dict[str, Slot], name: str, space: str, words: int, mode: int) -> Slot:
    """A slot that several segments allocate."""
    if name in slots:
        e.again(slots[name], space, words)
    else:
        slots[name] = e.slot(space, words, mode)
    return slots[name]


def _prologue(
    e: Builder, s: LinearShape, sub: int, kts: list[int], rows: int, first: bool, slots: dict[str, Slot]
) -> list[int]:
    kt, k = sum(kts), s.widths[0]
    if first:
        norm = _shared(e, slots, "norm", "param", 2 * k + e.c, UNIT)
        e.load(norm, "param", 4 * k, (2,), (pitch(k, 4),))
    line = s.planes * kt
    parts = act_parts(rows, line, e.arch)
    act = [_shared(e, slots, f"act {i}", "act", line * (z - a), BLOCK) for i, (a, z) in enumerate(parts)]
    if s.stored:
        slots["s"] = -1
        for slot, (a, z) in zip(act, parts, strict=True):
            for role, width in enumerate(s.widths):
                e.load(slot, "act", width, (z - a,), (pitch(width, 1),), role=role)
        return [e.end()]
    if s.static:
        slots["s"] = -1
        return _static(e, s, kts, rows, slots, _steps(act, parts, sub))
    amax, inv, scale = (_shared(e, slots, name, "param", rows, BLOCK) for name in ("amax", "inv", "s"))
    known = not s.norm and s.supplied
    if known:
        e.load(amax, "param", 4 * rows, role=2)
        e.token_scales(amax, inv, scale, rows)
    stats = _supplied(e, s, rows)
    made = [_begun(e)]
    for slot, a, z in _steps(act, parts, BATCH * sub):
        pieces = [(n, _rows_in(e, s, kt, n)) for n in (min(i + sub, z) - i for i in range(a, z, sub))]
        affine = [_affine(e, s, kts, buf, n, stats, slots) for n, buf in pieces]
        if not known:
            for (n, buf), (m1, m2, used) in zip(pieces, affine, strict=True):
                _pass(e, s, kts, buf, n, NONE, used, (amax,), m1=m1, m2=m2, red=ABSMAX)
            e.token_scales(amax, inv, scale, z - a)
        for (n, buf), (m1, m2, used) in zip(pieces, affine, strict=True):
            _pass(e, s, kts, buf, n, _INTEGERS[s.planes], (*used, inv), (slot,), m1=m1, m2=m2, r=ROW)
        made.append(e.end())
    return made


def _begun(e: Builder) -> int:
    """The segment before a prologue's first rows: perhaps nothing but buffers."""
    e.release(())
    return e.end()


_INTEGERS = {1: ACT8, 2: ACT15}


def _supplied(e: Builder, s: LinearShape, rows: int) -> tuple[Slot, Slot] | None:
    """LayerNorm's vectors from the producer's row pair."""
    if not (s.norm and s.supplied):
        return None
    pair = e.slot("param", 2 * rows)
    e.load(pair, "param", 4 * rows, (2,), (pitch(s.tokens, 4),), role=2)
    return e.norm_vectors(pair, pair, rows, BLOCK)


def _rows_in(e: Builder, s: LinearShape, kt: int, n: int) -> Slot:
    """float16 rows of every source."""
    buf = e.slot("vbuf", n * kt)
    for role, width in enumerate(s.widths):
        e.load(buf, "vbuf", 2 * width, (n,), (pitch(width, 2),), role=role)
    return buf


def _affine(
    e: Builder,
    s: LinearShape,
    kts: list[int],
    buf: Slot,
    n: int,
    stats: tuple[Slot, Slot] | None,
    slots: dict[str, Slot],
) -> tuple[int, int, tuple[Slot, ...]]:
    """Affine 1, affine 2 and what they read, of LayerNorm on a piece."""
    if not s.norm:
        return 0, 0, ()
    if stats is None:
        pair = e.slot("param", 2 * n)
        _pass(e, s, kts, buf, n, NONE, (), (pair,), red=PAIR)
        stats = e.norm_vectors(pair, pair, n)
    return pack(ROW, ROW), pack(COL, COL), (*stats, slots["norm"])


def _static(
    e: Builder,
    s: LinearShape,
    kts: list[int],
    rows: int,
    slots: dict[str, Slot],
    steps: Iterator[tuple[Slot, int, int]],
) -> list[int]:
    """As `LinearLowering._static_rows`."""
    stats = _supplied(e, s, rows)
    made = [_begun(e)]
    for slot, a, z in steps:
        buf = _rows_in(e, s, sum(kts), z - a)
        m1, m2, used = _affine(e, s, kts, buf, z - a, stats, slots)
        _pass(e, s, kts, buf, z - a, _INTEGERS[s.planes], used, (slot,), m1=m1, m2=m2, r=IMM)
        made.append(e.end())
    return made


def _steps(act: Sequence[Slot], parts: Sequence[tuple[int, int]], most: int) -> Iterator[tuple[Slot, int, int]]:
    """The rows of a block, at most `most` of a part at a time."""
    for slot, (lo, hi) in zip(act, parts, strict=True):
        for a in range(lo, hi, most):
            yield slot, a, min(a + most, hi)


def _parts(e: Builder, s: LinearShape, kts: list[int], rows: int) -> list[tuple[Slot, int]]:
    """Buffers of a block in ACT and the rows of each."""
    parts = act_parts(rows, s.planes * sum(kts), e.arch)
    return [(e.program.named[f"act {i}"], z - a) for i, (a, z) in enumerate(parts)]


def _pass(
    e: Builder,
    s: LinearShape,
    kts: list[int],
    buf: Slot,
    rows: int,
    d: int,
    reads: tuple[Slot, ...],
    writes: tuple[Slot, ...],
    *,
    m1: int = 0,
    m2: int = 0,
    r: int = 0,
    red: int = 0,
) -> None:
    for i, (width, tiles) in enumerate(zip(s.widths, kts, strict=True)):
        again = RED_ACCUMULATE if red and i else 0
        valid = (width - 1) % e.c + 1
        e.vec((buf, *reads), writes, rows, tiles, valid, VEC16, d, m1=m1, m2=m2, r=r, red=red | again)


def _section(
    e: Builder, s: LinearShape, index: int, p: SectionShape, b: Blocks, kts: list[int], rows: int, x: _Input
) -> Panels:
    """The panels of a section."""
    c = e.c
    nt = cdiv(p.n, c)
    step = b.panel // p.halves
    made: Panels = []
    row_stats = -1
    full, rest = divmod(nt, step)
    tail = (p.n - 1) % c + 1
    by_row = p.stats in ("row_pair", "row_max")
    # The first panel starts what the others add to, the last may be ragged and stores it.
    sizes = [(step, c)] * full + [(rest, c)] * (rest > 0)
    sizes[-1] = (sizes[-1][0], tail)
    products = {g: _product(e, s, p, b, kts, x.act, g) for g in dict.fromkeys(g for g, _ in sizes)}
    runs: dict[tuple[int, int, bool, bool], int] = {}
    for n, (g, last) in enumerate(sizes):
        key = (g, last, by_row and n > 0, by_row and n == len(sizes) - 1)
        runs[key] = runs.get(key, 0) + 1
    for (g, last, again, stores), times in runs.items():
        if by_row and not again:
            row_stats = e.slot("param", rows * (2 if p.stats == "row_pair" else 1), BLOCK)
        epilogue = _epilogue(e, s, index, p, rows, x, g, last, row_stats, again, stores)
        made.append((products[g], epilogue, times))
    return made


def _epilogue(
    e: Builder,
    s: LinearShape,
    index: int,
    p: SectionShape,
    rows: int,
    x: _Input,
    g: int,
    tail: int,
    row_stats: Slot,
    again: bool,
    stores: bool,
) -> int:
    """As `LinearLowering._epilogue`; `stores`: the row statistics are complete."""
    c, h = e.c, p.halves
    made = e.program.named["product"]
    acc = made
    nt = cdiv(p.n, c)
    valid = (g - 1) * c + tail
    item = item_bytes(p.kind)
    count = 3 if p.kind == "q8_static" else 2
    vectors = e.slot("param", count * h * g * c)
    e.load(vectors, "param", g * c * 4, (h, count), (nt * c * 4, pitch(h * nt * c, 4)))
    source = ACC
    if s.planes > 1:
        acc, source = e.combine(acc, rows, h * g, tail), VEC32
    m1 = ROW if x.scale >= 0 else 0
    token = (x.scale,) if x.scale >= 0 else ()
    m2 = pack(COL, COL)
    if p.kind == "q8_head":
        _queries(e, s, index, p, rows, acc, source, vectors, token, g, valid, m1)
        return _ended(e, made)
    if p.kind == "q8_static":
        d = e.slot("act", rows * g)
        e.vec((acc, vectors, *token), (d,), rows, g, tail, source, ACT8, m1=m1, m2=m2, r=COL)
        e.store(d, "act", valid, (rows,), (pitch(p.n, 1),), role=2 * index)
        return _ended(e, made)
    wide = p.kind == "f32"
    d = e.slot("vbuf", rows * g * (2 if wide else 1))
    target = VEC32 if wide else VEC16
    red, into = 0, list[Slot]()
    columns = -1
    if row_stats >= 0:
        red = (PAIR if p.stats == "row_pair" else ABSMAX) | (RED_ACCUMULATE if again else 0)
        into = [row_stats]
    elif p.stats == "column_pair":
        columns = e.slot("param", 2 * g * c)
        red, into = PAIR | RED_COLUMNS, [columns]
    reads = [acc, vectors, *token]
    if h == 2:
        gate = e.slot("vbuf", rows * g * 2)
        e.vec(reads, (gate,), rows, g, tail, source, VEC32, m1=m1, m2=m2, func=Function.GATE_MUL)
        op2 = pack(Op2.MUL, Operand.ELEM)
        e.vec([*reads, gate], (d, *into), rows, g, tail, source, target, m1=m1, m2=m2, op2=op2, b=VEC32, red=red)
    else:
        func = Function.GATE_MUL if s.gate else Function.NONE
        op2, other = 0, NONE
        if s.residual:
            res = e.slot("vbuf", rows * g)
            e.load(res, "vbuf", 2 * valid, (rows,), (pitch(p.n, 2),), role=3)
            op2, other = pack(Op2.ADD, Operand.ELEM), VEC16
            reads.append(res)
        e.vec(reads, (d, *into), rows, g, tail, source, target, m1=m1, m2=m2, op2=op2, b=other, func=func, red=red)
    e.store(d, "vbuf", item * valid, (rows,), (pitch(p.n, item),), role=2 * index)
    if columns >= 0:
        e.store(columns, "param", 4 * valid, (2,), (4 * p.n,), role=2 * index + 1)
    if stores:
        n = (2,) if p.stats == "row_pair" else (1,)
        e.store(row_stats, "param", 4 * rows, n, (pitch(s.tokens, 4),), role=2 * index + 1)
    return _ended(e, made)


def _ended(e: Builder, product: Slot) -> int:
    """The number of an epilogue's segment, which ends its product."""
    e.frees.append(product)
    e.free_at[-1] = len(e.frees)
    return e.end()


def _product(
    e: Builder, s: LinearShape, p: SectionShape, b: Blocks, kts: list[int], act: list[tuple[Slot, int]], g: int
) -> int:
    """As `LinearLowering._product`."""
    c, r, kt, h = e.c, e.arch.rows, sum(kts), p.halves
    nt, tile = cdiv(p.n, c), e.arch.rows * c
    size = sum(run_bytes(t, r, c) for t in kts) if p.bits == 4 else kt * tile
    rows = sum(n for _, n in act)
    acc = _shared(e, e.program.named, "product", "acc", s.planes * h * g * rows, ITEM)
    begin = 0
    for tiles in kts if p.bits == 4 else [kt]:
        for k in range(0, tiles, b.chunk):
            k0, nk = begin + k, min(b.chunk, tiles - k)
            wgt = e.slot("wgt", h * g * nk * r)
            if p.bits == 4:
                e.load(wgt, "wgt", run_bytes(nk, r, c), (g, h), (size, nt * size), fmt=INT4)
            elif nk == kt:
                e.load(wgt, "wgt", g * size, (h,), (nt * size,))
            else:
                e.load(wgt, "wgt", nk * tile, (g, h), (size, nt * size))
            for n, later in _segments(s, kts, k0, nk):
                for slot, part in act:
                    e.product(slot, wgt, acc, part, n, h * g, accumulate=later)
        begin += tiles
    return e.end()


def _segments(s: LinearShape, kts: list[int], k0: int, nk: int) -> Iterator[tuple[int, bool]]:
    """Products of a chunk, as `LinearLowering._segments`: reduction tiles, and whether the sum goes on."""
    if s.planes == 1:
        yield nk, k0 > 0
        return
    begin = 0
    for tiles in kts:
        lo, hi = max(k0, begin), min(k0 + nk, begin + tiles)
        if lo < hi:
            yield from [(hi - lo, lo > 0)] * s.planes
        begin += tiles


def _queries(
    e: Builder,
    s: LinearShape,
    index: int,
    p: SectionShape,
    rows: int,
    acc: Slot,
    source: int,
    vectors: Slot,
    token: tuple[Slot, ...],
    g: int,
    valid: int,
    m1: int,
) -> None:
    width = p.n // s.heads
    ht = cdiv(width, e.c)
    tail = (width - 1) % e.c + 1
    value, d = e.slot("vbuf", rows * g), e.slot("act", rows * g)
    for _ in range(g // ht):
        amax = e.slot("param", rows)
        reads = (acc, vectors, *token)
        e.vec(reads, (value, amax), rows, ht, tail, source, VEC16, m1=m1, m2=pack(COL, COL), red=ABSMAX)
        inv, scale = e.slot("param", rows), e.slot("param", rows)
        e.token_scales(amax, inv, scale, rows)
        e.vec((value, inv), (d,), rows, ht, tail, VEC16, ACT8, r=ROW)
        e.store(scale, "param", 4 * rows, role=2 * index + 1)
    e.store(d, "act", valid, (rows,), (pitch(p.n, 1),), role=2 * index)


# -- passes over rows ------------------------------------------------------------------------------------------------


def rowwise(e: Builder, s: RowwiseShape, parts: tuple[int, ...]) -> None:
    """Write a pass over rows; `parts` are the partials of each source's column statistics."""
    w, c = e.arch.words, e.c
    widest = max(cdiv(k, c) for k in s.widths)
    most = max(1, min(w["vbuf"] // 8 // widest, w["act"] // 8 // (s.planes * widest), w["param"] // 32))
    slots: dict[str, Slot] = {}
    prologues: dict[bool, int] = {}
    mains: dict[int, int] = {}
    end, block = -1, 0
    for number, unit in enumerate(tile_units(s.samples, s.tokens, e.arch.tiles)):
        at = At(block, number, unit[0], unit[1:])
        if s.kind in ("group_norm", "centre"):
            first = unit[1] == 0
            if first not in prologues:
                make = _coefficients if s.kind == "group_norm" else _means
                prologues[first] = make(e, s, parts, slots, first)
            e.step(prologues[first], 1, at, 1)
        cut = blocks_of(unit, most)
        for i, ends, extra, window in timed([z - a for a, z in cut], FILLED):
            lo, hi = cut[i]
            if hi - lo not in mains:
                mains[hi - lo] = _rows(e, s, hi - lo, slots)
            at = At(block, number, unit[0], (lo, hi))
            if extra:
                e.mark(0, ends, extra, window, at)
            e.step(mains[hi - lo], 1, at)
            block += 1
        if end < 0:
            e.release(e.program.united)
            end = e.end()
        e.step(end, 1, at)


def _rows(e: Builder, s: RowwiseShape, rows: int, slots: dict[str, Slot]) -> int:
    amax = e.slot("param", rows) if s.row_max else -1
    out = sum(s.widths)
    for i, width in enumerate(s.widths):
        tiles = cdiv(width, e.c)
        wide = s.in_item == 4
        x = e.slot("vbuf", rows * tiles * (2 if wide else 1))
        e.load(x, "vbuf", s.in_item * width, (rows,), (pitch(width, s.in_item),), role=i)
        space, d_src = ("act", _INTEGERS[s.planes]) if s.out_item == 1 else ("vbuf", VEC16)
        d = e.slot(space, s.planes * rows * tiles)
        m1, r, reads = 0, 0, [x]
        if "vectors" in slots:
            reads.append(slots["vectors"])
            m1 = pack(COL, COL) if s.kind == "group_norm" else pack(0, COL)
            r = 0 if s.out_item != 1 else IMM if s.kind == "group_norm" else COL
        elif s.kind == "quantise":
            r = IMM
        func = Function.GATE_MUL if s.gate else Function.NONE
        red, into = 0, [d]
        if amax >= 0:
            red, into = ABSMAX | (RED_ACCUMULATE if i else 0), [d, amax]
        valid = (width - 1) % e.c + 1
        e.vec(reads, into, rows, tiles, valid, VEC32 if wide else VEC16, d_src, m1=m1, r=r, func=func, red=red)
        n, strides = (rows, s.planes), (pitch(s.planes * out, s.out_item), out)
        e.store(d, space, s.out_item * width, n[: s.planes], strides[: s.planes], role=0)
    if amax >= 0:
        e.store(amax, "param", 4 * rows, role=1)
    return e.end()


def _sums(e: Builder, channels: int, parts: int, role: int) -> Slot:
    """As `rowwise.column_sums`."""
    tiles = cdiv(channels, e.c)
    total = e.slot("param", tiles * e.c)
    chunk = max(1, min(STAT_CHUNK, e.arch.words["vbuf"] // 8 // (2 * tiles)))
    for p0 in range(0, parts, chunk):
        n = min(chunk, parts - p0)
        buf = e.slot("vbuf", n * tiles * 2)
        e.load(buf, "vbuf", 4 * channels, (n,), (pitch(2 * channels, 4),), role=role, mode=ALL)
        red = SUM | RED_COLUMNS | (RED_ACCUMULATE if p0 else 0)
        e.vec((buf,), (total,), n, tiles, (channels - 1) % e.c + 1, VEC32, NONE, red=red)
    return total


def _means(e: Builder, s: RowwiseShape, parts: tuple[int, ...], slots: dict[str, Slot], first: bool) -> int:
    n = s.widths[0]
    total = _sums(e, n, parts[0], 2)
    vectors = _shared(e, slots, "vectors", "param", 2 * cdiv(n, e.c) * e.c, UNIT)
    e.load(vectors, "param", 4 * n)
    e.vector(total, vectors, n, m1=IMM)
    if first:
        mean = e.slot("param", n)
        e.vector(total, mean, n, m1=IMM)
        e.store(mean, "param", 4 * n, role=1)
    return e.end()


SUMS, GROUPS = 6, 7  # roles of GroupNorm's two small tensors of a tile, written and read by itself


def _coefficients(e: Builder, s: RowwiseShape, parts: tuple[int, ...], slots: dict[str, Slot], first: bool) -> int:
    del first
    c, groups = sum(s.widths), s.groups
    for i, width in enumerate(s.widths):
        for _ in (0, 1):
            total = _sums(e, width, parts[i], 2 + i)
            e.store(total, "param", 4 * width, role=SUMS)
    per = c // groups
    tiles = cdiv(per, e.c)
    grouped = e.slot("param", 2 * groups)
    for _ in (0, 1):
        buf = e.slot("vbuf", groups * tiles * 2)
        e.load(buf, "vbuf", 4 * per, (groups,), (4 * per,), role=SUMS)
        e.vec((buf,), (grouped,), groups, tiles, (per - 1) % e.c + 1, VEC32, NONE, red=SUM)
    r, nb = e.norm_vectors(grouped, grouped, groups)
    e.store(r, "param", 4 * groups, role=GROUPS)
    e.store(nb, "param", 4 * groups, role=GROUPS)
    vectors = _shared(e, slots, "vectors", "param", 2 * c + e.c, UNIT)
    e.load(vectors, "param", 4, (per, groups, 2), (0, 4, pitch(groups, 4)), role=GROUPS)
    gb = e.slot("param", 2 * c)
    e.load(gb, "param", 4 * c, (2,), (pitch(c, 4),))
    e.vector(vectors, vectors, c, also=(gb,), m1=ROW)
    e.vector(vectors, vectors, c, also=(gb,), m1=pack(ROW, ROW))
    return e.end()
