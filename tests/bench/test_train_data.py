"""Training data of `tiny`: captions, the held-out combinations, sprites, and pictures composed of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
import torch
from dpu.bench.train.captions import (
    ATTRIBUTES,
    COLOURS,
    FORMS,
    HELD_OUT,
    OBJECTS,
    PROMPTS,
    Combination,
    all_combinations,
    caption,
    evaluation_prompts,
    split,
    words,
)
from dpu.bench.train.compose import SIZE, Composer, class_numbers
from dpu.bench.train.model import token_table, tokenizer_of_captions
from dpu.bench.train.sprites import SIDE, load_sprites
from dpu.errors import DpuError

CPU = torch.device("cpu")


def of(object_: str, colour: str, place: str, count: str) -> Combination:
    numbers = zip(ATTRIBUTES.values(), (object_, colour, place, count), strict=True)
    return Combination(*(names.index(value) for names, value in numbers))


def pictures(*combinations: Combination, seed: int = 0) -> torch.Tensor:
    composer = Composer(load_sprites(), CPU)
    return composer(class_numbers(combinations, CPU), torch.Generator().manual_seed(seed))


def test_captions_say_what_is_there() -> None:
    one = of("umbrella", "orange", "centre", "1")
    assert caption(one, 0) == "an umbrella in the centre on an orange background"
    assert caption(one, 15) == "an orange background with one umbrella in the middle"
    many = of("cactus", "blue", "top", "3")
    assert caption(many, 8) == "at the top, three cacti on a blue background"
    for combination in all_combinations()[::37]:
        object_, colour, place, count = combination.words()
        for form in range(FORMS):
            said = caption(combination, form).replace(",", "").split()
            assert colour in said
            assert {object_, OBJECTS[object_][0]} & set(said)
            assert place in said or (place == "centre" and "middle" in said)
            assert said.count("two") == (count == "2")
            assert said.count("three") == (count == "3")


def test_no_two_combinations_share_a_caption() -> None:
    said = Counter(caption(c, f) for c in all_combinations() for f in {0, 7, 10, 13})
    assert len({caption(c, 0) for c in all_combinations()}) == len(all_combinations()) == 2880
    assert max(said.values()) == 1


def test_held_out_combinations_are_never_trained_on_and_leave_every_value_seen() -> None:
    training, held = split()
    assert len(held) == HELD_OUT
    assert not set(training) & set(held)
    assert set(training) | set(held) == set(all_combinations())
    for i, values in enumerate(ATTRIBUTES.values()):
        assert {astuple(c)[i] for c in training} == set(range(len(values)))


def test_evaluation_prompts_are_held_out_and_balanced() -> None:
    prompts = evaluation_prompts()
    assert len(prompts) == len(set(prompts)) == PROMPTS
    assert {c for c, _ in prompts} <= set(split()[1])
    for i, values in enumerate(ATTRIBUTES.values()):
        times = Counter(astuple(c)[i] for c, _ in prompts)
        assert set(times) == set(range(len(values)))
        assert max(times.values()) - min(times.values()) <= 2


def test_every_word_is_one_token() -> None:
    tokenizer = tokenizer_of_captions()
    for word in words():
        assert len(tokenizer(word)["input_ids"]) == 3, word  # between begin and end of text


def test_token_table_is_the_tokenizer_of_each_caption() -> None:
    some = (all_combinations()[5], all_combinations()[2000])
    table = token_table(some, CPU)
    assert table.shape == (2, FORMS, 77)
    for row, combination in zip(table, some, strict=True):
        for form in (0, 9, 15):
            ids = tokenizer_of_captions()(caption(combination, form), padding="max_length", max_length=77)["input_ids"]
            assert row[form].tolist() == ids


def test_pictures_depend_on_the_seed_and_nothing_else() -> None:
    some = split()[0][::500]
    assert torch.equal(pictures(*some), pictures(*some))
    assert not torch.equal(pictures(*some), pictures(*some, seed=1))


@pytest.mark.parametrize("colour", COLOURS)
def test_the_ground_has_the_captions_colour(colour: str) -> None:
    picture = pictures(of("gem", colour, "left", "1"))[0]
    corner = (picture[:, -8:, -8:].mean((1, 2)) + 1) * 127.5
    nearest = min(COLOURS, key=lambda c: sum(abs(a - b) for a, b in zip(COLOURS[c], corner.tolist(), strict=True)))
    assert nearest == colour


@pytest.mark.parametrize("count", ["1", "2", "3"])
@pytest.mark.parametrize(
    ("place", "axis", "sign"), [("left", 1, -1), ("right", 1, 1), ("top", 0, -1), ("bottom", 0, 1), ("centre", 0, 0)]
)
def test_sprites_stand_where_the_caption_says(place: str, axis: int, sign: int, count: str) -> None:
    picture = pictures(of("robot", "black", place, count))[0]
    there = (picture > 0).any(0).float()  # the white rim and most of a robot are lighter than the ground
    weights = there.sum(1 - axis)
    middle = (weights * (torch.arange(SIZE) + 0.5)).sum() / weights.sum() - SIZE / 2
    # 30 pixels off the centre; jitter moves a group by 4 and a sprite by 1.5, and a robot is uneven by less than 2.
    assert abs(middle.item() - 30 * sign) < 7.5
    # Sprites of 56, 42 and 36 pixels: the area says how many, to a third.
    assert there.sum().item() / (int(count) * {"1": 56, "2": 42, "3": 36}[count] ** 2) == pytest.approx(0.85, rel=0.33)


def test_sprites_that_are_not_ours_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "sprites.npz"
    with pytest.raises(DpuError) as missing:
        load_sprites(file)
    assert missing.value.code == "E106"
    np.savez(file, names=np.array(["apple"]), pixels=np.zeros((1, SIDE, SIDE, 4), np.uint8))
    with pytest.raises(DpuError) as other:
        load_sprites(file)
    assert str(other.value).splitlines()[0] == (
        f"error[E106]: {file}: 1 sprites of shape (96, 96, 4), which are not those of captions.OBJECTS"
    )
