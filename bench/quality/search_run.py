"""The whole of `dpubench policy-search`: noises and costs of choices, the greedy path, policies tried along it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Literal

from ...errors import DpuError
from ...ir.arch import load_arch
from ...passes.policy import Policy, Precision, named_policy
from ..metrics.bootstrap import mean
from .plan import Say
from .results import Value
from .search import (
    OPTIONS,
    W8A8,
    Assignment,
    Choice,
    Group,
    first_place,
    greedy_path,
    groups_of,
    noise_table,
    policy_of,
    sums,
)
from .search_cost import Costs, ImageCost
from .search_forward import forward_noise
from .search_log import BASE, Found, Search, Tried, beats, simulated, with_simulated
from .sensitivity import MOST_PROMPTS, opened
from .sensitivity_model import FakePipeline, Key, block_of, resolved
from .sensitivity_trials import Outcome, Place, Progress, Trial, decibels, place_of, run, trial

UNIFORM = ("w8a8", "w8a8-static", "w4a8", "w8a16")
"""Policies that the found ones are compared with."""


@dataclass(frozen=True)
class Request:
    """What to search for; without a floor only the best policy at w8a8's cost. `ranking` prompts are those of single
    layers."""

    model: Path
    work: Path
    name: str
    command: str
    floor_psnr: float | None = None
    floor_accuracy: float | None = None
    arch: str = "dpu_tiny"
    cost: Literal["cycles", "dram"] = "cycles"
    prompts: int = 4
    ranking: int = 2
    steps: int = 20
    seed: int = 100
    jobs: int = 1


def check(request: Request) -> None:
    """Refuse numbers out of range, before any work.

    Raises:
        DpuError: E501.
    """
    for option, value, low, high in (
        ("--prompts", request.prompts, 1, MOST_PROMPTS),
        ("--ranking", request.ranking, 1, MOST_PROMPTS),
        ("--steps", request.steps, 1, 1000),
        ("--floor-psnr", request.floor_psnr, 0, 100),
        ("--floor-accuracy", request.floor_accuracy, 0, 1),
    ):
        if value is not None and not low <= value <= high:
            raise DpuError(option, f"{value} is not between {low} and {high}", code="E501")
    if request.cost not in ("cycles", "dram"):
        raise DpuError("--cost", f"no cost '{request.cost}'", hint="cycles or dram", code="E501")


def search(
    request: Request,
    say: Say = lambda _: None,
    progress: Callable[[str], Progress] = lambda _: lambda done, total: None,
) -> tuple[Search, Policy]:
    """The log, and the policy that was searched for: the cheapest above the floor, else the best at w8a8's cost.

    Raises:
        DpuError: see `check`, `opened`; no policy that was tried is what was asked for.
    """
    check(request)
    ranking, pipeline = opened(
        request.model, "dpu_tiny", request.work, request.ranking, request.steps, request.seed, say
    )
    groups = groups_of(pipeline.layers)
    noises = _noises(request, ranking, pipeline, groups, say, progress)
    say(f"estimating what choices cost on {request.arch} ...")
    costs = Costs(Path(ranking.export), load_arch(request.arch), ranking.size, request.steps, pipeline.layers)
    table = _table(groups, noises, costs, request.cost)
    path = greedy_path(table)
    place = place_of(request.work, ranking.size, ranking.guidance, request.prompts, request.steps, request.seed)
    walk = _Walk(request, place, pipeline, groups, table, path, costs, progress)
    say("trying uniform policies ...")
    uniform = walk.policies([named_policy(n) for n in UNIFORM])
    base = uniform[0] = with_simulated(uniform[0], costs.simulated(named_policy(BASE)))
    found: list[tuple[Found, int | None]] = []
    say(f"searching {len(path)} policies ...")
    if request.floor_psnr is not None or request.floor_accuracy is not None:
        noise = 10 ** (-(request.floor_psnr or 0) / 10)
        at = walk.first(lambda n: _meets(walk.at(n), request), walk.guess(noise=noise))
        found.append((_found("cheapest above the floor", walk, at, base, request.cost), at))
    say("walking back to what costs no more by the timing simulation ...")
    allowed = sum(choices[0].cost for choices in table)
    after = walk.first(lambda n: walk.cost(n) > _cost(base, request.cost), walk.guess(cost=allowed))
    last = len(path) - 1 if after is None else after - 1
    within = (n for n in range(last, -1, -1) if walk.simulated(n) <= simulated(base, request.cost))
    at = next(within, None)
    found.append((_found("best at no more than w8a8's cost", walk, at, base, request.cost), at))
    made = Search(
        command=request.command,
        arch=request.arch,
        cost=request.cost,
        floor_psnr_db=request.floor_psnr,
        floor_accuracy=request.floor_accuracy,
        prompts=place.prompts,
        ranking_prompts=ranking.prompts,
        steps=request.steps,
        seed=request.seed,
        path=len(path),
        uniform=tuple(uniform),
        tried=tuple(walk.tried[i] for i in sorted(walk.tried)),
        found=tuple(f for f, _ in found),
    )
    first, at = found[0]
    if at is None:
        what = f"no policy that was tried is the {first.what}"
        floor = first.what == "cheapest above the floor"
        end, where = ("best", "below it") if floor else ("cheapest", "dearer")
        why = f"the {end} of {len(path)} on the greedy path is {where}"
        hint = "lower the floor" if floor else "take --precision w8a8"
        raise DpuError("policy-search", what, why=why, hint=hint, code="E501")
    return made, walk.made(at, f"Found by: {request.command}")


def _found(
    what: Literal["cheapest above the floor", "best at no more than w8a8's cost"],
    walk: _Walk,
    at: int | None,
    base: Tried,
    cost: str,
) -> Found:
    tried = None if at is None else walk.at(at, simulated=True)
    return Found(what=what, tried=tried, beats_w8a8=tried is not None and beats(tried, base, cost))


def _quality(tried: Tried) -> float:
    return float("inf") if tried.psnr_db is None else tried.psnr_db


def _cost(tried: Tried, cost: str) -> int:
    return tried.cycles if cost == "cycles" else tried.dram_bytes


def _meets(tried: Tried, request: Request) -> bool:
    if request.floor_psnr is not None and _quality(tried) < request.floor_psnr:
        return False
    return request.floor_accuracy is None or tried.right >= request.floor_accuracy


def _noises(
    request: Request,
    place: Place,
    pipeline: FakePipeline,
    groups: Sequence[Group],
    say: Say,
    progress: Callable[[str], Progress],
) -> list[list[float]]:
    """The squared error of each option of each group, of the final picture."""
    blocks: dict[str, list[Key]] = {}
    for x in pipeline.layers:
        if x.part == "unet":
            blocks.setdefault(block_of(x), []).append(x.key)
    whole: dict[tuple[str, str, Precision], Trial] = {}
    for group in groups:
        if group.part != "unet":
            for p in group.options:
                name = f"{group.part} {group.name} {p.model_dump_json()}"
                whole[group.part, group.name, p] = trial(name, {x.key: p for x in group.layers})
    trials = [trial(f"block {b}", dict.fromkeys(keys, W8A8)) for b, keys in blocks.items()]
    say(f"pictures of {len(trials)} blocks and {len(whole)} choices ...")
    outcomes = run(place, [*trials, *whole.values()], request.work, request.jobs, progress("blocks"))
    say("one forward of each choice ...")
    forward = forward_noise(place, request.work, request.jobs, progress("forwards"))
    by_block = {b: o.noise for b, o in zip(blocks, outcomes, strict=False)}
    pictures = {k: o.noise for k, o in zip(whole, outcomes[len(trials) :], strict=True)}
    return noise_table(groups, by_block, forward, pictures)


def _table(
    groups: Sequence[Group], noises: Sequence[Sequence[float]], costs: Costs, cost: Literal["cycles", "dram"]
) -> list[list[Choice]]:
    """Noise and cost of each option; those of text encoders are sums over their operations."""
    uniform = {p: costs.by_unit(p) for p in dict.fromkeys(p for options in OPTIONS.values() for p in options)}
    which = 0 if cost == "cycles" else 1
    found = []
    for group, row in zip(groups, noises, strict=True):
        units = list(dict.fromkeys(x.unit for x in group.layers))
        found.append(
            [
                Choice(p, noise, float(sum(uniform[p][group.part, u][which] for u in units)))
                for p, noise in zip(group.options, row, strict=True)
            ]
        )
    return found


class _Walk:
    """The policies of a greedy path, tried as they are asked for."""

    def __init__(
        self,
        request: Request,
        place: Place,
        pipeline: FakePipeline,
        groups: Sequence[Group],
        table: Sequence[Sequence[Choice]],
        path: Sequence[Assignment],
        costs: Costs,
        progress: Callable[[str], Progress],
    ) -> None:
        self._request, self._place, self._pipeline = request, place, pipeline
        self._groups, self._table, self._path, self._costs = groups, table, path, costs
        self._progress = progress
        self.tried: dict[int, Tried] = {}
        self._spent: dict[int, ImageCost] = {}
        self._simulated: dict[int, ImageCost] = {}
        self._base: Outcome

    def made(self, at: int, description: str = "") -> Policy:
        """The policy of a place on the path."""
        chosen = [choices[i].precision for choices, i in zip(self._table, self._path[at], strict=True)]
        name = self._request.name if description else f"{self._request.name}-{at}"
        return policy_of(name, description, self._groups, chosen, self._pipeline.layers)

    def at(self, at: int, simulated: bool = False) -> Tried:
        """A place on the path, tried; with its simulated cost where that is asked for."""
        if at not in self.tried:
            noise, _ = sums(self._table, self._path[at])
            self.cost(at)
            policy = self.made(at)
            (outcome,) = self._pictures([policy])
            self.tried[at] = _tried(policy, at, decibels(noise), outcome, self._base, self._spent[at])
        if simulated:
            self.simulated(at)
            self.tried[at] = with_simulated(self.tried[at], self._simulated[at])
        return self.tried[at]

    def policies(self, some: Sequence[Policy]) -> list[Tried]:
        """Pictures and costs of shipped policies, of which the first is what others are compared with."""
        outcomes = self._pictures(some)
        self._base = outcomes[0]
        return [_tried(p, None, None, o, self._base, self._costs.image(p)) for p, o in zip(some, outcomes, strict=True)]

    def _pictures(self, policies: Sequence[Policy]) -> list[Outcome]:
        layers, judge = self._pipeline.layers, str(self._request.model)
        trials = [trial(p.name, resolved(p, layers), judge) for p in policies]
        return run(self._place, trials, self._request.work, self._request.jobs, self._progress("policies"))

    def cost(self, at: int) -> int:
        """The cost of a place on the path, by the estimate of its whole policy."""
        if at not in self._spent:
            self._spent[at] = self._costs.image(self.made(at))
        return self._asked(self._spent[at])

    def simulated(self, at: int) -> int:
        """The cost of a place on the path, by the timing simulation of its program."""
        if at not in self._simulated:
            self._simulated[at] = self._costs.simulated(self.made(at))
        return self._asked(self._simulated[at])

    def _asked(self, found: ImageCost) -> int:
        return found.cycles if self._request.cost == "cycles" else found.dram_bytes

    def first(self, holds: Callable[[int], bool], guess: int) -> int | None:
        """The first place from which on `holds` is true; none if it does not hold at the end."""
        return first_place(len(self._path), holds, guess)

    def guess(self, noise: float | None = None, cost: float | None = None) -> int:
        """The first place with no more noise, or with more cost, if layers add up."""
        for at, assignment in enumerate(self._path):
            found = sums(self._table, assignment)
            if (noise is not None and found[0] <= noise) or (cost is not None and found[1] > cost):
                return at
        return len(self._path) - 1


def _tried(
    policy: Policy, at: int | None, predicted: float | None, outcome: Outcome, base: Outcome, cost: ImageCost
) -> Tried:
    mine, other = ([decibels(x) for x in o.squared_error] for o in (outcome, base))
    gains = [inf if a is None else -inf if b is None else a - b for a, b in zip(mine, other, strict=True)]
    whole = [x for x in mine if x is not None]
    return Tried(
        name=policy.name,
        place=at,
        digest=policy.digest,
        predicted_db=None if predicted is None else round(predicted, 3),
        psnr_db=round(sum(whole) / len(whole), 3) if len(whole) == len(mine) else None,
        gain_db=Value.of(mean(gains)),
        by_prompt=tuple(None if x is None else round(x, 3) for x in mine),
        flip=round(sum(outcome.flip) / len(outcome.flip), 6),
        right=sum(outcome.right) / len(outcome.right),
        cycles=cost.cycles,
        dram_bytes=cost.dram_bytes,
    )
