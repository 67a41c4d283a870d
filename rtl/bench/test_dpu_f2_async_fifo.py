"""Words from one clock to another: none lost, none twice, in order, full and empty; at several ratios of clocks."""

from __future__ import annotations

import os
import random
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, Timer
from control_bench import PARAMETERS, get

DEPTH = PARAMETERS["Depth"]
PERIODS = tuple(tuple(map(int, p.split(":"))) for p in os.environ["PERIODS"].split(","))  # ps


async def writer(dut: Any, rng: random.Random, words: list[int], rate: float) -> None:
    for word in words:
        while rng.random() > rate:
            await FallingEdge(dut.wr_clk_i)
        dut.wr_valid_i.value, dut.wr_data_i.value = 1, word
        while True:
            await ReadOnly()
            ready = get(dut.wr_ready_o)
            await FallingEdge(dut.wr_clk_i)
            if ready:
                break
        dut.wr_valid_i.value = 0


async def reader(dut: Any, rng: random.Random, n: int, rate: float) -> list[int]:
    got = []
    while len(got) < n:
        dut.rd_ready_i.value = ready = int(rng.random() < rate)
        await ReadOnly()
        if ready and get(dut.rd_valid_o):
            got.append(get(dut.rd_data_o))
        await FallingEdge(dut.rd_clk_i)
    dut.rd_ready_i.value = 0
    return got


@cocotb.test()
async def crosses(dut: Any) -> None:
    """Each pair of periods with a slow writer, a slow reader, and both fast."""
    for i, (wr, rd) in enumerate(PERIODS):
        for name in ("wr_valid_i", "wr_data_i", "rd_ready_i", "wr_rst_ni", "rd_rst_ni"):
            getattr(dut, name).value = 0
        clocks = [Clock(dut.wr_clk_i, wr, "ps"), Clock(dut.rd_clk_i, rd, "ps")]
        for c in clocks:
            c.start()
        await Timer(6 * max(wr, rd), "ps")
        for clk, rst in ((dut.wr_clk_i, dut.wr_rst_ni), (dut.rd_clk_i, dut.rd_rst_ni)):
            await FallingEdge(clk)
            rst.value = 1
        for seed, (fill, drain) in enumerate(((1.0, 1.0), (0.2, 1.0), (1.0, 0.2), (0.6, 0.6))):
            rng = random.Random(100 * i + seed)
            words = [rng.getrandbits(32) for _ in range(200)]
            await FallingEdge(dut.wr_clk_i)
            task = cocotb.start_soon(writer(dut, rng, words, fill))
            await FallingEdge(dut.rd_clk_i)
            assert await reader(dut, rng, len(words), drain) == words
            await task
        # Full: exactly Depth words fit.
        await FallingEdge(dut.wr_clk_i)
        dut.wr_valid_i.value, taken = 1, 0
        for _ in range(4 * DEPTH):
            await ReadOnly()
            taken += get(dut.wr_ready_o)
            await FallingEdge(dut.wr_clk_i)
        dut.wr_valid_i.value = 0
        assert taken == DEPTH
        await FallingEdge(dut.rd_clk_i)
        await reader(dut, random.Random(0), DEPTH, 1.0)
        await ReadOnly()
        assert not get(dut.rd_valid_o)
        for c in clocks:
            c.stop()
        await Timer(10 * max(wr, rd), "ps")
