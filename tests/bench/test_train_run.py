"""Training of `tiny`: stopped and continued runs, plans, the scores, and what the pipeline folder loads as."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dpu.bench.train import card, loop
from dpu.bench.train.captions import ATTRIBUTES
from dpu.bench.train.evaluate import chance, score
from dpu.bench.train.judge import Classifier
from dpu.bench.train.loop import Run, Trained, learning_rate, train
from dpu.bench.train.model import UNET, VAE, Denoiser, build_vae, parameters
from dpu.bench.train.stages import Data, Sizes, train_vae
from dpu.errors import DpuError
from torch import nn

CPU = torch.device("cpu")


def small_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 4))


def fit(run: Run, **options: Any) -> tuple[dict[str, torch.Tensor], Trained]:
    """A small network learns to give back its input."""
    net = small_net()

    def losses(step: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
        x = torch.randn(32, 4, generator=generator)
        return {"loss": (net(x) - x).square().mean()}

    usual = {"peak": 1e-2, "batch": 32, "decay": 0.99, "weight_decay": 0.0, "seconds": 1e9}
    trained = train(run, "net", net, losses, **{**usual, **options})
    return net.state_dict(), trained


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def folder(tmp_path: Path, name: str) -> Path:
    (tmp_path / name).mkdir()
    return tmp_path / name


def test_a_run_that_was_stopped_takes_the_steps_of_one_that_was_not(tmp_path: Path) -> None:
    whole, trained = fit(Run(folder(tmp_path, "whole"), 3, CPU, steps={"net": 300}))
    assert trained.steps == 300
    assert trained.losses["loss"] < 0.05 < (small_net()(torch.eye(4)) - torch.eye(4)).square().mean().item()
    broken = Run(folder(tmp_path, "broken"), 3, CPU, steps={"net": 300})
    for stop in (7, 120):
        with pytest.raises(KeyboardInterrupt):
            fit(replace(broken, stop_after=stop))
    again, _ = fit(broken)
    assert equal(whole, again)
    finished, nothing = fit(broken)  # a finished stage is loaded
    assert equal(whole, finished)
    assert nothing.steps == 300
    early, cut = fit(replace(broken, steps={"net": 0}))  # no more steps: what the checkpoint has
    assert equal(whole, early)
    assert cut.steps == 300
    other, _ = fit(Run(folder(tmp_path, "other"), 4, CPU, steps={"net": 300}))
    assert not equal(whole, other)


def test_checkpoints_are_written_while_it_runs(tmp_path: Path) -> None:
    run = Run(tmp_path, 0, CPU, checkpoint_seconds=0.0, steps={"net": 3})
    fit(run)
    state = torch.load(run.checkpoint("net"), weights_only=True)
    assert state["step"] == state["total"] == 3
    assert not list((tmp_path / "checkpoints").glob(".*")), "a temporary file was left"


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    fit(Run(tmp_path, 0, CPU, steps={"net": 2}))
    with pytest.raises(DpuError) as refused:
        fit(Run(tmp_path, 1, CPU, steps={"net": 2}))
    assert str(refused.value).splitlines()[0] == (
        f"error[E501]: {tmp_path / 'checkpoints' / 'net.pt'}: is a checkpoint of seed 0 and batch 32"
    )


def test_the_plan_is_kept_in_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_SAFETY", 0.0)  # the plan is one step more, whatever the machine's speed
    _, trained = fit(Run(tmp_path, 0, CPU), seconds=1.0)
    assert trained.steps == loop._MEASURE_AFTER + loop._MEASURED + 1
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["planned"] for line in lines if "planned" in line] == [trained.steps]
    _, again = fit(Run(tmp_path, 0, CPU), seconds=1.0)
    assert again.steps == trained.steps


def test_without_a_compiler_training_goes_on_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_compile(function: Any) -> Any:
        def call(*_: Any) -> Any:
            raise RuntimeError("no C compiler")

        return call

    def losses(step: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
        return {"loss": call(torch.randn(32, 4, generator=generator))}

    monkeypatch.setattr(torch, "compile", broken_compile)
    net = small_net()
    run = Run(tmp_path, 0, CPU, steps={"net": 5}, compiled=True)
    call = loop.compile_or_not(run, lambda x: (net(x) - x).square().mean())
    trained = train(run, "net", net, losses, peak=1e-2, batch=32, decay=0.99, weight_decay=0.0, seconds=1e9)
    assert trained.steps == 5
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    warning = "failed with torch.compile, going on without it: RuntimeError: no C compiler"
    assert [line["warning"] for line in lines if "warning" in line] == [warning]
    (tmp_path / "checkpoints" / "net.pt").unlink()
    assert equal(net.state_dict(), fit(Run(tmp_path, 0, CPU, steps={"net": 5}))[0])


def test_the_learning_rate_rises_and_falls() -> None:
    rates = [learning_rate(1.0, step, 10_000) for step in range(10_000)]
    assert rates[0] == pytest.approx(1 / 400)
    assert max(rates) == rates[400] == 1.0
    assert rates[-1] == pytest.approx(0.01, abs=1e-4)
    # Before there is a plan it is what it would be with one.
    assert [learning_rate(1.0, step, None) for step in range(400)] == rates[:400]


def test_a_loss_that_is_not_finite_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(FloatingPointError, match="net: the losses are"):
        fit(Run(tmp_path, 0, CPU, steps={"net": 20}), peak=float("inf"))


def test_the_vae_goes_on_and_its_latents_are_white(tmp_path: Path) -> None:
    data, sizes = Data.load(CPU), Sizes(vae=2, latents=32)
    whole, _ = train_vae(Run(folder(tmp_path, "whole"), 0, CPU, steps={"vae": 2}), data, sizes, 1e9)
    broken = Run(folder(tmp_path, "broken"), 0, CPU, steps={"vae": 2})
    with pytest.raises(KeyboardInterrupt):
        train_vae(replace(broken, stop_after=1), data, sizes, 1e9)
    again, _ = train_vae(broken, data, sizes, 1e9)
    assert equal(whole.state_dict(), again.state_dict())
    # Measured on pictures of another draw than it was scaled with, hence not exactly 1.
    assert whole.config.scaling_factor == pytest.approx(1, rel=0.15)


def test_sizes_fit_the_budget() -> None:
    denoiser, vae, judge = Denoiser(), build_vae(), Classifier()
    assert 2 * parameters(denoiser.unet) < 15e6  # bytes in float16
    assert 2 * (parameters(denoiser) + parameters(vae) + parameters(judge)) < 24e6
    assert 2 * parameters(judge) < 2e6
    heads = zip(UNET["block_out_channels"], UNET["attention_head_dim"], strict=True)
    assert all(channels == 64 * n for channels, n in heads)
    assert len(VAE["block_out_channels"]) == 4


def test_the_score_counts_pictures_with_all_attributes_right() -> None:
    found = np.ones((8, 4), np.bool_)
    found[:2, 0] = False  # both pictures of the first prompt of four show another object
    result = score(found, 4)
    assert result.all_correct == 0.75
    assert result.attributes == {"object": 0.75, "colour": 1.0, "place": 1.0, "count": 1.0}
    # Four prompts, one of them wrong: a resample has k wrong ones with probability C(4, k) 3^(4-k) / 4^4, so 2.5 % lie
    # at or below 1/4 of the pictures (k = 3: 4.7 %, k = 4: 0.4 %), and 97.5 % at 1 (k = 0: 31.6 %).
    assert (result.low, result.high) == (0.25, 1.0)


def test_chance_is_that_of_another_prompts_picture() -> None:
    from dpu.bench.train.captions import evaluation_prompts

    assert chance(evaluation_prompts()) == pytest.approx(1 / 40)


def test_the_card_says_what_was_measured(tmp_path: Path) -> None:
    (tmp_path / "unet").mkdir()
    (tmp_path / "unet" / "model.safetensors").write_bytes(bytes(1_230_000))
    shares = dict.fromkeys(ATTRIBUTES, 0.9)
    one = {"n": 400, **shares, "all_correct": 0.8125, "low_95": 0.7, "high_95": 0.9}
    facts = {
        "seed": 5,
        "device": "a computer",
        "torch": "2",
        "type": "float16",
        "steps": 20,
        "guidance": 5.0,
        "seeds": 10,
        "combinations": {"training": 2640, "held_out": 240},
        "stages": {"vae": {"steps": 10, "samples": 1280, "seconds": 7.0, "losses": {"loss": 0.5}}},
        "unseen": one,
        "seen": one,
        "classifier_composed": one,
        "classifier_through_vae": one,
        "other_guidance": {"3.0": one},
        "prompts": [{"text": "a cat", "all_correct": 3}],
        "chance": 0.025,
        "vae_psnr_db": 30.0,
    }
    text = card.text(facts, tmp_path)
    assert "| **unseen combinations** | 90.0 % | 90.0 % | 90.0 % | 90.0 % | 81.2 % [70.0, 90.0] |" in text
    assert "| `unet/model.safetensors` | 1.23 |" in text
    assert "| vae | 10 | 1,280 | 7 | loss 0.5000 |" in text
    assert "- a cat: 3 of 10" in text
