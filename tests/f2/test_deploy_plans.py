"""Plans of builds and deployments: what is refused before anything runs, what tools answer, how a failure reads."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from dpu.bench import f2_power
from dpu.errors import DpuError
from dpu.evidence import Provenance
from dpu.ir.arch import Arch, load_arch
from dpu.measurement import DeviceIdentity, read_measurements
from dpu.rtl import toolchain
from dpu.rtl.deploy import describe, f2, schemas, steps, xrt

TINY = load_arch("dpu_tiny")
AFI, AGFI = "afi-0123456789abcdef0", "agfi-0fedcba9876543210"
IMAGE = f2.Image("dpu_tiny", TINY.digest, "a.tar", "0" * 64, "us-east-1", "bucket", "dpu/logs", AFI, AGFI, "2026-12-01")
METRICS = (Path(__file__).parent / "data" / "describe_metrics.txt").read_text()
REAL = {"instance": "i-0123456789abcdef0", "afi": AGFI, "sdk_sha256": "0" * 64}


def test_schemas_have_sources_and_dates() -> None:
    for name, schema in schemas.schemas().items():
        assert schema.source and schema.date in ("", "2026-12-01"), name
        assert set(schema.required) <= set(schema.options), name


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "aws ec2 describe-fpga-images --fpga-image-ids afi-1",
            "error[E446]: aws ec2 describe-fpga-images: --fpga-image-ids is 'afi-1', expected afi-[0-9a-f]{17}\n"
            "  why: docs.aws.amazon.com/cli/latest/reference/ec2/describe-fpga-images.html, from memory\n"
            "  try: give other values",
        ),
        ("aws ec2 describe-fpga-images --afi x", "it has no option '--afi'"),
        ("aws ec2 create-fpga-image --name x", "--input-storage-location is missing"),
        ("aws s3 cp a.tar", "1 arguments, expected 2"),
        ("aws s3 mb bucket", "'bucket' is no s3://"),
        ("vivado -mode fast", "-mode is 'fast'"),
        ("sudo reboot", "error[E446]: sudo reboot: no such command is known"),
    ],
)
def test_what_the_documentation_does_not_know_never_runs(line: str, text: str) -> None:
    with pytest.raises(DpuError) as e:
        steps.Run(tuple(line.split()))
    assert text in str(e.value)


def test_a_build_takes_the_hardware_and_leaves_out_models() -> None:
    plan = f2.build_plan(TINY, Path("hdk"), Path("work"), "first")
    copied = plan[0]
    assert isinstance(copied, steps.Copy)
    names = {p.name for p in copied.files}
    assert {"cl_dpu.sv", "dpu_top.sv", "dpu_f2_hbm.sv"} <= names
    assert not any("sim" in p.relative_to(toolchain.FOLDER).parts for p in copied.files)
    assert "sh_ddr.sv" not in names  # AWS's is read by the HDK
    texts = {s.path.name: s.text for s in plan if isinstance(s, steps.Write)}
    assert set(texts["sources.txt"].split()) == names
    assert f"ArchDigest=64'h{TINY.digest}\n" in texts["generics.txt"] and "MemoryMib=4096\n" in texts["generics.txt"]
    assert texts["cl_id_defines.vh"] == "`define CL_SH_ID0 32'hF0D0_1D0F\n`define CL_SH_ID1 32'h0001_1D0F\n"
    last = plan[-1]
    assert (
        isinstance(last, steps.Run) and last.cwd is not None and last.cwd.parts[-3:] == ("cl_dpu", "build", "scripts")
    )
    assert last.shown().startswith("bash -c 'source ") and "--tag first" in last.shown()


def test_a_build_is_judged_by_what_it_leaves(tmp_path: Path) -> None:
    with pytest.raises(DpuError) as e:
        f2.checkpoint(tmp_path, "t")
    assert str(e.value).replace(str(tmp_path), "WORK") == (
        "error[E446]: WORK/cl_dpu/build/checkpoints/t.Developer_CL.tar: the build left no checkpoint\n"
        "  why: the HDK's build ends with code 0 even where Vivado fails\n"
        "  try: see WORK/cl_dpu/build/scripts/t.vivado.log"
    )
    folder = tmp_path / "cl_dpu" / "build" / "checkpoints"
    folder.mkdir(parents=True)
    tar = folder / "t.Developer_CL.tar"
    tar.touch()
    assert f2.checkpoint(tmp_path, "t") == tar
    (folder / "cl_dpu.t.post_route.VIOLATED.dcp").touch()
    with pytest.raises(DpuError) as e:
        f2.checkpoint(tmp_path, "t")
    assert str(e.value).replace(str(tmp_path), "WORK") == (
        "error[E446]: WORK/cl_dpu/build/checkpoints/cl_dpu.t.post_route.VIOLATED.dcp: the routed design misses its "
        "timing\n"
        "  why: such an image may compute wrong values, and no result of it would say so\n"
        "  try: see WORK/cl_dpu/build/reports/cl_dpu.t.post_route_timing.rpt; --allow-violated goes on with it"
    )
    assert f2.checkpoint(tmp_path, "t", violated=True) == tar


def test_an_image_is_recorded_and_read_again(tmp_path: Path) -> None:
    tar = tmp_path / "a.tar"
    tar.write_bytes(b"x")
    answer = json.dumps({"FpgaImageId": AFI, "FpgaImageGlobalId": AGFI})
    image = f2.created(TINY, tar, "bucket", "dpu", "us-east-1", answer)
    image.save(tmp_path / "image.json")
    assert f2.load_image(tmp_path / "image.json") == image and image.digest == TINY.digest
    with pytest.raises(DpuError, match=r"E446.*create-fpga-image: answered 'no'"):
        f2.created(TINY, tar, "bucket", "dpu", "us-east-1", "no")
    (tmp_path / "image.json").write_text("{}")
    with pytest.raises(DpuError, match=r"image.json: is no record of an F2 image"):
        f2.load_image(tmp_path / "image.json")


def answers(monkeypatch: pytest.MonkeyPatch, *states: object) -> None:
    """What AWS says of the AFI, look by look."""
    given: Iterator[object] = iter(states)

    def perform(plan: list[steps.Run], _: object) -> list[str]:
        assert [r.argv[2] for r in plan] == ["describe-fpga-images"]
        state = next(given)
        if isinstance(state, str) and state.startswith("{"):
            return [state]
        code, message = state if isinstance(state, tuple) else (state, "")
        found = {"FpgaImageGlobalId": AGFI, "State": {"Code": code, "Message": message}, "ShellVersion": "0x10212415"}
        return [json.dumps({"FpgaImages": [found]})]

    monkeypatch.setattr(f2, "perform", perform)


def test_waiting_ends_when_the_image_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, "pending", "pending", "available")
    slept: list[float] = []
    said: list[str] = []
    image = f2.wait(IMAGE, said.append, 60, sleep=slept.append)
    assert (image.state, image.shell, slept) == ("available", "0x10212415", [60, 60])
    assert said == [f"{AFI}: pending", f"{AFI}: pending", f"{AFI}: available"]


def test_waiting_ends_when_the_image_never_will_be(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, ("failed", "UNROUTED_NETS"))
    with pytest.raises(DpuError) as e:
        f2.wait(IMAGE, lambda _: None)
    assert str(e.value) == (
        f"error[E446]: {AFI}: is failed: UNROUTED_NETS\n  try: aws s3 cp --recursive s3://bucket/dpu/logs ."
    )
    answers(monkeypatch, *["pending"] * 9)
    times = iter(range(0, 1000, 100))
    with pytest.raises(DpuError, match="is still pending after 300 s"):
        f2.wait(IMAGE, lambda _: None, limit=300, sleep=lambda _: None, clock=lambda: next(times))
    answers(monkeypatch, '{"FpgaImages": []}')
    with pytest.raises(DpuError, match=f"is no state of {AFI}"):
        f2.wait(IMAGE, lambda _: None)


def test_programs_that_are_missing_are_named_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(steps.shutil, "which", lambda name: None if name == "aws" else f"/bin/{name}")
    done: list[str] = []
    with pytest.raises(DpuError) as e:
        steps.perform([steps.Write(tmp_path / "a", "x"), f2.describe_afi(IMAGE)], done.append)
    assert str(e.value) == (
        "error[E445]: aws: is not installed\n"
        "  why: this step runs it\n"
        "  try: install the AWS CLI, version 2, and configure it: 'aws configure'"
    )
    assert not (tmp_path / "a").exists()


def test_a_step_that_fails_says_what_it_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "aws").write_text("#!/bin/sh\necho no credentials\nexit 253\n")
    (tmp_path / "aws").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(DpuError) as e:
        steps.perform([f2.describe_afi(IMAGE)], lambda _: None)
    assert str(e.value) == (
        "error[E446]: aws ec2 describe-fpga-images --region: ended with code 253\n"
        "  why: no credentials\n"
        "  try: see what the tool printed; --dry-run shows the commands"
    )


def test_an_alveo_build_fits_its_card() -> None:
    plan = xrt.build_plan(TINY, "u50", Path("work"), Path("out/tiny.xclbin"), 2)
    assert plan[-1].shown().startswith("v++ --link --target hw --config ")
    texts = {s.path.name: s.text for s in plan if isinstance(s, steps.Write)}
    assert set(texts) == {"dpu.sv", "sources.txt", "kernel.xml", "link.cfg"}
    assert texts["sources.txt"].endswith("dpu_kernel.sv\ndpu.sv\n")
    with pytest.raises(DpuError) as e:
        xrt.build_plan(load_arch("dpu_f2"), "u50", Path("work"), Path("a.xclbin"), 2)
    assert str(e.value) == (
        "error[E422]: --card u50: has 8 GiB of HBM, arch 'dpu_f2' counts on 16\n"
        "  try: give an arch with dram.bytes of that size"
    )
    with pytest.raises(DpuError, match=r"E501.*--card: value is 'u200'"):
        xrt.build_plan(TINY, "u200", Path("work"), Path("a.xclbin"), 2)
    assert xrt.build_plan(Arch.model_validate(TINY.model_dump() | {"tiles": 2}), "u55c", Path("w"), Path("a.xclbin"), 1)


def test_a_recorded_description_is_read() -> None:
    """The text is AWS's own example: docs, "How to detect a shell timeout has occurred" (read 2026-12-01)."""
    card = describe.parse(METRICS)
    assert (card.slot, card.image, card.status, card.error) == (0, "agfi-0f0e045f919413242", "loaded", "ok")
    assert (card.shell, card.power_last, card.power_mean, card.power_max) == (0x04151701, 9, 9, 10)
    assert card.counters["DDR0.write-count"] == 0 and card.counters["pcim-write-count"] == 0
    assert len(card.counters) == 34 and not card.troubles
    hurt = METRICS.replace("dma-pcis-timeout-count=0", "dma-pcis-timeout-count=3").replace(
        "dma-pcis-timeout-addr=0x0", "dma-pcis-timeout-addr=0x1041"
    )
    assert describe.parse(hurt).troubles == {"dma-pcis-timeout-count": 3}
    bare = "\n".join(METRICS.splitlines()[:2])
    assert describe.parse(bare).power_last is None
    for text, what in (("", "no line of an image"), (METRICS.partition("Power")[0], "without 'Power consumption")):
        with pytest.raises(DpuError, match=what):
            describe.parse(text)


