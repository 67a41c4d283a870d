"""The Verilated tile as a device: programs and tensors in its DRAM, everything else through the host registers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from ..errors import DpuError
from ..ir.arch import Arch
from ..ir.container import Base
from ..ir.isa import Engine, Words
from ..ir.regmap import ENGINES, register
from ..rtl.model import Model, Times
from ..simulator.plan import Places
from ..simulator.timing_result import Timing
from .device import Bytes, Capability, Completion, DeviceCounters, Region, TagWork, Ticket
from .hosted_device import HostedDevice
from .queued_device import closed
from .registers import BUSY, DONE, ENGINE_COUNTERS, ERROR, RESET, START, Placed, Registers, run_settings

_CHUNK = 200_000  # cycles between looks at `close`


class RtlDevice(HostedDevice[Placed]):
    """A DPU of `arch`, as its SystemVerilog computes it, cycle by cycle.

    `waves` is a VCD file of all that happens. `checked` runs the design's assertions. Every AXI channel pauses in
    `stall` of 256 cycles, at random by `seed`. `watchdog` is how many cycles may pass without progress (0: any number;
    None: as built). `extra` and `coverage`: as of `rtl.model.Model`.

    Completions have the cycles that hardware counted; of the work they have words, bytes and exceptions, counted by
    hardware too, and the multiplications that the words name. Which operation caused an exception is not known to
    hardware: there are no `tags`. `timings` has the measured times of each entry's latest run, in the form of the
    timing model's, and `places` where all of it was. `idle` says how many cycles pass before a run that could be
    started in the cycle that it is given.
    """

    name = "rtl"

    def __init__(
        self,
        arch: Arch,
        waves: Path | None = None,
        checked: bool = False,
        stall: int = 0,
        seed: int = 1,
        watchdog: int | None = None,
        extra: tuple[Path, ...] = (),
        coverage: Path | None = None,
    ) -> None:
        super().__init__(arch)
        self.timings: dict[str, Timing] = {}
        self.places: dict[str, Places] = {}
        self.watchdog = watchdog
        self.idle: Callable[[int], int] = lambda cycle: 0
        self._make = partial(Model, arch, waves, checked, stall, seed, extra, coverage)
        self._model = self._make()
        self._registers = Registers(lambda address: self._model.read(address))
        self._closing = threading.Event()
        self._worker.submit(self._registers.check, self.name, arch).result()

    @property
    def capability(self) -> Capability:
        """What the device says of itself in its registers."""
        return self._worker.submit(self._registers.capability, self.name, self.arch).result()

    def allocate(self, size: int) -> int:
        """Reserve `size` bytes, cleared; the address."""
        self._drain()  # the model's memory map is the worker's while it runs
        return super().allocate(size)

    def load(self, entry: str, streams: Sequence[Words]) -> int:
        """Place the streams in DRAM; a handle for `submit`."""
        addresses = self._place_streams(entry, streams)
        self._programs.append(Placed(entry, tuple(streams), addresses))
        self.timings.pop(entry, None)
        return len(self._programs) - 1

    def submit(self, handle: int, bases: Mapping[int, Region]) -> Ticket:
        """Queue a run; returns at once."""
        program = self._program(handle)
        for base, region in bases.items():
            if not self._at(region.address, region.bytes).flags.writeable and base != Base.CONST:
                raise DpuError(f"entry '{program.entry}'", f"base {base} is bound to read-only memory", code="E425")
        return self._queue(program.entry, self._run, program, dict(bases))

    def reset(self) -> None:
        """Wait for all runs, then pull the reset pin and clear the counters. Scratchpads keep what they hold: no
        program reads what it did not write."""
        self._worker.submit(self._renew).result()
        self._counters = DeviceCounters()

    def close(self) -> None:
        """Stop after the running chunk of cycles, finish the waves and free the memory."""
        self._closing.set()
        super().close()
        self._model.close()

    # Memory

    def _place(self, address: int, data: Bytes) -> None:
        super()._place(address, data)
        if len(data):
            self._model.map(address, data)

    # Registers, on the worker's thread

    def _set(self, name: str, value: int, index: int = 0, *, wide: bool = False) -> None:
        if wide:
            self._set(f"{name}_LO", value & 0xFFFFFFFF, index)
            self._set(f"{name}_HI", value >> 32, index)
        else:
            self._model.write(register(name).address(index), value)

    def _renew(self) -> None:
        """A model in reset; a new one, since one that stopped over a broken rule cannot go on."""
        self._model.close()
        self._model = self._make()
        for address, data in self._memory.items():
            self._place(address, data)

    # Running, on the worker's thread

    def _run(self, program: Placed, bases: Mapping[int, Region]) -> Completion:
        begin = time.perf_counter()
        for s in run_settings(program, bases):
            self._set(s.name, s.value, s.index, wide=s.wide)
        if self.watchdog is not None:
            self._set("WATCHDOG", self.watchdog)
        self._protect(bases, writable=False)
        times = self._model.record({t: len(w) for t, w in enumerate(program.streams)})
        self._model.run(self.idle(self._model.cycle))
        start = self._model.cycle
        try:
            self._set("CTRL", START)
            while not self._model.wait(register("STATUS").address(), BUSY, _CHUNK):
                if self._closing.is_set():
                    raise closed(program.entry)
            status = self._registers.get("STATUS")
            if status & ERROR or not status & DONE:
                raise self._error(program, status)
        finally:
            self._protect(bases, writable=True)
        cycles = self._registers.get("CYCLES", wide=True)
        work = self._registers.work(self.arch.tiles)
        timing, macs = self._timing(program, times, start, cycles)
        self.timings[program.entry] = timing
        self.places[program.entry] = Places({b: r.address for b, r in bases.items()}, program.addresses)
        total = TagWork(**{**work, "macs": macs})
        return Completion(program.entry, cycles, time.perf_counter() - begin, total)

    def _protect(self, bases: Mapping[int, Region], *, writable: bool) -> None:
        """Constants cannot be written in a run, whoever else may write their memory."""
        region = bases.get(Base.CONST)
        if region is None or region.address not in self._memory:
            return
        data = self._memory[region.address].view()
        if data.flags.writeable and len(data):
            data.flags.writeable = writable
            self._model.map(region.address, data)

    def _error(self, program: Placed, status: int) -> DpuError:
        """What the error registers say. The hardware is reset, so that the next run can start."""
        error = self._registers.failure(program.entry, program.streams, status)
        if status & ERROR:
            self._set("CTRL", RESET)
            self._model.wait(register("STATUS").address(), BUSY, _CHUNK)
        return error

    def _timing(
        self, program: Placed, times: Mapping[int, tuple[Times, Times]], start: int, cycles: int
    ) -> tuple[Timing, int]:
        from .rtl_timing import EngineCounters, measured

        counters: list[dict[Engine, EngineCounters]] = [
            {
                e: EngineCounters(
                    *(self._registers.get(f"TILE_{e.name}_{what}", t, wide=True) for what in ENGINE_COUNTERS)
                )
                for e in ENGINES
            }
            for t in range(self.arch.tiles)
        ]
        timing = measured(self.arch, program.entry, program.streams, times, start, cycles, counters)
        return timing, timing.executed_macs
