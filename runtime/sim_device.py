"""The simulator as a device: memory is host arrays, runs happen on a worker thread in submission order."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from ..errors import DpuError
from ..ir.arch import Arch
from ..ir.container import Base
from ..ir.isa import ABI_VERSION, Words
from ..simulator.machine import Counters, Machine, OnStore
from ..simulator.state import Tally
from ..simulator.timing import simulate
from ..simulator.timing_result import Timing
from .device import Bytes, Capability, Completion, DeviceCounters, Region, TagWork, Ticket
from .hosted_device import HostedDevice

Runner = Callable[[Machine, Sequence[Words], "OnStore | None", str], Counters]
"""Executes the streams of an entry on a machine, as `Machine.run` does; tools that look inside take its place."""


class SimDevice(HostedDevice[tuple[str, list[Words]]]):
    """A DPU of `arch`, simulated bit for bit.

    Cycles do not depend on data, so each loaded program is timed once, in its first run; `timings` keeps them by entry,
    and with `timed` off completions say 0 cycles. `on_store` sees every STORE, for comparing intermediate results;
    `runner` executes each run.
    """

    name = "sim"

    def __init__(self, arch: Arch, timed: bool = True, on_store: OnStore | None = None) -> None:
        super().__init__(arch)
        self.timed, self.on_store = timed, on_store
        self.runner: Runner = _run
        self.timings: dict[str, Timing] = {}
        self._machine = self._make_machine()

    @property
    def capability(self) -> Capability:
        """What the device is."""
        a = self.arch
        return Capability("sim", a.name, a.digest, ABI_VERSION, a.clock_hz, a.dram.bytes)

    def load(self, entry: str, streams: Sequence[Words]) -> int:
        """Keep the streams; a handle for `submit`."""
        self._programs.append((entry, list(streams)))
        self.timings.pop(entry, None)
        return len(self._programs) - 1

    def submit(self, handle: int, bases: Mapping[int, Region]) -> Ticket:
        """Queue a run; returns at once."""
        entry, _ = self._program(handle)
        return self._queue(entry, self._run, handle, {b: self._at(r.address, r.bytes) for b, r in bases.items()})

    def reset(self) -> None:
        """Clear counters and scratchpads."""
        self._drain()
        self._machine.reset()
        self._counters = DeviceCounters()

    def _make_machine(self) -> Machine:
        return Machine(self.arch, {})

    def _read_only(self, region: Bytes) -> bool:
        return not region.flags.writeable

    def _run(self, handle: int, regions: Mapping[int, Bytes]) -> Completion:
        entry, streams = self._programs[handle]
        start = time.perf_counter()
        for base, region in regions.items():
            if base != Base.CONST and self._read_only(region):
                raise DpuError(f"entry '{entry}'", f"base {base} is bound to read-only memory", code="E425")
            self._machine.bind(base, region)
        found: Counters = self.runner(self._machine, streams, self.on_store, entry)
        seconds = time.perf_counter() - start
        if self.timed and entry not in self.timings:
            self.timings[entry] = simulate(self.arch, streams, entry)
        cycles = self.timings[entry].cycles if self.timed else 0
        tags = {tag: _work(t) for tag, t in found.tags.items()}
        return Completion(entry, cycles, seconds, _work(found.total), tags)


def _run(machine: Machine, streams: Sequence[Words], on_store: OnStore | None, entry: str) -> Counters:
    return machine.run(streams, on_store, entry)  # of the machine's own class


def _work(t: Tally) -> TagWork:
    return TagWork(t.words, t.macs, t.read, t.written, t.fp16_overflow, t.nan)
