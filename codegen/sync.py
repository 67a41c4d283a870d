"""Orders the engines: finds every hazard between words of different engines and closes it with semaphores.

The meaning of a program is the sequential execution of its words in one global order. The words of an engine keep that
order by themselves; this file adds the least waiting that makes all engines together compute the same:

    for each word, in the global order:
        needed   = the latest word of each other engine that it must come after (read after write, write after
                   read, write after write, on the scratchpads of its tile and on DRAM)
        needed  -= what its engine already knows to be complete (vector clock)
        for each of them: signal there, wait here; the clock joins the clock of the signalling word

Semaphores have one producer and one consumer engine, and waits on a pair are in order, so the n-th wait takes the n-th
token. Only number 0 of each pair is used.

Between tiles there are only remote semaphores, STORE to LOAD. Any other order between tiles goes through fences, DMA
words that move nothing: `LOAD a -> STORE a (fence) ~> LOAD b (fence) -> STORE b`. A STORE of tile a that is already
ordered after the LOAD in question takes the place of the first fence.

Inside an engine words overlap in the pipeline: a read of what an earlier word of the same engine wrote gets the `DRAIN`
flag, unless the engine has drained since. Accumulation of MM (ACC, row maxima) needs none: the array reads, adds and
writes a row at the end of its pipeline, in order, and a word occupies the array longer than that stage is deep.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from ..errors import DpuError
from ..ir.arch import Arch
from ..ir.isa import DMA, ENGINE_OF, MAX_TOKENS, Engine, Flag, Opcode, Words, signal_bit, wait_bit, word
from ..ir.operands import Access, Accesses, accesses

ENGINES = 4  # with semaphores; engine e of tile t has the number 4 * t + e
_MERGE = 16  # a read that finds more segments than this joins them

Order = list[tuple[int, int]]
"""(tile, index in its stream), in the order of sequential execution."""


class _Segments:
    """Disjoint intervals that cover [0, infinity): the last word of each engine that wrote and that read each.

    A write replaces what it covers: its word waits for all earlier writers and readers, so who waits for it waits for
    them. A read that covers many segments joins them, keeping the latest writer and reader of each engine: this can
    only add order, and the work stays linear.
    """

    __slots__ = ("readers", "starts", "writers")

    def __init__(self) -> None:
        self.starts: list[int] = [0]
        self.writers: list[dict[int, int]] = [{}]
        self.readers: list[dict[int, int]] = [{}]

    def _cut(self, at: int) -> int:
        """The number of the segment that starts at `at`, made if there is none."""
        starts = self.starts
        i = bisect_left(starts, at)
        if i == len(starts) or starts[i] != at:
            starts.insert(i, at)
            self.writers.insert(i, self.writers[i - 1])  # shared: dictionaries are replaced, never changed
            self.readers.insert(i, self.readers[i - 1])
        return i

    def read(self, lo: int, hi: int, engine: int, index: int, needed: dict[int, int]) -> None:
        if hi <= lo:
            return
        first = self._cut(lo)
        last = self._cut(hi)
        writers, readers = self.writers, self.readers
        for i in range(first, last):
            for e, at in writers[i].items():
                if at > needed.get(e, -1):
                    needed[e] = at
            readers[i] = {**readers[i], engine: index}
        if last - first > _MERGE:
            for table in (writers, readers):
                joined: dict[int, int] = {}
                for one in table[first:last]:
                    for e, at in one.items():
                        if at > joined.get(e, -1):
                            joined[e] = at
                table[first:last] = [joined]
            del self.starts[first + 1 : last]

    def write(self, lo: int, hi: int, engine: int, index: int, needed: dict[int, int]) -> None:
        first = self._cut(lo)
        last = self._cut(hi)
        for table in (self.writers, self.readers):
            for one in table[first:last]:
                for e, at in one.items():
                    if at > needed.get(e, -1):
                        needed[e] = at
        self.starts[first:last] = [lo]
        self.writers[first:last] = [{engine: index}]
        self.readers[first:last] = [{}]


@dataclass
class _Word:
    """A word as emitted: where it comes from (index in the input stream, or a fence) and what was found for it."""

    tile: int
    engine: int  # 0 to 3 on its tile
    source: int  # index in the input stream, -1: a fence
    tag: int
    drain: bool = False
    wait: int = 0
    signal: int = 0
    remote: int = 0


@dataclass
class _Scan:
    """State of the scan over the global order. Positions are indices into `emitted`; `index` counts in one engine."""

    tiles: int
    emitted: list[_Word] = field(default_factory=list)
    words_of: list[list[int]] = field(default_factory=list)  # engine -> positions of its words
    clocks: list[list[int]] = field(default_factory=list)  # engine -> completed words of every engine it knows of
    snapshots: list[list[list[int]]] = field(default_factory=list)  # engine -> clock of each of its words
    edges: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = self.tiles * ENGINES
        self.words_of = [[] for _ in range(n)]
        self.clocks = [[0] * n for _ in range(n)]
        self.snapshots = [[] for _ in range(n)]

    def emit(self, one: _Word, needed: dict[int, int]) -> int:
        """Append a word that waits for word `needed[e]` of each engine e; returns its index in its engine."""
        me = one.tile * ENGINES + one.engine
        position = len(self.emitted)
        clock = self.clocks[me]
        waits = [(e, at) for e, at in needed.items() if e != me and clock[e] <= at]
        if waits:
            if len(waits) > 1:  # one that another one already waited for needs no token
                waits = [
                    (e, at)
                    for e, at in waits
                    if not any(other != e and self.snapshots[other][k][e] > at for other, k in waits)
                ]
            clock = list(clock)
            for e, at in waits:
                self.edges.setdefault((e, me), []).append((self.words_of[e][at], position))
                clock = [a if a > b else b for a, b in zip(clock, self.snapshots[e][at], strict=True)]
                clock[e] = max(clock[e], at + 1)
            self.clocks[me] = clock
        self.emitted.append(one)
        self.words_of[me].append(position)
        self.snapshots[me].append(clock)
        return len(self.words_of[me]) - 1

    def knows(self, engine: int, other: int, at: int) -> bool:
        """Whether word `at` of `other` is complete before the next word of `engine` starts."""
        return self.clocks[engine][other] > at

    def first_after(self, engine: int, other: int, at: int) -> int:
        """Index of the first word of `engine` that is ordered after word `at` of `other`; its length if none is."""

        def known(clock: list[int]) -> int:
            return clock[other]

        return bisect_right(self.snapshots[engine], at, key=known)


def _through_fences(scan: _Scan, me: int, needed: dict[int, int], last_load: list[int], tag: int) -> None:
    """Replace each need for a word of another tile that no remote semaphore serves by one that can be served."""
    tile, engine = divmod(me, ENGINES)
    gate: dict[int, int] = {}  # STORE engines that a LOAD of this tile must wait for
    for e, at in list(needed.items()):
        other, kind = divmod(e, ENGINES)
        if other == tile or scan.knows(me, e, at):
            continue
        if kind == Engine.LOAD:  # only STORE can speak to another tile: take one that comes after that LOAD
            del needed[e]
            store = other * ENGINES + Engine.STORE
            k = scan.first_after(store, e, at)
            if k == len(scan.words_of[store]):
                reads = max(at, last_load[other])  # cover later reads too: they are overwritten next
                k = scan.emit(_Word(other, Engine.STORE, -1, tag), {e: reads})
            needed[store] = max(needed.get(store, -1), k)
    if engine == Engine.LOAD:
        return
    for e in [e for e in needed if e // ENGINES != tile]:
        if not scan.knows(me, e, needed[e]):
            gate[e] = needed[e]
        del needed[e]
    if gate:
        load = tile * ENGINES + Engine.LOAD
        missing = {e: at for e, at in gate.items() if not scan.knows(load, e, at)}
        if missing:
            scan.emit(_Word(tile, Engine.LOAD, -1, tag), missing)
        k = max(scan.first_after(load, e, at) for e, at in gate.items())
        needed[load] = max(needed.get(load, -1), k)


def _within_tokens(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Drop signals until no more than `MAX_TOKENS` are ever pending.

    When one more would not fit, the newest pending signal moves to the later word, so its consumer waits for that
    word, and the later consumer needs no token.
    """
    kept: list[tuple[int, int]] = []
    pending: deque[int] = deque()  # consumer positions of the kept signals
    for producer, consumer in pairs:
        while pending and pending[0] < producer:
            pending.popleft()
        if len(pending) < MAX_TOKENS:
            kept.append((producer, consumer))
            pending.append(consumer)
        else:
            kept[-1] = (producer, kept[-1][1])
    return kept


