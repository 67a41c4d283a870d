"""What the benches of memories and control share: clock, reset, one cycle at a time, fields of packed ports."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

PARAMETERS: dict[str, int] = json.loads(os.environ.get("BENCH_PARAMETERS", "{}"))


async def begin(dut: Any, **inputs: int) -> None:
    """Start the clock with all `inputs` set, reset, and return after a falling edge."""
    for name, value in inputs.items():
        getattr(dut, name).value = value
    Clock(dut.clk_i, 2, "ns").start()
    if hasattr(dut, "rst_ni"):
        dut.rst_ni.value = 0
        await FallingEdge(dut.clk_i)
        await FallingEdge(dut.clk_i)
        dut.rst_ni.value = 1
    await FallingEdge(dut.clk_i)


async def settle() -> None:
    """Until outputs follow the inputs that were set in this half cycle. Nothing may be set before the next edge."""
    await ReadOnly()


async def tick(dut: Any) -> None:
    """Over the rising edge, to where inputs may change."""
    await FallingEdge(dut.clk_i)


def pack(values: Sequence[int], width: int) -> int:
    """Element 0 in the least significant bits."""
    out = 0
    for i, v in enumerate(values):
        out |= (v & ((1 << width) - 1)) << (i * width)
    return out


def field(value: int, index: int, width: int) -> int:
    """Element `index` of a packed array."""
    return value >> (index * width) & ((1 << width) - 1)


def get(handle: Any) -> int:
    """The value of a port as an unsigned number."""
    return int(handle.value)
