"""The host's window: answers in order, OKAY and in time, whether they come from memory or not."""

from __future__ import annotations

import random
from typing import Any

import cocotb
from control_bench import PARAMETERS, begin, get, settle, tick
from f2_bench import OKAY, SLVERR, Sink, Source, address, again, cycle, data_in, data_out

BASE, SIZE, TIMEOUT = 0x10_0000_0000, 1 << 20, PARAMETERS["Timeout"]
DEAD = int("DEADDEAD" * 16, 16)
QUIET = ("s_ar_id_i", "s_ar_i", "s_aw_id_i", "s_aw_i", "s_w_i", "m_r_i", "m_b_i")


class Bench:
    """The module between a shell and a memory; memory may be silent."""

    def __init__(self, dut: Any, rng: random.Random) -> None:
        self.dut, self.rng = dut, rng
        self.ar = Source(
            dut, rng, "s_ar_valid_i", "s_ar_ready_o", ("s_ar_id_i", "s_ar_i", "s_ar_size_i", "s_ar_burst_i")
        )
        self.aw = Source(
            dut, rng, "s_aw_valid_i", "s_aw_ready_o", ("s_aw_id_i", "s_aw_i", "s_aw_size_i", "s_aw_burst_i")
        )
        self.w = Source(dut, rng, "s_w_valid_i", "s_w_ready_o", ("s_w_i",))
        self.r = Sink(dut, rng, "s_r_valid_o", "s_r_ready_i", ("s_r_id_o", "s_r_o"))
        self.b = Sink(dut, rng, "s_b_valid_o", "s_b_ready_i", ("s_b_id_o",))
        self.m_ar = Sink(dut, rng, "m_ar_valid_o", "m_ar_ready_i", ("m_ar_o",))
        self.m_aw = Sink(dut, rng, "m_aw_valid_o", "m_aw_ready_i", ("m_aw_o",))
        self.m_w = Sink(dut, rng, "m_w_valid_o", "m_w_ready_i", ("m_w_o",))
        self.m_r = Source(dut, rng, "m_r_valid_i", "m_r_ready_o", ("m_r_i",))
        self.m_b = Source(dut, rng, "m_b_valid_i", "m_b_ready_o", ("m_b_i",))
        self.shell = [self.ar, self.aw, self.w, self.r, self.b]
        self.memory = [self.m_ar, self.m_aw, self.m_w, self.m_r, self.m_b]
        for c in (*self.shell, *self.memory):
            c.rate = rng.choice((0.4, 0.8, 1.0))
        self.errors = 0
        self.fail = False
        self.wrote: list[int] = []
        self.answered = 0  # writes, by memory
        self.order: list[int] = []  # of these, when a read reached memory
        self.starts: list[tuple[int, int]] = []

    async def step(self) -> None:
        before = len(self.m_b.queue)
        await cycle(self.dut, (*self.shell, *self.memory))
        self.answered += before - len(self.m_b.queue)
        if get(self.dut.lost_o):  # what was offered to memory is taken back
            self.m_ar.held = self.m_aw.held = self.m_w.held = None
        while self.m_ar.got:
            a = self.m_ar.got.popleft()[0]
            self.order.append(self.answered)
            addr, beats = a >> 8, (a & 255) + 1
            assert addr % 64 == 0 and addr < SIZE
            for i in range(beats):
                self.m_r.queue.append((data_out(addr + 64 * i, SLVERR if self.fail else OKAY, i == beats - 1),))
        while self.m_aw.got:
            a = self.m_aw.got.popleft()[0]
            self.starts.append((a >> 8, (a & 255) + 1))
        while self.m_w.got:
            w = self.m_w.got.popleft()[0]
            self.wrote.append(w)
            if w & 1:
                self.m_b.queue.append((OKAY,))

    async def until(self, reads: int, writes: int, limit: int) -> None:
        for _ in range(limit):
            await self.step()
            if sum(v & 1 for _, v in self.r.got) >= reads and len(self.b.got) >= writes:
                return
        raise AssertionError("no answer")


