"""The comparison of a DPU with GPUs, from files: what `dpubench evaluate` and `python -m dpu.bench.evaluate` do.

A results file (`dpu.comparison/1`) holds the scenario, the decision and the ledger of every number, so that `dpubench
explain` can show where one comes from and a reader can compute each again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import DpuError
from ..evidence import Quantity
from ..files import atomic_write
from ..ir.arch import Arch, load_arch
from ..ledger import Ledger
from ..measurement import Measurement, read_measurements
from ..simulator.economics.compare import GOAL, Comparison, compare
from ..simulator.economics.cost import Cost
from ..simulator.economics.inputs import Accelerator, accelerator, card_for, scenario, shipped, silicon
from ..simulator.economics.workload import Cycles, check_same, read_workload
from .estimate_cycles import STORED, estimate
from .estimate_cycles import read as read_cycles

COMPARISON = "dpu.comparison/1"
DEFAULT_OUTPUT = Path("out/evaluate.json")


@dataclass(frozen=True)
class Request:
    """The files of a comparison, as the command line names them. Without `gpu`, all that ship."""

    workload: Path
    arch: str
    economics: str
    gpu: tuple[str, ...] = ()
    cycles: Path | None = None
    measured: tuple[Path, ...] = ()
    card: str = ""
    silicon: str = "silicon"


@dataclass(frozen=True)
class Evaluated:
    """A comparison with the records of its measured numbers."""

    request: Request
    comparison: Comparison
    measurements: tuple[Measurement, ...]


def run(request: Request, say: Callable[[str], None] = lambda _: None) -> Evaluated:
    """Read all files, check that they are about the same image, and compare.

    Raises:
        DpuError: a file is missing or wrong, or two files are about different images.
    """
    workload = read_workload(request.workload)
    arch = load_arch(request.arch)
    place = scenario(request.economics)
    names = request.gpu or tuple(shipped("gpu"))
    gpus = [accelerator(g) for g in names]
    card = _card(request.card, arch)
    _check_names([g.name for g in gpus], {arch.name, "scenario", "silicon", *([card.name] if card else [])})
    cycles, source = _cycles(request, arch, workload.steps, say)
    for gpu, name in zip(gpus, names, strict=True):
        file = name if name.endswith(".json") else f"configs/gpu/{name}.json"
        check_same(workload, str(request.workload), cycles, source, gpu, file)
    devices = {"gpu": [g.name for g in gpus], "dpu": [card.name] if card else []}
    measured, records = _measured(request.measured, devices, workload.steps, workload.resolution)
    found = compare(
        place,
        arch,
        cycles,
        gpus,
        silicon(request.silicon),
        card=card,
        measured=measured,
        strict=[g.name for g in gpus] if request.gpu else [],
    )
    return Evaluated(request, found, tuple(records))


def _card(name: str, arch: Arch) -> Accelerator | None:
    """The card named, or the shipped one that carries the arch; none for a chip."""
    if not name:
        return card_for(arch.name)
    card = accelerator(name, "card")
    if arch.name not in card.archs:
        raise DpuError(
            f"card {card.name}",
            f"field 'archs': value is {list(card.archs)}, allowed: a list with '{arch.name}'",
            why="the card does not carry this DPU",
            hint="name a card that does, or leave --card out for a chip",
            code="E525",
        )
    return card


def _check_names(names: Sequence[str], taken: set[str]) -> None:
    """Refuse two devices of one name: their numbers could not be told apart."""
    for name in names:
        if name in taken:
            raise DpuError(
                "--gpu",
                f"'{name}' is the name of two things",
                why="numbers of the comparison are told apart by the names of their devices",
                hint="give every device once, with a name of its own",
                code="E501",
            )
        taken = taken | {name}


def _cycles(request: Request, arch: Arch, steps: int, say: Callable[[str], None]) -> tuple[Cycles, str]:
    """From the file named, the one stored with the sources, or computed now; and where from."""
    if request.cycles is not None:
        return read_cycles(request.cycles, arch, steps), str(request.cycles)
    stored = STORED / f"{arch.name}.json"
    if stored.is_file():
        try:
            found = read_cycles(stored, arch, steps)
        except DpuError as e:
            say(f"results/estimate/{stored.name} is not used: {e.what}")
        else:
            if found.task.steps == steps:
                return found, f"results/estimate/{stored.name}"
    say(f"no stored cycles of {arch.name} for {steps} steps: estimating, about 20 s; dpubench estimate keeps them")
    return estimate([arch], steps, say)[0], f"estimate of {arch.name}"


FIELDS = {
    "images_per_second": ("offline", "image/s"),
    "seconds_per_image": ("latency", "s"),
    "board_power": ("busy_power", "W"),
    "wall_energy_per_image": ("wall_energy", "J/image"),
    "board_idle_power": ("idle_power", "W"),
}
"""Measurements that take the place of stated fields: name -> (field, unit). Of a DPU, seconds an image are its rate."""

_IMAGES = re.compile(r"images\.(?P<engine>.+)\.n(?P<count>\d+)\.(?P<steps>\d+)steps\.rate")


def named(records: Mapping[str, Measurement], steps: int) -> dict[str, Measurement]:
    """Records by the names of `FIELDS`: their own, or those of a results file of `dpubench gpu`.

    Of the latter: the highest rate of whole images in 16 bits (FP8's quality is not shown) with its power, the shortest
    latency of one image, the idle board.
    """
    found = {k: m for k, m in records.items() if k in FIELDS}
    rates = {}
    for name, m in records.items():
        match = _IMAGES.fullmatch(name)
        if match and int(match["steps"]) == steps and "fp8" not in match["engine"]:
            rates[name.removesuffix(".rate")] = m
    if rates:
        best = max(rates, key=lambda k: rates[k].value)
        found.setdefault("images_per_second", rates[best])
        single = [records[f"{k}.latency"] for k in rates if ".n1." in k and f"{k}.latency" in records]
        if single:
            found.setdefault("seconds_per_image", min(single, key=lambda m: m.value))
        for name, theirs in (("board_power", f"{best}.power"), ("board_idle_power", "idle.power")):
            if theirs in records:
                found.setdefault(name, records[theirs])
    return found


def _check_conditions(path: Path, name: str, record: Measurement, steps: int, resolution: int) -> None:
    """Refuse a record of another image; power without work has no image, and `dpubench gpu` makes one size only."""
    if name == "board_idle_power":
        return
    wanted = {"steps": str(steps), "resolution": str(resolution)}
    if record.name not in FIELDS:
        wanted = {k: v for k, v in wanted.items() if k in record.conditions}
    for key, value in wanted.items():
        if (seen := record.conditions.get(key)) != value:
            raise DpuError(
                str(path),
                f"measurement '{name}': condition '{key}': value is {seen!r}, allowed: '{value}'",
                why="costs of different images cannot be compared",
                hint="measure the task of the workload file",
                code="E522",
            )


def _measured(
    files: Sequence[Path], devices: Mapping[str, Sequence[str]], steps: int, resolution: int
) -> tuple[dict[str, dict[str, Quantity]], list[Measurement]]:
    """The measured numbers of results files by device. `devices` are the candidates by kind: `gpu`, `dpu`.

    Raises:
        DpuError: several GPUs, no number that is known, or one of another image.
    """
    found: dict[str, dict[str, Quantity]] = {}
    records: list[Measurement] = []
    for path in files:
        known = named(read_measurements(path), steps)
        if not known:
            what = f"holds none of the measurements {', '.join(FIELDS)}, and no images of {steps} steps"
            raise DpuError(str(path), what, hint="docs/economics.md says what they mean", code="E523")
        for name, record in known.items():
            _check_conditions(path, name, record, steps, resolution)
            kind = "gpu" if record.device.target == "gpu" else "dpu"
            if len(devices[kind]) != 1:
                raise DpuError(
                    str(path),
                    f"measurements of one {kind}, and {len(devices[kind])} are compared",
                    hint="name one GPU with --gpu" if kind == "gpu" else "a chip that nobody made was not measured",
                    code="E501",
                )
            device = devices[kind][0]
            field, unit = FIELDS[name]
            found.setdefault(device, {})[field] = record.quantity(f"{device}.{field}").to(unit)
            records.append(record)
    return found, records


def save(e: Evaluated, path: Path) -> None:
    """The results file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    c = e.comparison
    decision = c.decision()
    content = {
        "format": COMPARISON,
        "scenario": c.scenario.name,
        "task": c.task.model_dump(),
        "dpu": c.dpu.platform.name,
        "gpus": [g.platform.name for g in c.gpus],
        "skipped": dict(c.skipped),
        "goal": GOAL,
        "decision": {**vars(decision), "text": decision.text},
        "ledger": Ledger.of(c.outputs(), e.measurements).model_dump(mode="json", exclude_defaults=True),
    }
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(content, indent=None, separators=(",", ":")) + "\n")


