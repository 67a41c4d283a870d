"""`dpubench gpu`: the GPU baseline, point by point, in MLPerf's manner but not compliant with it.

Every point is one file `POINT.json` with its raw samples, the device, versions and commit; its repetitions are
`POINT.2.json` and on. One that is there is not measured again. A point that fails leaves `POINT.failed.json`, the
others go on. `gpu_merge.py` makes one file of them and `gpu_table.py` the tables.
"""

from __future__ import annotations

import json
import re
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DpuError, reason
from ..files import atomic_write
from ..measurement import SCHEMA
from .gpu_context import Bench
from .gpu_points import POINTS, Found, Point

MANNER = "as MLPerf does (single stream, offline, server), not compliant: no LoadGen, shorter runs, seeded weights"


WINDOW, REPEATED = 60.0, 20.0
"""Seconds of a window: of a point, and of its second and later repetitions."""


@dataclass(frozen=True)
class Run:
    """One repetition of a point, over a window of seconds."""

    point: Point
    window: float = WINDOW
    repetition: int = 1

    @property
    def name(self) -> str:
        """Of its file: `images-20`, `images-20.2`."""
        return self.point.name + (f".{self.repetition}" if self.repetition > 1 else "")


def planned(text: str, window: float = WINDOW, repeated: float = REPEATED) -> list[Run]:
    """What to run, in the order given.

    Args:
        text: `all`, or words with commas between them: a point or `NAME*` for all that begin so, `x3` for three
            repetitions one after the other, `@40` for a window of 40 s: `images-20x3,server-*@40`.
        window: seconds of a first repetition without `@`.
        repeated: seconds of the later ones.

    Raises:
        DpuError: there is no such point.
    """
    words = [w.strip() for w in text.split(",") if w.strip()]
    if not words or words == ["all"]:
        words = [p.name for p in POINTS]
    found: dict[str, Run] = {}
    for word in words:
        match = re.fullmatch(r"(?P<name>[^@]+?)(x(?P<count>[1-9]\d*))?(@(?P<window>\d+(\.\d+)?))?", word)
        name = match["name"] if match else word
        mine = [p for p in POINTS if p.name == name or (name.endswith("*") and p.name.startswith(name[:-1]))]
        if match is None or not mine:
            hint = f"all, or some of {', '.join(p.name for p in POINTS)}; NAMEx3@40: three times, 40 s"
            raise DpuError("--points", f"there is no '{word}'", hint=hint, code="E501")
        first = float(match["window"] or window)
        for point in mine:
            for i in range(1, int(match["count"] or 1) + 1):
                run = Run(point, first if i == 1 else repeated, i)
                found.setdefault(run.name, run)
    return list(found.values())


def expected(runs: Sequence[Run], loaded: str = "", parts: bool = False) -> list[float]:
    """Guessed seconds of each run, one after the other in a process that has this engine and those parts."""
    found = []
    for run in runs:
        found.append(run.point.seconds(loaded, run.window, parts))
        loaded, parts = run.point.engine or loaded, parts or run.point.vae
    return found


def plan_text(runs: Sequence[Run]) -> str:
    """The runs with their guessed seconds, and all of them so far."""
    so_far = START
    lines = [f"{'point':<28}{'window s':>9}{'about s':>9}{'so far s':>9}"]
    for run, seconds in zip(runs, expected(runs), strict=True):
        so_far += seconds
        window = f"{run.window:g}" if run.point.window else "-"
        lines.append(f"{run.name:<28}{window:>9}{seconds:>9.0f}{so_far:>9.0f}")
    return "\n".join(lines)


START = 20.0
"""Guessed seconds of a process before its first point: Python's packages, the UNet's weights."""


def measure(
    bench: Bench, runs: Iterable[Run], budget: float, again: bool = False, skip_failed: bool = False
) -> tuple[int, int]:
    """Measure what is missing, in order, while the budget of seconds lasts: (measured, failed).

    Ends early when a failure leaves the GPU unusable for this process: another one goes on.
    """
    bench.folder.mkdir(parents=True, exist_ok=True)
    started, done, failed = time.perf_counter(), 0, 0
    for run in runs:
        path, failure = bench.folder / f"{run.name}.json", bench.folder / f"{run.name}.failed.json"
        if path.exists() and not again:
            bench.say(f"{run.name}: kept")
            continue
        if failure.exists() and skip_failed:
            bench.say(f"{run.name}: failed before, left out")
            continue
        left = budget - (time.perf_counter() - started)
        needed = run.point.seconds(bench.loaded, run.window, bench.has_parts)
        if left < needed:
            bench.say(f"{run.name}: not begun, {left:.0f} s left of the budget, about {needed:.0f} needed")
            continue
        begun = time.perf_counter()
        found = _found(bench, run, failure)
        if found is None:  # only now: the exception's frames held the engine's memory
            failed += 1
            if not _usable(bench):
                bench.say("the GPU takes no more work in this process: start it again for the other points")
                break
            continue
        done += 1
        details = {"what": run.point.what, "seconds": time.perf_counter() - begun, **found.details}
        _write(
            path,
            {
                "schema": SCHEMA,
                "point": run.point.name,
                "repetition": run.repetition,
                "manner": MANNER,
                "measurements": [m.model_dump(mode="json") for m in found.measurements],
                "details": details,
                "identity": bench.identity(),
            },
        )
        failure.unlink(missing_ok=True)
        values = ", ".join(f"{m.name} {m.value:.4g} {m.unit}" for m in found.measurements)
        bench.say(f"{run.name}: {values} ({details['seconds']:.0f} s, {needed:.0f} s guessed)")
    return done, failed


def _found(bench: Bench, run: Run, failure: Path) -> Found | None:
    """What the point found; none if it failed, which is then written."""
    bench.window, bench.repetition = run.window, run.repetition
    try:
        return run.point.run(bench)
    except Exception as e:  # whatever a library raises: the other points are still worth their time
        bench.say(f"{run.name}: FAILED: {reason(e)}")
        _write(failure, {"point": run.point.name, "error": traceback.format_exc()[-8000:]})
        return None


def _usable(bench: Bench) -> bool:
    """Free the engine of a point that failed; whether the GPU still takes work of this process."""
    try:
        bench.free()
        bench.synchronise()
    except Exception:  # after a fault on the GPU every call of its libraries fails
        return False
    return True


def _write(path: Path, content: dict[str, Any]) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(content, indent=None, default=str) + "\n")


def run(
    output: Path,
    runs: Sequence[Run],
    budget: float,
    command: str,
    say: Callable[[str], None],
    again: bool = False,
    skip_failed: bool = False,
) -> tuple[int, int]:
    """Measure on this machine's GPU: (points measured, points failed).

    Raises:
        DpuError: there is no GPU, or something that measuring needs is missing (E431).
    """
    from ..runtime.gpu.requirements import require

    require("dpubench gpu", "torch", power=True)
    bench = Bench(output, command=command, say=say)
    return measure(bench, runs, budget, again, skip_failed)
