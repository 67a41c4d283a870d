"""Sweeps: axes, the cache that a killed sweep goes on from, the table, and `dpuc explain`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from dpu.bench.cli import sweeps
from dpu.bench.size_chip import LEAST
from dpu.bench.sweep import Axes, parse_images, parse_setting, point, run
from dpu.bench.sweep_run import ray
from dpu.bench.sweep_table import Row, Table, check_objectives, pareto
from dpu.bench.sweep_work import Images, Task, code_digest, estimate, graph_digest
from dpu.errors import DpuError
from dpu.ir.arch import Arch, load_arch
from dpu.runtime.explain import changes
from dpu.runtime.explain import explain as explain_arch
from dpu.simulator.economics.chip import interface_bits
from dpu.simulator.economics.inputs import scenario, silicon
from dpu.simulator.variants import dram_bits, number, vary

ROOT = Path(__file__).parents[2]
TILES = (2, 4, 8)


def axes(**more: Any) -> Axes:
    found: dict[str, Any] = {
        "base": load_arch("dpu_32tops"),
        "settings": (("tiles", TILES), ("dram.bits", (128, 256))),
        "precisions": ("w8a8",),
        "steps": (4, 20),
        "images": (Images(),),
        "scenarios": (scenario("scenario_a"), scenario("scenario_b")),
    }
    return Axes(**(found | more))


def fake(task: Task) -> dict[str, Any]:
    """An estimate as it might be: the array's rate, or the memory's."""
    arch = json.loads(task.arch)
    macs = 6_700_000_000_000
    cycles = max(macs // (arch["tiles"] * 4096), round(30e9 / arch["dram"]["bytes_per_cycle"]))
    entry = {
        "part": "unet",
        "entry": "unet",
        "cycles": cycles,
        "macs": macs,
        "executed": macs,
        "dram_bytes": 30 * 10**9,
    }
    return {"key": task.key, "entries": [entry | {"bound": "mxu 90%"}]}


class Estimates:
    """Estimates that are counted, and that stop after some."""

    def __init__(self, stop: int = 1 << 30) -> None:
        self.stop, self.tasks = stop, list[Task]()

    def __call__(self, tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
        for t in reversed(tasks):  # in another order than they were asked for
            if len(self.tasks) == self.stop:
                raise KeyboardInterrupt
            self.tasks.append(t)
            yield fake(t)


def swept(tmp_path: Path, estimates: Callable[[Sequence[Task]], Iterator[dict[str, Any]]], **more: Any) -> Table:
    return run(axes(**more), silicon(), tmp_path, tmp_path / "cache", estimates)


def test_all_points_in_the_order_of_the_axes(tmp_path: Path) -> None:
    counted = Estimates()
    table = swept(tmp_path, counted)
    assert len(table.rows) == 3 * 2 * 2 * 2 and len(counted.tasks) == 6
    assert [r.arch for r in table.rows[::4]] == [
        f"dpu_32tops[tiles={t},dram.bits={b}]" for t in TILES for b in (128, 256)
    ]
    r = table.rows[0]
    assert (r.steps, r.scenario, r.provenance, r.bound_by) == (4, "scenario_a", "assumed", "mxu 90%")
    cycles = 6_700_000_000_000 // (2 * 4096)
    assert r.cycles_per_image == 4 * cycles and r.seconds_per_image == pytest.approx(4 * cycles / 1e9)
    assert r.array_utilisation == pytest.approx(1.0) and r.images_per_second == pytest.approx(1e9 / (4 * cycles))
    assert table.rows[2].cycles_per_image == 20 * cycles


def test_a_point_costs_what_evaluate_says(tmp_path: Path) -> None:
    """The same arch, cycles and scenario through the comparison that `dpubench evaluate` makes."""
    from dpu.simulator.economics.compare import compare
    from dpu.simulator.economics.inputs import accelerator

    from tests.economics.shared import cycles_of

    table = swept(tmp_path, Estimates(), settings=(), steps=(20,))
    r = next(r for r in table.rows if r.scenario == "scenario_b")
    arch = load_arch("dpu_32tops")
    given = cycles_of(arch, 1.0)
    entry = given.entries[0].model_copy(
        update={"cycles": r.cycles_per_image, "executed": 20 * 6_700_000_000_000, "dram_bytes": 600 * 10**9}
    )
    given = given.model_copy(update={"entries": (entry,)})
    dpu = compare(scenario("scenario_b"), arch, given, [accelerator("h200")], silicon()).dpu
    assert r.usd_per_image == pytest.approx(dpu.image.value) and r.joules_per_image == pytest.approx(dpu.energy.value)


def test_a_stopped_sweep_goes_on_without_what_is_done(tmp_path: Path) -> None:
    first, second, third = Estimates(stop=4), Estimates(), Estimates()
    with pytest.raises(KeyboardInterrupt):
        swept(tmp_path, first)
    table = swept(tmp_path, second)
    assert len(first.tasks) == 4 and len(second.tasks) == 2
    assert not {t.key for t in first.tasks} & {t.key for t in second.tasks}
    assert swept(tmp_path, third) == table and not third.tasks
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    assert swept(fresh, Estimates()).rows == table.rows


KILLED = """
import sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.economics import test_sweep as t
class Slow(t.Estimates):
    def __call__(self, tasks):
        for made in super().__call__(tasks):
            time.sleep(0.2)
            yield made