def access(rng: random.Random) -> tuple[int, int, int, int, bool]:
    """Address, beats, size, burst kind, whether it goes to memory."""
    slot = rng.randrange(64)
    beats = rng.randint(1, 64 - slot)
    addr = BASE + rng.randrange(SIZE // 4096) * 4096 + 64 * slot
    kind = rng.randrange(8)
    if kind == 0:
        return rng.choice((0, BASE - 4096, BASE + SIZE, BASE + (1 << 40))) + 64 * slot, beats, 6, 1, False
    if kind == 1:
        return addr, max(2, beats) if slot < 63 else 1, 2, 1, slot == 63
    if kind == 2:
        return addr + rng.randrange(64), 1, rng.randrange(7), rng.randrange(2), True
    return addr, beats, 6, 1, True


@cocotb.test()
async def answers_in_order(dut: Any) -> None:
    """Random reads and writes inside and outside HBM; the pulse of errors, and nothing else, for those outside."""
    await begin(dut)
    for seed in range(10):
        rng = random.Random(seed)
        bench = Bench(dut, rng)
        await again(dut, ready_i=1, **dict.fromkeys(QUIET, 0))
        reads = [(rng.randrange(1 << 16), *access(rng)) for _ in range(45)]  # more than may be open
        writes = [(rng.randrange(1 << 16), *access(rng)) for _ in range(45)]
        sent = []
        for i, addr, beats, size, kind, _ in reads:
            bench.ar.queue.append((i, address(addr, beats), size, kind))
        for i, addr, beats, size, kind, there in writes:
            bench.aw.queue.append((i, address(addr, beats), size, kind))
            for n in range(beats):
                w = data_in(rng.getrandbits(512), rng.getrandbits(64), n == beats - 1)
                bench.w.queue.append((w,))
                sent += [w] if there else []
        await bench.until(len(reads), len(writes), 30000)
        for i, addr, beats, _, _, there in reads:
            for n in range(beats):
                data = (addr - BASE & ~63) + 64 * n if there else DEAD
                assert bench.r.got.popleft() == (i, data_out(data, OKAY, n == beats - 1))
        assert [v for (v,) in bench.b.got] == [i for i, *_ in writes]
        assert bench.wrote == sent
        assert bench.starts == [(a - BASE & ~63, n) for _, a, n, _, _, there in writes if there]
        assert not get(dut.lost_o)


@cocotb.test()
async def before_memory_is_ready(dut: Any) -> None:
    """HBM still starts up: dead data, an error pulse, nothing reaches memory."""
    rng = random.Random(5)
    await begin(dut)
    bench = Bench(dut, rng)
    await again(dut, ready_i=0, **dict.fromkeys(QUIET, 0))
    bench.ar.queue.append((7, address(BASE, 3), 6, 1))
    bench.aw.queue.append((8, address(BASE, 1), 6, 1))
    bench.w.queue.append((data_in(1, 1, True),))
    errors = 0
    for _ in range(40):
        dut.s_ar_valid_i.value = 0
        await bench.step()
        await settle()
        errors += get(dut.error_o)
        await tick(dut)
    assert [v >> 3 for _, v in bench.r.got] == 3 * [DEAD] and list(bench.b.got) == [(8,)]
    assert not bench.starts and not bench.wrote


@cocotb.test()
async def memory_error(dut: Any) -> None:
    """HBM answers with an error: the host gets OKAY and dead data."""
    rng = random.Random(6)
    await begin(dut)
    bench = Bench(dut, rng)
    await again(dut, ready_i=1, **dict.fromkeys(QUIET, 0))
    bench.fail = True
    bench.ar.queue.append((7, address(BASE + 64, 2), 6, 1))
    await bench.until(1, 0, 100)
    assert list(bench.r.got) == [(7, data_out(DEAD, OKAY, False)), (7, data_out(DEAD, OKAY, True))]


@cocotb.test()
async def memory_is_lost(dut: Any) -> None:
    """Memory stops at any moment: everything is answered within the timeout, from then on at once."""
    await begin(dut)
    for seed in range(12):
        rng = random.Random(40 + seed)
        bench = Bench(dut, rng)
        await again(dut, ready_i=1, **dict.fromkeys(QUIET, 0))
        for _ in range(12):
            bench.ar.queue.append((3, address(BASE + 64 * rng.randrange(32), 8), 6, 1))
            bench.aw.queue.append((4, address(BASE + 64 * rng.randrange(32), 4), 6, 1))
            bench.w.queue.extend((data_in(n, (1 << 64) - 1, n == 3),) for n in range(4))
        for _ in range(rng.randrange(60)):
            await bench.step()
        for c in bench.memory:
            c.rate = 0.0
        quiet = len(bench.r.got), len(bench.b.got)
        for _ in range(TIMEOUT - 5):
            await bench.step()
        assert not get(dut.lost_o), quiet
        await bench.until(12, 12, 1000)
        await settle()
        assert get(dut.lost_o)
        await tick(dut)
        assert len(bench.r.got) == 96 and [v & 1 for _, v in bench.r.got] == [0, 0, 0, 0, 0, 0, 0, 1] * 12
        assert bench.r.got[-1][1] >> 3 == DEAD
        # Late answers are swallowed, the next access is answered here.
        for c in bench.memory:
            c.rate = 1.0
        bench.ar.queue.append((9, address(BASE, 1), 6, 1))
        await bench.until(13, 12, 400)
        assert bench.r.got[-1] == (9, data_out(DEAD, OKAY, True))


@cocotb.test()
async def a_read_is_a_fence(dut: Any) -> None:
    """When a read reaches memory, every write that the module took before it was offered has been answered there."""
    await begin(dut)
    for seed in range(10):
        rng = random.Random(70 + seed)
        bench = Bench(dut, rng)
        await again(dut, ready_i=1, **dict.fromkeys(QUIET, 0))
        bench.m_b.rate = rng.choice((0.05, 0.3, 1.0))  # writes take long
        bench.ar.rate = 1.0
        writes, reads, due = 60, 20, []
        for n in range(writes):
            bench.aw.queue.append((n, address(BASE + 64 * rng.randrange(32), 2), 6, 1))
            bench.w.queue.extend((data_in(n, 1, last),) for last in (False, True))
        left = reads
        for _ in range(8000):
            if left and not bench.ar.queue and rng.random() < 0.1:
                bench.ar.queue.append((left, address(BASE, 1), 6, 1))  # offered in the next cycle
                due.append(writes - len(bench.aw.queue))
                left -= 1
            await bench.step()
            if len(bench.r.got) == reads and len(bench.b.got) == writes:
                break
        assert len(bench.order) == reads == len(due), "reads or writes starve"
        assert all(seen >= taken for seen, taken in zip(bench.order, due, strict=True))
