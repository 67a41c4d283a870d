"""The simulator as a device: memory is host arrays, runs happen on a worker thread in submission order."""

from __future__ import annotations

import bisect
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from ..errors import DpuError
from ..ir.arch import Arch
from ..ir.container import Base
from ..ir.isa import ABI_VERSION, Words
from ..simulator.machine import Counters, Machine, OnStore
from ..simulator.state import Tally
from ..simulator.timing import simulate
from ..simulator.timing_result import Timing
from .device import Bytes, Capability, Completion, DeviceCounters, Region, TagWork, Ticket

_ALIGN = 4096

Runner = Callable[[Machine, Sequence[Words], "OnStore | None", str], Counters]
"""Executes the streams of an entry on a machine, as `Machine.run` does; tools that look inside take its place."""


class SimDevice:
    """A DPU of `arch`, simulated bit for bit.

    Cycles do not depend on data, so each loaded program is timed once, in its first run; `timings` keeps them by entry,
    and with `timed` off completions say 0 cycles. `on_store` sees every STORE, for comparing intermediate results;
    `runner` executes each run.
    """

    def __init__(self, arch: Arch, timed: bool = True, on_store: OnStore | None = None) -> None:
        self.arch, self.timed, self.on_store = arch, timed, on_store
        self.runner: Runner = Machine.run
        self.timings: dict[str, Timing] = {}
        self._machine = self._make_machine()
        self._memory: dict[int, Bytes] = {}
        self._starts: list[int] = []
        self._next = arch.dram.base
        self._programs: list[tuple[str, list[Words]]] = []
        self._tickets: dict[int, Future[Completion]] = {}
        self._count = 0
        self._counters = DeviceCounters()
        self._lock = threading.Lock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="dpu-sim")

    @property
    def capability(self) -> Capability:
        """What the device is."""
        a = self.arch
        return Capability("sim", a.name, a.digest, ABI_VERSION, a.clock_hz, a.dram.bytes)

    def allocate(self, size: int) -> int:
        """Reserve `size` bytes, cleared; the address."""
        address, end = self._next, self.arch.dram.base + self.arch.dram.bytes
        if size < 0 or address + size > end:
            raise DpuError("sim", f"{size} bytes do not fit: {end - address} of device memory are free", code="E422")
        self._memory[address] = self._zeros(size)
        self._starts.append(address)
        self._next += max(_ALIGN, -(-size // _ALIGN) * _ALIGN)
        return address

    def write(self, address: int, data: Bytes) -> None:
        """Copy `data` to `address`. A read-only array that fills a whole allocation is used in place instead."""
        self._drain()
        data = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        whole = self._memory.get(address)
        if whole is not None and len(whole) == len(data) and not data.flags.writeable:
            self._memory[address] = data  # gigabytes of constants stay one mapping of the file
            return
        self._at(address, len(data))[:] = data

    def read(self, address: int, size: int) -> Bytes:
        """A copy of `size` bytes at `address`."""
        self._drain()
        return self._at(address, size).copy()

    def load(self, entry: str, streams: Sequence[Words]) -> int:
        """Keep the streams; a handle for `submit`."""
        self._programs.append((entry, list(streams)))
        self.timings.pop(entry, None)
        return len(self._programs) - 1

    def submit(self, handle: int, bases: Mapping[int, Region]) -> Ticket:
        """Queue a run; returns at once."""
        if not 0 <= handle < len(self._programs):
            raise DpuError("sim", f"no program with handle {handle}", code="E423")
        regions = {b: self._at(r.address, r.bytes) for b, r in bases.items()}
        with self._lock:
            self._count += 1
            ticket = Ticket(self._count, self._programs[handle][0])
            self._tickets[ticket.number] = self._worker.submit(self._run, handle, regions)
        return ticket

    def wait(self, ticket: Ticket) -> Completion:
        """Block until the run has finished; raises what it raised. A ticket is good for one wait."""
        with self._lock:
            future = self._tickets.pop(ticket.number, None)
        if future is None:
            raise DpuError("sim", f"ticket {ticket.number} is unknown or already waited for", code="E424")
        done = future.result()
        self._counters.add(done)
        return done

    def counters(self) -> DeviceCounters:
        """Sums over the runs that were waited for since the last reset."""
        return self._counters

    def reset(self) -> None:
        """Clear counters and scratchpads."""
        self._drain()
        self._machine.reset()
        self._counters = DeviceCounters()

    def close(self) -> None:
        """Stop the worker and free the memory."""
        self._worker.shutdown(wait=True, cancel_futures=True)
        self._memory.clear()

    def _make_machine(self) -> Machine:
        return Machine(self.arch, {})

    def _zeros(self, size: int) -> Bytes:
        return np.zeros(size, np.uint8)

    def _read_only(self, region: Bytes) -> bool:
        return not region.flags.writeable

    def _at(self, address: int, size: int) -> Bytes:
        i = bisect.bisect_right(self._starts, address) - 1
        start = self._starts[i] if i >= 0 else 0
        memory = self._memory.get(start) if i >= 0 else None
        if memory is None or address + size > start + len(memory):
            raise DpuError("sim", f"bytes {address} to {address + size - 1} are in no allocation", code="E425")
        return memory[address - start : address - start + size]

    def _drain(self) -> None:
        # Submits run in order on one worker: when an empty task is done, all earlier ones are.
        self._worker.submit(lambda: None).result()

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


def _work(t: Tally) -> TagWork:
    return TagWork(t.words, t.macs, t.read, t.written, t.fp16_overflow, t.nan)
