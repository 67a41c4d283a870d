"""What a picture shows, and how a caption says it: an object, a background colour, a place and a count.

    "two cats at the top on a blue background"

2,880 combinations, of which `HELD_OUT` are never shown to any network; the evaluation's prompts are 40 of those.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from functools import cache

# Our word -> its plural and the icon's name in @iconify-json/fluent-emoji-flat.
OBJECTS: dict[str, tuple[str, str]] = {
    "apple": ("apples", "red-apple"),
    "banana": ("bananas", "banana"),
    "strawberry": ("strawberries", "strawberry"),
    "carrot": ("carrots", "carrot"),
    "mushroom": ("mushrooms", "mushroom"),
    "cactus": ("cacti", "cactus"),
    "sunflower": ("sunflowers", "sunflower"),
    "cat": ("cats", "cat-face"),
    "frog": ("frogs", "frog"),
    "pig": ("pigs", "pig-face"),
    "penguin": ("penguins", "penguin"),
    "fish": ("fish", "tropical-fish"),
    "butterfly": ("butterflies", "butterfly"),
    "ladybug": ("ladybugs", "lady-beetle"),
    "car": ("cars", "automobile"),
    "boat": ("boats", "sailboat"),
    "rocket": ("rockets", "rocket"),
    "house": ("houses", "house"),
    "umbrella": ("umbrellas", "umbrella"),
    "gem": ("gems", "gem-stone"),
    "star": ("stars", "star"),
    "heart": ("hearts", "red-heart"),
    "robot": ("robots", "robot"),
    "doughnut": ("doughnuts", "doughnut"),
}
# Backgrounds as sRGB bytes: softer than the icons' own colours, so that a red apple on red still shows.
COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (206, 72, 72),
    "orange": (240, 152, 66),
    "yellow": (246, 226, 112),
    "green": (92, 172, 96),
    "blue": (82, 134, 222),
    "purple": (152, 96, 188),
    "white": (246, 246, 246),
    "black": (36, 36, 40),
}
PLACES: dict[str, tuple[str, ...]] = {
    "left": ("on the left", "at the left"),
    "right": ("on the right", "at the right"),
    "top": ("at the top", "near the top"),
    "bottom": ("at the bottom", "near the bottom"),
    "centre": ("in the centre", "in the middle"),
}
COUNTS: dict[str, tuple[str, ...]] = {"1": ("a", "one"), "2": ("two",), "3": ("three",)}
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "object": tuple(OBJECTS),
    "colour": tuple(COLOURS),
    "place": tuple(PLACES),
    "count": tuple(COUNTS),
}
"""Every attribute with its values; a class number is a position in these."""

_TEMPLATES = (
    "{count} {object} {place} on a {colour} background",
    "{count} {object} {place} against a {colour} background",
    "{place}, {count} {object} on a {colour} background",
    "a {colour} background with {count} {object} {place}",
)
FORMS = len(_TEMPLATES) * 2 * 2
"""Ways to say one combination: templates x two words for the place x two for "one" (equal where there is one word)."""
HELD_OUT = 240
"""Combinations that no network trains on: ten of each object."""
PROMPTS = 40
_SPLIT_SEED = 20  # of which combinations are held out; changing it changes the evaluation


@dataclass(frozen=True, order=True)
class Combination:
    """One picture's content, as class numbers of `ATTRIBUTES`."""

    object: int
    colour: int
    place: int
    count: int

    def words(self) -> tuple[str, str, str, str]:
        """Object, colour, place, count."""
        object_, colour, place, count = (names[i] for names, i in zip(ATTRIBUTES.values(), astuple(self), strict=True))
        return object_, colour, place, count


def caption(combination: Combination, form: int) -> str:
    """The caption of a combination in one of `FORMS` ways."""
    object_, colour, place, count = combination.words()
    template, place_word, count_word = form // 4, form // 2 % 2, form % 2
    counts, places = COUNTS[count], PLACES[place]
    number = counts[count_word % len(counts)]
    noun = object_ if count == "1" else OBJECTS[object_][0]
    if number == "a" and noun[0] in "aeiou":
        number = "an"
    article = "an" if colour[0] in "aeiou" else "a"
    return (
        _TEMPLATES[template]
        .replace("a {colour}", f"{article} {colour}")
        .format(count=number, object=noun, place=places[place_word])
    )


def combination_of(text: str) -> Combination | None:
    """What a caption says; None if it is not a caption in one of the `FORMS`."""
    return _by_caption().get(text.strip())


@cache
def _by_caption() -> dict[str, Combination]:
    return {caption(c, form): c for c in all_combinations() for form in range(FORMS)}


def all_combinations() -> list[Combination]:
    """Every combination, in order."""
    return [Combination(*c) for c in itertools.product(*(range(len(v)) for v in ATTRIBUTES.values()))]


@cache
def split() -> tuple[tuple[Combination, ...], tuple[Combination, ...]]:
    """(training, held-out) combinations: disjoint, together all; equally many held out of each object."""
    draw = random.Random(_SPLIT_SEED)
    held: set[Combination] = set()
    each = HELD_OUT // len(OBJECTS)
    for number in range(len(OBJECTS)):
        held.update(draw.sample([c for c in all_combinations() if c.object == number], each))
    return tuple(c for c in all_combinations() if c not in held), tuple(sorted(held))


@cache
def evaluation_prompts() -> tuple[tuple[Combination, str], ...]:
    """The 40 prompts: every object at least once, the values of the other attributes about equally often."""
    draw = random.Random(_SPLIT_SEED + 1)
    left = list(split()[1])
    draw.shuffle(left)
    seen: dict[tuple[str, int], int] = {}
    chosen: list[tuple[Combination, str]] = []
    while len(chosen) < PROMPTS:
        best = min(left, key=lambda c: sum(seen.get(key, 0) * len(ATTRIBUTES[key[0]]) for key in _values(c)))
        left.remove(best)
        for key in _values(best):
            seen[key] = seen.get(key, 0) + 1
        chosen.append((best, caption(best, draw.randrange(FORMS))))
    return tuple(chosen)


def _values(combination: Combination) -> Iterable[tuple[str, int]]:
    return zip(ATTRIBUTES, astuple(combination), strict=True)


def words() -> list[str]:
    """Every word of every caption, most useful as one token each."""
    found: dict[str, None] = {}
    for name, (plural, _) in OBJECTS.items():
        found |= {name: None, plural: None}
    texts = [*COLOURS, *itertools.chain(*PLACES.values()), *itertools.chain(*COUNTS.values()), "an", *_TEMPLATES]
    for text in texts:
        found |= {w.strip(",{}"): None for w in text.split()}
    return [w for w in found if w not in ("place", "count", "object", "colour")]
