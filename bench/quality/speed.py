"""What an image takes a device at each precision: the small model's programs timed, full-size SDXL estimated.

The timing simulation runs the program of each precision on its own arch, and one of the same policy on `ALSO`: cycles
do not depend on data. Full-size SDXL is the compiler's estimate (`dpuc compile --estimate --precision`), and its price
and energy at the wall those of `dpubench evaluate`: a rented F2 card, or the chip in the scenario named.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ...errors import DpuError
from ...files import atomic_write, sha256
from ...ir.arch import Arch, load_arch
from ...passes.policy import Policy
from ...simulator.economics.workload import runs_of
from .pictures import folder_name
from .plan import Plan, program_path
from .results import Cost
from .variants import parse_variant

if TYPE_CHECKING:
    from ...simulator.report import ProgramReport

ALSO = "dpu_f2"
"""Where the small model's policies are timed too: `dpubench policy-search` searches for it."""
FULL_ARCHS = ("dpu_f2", "dpu_32tops")
SCENARIO = "scenario_a"
Say = Callable[[str], None]


def tiny(work: Path, precision: str, steps: int) -> Cost:
    """Of the small model's program, timed once and kept beside it.

    Raises:
        DpuError: there is no program.
    """
    from ...runtime.reports import time_program

    path = program_path(work, precision)
    entries = _timed(path.with_suffix(".time.json"), ("timing", sha256(path)), lambda: time_program(path))
    return _cost(precision, steps, entries, "timing simulation of the program, each entry once")


def elsewhere(work: Path, plan: Plan, precision: str, steps: int, arch: str = ALSO) -> Cost:
    """Of the small model on another arch than the pictures', timed once and kept beside the program.

    Raises:
        DpuError: an operation does not fit the arch.
    """
    policy, out = parse_variant(precision).policy, program_path(work, precision).with_suffix(f".{arch}.time.json")
    made_from = ("elsewhere", load_arch(arch).digest, policy.digest, str(plan.size))
    entries = _timed(out, made_from, lambda: time_policy(work / "export", policy, arch, plan.size))
    return _cost(precision, steps, entries, "timing simulation of the same policy's program, each entry once")


def time_policy(export: Path, policy: Policy, arch: str | Arch, size: int) -> ProgramReport:
    """The timing simulation of a policy's program, which needs no calibration.

    Raises:
        DpuError: a rule has no effect, or an operation does not fit the arch.
    """
    from ...codegen.driver import compile_folder
    from ...runtime.reports import time_program

    with TemporaryDirectory() as folder:
        path = Path(folder) / "program.dpu"
        compile_folder(export, arch=arch, precision=policy, uncalibrated=True, size=(size, size), out=path)
        return time_program(path)


def _cost(precision: str, steps: int, entries: dict[str, Any], source: str) -> Cost:
    runs = {e: runs_of(e, steps) for e in entries["entries"]}
    sums = {k: sum(n * entries["entries"][e][k] for e, n in runs.items()) for k in ("seconds", "dram_bytes", "joules")}
    return Cost(
        precision=folder_name(precision),
        model="tiny",
        arch=entries["arch"],
        steps=steps,
        seconds=sums["seconds"],
        dram_bytes=int(sums["dram_bytes"]),
        joules=sums["joules"],
        joules_are=f"of the device at {entries['node']} nm: simulated counts times published and assumed constants",
        provenance="simulated",
        source=source,
    )


def _timed(out: Path, made_from: Sequence[str], time: Callable[[], ProgramReport]) -> dict[str, Any]:
    digest = _digest(*made_from)
    if out.is_file() and (kept := json.loads(out.read_text()))["key"] == digest:
        return dict(kept)
    report = time()
    found = {
        "key": digest,
        "arch": report.arch,
        "node": report.entries[0].energy.node_nm,
        "entries": {
            e.entry: {
                "seconds": e.seconds,
                "dram_bytes": e.bytes_read + e.bytes_written,
                "joules": e.energy.total.value,
            }
            for e in report.entries
        },
    }
    with atomic_write(out) as temporary:
        temporary.write_text(json.dumps(found, indent=1) + "\n")
    return found


def full_size(work: Path, precision: str, steps: int, say: Say = lambda _: None) -> list[Cost]:
    """Of full-size SDXL on `FULL_ARCHS`; kept in the work folder until the sources change.

    Raises:
        DpuError: an operation does not fit an arch.
    """
    policy = parse_variant(precision).policy
    name = folder_name(precision)
    if any(rule.layers != "*" for rule in policy.rules) and ".json" in precision:
        say(f"{name}: rules name layers of the small model; no estimate of full-size SDXL")
        return []
    out = work / "programs" / f"{name}.sdxl-{steps}.json"
    digest = _digest("estimate", policy.digest, SCENARIO, str(steps), *(load_arch(a).digest for a in FULL_ARCHS))
    if out.is_file() and (kept := json.loads(out.read_text()))["key"] == digest:
        return [Cost.model_validate(c) for c in kept["costs"]]
    say(f"estimating full-size SDXL at {policy.name} ...")
    costs = _estimated(precision, steps)
    with atomic_write(out) as temporary:
        rows = [c.model_dump(mode="json") for c in costs]
        temporary.write_text(json.dumps({"key": digest, "costs": rows}, indent=1) + "\n")
    return costs


def _estimated(precision: str, steps: int) -> list[Cost]:
    from ...simulator.economics.compare import compare
    from ...simulator.economics.inputs import accelerator, card_for, scenario, shipped, silicon
    from ..estimate_cycles import estimate

    policy = parse_variant(precision).policy
    found = []
    archs = [load_arch(name) for name in FULL_ARCHS]
    for arch, cycles in zip(archs, estimate(archs, steps, policy=policy), strict=True):
        gpus = [accelerator(n) for n in shipped("gpu")]
        card = card_for(arch.name)
        made = compare(scenario(SCENARIO), arch, cycles, gpus, silicon("silicon"), card=card).dpu
        where = f"on {card.title}" if card else "as a chip"
        found.append(
            Cost(
                precision=folder_name(precision),
                model="sdxl",
                arch=arch.name,
                steps=steps,
                seconds=cycles.sums("cycles") / arch.clock_hz,
                dram_bytes=cycles.sums("dram_bytes"),
                joules=made.busy_energy.to("J/image").value,
                joules_are="at the wall while busy, host share included",
                usd_a_thousand=made.thousand.value,
                provenance="assumed",
                source=f"the compiler's estimate; {where}, price and energy of dpubench evaluate, {SCENARIO}",
            )
        )
    return found


def _digest(*what: str) -> str:
    from ..sweep_work import code_digest

    return hashlib.sha256(json.dumps([*what, code_digest()]).encode()).hexdigest()


def costs(
    work: Path, plan: Plan, precisions: Sequence[str], steps: Sequence[int], say: Say = lambda _: None
) -> list[Cost]:
    """Of every precision that has a program, at every number of steps.

    Raises:
        DpuError: see `tiny` and `elsewhere`; what `full_size` refuses is said and left out.
    """
    found = []
    for precision in precisions:
        for count in steps:
            say(f"timing {folder_name(precision)}, {count} steps ...")
            found.append(tiny(work, precision, count))
            if plan.arch != ALSO:
                found.append(elsewhere(work, plan, precision, count))
            try:
                found += full_size(work, precision, count, say)
            except DpuError as e:
                say(f"no estimate of full-size SDXL at {folder_name(precision)}: {e.what}")
    return found
