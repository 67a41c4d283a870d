"""Short vector programs on PARAM scalars that several lowerings share. Their arithmetic is in docs/numerics.md."""

from __future__ import annotations

import numpy as np

from ...ir.isa import Format, Function, Op2
from ...ir.numerics import I15_MAX
from ...ir.tile_program import Buf
from .emitter import Emitter, Row, View


def norm_vectors(e: Emitter, s: Buf, q: Buf, q_at: int, rows: int, count: int, eps: float) -> tuple[Buf, Buf]:
    """From sums `s[i]` and sums of squares `q[q_at + i]` over `count` elements: `r[i]` and `nb[i] = -mean * r`.

    m = s/n, nmm = -m*m, v = max(q/n + nmm, 0), r = rsqrt(v + eps), nb = -m*r.
    """
    inverse = float(np.float32(1) / np.float32(count))
    m, t, r, nb = (e.alloc("param", rows) for _ in range(4))
    e.vector(s, m, rows, a1=inverse)
    e.vector(m, t, rows, a1=-1.0, op2=Op2.MUL, b=e.scalars(m))
    e.vector(q, t, rows, at=q_at, a1=inverse, b1=Row(t), op2=Op2.MAX, b=0.0)
    e.vector(t, r, rows, b1=eps, func=Function.RSQRT)
    e.vector(m, nb, rows, a1=-1.0, op2=Op2.MUL, b=e.scalars(r))
    return r, nb


TOP = {1: 127, 2: I15_MAX}
"""The largest integer of a quantised value in one int8 plane, or in two."""


def token_scales(e: Emitter, amax: Buf, inv: Buf, s: Buf, rows: int, at: int = 0, planes: int = 1) -> None:
    """From absolute maxima: `inv[i] = 127 * recip(amax)` that quantises and `s[i] = amax / 127` that undoes it; with
    two planes 16319 takes the place of 127."""
    top = TOP[planes]
    e.vector(amax, inv, rows, at=at, to=at, func=Function.RECIP, op2=Op2.MUL, b=float(top))
    e.vector(amax, s, rows, at=at, to=at, a1=float(np.float32(1) / np.float32(top)))


def combine(e: Emitter, hi: View, planes: int, rows: int, tiles: int, valid: int) -> View:
    """A product as a vector operand: what is in ACC, or the products of two planes, one `tiles` tiles behind the
    other, as `hi * 128 + lo` in float32."""
    if planes == 1:
        return hi
    x = View(e.alloc("vbuf", rows * tiles * 2), Format.F32, 2 * tiles, 2)
    e.vec(hi, x, rows, tiles, valid, a1=128.0, op2=Op2.ADD, b=hi.tile(tiles))
    return x
