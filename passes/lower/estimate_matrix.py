"""Segments of convolutions and attention, for estimates: the templates of `conv.py` and `attention.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from ...errors import DpuError
from ...ir.arch import Arch
from ...ir.isa import RED_ACCUMULATE, RED_COLUMNS, Function, Op2, Operand, pack
from ..int4 import run_bytes
from ..tiling import Blocks, Rect, balanced, cdiv, conv_blocks, rectangles, reduction_step
from .attention import fitting_key_block
from .estimate_linear import blocks_of, tile_units, timed
from .estimate_shapes import AttentionShape, ConvShape
from .estimate_words import (
    ABSMAX,
    ACC,
    ACT8,
    ACT15,
    ALL,
    BLOCK,
    COL,
    FILL,
    IMM,
    INSTANCES,
    INT4,
    ITEM,
    KEY,
    MAXIMUM,
    NONE,
    PAIR,
    PAR32,
    PARI32,
    QUERY,
    ROW,
    SUM,
    TRANSPOSE,
    UNIT,
    VEC16,
    VEC32,
    At,
    Builder,
    Slot,
    kept,
    pitch,
)

# -- convolutions ----------------------------------------------------------------------------------------------------


def conv_plan(s: ConvShape, where: str, arch: Arch) -> tuple[Blocks, tuple[int, int]]:
    """Blocks of a convolution and the grid of pixels that its rectangles cut, as `conv.plan_conv`.

    Raises:
        DpuError: E230, one pixel does not fit.
    """
    c = arch.cols
    cts, nt = tuple(cdiv(k, c) for k in s.widths), cdiv(s.n, c)
    kh, kw = s.kernel
    more = (s.planes, reduction_step(arch, s.bits))
    if s.upsample:
        return conv_blocks(where, cts, 4, 3, 1, s.size[1], nt, arch, *more), s.size
    return conv_blocks(where, cts, kh * kw, max(kh, kw), s.stride, s.out[1], nt, arch, *more), s.out


def _pieces(lo: int, hi: int, width: int, most: int) -> list[tuple[int, int]]:
    """Rectangles of pixels [lo, hi) by size: (pixels, how many), as `tiling.rectangles` cuts them."""
    found: dict[int, int] = {}

    def add(n: int, times: int = 1) -> None:
        left = n
        while left > 0:
            part = cdiv(left, cdiv(left, most))
            found[part] = found.get(part, 0) + times
            left -= part

    head = min(-lo % width, hi - lo)
    if head:
        add(head)
    full = (hi - lo - head) // width
    rest = hi - lo - head - full * width
    if full and most >= width:
        left = full
        while left > 0:
            count = cdiv(left, cdiv(left, most // width))
            found[count * width] = found.get(count * width, 0) + 1
            left -= count
    elif full:
        add(width, full)
    if rest:
        add(rest)
    return list(found.items())


def _unit_ranges(samples: int, tokens: int, tiles: int) -> list[list[tuple[int, int]]]:
    """Of each tile, the units of one sample."""
    ranges = [r for r in balanced(tokens, tiles) if r[1] > r[0]]
    if samples > 1:
        return [[r] for r in ranges]
    return [[(lo + a, lo + z) for a, z in balanced(hi - lo, 2) if z > a] for lo, hi in ranges]


@cache
def slowest_tile(samples: int, rows: int, grid: tuple[int, int], tiles: int, height: int) -> tuple[int, int, int]:
    """(tile whose rectangles keep the array longest, its rectangles, those of all tiles), of one sample.

    Rectangles are of at most `rows` pixels; the array has `height` rows. Many convolutions share these numbers.
    """
    most, at, mine, rects = -1, 0, 0, 0
    seen: dict[tuple[tuple[int, int], ...], tuple[int, int]] = {}
    for tile, units in enumerate(_unit_ranges(samples, grid[0] * grid[1], tiles)):
        key = tuple((lo % grid[1], hi - lo) for lo, hi in units)
        if key not in seen:
            parts = [p for lo, hi in units for p in _pieces(lo, hi, grid[1], rows)]
            cycles = sum(max(pixels, height) * times for pixels, times in parts)
            seen[key] = (cycles, sum(times for _, times in parts))
        cycles, count = seen[key]
        rects += count
        if cycles > most:
            most, at, mine = cycles, tile, count
    return at, mine, rects


def conv_parts(s: ConvShape, where: str, arch: Arch) -> int:
    """Partials of a convolution's column statistics in one sample."""
    blocks, grid = conv_plan(s, where, arch)
    return slowest_tile(s.samples, blocks.rows, grid, arch.tiles, arch.rows)[2] * (4 if s.upsample else 1)


