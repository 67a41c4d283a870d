"""One whole image on the RTL and on the simulator: the same PNG, byte for byte, and what each took."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ..codegen.dpufile import load
from ..evidence import Provenance
from ..files import sha256
from ..runtime.generate import Summary, make_image
from ..runtime.pipeline import Request
from .rates import Machine, Result, machine

TARGETS = ("sim", "rtl")


class Side(Result):
    """One target: cycles are those of one run of an entry, `image_cycles` those of all its runs."""

    target: str
    png_sha256: str
    image_cycles: int
    cycles: dict[str, int]
    runs: dict[str, int]
    cpu_seconds: float
    wall_seconds: float


class RtlImage(Result):
    """The image of one request on both."""

    command: str
    provenance: str = Provenance.MEASURED.label
    program: str
    program_sha256: str
    arch: str
    prompt: str
    seed: int
    steps: int
    machine: Machine
    simulator: Side
    rtl: Side

    @property
    def same(self) -> bool:
        """Whether the files are equal, byte for byte."""
        return self.simulator.png_sha256 == self.rtl.png_sha256

    def text(self) -> str:
        """The comparison for people."""
        lines = [f"{self.program} on {self.arch}, {self.steps} steps, load {self.machine.load:.1f} when it began"]
        for s in (self.simulator, self.rtl):
            lines.append(
                f"{s.target}  {s.image_cycles:>13,} cycles  {s.cpu_seconds:>8.1f} CPU s  {s.wall_seconds:>8.1f} s  "
                f"PNG {s.png_sha256[:16]}"
            )
        ratios = [f"{e} {n / self.simulator.cycles[e]:.3f}" for e, n in self.rtl.cycles.items()]
        lines.append(f"cycles, RTL over simulator: {', '.join(ratios)}")
        lines.append(f"the images are {'the same, byte for byte' if self.same else 'DIFFERENT'}")
        return "\n".join(lines)


def measure(path: Path, prompt: str, seed: int, steps: int, say: Callable[[str, int], None]) -> RtlImage:
    """The image on both targets. `say` hears the target and each step done.

    Raises:
        DpuError: the program cannot run, or the RTL cannot be built.
    """
    here = machine()
    with tempfile.TemporaryDirectory(prefix="dpu-image-") as work:
        sides = [_side(path, Request(prompt, seed=seed, steps=steps), t, Path(work) / f"{t}.png", say) for t in TARGETS]
    return RtlImage(
        command=f'dpubench rtl-image {path} --prompt "{prompt}" --seed {seed} --steps {steps}',
        program=path.name,
        program_sha256=sha256(path),
        arch=load(path).arch.name,
        prompt=prompt,
        seed=seed,
        steps=steps,
        machine=here,
        simulator=sides[0],
        rtl=sides[1],
    )


def _side(path: Path, request: Request, target: str, out: Path, say: Callable[[str, int], None]) -> Side:
    cpu, wall = time.process_time(), time.perf_counter()
    summary: Summary = make_image(path, target, request, out, on_step=lambda step: say(target, step.index + 1))
    return Side(
        target=target,
        png_sha256=sha256(out),
        image_cycles=summary.image_cycles,
        cycles=dict(summary.cycles),
        runs=dict(summary.runs),
        cpu_seconds=time.process_time() - cpu,
        wall_seconds=time.perf_counter() - wall,
    )
