"""Who has the time: every cycle of a tile belongs to one operation, and engines are busy or not in equal bins.

A cycle belongs to the operation whose word runs on the MXU, else on the VPU, else in the data phase of LOAD, else of
STORE; a cycle in which nothing runs belongs to the operation whose word begins next (all wait for it), after the last
word to the operation of that word. So the cycles of all operations add up to tiles times cycles, however they overlap.
On a tile on which nothing runs at all they belong to tag -1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..ir.isa import Engine
from .timing_result import TileTiming, Timing

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

BINS = 200
WAITING = 4  # in the place of an engine: nothing runs
_ORDER = (Engine.MXU, Engine.VPU, Engine.LOAD, Engine.STORE)


@dataclass(frozen=True)
class Owned:
    """The cycles of one tile in stretches: [begin, end) belongs to operation `tag`, `engine` runs (or WAITING)."""

    begin: Ints
    end: Ints
    tag: Ints
    engine: Ints


def by_tag(tags: Ints) -> Iterator[tuple[int, Ints]]:
    """Each tag, ascending, with the places that have it."""
    order = np.argsort(tags, kind="stable")
    found, first = np.unique(tags[order], return_index=True)
    return zip(found.tolist(), np.split(order, first[1:])[: len(found)], strict=True)


def running(tile: TileTiming, engine: Engine) -> tuple[Ints, Ints]:
    """[begin, end) in which each word of an engine runs; no two overlap. In stream order, some may be empty."""
    at = np.flatnonzero(tile.engine == int(engine))
    begin = np.maximum.accumulate(tile.begin[at]) if len(at) else tile.begin[at]
    end = np.maximum(tile.issued[at], begin)
    if len(at):
        end[:-1] = np.minimum(end[:-1], begin[1:])
    return begin, end


def owned(tile: TileTiming, cycles: int) -> Owned:
    """Divide the cycles [0, cycles) of a tile."""
    runs = {}
    for e in _ORDER:
        first, last = running(tile, e)
        some = last > first
        runs[e] = (first[some], np.minimum(last[some], cycles), tile.tag[tile.engine == int(e)][some])
    edges = np.sort(np.concatenate([[0, cycles], *(np.concatenate(r[:2]) for r in runs.values())]))
    edges = edges[np.concatenate([[True], edges[1:] > edges[:-1]])]
    begin, end = edges[:-1].astype(np.int64), edges[1:].astype(np.int64)
    tag = np.full(len(begin), -1, np.int64)
    engine = np.full(len(begin), WAITING, np.int64)
    for e in reversed(_ORDER):  # the first of the order is written last
        first, last, tags = runs[e]
        if len(first):
            at = np.searchsorted(first, begin, side="right") - 1
            mine = (at >= 0) & (last[at] > begin)
            tag[mine], engine[mine] = tags[at[mine]], int(e)
    known = np.flatnonzero(tag >= 0)
    if len(known):
        following = np.searchsorted(known, np.arange(len(tag)))
        tag = tag[known[np.minimum(following, len(known) - 1)]]
    return Owned(begin, end, tag, engine)


def share(begin: Ints, end: Ints, edges: Floats) -> Floats:
    """Cycles of intervals that do not overlap, in each bin between `edges`."""
    if not len(begin):
        return np.zeros(len(edges) - 1)
    points = np.stack([begin, end], axis=1).reshape(-1).astype(np.float64)
    done = np.repeat(np.concatenate([[0], np.cumsum(end - begin)]).astype(np.float64), 2)[1:-1]
    return np.diff(np.interp(edges, points, done))


def busy_bins(timing: Timing, bins: int = BINS) -> dict[str, list[list[float]]]:
    """Engine -> tile -> part of each bin in which it works (LOAD, STORE: in a data phase), to three digits."""
    edges = bin_edges(timing.cycles, bins)
    width = max(1e-9, float(edges[1] - edges[0]))
    found: dict[str, list[list[float]]] = {}
    for e in _ORDER:
        found[e.name] = []
        for t in timing.tiles:
            found[e.name].append(_rounded(share(*running(t, e), edges) / width))
    return found


def dram_bins(timing: Timing, bins: int = BINS) -> list[float]:
    """Bytes a cycle that the DRAM moves, mean of each bin."""
    edges = bin_edges(timing.cycles, bins)
    if not timing.dram:
        return [0.0] * bins
    cycle, rate = (np.array(c, np.float64) for c in zip(*timing.dram, strict=True))
    ends = np.append(cycle[1:], max(float(timing.cycles), float(cycle[-1])))
    moved = np.concatenate([[0.0], np.cumsum(rate * (ends - cycle))])
    until = np.interp(edges, np.append(cycle, ends[-1]), moved)
    return _rounded(np.diff(until) / np.maximum(np.diff(edges), 1e-9))


def bin_edges(cycles: int, bins: int) -> Floats:
    """Of equal bins over the whole run."""
    return np.linspace(0, cycles, bins + 1)


def owner_bins(parts: list[Owned], edges: Floats) -> tuple[dict[str, list[float]], list[int]]:
    """What runs in each bin, of all tiles (parts that add up to 1), and the operation that has most of the bin."""
    width = max(1e-9, float(edges[1] - edges[0])) * len(parts)
    kinds = {e.name: np.zeros(len(edges) - 1) for e in _ORDER} | {"waiting": np.zeros(len(edges) - 1)}
    best, most = np.zeros(len(edges) - 1), np.full(len(edges) - 1, -1, np.int64)
    for name, number in [*((e.name, int(e)) for e in _ORDER), ("waiting", WAITING)]:
        for o in parts:
            mine = o.engine == number
            kinds[name] += share(o.begin[mine], o.end[mine], edges)
    has: dict[int, Floats] = {}
    for o in parts:
        for tag, mine in by_tag(o.tag):
            cycles = share(o.begin[mine], o.end[mine], edges)
            has[tag] = has[tag] + cycles if tag in has else cycles
    for tag, cycles in sorted(has.items()):
        better = cycles > best
        best[better], most[better] = cycles[better], tag
    return {k: _rounded(v / width) for k, v in kinds.items()}, most.tolist()


def _rounded(values: Floats) -> list[float]:
    return [round(float(v), 3) for v in values]
