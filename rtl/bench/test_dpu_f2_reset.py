"""The soft reset: drain until all is quiet for a while, reset, go on; never reset while something is open."""

from __future__ import annotations

import random
from typing import Any

import cocotb
from control_bench import PARAMETERS, begin, get, settle, tick

CYCLES = PARAMETERS["Cycles"]


@cocotb.test()
async def sequence(dut: Any) -> None:
    """After power-on the DPU is in reset; then at random moments a start, with quiet that comes and goes."""
    await begin(dut, start_i=0, quiet_i=1)
    assert get(dut.dpu_rst_no) == 0
    for _ in range(3 * CYCLES):
        await tick(dut)
    assert (get(dut.dpu_rst_no), get(dut.busy_o), get(dut.drain_o)) == (1, 0, 0)
    for seed in range(10):
        rng = random.Random(seed)
        dut.start_i.value, dut.quiet_i.value = 1, 0
        await tick(dut)
        dut.start_i.value = 0
        run = low = 0
        for n in range(400):
            quiet = int(rng.random() < 0.8 if n < 60 else n > 100)
            dut.quiet_i.value = quiet
            await settle()
            assert get(dut.drain_o) == get(dut.busy_o)
            if not get(dut.dpu_rst_no):
                assert low or run >= CYCLES, "reset without enough quiet"
                low += 1
            run = run + 1 if quiet else 0
            await tick(dut)
            if not get(dut.busy_o):
                break
        assert low == CYCLES and get(dut.dpu_rst_no) == 1 and not get(dut.busy_o)
