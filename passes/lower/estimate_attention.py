"""Segments of attention, for estimates: the templates of `attention.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...errors import DpuError
from ...ir.arch import Arch
from ...ir.isa import RED_ACCUMULATE, Function, Op2, Operand, pack
from ..tiling import cdiv
from .attention import fitting_key_block
from .estimate_linear import blocks_of, tile_units
from .estimate_shapes import AttentionShape
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
    ITEM,
    KEY,
    MAXIMUM,
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


@dataclass
class _Attention:
    """What the segments of an attention share."""

    s: AttentionShape
    blocks: list[tuple[int, int]]  # of keys: first, how many
    rows: int  # of a block of queries, at most
    resident: bool
    shared: bool  # scales of all heads are loaded at once
    rest: bool  # the queries of all heads but the first are loaded at once
    whole: bool  # those of a head are
    slots: dict[str, Slot]
    segments: dict[tuple[object, ...], int]
    turns: int = 0  # items so far
    longest: int = 0  # rows of the longest block of queries

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
    whole = unit_rows * ht <= w["act"] // 16
    rest = whole and unit_rows * (s.heads - 1) * ht <= w["act"] // 4
    return _Attention(s, blocks, rows, resident, shared, rest, whole, {}, {})


def attention(e: Builder, s: AttentionShape, where: str) -> None:
    """Write an attention."""
    units = tile_units(s.samples, s.tokens, e.arch.tiles)
    a = _attention_plan(s, where, e.arch, max(hi - lo for _, lo, hi in units))
    block = 0
    a.longest = max(z - lo for unit in units for lo, z in blocks_of(unit, a.rows))
    for number, unit in enumerate(units):
        k, flow = kept(s.heads, 2, 2, 2), _Flow(e, a)
        for h in k.numbers:
            at = At(block, number, unit[0], unit[1:])
            mark = (h == k.end, k.extra, k.window) if h in (k.begin, k.end) else None
            _Head(e, a, at, h, flow).write(mark, h == s.heads - 1)
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


@dataclass
class _Item:
    """A block of queries and one of keys under way, as `attention.Item`: where, rows, keys, its place among the key
    blocks, whether it is not the first head's, and whether its product makes the column sums of V."""

    at: At
    rows: int
    n: int
    role: str
    again: bool
    sums: bool
    scale: int  # scales of queries that become factors before it
    ends: list[tuple[int, At]] = field(default_factory=list)  # steps that end slots behind it


class _Flow:
    """As `attention.Flow`."""

    def __init__(self, e: Builder, a: _Attention) -> None:
        self.e, self.a = e, a
        self.ahead: _Item | None = None
        self.late: _Item | None = None

    def push(self, item: _Item | None) -> None:
        e, a, now, before = self.e, self.a, self.ahead, self.late
        if now is not None:
            rows, n, role = now.rows, now.n, now.role
            if now.scale:
                c, count = a.slots["c"], now.scale
                e.step(_made(e, a, ("scale", count), lambda: e.vector(c, c, count, m1=IMM)), 1, now.at)
            weigh = _made(e, a, ("weigh", rows, n, role == "first"), lambda: _weigh(e, a, rows, n, role == "first"))
            e.step(weigh, 1, now.at)
        if before is not None:
            late = before
            key = ("take", late.rows, late.n, late.role, late.again, late.sums)
            e.step(_made(e, a, key, lambda: _take(e, a, late)), 1, late.at)
            for segment, at in late.ends:
                e.step(segment, 1, at)
        if now is not None:
            first = now.sums
            product = _made(e, a, ("product", rows, n, first), lambda: _multiply(e, a, rows, n, first))
            e.step(product, 1, now.at)
        self.ahead, self.late = item, now

    def end(self) -> None:
        while self.ahead is not None or self.late is not None:
            self.push(None)


