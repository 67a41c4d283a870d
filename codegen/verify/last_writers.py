"""Who wrote what a word reads, compiled: the words are executed in order on shadows of their objects.

The shadow of an object is one number while one word wrote all of it, and one number a cell from the first partial write
on. Cells come from one arena and go back after the object's last use, so memory follows what is alive.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...compiled import compiled

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


@compiled
def _class_of(size: int) -> int:
    c = 0
    while 1 << c < size:
        c += 1
    return c


@compiled
def _steps(counts: I64) -> int:
    """Runs of a box."""
    steps = 1
    for level in range(1, len(counts)):
        steps *= counts[level]
    return steps


@compiled
def _next(turn: I64, counts: I64, strides: I64, at: int) -> int:
    """Where the run of a box behind the one at `at` starts; behind the last comes the first.

    `turn` counts the loops; all are zero at the first run.
    """
    for level in range(1, len(counts)):
        turn[level] += 1
        at += strides[level]
        if turn[level] < counts[level]:
            break
        turn[level] = 0
        at -= counts[level] * strides[level]
    return at


@compiled
def _hash(flat: I32, start: int, end: int) -> Any:
    h = np.uint64(1469598103934665603)
    for k in range(start, end):
        h = (h ^ np.uint64(np.uint32(flat[k]))) * np.uint64(1099511628211)
    return np.int64(h >> np.uint64(8))


@compiled
def _number(flat: I32, ends: I64, lists: int, end: int, table: I32, hashes: I64) -> Any:
    """The number of the list flat[ends[lists - 1] : end] among the first `lists`; `lists` if it is new, then noted."""
    start = ends[lists - 1]
    h = _hash(flat, start, end)
    at = h & (len(table) - 1)
    while table[at] != 0:
        other = table[at]
        if hashes[other] == h and ends[other] - ends[other - 1] == end - start:
            same = True
            for k in range(end - start):
                if flat[ends[other - 1] + k] != flat[start + k]:
                    same = False
                    break
            if same:
                return other
        at = (at + 1) & (len(table) - 1)
    table[at] = lists
    hashes[lists] = h
    return lists


@compiled
def _rehashed(table: I32, hashes: I64, lists: int) -> I32:
    out = np.zeros(2 * len(table), np.int32)
    for one in range(1, lists):
        at = hashes[one] & (len(out) - 1)
        while out[at] != 0:
            at = (at + 1) & (len(out) - 1)
        out[at] = one
    return out


@compiled
def execute(
    order: I64,
    rows: I64,
    thing: I32,
    lo: I64,
    shape: I32,
    counts: I64,
    strides: I64,
    read: Bools,
    write: Bools,
    number: I64,
    extent: I64,
    initial: I32,
    skipped: Bools,
    last: I32,
    words: int,
    host: int,
    host_far: int,
) -> tuple[I32, I32, I64]:
    """Execute words in `order`.

    Args:
        order: words by index, in the order in which they are executed.
        rows: operands of word w are rows [rows[w], rows[w + 1]) of the following.
        thing, lo, shape, read, write: object of each operand, its first cell, and the number of its box.
        counts, strides: the boxes, the first level of stride 1.
        number: what a word writes into the shadows, 0 .. `words` - 1.
        extent, initial, skipped: of each object: cells, what they hold at first (a negative number), whether it is
            left out.
        last: of each object, the position in `order` of its last use.
        host, host_far: the initial number that stands for the host, and how it is written in a list; other initial
            numbers are not.

    Returns:
        Of each operand the list of its writers; the lists, one behind the other; and where each ends. A list holds the
        distances from the reading word to its writers, each once, ascending. List 0 is empty, that of operands that
        are not read or left out.
    """
    n = len(extent)
    whole = initial.copy()
    base = np.full(n, -1, np.int64)
    arena = np.zeros(1 << 20, np.int32)
    top = 0
    free = np.full((40, 16), -1, np.int64)
    held = np.zeros(40, np.int64)
    stamp = np.full(words + 2, -1, np.int64)
    which = np.zeros(len(thing), np.int32)
    found = np.zeros(1 << 10, np.int64)
    flat, ends, lists = np.zeros(1 << 16, np.int32), np.zeros(1 << 12, np.int64), 1
    table, hashes = np.zeros(1 << 14, np.int32), np.zeros(1 << 12, np.int64)
    turn = np.zeros(counts.shape[1], np.int64)
    for position in range(len(order)):
        w = order[position]
        for i in range(rows[w], rows[w + 1]):
            x = thing[i]
            if not read[i] or skipped[x]:
                continue
            count = 0
            if base[x] < 0:
                found[0] = whole[x]
                count = 1
            else:
                before = np.int64(-3)
                at = base[x] + lo[i]
                extents, steps = counts[shape[i]], strides[shape[i]]
                for _ in range(_steps(extents)):
                    for k in range(at, at + extents[0]):
                        v = arena[k]
                        if v != before:
                            before = v
                            if stamp[v + 2] != i:
                                stamp[v + 2] = i
                                if count == len(found):
                                    found = np.concatenate((found, found))
                                found[count] = v
                                count += 1
                    at = _next(turn, extents, steps, at)
                if count > 1:
                    found[:count] = np.sort(found[:count])
            while ends[lists - 1] + count > len(flat):
                flat = np.concatenate((flat, flat))
            end = ends[lists - 1]
            for k in range(count - 1, -1, -1):
                if found[k] >= 0:
                    flat[end] = number[w] - found[k]
                    end += 1
            for k in range(count):
                if found[k] == host:
                    flat[end] = host_far
                    end += 1
            if end == ends[lists - 1]:
                continue
            if lists == len(ends):
                ends, hashes = np.concatenate((ends, ends)), np.concatenate((hashes, hashes))
            which[i] = _number(flat, ends, lists, end, table, hashes)
            if which[i] == lists:
                ends[lists] = end
                lists += 1
                if 2 * lists > len(table):
                    table = _rehashed(table, hashes, lists)
        for i in range(rows[w], rows[w + 1]):
            x = thing[i]
            if not write[i] or skipped[x]:
                continue
            extents, steps = counts[shape[i]], strides[shape[i]]
            if base[x] < 0 and _steps(extents) == 1 and extents[0] == extent[x]:
                whole[x] = number[w]
                continue
            if base[x] < 0:
                c = _class_of(extent[x])
                if held[c] > 0:
                    held[c] -= 1
                    base[x] = free[c, held[c]]
                else:
                    while top + (1 << c) > len(arena):
                        arena = np.concatenate((arena, np.zeros(len(arena), np.int32)))
                    base[x] = top
                    top += 1 << c
                arena[base[x] : base[x] + extent[x]] = whole[x]
            at = base[x] + lo[i]
            for _ in range(_steps(extents)):
                arena[at : at + extents[0]] = number[w]
                at = _next(turn, extents, steps, at)
        for i in range(rows[w], rows[w + 1]):
            x = thing[i]
            if base[x] >= 0 and last[x] == position:
                c = _class_of(extent[x])
                if held[c] == free.shape[1]:
                    free = np.concatenate((free, free), axis=1)
                free[c, held[c]] = base[x]
                held[c] += 1
                base[x] = -2
    return which, flat[: ends[lists - 1]].copy(), ends[:lists].copy()
