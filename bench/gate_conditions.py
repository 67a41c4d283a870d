"""The conditions of a GO that are about evidence: real devices, one experiment, the simulator's cycles, quality.

Every function gives a `Condition`, with what was seen and what would be enough. None of them reads a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..evidence import Provenance
from ..ir.arch import Arch
from ..measurement import Measurement
from ..simulator.economics.inputs import Accelerator
from ..simulator.economics.workload import Workload
from .gate_evidence import BINARY, EXPERIMENT, Evidence

IMAGES = 20
"""Images that a rate is taken over at least: the experiment has 20 to 50 prompts."""
LINK = 0.05
"""By how much measured cycles may differ from the simulator's, for its figures to count for a chip."""
QUALITY_IMAGES = 5000
DATASET = "coco-2014-val"
WINDOW = {"fid": (23.01085758, 23.95007626), "clip": (31.68631873, 31.81331801)}
"""MLPerf's bounds of SDXL, both sides (mlcommons/inference @b66003e, submission_checker/constants.py): fp32 +- 2 % FID,
+- 0.2 % CLIP, over 5,000 captions of COCO 2014."""

Status = Literal["met", "failed", "missing"]


@dataclass(frozen=True)
class Condition:
    """One of what a GO needs. A `decisive` failure is a NO-GO: the number is there, and it is too low."""

    name: str
    status: Status
    said: str
    decisive: bool = False


TARGETS = {"gpu": "measured GPU", "f2": "measured FPGA"}
"""Targets whose measurements the experiment demands, and the name of the condition."""


def rate_of(found: Mapping[str, Measurement], target: str) -> Measurement | None:
    """The record that says how fast a device makes images; of a card, the seconds of one image."""
    each = found.get("seconds_per_image")
    return each if target == "f2" else found.get("images_per_second") or each


def _images(m: Measurement) -> int:
    batch = m.conditions.get("images a batch", "1")
    return len(m.samples) * (int(batch) if batch.isdecimal() else 1)


def counts(e: Evidence, found: Mapping[str, Measurement], target: str) -> bool:
    """Whether a file is of real hardware of this target and states a rate: else its numbers take no one's place."""
    rate = rate_of(found, target)
    return rate is not None and rate.device.target == target and not e.without_hardware()


def device(target: str, files: Sequence[Evidence], headline: Mapping[str, Mapping[str, Measurement]]) -> Condition:
    """Measured rate and power of a device; `headline` holds, by file, the records that count."""
    name = TARGETS[target]
    if not files:
        return Condition(name, "missing", f"no measurements of target '{target}': whole images, and power")
    problems = []
    for e in files:
        found = headline[str(e.path)]
        rate = rate_of(found, target)
        faults = e.without_hardware()[:1]
        if rate is None:
            wanted = "seconds_per_image" if target == "f2" else "images_per_second or seconds_per_image"
            faults.append(f"no {wanted} of the experiment's steps")
        elif rate.device.target != target:
            faults.append(f"'{rate.name}' is of target '{rate.device.target}', allowed: '{target}'")
        elif (count := _images(rate)) < IMAGES:
            faults.append(f"'{rate.name}' is of {count} images, allowed: {IMAGES} or more")
        if "board_power" not in found and "wall_energy_per_image" not in found:
            faults.append("no board_power and no wall_energy_per_image")
        if rate is not None and not faults:
            return Condition(name, "met", f"{e.path.name}: {rate.device.name}, {_images(rate)} images")
        problems.append(f"{e.path.name}: {'; '.join(faults)}")
    return Condition(name, "failed", " | ".join(problems))


def same_experiment(gpus: Sequence[Evidence], fpgas: Sequence[Evidence], workload: Workload) -> Condition:
    """One GPU file and one FPGA file state the same of everything in `EXPERIMENT`, and what the workload says."""
    name = "same experiment"
    if not gpus or not fpgas:
        said = f"GPU and FPGA evidence that state the same {', '.join(EXPERIMENT)}"
        found = [f"{e.path.name} does not state {', '.join(a)}" for e in (*gpus, *fpgas) if (a := _absent(e))]
        return Condition(name, "missing", "; ".join([said, *found]))
    faults = []
    for g in gpus:
        for f in fpgas:
            if not (said := _differences(g, f, workload)):
                return Condition(name, "met", f"{g.path.name} and {f.path.name}")
            faults.append(said)
    return Condition(name, "failed", " | ".join(faults))


