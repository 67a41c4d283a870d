"""Rooflines of the GPU and the DPUs in the same axes: what each part of an image attains, and what bounds it.

x is MACs a byte, y MACs a second. The DPU's are executed MACs over bytes at its DRAM, from the timing simulation of
whole programs (`dpubench tables`). The GPU's are MACs over the bytes of the operands and results of all products in
float16, each moved once (counted, `dpubench profile`), since no counter of its DRAM was read; seconds are measured.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict

from ...errors import DpuError, refusing
from ...evidence import Provenance
from ...ir.arch import load_arch
from ...measurement import Measurement, read_measurements
from ...simulator.economics.inputs import accelerator, find
from ...simulator.economics.schema import Bounds, ByteRate, Config, Stated, load
from ...simulator.economics.workload import WorkPart
from ..gpu_roofline import GpuRoofline
from ..image_tables import ArchTable
from ..image_tables import read as read_tables
from .marks import short_commit
from .missing import Missing

PEAK = "dpu.peak/1"
MacRate = Annotated[Stated, AfterValidator(Bounds("TMAC/s", 0, 1e6, open_low=True))]
_PRODUCTS = ("linear", "convolution", "attention")
BYTES = Provenance.SIMULATED
"""Of the x of all points: no counter of a DRAM was read, bytes are a model's or counted from shapes."""
LAYERS = "layers, eager"
"""The series of single layers."""
_ENGINES = {"ort": "ONNX Runtime", "torch": "torch.compile"}


class Peak(Config):
    """What a GPU could do at most: dense products by type, and its memory. Files of configs/peak."""

    format: Literal["dpu.peak/1"]
    name: str
    rates: dict[str, MacRate]
    memory: ByteRate


@dataclass(frozen=True)
class Roof:
    """A limit: MACs a second, or with `slanted` bytes a second."""

    name: str
    rate: float
    slanted: bool
    provenance: Provenance
    source: str


@dataclass(frozen=True)
class Point:
    """What one part of the work attains."""

    name: str
    x: float
    y: float
    provenance: Provenance
    source: str


@dataclass(frozen=True)
class Roofline:
    """One device. `series` holds points by what ran them."""

    device: str
    title: str
    roofs: tuple[Roof, ...]
    series: Mapping[str, tuple[Point, ...]]

    @property
    def points(self) -> tuple[Point, ...]:
        """All of them."""
        return tuple(p for found in self.series.values() for p in found)


class _Class(BaseModel):
    model_config = ConfigDict(frozen=True)

    macs: int
    bytes: int


class _Part(WorkPart):
    weight_bytes: int
    classes: dict[str, _Class]

    def intensity(self, samples: int) -> float:
        """MACs a byte of the products of `samples` together: their weights are moved once."""
        each = sum(self.classes[k].bytes for k in _PRODUCTS if k in self.classes)
        return samples * self.macs / (samples * (each - self.weight_bytes) + self.weight_bytes)


class _Counts(BaseModel):
    model_config = ConfigDict(frozen=True)

    steps: int
    parts: tuple[_Part, ...]


def counts(path: Path) -> _Counts | Missing:
    """Bytes and MACs of each part; an older workload file has none by class.

    Raises:
        DpuError: unreadable, or of another form.
    """
    with refusing(str(path), "is no workload file", hint="dpubench profile --output FILE", code="E520"):
        content: dict[str, Any] = json.loads(path.read_text())
        if not all("classes" in p for p in content["parts"]):
            why = "without bytes there is no roofline of the GPU"
            return Missing(f"bytes by class of operation in {path.name}", why, f"dpubench profile --output {path}")
        return _Counts.model_validate(content)


def peak(name: str) -> Peak | Missing:
    """The peaks of a GPU."""
    try:
        return load(find("peak", name), Peak, PEAK)
    except DpuError as e:
        if e.code != "E106":
            raise
        return Missing(f"peak rates of {name}", "the GPU's roofline has no roof", f"write configs/peak/{name}.json")


