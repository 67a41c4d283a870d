"""The commands as the seeds write them, and what they leave behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from dpu.bench import uncertainty
from dpu.bench.estimate_cycles import digest, save
from dpu.bench.evaluate import Request, read, run, text
from dpu.bench.evaluate import save as save_comparison
from dpu.bench.explain import choose, tree
from dpu.bench.size_chip import table, variant
from dpu.bench.sizes import Case, EntryRow, SizeRow, SizesResult
from dpu.errors import DpuError
from dpu.evidence import Provenance
from dpu.ir.arch import load_arch
from dpu.measurement import Measurement, write_measurements
from dpu.simulator.economics.chip import interface_bits
from dpu.simulator.economics.inputs import scenario, silicon
from rich.console import Console

from tests.economics.shared import WORKLOAD, cycles_of
from tests.economics.test_bad_input import CONDITIONS, GPU

ROOT = Path(__file__).parents[2]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    workload = tmp_path / "sdxl.json"
    workload.write_text(json.dumps(WORKLOAD))
    found = {"workload": workload, "out": tmp_path / "out.json"}
    for name in ("dpu_32tops", "dpu_f2"):
        arch = load_arch(name)
        found[name] = tmp_path / f"{name}.json"
        save(cycles_of(arch, 10.0 if name == "dpu_32tops" else 46.9, digest(arch)), found[name])
    return found


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, cwd=ROOT)


def seeds(files: dict[str, Path], *more: object) -> subprocess.CompletedProcess[str]:
    """`python -m benchmarks.evaluate --workload --arch --economics --gpu`, with this project's names."""
    given = ("--workload", files["workload"], "--arch", "configs/arch/dpu_32tops.json")
    where = ("--economics", "configs/economics/scenario_a.json", "--gpu", "configs/gpu/h200.json")
    return command("-m", "dpu.bench.evaluate", *given, *where, "--cycles", files["dpu_32tops"], *more)


def test_the_seeds_command(files: dict[str, Path]) -> None:
    done = seeds(files, "-o", files["out"])
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == (
        "scenario_a: cloud rental; rented (on demand), online rates, utilisation 40%; sdxl-base-1.0, 1024x1024,"
        " 20 euler steps, guided"
    )
    assert [line.split()[0] for line in lines[3:5]] == ["dpu_32tops", "h200"]
    assert lines[-2].startswith("decision on cost: NO-GO: ") and lines[-1] == f"wrote {files['out']}"
    head, numbers = read(files["out"])
    assert head["dpu"] == "dpu_32tops" and head["gpus"] == ["h200"]
    h200 = numbers["h200.cost_per_image.rent"]
    assert h200.value == pytest.approx(63.296 / 8 / (3600 * 18.42 / 8) / 0.4)
    assert numbers["h200.cost_per_1000_images"].value == pytest.approx(1000 * numbers["h200.cost_per_image"].value)


def test_exit_code_of_bad_input(files: dict[str, Path]) -> None:
    files["workload"].write_text("{}")
    done = seeds(files)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == (
        f"error[E521]: {files['workload']}: field 'format': value is None, allowed: 'dpu.workload/1'\n"
        "  try: write it again: dpubench profile --resolution 1024 --steps 20 --output results/sdxl.json\n"
    )


def request(files: dict[str, Path], arch: str = "dpu_32tops", **more: object) -> Request:
    given = {"gpu": ("h200", "l4"), "economics": "scenario_b"} | more
    return Request(workload=files["workload"], arch=arch, cycles=files[arch], **given)  # type: ignore[arg-type]


def test_every_gpu_is_compared_when_none_is_named(files: dict[str, Path]) -> None:
    c = run(request(files, gpu=(), economics="scenario_a")).comparison
    assert len(c.gpus) == 8 and c.skipped == {"mi325x": "field 'rental.on_demand' is missing"}


