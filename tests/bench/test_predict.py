"""`dpubench predict`: what is predicted again, how it is compared, and where the result goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dpu.bench.metrics.images import Pixels
from dpu.bench.quality import predict, predict_pipeline, score
from dpu.bench.quality.page import page
from dpu.bench.quality.pictures import read_pictures
from dpu.bench.quality.plan import program_path
from dpu.bench.quality.results import Accuracy, Predicted, Quality, Row, Value, merged
from dpu.bench.train.captions import evaluation_prompts
from dpu.errors import DpuError
from dpu.files import sha256

from tests.bench.quality_files import disturbed, fill, picture, workplace

PROMPTS, SEEDS = 6, 2


class _StandIn:
    """Predicts the reference's pictures with noise; at the third prompt it is stopped once."""

    def __init__(self, sigma: float) -> None:
        self.sigma, self.calls, self.stop = sigma, [], True

    def pictures(self, prompt: str, steps: int, seeds: Sequence[int], guidance: float) -> list[Pixels]:
        texts = [text for _, text in evaluation_prompts()]
        at = texts.index(prompt)
        if at == 2 and self.stop:
            self.stop = False
            raise KeyboardInterrupt
        self.calls.append((at, steps, tuple(seeds)))
        return [disturbed(picture(100 * at + s), self.sigma, 70 + s) for s in seeds]


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> _StandIn:
    found = _StandIn(6.0)
    monkeypatch.setattr(predict, "_opened", lambda *_: found)
    monkeypatch.setattr(score, "judged", lambda _m, pixels, _p: np.ones((len(pixels), 4), bool))
    return found


def _workplace(base: Path) -> tuple[predict.Request, predict.Plan]:
    where, work, plan = workplace(base)
    (work / "calibration.safetensors").write_text("statistics")
    for name, sigma in (("fp16", 0.0), ("w8a8", 6.3)):
        fill(work, plan, name, PROMPTS, SEEDS, sigma)
    return predict.Request(where, work, ("w8a8",), (20,), PROMPTS, SEEDS), plan


