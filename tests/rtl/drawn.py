"""Hypothesis in the place of a numpy Generator: what the word generators draw then shrinks, draw by draw."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from hypothesis import strategies as st

FLOATS = st.floats(-4, 4, width=32, allow_subnormal=False)


class Drawn:
    """The methods that the generators of this folder use. Shrinks to low numbers and to the first choice."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def integers(self, low: int, high: int | None = None, size: int | None = None) -> Any:
        if size is not None:
            return [self.integers(low, high) for _ in range(size)]
        if high is None:
            low, high = 0, low
        if high <= low:
            raise ValueError("nothing to draw from")
        return self._draw(st.integers(int(low), int(high) - 1))

    def choice(self, some: Sequence[Any], size: int | None = None, p: Sequence[float] | None = None) -> Any:
        if size is not None:
            return [self.choice(some, p=p) for _ in range(size)]
        if p is None:
            return some[self.integers(len(some))]
        return some[min(bisect_right([round(100 * x) for x in accumulate(p)], self.integers(100)), len(some) - 1)]

    def random(self) -> float:
        return self.integers(100) / 100

    def normal(self) -> float:
        return self._draw(FLOATS)