def test_explain_prints_the_derivation(files: dict[str, Path]) -> None:
    save_comparison(run(request(files)), files["out"])
    _, numbers = read(files["out"])
    name, others = choose(numbers, "cost_per_1000_images", "", "x")
    assert name == "dpu_32tops.cost_per_1000_images"
    assert others == ["h200.cost_per_1000_images", "l4.cost_per_1000_images"]
    console = Console(width=400, record=True, file=(files["out"].parent / "tree").open("w"))
    console.print(tree(numbers[name], 12))
    said = console.export_text()
    for expected in (
        "dpu_32tops.cost_per_image = ",
        "dpu_32tops.cost_of_good_die = ",
        "silicon.nodes.7.wafer = 9346 ± 1.5e+03 USD/wafer  published  CSET, AI Chips (2020)",
        "scenario.utilisation = 0.5 ± 0.16  assumed",
        "dpu_32tops.cycles_of_image = 1e+10 cycle  assumed  a test",
        "as above",
    ):
        assert expected in said
    with pytest.raises(DpuError) as e:
        choose(numbers, "price", "", "r.json")
    assert str(e.value) == (
        "error[E524]: r.json: holds no number 'price'\n"
        "  try: one of busy_energy_per_image, chip_energy_per_image, cost_of_card, cost_of_good_die,"
        " cost_per_1000_images, cost_per_image, die_area, die_yield, dies_per_wafer, energy_per_image, hardware,"
        " images_per_device, images_per_second, images_per_second_per_hardware_dollar, latency,"
        " marginal_cost_per_image, nre, price_of_card, time_to_first_image"
    )


def test_results_are_computed_again_when_they_are_read(files: dict[str, Path]) -> None:
    save_comparison(run(request(files)), files["out"])
    content = json.loads(files["out"].read_text())
    place = next(i for i, n in enumerate(content["ledger"]["nodes"]) if n.get("name") == "l4.offline")
    content["ledger"]["nodes"][place]["value"] *= 1.1
    files["out"].write_text(json.dumps(content))
    with pytest.raises(DpuError, match="is not what its inputs give"):
        read(files["out"])


def test_measured_numbers_take_the_place_of_stated_ones(files: dict[str, Path]) -> None:
    rates, watts = (0.30, 0.31, 0.32), (70.0, 71.0, 72.0)
    given = {"command": "a test", "conditions": CONDITIONS}
    records = [
        Measurement.of("images_per_second", "image/s", rates, GPU, **given),  # type: ignore[arg-type]
        Measurement.of("board_power", "W", watts, GPU, **given),  # type: ignore[arg-type]
    ]
    path = files["out"].parent / "m.json"
    write_measurements(path, records)
    found = run(request(files, gpu=("l4",), measured=(path,)))
    (l4,) = found.comparison.gpus
    assert l4.platform.rate.value == 0.31 and l4.platform.rate.provenance is Provenance.MEASURED
    assert l4.platform.busy.value == 71 + 60
    assert "l4.offline" not in found.comparison.stated  # its spread is that of the samples now
    save_comparison(found, files["out"])
    _, numbers = read(files["out"])
    assert numbers["l4.images_per_second"].provenance is Provenance.MEASURED
    assert "rate measured" in text(found)
    content = json.loads(files["out"].read_text())
    assert len(content["ledger"]["measurements"]) == 2
    content["ledger"]["measurements"] = []
    files["out"].write_text(json.dumps(content))
    with pytest.raises(DpuError, match="no record of a real device in the file says so"):
        read(files["out"])


