"""Times the words of one tile, in program order: engines are queues, words wait for those whose buffers they use.

The rules are those of `simulator/timing.py`, with the costs of `ir/cost.py`. What makes it quick: tokens, buffers and
DRAM tensors point backwards in program order, so one pass over the words gives every time, without events. Other tiles
do the same at the same time: what they store is there when this tile's is, and the DRAM gives each its share.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...compiled import compiled

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

_LOAD, _MXU, _VPU, _STORE = range(4)
_SPACES = 5
_LIVE, _GHOSTS = 512, 1024
_BIN = 1024  # cycles in which a share of the DRAM is counted
_BINS = 1 << 15
_LONG_AGO = -(1 << 60)

LEAD, WINDOW, TAIL = 2, 4, 2
"""Of many equal repetitions these are timed, and each of the others takes as long as one of the window."""


@compiled
def _place(lo: I64, hi: I64, count: int, size: int, words: int, cursor: int) -> int:
    """As `_Ring.place` of `plan_scratchpad.py`: the first gap from the cursor on, then from the start; -1: none."""
    for start in (cursor, 0):
        end = 0
        for i in range(count + 1):
            top = lo[i] if i < count else words
            if top > end:
                at = max(end, start)
                if at + size <= top:
                    return at
            if i < count and hi[i] > end:
                end = hi[i]
    return -1


@compiled
def _serve(left: F64, number: I64, begin: float, size: float, rate: float, share: float) -> float:
    """The DRAM moves `size` bytes from `begin` on, at most `rate` a cycle, in what bins have left of `share`."""
    t = begin
    while size > 0.0:
        b = int(t) // _BIN
        k = b % _BINS
        if number[k] != b:
            number[k] = b
            left[k] = share * _BIN
        end = float((b + 1) * _BIN)
        most = min(size, rate * (end - t))
        if left[k] >= most:
            left[k] -= most
            size -= most
            t += most / rate
        else:
            size -= left[k]
            left[k] = 0.0
            t = end
    return t


@compiled
def _save(saved: F64, level: int, sums: F64, op: int, done: int) -> None:
    """A window begins."""
    for k in range(8):
        saved[level, k] = sums[op, k]
    saved[level, 0] += done


@compiled
def _extend(saved: F64, level: int, sums: F64, op: int, done: int, times: float) -> None:
    """A window ends: what happened in it happens `times` more times."""
    for k in range(1, 8):
        sums[op, k] += (sums[op, k] - saved[level, k]) * times
    sums[op, 0] += (sums[op, 0] + done - saved[level, 0]) * times


@compiled
def run(
    order: I64,
    steps: I64,
    segments: I64,
    engine: I64,
    cost: I64,
    dram: I64,
    ref_at: I64,
    refs: I64,
    alloc_at: I64,
    allocs: I64,
    free_at: I64,
    frees: I64,
    mm: I64,
    vec: I64,
    dma: F64,
    op_slots: int,
    op_tokens: F64,
    op_tiles: F64,
    reads: I64,
    writes: I64,
    tensor_samples: I64,
    sizes: I64,
    array: I64,
    queues: I64,
    memory: F64,
    l2: F64,
    fresh: I64,
    words: int,
) -> Any:
    """Time the steps of an entry.

    `order` [n, 2]: operation and its step; `steps`, `segments` and the columns of words are those of `Builder`. `mm`:
    tiles, rows, accumulate; `vec`: the columns of `cost.Vec` in VEC_COLUMNS; `dma`: bytes on the port, bytes that count
    in the DRAM, cycles of the data phase, padding before the data, addresses, whether it goes through the L2. `array`:
    rows, blocks, drain. `memory`: latency of a read, of a write, bytes a cycle of a port and of the DRAM, remote
    signal. `l2`: latency of a hit, bytes a cycle, more cycles of a miss; `fresh`: of each step, whether what goes
    through the L2 has to come from the DRAM, once for all tiles. `op_tiles`: how many times this tile's traffic all
    tiles have.

    Returns, by operation: the cycle in which all of it is done, without repetitions that are left out; and cycles left
    out, cycles of LOAD, MXU, VPU, STORE, words, tiles * rows of MM, bytes.
    """
    count = len(op_tokens)
    done_at = np.zeros(count, np.int64)
    # Of each operation: cycles left out, cycles of the engines, words, tiles * rows of MM, bytes.
    sums = np.zeros((count, 8), np.float64)
    saved = np.zeros((3, 8), np.float64)
    latency, response, port, share, remote = int(memory[0]), int(memory[1]), memory[2], memory[3], int(memory[4])
    visible = np.zeros(words + 1, np.int64)
    left, numbers = np.zeros(_BINS, np.float64), np.full(_BINS, -1, np.int64)
    l2_left, l2_numbers = np.zeros(_BINS, np.float64), np.full(_BINS, -1, np.int64)

    # Slots: where they are, the last word of each engine that wrote and read them, and that used their place before.
    total = 2 * op_slots
    s_live = np.zeros(total, np.int64)
    s_space, s_lo, s_hi = np.zeros(total, np.int64), np.zeros(total, np.int64), np.zeros(total, np.int64)
    s_write, s_read = np.full((total, 4), -1, np.int64), np.full((total, 4), -1, np.int64)
    s_before = np.full((total, 4), -1, np.int64)
    live_lo, live_hi = np.zeros((_SPACES, _LIVE), np.int64), np.zeros((_SPACES, _LIVE), np.int64)
    lives, cursor = np.zeros(_SPACES, np.int64), np.zeros(_SPACES, np.int64)
    ghost_lo, ghost_hi = np.zeros((_SPACES, _GHOSTS), np.int64), np.zeros((_SPACES, _GHOSTS), np.int64)
    ghost_use, ghosts = np.zeros((_SPACES, _GHOSTS, 4), np.int64), np.zeros(_SPACES, np.int64)

    # What is stored in DRAM: records (first and end row as parts of the tile's, word), the newest first.
    heads = np.full((len(tensor_samples), 2), -1, np.int64)
    room = len(order) + 16
    rec_lo, rec_hi = np.zeros(room, np.float64), np.zeros(room, np.float64)
    rec_word, rec_next = np.zeros(room, np.int64), np.zeros(room, np.int64)
    records = 0

    # Engines.
    free = np.zeros(4, np.int64)
    last = np.full(4, -1, np.int64)  # when all started words are done
    drained = np.full(4, -1, np.int64)  # all words up to this one were done when a later one started
    newest = np.full(4, -1, np.int64)
    depth = queues
    started = np.zeros((4, 64), np.int64)  # of the latest words, a ring
    ended = np.zeros((4, 64), np.int64)
    numbered = np.zeros(4, np.int64)
    ctrl = 0
    arrived = np.zeros(8, np.int64)
    for k in range(4):
        arrived[k] = max(2 + k + latency, arrived[k - 1] + 16 if k else 0)
    address, phase_end = 0, np.zeros(4, np.float64)
    rows, blocks, mxu_drain = array[0], array[1], array[2]
    release, m_t0, m_t1, last_row, last_acc = -1, _LONG_AGO, _LONG_AGO, -1, -1
    v_last, v_before, v_gap, v_fetched, v_read, v_rows, v_columns = -1, -1, 0, -1, -1, -1, -1
    v_done = np.full(8, -1, np.int64)
    v_ways = np.full(3, -1, np.int64)
    need = np.full(4, -1, np.int64)
    w = 0

    for o in range(len(order)):
        op, step = order[o, 0], order[o, 1]
        base = (op & 1) * op_slots
        st = steps[step]
        if st[11]:  # repetitions that are left out take what those between two marks take
            level = st[11] // 2 - 1
            if st[11] % 2 == 0:
                _save(saved, level, sums, op, done_at[op])
            else:
                _extend(saved, level, sums, op, done_at[op], st[12] / st[13])
            continue
        lo_part, hi_part = st[8] / op_tokens[op], st[9] / op_tokens[op]
        first, stop = segments[st[0]], segments[st[0] + 1]
        times, turn = st[1], 0
        while turn < times:
            if times > LEAD + WINDOW + TAIL + 1:
                if turn == LEAD:
                    _save(saved, 2, sums, op, done_at[op])
                elif turn == LEAD + WINDOW:
                    turn = times - TAIL
                    _extend(saved, 2, sums, op, done_at[op], (turn - LEAD - WINDOW) / WINDOW)
            turn += 1
            for i in range(first, stop):
                for a in range(alloc_at[i], alloc_at[i + 1]):
                    mode = allocs[a, 0] % 8
                    s = base + allocs[a, 0] // 8 + (st[1 + mode] if mode else 0)
                    space, size = allocs[a, 1], allocs[a, 2]
                    if s_live[s]:
                        _free(s, s_space, s_lo, s_hi, s_live, s_write, s_read, s_before, live_lo, live_hi, lives,
                              ghost_lo, ghost_hi, ghost_use, ghosts)  # fmt: skip
                    at = _place(live_lo[space], live_hi[space], lives[space], size, sizes[space, 0], cursor[space])
                    for e in range(4):
                        s_write[s, e] = -1
                        s_read[s, e] = -1
                        s_before[s, e] = -1
                    if at < 0:  # nothing is free: wait for all that was
                        at = 0
                        for e in range(4):
                            s_before[s, e] = newest[e]
                    else:
                        n = lives[space]
                        k = n
                        while k > 0 and live_lo[space, k - 1] > at:
                            live_lo[space, k] = live_lo[space, k - 1]
                            live_hi[space, k] = live_hi[space, k - 1]
                            k -= 1
                        live_lo[space, k] = at
                        live_hi[space, k] = at + size
                        lives[space] = n + 1
                        bank = sizes[space, 0] // sizes[space, 1]
                        end = at + size
                        cursor[space] = (
                            end if sizes[space, 1] == 1 else (end + bank - 1) // bank * bank % sizes[space, 0]
                        )
                        s_live[s] = 1
                        g = 0
                        while g < ghosts[space]:
                            if ghost_lo[space, g] < end and at < ghost_hi[space, g]:
                                for e in range(4):
                                    s_before[s, e] = max(s_before[s, e], ghost_use[space, g, e])
                                if at <= ghost_lo[space, g] and ghost_hi[space, g] <= end:
                                    z = ghosts[space] - 1
                                    ghost_lo[space, g] = ghost_lo[space, z]
                                    ghost_hi[space, g] = ghost_hi[space, z]
                                    for e in range(4):
                                        ghost_use[space, g, e] = ghost_use[space, z, e]
                                    ghosts[space] = z
                                    continue
                            g += 1
                    s_space[s], s_lo[s], s_hi[s] = space, at, at + size
                me = engine[i]
                if me < 4:
                    for e in range(4):
                        need[e] = -1
                    drain = False
                    acc_lo = -1
                    for r in range(ref_at[i], ref_at[i + 1]):
                        mode = refs[r, 0] % 8
                        s = base + refs[r, 0] // 8 + (st[1 + mode] if mode else 0)
                        if refs[r, 1] == 1:
                            for e in range(4):
                                need[e] = max(need[e], s_write[s, e])
                            if me == _VPU and s_write[s, me] > drained[me]:
                                drain = True
                        else:
                            for e in range(4):
                                need[e] = max(need[e], s_write[s, e], s_read[s, e], s_before[s, e])
                            if acc_lo < 0:
                                acc_lo = s_lo[s]
                    t = free[me]
                    for e in range(4):
                        if e != me and need[e] >= 0:
                            t = max(t, visible[need[e]] + 1)
                    role = dram[i, 0]
                    if role >= 0:
                        tensor = reads[op, role]
                        if tensor >= 0:
                            sample = min(st[7], tensor_samples[tensor] - 1)
                            rec = heads[tensor, sample & 1]
                            if dram[i, 1] == 0:
                                while rec >= 0 and rec_lo[rec] >= hi_part - 1e-9:
                                    rec = rec_next[rec]
                                if rec >= 0:
                                    t = max(t, visible[rec_word[rec]] + 1)
                            elif rec >= 0:
                                t = max(t, visible[rec_word[rec]] + 1 + remote)
                    # CTRL
                    n = numbered[me]
                    b = w // 16
                    ready = max(ctrl + 1, arrived[b % 8] + w % 16 + 1)
                    if n >= depth[me]:
                        ready = max(ready, started[me, (n - depth[me]) % 64] + 1)
                    ctrl = ready
                    if w % 16 == 15:
                        arrived[(b + 4) % 8] = max(ctrl + 2 + latency, arrived[(b + 3) % 8] + 16)
                    t = max(t, ready + 1)
                    if drain:
                        t = max(t, last[me] + 1)
                        drained[me] = w - 1
                    c = cost[i]
                    if me == _MXU:
                        tiles, m_rows, accumulate = mm[c, 0], mm[c, 1], mm[c, 2]
                        moved = max(t + 8, release)
                        taken = max(moved + 1, last_row)
                        t0 = max(m_t0 + rows, m_t1 + blocks, moved + 1)
                        gap = 3 if accumulate and 0 <= last_acc - acc_lo <= 1 else 1
                        t1 = max(t0 + 1 + blocks, last_row + gap, taken + 1)
                        begin, rest, each = t1, tiles - 1, max(m_rows, rows)
                        while rest > 0:
                            next0 = max(t0 + rows, t1 + blocks)
                            next1 = max(next0 + 1 + blocks, t1 + m_rows)
                            k = rest if next0 - t0 == each and next1 - t1 == each else 1
                            t0, t1, rest = t0 + k * (next0 - t0), t1 + k * (next1 - t1), rest - k
                        m_t0, m_t1 = t0, t1
                        last_row, last_acc = t1 + m_rows - 1, acc_lo + mm[c, 3] - 1
                        release = max(t0 + rows - 1, taken)
                        free[me] = moved
                        done = last_row + mxu_drain
                        sums[op, 1 + me] += tiles * each
                        sums[op, 6] += tiles * m_rows
                    elif me == _VPU:
                        offered = max(t + 3, v_before + 1)
                        begin = max(offered + 1, v_last)
                        ways = vec[c, 11]
                        for k in range(3):
                            if ways & ~(1 << k):
                                begin = max(begin, v_ways[k] + 1)
                        begin = max(begin, v_done[n % 8] + 1)
                        f = offered + 4
                        fetch, pport = max(f, v_fetched), max(f, v_read)
                        head = max(fetch + vec[c, 1] - 1, begin + 1, v_last + 1 + v_gap)
                        if vec[c, 0]:
                            head = max(head, pport + vec[c, 0] - 1)
                        if ways & 4:
                            head = max(head, v_columns)
                        end = max(head + vec[c, 3], fetch + vec[c, 2]) + vec[c, 5]
                        if vec[c, 7]:
                            end = max(end, pport + vec[c, 7])
                        tail_at = end - 1
                        v_before, v_last, v_gap = v_last, tail_at, vec[c, 4]
                        v_read = max(v_read, pport + vec[c, 7])
                        v_fetched = max(fetch + vec[c, 2], tail_at - 3)
                        extra = vec[c, 10]
                        if vec[c, 8]:
                            added = max(v_rows, head) + vec[c, 8]
                            v_rows = added + vec[c, 9]
                            extra += max(0, added - 1 - tail_at)
                        if ways & 4:
                            v_columns = tail_at + 1 + vec[c, 6]
                        free[me] = offered
                        done = tail_at + extra
                        sums[op, 1 + me] += end - head
                        v_done[n % 8] = max(last[me] + 1, done)
                        for k in range(3):
                            if ways & 1 << k:
                                v_ways[k] = v_done[n % 8]
                    else:
                        if n >= 4:
                            t = max(t, ended[me, (n - 4) % 64] + 1)
                        size, weight, cycles = dma[c, 0], dma[c, 1], dma[c, 2]
                        free[me] = t + 1
                        if me == _STORE:
                            ready_at = float(t + 8)
                        elif size == 0:
                            ready_at = float(t + 5)
                        else:
                            sent = max(t + 8, address)
                            address = sent + int(dma[c, 4])
                            way = latency
                            if dma[c, 5] > 0.0:
                                way = latency + int(l2[2]) if fresh[step] else int(l2[0])
                            ready_at = float(max(t + 5, sent + way - int(dma[c, 3])))
                        data = max(ready_at, phase_end[me])
                        if size == 0:
                            stop_at = data + max(1.0, cycles)
                        else:
                            cap = min(port, size / max(1.0, cycles))
                            stop_at = data + np.ceil(size / cap - 1e-6)
                            tiles_at = op_tiles[op]
                            if dma[c, 5] > 0.0:
                                most = 2 * port * tiles_at
                                served = _serve(l2_left, l2_numbers, ready_at, size * tiles_at, most, l2[1])
                                if fresh[step]:
                                    served = max(served, _serve(left, numbers, ready_at, weight, 2 * port, share))
                                stop_at = max(stop_at, np.ceil(served))
                            elif share < 2 * port * tiles_at:
                                served = _serve(left, numbers, ready_at, weight * tiles_at, 2 * port * tiles_at, share)
                                stop_at = max(stop_at, np.ceil(served))
                        phase_end[me] = stop_at
                        done = int(stop_at) + (3 if me == _LOAD else response + 1)
                        sums[op, 1 + me] += stop_at - data
                        if dma[c, 5] > 0.0:
                            size = size / op_tiles[op] if fresh[step] else 0.0
                        sums[op, 7] += size
                    last[me] = max(last[me] + 1, done)
                    visible[w] = last[me]
                    started[me, n % 64], ended[me, n % 64] = t, last[me]
                    numbered[me] = n + 1
                    newest[me] = w
                    done_at[op] = max(done_at[op], last[me])
                    sums[op, 5] += 1
                    for r in range(ref_at[i], ref_at[i + 1]):
                        mode = refs[r, 0] % 8
                        s = base + refs[r, 0] // 8 + (st[1 + mode] if mode else 0)
                        if refs[r, 1] == 1:
                            s_read[s, me] = w
                        else:
                            s_write[s, me] = w
                    role = dram[i, 2]
                    if role >= 0:
                        tensor = writes[op, role]
                        if tensor >= 0:
                            sample = min(st[7], tensor_samples[tensor] - 1) & 1
                            h = heads[tensor, sample]
                            if h >= 0 and rec_lo[h] == lo_part and rec_hi[h] == hi_part:
                                rec_word[h] = w
                            else:
                                if records == room:
                                    rec_lo, rec_hi = _wider(rec_lo), _wider(rec_hi)
                                    rec_word, rec_next = _wider(rec_word), _wider(rec_next)
                                    room *= 2
                                rec_lo[records], rec_hi[records] = lo_part, hi_part
                                rec_word[records], rec_next[records] = w, h
                                heads[tensor, sample] = records
                                records += 1
                    w += 1
                for k in range(free_at[i], free_at[i + 1]):
                    mode = frees[k] % 8
                    s = base + frees[k] // 8 + (st[1 + mode] if mode else 0)
                    if s_live[s]:
                        _free(s, s_space, s_lo, s_hi, s_live, s_write, s_read, s_before, live_lo, live_hi, lives,
                              ghost_lo, ghost_hi, ghost_use, ghosts)  # fmt: skip
    return done_at, sums


@compiled
def _wider(a: Any) -> Any:
    """The array with twice the room."""
    return np.concatenate((a, a))


@compiled
def _free(
    s: int,
    s_space: I64,
    s_lo: I64,
    s_hi: I64,
    s_live: I64,
    s_write: I64,
    s_read: I64,
    s_before: I64,
    live_lo: I64,
    live_hi: I64,
    lives: I64,
    ghost_lo: I64,
    ghost_hi: I64,
    ghost_use: I64,
    ghosts: I64,
) -> None:
    """End a slot: its place is free, and who takes it waits for the words that used it."""
    space = s_space[s]
    n = lives[space]
    k = 0
    while k < n and live_lo[space, k] != s_lo[s]:
        k += 1
    for j in range(k, n - 1):
        live_lo[space, j] = live_lo[space, j + 1]
        live_hi[space, j] = live_hi[space, j + 1]
    lives[space] = n - 1
    g = ghosts[space]
    if g == _GHOSTS:
        g = 0
    else:
        ghosts[space] = g + 1
    ghost_lo[space, g], ghost_hi[space, g] = s_lo[s], s_hi[s]
    for e in range(4):
        ghost_use[space, g, e] = max(s_write[s, e], s_read[s, e], s_before[s, e])
    s_live[s] = 0
