"""The record of a whole image: its stages, its figures, its small pair of images."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from dpu.bench import full_image
from dpu.bench.full_image import PAIR_BYTES, FullImage, Runner, Stage, measure, sources_digest
from dpu.codegen.driver import compile_folder
from dpu.errors import DpuError
from dpu.files import sha256
from PIL import Image

STEPS = 2


@pytest.fixture(scope="module")
def program(tiny_folder: Path, calibration: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny pipeline as a file."""
    out = tmp_path_factory.mktemp("image") / "tiny.dpu"
    compile_folder(tiny_folder, arch="dpu_tiny", calibration=calibration, size=(64, 64), out=out)
    return out


def made(model: Path, calibration: Path, program: Path, heard: list[str]) -> FullImage:
    folder = program.parent
    return measure(
        model,
        "dpu_tiny",
        "cpu",
        calibration,
        program,
        folder / "work",
        folder / "image.json",
        "a red fox in the snow",
        7,
        STEPS,
        source="tiny-seeded",
        size="64x64",
        commit="abc",
        command="dpubench image",
        say=heard.append,
    )


def test_an_image_is_recorded_and_recorded_again(tiny_folder: Path, calibration: Path, program: Path) -> None:
    heard: list[str] = []
    found = made(tiny_folder, calibration, program, heard)
    folder = program.parent
    assert [s.name for s in found.stages] == ["export", "calibrate", "compile", "image"]
    assert [s.kept for s in found.stages] == [True, True, True, False]  # the fixtures made them
    assert sum(line.startswith("image: step") for line in heard) == 3 * STEPS  # whole, forced, found
    assert [s.index for s in found.steps] == [0, 1]
    assert min(s.forward_db for s in found.steps) > 20  # as in tests/runtime/test_end_to_end.py
    assert all(set(s.seconds) == {"device_forced", "device_free", "reference"} for s in found.steps)
    assert found.program["sha256"] == sha256(program) and found.commit == "abc"
    assert found.request["width"] == found.request["height"] == 64
    assert found.numerics["fp16_overflow"] == found.numerics["nan"] == 0
    assert json.loads((folder / "image.json").read_text())["image_sha256"] == sha256(folder / "work" / "image.png")

    image, reference = (np.array(Image.open(folder / "work" / f"{n}.png")) for n in ("image", "reference"))
    error = np.mean((image.astype(float) - reference.astype(float)) ** 2)
    assert found.quality.whole_psnr_db == pytest.approx(10 * np.log10(255**2 / error), abs=1e-3)
    pair = Image.open(folder / "image.png")
    assert pair.size[0] == 2 * pair.size[1] and (folder / "image.png").stat().st_size <= PAIR_BYTES

    again = made(tiny_folder, calibration, program, heard)  # everything is taken
    assert again.steps == found.steps and again.quality == found.quality and again.numerics == found.numerics
    assert again.image_sha256 == found.image_sha256
    assert again.stages[-1].processes == 2


def test_a_stage_that_fails_says_why(tmp_path: Path) -> None:
    runner = Runner(tmp_path / "work", lambda _: None)
    with pytest.raises(DpuError) as e:
        runner.dpuc("export", ["export", "no-such-source", "-o", tmp_path / "model"], tmp_path / "model")
    assert e.value.what == "exit code 2"
    assert "no-such-source: no such pipeline" in e.value.why
    assert not runner.stages


def test_a_stage_runs_once(tmp_path: Path) -> None:
    runner = Runner(tmp_path, lambda _: None)
    out = tmp_path / "list.txt"
    out.write_text("")
    command = ["passes"]
    runner.record(Stage(name="compile", command="dpuc other", wall_seconds=1.0))
    runner.dpuc("compile", command, out)  # other arguments than before: it runs
    first = Stage(**runner.stages["compile"])
    assert first.command == "dpuc passes" and not first.kept and (first.peak_rss_bytes or 0) > 1 << 20
    Runner(tmp_path, lambda _: None).dpuc("compile", command, out)
    assert Stage(**json.loads((tmp_path / "stages.json").read_text())["compile"]) == first


def test_a_pair_of_noise_becomes_small(tmp_path: Path) -> None:
    for name in ("a", "b"):
        noise = np.random.default_rng(0).integers(0, 256, (512, 512, 3), np.uint8)
        Image.fromarray(noise).save(tmp_path / f"{name}.png")
    full_image._pair(tmp_path / "a.png", tmp_path / "b.png", tmp_path / "pair.png")
    assert (tmp_path / "pair.png").stat().st_size <= PAIR_BYTES
    assert Image.open(tmp_path / "pair.png").size[0] >= 2 * 128


def test_the_sources_have_a_digest() -> None:
    assert sources_digest() == sources_digest() and len(sources_digest()) == 64