def test_a_results_file_of_the_gpu_bench(files: dict[str, Path]) -> None:
    """The best 16-bit rate with its power, one image's latency, the idle board; FP8 and other steps are left out."""

    def record(name: str, unit: str, value: float, **conditions: str) -> Measurement:
        return Measurement.of(name, unit, (value,), GPU, command="dpubench gpu", conditions=conditions)

    twenty = {"steps": "20", "engine": "torch"}
    path = files["out"].parent / "gpu.json"
    records = [
        record("images.torch:regional.n1.20steps.rate", "image/s", 1.5, **twenty),
        record("images.torch:regional.n1.20steps.latency", "s", 0.66, **twenty),
        record("images.torch:regional.n8.20steps.rate", "image/s", 1.8, **twenty),
        record("images.torch:regional.n8.20steps.latency", "s", 4.4, **twenty),
        record("images.torch:regional.n8.20steps.power", "W", 680.0),
        record("images.torch:regional:fp8.n8.20steps.rate", "image/s", 2.4, **twenty),
        record("images.torch:regional.n1.30steps.rate", "image/s", 9.0, steps="30"),
        record("idle.power", "W", 75.0),
    ]
    write_measurements(path, records)
    (h200,) = run(request(files, gpu=("h200_torch",), measured=(path,))).comparison.gpus
    p = h200.platform
    assert (p.rate.value, p.busy.value, p.idle.value) == (1.8, 680 + 190, 75 + 190)
    assert p.latency is not None and p.latency.value == 0.66
    assert p.rate.provenance is Provenance.MEASURED


def test_a_stand_in_of_the_card_stays_simulated(files: dict[str, Path]) -> None:
    """F2's driver on a stand-in: its seconds count, as simulated ones; the decision asks for measured ones."""
    device = GPU.model_copy(update={"target": "f2", "name": "F2", "stand_in": "the Verilated custom logic"})
    path = files["out"].parent / "m.json"
    given = {"command": "a test", "conditions": CONDITIONS}
    write_measurements(path, [Measurement.of("seconds_per_image", "s", (50.0,), device, **given)])  # type: ignore[arg-type]
    c = run(request(files, "dpu_f2", measured=(path,))).comparison
    assert c.dpu.platform.rate.value == pytest.approx(0.02)
    assert c.dpu.platform.rate.provenance is Provenance.SIMULATED
    assert "f2_6xlarge.images_per_second (simulated)" in c.decision().missing


def test_uncertainty_is_reproducible_and_prints(files: dict[str, Path]) -> None:
    c = run(request(files)).comparison
    report = uncertainty.run(c, 400, seed=2)
    assert report.uncertainty == uncertainty.run(c, 400, seed=2).uncertainty
    uncertainty.save(report, files["out"])
    content = json.loads(files["out"].read_text())
    assert content["seed"] == 2 and len(content["surfaces"]) == 2 and content["provenance"] == "assumed"
    assert [a["gpu"] for a in content["advantages"]] == ["h200", "l4", "cheapest"]
    said = uncertainty.text(report)
    assert "400 draws, seed 2" in said and "P(>2x)" in said


def test_variants_of_a_chip(tmp_path: Path) -> None:
    """Twice the width is twice the rate of the memory and the pads; a chip of 32 tiles at 28 nm fits no scanner."""
    base = load_arch("dpu_asic")
    archs = {(t, b): variant(base, t, b, tmp_path) for t, b in ((8, 128), (8, 256), (32, 256))}
    assert archs[8, 256].dram.bytes_per_cycle == 2 * archs[8, 128].dram.bytes_per_cycle == base.dram.bytes_per_cycle
    assert [interface_bits(a) for a in archs.values()] == [128, 256, 256]
    cycles = {k: cycles_of(a, 3.0 if k == (8, 256) else 6.0) for k, a in archs.items()}
    found = table(base, scenario("scenario_b"), silicon(), archs, cycles)
    assert found.left_out == ("32 tiles, 256 bits: die at 28 nm: value is 1541 mm2, allowed: 0 to 858 mm2",)
    assert len(found.rows) == 3 * 4 - 1
    assert (found.best(nre=False).tiles, found.best(nre=False).bits) == (8, 256)
    assert found.best(nre=True).image_usd == min(r.image_usd for r in found.rows)
    assert found.provenance == "assumed"


# -- cycles that were simulated ----------------------------------------------------------------------------------------


