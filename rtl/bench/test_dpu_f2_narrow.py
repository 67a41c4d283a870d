"""512 to 256 bits: both halves of each beat in order, lengths doubled, responses joined."""

from __future__ import annotations

import random
from typing import Any

import cocotb
from control_bench import begin
from f2_bench import Sink, Source, again, cycle, data_in, data_out

HALF = 1 << 256


@cocotb.test()
async def halves(dut: Any) -> None:
    """Random pieces through all five channels."""
    await begin(dut)
    for seed in range(6):
        rng = random.Random(seed)
        ar = Source(dut, rng, "ar_valid_i", "ar_ready_o", ("ar_i",))
        aw = Source(dut, rng, "aw_valid_i", "aw_ready_o", ("aw_i",))
        w = Source(dut, rng, "w_valid_i", "w_ready_o", ("w_i",))
        r = Source(dut, rng, "r_valid_i", "r_ready_o", ("r_i",))
        b = Source(dut, rng, "b_valid_i", "b_ready_o", ("b_i",))
        out = {n: Sink(dut, rng, f"{n}_valid_o", f"{n}_ready_i", (f"{n}_o",)) for n in ("ar", "aw", "w", "r", "b")}
        channels = [ar, aw, w, r, b, *out.values()]
        for c in channels:
            c.rate = rng.choice((0.3, 0.8, 1.0))
        await again(dut, ar_i=0, aw_i=0, w_i=0, r_i=0, b_i=0)
        pieces = [(rng.randrange(1 << 34) & ~63, rng.randrange(8)) for _ in range(40)]
        beats = [(rng.getrandbits(512), rng.getrandbits(64), rng.random() < 0.3) for _ in range(80)]
        answers = [
            (rng.getrandbits(512), rng.choice((0, 2, 3)), rng.choice((0, 2, 3)), rng.random() < 0.3) for _ in beats
        ]
        resps = [rng.choice((0, 2)) for _ in range(40)]
        ar.queue.extend((a << 3 | n,) for a, n in pieces)
        aw.queue.extend((a << 3 | n,) for a, n in pieces)
        w.queue.extend((data_in(*beat),) for beat in beats)
        b.queue.extend((x,) for x in resps)
        for data, low, high, last in answers:
            r.queue.append(((data % HALF) << 3 | low << 1,))
            r.queue.append(((data // HALF) << 3 | high << 1 | int(last),))
        for _ in range(3000):
            await cycle(dut, channels)
            if not any(c.queue for c in (ar, aw, w, r, b)) and len(out["w"].got) == 2 * len(beats):
                break
        wide = [(a << 4 | 2 * n + 1,) for a, n in pieces]
        assert list(out["ar"].got) == wide and list(out["aw"].got) == wide
        assert list(out["b"].got) == [(x,) for x in resps]
        assert list(out["r"].got) == [(data_out(d, max(low, high), last),) for d, low, high, last in answers]
        halves = []
        for data, strobe, last in beats:
            halves.append(((data % HALF) << 33 | (strobe % (1 << 32)) << 1,))
            halves.append(((data // HALF) << 33 | (strobe >> 32) << 1 | int(last),))
        assert list(out["w"].got) == halves
