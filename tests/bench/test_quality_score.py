"""`dpubench quality`, from pictures on: scores of hand-made pictures, the result file, the frontier, the pages."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from dpu.bench.metrics import efficientnet_lite0
from dpu.bench.metrics.bootstrap import Estimate, mean
from dpu.bench.metrics.images import Pixels
from dpu.bench.metrics.kernel import paired_kernel_distance
from dpu.bench.quality import score, speed
from dpu.bench.quality.draw import front, frontier_png
from dpu.bench.quality.gallery import AMPLIFIED, Shown, choose, difference, gallery_html
from dpu.bench.quality.kept import read_result
from dpu.bench.quality.page import page
from dpu.bench.quality.pictures import key_of
from dpu.bench.quality.results import (
    Accuracy,
    Cost,
    Quality,
    Row,
    Value,
    better_than_uniform,
    merged,
    verdicts,
)
from dpu.bench.quality.score import Scored, kernel_distance, pairs, row_of, score_pair, score_pairs
from dpu.errors import DpuError
from dpu.passes.policy import Policy
from dpu.runtime.sqnr import psnr
from dpu.simulator.report import ProgramReport

from tests.bench.quality_files import disturbed, fill, picture, workplace

PROMPTS, SEEDS = 6, 2


@pytest.fixture
def wrong_if_noisy(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A judge in place of the classifier: the colour is wrong in noisy pictures of prompts 0 and 1; its calls."""
    calls: list[int] = []

    def judged(model: Path, pixels: Pixels, prompt: int) -> np.ndarray:
        calls.append(prompt)
        found = np.ones((len(pixels), 4), bool)
        for i, p in enumerate(pixels):
            found[i, 1] = prompt > 1 or np.array_equal(p, picture(100 * prompt + i))
        return found

    monkeypatch.setattr(score, "judged", judged)
    return calls


def test_scores_of_hand_made_pictures(tmp_path: Path, wrong_if_noisy: list[int]) -> None:
    where, work, plan = workplace(tmp_path)
    for name, sigma in (("fp16", 0.0), ("fp32", 0.0), ("w8a8", 6.0)):
        fill(work, plan, name, PROMPTS, SEEDS, sigma, 2.5)
    keys = {n: key_of(plan, work, n) for n in ("fp16", "fp32", "w8a8")}
    found = {n: score_pairs(pairs(where, work, n, "fp16", 20, PROMPTS, SEEDS, keys), 1) for n in keys}
    base = row_of("fp16", 20, found["fp16"], None)
    same = row_of("fp32", 20, found["fp32"], found["fp16"])
    noisy = row_of("w8a8", 20, found["w8a8"], found["fp16"])
    assert base.accuracy.all == 1 and base.psnr is None
    assert same.psnr == Value(value="infinite") and same.equal_images == PROMPTS * SEEDS
    assert same.feature_distance and same.feature_distance.value == 0
    assert same.kernel_distance and abs(float(same.kernel_distance.value)) < 1e-9
    assert noisy.accuracy.attributes == {"object": 1.0, "colour": round(4 / 6, 6), "place": 1.0, "count": 1.0}
    assert noisy.accuracy.all == round(4 / 6, 6) and noisy.accuracy.low < 4 / 6 < noisy.accuracy.high
    assert noisy.accuracy_change and noisy.accuracy_change.value == pytest.approx(-2 / 6)
    assert (noisy.images, noisy.exceptions, noisy.cpu_seconds_an_image) == (12, 2 * sum(range(PROMPTS)), 2.5)
    assert noisy.made_on == ("a test",)
    # The mean and its interval are over prompts, each the mean of its pictures.
    each = [
        np.mean([psnr(picture(100 * p + s), disturbed(picture(100 * p + s), 6.0, 7 + s)) for s in range(SEEDS)])
        for p in range(PROMPTS)
    ]
    assert noisy.psnr == Value.of(mean(each))
    assert noisy.psnr and isinstance(noisy.psnr.low, float)
    # Scores are kept by the pictures' content.
    calls = len(wrong_if_noisy)
    task = pairs(where, work, "w8a8", "fp16", 20, 1, SEEDS, keys)[0]
    again = score_pair(task)
    assert len(wrong_if_noisy) == calls and np.array_equal(again.paired["flip"], found["w8a8"][0].paired["flip"])
    fill(work, plan, "w8a8", 1, SEEDS, 7.0)
    assert score_pair(task).paired["psnr"][0] < again.paired["psnr"][0]
    with pytest.raises(DpuError, match="has no picture of seed 2"):
        score_pair(task._replace(seeds=(0, 1, 2)))