def sizes(tmp_path: Path, cycles: int | None, parts: tuple[str, ...] = ("unet", "vae_decoder")) -> Path:
    """A table of `dpubench sizes` for dpu_32tops, as that command writes it."""
    macs = {"unet": 6_708_700_000_000, "context": 52_500_000_000, "vae_decoder": 5_235_000_000_000}
    rows = []
    for part in parts:
        names = ("unet", "context") if part == "unet" else (part,)
        moved = None if cycles is None else 10**9
        entries = {
            n: EntryRow(words=1, macs=macs[n], executed=macs[n], cycles=cycles, bytes_read=moved, bytes_written=moved)
            for n in names
        }
        case = Case(part=part, width=1024, height=1024, batch=2 if part == "unet" else 1, arch="dpu_32tops")
        rows.append(SizeRow(case=case, entries=entries))
    path = tmp_path / "sizes.json"
    SizesResult(command="dpubench sizes --timed", graphs={}, rows=rows).save(path)
    return path


def test_cycles_of_a_table_of_sizes(files: dict[str, Path], tmp_path: Path) -> None:
    """20 forwards, one context, one VAE: 22 times the cycles, at 1 GHz."""
    c = run(Request(files["workload"], "dpu_32tops", "scenario_b", ("l4",), sizes(tmp_path, 10**9))).comparison
    seconds = c.dpu.platform.latency
    assert seconds is not None and seconds.value == pytest.approx(22.0)
    count = seconds.inputs[0].inputs[0].inputs[0]
    assert (count.value, count.provenance) == (22e9, Provenance.SIMULATED)
    assert seconds.provenance is Provenance.ASSUMED  # the clock is a design choice
    assert c.stated["dpu_32tops.error"].ends == (0.98, 1.02)


@pytest.mark.parametrize(
    ("cycles", "parts", "said"),
    [
        (None, ("unet", "vae_decoder"), "has not timed 'unet-1024x1024-b2-dpu_32tops'"),
        (10**9, ("unet",), "has no 'vae_decoder-1024x1024-b1-dpu_32tops'"),
    ],
)
def test_tables_that_do_not_hold_the_image(
    files: dict[str, Path], tmp_path: Path, cycles: int | None, parts: tuple[str, ...], said: str
) -> None:
    path = sizes(tmp_path, cycles, parts)
    with pytest.raises(DpuError) as e:
        run(Request(files["workload"], "dpu_32tops", "scenario_b", ("l4",), path))
    assert str(e.value) == f"error[E522]: {path}: {said}\n  try: dpubench sizes with --timed, for this arch"


def test_cycles_of_a_timed_program(files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report of `dpuc report`: its entries, refused if they are those of another arch."""
    arch = load_arch("dpu_32tops")
    entry = {"cycles": 10**8, "executed_macs": 7 * 10**12, "bytes_read": 10**9, "bytes_written": 10**9}
    shapes = {"unet": 6_760_000_000_000, "vae_decoder": 5_235_000_000_000}
    entries = [SimpleNamespace(entry=k, logical_macs=m, **entry) for k, m in shapes.items()]
    report = SimpleNamespace(arch=arch.name, arch_digest=arch.digest, entries=entries)
    monkeypatch.setattr("dpu.simulator.report.load_report", lambda _: report)
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"format": "dpu-report-2"}))
    c = run(Request(files["workload"], "dpu_32tops", "scenario_b", ("l4",), path)).comparison
    assert c.dpu.platform.rate.value == pytest.approx(1 / 2.1)
    report.arch_digest, report.arch = "0123456789abcdef", "another"
    with pytest.raises(DpuError) as e:
        run(Request(files["workload"], "dpu_32tops", "scenario_b", ("l4",), path))
    assert str(e.value) == (
        f"error[E522]: {path}: field 'arch_digest': value is '0123456789abcdef' (arch 'another'), allowed:"
        f" '{arch.digest}', that of 'dpu_32tops'\n"
        "  try: time a program that was compiled for dpu_32tops"
    )
