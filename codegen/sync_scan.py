"""The scan of `sync.py`, compiled: a word at a time, what it must come after and which tokens say so.

Everything is in arrays. An engine is a number, 4 * tile + engine. A *space* is a scratchpad of a tile or a page of the
region of a base register; its cells [0, infinity) are cut into segments, and of each segment we keep the last word of
every engine that wrote and that read it (-1: none). A write replaces what it covers: its word waits for all earlier
writers and readers, so who waits for it waits for them. A read that covers many segments joins them, keeping the latest
writer and reader of each engine: this can only add order, and the work stays linear.

With many tiles most of that would be empty, so it is kept where it can be something:

- a segment has a column for each engine that can reach its space: the four of its tile, or every LOAD and STORE;
- a clock is the four counts of the own tile, and the number of a row with those of the others. Words that wait within
  their tile seldom learn of others, so many clocks share such a row.
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
    starts: I64, writers: I32, readers: I32, count: int, lo: int, hi: int, me: int, index: int, who: I64, needed: I64
) -> int:
    """A read of [lo, hi) by word `index` of column `me`; engine `who[k]` has column k. The number of segments then."""
    if hi <= lo:
        return count
    first, count = _cut(starts, writers, readers, count, lo)
    last, count = _cut(starts, writers, readers, count, hi)
    for i in range(first, last):
        for k in range(len(who)):
            needed[who[k]] = max(needed[who[k]], writers[i, k])
        readers[i, me] = index
    if last - first > _MERGE:
        for i in range(first + 1, last):
            for k in range(len(who)):
                writers[first, k] = max(writers[first, k], writers[i, k])
                readers[first, k] = max(readers[first, k], readers[i, k])
        count = _drop(starts, writers, readers, count, first + 1, last)
    return count


@compiled
def _write(
    starts: I64, writers: I32, readers: I32, count: int, lo: int, hi: int, me: int, index: int, who: I64, needed: I64
) -> int:
    """A write, see `_read`."""
    first, count = _cut(starts, writers, readers, count, lo)
    last, count = _cut(starts, writers, readers, count, hi)
    for i in range(first, last):
        for k in range(len(who)):
            needed[who[k]] = max(needed[who[k]], writers[i, k], readers[i, k])
    if last > first:
        writers[first] = -1
        readers[first] = -1
        writers[first, me] = index
        count = _drop(starts, writers, readers, count, first + 1, last)
    return count


@compiled
def _room_for(
    s: int, begin: I64, room: I64, segments: I64, top: int, starts: I64, writers: I32, readers: I32
) -> tuple[int, I64, I32, I32]:
    """Twice the room for the segments of space `s`, behind all others; what it had stays unused."""
    size = 2 * room[s]
    while top + size > len(starts):
        starts, writers, readers = _wider(starts), _wider(writers), _wider(readers)
    old, count = begin[s], segments[s]
    starts[top : top + count] = starts[old : old + count]
    writers[top : top + count] = writers[old : old + count]
    readers[top : top + count] = readers[old : old + count]
    begin[s], room[s] = top, size
    return top + size, starts, writers, readers


@compiled
def _known(near: I32, shared: I32, far: I32, row: int, tile: int, e: int) -> Any:
    """How many words of engine `e` are complete by the clock `row` of an engine of `tile`."""
    if e // ENGINES == tile:
        return near[row, e % ENGINES]
    return far[shared[row], e]


@compiled
def _first_after(of_word: I32, count: int, near: I32, shared: I32, far: I32, tile: int, other: int, at: int) -> int:
    """Of the words of an engine of `tile`, the first that is ordered after word `at` of `other`; `count`: none is."""
    lo, hi = 0, count
    while lo < hi:
        mid = (lo + hi) // 2
        if _known(near, shared, far, of_word[mid], tile, other) > at:
            hi = mid
        else:
            lo = mid + 1
    return lo


@compiled
def scan(
    tiles: int,
    local: int,
    spaces: int,
    tile: I32,
    engine: I32,
    flagged: npt.NDArray[np.bool_],
    begins: I64,
    ends: I64,
    space: I32,
    low: I32,
    high: I32,
    writes: npt.NDArray[np.bool_],
) -> tuple[I32, I32, I32, npt.NDArray[np.bool_], I32, I32, I32]:
    """Scan words in the global order.

    Args:
        tiles: number of tiles.
        local, spaces: number of spaces; the first `local` are scratchpads, the others pages of DRAM.
        tile, engine, flagged: of each word; whether its DRAIN flag is set already.
        begins, ends: the accesses of word n are rows [begins[n], ends[n]) of the next four.
        space, low, high, writes: cells [low, high) of a space, read or written; reads come first.

    Returns:
        Of each word as emitted: tile, engine, its number in the order (-1: a fence), whether it drains; and of each
        token: from and to as numbers of emitted words, engine pair (producer * all engines + consumer).
        A fence's tag is that of the word it serves, the next one that is no fence.
    """
    n, engines = len(tile), tiles * ENGINES
    width = 2 * tiles  # columns of DRAM: 2 * tile, and one more for STORE
    far_engine = np.zeros(width, np.int64)
    for k in range(width):
        far_engine[k] = ENGINES * (k // 2) + (_STORE if k % 2 else _LOAD)
    near_engine = np.zeros(ENGINES, np.int64)
    begin, room = np.zeros(spaces, np.int64), np.full(spaces, 16, np.int64)
    segments = np.ones(spaces, np.int64)
    for s in range(spaces):
        begin[s] = 16 * (s if s < local else s - local)
    top, far_top = 16 * local, 16 * (spaces - local)
    starts, far_starts = np.zeros(top + 16, np.int64), np.zeros(far_top + 16, np.int64)
    writers, readers = np.full((top + 16, ENGINES), -1, np.int32), np.full((top + 16, ENGINES), -1, np.int32)
    far_writers, far_readers = (
        np.full((far_top + 16, width), -1, np.int32),
        np.full((far_top + 16, width), -1, np.int32),
    )

    size = n + 1024
    out_tile, out_engine = np.zeros(size, np.int32), np.zeros(size, np.int32)
    out_source, out_drain = np.zeros(size, np.int32), np.zeros(size, np.bool_)
    emitted = 0
    position = np.zeros((1024, engines), np.int32)  # of each engine's words among the emitted
    snapshot = np.zeros((1024, engines), np.int32)  # of each engine's words, the row of its clock
    words = np.zeros(engines, np.int64)
    near = np.zeros((1024, ENGINES), np.int32)  # of each clock, the counts of its own tile
    shared = np.zeros(1024, np.int32)  # of each clock, the row of `far`
    far = np.zeros((16, engines), np.int32)  # counts of other tiles; those of the own one stay 0
    rows, far_rows = engines, 1
    clock = np.arange(engines).astype(np.int64)  # of each engine, its row
    while rows > len(shared):
        near, shared = _wider(near), _wider(shared)
    from_word, to_word, pair = np.zeros(1024, np.int32), np.zeros(1024, np.int32), np.zeros(1024, np.int32)
    tokens = 0
    drained = np.zeros(engines, np.int64)
    last_load = np.full(tiles, -1, np.int64)
    # A word may be preceded by fences: each is one row (tile, engine) of needs to emit before it.
    needed = np.full(engines, -1, np.int64)
    need = np.full(engines, -1, np.int64)
    gate = np.full(engines, -1, np.int64)
    waits = np.zeros(engines, np.bool_)
    joined = np.zeros(engines, np.int32)

    for number in range(n):
        t, kind = tile[number], engine[number]
        me = ENGINES * t + kind
        for k in range(ENGINES):
            near_engine[k] = ENGINES * t + k
        first_row, end_row = begins[number], ends[number]
        drain = flagged[number]
        if not drain and (kind in (_MXU, _VPU)):
            for a in range(first_row, end_row):
                if writes[a] or space[a] >= local:
                    continue
                if kind == _MXU:  # accumulation: the array reads and writes a row at the end of its pipeline, in order
                    same = False
                    for b in range(first_row, end_row):
                        if writes[b] and space[b] == space[a] and low[b] == low[a] and high[b] == high[a]:
                            same = True
                    if same:
                        continue
                s = space[a]
                here = starts[begin[s] : begin[s] + room[s]]
                i = _first(here, segments[s], low[a] + 1) - 1
                while i < segments[s] and here[i] < high[a]:
                    if writers[begin[s] + i, kind] >= drained[me]:
                        drain = True
                    i += 1
        if drain:
            drained[me] = words[me]

        needed[:] = -1
        loads = False
        for a in range(first_row, end_row):
            s = space[a]
            if s < local:
                continue
            loads = loads or not writes[a]
            if segments[s] + 3 > room[s]:
                far_top, far_starts, far_writers, far_readers = _room_for(
                    s, begin, room, segments, far_top, far_starts, far_writers, far_readers
                )
            i, z = begin[s], begin[s] + room[s]
            column = 2 * t + (1 if kind == _STORE else 0)
            if writes[a]:
                segments[s] = _write(
                    far_starts[i:z], far_writers[i:z], far_readers[i:z], segments[s], max(0, low[a]), high[a], column,
                    words[me], far_engine, needed)  # fmt: skip
            else:
                segments[s] = _read(
                    far_starts[i:z], far_writers[i:z], far_readers[i:z], segments[s], max(0, low[a]), high[a], column,
                    words[me], far_engine, needed)  # fmt: skip
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
                        if needed[e] < 0 or other == t or far[shared[clock[me]], e] > needed[e]:
                            continue
                        if e % ENGINES == _LOAD:  # only STORE speaks to other tiles: one that comes after that LOAD
                            at = needed[e]
                            needed[e] = -1
                            store = other * ENGINES + _STORE
                            k = _first_after(snapshot[:, store], words[store], near, shared, far, other, e, at)
                            if k == words[store]:
                                need[:] = -1
                                need[e] = max(at, last_load[other])  # cover later reads too
                                (out_tile, out_engine, out_source, out_drain, position, snapshot, near, shared, far,
                                 from_word, to_word, pair, emitted, rows, far_rows, tokens) = _emit(
                                    other, _STORE, -1, False, need, waits, joined, out_tile, out_engine, out_source,
                                    out_drain, position, snapshot, words, near, shared, far, clock, from_word, to_word,
                                    pair, emitted, rows, far_rows, tokens)  # fmt: skip
                            needed[store] = max(needed[store], k)
                    if kind == _LOAD:
                        break
                else:
                    any_gate = False
                    for e in range(engines):
                        if e // ENGINES != t and needed[e] >= 0:
                            if far[shared[clock[me]], e] <= needed[e]:
                                gate[e] = needed[e]
                                any_gate = True
                            needed[e] = -1
                    if any_gate:
                        load = t * ENGINES + _LOAD
                        missing = False
                        need[:] = -1
                        for e in range(engines):
                            if gate[e] >= 0 and far[shared[clock[load]], e] <= gate[e]:
                                need[e] = gate[e]
                                missing = True
                        if missing:
                            (out_tile, out_engine, out_source, out_drain, position, snapshot, near, shared, far,
                             from_word, to_word, pair, emitted, rows, far_rows, tokens) = _emit(
                                t, _LOAD, -1, False, need, waits, joined, out_tile, out_engine, out_source, out_drain,
                                position, snapshot, words, near, shared, far, clock, from_word, to_word, pair, emitted,
                                rows, far_rows, tokens)  # fmt: skip
                        k = -1
                        for e in range(engines):
                            if gate[e] >= 0:
                                after = _first_after(snapshot[:, load], words[load], near, shared, far, t, e, gate[e])
                                k = max(k, after)
                        needed[load] = max(needed[load], k)
        if loads:
            last_load[t] = words[me]
        for a in range(first_row, end_row):
            s = space[a]
            if s >= local:
                continue
            if segments[s] + 3 > room[s]:
                top, starts, writers, readers = _room_for(s, begin, room, segments, top, starts, writers, readers)
            i, z = begin[s], begin[s] + room[s]
            if writes[a]:
                segments[s] = _write(
                    starts[i:z], writers[i:z], readers[i:z], segments[s], low[a], high[a], kind, words[me],
                    near_engine, needed)  # fmt: skip
            else:
                segments[s] = _read(
                    starts[i:z], writers[i:z], readers[i:z], segments[s], low[a], high[a], kind, words[me],
                    near_engine, needed)  # fmt: skip
        (out_tile, out_engine, out_source, out_drain, position, snapshot, near, shared, far, from_word, to_word, pair,
         emitted, rows, far_rows, tokens) = _emit(
            t, kind, number, drain, needed, waits, joined, out_tile, out_engine, out_source, out_drain, position,
            snapshot, words, near, shared, far, clock, from_word, to_word, pair, emitted, rows, far_rows,
            tokens)  # fmt: skip
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
def _emit(
    t: int,
    kind: int,
    source: int,
    drain: bool,
    needed: I64,
    waits: npt.NDArray[np.bool_],
    joined: I32,
    out_tile: I32,
    out_engine: I32,
    out_source: I32,
    out_drain: npt.NDArray[np.bool_],
    position: I32,
    snapshot: I32,
    words: I64,
    near: I32,
    shared: I32,
    far: I32,
    clock: I64,
    from_word: I32,
    to_word: I32,
    pair: I32,
    emitted: int,
    rows: int,
    far_rows: int,
    tokens: int,
) -> Any:
    """Append a word that waits for word `needed[e]` of each engine e. Arrays that grow are given back."""
    engines = len(needed)
    me, own = t * ENGINES + kind, t * ENGINES
    if emitted == len(out_tile):
        out_tile, out_engine = _wider(out_tile), _wider(out_engine)
        out_source, out_drain = _wider(out_source), _wider(out_drain)
    if words[me] == len(position):
        position, snapshot = _wider(position), _wider(snapshot)
    mine = clock[me]
    some = False
    for e in range(engines):
        waits[e] = needed[e] >= 0 and e != me and _known(near, shared, far, mine, t, e) <= needed[e]
        some = some or waits[e]
    if some:
        # One that another one already waited for needs no token.
        for e in range(engines):
            if waits[e]:
                for other in range(engines):
                    if other != e and waits[other]:
                        row = snapshot[needed[other], other]
                        if _known(near, shared, far, row, other // ENGINES, e) > needed[e]:
                            waits[e] = False
                            break
        if rows == len(shared):
            near, shared = _wider(near), _wider(shared)
        near[rows] = near[mine]
        others = shared[mine]  # the row of other tiles' counts; -1: it is a new one, in `joined`
        for e in range(engines):
            if not waits[e]:
                continue
            if tokens == len(pair):
                from_word, to_word, pair = _wider(from_word), _wider(to_word), _wider(pair)
            from_word[tokens] = position[needed[e], e]
            to_word[tokens] = emitted
            pair[tokens] = e * engines + me
            tokens += 1
            row = snapshot[needed[e], e]
            theirs = shared[row]
            if e // ENGINES == t:
                for k in range(ENGINES):
                    near[rows, k] = max(near[rows, k], near[row, k])
                near[rows, e % ENGINES] = max(near[rows, e % ENGINES], needed[e] + 1)
                if others >= 0 and others != theirs:
                    ahead, behind = True, True
                    for k in range(engines):
                        ahead = ahead and far[others, k] >= far[theirs, k]
                        behind = behind and far[others, k] <= far[theirs, k]
                    if behind:
                        others = theirs
                    elif not ahead:
                        joined[:] = far[others]
                        others = -1
                if others < 0:
                    for k in range(engines):
                        joined[k] = max(joined[k], far[theirs, k])
            else:
                if others >= 0:
                    joined[:] = far[others]
                    others = -1
                for k in range(ENGINES):
                    near[rows, k] = max(near[rows, k], far[theirs, own + k])
                    at = e - e % ENGINES + k
                    joined[at] = max(joined[at], near[row, k])
                for k in range(engines):
                    if k // ENGINES != t:
                        joined[k] = max(joined[k], far[theirs, k])
                joined[e] = max(joined[e], needed[e] + 1)
        if others < 0:
            if far_rows == len(far):
                far = _wider(far)
            far[far_rows] = joined
            others = far_rows
            far_rows += 1
        shared[rows] = others
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
        near,
        shared,
        far,
        from_word,
        to_word,
        pair,
        emitted + 1,
        rows,
        far_rows,
        tokens,
    )
