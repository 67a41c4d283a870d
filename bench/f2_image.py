"""`dpubench f2-image`: one image on an F2 card beside the simulator's, with what the card counted and its overhead.

Time is the card's own counter of 4 ns. On the stand-in it passes only while the driver looks at the card, so there
the overhead is that of transfers and registers, and nothing of this computer's own work is in it.

    overhead of a run = card's time from the first byte of its inputs to the last of its outputs - cycles of the tiles
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from ..codegen.dpufile import load
from ..files import sha256
from ..ir.container import Program
from ..ir.f2_regmap import COUNT_HZ, cl
from ..measurement import Measurement
from ..rtl import toolchain
from ..rtl.f2.build import TOP
from ..runtime.f2.device import F2Device
from ..runtime.f2.opening import open_f2
from ..runtime.generate import make_image
from ..runtime.parts import device_parts
from ..runtime.pipeline import Pipeline, Request, Step
from ..runtime.pipeline_files import BundledFiles
from ..runtime.session import Session
from ..runtime.tensors import F32
from ..runtime.unets import DpuUnet
from .rates import Machine, Result, machine

FORMAT = "dpu.f2-run/1"
LOADING, IMAGE, OVERHEAD = "loading", "image", "overhead"


class F2Image(Result):
    """The image of one request. `measurements` are seconds of the card's time, a sample a run; `measurement.py` reads
    them, and says whether they were measured. `cycles` are of the tiles, all runs of an entry together. The format is
    another one than that of the gate's evidence: one picture is no experiment."""

    format: str = FORMAT
    command: str
    provenance: str
    program: str
    program_sha256: str
    arch: str
    sources: str  # `toolchain.digest` of the custom logic, as it is here
    prompt: str
    seed: int
    steps: int
    measurements: tuple[Measurement, ...]
    cycles: dict[str, int]
    counters: dict[str, int]  # of the DPU, all runs together
    sent_bytes: int  # to device memory, loading included; each was read back and compared
    received_bytes: int  # from it, each twice
    mended: str
    wall_seconds: dict[str, float]  # of `machine`; where the card is a stand-in, they tell nothing of one
    machine: Machine
    simulator_png_sha256: str
    png_sha256: str

    @property
    def same(self) -> bool:
        """Whether the pictures are equal, byte for byte."""
        return self.simulator_png_sha256 == self.png_sha256

    def text(self) -> str:
        """The record for people."""
        found = {m.name: m.samples for m in self.measurements}
        device = self.measurements[0].device
        standing = f", {device.stand_in} standing in" if device.stand_in else ""
        lines = [f"{self.program} on {self.arch}, {self.steps} steps, {device.name}{standing} ({self.provenance})"]
        lines.append(f"{'entry':<18}{'runs':>5}{'cycles a run':>14}{'ms a run':>10}{'overhead ms':>13}{'share':>8}")
        for name, cycles in self.cycles.items():
            runs, spent, over = len(found[name]), sum(found[name]), sum(found[f"{name} {OVERHEAD}"])
            each = f"{spent / runs * 1e3:>10.3f}{over / runs * 1e3:>13.3f}{over / spent:>8.2%}"
            lines.append(f"{name:<18}{runs:>5}{cycles // runs:>14,}{each}")
        (spent,), (loading,), tiles = found[IMAGE], found[LOADING], sum(self.cycles.values()) / COUNT_HZ
        lines.append(f"image {spent:.4f} s of the card's time, tiles {tiles:.4f} s")
        lines.append(f"before it, {loading:.4f} s to load the program")
        lines.append(f"moved: {self.sent_bytes:,} bytes to the card, {self.received_bytes:,} from it")
        lines.append("counters: " + ", ".join(f"{name} {n:,}" for name, n in self.counters.items()))
        lines.append(f"mended: {self.mended or 'nothing'}")
        lines.append(f"the image is {'the same as' if self.same else 'DIFFERENT from'} the simulator's, byte for byte")
        return "\n".join(lines)


class _Clocked(Session):
    """A session that keeps the card's time of each run, in seconds, and the cycles of its tiles."""

    def __init__(self, program: Program, device: F2Device) -> None:
        self._card = device
        self.runs: dict[str, list[tuple[float, int]]] = {}
        begin = self.now()
        super().__init__(program, device)
        self.loading = self.now() - begin

    def now(self) -> float:
        """Seconds by the card's counter."""
        return self._card.bus.counter(cl("CL_GLOBAL_COUNT_LO")) / COUNT_HZ

    def run(self, name: str, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, F32]:
        """Outputs by name of one run of entry `name`."""
        begin = self.now()
        found = super().run(name, inputs)
        self.runs.setdefault(name, []).append((self.now() - begin, self.completions[name].cycles))
        return found


def measure(path: Path, request: Request, card: str, image: str, say: Callable[[Step], None]) -> F2Image:
    """The image on `card`, `image` loaded, and on the simulator. `say` hears each step that the card has done.

    Raises:
        DpuError: the program or the card does not do it; E523, the card does not show which it is.
    """
    program, here = load(path), machine()
    device = open_f2(program.arch, image, card)
    try:
        identity = device.identity
        session = _Clocked(program, device)
        unet = DpuUnet(session)
        pipeline = Pipeline(BundledFiles(program.files, str(path)), device_parts(session))
        height, width = (n * pipeline.scale for n in unet.latent_size)
        begin = session.now()
        made = pipeline.generate(replace(request, height=height, width=width), unet, say)
        spent = session.now() - begin
        counters, mended = device.counters(), device.bus.noise.text()
        sent, received = device.transfers.sent, device.transfers.received
    finally:
        device.close()
    with tempfile.TemporaryDirectory(prefix="dpu-image-") as work:
        ours, simulators = Path(work) / "f2.png", Path(work) / "sim.png"
        made.save(ours)
        make_image(path, "sim", request, simulators, timed=False)
        digests = sha256(simulators), sha256(ours)

    samples: dict[str, list[float]] = {LOADING: [session.loading], IMAGE: [spent]}
    for name, runs in session.runs.items():
        samples[name] = [s for s, _ in runs]
        samples[f"{name} {OVERHEAD}"] = [s - cycles / COUNT_HZ for s, cycles in runs]
    command = f'dpubench f2-image {path} --card {card} --prompt "{request.prompt}" --seed {request.seed}'
    command += f" --steps {request.steps}" + (f" --image {image}" if image else "")
    said: dict[str, Any] = {"files": [path], "conditions": {"steps": str(request.steps)}, "command": command}
    return F2Image(
        command=command,
        provenance=identity.provenance.label,
        program=path.name,
        program_sha256=sha256(path),
        arch=program.arch.name,
        sources=toolchain.digest(toolchain.sources(TOP)),
        prompt=request.prompt,
        seed=request.seed,
        steps=request.steps,
        measurements=tuple(Measurement.of(name, "s", s, identity, **said) for name, s in samples.items()),
        cycles={name: sum(cycles for _, cycles in runs) for name, runs in session.runs.items()},
        counters=asdict(counters),
        sent_bytes=sent,
        received_bytes=received,
        mended=mended,
        wall_seconds=made.seconds,
        machine=here,
        simulator_png_sha256=digests[0],
        png_sha256=digests[1],
    )
