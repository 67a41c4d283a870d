"""The read-back engine: every byte once, in legal bursts; errors, timeouts and aborts leave the buses clean."""

from __future__ import annotations

import random
from typing import Any

import cocotb
from control_bench import PARAMETERS, begin, get, settle, tick
from f2_bench import OKAY, SLVERR, Sink, Source, again, data_out

TIMEOUT = PARAMETERS["Timeout"]
QUIET = ("start_i", "abort_i", "src_i", "dst_i", "bytes_i", "r_i", "b_resp_i")
ARGUMENT, MEMORY, HOST, HOST_TIMEOUT, ABORTED, MEMORY_TIMEOUT, NOT_READY = range(1, 8)


class Bench:
    """The engine between device memory, whose beats hold their address, and the host's memory."""

    def __init__(self, dut: Any, rng: random.Random) -> None:
        self.dut, self.rng = dut, rng
        self.ar = Sink(dut, rng, "ar_valid_o", "ar_ready_i", ("ar_o",))
        self.r = Source(dut, rng, "r_valid_i", "r_ready_o", ("r_i",))
        self.aw = Sink(dut, rng, "aw_valid_o", "aw_ready_i", ("aw_o",))
        self.w = Sink(dut, rng, "w_valid_o", "w_ready_i", ("w_data_o", "w_last_o"))
        self.b = Source(dut, rng, "b_valid_i", "b_ready_o", ("b_resp_i",))
        self.channels = [self.ar, self.r, self.aw, self.w, self.b]
        for c in self.channels:
            c.rate = rng.choice((0.3, 0.8, 1.0))
        self.host: dict[int, int] = {}
        self.bad: set[int] = set()  # device addresses that fail
        self.refused: set[int] = set()  # pages of the host that fail
        self.events: list[tuple[str, int]] = []
        self.timeouts = 0
        self.drop = 0

    async def step(self) -> None:
        for c in self.channels:
            c.drive()
        await settle()
        for c in self.channels:
            c.take()
        if get(self.dut.done_o):
            self.events.append(("done", 0))
        if get(self.dut.failed_o):
            self.events.append(("failed", get(self.dut.error_o)))
        self.timeouts += get(self.dut.timeout_o)
        assert not (get(self.dut.busy_o) and get(self.dut.idle_o))
        await tick(self.dut)
        self.dut.start_i.value = self.dut.abort_i.value = 0
        while self.ar.got:
            a = self.ar.got.popleft()[0]
            addr, beats = a >> 8, (a & 255) + 1
            assert addr % 64 == 0 and addr // 4096 == (addr + 64 * beats - 1) // 4096, "a read crosses 4 KiB"
            for i in range(beats):
                at = addr + 64 * i
                self.r.queue.append((data_out(at, SLVERR if at in self.bad else OKAY, i == beats - 1),))
        while self.aw.got:
            a = self.aw.got[0][0]
            addr, beats = a >> 8, (a & 255) + 1
            assert addr % 64 == 0 and addr // 4096 == (addr + 64 * beats - 1) // 4096, "a write crosses 4 KiB"
            if len(self.w.got) < beats:
                break
            self.aw.got.popleft()
            refused = addr // 4096 in self.refused
            for i in range(beats):
                data, last = self.w.got.popleft()
                assert last == int(i == beats - 1), "WLAST"
                assert addr + 64 * i not in self.host, "written twice"
                if not refused:
                    self.host[addr + 64 * i] = data
            if self.drop:
                self.drop -= 1
            else:
                self.b.queue.append((SLVERR if refused else OKAY,))

    def start(self, src: int, dst: int, size: int) -> None:
        d = self.dut
        d.src_i.value, d.dst_i.value, d.bytes_i.value, d.start_i.value = src, dst, size, 1

    async def finish(self, limit: int = 20000) -> tuple[str, int]:
        n = len(self.events)
        for _ in range(limit):
            await self.step()
            if len(self.events) > n:
                assert len(self.events) == n + 1 and not get(self.dut.busy_o)
                return self.events[-1]
        raise AssertionError("it does not end")


async def fresh(dut: Any, rng: random.Random, ready: int = 1) -> Bench:
    bench = Bench(dut, rng)
    await again(dut, ready_i=ready, **dict.fromkeys(QUIET, 0))
    return bench


