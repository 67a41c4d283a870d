"""The decision gate: what `dpubench gate` does. GO, NO-GO or NOT PROVEN, with every condition and what would flip it.

GO needs all of these, for one DPU in every scenario given:
    cost           its image at most half of the cheapest GPU image of equal quality, at the scenario's utilisation and
                   at both ends of that one's range
    utilisation    a stated range, and no more than `REALISTIC`
    measured       rate and power of a GPU and of an F2 card, on real devices, of one experiment (`gate_conditions.py`)
    simulator      measured FPGA cycles within 5 % of it, same binary, and no more than its seconds allow; a chip counts
                   only through it, simulated
    quality        FID and CLIP of the DPU's images inside MLPerf's window
NO-GO where a number is there and too low: cost or quality. Else NOT PROVEN. The opponent is the cheapest of all
published and measured GPUs whose quality is not shown to be worse; no option leaves one out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..errors import DpuError
from ..evidence import Quantity
from ..ir.arch import Arch, load_arch
from ..measurement import Measurement
from ..simulator.economics.compare import GOAL, Comparison, compare
from ..simulator.economics.inputs import Accelerator, accelerator, card_for, scenario, shipped, silicon
from ..simulator.economics.sampling import monte_carlo
from ..simulator.economics.schema import Stated
from ..simulator.economics.workload import EACH_STEP, Cycles, Workload, check_same, read_workload
from ..units import UnitError, parse
from . import gate_conditions as conditions
from .estimate_cycles import STORED
from .estimate_cycles import read as read_cycles
from .evaluate import FIELDS, named
from .gate_conditions import Condition
from .gate_evidence import EXPERIMENT, Evidence, read_all, stored
from .gate_flip import Bottleneck, Flip, advantages, bottleneck, flips

REALISTIC = 0.8
"""The highest utilisation that counts as realistic: an assumption. Traces at hand show 7 % and 10.5 % mean duty
(Alibaba's GenTD26 and PAI v2020)."""
DRAWS = 2000
_ROUNDING = 1e-9
RESULTS = STORED.parent

Verdict = Literal["GO", "NO-GO", "NOT PROVEN"]
EXIT: dict[Verdict, int] = {"GO": 0, "NO-GO": 1, "NOT PROVEN": 3}
_RANK: dict[Verdict, int] = {"NO-GO": 0, "NOT PROVEN": 1, "GO": 2}


@dataclass(frozen=True)
class Request:
    """The files of a decision. Evidence that is none is found in `results/`; `cycles` are by arch."""

    workload: Path
    archs: tuple[str, ...]
    economics: tuple[str, ...]
    gpu: tuple[Path, ...] | None = None
    fpga: tuple[Path, ...] | None = None
    simulated: tuple[Path, ...] | None = None
    quality: tuple[Path, ...] | None = None
    cycles: Mapping[str, Path] = field(default_factory=dict)
    floors: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Files:
    """The evidence, read; `headline` holds, by file, the records that stand for fields of a device."""

    gpu: list[Evidence]
    fpga: list[Evidence]
    simulated: list[Evidence]
    quality: list[Evidence]
    headline: Mapping[str, Mapping[str, Measurement]]


@dataclass(frozen=True)
class Case:
    """One DPU in one scenario. Without cycles or a price there are conditions and nothing else."""

    arch: str
    scenario: str
    conditions: tuple[Condition, ...]
    comparison: Comparison | None = None
    advantage: float | None = None
    lowest: float | None = None  # over the range of the utilisation
    likely: float | None = None  # share of the draws of all stated distributions that reach the goal
    few_step: str = ""
    bottleneck: Bottleneck | None = None
    flips: tuple[Flip, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """NO-GO where a decisive condition fails."""
        if any(c.decisive and c.status == "failed" for c in self.conditions):
            return "NO-GO"
        return "GO" if all(c.status == "met" for c in self.conditions) else "NOT PROVEN"


@dataclass(frozen=True)
class Decision:
    """All cases; the verdict on a DPU is its worst over the scenarios, that of the gate the best over the DPUs."""

    request: Request
    files: Files
    cases: tuple[Case, ...]
    left_out: Mapping[str, str]

    def of(self, arch: str) -> Verdict:
        """The verdict on one DPU."""
        return min((c.verdict for c in self.cases if c.arch == arch), key=lambda v: _RANK[v])

    @property
    def verdict(self) -> Verdict:
        """The gate's."""
        return max((self.of(c.arch) for c in self.cases), key=lambda v: _RANK[v])

    @property
    def exit_code(self) -> int:
        """0 GO, 1 NO-GO, 3 NOT PROVEN."""
        return EXIT[self.verdict]


def run(
    request: Request, say: Callable[[str], None] = lambda _: None, *, identities_of_tests: bool = False
) -> Decision:
    """Decide. `identities_of_tests` lets tests make evidence; no command sets it.

    Raises:
        DpuError: a file is refused (exit code 2): see `gate_evidence.py`.
    """
    for option, names in (("--arch", request.archs), ("--economics", request.economics)):
        if not names or len(set(names)) < len(names):
            raise DpuError(option, f"value is '{','.join(names)}', allowed: one or more different names", code="E501")
    workload = read_workload(request.workload)
    files = _read(request, workload, identities_of_tests)
    opponents, left_out = _opponents(files, workload, str(request.workload))
    cases = []
    for name in request.archs:
        arch = load_arch(name)
        cycles = _cycles(request, arch, workload)
        for place in request.economics:
            say(f"{arch.name} in {place} ...")
            cases.append(_case(request, files, workload, opponents, arch, cycles, place))
    return Decision(request, files, tuple(cases), left_out)


def floors_of(given: Mapping[str, str]) -> dict[str, float]:
    """Stated floors of scores, by name.

    Raises:
        DpuError: one is no finite number.
    """
    found = {}
    for name, text in given.items():
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not isfinite(value):
            raise DpuError("--floor", f"'{name}={text}': the value is no finite number", code="E501")
        found[name] = value
    return found


def _read(request: Request, workload: Workload, identities_of_tests: bool) -> Files:
    def read(given: tuple[Path, ...] | None, folder: str) -> list[Evidence]:
        paths = stored(RESULTS / folder) if given is None else given
        return read_all(paths, identities_of_tests)

    gpu, fpga = read(request.gpu, "gpu"), read(request.fpga, "f2")
    if len(fpga) > 1:
        raise DpuError(
            "--fpga",
            f"{len(fpga)} files: {', '.join(e.path.name for e in fpga)}",
            why="rate, power, cycles and quality must be of one program on one card",
            hint="give one file",
            code="E501",
        )
    stems = [e.path.stem for e in gpu]
    if twice := [n for n in stems if stems.count(n) > 1]:
        raise DpuError(
            "--gpu", f"two files are named '{twice[0]}'", hint="the name says whose price counts", code="E501"
        )
    headline = {str(e.path): named(e.records, workload.steps) for e in (*gpu, *fpga)}
    for where, records in headline.items():
        _check_units(where, records)

    def stating(e: Evidence) -> Evidence:
        """Of `dpubench gpu`, the experiment is that of the rate that counts."""
        rate = headline[str(e.path)].get("images_per_second") or headline[str(e.path)].get("seconds_per_image")
        mine = {} if rate is None else {k: v for k, v in rate.conditions.items() if k in EXPERIMENT}
        return replace(e, experiment={**mine, **e.experiment})

    return Files(
        gpu=[stating(e) for e in gpu],
        fpga=[stating(e) for e in fpga],
        simulated=read(request.simulated, "sim"),
        quality=read(request.quality, "quality"),
        headline=headline,
    )


def _check_units(where: str, records: Mapping[str, Measurement]) -> None:
    for field_name, m in records.items():
        wanted = FIELDS[field_name][1]
        try:
            parse(m.unit).factor_to(parse(wanted))
        except UnitError as e:
            raise DpuError(where, f"measurement '{m.name}': unit is '{m.unit}', allowed: {wanted}", code="E523") from e


def _cycles(request: Request, arch: Arch, workload: Workload) -> Cycles | str:
    """The cycles of an arch, or why there are none; a file that was named is refused instead."""
    given = request.cycles.get(arch.name)
    if given is not None:
        return read_cycles(given, arch, workload.steps)
    path = STORED / f"{arch.name}.json"
    try:
        return read_cycles(path, arch, workload.steps)
    except DpuError as e:
        return f"results/estimate/{path.name}: {e.what}; dpubench estimate --arch {arch.name} writes it"


# -- opponents ---------------------------------------------------------------------------------------------------------


def few_step() -> Accelerator:
    """An H200 that runs a few-step model: the fastest published SDXL image, of another quality."""
    mlperf = "MLPerf Inference v4.1 open, mlcommons/inference_results_v4.1 @198fc46: H200x1_TRT_LCM"

    def of(value: float, unit: str, what: str) -> Stated:
        return Stated(value=value, unit=unit, provenance="published", source=f"{mlperf}, {what}", date="2024-08")

    change: dict[str, Any] = {"offline": of(10.789, "image/s", "offline"), "online": None, "latency": None}
    change |= {"fid": of(28.43, "1", "FID"), "clip": of(31.28, "1", "CLIP"), "task": None}
    return accelerator("h200").model_copy(
        update={**change, "name": "h200_lcm", "title": "NVIDIA H200, SDXL-LCM in few steps"}
    )


def _opponents(
    files: Files, workload: Workload, where: str
) -> tuple[list[tuple[Accelerator, dict[str, Quantity]]], dict[str, str]]:
    """GPUs with the measured numbers that take the place of stated ones, and those left out with the reason."""
    candidates: list[tuple[Accelerator, dict[str, Quantity], str]] = []
    for name in shipped("gpu"):
        candidates.append((accelerator(name), {}, ""))
    for e in files.gpu:
        found = files.headline[str(e.path)]
        if not conditions.counts(e, found, "gpu"):
            continue  # a condition says so
        base = accelerator(e.path.stem.split("-")[0])
        name = f"{e.path.stem}_measured"
        numbers = {FIELDS[k][0]: m.quantity(f"{name}.{FIELDS[k][0]}").to(FIELDS[k][1]) for k, m in found.items()}
        if "offline" not in numbers:
            numbers["offline"] = (1 / numbers["latency"]).counted("image").called(f"{name}.offline")
        update = {"name": name, "title": f"{base.title}, measured", "online": None, "fid": None, "clip": None}
        candidates.append((base.model_copy(update=update), numbers, e.experiment.get("policy", "")))
    candidates.append((few_step(), {}, ""))
    kept, left_out = [], {}
    for device, numbers, policy in candidates:
        if said := conditions.quality_of_opponent(device, policy, files.quality):
            left_out[device.name] = said
        elif device.task is not None and device.task != workload.task:
            left_out[device.name] = f"another task ({device.task.text}), not that of {where}"
        else:
            kept.append((device, numbers))
    return kept, left_out


# -- one DPU in one scenario -------------------------------------------------------------------------------------------


def _case(
    request: Request,
    files: Files,
    workload: Workload,
    opponents: Sequence[tuple[Accelerator, dict[str, Quantity]]],
    arch: Arch,
    cycles: Cycles | str,
    economics: str,
) -> Case:
    place = scenario(economics)
    card = card_for(arch.name)
    gpus = [e for e in files.gpu if conditions.counts(e, files.headline[str(e.path)], "gpu")]
    fpgas = [e for e in files.fpga if conditions.counts(e, files.headline[str(e.path)], "f2")]
    found = [
        conditions.device("gpu", files.gpu, files.headline),
        conditions.device("f2", files.fpga, files.headline),
        conditions.same_experiment(gpus, fpgas, workload),
        conditions.link(fpgas, files.simulated),
        conditions.quality(files.quality, fpgas, workload, request.floors),
        _utilisation(place.utilisation),
    ]
    if isinstance(cycles, str):
        return Case(arch.name, place.name, (Condition("cost", "missing", cycles), *found))
    if card is None:
        found.append(conditions.chip_cycles(cycles.provenance, cycles.source))
    for device, _ in opponents:
        check_same(workload, str(request.workload), cycles, f"cycles of {arch.name}", device, device.name)
    measured: dict[str, dict[str, Quantity]] = {device.name: numbers for device, numbers in opponents if numbers}
    if card is not None and fpgas:
        numbers = {}
        for k, m in files.headline[str(fpgas[0].path)].items():
            name = FIELDS[k][0]
            numbers[name] = m.quantity(f"{card.name}.{name}").to(FIELDS[k][1])
        measured[card.name] = numbers
        runs = dict.fromkeys(EACH_STEP, workload.steps)
        found.append(conditions.possible(fpgas[0], numbers["latency"].value, arch, runs))
    try:
        made = silicon()
        c = compare(place, arch, cycles, [d for d, _ in opponents], made, card=card, measured=measured)
        few = compare(place, arch, cycles, [few_step()], made, card=card, measured=measured)
    except DpuError as e:
        said = f"{e.where}: {e.what}"
        return Case(arch.name, place.name, (Condition("cost", "missing", said), *found))
    ends = sorted({place.utilisation.value, *place.utilisation.ends})
    lowest = float(advantages(c, {"scenario.utilisation": np.array(ends)}).min())
    decision = c.decision()
    rate = c.dpu.platform.rate
    wins = (
        f"the cheapest other image ({decision.gpu}) costs {decision.advantage:.3g}x the DPU's"
        f" ({1 / rate.value:.3g} s an image, {rate.provenance.label})"
    )
    enough = decision.advantage >= GOAL * (1 - _ROUNDING)
    held = lowest >= GOAL * (1 - _ROUNDING)
    if not enough:
        what = Condition("cost", "failed", f"{wins}, {decision.short:.3g}x short of {GOAL:g}x", decisive=True)
    elif not held:
        span = f"utilisation {ends[0]:g} to {ends[-1]:g}"
        what = Condition("cost", "failed", f"{wins}, but {lowest:.3g}x somewhere at {span}", decisive=True)
    else:
        what = Condition("cost", "met", wins)
    likely = monte_carlo(c, DRAWS).advantages[-1].probability[GOAL]
    few_wins = few.versus[0].advantage.value
    why = conditions.quality_of_opponent(few_step(), "", files.quality)
    return Case(
        arch=arch.name,
        scenario=place.name,
        conditions=(what, *found),
        comparison=c,
        advantage=decision.advantage,
        lowest=lowest,
        likely=likely,
        few_step=f"{few_wins:.3g}x against an H200 that runs a few-step model ({why or 'of equal quality'})",
        bottleneck=bottleneck(c, cycles, arch),
        flips=() if what.status == "met" else tuple(flips(c)),
    )


def _utilisation(u: Stated) -> Condition:
    name, what = "realistic utilisation", f"{u.value:.0%} ({u.provenance})"
    if u.low is None or u.high is None:
        return Condition(name, "missing", f"{what}: the scenario states no range (low, high)")
    if u.value > REALISTIC:
        return Condition(name, "failed", f"{what}, allowed: up to {REALISTIC:.0%}")
    return Condition(name, "met", f"{what}, {u.low:.0%} to {u.high:.0%}")