def read(path: Path) -> tuple[dict[str, object], dict[str, Quantity]]:
    """A results file: its head and its numbers, each computed again.

    Raises:
        DpuError: unreadable, of another version, or a number does not follow from its inputs.
    """
    from pydantic import ValidationError

    from ..simulator.economics import chip  # noqa: F401  (its formulas are needed to compute the numbers again)
    from ..simulator.economics.schema import read_json

    hint = "write it again: dpubench evaluate ... -o FILE"
    content = read_json(path, COMPARISON, hint)
    try:
        ledger = Ledger.model_validate(content.pop("ledger", None))
    except ValidationError as e:
        raise DpuError(str(path), f"field 'ledger': {e.errors()[0]['msg']}", hint=hint, code="E520") from e
    return content, ledger.quantities(str(path))


def text(e: Evaluated) -> str:
    """The comparison for people."""
    c = e.comparison
    how = "owned" if c.scenario.tenure == "owned" else f"rented ({c.scenario.tenure.replace('_', ' ')})"
    lines = [
        f"{c.scenario.name}: {c.scenario.title}; {how}, {c.scenario.rate} rates, utilisation"
        f" {c.scenario.utilisation.value:.0%}; {c.task.text}",
        "",
        f"{'platform':<15}{'image/s':>9}{'latency':>9}{'first':>7}{'$/1000':>10}{'+-':>8}{'J/image':>9}{'img/s/k$':>10}"
        f"{'advantage':>10}  evidence",
        _row(c.dpu, None),
    ]
    ratio = {v.gpu: v.advantage.value for v in c.versus}
    ordered = sorted(c.gpus, key=lambda g: g.image.value)
    lines += [_row(g, ratio[g.platform.name]) for g in ordered]
    lines += [f"{name:<15} left out: {why}" for name, why in c.skipped.items()]
    lines += ["", *_parts(c.dpu), *_parts(c.cheapest), "", *_break_even(c), f"decision on cost: {c.decision().text}"]
    return "\n".join(lines)