def test_the_classifier_of_the_model_judges(tmp_path: Path) -> None:
    where, _, _ = workplace(tmp_path)
    found = score.judged(where, np.stack([picture(1), picture(2)]), 0)
    assert found.shape == (2, 4) and found.dtype == bool


def test_the_kernel_distance_of_one_picture_a_prompt_is_that_of_the_metrics() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(0, 1, (6, 5)), rng.normal(0.5, 1, (6, 5))

    def one(rows: np.ndarray, each: int) -> list[Scored]:
        split = rows.reshape(-1, each, rows.shape[1])
        return [Scored({}, np.ones((each, 4), bool), s, np.ones(each), np.zeros(each, np.int64)) for s in split]

    assert kernel_distance(one(x, 1), one(y, 1)) == paired_kernel_distance(x, y)
    assert kernel_distance(one(x, 2), one(x, 2)).value == pytest.approx(0, abs=1e-12)
    assert kernel_distance(one(x, 2), one(y, 2)).low is None  # three prompts
    assert np.isnan(kernel_distance(one(x, 6), one(y, 6)).value)


def row(precision: str, db: float | None, change: Value | None = None, images: int = 400) -> Row:
    accuracy = Accuracy(attributes={"object": 1.0}, all=0.99, low=0.98, high=1.0)
    made = Row(precision=precision, steps=20, prompts=40, images=images, accuracy=accuracy, exceptions=0,
               cpu_seconds_an_image=1.0)  # fmt: skip
    if db is None:
        return made
    one = Value(value=0.5)
    beside = dict.fromkeys(("ssim", "ms_ssim", "flip", "feature_distance", "kernel_distance"), one)
    psnr_value = Value(value=db, low=db - 1, high=db + 1)
    return made.model_copy(update=beside | {"psnr": psnr_value, "accuracy_change": change or Value(value=0.0)})


def cost(precision: str, model: str, seconds: float) -> Cost:
    return Cost(precision=precision, model=model, arch="dpu_tiny" if model == "tiny" else "dpu_f2", steps=20,
                seconds=seconds, dram_bytes=10**9, joules=seconds, joules_are="at the wall",
                usd_a_thousand=None if model == "tiny" else seconds, provenance="simulated", source="test")  # fmt: skip


def quality(rows: list[Row], costs: list[Cost] | None = None, **more: object) -> Quality:
    fields: dict[str, object] = {
        "command": "dpubench quality", "model_sha256": "a" * 64, "classifier_sha256": "b" * 64, "arch": "dpu_tiny",
        "calibration": "16 captions", "reference": "fp16", "arithmetic": {"fp16": "halves"}, "guidance": 5.0,
        "versions": {}, "programs": {r.precision: "1" for r in rows if r.psnr},
    }  # fmt: skip
    return Quality.model_validate(fields | {"rows": tuple(rows), "costs": tuple(costs or ())} | more)


def test_results_are_merged_and_those_of_another_model_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    assert read_result(path, Quality) is None
    old = quality([row("fp16", None), row("w8a8", 30.0), row("w4a8", 25.0)])
    path.write_text(old.model_dump_json())
    assert read_result(path, Quality) == old
    new = quality([row("fp16", None), row("w8a8", 31.0)])
    found = merged(new, read_result(path, Quality), path)
    assert [(r.precision, r.psnr and r.psnr.value) for r in found.rows] == [
        ("fp16", None),
        ("w8a8", 31.0),
        ("w4a8", 25.0),
    ]
    assert found.command == "dpubench quality"  # said once
    few = quality([row("w8a8", 32.0, images=80), row("w8a16", 44.0, images=80)], command="dpubench quality --seeds 2")
    found = merged(few, old, path)
    assert [(r.precision, r.images, r.psnr and r.psnr.value) for r in found.rows] == [
        ("w8a8", 400, 30.0),  # more images stay
        ("w8a16", 80, 44.0),
        ("fp16", 400, None),
        ("w4a8", 400, 25.0),
    ]
    assert found.command == "dpubench quality; dpubench quality --seeds 2"
    changed = merged(quality([row("w8a8", 31.0)], programs={"w8a8": "1", "w4a8": "2"}), old, path)
    assert "w4a8" not in [r.precision for r in changed.rows]  # another program by now
    with pytest.raises(DpuError) as e:
        merged(quality([], model_sha256="c" * 64), old, path)
    assert e.value.text().splitlines() == [
        f"error[E522]: {path}: field 'model_sha256': value is '{'a' * 40}', allowed: '{'c' * 40}'",
        "  try: choose another output file",
    ]
    path.write_text("{}")
    with pytest.raises(DpuError, match="is no result of this version"):
        read_result(path, Quality)


