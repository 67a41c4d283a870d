"""An image service under load: on the chip, and on the GPUs with the cheapest images (`dpubench queue`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...simulator.economics.compare import Comparison
from ...simulator.economics.inputs import shipped
from ...simulator.economics.traffic import Traffic
from ..queueing import Options, Queue, measure


@dataclass(frozen=True)
class Served:
    """One kind of traffic and what it needed."""

    traffic: Traffic
    queue: Queue


def opponents(c: Comparison, most: int = 2) -> list[str]:
    """The GPUs with the cheapest images of which a file ships: measured ones are the same devices again."""
    known = shipped("gpu")
    found = [g.platform.name for g in sorted(c.gpus, key=lambda g: g.image.value) if g.platform.name in known]
    return found[:most]


def serve(
    c: Comparison,
    arch: str,
    workload: Path,
    scenario: str,
    traffics: Sequence[Traffic],
    runs: int,
    seed: int,
    cycles: Mapping[str, Path],
    say: Callable[[str], None],
) -> tuple[Served, ...]:
    """Every traffic on a comparison's DPU, `arch`, and its cheapest opponents; `scenario` by name or path."""
    found = []
    for t in traffics:
        say(f"queue: {t.name}")
        options = Options(runs=runs, seed=seed)
        found.append(Served(t, measure(workload, [arch], opponents(c), scenario, t, options, cycles=cycles)))
    return tuple(found)
