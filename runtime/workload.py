"""The fixed prompts: a list to measure with and another, disjoint, to calibrate with."""

from __future__ import annotations

from importlib import resources


def evaluation_prompts() -> list[str]:
    """The prompts of the experiment, in order; the seed of a prompt is its place in the list."""
    return _lines("prompts.txt")


def calibration_prompts() -> list[str]:
    """The prompts that statistics are taken over."""
    return _lines("calibration_prompts.txt")


def _lines(name: str) -> list[str]:
    text = resources.files("dpu.configs").joinpath("workload", name).read_text()
    return [line.strip() for line in text.splitlines() if line.strip()]
