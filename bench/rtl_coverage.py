"""`dpubench coverage`: which lines of the RTL ran, which bits went up and down, and why the rest did not.

Counts are Verilator's (line, branch, toggle), summed over all instances of a module and over all shapes. The points are
those of the models that run random programs; benches on other shapes add to them, and lines. A hole is a point that was
never reached. `rtl/coverage_holes.json` gives holes a reason: those cannot be reached, or not by a legal
use, and do not count. What has no reason is listed as open.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ..evidence import Provenance
from ..files import atomic_write
from ..rtl import toolchain
from ..rtl.model import TOP
from .campaign import design, run_block
from .rtl_seeds import BLOCK

SHAPES = ("pair", "one")
FIRST = 4_000_000  # seeds that no committed campaign has
LINE, TOGGLE = 0.95, 0.85
"""The criterion, over all modules, holes with a reason left out."""
HOLES = toolchain.FOLDER / "coverage_holes.json"

Kind = Literal["line", "toggle"]
Point = tuple[str, Kind, int, str]
"""Module, kind, line, and what: a branch, or a bit and its direction."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Reason(_Model):
    """Why some holes are none: those of modules and points that match both expressions whole."""

    module: str
    kind: Kind
    point: str  # a toggle: the signal and its bit; a line: the text of the source line, or the branch
    reason: str


class Hole(_Model):
    """Points of a module that were not reached, for one reason or for none that is known."""

    kind: Kind
    points: int
    reason: str
    where: list[str]  # "line: signal", or the text of the line


class ModuleCoverage(_Model):
    """Points of one module: all, reached, and not reached for a known reason."""

    module: str
    lines: int = 0
    lines_hit: int = 0
    lines_excused: int = 0
    toggles: int = 0
    toggles_hit: int = 0
    toggles_excused: int = 0
    holes: list[Hole] = []


class Coverage(_Model):
    """The table."""

    provenance: str = Provenance.SIMULATED.label
    command: str
    design: str
    shapes: tuple[str, ...]
    programs: int  # random programs of each shape
    benches: tuple[str, ...]
    modules: tuple[ModuleCoverage, ...]

    def share(self, kind: Kind, excused: bool = True) -> float:
        """The part that was reached; `excused`: of the points without a reason."""
        total = sum(int(getattr(m, f"{kind}s")) for m in self.modules)
        out = sum(int(getattr(m, f"{kind}s_excused")) for m in self.modules) if excused else 0
        hit = sum(int(getattr(m, f"{kind}s_hit")) for m in self.modules)
        return hit / max(1, total - out)

    @property
    def enough(self) -> bool:
        return self.share("line") >= LINE and self.share("toggle") >= TOGGLE

    def text(self) -> str:
        """A Markdown table of modules, then their holes."""
        lines = [
            "| module | lines | reached | excused | toggles | reached | excused |",
            "|---|---|---|---|---|---|---|",
        ]
        for m in self.modules:
            lines.append(
                f"| {m.module} | {m.lines} | {_percent(m.lines_hit, m.lines - m.lines_excused)} | {m.lines_excused} "
                f"| {m.toggles} | {_percent(m.toggles_hit, m.toggles - m.toggles_excused)} | {m.toggles_excused} |"
            )
        for kind in ("line", "toggle"):
            lines.append(
                f"\n{kind}: {self.share(kind):.2%} of what can be reached, {self.share(kind, False):.2%} of all points"
            )
        lines += ["", "| module | kind | points | reason | where |", "|---|---|---|---|---|"]
        for m in self.modules:
            for h in m.holes:
                where = "; ".join(h.where).replace("|", "\\|")
                lines.append(f"| {m.module} | {h.kind} | {h.points} | {h.reason or '**open**'} | {where} |")
        return "\n".join(lines)

    def save(self, path: Path) -> None:
        """Write it as JSON, and beside it as Markdown."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_text(self.model_dump_json() + "\n")
        with atomic_write(path.with_suffix(".md")) as temporary:
            temporary.write_text(self.markdown())

    def markdown(self) -> str:
        """The page: where the numbers come from, and the table."""
        head = (
            f"# Coverage of the RTL\n\nMade by `{self.command}`; {self.provenance}. {self.programs} random programs "
            f"on each shape of {', '.join(self.shapes)}; besides: {', '.join(self.benches) or 'no benches'}. Reasons "
            "are in `rtl/coverage_holes.json`.\n\n"
        )
        return head + self.text() + "\n"


def _percent(hit: int, of: int) -> str:
    return f"{hit / of:.1%}" if of else "-"


# Verilator's file.

_FIELD = re.compile("\x01([a-zA-Z]+)\x02([^\x01']*)")


def points(path: Path) -> Counter[Point]:
    """Counts of a coverage file, added up over instances. Files of benches are left out."""
    found: Counter[Point] = Counter()
    for line in path.read_text(errors="replace").splitlines():
        if not line.startswith("C '"):
            continue
        text, _, count = line[3:].rpartition("' ")
        f = dict(_FIELD.findall(text))
        file = Path(f["f"])
        if not file.is_relative_to(toolchain.FOLDER) or "bench" in file.relative_to(toolchain.FOLDER).parts:
            continue
        kind: Kind = "toggle" if f["page"].startswith("v_toggle") else "line"
        what = f.get("o", "") if kind == "toggle" else f"{f.get('o', '')} {f.get('n', '')}"
        found[file.stem, kind, int(f["l"]), what] += int(count)
    return found


def merged(files: Iterable[Path]) -> Counter[Point]:
    """The sum of several files."""
    total: Counter[Point] = Counter()
    for path in files:
        total.update(points(path))
    return total


def joined(total: Counter[Point], data: Iterable[Path]) -> None:
    """Add the counts of benches: of all lines, and of the bits that the random programs' models have."""
    for path in data:
        for point, n in points(path).items():
            if point[1] == "line" or point in total:
                total[point] += n