def conv(e: Builder, s: ConvShape, where: str) -> None:
    """Write a convolution as its slowest tile runs it."""
    blocks, grid = conv_plan(s, where, e.arch)
    tile, mine, all_rects = slowest_tile(s.samples, blocks.rows, grid, e.arch.tiles, e.arch.rows)
    e.program.tiles = all_rects / mine  # each rectangle reads all weights
    ranges = _unit_ranges(s.samples, grid[0] * grid[1], e.arch.tiles)[tile]
    first = ranges[0][0]
    units = [(b, *ranges[0]) for b in range(s.samples)] if s.samples > 1 else [(0, *r) for r in ranges]
    made: dict[tuple[int, ...], int] = {}
    mains: dict[tuple[int, int], list[tuple[int, int]]] = {}
    inputs: list[Slot] = [-1] * len(s.widths)
    phases = 4 if s.upsample else 1
    halo = grid[1] + 1 if s.kernel != (1, 1) else 0
    block, end = 0, -1
    for number, (sample, lo, hi) in enumerate(units):
        rects = rectangles(lo, hi, grid[1], blocks.rows)
        edges = [tile > 0 and r.y * grid[1] + r.x < first + halo for r in rects]
        keys = [(r.ny, r.nx, *_pads(s, r), int(edge)) for r, edge in zip(rects, edges, strict=True)]
        for i, ends, extra, window in timed(keys):
            rect, key = rects[i], keys[i]
            if key not in made:
                for k, width in enumerate(s.widths):
                    inputs[k] = _input(e, s, rect, key[2:6], k, width, inputs[k], edges[i])
                made[key] = e.end()
            if key[:2] not in mains:
                mains[rect.ny, rect.nx] = _panels(e, s, blocks, rect, inputs)
            a = rect.y * grid[1] + rect.x - first
            at = At(block, number, sample, (a, a + rect.pixels))
            e.step(made[key], 1, at, 1, (a - halo, a + rect.pixels + halo))
            if extra:
                e.mark(0, ends, extra, window, at)
            for _ in range(phases):
                for segment, times in mains[rect.ny, rect.nx]:
                    e.step(segment, times, at)
            if end < 0:
                e.release(e.program.blocked)
                end = e.end()
            e.step(end, 1, at)
            block += 1


def _extent(s: ConvShape, rect: Rect) -> tuple[int, int]:
    """Rows and columns of input pixels under a rectangle."""
    halo = (3, 3) if s.upsample else s.kernel
    return (rect.ny - 1) * s.stride + halo[0], (rect.nx - 1) * s.stride + halo[1]


def _pads(s: ConvShape, rect: Rect) -> tuple[int, int, int, int]:
    """Cells outside of the image: left, right, top, bottom."""
    y0, x0 = rect.y * s.stride + s.origin[0], rect.x * s.stride + s.origin[1]
    rows, columns = _extent(s, rect)
    return max(0, -x0), max(0, x0 + columns - s.size[1]), max(0, -y0), max(0, y0 + rows - s.size[0])


def _input(
    e: Builder, s: ConvShape, rect: Rect, pads: tuple[int, int, int, int], role: int, width: int, slot: Slot, edge: bool
) -> Slot:
    rows, columns = _extent(s, rect)
    words = s.planes * rows * columns * cdiv(width, e.c)
    if slot < 0:
        slot = e.slot("act", words, BLOCK)
    else:
        e.again(slot, "act", words)
    left, right, top, bottom = pads
    p = pitch(s.planes * width, 1)
    dims = 1 + s.planes  # columns, rows, and planes where there are two
    n = (columns - left - right, rows - top - bottom, s.planes)[:dims]
    strides = (p, s.size[1] * p, width)[:dims]
    e.load(slot, "act", width, n, strides, role=role, mode=ALL if edge or s.upsample else 0, pad=pads)
    return slot