def texts(*watts: int, image: str = "agfi-0f0e045f919413242") -> Iterator[tuple[describe.Described, str]]:
    for w in watts:
        text = METRICS.replace("Last measured: 9", f"Last measured: {w}").replace("agfi-0f0e045f919413242", image)
        yield describe.parse(text), text


def record(looks: Iterator[tuple[describe.Described, str]], during: str = "", marks: dict[str, str] | None = None):
    seconds = [0.0]

    def sleep(s: float) -> None:
        seconds[0] += s
        time.sleep(0.05 if during else 0)  # for a command that really runs

    def identify(slot: int, image: str) -> DeviceIdentity:
        given = {**(REAL if marks is None else marks), "afi": image}
        return DeviceIdentity(target="f2", name="an F2 card", marks=given)

    return f2_power.record(0, 15, 5, during, lambda _: None, identify, lambda _: next(looks), lambda: seconds[0], sleep)


def test_power_is_recorded_with_its_samples(tmp_path: Path) -> None:
    measured, samples = record(texts(20, 30, 31, 35))
    assert [s.watts for s in samples] == [20, 30, 31, 35] and [s.seconds for s in samples] == [0, 5, 10, 15]
    assert measured.value == 29 and measured.unit == "W" and measured.conditions["rail"] == "Vccint"
    assert measured.quantity().provenance is Provenance.MEASURED
    f2_power.save(tmp_path / "power.json", measured, samples)
    assert read_measurements(tmp_path / "power.json") == {"vccint_power": measured}
    kept = json.loads((tmp_path / "power.json").read_text())["samples"]
    assert [describe.parse(s["text"]).power_last for s in kept] == [20, 30, 31, 35]