def test_what_is_predicted_is_not_predicted_again(tmp_path: Path, stand_in: _StandIn) -> None:
    request, plan = _workplace(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        predict.make_pictures(request)
    assert stand_in.calls == [(p, 20, (s,)) for p in range(2) for s in range(SEEDS)]  # on the CPU one at a time
    stand_in.calls.clear()
    seen: list[tuple[int, int]] = []
    predict.make_pictures(request, lambda done, total: seen.append((done, total)))
    assert [p for p, *_ in stand_in.calls] == [2, 2, 3, 3, 4, 4, 5, 5]
    assert seen[-1] == (8, 8)
    kept = read_pictures(
        predict.predicted_path(request.work, "w8a8", 20, 2), predict.key_of(plan, request.work, "w8a8")
    )
    assert sorted(kept.found) == [0, 1] and "predictor on cpu" in kept.found[0].made_on
    (todo,) = predict.batches(replace(request, prompts=1, seeds=5, device="cuda"), plan)
    stand_in.calls.clear()
    assert predict.make_batch(todo) == 3
    assert stand_in.calls == [(0, 20, (2, 3, 4))]  # on CUDA together


def test_predictions_of_another_calibration_are_refused(tmp_path: Path, stand_in: _StandIn) -> None:
    request, plan = _workplace(tmp_path)
    predict.make_pictures(replace(request, prompts=1))
    (request.work / "calibration.safetensors").write_text("other statistics")
    with pytest.raises(DpuError, match="the pictures were made from another program or model") as e:
        predict.batches(request, plan)
    assert e.value.code == "E522"
    (request.work / "calibration.safetensors").unlink()
    with pytest.raises(DpuError) as e:
        predict.batches(request, plan)
    assert e.value.text().splitlines() == [
        f"error[E106]: {request.work / 'calibration.safetensors'}: no such file",
        "  why: the predictor reads it",
        f"  try: dpubench quality MODEL --precisions w8a8 --work {request.work} makes it",
    ]


def test_difference_is_paired_by_prompt(tmp_path: Path, stand_in: _StandIn) -> None:
    request, plan = _workplace(tmp_path)
    stand_in.stop = False
    predict.make_pictures(request)
    (found,) = predict.compare(request, plan)
    p = found.found
    expected = 20 * np.log10(6.3 / 6.0)  # of two noises
    assert p.difference.value == pytest.approx(expected, abs=0.1)
    assert p.psnr.value - p.simulated.value == pytest.approx(p.difference.value, abs=1e-5)  # type: ignore[operator]
    assert p.beside_simulated.value < p.psnr.value - 2  # type: ignore[operator]  # both noises together
    assert (p.prompts, p.images, p.verdict) == (6, 12, "within 0.5 dB, the interval too")
    assert p.predictor_sha256 == predict_pipeline.digest()
    line = found.text.split()
    assert line[:3] == ["w8a8", "20", "12"] and found.text.endswith("within 0.5 dB, the interval too")


def _quality(program: str, model: str, *rows: Row) -> Quality:
    return Quality(
        command="dpubench quality m",
        model_sha256=model,
        classifier_sha256="c",
        arch="dpu_tiny",
        calibration="16",
        reference="fp16",
        arithmetic={"fp16": "diffusers"},
        guidance=5.0,
        versions={},
        programs={"w8a8": program},
        rows=rows,
    )


def _row(predicted: Predicted | None = None) -> Row:
    accuracy = Accuracy(attributes={"object": 1.0}, all=1, low=1, high=1)
    base = Row(
        precision="w8a8", steps=20, prompts=6, images=12, accuracy=accuracy, exceptions=0, cpu_seconds_an_image=1
    )
    psnr = Value(value=30.0)
    return base.model_copy(update={"predicted": predicted, "psnr": psnr, "psnr_quantiles": (1.0, 2.0, 3.0)})


def _prediction(difference: Value) -> Predicted:
    v = Value(value=30.0)
    return Predicted(
        prompts=6,
        images=12,
        psnr=v,
        simulated=v,
        difference=difference,
        beside_simulated=v,
        flip=v,
        cpu_seconds_an_image=2.0,
    )


@pytest.mark.parametrize(
    ("difference", "verdict"),
    [
        (Value(value=0.4, low=0.3, high=0.5), "within 0.5 dB, the interval too"),
        (Value(value=-0.4, low=-0.7, high=0.1), "within 0.5 dB, the interval is not"),
        (Value(value=0.1), "within 0.5 dB, no interval"),
        (Value(value=-0.6, low=-0.7, high=-0.1), "NOT within 0.5 dB"),
        (Value(value="infinite"), "NOT within 0.5 dB"),
    ],
)
def test_verdict(difference: Value, verdict: str) -> None:
    assert _prediction(difference).verdict == verdict


def test_result_carries_the_prediction(tmp_path: Path) -> None:
    request, plan = _workplace(tmp_path)
    out = tmp_path / "tiny.json"
    found = predict.Compared("w8a8", 20, _prediction(Value(value=0.25, low=0.2, high=0.3)))
    with pytest.raises(DpuError) as e:
        predict.add_to(out, plan, request.work, [found])
    assert e.value.text().splitlines() == [
        f"error[E106]: {out}: no such file",
        "  why: predictions go into its rows",
        f"  try: dpubench quality MODEL --work {request.work} -o {out} makes it",
    ]
    program = sha256(program_path(request.work, "w8a8"))
    out.write_text(_quality("another", plan.model_sha256, _row()).model_dump_json())
    with pytest.raises(DpuError) as e:
        predict.add_to(out, plan, request.work, [found])
    assert e.value.text().splitlines() == [
        f"error[E522]: {out}: has no row of w8a8 with 20 steps and this program",
        f"  try: run dpubench quality with --work {request.work} first",
    ]
    old = _quality(program, plan.model_sha256, _row())
    assert "Predicted" not in page(old, "tiny.json", [])
    out.write_text(old.model_dump_json())
    whole = predict.add_to(out, plan, request.work, [found])
    assert whole.rows[0].predicted == found.found
    assert Quality.model_validate_json(out.read_text()) == whole
    text = (tmp_path / "README.md").read_text()
    assert "| w8a8 | 20 | 6, 12 | 30 | 30 | 0.25 [0.2, 0.3] | 30 | within 0.5 dB, the interval too | 2 |" in text
    assert "- Fewer than 400 images, so rehearsals and no results: w8a8 (12)." in text
    assert merged(old, whole, out).rows[0].predicted == found.found  # the same program again
    changed = old.model_copy(update={"programs": {"w8a8": "new"}})
    assert merged(changed, whole, out).rows[0].predicted is None


def test_requests_are_checked(tmp_path: Path) -> None:
    for changes, text in (
        ({"precisions": ("fp16",)}, "'fp16' is not quantised"),
        ({"precisions": ("w8a8", "w8a8")}, "'w8a8' is there twice"),
        ({"prompts": 41}, "--prompts: 41 is not between 1 and 40"),
        ({"seeds": 0}, "--seeds: 0 is not between 1 and 1000"),
        ({"steps": (0,)}, "--steps: 0 is not between 1 and 1000"),
        ({"device": "tpu"}, "--device: there is no 'tpu'"),
    ):
        with pytest.raises(DpuError, match=text):
            replace(predict.Request(tmp_path, tmp_path, ("w8a8",)), **changes).check()  # type: ignore[arg-type]
