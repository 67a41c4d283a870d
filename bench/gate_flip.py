"""What holds a DPU back, and the value of one input that would reach the goal, by the one cost formula.

Each lever is moved alone: the trees of numbers of the comparison are computed again with the input at other values
(`evidence.evaluate`), against whichever GPU is then cheapest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..evidence import Array, evaluate
from ..ir.arch import Arch
from ..simulator.economics.compare import GOAL, Comparison
from ..simulator.economics.workload import Cycles

_POINTS, _ROUNDS = 200, 4
_SPAN = 1e6


@dataclass(frozen=True)
class Flip:
    """One lever. `needed` is none where no value of it reaches the goal; `best` is the advantage at its best end."""

    lever: str
    unit: str
    now: float
    needed: float | None
    best: float

    @property
    def text(self) -> str:
        """In one line."""
        unit = "" if self.unit == "1" else f" {self.unit}"
        if self.needed is None:
            return f"{self.lever} (at best {self.best:.3g}x)"
        times = self.needed / self.now
        ratio = f"{times:.3g}x" if times >= 1 else f"1/{1 / times:.3g}"
        return f"{self.lever} {self.needed:.4g}{unit} instead of {self.now:.4g} ({ratio})"


@dataclass(frozen=True)
class Bottleneck:
    """Where the cost comes from, and how far the arch is from its own limits. Shares are of the image's time."""

    part: str
    share: float
    array: float
    memory: float
    ceiling: float  # the advantage if the array were busy in every cycle

    @property
    def text(self) -> str:
        """In one line."""
        held = "held by the matrix array" if self.array >= self.memory else "held by memory"
        if max(self.array, self.memory) < 0.5:
            held = "held by neither array nor memory, but by waiting"
        return (
            f"{self.part} is {self.share:.0%} of the cost; the rate is {held} (array {self.array:.0%} of its"
            f" peak, memory {self.memory:.0%}); with the array always busy {self.ceiling:.3g}x"
        )


def advantages(c: Comparison, given: Mapping[str, Array]) -> Array:
    """The advantage over the cheapest GPU for other values of named inputs.

    Raises:
        KeyError: no cost depends on an input of such a name.
    """
    values = np.broadcast_arrays(*evaluate([v.advantage for v in c.versus], given))
    least: Array = np.min(np.stack(values), axis=0)
    return least


def flips(c: Comparison) -> list[Flip]:
    """Throughput, price, power and utilisation; of a chip also NRE and volume."""
    p = c.dpu.platform
    price = p.rent if p.rent is not None else p.hardware
    assert price is not None
    levers: list[tuple[str, str, str, float, float, float]] = [
        ("throughput", p.rate.name, p.rate.unit, p.rate.value, 1.0, _SPAN),
        ("rent" if p.rent is not None else "price with host", price.name, price.unit, price.value, 1 / _SPAN, 1.0),
        ("busy power at the wall", p.busy.name, p.busy.unit, p.busy.value, 1 / _SPAN, 1.0),
    ]
    u = c.scenario.utilisation.value
    levers.append(("utilisation", "scenario.utilisation", "1", u, min(1.0, 0.01 / u), 1 / u))
    if p.nre is not None and p.volume is not None:
        levers.append(("NRE", p.nre.name, p.nre.unit, p.nre.value, 1 / _SPAN, 1.0))
        levers.append(("volume", p.volume.name, p.volume.unit, p.volume.value, 1.0, _SPAN))
    found = []
    for label, name, unit, now, low, high in levers:
        try:
            found.append(_solve(c, label, name, unit, now, low, high))
        except KeyError:  # power of a rented device is in its rent
            here = float(advantages(c, {}))
            found.append(Flip(label, unit, now, None, here))
    return found


def _solve(c: Comparison, label: str, name: str, unit: str, now: float, low: float, high: float) -> Flip:
    """The value nearest to `now` that reaches the goal, between `low` and `high` times it; refined on finer grids."""
    needed: float | None = None
    factors = np.geomspace(low, high, _POINTS)
    values = advantages(c, {name: now * factors})
    best = float(values.max())
    for _ in range(_ROUNDS):
        good = np.flatnonzero(values >= GOAL)
        if not len(good):
            break
        place = int(good[np.argmin(np.abs(np.log(factors[good])))])
        needed = float(now * factors[place])
        beside = place - 1 if factors[place] > 1 else place + 1
        if factors[place] == 1 or not 0 <= beside < len(factors):
            break
        low, high = sorted((float(factors[place]), float(factors[beside])))
        factors = np.geomspace(low, high, _POINTS)
        values = advantages(c, {name: now * factors})
    return Flip(label, unit, now, needed, best)


def bottleneck(c: Comparison, cycles: Cycles, arch: Arch) -> Bottleneck:
    """The largest part of the cost, and the shares of array and memory in the time of an image."""
    part = max(c.dpu.parts, key=lambda k: c.dpu.parts[k].value)
    seconds = 1 / c.dpu.platform.rate.to("image/s").value
    least = cycles.sums("executed") / arch.peak_macs_per_cycle / arch.clock_hz
    moved = cycles.sums("dram_bytes") / arch.dram.bytes_per_cycle / arch.clock_hz
    full = advantages(c, {c.dpu.platform.rate.name: np.array([1 / least])})
    return Bottleneck(
        part=part,
        share=c.dpu.parts[part].value / c.dpu.image.value,
        array=least / seconds,
        memory=moved / seconds,
        ceiling=float(full[0]),
    )
