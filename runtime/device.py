"""What a device is to the runtime: memory, programs, tickets. Simulator, RTL and cards implement the same protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..errors import DpuError
from ..ir.container import Program
from ..ir.isa import ABI_VERSION, Words

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Capability:
    """What a device says about itself before anything is loaded."""

    name: str
    arch: str
    arch_digest: str
    abi: int
    clock_hz: float
    memory_bytes: int


@dataclass(frozen=True)
class Region:
    """Device memory that a base register is bound to for one submit."""

    address: int
    bytes: int


@dataclass(frozen=True)
class Ticket:
    """A submitted run."""

    number: int
    entry: str


@dataclass(frozen=True)
class TagWork:
    """What the words of one source operation executed."""

    words: int = 0
    macs: int = 0
    read: int = 0
    written: int = 0
    fp16_overflow: int = 0
    nan: int = 0


@dataclass(frozen=True)
class Completion:
    """A finished run. `cycles` is 0 where the device cannot tell; `tags` has the work of each source operation."""

    entry: str
    cycles: int
    wall_seconds: float
    total: TagWork = field(default_factory=TagWork)
    tags: Mapping[int, TagWork] = field(default_factory=dict)


@dataclass
class DeviceCounters:
    """Sums over all runs since the last reset."""

    runs: int = 0
    cycles: int = 0
    words: int = 0
    macs: int = 0
    read: int = 0
    written: int = 0
    fp16_overflow: int = 0
    nan: int = 0

    def add(self, done: Completion) -> None:
        """Count one run."""
        self.runs += 1
        self.cycles += done.cycles
        for name in ("words", "macs", "read", "written", "fp16_overflow", "nan"):
            setattr(self, name, getattr(self, name) + getattr(done.total, name))


class Device(Protocol):
    """An asynchronous device. Submits run in order; what goes wrong in a run is raised by `wait` on its ticket."""

    @property
    def capability(self) -> Capability:
        """What the device is."""
        ...

    def allocate(self, size: int) -> int:
        """Reserve `size` bytes of device memory, cleared; the address.

        Raises:
            DpuError: the memory is exhausted.
        """
        ...

    def write(self, address: int, data: Bytes) -> None:
        """Copy `data` to device memory, after every run submitted before."""
        ...

    def read(self, address: int, size: int) -> Bytes:
        """Copy device memory to the host, after every run submitted before."""
        ...

    def load(self, entry: str, streams: Sequence[Words]) -> int:
        """Place one instruction stream a tile on the device; a handle for `submit`."""
        ...

    def submit(self, handle: int, bases: Mapping[int, Region]) -> Ticket:
        """Start a loaded program with these base registers; returns at once."""
        ...

    def wait(self, ticket: Ticket) -> Completion:
        """Block until a run has finished.

        Raises:
            DpuError: the run failed, or the ticket is unknown.
        """
        ...

    def counters(self) -> DeviceCounters:
        """Sums since the last reset."""
        ...

    def reset(self) -> None:
        """Wait for all runs, then clear counters and on-chip memories; DRAM keeps its contents."""
        ...

    def close(self) -> None:
        """Stop and free everything."""
        ...


def check_program(program: Program, capability: Capability) -> None:
    """Refuse a program that was compiled for another device, before anything reaches it.

    Raises:
        DpuError: arch, ABI or memory size do not match.
    """
    if program.arch.digest != capability.arch_digest:
        raise DpuError(
            f"program for arch '{program.arch.name}' ({program.arch.digest})",
            f"the device is '{capability.arch}' ({capability.arch_digest})",
            why="instruction words fit one array, buffer and tile configuration only",
            hint=f"compile with --arch {capability.arch}",
            code="E420",
        )
    abi = int(str(program.info.get("abi", ABI_VERSION)))
    if abi != capability.abi:
        raise DpuError("program", f"ABI {abi}, the device has {capability.abi}", hint="compile it again", code="E421")
    need = sum(program.base_bytes.values())
    if need > capability.memory_bytes:
        raise DpuError(
            "program", f"needs {need} bytes of device memory, there are {capability.memory_bytes}", code="E422"
        )
