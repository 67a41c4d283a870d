"""What 15-bit probabilities cost full-size SDXL: two products of P and V for one, by the compiler's estimate."""

from __future__ import annotations

from collections.abc import Callable

from ...codegen.estimate import EntryEstimate, Workload
from ...evidence import Provenance
from ...ir.arch import load_arch
from ...passes.policy import Policy, named_policy
from ...simulator.economics.inputs import folder
from ...simulator.economics.workload import runs_of
from ..rates import Result

ARCHS = ("dpu_f2", "dpu_32tops", "dpu_asic")
STEPS = 20
ATTENTION = "dpu.q.attention"


class Cost(Result):
    """Cycles of a guided UNet forward and seconds of an image at one width; `attention` are those of all attentions."""

    arch: str
    bits: int
    unet_cycles: int
    attention_cycles: int
    image_seconds: float
    provenance: str = Provenance.ASSUMED.label
    source: str = "dpuc compile configs/workload/sdxl_base --estimate: the words of the fullest tile, timed"


def policy(bits: int) -> Policy:
    """w8a8 with probabilities of `bits` bits everywhere."""
    base = named_policy("w8a8")
    default = base.default.model_copy(update={"probabilities": bits})
    return base.model_copy(update={"name": f"w8a8-p{bits}", "default": default})


def costs(say: Callable[[str], None] = lambda _: None) -> tuple[Cost, ...]:
    """Of each arch at 8 and 15 bits, 1024x1024 with guidance, 20 steps."""
    found: list[Cost] = []
    for bits in (8, 15):
        say(f"estimating full-size SDXL with {bits}-bit probabilities ...")
        workload = Workload(folder() / "workload" / "sdxl_base", policy=policy(bits))
        for name in ARCHS:
            found.append(_cost(name, bits, workload.estimate(load_arch(name))))
    return tuple(sorted(found, key=lambda c: (ARCHS.index(c.arch), c.bits)))


def _cost(arch: str, bits: int, entries: list[EntryEstimate]) -> Cost:
    unet = next(e for e in entries if e.entry == "unet")
    return Cost(
        arch=arch,
        bits=bits,
        unet_cycles=unet.cycles,
        attention_cycles=sum(o.cycles for o in unet.ops if o.kind == ATTENTION),
        image_seconds=round(sum(runs_of(e.entry, STEPS) * e.seconds for e in entries), 3),
    )
