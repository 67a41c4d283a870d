"""What quantisation takes from calibration and makes beside the graph: statistics, and parameters of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .weights import SCALES

F32 = npt.NDArray[np.float32]


class Statistics(Protocol):
    """What `Calibration` offers; see `passes/calibration.py`."""

    def __contains__(self, key: object) -> bool: ...
    def absmax(self, key: str) -> float: ...
    def channel_absmax(self, key: str) -> F32: ...
    def centred_absmax(self, key: str) -> F32: ...
    def gram(self, key: str) -> Callable[[], F32] | None: ...


@dataclass(frozen=True)
class Folded:
    """A parameter times a factor for each column, or of another shape that broadcasts: made when it is read."""

    source: str
    transform: tuple[str, ...]
    factor: F32

    def read(self, fetch: Callable[[str, tuple[str, ...]], npt.NDArray[Any]]) -> F32:
        """The parameter in float32, multiplied."""
        return np.asarray(fetch(self.source, self.transform)).astype(np.float32) * self.factor

    def part(self, fetch: Callable[[str, tuple[str, ...]], npt.NDArray[Any]], which: str) -> npt.NDArray[Any]:
        """Integers or scales of a parameter that is stored as int8: the factor belongs to the scales."""
        found = np.asarray(fetch(self.source, (which, *self.transform)))
        return found * self.factor if which == SCALES else found


DERIVED = "derived::"
"""Prefix of the sources of parameters that quantisation makes; the part's name follows, then `::`."""

Derived = dict[str, "F32 | Folded | Callable[[], F32]"]
"""Parameters that quantisation makes, by source: there already, from another one, or read when they are needed."""


def fetcher(
    fetch: Callable[[str, tuple[str, ...]], npt.NDArray[Any]], derived: Derived
) -> Callable[[str, tuple[str, ...]], npt.NDArray[Any]]:
    """`fetch` extended by the parameters in `derived`."""

    def read(source: str, transform: tuple[str, ...]) -> npt.NDArray[Any]:
        found = derived.get(source)
        if found is None:
            return fetch(source, transform)
        if not isinstance(found, Folded):
            return found() if callable(found) else found
        return found.part(read, transform[0]) if transform else found.read(read)

    return read
