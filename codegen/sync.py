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

import numpy as np
import numpy.typing as npt

from ..errors import DpuError
from ..ir.arch import Arch
from ..ir.isa import DMA, ENGINE_OF, MAX_TOKENS, Engine, Flag, Opcode, Words, word
from ..ir.operands import operands
from .sync_scan import ENGINES, scan

Order = list[tuple[int, int]]
"""(tile, index in its stream), in the order of sequential execution."""

Ints = npt.NDArray[np.int64]

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


def _touched(streams: list[Words], number: list[Ints], arch: Arch) -> tuple[int, tuple[npt.NDArray[np.generic], ...]]:
    """All accesses that can be hazards, by word and reads first: the number of spaces, then word, space, low, high,
    whether it writes, whether it is in DRAM. `number` gives each stream's words their number in the scan; -1: none."""
    found: list[tuple[npt.NDArray[np.generic], ...]] = []
    columns = [operands(s, arch) for s in streams]
    written = {int(b) for one in columns for o in one if o.dram for b in np.unique(o.buffer[o.write])}
    spaces = len(streams) * _SCRATCHPADS
    first_page = np.full(256, -1, np.int64)
    for base in sorted(written):
        first_page[base] = spaces
        tops = [int(o.hi[o.buffer == base].max(initial=0)) for one in columns for o in one if o.dram]
        spaces += max(tops) // PAGE + 1
    for tile, one in enumerate(columns):
        for write in (False, True):
            for o in one:
                keep = o.write if write else o.read
                if o.dram:
                    keep = keep & (first_page[o.buffer] >= 0)
                me, space, low, high = number[tile][o.index[keep]], o.buffer[keep], o.lo[keep], o.hi[keep]
                if o.dram:
                    me, space, low, high = _pages(me, first_page[space], np.maximum(low, 0), high)
                else:
                    space = space + tile * _SCRATCHPADS
                numbers = (me.astype(np.int32), space.astype(np.int32), low, high)
                found.append((*numbers, np.full(len(me), write), np.full(len(me), o.dram)))
    columns.clear()  # many tiles make very many accesses: of each column one copy at a time
    by_column = [list(x) for x in zip(*found, strict=True)]
    found.clear()
    rows: list[npt.NDArray[np.generic]] = []
    for parts in by_column:
        rows.append(np.concatenate(parts))
        parts.clear()
    by_word = np.argsort(rows[0], kind="stable")
    for i, row in enumerate(rows):
        rows[i] = row[by_word]
    return spaces, tuple(rows)


def _pages(me: Ints, first: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Accesses to DRAM cut at pages, each of which is a space of its own: few segments lie in each."""
    a = low // PAGE
    count = np.maximum((high - 1) // PAGE - a + 1, 1)
    row = np.repeat(np.arange(len(me)), count)
    page = a[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    return me[row], first[row] + page, np.maximum(low[row], page * PAGE), np.minimum(high[row], (page + 1) * PAGE)


def insert_semaphores(order: Order | Ints, streams: list[Words], arch: Arch) -> tuple[list[Words], Order]:
    """Streams with `wait`, `signal`, `remote` and `DRAIN` set, and the global order that includes inserted fences.

    The inputs are not changed. Semaphore fields that they hold are replaced; a `DRAIN` that is set stays. END words
    move to the end of their stream.

    Raises:
        DpuError: E310 illegal opcode, E340 the order is not one of the streams.
    """
    words = np.array(order, np.int64).reshape(-1, 2)
    _check_order(words, streams)
    tiles = len(streams)
    if tiles > arch.tiles:
        raise DpuError("order", f"{tiles} streams, but arch '{arch.name}' has {arch.tiles} tiles", code="E340")
    engine_of = np.full(256, -1, np.int64)
    for o, e in ENGINE_OF.items():
        engine_of[o] = e
    tile, index = words.T
    engine, drains = np.empty(len(order), np.int64), np.empty(len(order), np.bool_)
    for t, stream in enumerate(streams):
        mine = tile == t
        engine[mine] = engine_of[stream["opcode"]]
        drains[mine] = stream["flags"] & Flag.DRAIN != 0
    ends = engine == Engine.CTRL
    number = [np.full(len(s), -1, np.int64) for s in streams]
    place = np.cumsum(~ends) - 1
    for t in range(tiles):
        mine = (tile == t) & ~ends
        number[t][index[mine]] = place[mine]
    spaces, (of, space, low, high, write, far) = _touched(streams, number, arch)
    first = np.searchsorted(of, np.arange(int((~ends).sum()) + 1))
    found = scan(
        tiles,
        spaces,
        tile[~ends].astype(np.int32),
        engine[~ends].astype(np.int32),
        drains[~ends],
        first,
        space.astype(np.int32, copy=False),
        low.astype(np.int64, copy=False),
        high.astype(np.int64, copy=False),
        write.astype(np.bool_, copy=False),
        far.astype(np.bool_, copy=False),
    )
    del of, space, low, high, write, far, first
    final = [index[ends & (tile == t)] for t in range(tiles)]
    return _build(found, index[~ends], streams, final)


def _build(
    found: tuple[npt.NDArray[np.generic], ...], index: Ints, streams: list[Words], ends: list[Ints]
) -> tuple[list[Words], Order]:
    """Write the found tokens into copies of the words."""
    tile, engine, source, drain, from_word, to_word, pair = (x.astype(np.int64) for x in found)
    n, engines = len(tile), len(streams) * ENGINES
    signal, wait, remote = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    by_pair = np.argsort(pair, kind="stable")
    for rows in np.split(by_pair, np.flatnonzero(np.diff(pair[by_pair])) + 1):
        if not len(rows):
            continue
        producer, consumer = divmod(int(pair[rows[0]]), engines)
        (from_tile, from_engine), (to_tile, to_engine) = divmod(producer, ENGINES), divmod(consumer, ENGINES)
        kept = _within_tokens(list(zip(from_word[rows].tolist(), to_word[rows].tolist(), strict=True)))
        p, c = np.array(kept, np.int64).T
        if from_tile == to_tile:
            signal[p] |= 1 << (4 * to_engine)
            wait[c] |= 1 << (4 * from_engine)
        else:
            remote[p] |= 1 << to_tile
            remote[c] |= 1 << from_tile

    order: Order = []
    result = []
    fence = {int(e): word(o)[0] for e, o in ((Engine.LOAD, Opcode.LOAD), (Engine.STORE, Opcode.STORE))}
    served = _next_word(source)
    place = np.empty(n, np.int64)
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
        masks = np.concatenate([remote[mine], np.zeros(len(ends[t]), np.int64)]).astype(np.uint32)
        new.view(DMA)["remote"][dma] = masks[dma]
        result.append(new)
    order = list(zip(tile.tolist(), place.tolist(), strict=True))
    for t in range(len(streams)):
        count = len(result[t]) - len(ends[t])
        order.extend((t, count + i) for i in range(len(ends[t])))
    return result, order


def _next_word(source: Ints) -> Ints:
    """Of each emitted word the next one that is no fence: the one that a fence serves."""
    real = np.flatnonzero(source >= 0)
    at = np.searchsorted(real, np.arange(len(source)))
    return np.asarray(real[np.minimum(at, len(real) - 1)] if len(real) else np.zeros(len(source), np.int64))
