"""The queue against closed forms, and what an image costs at the utilisation that it gives."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from math import factorial, log
from pathlib import Path

import numpy as np
import pytest
from dpu.bench.estimate_cycles import digest, save
from dpu.bench.queueing import Options, Queue, batch_seconds, come, measure
from dpu.errors import DpuError
from dpu.evidence import assumed
from dpu.ir.arch import load_arch
from dpu.simulator.economics.cost import Terms, cost
from dpu.simulator.economics.inputs import scenario
from dpu.simulator.economics.queueing import Run, Service, devices_at, fewest, interval, serve, simulate
from dpu.simulator.economics.traffic import Arrivals, bursty, diurnal, draw, poisson, read_arrivals, traffic
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.economics.shared import WORKLOAD, compared, cycles_of, edited

ROOT = Path(__file__).parents[2]
RUNS, DURATION, WARM = 16, 16_000.0, 1000.0
"""Of a comparison with a closed form: runs with seeds of their own, and the part of each that is not counted."""


def latencies(rate: float, mean: float, random_service: bool, devices: int = 1) -> list[np.ndarray]:
    """Of each run: times in the system of requests behind the warm-up."""
    found = []
    for seed in range(RUNS):
        draw_service = np.random.default_rng(1000 + seed)
        seconds = (lambda n, d=draw_service: d.exponential(mean)) if random_service else (lambda n: mean)
        times = poisson(rate, DURATION, np.random.default_rng(seed))
        found.append(simulate(Arrivals(times, DURATION), Service(seconds, devices)).latencies(WARM))
    return found


def agrees(values: list[float], closed: float, widest: float) -> None:
    """The closed form is in the 99 % interval, which is narrow enough to say something."""
    mean, half = interval(values)
    assert half < widest * closed
    assert mean - half <= closed <= mean + half


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_m_m_1(load: float) -> None:
    """Mean time in the system 1 / (mu - lambda); its law is exponential, so p99 is ln(100) times that."""
    found = latencies(load, 1.0, random_service=True)
    agrees([x.mean() for x in found], 1 / (1 - load), 0.15)
    agrees([float(np.quantile(x, 0.99)) for x in found], log(100) / (1 - load), 0.25)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_m_d_1(load: float) -> None:
    """Pollaczek and Khinchine: D + load D / (2 (1 - load))."""
    agrees([x.mean() for x in latencies(load, 1.0, random_service=False)], 1 + load / (2 * (1 - load)), 0.1)


def test_m_m_4() -> None:
    """Erlang's C: 1/mu + C / (c mu - lambda)."""
    c, a = 4, 3.0
    top = a**c / factorial(c) * c / (c - a)
    waits = top / (sum(a**k / factorial(k) for k in range(c)) + top)
    agrees([x.mean() for x in latencies(a, 1.0, True, c)], 1 + waits / (c - a), 0.1)


def test_the_comparison_can_fail() -> None:
    """M/D/1 is outside the interval of M/M/1 and the other way round."""
    found = [x.mean() for x in latencies(0.8, 1.0, random_service=False)]
    with pytest.raises(AssertionError):
        agrees(found, 1 / (1 - 0.8), 0.5)


gaps = st.lists(st.floats(0, 5), max_size=60)


@settings(max_examples=150, deadline=None)
@given(gaps, st.integers(1, 4), st.integers(1, 5), st.integers(0, 6), st.floats(0, 3), st.floats(0.1, 4))
def test_conservation(waits: list[float], devices: int, batch: int, limit: int, hold: float, seconds: float) -> None:
    """arrived = served + rejected + left, at any batch, limit and hold; nobody is served before its time."""
    times = np.cumsum(waits) if waits else np.array([])
    duration = float(times[-1] + 1) if len(times) else 1.0
    r = simulate(Arrivals(times, duration), Service(lambda n: seconds * (1 + 0.1 * n), devices, batch, limit, hold))
    assert len(times) == r.served + r.rejected + r.left
    assert 0 <= r.left <= limit + devices * batch
    assert r.latencies().min(initial=9.0) >= seconds and 0 <= r.duty <= 1 + 1e-9
    ended = np.isfinite(r.done)
    assert (r.done[ended] <= duration + 1e-9).all()
    if batch == 1 and hold == 0:
        assert (np.diff(r.done[ended]) >= -1e-9).all()  # first come, first served


