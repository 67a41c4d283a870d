"""Weights for the FID's Inception-V3 that are the same on every machine: a hash of the place of each number."""

from __future__ import annotations

from math import sqrt

import torch


def hashed_weights(shapes: dict[str, torch.Size]) -> dict[str, torch.Tensor]:
    """A state dict of these names and shapes whose activations neither vanish nor explode."""
    found = {}
    for salt, (name, shape) in enumerate(shapes.items()):
        n = shape.numel()
        mixed = (torch.arange(n, dtype=torch.int64) + 1) * 2654435761 + salt * 40503 * 65537
        even = ((mixed ^ (mixed >> 15)) * 2246822519 % (1 << 32)).double() / (1 << 32)  # 0 to 1
        spread = (2 * even - 1) * sqrt(3)  # variance 1
        if name.endswith("num_batches_tracked"):
            found[name] = torch.zeros(shape, dtype=torch.int64)
            continue
        if name.endswith("running_var"):
            values = 1 + 0.3 * spread
        elif name.endswith("bn.weight"):
            values = 1 + 0.1 * spread
        elif len(shape) > 1:
            values = spread * sqrt(2 / (n / shape[0]))
        else:
            values = 0.1 * spread
        found[name] = values.reshape(shape).float()
    return found
