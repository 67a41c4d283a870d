"""Measurements: recomputed by whoever reads them; nothing that stands in for a device can say `measured`."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from dpu.errors import DpuError
from dpu.evidence import Provenance, Quantity, assumed, derived, evaluate, simulated
from dpu.ledger import Ledger
from dpu.measurement import HARDWARE, STAND_INS, DeviceIdentity, Measurement, read_measurements, write_measurements
from dpu.runtime import targets
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

ROOT = Path(__file__).parents[2]
REAL = {
    "gpu": {"uuid": "GPU-01234567-89ab-cdef-0123-456789abcdef", "driver": "580.159.04"},
    "f2": {"instance": "i-0123456789abcdef0", "afi": "agfi-0123456789abcdef0", "sdk_sha256": "a" * 64},
    "xrt": {"xclbin_uuid": "01234567-89ab-cdef-0123-456789abcdef", "bdf": "0000:3b:00.1"},
    "cpu": {"model": "AMD EPYC"},
    "power-meter": {"serial": "1234"},
}
GPU = DeviceIdentity(target="gpu", name="NVIDIA H200", marks=REAL["gpu"])


def measure(device: DeviceIdentity, samples: tuple[float, ...] = (2.0, 2.5, 2.25), name: str = "time") -> Measurement:
    return Measurement.of(name, "s", samples, device, command="a test", conditions={"steps": "20"})


def test_median_mean_and_their_errors() -> None:
    m = measure(GPU, (1.0, 2.0, 6.0))
    assert m.value == 2.0
    # variance ((-2)^2 + (-1)^2 + 3^2) / 2 = 7; error sqrt(7 / 3) of the mean, sqrt(pi / 2) times that of the median
    assert m.uncertainty == pytest.approx(1.2533141 * (7 / 3) ** 0.5)
    mean = Measurement.of("t", "s", (1.0, 2.0, 6.0), GPU, command="a test", statistic="mean")
    assert mean.value == 3.0 and mean.uncertainty == pytest.approx((7 / 3) ** 0.5)
    assert measure(GPU, (1.0,)).uncertainty is None


@pytest.mark.parametrize("target", list(HARDWARE))
def test_real_hardware_measures_and_names_itself(target: str) -> None:
    q = measure(DeviceIdentity(target=target, name="it", marks=REAL[target])).quantity()
    assert q.provenance is Provenance.MEASURED and q.record
    with pytest.raises(ValidationError, match="name the device, or say what stands in for it"):
        DeviceIdentity(target=target, name="it", marks=dict.fromkeys(HARDWARE[target], ""))


@pytest.mark.parametrize("target", STAND_INS)
@given(marks=st.dictionaries(st.sampled_from(sorted({k for v in REAL.values() for k in v})), st.text(max_size=40)))
def test_no_stand_in_measures(target: str, marks: dict[str, str]) -> None:
    everything = {k: v for marks in REAL.values() for k, v in marks.items()} | marks
    q = measure(DeviceIdentity(target=target, name="GPU", marks=everything)).quantity()
    assert q.provenance is Provenance.SIMULATED and not q.record


@pytest.mark.parametrize("target", list(HARDWARE))
def test_hardware_with_a_stand_in_does_not_measure(target: str) -> None:
    device = DeviceIdentity(target=target, name="it", marks=REAL[target], stand_in="the Verilated custom logic")
    q = measure(device).quantity()
    assert q.provenance is Provenance.SIMULATED
    assert "the Verilated custom logic standing in" in q.source


def test_every_target_of_the_runtime_is_known_here() -> None:
    assert set(targets.TARGETS) <= {*HARDWARE, *STAND_INS}
    assert {"sim", "rtl"} <= set(STAND_INS)
    with pytest.raises(ValidationError, match="target 'tpu' is none of"):
        DeviceIdentity(target="tpu", name="it")


def test_nothing_becomes_measured_on_the_way() -> None:
    weak, strong = simulated(3.0, "s", "a stand-in", name="weak"), measure(GPU).quantity("strong")
    for q in (weak + strong, weak * strong, strong / weak, strong - weak, derived(1.0, "s", strong, weak), -weak):
        assert q.provenance is Provenance.SIMULATED
    assert (strong * 2).provenance is (1 / strong).provenance is Provenance.MEASURED
    with pytest.raises(ValidationError, match="measured cannot come from simulated inputs"):
        Quantity(value=1, unit="s", provenance=Provenance.MEASURED, source="x", record="a" * 64, inputs=(weak,))
    with pytest.raises(ValidationError, match="a measured number needs the record of its measurement"):
        Quantity(value=1, unit="s", provenance=Provenance.MEASURED, source="x")
    assert evaluate([weak * 2], {"weak": 5.0})[0] == 10


def test_only_measurements_make_records() -> None:
    """No module but these two names the record of a number, so that none can make a measured one."""
    makers = set()
    for path in [p for p in ROOT.rglob("*.py") if not {".venv", "tests", "build", "out"} & set(p.parts)]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and any(k.arg == "record" for k in node.keywords):
                called = ast.unparse(node.func)
                if called.endswith(("Quantity", "model_copy", "Node", "combine")):
                    makers.add(path.relative_to(ROOT).as_posix())
    assert makers <= {"measurement.py"}


def test_models_know_nothing_of_measurements() -> None:
    """Simulator, RTL and compiler cannot make a record: they do not import what makes one."""
    for folder in ("simulator", "rtl", "codegen", "passes", "ir", "frontend"):
        for path in (ROOT / folder).rglob("*.py"):
            assert "measurement import" not in path.read_text(), path


# -- files -------------------------------------------------------------------------------------------------------------


def refused(path: Path) -> str:
    with pytest.raises(DpuError) as e:
        read_measurements(path)
    return str(e.value).replace(str(path.parent) + "/", "")


def test_files_round_trip_and_mismatches_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    write_measurements(path, [measure(GPU)])
    assert read_measurements(path) == {
        "time": measure(GPU).model_copy(update={"date": read_measurements(path)["time"].date})
    }
    hint = "\n  try: measure again, and keep the file as it was written"

    def edited(**change: object) -> str:
        content = json.loads(path.read_text())
        content["measurements"][0] |= change
        (tmp_path / "edited.json").write_text(json.dumps(content))
        return refused(tmp_path / "edited.json")

    assert edited(value=1.5) == (
        f"error[E523]: edited.json: measurement: value 1.5 is not the median of its samples, 2.25{hint}"
    )
    assert edited(samples=[2.0, 2.0, 2.0]) == (
        f"error[E523]: edited.json: measurement: value 2.25 is not the median of its samples, 2{hint}"
    )
    assert edited(uncertainty=0.0) == (
        "error[E523]: edited.json: measurement: uncertainty 0.0 does not follow from the samples,"
        f" {measure(GPU).uncertainty}{hint}"
    )
    assert edited(value=float("nan"), uncertainty=float("nan")) == (
        f"error[E523]: edited.json: measurement: value nan is not the median of its samples, 2.25{hint}"
    )
    assert edited(uncertainty=float("nan")) == (
        "error[E523]: edited.json: measurement: uncertainty nan does not follow from the samples,"
        f" {measure(GPU).uncertainty}{hint}"
    )
    assert edited(samples=[]) == (
        f"error[E523]: edited.json: measurement: samples must be one or more finite numbers{hint}"
    )
    assert edited(device={"target": "gpu", "name": "a stand-in"}) == (
        "error[E523]: edited.json: measurement: device: '' is no uuid of a gpu device: name the device, or say what"
        f" stands in for it{hint}"
    )
    assert edited(unit="furlong") == f"error[E523]: edited.json: measurement: unit: unknown unit 'furlong'{hint}"
    assert edited(files={"a.bin": "none"}) == (
        f"error[E523]: edited.json: measurement: file 'a.bin' has no sha256 digest{hint}"
    )
    write_measurements(path, [measure(GPU), measure(GPU)])
    assert refused(path) == f"error[E523]: m.json: measurement 1: 'time' occurs twice{hint}"
    path.write_text("{}")
    assert refused(path) == f"error[E523]: m.json: holds no measurements (KeyError){hint}"


def test_files_that_changed_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "engine.bin"
    file.write_bytes(b"one")
    m = Measurement.of("t", "s", (1.0,), GPU, command="a test", files=[file])
    m.check_files(tmp_path)
    file.write_bytes(b"two")
    with pytest.raises(DpuError) as e:
        m.check_files(tmp_path)
    assert str(e.value) == (
        f"error[E523]: {file}: sha256 is 3fc4ccfe745870e2..., the measurement 't' was made with 7692c3ad3540bb80...\n"
        "  why: the number belongs to another file\n"
        "  try: measure again, and keep the file as it was written"
    )


# -- ledgers -----------------------------------------------------------------------------------------------------------


def price() -> tuple[Quantity, Measurement]:
    m = measure(GPU)
    hourly = Quantity(
        value=7.9, unit="USD/h", provenance=Provenance.PUBLISHED, source="a list", uncertainty=0.1, name="p"
    )
    return (hourly * m.quantity("time")).to("USD").called("cost"), m


def test_a_ledger_keeps_the_tree_and_is_computed_again() -> None:
    cost, m = price()
    ledger = Ledger.of({"cost": cost}, [m])
    back = Ledger.model_validate_json(ledger.model_dump_json()).quantities("here")["cost"]
    assert back.explain() == cost.explain() and back.uncertainty == pytest.approx(cost.uncertainty)
    assert back.provenance is Provenance.PUBLISHED
    assert len(ledger.nodes) == 4  # p, time, p x time, cost in USD


def forged(change: dict[str, object], node: int, drop: bool = False) -> str:
    cost, m = price()
    content = json.loads(Ledger.of({"cost": cost}, [m]).model_dump_json())
    content["nodes"][node] |= change
    if drop:
        content["measurements"] = []
    with pytest.raises(DpuError) as e:
        Ledger.model_validate(content).quantities("r.json")
    return str(e.value).splitlines()[0]


def test_a_forged_ledger_is_refused() -> None:
    assert forged({"value": 1.0}, 2) == "error[E523]: r.json: number 2: 1 is not what its inputs give, 17.775"
    assert forged({"value": 1.0}, 0) == "error[E523]: r.json: number 2: 17.775 is not what its inputs give, 2.25"
    assert forged({"provenance": "measured"}, 0) == (
        "error[E523]: r.json: number 0 (p):"
        " a measured number needs the record of its measurement (Measurement.quantity)"
    )
    assert forged({"provenance": "measured"}, 2) == (
        "error[E523]: r.json: number 2: measured cannot come from published inputs"
    )
    assert forged({"provenance": "measured", "record": "b" * 64}, 0) == (
        "error[E523]: r.json: number 0 (p): is measured, but no record of a real device in the file says so"
    )
    assert forged({"value": 3.0}, 1) == (
        "error[E523]: r.json: number 1 (time): 3 s is not what its record says, 2.25 s"
    )
    assert forged({}, 0, drop=True) == (
        "error[E523]: r.json: number 1 (time): is measured, but no record of a real device in the file says so"
    )
    assert forged({"op": "guess"}, 2) == "error[E523]: r.json: number 2: unknown operation 'guess'"


def test_an_output_that_is_not_there() -> None:
    cost, m = price()
    content = json.loads(Ledger.of({"cost": cost}, [m]).model_dump_json())
    content["outputs"]["cost"] = 4
    with pytest.raises(DpuError) as e:
        Ledger.model_validate(content).quantities("r.json")
    assert str(e.value).splitlines()[0] == "error[E523]: r.json: output 'cost': is number 4 of 4"


def test_a_stand_in_cannot_lend_its_record() -> None:
    """A record of a stand-in, and a leaf that says it is measured and refers to it."""
    m = measure(DeviceIdentity(target="sim", name="simulator"))
    node = {"value": m.value, "unit": "s", "provenance": "measured", "source": "x", "record": m.digest}
    content = {"nodes": [node], "outputs": {"t": 0}, "measurements": [json.loads(m.model_dump_json())]}
    with pytest.raises(DpuError, match="no record of a real device in the file says so"):
        Ledger.model_validate(content).quantities("r.json")


def test_a_record_edited_together_with_its_digest_still_needs_its_samples() -> None:
    cost, m = price()
    content = json.loads(Ledger.of({"cost": cost}, [m]).model_dump_json())
    content["measurements"][0]["value"] = 1.0
    with pytest.raises(ValidationError, match=r"value 1 is not the median of its samples, 2\.25"):
        Ledger.model_validate(content)


def test_assumed_stays_assumed() -> None:
    assert (assumed(1, "s", "x") + measure(GPU).quantity()).provenance is Provenance.ASSUMED
