"""What stands in place of evidence that is not there."""

from __future__ import annotations

from dataclasses import dataclass

from ...evidence import Provenance


@dataclass(frozen=True)
class Missing:
    """One thing that the page would show: why it matters, and the command that makes it."""

    what: str
    why: str
    command: str
    provenance: Provenance | None = None  # of the numbers in `why`, if it has any
