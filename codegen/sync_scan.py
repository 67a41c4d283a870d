"""The scan of `sync.py`, compiled: a word at a time, what it must come after and which tokens say so.

Everything is in arrays. An engine is a number, 4 * tile + engine. A *space* is a scratchpad of a tile or the region of
a base register; its cells [0, infinity) are cut into segments, and of each segment we keep the last word of every
engine that wrote and that read it (-1: none). A write replaces what it covers: its word waits for all earlier writers
and readers, so who waits for it waits for them. A read that covers many segments joins them, keeping the latest writer
and reader of each engine: this can only add order, and the work stays linear.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..compiled import compiled

ENGINES = 4
_LOAD, _MXU, _VPU, _STORE = 0, 1, 2, 3
_MERGE = 16  # a read that finds more segments than this joins them

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]


@compiled
def _wider(a: Any) -> Any:
    """The array with twice the room along its first axis."""
    return np.concatenate((a, a))


@compiled
def _first(starts: I64, count: int, at: int) -> int:
    """The number of the first segment that starts at or behind `at`."""
    lo, hi = 0, count
    while lo < hi:
        mid = (lo + hi) // 2
        if starts[mid] < at:
            lo = mid + 1
        else:
            hi = mid
    return lo


@compiled
def _cut(starts: I64, writers: I32, readers: I32, count: int, at: int) -> tuple[int, int]:
    """The segment that starts at `at`, made if there is none, and the number of segments then."""
    i = _first(starts, count, at)
    if i < count and starts[i] == at:
        return i, count
    for k in range(count, i, -1):
        starts[k] = starts[k - 1]
        writers[k] = writers[k - 1]
        readers[k] = readers[k - 1]
    starts[i] = at
    writers[i] = writers[i - 1]
    readers[i] = readers[i - 1]
    return i, count + 1


@compiled
def _drop(starts: I64, writers: I32, readers: I32, count: int, first: int, last: int) -> int:
    """Remove segments [first, last)."""
    gone = last - first
    if gone > 0:
        for k in range(last, count):
            starts[k - gone] = starts[k]
            writers[k - gone] = writers[k]
            readers[k - gone] = readers[k]
    return count - gone


@compiled
def _read(
    starts: I64, writers: I32, readers: I32, count: int, lo: int, hi: int, me: int, index: int, needed: I64
) -> int:
    if hi <= lo:
        return count
    first, count = _cut(starts, writers, readers, count, lo)
    last, count = _cut(starts, writers, readers, count, hi)
    for i in range(first, last):
        for e in range(needed.shape[0]):
            needed[e] = max(needed[e], writers[i, e])
        readers[i, me] = index
    if last - first > _MERGE:
        for i in range(first + 1, last):
            for e in range(needed.shape[0]):
                writers[first, e] = max(writers[first, e], writers[i, e])
                readers[first, e] = max(readers[first, e], readers[i, e])
        count = _drop(starts, writers, readers, count, first + 1, last)
    return count


@compiled
def _write(
    starts: I64, writers: I32, readers: I32, count: int, lo: int, hi: int, me: int, index: int, needed: I64
) -> int:
    first, count = _cut(starts, writers, readers, count, lo)
    last, count = _cut(starts, writers, readers, count, hi)
    for i in range(first, last):
        for e in range(needed.shape[0]):
            needed[e] = max(needed[e], writers[i, e], readers[i, e])
    if last > first:
        writers[first] = -1
        readers[first] = -1
        writers[first, me] = index
        count = _drop(starts, writers, readers, count, first + 1, last)
    return count


@compiled
def _first_after(of_word: I32, count: int, clocks: I32, other: int, at: int) -> int:
    """Of an engine's words, the first that is ordered after word `at` of `other`; `count` if none is."""
    lo, hi = 0, count
    while lo < hi:
        mid = (lo + hi) // 2
        if clocks[of_word[mid], other] > at:
            hi = mid
        else:
            lo = mid + 1
    return lo