NO = "the interval is not, or there is none"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            Value(value=-0.0125, low=-0.0175, high=0.0),
            "-1.25 [-1.75, 0] {} is within 2 points; so is the whole interval",
        ),
        (Value(value=-0.0125, low=-0.03, high=0.0), f"-1.25 [-3, 0] {{}} is within 2 points; {NO}"),
        (Value(value=-0.021), f"-2.1 {{}} is NOT within 2 points; {NO}"),
    ],
)
def test_the_verdict_on_w8a8(change: Value, text: str) -> None:
    rows = [row("fp16", None), row("w8a8", 30.0, change), row("w4a8", 25.0, Value(value=-0.5))]
    said = text.format("points from fp16's:")
    assert verdicts(quality(rows)) == [f"w8a8, 20 steps, 400 images: caption accuracy changes by {said}"]


def test_the_frontier_and_the_pages() -> None:
    assert front([(1, 30), (2, 35), (2, 34), (3, 35), (0.5, 20), (1, 30)]) == [0, 1, 4, 5]
    rows = [row("fp16", None), row("w8a8", 30.0), row("w4a8", 25.0, images=2)]
    costs = [cost(n, m, s) for n, s in (("w8a8", 2.0), ("w4a8", 1.5)) for m in ("tiny", "sdxl")]
    q = quality(rows, costs)
    assert frontier_png(q, 20).startswith(b"\x89PNG")
    text = page(q, "r.json", ["r-20-steps.png"])
    assert "| w8a8 | 20 | 400 | 99.0% [98.0%, 100.0%] | 100.0 | 30 [29, 31] |" in text
    assert "**1 of 3 rows have fewer than 400 images and are rehearsals, no results: w4a8 (20 steps, 2).**" in text
    for published in ("26.4", "22.0", "20.6", "Not ours and not of our model"):
        assert published in text
    base, noisy = picture(1), disturbed(picture(1), 5, 1)
    shown = [Shown("a <cat>", 3, {"fp16": base, "w8a8": noisy}, {"fp16": True, "w8a8": False})]
    html = gallery_html(q, shown, 20)
    assert html.count('src="data:image/png;base64,') == 3 and "http" not in html
    assert "a &lt;cat&gt;" in html and f"{psnr(base, noisy):.1f} dB" in html and "caption wrong" in html
    step = np.full((1, 1, 3), 10, np.uint8), np.full((1, 1, 3), 7, np.uint8)
    assert (difference(*step) == 3 * AMPLIFIED).all() and (difference(step[1], step[0]) == 3 * AMPLIFIED).all()


def test_the_gallery_shows_the_worst_and_others() -> None:
    worst = [(20.0, 5, 1), (21.0, 5, 0), (22.0, 3, 0), (40.0, 0, 0), (41.0, 1, 0), (42.0, 2, 0), (43.0, 4, 0)]
    assert choose(worst, 6, 4) == [(5, 1), (3, 0), (0, 0), (2, 0)]
    assert choose([(20.0, 0, 1)], 1, 4) == [(0, 1)]


def test_an_estimate_without_interval_is_kept_as_it_is() -> None:
    assert Value.of(Estimate(float("nan"))) == Value(value="undefined")
    assert Value.of(Estimate(float("inf"))).text() == "infinite"
    assert Value.of(Estimate(1.23456789, 1.0, 2.0)).text() == "1.235 [1, 2]"
    assert efficientnet_lite0.NETWORK == "EfficientNet-Lite0"


def test_an_image_runs_some_entries_in_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"seconds": 0.5, "dram_bytes": 100, "joules": 0.25}
    timed = {"arch": "dpu_tiny", "node": 45, "entries": {"unet": one, "time": one, "context": one, "vae_decoder": one}}
    monkeypatch.setattr(speed, "_timed", lambda out, made_from, time: timed | {"arch": made_from[0]})
    _, work, plan = workplace(tmp_path, ("w4a8+gptq",))
    found = speed.tiny(work, "w4a8+gptq", 30)
    assert (found.precision, found.seconds, found.dram_bytes, found.joules) == ("w4a8+gptq", 31.0, 6200, 15.5)
    other = speed.elsewhere(work, plan, "w4a8+gptq", 30)
    assert (found.arch, other.arch, other.seconds) == ("timing", "elsewhere", 31.0)


