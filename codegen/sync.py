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

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DpuError
from ..ir.arch import Arch
from ..ir.isa import DMA, ENGINE_OF, MAX_TOKENS, Engine, Flag, Opcode, Words, word
from ..ir.operands import operands
from .sync_scan import ENGINES, scan

Order = list[tuple[int, int]]
"""(tile, index in its stream), in the order of sequential execution."""

Ints = npt.NDArray[Any]  # of any width

PAGE = 1 << 20  # bytes of DRAM that are one space of the scan
_SCRATCHPADS = 16  # spaces of a tile in the scan, by `Buffer`; pages of DRAM follow behind those of all tiles


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


def _check_order(order: Ints, streams: list[Words]) -> None:
    tile, index = order.T
    wrong = (tile < 0) | (tile >= len(streams))
    for t, stream in enumerate(streams):
        mine = np.flatnonzero(tile == t)
        wrong[mine[index[mine] != np.arange(len(mine))]] = True
        wrong[mine[len(stream) :]] = True
    if wrong.any():
        n = int(np.argmax(wrong))
        raise DpuError(
            f"order[{n}]",
            f"names word {int(index[n])} of tile {int(tile[n])}",
            why="the global order must hold every word of every stream once, each stream's in stream order",
            code="E340",
        )
    for t, stream in enumerate(streams):
        seen = int((tile == t).sum())
        if seen != len(stream):
            raise DpuError(f"tile {t}", f"the order holds {seen} of its {len(stream)} words", code="E340")


@dataclass
class _Accesses:
    """Accesses of all streams that can be hazards, word by word and reads first: cells [low, high) of a space.

    Those of word i of tile t are rows [first[t][i], first[t][i + 1]).
    """

    spaces: int
    first: list[Ints]
    space: npt.NDArray[np.int32]
    low: npt.NDArray[np.int32]
    high: npt.NDArray[np.int32]
    write: npt.NDArray[np.bool_]


_Rows = tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8], Ints, Ints, bool, bool]
"""Words, buffer or base register, first and last cell; whether they write, whether they are in DRAM."""


def _touched(streams: list[Words], arch: Arch) -> _Accesses:
    """All accesses that can be hazards. Reads of regions that nobody writes are none."""
    found: list[list[_Rows]] = []  # many tiles make very many accesses, so of each stream only what is needed stays
    written: set[int] = set()
    top = np.zeros(256, np.int64)
    for stream in streams:
        columns = operands(stream, arch)
        for o in columns:
            if o.dram:
                written.update(np.unique(o.buffer[o.write]).tolist())
                np.maximum.at(top, o.buffer, o.hi)
        rows: list[_Rows] = []
        for write in (False, True):
            for o in columns:
                keep = o.write if write else o.read
                where = o.index[keep].astype(np.int32), o.buffer[keep].astype(np.uint8)
                rows.append((*where, _narrow(o.lo[keep], o.dram), _narrow(o.hi[keep], o.dram), write, o.dram))
        found.append(rows)
    spaces = len(streams) * _SCRATCHPADS
    first_page = np.full(256, -1, np.int64)
    for base in sorted(written):
        first_page[base] = spaces
        spaces += int(top[base]) // PAGE + 1
    first: list[Ints] = []
    parts: list[tuple[npt.NDArray[Any], ...]] = []
    total = 0
    for tile, stream in enumerate(streams):
        one: list[tuple[npt.NDArray[Any], ...]] = []
        for me, buffer, low, high, write, dram in found[tile]:
            if dram:
                keep = first_page[buffer] >= 0
                me, low, high = me[keep], low[keep], high[keep]
                me, space, low, high = _pages(me, first_page[buffer[keep]], np.maximum(low, 0), high)
            else:
                space = buffer.astype(np.int32) + tile * _SCRATCHPADS
            numbers = (space.astype(np.int32), low.astype(np.int32), high.astype(np.int32))
            one.append((me, *numbers, np.full(len(me), write)))
        found[tile] = []
        of, *columns_ = (np.concatenate(x) for x in zip(*one, strict=True))
        by_word = np.argsort(of, kind="stable")
        parts.append(tuple(x[by_word] for x in columns_))
        first.append(total + np.searchsorted(of[by_word], np.arange(len(stream) + 1)))
        total += len(of)
    space, low, high, write_ = (np.concatenate(x) for x in zip(*parts, strict=True))
    return _Accesses(spaces, first, space, low, high, write_)


def _narrow(cells: Ints, dram: bool) -> Ints:
    """Cells of a scratchpad in 32 bits; what lies beyond is beyond any scratchpad."""
    if dram:
        return cells
    limit = np.iinfo(np.int32)
    return np.clip(cells, limit.min, limit.max).astype(np.int32)


