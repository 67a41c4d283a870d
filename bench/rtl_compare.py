"""The simulator and the RTL side by side: bytes in DRAM, counts, errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..errors import DpuError
from ..ir.arch import Arch
from ..ir.isa import Words
from ..runtime.device import Completion, Region
from ..runtime.rtl_device import RtlDevice
from ..simulator.machine import Machine
from ..simulator.state import Tally
from .rtl_dma_words import Bytes

WORK = ("words", "macs", "read", "written", "fp16_overflow", "nan")
WATCHDOG = 20_000  # cycles without progress: the longest pause of the memories is far below


class Both:
    """A DPU as RTL with its assertions on, and the simulator. In `stall` of 256 cycles each AXI channel pauses.

    Regions lie `gap` bytes apart. `extra` are files that stand in for modules of the RTL; `coverage` is a file for
    counts of lines and toggles.
    """

    def __init__(
        self,
        arch: Arch,
        stall: int = 0,
        gap: int = 0,
        extra: tuple[Path, ...] = (),
        coverage: Path | None = None,
    ) -> None:
        self.arch, self.stall, self.gap = arch, stall, gap
        self.device = RtlDevice(
            arch,
            checked=True,
            stall=stall,
            seed=stall + 1,
            watchdog=WATCHDOG,
            extra=extra,
            coverage=coverage,
        )
        self._place: dict[tuple[int, int], Region] = {}
        self.cycles = 0

    def close(self) -> None:
        """Free the model."""
        self.device.close()

    def place(self, base: int, size: int) -> Region:
        """Where the bytes of a base register lie; the same in every run."""
        if (base, size) not in self._place:
            self.device.skip(self.gap)
            self._place[base, size] = Region(self.device.allocate(size), size)
        return self._place[base, size]

    def run(self, streams: Sequence[Words], regions: Mapping[int, Bytes]) -> tuple[Completion, dict[int, Bytes]]:
        """On the RTL: what it says, and what it leaves in DRAM. `regions`, by base register, stay as they are.

        Raises:
            DpuError: the hardware stopped, or broke a rule.
        """
        place = {base: self.place(base, len(data)) for base, data in regions.items()}
        for base, data in regions.items():
            self.device.write(place[base].address, data)
        done = self.device.wait(self.device.submit(self.device.load("random", streams), place))
        return done, {base: self.device.read(at.address, at.bytes) for base, at in place.items()}

    def difference(self, streams: Sequence[Words], regions: Mapping[int, Bytes]) -> tuple[str, Tally]:
        """What RTL and simulator do not have alike, or nothing; and the simulator's counts.

        A program that the simulator refuses must be refused by the RTL, with the same code for the same word.
        """
        want = {base: data.copy() for base, data in regions.items()}
        refused: DpuError | None = None
        total = Tally()
        try:
            total = Machine(self.arch, want).run(streams, entry="random").total
        except DpuError as e:
            refused = e
        try:
            done, got = self.run(streams, regions)
        except DpuError as e:
            if e.code == "E416":
                self.device.reset()  # a model that broke a rule cannot go on
            if refused is not None and (e.code, e.where) == (refused.code, refused.where):
                return "", total
            return f"{e}" + (f"\nthe simulator says: {refused}" if refused else ""), total
        if refused is not None:
            return f"it ran to its end; the simulator says: {refused}", total
        self.cycles += done.cycles
        for base, data in want.items():
            at = np.flatnonzero(got[base] != data)
            if len(at):
                return f"base {base}: {len(at)} of {len(data)} bytes differ, the first at {at[0]}", total
        for name in WORK:
            a, b = getattr(done.total, name), getattr(total, name)
            if a != b:
                return f"{name}: {a}, the simulator has {b}", total
        return "", total
