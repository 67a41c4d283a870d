"""Cycles of one SDXL image on an arch: the compiler's estimate as a file, or those of a simulation that was run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import DpuError, refusing
from ..files import atomic_write
from ..ir.arch import Arch
from ..simulator.economics.inputs import folder
from ..simulator.economics.schema import Stated
from ..simulator.economics.workload import Cycles, EntryCycles, read_cycles, runs_of, sdxl_cycles

if TYPE_CHECKING:
    from ..passes.policy import Policy

ROOT = Path(__file__).parent.parent
STORED = ROOT / "results" / "estimate"
COMPARED = ROOT / "results" / "sim" / "estimate.json"
"""The estimate beside the timing simulation, entry by entry (`dpubench estimate-error`)."""
UNCOMPARED = (0.8, 1.25)
"""Range of true over estimated cycles of an arch whose UNet was not simulated: no source."""


def digest(arch: Arch) -> str:
    """Over all fields of an arch, the DRAM's timing included."""
    return hashlib.sha256(json.dumps(arch.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()


def error(arch: str, compared: Path = COMPARED) -> Stated:
    """By how much the true cycles of an arch exceed the estimate: from its entries that were simulated in full.

    Raises:
        DpuError: the file of `dpubench estimate-error` is damaged.
    """
    ratios: dict[str, float] = {}
    if compared.is_file():
        with refusing(str(compared), "is no table of this version", hint="dpubench estimate-error --help", code="E520"):
            entries = json.loads(compared.read_text())["entries"]
            ratios = {e["entry"]: e["simulated"] / e["estimated"] for e in entries if e["arch"] == arch}
    if "unet" in ratios:
        low, high = min(1.0, *ratios.values()), max(1.0, *ratios.values())
        source = f"timing simulation of all entries over the estimate: {low:.3f} to {high:.3f}"
    else:
        low, high = UNCOMPARED
        source = "no source: the UNet of this arch was not simulated"
    source += " (dpubench estimate-error)"
    return Stated(value=1.0, unit="1", provenance="assumed", source=source, low=round(low, 4), high=round(high, 4))


def estimate(
    archs: Sequence[Arch],
    steps: int = 20,
    say: Callable[[str], None] = lambda _: None,
    policy: Policy | None = None,
) -> list[Cycles]:
    """The cycles of full-size SDXL on each arch, in W8A8 or as `policy` says; the graphs are imported once.

    Raises:
        DpuError: an operation does not fit an arch.
    """
    from ..codegen.estimate import Workload
    from ..runtime.gpu.identity import commit

    found_at = commit()  # with `+` where files differ from it
    at = f" at commit {found_at[:8]}{'+' if found_at.endswith('+') else ''}" if found_at else ""
    say("importing the graphs of configs/workload/sdxl_base ...")
    workload = Workload(folder() / "workload" / "sdxl_base", policy=policy)
    how = f" --precision {policy.name}" if policy else ""
    found = []
    for arch in archs:
        say(f"estimating {arch.name} ...")
        entries = [
            EntryCycles(
                entry=e.entry,
                cycles=e.cycles,
                macs=e.macs,
                executed=e.executed,
                dram_bytes=e.bytes,
                runs=runs_of(e.entry, steps),
            )
            for e in workload.estimate(arch)
        ]
        source = f"dpubench estimate --arch {arch.name}{how}{at}: the words of the fullest tile, timed"
        found.append(sdxl_cycles(arch, steps, entries, error(arch.name), source, arch_sha256=digest(arch)))
    return found


SIMULATED = Stated(
    value=1.0,
    unit="1",
    provenance="assumed",
    source="timing model against the RTL: within 2.0 % on every layer compared (simulator/README.md)",
    low=0.98,
    high=1.02,
)


def read(path: Path, arch: Arch, steps: int) -> Cycles:
    """Cycles from a file of `dpubench estimate`, a report of `dpuc report`, or a table of `dpubench sizes`.

    Raises:
        DpuError: it is none of them, or of another arch.
    """
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        content = None
    if isinstance(content, dict) and content.get("format") == "dpu-report-2":
        return _of_report(path, arch, steps)
    if isinstance(content, dict) and str(content.get("command", "")).startswith("dpubench sizes"):
        return _of_sizes(path, arch, steps)
    return read_cycles(path, arch, digest(arch))


def _simulated(arch: Arch, steps: int, source: str, entries: Sequence[EntryCycles]) -> Cycles:
    return sdxl_cycles(arch, steps, entries, SIMULATED, source, provenance="simulated", arch_sha256=digest(arch))


def _of_report(path: Path, arch: Arch, steps: int) -> Cycles:
    """The entries of a timed program."""
    from ..simulator.report import load_report

    report = load_report(path)
    if report.arch_digest != arch.digest:
        raise DpuError(
            str(path),
            f"field 'arch_digest': value is '{report.arch_digest}' (arch '{report.arch}'), allowed: '{arch.digest}',"
            f" that of '{arch.name}'",
            hint=f"time a program that was compiled for {arch.name}",
            code="E522",
        )
    entries = [
        EntryCycles(
            entry=e.entry,
            cycles=e.cycles,
            macs=e.logical_macs,
            executed=e.executed_macs,
            dram_bytes=e.bytes_read + e.bytes_written,
            runs=runs_of(e.entry, steps),
        )
        for e in report.entries
    ]
    return _simulated(arch, steps, f"dpuc report, {path.name}: timing simulation of the program", entries)


def _of_sizes(path: Path, arch: Arch, steps: int) -> Cycles:
    """The timed programs of 1024x1024 with guidance; text encoders (0.2 % of the MACs) are not among them."""
    from .sizes import SizesResult

    with refusing(str(path), "is no table of this version", hint="dpubench sizes --help", code="E520"):
        rows = SizesResult.model_validate_json(path.read_text()).rows
    found: list[EntryCycles] = []
    for part, batch in (("unet", 2), ("vae_decoder", 1)):
        name = f"{part}-1024x1024-b{batch}-{arch.name}"
        row = next((r for r in rows if r.case.name == name), None)
        if row is None or not row.entries or not row.timed:
            what = "has no" if row is None or not row.entries else "has not timed"
            raise DpuError(
                str(path), f"{what} '{name}'", hint="dpubench sizes with --timed, for this arch", code="E522"
            )
        for entry, e in row.entries.items():
            found.append(
                EntryCycles(
                    entry=entry,
                    cycles=e.cycles or 0,
                    macs=e.macs,
                    executed=e.executed,
                    dram_bytes=(e.bytes_read or 0) + (e.bytes_written or 0),
                    runs=runs_of(entry, steps),
                )
            )
    return _simulated(arch, steps, f"dpubench sizes, {path.name}: timing simulation, without text encoders", found)


def save(cycles: Cycles, path: Path) -> None:
    """As JSON, atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(cycles.model_dump_json(indent=1, by_alias=True, exclude_none=True) + "\n")


def text(cycles: Cycles) -> str:
    """For people."""
    total = cycles.sums("cycles")
    return (
        f"{cycles.arch}: {total:,} cycles, {total / cycles.clock_hz:.2f} s an image of {cycles.task.steps} steps, "
        f"{cycles.sums('executed') / 1e12:.1f} TMAC executed, {cycles.sums('dram_bytes') / 1e9:.0f} GB of DRAM"
        f" (provenance: {cycles.provenance})"
    )
