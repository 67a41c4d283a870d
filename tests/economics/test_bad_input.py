"""Bad files of every kind: file, field, value, what is allowed. Texts word for word."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from dpu.bench.estimate_cycles import digest, save
from dpu.bench.evaluate import Request, read, run
from dpu.errors import DpuError
from dpu.ir.arch import load_arch
from dpu.measurement import DeviceIdentity, Measurement, write_measurements
from dpu.simulator.economics.chip import chip
from dpu.simulator.economics.cost import Terms
from dpu.simulator.economics.inputs import scenario, silicon
from dpu.simulator.economics.workload import image_work

from tests.economics.shared import WORKLOAD, cycles_of, edited

README = "\n  try: docs/economics.md describes every field"


class Bench:
    """A folder of good files, of which one is replaced."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workload = folder / "sdxl.json"
        self.workload.write_text(json.dumps(WORKLOAD))
        arch = load_arch("dpu_32tops")
        self.cycles = folder / "cycles.json"
        save(cycles_of(arch, 10.0, digest(arch)), self.cycles)

    def said(self, **change: Any) -> str:
        request: dict[str, Any] = {
            "workload": self.workload,
            "arch": "dpu_32tops",
            "economics": "scenario_a",
            "gpu": ("l4",),
            "cycles": self.cycles,
        }
        with pytest.raises(DpuError) as e:
            run(Request(**(request | change)))
        return str(e.value).replace(f"{self.folder}/", "")

    def gpu(self, *path: str | int, to: object) -> str:
        file = edited("gpu/l4.json", path, to, self.folder / "gpu.json")
        return self.said(gpu=(str(file),))

    def scenario(self, *path: str | int, to: object) -> str:
        file = edited("economics/scenario_a.json", path, to, self.folder / "place.json")
        return self.said(economics=str(file))

    def silicon(self, *path: str | int, to: object) -> str:
        file = edited("economics/silicon.json", path, to, self.folder / "silicon.json")
        return self.said(silicon=str(file))

    def work(self, *path: str | int, to: object) -> str:
        content: Any = copy.deepcopy(WORKLOAD)
        inner = content
        for key in path[:-1]:
            inner = inner[key]
        if to is ...:
            del inner[path[-1]]
        else:
            inner[path[-1]] = to
        self.workload.write_text(json.dumps(content))
        return self.said()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_missing_fields(bench: Bench) -> None:
    assert bench.gpu("idle_power", to=...) == (
        f"error[E520]: gpu.json: field 'idle_power': is missing, allowed: 0 to 100000 W{README}"
    )
    assert bench.gpu("busy_power", to=...) == (
        f"error[E520]: gpu.json: field 'busy_power': is missing, allowed: 0 to 100000 W, or a wall_energy{README}"
    )
    assert bench.gpu("offline", to=...) == (
        "error[E520]: gpu.json: field 'offline': is missing\n"
        f"  why: a device that carries no DPU states its rates{README}"
    )
    assert (
        bench.gpu("idle_power", "unit", to=...) == f"error[E520]: gpu.json: field 'idle_power.unit': is missing{README}"
    )
    assert bench.scenario("utilisation", to=...) == (
        f"error[E520]: place.json: field 'utilisation': is missing, allowed: above 0 to 1{README}"
    )
    assert bench.scenario("ownership", "electricity", to=...) == (
        f"error[E520]: place.json: field 'ownership.electricity': is missing, allowed: 0 to 5 USD/kWh{README}"
    )
    assert bench.silicon("nodes", "7", "defects", to=...) == (
        f"error[E520]: silicon.json: field 'nodes.7.defects': is missing, allowed: 0 to 10 1/cm2{README}"
    )


def test_wrong_units(bench: Bench) -> None:
    assert bench.gpu("rental", "on_demand", "unit", to="USD/W") == (
        f"error[E520]: gpu.json: field 'rental.on_demand': unit is 'USD/W', allowed: 0 to 10000 USD/h{README}"
    )
    assert bench.gpu("offline", "unit", to="furlong") == (
        f"error[E520]: gpu.json: field 'offline': unknown unit 'furlong'{README}"
    )
    assert bench.silicon("nodes", "7", "wafer", "unit", to="USD/die") == (
        f"error[E520]: silicon.json: field 'nodes.7.wafer': unit is 'USD/die', allowed: 100 to 1e+06 USD/wafer{README}"
    )