def test_samples_end_with_the_command_that_they_watch() -> None:
    _, samples = record(texts(*range(20, 420)), during="true")
    assert 1 <= len(samples) < 400
    with pytest.raises(DpuError, match="'false' ended with code 1"):
        record(texts(*range(20, 420)), during="false")


def test_what_is_no_measurement_is_refused() -> None:
    with pytest.raises(ValueError, match="is no instance of a f2 device"):
        record(texts(20, 30, 31, 35), marks={})
    changed = iter([*texts(20), *texts(30, image=AGFI)])
    with pytest.raises(DpuError, match=f"image agfi-0f0e045f919413242 became {AGFI}"):
        record(changed)
    empty = METRICS.replace("loaded            0", "cleared           1")
    with pytest.raises(DpuError, match="slot 0: has no image: cleared"):
        record(iter([(describe.parse(empty), empty)]))


def test_the_sdk_is_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DpuError, match=r"E445.*libfpga_mgmt.so: is not installed"):
        f2_power.library([str(tmp_path)])
    (tmp_path / "libfpga_mgmt.so.1").write_bytes(b"x")
    assert f2_power.library([str(tmp_path)]).name == "libfpga_mgmt.so.1"


def test_this_computer_is_no_f2_instance(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sdk = tmp_path / "libfpga_mgmt.so"
    sdk.write_bytes(b"x")
    monkeypatch.setattr(f2_power, "library", lambda: sdk)
    with pytest.raises(DpuError, match=r"E523.*slot 0: does not show which card it is"):
        f2_power.identity(0, AGFI)