def _row(c: Cost, ratio: float | None) -> str:
    p, thousand = c.platform, c.thousand
    spread = "" if thousand.uncertainty is None else f"{thousand.uncertainty:.2g}"
    per = "-" if c.rate_per_dollar is None else f"{1000 * c.rate_per_dollar.value:.3g}"
    seconds = ["-" if q is None else f"{q.to('s').value:.3g}" for q in (p.latency, c.first_image)]
    wins = "" if ratio is None else f"{ratio:.3g}x"
    return (
        f"{p.name:<15}{p.rate.value:>9.3g}{seconds[0]:>9}{seconds[1]:>7}{thousand.value:>10.4g}{spread:>8}"
        f"{c.energy.value:>9.0f}{per:>10}{wins:>10}  {thousand.provenance.label}; rate {p.rate.provenance.label}"
    )


def _parts(c: Cost) -> list[str]:
    shares = ", ".join(
        f"{k} {1000 * q.value:.3g}" for k, q in sorted(c.parts.items(), key=lambda kv: -kv[1].value) if q.value
    )
    return [f"{c.platform.name}: $/1000 = {shares}"]


def _break_even(c: Comparison) -> list[str]:
    p = c.dpu.platform
    if p.nre is None or p.volume is None:
        return []
    area, cost, price = (p.details[k] for k in ("die_area", "cost_of_good_die", "price_of_card"))
    lines = [
        f"chip: {p.title}, {area.value:.0f} mm2, yield {p.details['die_yield'].value:.0%}, die ${cost.value:.0f},"
        f" card ${price.value:.0f}, NRE ${p.nre.value / 1e6:.0f}M over {p.volume.value:,.0f} cards"
    ]
    for v in c.versus:
        if v.images is None or v.devices is None:
            lines.append(f"  against {v.gpu}: {v.before_nre.value:.3g}x before any NRE, so it never breaks even")
        else:
            lines.append(
                f"  against {v.gpu}: {v.before_nre.value:.3g}x before NRE; breaks even at {v.images.value:.3g} images,"
                f" {v.devices.value:,.0f} cards for life"
            )
    return lines


if __name__ == "__main__":
    from .cli.economics import evaluate_main

    evaluate_main()