# Holes and their reasons.


def reasons() -> list[Reason]:
    """What `coverage_holes.json` says."""
    return [Reason.model_validate(x) for x in json.loads(HOLES.read_text())] if HOLES.is_file() else []


def _signal(what: str) -> str:
    """`at_q[12]:0->1` is a point of `at_q`."""
    return re.split(r"[\[:]", what, maxsplit=1)[0]


def tabled(total: Counter[Point], known: Sequence[Reason]) -> list[ModuleCoverage]:
    """A row for every module of the design, in the order of their names."""
    sources = {p.stem: p for p in toolchain.sources(TOP)}
    rows = {name: ModuleCoverage(module=name) for name in sorted(sources) if name in {p[0] for p in total}}
    holes: dict[tuple[str, Kind, str], Counter[str]] = {}
    texts = {name: p.read_text().splitlines() for name, p in sources.items()}
    for (module, kind, line, what), count in total.items():
        if module not in rows:
            continue
        row = rows[module]
        setattr(row, f"{kind}s", getattr(row, f"{kind}s") + 1)
        if count:
            setattr(row, f"{kind}s_hit", getattr(row, f"{kind}s_hit") + 1)
            continue
        source = texts[module][line - 1].strip()
        reason = next((r.reason for r in known if _matches(r, module, kind, what, source)), "")
        if reason:
            setattr(row, f"{kind}s_excused", getattr(row, f"{kind}s_excused") + 1)
        name = _signal(what) if kind == "toggle" else source[:60]
        holes.setdefault((module, kind, reason), Counter())[f"{line}: {name}"] += 1
    for (module, kind, reason), where in sorted(holes.items()):
        names = sorted(where, key=lambda x: int(x.partition(":")[0]))
        rows[module].holes.append(Hole(kind=kind, points=where.total(), reason=reason, where=names))
    return list(rows.values())


def _matches(r: Reason, module: str, kind: Kind, what: str, source: str) -> bool:
    if r.kind != kind or not re.fullmatch(r.module, module):
        return False
    return bool(re.fullmatch(r.point, what) or (kind == "line" and re.fullmatch(r.point, source)))


# Runs.


def campaign_files(shape: str, programs: int, folder: Path, say: Callable[[str], None]) -> Iterator[Path]:
    """Coverage files of the random programs of a shape, a block each."""
    for first in range(FIRST, FIRST + programs, BLOCK):
        path = folder / f"{shape}-{first}.dat"
        found = run_block(shape, first, min(first + BLOCK, FIRST + programs), coverage=path)
        assert not found, found
        say(f"{shape}: {first + BLOCK - FIRST} of {programs} programs")
        yield path


def measure(
    programs: int, shapes: Sequence[str], data: Sequence[Path], command: str, say: Callable[[str], None]
) -> Coverage:
    """Run random programs on models that count, add the files `data` of benches, and look for holes.

    Raises:
        DpuError: E428, a model cannot be built.
    """
    total: Counter[Point] = Counter()
    with tempfile.TemporaryDirectory() as work:
        for shape in shapes:
            for path in campaign_files(shape, programs, Path(work), say):
                total.update(points(path))
                path.unlink()
    joined(total, data)
    rows = tabled(total, reasons())
    names = tuple(sorted({p.name.partition(".")[0] for p in data}))
    return Coverage(
        command=command, design=design(), shapes=tuple(shapes), programs=programs, benches=names, modules=tuple(rows)
    )
