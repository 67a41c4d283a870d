"""The gate: GO on consistent evidence at 2.0x, NO-GO at 1.99x, what would flip it, and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dpu.bench import gate
from dpu.bench.gate_flip import Bottleneck, advantages
from dpu.bench.gate_report import save, text
from dpu.errors import DpuError
from dpu.evidence import Provenance

from tests.economics.gate_evidence_set import GPU, EvidenceSet, record, tying_seconds
from tests.economics.shared import WORKLOAD

ROOT = Path(__file__).parents[2]


def card_at(folder: Path, advantage: float) -> EvidenceSet:
    (folder / "probe").mkdir()
    seconds = tying_seconds(folder / "probe", advantage)
    (folder / "set").mkdir()
    return EvidenceSet(folder / "set", seconds)


def test_go_at_two(tmp_path: Path) -> None:
    d = card_at(tmp_path, 2.0).decide()
    (case,) = d.cases
    assert [(c.name, c.status) for c in case.conditions if c.status != "met"] == []
    assert (d.verdict, d.exit_code) == ("GO", 0)
    assert case.advantage == pytest.approx(2.0) and case.lowest == pytest.approx(2.0)
    assert case.comparison is not None and case.comparison.dpu.platform.rate.provenance is Provenance.MEASURED


def test_no_go_just_below_two(tmp_path: Path) -> None:
    d = card_at(tmp_path, 1.99).decide()
    (case,) = d.cases
    assert [c.name for c in case.conditions if c.status != "met"] == ["cost"]
    assert (d.verdict, d.exit_code) == ("NO-GO", 1)
    assert case.advantage == pytest.approx(1.99)


def test_the_same_evidence_is_refused_by_the_command(tmp_path: Path) -> None:
    """What makes a GO above is no evidence outside tests: its devices' identities are all zeros."""
    s = card_at(tmp_path, 2.0)
    with pytest.raises(DpuError) as e:
        gate.run(s.request())
    assert str(e.value) == (
        f"error[E523]: {s.files['gpu']}: measurement 'images_per_second': uuid"
        " 'GPU-00000000-0000-0000-0000-000000000000' is the identity that tests use\n"
        "  why: no real device has it\n"
        "  try: measure on a device"
    )
    done = command(s, "--gpu", s.files["gpu"])
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("error[E523]: ")


def command(s: EvidenceSet, *more: object) -> subprocess.CompletedProcess[str]:
    arguments = ["--workload", s.workload, "--arch", s.arch, "--economics", s.place]
    output = ["--cycles", f"{s.arch}={s.cycles}", "-o", s.folder / "gate.json"]
    line = [sys.executable, "-c", "from dpu.bench.cli.dpubench import main; main()", "gate"]
    return subprocess.run([*line, *map(str, [*arguments, *output, *more])], capture_output=True, text=True, cwd=ROOT)


def test_exit_codes_of_the_command(tmp_path: Path) -> None:
    """1 where the cost fails; 3 where it holds and evidence is missing."""
    (tmp_path / "card").mkdir()
    done = command(EvidenceSet(tmp_path / "card"))
    assert done.returncode == 1 and done.stdout.startswith("gate: NO-GO\n"), done.stderr
    (tmp_path / "chip").mkdir()
    done = command(EvidenceSet(tmp_path / "chip", arch="dpu_32tops"))
    assert done.returncode == 3 and done.stdout.startswith("gate: NOT PROVEN\n"), done.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"archs": ()}, "--arch: value is '', allowed: one or more different names"),
        ({"economics": ("a", "a")}, "--economics: value is 'a,a', allowed: one or more different names"),
    ],
)
def test_options(tmp_path: Path, change: dict[str, tuple[str, ...]], said: str) -> None:
    s = EvidenceSet(tmp_path)
    with pytest.raises(DpuError) as e:
        gate.run(replace(s.request(), **change))  # type: ignore[arg-type]
    assert str(e.value) == f"error[E501]: {said}\n  try: see --help"


@pytest.mark.parametrize("value", ["nan", "inf", "high"])
def test_floors_are_numbers(value: str) -> None:
    with pytest.raises(DpuError) as e:
        gate.floors_of({"psnr": value})
    assert str(e.value) == (f"error[E501]: --floor: 'psnr={value}': the value is no finite number\n  try: see --help")


def test_flips_reach_two_and_no_more(tmp_path: Path) -> None:
    """Every lever that is said to flip the verdict gives 2x when it is put into the formula, and not 1 % before."""
    d = card_at(tmp_path, 1.0).decide()
    (case,) = d.cases
    assert case.comparison is not None and case.comparison.dpu.platform.rent is not None
    found = {f.lever: f for f in case.flips}
    names = {"throughput": case.comparison.dpu.platform.rate.name, "rent": case.comparison.dpu.platform.rent.name}
    for lever, name in names.items():
        f = found[lever]
        assert f.needed is not None
        inside, outside = f.needed, f.needed * (0.99 if f.needed > f.now else 1.01)
        at = advantages(case.comparison, {name: np.array([inside, outside])})
        assert at[0] >= 2.0 - 1e-9 and at[1] < 2.0
    assert found["throughput"].needed == pytest.approx(2 * found["throughput"].now, rel=1e-6)
    assert found["rent"].needed == pytest.approx(found["rent"].now / 2, rel=1e-6)
    assert found["busy power at the wall"].needed is None  # it is in the rent
    assert found["utilisation"].needed is None  # the same on both sides