@compiled
def scan(
    tiles: int,
    spaces: int,
    tile: I32,
    engine: I32,
    flagged: npt.NDArray[np.bool_],
    first_access: I64,
    space: I32,
    low: I64,
    high: I64,
    writes: npt.NDArray[np.bool_],
    far: npt.NDArray[np.bool_],
) -> tuple[I32, I32, I64, npt.NDArray[np.bool_], I32, I32, I32]:
    """Scan words in the global order.

    Args:
        tiles: number of tiles.
        spaces: number of spaces.
        tile, engine, flagged: of each word; whether its DRAIN flag is set already.
        first_access: the word's accesses are rows [first_access[n], first_access[n + 1]) of the next five.
        space, low, high, writes: cells [low, high) of a space, read or written; reads come first.
        far: the space is DRAM.

    Returns:
        Of each word as emitted: tile, engine, its number in the order (-1: a fence), whether it drains; and of each
        token: from and to as numbers of emitted words, engine pair (producer * all engines + consumer).
        A fence's tag is that of the word it serves, the next one that is no fence.
    """
    n, engines = len(tile), tiles * ENGINES
    room = 64
    starts = np.zeros((spaces, room), np.int64)
    writers = np.full((spaces, room, engines), -1, np.int32)
    readers = np.full((spaces, room, engines), -1, np.int32)
    segments = np.ones(spaces, np.int64)

    size = n + 1024
    out_tile, out_engine = np.zeros(size, np.int32), np.zeros(size, np.int32)
    out_source, out_drain = np.zeros(size, np.int64), np.zeros(size, np.bool_)
    emitted = 0
    position = np.zeros((1024, engines), np.int32)  # of each engine's words among the emitted
    snapshot = np.zeros((1024, engines), np.int32)  # of each engine's words, the row of `clocks`
    words = np.zeros(engines, np.int64)
    clocks = np.zeros((1024, engines), np.int32)
    rows = engines
    clock = np.arange(engines).astype(np.int64)  # of each engine, its row
    from_word, to_word, pair = np.zeros(1024, np.int32), np.zeros(1024, np.int32), np.zeros(1024, np.int32)
    tokens = 0
    drained = np.zeros(engines, np.int64)
    last_load = np.full(tiles, -1, np.int64)
    # A word may be preceded by fences: each is one row (tile, engine) of needs to emit before it.
    needed = np.full(engines, -1, np.int64)
    need = np.full(engines, -1, np.int64)
    gate = np.full(engines, -1, np.int64)
    waits = np.zeros(engines, np.bool_)

    for number in range(n):
        t, kind = tile[number], engine[number]
        me = ENGINES * t + kind
        begin, end = first_access[number], first_access[number + 1]
        drain = flagged[number]
        if not drain and (kind in (_MXU, _VPU)):
            for a in range(begin, end):
                if writes[a] or far[a]:
                    continue
                if kind == _MXU:  # accumulation: the array reads and writes a row at the end of its pipeline, in order
                    same = False
                    for b in range(begin, end):
                        if writes[b] and space[b] == space[a] and low[b] == low[a] and high[b] == high[a]:
                            same = True
                    if same:
                        continue
                s = space[a]
                i = _first(starts[s], segments[s], low[a] + 1) - 1
                while i < segments[s] and starts[s, i] < high[a]:
                    if writers[s, i, me] >= drained[me]:
                        drain = True
                    i += 1
        if drain:
            drained[me] = words[me]

        needed[:] = -1
        loads = False
        for a in range(begin, end):
            if not far[a]:
                continue
            loads = loads or not writes[a]
            s = space[a]
            if segments[s] + 3 > starts.shape[1]:
                starts, writers, readers = _roomier(starts, writers, readers)
            if writes[a]:
                segments[s] = _write(
                    starts[s], writers[s], readers[s], segments[s], max(0, low[a]), high[a], me, words[me], needed
                )
            else:
                segments[s] = _read(
                    starts[s], writers[s], readers[s], segments[s], max(0, low[a]), high[a], me, words[me], needed
                )
        foreign = False
        for e in range(engines):
            if needed[e] >= 0 and e // ENGINES != t:
                foreign = True
        if foreign:
            # Needs of other tiles that no remote semaphore serves become needs that one can serve.
            for step in range(2):
                gate[:] = -1
                if step == 0:
                    for e in range(engines):
                        other = e // ENGINES
                        if needed[e] < 0 or other == t or clocks[clock[me], e] > needed[e]:
                            continue
                        if e % ENGINES == _LOAD:  # only STORE speaks to other tiles: one that comes after that LOAD
                            at = needed[e]
                            needed[e] = -1
                            store = other * ENGINES + _STORE
                            k = _first_after(snapshot[:, store], words[store], clocks, e, at)
                            if k == words[store]:
                                need[:] = -1
                                need[e] = max(at, last_load[other])  # cover later reads too
                                (out_tile, out_engine, out_source, out_drain, position, snapshot, clocks, from_word,
                                 to_word, pair, emitted, rows, tokens) = _emit(
                                    other, _STORE, -1, False, need, waits, out_tile, out_engine, out_source,
                                    out_drain, position, snapshot, words, clocks, clock, from_word, to_word, pair,
                                    emitted, rows, tokens)  # fmt: skip
                            needed[store] = max(needed[store], k)
                    if kind == _LOAD:
                        break
                else:
                    any_gate = False
                    for e in range(engines):
                        if e // ENGINES != t and needed[e] >= 0:
                            if clocks[clock[me], e] <= needed[e]:
                                gate[e] = needed[e]
                                any_gate = True
                            needed[e] = -1
                    if any_gate:
                        load = t * ENGINES + _LOAD
                        missing = False
                        need[:] = -1
                        for e in range(engines):
                            if gate[e] >= 0 and clocks[clock[load], e] <= gate[e]:
                                need[e] = gate[e]
                                missing = True
                        if missing:
                            (out_tile, out_engine, out_source, out_drain, position, snapshot, clocks, from_word,
                             to_word, pair, emitted, rows, tokens) = _emit(
                                t, _LOAD, -1, False, need, waits, out_tile, out_engine, out_source, out_drain,
                                position, snapshot, words, clocks, clock, from_word, to_word, pair, emitted, rows,
                                tokens)  # fmt: skip
                        k = -1
                        for e in range(engines):
                            if gate[e] >= 0:
                                k = max(k, _first_after(snapshot[:, load], words[load], clocks, e, gate[e]))
                        needed[load] = max(needed[load], k)
        if loads:
            last_load[t] = words[me]
        for a in range(begin, end):
            if far[a]:
                continue
            s = space[a]
            if segments[s] + 3 > starts.shape[1]:
                starts, writers, readers = _roomier(starts, writers, readers)
            if writes[a]:
                segments[s] = _write(
                    starts[s], writers[s], readers[s], segments[s], low[a], high[a], me, words[me], needed
                )
            else:
                segments[s] = _read(
                    starts[s], writers[s], readers[s], segments[s], low[a], high[a], me, words[me], needed
                )
        (out_tile, out_engine, out_source, out_drain, position, snapshot, clocks, from_word, to_word, pair, emitted,
         rows, tokens) = _emit(
            t, kind, number, drain, needed, waits, out_tile, out_engine, out_source, out_drain, position, snapshot,
            words, clocks, clock, from_word, to_word, pair, emitted, rows, tokens)  # fmt: skip
    return (
        out_tile[:emitted],
        out_engine[:emitted],
        out_source[:emitted],
        out_drain[:emitted],
        from_word[:tokens],
        to_word[:tokens],
        pair[:tokens],
    )


