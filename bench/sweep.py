"""Many archs at once: parameters x precision x steps x images x scenario, on the estimate (`dpubench sweep`).

What takes time is the estimate of an arch. It is kept in a cache by content (arch, DRAM file, graphs, source code), one
file each, written when it is done: a sweep that was killed goes on where it was. Costs follow from it by the formula of
`economics/cost.py`, computed anew each time. Every arch is costed as a chip at the scenario's node.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DpuError
from ..files import atomic_write
from ..ir.arch import Arch
from ..passes.policy import named_policy
from ..simulator.economics.chip import chip
from ..simulator.economics.cost import Terms, cost
from ..simulator.economics.inputs import Scenario, Silicon
from ..simulator.economics.schema import Stated
from ..simulator.economics.workload import EntryCycles, image_work, runs_of, sdxl_cycles
from ..simulator.variants import vary
from .estimate_cycles import error
from .size_chip import LEAST
from .sweep_table import Row, Table
from .sweep_work import Images, code_digest, graph_digest
from .sweep_work import Task as Point

CACHED = "dpu.sweep-point/1"

Say = Callable[[str], None]
Settings = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Axes:
    """What is varied. `settings`: of each parameter of the arch, its values."""

    base: Arch
    settings: tuple[tuple[str, tuple[float, ...]], ...]
    precisions: tuple[str, ...]
    steps: tuple[int, ...]
    images: tuple[Images, ...]
    scenarios: tuple[Scenario, ...]
    model: str = ""

    def archs(self) -> list[Settings]:
        """Every combination of settings."""
        names = [n for n, _ in self.settings]
        return [tuple(zip(names, v, strict=True)) for v in itertools.product(*(v for _, v in self.settings))]


def parse_setting(text: str) -> tuple[str, tuple[float, ...]]:
    """A parameter and its values, from `tiles=4,8,16`.

    Raises:
        DpuError: it is not of that form.
    """
    name, _, values = text.partition("=")
    try:
        found = tuple(float(v) for v in values.split(","))
    except ValueError:
        found = ()
    if not name.strip() or not found or len(set(found)) < len(found):
        hint = "a field of the arch file and its values, each once, as in tiles=4,8 or buffers.act.bytes=65536,131072"
        raise DpuError("--set", f"'{text}' is no setting", hint=hint, code="E501")
    return name.strip(), tuple(int(v) if v.is_integer() else v for v in found)


def parse_images(text: str) -> Images:
    """Images of a forward, from `1024x1024` (one) or `1024x1024x2`.

    Raises:
        DpuError: it is not of that form.
    """
    sides = text.lower().split("x")
    if len(sides) not in (2, 3) or not all(s.isdecimal() and int(s) > 0 for s in sides):
        what = f"'{text}' is no size"
        raise DpuError("--images", what, hint="write it as 1024x1024, or 1024x1024x2 for two images", code="E501")
    return Images(*map(int, sides))


def check_precisions(names: Sequence[str]) -> None:
    """Refuse what the compiler cannot compile.

    Raises:
        DpuError: there is no such precision.
    """
    for name in names:
        named_policy(name)


def check_images(images: Sequence[Images], model: str) -> None:
    """Refuse sizes that graphs of a fixed size cannot have.

    Raises:
        DpuError: the graphs are fixed and another size is asked for.
    """
    from .sweep_work import model_folder

    if (model_folder(model) / "vae" / "config.json").is_file():
        return  # an exported folder
    for one in images:
        if one != Images():
            raise DpuError(
                f"--images {one.text}",
                f"the graphs of {model_folder(model).name} are of {Images().text} only",
                hint="dpuc export sdxl --open-sizes --graph-only -o FOLDER, and --model FOLDER",
                code="E504",
            )


def point(arch: Arch, images: Images, precision: str, model: str, graphs: str) -> Point:
    """What a worker needs, and the key of its content."""
    fields = arch.model_dump(mode="json", exclude={"description"}) | {"description": ""}
    content = dict(fields)
    dram, file = "", arch.dram.parameters
    if file:
        from ..simulator.dram.params import load_dram

        text = load_dram(file).model_dump_json()
        content = content | {"dram": {**fields["dram"], "parameters": text}}
        dram = text if file.endswith(".json") else ""
    policy = named_policy(precision).digest
    key = json.dumps([CACHED, content, code_digest(), graphs, policy, images], sort_keys=True)
    digest = hashlib.sha256(key.encode()).hexdigest()
    return Point(digest, json.dumps(fields, sort_keys=True), dram, model, images, precision)


def run(
    axes: Axes,
    silicon: Silicon,
    folder: Path,
    cache: Path,
    estimates: Callable[[Sequence[Point]], Iterator[dict[str, Any]]],
    say: Say = lambda _: None,
) -> Table:
    """All points. `estimates` gives what is not in the cache yet, in any order; `folder` takes varied DRAM files.

    Raises:
        DpuError: an axis has a value that it cannot have, the cache cannot be written, or no point is possible.
    """
    check_precisions(axes.precisions)
    check_images(axes.images, axes.model)
    graphs = graph_digest(axes.model)
    archs: list[tuple[Settings, Arch | DpuError]] = []
    for settings in axes.archs():
        try:
            archs.append((settings, vary(axes.base, settings, LEAST, folder)))
        except DpuError as e:
            if e.code == "E501":
                raise DpuError(f"--set {e.where}", e.what, e.why, e.hint, code="E501") from e
            archs.append((settings, e))
    keyed: dict[tuple[int, str, Images], Point] = {}
    for images, precision in itertools.product(axes.images, axes.precisions):  # a worker imports each size once
        for i, (_, arch) in enumerate(archs):
            if isinstance(arch, Arch):
                keyed[i, precision, images] = point(arch, images, precision, axes.model, graphs)
    done = _estimated(list({p.key: p for p in keyed.values()}.values()), cache, estimates, say)
    rows = []
    terms = [Terms.of(s) for s in axes.scenarios]
    for (i, (settings, arch)), precision, images in itertools.product(enumerate(archs), axes.precisions, axes.images):
        known = {} if isinstance(arch, DpuError) else done[keyed[i, precision, images].key]
        spread = error(arch.name) if isinstance(arch, Arch) else None
        refused = f"{arch.where}: {arch.what}" if isinstance(arch, DpuError) else str(known.get("error", ""))
        for steps, place in itertools.product(axes.steps, terms):
            row = Row(
                arch=arch.name if isinstance(arch, Arch) else arch.where.removeprefix("arch "),
                settings=settings,
                precision=precision,
                width=images.width,
                height=images.height,
                images_per_forward=images.number,
                steps=steps,
                scenario=place.scenario.name,
                error=refused,
            )
            if isinstance(arch, Arch) and spread is not None and not refused:
                row = _costed(row, arch, known["entries"], images, spread, silicon, place)
            rows.append(row)
    if all(r.error for r in rows):
        raise DpuError("sweep", f"no point is possible; the first: {rows[0].error}", hint="vary less", code="E501")
    return Table(axes.base.name, code_digest(), graphs, tuple(n for n, _ in axes.settings), tuple(rows))


def _estimated(
    points: Sequence[Point],
    cache: Path,
    estimates: Callable[[Sequence[Point]], Iterator[dict[str, Any]]],
    say: Say,
) -> dict[str, dict[str, Any]]:
    """What the cache holds or a worker gives, by key; every new one is written at once."""
    found: dict[str, dict[str, Any]] = {}
    cache.mkdir(parents=True, exist_ok=True)
    for p in points:
        path = cache / f"{p.key}.json"
        if path.is_file():
            found[p.key] = read_cached(path, p.key)
    left = [p for p in points if p.key not in found]
    say(f"{len(points)} estimates, {len(found)} of them in {cache}")
    if left:
        for n, made in enumerate(estimates(left), start=1):
            with atomic_write(cache / f"{made['key']}.json") as temporary:
                temporary.write_text(json.dumps({"format": CACHED, **made}) + "\n")
            found[made["key"]] = made
            say(f"{n} of {len(left)}")
    return found


def read_cached(path: Path, key: str) -> dict[str, Any]:
    """An estimate of the cache.

    Raises:
        DpuError: it is not what was written.
    """
    try:
        content = json.loads(path.read_text())
        if content["format"] == CACHED and content["key"] == key and ("entries" in content or "error" in content):
            return dict(content)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    what = "is no estimate of this sweep"
    raise DpuError(str(path), what, hint="delete the file; it will be estimated again", code="E520")


def _costed(
    row: Row,
    arch: Arch,
    entries: Sequence[Mapping[str, Any]],
    images: Images,
    spread: Stated,
    silicon: Silicon,
    terms: Terms,
) -> Row:
    """The row with its costs. The UNet's entries make `images.number` images at once."""

    def each(e: Mapping[str, Any], name: str) -> int:
        share = images.number if e["part"] == "unet" else 1
        return round(int(e[name]) / share)

    made = [
        EntryCycles(
            entry=e["entry"],
            runs=runs_of(e["entry"], row.steps),
            **{n: each(e, n) for n in ("cycles", "macs", "executed", "dram_bytes")},
        )
        for e in entries
    ]
    source = "dpubench sweep: the compiler's estimate"
    cycles = sdxl_cycles(arch, row.steps, made, spread, source, resolution=images.width)
    work = image_work(cycles, arch)
    try:
        platform = chip(arch, work, silicon, terms)
    except DpuError as e:
        return row.model_copy(update={"error": f"{e.where}: {e.what}"})
    c = cost(platform, terms)
    total = cycles.sums("cycles")
    longest = max(entries, key=lambda e: e["cycles"] * runs_of(e["entry"], row.steps))
    return row.model_copy(
        update={
            "cycles_per_image": total,
            "seconds_per_image": work.seconds.value,
            "images_per_second": platform.rate.value,
            "array_utilisation": min(cycles.sums("macs"), cycles.sums("executed")) / (arch.peak_macs_per_cycle * total),
            "dram_bytes_per_image": cycles.sums("dram_bytes"),
            "joules_per_image": c.energy.value,
            "usd_per_image": c.image.value,
            "usd_per_image_before_nre": c.marginal.value,
            "die_mm2": platform.details["die_area"].value,
            "die_yield": platform.details["die_yield"].value,
            "card_usd": platform.details["price_of_card"].value,
            "bound_by": longest["bound"],
            "provenance": c.image.provenance.label,
        }
    )
