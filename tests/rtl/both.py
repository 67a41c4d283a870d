"""The simulator and the RTL side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from dpu.errors import DpuError
from dpu.ir.isa import Words
from dpu.runtime.device import Completion, Region
from dpu.runtime.rtl_device import RtlDevice
from dpu.simulator.machine import Machine
from dpu.simulator.state import Tally

from .cards import card

WORK = ("words", "macs", "read", "written", "fp16_overflow", "nan")


class Both:
    """A DPU as RTL with its assertions on. In `stall` of 256 cycles each AXI channel pauses."""

    def __init__(self, name: str, stall: int = 0) -> None:
        self.arch, self.stall = card(name), stall
        self.device = RtlDevice(self.arch, checked=True, stall=stall, seed=stall + 1, watchdog=20_000)
        self._place: dict[tuple[int, int], Region] = {}
        self.cycles = 0

    def close(self) -> None:
        self.device.close()

    def run(self, streams: Sequence[Words], regions: Mapping[int, Any]) -> tuple[Completion, dict[int, Any]]:
        """On the RTL: what it says, and what it leaves in DRAM. `regions`, by base register, stay as they are."""
        place = {}
        for base, data in regions.items():
            at = self._place.get((base, len(data)))
            if at is None:
                at = self._place[base, len(data)] = Region(self.device.allocate(len(data)), len(data))
            self.device.write(at.address, data)
            place[base] = at
        done = self.device.wait(self.device.submit(self.device.load("random", streams), place))
        return done, {base: self.device.read(at.address, at.bytes) for base, at in place.items()}

    def check(self, streams: Sequence[Words], regions: Mapping[int, Any], text: object = "") -> Tally:
        """Both leave the same bytes and counts. `text` is what a failure shows of the program."""
        want = {base: data.copy() for base, data in regions.items()}
        total = Machine(self.arch, want).run(streams).total
        try:
            done, got = self.run(streams, regions)
        except DpuError as e:
            self.device.reset()  # a model that broke a rule cannot go on
            raise AssertionError(f"{e}\n{text}") from e
        for base, data in want.items():
            at = np.flatnonzero(got[base] != data)
            assert not len(at), f"base {base}: {len(at)} of {len(data)} bytes differ, the first at {at[0]}\n{text}"
        for name in WORK:
            a, b = getattr(done.total, name), getattr(total, name)
            assert a == b, f"{name}: {a}, the simulator has {b}\n{text}"
        self.cycles += done.cycles
        return total