def where(rng: random.Random) -> tuple[int, int, int]:
    """Device address, host address, bytes."""
    size = 64 * rng.choice((1, 2, 63, 64, 65, 200, rng.randint(1, 400)))
    return 64 * rng.randrange(1 << 20), (1 << 40) + 64 * rng.randrange(1 << 20), size


@cocotb.test()
async def copies(dut: Any) -> None:
    """Any alignment and length; several copies one after the other."""
    await begin(dut)
    for seed in range(12):
        rng = random.Random(seed)
        bench = await fresh(dut, rng)
        for _ in range(2):
            bench.host.clear()
            src, dst, size = where(rng)
            bench.start(src, dst, size)
            assert await bench.finish() == ("done", 0)
            assert bench.host == {dst + i: src + i for i in range(0, size, 64)}
            assert get(dut.copied_o) == size and get(dut.idle_o)


@cocotb.test()
async def refuses(dut: Any) -> None:
    """Wrong arguments, and memory that is not ready: an error at once and nothing on the buses."""
    await begin(dut)
    rng = random.Random(3)
    bench = await fresh(dut, rng)
    for src, dst, size in ((0, 0, 0), (32, 0, 64), (0, 8, 64), (0, 0, 100)):
        bench.start(src, dst, size)
        assert await bench.finish(2) == ("failed", ARGUMENT)
    bench = await fresh(dut, rng, ready=0)
    bench.start(0, 0, 64)
    assert await bench.finish(2) == ("failed", NOT_READY)
    for _ in range(20):
        await bench.step()
    assert not bench.host and get(dut.idle_o)


@cocotb.test()
async def errors(dut: Any) -> None:
    """A bad beat is never written; a refused write is told; an abort ends it; the next copy works."""
    await begin(dut)
    for seed in range(15):
        rng = random.Random(seed)
        bench = await fresh(dut, rng)
        src, dst, size = where(rng)
        size = max(size, 64 * 64)
        victim = 64 * rng.randrange(size // 64)
        want = (MEMORY, HOST, ABORTED)[seed % 3]
        if want == MEMORY:
            bench.bad = {src + victim}
        elif want == HOST:
            bench.refused = {(dst + victim) // 4096}
        bench.start(src, dst, size)
        if want == ABORTED:
            for _ in range(rng.randrange(1, 40)):
                await bench.step()
            dut.abort_i.value = 1
        assert await bench.finish() == ("failed", want)
        for _ in range(300):
            await bench.step()
        assert get(dut.idle_o) and not bench.r.queue and not bench.aw.got and not bench.w.got
        assert all(data - src == at - dst for at, data in bench.host.items())
        assert dst + victim not in bench.host or want == ABORTED
        assert get(dut.copied_o) == 64 * len(bench.host)
        bench.bad, bench.refused = set(), set()
        bench.host.clear()
        bench.start(src, dst, size)
        assert await bench.finish() == ("done", 0) and len(bench.host) == size // 64


@cocotb.test()
async def timeouts(dut: Any) -> None:
    """A shell that takes nothing, a lost response, a silent memory: told in time; no new copy while the bus is owed."""
    await begin(dut)
    for seed in range(8):
        rng = random.Random(seed)
        bench = await fresh(dut, rng)
        src, dst, size = where(rng)
        kind = seed % 4
        if kind == 0:
            bench.aw.rate = bench.w.rate = 0.0
        elif kind == 1:
            bench.drop = 1
        elif kind == 2:
            bench.ar.rate = 0.0
        else:
            bench.r.rate = 0.0
        want = HOST_TIMEOUT if kind < 2 else MEMORY_TIMEOUT
        bench.start(src, dst, size)
        assert await bench.finish(TIMEOUT + 4000) == ("failed", want)
        assert bench.timeouts == int(kind < 2)
        assert not get(dut.idle_o)
        bench.start(src, dst, size)
        assert await bench.finish(3) == ("failed", want)
        if kind == 1:
            bench.b.queue.append((OKAY,))  # late
        for c in bench.channels:
            c.rate = 1.0
        for _ in range(500):
            await bench.step()
        assert get(dut.idle_o), kind
        bench.host.clear()
        bench.start(src, dst, size)
        assert await bench.finish() == ("done", 0) and len(bench.host) == size // 64
