"""Which chip makes the cheapest image? Variants of an arch, in tiles and width of the memory, at every node.

Cycles are the compiler's estimate for each variant (`estimate_cycles.py`), cost the formula of `economics/cost.py`
in one scenario. Only what is varied here is varied: clock, array, lanes and scratchpads are those of the arch given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ..errors import DpuError
from ..files import atomic_write
from ..ir.arch import Arch
from ..simulator.economics.chip import chip
from ..simulator.economics.cost import Cost, Terms, cost
from ..simulator.economics.inputs import Scenario, Silicon
from ..simulator.economics.workload import Cycles, image_work
from ..simulator.variants import GIB, with_bits
from .estimate_cycles import estimate

SCHEMA = "dpu.chips/1"
TILES = (4, 8, 12, 16, 24, 32)
BITS = (128, 256, 512)
LEAST = 16 * GIB
"""Of memory: weights and activations with room for several requests; and 1 GiB a channel, the smallest packages."""


class Chip(BaseModel):
    """One variant at one node; money in USD, of an image or a card."""

    model_config = ConfigDict(frozen=True)

    arch: str
    tiles: int
    bits: int
    node: str
    images_per_second: float
    die_mm2: float
    die_yield: float
    card_usd: float
    nre_usd: float
    marginal_usd: float
    image_usd: float


class Chips(BaseModel):
    """The table. Every number is `assumed`, as its weakest input."""

    model_config = ConfigDict(frozen=True)

    provenance: str
    base: str
    scenario: str
    volume: float
    rows: tuple[Chip, ...]
    left_out: tuple[str, ...] = ()

    def best(self, nre: bool) -> Chip:
        """The variant with the cheapest image, with NRE or without."""
        return min(self.rows, key=lambda r: r.image_usd if nre else r.marginal_usd)

    def text(self) -> str:
        """For people: of each node, the variants from the cheapest image up."""
        lines = [
            f"variants of {self.base} in {self.scenario}, NRE over {self.volume:,.0f} cards;"
            f" clock of the arch file at every node; provenance: {self.provenance}",
            f"{'node':>5}{'tiles':>7}{'bits':>6}{'image/s':>9}{'mm2':>7}{'yield':>7}{'card $':>8}{'$/1000':>9}"
            f"{'with NRE':>10}",
        ]
        for r in sorted(self.rows, key=lambda r: (int(r.node), r.image_usd)):
            lines.append(
                f"{r.node:>5}{r.tiles:>7}{r.bits:>6}{r.images_per_second:>9.3f}{r.die_mm2:>7.0f}{r.die_yield:>7.0%}"
                f"{r.card_usd:>8.0f}{1000 * r.marginal_usd:>9.3f}{1000 * r.image_usd:>10.3f}"
            )
        lines += [f"left out: {x}" for x in self.left_out]
        for nre, label in ((True, "cheapest image with NRE"), (False, "cheapest before NRE")):
            b = self.best(nre)
            lines.append(
                f"{label}: {b.tiles} tiles, {b.bits} bits, {b.node} nm: $"
                f"{1000 * (b.image_usd if nre else b.marginal_usd):.3f} a thousand"
            )
        return "\n".join(lines)

    def save(self, path: Path, command: str) -> None:
        """As JSON, atomically."""
        content = {"format": SCHEMA, "command": command, **self.model_dump()}
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(content, indent=1) + "\n")


def variant(base: Arch, tiles: int, bits: int, folder: Path) -> Arch:
    """The base arch with other tiles and another width of LPDDR5X, whose timing file is written into `folder`."""
    wide = with_bits(base, bits, LEAST, folder)
    return Arch.model_validate(wide.model_dump() | {"name": f"{base.name}_{tiles}x{bits}", "tiles": tiles})


def measure(
    base: Arch,
    scenario: Scenario,
    silicon: Silicon,
    folder: Path,
    tiles: Sequence[int] = TILES,
    bits: Sequence[int] = BITS,
    say: Callable[[str], None] = lambda _: None,
) -> Chips:
    """The cost of every variant at every node.

    Raises:
        DpuError: the base arch has another memory than LPDDR5X, or does not fit the model.
    """
    archs = {(t, b): variant(base, t, b, folder) for t in tiles for b in bits}
    cycles = dict(zip(archs, estimate(list(archs.values()), say=say), strict=True))
    return table(base, scenario, silicon, archs, cycles)


def table(
    base: Arch,
    scenario: Scenario,
    silicon: Silicon,
    archs: Mapping[tuple[int, int], Arch],
    cycles: Mapping[tuple[int, int], Cycles],
) -> Chips:
    """The costs of variants whose cycles are known."""
    rows: list[Chip] = []
    costs: list[Cost] = []
    left_out: list[str] = []
    for (t, b), arch in archs.items():
        for node in silicon.nodes:
            plan = scenario.asic.model_copy(update={"node": node})
            terms = Terms.of(scenario.model_copy(update={"asic": plan}))
            try:
                c = cost(chip(arch, image_work(cycles[t, b], arch), silicon, terms), terms)
            except DpuError as e:
                left_out.append(f"{t} tiles, {b} bits: {e.what}")
                continue
            d, nre = c.platform.details, c.platform.nre
            assert nre is not None
            costs.append(c)
            rows.append(
                Chip(
                    arch=arch.name,
                    tiles=t,
                    bits=b,
                    node=node,
                    images_per_second=c.platform.rate.value,
                    die_mm2=d["die_area"].value,
                    die_yield=d["die_yield"].value,
                    card_usd=d["price_of_card"].value,
                    nre_usd=nre.value,
                    marginal_usd=c.marginal.value,
                    image_usd=c.image.value,
                )
            )
    return Chips(
        provenance=min(c.image.provenance for c in costs).label,
        base=base.name,
        scenario=scenario.name,
        volume=scenario.asic.volume.value,
        rows=tuple(rows),
        left_out=tuple(left_out),
    )
