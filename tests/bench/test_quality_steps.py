"""SQNR and cosine of the noise prediction, step by step: means by hand, files of the work folder, the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dpu.bench.quality import page, steps
from dpu.bench.quality.results import Sqnr

ONE = steps.Found([20.0, 30.0], [20.0, 10.0], [0.99, 0.999], [0.99, 0.9])
TWO = steps.Found([22.0, 31.0], [21.0, 12.0], [0.97, 0.995], [0.98, 0.8])


def test_means_over_prompts_by_hand() -> None:
    assert steps.summary("w8a8", 2, [ONE, TWO]) == Sqnr(
        precision="w8a8",
        steps=2,
        prompts=2,
        one_forward=(21.0, 30.5),
        free_running=(20.5, 11.0),
        one_forward_cosine=(0.98, 0.997),
        free_running_cosine=(0.985, 0.85),
    )


def test_a_kept_file_is_taken_if_it_is_of_the_same_program_and_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([ONE, TWO, ONE])
    monkeypatch.setattr(steps, "_compared", lambda task: next(answers))
    task = steps.Task(str(tmp_path), "w8a8", 2, 0, "key", "cpu", 128, 5.0)
    assert steps.step_errors(task) == ONE
    assert steps.step_errors(task) == ONE  # from the file
    assert steps.step_errors(task._replace(key="another program")) == TWO
    (file,) = (tmp_path / "steps").rglob("*.json")
    old = {"key": "key", "one_forward": [1.0, 2.0], "free_running": [1.0, 2.0]}  # before there were cosines
    file.write_text(json.dumps(old))
    assert steps.step_errors(task) == ONE
    assert json.loads(file.read_text()) == {"key": "key", **ONE._asdict()}


def test_first_middle_and_last_step() -> None:
    assert page._ends((1.25, 2.0, 3.0, 4.0)) == "1.2, 3.0, 4.0"
    assert page._ends((0.98765, 0.5, 1.0), 4) == "0.9877, 0.5000, 1.0000"
    assert page._ends((), 4) == "-"  # a file of an earlier version
