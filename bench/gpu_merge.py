"""One file of the points of `dpubench gpu`: repetitions beside the first run, earlier points where none is newer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import DpuError
from ..files import atomic_write
from ..measurement import SCHEMA, Measurement, read_measurements, summary
from .gpu import MANNER
from .gpu_experiment import stated
from .gpu_points import POINTS

NOT_STATED = "not stated"
"""What a point says of its experiment whose records carry no conditions of one."""

_ORDER = {p.name: i for i, p in enumerate(POINTS)}
_FILE = re.compile(r"(?P<point>.+?)(\.(?P<repetition>[2-9]|[1-9]\d+))?\.json")


def merge(folder: Path, out: Path, largest: int = 400, note: str = "") -> dict[str, Any]:
    """One file of all points; `dpubench evaluate --measured` finds its rates and powers by the names of the records.

    A repetition's records end in its number (`images.torch:regional.n1.20steps.rate.2`). Points of an `out` that is
    there already stay where the folder has none of that name: as they were, without conditions that they did not carry.

    Args:
        folder: of points.
        out: the file, replaced.
        largest: samples of one record that are kept.
        note: what the records cannot say: what else the machine did. The earlier file's, if empty.

    Raises:
        DpuError: the folder has no points, a record does not follow from its samples, or `out` is of another GPU.
    """
    paths = _points(folder)
    if not paths:
        raise DpuError(str(folder), "holds no points", hint="dpubench gpu --output DIR measures them", code="E106")
    records: dict[str, Measurement] = {}
    points: dict[str, Any] = {}
    for path, suffix in paths:
        content = json.loads(path.read_text())
        read = [m.model_copy(update={"name": m.name + suffix}) for m in read_measurements(path).values()]
        mine = {m.name: m for m in read}
        records |= mine
        points[content["point"] + suffix] = {
            "details": content["details"],
            "identity": content["identity"],
            "records": sorted(mine),
        }
    before = _before(out, records)
    replaced = {n for p in points for n in before["points"].get(p, {}).get("records", [])}
    old = {k: m for k, m in before["measurements"].items() if k not in records and k not in replaced}
    points |= {k: p for k, p in before["points"].items() if k not in points}
    records = {k: _short(m, largest) for k, m in records.items()} | old
    points = dict(sorted(points.items(), key=lambda p: (_ORDER[_point(p[0])], p[0])))
    for name, point in points.items():
        if said := _experiment(name, point, records):
            point["experiment"] = said
    failed = {
        p.name.removesuffix(".failed.json"): json.loads(p.read_text())["error"].strip().splitlines()[-1]
        for p in sorted(folder.glob("*.failed.json"))
    }
    merged = {
        "schema": SCHEMA,
        "manner": MANNER,
        "note": note or before["note"],
        "measurements": [m.model_dump(mode="json") for m in _ordered(records, points)],
        "points": points,
        "failed": {k: v for k, v in failed.items() if k not in points},
        "not run": [p.name for p in POINTS if p.name not in points and p.name not in failed],
    }
    with atomic_write(out) as temporary:
        temporary.write_text(json.dumps(merged, default=str) + "\n")
    return merged


def repetitions(found: Mapping[str, Measurement], name: str) -> list[Measurement]:
    """A record and its repetitions of the same experiment, in order."""
    first = found.get(name)
    if first is None:
        return []
    same = stated(first.conditions)
    pattern = re.compile(re.escape(name) + r"\.\d+")
    others = [m for k, m in found.items() if pattern.fullmatch(k) and stated(m.conditions) == same]
    return [first, *sorted(others, key=lambda m: int(m.name.rpartition(".")[2]))]


def _points(folder: Path) -> list[tuple[Path, str]]:
    """Files of points and repetitions in the order of the points, each with what its records' names end in."""
    found = []
    for path in folder.glob("*.json"):
        match = _FILE.fullmatch(path.name)
        if match and match["point"] in _ORDER:
            number = int(match["repetition"] or 1)
            found.append((_ORDER[match["point"]], number, path))
    return [(path, f".{number}" if number > 1 else "") for _, number, path in sorted(found)]


def _point(name: str) -> str:
    """The point of a repetition."""
    return name.partition(".")[0]


def _before(out: Path, new: Mapping[str, Measurement]) -> dict[str, Any]:
    """The earlier file: its records, points that there still are, and note."""
    if not out.is_file():
        return {"measurements": {}, "points": {}, "note": ""}
    records, content = read_measurements(out), json.loads(out.read_text())
    devices = {m.device.name for m in records.values()}
    for m in new.values():
        if devices and m.device.name not in devices:
            raise DpuError(
                str(out),
                f"holds points of '{', '.join(sorted(devices))}', those here are of '{m.device.name}'",
                why="one file is evidence of one kind of GPU",
                hint="merge into another file",
                code="E522",
            )
    points = {k: p for k, p in content["points"].items() if _point(k) in _ORDER}
    return {"measurements": records, "points": points, "note": content.get("note", "")}


def _experiment(name: str, point: Mapping[str, Any], records: Mapping[str, Measurement]) -> dict[str, str] | str:
    """What images and queues are the experiment of, of a record of theirs; empty for the other points."""
    if not name.startswith(("images-", "offline-", "server-")) or point.get("records") == []:
        return ""
    for record in point.get("records", ()):
        if record in records and (found := stated(records[record].conditions)):
            return found
    return NOT_STATED


def _ordered(records: Mapping[str, Measurement], points: Mapping[str, Any]) -> Iterable[Measurement]:
    """Records in the order of their points; those of files that do not say whose they are, first."""
    listed = [n for p in points.values() for n in p.get("records", ()) if n in records]
    rest = [n for n in records if n not in set(listed)]
    return [records[n] for n in [*rest, *listed]]


def _short(m: Measurement, largest: int) -> Measurement:
    """A record with at most `largest` samples, evenly drawn, so that a results file stays small; it says so."""
    if len(m.samples) <= largest:
        return m
    stride = len(m.samples) / largest
    samples = tuple(m.samples[int(i * stride)] for i in range(largest))
    value, error = summary(samples, m.statistic)
    note = {"samples": f"{largest} of {len(m.samples)}, evenly drawn; percentiles in the details are of all"}
    return m.model_copy(
        update={"samples": samples, "value": value, "uncertainty": error, "conditions": {**m.conditions, **note}}
    )
