"""Who wrote what a word reads, compiled: the words are executed in order on shadows of their objects.

The shadow of an object is one number while one word wrote all of it, and one number a cell from the first partial write
on. Cells come from one arena and go back after the object's last use, so memory follows what is alive.
"""

from __future__ import annotations

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
def execute(
    order: I64,
    rows: I64,
    thing: I64,
    lo: I64,
    counts: I64,
    strides: I64,
    read: Bools,
    write: Bools,
    number: I64,
    extent: I64,
    initial: I32,
    skipped: Bools,
    last: I64,
    words: int,
) -> tuple[I64, I64]:
    """Execute words in `order`.

    Args:
        order: words by index, in the order in which they are executed.
        rows: operands of word w are rows [rows[w], rows[w + 1]) of the following.
        thing, lo, counts, strides, read, write: object of each operand, its first cell, and its box, the first
            level of stride 1.
        number: what a word writes into the shadows, 0 .. `words` - 1.
        extent, initial, skipped: of each object: cells, what they hold at first (a negative number), whether it is
            left out.
        last: of each object, the position in `order` of its last use.

    Returns:
        Of each operand that is read, in row order: where its writers end; and the writers, each once, ascending.
        Operands that are not read or left out have none.
    """
    n = len(extent)
    whole = initial.copy()
    base = np.full(n, -1, np.int64)
    arena = np.zeros(1 << 20, np.int32)
    top = 0
    free = np.full((40, 16), -1, np.int64)
    held = np.zeros(40, np.int64)
    stamp = np.full(words + 2, -1, np.int64)
    begins, ends = np.zeros(len(thing), np.int64), np.zeros(len(thing), np.int64)
    found = np.zeros(1 << 16, np.int64)
    count = 0
    turn = np.zeros(counts.shape[1], np.int64)
    for position in range(len(order)):
        w = order[position]
        for i in range(rows[w], rows[w + 1]):
            begins[i] = ends[i] = count
            x = thing[i]
            if not read[i] or skipped[x]:
                continue
            if base[x] < 0:
                if count == len(found):
                    found = np.concatenate((found, found))
                found[count] = whole[x]
                count += 1
            else:
                before = np.int64(-3)
                at = base[x] + lo[i]
                for _ in range(_steps(counts[i])):
                    for k in range(at, at + counts[i, 0]):
                        v = arena[k]
                        if v != before:
                            before = v
                            if stamp[v + 2] != i:
                                stamp[v + 2] = i
                                if count == len(found):
                                    found = np.concatenate((found, found))
                                found[count] = v
                                count += 1
                    at = _next(turn, counts[i], strides[i], at)
                if count - begins[i] > 1:
                    found[begins[i] : count] = np.sort(found[begins[i] : count])
            ends[i] = count
        for i in range(rows[w], rows[w + 1]):
            x = thing[i]
            if not write[i] or skipped[x]:
                continue
            if base[x] < 0 and _steps(counts[i]) == 1 and counts[i, 0] == extent[x]:
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
            for _ in range(_steps(counts[i])):
                arena[at : at + counts[i, 0]] = number[w]
                at = _next(turn, counts[i], strides[i], at)
        for i in range(rows[w], rows[w + 1]):
            x = thing[i]
            if base[x] >= 0 and last[x] == position:
                c = _class_of(extent[x])
                if held[c] == free.shape[1]:
                    free = np.concatenate((free, free), axis=1)
                free[c, held[c]] = base[x]
                held[c] += 1
                base[x] = -2
    return _in_row_order(begins, ends, found)


@compiled
def _in_row_order(begins: I64, ends: I64, found: I64) -> tuple[I64, I64]:
    out_ends = np.zeros(len(begins), np.int64)
    total = 0
    for i in range(len(begins)):
        total += ends[i] - begins[i]
        out_ends[i] = total
    out = np.zeros(total, np.int64)
    at = 0
    for i in range(len(begins)):
        for k in range(begins[i], ends[i]):
            out[at] = found[k]
            at += 1
    return out_ends, out
