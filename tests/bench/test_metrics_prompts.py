"""The prompts of the experiment: count, categories, seeds, none of those for calibration."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from dpu.runtime.workload import calibration_prompts, evaluation_prompts, evaluation_set

CATEGORIES = {
    *("people", "animals", "food", "indoor", "vehicles"),
    *("sport", "street", "landscape", "objects", "illustration"),
}


def test_forty_prompts_four_of_each_category() -> None:
    found = evaluation_set()
    assert len(found) == 40
    assert Counter(p.category for p in found) == dict.fromkeys(CATEGORIES, 4)


def test_a_seed_is_the_place_in_the_list() -> None:
    """Runs on a GPU take it so."""
    assert [p.seed for p in evaluation_set()] == list(range(40))
    assert evaluation_prompts() == [p.prompt for p in evaluation_set()]


def test_no_two_are_alike_and_none_was_calibrated_on() -> None:
    """Not even when only articles, commas and letter case differ, nor by most of their words."""

    def words(text: str) -> frozenset[str]:
        return frozenset(re.findall(r"[a-z]+", text.lower())) - {"a", "an", "the", "of", "in", "on", "with", "and"}

    evaluation, calibration = evaluation_prompts(), calibration_prompts()
    assert len({words(p) for p in evaluation}) == 40
    for i, p in enumerate(evaluation):
        for other in (*evaluation[:i], *calibration):
            shared = len(words(p) & words(other)) / len(words(p) | words(other))
            assert shared < 0.5, (p, other)


def test_prompts_are_plain_text_that_fits_the_text_encoders() -> None:
    """77 tokens with both ends; a word or mark of plain English is at most three of them."""
    for p in evaluation_prompts():
        assert p == p.strip() and p.isascii() and 25 <= len(p) <= 100
        assert 3 * len(re.findall(r"\w+|[^\w\s]", p)) <= 75


def test_the_file_says_what_it_is() -> None:
    path = Path(__file__).parents[2] / "configs" / "workload" / "prompts.json"
    content = json.loads(path.read_text())
    assert content["format"] == "dpu.prompts/1"
    assert [set(p) for p in content["prompts"]] == [{"category", "seed", "prompt"}] * 40
    assert not path.with_suffix(".txt").exists()