def test_a_policy_is_timed_on_another_arch_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, work, plan = workplace(tmp_path, ("w8a8",))
    asked = []

    def timed(export: Path, policy: Policy, arch: str, size: int) -> ProgramReport:
        asked.append((export, policy.name, arch, size))
        energy = SimpleNamespace(node_nm=45, total=SimpleNamespace(value=0.5))
        entry = SimpleNamespace(entry="unet", seconds=0.25, bytes_read=3, bytes_written=4, energy=energy)
        return cast(ProgramReport, SimpleNamespace(arch=arch, entries=[entry]))

    monkeypatch.setattr(speed, "time_policy", timed)
    first = speed.elsewhere(work, plan, "w8a8", 20)
    assert (first.arch, first.seconds, first.dram_bytes, first.provenance) == ("dpu_f2", 5.0, 140, "simulated")
    assert speed.elsewhere(work, plan, "w8a8", 20) == first
    assert asked == [(work / "export", "w8a8", "dpu_f2", 128)]


def test_gains_are_paired_by_prompt_and_hold_only_beside_the_same_pictures(tmp_path: Path) -> None:
    def scored(*prompts: list[float]) -> list[Scored]:
        empty = np.zeros((0, 4), bool), np.zeros((0, 1)), np.zeros(0), np.zeros(0, np.int64)
        return [Scored({"psnr": np.array(p)}, *empty) for p in prompts]

    base = scored([30.0, 32.0], [40.0, 40.0], [20.0, 20.0], [25.0, 25.0], [35.0, 35.0])
    found = scored([31.0, 33.0], [42.0, 42.0], [21.0, 21.0], [25.5, 25.5], [36.0, 36.0])
    assert score.gain(found, base) == Value.of(mean([1.0, 2.0, 1.0, 0.5, 1.0]))
    equal = scored([np.inf])
    assert score.gain(equal, equal).value == "undefined"
    kept = row("mine", 31.0).model_copy(update={"psnr_gain": Value(value=1.0)})
    old = quality([row("fp16", None), row("w8a8", 30.0), kept])
    path = tmp_path / "r.json"
    assert merged(quality([row("w8a8", 30.0)]), old, path).rows[-1].psnr_gain == kept.psnr_gain
    assert merged(quality([row("w8a8", 30.5)]), old, path).rows[-1].psnr_gain is None


def test_whether_a_precision_beats_uniform_w8a8() -> None:
    sure, unsure = Value(value=1.0, low=0.5, high=1.5), Value(value=1.0, low=-0.5, high=2.5)
    gains = {"found": sure, "dear": sure, "unsure": unsure, "few": Value(value=1.0)}
    rows = [row("w8a8", 30.0), *(row(n, 31.0).model_copy(update={"psnr_gain": g}) for n, g in gains.items())]
    seconds = {"w8a8": 2.0, "found": 1.98, "dear": 2.1, "unsure": 1.0, "few": 1.0}
    f2 = [cost(n, "tiny", s).model_copy(update={"arch": "dpu_f2"}) for n, s in seconds.items()]
    costs = [*(cost(n, "tiny", 2.0 + (n == "found")) for n in ("w8a8", "found")), *f2, cost("found", "sdxl", 1.0)]
    q = quality(rows, costs)
    assert better_than_uniform(q) == [
        "better than uniform w8a8 in no more time on dpu_tiny (simulated), 20 steps: NONE of found",
        "better than uniform w8a8 in no more time on dpu_f2 (simulated), 20 steps: found does, by 1 [0.5, 1.5] dB in "
        "1.00% less time",
    ]
    assert better_than_uniform(quality(rows)) == [] and "Beside uniform" not in page(quality(rows), "r.json", [])
    text = page(q, "r.json", [])
    assert "| found | 20 | 400 | 1 [0.5, 1.5] | dpu_tiny | +50.00% | +0.00% |" in text
    assert "| dear | 20 | 400 | 1 [0.5, 1.5] | dpu_f2 | +5.00% | +0.00% |" in text
