"""`dpubench attention`: SQNR of attention with 8- and 15-bit probabilities over score distributions and key counts.

For each row of operands three results are compared, the second and third for both widths:

    y0  float64, operands as float16                      what attention means
    y1  float64, the int8 operands                        exact probabilities
    y2  the device, bit for bit                           int8 operands and quantised probabilities

    noise of int8 operands   y1 - y0
    noise of probabilities   y2 - y1      their rounding, and what comes with it: tables, float32, float16 result
    noise of all             y2 - y0
    SQNR                     10 log10(sum (y0 - mean(v))^2 / sum noise^2)

The mean of the values over the keys passes through unharmed (V is centred), so it is no signal here; the SQNR with it
is there too, as `with_mean_db`. The share of the probabilities is `sum (y2 - y1)^2` over the sum of both noises.

**What rounding should give.** A probability is `p = exp(s - m)`, m the maximum of its block of at most 1,024 keys, in
steps of `1/S`: S = 255 in 8 bits (offset form), 16,319 in 15. Its error has the variance

    e^2 = 1 / (12 S^2)     where p >= 1 / (2 S), and 0 at the maximum itself, which is S steps
    e^2 = p^2              below: it becomes 0

Values are independent of the errors and have the variance v^2 of their channel, blocks weigh `w = exp(m - max m)`, and
the divisor is the float sum l of all `w p`, not that of the rounded ones. So the noise of a channel is
`v^2 sum_j (w e_j)^2 / l^2`. Storing the result as float16 adds `u^2 / 12`, u its unit in the last place; `expected_db`
is the SQNR that both give. Near-equal keys do better: an error that all have in common is multiplied by the sum of
centred values, which is 0 over all keys.

With n flat scores every p is near 1 and signal and noise grow alike: SQNR = 10 log10(12 S^2), 58.9 dB in 8 bits,
however many keys. One key far above n - 1 others that have p just below 1/(2S) loses them all, with
`(n - 1) / (2 S)` times the peak's weight: the worst that can happen, and only to keys in the peak's own block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from ...evidence import Provenance
from ...ir.arch import Arch, load_arch
from ..rates import Result
from .cost import Cost, costs
from .device import STEPS, Exact, key_block, of_floats, of_integers, on_device, quantised
from .operands import DISTRIBUTIONS, F64, KEYS, Operands, synthetic
from .real import captured

ARCH = "dpu_f2"  # its block of keys, 1,024, is that of all archs with 64 columns
Say = Callable[[str], None]


class Width(Result):
    """Noise with probabilities of so many bits. SQNR in dB; `share` of the noise's power is the probabilities'."""

    bits: int
    sqnr_db: float
    with_mean_db: float
    probabilities_db: float
    expected_db: float
    share: float


class Row(Result):
    """One set of operands.

    `effective_keys`: median over queries of `1 / sum a^2`, a the softmax; `lost`: the mean share of the softmax that
    8 bits round to 0; `operands_db`: the SQNR of int8 q, k and v alone.
    """

    scores: str
    source: str
    samples: int
    heads: int
    queries: int  # looked at, of each sample and head
    keys: int
    key_block: int
    effective_keys: float
    lost: float
    operands_db: float
    widths: tuple[Width, ...]

    def width(self, bits: int) -> Width:
        """The noise with probabilities of `bits` bits."""
        return next(w for w in self.widths if w.bits == bits)

    @property
    def gain(self) -> float:
        """dB that 15-bit probabilities add."""
        return self.width(15).sqnr_db - self.width(8).sqnr_db


class Study(Result):
    """All rows, and what 15 bits cost."""

    command: str
    provenance: str = Provenance.SIMULATED.label
    about: str = "words of the compiler on the bit-exact simulator against float64; costs are the compiler's estimate"
    arch: str
    seed: int
    rows: tuple[Row, ...]
    costs: tuple[Cost, ...]


def measure(
    model: Path | None, command: str, seed: int = 0, with_costs: bool = True, say: Say = lambda _: None
) -> Study:
    """Every distribution at every number of keys, and the attentions of `model` (a diffusers folder) if there is one.

    Raises:
        DpuError: `model` is no pipeline of diffusers.
    """
    arch = load_arch(ARCH)
    rows = []
    for name, source, operands in sets(model, seed, say):
        say(f"{name}, {operands.keys} keys ...")
        rows.append(compare(name, source, operands, arch))
    return Study(
        command=command,
        arch=arch.name,
        seed=seed,
        rows=tuple(rows),
        costs=costs(say) if with_costs else (),
    )


def sets(model: Path | None, seed: int, say: Say) -> Iterator[tuple[str, str, Operands]]:
    """(what the scores are, where they come from, operands)."""
    for name in DISTRIBUTIONS:
        for keys in KEYS:
            yield name, "synthetic", synthetic(name, keys, seed)
    if model is not None:
        yield from captured(model, seed, say)


def compare(name: str, source: str, x: Operands, arch: Arch, widths: Iterable[int] = (8, 15)) -> Row:
    """One set of operands on the device and in float64."""
    ints = quantised(x)
    exact, given = of_floats(x), of_integers(ints, x.scale)
    block = key_block(ints, arch)
    y0, y1 = exact.y, given.y
    signal, whole = _power(y0 - exact.mean), _power(y0)
    operands = _power(y1 - y0)
    found = []
    for bits in widths:
        y2 = on_device(ints, x.scale, bits, arch).astype(np.float64)
        own, every = _power(y2 - y1), _power(y2 - y0)
        found.append(
            Width(
                bits=bits,
                sqnr_db=_db(signal, every),
                with_mean_db=_db(whole, every),
                probabilities_db=_db(signal, own),
                expected_db=_db(signal, expected_noise(given, block, STEPS[bits])),
                share=round(own / (own + operands), 4),
            )
        )
    weights = exact.weights
    p, w, total = relative(given.scores, block)
    return Row(
        scores=name,
        source=source,
        samples=len(x.q),
        heads=x.heads,
        queries=x.q.shape[1],
        keys=x.keys,
        key_block=block,
        effective_keys=round(float(np.median(1 / (weights**2).sum(-1))), 1),
        lost=round(float(((p < 0.5 / STEPS[8]) * p * w / total).sum(-1).mean()), 5),
        operands_db=_db(signal, operands),
        widths=tuple(found),
    )


def relative(scores: F64, block: int) -> tuple[F64, F64, F64]:
    """Probabilities relative to the maximum of their block, that block's weight, and the sum of their products.

    Scores are natural logarithms [..., keys]; so are p and w, and l is [..., 1].
    """
    p, w = np.empty_like(scores), np.empty_like(scores)
    highest = scores.max(-1, keepdims=True)
    for at in range(0, scores.shape[-1], block):
        keys = slice(at, at + block)
        top = scores[..., keys].max(-1, keepdims=True)
        p[..., keys], w[..., keys] = np.exp(scores[..., keys] - top), np.exp(top - highest)
    return p, w, (p * w).sum(-1, keepdims=True)


def expected_noise(x: Exact, block: int, steps: int) -> float:
    """The power, summed over all of the result, of rounding probabilities to whole steps and the result to float16."""
    return rounding_noise(x, block, steps) + _power(np.spacing(np.abs(x.y).astype(np.float16)).astype(np.float64)) / 12


def rounding_noise(x: Exact, block: int, steps: int) -> float:
    """That of the probabilities: the module's formula."""
    p, w, total = relative(x.scores, block)
    e2 = np.where(p < 0.5 / steps, p**2, np.where(p == 1, 0, 1 / (12 * steps**2)))
    rows = (e2 * (w / total) ** 2).sum(-1)
    spread = x.values.var(2).sum(-1, keepdims=True)  # [samples, heads, 1]: of all channels of a head
    return float((rows * spread).sum())


def _power(x: F64) -> float:
    return float((x**2).sum())


def _db(signal: float, noise: float) -> float:
    """Rounded to 0.01 dB."""
    return round(10 * float(np.log10(signal / noise)), 2) if noise and signal else float("inf")
