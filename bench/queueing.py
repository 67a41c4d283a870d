"""What an image costs that was served in time: an image service on GPUs and DPUs as a queue (`dpubench queue`).

Of each platform as many devices are kept as the objective needs, or as the duty of the traffic file says if those are
more. The simulation gives the utilisation, the one cost formula (`economics/cost.py`) the cost at it. A batch of n
takes n / rate; a platform for which `alone` says what one image takes on an idle device gets the line through that and
through its rate at the full batch. Devices are never switched off, and never load a model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ..errors import DpuError
from ..evidence import assumed
from ..files import atomic_write
from ..simulator.economics.cost import Platform, Terms, cost
from ..simulator.economics.inputs import scenario
from ..simulator.economics.queueing import Served, Service, devices_at, fewest, serve
from ..simulator.economics.traffic import Arrivals, Traffic, draw, read_arrivals
from .evaluate import Request, run

SCHEMA = "dpu.queue/1"


class Row(BaseModel):
    """One platform. Seconds, shares, USD; no numbers after `seconds` where no number of devices meets the objective."""

    model_config = ConfigDict(frozen=True)

    platform: str
    images_per_second: float
    seconds: float  # of one image on an idle device
    needed: int | None  # devices, for the objective
    devices: int | None = None  # devices kept
    duty: float | None = None
    utilisation: float | None = None
    utilisation_half_width: float | None = None  # of the 99 % confidence interval over the runs
    p50: float | None = None
    p99: float | None = None
    p99_half_width: float | None = None
    in_time: float | None = None
    rejected: float | None = None
    usd_per_1000_images: float | None = None
    usd_per_1000_images_at_full_load: float | None = None
    joules_per_image: float | None = None
    provenance: str = ""


class Queue(BaseModel):
    """All platforms under one traffic."""

    model_config = ConfigDict(frozen=True)

    traffic: str
    process: str
    scenario: str
    rate: float  # requests/s that came
    duration: float  # s of one run
    runs: int
    seed: int
    batch: int
    hold: float
    objective: float
    queue_limit: int
    kept_duty: float | None
    rows: tuple[Row, ...]

    def text(self) -> str:
        """For people, cheapest image first."""
        kept = "" if self.kept_duty is None else f", devices kept for a duty of {self.kept_duty:.1%}"
        lines = [
            f"{self.traffic} ({self.process}), {self.rate:.3g} requests/s for {self.duration / 3600:.3g} h, {self.runs}"
            f" run{'s' if self.runs > 1 else ''} from seed {self.seed}; 99 % within {self.objective:g} s; batch"
            f" {self.batch}, queue {self.queue_limit}{kept}; costs of {self.scenario}; provenance: simulated on assumed"
            " requests",
            f"{'platform':<15}{'image/s':>9}{'needed':>8}{'kept':>6}{'used':>8}{'+-':>7}{'p50 s':>8}{'p99 s':>8}"
            f"{'+-':>7}{'in time':>9}{'refused':>9}{'J/image':>9}{'$/1000':>9}{'at 100 %':>10}",
        ]
        for r in sorted(self.rows, key=lambda r: (r.usd_per_1000_images is None, r.usd_per_1000_images)):
            head = f"{r.platform:<15}{r.images_per_second:>9.3g}"
            if r.needed is None:
                lines.append(f"{head}{'-':>8}  no number of devices: one image takes {r.seconds:.3g} s")
                continue
            lines.append(
                f"{head}{r.needed:>8}{r.devices:>6}{r.utilisation:>8.1%}{_half(r.utilisation_half_width, 100):>7}"
                f"{r.p50:>8.3g}{r.p99:>8.3g}{_half(r.p99_half_width):>7}{r.in_time:>9.2%}{r.rejected:>9.2%}"
                f"{_number(r.joules_per_image, '.0f'):>9}{_number(r.usd_per_1000_images, '.4g'):>9}"
                f"{_number(r.usd_per_1000_images_at_full_load, '.4g'):>10}"
            )
        return "\n".join(lines)

    def save(self, path: Path, command: str) -> None:
        """As JSON, atomically."""
        with atomic_write(path) as temporary:
            temporary.write_text(
                json.dumps({"format": SCHEMA, "command": command, **self.model_dump()}, indent=1) + "\n"
            )


def _half(value: float | None, factor: float = 1.0) -> str:
    return "-" if value is None else f"{factor * value:.2g}"


def _number(value: float | None, how: str) -> str:
    return "-" if value is None else format(value, how)


@dataclass(frozen=True)
class Options:
    """How requests come and how they are served. `alone`: s of one image on an idle device, by platform."""

    rate: float | None = None  # requests/s in place of the traffic file's
    arrivals: Path | None = None
    runs: int = 5
    seed: int = 0
    batch: int = 1
    hold: float = 0.0
    alone: Mapping[str, float] = field(default_factory=dict)


def measure(
    workload: Path,
    archs: Sequence[str],
    gpus: Sequence[str],
    economics: str,
    traffic: Traffic,
    options: Options,
    measured: Sequence[Path] = (),
    cycles: Mapping[str, Path] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Queue:
    """Every platform under the traffic. `cycles`: files of archs in place of results/estimate.

    Raises:
        DpuError: a file is wrong, a rate is not positive, or `alone` names no platform or an impossible time.
    """
    requests = come(traffic, options)
    platforms: dict[str, Platform] = {}
    given = dict(cycles or {})
    if unknown := [a for a in given if a not in archs]:
        raise DpuError(f"--cycles {unknown[0]}", "no such arch", hint=f"one of {', '.join(archs)}", code="E501")
    for arch in archs:
        found = run(Request(workload, arch, economics, tuple(gpus), given.get(arch), tuple(measured)), say).comparison
        for c in (found.dpu, *found.gpus):
            platforms.setdefault(c.platform.name, c.platform)
    for name in options.alone:
        if name not in platforms:
            raise DpuError(f"--alone {name}", "no such platform", hint=f"one of {', '.join(platforms)}", code="E501")
    terms = Terms.of(scenario(economics))
    rows = []
    for p in platforms.values():
        say(f"{p.name} ...")
        rows.append(_row(p, terms, traffic, requests, options))
    return Queue(
        traffic=str(options.arrivals or traffic.name),
        process="times of a file" if options.arrivals else traffic.process,
        scenario=economics,
        rate=sum(len(a.times) for a in requests) / sum(a.duration for a in requests),
        duration=requests[0].duration,
        runs=len(requests),
        seed=options.seed,
        batch=options.batch,
        hold=options.hold,
        objective=_objective(traffic),
        queue_limit=traffic.queue_limit,
        kept_duty=None if traffic.duty is None else traffic.duty.value,
        rows=tuple(rows),
    )


def come(traffic: Traffic, options: Options) -> list[Arrivals]:
    """The arrivals of each run; those of a file are one run.

    Raises:
        DpuError: the rate is not positive, or the file is wrong.
    """
    if options.rate is not None and not 0 < options.rate <= 1e4:
        what = f"value is {options.rate:g}, allowed: above 0 to 10000 image/s"
        raise DpuError("--rate", what, hint="leave it out for the traffic file's", code="E501")
    if not 0 <= options.hold <= 1e6:
        what = f"value is {options.hold:g}, allowed: 0 to 1e+06 s"
        raise DpuError("--hold", what, hint="0 takes at once whatever waits", code="E501")
    if options.arrivals is not None:
        if options.rate is not None:
            raise DpuError("--rate", "the arrivals have one", hint="leave out --rate or --arrivals", code="E501")
        return [read_arrivals(options.arrivals, _objective(traffic))]
    rate = traffic.rate.quantity("").to("image/s").value if options.rate is None else options.rate
    return [draw(traffic, rate, options.seed + i) for i in range(options.runs)]


def batch_seconds(platform: str, rate: float, batch: int, alone: float | None) -> Callable[[int], float]:
    """Seconds of a batch of n: n / rate, or the line through `alone` at 1 and batch / rate at the full batch.

    Raises:
        DpuError: one image alone cannot be faster than a full batch's mean, nor slower than the full batch.
    """
    if alone is None:
        return lambda n: n / rate
    if not 1 / rate <= alone <= batch / rate:
        raise DpuError(
            f"--alone {platform}",
            f"value is {alone:g}, allowed: {1 / rate:.4g} to {batch / rate:.4g} s",
            why=f"at {rate:.4g} image/s a full batch of {batch} takes {batch / rate:.4g} s",
            hint="give the --batch at which the rate was measured",
            code="E501",
        )
    each = (batch / rate - alone) / (batch - 1) if batch > 1 else 0.0
    return lambda n: alone + (n - 1) * each


def _objective(traffic: Traffic) -> float:
    return traffic.objective.quantity("").to("s").value


def _row(p: Platform, terms: Terms, traffic: Traffic, requests: Sequence[Arrivals], options: Options) -> Row:
    rate, objective = p.rate.to("image/s").value, _objective(traffic)
    seconds = batch_seconds(p.name, rate, options.batch, options.alone.get(p.name))
    service = Service(seconds, 1, options.batch, traffic.queue_limit, options.hold)
    came = sum(len(a.times) for a in requests) / sum(a.duration for a in requests)
    # fewer could not serve 95 of 100: no need to try
    least = devices_at(0.95 * came, options.batch / seconds(options.batch), 1.0)
    found = fewest(requests, service, objective, least)
    row = Row(platform=p.name, images_per_second=rate, seconds=seconds(1), needed=None)
    if found is None:
        return row
    needed = kept = found.runs[0].devices
    if traffic.duty is not None:
        kept = max(needed, devices_at(came, rate, traffic.duty.value))
        if kept > needed:
            found = serve(requests, replace(service, devices=kept), objective)
    return _costed(row, p, terms, found, needed, kept)


def _costed(row: Row, p: Platform, terms: Terms, found: Served, needed: int, kept: int) -> Row:
    """The row with what the runs gave, and the cost at their utilisation."""
    capacity = kept * row.images_per_second
    several = len(found.runs) > 1
    used, used_half = found.spread(lambda r: r.served / r.duration / capacity)
    served = found.per_second
    _, p99_half = found.spread(lambda r: Served((r,), found.objective).percentile(0.99))
    arrived = sum(len(r.arrived) for r in found.runs)
    update: dict[str, object] = {
        "needed": needed,
        "devices": kept,
        "duty": sum(r.duty for r in found.runs) / len(found.runs),
        "utilisation": used,
        "utilisation_half_width": used_half if several else None,
        "p50": found.percentile(0.5),
        "p99": found.percentile(0.99),
        "p99_half_width": p99_half if several else None,
        "in_time": found.in_time,
        "rejected": sum(r.rejected for r in found.runs) / max(arrived, 1),
    }
    if served:
        # rate x utilisation is what was served, whatever the rate: as one tree, the rate's uncertainty cancels
        per_second = assumed(served, "image/s", "queue simulation of assumed requests", f"{p.name}.served_per_second")
        utilisation = (per_second / (p.rate.to("image/s") * float(kept))).called(f"{p.name}.utilisation")
        c = cost(p, replace(terms, utilisation=utilisation))
        full = cost(p, replace(terms, utilisation=assumed(1.0, "1", "a bound: always busy", "full_load")))
        update |= {
            "usd_per_1000_images": c.thousand.value,
            "usd_per_1000_images_at_full_load": full.thousand.value,
            "joules_per_image": c.energy.value,
            "provenance": c.thousand.provenance.label,
        }
    return row.model_copy(update=update)
