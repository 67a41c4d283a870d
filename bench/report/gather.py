"""Everything the page says, gathered by the functions of the other verbs: nothing here computes a cost of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path

from ...errors import DpuError, refusing
from ...evidence import Provenance
from ...ir.arch import load_arch
from ...runtime.gpu.identity import commit
from ...simulator.economics.compare import Comparison
from ...simulator.economics.inputs import Task, scenario, silicon
from ...simulator.economics.traffic import Traffic, traffic
from ...simulator.economics.workload import read_workload
from .. import gate
from ..gate_evidence import stored
from ..image_tables import ArchTable
from ..uncertainty import Report
from ..uncertainty import run as uncertainty
from . import roofs, tapeout
from .frontier import Frontier, frontier
from .missing import Missing
from .plan import plan
from .service import Served, serve
from .spread import Draws, drawn
from .tapeout import Tapeout

COMMANDS = {
    "measured GPU": "dpubench gpu -o out/gpu --points idle,images-20, then dpubench gpu -o out/gpu --merge FILE",
    "measured FPGA": "none yet: dpurun --target f2 has no driver, and no card was at hand",
    "same experiment": "none yet: GPU and FPGA runs of one model file, with the same prompts and seeds",
    "simulator within 5 % of the FPGA": "none yet: it follows from the FPGA's measurements",
    "quality": "none yet: trained SDXL weights (dpuc export DIR), 5,000 images, FID and CLIP in results/quality",
    "simulated cycles of the chip": (
        "dpubench sizes GRAPHS --arch ARCH --timed -o FILE, then dpubench report --cycles ARCH=FILE"
    ),
    "cost": "dpubench estimate, or a price in the file that the condition names",
    "realistic utilisation": "low and high of the scenario's utilisation",
    "seconds agree with cycles": "measure the card again",
}
"""Conditions of the gate, and what would meet them."""


@dataclass(frozen=True)
class Request:
    """What the command line asks for. `detail` names the scenario of the details; without it, the chip's kindest."""

    workload: Path
    archs: tuple[str, ...]
    economics: tuple[str, ...]
    detail: str = ""
    cycles: Mapping[str, Path] = field(default_factory=dict)
    traffics: tuple[str, ...] = ("steady", "diurnal", "gentd26")
    runs: int = 3
    samples: int = 4000
    seed: int = 0
    plan: str = "plan"
    results: Path = gate.RESULTS


@dataclass(frozen=True)
class Image:
    """One image on the bit-exact simulator beside float32 (`dpubench image`): a check of the method."""

    psnr: float  # dB
    lowest: float  # dB SQNR of one forward, the worst step
    arch: str
    seeded: bool
    file: str


@dataclass(frozen=True)
class Findings:
    """All of the page. `detail` is the case that figures and tables are about: the best chip where it does best."""

    request: Request
    commit: str
    task: Task
    decision: gate.Decision
    draws: Mapping[tuple[str, str], Draws]  # by arch and scenario
    detail: gate.Case
    uncertainty: Report
    simulated: Mapping[str, ArchTable]  # by arch, of its present file
    gpu_roofs: tuple[roofs.Roofline | Missing, ...]
    dpu_roofs: tuple[roofs.Roofline | Missing, ...]
    frontier: Frontier
    images: tuple[Image, ...]
    service: tuple[Served, ...]
    tapeout: Tapeout | Missing
    missing: tuple[Missing, ...]

    @property
    def comparison(self) -> Comparison:
        """Of the details."""
        assert self.detail.comparison is not None
        return self.detail.comparison

    @property
    def kindest(self) -> gate.Case:
        """Of the details' DPU, the scenario in which it does best."""
        return self.cases(self.detail.arch)[0]

    def cases(self, arch: str) -> list[gate.Case]:
        """Those of one DPU that have a cost, the kindest scenario first."""
        found = [c for c in self.decision.cases if c.arch == arch and c.comparison is not None]
        return sorted(found, key=lambda c: -(c.advantage or 0.0))


def gather(request: Request, say: Callable[[str], None] = lambda _: None) -> Findings:
    """Run everything.

    Raises:
        DpuError: a file is missing or wrong, or no DPU has a cost.
    """
    workload = read_workload(request.workload)
    archs = [load_arch(a).name for a in request.archs]
    if unknown := [name for name in request.cycles if name not in archs]:
        raise DpuError(f"--cycles {unknown[0]}", "no such arch", hint=f"one of {', '.join(archs)}", code="E501")
    traffics = [traffic(name) for name in request.traffics]
    found_plan = plan(request.plan)
    decision = _decide(request, say)
    detail = choose(decision, request.detail)
    c = detail.comparison
    assert c is not None
    place = next(e for e in request.economics if scenario(e).name == detail.scenario)
    say("uncertainty ...")
    draws = {
        (x.arch, x.scenario): drawn(x.comparison, request.samples, request.seed)
        for x in decision.cases
        if x.comparison is not None
    }
    tables = roofs.tables(request.results / "sim" / "tables.json")
    quality = next((q.status for q in detail.conditions if q.name == "quality"), "missing")
    front = frontier(
        compared(decision, detail.scenario),
        {"met": True, "failed": False}.get(quality),
        request.results / "economics",
        detail.arch if c.dpu.platform.nre is not None else "",
    )
    gpu_roofs = _gpu_roofs(request)
    dpu_roofs = tuple(roofs.dpu(a, tables) for a in request.archs)
    if c.dpu.platform.nre is None:
        why = "only a chip is taped out"
        made: Tapeout | Missing = Missing("a chip among the DPUs", why, "dpubench report --arch dpu_asic")
    else:
        made = tapeout.make(c, silicon(), found_plan, f"configs/tapeout: {found_plan.name}")
    return Findings(
        request=request,
        commit=commit(),
        task=workload.task,
        decision=decision,
        draws=draws,
        detail=detail,
        uncertainty=uncertainty(c, request.samples, request.seed),
        simulated=_current(tables),
        gpu_roofs=gpu_roofs,
        dpu_roofs=dpu_roofs,
        frontier=front,
        images=_images(request.results / "sim"),
        service=_service(request, detail, place, traffics, say),
        tapeout=made,
        missing=_missing(decision, [*gpu_roofs, *_layers(gpu_roofs), *dpu_roofs, front.variants, made]),
    )