@compiled
def _roomier(starts: I64, writers: I32, readers: I32) -> tuple[I64, I32, I32]:
    spaces, room, engines = writers.shape
    s = np.zeros((spaces, 2 * room), np.int64)
    w = np.full((spaces, 2 * room, engines), -1, np.int32)
    r = np.full((spaces, 2 * room, engines), -1, np.int32)
    s[:, :room], w[:, :room], r[:, :room] = starts, writers, readers
    return s, w, r


@compiled
def _emit(
    t: int,
    kind: int,
    source: int,
    drain: bool,
    needed: I64,
    waits: npt.NDArray[np.bool_],
    out_tile: I32,
    out_engine: I32,
    out_source: I64,
    out_drain: npt.NDArray[np.bool_],
    position: I32,
    snapshot: I32,
    words: I64,
    clocks: I32,
    clock: I64,
    from_word: I32,
    to_word: I32,
    pair: I32,
    emitted: int,
    rows: int,
    tokens: int,
) -> Any:
    """Append a word that waits for word `needed[e]` of each engine e. Arrays that grow are given back."""
    engines = len(needed)
    me = t * ENGINES + kind
    if emitted == len(out_tile):
        out_tile, out_engine = _wider(out_tile), _wider(out_engine)
        out_source, out_drain = _wider(out_source), _wider(out_drain)
    if words[me] == len(position):
        position, snapshot = _wider(position), _wider(snapshot)
    mine = clocks[clock[me]]
    some = False
    for e in range(engines):
        waits[e] = needed[e] >= 0 and e != me and mine[e] <= needed[e]
        some = some or waits[e]
    if some:
        # One that another one already waited for needs no token.
        for e in range(engines):
            if waits[e]:
                for other in range(engines):
                    if other != e and waits[other] and clocks[snapshot[needed[other], other], e] > needed[e]:
                        waits[e] = False
                        break
        if rows == len(clocks):
            clocks = _wider(clocks)
            mine = clocks[clock[me]]
        new = clocks[rows]
        new[:] = mine
        for e in range(engines):
            if waits[e]:
                if tokens == len(pair):
                    from_word, to_word, pair = _wider(from_word), _wider(to_word), _wider(pair)
                from_word[tokens] = position[needed[e], e]
                to_word[tokens] = emitted
                pair[tokens] = e * engines + me
                tokens += 1
                seen = clocks[snapshot[needed[e], e]]
                for k in range(engines):
                    new[k] = max(new[k], seen[k])
                new[e] = max(new[e], needed[e] + 1)
        clock[me] = rows
        rows += 1
    out_tile[emitted], out_engine[emitted], out_source[emitted], out_drain[emitted] = t, kind, source, drain
    position[words[me], me] = emitted
    snapshot[words[me], me] = clock[me]
    words[me] += 1
    return (
        out_tile,
        out_engine,
        out_source,
        out_drain,
        position,
        snapshot,
        clocks,
        from_word,
        to_word,
        pair,
        emitted + 1,
        rows,
        tokens,
    )