def test_a_simulated_chip_counts_through_the_card(tmp_path: Path) -> None:
    s = EvidenceSet(tmp_path, seconds=50.0, arch="dpu_32tops")
    d = s.decide()
    assert [c for c in d.cases[0].conditions if c.status != "met"] == [] and d.verdict == "GO"
    s.write("fpga", s.fpga(scale=1.06))
    assert s.decide().verdict == "NOT PROVEN"


def test_an_estimated_chip_does_not_count(tmp_path: Path) -> None:
    s = EvidenceSet(tmp_path, arch="dpu_32tops")
    content = json.loads(s.cycles.read_text())
    s.cycles.write_text(json.dumps({**content, "provenance": "assumed"}))
    assert s.said("simulated cycles of the chip") == (
        *("NOT PROVEN", "missing"),
        "a test: assumed; dpubench sizes GRAPHS --timed simulates the program",
    )


def test_no_cycles_no_cost(tmp_path: Path) -> None:
    """An arch whose stored cycles are of an earlier version of its file: a condition, and the others are still told."""
    s = EvidenceSet(tmp_path, arch="dpu_32tops")
    archs = json.loads((ROOT / "configs/arch/dpu_32tops.json").read_text())
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**archs, "name": "other"}))
    d = gate.run(gate.Request(s.workload, (str(other),), ("scenario_b",), (), (), (), ()))
    (case,) = d.cases
    assert case.conditions[0].said == (
        "results/estimate/other.json: no such file; dpubench estimate --arch other writes it"
    )
    assert (d.verdict, d.exit_code) == ("NOT PROVEN", 3)


def test_a_measured_few_step_or_worse_gpu_is_left_out_only_by_its_scores(tmp_path: Path) -> None:
    """A measured GPU sets the bar unless its own scores lie outside the window."""
    s = EvidenceSet(tmp_path)
    fast = [record("images_per_second", "image/s", [40.0] * 20, GPU), record("board_power", "W", [680.0], GPU)]
    s.write("gpu", fast)
    (case,) = s.decide().cases
    assert case.comparison is not None and case.comparison.cheapest.platform.name == "h200_measured"
    worse = tmp_path / "quality" / "gpu.json"
    s.files["gpu scores"] = worse
    s.write("gpu scores", s.quality(fid=28.4, platform="gpu"))
    del s.files["gpu scores"]
    d = gate.run(s.request(quality=(s.files["quality"], worse)), identities_of_tests=True)
    assert d.left_out["h200_measured"] == "FID 28.4 is outside 23.011 to 23.950"
    assert d.left_out["h200_lcm"] == "FID 28.43 is outside 23.011 to 23.950"


@pytest.mark.parametrize(
    ("array", "memory", "said"),
    [(0.8, 0.3, "held by the matrix array"), (0.4, 0.8, "held by memory"), (0.3, 0.45, "held by neither array nor")],
)
def test_bottlenecks(array: float, memory: float, said: str) -> None:
    text = Bottleneck("nre", 0.5, array, memory, ceiling=3.0).text
    assert text.startswith(f"nre is 50% of the cost; the rate is {said}") and text.endswith("always busy 3x")


def test_outputs(tmp_path: Path) -> None:
    d = card_at(tmp_path, 1.99).decide()
    save(d, tmp_path / "gate.json")
    content = json.loads((tmp_path / "gate.json").read_text())
    assert content["format"] == "dpu.gate/1" and content["verdict"] == "NO-GO" and content["exit_code"] == 1
    found = content["dpus"]["dpu_f2"]["scenarios"]["scenario_a"]
    assert found["advantage"] == pytest.approx(1.99) and found["flips"][0]["lever"] == "throughput"
    assert sorted(content["evidence"]) == ["fpga", "gpu", "quality", "simulated"]
    said = text(d)
    assert said.splitlines()[0] == "gate: NO-GO" and "1.01x short of 2x" in said


def test_todays_evidence_is_a_no_go(tmp_path: Path) -> None:
    """With no card, no scores and the estimate's cycles: no DPU reaches the goal on F2."""
    workload = tmp_path / "sdxl.json"
    workload.write_text(json.dumps(WORKLOAD))
    s = EvidenceSet(tmp_path)
    request = gate.Request(workload, ("dpu_f2",), ("scenario_a",), (), (), (), (), cycles={"dpu_f2": s.cycles})
    (case,) = gate.run(request).cases
    assert case.verdict == "NO-GO"
    # 50 s at 1.98 $/h against 0.000687 $ and less: 0.0275 $ an image at full use
    assert case.advantage == pytest.approx(0.025, rel=0.1)
    assert {c.name: c.status for c in case.conditions} == {
        "cost": "failed",
        "measured GPU": "missing",
        "measured FPGA": "missing",
        "same experiment": "missing",
        "simulator within 5 % of the FPGA": "missing",
        "quality": "missing",
        "realistic utilisation": "met",
    }
