"""Which number of an arch is worth changing? Each alone, halved and doubled: time of an image and die area.

The time is the compiler's estimate, the area that of `simulator/economics/chip.py` at a scenario's node; a memory
without a known interface has no area.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ..codegen.estimate import Workload
from ..errors import DpuError
from ..ir.arch import Arch
from ..simulator.economics.chip import chip
from ..simulator.economics.cost import Terms
from ..simulator.economics.inputs import Scenario, Silicon
from ..simulator.economics.schema import Stated
from ..simulator.economics.workload import EntryCycles, image_work, runs_of, sdxl_cycles
from ..simulator.variants import number, vary

TRIED = (
    *("tiles", "array", "lanes", "clock_hz"),
    *(f"buffers.{b}.bytes" for b in ("act", "wgt", "acc", "vbuf", "param")),
    *(f"queues.{q}" for q in ("load", "mxu", "vpu", "store")),
    *("dram.bits", "dram.port_bytes_per_cycle", "l2_bytes"),
)
"""Numbers that a designer may choose."""


class Change(BaseModel):
    """One number changed; without `error`, what that does. Ratios are new over old; no area where it is unknown."""

    model_config = ConfigDict(frozen=True)

    name: str
    old: float
    new: float
    cycles: int | None = None
    time: float | None = None  # ratio
    area: float | None = None  # ratio
    error: str = ""

    @property
    def time_area(self) -> float:
        """Ratio of time x area: below 1, images a second and mm2 grow."""
        return (self.time or 1.0) * (self.area or 1.0)


class Explained(BaseModel):
    """An arch and its changes."""

    model_config = ConfigDict(frozen=True)

    arch: str
    steps: int
    cycles: int
    seconds: float
    die_mm2: float | None
    node: str
    bound: dict[str, float]  # share of the cycles of an image, by engine
    changes: tuple[Change, ...]

    def text(self, rows: int = 0) -> str:
        """For people, the largest effect on time first; `rows` of them, or all for 0."""
        area = "area unknown" if self.die_mm2 is None else f"{self.die_mm2:.0f} mm2 at {self.node} nm"
        shares = ", ".join(f"{k} {v:.0%}" for k, v in sorted(self.bound.items(), key=lambda kv: -kv[1]))
        lines = [
            f"{self.arch}: {self.cycles:,} cycles, {self.seconds:.3f} s an image of {self.steps} steps, {area}"
            " (provenance: assumed, the compiler's estimate)",
            f"cycles by the engine that bounds them: {shares}",
            f"{'change':<26}{'from':>15}{'to':>15}{'cycles':>18}{'time':>9}{'area':>9}{'time x area':>13}",
        ]
        made = [c for c in self.changes if not c.error]
        made.sort(key=lambda c: ((c.time or 1.0), (c.area or 1.0), c.name, c.new))
        for c in made[:rows] if rows else made:
            grown = "-" if c.area is None else f"{c.area - 1:+.1%}"
            both = "-" if c.area is None else f"{c.time_area - 1:+.1%}"
            lines.append(
                f"{c.name:<26}{c.old:>15,.12g}{c.new:>15,.12g}{c.cycles or 0:>18,}{(c.time or 1) - 1:>+9.1%}"
                f"{grown:>9}{both:>13}"
            )
        lines += [f"not possible: {c.name} {c.new:,.12g}: {c.error}" for c in self.changes if c.error]
        return "\n".join(lines)


def changes(arch: Arch) -> Iterator[tuple[str, float, float]]:
    """(name, old, new): each number halved and doubled."""
    for name in TRIED:
        old = number(arch, name)
        if not old:
            continue
        for new in (old / 2, old * 2):
            if float(new).is_integer() and new >= 1:
                yield name, old, int(new)


def explain(
    arch: Arch,
    workload: Workload,
    scenario: Scenario,
    silicon: Silicon,
    folder: Path,
    steps: int = 20,
    say: Callable[[str], None] = lambda _: None,
) -> Explained:
    """All changes of an arch; `folder` takes varied DRAM files.

    Raises:
        DpuError: the workload does not fit the arch itself.
    """
    cycles, area, bound = _made(arch, workload, scenario, silicon, steps)
    found = []
    for name, old, new in changes(arch):
        say(f"{name} {new:,.12g} ...")
        row = Change(name=name, old=old, new=new)
        try:
            other = vary(arch, [(name, new)], arch.dram.bytes, folder)
            now, grown, _ = _made(other, workload, scenario, silicon, steps)
        except DpuError as e:
            found.append(row.model_copy(update={"error": e.what}))
            continue
        time = (now / other.clock_hz) / (cycles / arch.clock_hz)
        ratio = None if area is None or grown is None else grown / area
        found.append(row.model_copy(update={"cycles": now, "time": time, "area": ratio}))
    return Explained(
        arch=arch.name,
        steps=steps,
        cycles=cycles,
        seconds=cycles / arch.clock_hz,
        die_mm2=area,
        node=scenario.asic.node,
        bound=bound,
        changes=tuple(found),
    )


def _made(
    arch: Arch, workload: Workload, scenario: Scenario, silicon: Silicon, steps: int
) -> tuple[int, float | None, dict[str, float]]:
    """Cycles of an image, mm2 of the die (none of a memory without a known interface), cycles' shares by engine.

    Raises:
        DpuError: the workload does not fit the arch, or the die no scanner.
    """
    entries = workload.estimate(arch)
    runs = [runs_of(e.entry, steps) for e in entries]
    bound: dict[str, float] = {}
    for e, n in zip(entries, runs, strict=True):
        for op in e.ops:
            bound[op.bound] = bound.get(op.bound, 0.0) + n * op.cycles
    total = sum(n * e.cycles for e, n in zip(entries, runs, strict=True))
    bound = {k: v / max(total, 1) for k, v in bound.items()}
    if number(arch, "dram.bits") is None:
        return total, None, bound
    sure = Stated(value=1.0, unit="1", provenance="assumed", source="the estimate as it is")
    made = [
        EntryCycles(entry=e.entry, cycles=e.cycles, macs=e.macs, executed=e.executed, dram_bytes=e.bytes, runs=n)
        for e, n in zip(entries, runs, strict=True)
    ]
    cycles = sdxl_cycles(arch, steps, made, sure, "dpuc explain: the compiler's estimate")
    platform = chip(arch, image_work(cycles, arch), silicon, Terms.of(scenario))
    return total, platform.details["die_area"].value, bound