def run_of(times: list[float], duration: float, service: Service) -> Run:
    return simulate(Arrivals(np.array(times), duration), service)


def test_a_full_queue_turns_requests_away() -> None:
    """One device, one place to wait: of four at once two are turned away."""
    r = run_of([0, 0, 0, 0, 5], 20, Service(lambda n: 2.0, 1, limit=1))
    assert (r.served, r.rejected, r.left) == (3, 2, 0)
    assert r.done[:2].tolist() == [2.0, 4.0] and r.done[4] == 7.0


def test_batches_wait_for_more_until_the_hold_ends() -> None:
    """Two come within the hold and are made at once; the third waits 3 s for nobody."""
    r = run_of([0, 1, 10], 30, Service(lambda n: float(n), 1, batch=2, hold=3.0))
    assert r.done.tolist() == [3.0, 3.0, 14.0]


def test_requests_in_the_service_at_the_end_are_left() -> None:
    r = run_of([0, 0, 9], 10, Service(lambda n: 4.0, 1))
    assert (r.served, r.left) == (2, 1)
    assert r.busy == 9.0
    assert r.in_time(4.0) == (1, 2)  # the third could still be in time


@pytest.mark.parametrize("name", ["steady", "diurnal", "bursty", "gentd26"])
def test_arrivals_have_their_mean_and_their_seed(name: str) -> None:
    t = traffic(name)
    found = [draw(t, 1.0, seed) for seed in range(8)]
    mean, half = interval([a.rate for a in found])
    assert abs(mean - 1.0) <= max(half, 0.01)
    assert (found[0].times == draw(t, 1.0, 0).times).all()
    assert len(found[0].times) != len(found[1].times)
    assert (np.diff(found[0].times) >= 0).all() and found[0].times[-1] <= found[0].duration


def test_days_and_bursts_have_their_shape() -> None:
    random = np.random.default_rng(3)
    times = diurnal(1.0, 0.8, 100.0, 1e5, random)
    by_day = ((times % 100) < 50).mean()
    assert abs(by_day - (0.5 + 0.8 / np.pi)) < 0.01  # the integral of the sine over half a period
    times = bursty(1.0, 0.25, 1.0, 50.0, 1e5, random)
    counts = np.histogram(times, bins=np.arange(0, 1e5 + 1, 5))[0]
    assert 0.6 < (counts == 0).mean() < 0.8  # silence between the bursts


def test_fewest_devices() -> None:
    """The number found meets the objective, one less does not; none does where one image takes too long."""
    arrivals = [draw(traffic("steady"), 0.5, 1)]
    service = Service(lambda n: 9.0, 1)
    found = fewest(arrivals, service, 20.0)
    assert found is not None and found.in_time >= 0.99
    n = found.runs[0].devices
    assert serve(arrivals, replace(service, devices=n - 1), 20.0).in_time < 0.99
    assert fewest(arrivals, service, 8.0) is None
    assert devices_at(0.2, 2.3, 0.07) == 2 and devices_at(0.1, 1.0, 0.1) == 1


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 1.0), st.floats(0.01, 1.0), st.sampled_from(["scenario_a", "scenario_b"]))
def test_cost_falls_with_utilisation(one: float, other: float, name: str) -> None:
    low, high = sorted((one, other))
    place = scenario(name)
    c = compared(place=place, gpus=("h200",))
    for p in (c.dpu.platform, c.gpus[0].platform):
        images = [
            cost(p, replace(Terms.of(place), utilisation=assumed(u, "1", "a test", "u"))).image.value
            for u in (low, high)
        ]
        assert images[0] >= images[1] and (high - low < 1e-6 or images[0] > images[1])


# -- platforms -----------------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    return measured(tmp_path, monkeypatch, Options(rate=0.3, runs=2))


def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Options, name: str = "steady") -> Queue:
    workload = tmp_path / "sdxl.json"
    workload.write_text(json.dumps(WORKLOAD))
    for arch, seconds in (("dpu_32tops", 10.0), ("dpu_f2", 46.9)):
        found = load_arch(arch)
        save(cycles_of(found, seconds, digest(found)), tmp_path / f"{arch}.json")
    monkeypatch.setattr("dpu.bench.evaluate.STORED", tmp_path)
    return measure(workload, ["dpu_f2", "dpu_32tops"], ["h200"], "scenario_a", traffic(name), options)


