"""Records that a later run goes on with: only those of the same thing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel

from ..errors import DpuError


def check_same(path: Path, old: BaseModel, fresh: BaseModel, names: Iterable[str], what: str, why: str) -> None:
    """Refuse to go on with `old`, read from `path`, where one of `names` differs from what a fresh record would have.

    Raises:
        DpuError: E502, "`what` of another `name`", because of `why`.
    """
    for name in names:
        was, now = getattr(old, name), getattr(fresh, name)
        if was != now:
            raise DpuError(
                str(path),
                f"{what} of another {name} ({was!r}, now {now!r})",
                why,
                "name another file, or remove this one",
                code="E502",
            )
