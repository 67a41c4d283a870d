"""Speed, cost and quality of everything that exists: DPUs, GPUs, and variants of the chip where a sweep was kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import refusing
from ...evidence import Provenance
from ...simulator.economics.compare import Comparison
from ...simulator.economics.cost import Cost
from ...simulator.economics.inputs import accelerator, shipped
from ..gate_conditions import WINDOW
from ..size_chip import Chips
from .missing import Missing


@dataclass(frozen=True)
class Made:
    """An image of one platform. `quality` is none where nobody has shown it."""

    name: str
    title: str
    kind: str
    seconds: float  # 1 / rate
    usd: float  # a thousand
    rate_provenance: Provenance
    provenance: Provenance  # of the cost
    source: str
    quality: bool | None
    fid: float | None = None
    clip: float | None = None


@dataclass(frozen=True)
class Frontier:
    """Every platform in one scenario, and variants of the chip."""

    scenario: str
    made: tuple[Made, ...]
    variants: tuple[Made, ...] | Missing

    @property
    def everything(self) -> tuple[Made, ...]:
        """Platforms, and variants where there are any."""
        return self.made if isinstance(self.variants, Missing) else (*self.made, *self.variants)

    @property
    def front(self) -> tuple[Made, ...]:
        """Those that no other beats in cost without being slower; variants count, fastest first."""
        found: list[Made] = []
        for m in sorted(self.everything, key=lambda m: (m.seconds, m.usd)):
            if not found or m.usd < found[-1].usd:
                found.append(m)
        return tuple(found)


def platforms(comparisons: Iterable[Comparison]) -> dict[str, Cost]:
    """The cost of each platform once, by name."""
    found: dict[str, Cost] = {}
    for c in comparisons:
        for one in (c.dpu, *c.gpus):
            found.setdefault(one.platform.name, one)
    return found


def frontier(comparisons: Sequence[Comparison], dpu_quality: bool | None, folder: Path, base: str) -> Frontier:
    """Of comparisons in one scenario; `base` is the chip whose variants are looked for in `folder`, or empty."""
    scenario, dpus = comparisons[0].scenario.name, {c.dpu.platform.name for c in comparisons}
    made = tuple(_made(one, dpu_quality if name in dpus else None) for name, one in platforms(comparisons).items())
    return Frontier(scenario, made, variants(folder / "chips.json", base, scenario) if base else ())


def _made(c: Cost, dpu_quality: bool | None) -> Made:
    p, known = c.platform, shipped("gpu")
    stated = accelerator(p.name) if p.kind == "gpu" and p.name in known else None
    fid, clip = (None, None) if stated is None else (stated.fid, stated.clip)
    quality = dpu_quality
    if fid is not None and clip is not None:
        ends = zip((fid.value, clip.value), WINDOW.values(), strict=True)
        quality = all(low <= value <= high for value, (low, high) in ends)
    return Made(
        name=p.name,
        title=p.title,
        kind=p.kind,
        seconds=1 / p.rate.to("image/s").value,
        usd=c.thousand.value,
        rate_provenance=p.rate.provenance,
        provenance=c.thousand.provenance,
        source=c.thousand.source,
        quality=quality,
        fid=None if fid is None else fid.value,
        clip=None if clip is None else clip.value,
    )


def variants(file: Path, base: str, scenario: str) -> tuple[Made, ...] | Missing:
    """The chips of `dpubench size-chip`, if they are of this arch and scenario.

    Raises:
        DpuError: the file is damaged.
    """
    command = f"dpubench size-chip --arch {base} --economics {scenario} -o results/economics/chips.json"
    why = "whether another number of tiles, memory or node would be cheaper is not shown"
    if not file.is_file():
        return Missing(f"variants of {base}: a sweep of its size", why, command)
    with refusing(str(file), "is no table of dpubench size-chip", hint=command, code="E520"):
        content = json.loads(file.read_text())
        found = Chips.model_validate({k: v for k, v in content.items() if k not in ("format", "command")})
    if (found.base, found.scenario) != (base, scenario):
        return Missing(
            f"variants of {base} in {scenario} (there are those of {found.base} in {found.scenario})", why, command
        )
    p = Provenance[found.provenance.upper()]
    return tuple(
        Made(
            name=f"{r.tiles} tiles, {r.bits} bits, {r.node} nm",
            title=r.arch,
            kind="variant",
            seconds=1 / r.images_per_second,
            usd=1000 * r.image_usd,
            rate_provenance=p,
            provenance=p,
            source=str(content.get("command", command)),
            quality=None,
        )
        for r in found.rows
    )