def _check_order(order: Order, streams: list[Words]) -> None:
    following = [0] * len(streams)
    for n, (tile, index) in enumerate(order):
        if not 0 <= tile < len(streams) or index != following[tile] or index >= len(streams[tile]):
            raise DpuError(
                f"order[{n}]",
                f"names word {index} of tile {tile}",
                why="the global order must hold every word of every stream once, each stream's in stream order",
                code="E340",
            )
        following[tile] += 1
    for tile, (seen, stream) in enumerate(zip(following, streams, strict=True)):
        if seen != len(stream):
            raise DpuError(f"tile {tile}", f"the order holds {seen} of its {len(stream)} words", code="E340")


def _reads_own(local: list[Access], engine: int, segments: list[_Segments], me: int, drained: int) -> bool:
    """Whether a word reads what its own engine wrote and may still have in its pipeline."""
    written = {a[:3] for a in local if a[3]} if engine == Engine.MXU else ()
    for b, lo, hi, write in local:
        if write or (b, lo, hi) in written:
            continue
        s = segments[b]
        for i in range(bisect_right(s.starts, lo) - 1, bisect_left(s.starts, hi)):
            if s.writers[i].get(me, -1) >= drained:
                return True
    return False


def insert_semaphores(order: Order, streams: list[Words], arch: Arch) -> tuple[list[Words], Order]:
    """Streams with `wait`, `signal`, `remote` and `DRAIN` set, and the global order that includes inserted fences.

    The inputs are not changed. Semaphore fields that they hold are replaced; a `DRAIN` that is set stays. END words
    move to the end of their stream.

    Raises:
        DpuError: E310 illegal opcode, E340 the order is not one of the streams.
    """
    _check_order(order, streams)
    tiles = len(streams)
    if tiles > arch.tiles:
        raise DpuError("order", f"{tiles} streams, but arch '{arch.name}' has {arch.tiles} tiles", code="E340")
    touched: list[Accesses] = [accesses(s, arch) for s in streams]
    opcodes: list[list[int]] = [s["opcode"].tolist() for s in streams]
    flags: list[list[int]] = [s["flags"].tolist() for s in streams]
    tags: list[list[int]] = [s["tag"].tolist() for s in streams]
    written_bases = {a[0] for t in touched for a in t.dram if a is not None and a[3]}

    scan = _Scan(tiles)
    local = [[_Segments() for _ in range(16)] for _ in range(tiles)]
    dram = {base: _Segments() for base in written_bases}
    drained = [0] * (tiles * ENGINES)  # words of the engine before this index have left its pipeline
    last_load = [-1] * tiles  # the latest LOAD that read DRAM that programs write
    engine_of = {int(o): int(e) for o, e in ENGINE_OF.items()}
    ends: list[list[int]] = [[] for _ in range(tiles)]

    for tile, index in order:
        opcode = opcodes[tile][index]
        engine = engine_of[opcode]
        if engine == Engine.CTRL:
            ends[tile].append(index)
            continue
        me = tile * ENGINES + engine
        tag = tags[tile][index]
        own = touched[tile].local[index]
        segments = local[tile]
        one = _Word(tile, engine, index, tag)

        at = len(scan.words_of[me])
        one.drain = bool(flags[tile][index] & Flag.DRAIN) or (
            engine in (Engine.MXU, Engine.VPU) and _reads_own(own, engine, segments, me, drained[me])
        )
        if one.drain:
            drained[me] = at

        memory = touched[tile].dram[index]
        needed: dict[int, int] = {}
        if memory is not None and memory[0] in dram:
            base, lo, hi, write = memory
            (dram[base].write if write else dram[base].read)(max(0, lo), hi, me, at, needed)
            if any(e // ENGINES != tile for e in needed):
                _through_fences(scan, me, needed, last_load, tag)
            if not write:
                last_load[tile] = at
        for b, lo, hi, write in own:
            (segments[b].write if write else segments[b].read)(lo, hi, me, at, needed)
        emitted = scan.emit(one, needed)
        assert emitted == at, "a fence was inserted into the engine of the word it serves"

    return _build(scan, streams, ends)


def _build(scan: _Scan, streams: list[Words], ends: list[list[int]]) -> tuple[list[Words], Order]:
    """Write the found tokens into copies of the words."""
    emitted = scan.emitted
    for (producer, consumer), pairs in scan.edges.items():
        from_tile, from_engine = divmod(producer, ENGINES)
        to_tile, to_engine = divmod(consumer, ENGINES)
        for p, c in _within_tokens(pairs):
            if from_tile == to_tile:
                emitted[p].signal |= signal_bit(Engine(to_engine))
                emitted[c].wait |= wait_bit(Engine(from_engine))
            else:
                emitted[p].remote |= 1 << to_tile
                emitted[c].remote |= 1 << from_tile

    order: Order = []
    mine: list[list[_Word]] = [[] for _ in streams]
    for one in emitted:
        order.append((one.tile, len(mine[one.tile])))
        mine[one.tile].append(one)

    fence = {e: word(o)[0] for e, o in ((Engine.LOAD, Opcode.LOAD), (Engine.STORE, Opcode.STORE))}
    result = []
    for tile, (words, stream) in enumerate(zip(mine, streams, strict=True)):
        take = np.array([w.source for w in words] + ends[tile], np.int64)
        new = stream[take] if len(stream) else stream[:0].copy()
        n = len(words)
        for i in np.flatnonzero(take < 0).tolist():
            new[i] = fence[Engine(words[i].engine)]
            new["tag"][i] = words[i].tag
        new["wait"] = 0
        new["signal"] = 0
        new["wait"][:n] = [w.wait for w in words]
        new["signal"][:n] = [w.signal for w in words]
        drain = np.array([w.drain for w in words], bool)
        new["flags"][:n][drain] |= int(Flag.DRAIN)
        dma = np.isin(new["opcode"], (int(Opcode.LOAD), int(Opcode.STORE)))
        remote = np.array([w.remote for w in words] + [0] * len(ends[tile]), np.uint32)
        new.view(DMA)["remote"][dma] = remote[dma]
        order.extend((tile, n + i) for i in range(len(ends[tile])))
        result.append(new)
    return result, order
