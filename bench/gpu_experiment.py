"""What a point of `dpubench gpu` says of its experiment: the conditions that `dpubench gate` compares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .gate_evidence import EXPERIMENT

if TYPE_CHECKING:
    import torch

BASE = "sdxl-base-1.0"
"""What workload files call the model of the published configs."""

DIGEST = (
    "model_sha256 is the digest of the UNet's weights: `weights_digest` of the file that dpuc export writes of them,"
    " computed from the tensors in memory; a .dpu has it under calibration.weights"
)
"""Said with every point. The `model_sha256` in a .dpu's own info is another digest: of the exported graph, which the
torch engine has none of."""


def policy(kind: str, dtype: torch.dtype) -> str:
    """The precision policy of an engine: `fp16`, `fp32` on a CPU, or `fp8 linears` (all else in `dtype`)."""
    plain = {"torch.float16": "fp16", "torch.float32": "fp32"}[str(dtype)]
    return "fp8 linears" if "fp8" in kind.split(":") else plain


def seed_text(seeds: Iterable[int]) -> str:
    """Seeds as `0-23`, or `0-3,7` where some are left out."""
    ordered = sorted(set(seeds))
    breaks = [i + 1 for i, (a, b) in enumerate(pairwise(ordered)) if b != a + 1]
    parts = [ordered[a:b] for a, b in pairwise([0, *breaks, len(ordered)])]
    return ",".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else f"{p[0]}" for p in parts if p)


def scheduler_name(config: Mapping[str, Any]) -> str:
    """As workload files say it: diffusers' EulerDiscreteScheduler is `euler`."""
    kind = str(config.get("_class_name", "EulerDiscreteScheduler"))
    return kind.removesuffix("Scheduler").removesuffix("Discrete").lower()


def stated(conditions: Mapping[str, str]) -> dict[str, str]:
    """Of a record's conditions those of the experiment; empty unless all are there."""
    found = {k: conditions[k] for k in EXPERIMENT if conditions.get(k)}
    return found if len(found) == len(EXPERIMENT) else {}