def _panels(e: Builder, s: ConvShape, b: Blocks, rect: Rect, inputs: list[Slot]) -> list[tuple[int, int]]:
    """Panels of one phase: (segment, times)."""
    nt = cdiv(s.n, e.c)
    full, rest = divmod(nt, b.panel)
    tail = (s.n - 1) % e.c + 1
    runs = [(b.panel, full, e.c), (rest, 1, tail)] if rest else [(b.panel, full - 1, e.c), (b.panel, 1, tail)]
    if not rest and tail == e.c:
        runs = [(b.panel, full, tail)]
    return [(_conv_panel(e, s, b, rect, g, last, inputs), times) for g, times, last in runs if times]


def _conv_panel(e: Builder, s: ConvShape, b: Blocks, rect: Rect, g: int, tail: int, inputs: list[Slot]) -> int:
    c, r, pixels = e.c, e.arch.rows, rect.pixels
    tile, taps = r * c, s.kernel[0] * s.kernel[1]
    valid = (g - 1) * c + tail
    acc = e.slot("acc", s.planes * g * pixels)
    started = False
    for width, source in zip(s.widths, inputs, strict=True):
        ct = cdiv(width, c)
        for c0 in range(0, ct, b.chunk):
            nc = min(b.chunk, ct - c0)
            wgt = e.slot("wgt", g * taps * nc * r)
            if s.bits == 4:
                size = run_bytes(ct, r, c)
                e.load(wgt, "wgt", run_bytes(nc, r, c), (taps, g), (size, taps * size), fmt=INT4)
            elif nc == ct:
                e.load(wgt, "wgt", g * taps * ct * tile)
            else:
                e.load(wgt, "wgt", nc * tile, (taps, g), (ct * tile, taps * ct * tile))
            for _ in range(s.planes):
                e.product(source, wgt, acc, pixels, taps * nc, g, accumulate=started)
            started = True
    product, kind = (e.combine(acc, pixels, g, tail), VEC32) if s.planes > 1 else (acc, ACC)
    vectors = e.slot("param", 2 * g * c)
    e.load(vectors, "param", 4 * g * c, (2,), (pitch(cdiv(s.n, c) * c, 4),))
    reads, m2, op2, source_b = [product, vectors], 0, 0, NONE
    if s.temb:
        temb = e.slot("param", g * c)
        e.load(temb, "param", 4 * valid, role=2, mode=ALL)
        reads.append(temb)
        m2 = pack(0, COL)
    p = pitch(s.n, 2)
    step = 2 if s.upsample else 1
    strides = (step * p, step * s.out[1] * p)
    if s.residual:
        res = e.slot("vbuf", pixels * g)
        e.load(res, "vbuf", 2 * valid, (rect.nx, rect.ny), strides, role=3)
        reads.append(res)
        op2, source_b = pack(Op2.ADD, Operand.ELEM), VEC16
    d = e.slot("vbuf", pixels * g)
    red, into = 0, [d]
    stats = -1
    if s.stats:
        stats = e.slot("param", 2 * g * c)
        red, into = PAIR | RED_COLUMNS, [d, stats]
    e.vec(reads, into, pixels, g, tail, kind, VEC16, m1=pack(COL, COL), m2=m2, op2=op2, b=source_b, red=red)
    e.store(d, "vbuf", 2 * valid, (rect.nx, rect.ny), strides, role=0)
    if stats >= 0:
        e.store(stats, "param", 4 * valid, (2,), (4 * s.n,), role=1)
    return e.end()


# -- attention -------------------------------------------------------------------------------------------------------


@dataclass
class _Attention:
    """What the segments of an attention share."""

    s: AttentionShape
    blocks: list[tuple[int, int]]  # of keys: first, how many
    rows: int  # of a block of queries, at most
    resident: bool
    shared: bool  # scales of all heads are loaded at once
    whole: bool  # a head's queries are loaded at once
    slots: dict[str, Slot]
    segments: dict[tuple[object, ...], int]

    @property
    def d(self) -> int:
        return self.s.channels // self.s.heads


