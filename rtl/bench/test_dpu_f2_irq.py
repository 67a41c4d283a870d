"""The interrupt pulse: one for each bit that rises, never a second one before the first is acknowledged."""

from __future__ import annotations

import random
from typing import Any

import cocotb
from control_bench import PARAMETERS, begin, get, settle, tick

PATIENCE = PARAMETERS["Patience"]


@cocotb.test()
async def pulses(dut: Any) -> None:
    """Random levels and acknowledges: after the last change every rise has been followed by a pulse."""
    await begin(dut, level_i=0, clear_i=0, ack_i=0)
    rng = random.Random(1)
    level, open_, due, age = 0, False, False, 0
    for n in range(6000):
        if rng.random() < 0.05 and n < 5900:
            level ^= 1 << rng.randrange(5)
        clear = int(rng.random() < 0.05)
        ack = int(open_ and rng.random() < 0.05)
        due = due or bool(level & ~get(dut.level_i))
        dut.level_i.value, dut.clear_i.value, dut.ack_i.value = level, clear, ack
        await settle()
        if get(dut.req_o):
            assert not open_, "a second request before the first was acknowledged"
            open_, due, age = True, False, 0
        elif ack or (clear and age >= PATIENCE):
            open_ = False
        age += 1
        await tick(dut)
    dut.clear_i.value = 0
    for _ in range(20):
        dut.ack_i.value = int(open_)
        await settle()
        if get(dut.req_o):
            open_, due = True, False
        elif open_:
            open_ = False
        await tick(dut)
    assert not due, "a rise was forgotten"


@cocotb.test()
async def counts(dut: Any) -> None:
    """A rise gives one pulse of one cycle; a level that stays gives no more; a lost acknowledge ends with the clear."""
    await begin(dut, level_i=0, clear_i=0, ack_i=0)

    async def seen(cycles: int) -> int:
        n = 0
        for _ in range(cycles):
            await settle()
            n += get(dut.req_o)
            await tick(dut)
        return n

    dut.level_i.value = 1
    assert await seen(30) == 1
    dut.level_i.value = 3
    assert await seen(30) == 0  # waits for the acknowledge
    dut.ack_i.value = 1
    await tick(dut)
    dut.ack_i.value = 0
    assert await seen(30) == 1
    dut.level_i.value = 7
    dut.clear_i.value = 1
    await tick(dut)
    dut.clear_i.value = 0  # too early: the shell may still acknowledge
    assert await seen(PATIENCE) == 0
    dut.clear_i.value = 1
    await tick(dut)
    dut.clear_i.value = 0
    assert await seen(30) == 1
