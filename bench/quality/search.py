"""A policy search: the least precision that still meets a floor, and the best pictures for what uniform W8A8 costs.

1. Every choice of every group of layers gets a noise: what it does to the final picture alone. In text encoders and VAE
   that is measured. In the UNet it is the noise of one forward, scaled so that a block's layers add up to the noise of
   the picture in which the whole block is w8a8.
2. And a cost: what the compiler's estimate adds for it.
3. Greedy: all layers begin at their cheapest choice, and the step that takes most noise away for its cost comes first.
   That orders all policies from cheapest to best.
4. Policies along that path are tried with all their layers quantised, pictures and estimate of the whole policy;
   bisection finds the cheapest that meets the floor, and the best that costs no more than uniform W8A8. An estimate is
   no proof: from there the path is walked back to the first policy that costs no more by the timing simulation too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...passes.policy import Policy, Precision, Rule
from .sensitivity_model import Key, Layer, block_of, weight_node

W8A8 = Precision()
STATIC = Precision(scale="static")
OPTIONS: dict[str, tuple[Precision, ...]] = {
    "linear": tuple(
        base.model_copy(update=more) for more in ({}, {"weights": 4}, {"activations": 16}) for base in (W8A8, STATIC)
    ),
    "conv": (W8A8, Precision(weights=4), Precision(activations=16)),
    "attention": (W8A8, Precision(probabilities=15)),
}
"""What a layer of a kind may have; w8a8 comes first."""


@dataclass(frozen=True)
class Group:
    """Layers that are decided together: a unit of UNet or VAE, or all linears or attentions of a text encoder."""

    part: str
    name: str
    kind: str
    layers: tuple[Layer, ...]

    @property
    def options(self) -> tuple[Precision, ...]:
        """What they may have."""
        return OPTIONS[self.kind]


@dataclass(frozen=True)
class Choice:
    """An option of a group: its picture's squared error alone, and its cost alone."""

    precision: Precision
    noise: float
    cost: float


Assignment = tuple[int, ...]
"""Of each group, the number of its choice."""


def groups_of(layers: Sequence[Layer]) -> list[Group]:
    """The groups, in the order of the layers."""
    found: dict[tuple[str, str, str], list[Layer]] = {}
    for layer in layers:
        name = layer.unit if layer.part in ("unet", "vae_decoder") else f"all {layer.kind}s"
        found.setdefault((layer.part, name, layer.kind), []).append(layer)
    return [Group(*key, tuple(some)) for key, some in found.items()]


def hull(choices: Sequence[Choice]) -> list[int]:
    """The choices that a greedy search passes: from the cheapest on, each the one with most noise gone for its cost."""
    at = min(range(len(choices)), key=lambda i: (choices[i].cost, choices[i].noise, i))
    found = [at]
    while True:
        better = [i for i, c in enumerate(choices) if c.noise < choices[at].noise]
        if not better:
            return found
        at = max(better, key=lambda i: (_gain(choices[at], choices[i]), choices[at].noise - choices[i].noise, -i))
        found.append(at)


def _gain(a: Choice, b: Choice) -> float:
    return (a.noise - b.noise) / max(b.cost - a.cost, 1e-12)


def greedy_path(table: Sequence[Sequence[Choice]]) -> list[Assignment]:
    """Assignments from the cheapest to the one with least noise, a step of one group each, the best gains first."""
    hulls = [hull(choices) for choices in table]
    steps = [
        (-_gain(table[n][a], table[n][b]), n, at)
        for n, path in enumerate(hulls)
        for at, (a, b) in enumerate(pairwise(path))
    ]
    current = [path[0] for path in hulls]
    found = [tuple(current)]
    for _, n, at in sorted(steps):  # gains of one group fall, so its steps come in order
        current[n] = hulls[n][at + 1]
        found.append(tuple(current))
    return found


def sums(table: Sequence[Sequence[Choice]], assignment: Assignment) -> tuple[float, float]:
    """(noise, cost) of an assignment, if nothing depends on anything else."""
    chosen = [choices[i] for choices, i in zip(table, assignment, strict=True)]
    return sum(c.noise for c in chosen), sum(c.cost for c in chosen)


def first_place(count: int, holds: Callable[[int], bool], guess: int) -> int | None:
    """The first of `count` places from which on `holds` is true; none if it is not at the last. Few are asked if the
    guess is near: steps from it grow until both sides are known, then the rest is halved."""
    low, high = -1, count
    at, step = min(max(guess, 0), count - 1), 1
    while high - low > 1:
        if holds(at):
            high, onwards = at, at - step
        else:
            low, onwards = at, at + step
        step *= 2
        one_sided = low < 0 or high == count
        at = onwards if one_sided and low < onwards < high else (low + high) // 2
    return high if high < count else None


def policy_of(
    name: str, description: str, groups: Sequence[Group], chosen: Sequence[Precision], layers: Sequence[Layer]
) -> Policy:
    """A policy in which every group has its choice; what is w8a8 needs no rule."""
    rules = []
    for group, precision in zip(groups, chosen, strict=True):
        given = {k: v for k, v in precision.model_dump().items() if v != getattr(W8A8, k)}
        if given:
            rules += [Rule(layers=_pattern(x, layers), part=group.part, **given) for x in group.layers]
    return Policy(name=name, description=description, default=W8A8, rules=tuple(rules))


def text_of(policy: Policy) -> str:
    """A policy as a file for people: a rule a line."""
    head = policy.model_dump(mode="json", include={"format", "name", "description", "default"})
    fields = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()]
    rules = [json.dumps(r.model_dump(mode="json", exclude_none=True)) for r in policy.rules]
    fields.append('"rules": [' + ",".join(f"\n    {r}" for r in rules) + ("\n  ]" if rules else "]"))
    return "{\n  " + ",\n  ".join(fields) + "\n}\n"


def _pattern(layer: Layer, layers: Sequence[Layer]) -> str:
    """The ONNX node with the layer's weights or its attention, if no other layer has it, else the layer's name."""
    others = {n for x in layers if x.part == layer.part and x != layer for n in x.names}
    node = weight_node(layer)
    return layer.names[0] if node in others else node


def noise_table(
    groups: Sequence[Group],
    blocks: Mapping[str, float],
    forward: Mapping[tuple[Key, Precision], float],
    pictures: Mapping[tuple[str, str, Precision], float],
) -> list[list[float]]:
    """The squared error of each option of each group.

    `forward` is what a layer of the UNet at a precision does to one forward. It is scaled so that the layers of a block
    at w8a8 add up to `blocks`, what the block's picture shows. `pictures` are those of other groups' options, by part,
    name and precision.
    """
    layers = [x for group in groups if group.part == "unet" for x in group.layers]
    sums: dict[str, float] = {}
    for x in layers:
        sums[block_of(x)] = sums.get(block_of(x), 0.0) + forward[x.key, W8A8]
    factor = {b: blocks[b] / total if total else 0.0 for b, total in sums.items()}
    found = []
    for group in groups:
        if group.part == "unet":
            row = [sum(forward[x.key, p] * factor[block_of(x)] for x in group.layers) for p in group.options]
        else:
            row = [pictures[group.part, group.name, p] for p in group.options]
        found.append(row)
    return found
