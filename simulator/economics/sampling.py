"""What the uncertainty of the inputs does to the outputs: Monte Carlo, tornado, break-even surfaces.

Every input that states a distribution, and every measured one with a standard error, is drawn independently; the trees
of the outputs are computed again for all draws at once. A draw depends on the seed and the input's name alone, so that
an input more changes no other's draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from ...evidence import Array, Quantity, evaluate, leaves
from .compare import Comparison
from .schema import Stated

THRESHOLDS = (1.0, 2.0, 5.0)
PERCENTILES = (5, 25, 50, 75, 95)


def draw(number: Stated, name: str, samples: int, seed: int) -> Array:
    """Samples of a stated number."""
    rng = np.random.default_rng([seed, crc32(name.encode())])
    low, high = number.ends
    if number.shape == "uniform":
        return rng.uniform(low, high, samples)
    if number.shape == "triangular":
        return rng.triangular(low, number.value, high, samples) if high > low else np.full(samples, number.value)
    if number.shape == "normal":
        return rng.normal(number.value, number.sd or 0.0, samples)
    if number.shape == "lognormal":
        return number.value * np.exp(rng.normal(0.0, number.sd or 0.0, samples))
    return np.full(samples, number.value)


def draws(outputs: Sequence[Quantity], stated: Mapping[str, Stated], samples: int, seed: int) -> dict[str, Array]:
    """Samples of every uncertain leaf of the outputs, by name; measured leaves are normal."""
    found: dict[str, Array] = {}
    for name, q in sorted(leaves(*outputs).items()):
        if name in stated and stated[name].shape != "fixed":
            found[name] = draw(stated[name], name, samples, seed)
        elif name not in stated and q.uncertainty:
            normal = Stated.model_construct(value=q.value, unit=q.unit, sd=q.uncertainty, distribution="normal")
            found[name] = draw(normal, name, samples, seed)
    return found


@dataclass(frozen=True)
class Spread:
    """A sampled output."""

    name: str
    unit: str
    nominal: float
    mean: float
    sd: float
    percentiles: dict[int, float]

    @classmethod
    def of(cls, q: Quantity, values: Array) -> Spread:
        """Of samples in the unit of the quantity; infinite ones (a break-even never reached) count in percentiles."""
        finite = values[np.isfinite(values)]
        ranks = np.percentile(values, PERCENTILES, method="higher")
        return cls(
            name=q.name,
            unit=q.unit,
            nominal=q.value,
            mean=float(np.mean(finite)) if len(finite) == len(values) else float("inf"),
            sd=float(np.std(finite)) if len(finite) == len(values) else float("inf"),
            percentiles={p: float(v) for p, v in zip(PERCENTILES, ranks, strict=True)},
        )


@dataclass(frozen=True)
class Advantage:
    """How often the DPU beats a GPU by each threshold; `gpu` is `cheapest` for the best GPU of every draw."""

    gpu: str
    spread: Spread
    probability: dict[float, float]
    never: float  # share of the draws in which no volume pays the NRE
    break_even_devices: dict[int, float]  # percentile -> devices, infinite where never


@dataclass(frozen=True)
class Bar:
    """One input of a tornado: the output with the input at either end of its range."""

    name: str
    low: float
    high: float
    at_low: float
    at_high: float

    @property
    def swing(self) -> float:
        return abs(self.at_high - self.at_low)


@dataclass(frozen=True)
class Surface:
    """An output over two inputs; `values[i][j]` is at `ys[i]`, `xs[j]`."""

    output: str
    x: str
    y: str
    xs: Array
    ys: Array
    values: Array


@dataclass(frozen=True)
class Uncertainty:
    """The Monte Carlo of a comparison."""

    samples: int
    seed: int
    dpu: Spread
    gpus: tuple[Spread, ...]
    advantages: tuple[Advantage, ...]


def monte_carlo(c: Comparison, samples: int = 10_000, seed: int = 0) -> Uncertainty:
    """Costs, advantages and break-even volumes over all stated distributions."""
    costs = [c.dpu.image, *(g.image for g in c.gpus)]
    savings = [v.saving for v in c.versus]
    nre = [] if c.dpu.platform.nre is None else [c.dpu.platform.nre, c.dpu.life]
    outputs = [*costs, *savings, *nre]
    given = draws(outputs, c.stated, samples, seed)
    dpu, *values = [np.broadcast_to(v, (samples,)) for v in evaluate(outputs, given)]
    gpus, saved, paid = values[: len(c.gpus)], values[len(c.gpus) : 2 * len(c.gpus)], values[2 * len(c.gpus) :]
    ratios = [g / dpu for g in gpus]
    devices = [_devices(paid[0], s, paid[1]) if paid else None for s in saved]
    found = [_advantage(v.gpu, v.advantage, r, d) for v, r, d in zip(c.versus, ratios, devices, strict=True)]
    best = np.min(np.stack(gpus), axis=0) / dpu
    nominal = min(c.versus, key=lambda v: v.advantage.value).advantage
    least = None if devices[0] is None else np.max(np.stack([d for d in devices if d is not None]), axis=0)
    found.append(_advantage("cheapest", nominal, best, least))
    return Uncertainty(
        samples=samples,
        seed=seed,
        dpu=Spread.of(c.dpu.image, dpu),
        gpus=tuple(Spread.of(g.image, v) for g, v in zip(c.gpus, gpus, strict=True)),
        advantages=tuple(found),
    )


def _devices(nre: Array, saving: Array, life: Array) -> Array:
    """Break-even volume of every draw; infinite where the chip saves nothing."""
    volume: Array = np.where(saving > 0, nre / np.where(saving > 0, saving, 1.0) / life, np.inf)
    return volume


def _advantage(gpu: str, nominal: Quantity, ratios: Array, devices: Array | None) -> Advantage:
    return Advantage(
        gpu=gpu,
        spread=Spread.of(nominal, ratios),
        probability={t: float(np.mean(ratios > t)) for t in THRESHOLDS},
        never=0.0 if devices is None else float(np.mean(~np.isfinite(devices))),
        break_even_devices={}
        if devices is None
        else {p: float(np.percentile(devices, p, method="higher")) for p in PERCENTILES},
    )


def tornado(output: Quantity, stated: Mapping[str, Stated]) -> list[Bar]:
    """Each uncertain input of an output at its ends, the others as stated; the widest swing first."""
    bars = []
    for name, q in leaves(output).items():
        low, high = stated[name].ends if name in stated else (q.value, q.value)
        if low == high and q.uncertainty:
            low, high = q.value - 1.645 * q.uncertainty, q.value + 1.645 * q.uncertainty
        if low < high:
            (values,) = evaluate([output], {name: np.array([low, high])})
            bars.append(Bar(name, low, high, float(values[0]), float(values[1])))
    return sorted(bars, key=lambda b: (-b.swing, b.name))


def surface(output: Quantity, x: str, xs: Array, y: str, ys: Array) -> Surface:
    """An output over the values of two of its inputs, by name.

    Raises:
        KeyError: the output does not depend on one of them.
    """
    (values,) = evaluate([output], {x: np.asarray(xs)[None, :], y: np.asarray(ys)[:, None]})
    grid = np.broadcast_to(values, (len(ys), len(xs)))
    return Surface(output.name, x, y, np.asarray(xs, float), np.asarray(ys, float), np.array(grid))


def break_even_surfaces(c: Comparison, points: int = 25) -> list[Surface]:
    """The advantage over the cheapest GPU over utilisation x volume, and over rate x price of the DPU's hardware."""
    best = c.versus_cheapest
    p = c.dpu.platform
    found = []
    utilisation = np.linspace(0.04, 1.0, points)
    if p.volume is not None:
        volumes = np.logspace(3, 6, points)
        found.append(surface(best.advantage, "scenario.utilisation", utilisation, "scenario.asic.volume", volumes))
    price = p.rent if p.rent is not None else p.hardware
    assert price is not None
    rates = p.rate.value * np.logspace(-1, 2, points)
    prices = price.value * np.logspace(-1.5, 0.5, points)
    found.append(surface(best.advantage, p.rate.name, rates, price.name, prices))
    return found
