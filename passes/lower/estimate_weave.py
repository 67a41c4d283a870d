"""What attention under the other stream's matrix work is worth to an estimate, see `weave_attention.py`.

Estimates time operations in lock-step. Of what is woven, with m cycles of the array and v of the vector unit: apart it
takes the longer of both for each, together max(v_attention + v_linear, m_attention + m_linear).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.arch import Arch
from ..weave_attention import BEGIN, KEEP, worthwhile


@dataclass(frozen=True)
class Part:
    """One sample's block of an operation on a tile: cycles of the array and of the vector unit, of its main part and of
    its prologue, and the most ACC words and cycles of a product."""

    mxu: float
    vpu: float
    acc: int
    longest: int
    prologue: float = 0.0


def before(arch: Arch, linear: Part, attention: Part) -> tuple[float, float]:
    """Cycles more of a linear and of the attention behind it: of the attention in one stream a part runs under the
    linear in the other one, until that is done."""
    gap = attention.vpu - attention.mxu
    if gap <= 0 or not worthwhile(arch, attention.acc, linear.acc, linear.longest):
        return 0.0, 0.0
    mxu, vpu = (1 - BEGIN) * linear.mxu, (1 - BEGIN) * linear.vpu
    share = min(1.0, max(0.0, mxu - vpu) / gap)
    return max(share * attention.vpu + vpu, share * attention.mxu + mxu) - mxu, -share * attention.vpu


def behind(arch: Arch, attention: Part, linear: Part) -> tuple[float, float]:
    """Cycles more of an attention and of the linear behind it, whose first part runs under the attention."""
    if attention.vpu <= attention.mxu or not worthwhile(arch, attention.acc, linear.acc, linear.longest):
        return 0.0, 0.0
    mxu, vpu = (1 - KEEP) * linear.mxu, (1 - KEEP) * linear.vpu
    gap = attention.vpu + linear.prologue - attention.mxu
    share = min(1.0, gap / max(1.0, mxu - vpu))
    now = max(attention.vpu + linear.prologue + share * vpu, attention.mxu + share * mxu)
    return now - attention.vpu, -share * mxu