t.swept(Path({work!r}), Slow())
"""


def test_a_killed_sweep_goes_on_without_what_is_done(tmp_path: Path) -> None:
    """SIGKILL after some estimates: what is in the cache is whole, and is not asked for again."""
    code = KILLED.format(root=str(ROOT), work=str(tmp_path))
    child = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    cache = tmp_path / "cache"
    try:
        while len(list(cache.glob("*.json"))) < 2:
            assert child.poll() is None, "it ended before it could be killed"
            time.sleep(0.01)
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    kept = {p.stem for p in cache.glob("*.json")}
    rest = Estimates()
    table = swept(tmp_path, rest)
    assert 2 <= len(kept) < 6 and len(rest.tasks) == 6 - len(kept)
    assert not kept & {t.key for t in rest.tasks}
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    assert swept(fresh, Estimates()).rows == table.rows


def test_the_key_is_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an estimate depends on changes it; the description, steps and scenarios do not."""
    arch, graphs = load_arch("dpu_32tops"), graph_digest("")

    def key(
        a: Arch = arch, images: tuple[int, int] = (1024, 1024), precision: str = "w8a8", found: str = graphs
    ) -> str:
        return point(a, Images(*images), precision, "", found).key

    wide = vary(arch, [("dram.bits", 256)], LEAST, tmp_path).model_copy(update={"name": arch.name})
    other = vary(arch, [("tiles", 2)], LEAST, tmp_path).model_copy(update={"name": arch.name})
    keys = [key(), key(wide), key(other), key(images=(512, 512)), key(precision="w4a8"), key(found="x")]
    assert len(set(keys)) == len(keys)
    assert key(arch.model_copy(update={"description": "said otherwise"})) == key()
    elsewhere = tmp_path / "b"
    elsewhere.mkdir()
    again = vary(arch, [("dram.bits", 256)], LEAST, elsewhere).model_copy(update={"name": arch.name})
    assert again.dram.parameters != wide.dram.parameters
    before = key()
    monkeypatch.setattr("dpu.bench.sweep.code_digest", lambda: "other code")
    assert key() != before
    assert code_digest() == code_digest() and len(graphs) == 64


def test_a_damaged_cache_is_refused(tmp_path: Path) -> None:
    counted = Estimates()
    swept(tmp_path, counted)
    path = tmp_path / "cache" / f"{counted.tasks[0].key}.json"
    path.write_text(path.read_text()[:40])
    with pytest.raises(DpuError) as e:
        swept(tmp_path, Estimates())
    assert str(e.value) == (
        f"error[E520]: {path}: is no estimate of this sweep\n  try: delete the file; it will be estimated again"
    )