class _Head:
    """One head of a unit: its prologue, then its queries, as `AttentionLowering.blocks`."""

    def __init__(self, e: Builder, a: _Attention, at: At, h: int, flow: _Flow) -> None:
        self.e, self.a, self.at, self.h, self.flow = e, a, at, h, flow
        _, lo, hi = self.unit = (at.sample, *at.rows)
        self.rows = hi - lo
        self.queries = blocks_of(self.unit, a.rows)
        self.base = (at.block & 1) * (INSTANCES // 2)  # of the instances of key blocks and of blocks of queries
        self.loaded: set[int] = set()  # blocks of queries
        self.summed: set[int] = set()  # instances of keys whose values have column sums
        self.rest = a.rest and h > 0
        self.keys = 0  # blocks of keys loaded so far
        self.held = -1

    def instance(self, k: int) -> int:
        """The instance of a resident key block, or of a block of queries."""
        return self.base + k % (INSTANCES // 2)

    def made(self, key: tuple[object, ...], make: Callable[[], None]) -> int:
        return _made(self.e, self.a, key, make)

    def write(self, mark: tuple[bool, int, int] | None, is_last: bool) -> None:
        """All steps; `mark`: a window of heads begins or ends with this one."""
        e, a, s, at, rows = self.e, self.a, self.a.s, self.at, self.rows
        if self.h == 0:
            if s.row_max:
                e.step(self.made(("amax", rows), lambda: self._amax()), 1, at, 1)
            weights = self.made(("weights",), lambda: _weights(e, a))
            for item in (0, 1):
                e.step(weights, 1, at._replace(item=item), 1)
        if self.h == 0 or not a.shared:
            e.step(self.made(("scales",), self._scales), 1, at, 1)
        last = len(a.blocks) - 1
        if a.resident:
            for k, (_, n) in enumerate(a.blocks):
                load = self.made(("keys", n), lambda n=n: _keys(e, a, n))  # type: ignore[misc]
                e.step(load, 1, at._replace(key=self.instance(k)), 1)
        if self.rest and self.h == 1:
            e.step(self.made(("rest", rows), lambda: _rest(e, a, rows)), 1, at, 1)
        if a.whole:
            rest = self.rest
            e.step(self.made(("queries", rows, rest), lambda: _queries(e, a, rows, BLOCK, rest)), 1, at, 1)
        if mark is not None:
            e.mark(0, *mark, at)
        ends = self._attend(last)
        if a.resident:
            ends += [self._end_keys(self.instance(k)) for k in range(last + 1)]
        ends.append((self.made(("end",), lambda: e.release(e.program.blocked)), at))
        if is_last:
            self.flow.end()
            if s.row_max:
                store = self.made(("row_max", rows), lambda: e.store(a.slots["amax"], "param", 4 * rows, role=1))
                e.step(store, 1, at)

    def _amax(self) -> None:
        _slot(self.e, self.a, "amax", "param", self.rows, UNIT)
        self.e.release(())

    def _scales(self) -> None:
        e, a, s = self.e, self.a, self.a.s
        n = (s.heads if a.shared else 1) * a.d
        scales = _slot(e, a, "scales", "param", 2 * n, UNIT if a.shared else BLOCK)
        e.load(scales, "param", 4 * n)
        e.load(scales, "param", 4 * n, role=4, mode=ALL)

    def _end_keys(self, key: int) -> tuple[int, At]:
        ended = self.made(("end keys",), lambda: self.e.release(_key_slots(self.a)))
        return ended, self.at._replace(key=key)

    def _items(self, last: int) -> list[tuple[int, int]]:
        """(block of queries, block of keys) in order; of many that are alike only some, with marks between."""
        e, a = self.e, self.a
        items = [(q, k) for q in range(len(self.queries)) for k in range(last + 1)]
        w, ht, rows = e.arch.words, cdiv(a.d, e.c), self.rows
        fit = rows * ht * 2 <= w["vbuf"] // 2 and rows * ht <= w["act"] // 4 and rows * 3 <= w["param"] // 4
        if not a.resident and fit:
            items.sort(key=lambda item: item[1])
        return items

    def _attend(self, last: int) -> list[tuple[int, At]]:
        """All items; the steps that end slots behind the last one."""
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
        ends: list[tuple[int, At]] = []
        for place, i in enumerate(chosen):
            q, kb = items[i]
            if i in begins.values():
                e.mark(1, i == begins.get(k.end), k.extra, k.window, self.at)
            item = self._scores(q, kb, last)
            ends = item.ends
            following = items[chosen[place + 1]] if place + 1 < len(chosen) else None
            if not a.resident and (following is None or following[1] != kb):
                ends.append(self._end_keys(item.at.key))
            self.flow.push(item)
        return ends

    def _scores(self, q: int, k: int, last: int) -> _Item:
        """Scores of an item, after loading what is not there."""
        e, a = self.e, self.a
        lo, hi = self.queries[q]
        size, n = hi - lo, a.blocks[k][1]
        at = self.at._replace(rows=self.queries[q], query=self.instance(q), item=a.turns & 1)
        a.turns += 1
        new_queries = not self.loaded if a.whole else q not in self.loaded
        scale = (self.rows if a.whole else size) if new_queries else 0
        if not a.whole and q not in self.loaded:
            e.step(self.made(("query", size), lambda: _queries(e, a, size, QUERY, False)), 1, at)
        self.loaded.add(q)
        key = self.instance(k)
        if not a.resident:
            new = k != self.held
            self.keys, self.held = self.keys + int(new), k
            key = self.base + (self.keys & 1)
            if new:
                e.step(self.made(("keys", n), lambda: _keys(e, a, n)), 1, at._replace(key=key))
                self.summed.discard(key)
        at = at._replace(key=key)
        first = k == 0 and last > 0
        name = "rest" if self.rest else "q"
        e.step(self.made(("scores", size, n, first, name), lambda: _scores(e, a, size, n, first, name)), 1, at)
        role = "only" if last == 0 else "first" if k == 0 else "last" if k == last else "next"
        sums = not a.s.wide and key not in self.summed
        self.summed.add(key)
        return _Item(at, size, n, role, self.h > 0, sums, scale)


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


def _weights(e: Builder, a: _Attention) -> None:
    """Room for an item's probabilities, of 8 bits with a row of ones."""
    kt = cdiv(min(a.blocks[0][1], a.s.keys), e.c)
    p = _slot(e, a, "p", "act", (2 if a.s.wide else 1) * kt * (a.longest + (not a.s.wide)), ITEM)
    if a.s.wide:
        e.release(())
    else:
        e.load(p, "act", kt * e.arch.rows, fmt=FILL)


def _tail(e: Builder, a: _Attention) -> int:
    return (a.d - 1) % e.c + 1


def _rest(e: Builder, a: _Attention, rows: int) -> None:
    q = _slot(e, a, "rest", "act", rows * (a.s.heads - 1) * cdiv(a.d, e.c), UNIT)
    e.load(q, "act", a.s.channels - a.d, (rows,), (pitch(a.s.channels, 1),), role=0)


def _queries(e: Builder, a: _Attention, rows: int, mode: int, rest: bool) -> None:
    s, ht = a.s, cdiv(a.d, e.c)
    if not rest:
        q = _slot(e, a, "q", "act", rows * ht, mode)
        e.load(q, "act", a.d, (rows,), (pitch(s.channels, 1),), role=0)
    c = _slot(e, a, "c", "param", rows, mode)
    e.load(c, "param", 4 * rows, role=1)


def _scores(e: Builder, a: _Attention, rows: int, n: int, first: bool, q: str) -> None:
    kt = cdiv(n, e.c)
    acc = _slot(e, a, "scores", "acc", kt * rows, ITEM)
    name, mode = ("first maximum", QUERY) if first else ("maximum", ITEM)
    maximum = _slot(e, a, name, "param", rows, mode)
    e.product(a.slots[q], a.slots["k"], acc, rows, cdiv(a.d, e.c), kt, maximum=maximum)


def _weigh(e: Builder, a: _Attention, rows: int, n: int, starts: bool) -> None:
    """Probabilities and their sums."""
    s, c, t = a.s, e.c, a.slots
    kt = cdiv(n, c)
    maximum = t["first maximum"] if starts else t["maximum"]
    p = t["p"]
    sums = _slot(e, a, *(("total", "param", rows, QUERY) if starts else ("sums", "param", rows, ITEM)))
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


def _multiply(e: Builder, a: _Attention, rows: int, n: int, sums: bool) -> None:
    """Probabilities times values; with `sums` a row of ones times values too."""
    kt, ht, planes = cdiv(n, e.c), cdiv(a.d, e.c), 2 if a.s.wide else 1
    acc = _slot(e, a, "product", "acc", planes * ht * (rows + sums), ITEM)
    for _ in range(planes):
        e.product(a.slots["p"], a.slots["v"], acc, rows + sums, kt, ht)


def _take(e: Builder, a: _Attention, item: _Item) -> None:
    """From a product to the block's part of the output."""
    s, t, rows, role = a.s, a.slots, item.rows, item.role
    ht, tail, acc = cdiv(a.d, e.c), _tail(e, a), a.slots["product"]
    scales = [t["scales"]]
    m1 = pack(COL, 0 if s.wide else COL)

    def operand() -> tuple[Slot, int]:
        if not s.wide:
            return acc, ACC
        x = e.slot("vbuf", rows * ht * 2)
        e.vec((acc,), (x,), rows, ht, tail, ACC, VEC32, m1=IMM, op2=pack(Op2.ADD, Operand.ELEM), b=ACC)
        return x, VEC32

    def column_sums() -> None:
        if item.sums:
            colsum = _slot(e, a, "colsum", "param", ht * e.c, KEY)
            e.vec((acc, t["scales"]), (colsum,), 1, ht, tail, ACC, PAR32, m1=IMM, m2=COL)
        if not s.wide:
            scales.append(t["colsum"])

    def end(*slots: Slot) -> None:
        e.frees += slots
        e.free_at[-1] = len(e.frees)

    if role == "first":
        o = _slot(e, a, "o", "vbuf", rows * ht * 2, QUERY)
        column_sums()
        x, a_src = operand()
        e.vec((x, *scales), (o,), rows, ht, tail, a_src, VEC32, m1=m1)
        end(acc)
        return
    if role in ("next", "last"):
        o, total = t["o"], t["total"]
        w = e.slot("param", rows)
        reads_w = (t["maximum"], t["first maximum"], t["c"])
        op2 = pack(Op2.MAX, IMM)
        e.vec(reads_w, (w,), rows, 1, 1, PARI32, PAR32, m1=ROW, m2=IMM, op2=op2, sub=1)
        e.vector(w, w, rows, m1=IMM, func=int(Function.EXP2))
        column_sums()
        x, a_src = operand()
        op2 = pack(Op2.ADD, Operand.ELEM)
        e.vec((x, *scales, w, o), (o,), rows, ht, tail, a_src, VEC32, m1=m1, m2=pack(ROW, 0), op2=op2, b=VEC32)
        e.vector(t["sums"], total, rows, also=(w, total), m1=pack(ROW, ROW))
        end(t["maximum"], t["sums"], acc)
    if role == "next":
        return
    # Divide by the sum of probabilities, add the mean of V, store.
    rl = e.slot("param", rows)
    e.vector(t["sums"] if role == "only" else t["total"], rl, rows, func=int(Function.RECIP), op2=Op2.MUL)
    d = e.slot("vbuf", rows * ht)
    red, into = 0, [d]
    if s.row_max:
        red, into = ABSMAX | (RED_ACCUMULATE if item.again else 0), [d, t["amax"]]
    if role == "only":
        column_sums()
        x, a_src = operand()
        e.vec((x, *scales, rl), into, rows, ht, tail, a_src, VEC16, m1=m1, m2=pack(ROW, COL), red=red)
        end(acc, t["sums"], t["maximum"])
    else:
        e.vec((t["o"], rl, t["scales"]), into, rows, ht, tail, VEC32, VEC16, m1=pack(ROW, COL), red=red)
        end(t["first maximum"], t["total"], t["o"])
    e.store(d, "vbuf", 2 * a.d, (rows,), (pitch(s.channels, 2),), role=0)
    if not a.whole:
        end(t["q"], t["c"])
