"""How fast the timing simulation of a program is: simulated cycles a CPU second, beside ONNXim's.

All of `simulator.timing.simulate` counts: preparing the words, the event loop and what it leaves behind; not reading
the file and, the first time, compiling the C++. CPU seconds are those of this process, all threads together.
"""

from __future__ import annotations

import time
from pathlib import Path

from ..codegen.dpufile import load
from ..errors import DpuError
from ..evidence import Provenance
from ..files import sha256
from ..ir.isa import Opcode, word
from ..simulator import timing_native
from ..simulator.memory import with_dram
from ..simulator.timing import simulate
from .rates import Machine, Result, Timed, machine

ONNXIM = (0.8e6, 0.9e6)
"""Cycles a CPU second of ONNXim (PSAL-POSTECH/ONNXim, 2026-01-08) with its simple DRAM model: from 0.15 CPU s for the
131,364 cycles of a 512 x 512 x 512 product to 20 for the 16,443,840 of a 3 x 3 convolution, on an array of 32 x 32.
Measured by this project, but not in this run; with Ramulator 2 it makes 0.4 to 0.5 M."""


class Speed(Timed):
    """The timing simulation of one entry."""

    entry: str
    words: int


class TimingSpeed(Result):
    """Of each entry the shortest of `runs` runs, in CPU time."""

    command: str
    provenance: str = Provenance.MEASURED.label
    program: str
    program_sha256: str
    arch: str
    dram: str
    loop: str  # native or python
    runs: int
    onnxim_cycles_per_cpu_second: tuple[float, float] = ONNXIM
    onnxim_provenance: str = "measured on another day; see bench/timing_speed.py"
    machine: Machine
    entries: tuple[Speed, ...]

    def text(self) -> str:
        """A table with a row an entry."""
        m = self.machine
        lines = [
            f"{self.program} on {self.arch}, {self.dram}, {self.loop} loop; {m.processor}, load {m.load:.1f}",
            f"{'entry':<16}{'words':>11}{'cycles':>14}{'CPU s':>9}{'wall s':>9}{'M cycles/CPU s':>18}{'ONNXim x':>12}",
        ]
        low, high = self.onnxim_cycles_per_cpu_second
        for e in self.entries:
            ratio = f"{e.rate / high:.0f} to {e.rate / low:.0f}"
            lines.append(
                f"{e.entry:<16}{e.words:>11,}{e.cycles:>14,}{e.cpu_seconds:>9.2f}{e.wall_seconds:>9.2f}"
                f"{e.rate / 1e6:>18.1f}{ratio:>12}"
            )
        lines.append(
            f"ONNXim: {low / 1e6:.1f} to {high / 1e6:.1f} M cycles a CPU second, {self.onnxim_provenance}; "
            f"provenance: {self.provenance}"
        )
        return "\n".join(lines)


def measure(path: Path, entries: tuple[str, ...] = (), dram: str = "", runs: int = 1, command: str = "") -> TimingSpeed:
    """Time the timing simulation of `entries`, or all, of a `.dpu` file; `dram` instead of the arch's.

    Raises:
        DpuError: the file is no program, there is no such entry or DRAM.
    """
    program = load(path, verify=False)
    names = [e.name for e in program.entries]
    for name in entries:
        if name not in names:
            raise DpuError("--entry", f"no entry '{name}'", hint=f"one of {', '.join(names)}", code="E501")
    arch = with_dram(program.arch, dram) if dram else program.arch
    at_start = machine()
    simulate(arch, [word(Opcode.END)] * arch.tiles)  # compiles the C++, if need be
    found = []
    for name in names:
        if entries and name not in entries:
            continue
        words, taken = program.words[name], []
        for _ in range(runs):
            cpu, wall = time.process_time(), time.perf_counter()
            cycles = simulate(arch, words, name).cycles
            taken.append((time.process_time() - cpu, time.perf_counter() - wall))
        seconds = min(taken)
        count = sum(len(w) for w in words)
        found.append(Speed(entry=name, words=count, cycles=cycles, cpu_seconds=seconds[0], wall_seconds=seconds[1]))
    return TimingSpeed(
        command=command,
        program=path.name,
        program_sha256=sha256(path),
        arch=arch.name,
        dram=arch.dram.parameters or arch.dram.model,
        loop="native" if timing_native.chosen() else "python",
        runs=runs,
        machine=at_start,
        entries=tuple(found),
    )
