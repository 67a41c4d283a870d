"""Measurements: raw samples, the device they were taken on, the files that went in. The only source of `measured`.

A record says which target ran the work. Only real hardware that can be told apart from a stand-in (`HARDWARE`: which
marks it must carry) gives `measured`; simulator, Verilator and every stand-in give `simulated`, whoever writes the
file. Whoever reads a record computes its value again from the samples, and refuses one that differs.

    m = Measurement.of("seconds_per_image", "s", samples, device, command="...", conditions={"steps": "20"})
    m.quantity()                            # measured, or simulated on a stand-in
    write_measurements(path, [m]); read_measurements(path)
"""

from __future__ import annotations

import hashlib
import json
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite, sqrt
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from .errors import DpuError
from .evidence import Provenance, Quantity
from .files import atomic_write, sha256
from .units import parse

SCHEMA = "dpu.measurements/1"

HARDWARE: dict[str, dict[str, str]] = {
    "gpu": {"uuid": r"(GPU|MIG)-[0-9a-fA-F-]{36}", "driver": r"\d+\.\d+.*"},
    "f2": {"instance": r"i-[0-9a-f]{8,17}", "afi": r"agfi-[0-9a-f]{17}", "sdk_sha256": r"[0-9a-f]{64}"},
    "xrt": {"xclbin_uuid": r"[0-9a-fA-F-]{36}", "bdf": r"[0-9a-fA-F:.]{7,12}"},
    "cpu": {"model": r".+"},
    "power-meter": {"serial": r".+"},
}
"""Targets that can be measured, and the marks (regular expressions) that show that it was the real device."""

STAND_INS = ("sim", "rtl", "estimate")
"""Targets that are models: what they say is simulated, always."""

