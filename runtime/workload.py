"""The fixed prompts: a list to measure with and another, disjoint, to calibrate with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Prompt:
    """One image of the experiment; `category` is what kind of picture it asks for."""

    prompt: str
    seed: int
    category: str


def evaluation_set() -> list[Prompt]:
    """The prompts of the experiment with their seeds, in order. `configs/workload/prompts.json` is the only source."""
    return [Prompt(**entry) for entry in json.loads(_text("prompts.json"))["prompts"]]


def evaluation_prompts() -> list[str]:
    """The prompts of the experiment, in order; the seed of a prompt is its place in the list."""
    return [p.prompt for p in evaluation_set()]


def calibration_prompts() -> list[str]:
    """The prompts that statistics are taken over."""
    return [line.strip() for line in _text("calibration_prompts.txt").splitlines() if line.strip()]


def prompts_sha256(prompts: Sequence[str]) -> str:
    """Digest of prompts in order, as calibrations and records of measurements state it."""
    return hashlib.sha256(json.dumps(list(prompts)).encode()).hexdigest()


def _text(name: str) -> str:
    return resources.files("dpu.configs").joinpath("workload", name).read_text(encoding="utf-8")
