"""A whole image on the stand-in, of a pipeline small enough for the fast tests: what `dpubench f2-image` records, and
what faults do to it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dpu.bench import f2_image
from dpu.bench.f2_fault_worker import image
from dpu.errors import DpuError
from dpu.ir.f2_regmap import COUNT_HZ
from dpu.measurement import read_measurements
from dpu.runtime.f2.stand_in import FAULTS
from dpu.runtime.generate import make_image
from dpu.runtime.pipeline import Request

from .small_pipeline import small_pipeline

pytestmark = pytest.mark.usefixtures("rtl_tools")

Run = Callable[[str], tuple[int, str, str]]


@pytest.fixture(scope="module")
def program(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_pipeline(tiny_folder, tmp_path_factory.mktemp("small") / "small.dpu")


# The record


def test_the_record_of_an_image(run: Run, program: Path, tmp_path: Path) -> None:
    out = tmp_path / "image.json"
    code, said, err = run(f"dpubench f2-image {program} --card stand-in --steps 2 -o {out}")
    assert code == 0, err
    assert "the image is the same as the simulator's, byte for byte" in said
    assert "small.dpu on dpu_tiny, 2 steps, AWS F2, slot 0, the RTL of the custom logic standing in (simulated)" in said
    found = json.loads(out.read_text())
    assert (found["provenance"], found["mended"], found["steps"]) == ("simulated", "", 2)
    assert found["counters"]["runs"] == 2
    assert found["counters"]["cycles"] == found["cycles"]["unet"] > 0

    measured = read_measurements(out)
    assert set(measured) == {"loading", "image", "unet", "unet overhead"}
    runs, overheads = measured["unet"].samples, measured["unet overhead"].samples
    assert len(runs) == 2 and min(overheads) > 0 and sum(runs) <= measured["image"].value
    np.testing.assert_allclose(sum(runs) - sum(overheads), found["cycles"]["unet"] / COUNT_HZ, rtol=1e-9)
    for m in measured.values():
        assert m.device.stand_in and m.quantity().provenance.label == "simulated"


def test_another_picture_than_the_simulators_ends_with_code_1(
    run: Run, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = f2_image.make_image

    def other(path: Path, target: str, request: Any, out: Path, **options: Any) -> None:
        real(path, target, request, out, **options)
        out.write_bytes(out.read_bytes() + b"x")

    monkeypatch.setattr(f2_image, "make_image", other)
    code, said, _ = run(f"dpubench f2-image {program} --card stand-in --steps 1")
    assert code == 1 and "the image is DIFFERENT from the simulator's, byte for byte" in said


# Several slots


@pytest.fixture(scope="module")
def pictures(program: Path, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The simulator's, of seeds 0 to 3."""
    out = tmp_path_factory.mktemp("pictures") / "sim.png"
    found = []
    for seed in range(4):
        make_image(program, "sim", Request("a red fox", seed=seed, steps=2), out, timed=False)
        found.append(out.read_bytes())
    assert len(set(found)) == 4
    return found


@pytest.mark.parametrize("faults", ["", "bus-dead:1@400/never"], ids=["two slots", "one of two fails"])
def test_images_spread_over_slots_are_the_simulators(
    run: Run, program: Path, pictures: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: str
) -> None:
    """Two models at once, each in a thread of its own."""
    monkeypatch.setenv(FAULTS, faults)
    line = f'dpurun {program} --target f2 --card stand-in:0,1 --images 4 --prompt "a red fox" --steps 2'
    code, _, err = run(f"{line} -o {tmp_path / 'fox.png'}")
    assert code == 0, err
    assert [(tmp_path / f"fox-{seed}.png").read_bytes() for seed in range(4)] == pictures
    assert ("slot 1 failed, the others made its images" in err and "E434" in err) == bool(faults)


# Faults


@pytest.fixture(scope="module")
def attempt(program: Path, rtl_tools: None) -> Iterator[Callable[[str], dict[str, Any]]]:
    before = os.environ.get(FAULTS)
    make = image(program)

    def sown(faults: str) -> dict[str, Any]:
        os.environ[FAULTS] = faults
        return make()

    yield sown
    os.environ.pop(FAULTS, None)
    if before is not None:
        os.environ[FAULTS] = before


@pytest.mark.parametrize(
    ("faults", "mended"),
    [("", ""), ("image-lost@400", "1 reloads"), ("corrupt-copy@300=5", "1 received"), ("short-write@1=64", "1 sent")],
)
def test_an_image_outlives_a_fault(attempt: Callable[[str], dict[str, Any]], faults: str, mended: str) -> None:
    found = attempt(faults)
    assert (found["outcome"], found["mended"]) == ("correct", mended)
    assert found["accesses"] > 400


def test_an_image_ends_with_the_fault_that_stays(attempt: Callable[[str], dict[str, Any]]) -> None:
    with pytest.raises(DpuError) as e:
        attempt("bus-dead@400/never")
    assert e.value.code == "E434" and "stop and start the instance" in e.value.hint
    assert attempt("")["outcome"] == "correct"  # and leaves nothing behind


def test_the_campaign_on_a_program(run: Run, program: Path, tmp_path: Path) -> None:
    out = tmp_path / "faults.json"
    code, said, err = run(f"dpubench f2-faults --program {program} --count 2 -o {out}")
    assert code == 0, err
    assert "an image of one step of small.dpu: 2 faults of 2 kinds, simulated" in said
    found = json.loads(out.read_text())
    assert [c["kind"] for c in found["cases"]] == ["dead bus", "corrupt register read"]
    assert f"--count 2 --program {program.name}" in found["command"]
    assert all(c["outcome"] == "correct" and c["mended"] for c in found["cases"])
    assert "`dpubench f2-faults" in out.with_suffix(".md").read_text()