def _differences(g: Evidence, f: Evidence, workload: Workload) -> str:
    wanted = _of_workload(workload)
    for e in (g, f):
        if absent := _absent(e):
            return f"{e.path.name} does not state {', '.join(absent)}"
        for key, value in wanted.items():
            if not _equal(e.experiment[key], value):
                return f"{e.path.name}: {key} is '{e.experiment[key]}', that of the workload '{value}'"
    for key in EXPERIMENT:
        if not _equal(g.experiment[key], f.experiment[key]):
            mine, other = g.experiment[key], f.experiment[key]
            return f"{key}: '{mine[:16]}' in {g.path.name}, '{other[:16]}' in {f.path.name}"
    return ""


def _absent(e: Evidence) -> list[str]:
    return [k for k in EXPERIMENT if not e.experiment.get(k)]


def _of_workload(w: Workload) -> dict[str, str]:
    fields = {"model": w.model, "steps": w.steps, "scheduler": w.scheduler, "resolution": w.resolution}
    if not isinstance(w.guidance, bool):
        fields["guidance"] = w.guidance
    return {k: str(v) for k, v in fields.items()}


def _equal(a: str, b: str) -> bool:
    """Text, or numbers that are written differently (8 and 8.0)."""
    try:
        return a == b or float(a) == float(b)
    except ValueError:
        return False


def link(fpgas: Sequence[Evidence], simulated: Sequence[Evidence]) -> Condition:
    """Measured FPGA cycles of every entry, within `LINK` of the simulator's for the same binary."""
    name = "simulator within 5 % of the FPGA"
    real = [f for f in fpgas if f.named("cycles.") and not f.without_hardware()]
    if not real:
        return Condition(name, "missing", "no measured cycles.<entry> of an FPGA: run the .dpu on the card")
    if not simulated:
        return Condition(name, "missing", "no simulated cycles.<entry> of the FPGA's binary")
    faults = []
    for f in real:
        for s in simulated:
            if not (said := _off(f, s)):
                return Condition(name, "met", f"{f.path.name} and {s.path.name}, binary {f.binary[:12]}")
            faults.append(said)
    return Condition(name, "failed", " | ".join(faults))


def _off(f: Evidence, s: Evidence) -> str:
    if not f.binary or f.binary != s.binary:
        return (
            f"{BINARY}: '{f.binary[:12]}' in {f.path.name}, '{s.binary[:12]}' in {s.path.name}:"
            " cycles of different programs"
        )
    ours, theirs = s.named("cycles."), f.named("cycles.")
    if not any(m.device.target == "sim" and m.device.provenance is Provenance.SIMULATED for m in ours.values()):
        return f"{s.path.name} holds no cycles of target 'sim'"
    if other := next((m.device.target for m in theirs.values() if m.device.target != "f2"), ""):
        return f"{f.path.name} holds cycles of target '{other}', allowed: 'f2'"
    if sorted(ours) != sorted(theirs):
        return f"entries {', '.join(sorted(theirs))} were measured, {', '.join(sorted(ours))} simulated"
    for entry, m in theirs.items():
        if ours[entry].unit != m.unit or ours[entry].value <= 0:
            return f"entry '{entry}': {m.unit} against {ours[entry].value:g} {ours[entry].unit}"
        ratio = m.value / ours[entry].value
        if abs(ratio - 1) > LINK:
            return f"entry '{entry}': the FPGA takes {ratio:.4f}x the simulator's cycles, allowed: 0.95 to 1.05"
    return ""


def possible(f: Evidence, seconds: float, arch: Arch, runs: Mapping[str, int]) -> Condition:
    """The card's seconds an image are no less than its own cycles take at the arch's clock.

    Args:
        runs: how often an image runs each entry; one that the map lacks runs once.
    """
    name = "seconds agree with cycles"
    cycles = {k: m.value for k, m in f.named("cycles.").items()}
    if not set(runs) & set(cycles):
        return Condition(name, "missing", f"{f.path.name}: no cycles of {', '.join(sorted(runs))}")
    least = sum(v * runs.get(k, 1) for k, v in cycles.items()) / arch.clock_hz
    said = f"{f.path.name}: {seconds:.4g} s an image, {least:.4g} s of cycles at {arch.clock_hz / 1e6:g} MHz"
    return Condition(name, "met" if seconds >= (1 - LINK) * least else "failed", said)


def chip_cycles(provenance: str, source: str) -> Condition:
    """A chip's cycles come from the simulator, not from the closed estimate."""
    name = "simulated cycles of the chip"
    if provenance == "simulated":
        return Condition(name, "met", source)
    return Condition(name, "missing", f"{source}: {provenance}; dpubench sizes GRAPHS --timed simulates the program")


