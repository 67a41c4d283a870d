"""Functions compiled by numba: the one way in which the hot loops of this package are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def compiled(f: F) -> F:
    """Compile at first use, keep the machine code beside the file, and let other Python threads run meanwhile."""
    return cast(F, numba.njit(cache=True, nogil=True)(f))
