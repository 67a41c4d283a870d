"""The advantage over the cheapest GPU in every draw of the Monte Carlo: what the histogram and probabilities are of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...evidence import Array, evaluate
from ...simulator.economics.compare import Comparison
from ...simulator.economics.sampling import THRESHOLDS, draws


@dataclass(frozen=True)
class Draws:
    """One ratio a draw; the same draws as `sampling.monte_carlo` of this seed."""

    seed: int
    advantage: Array
    before_nre: Array
    inputs: int  # that were drawn: of the DPU and of all GPUs, stated ranges and measured errors

    @property
    def samples(self) -> int:
        """How many."""
        return len(self.advantage)

    @property
    def probability(self) -> dict[float, float]:
        """Share of the draws above each threshold."""
        return {t: float(np.mean(self.advantage > t)) for t in THRESHOLDS}

    def rank(self, percent: float) -> float:
        """A percentile of the advantage."""
        return float(np.percentile(self.advantage, percent, method="higher"))


def drawn(c: Comparison, samples: int, seed: int) -> Draws:
    """Costs of the DPU, with and without NRE, against whichever GPU is cheapest in the draw."""
    outputs = [c.dpu.image, c.dpu.marginal, *(g.image for g in c.gpus)]
    given = draws(outputs, c.stated, samples, seed)
    image, marginal, *gpus = (np.broadcast_to(v, (samples,)) for v in evaluate(outputs, given))
    best = np.min(np.stack(gpus), axis=0)
    return Draws(seed, best / image, best / marginal, len(given))
