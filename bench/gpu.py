"""`dpubench gpu`: the GPU baseline, point by point, in MLPerf's manner but not compliant with it.

Every point is one file `POINT.json` with its raw samples, the device, versions and commit; a point that is there is not
measured again. A point that fails leaves `POINT.failed.json`, the others go on. `merge` makes one file of them and
`gpu_table.py` the tables.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..errors import DpuError, reason
from ..files import atomic_write
from ..measurement import SCHEMA, Measurement, read_measurements
from .gpu_context import Bench
from .gpu_points import POINTS, Point

MANNER = "as MLPerf does (single stream, offline, server), not compliant: no LoadGen, shorter runs, seeded weights"


def chosen_points(text: str) -> list[Point]:
    """`all`, or names with commas between them; `NAME*` for all that begin so.

    Raises:
        DpuError: there is no such point.
    """
    words = [w.strip() for w in text.split(",") if w.strip()]
    if not words or words == ["all"]:
        return list(POINTS)
    found = []
    for word in words:
        mine = [p for p in POINTS if p.name == word or (word.endswith("*") and p.name.startswith(word[:-1]))]
        if not mine:
            hint = f"all, or some of {', '.join(p.name for p in POINTS)}"
            raise DpuError("--points", f"there is no '{word}'", hint=hint, code="E501")
        found += [p for p in mine if p not in found]
    return found


def measure(bench: Bench, points: Iterable[Point], budget: float, again: bool = False) -> tuple[int, int]:
    """Measure what is missing, in order, while the budget of seconds lasts: (measured, failed)."""
    bench.folder.mkdir(parents=True, exist_ok=True)
    started, done, failed = time.perf_counter(), 0, 0
    for point in points:
        path = bench.folder / f"{point.name}.json"
        if path.exists() and not again:
            bench.say(f"{point.name}: kept")
            continue
        left = budget - (time.perf_counter() - started)
        needed = point.seconds(bench.loaded)
        if left < needed:
            bench.say(f"{point.name}: not begun, {left:.0f} s left of the budget, about {needed:.0f} needed")
            continue
        begun = time.perf_counter()
        try:
            found = point.run(bench)
        except Exception as e:  # whatever a library raises: the other points are still worth their time
            failed += 1
            bench.say(f"{point.name}: FAILED: {reason(e)}")
            trace = traceback.format_exc()
            _write(bench.folder / f"{point.name}.failed.json", {"point": point.name, "error": trace[-8000:]})
            bench.free()
            continue
        done += 1
        details = {"what": point.what, "seconds": time.perf_counter() - begun, **found.details}
        _write(
            path,
            {
                "schema": SCHEMA,
                "point": point.name,
                "manner": MANNER,
                "measurements": [m.model_dump(mode="json") for m in found.measurements],
                "details": details,
                "identity": bench.identity(),
            },
        )
        (bench.folder / f"{point.name}.failed.json").unlink(missing_ok=True)
        values = ", ".join(f"{m.name} {m.value:.4g} {m.unit}" for m in found.measurements)
        bench.say(f"{point.name}: {values} ({details['seconds']:.0f} s)")
    return done, failed


def _write(path: Path, content: dict[str, Any]) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(content, indent=None, default=str) + "\n")


def merge(folder: Path, out: Path, largest: int = 400, note: str = "") -> dict[str, Any]:
    """One file of all points; `dpubench evaluate --measured` finds its rates and powers by the names of the records.

    `note` says what the records cannot: what else the machine did.

    Raises:
        DpuError: the folder has no points, or a record does not follow from its samples.
    """
    paths = sorted(p for p in folder.glob("*.json") if not p.name.endswith(".failed.json"))
    order = {p.name: i for i, p in enumerate(POINTS)}
    paths = sorted((p for p in paths if p.stem in order), key=lambda p: order[p.stem])
    if not paths:
        raise DpuError(str(folder), "holds no points", hint="dpubench gpu --output DIR measures them", code="E106")
    records: dict[str, Measurement] = {}
    points: dict[str, Any] = {}
    for path in paths:
        records |= read_measurements(path)
        content = json.loads(path.read_text())
        points[content["point"]] = {"details": content["details"], "identity": content["identity"]}
    failed = {
        p.name.removesuffix(".failed.json"): json.loads(p.read_text())["error"].strip().splitlines()[-1]
        for p in sorted(folder.glob("*.failed.json"))
    }
    kept = [_short(m, largest) for m in records.values()]
    merged = {
        "schema": SCHEMA,
        "manner": MANNER,
        "note": note,
        "measurements": [m.model_dump(mode="json") for m in kept],
        "points": points,
        "failed": failed,
        "not run": [p.name for p in POINTS if p.name not in points and p.name not in failed],
    }
    _write(out, merged)
    return merged


def _short(m: Measurement, largest: int) -> Measurement:
    """A record with at most `largest` samples, evenly drawn, so that a results file stays small; it says so."""
    if len(m.samples) <= largest:
        return m
    from ..measurement import summary

    stride = len(m.samples) / largest
    samples = tuple(m.samples[int(i * stride)] for i in range(largest))
    value, error = summary(samples, m.statistic)
    note = {"samples": f"{largest} of {len(m.samples)}, evenly drawn; percentiles in the details are of all"}
    return m.model_copy(
        update={"samples": samples, "value": value, "uncertainty": error, "conditions": {**m.conditions, **note}}
    )


def run(
    output: Path,
    points: str,
    budget: float,
    window: float,
    command: str,
    say: Callable[[str], None],
    again: bool = False,
) -> tuple[int, int]:
    """Measure on this machine's GPU: (points measured, points failed).

    Raises:
        DpuError: there is no GPU, or something that measuring needs is missing (E431).
    """
    from ..runtime.gpu.requirements import require

    chosen = chosen_points(points)
    require("dpubench gpu", "torch", power=True)
    bench = Bench(output, command=command, window=window, say=say)
    return measure(bench, chosen, budget, again)
