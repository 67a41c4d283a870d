"""A plan as plain Python, for the event loop in Python: lists and dictionaries are read faster a word at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.cost import PORTS, Span
from ..ir.isa import Engine, Words
from .plan import MmWork, Plan, VecWork


class Listed:
    """Of each word, what `Plan` and DMA_WORK say of it."""

    def __init__(self, p: Plan) -> None:
        self.words: Words = p.words
        self.engine: list[int] = p.engine.tolist()
        self.wait: list[int] = p.wait.tolist()
        self.signal: list[int] = p.signal.tolist()
        self.remote: list[int] = p.remote.tolist()
        self.drain: list[int] = p.drain.tolist()
        mm, vec = np.flatnonzero(p.engine == Engine.MXU), np.flatnonzero(p.engine == Engine.VPU)
        self.mm = dict(zip(mm.tolist(), map(MmWork._make, p.mm.tolist()), strict=True))
        self.vec = dict(zip(vec.tolist(), map(VecWork._make, p.vec.tolist()), strict=True))
        move = np.flatnonzero((p.engine == Engine.LOAD) | (p.engine == Engine.STORE))

        def moved(name: str) -> Any:
            out = np.zeros(len(p), p.dma.dtype[name])
            out[move] = p.dma[name]
            return out.tolist()

        self.phase: list[int] = moved("phase")
        self.steps: list[int] = moved("steps")
        self.lead: list[int] = moved("lead")
        self.bytes: list[int] = moved("bytes")
        self.bursts: list[int] = moved("bursts")
        self.alone: list[int] = moved("alone")
        self.cached: list[int] = moved("cached")
        self.cap: list[float] = moved("cap")
        self.ports: list[dict[int, list[Span]]] = [{} for _ in PORTS]  # of each shared port, by word
        index = np.repeat(np.arange(len(p)), np.diff(p.span_at))
        for i, (port, lo, hi) in zip(index.tolist(), p.spans.tolist(), strict=True):
            self.ports[port].setdefault(i, []).append((lo, hi))

    def __len__(self) -> int:
        return len(self.engine)
