"""Short vector programs on PARAM scalars that several lowerings share. Their arithmetic is in docs/numerics.md."""

from __future__ import annotations

import numpy as np

from ...ir.isa import Function, Op2
from ...ir.tile_program import Buf
from .emitter import Emitter, Row


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


def token_scales(e: Emitter, amax: Buf, inv: Buf, s: Buf, rows: int, at: int = 0) -> None:
    """From absolute maxima: `inv[i] = 127 * recip(amax)` that quantises and `s[i] = amax / 127` that undoes it."""
    e.vector(amax, inv, rows, at=at, to=at, func=Function.RECIP, op2=Op2.MUL, b=127.0)
    e.vector(amax, s, rows, at=at, to=at, a1=float(np.float32(1) / np.float32(127)))