def quality(
    files: Sequence[Evidence], fpgas: Sequence[Evidence], workload: Workload, floors: Mapping[str, float]
) -> Condition:
    """The DPU's images are inside MLPerf's window; a stated floor instead is assumed, and never enough for a GO."""
    name = "quality"
    ours = [e for e in files if _platform(e) == "dpu" and e.named("quality.")]
    if not ours:
        return Condition(
            name, "missing", f"no FID and CLIP of the DPU's images ({_window_text()}), nor any other score"
        )
    faults: list[Condition] = []
    for e in ours:
        found = _quality_of(name, e, fpgas, workload, floors)
        if found.status == "met" or found.decisive:
            return found
        faults.append(found)
    status: Status = "failed" if any(c.status == "failed" for c in faults) else "missing"
    return Condition(name, status, " | ".join(c.said for c in faults))


def _platform(e: Evidence) -> str:
    return next((m.conditions.get("platform", "") for m in e.named("quality.").values()), "")


def _quality_of(
    name: str, e: Evidence, fpgas: Sequence[Evidence], workload: Workload, floors: Mapping[str, float]
) -> Condition:
    def failed(said: str, decisive: bool = False) -> Condition:
        return Condition(name, "failed", f"{e.path.name}: {said}", decisive)

    scores, x = e.named("quality."), e.experiment
    if e.without_hardware():
        return failed(e.without_hardware()[0])
    if x.get("model") != workload.model:
        return failed(
            f"quality of '{x.get('model')}': it shows the method, never the quality of '{workload.model}'",
        )
    for key, value in _of_workload(workload).items():
        if not _equal(x.get(key, ""), value):
            return failed(f"{key} is '{x.get(key)}', that of the workload '{value}'")
    if not fpgas:
        return Condition(name, "missing", f"{e.path.name}: no FPGA evidence whose binary these images are of")
    official = {"fid", "clip"} <= set(scores)
    fixed = ("model_sha256", "policy") if official else ("model_sha256", "policy", "prompts_sha256", "seeds")
    f = next((one for one in fpgas if one.binary == e.binary), fpgas[0])
    for key in fixed:
        if x.get(key) != f.experiment.get(key) or not x.get(key):
            return failed(f"{key} is '{x.get(key, '')[:16]}', that of the FPGA '{f.experiment.get(key, '')[:16]}'")
    if not e.binary or e.binary != f.binary:
        return failed(f"images of binary '{e.binary[:12]}', the FPGA ran '{f.binary[:12]}'")
    if official:
        for score in WINDOW:
            seen = scores[score].conditions
            if seen.get("dataset") != DATASET or seen.get("images") != str(QUALITY_IMAGES):
                what = f"of {seen.get('images')} images of '{seen.get('dataset')}'"
                return failed(f"{score} is {what}, allowed: {QUALITY_IMAGES} of '{DATASET}'")
        values = {k: scores[k].value for k in WINDOW}
        if said := outside(values):
            return failed(said, decisive=True)
        return Condition(
            name, "met", f"{e.path.name}: FID {values['fid']:g}, CLIP {values['clip']:g}, {_window_text()}"
        )
    known = {k: v for k, v in floors.items() if k in scores}
    for score, floor in known.items():
        if scores[score].value < floor:
            what = f"{score} is {scores[score].value:g} {scores[score].unit}, below the stated floor {floor:g}"
            return failed(what, decisive=True)
    if known:
        said = ", ".join(f"{k} {scores[k].value:g} reaches the floor {v:g}" for k, v in known.items())
        return Condition(name, "missing", f"{e.path.name}: {said}, which is assumed; a GO needs {_window_text()}")
    return Condition(name, "missing", f"{e.path.name}: no FID and CLIP, and no floor for {', '.join(scores)}")


def outside(values: Mapping[str, float]) -> str:
    """Which score lies outside MLPerf's window; empty if none does."""
    for score, (low, high) in WINDOW.items():
        if score in values and not low <= values[score] <= high:
            return f"{score.upper()} {values[score]:g} is outside {low:.3f} to {high:.3f}"
    return ""


def _window_text() -> str:
    return "; ".join(f"{k.upper()} {low:.3f} to {high:.3f}" for k, (low, high) in WINDOW.items())


def quality_of_opponent(a: Accelerator, policy: str, files: Sequence[Evidence]) -> str:
    """Why a GPU's image is not of equal quality; empty where nothing shows that it is worse.

    A score that is missing leaves the opponent in: not to state one must not help the DPU.
    """
    values = {k: s.value for k in WINDOW if (s := getattr(a, k)) is not None}
    for e in files:
        if policy and _platform(e) == "gpu" and e.experiment.get("policy") == policy and not e.without_hardware():
            values |= {k: m.value for k, m in e.named("quality.").items() if k in WINDOW}
    return outside(values)
