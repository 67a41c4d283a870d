"""A consistent set of evidence, made with the measuring code's own types on devices with the identities of tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dpu.bench import gate
from dpu.bench.estimate_cycles import digest, save
from dpu.errors import DpuError
from dpu.ir.arch import load_arch
from dpu.measurement import DeviceIdentity, Measurement, write_measurements

from tests.economics.shared import WORKLOAD, cycles_of, edited

GPU = DeviceIdentity(
    target="gpu", name="a GPU", marks={"uuid": "GPU-00000000-0000-0000-0000-000000000000", "driver": "580.1"}
)
F2 = DeviceIdentity(
    target="f2",
    name="an F2 card",
    marks={"instance": "i-00000000000000000", "afi": "agfi-00000000000000000", "sdk_sha256": "0" * 64},
)
SIM = DeviceIdentity(target="sim", name="simulator")
CPU = DeviceIdentity(target="cpu", name="a CPU", marks={"model": "a CPU"})
BINARY = "b" * 64
EXPERIMENT = {
    "model": "sdxl-base-1.0",
    "model_sha256": "a" * 64,
    "policy": "w8a8",
    "prompts_sha256": "c" * 64,
    "seeds": "0-19",
    "steps": "20",
    "guidance": "8.0",
    "scheduler": "euler",
    "resolution": "1024",
}
CLOCK = 250e6
FREE: dict[str, Any] = {"value": 0.0, "provenance": "assumed", "source": "a test"}


def cycles_in(seconds: float) -> dict[str, float]:
    """Cycles of one run that make up an image of 20 steps: nine tenths in the UNet."""
    return {"unet": 0.9 * seconds * CLOCK / 20, "vae_decoder": 0.1 * seconds * CLOCK}


def record(name: str, unit: str, samples: list[float], device: DeviceIdentity, **conditions: str) -> Measurement:
    return Measurement.of(name, unit, samples, device, command="a test", conditions={**EXPERIMENT, **conditions})


class EvidenceSet:
    """A folder of evidence. `seconds` is an image's time on the card."""

    def __init__(self, folder: Path, seconds: float = 1.0, arch: str = "dpu_f2", chip_seconds: float = 0.05) -> None:
        self.folder, self.arch, self.seconds = folder, arch, seconds
        self.workload = folder / "sdxl.json"
        self.workload.write_text(json.dumps(WORKLOAD))
        path = folder / "place.json"
        edited("economics/scenario_a.json", ("rented", "network"), {**FREE, "unit": "USD/GB"}, path)
        content = json.loads(path.read_text())
        content["rented"]["storage"] = {**FREE, "unit": "USD/h"}
        path.write_text(json.dumps(content))
        self.place = str(path) if arch == "dpu_f2" else "scenario_b"
        made = load_arch(arch)
        self.cycles = folder / f"{arch}.json"
        simulated = cycles_of(made, 50.0 if arch == "dpu_f2" else chip_seconds, digest(made))
        save(simulated.model_copy(update={"provenance": "simulated"}), self.cycles)
        self.files = {k: folder / k / n for k, n in _NAMES.items()}
        for file in self.files.values():
            file.parent.mkdir()
        self.write("gpu", self.gpu())
        self.write("fpga", self.fpga())
        self.write("simulated", self.simulated())
        self.write("quality", self.quality())

    @property
    def cycles_of_image(self) -> dict[str, float]:
        return cycles_in(self.seconds)

    def gpu(self, device: DeviceIdentity = GPU, count: int = 20, **conditions: str) -> list[Measurement]:
        return [
            record("images_per_second", "image/s", [1.4] * count, device, **conditions),
            record("board_power", "W", [680.0], device, **conditions),
        ]

    def fpga(
        self, device: DeviceIdentity = F2, scale: float = 1.0, count: int = 20, **conditions: str
    ) -> list[Measurement]:
        given = {"binary_sha256": BINARY, **conditions}
        return [
            record("seconds_per_image", "s", [self.seconds] * count, device, **given),
            record("board_power", "W", [90.0], device, **given),
            *(record(f"cycles.{k}", "cycle", [n * scale], device, **given) for k, n in self.cycles_of_image.items()),
        ]

    def simulated(self, **conditions: str) -> list[Measurement]:
        given = {"binary_sha256": BINARY, **conditions}
        return [record(f"cycles.{k}", "cycle", [n], SIM, **given) for k, n in self.cycles_of_image.items()]

    def quality(
        self, fid: float = 23.6, clip: float = 31.75, device: DeviceIdentity = CPU, **conditions: str
    ) -> list[Measurement]:
        scored = {"platform": "dpu", "dataset": "coco-2014-val", "images": "5000", "binary_sha256": BINARY}
        given = {**scored, **conditions}
        return [
            record("quality.fid", "1", [fid], device, **given),
            record("quality.clip", "1", [clip], device, **given),
        ]

    def score(self, name: str, unit: str, value: float) -> list[Measurement]:
        given = {"platform": "dpu", "images": "20", "binary_sha256": BINARY}
        return [record(f"quality.{name}", unit, [value] * 20, CPU, **given)]

    def write(self, role: str, records: list[Measurement]) -> None:
        write_measurements(self.files[role], records)

    def edit(self, role: str, change: Callable[[Any], object]) -> None:
        content = json.loads(self.files[role].read_text())
        change(content)
        self.files[role].write_text(json.dumps(content))

    def request(self, floors: Mapping[str, float] | None = None, **roles: tuple[Path, ...]) -> gate.Request:
        given = {k: (v,) if v.is_file() else () for k, v in self.files.items()} | roles
        return gate.Request(
            self.workload, (self.arch,), (self.place,), cycles={self.arch: self.cycles}, floors=floors or {}, **given
        )

    def decide(self, floors: Mapping[str, float] | None = None) -> gate.Decision:
        return gate.run(self.request(floors), identities_of_tests=True)

    def refused(self) -> str:
        try:
            found = self.decide()
        except DpuError as e:
            return str(e).replace(f"{self.folder}/", "")
        raise AssertionError(f"not refused: {found.verdict}")

    def said(self, condition: str) -> tuple[str, str, str]:
        """(verdict, status of the condition, what it says)."""
        (case,) = self.decide().cases
        (found,) = [c for c in case.conditions if c.name == condition]
        return case.verdict, found.status, found.said


_NAMES = {"gpu": "h200.json", "fpga": "card.json", "simulated": "sim.json", "quality": "images.json"}


def tying_seconds(folder: Path, advantage: float) -> float:
    """Seconds an image at which the card's image costs the cheapest GPU's over `advantage`: rent / (3600 u / s)."""
    (case,) = EvidenceSet(folder).decide().cases
    c = case.comparison
    assert c is not None and c.dpu.platform.rent is not None
    u = c.scenario.utilisation.value
    return c.cheapest.image.value / advantage * 3600 * u / c.dpu.platform.rent.value