Statistic = Literal["median", "mean"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DeviceIdentity(_Record):
    """What ran the work. `stand_in` says what took the device's place, if anything did."""

    target: str
    name: str
    marks: dict[str, str] = {}
    stand_in: str = ""

    @model_validator(mode="after")
    def _known(self) -> DeviceIdentity:
        if self.target not in HARDWARE and self.target not in STAND_INS:
            raise ValueError(f"target '{self.target}' is none of {', '.join((*HARDWARE, *STAND_INS))}")
        for mark, pattern in HARDWARE.get(self.target, {}).items():
            seen = self.marks.get(mark, "")
            if not self.stand_in and not re.fullmatch(pattern, seen):
                raise ValueError(
                    f"'{seen}' is no {mark} of a {self.target} device: name the device, or say what stands in for it"
                )
        return self

    @property
    def provenance(self) -> Provenance:
        """`measured` of real hardware only."""
        real = self.target in HARDWARE and not self.stand_in
        return Provenance.MEASURED if real else Provenance.SIMULATED


def summary(samples: Sequence[float], statistic: Statistic) -> tuple[float, float | None]:
    """(value, its standard error) of samples; the error is none for one sample.

    The standard error of a mean is s / sqrt(n), of a median sqrt(pi / 2) times that (large n, normal samples).
    """
    value = statistics.fmean(samples) if statistic == "mean" else statistics.median(samples)
    if len(samples) < 2:
        return value, None
    error = statistics.stdev(samples) / sqrt(len(samples))
    return value, error * (1.0 if statistic == "mean" else 1.2533141373155001)


class Measurement(_Record):
    """One measured number with what it was made from. `files` are digests (sha256) of what went in and came out."""

    name: str
    unit: str
    statistic: Statistic
    value: float
    uncertainty: float | None
    samples: tuple[float, ...]
    device: DeviceIdentity
    command: str
    date: str
    files: dict[str, str] = {}
    conditions: dict[str, str] = {}

    @field_validator("unit")
    @classmethod
    def _unit(cls, unit: str) -> str:
        parse(unit)
        return unit

    @model_validator(mode="after")
    def _follows(self) -> Measurement:
        if not self.samples or not all(isfinite(s) for s in self.samples):
            raise ValueError("samples must be one or more finite numbers")
        value, error = summary(self.samples, self.statistic)
        if not abs(value - self.value) <= 1e-9 * abs(value):  # NaN agrees with nothing
            raise ValueError(f"value {self.value:g} is not the {self.statistic} of its samples, {value:g}")
        difference = abs((error or 0) - (self.uncertainty or 0))
        if (error is None) != (self.uncertainty is None) or not difference <= 1e-9 * abs(value):
            raise ValueError(f"uncertainty {self.uncertainty} does not follow from the samples, {error}")
        if bad := [name for name, digest in self.files.items() if not re.fullmatch(r"[0-9a-f]{64}", digest)]:
            raise ValueError(f"file '{bad[0]}' has no sha256 digest")
        return self

    @classmethod
    def of(
        cls,
        name: str,
        unit: str,
        samples: Sequence[float],
        device: DeviceIdentity,
        *,
        command: str,
        statistic: Statistic = "median",
        files: Iterable[Path] = (),
        conditions: Mapping[str, str] | None = None,
    ) -> Measurement:
        """The record of samples taken now; the value is computed here, the files are read for their digests."""
        value, error = summary(samples, statistic)
        return cls(
            name=name,
            unit=unit,
            statistic=statistic,
            value=value,
            uncertainty=error,
            samples=tuple(samples),
            device=device,
            command=command,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            files={p.name: sha256(p) for p in files},
            conditions=dict(conditions or {}),
        )

    @property
    def digest(self) -> str:
        """Hex digest of the whole record: what a measured quantity carries."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def quantity(self, name: str = "") -> Quantity:
        """The number, with the provenance that its device allows."""
        d = self.device
        stand_in = f", {d.stand_in} standing in" if d.stand_in else ""
        return Quantity(
            value=self.value,
            unit=self.unit,
            provenance=d.provenance,
            source=f"{self.statistic} of {len(self.samples)} on {d.name} ({d.target}{stand_in}), {self.date}: "
            f"{self.command}",
            uncertainty=self.uncertainty,
            name=name or self.name,
            record=self.digest if d.provenance is Provenance.MEASURED else "",
        )

    def check_files(self, folder: Path) -> None:
        """Refuse a file of the record that lies in `folder` with other contents.

        Raises:
            DpuError: the digest differs.
        """
        for name, digest in self.files.items():
            path = folder / name
            if path.is_file() and (seen := sha256(path)) != digest:
                raise DpuError(
                    str(path),
                    f"sha256 is {seen[:16]}..., the measurement '{self.name}' was made with {digest[:16]}...",
                    why="the number belongs to another file",
                    code="E523",
                )


def write_measurements(path: Path, measurements: Sequence[Measurement]) -> None:
    """A results file of measurements, atomically."""
    found = {"format": SCHEMA, "measurements": [m.model_dump(mode="json") for m in measurements]}
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(found, indent=1) + "\n")


def read_measurements(path: Path) -> dict[str, Measurement]:
    """The measurements of a results file by name, each computed again from its samples.

    The file may hold more than these: any JSON object with a list `measurements`.

    Raises:
        DpuError: unreadable, or a record does not follow from its samples, names no device, or occurs twice.
    """
    try:
        content: Any = json.loads(path.read_text())
        records = content["measurements"]
        pairs = [(i, Measurement.model_validate(r)) for i, r in enumerate(records)]
    except ValidationError as e:
        first = e.errors()[0]
        field = ".".join(str(x) for x in first["loc"])
        what = first["msg"].removeprefix("Value error, ")
        raise DpuError(str(path), f"measurement: {f'{field}: ' if field else ''}{what}", code="E523") from e
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise DpuError(str(path), f"holds no measurements ({type(e).__name__})", code="E523") from e
    found: dict[str, Measurement] = {}
    for i, m in pairs:
        if m.name in found:
            raise DpuError(str(path), f"measurement {i}: '{m.name}' occurs twice", code="E523")
        found[m.name] = m
    return found
