"""The rules of `scan.py` over every word of an entry, compiled: clocks, tokens and the shadow of all memory.

A cell of the shadow holds the number of a node; of a node we keep its writer and the readers since that are not
ordered, at most one of an engine. All of an entry's memory is one array of cells, one space behind the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...compiled import compiled
from ...ir.isa import MAX_TOKENS, Engine
from .last_writers import _next, _steps

LOCAL = 4  # engines with semaphores; engine e of tile t has the number 4 * t + e
HOST, NOBODY = -1, -2  # as in `provenance.py`; here because compiled code takes only constants of its own module
SOUND, WRONG, UNWRITTEN_YET, UNDRAINED, OVERWRITTEN, STILL_READ, STUCK = range(7)
"""What may be found: E362 or E367, E363, E366, E365, E364; no tile can go on."""

_LOAD, _MXU, _VPU, _STORE = int(Engine.LOAD), int(Engine.MXU), int(Engine.VPU), int(Engine.STORE)
_QUEUE = MAX_TOKENS + 1
_NODES = 1 << 20

Ints = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


@compiled
def _longer(a: Any) -> Any:
    """The array with twice the room."""
    out = np.zeros(2 * len(a), a.dtype)
    out[: len(a)] = a
    return out


@compiled
def _push(
    queues: I32, heads: I32, lengths: I32, slots: I32, used: int, key: int, clock: I32, me: int
) -> tuple[Any, Any, Any, int]:
    """One more token into the queue `key`: the clock, and the word itself. Arrays that grow are given back."""
    slot = slots[key]
    if slot < 0:
        if used == len(heads):
            queues = np.concatenate((queues, queues))
            heads, lengths = _longer(heads), _longer(lengths)
        slot = slots[key] = used
        used += 1
    at = (heads[slot] + lengths[slot]) % _QUEUE
    queues[slot, at] = clock
    queues[slot, at, me] += 1
    lengths[slot] += 1
    return queues, heads, lengths, used


@compiled
def _join(queues: I32, heads: I32, lengths: I32, slot: int, clock: I32) -> None:
    """Take the oldest token of a queue into a clock."""
    token = queues[slot, heads[slot]]
    for k in range(len(clock)):
        clock[k] = max(clock[k], token[k])
    heads[slot] = (heads[slot] + 1) % _QUEUE
    lengths[slot] -= 1


@compiled
def _run(at: int, length: int, far: bool, per: int, blocks: Ints) -> tuple[int, int]:
    """The cells of a run: those of a scratchpad as they are, those of DRAM by their blocks of `per` granules."""
    if not far:
        return at, at + length
    low, high = at // per, (at + length - 1) // per
    first, last = blocks[low], blocks[high]
    if blocks[low + 1] - first > 1:
        first += at % per
    if blocks[high + 1] - last > 1:
        last += (at + length - 1) % per
    return first, last + 1


@compiled
def _nodes(
    cells: I32,
    low: int,
    counts: Ints,
    strides: Ints,
    far: bool,
    per: int,
    blocks: Ints,
    turn: Ints,
    seen: I32,
    mark: int,
    out: Any,
) -> tuple[int, Any]:
    """The nodes in a box, each once, in order of appearance: how many, and where they are."""
    found, before = 0, np.int32(-1)
    start = low
    for _ in range(_steps(counts)):
        first, last = _run(start, counts[0], far, per, blocks)
        for k in range(first, last):
            node = cells[k]
            if node != before:
                before = node
                if seen[node] != mark:
                    seen[node] = mark
                    if found == len(out):
                        out = _longer(out)
                    out[found] = node
                    found += 1
        start = _next(turn, counts, strides, start)
    return found, out


@compiled
def _collect(
    cells: I32, writer: I32, begin: I32, many: I32, reader_engine: I32, reader_at: I32, new: I32, made: int
) -> tuple[int, int]:
    """Drop the nodes that no cell has any more, and number the others anew: how many there are, and their readers."""
    new[:made] = 0
    new[:2] = 1
    for k in range(len(cells)):
        new[cells[k]] = 1
    kept, readers = 0, 0
    for node in range(made):
        if new[node] == 0:
            continue
        new[node] = kept
        writer[kept] = writer[node]
        a = begin[node]  # ascending, so nothing is overwritten that is still to come
        begin[kept], many[kept] = readers, many[node]
        for r in range(many[node]):
            reader_engine[readers], reader_at[readers] = reader_engine[a + r], reader_at[a + r]
            readers += 1
        kept += 1
    for k in range(len(cells)):
        cells[k] = new[cells[k]]
    return kept, readers


@compiled
def execute(
    tiles: int,
    cells: I32,
    first: Ints,
    kind: I32,
    at: I32,
    wait: I32,
    signal: I32,
    remote: I32,
    drain: Bools,
    rows: Ints,
    low: Ints,
    shape: I32,
    counts: Ints,
    strides: Ints,
    dram: Bools,
    per: int,
    blocks: Ints,
    read: Bools,
    write: Bools,
    late: Bools,
    which: I32,
    far: I32,
    ends: Ints,
    host_far: int,
) -> tuple[tuple[int, int, int, int, int], Ints, I32]:
    """Run all words but each tile's last, END.

    Args:
        tiles: number of tiles.
        cells: the shadow, which is changed; node 0 is what nobody wrote, node 1 what the host did.
        first: number of each tile's first word; one more at the end.
        kind, at, wait, signal, remote, drain: of each word: its engine, its index there, its semaphores and flag.
        rows: operands of word w are rows [rows[w], rows[w + 1]) of the following.
        low, shape, read, write, late: first cell and number of the box of each operand, and what happens there.
        counts, strides: the boxes.
        dram, per, blocks: whether a box counts cells or granules of DRAM; those are in blocks of `per`, and block i has
            the cells from `blocks[i]` to `blocks[i + 1]`, one or `per`.
        which: of each operand, the list of its writers.
        far, ends: the lists, one behind the other, as distances; and where each ends.
        host_far: the distance that means the host.

    Returns:
        The first fault (kind, tile, operand, word or engine that it is with, index there), the writers that its operand
        found, and the writer of each node.
    """
    engines = tiles * LOCAL
    clocks = np.zeros((engines, engines), np.int32)
    drained = np.zeros(engines, np.int32)
    slots = np.full(tiles * 64 + tiles * tiles, -1, np.int32)
    queues = np.zeros((8, _QUEUE, engines), np.int32)
    heads, lengths, used = np.zeros(8, np.int32), np.zeros(8, np.int32), 0
    words = first[tiles]
    engine_of = np.zeros(words, np.int32)
    for t in range(tiles):
        for n in range(first[t], first[t + 1]):
            engine_of[n] = LOCAL * t + min(kind[n], LOCAL - 1)

    room = 1 << 16
    writer, begin, many = np.zeros(room, np.int32), np.zeros(room, np.int32), np.zeros(room, np.int32)
    seen, new = np.full(room, -1, np.int32), np.zeros(room, np.int32)
    writer[0], writer[1] = NOBODY, HOST
    made = 2
    reader_engine, reader_at, readers = np.zeros(room, np.int32), np.zeros(room, np.int32), 0
    nodes = np.zeros(1 << 10, np.int32)
    meant, met = np.full(words + 2, -1, np.int64), np.full(words + 2, -1, np.int64)
    latest = np.zeros(words + 2, np.int32)
    position = first[:-1].copy()
    turn = np.zeros(counts.shape[1], np.int64)
    mark = 0
    most_nodes, most_readers = _NODES, 4 * _NODES  # then those that are gone are dropped

    running, moved = True, True
    while running:
        if not moved:
            return (STUCK, 0, 0, 0, 0), np.zeros(0, np.int64), writer[:made]
        running = moved = False
        for t in range(tiles):
            while position[t] < first[t + 1] - 1:
                n = position[t]
                e = kind[n]
                others = remote[n]
                ready = True
                if others != 0:
                    for s in range(tiles):
                        if others >> s & 1:
                            if e == _LOAD:
                                slot = slots[tiles * 64 + s * tiles + t]
                                ready = ready and slot >= 0 and lengths[slot] > 0
                            else:
                                slot = slots[tiles * 64 + t * tiles + s]
                                ready = ready and (slot < 0 or lengths[slot] < MAX_TOKENS)
                if not ready:
                    running = True
                    break
                moved = True
                me = LOCAL * t + e
                clock = clocks[me]
                if wait[n] != 0:
                    for b in range(16):
                        if wait[n] >> b & 1:
                            _join(queues, heads, lengths, slots[t * 64 + (b >> 2) * 16 + 4 * e + (b & 3)], clock)
                if others != 0 and e == _LOAD:
                    for s in range(tiles):
                        if others >> s & 1:
                            _join(queues, heads, lengths, slots[tiles * 64 + s * tiles + t], clock)
                clock[me] = at[n]
                if drain[n]:
                    drained[me] = at[n]
                pipelined = e in (_MXU, _VPU)

                if made > most_nodes or readers > most_readers:
                    made, readers = _collect(cells, writer, begin, many, reader_engine, reader_at, new, made)
                    latest[:] = 0
                    most_nodes, most_readers = max(most_nodes, 2 * made), max(most_readers, 2 * readers)
                for j in range(rows[n], rows[n + 1]):
                    if not read[j]:
                        continue
                    mark += 1
                    extents, steps = counts[shape[j]], strides[shape[j]]
                    found, nodes = _nodes(cells, low[j], extents, steps, dram[j], per, blocks, turn, seen, mark, nodes)
                    end = ends[which[j]]
                    start = ends[which[j] - 1] if which[j] > 0 else 0
                    for k in range(start, end):
                        meant[(HOST if far[k] == host_far else n - far[k]) + 2] = j
                    different = 0
                    for k in range(found):
                        w = writer[nodes[k]]
                        if meant[w + 2] != j:
                            return (WRONG, t, j, 0, 0), _writers(writer, nodes, found), writer[:made]
                        if met[w + 2] != j:
                            met[w + 2] = j
                            different += 1
                        if w >= 0:
                            if at[w] >= clock[engine_of[w]]:
                                return (UNWRITTEN_YET, t, j, w, 0), _writers(writer, nodes, found), writer[:made]
                            if engine_of[w] == me and pipelined and not late[j] and at[w] >= drained[me]:
                                return (UNDRAINED, t, j, w, 0), _writers(writer, nodes, found), writer[:made]
                    if end - start > 1 and different != end - start:
                        return (WRONG, t, j, 0, 0), _writers(writer, nodes, found), writer[:made]
                    # This word is a reader of each node now; nodes that have become equal are one.
                    while made + found + 1 > len(writer):
                        writer, begin, many, new = _longer(writer), _longer(begin), _longer(many), _longer(new)
                        seen = _longer(seen)
                    old = made
                    for k in range(found):
                        node = nodes[k]
                        while readers + engines + 1 > len(reader_engine):
                            reader_engine, reader_at = _longer(reader_engine), _longer(reader_at)
                        a = readers
                        for r in range(begin[node], begin[node] + many[node]):
                            if reader_engine[r] != me and reader_at[r] >= clock[reader_engine[r]]:
                                reader_engine[readers], reader_at[readers] = reader_engine[r], reader_at[r]
                                readers += 1
                        reader_engine[readers], reader_at[readers] = me, at[n]
                        readers += 1
                        w = writer[node]
                        twin = latest[w + 2]
                        equal = old <= twin < made and writer[twin] == w and many[twin] == readers - a
                        if equal:
                            for r in range(readers - a):
                                if (
                                    reader_engine[begin[twin] + r] != reader_engine[a + r]
                                    or reader_at[begin[twin] + r] != reader_at[a + r]
                                ):
                                    equal = False
                        if equal:
                            readers = a
                            new[node] = twin
                        else:
                            writer[made], begin[made], many[made] = w, a, readers - a
                            latest[w + 2] = new[node] = made
                            made += 1
                    if made == old + 1:
                        a = low[j]
                        for _ in range(_steps(extents)):
                            first_cell, last_cell = _run(a, extents[0], dram[j], per, blocks)
                            cells[first_cell:last_cell] = old
                            a = _next(turn, extents, steps, a)
                    else:
                        a = low[j]
                        for _ in range(_steps(extents)):
                            first_cell, last_cell = _run(a, extents[0], dram[j], per, blocks)
                            for k in range(first_cell, last_cell):
                                if cells[k] < old:  # boxes may meet a cell twice
                                    cells[k] = new[cells[k]]
                            a = _next(turn, extents, steps, a)

                mine = -1
                for j in range(rows[n], rows[n + 1]):
                    if not write[j]:
                        continue
                    if mine < 0:
                        if made == len(writer):
                            writer, begin, many, new = _longer(writer), _longer(begin), _longer(many), _longer(new)
                            seen = _longer(seen)
                        mine = made
                        writer[mine], begin[mine], many[mine] = n, readers, 0
                        made += 1
                    mark += 1
                    extents, steps = counts[shape[j]], strides[shape[j]]
                    found, nodes = _nodes(cells, low[j], extents, steps, dram[j], per, blocks, turn, seen, mark, nodes)
                    for k in range(found):
                        node = nodes[k]
                        w = writer[node]
                        if w >= 0 and w != n and at[w] >= clock[engine_of[w]]:
                            return (OVERWRITTEN, t, j, w, 0), _writers(writer, nodes, found), writer[:made]
                        for r in range(begin[node], begin[node] + many[node]):
                            other = reader_engine[r]
                            if reader_at[r] >= clock[other] and not (other == me and reader_at[r] == at[n]):
                                return (
                                    (STILL_READ, t, j, other, reader_at[r]),
                                    _writers(writer, nodes, found),
                                    writer[:made],
                                )
                    a = low[j]
                    for _ in range(_steps(extents)):
                        first_cell, last_cell = _run(a, extents[0], dram[j], per, blocks)
                        cells[first_cell:last_cell] = mine
                        a = _next(turn, extents, steps, a)

                if signal[n] != 0:
                    for b in range(16):
                        if signal[n] >> b & 1:
                            key = t * 64 + e * 16 + b
                            queues, heads, lengths, used = _push(queues, heads, lengths, slots, used, key, clock, me)
                if others != 0 and e == _STORE:
                    for s in range(tiles):
                        if others >> s & 1:
                            key = tiles * 64 + t * tiles + s
                            queues, heads, lengths, used = _push(queues, heads, lengths, slots, used, key, clock, me)
                position[t] = n + 1
    return (SOUND, 0, 0, 0, 0), np.zeros(0, np.int64), writer[:made]


@compiled
def _writers(writer: I32, nodes: I32, found: int) -> Ints:
    """The writers of a box's nodes."""
    out = np.zeros(found, np.int64)
    for k in range(found):
        out[k] = writer[nodes[k]]
    return out