def test_cycles_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the stored ones, of an arch that is there."""
    measured(tmp_path, monkeypatch, Options(rate=0.1, runs=1))
    arch = load_arch("dpu_32tops")
    save(cycles_of(arch, 5.0, digest(arch)), tmp_path / "faster.json")
    given = (
        tmp_path / "sdxl.json",
        ["dpu_32tops"],
        ["h200"],
        "scenario_a",
        traffic("steady"),
        Options(rate=0.1, runs=1),
    )
    found = measure(*given, cycles={"dpu_32tops": tmp_path / "faster.json"})
    assert found.rows[0].seconds == pytest.approx(5.0)
    with pytest.raises(DpuError) as e:
        measure(*given, cycles={"dpu_f2": tmp_path / "faster.json"})
    assert str(e.value) == "error[E501]: --cycles dpu_f2: no such arch\n  try: one of dpu_32tops"


def test_costs_are_the_formula_at_the_queue_s_utilisation(table: Queue) -> None:
    """One H200 is enough, and its image costs rent over what was served; F2 is too slow for the objective."""
    rows = {r.platform: r for r in table.rows}
    assert list(rows) == ["f2_6xlarge", "h200", "dpu_32tops"]
    assert rows["f2_6xlarge"].needed is None and rows["f2_6xlarge"].usd_per_1000_images is None
    h200 = rows["h200"]
    assert (h200.needed, h200.devices) == (1, 1) and h200.duty == pytest.approx(0.3 * 8 / 18.42, rel=0.05)
    a = scenario("scenario_a")
    hourly = 63.296 / 8 + a.rented.storage.value
    network = a.loading.image.value / 1000 * a.rented.network.value
    served = h200.utilisation * 3600 * h200.images_per_second  # type: ignore[operator]
    assert h200.usd_per_1000_images == pytest.approx(1000 * (hourly / served + network))
    assert h200.provenance == "assumed" and rows["dpu_32tops"].devices == rows["dpu_32tops"].needed
    said = table.text()
    assert "no number of devices: one image takes 46.9 s" in said and "99 % within 20 s" in said
    for r in table.rows[1:]:
        assert r.usd_per_1000_images > r.usd_per_1000_images_at_full_load  # type: ignore[operator]


def test_the_same_seed_gives_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: Queue) -> None:
    assert measured(tmp_path, monkeypatch, Options(rate=0.3, runs=2)) == table
    assert measured(tmp_path, monkeypatch, Options(rate=0.3, runs=2, seed=5)).rows != table.rows


def test_devices_are_kept_for_the_duty_of_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = measured(tmp_path, monkeypatch, Options(rate=0.1, runs=2), "gentd26")
    for r in table.rows:
        assert r.needed is not None and r.devices is not None and r.duty is not None
        assert r.devices >= r.needed and r.duty <= 0.07
    assert max(r.duty or 0 for r in table.rows) > 0.06 and table.kept_duty == 0.07


def test_costs_without_uncertainty_of_the_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is served does not depend on the rate while the objective is met: nor does the rent of an image."""
    c = compared(gpus=("h200",))
    p = c.dpu.platform
    per_second = assumed(0.1, "image/s", "a test", "served")
    u = per_second / (p.rate.to("image/s") * 4.0)
    parts = cost(p, replace(Terms.of(c.scenario), utilisation=u)).hourly
    images = p.rate * u
    assert p.rate.uncertainty and images.value == pytest.approx(0.025)
    assert images.uncertainty == pytest.approx(0.0, abs=1e-12) and parts["capital"].uncertainty


def test_batches_on_the_line_through_one_and_the_full_batch() -> None:
    linear = batch_seconds("h200", 2.0, 4, None)
    assert (linear(1), linear(4)) == (0.5, 2.0)
    line = batch_seconds("h200", 2.0, 4, 0.8)
    assert line(1) == 0.8 and line(4) == pytest.approx(2.0) and line(2) == pytest.approx(1.2)
    with pytest.raises(DpuError) as e:
        batch_seconds("h200", 2.0, 4, 0.3)
    assert str(e.value) == (
        "error[E501]: --alone h200: value is 0.3, allowed: 0.5 to 2 s\n"
        "  why: at 2 image/s a full batch of 4 takes 2 s\n"
        "  try: give the --batch at which the rate was measured"
    )


