"""The evidence files of the gate: read more strictly than elsewhere, and what experiment each is about.

A file is `dpu.measurements/1`. Refused (exit code 2): another version, NaN or infinity anywhere, a value that does not
follow from its samples, a sample of a quantity that is not above 0, a file beside it or a `.dpu` of another digest than
stated, records of one file that are about different experiments, and identities that tests use (all zeros), which no
real device has. What is read may still be a stand-in
or not fit: that is a condition (`gate_conditions.py`). Records are not signed: the gate shows that evidence is
consistent, not that its author is honest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from ..errors import DpuError
from ..evidence import Provenance
from ..files import sha256
from ..measurement import SCHEMA, Measurement, read_measurements

EXPERIMENT = (
    *("model", "model_sha256", "policy", "prompts_sha256", "seeds"),
    *("steps", "guidance", "scheduler", "resolution"),
)
"""Conditions that say what was run. `policy` is the precision policy, by name or digest; `seeds` as in `0-49`."""

BINARY = "binary_sha256"
"""The condition that names the `.dpu` file that ran."""


@dataclass(frozen=True)
class Evidence:
    """One file: its records by name, and the experiment that those which state one are about."""

    path: Path
    digest: str
    records: Mapping[str, Measurement]
    experiment: Mapping[str, str]

    @property
    def binary(self) -> str:
        """Digest of the program that ran; empty where no record names one."""
        return next((m.conditions[BINARY] for m in self.records.values() if BINARY in m.conditions), "")

    def without_hardware(self) -> list[str]:
        """Records that no real device gave, with what did."""
        found = []
        for name, m in self.records.items():
            if m.device.provenance is not Provenance.MEASURED:
                what = m.device.stand_in or f"target '{m.device.target}'"
                found.append(f"'{name}' is {m.device.provenance.label} ({what})")
        return found

    def named(self, prefix: str) -> dict[str, Measurement]:
        """Records whose name begins so, by the rest of it."""
        return {k.removeprefix(prefix): m for k, m in self.records.items() if k.startswith(prefix)}


def read_evidence(path: Path, identities_of_tests: bool = False) -> Evidence:
    """One file of measurements. `identities_of_tests` is for tests alone: no command sets it.

    Raises:
        DpuError: see the head of this file.
    """

    def constant(text: str) -> NoReturn:
        raise ValueError(f"'{text}' is no number")

    try:
        content = json.loads(path.read_text(), parse_constant=constant)
    except FileNotFoundError as e:
        raise DpuError(str(path), "no such file", code="E106") from e
    except (OSError, ValueError) as e:
        raise DpuError(str(path), f"is no readable JSON ({e})", hint="measure again", code="E520") from e
    seen = (content.get("format") or content.get("schema")) if isinstance(content, dict) else None
    if seen != SCHEMA:
        hint = "measure again with this version"
        raise DpuError(str(path), f"field 'format': value is {seen!r}, allowed: '{SCHEMA}'", hint=hint, code="E521")
    records = read_measurements(path)
    for name, m in records.items():
        m.check_files(path.parent)
        _refuse_impossible(path, name, m)
        if not identities_of_tests:
            _refuse_test_identity(path, name, m)
    return Evidence(path, sha256(path), records, _experiment(path, records, EXPERIMENT))


def _refuse_impossible(path: Path, name: str, m: Measurement) -> None:
    """Times, powers, rates and counts are above 0; a `.dpu` among the files is the binary that the record names."""
    if m.unit != "dB" and (low := min(m.samples)) <= 0:
        raise DpuError(str(path), f"measurement '{name}': sample is {low:g} {m.unit}, allowed: above 0", code="E523")
    for file, digest in m.files.items():
        if file.endswith(".dpu") and digest != m.conditions.get(BINARY):
            raise DpuError(
                str(path),
                f"measurement '{name}': condition '{BINARY}': value is '{m.conditions.get(BINARY, '')[:16]}', allowed:"
                f" '{digest[:16]}', the digest of '{file}'",
                code="E523",
            )


def _refuse_test_identity(path: Path, name: str, m: Measurement) -> None:
    for mark, value in m.device.marks.items():
        digits = re.sub(r"^[A-Za-z]+-|[^0-9a-zA-Z]", "", value)
        if mark in ("uuid", "instance", "afi", "xclbin_uuid") and digits and not digits.strip("0"):
            raise DpuError(
                str(path),
                f"measurement '{name}': {mark} '{value}' is the identity that tests use",
                why="no real device has it",
                hint="measure on a device",
                code="E523",
            )


def _experiment(path: Path, records: Mapping[str, Measurement], keys: Iterable[str]) -> dict[str, str]:
    """What the records are about, refused where two disagree; whole images at other step counts are left aside."""
    found: dict[str, str] = {}
    where: dict[str, str] = {}
    for name, m in records.items():
        if re.match(r"(images|step|server)\.", name):  # of `dpubench gpu`, which sweeps steps and batches on purpose
            continue
        for key in (*keys, BINARY):
            if key in m.conditions and found.setdefault(key, m.conditions[key]) != m.conditions[key]:
                raise DpuError(
                    str(path),
                    f"measurement '{name}': condition '{key}': value is '{m.conditions[key]}', allowed: '{found[key]}',"
                    f" as in '{where[key]}'",
                    why="one file is evidence of one experiment",
                    hint="measure all of it with the same model, prompts, seeds and settings",
                    code="E522",
                )
            if key in m.conditions:
                where.setdefault(key, name)
    found.pop(BINARY, None)
    return found


def read_all(paths: Iterable[Path], identities_of_tests: bool = False) -> list[Evidence]:
    """Several files.

    Raises:
        DpuError: one of them is refused.
    """
    return [read_evidence(p, identities_of_tests) for p in paths]


def stored(folder: Path) -> list[Path]:
    """The measurement files of a folder of results; files of other formats there are not evidence of the gate."""
    found = []
    for path in sorted(folder.glob("*.json")):
        head = path.read_text(errors="replace")[:400]
        if re.search(r'"(format|schema)":\s*"dpu\.measurements/', head):
            found.append(path)
    return found
