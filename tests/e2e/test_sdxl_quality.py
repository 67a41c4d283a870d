"""`dpubench sdxl-quality` from a seeded folder of SDXL's architecture to a row: killed, resumed, called a rehearsal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from dpu.bench.metrics import inception
from dpu.bench.metrics.clip_score import load as load_clip
from dpu.bench.metrics.images import read_rgb
from dpu.bench.metrics.pixels import ssim
from dpu.bench.quality import sdxl, sdxl_pictures
from dpu.bench.quality.sdxl_experiment import MLPERF_NEGATIVE, captions, prompts
from dpu.bench.quality.sdxl_plan import Progress, Request
from dpu.bench.quality.sdxl_results import REHEARSAL
from dpu.errors import DpuError
from dpu.files import sha256
from dpu.runtime.cli.common import progress
from dpu.runtime.generate import make_image
from dpu.runtime.pipeline import Request as Image
from dpu.runtime.sqnr import psnr

from tests.bench.metrics_inception import hashed_weights
from tests.bench.sdxl_files import small_clip

STEPS = 3


class Killed(BaseException):
    """Stands for a signal."""


def request(model: Path, work: Path, precisions: tuple[str, ...] = ("w8a8",), **more: object) -> Request:
    asked = {"steps": STEPS, "arch": "dpu_tiny", "size": 64, "calibration_prompts": 1, "calibration_steps": 2}
    return Request(model, work, precisions, prompts(1), costs=False, **asked, **more)  # type: ignore[arg-type]


def run(request: Request, output: Path, heard: list[str]) -> sdxl.SdxlQuality:
    given, _ = sdxl.begin(request, output)
    found, shown = sdxl.measure(request, given, "dpubench sdxl-quality", heard.append, progress)
    return sdxl.write(found, shown, output, request.work / "gallery.html")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of one work folder: its program is compiled once."""
    return tmp_path_factory.mktemp("sdxl")


def test_killed_at_a_step_and_resumed(tiny_folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, output = request(tiny_folder, place / "work"), place / "sdxl-rehearsal.json"
    behind = sdxl_pictures._behind

    def killing(bar: Progress, before: int, total: int) -> object:
        def heard(steps: int) -> None:
            behind(bar, before, total)(steps)
            if steps == 2:
                raise Killed

        return heard

    with monkeypatch.context() as m:
        m.setattr(sdxl_pictures, "_behind", killing)
        with pytest.raises(Killed):
            run(asked, output, [])
    pictures = place / "work" / "pictures" / "prompts"
    kept = place / "work" / "steps" / "prompts" / "w8a8" / str(STEPS) / "0000"
    assert (pictures / "fp16" / str(STEPS) / "0000.png").is_file() and not (pictures / "w8a8").exists()
    assert sorted(f.name for f in kept.glob("*unet*")) == [f"found-unet-00{i}.safetensors" for i in (0, 1)]
    times = {f: f.stat().st_mtime_ns for f in (place / "work").rglob("*.dpu")}
    assert len(times) == 1 and not output.exists()

    heard: list[str] = []
    found = run(asked, output, heard)
    assert not kept.exists() and {f: f.stat().st_mtime_ns for f in times} == times
    assert not [line for line in heard if line.startswith(("calibrating", "compiling", "fp16: "))]
    assert "w8a8: 1 pictures to make on cpu" in heard

    # The same bytes as dpurun makes of the same program, and the metrics of the two files.
    picture = pictures / "w8a8" / str(STEPS) / "0000.png"
    whole = place / "whole.png"
    program = next(iter(times))
    make_image(program, "sim", Image(asked.experiment.asked[0].prompt, None, 0, STEPS), whole, timed=False)
    a, b = read_rgb(pictures / "fp16" / str(STEPS) / "0000.png"), read_rgb(picture)
    assert np.array_equal(b, read_rgb(whole))
    assert found.what == REHEARSAL and found.model == "seeded weights"
    reference, row = found.rows
    assert all(r.what == REHEARSAL and r.model == "seeded weights" and len(r.why) >= 4 for r in found.rows)
    assert (reference.precision, reference.scores, reference.program_sha256) == ("fp16", (), "")
    scores = {s.name: s.value for s in row.scores}
    assert scores["PSNR"] == pytest.approx(psnr(a, b)) and scores["SSIM"] == pytest.approx(ssim(a, b))
    assert row.program_sha256 == sha256(program) and row.exceptions == 0 and row.prompts == 1
    assert row.images_an_hour == pytest.approx(3600 / row.seconds_an_image, rel=1e-3)
    assert row.layers and sum(row.layers.values()) > 50
    assert [s.name for s in found.stages] == ["calibration", "compile w8a8"]
    assert json.loads(output.read_text())["what"] == REHEARSAL
    assert (place / "sdxl-rehearsal.md").read_text().startswith("# Rehearsal, not SDXL's quality\n")
    assert (place / "work" / "gallery.html").read_text().count("<img") == 3

    again = run(asked, output, heard)  # nothing is made again
    assert again.rows == found.rows
    content = program.read_bytes()
    program.write_bytes(content[:-1])  # another program
    try:
        with pytest.raises(DpuError, match="made from another program, model, prompt or number of steps"):
            sdxl.begin(asked, output)
    finally:
        program.write_bytes(content)


def test_captions_are_scored_with_inception_and_clip(tiny_folder: Path, place: Path, tmp_path: Path) -> None:
    """With hashed Inception weights and a small CLIP: which scores there are, none of them in MLPerf's window."""
    weights, statistics, file = tmp_path / "inception.pth", tmp_path / "val.npz", tmp_path / "captions.txt"
    torch.save(hashed_weights({k: v.shape for k, v in inception.Inception().state_dict().items()}), weights)
    np.savez(statistics, mu=np.zeros(2048), sigma=np.eye(2048))
    file.write_text("a red fox\na house by the sea\n")
    clip = small_clip(tmp_path / "clip")
    given = {"inception": weights, "statistics": statistics, "clip": clip}
    asked = replace(request(tiny_folder, place / "work", **given), experiment=captions(file, 0), steps=2)
    found = run(asked, tmp_path / "captions-rehearsal.json", [])
    reference, row = found.rows
    assert [s.name for s in reference.scores] == ["CLIP score of reference", "FID of reference against statistics"]
    names = [s.name for s in row.scores]
    assert "CLIP score of candidate" in names and "FID of candidate against statistics" in names
    assert "FID of candidate against reference" in names and not {s.name for s in reference.scores} & set(names)
    for r in found.rows:
        assert r.mlperf == (
            "not comparable with MLPerf's window: 2 images, MLPerf scores 5,000; dataset is 'captions of"
            " captions.txt at 2 steps', MLPerf's is 'coco-2014-val'"
        )
        assert "it has 2 of the 5,000 captions" in r.why
    # The CLIP score of the row is that of the picture and its caption, and a guided picture knows the negative prompt.
    path = place / "work" / "pictures" / "captions" / "w8a8" / "2" / "0001.png"
    judge, paths = load_clip(clip), [path.with_name("0000.png"), path]
    each = [judge.score(read_rgb(p), a.prompt) for p, a in zip(paths, asked.experiment.asked, strict=True)]
    clips = next(s.value for s in row.scores if s.name == "CLIP score of candidate")
    assert clips == pytest.approx(np.mean(each), abs=1e-6)
    program, whole = place / "work" / "programs" / "w8a8.dpu", tmp_path / "whole.png"
    make_image(program, "sim", Image("a house by the sea", MLPERF_NEGATIVE, 0, 2, 8.0), whole, timed=False)
    assert np.array_equal(read_rgb(path), read_rgb(whole))
