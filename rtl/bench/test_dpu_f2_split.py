"""Bursts into pieces, dealt out to ports of the HBM: each beat once, answers joined in order, with IDs and errors."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import cocotb
from control_bench import PARAMETERS, begin, get, tick
from f2_bench import DECERR, OKAY, SLVERR, Sink, Source, address, again, cycle, data_in, data_out

SIZE = 1 << 20  # of memory, as the build has it
WAYS = PARAMETERS["Ways"]
QUIET = ("hold_i", "drain_i", "ar_id_i", "ar_i", "aw_id_i", "aw_i", "w_i", "r_i", "b_i")


def device(place: int) -> int:
    """The device address that lies at `place` in HBM: the inverse of what simulator/dram does with `channel_hash`."""
    channel, above = place >> 29, place >> 9 & (1 << 20) - 1
    digit, x = channel, above
    while x:
        digit ^= x & 31
        x >>= 5
    return (above << 5 | digit) << 9 | place & 511


class Memory:
    """A port of the HBM, which answers in order; beats hold their device address."""

    def __init__(self, dut: Any, rng: random.Random, way: int) -> None:
        at = {"way": way, "ways": WAYS}
        self.ar = Sink(dut, rng, "ar_valid_o", "ar_ready_i", ("ar_o",), **at, common=True)
        self.r = Source(dut, rng, "r_valid_i", "r_ready_o", ("r_i",), **at)
        self.aw = Sink(dut, rng, "aw_valid_o", "aw_ready_i", ("aw_o",), **at, common=True)
        self.w = Sink(dut, rng, "w_valid_o", "w_ready_i", ("w_o",), **at, common=True)
        self.b = Source(dut, rng, "b_valid_i", "b_ready_o", ("b_i",), **at)
        self.channels = [self.ar, self.r, self.aw, self.w, self.b]
        self.pieces: deque[tuple[int, int]] = deque()  # writes whose data are to come
        self.taken = 0

    def step(self, bad: set[int], wrote: dict[int, tuple[int, int]]) -> None:
        while self.ar.got:
            addr, beats = self.piece(self.ar.got.popleft()[0])
            for i in range(beats):
                resp = SLVERR if addr in bad else OKAY
                self.r.queue.append((data_out(addr + 64 * i, resp, i == beats - 1),))
        while self.aw.got:
            self.pieces.append(self.piece(self.aw.got.popleft()[0]))
        while self.pieces and len(self.w.got) >= self.pieces[0][1]:
            addr, beats = self.pieces.popleft()
            for i in range(beats):
                w = self.w.got.popleft()[0]
                assert w & 1 == int(i == beats - 1), "WLAST"
                wrote[addr + 64 * i] = (w >> 65, w >> 1 & (1 << 64) - 1)
            self.b.queue.append((SLVERR if addr in bad else OKAY,))

    def piece(self, value: int) -> tuple[int, int]:
        self.taken += 1
        addr, beats = device(value >> 3), (value & 7) + 1
        assert addr % 64 == 0 and addr // 512 == (addr + 64 * beats - 1) // 512, "a piece leaves its 512 bytes"
        return addr, beats


class Bench:
    """The module between a client and its ports of the HBM."""

    def __init__(self, dut: Any, rng: random.Random) -> None:
        self.dut, self.rng = dut, rng
        self.ar = Source(dut, rng, "ar_valid_i", "ar_ready_o", ("ar_id_i", "ar_i"))
        self.r = Sink(dut, rng, "r_valid_o", "r_ready_i", ("r_id_o", "r_o"))
        self.aw = Source(dut, rng, "aw_valid_i", "aw_ready_o", ("aw_id_i", "aw_i"))
        self.w = Source(dut, rng, "w_valid_i", "w_ready_o", ("w_i",))
        self.b = Sink(dut, rng, "b_valid_o", "b_ready_i", ("b_id_o", "b_o"))
        self.memory = [Memory(dut, rng, way) for way in range(WAYS)]
        self.channels = [self.ar, self.r, self.aw, self.w, self.b, *(c for m in self.memory for c in m.channels)]
        for c in self.channels:
            c.rate = rng.choice((0.3, 0.7, 1.0))
        self.bad: set[int] = set()  # device addresses of pieces that fail
        self.wrote: dict[int, tuple[int, int]] = {}  # data and strobe by device address

    async def step(self) -> None:
        await cycle(self.dut, self.channels)
        for m in self.memory:
            m.step(self.bad, self.wrote)


def burst(rng: random.Random, beyond: float = 0.0) -> tuple[int, int]:
    """Address and beats within 4 KiB."""
    page = rng.randrange(SIZE // 4096) * 4096 + (SIZE * rng.choice((1, 1 << 20)) if rng.random() < beyond else 0)
    slot = rng.randrange(64)
    return page + 64 * slot, rng.randint(1, 64 - slot) if rng.random() < 0.8 else 1


@cocotb.test()
async def transfers(dut: Any) -> None:
    """Random reads and writes, some beyond memory, some failing."""
    await begin(dut)
    for seed in range(12):
        rng = random.Random(seed)
        bench = Bench(dut, rng)
        await again(dut, **dict.fromkeys(QUIET, 0))
        reads = [(rng.randrange(2), *burst(rng, 0.1)) for _ in range(20)]
        writes = [(rng.randrange(2), *burst(rng, 0.1)) for _ in range(20)]
        data, taken = {}, set()
        for i, addr, beats in reads:
            bench.ar.queue.append((i, address(addr, beats)))
        for k, (i, addr, beats) in enumerate(writes):
            bench.aw.queue.append((i, address(addr, beats)))
            for n in range(beats):
                data[k, n] = (rng.getrandbits(512), rng.getrandbits(64))
                bench.w.queue.append((data_in(*data[k, n], n == beats - 1),))
            taken.update(range(addr, addr + 64 * beats, 64))
        bench.bad = {a & ~511 for a in list(taken)[:3]} if seed % 2 else set()
        for _ in range(20000):
            await bench.step()
            if sum(d[1] & 1 for d in bench.r.got) == len(reads) and len(bench.b.got) == len(writes):
                break
        else:
            raise AssertionError("transfers do not end")
        assert get(dut.idle_o) == 1
        shares = [m.taken for m in bench.memory]
        assert max(shares) - min(shares) <= 2, "the ports do not take turns"
        for i, addr, beats in reads:
            for n in range(beats):
                got_id, got = bench.r.got.popleft()
                miss, at = addr >= SIZE, addr + 64 * n
                assert (got_id, got & 1) == (i, int(n == beats - 1))
                if miss:
                    assert got >> 1 & 3 == DECERR
                else:
                    start = addr if addr // 512 == at // 512 else at & ~511
                    assert got >> 1 & 3 == (SLVERR if start in bench.bad else OKAY) and got >> 3 == at
        want: dict[int, tuple[int, int]] = {}
        for k, (i, addr, beats) in enumerate(writes):
            starts = {addr, *range((addr | 511) + 1, addr + 64 * beats, 512)}
            failed = DECERR if addr >= SIZE else SLVERR if starts & bench.bad else OKAY
            assert bench.b.got.popleft() == (i, failed)
            if addr < SIZE:
                want.update({addr + 64 * n: data[k, n] for n in range(beats)})
        for at, value in want.items():
            assert bench.wrote[at] == value or at < 512  # address 0 takes what lies beyond memory, without strobes
        assert all(s == 0 for at, (_, s) in bench.wrote.items() if at not in want)


@cocotb.test()
async def holds_and_drains(dut: Any) -> None:
    """Hold takes nothing new and lets the rest end; drain ends a client that went away in the middle."""
    await begin(dut)
    for seed in range(12):
        rng = random.Random(seed)
        bench = Bench(dut, rng)
        await again(dut, **dict.fromkeys(QUIET, 0))
        for _ in range(6):
            addr, beats = burst(rng)
            bench.ar.queue.append((1, address(addr, beats)))
            addr, beats = burst(rng)
            bench.aw.queue.append((0, address(addr, beats)))
            for n in range(beats):
                bench.w.queue.append((data_in(rng.getrandbits(512), (1 << 64) - 1, n == beats - 1),))
        for _ in range(rng.randrange(5, 60)):
            await bench.step()
        if seed % 2:
            dut.hold_i.value = 1
            left = (len(bench.ar.queue), len(bench.aw.queue))
            for _ in range(1500):
                await bench.step()
            assert (len(bench.ar.queue), len(bench.aw.queue)) == left and get(dut.idle_o)
            dut.hold_i.value = 0
            for _ in range(4000):
                await bench.step()
            assert not bench.ar.queue and not bench.aw.queue and not bench.w.queue and get(dut.idle_o)
            continue
        dut.drain_i.value = 1
        before = dict(bench.wrote), len(bench.r.got), len(bench.b.got)
        sent = sum(len(m.w.got) for m in bench.memory)  # beats that memory had before
        for c in (bench.ar, bench.aw, bench.w):  # the client is in reset
            c.queue.clear()
            c.offered = False
        for sink in (
            bench.r,
            bench.b,
            *(m.w for m in bench.memory),
        ):  # what was offered is taken back, or goes without strobes
            sink.held = None
        for _ in range(1500):
            await bench.step()
            if get(dut.idle_o):
                break
        assert get(dut.idle_o), "it does not end"
        assert (len(bench.r.got), len(bench.b.got)) == before[1:], "an answer reached the client"
        new = [s for at, (_, s) in bench.wrote.items() if at not in before[0]]
        assert sum(s != 0 for s in new) <= sent
        dut.drain_i.value = 0
        await tick(dut)
