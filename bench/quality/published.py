"""Published figures of other models, to stand beside ours: not comparable in value, comparable in order.

PSNR is against the float16 image of the same prompt and seed. Source: "SVDQuant", arXiv 2411.05007v1 (2024-11),
table 1: SDXL at 30 steps on prompts of MJHQ.
"""

from __future__ import annotations

from typing import NamedTuple

SOURCE = "SVDQuant, arXiv 2411.05007v1, table 1 (2024-11): SDXL, 30 steps, prompts of MJHQ"


class Figure(NamedTuple):
    """One published row."""

    model: str
    precision: str
    how: str
    psnr_db: float
    lpips: float


PUBLISHED = (
    Figure("SDXL", "W8A8", "SVDQuant: activations dynamic for each token, low-rank branch", 26.4, 0.119),
    Figure("SDXL", "W8A8", "TensorRT: static scales", 22.0, 0.247),
    Figure("SDXL", "W4A4", "SVDQuant: int4", 20.6, 0.298),
)
