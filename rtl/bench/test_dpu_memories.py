"""FIFO, scratchpad and PARAM against plain Python containers, under random traffic."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import cocotb
from control_bench import PARAMETERS, begin, field, get, pack, settle, tick


@cocotb.test()
async def fifo(dut: Any) -> None:
    """Order, counts, full and empty, clearing."""
    depth, rng = PARAMETERS["Depth"], random.Random(1)
    await begin(dut, clear_i=0, wr_valid_i=0, rd_ready_i=0, wr_data_i=0)
    model: deque[int] = deque()
    for cycle in range(2000):
        fast = cycle // 200 % 3  # mostly full, mostly empty, balanced
        write, read = rng.random() < (0.9, 0.3, 0.6)[fast], rng.random() < (0.3, 0.9, 0.6)[fast]
        clear, data = rng.random() < 0.01, rng.getrandbits(32)
        dut.wr_valid_i.value, dut.rd_ready_i.value = write, read
        dut.clear_i.value, dut.wr_data_i.value = clear, data
        await settle()
        assert get(dut.count_o) == len(model)
        assert get(dut.wr_ready_o) == (len(model) < depth)
        assert get(dut.rd_valid_o) == bool(model)
        if model:
            assert get(dut.rd_data_o) == model[0]
        room = len(model) < depth
        if read and model:
            model.popleft()
        if write and room:
            model.append(data)
        if clear:
            model.clear()
        await tick(dut)


@cocotb.test()
async def scratchpad(dut: Any) -> None:
    """Priority, who is refused, the old word where a read meets a write."""
    words, bits, banks = (PARAMETERS[k] for k in ("Words", "WordBits", "Banks"))
    aw, rng = (words - 1).bit_length(), random.Random(2)
    bank_words = -(-words // banks)
    await begin(dut, rd_valid_i=0, wr_valid_i=0)
    model = [0] * words
    for a in range(words):  # so that every word is known
        model[a] = rng.getrandbits(bits)
        dut.wr_valid_i.value, dut.wr_addr_i.value = 1, pack([a, 0], aw)
        dut.wr_data_i.value = pack([model[a], 0], bits)
        await tick(dut)
    expected: list[int | None] = [None, None]
    met = refused = 0
    for _ in range(3000):
        few = [rng.randrange(words) for _ in range(3)]  # a small choice, so that addresses meet
        ra, wa = [rng.choice(few) for _ in range(2)], [rng.choice(few) for _ in range(2)]
        rv, wv = [rng.random() < 0.7 for _ in range(2)], [rng.random() < 0.7 for _ in range(2)]
        wd = [rng.getrandbits(bits) for _ in range(2)]
        dut.rd_valid_i.value, dut.wr_valid_i.value = pack(rv, 1), pack(wv, 1)
        dut.rd_addr_i.value, dut.wr_addr_i.value, dut.wr_data_i.value = pack(ra, aw), pack(wa, aw), pack(wd, bits)
        await settle()
        data = get(dut.rd_data_o)
        for c in range(2):
            if expected[c] is not None:
                assert field(data, c, bits) == expected[c]
        rr, wr = get(dut.rd_ready_o), get(dut.wr_ready_o)
        assert rr & 1 and wr & 1, "client 0 was refused"
        for valid, addr, ready in ((rv, ra, rr), (wv, wa, wr)):
            if valid[1]:
                clash = valid[0] and addr[0] // bank_words == addr[1] // bank_words
                assert ready >> 1 & 1 == (not clash)
                refused += clash
        taken = [rv[c] and bool(rr >> c & 1) for c in range(2)]
        expected = [model[ra[c]] if taken[c] else None for c in range(2)]
        for c in reversed(range(2)):
            if wv[c] and wr >> c & 1:
                met += any(taken[r] and ra[r] == wa[c] for r in range(2))
                model[wa[c]] = wd[c]
        await tick(dut)
    assert met > 100 and refused > 100


def _near(rng: random.Random, at: int, words: int, lanes: int) -> int:
    return min(words - 1, at + rng.randrange(2 * lanes))


@cocotb.test()
async def param(dut: Any) -> None:
    """Reads from any address, the writers' order, writes that pass together."""
    words, lanes = PARAMETERS["Words"], PARAMETERS["Lanes"]
    aw, cw, rng = (words - 1).bit_length(), lanes.bit_length(), random.Random(3)
    await begin(dut, rd_valid_i=0, wr_valid_i=0)
    model = [0] * words
    for a in range(words):
        model[a] = rng.getrandbits(32)
        dut.wr_valid_i.value, dut.wr_addr_i.value, dut.wr_count_i.value = 1, a, 1
        dut.wr_data_i.value = model[a]
        await tick(dut)
    expected: list[list[int] | None] = [None] * 4
    together = refused = 0
    for _ in range(3000):
        near = rng.randrange(words)
        rv, ra = [rng.random() < 0.7 for _ in range(4)], [_near(rng, near, words, lanes) for _ in range(4)]
        wv, wa = [rng.random() < 0.6 for _ in range(3)], [_near(rng, near, words, lanes) for _ in range(3)]
        wc = [min(rng.randint(1, lanes), words - a) for a in wa]
        wd = [[rng.getrandbits(32) for _ in range(lanes)] for _ in range(3)]
        dut.rd_valid_i.value, dut.rd_addr_i.value = pack(rv, 1), pack(ra, aw)
        dut.wr_valid_i.value, dut.wr_addr_i.value, dut.wr_count_i.value = pack(wv, 1), pack(wa, aw), pack(wc, cw)
        dut.wr_data_i.value = pack([pack(d, 32) for d in wd], 32 * lanes)
        await settle()
        data = get(dut.rd_data_o)
        for c, e in enumerate(expected):
            for i, v in enumerate(e or []):
                assert field(data, c * lanes + i, 32) == v, (c, i)
        rr, wr = get(dut.rd_ready_o), get(dut.wr_ready_o)
        assert rr & 7 == 7 and rr >> 3 == (not rv[2])
        banks = [{(wa[w] + i) % lanes for i in range(wc[w])} if wv[w] else set() for w in range(3)]
        assert wr & 1
        for w in (1, 2):
            if wv[w]:
                clash = any(banks[w] & banks[v] for v in range(w))
                assert wr >> w & 1 == (not clash)
                refused += clash
        expected = [model[ra[c] : ra[c] + lanes] if rv[c] and rr >> c & 1 else None for c in range(4)]
        passed = [w for w in range(3) if wv[w] and wr >> w & 1]
        together += len(passed) > 1
        for w in passed:
            model[wa[w] : wa[w] + wc[w]] = wd[w][: wc[w]]
        await tick(dut)
    assert refused > 100 and (together > 30 or lanes == 1)
