"""Bench of the tiny adder: one test passes; the other fails, to see that it is reported."""

import json
import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge


@cocotb.test()
async def adds(dut):
    width = json.loads(os.environ["BENCH_PARAMETERS"])["Width"]
    Clock(dut.clk_i, 2, "ns").start()
    dut.rst_ni.value, dut.valid_i.value = 0, 0
    await FallingEdge(dut.clk_i)
    dut.rst_ni.value, dut.valid_i.value = 1, 1
    source = random.Random(1)
    for _ in range(100):
        a, b = source.getrandbits(width), source.getrandbits(width)
        dut.a_i.value, dut.b_i.value = a, b
        await FallingEdge(dut.clk_i)
        assert int(dut.sum_o.value) == a + b


@cocotb.test()
async def multiplies(dut):
    assert len(dut.sum_o) == 0, "the adder does not multiply"