def _decide(request: Request, say: Callable[[str], None]) -> gate.Decision:
    def files(folder: str) -> tuple[Path, ...]:
        return tuple(stored(request.results / folder))

    asked = gate.Request(
        workload=request.workload,
        archs=request.archs,
        economics=request.economics,
        gpu=files("gpu"),
        fpga=files("f2"),
        simulated=files("sim"),
        quality=files("quality"),
        cycles=request.cycles,
    )
    return gate.run(asked, say)


def compared(decision: gate.Decision, scenario_name: str) -> list[Comparison]:
    """Of the DPUs that have a cost in a scenario."""
    return [c.comparison for c in decision.cases if c.scenario == scenario_name and c.comparison is not None]


def choose(decision: gate.Decision, scenario_name: str = "") -> gate.Case:
    """The case of the details: of chips, else of all DPUs, that with the highest advantage; in one scenario if named.

    Raises:
        DpuError: no DPU has a cost there.
    """
    known = [c for c in decision.cases if c.comparison is not None]
    names = list(dict.fromkeys(c.scenario for c in known))
    if scenario_name and scenario_name not in names:
        hint = f"one of {', '.join(names)}" if names else "see dpubench gate"
        raise DpuError(f"--detail {scenario_name}", "no DPU has a cost in such a scenario", hint=hint, code="E501")
    if not known:
        said = "; ".join(dict.fromkeys(x.said for c in decision.cases for x in c.conditions if x.name == "cost"))
        raise DpuError("--arch", f"no DPU has a cost in any scenario: {said}", hint="see dpubench gate", code="E525")
    known = [c for c in known if not scenario_name or c.scenario == scenario_name]
    chips = [c for c in known if c.comparison is not None and c.comparison.dpu.platform.nre is not None]
    return max(chips or known, key=lambda c: c.advantage or 0.0)


def _gpu_roofs(request: Request) -> tuple[roofs.Roofline | Missing, ...]:
    files = stored(request.results / "gpu") or [request.results / "gpu" / "h200.json"]
    return tuple(roofs.gpu(f, request.workload) for f in files)


def _layers(found: tuple[roofs.Roofline | Missing, ...]) -> list[Missing]:
    """GPUs whose layers were not timed one by one."""
    why = "its roofline shows whole parts, not which layers are slow"
    command = "dpubench gpu -o out/gpu --points layers, then dpubench gpu -o out/gpu --merge FILE"
    return [
        Missing(f"times of single layers on the {r.title}", why, command)
        for r in found
        if isinstance(r, roofs.Roofline) and roofs.LAYERS not in r.series
    ]


def _current(tables: Mapping[str, ArchTable] | Missing) -> dict[str, ArchTable]:
    """Tables of arch files as they are now."""
    if isinstance(tables, Missing):
        return {}
    found = {}
    for name, table in tables.items():
        try:
            known = load_arch(name)
        except DpuError:
            continue  # an arch that no longer ships
        if known.digest == table.arch_digest:
            found[name] = table
    return found


def _images(folder: Path) -> tuple[Image, ...]:
    found = []
    for name, seeded in (("image.json", True), ("image_realistic.json", False)):
        path = folder / name
        if path.is_file():
            with refusing(str(path), "is no record of dpubench image", hint="dpubench image --help", code="E520"):
                content = json.loads(path.read_text())
                lowest = min(float(s["forward_db"]) for s in content["steps"])
                psnr, arch = float(content["quality"]["unet_psnr_db"]), str(content["program"]["arch"])
                if isnan(psnr) or isnan(lowest):
                    raise ValueError(f"PSNR is {psnr} dB, the lowest SQNR {lowest} dB")
            found.append(Image(psnr, lowest, arch, seeded, f"results/sim/{name}"))
    return tuple(found)


def _service(
    request: Request, detail: gate.Case, place: str, traffics: list[Traffic], say: Callable[[str], None]
) -> tuple[Served, ...]:
    assert detail.comparison is not None
    arch = next(a for a in request.archs if load_arch(a).name == detail.arch)
    cycles = {arch: request.cycles[detail.arch]} if detail.arch in request.cycles else {}
    return serve(detail.comparison, arch, request.workload, place, traffics, request.runs, request.seed, cycles, say)


def _missing(decision: gate.Decision, parts: list[object]) -> tuple[Missing, ...]:
    """Conditions that are not met and parts that are not there, each once."""
    found: dict[str, Missing] = {}
    for case in decision.cases:
        for x in case.conditions:
            if x.status == "missing" or (x.status == "failed" and x.name != "cost"):
                key = f"{case.arch} {x.name}" if x.name in ("cost", "simulated cycles of the chip") else x.name
                where = f"{case.arch}, {case.scenario}: " if x.name == "cost" else ""
                title = f"{x.name} of {case.arch}" if key != x.name else x.name
                title = title.replace("of the chip of", "of")
                of = Provenance.PUBLISHED if x.name == "quality" else None  # MLPerf's window
                found.setdefault(key, Missing(title, where + x.said, COMMANDS.get(x.name, "dpubench gate"), of))
    for part in parts:
        if isinstance(part, Missing):
            found.setdefault(part.what, part)
    return tuple(found.values())