# -- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "column 'arrival_s': is missing, found: nothing"),
        ("time\n1\n", "column 'arrival_s': is missing, found: time"),
        ("arrival_s\n", "holds no arrivals"),
        ("arrival_s\n1\n-2\n", "line 3: value is '-2', allowed: a number from 1 s on"),
        ("arrival_s\n-2\n", "line 2: value is '-2', allowed: a number from 0 s on"),
        ("arrival_s\n1\nsoon\n", "line 3: value is 'soon', allowed: a number from 1 s on"),
        ("arrival_s\n1\n2\n1.5\n", "line 4: value is '1.5', allowed: a number from 2 s on"),
        ("a,arrival_s\n1\n", "line 2: value is None, allowed: a number from 0 s on"),
        ("arrival_s\nnan\n", "line 2: value is 'nan', allowed: a number from 0 s on"),
    ],
)
def test_bad_arrivals(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(DpuError) as e:
        read_arrivals(path, 1.0)
    assert str(e.value) == (
        f"error[E520]: {path}: {said}\n"
        "  try: one column 'arrival_s' with a time in seconds from 0 on each line, ascending"
    )


def test_good_arrivals(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,arrival_s\na,0\nb,1.5\nc,1.5\n")
    found = read_arrivals(path, 20.0)
    assert found.times.tolist() == [0, 1.5, 1.5] and found.duration == 21.5
    (same,) = come(traffic("steady"), Options(arrivals=path))
    assert same.duration == found.duration
    with pytest.raises(DpuError) as e:
        read_arrivals(tmp_path / "none.csv", 1.0)
    assert str(e.value).splitlines()[0] == f"error[E106]: {tmp_path / 'none.csv'}: no such file"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            Options(rate=-1),
            "error[E501]: --rate: value is -1, allowed: above 0 to 10000 image/s\n  try: leave it out for",
        ),
        (Options(rate=0), "error[E501]: --rate: value is 0, allowed: above 0 to 10000 image/s"),
        (Options(hold=-1), "error[E501]: --hold: value is -1, allowed: 0 to 1e+06 s"),
        (Options(rate=1, arrivals=Path("a.csv")), "error[E501]: --rate: the arrivals have one"),
    ],
)
def test_bad_options(options: Options, said: str) -> None:
    with pytest.raises(DpuError) as e:
        come(traffic("steady"), options)
    assert str(e.value).startswith(said)


@pytest.mark.parametrize(
    ("name", "path", "value", "said"),
    [
        ("steady", ("rate", "value"), -0.5, "field 'rate': value is -0.5 image/s, allowed: above 0 to 10000 image/s"),
        ("steady", ("objective", "value"), 0, "field 'objective': value is 0 s, allowed: above 0 s"),
        (
            "steady",
            ("process",),
            "random",
            "field 'process': value is 'random', allowed: 'poisson', 'diurnal' or 'bursty'",
        ),
        (
            "diurnal",
            ("swing",),
            ...,
            "field 'swing': is missing, allowed: a number, because the process is 'diurnal'",
        ),
        ("diurnal", ("process",), "poisson", "field 'swing': is there, allowed: only with the process 'diurnal'"),
        ("bursty", ("burst_share", "value"), 1.0, "field 'burst_share': value is 1, allowed: above 0 and below 1"),
        ("steady", ("queue_limit",), -1, "field 'queue_limit': value is -1, allowed: greater than or equal to 0"),
    ],
)
def test_bad_traffic(tmp_path: Path, name: str, path: tuple[str, ...], value: object, said: str) -> None:
    file = edited(f"traffic/{name}.json", path, value, tmp_path / "t.json")
    with pytest.raises(DpuError) as e:
        traffic(str(file))
    assert str(e.value) == f"error[E520]: {file}: {said}\n  try: docs/economics.md describes every field"


def test_exit_code_of_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("arrival_s\n-1\n")
    command = [sys.executable, "-c", "from dpu.bench.cli.dpubench import main; main()", "queue"]
    for more, said in (
        (["--arrivals", str(path)], f"error[E520]: {path}: line 2: value is '-1', allowed: a number from 0 s on\n"),
        (["--rate", "-3"], "error[E501]: --rate: value is -3, allowed: above 0 to 10000 image/s\n"),
    ):
        done = subprocess.run([*command, *more], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr.startswith(said)