def gpu(file: Path, workload: Path) -> Roofline | Missing:
    """Of a results file of `dpubench gpu`: UNet and VAE decoder by engine, and layers where they were timed."""
    base = file.stem.split("-")[0]
    if not file.is_file():
        command = (
            f"dpubench gpu -o out/gpu --points step-torch,step-ort,images-20; dpubench gpu -o out/gpu --merge {file}"
        )
        return Missing(f"measurements of a GPU ({file.name})", "nothing shows what a GPU attains", command)
    known = peak(base)
    if isinstance(known, Missing):
        return known
    counted = counts(workload)
    if isinstance(counted, Missing):
        return counted
    records = read_measurements(file)
    series = {title: found for key, title in _ENGINES.items() if (found := _of_engine(records, key, counted))}
    if published := _published(base, counted):
        series["MLPerf's best, whole images"] = (published,)
    roofs = [
        *(_roof(f"{kind} peak", s, "MAC/s", slanted=False) for kind, s in known.rates.items()),
        _roof("memory", known.memory, "byte/s", slanted=True),
    ]
    layers = file.parent / "roofline.json"
    if layers.is_file():
        with refusing(str(layers), "is no roofline of dpubench gpu", hint="dpubench gpu --merge FILE", code="E520"):
            measured = GpuRoofline.model_validate_json(layers.read_text())
        source = f"{layers.name}: dpubench gpu, layer by layer, eager"
        series[LAYERS] = tuple(Point(p.name, p.x, p.y, Provenance.MEASURED, source) for p in measured.points)
    return Roofline(base, next(iter(records.values())).device.name, tuple(roofs), series)


def _roof(name: str, stated: Stated, unit: str, slanted: bool) -> Roof:
    q = stated.quantity("").to(unit)
    return Roof(name, q.value, slanted, q.provenance, stated.source)


def _of_engine(records: Mapping[str, Measurement], engine: str, counted: _Counts) -> tuple[Point, ...]:
    """The fastest UNet forward of two samples and VAE decoder of one image, of one engine."""
    parts = {p.name: p for p in counted.parts}
    wanted = {
        "unet": (2, [k for k in records if k.startswith(f"step.{engine}") and k.endswith(".b2.latency")]),
        "vae_decoder": (
            1,
            [
                k
                for k in records
                if k.startswith(f"images.{engine}") and k.endswith(f"n1.{counted.steps}steps.vae_decoder")
            ],
        ),
    }
    found = []
    for part, (samples, names) in wanted.items():
        if names and part in parts:
            m = min((records[n] for n in names), key=lambda m: m.value)
            work = parts[part]
            source = f"{m.name}: {m.value:.4g} s, {m.device.name}"
            rate = samples * work.macs / m.value
            found.append(Point(part, work.intensity(samples), rate, m.device.provenance, source))
    return tuple(found)


def _published(name: str, counted: _Counts) -> Point | None:
    """The published rate of whole images."""
    stated = accelerator(name).offline
    if stated is None:
        return None
    macs = sum(p.macs * p.runs for p in counted.parts)
    moved = sum(p.macs * p.runs / p.intensity(2 if p.name == "unet" else 1) for p in counted.parts)
    rate = stated.quantity("").to("image/s")
    return Point("whole image, FP8", macs / moved, rate.value * macs, rate.provenance, stated.source)


def tables(path: Path) -> dict[str, ArchTable] | Missing:
    """The archs whose programs were simulated, by name."""
    if not path.is_file():
        why = "the DPU's rooflines and the check of the estimate need programs simulated in full"
        return Missing("the timing simulation of full-size programs", why, f"dpubench tables PROGRAM... -o {path}")
    try:
        return {a.arch: a for a in read_tables(path).archs}
    except DpuError as e:  # its own hint is for who writes the file
        hint = f"make it again: dpubench tables PROGRAM... -o {path}"
        raise DpuError(str(path), "holds no tables of dpubench tables", hint=hint, code="E520") from e


def dpu(name: str, found: Mapping[str, ArchTable] | Missing) -> Roofline | Missing:
    """Entries of an arch on the timing simulation."""
    if isinstance(found, Missing):
        return found
    arch, command = load_arch(name), f"dpubench tables PROGRAM... -o results/sim/tables.json (programs of {name})"
    if arch.name not in found:
        return Missing(f"the timing simulation of {arch.name}", "its roofline is drawn from it", command)
    table = found[arch.name]
    if table.arch_digest != arch.digest:
        why = f"the arch file has changed since ({table.arch_digest}, now {arch.digest})"
        return Missing(f"the timing simulation of today's {arch.name}", why, command)
    source = f"{table.command}, commit {short_commit(table.commit)}"
    points = tuple(
        Point(e.entry, e.executed_macs / e.bytes, e.executed_macs / e.seconds, Provenance.SIMULATED, source)
        for e in table.entries
        if e.executed_macs and e.bytes
    )
    said = f"arch file {arch.name}: a design choice"
    roofs = (
        Roof("array peak", table.peak_macs_per_cycle * table.clock_hz, False, Provenance.ASSUMED, said),
        Roof("memory, sustained", table.dram_bytes_per_second, True, Provenance.ASSUMED, f"{said}; {table.dram}"),
    )
    return Roofline(arch.name, f"{arch.name}: {table.dram}", roofs, {arch.name: points})