def _pages(me: npt.NDArray[Any], first: Ints, low: Ints, high: Ints) -> tuple[npt.NDArray[Any], Ints, Ints, Ints]:
    """Accesses to DRAM cut at pages, each a space of its own that counts from 0: few segments lie in each."""
    a = low // PAGE
    count = np.maximum((high - 1) // PAGE - a + 1, 1)
    row = np.repeat(np.arange(len(me)), count)
    page = a[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    inside = np.maximum(low[row] - page * PAGE, 0), np.minimum(high[row] - page * PAGE, PAGE)
    return me[row], first[row] + page, *inside


def insert_semaphores(order: Order | Ints, streams: list[Words], arch: Arch) -> tuple[list[Words], Ints]:
    """Streams with `wait`, `signal`, `remote` and `DRAIN` set, and the global order that includes inserted fences.

    The inputs are not changed. Semaphore fields that they hold are replaced; a `DRAIN` that is set stays. END words
    move to the end of their stream.

    Raises:
        DpuError: E310 illegal opcode, E340 the order is not one of the streams.
    """
    words = np.asarray(order).reshape(-1, 2)
    _check_order(words, streams)
    tiles = len(streams)
    if tiles > arch.tiles:
        raise DpuError("order", f"{tiles} streams, but arch '{arch.name}' has {arch.tiles} tiles", code="E340")
    engine_of = np.full(256, -1, np.int8)
    for o, e in ENGINE_OF.items():
        engine_of[o] = e
    tile, index = (np.ascontiguousarray(x, np.int32) for x in words.T)
    del words
    engine, drains = np.empty(len(order), np.int8), np.empty(len(order), np.bool_)
    accesses = _touched(streams, arch)
    begins, ends = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    for t, stream in enumerate(streams):
        mine = np.flatnonzero(tile == t)
        at = index[mine]
        engine[mine] = engine_of[stream["opcode"]][at]
        drains[mine] = (stream["flags"] & Flag.DRAIN != 0)[at]
        begins[mine], ends[mine] = accesses.first[t][at], accesses.first[t][at + 1]
    last = engine == Engine.CTRL
    final = [index[last & (tile == t)] for t in range(tiles)]
    real = ~last
    index = index[real]
    found = scan(
        tiles,
        tiles * _SCRATCHPADS,
        accesses.spaces,
        tile[real],
        engine[real].astype(np.int32),
        drains[real],
        begins[real],
        ends[real],
        accesses.space,
        accesses.low,
        accesses.high,
        accesses.write,
    )
    del accesses, begins, ends, tile, engine, drains
    return _build(found, index, streams, final)


def _build(
    found: tuple[npt.NDArray[Any], ...],
    index: npt.NDArray[np.int32],
    streams: list[Words],
    ends: list[npt.NDArray[np.int32]],
) -> tuple[list[Words], Ints]:
    """Write the found tokens into copies of the words."""
    tile, engine, source, drain, from_word, to_word, pair = found
    n, engines = len(tile), len(streams) * ENGINES
    signal, wait, remote = np.zeros(n, np.uint16), np.zeros(n, np.uint16), np.zeros(n, np.uint32)
    by_pair = np.argsort(pair, kind="stable")
    for rows in np.split(by_pair, np.flatnonzero(np.diff(pair[by_pair])) + 1):
        if not len(rows):
            continue
        producer, consumer = divmod(int(pair[rows[0]]), engines)
        (from_tile, from_engine), (to_tile, to_engine) = divmod(producer, ENGINES), divmod(consumer, ENGINES)
        kept = _within_tokens(list(zip(from_word[rows].tolist(), to_word[rows].tolist(), strict=True)))
        p, c = np.array(kept, np.int64).T
        if from_tile == to_tile:
            signal[p] |= np.uint16(1 << (4 * to_engine))
            wait[c] |= np.uint16(1 << (4 * from_engine))
        else:
            remote[p] |= np.uint32(1 << to_tile)
            remote[c] |= np.uint32(1 << from_tile)

    result = []
    fence = {int(e): word(o)[0] for e, o in ((Engine.LOAD, Opcode.LOAD), (Engine.STORE, Opcode.STORE))}
    served = _next_word(source)
    place = np.empty(n, np.int32)
    for t, stream in enumerate(streams):
        mine = np.flatnonzero(tile == t)
        place[mine] = np.arange(len(mine))
        real = source[mine] >= 0
        take = np.concatenate([np.where(real, index[source[mine]], -1), ends[t]])
        new = stream[take] if len(stream) else stream[:0].copy()
        for i in np.flatnonzero(~real).tolist():
            new[i] = fence[int(engine[mine[i]])]
            other = int(served[mine[i]])
            new["tag"][i] = streams[int(tile[other])]["tag"][int(index[source[other]])]
        new["wait"] = 0
        new["signal"] = 0
        new["wait"][: len(mine)] = wait[mine]
        new["signal"][: len(mine)] = signal[mine]
        new["flags"][: len(mine)][drain[mine] != 0] |= int(Flag.DRAIN)
        dma = np.isin(new["opcode"], (int(Opcode.LOAD), int(Opcode.STORE)))
        masks = np.concatenate([remote[mine], np.zeros(len(ends[t]), np.uint32)])
        new.view(DMA)["remote"][dma] = masks[dma]
        result.append(new)
    rest = [(t, len(result[t]) - len(z) + i) for t, z in enumerate(ends) for i in range(len(z))]
    return result, np.concatenate([np.stack([tile, place], axis=1), np.array(rest, np.int32).reshape(-1, 2)])


def _next_word(source: npt.NDArray[np.int32]) -> Ints:
    """Of each emitted word the next one that is no fence: the one that a fence serves."""
    real = np.flatnonzero(source >= 0)
    at = np.searchsorted(real, np.arange(len(source)))
    return np.asarray(real[np.minimum(at, len(real) - 1)] if len(real) else np.zeros(len(source), np.int64))
