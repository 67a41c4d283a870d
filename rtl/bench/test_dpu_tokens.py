"""Semaphores, the queue of an engine and the way of tokens to other tiles, against plain Python models."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import cocotb
from control_bench import PARAMETERS, begin, get, pack, settle, tick
from dpu.ir.isa import MAX_TOKENS, Flag, Opcode, word

LOAD = 0


@cocotb.test()
async def semaphores(dut: Any) -> None:
    """All tokens of a word at once, signals and waits in one cycle, the maximum."""
    tiles, rng = PARAMETERS["Tiles"], random.Random(4)
    await begin(dut, wait_mask_i=0, wait_remote_i=0, wait_take_i=0, signal_mask_i=0, signal_give_i=0, remote_token_i=0)
    count = {(p, c, k): 0 for p in range(4) for c in range(4) for k in range(4)}
    remote = [0] * tiles
    full = both = refused = 0
    for cycle in range(6000):
        filling = cycle // 1000 % 2 == 0
        waits, signals = [0] * 4, [0] * 4
        for e in range(4):
            for _ in range(rng.randint(0, 3)):
                signals[e] |= 1 << (4 * rng.randrange(4) + rng.choice((0, 0, 0, 1, 2, 3)))
            for _ in range(rng.randint(0, 1 if filling else 3)):
                waits[e] |= 1 << (4 * rng.randrange(4) + rng.choice((0, 0, 0, 1, 2, 3)))
        wait_remote = rng.getrandbits(tiles) if rng.random() < (0.1 if filling else 0.9) else 0
        dut.wait_mask_i.value, dut.signal_mask_i.value = pack(waits, 16), pack(signals, 16)
        dut.wait_remote_i.value = wait_remote
        dut.wait_take_i.value = dut.signal_give_i.value = dut.remote_token_i.value = 0
        await settle()
        wr, sr, rf = get(dut.wait_ready_o), get(dut.signal_ready_o), get(dut.remote_full_o)
        await tick(dut)  # nothing is given or taken in that cycle: only the answers were wanted
        for e in range(4):
            want = [(b // 4, e, b % 4) for b in range(16) if waits[e] >> b & 1]
            ready = all(count[s] for s in want)
            if e == LOAD:
                ready &= all(remote[t] for t in range(tiles) if wait_remote >> t & 1)
            assert wr >> e & 1 == ready
            give = [(e, b // 4, b % 4) for b in range(16) if signals[e] >> b & 1]
            assert sr >> e & 1 == all(count[s] < MAX_TOKENS for s in give)
            refused += not sr >> e & 1
        assert rf == sum((n == MAX_TOKENS) << t for t, n in enumerate(remote))
        full += any(n == MAX_TOKENS for n in count.values()) + any(n == MAX_TOKENS for n in remote)
        takes, gives = wr & rng.getrandbits(4), sr & (rng.getrandbits(4) | (15 * filling))
        tokens = sum((rng.random() < (0.9 if filling else 0.2) and not rf >> t & 1) << t for t in range(tiles))
        dut.wait_take_i.value, dut.signal_give_i.value, dut.remote_token_i.value = takes, gives, tokens
        given, taken = set(), set()
        for e in range(4):
            taken |= {(b // 4, e, b % 4) for b in range(16) if takes >> e & 1 and waits[e] >> b & 1}
            given |= {(e, b // 4, b % 4) for b in range(16) if gives >> e & 1 and signals[e] >> b & 1}
        for s in given:
            count[s] += 1
        for s in taken:
            count[s] -= 1
        both += len(given & taken)
        for t in range(tiles):
            remote[t] += (tokens >> t & 1) - (takes & wait_remote >> t & 1)
        await tick(dut)
    assert full > 100 and both > 100 and refused > 100


@cocotb.test()
async def queue(dut: Any) -> None:
    """Order, tokens before a start, DRAIN, signals in order and held back, words in the engine."""
    depth, rng = PARAMETERS["Depth"], random.Random(5)
    await begin(dut, clear_i=0, stop_i=0, push_valid_i=0, wait_ready_i=0, start_ready_i=0, done_i=0, signal_ready_i=0)
    waiting: deque[tuple[int, int, int, int]] = deque()  # index, wait, signal, drain
    running: deque[tuple[int, int]] = deque()
    ended: deque[tuple[int, int]] = deque()
    index = starts = drained = held_back = 0
    for _ in range(6000):
        wait, signal = rng.getrandbits(16), rng.getrandbits(16)
        drain = rng.random() < 0.2
        flags = (Flag.DRAIN if drain else 0) | rng.choice((0, Flag.TRAP))
        new = word(Opcode.STORE, wait=wait, signal=signal, flags=flags, remote=rng.getrandbits(32), tag=index & 0xFFFF)
        push = rng.random() < 0.6
        bits = int.from_bytes(new.tobytes(), "little")
        dut.push_valid_i.value, dut.push_word_i.value, dut.push_index_i.value = push, bits, index
        tokens, accepts, taken = rng.random() < 0.6, rng.random() < 0.7, rng.random() < 0.6
        done = bool(running) and rng.random() < 0.4
        stop = rng.random() < 0.05
        dut.wait_ready_i.value, dut.start_ready_i.value, dut.done_i.value = tokens, accepts, done
        dut.signal_ready_i.value, dut.stop_i.value = taken, stop
        await settle()
        assert get(dut.push_ready_o) == (len(waiting) < depth)
        assert get(dut.held_o) == bool(waiting)
        assert get(dut.idle_o) == (not waiting and not running and not ended)
        assert get(dut.tokenless_o) == (bool(waiting) and not tokens)
        can = bool(waiting) and tokens and not stop and not (waiting[0][3] and running)
        start = bool(get(dut.start_valid_o))
        assert start == (can and len(running) + len(ended) < 16)
        drained += bool(waiting and waiting[0][3] and running and tokens)
        if waiting:
            assert get(dut.wait_mask_o) == waiting[0][1]
            assert get(dut.index_o) == waiting[0][0]
        if running:
            assert get(dut.at_o) == running[0][0]
        start &= accepts
        assert get(dut.wait_take_o) == start
        event = get(dut.event_o)
        assert (event >> 65 & 1, event >> 64 & 1) == (start, done)
        assert get(dut.signal_valid_o) == bool(ended or done)
        if start:
            i, _, s, _ = waiting.popleft()
            assert event >> 32 & 0xFFFFFFFF == i
            starts += 1
        if done:
            ended.append(running.popleft())
            assert event & 0xFFFFFFFF == ended[-1][0]
        if ended:
            assert get(dut.signal_mask_o) == ended[0][1]
            held_back += not taken
            if taken:
                ended.popleft()
        if start:
            running.append((i, s))
        if push and get(dut.push_ready_o):
            waiting.append((index, wait, signal, drain))
            index += 1
        await tick(dut)
    assert starts > 1000 and drained > 100 and held_back > 100


@cocotb.test()
async def remote(dut: Any) -> None:
    """Tokens arrive Latency cycles later, in order, all of a STORE together; without room all stand still."""
    tiles, latency, rng = PARAMETERS["Tiles"], PARAMETERS["Latency"], random.Random(6)
    await begin(dut, signal_give_i=0, signal_mask_i=0, full_i=0)
    sent: deque[tuple[int, int]] = deque()
    shift = arrived = stuck = 0  # cycles in which everything stood still
    for cycle in range(4000):
        full = rng.getrandbits(tiles) & rng.getrandbits(tiles) if cycle // 500 % 2 else 0
        mask = rng.getrandbits(tiles)
        due = bool(sent) and cycle - shift == sent[0][1] + latency
        stands = due and bool(sent[0][0] & full)
        give = rng.random() < 0.4 and not stands
        dut.full_i.value, dut.signal_give_i.value, dut.signal_mask_i.value = full, give, mask
        await settle()
        assert get(dut.signal_ready_o) == (not stands)
        assert get(dut.idle_o) == (not sent)
        assert get(dut.token_o) == (sent[0][0] if due and not stands else 0)
        if due and not stands:
            sent.popleft()
            arrived += 1
        if give and mask:
            sent.append((mask, cycle - shift))
        shift += stands
        stuck += stands
        await tick(dut)
    assert arrived > 500 and stuck > 50
