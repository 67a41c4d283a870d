"""The table of a sweep: one Parquet file, Pareto front, the best arch of an objective.

Points are compared with points of the same images, steps, precision and scenario only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from ..errors import DpuError
from ..files import atomic_write

SCHEMA = "dpu.sweep/1"
UNITS = {
    "seconds_per_image": "s",
    "images_per_second": "1/s",
    "cycles_per_image": "cycle",
    "dram_bytes_per_image": "B",
    "joules_per_image": "J",
    "usd_per_image": "USD",
    "usd_per_image_before_nre": "USD",
    "die_mm2": "mm2",
    "card_usd": "USD",
    "array_utilisation": "1",
    "die_yield": "1",
}
"""Columns that can be an objective."""
HIGHER = frozenset({"images_per_second", "array_utilisation", "die_yield"})
"""Those of them of which more is better."""


class Row(BaseModel):
    """One point; no numbers where `error` says why not."""

    model_config = ConfigDict(frozen=True)

    arch: str
    settings: tuple[tuple[str, float], ...]
    precision: str
    width: int
    height: int
    images_per_forward: int
    steps: int
    scenario: str
    cycles_per_image: int | None = None
    seconds_per_image: float | None = None
    images_per_second: float | None = None
    array_utilisation: float | None = None
    dram_bytes_per_image: int | None = None
    joules_per_image: float | None = None
    usd_per_image: float | None = None
    usd_per_image_before_nre: float | None = None
    die_mm2: float | None = None
    die_yield: float | None = None
    card_usd: float | None = None
    bound_by: str = ""
    provenance: str = ""
    error: str = ""

    @property
    def group(self) -> tuple[str, int, int, int, int, str]:
        """Rows of one group may be compared."""
        return self.precision, self.width, self.height, self.images_per_forward, self.steps, self.scenario

    def better(self, column: str) -> float:
        """The number of a column, turned so that less is better."""
        value = float(getattr(self, column))
        return -value if column in HIGHER else value


def check_objectives(columns: Sequence[str]) -> None:
    """Refuse what is no objective.

    Raises:
        DpuError: there is no such column.
    """
    for column in columns:
        if column not in UNITS:
            raise DpuError("--objective", f"no column '{column}'", hint=f"one of {', '.join(UNITS)}", code="E501")


@dataclass(frozen=True)
class Table:
    """All points in the order of the axes, so that it does not depend on who computed them."""

    base: str
    code: str
    graphs: str
    parameters: tuple[str, ...]
    rows: tuple[Row, ...]

    def groups(self) -> Iterator[tuple[tuple[str, int, int, int, int, str], list[Row]]]:
        """Points that have numbers, by group."""
        found: dict[tuple[str, int, int, int, int, str], list[Row]] = {}
        for r in self.rows:
            if not r.error:
                found.setdefault(r.group, []).append(r)
        yield from found.items()

    def save(self, path: Path) -> None:
        """As one Parquet file, atomically; a parameter of the arch is the column `set.<name>`."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns: dict[str, list[Any]] = {f"set.{n}": [dict(r.settings)[n] for r in self.rows] for n in self.parameters}
        kinds: dict[str, Any] = {f"set.{n}": pa.float64() for n in self.parameters}
        for name, field in Row.model_fields.items():
            if name != "settings":
                columns[name] = [getattr(r, name) for r in self.rows]
                text = str(field.annotation)
                kinds[name] = pa.float64() if "float" in text else pa.int64() if "int" in text else pa.string()
        front = {id(r) for _, rows in self.groups() for r in pareto(rows, ("usd_per_image", "seconds_per_image"))}
        columns["on_front"] = [id(r) in front for r in self.rows]
        kinds["on_front"] = pa.bool_()
        said = {"format": SCHEMA, "base": self.base, "code": self.code, "graphs": self.graphs, "units": UNITS}
        schema = pa.schema([(n, kinds[n]) for n in columns], metadata={"dpu": json.dumps(said)})
        with atomic_write(path) as temporary:
            pq.write_table(pa.table(columns, schema=schema), temporary)

    def text(self, objective: str, front: Sequence[str]) -> str:
        """For people: of each group the best arch, and the Pareto front of the cheapest group."""
        refused = [r for r in self.rows if r.error]
        archs = len({r.arch for r in self.rows})
        lines = [
            f"{len(self.rows)} points of {archs} archs around {self.base}, {len(refused)} refused; provenance: "
            + (next((r.provenance for r in self.rows if r.provenance), "")),
            f"best by {objective} ({UNITS[objective]}):",
            f"{'images':<14}{'steps':>6}  {'scenario':<20}{'$/1000':>9}{'s/image':>9}{'mm2':>7}{objective:>26}  arch",
        ]
        groups = list(self.groups())
        for key, rows in groups:
            b = min(rows, key=lambda r: r.better(objective))
            lines.append(
                f"{f'{b.width}x{b.height}x{b.images_per_forward}':<14}{b.steps:>6}  {b.scenario:<20}"
                f"{1000 * (b.usd_per_image or 0):>9.4g}{b.seconds_per_image:>9.3g}{b.die_mm2:>7.0f}"
                f"{getattr(b, objective):>26.5g}  {b.arch} {key[0]}"
            )
        key, rows = min(groups, key=lambda g: min(r.better(objective) for r in g[1]))
        found = pareto(rows, front)
        lines.append(f"Pareto front of {', '.join(front)} at {key[1]}x{key[2]}x{key[3]}, {key[4]} steps, {key[5]}:")
        lines += ["  " + ", ".join(f"{c} {getattr(r, c):.4g}" for c in front) + f"  {r.arch}" for r in found]
        reasons: dict[str, int] = {}
        for r in refused:
            reasons[r.error] = reasons.get(r.error, 0) + 1
        lines += [f"refused ({n} points): {what}" for what, n in list(reasons.items())[:5]]
        if len(reasons) > 5:
            lines.append(f"refused for {len(reasons) - 5} reasons more: column 'error'")
        return "\n".join(lines)


def pareto(rows: Sequence[Row], columns: Sequence[str]) -> list[Row]:
    """The rows that no other row beats in one column without being worse in another, best of the first column first."""
    found: list[tuple[tuple[float, ...], Row]] = []
    for value, row in sorted(((tuple(r.better(c) for c in columns), r) for r in rows), key=lambda p: p[0]):
        if not any(all(a <= b for a, b in zip(kept, value, strict=True)) and kept != value for kept, _ in found):
            found.append((value, row))
    return [r for _, r in found]