def _attention_plan(s: AttentionShape, where: str, arch: Arch, unit_rows: int) -> _Attention:
    """As `AttentionLowering.__init__`.

    Raises:
        DpuError: E231, E232, E224.
    """
    c, w, d = arch.cols, arch.words, s.channels // s.heads
    if d % c and (s.heads > 1 or d > c):
        raise DpuError(
            where,
            f"head dimension {d} is no multiple of the array's {c} columns",
            why="a head's columns must be whole column tiles, or one head a part of one tile",
            hint="pad the heads, or use an arch whose columns divide the head dimension",
            code="E231",
        )
    ht = cdiv(d, c)
    block = min(s.longest_block, fitting_key_block(d, s.keys, arch, 2 if s.causal else 4))
    if s.causal and s.tokens > block:
        raise DpuError(
            where,
            f"causal attention of {s.tokens} tokens",
            why=f"a mask needs all keys in one block, and arch '{arch.name}' holds {block}",
            hint="use an arch with larger scratchpads",
            code="E224",
        )
    kt, planes = cdiv(min(block, s.keys), c), 2 if s.wide else 1
    rows = min(w["acc"] // 4 // kt, w["act"] // 4 // (planes * kt), w["vbuf"] // 8 // (2 * ht), w["param"] // 32)
    if s.causal:
        rows = min(rows, w["vbuf"] // 8 // (3 * kt))
    words = 2 * kt * ht * arch.rows
    if rows < 1 or 2 * words > w["wgt"] or kt > 255:
        raise DpuError(
            where,
            f"a block of {block} keys with head dimension {d} does not fit the scratchpads",
            why=f"K and V take {2 * words} of {w['wgt']} weight words, scores {kt} of {w['acc']} words a row",
            hint="choose a shorter key_block",
            code="E232",
        )
    blocks = [(k, min(block, s.keys - k)) for k in range(0, s.keys, block)]
    resident = len(blocks) * words <= w["wgt"] // 3
    shared = 2 * s.channels <= w["param"] // 8
    return _Attention(s, blocks, rows, resident, shared, unit_rows * ht <= w["act"] // 16, {}, {})


def attention(e: Builder, s: AttentionShape, where: str) -> None:
    """Write an attention."""
    units = tile_units(s.samples, s.tokens, e.arch.tiles)
    a = _attention_plan(s, where, e.arch, max(hi - lo for _, lo, hi in units))
    block = 0
    for number, unit in enumerate(units):
        k = kept(s.heads, 2, 2, 2)
        for h in k.numbers:
            at = At(block, number, unit[0], unit[1:])
            mark = (h == k.end, k.extra, k.window) if h in (k.begin, k.end) else None
            _Head(e, a, at, h, last=h == s.heads - 1).write(mark)
            block += 1
        united = _made(e, a, ("unit",), lambda: e.release(e.program.united))
        e.step(united, 1, At(block - 1, number, unit[0]))


def _made(e: Builder, a: _Attention, key: tuple[object, ...], make: Callable[[], None]) -> int:
    if key not in a.segments:
        make()
        a.segments[key] = e.end()
    return a.segments[key]


def _slot(e: Builder, a: _Attention, name: str, space: str, words: int, mode: int) -> Slot:
    if name in a.slots:
        e.again(a.slots[name], space, words)
    else:
        a.slots[name] = e.slot(space, words, mode)
    return a.slots[name]


class _Head:
    """One head of a unit: its prologue, then its queries, as `AttentionLowering.blocks`."""

    def __init__(self, e: Builder, a: _Attention, at: At, h: int, last: bool) -> None:
        self.e, self.a, self.at, self.h, self.last = e, a, at, h, last
        _, lo, hi = self.unit = (at.sample, *at.rows)
        self.rows = hi - lo
        self.queries = blocks_of(self.unit, a.rows)
        self.base = (at.block & 1) * (INSTANCES // 2)  # of the key blocks' instances
        self.loaded: set[int] = set()  # blocks of queries
        self.keys = 0  # blocks of keys loaded so far
        self.held = -1

    def key(self, k: int) -> int:
        """The instance of a resident key block."""
        return self.base + k % (INSTANCES // 2)

    def made(self, key: tuple[object, ...], make: Callable[[], None]) -> int:
        return _made(self.e, self.a, key, make)

    def write(self, mark: tuple[bool, int, int] | None) -> None:
        """All steps; `mark`: a window of heads begins or ends with this one."""
        e, a, s, at, rows = self.e, self.a, self.a.s, self.at, self.rows
        if self.h == 0 or not a.shared:
            first = self.made(("prologue", self.h == 0, rows if self.h == 0 else 0), self._prologue)
            e.step(first, 1, at, 1)
        last = len(a.blocks) - 1
        if a.resident:
            for k, (_, n) in enumerate(a.blocks):
                load = self.made(("keys", n), lambda n=n: _keys(e, a, n))  # type: ignore[misc]
                e.step(load, 1, at._replace(key=self.key(k)), 1)
        if a.whole:
            e.step(self.made(("queries", rows), lambda: _queries(e, a, rows, BLOCK)), 1, at, 1)
        if mark is not None:
            e.mark(0, *mark, at)
        if a.resident and not s.wide:
            for k, (_, n) in enumerate(a.blocks):
                sums = self.made(("colsum", n), lambda n=n: _colsum(e, a, n))  # type: ignore[misc]
                e.step(sums, 1, at._replace(key=self.key(k)))
        self._attend(last)
        if self.last and s.row_max:
            store = self.made(("row_max", rows), lambda: e.store(a.slots["amax"], "param", 4 * rows, role=1))
            e.step(store, 1, at)
        if a.resident:
            for k in range(last + 1):
                self._end_keys(self.key(k))
        e.step(self.made(("end",), lambda: e.release(e.program.blocked)), 1, at)

    def _prologue(self) -> None:
        e, a, s = self.e, self.a, self.a.s
        if self.h == 0:
            ones = _slot(e, a, "ones", "act", cdiv(min(a.blocks[0][1], s.keys), e.c), UNIT)
            e.load(ones, "act", cdiv(a.blocks[0][1], e.c) * e.arch.rows, fmt=FILL)
            if s.row_max:
                _slot(e, a, "amax", "param", self.rows, UNIT)
        n = (s.heads if a.shared else 1) * a.d
        scales = _slot(e, a, "scales", "param", 2 * n, UNIT if a.shared else BLOCK)
        e.load(scales, "param", 4 * n)
        e.load(scales, "param", 4 * n, role=4, mode=ALL)

    def _end_keys(self, key: int) -> None:
        ended = self.made(("end keys",), lambda: self.e.release(_key_slots(self.a)))
        self.e.step(ended, 1, self.at._replace(key=key))

    def _items(self, last: int) -> list[tuple[int, int]]:
        """(block of queries, block of keys) in order; of many that are alike only some, with marks between."""
        e, a = self.e, self.a
        items = [(q, k) for q in range(len(self.queries)) for k in range(last + 1)]
        w, ht, rows = e.arch.words, cdiv(a.d, e.c), self.rows
        fit = rows * ht * 2 <= w["vbuf"] // 2 and rows * ht <= w["act"] // 4 and rows * 3 <= w["param"] // 4
        if not a.resident and fit:
            items.sort(key=lambda item: item[1])
        return items

    def _attend(self, last: int) -> None:
        e, a = self.e, self.a
        items = self._items(last)
        by_keys = len(items) > 1 and items[1][0] != items[0][0] and last > 0
        # The slower index repeats: keys that all queries pass, or queries that pass all keys.
        slow = [k if by_keys else q for q, k in items]
        k = kept(slow[-1] + 1, 2, 2, 2)
        numbers = set(k.numbers)
        chosen = [i for i, n in enumerate(slow) if n in numbers]
        # A window begins and ends with the first item of a slow index.
        begins = {n: slow.index(n) for n in (k.begin, k.end) if n >= 0}
        ahead = self._scores(items[chosen[0]], 0, last)
        for place, i in enumerate(chosen):
            q, kb = items[i]
            key = ahead
            if i in begins.values():
                e.mark(1, i == begins.get(k.end), k.extra, k.window, self.at)
            following = items[chosen[place + 1]] if place + 1 < len(chosen) else None
            if following is not None:
                ahead = self._scores(following, place + 1, last)
            size, n = self._size(q), a.blocks[kb][1]
            role = "only" if last == 0 else "first" if kb == 0 else "last" if kb == last else "next"
            again = self.h > 0
            weigh = self.made(("weigh", size, n, role, again), lambda: _weigh(e, a, size, n, role, again))  # noqa: B023
            e.step(weigh, 1, self.at._replace(rows=self.queries[q], query=q, item=place, key=key))
            if not a.resident and (following is None or following[1] != kb):
                self._end_keys(key)

    def _size(self, q: int) -> int:
        lo, hi = self.queries[q]
        return hi - lo

    def _scores(self, item: tuple[int, int], place: int, last: int) -> int:
        """Scores of an item, after loading what is not there; the instance of its keys."""
        e, a = self.e, self.a
        q, k = item
        size, n = self._size(q), a.blocks[k][1]
        at = self.at._replace(rows=self.queries[q], query=q, item=place)
        if not a.whole and q not in self.loaded:
            e.step(self.made(("query", size), lambda: _queries(e, a, size, QUERY)), 1, at)
        self.loaded.add(q)
        key = self.key(k)
        if not a.resident:
            new = k != self.held
            self.keys, self.held = self.keys + int(new), k
            key = self.base + (self.keys & 1)
            if new:
                e.step(self.made(("new keys", n), lambda: _new_keys(e, a, n)), 1, at._replace(key=key))
        first = k == 0 and last > 0
        scores = self.made(("scores", size, n, first), lambda: _scores(e, a, size, n, first))
        e.step(scores, 1, at._replace(key=key))
        return key


def _key_slots(a: _Attention) -> list[Slot]:
    return [a.slots[name] for name in ("k", "v", "colsum") if name in a.slots]


def _keys(e: Builder, a: _Attention, n: int) -> None:
    s, c, r = a.s, e.c, e.arch.rows
    ht, kt = cdiv(a.d, c), cdiv(n, c)
    p = pitch(s.channels, 1)
    k, v = (_slot(e, a, name, "wgt", kt * ht * r, KEY) for name in ("k", "v"))
    full, rest = divmod(n, c)
    for count, tiles in ((c, full), (rest, 1)):
        if count and tiles:
            inner = min(r, a.d)
            e.load(k, "wgt", inner, (count, ht, tiles), (p, r, c * p), role=2, mode=ALL, fmt=TRANSPOSE)
    pad = (0, kt * r - n, 0, 0)
    e.load(v, "wgt", min(c, a.d), (n, ht), (p, c), role=3, mode=ALL, pad=pad)


def _new_keys(e: Builder, a: _Attention, n: int) -> None:
    _keys(e, a, n)
    if not a.s.wide:
        _colsum(e, a, n)


def _colsum(e: Builder, a: _Attention, n: int) -> None:
    ht = cdiv(a.d, e.c)
    colsum = _slot(e, a, "colsum", "param", ht * e.c, KEY)
    acc = e.slot("acc", ht)
    e.product(a.slots["ones"], a.slots["v"], acc, 1, cdiv(n, e.c), ht)
    e.vec((acc, a.slots["scales"]), (colsum,), 1, ht, _tail(e, a), ACC, PAR32, m1=IMM, m2=COL)


def _tail(e: Builder, a: _Attention) -> int:
    return (a.d - 1) % e.c + 1


def _queries(e: Builder, a: _Attention, rows: int, mode: int) -> None:
    s, ht = a.s, cdiv(a.d, e.c)
    q, c = (_slot(e, a, name, space, n, mode) for name, space, n in (("q", "act", rows * ht), ("c", "param", rows)))
    e.load(q, "act", a.d, (rows,), (pitch(s.channels, 1),), role=0)
    e.load(c, "param", 4 * rows, role=1)
    e.vector(c, c, rows, m1=IMM)


def _scores(e: Builder, a: _Attention, rows: int, n: int, first: bool) -> None:
    kt = cdiv(n, e.c)
    acc = _slot(e, a, "scores", "acc", kt * rows, ITEM)
    name, mode = ("first maximum", QUERY) if first else ("maximum", ITEM)
    maximum = _slot(e, a, name, "param", rows, mode)
    e.product(a.slots["q"], a.slots["k"], acc, rows, cdiv(a.d, e.c), kt, maximum=maximum)


def _weigh(e: Builder, a: _Attention, rows: int, n: int, role: str, again: bool) -> None:
    """From scores to the block's part of the output."""
    s, c = a.s, e.c
    kt, ht, planes, tail = cdiv(n, c), cdiv(a.d, c), 2 if a.s.wide else 1, _tail(e, a)
    t = a.slots
    maximum = t["first maximum"] if role == "first" else t["maximum"]
    starts = role == "first"
    p = e.slot("act", planes * kt * rows)
    sums = _slot(e, a, "total", "param", rows, QUERY) if starts else e.slot("param", rows)
    target = ACT15 if s.wide else ACT8
    last_tile = (n - 1) % c + 1
    if s.causal:
        m, z = e.slot("vbuf", rows * kt), e.slot("vbuf", 2 * rows * kt)
        e.load(m, "vbuf", 2 * s.keys, (rows,), (pitch(s.tokens, 2),))
        most = e.slot("param", rows)
        op2 = pack(Op2.ADD, Operand.ELEM)
        reads = (t["scores"], t["c"], m)
        e.vec(reads, (z, most), rows, kt, last_tile, ACC, VEC32, m1=ROW, op2=op2, b=VEC16, red=MAXIMUM)
        e.vector(most, most, rows, m1=IMM)
        e.vec(
            (z, most),
            (p, sums),
            rows,
            kt,
            last_tile,
            VEC32,
            target,
            m1=pack(0, ROW),
            r=IMM,
            func=int(Function.EXP2),
            red=SUM,
        )
    else:
        reads = (t["scores"], t["c"], maximum)
        exp2 = int(Function.EXP2)
        e.vec(reads, (p, sums), rows, kt, last_tile, ACC, target, m1=ROW, r=IMM, func=exp2, red=SUM, sub=1)
    e.frees.append(t["scores"])
    e.free_at[-1] = len(e.frees)
    acc = e.slot("acc", planes * ht * rows)
    for _ in range(planes):
        e.product(p, t["v"], acc, rows, kt, ht)
    scales = [t["scales"]] + ([] if s.wide else [t["colsum"]])
    m1 = pack(COL, 0 if s.wide else COL)

    def operand() -> tuple[Slot, int]:
        if not s.wide:
            return acc, ACC
        x = e.slot("vbuf", rows * ht * 2)
        e.vec((acc,), (x,), rows, ht, tail, ACC, VEC32, m1=IMM, op2=pack(Op2.ADD, Operand.ELEM), b=ACC)
        return x, VEC32

    if starts:
        o = _slot(e, a, "o", "vbuf", rows * ht * 2, QUERY)
        x, a_src = operand()
        e.vec((x, *scales), (o,), rows, ht, tail, a_src, VEC32, m1=m1)
        return
    if role in ("next", "last"):
        o, total = t["o"], t["total"]
        w = e.slot("param", rows)
        reads_w = (maximum, t["first maximum"], t["c"])
        op2 = pack(Op2.MAX, IMM)
        e.vec(reads_w, (w,), rows, 1, 1, PARI32, PAR32, m1=ROW, m2=IMM, op2=op2, sub=1)
        e.vector(w, w, rows, m1=IMM, func=int(Function.EXP2))
        x, a_src = operand()
        op2 = pack(Op2.ADD, Operand.ELEM)
        e.vec((x, *scales, w, o), (o,), rows, ht, tail, a_src, VEC32, m1=m1, m2=pack(ROW, 0), op2=op2, b=VEC32)
        e.vector(sums, total, rows, also=(w, total), m1=pack(ROW, ROW))
        e.frees.append(maximum)
        e.free_at[-1] = len(e.frees)
    if role == "next":
        return
    # Divide by the sum of probabilities, add the mean of V, store.
    total = t["total"] if role == "last" else sums
    rl = e.slot("param", rows)
    e.vector(total, rl, rows, func=int(Function.RECIP), op2=Op2.MUL)
    d = e.slot("vbuf", rows * ht)
    red, into = 0, [d]
    if s.row_max:
        red, into = ABSMAX | (RED_ACCUMULATE if again else 0), [d, t["amax"]]
    if role == "only":
        x, a_src = operand()
        e.vec((x, *scales, rl), into, rows, ht, tail, a_src, VEC16, m1=m1, m2=pack(ROW, COL), red=red)
    else:
        e.vec((t["o"], rl, t["scales"]), into, rows, ht, tail, VEC32, VEC16, m1=pack(ROW, COL), red=red)
    e.store(d, "vbuf", 2 * a.d, (rows,), (pitch(s.channels, 2),), role=0)
    ended = [t["maximum"]] if role == "only" else [t["first maximum"], t["total"], t["o"]]
    if not a.whole:
        ended += [t["q"], t["c"]]
    e.frees += ended
    e.free_at[-1] = len(e.frees)