def test_numbers_out_of_range(bench: Bench) -> None:
    assert bench.gpu("rental", "on_demand", "value", to=-1) == (
        f"error[E520]: gpu.json: field 'rental.on_demand': value is -1 USD/h, allowed: 0 to 10000 USD/h{README}"
    )
    assert bench.gpu("offline", "value", to=0) == (
        f"error[E520]: gpu.json: field 'offline': value is 0 image/s, allowed: above 0 to 10000 image/s{README}"
    )
    assert bench.scenario("utilisation", to={"value": 140, "unit": "%", "provenance": "assumed", "source": "x"}) == (
        f"error[E520]: place.json: field 'utilisation': value is 140 %, allowed: above 0 to 1{README}"
    )
    assert bench.scenario("utilisation", "low", to=-0.5) == (
        f"error[E520]: place.json: field 'utilisation': value is -0.5 1, allowed: above 0 to 1{README}"
    )
    assert bench.scenario("utilisation", "value", to=1.4) == (
        "error[E520]: place.json: field 'utilisation': value is 1.4, allowed: from its low 0.07 to its high 0.8"
        f"{README}"
    )


@pytest.mark.parametrize("value, shown", [(float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf")])
def test_numbers_that_are_none(bench: Bench, value: float, shown: str) -> None:
    assert bench.gpu("offline", "value", to=value) == (
        f"error[E520]: gpu.json: field 'offline': value is {shown}, allowed: a finite number{README}"
    )
    assert bench.scenario("ownership", "lifetime", "high", to=value) == (
        f"error[E520]: place.json: field 'ownership.lifetime': high is {shown}, allowed: a finite number{README}"
    )


def test_wrong_types_and_names(bench: Bench) -> None:
    assert bench.gpu("idle_power", "value", to="12 W") == (
        "error[E520]: gpu.json: field 'idle_power.value': value is '12 W', allowed: a valid number, unable to parse"
        f" string as a number{README}"
    )
    assert bench.gpu("extra", to=1) == f"error[E520]: gpu.json: field 'extra': there is no such field{README}"
    assert bench.gpu("kind", to="npu") == (
        f"error[E520]: gpu.json: field 'kind': value is 'npu', allowed: 'gpu' or 'fpga'{README}"
    )
    assert bench.scenario("tenure", to="borrowed") == (
        "error[E520]: place.json: field 'tenure': value is 'borrowed', allowed: 'on_demand', 'committed' or 'owned'"
        f"{README}"
    )
    assert bench.gpu("idle_power", "source", to=" ") == (
        f"error[E520]: gpu.json: field 'idle_power': source is empty, allowed: where the number comes from{README}"
    )


@pytest.mark.parametrize("claimed", ["measured", "simulated"])
def test_what_is_measured_is_not_written_by_hand(bench: Bench, claimed: str) -> None:
    assert bench.gpu("idle_power", "provenance", to=claimed) == (
        f"error[E520]: gpu.json: field 'idle_power.provenance': value is '{claimed}', allowed: 'published',"
        f" 'datasheet' or 'assumed'{README}"
    )


def test_distributions_that_are_none(bench: Bench) -> None:
    assert bench.gpu("purchase", "high", to=...) == (
        f"error[E520]: gpu.json: field 'purchase': allowed: low and high together, or sd, or neither{README}"
    )
    assert bench.gpu("purchase", "distribution", to="normal") == (
        f"error[E520]: gpu.json: field 'purchase': distribution is normal, allowed: with sd{README}"
    )
    assert bench.gpu("offline", "sd", to=-0.1) == (
        "error[E520]: gpu.json: field 'offline': sd is -0.1 of 0.251585, allowed: 0 or more, lognormal of a positive"
        f" value{README}"
    )
    assert bench.gpu("offline", "sd", to=0.1) == (  # a normal number's four deviations may not leave the range
        f"error[E520]: gpu.json: field 'offline': value is -0.148415 image/s, allowed: above 0 to 10000 image/s{README}"
    )


def test_unknown_versions(bench: Bench) -> None:
    assert bench.gpu("format", to="dpu.accelerator/2") == (
        f"error[E521]: gpu.json: field 'format': value is 'dpu.accelerator/2', allowed: 'dpu.accelerator/1'{README}"
    )
    assert bench.scenario("format", to=...) == (
        f"error[E521]: place.json: field 'format': value is None, allowed: 'dpu.economics/1'{README}"
    )
    assert bench.silicon("format", to="dpu.silicon/0") == (
        f"error[E521]: silicon.json: field 'format': value is 'dpu.silicon/0', allowed: 'dpu.silicon/1'{README}"
    )
    assert bench.work("format", to="dpu.workload/9") == (
        "error[E521]: sdxl.json: field 'format': value is 'dpu.workload/9', allowed: 'dpu.workload/1'\n"
        "  try: write it again: dpubench profile --resolution 1024 --steps 20 --output results/sdxl.json"
    )


def test_names_are_told_apart(bench: Bench) -> None:
    assert bench.said(gpu=("l4", "l4")) == (
        "error[E501]: --gpu: 'l4' is the name of two things\n"
        "  why: numbers of the comparison are told apart by the names of their devices\n"
        "  try: give every device once, with a name of its own"
    )
    assert bench.gpu("name", to="dpu_32tops").startswith("error[E501]: --gpu: 'dpu_32tops' is the name of two things")


def test_files_that_are_none(bench: Bench) -> None:
    bad = bench.folder / "x.json"
    bad.write_text("{")
    assert bench.said(economics=str(bad)) == (
        "error[E520]: x.json: is no readable JSON (Expecting property name enclosed in double quotes: line 1 column 2"
        f" (char 1)){README}"
    )
    bad.write_text("[1]")
    assert bench.said(economics=str(bad)) == f"error[E520]: x.json: holds a list, expected an object{README}"
    assert bench.said(workload=bench.folder / "none.json") == (
        "error[E106]: none.json: no such file\n  try: check the path"
    )
    assert bench.said(gpu=("h300",)) == (
        "error[E106]: h300: no such file in configs/gpu\n"
        "  try: one of b200, h100, h200, h200_torch, l4, l40s, mi325x, rtx_pro_6000, tpu_v6e, or a path"
    )


def test_mismatched_workloads(bench: Bench) -> None:
    different = "\n  why: costs of different images cannot be compared\n  try: "
    profile = f"{different}profile and estimate the task that the GPU was measured on"
    assert bench.gpu("task", "steps", to=30) == (
        f"error[E522]: gpu.json: field 'task.steps': value is 30, allowed: 20, as in sdxl.json{profile}"
    )
    assert bench.work("resolution", to=512) == (
        "error[E522]: configs/gpu/l4.json: field 'task.resolution': value is 1024, allowed: 512, as in sdxl.json"
        f"{profile}"
    )
    assert bench.work("guidance", to=0) == (
        "error[E522]: configs/gpu/l4.json: field 'task.guidance': value is True, allowed: False, as in sdxl.json"
        f"{profile}"
    )
    other = "\n  why: the DPU would do other work than the GPU\n  try: profile and estimate the same model"
    assert bench.work("parts", 0, "runs", to=20) == (
        "error[E522]: cycles.json: field 'entries': value is 140.00 TMAC an image, allowed: 72.96 TMAC within 2 %, as"
        f" in sdxl.json{other}"
    )
    assert bench.work("parts", 0, "macs", to=-1) == (
        "error[E520]: sdxl.json: field 'parts.0.macs': Input should be greater than or equal to 0 (value is -1)\n"
        "  try: write it again: dpubench profile --resolution 1024 --steps 20 --output results/sdxl.json"
    )


def test_cycles_of_another_arch(bench: Bench) -> None:
    seen, wanted = (digest(load_arch(a))[:12] for a in ("dpu_32tops", "dpu_asic"))
    assert bench.said(arch="dpu_asic") == (
        f"error[E522]: cycles.json: field 'arch_sha256': value is {seen} (arch 'dpu_32tops'), allowed: {wanted}, that"
        " of 'dpu_asic'\n"
        "  why: cycles of another arch, or of an earlier version of its file\n"
        "  try: dpubench estimate --arch dpu_asic -o FILE"
    )


def test_prices_that_are_missing(bench: Bench) -> None:
    assert bench.said(gpu=("mi325x",)) == (
        "error[E525]: gpu mi325x: field 'rental.on_demand': is missing, allowed: 0 or more USD/h\n"
        "  why: scenario 'scenario_a' needs it\n"
        "  try: add the price to the file, or choose another scenario"
    )
    assert bench.said(gpu=("tpu_v6e",), economics="scenario_b") == (
        "error[E525]: gpu tpu_v6e: field 'purchase': is missing, allowed: 0 or more USD\n"
        "  why: scenario 'scenario_b' needs it\n"
        "  try: add the price to the file, or choose another scenario"
    )
    assert bench.scenario("asic", "node", to="3") == (
        "error[E520]: scenario scenario_a: field 'asic.node': value is '3', allowed: 28, 12, 7, 5\n"
        "  try: choose a node of configs/economics/silicon.json, or add one"
    )


def test_a_card_that_does_not_carry_the_dpu(bench: Bench) -> None:
    assert bench.said(card="f2_6xlarge") == (
        "error[E525]: card f2_6xlarge: field 'archs': value is ['dpu_f2'], allowed: a list with 'dpu_32tops'\n"
        "  why: the card does not carry this DPU\n"
        "  try: name a card that does, or leave --card out for a chip"
    )


def test_chips_that_nobody_can_price_or_expose() -> None:
    terms = Terms.of(scenario("scenario_b"))
    f2 = load_arch("dpu_f2")
    with pytest.raises(DpuError) as e:
        chip(f2, image_work(cycles_of(f2, 1.0), f2), silicon(), terms)
    assert str(e.value) == (
        "error[E525]: arch dpu_f2: field 'dram.model': value is 'hbm2', allowed: 'lpddr5x'\n"
        "  why: area and price of a chip are known for LPDDR5X only\n"
        "  try: choose an arch with LPDDR5X, or describe the card that carries it in configs/card"
    )
    asic = load_arch("dpu_asic")
    place = scenario("scenario_b")
    plan = place.asic.model_copy(update={"node": "28"})
    with pytest.raises(DpuError) as e:
        chip(asic, image_work(cycles_of(asic, 1.0), asic), silicon(), Terms.of(place.model_copy(update={"asic": plan})))
    assert str(e.value) == (
        "error[E525]: arch dpu_asic: die at 28 nm: value is 1204 mm2, allowed: 0 to 858 mm2\n"
        "  why: a scanner exposes no larger field\n"
        "  try: take fewer tiles, smaller scratchpads or a smaller node"
    )


# -- measurements ------------------------------------------------------------------------------------------------------

GPU = DeviceIdentity(
    target="gpu",
    name="NVIDIA L4",
    marks={"uuid": "GPU-01234567-89ab-cdef-0123-456789abcdef", "driver": "580.159.04"},
)
CONDITIONS = {"steps": "20", "resolution": "1024"}


def rate(device: DeviceIdentity, conditions: dict[str, str], name: str = "images_per_second") -> Measurement:
    return Measurement.of(name, "image/s", (0.2, 0.21, 0.22), device, command="a test", conditions=conditions)


def test_measurements_of_other_work(bench: Bench) -> None:
    path = bench.folder / "m.json"
    write_measurements(path, [rate(GPU, {**CONDITIONS, "steps": "30"})])
    assert bench.said(measured=(path,)) == (
        "error[E522]: m.json: measurement 'images_per_second': condition 'steps': value is '30', allowed: '20'\n"
        "  why: costs of different images cannot be compared\n"
        "  try: measure the task of the workload file"
    )
    write_measurements(path, [rate(GPU, CONDITIONS)])
    assert bench.said(measured=(path,), gpu=("l4", "h200")) == (
        "error[E501]: m.json: measurements of one gpu, and 2 are compared\n  try: name one GPU with --gpu"
    )
    write_measurements(path, [rate(GPU, CONDITIONS, "clock")])
    assert bench.said(measured=(path,)) == (
        "error[E523]: m.json: holds none of the measurements images_per_second, seconds_per_image, board_power,"
        " wall_energy_per_image, board_idle_power, and no images of 20 steps\n"
        "  try: docs/economics.md says what they mean"
    )
    simulator = DeviceIdentity(target="sim", name="simulator")
    write_measurements(path, [rate(simulator, CONDITIONS)])
    assert bench.said(measured=(path,)) == (
        "error[E501]: m.json: measurements of one dpu, and 0 are compared\n"
        "  try: a chip that nobody made was not measured"
    )


def test_results_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"format": "dpu.comparison/7"}))
    with pytest.raises(DpuError) as e:
        read(path)
    assert str(e.value) == (
        f"error[E521]: {path}: field 'format': value is 'dpu.comparison/7', allowed: 'dpu.comparison/1'\n"
        "  try: write it again: dpubench evaluate ... -o FILE"
    )
    path.write_text(json.dumps({"format": "dpu.comparison/1"}))
    with pytest.raises(DpuError) as e:
        read(path)
    assert str(e.value).startswith(f"error[E520]: {path}: field 'ledger': Input should be a valid dictionary")