def test_points_that_are_not_possible_are_rows_with_the_reason(tmp_path: Path) -> None:
    """40 tiles are no arch; a die that no scanner exposes has no cost; an arch that a graph does not fit says so."""

    def some(tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
        for t in tasks:
            refused = json.loads(t.arch)["tiles"] == 2
            yield {"key": t.key, "error": "unet: does not fit"} if refused else fake(t)

    given = (("tiles", (2, 4, 32, 40)), ("buffers.act.bytes", (3_145_728, 4_000_000)))
    place = scenario("scenario_b")
    old = place.model_copy(update={"asic": place.asic.model_copy(update={"node": "28"})})
    table = swept(tmp_path, some, settings=given, steps=(20,), scenarios=(old,))
    said = {r.settings[0][1]: r.error for r in table.rows}
    assert said[2] == "unet: does not fit" and said[4] == ""
    assert said[32].startswith("arch dpu_32tops[tiles=32,buffers.act.bytes=4000000]: die at 28 nm: value is ")
    assert said[40] == (
        "arch dpu_32tops[tiles=40,buffers.act.bytes=4000000]: tiles is 40, must be 1 to 32 (remote semaphore masks)"
    )
    assert "refused (2 points): unet: does not fit" in table.text("usd_per_image", ["usd_per_image"])
    with pytest.raises(DpuError) as e:
        swept(tmp_path, some, settings=(("tiles", (40,)),))
    assert str(e.value).startswith("error[E501]: sweep: no point is possible; the first: arch dpu_32tops[tiles=40]")


def test_two_images_a_forward_share_its_cycles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpu.bench.sweep.check_images", lambda images, model: None)
    given = (Images(), Images(number=2))
    one, two = swept(tmp_path, Estimates(), settings=(), steps=(20,), images=given, scenarios=axes().scenarios[:1]).rows
    assert one.cycles_per_image == 20 * (6_700_000_000_000 // (4 * 4096))
    assert two.cycles_per_image == 20 * round(6_700_000_000_000 // (4 * 4096) / 2)


# -- the table -----------------------------------------------------------------------------------------------------


def test_one_parquet_file_with_units(tmp_path: Path) -> None:
    table = swept(tmp_path, Estimates())
    for name in ("a", "b"):
        table.save(tmp_path / f"{name}.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    found = pq.read_table(tmp_path / "a.parquet")
    said = json.loads(found.schema.metadata[b"dpu"])
    assert (said["format"], said["base"], said["units"]["die_mm2"]) == ("dpu.sweep/1", "dpu_32tops", "mm2")
    assert said["code"] == code_digest() and said["graphs"] == graph_digest("")
    rows = found.to_pylist()
    assert len(rows) == 24 and rows[0]["set.tiles"] == 2 and rows[4]["set.dram.bits"] == 256
    assert rows[3]["usd_per_image"] == table.rows[3].usd_per_image
    for key, group in table.groups():
        front = {r.arch for r in pareto(group, ("usd_per_image", "seconds_per_image"))}
        mine = [r for r in rows if (r["steps"], r["scenario"]) == key[4:]]
        assert {r["arch"] for r in mine if r["on_front"]} == front and front


def row(cost: float, seconds: float, rate: float = 1.0) -> Row:
    given = {"precision": "w8a8", "width": 1, "height": 1, "images_per_forward": 1, "steps": 1, "scenario": "s"}
    numbers = {"usd_per_image": cost, "seconds_per_image": seconds, "images_per_second": rate, "die_mm2": 1.0}
    return Row(arch=f"{cost}/{seconds}/{rate}", settings=(), **given, **numbers)  # type: ignore[arg-type]


def test_pareto_front() -> None:
    rows = [row(3, 1), row(1, 3), row(2, 2), row(2, 3), row(3, 2), row(2, 2)]
    front = pareto(rows, ("usd_per_image", "seconds_per_image"))
    assert [(r.usd_per_image, r.seconds_per_image) for r in front] == [(1, 3), (2, 2), (2, 2), (3, 1)]
    more = pareto([row(1, 1, 5), row(1, 1, 7), row(2, 1, 9)], ("usd_per_image", "images_per_second"))
    assert [r.images_per_second for r in more] == [7, 9]  # of images a second, more is better


def test_best_arch_of_an_objective(tmp_path: Path) -> None:
    said = swept(tmp_path, Estimates()).text("seconds_per_image", ["seconds_per_image", "die_mm2"]).splitlines()
    assert said[0] == "24 points of 6 archs around dpu_32tops, 0 refused; provenance: assumed"
    assert said[1] == "best by seconds_per_image (s):"
    assert [line.split()[-2] for line in said[3:7]] == ["dpu_32tops[tiles=8,dram.bits=256]"] * 4
    with pytest.raises(DpuError) as e:
        check_objectives(["beauty"])
    assert str(e.value).startswith("error[E501]: --objective: no column 'beauty'\n  try: one of seconds_per_image, ")


# -- axes ----------------------------------------------------------------------------------------------------------


def test_variants(tmp_path: Path) -> None:
    base = load_arch("dpu_asic")
    fast = vary(base, [("clock_hz", 2e9)], LEAST, tmp_path)
    assert (fast.dram.bytes_per_cycle, fast.dram.latency) == (116, 600)  # the same bytes and delay a second
    assert fast.name == "dpu_asic[clock_hz=2000000000]"
    small = vary(base, [("array", 32), ("buffers.act.bytes", 1 << 20)], LEAST, tmp_path)
    assert (small.rows, small.cols, small.lanes, small.buffers.act.bytes) == (32, 32, 32, 1 << 20)
    narrow = vary(base, [("dram.bits", 64)], LEAST, tmp_path)
    assert dram_bits(narrow) == interface_bits(narrow) == 64
    assert narrow.dram.bytes_per_cycle == base.dram.bytes_per_cycle / 4 and narrow.dram.bytes == LEAST
    assert number(base, "buffers.act.banks") == 4 and number(base, "name") is None
    assert number(load_arch("dpu_f2"), "dram.bits") is None


@pytest.mark.parametrize(
    ("arch", "setting", "said"),
    [
        ("dpu_asic", ("tile", 3), "error[E501]: tile: there is no such number in an arch\n  try: one of tiles, rows, "),
        ("dpu_asic", ("name", 3), "error[E501]: name: there is no such number in an arch"),
        ("dpu_asic", ("tiles", 99), "error[E502]: arch dpu_asic[tiles=99]: tiles is 99, must be 1 to 32"),
        (
            "dpu_asic",
            ("tiles", 1.5),
            "error[E502]: arch dpu_asic[tiles=1.5]: field 'tiles': Input should be a valid int",
        ),
        ("dpu_f2", ("dram.bits", 64), "error[E501]: dram.bits: arch dpu_f2 has 'hbm2', allowed: 'lpddr5x'"),
        ("dpu_asic", ("dram.bits", 48), "error[E502]: dram.bits: value is 48, allowed: 16 bits times a power of two"),
    ],
)
def test_bad_variants(tmp_path: Path, arch: str, setting: tuple[str, float], said: str) -> None:
    with pytest.raises(DpuError) as e:
        vary(load_arch(arch), [setting], LEAST, tmp_path)
    assert str(e.value).startswith(said)


def test_texts_of_the_command_line() -> None:
    assert parse_setting("tiles=2,4") == ("tiles", (2, 4))
    assert parse_setting("clock_hz=1.5e9") == ("clock_hz", (1_500_000_000,))
    assert parse_images("1024x512") == Images(1024, 512, 1) and parse_images("512x512x2").number == 2
    for bad in ("tiles", "tiles=", "=3", "tiles=a", "tiles=2,2"):
        with pytest.raises(DpuError) as e:
            parse_setting(bad)
        assert str(e.value).startswith(f"error[E501]: --set: '{bad}' is no setting\n  try: a field of the arch file")
    with pytest.raises(DpuError) as e:
        parse_images("big")
    assert str(e.value) == (
        "error[E501]: --images: 'big' is no size\n  try: write it as 1024x1024, or 1024x1024x2 for two images"
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"base": load_arch("dpu_f2")},
            "error[E501]: --set dram.bits: arch dpu_f2 has 'hbm2', allowed: 'lpddr5x'\n"
            "  try: vary an arch with LPDDR5X",
        ),
        (
            {"precisions": ("w4a4",)},
            "error[E503]: --precision w4a4: not available\n"
            "  try: one of tiny-searched, w4a8, w8a16, w8a8, w8a8-sensitive, w8a8-static",
        ),
        (
            {"images": (Images(512, 512),)},
            "error[E504]: --images 512x512x1: the graphs of sdxl_base are of 1024x1024x1 only\n"
            "  try: dpuc export sdxl --open-sizes --graph-only -o FOLDER, and --model FOLDER",
        ),
    ],
)
def test_bad_axes(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(DpuError) as e:
        swept(tmp_path, Estimates(), **more)
    assert str(e.value) == said


def test_ray_is_an_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DpuError) as e:
        ray()
    assert str(e.value).splitlines() == [
        "error[E501]: --backend ray: ray cannot be imported (import of ray halted; None in sys.modules)",
        "  try: pip install 'dpu[ray]', or --backend local",
    ]
    with pytest.raises(DpuError) as e:
        sweeps.sweep(backend="dask", settings=[], output=tmp_path / "s.parquet", cache=tmp_path, **DEFAULTS)
    assert str(e.value) == "error[E501]: --backend dask: there is none\n  try: one of local, ray"


DEFAULTS: dict[str, Any] = {
    "arch": "dpu_32tops",
    "precision": "w8a8",
    "steps": "20",
    "images": "1024x1024",
    "economics": "scenario_b",
    "model": None,
    "objective": "usd_per_image",
    "front": "usd_per_image",
    "address": "",
    "jobs": 1,
}


# -- the estimate itself -------------------------------------------------------------------------------------------


class Workload:
    """Entries whose cycles are the array's, unless the memory is slower."""

    def estimate(self, arch: Arch) -> list[Any]:
        if arch.tiles > 8:
            raise DpuError("unet", "does not fit", code="E502", hint="a test")
        macs = 10**12
        mxu, memory = macs // arch.peak_macs_per_cycle, round(10**10 / arch.dram.bytes_per_cycle)
        op = SimpleNamespace(cycles=max(mxu, memory), bound="mxu" if mxu >= memory else "memory")
        entry = {"part": "unet", "entry": "unet", "ops": (op,), "cycles": op.cycles, "macs": macs, "executed": macs}
        return [SimpleNamespace(**entry, bytes=10**10, bound=f"{op.bound} 100%")]


def test_explain_ranks_single_changes(tmp_path: Path) -> None:
    """Of an arch that the memory bounds, its width helps and tiles only cost area; what does nothing says so."""
    arch = load_arch("dpu_32tops")
    found = explain_arch(arch, Workload(), scenario("scenario_b"), silicon(), tmp_path)  # type: ignore[arg-type]
    assert found.bound == {"memory": 1.0} and found.cycles == 20 * round(10**10 / 116)
    by = {(c.name, c.new): c for c in found.changes}
    assert by["dram.bits", 256].time == pytest.approx(0.708, abs=0.01)  # until the array bounds it: 1e12 / 16384
    assert by["dram.bits", 64].time == pytest.approx(2.0) and (by["dram.bits", 256].area or 0) > 1
    assert by["tiles", 8].time == 1.0 and (by["tiles", 8].area or 0) > 1.3
    assert by["buffers.act.bytes", 1_572_864].time == 1.0 and (by["buffers.act.bytes", 1_572_864].area or 9) < 1
    assert by["lanes", 128].error == "lanes 128 must divide cols 64"
    lines = found.text().splitlines()
    assert lines[0].startswith("dpu_32tops: 1,724,137,940 cycles, 1.724 s an image of 20 steps, ")
    assert lines[3].split()[0] == "dram.bits" and lines[3].split()[2] == "256"
    assert any(line.startswith("not possible: lanes 128: ") for line in lines)
    assert len(found.text(rows=2).splitlines()) < len(lines)


def test_explain_of_an_arch_without_a_known_interface(tmp_path: Path) -> None:
    found = explain_arch(load_arch("dpu_f2"), Workload(), scenario("scenario_b"), silicon(), tmp_path)  # type: ignore[arg-type]
    assert found.die_mm2 is None and "area unknown" in found.text()
    assert all(c.name != "dram.bits" and c.area is None for c in found.changes)
    assert {n for n, _, _ in changes(load_arch("dpu_asic"))} >= {"tiles", "array", "dram.bits", "l2_bytes"}


def test_a_worker_says_why_an_arch_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task alone makes the arch, with the DRAM file that it carries; a refusal is a result."""
    monkeypatch.setattr("dpu.bench.sweep_work._workload", lambda model, images, precision: Workload())
    folder = tmp_path / "gone"
    folder.mkdir()
    archs = [vary(load_arch("dpu_32tops"), [("tiles", t), ("dram.bits", 256)], LEAST, folder) for t in (4, 16)]
    tasks = [point(a, Images(), "w8a8", "", "x") for a in archs]
    for path in folder.iterdir():
        path.unlink()
    good, bad = map(estimate, tasks)
    assert good["entries"][0]["cycles"] == 10**12 // 16384 and good["entries"][0]["dram_bytes"] == 10**10
    assert bad == {"key": tasks[1].key, "error": "unet: does not fit"}


@pytest.mark.slow
def test_processes_give_what_one_process_gives(tmp_path: Path) -> None:
    """Two workers on the shipped graphs, and this process: the same bytes."""
    from dpu.bench.sweep_run import local

    given: dict[str, Any] = {"settings": (("tiles", (2, 4)), ("dram.bits", (128, 256))), "steps": (20,)}
    names = []
    for name, estimates in (("two", local(2)), ("one", lambda tasks: map(estimate, tasks))):
        (tmp_path / name).mkdir()
        swept(tmp_path / name, estimates, **given).save(tmp_path / f"{name}.parquet")
        names.append((tmp_path / f"{name}.parquet").read_bytes())
    assert names[0] == names[1]
