"""`dpubench quality`, up to the pictures: what belongs to a work folder, and what is made again."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from dpu.bench.metrics.images import Pixels, read_rgb
from dpu.bench.quality import measure as whole
from dpu.bench.quality import pictures
from dpu.bench.quality.pictures import batches, key_of, picture_path, read_pictures, run
from dpu.bench.quality.plan import captions_of_training, label, make_plan, parse_precision, program_path
from dpu.bench.quality.workers import each
from dpu.bench.train.captions import combination_of, evaluation_prompts, split
from dpu.codegen.driver import compile_folder
from dpu.errors import DpuError
from dpu.runtime.generate import make_image
from dpu.runtime.pipeline import Request

from tests.bench.quality_files import fill, model, picture, workplace


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int, int]]:
    """(precision, prompt, steps, seed) of every picture that a stand-in for all makers made."""
    calls: list[tuple[str, str, int, int]] = []

    def open_maker(model: str, work: str, precision: str, device: str, size: int, guidance: float) -> pictures.Maker:
        assert (device, size, guidance) == ("cpu", 128, 5.0)

        def make(prompt: str, steps: int, seed: int) -> tuple[Pixels, int]:
            if prompt == evaluation_prompts()[2][1]:
                raise KeyboardInterrupt
            calls.append((precision, prompt, steps, seed))
            return picture(seed), 3

        return make

    monkeypatch.setattr(pictures, "open_maker", open_maker)
    return calls


def test_what_is_there_is_not_made_again(tmp_path: Path, made: list[tuple[str, str, int, int]]) -> None:
    where, work, plan = workplace(tmp_path)
    texts = [text for _, text in evaluation_prompts()]
    todo = batches(where, plan, work, ["fp32", "w8a8"], [20], 2, 1)
    assert run(todo, 1) == [1, 1, 1, 1]
    assert made == [(p, t, 20, 0) for p in ("fp32", "w8a8") for t in texts[:2]]
    assert not batches(where, plan, work, ["fp32", "w8a8"], [20], 2, 1)
    made.clear()
    run(batches(where, plan, work, ["w8a8"], [20, 30], 1, 3), 1)  # more seeds, more steps: only what lacks
    assert made == [("w8a8", texts[0], n, s) for n, s in ((20, 1), (20, 2), (30, 0), (30, 1), (30, 2))]
    kept = read_pictures(picture_path(work, "w8a8", 20, 0), key_of(plan, work, "w8a8"))
    assert list(kept.found) == [0, 1, 2]
    assert all(np.array_equal(m.pixels, picture(s)) and m.exceptions == 3 for s, m in kept.found.items())
    made.clear()
    with pytest.raises(KeyboardInterrupt):  # at the third prompt
        run(batches(where, plan, work, ["w4a8"], [20], 3, 2), 1)
    assert len(made) == 4
    assert [b.prompt for b in batches(where, plan, work, ["w4a8"], [20], 3, 2)] == [2]


def test_a_batch_that_was_cut_goes_on_inside(tmp_path: Path, made: list[tuple[str, str, int, int]]) -> None:
    where, work, plan = workplace(tmp_path)
    (todo,) = batches(where, plan, work, ["w8a8"], [20], 1, 3)
    fill(work, plan, "w8a8", 1, 2, 0)  # another process made two meanwhile
    assert pictures.make_batch(todo) == 1
    assert [s for *_, s in made] == [2]


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_task_is_done_once(jobs: int) -> None:
    numbers = [1.0, 4.0, 9.0, 16.0, 25.0]
    assert list(each(sqrt, numbers, jobs)) == [1, 2, 3, 4, 5]
    assert sorted(each(sqrt, numbers, jobs, ordered=False)) == [1, 2, 3, 4, 5]
    assert list(each(sqrt, [], jobs)) == []


def test_pictures_of_another_program_are_refused(tmp_path: Path) -> None:
    where, work, plan = workplace(tmp_path)
    fill(work, plan, "w8a8", 1, 1, 0)
    path = picture_path(work, "w8a8", 20, 0)
    old = key_of(plan, work, "w8a8")
    (work / "programs" / "w8a8.dpu").write_text("another")
    new = key_of(plan, work, "w8a8")
    with pytest.raises(DpuError) as e:
        batches(where, plan, work, ["w8a8"], [20], 1, 1)
    assert e.value.text().splitlines() == [
        f"error[E522]: {path}: field 'key': value is {old[:12]}, allowed: {new[:12]}",
        "  why: the pictures were made from another program or model",
        "  try: delete the file, and its pictures are made again; or choose another --work",
    ]
    path.write_bytes(b"PK")
    with pytest.raises(DpuError, match="is no file of pictures") as e:
        batches(where, plan, work, ["w8a8"], [20], 1, 1)
    assert e.value.code == "E102"
    with pytest.raises(DpuError) as e:
        key_of(plan, work, "w8a16")
    assert e.value.code == "E106"


def test_a_folder_is_of_one_model_and_arch(tmp_path: Path) -> None:
    where, work, plan = workplace(tmp_path)
    assert make_plan(where, "dpu_tiny", work) == plan
    other = model(tmp_path / "other", "other weights")
    with pytest.raises(DpuError) as e:
        make_plan(other, "dpu_tiny", work)
    seen = plan.model_sha256[:12]
    wanted = make_plan(other, "dpu_tiny", tmp_path / "new").model_sha256[:12]
    assert e.value.text().splitlines() == [
        f"error[E522]: {work / 'plan.json'}: field 'model_sha256': value is '{seen}...', allowed: '{wanted}...'",
        "  why: the pictures in this folder are of another model, arch or calibration",
        "  try: choose another --work",
    ]
    with pytest.raises(DpuError, match="field 'arch': value is 'dpu_tiny', allowed: 'dpu_f2'"):
        make_plan(where, "dpu_f2", work)
    (work / "plan.json").write_text("{}")
    with pytest.raises(DpuError) as e:
        make_plan(where, "dpu_tiny", work)
    assert e.value.code == "E521"
    with pytest.raises(DpuError, match=r"has no model_index\.json"):
        make_plan(tmp_path, "dpu_tiny", work)


def test_precisions_by_name_file_and_gptq(tmp_path: Path) -> None:
    assert parse_precision("w4a8+gptq")[1] and label("w4a8+gptq") == "w4a8+gptq"
    file = tmp_path / "p.json"
    file.write_text('{"format": "dpu.policy/1", "name": "mine", "default": {"weights": 4}}')
    assert label(str(file)) == "mine" and label(f"{file}+gptq") == "mine+gptq"
    with pytest.raises(DpuError, match="policy 'w8a8' has no int4 weights"):
        parse_precision("w8a8+gptq")
    for names, text in ((("w8a8", "w8a8"), "'w8a8' is there twice"), (("w2a2",), "not available")):
        with pytest.raises(DpuError, match=text):
            whole.check(whole.Request(tmp_path, tmp_path, names))
    with pytest.raises(DpuError, match="--limit: 41 is not between 1 and 40"):
        whole.check(whole.Request(tmp_path, tmp_path, ("w8a8",), prompts=41))
    with pytest.raises(DpuError, match="--steps: 0 is not between 1 and 1000"):
        whole.check(whole.Request(tmp_path, tmp_path, ("w8a8",), steps=(20, 0)))


def test_calibration_sees_no_combination_of_the_evaluation() -> None:
    texts = captions_of_training()
    seen, held = (set(s) for s in split())
    found = {combination_of(t) for t in texts}
    assert len(texts) == len(found) == 16
    assert found <= seen and not found & held


def test_pictures_are_those_of_dpurun(tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "programs").mkdir()
    (tmp_path / "export").symlink_to(tiny_folder)
    program = program_path(tmp_path, "w8a8")
    compile_folder(tiny_folder, arch="dpu_tiny", size=(64, 64), out=program, uncalibrated=True)
    request = Request("a red fox", seed=3, steps=1, height=64, width=64)
    for precision, model_of, target in (("w8a8", program, "sim"), ("fp32", tiny_folder, "cpu")):
        make = pictures.open_maker("", str(tmp_path), precision, "cpu", 64, 5.0)
        pixels, _ = make("a red fox", 1, 3)
        out = tmp_path / f"{target}.png"
        make_image(model_of, target, request, out, timed=target != "sim")
        assert np.array_equal(pixels, read_rgb(out))
