"""The register bus shared out: each access reaches one side once, in the shell's order, whatever comes first."""

from __future__ import annotations

import random
from typing import Any

import cocotb
from control_bench import begin, field, get, settle, tick
from f2_bench import Sink, Source, again

SHELL = ("awaddr_i", "wdata_i", "wstrb_i", "araddr_i")


class Target:
    """One of the two sides: 0 the DPU, 1 the custom logic. Answers reads with `answer`."""

    def __init__(self, dut: Any, rng: random.Random, side: int) -> None:
        self.dut, self.rng, self.side = dut, rng, side
        self.aw: int | None = None
        self.w: tuple[int, int] | None = None
        self.ar: int | None = None
        self.offer = {"awready": 0, "wready": 0, "bvalid": 0, "arready": 0, "rvalid": 0}
        self.writes: list[tuple[int, int, int]] = []
        self.reads: list[int] = []

    def answer(self, address: int) -> int:
        return address * 2 + self.side

    def drive(self) -> None:
        often = self.rng.random() < 0.6
        both = self.aw is not None and self.w is not None
        self.offer = {
            "awready": int(self.aw is None and self.rng.random() < 0.6),
            "wready": int(self.w is None and self.rng.random() < 0.6),
            "bvalid": int(both and (often or self.offer["bvalid"])),
            "arready": int(self.ar is None and often),
            "rvalid": int(self.ar is not None and (often or self.offer["rvalid"])),
        }

    def take(self) -> None:
        def high(name: str) -> int:
            return field(get(getattr(self.dut, name)), self.side, 1)

        if high("awvalid_o") and self.offer["awready"]:
            self.aw = get(self.dut.awaddr_o)
        if high("wvalid_o") and self.offer["wready"]:
            self.w = (get(self.dut.wdata_o), get(self.dut.wstrb_o))
        if self.offer["bvalid"] and high("bready_o"):
            assert self.aw is not None and self.w is not None
            self.writes.append((self.aw, *self.w))
            self.aw = self.w = None
        if self.offer["rvalid"] and high("rready_o"):
            assert self.ar is not None
            self.reads.append(self.ar)
            self.ar = None
        if high("arvalid_o") and self.offer["arready"]:
            self.ar = get(self.dut.araddr_o)


@cocotb.test()
async def shares(dut: Any) -> None:
    """Random writes and reads on both sides; the DPU away in some seeds."""
    await begin(dut)
    for seed in range(8):
        rng = random.Random(seed)
        away = int(seed % 4 == 3)
        aw = Source(dut, rng, "awvalid_i", "awready_o", ("awaddr_i",))
        w = Source(dut, rng, "wvalid_i", "wready_o", ("wdata_i", "wstrb_i"))
        ar = Source(dut, rng, "arvalid_i", "arready_o", ("araddr_i",))
        b = Sink(dut, rng, "bvalid_o", "bready_i", ())
        r = Sink(dut, rng, "rvalid_o", "rready_i", ("rdata_o",))
        channels = [aw, w, ar, b, r]
        for c in channels:
            c.rate = rng.choice((0.3, 0.7, 1.0))
        quiet = dict.fromkeys(("awready_i", "wready_i", "bvalid_i", "arready_i", "rvalid_i", "rdata_i", *SHELL), 0)
        await again(dut, away_i=away, **quiet)
        sides = [Target(dut, rng, 0), Target(dut, rng, 1)]
        addresses = [
            rng.choice((rng.randrange(0x4000), 0x10_0000 + rng.randrange(256), rng.randrange(1 << 26)))
            for _ in range(80)
        ]
        writes = [(a, rng.getrandbits(32), rng.randrange(16)) for a in addresses[:40]]
        reads = addresses[40:]
        aw.queue.extend((a,) for a, _, _ in writes)
        w.queue.extend((d, s) for _, d, s in writes)
        ar.queue.extend((a,) for a in reads)
        for _ in range(4000):
            for c in channels:
                c.drive()
            for t in sides:
                t.drive()
            for name in sides[0].offer:
                getattr(dut, f"{name}_i").value = sides[0].offer[name] | sides[1].offer[name] << 1
            dut.rdata_i.value = sum(t.answer(t.ar or 0) << 32 * t.side for t in sides)
            await settle()
            for c in channels:
                c.take()
            for t in sides:
                t.take()
            await tick(dut)
            if len(b.got) == len(writes) and len(r.got) == len(reads):
                break
        own = [int(away or a >= 0x4000) for a in addresses]
        for t in sides:
            assert t.writes == [x for x, o in zip(writes, own[:40], strict=True) if o == t.side]
            assert t.reads == [x for x, o in zip(reads, own[40:], strict=True) if o == t.side]
        assert list(r.got) == [(sides[o].answer(a),) for a, o in zip(reads, own[40:], strict=True)]
        assert get(dut.quiet_o)
