"""Options that take several values: names with commas between them, NAME=VALUE pairs."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import DpuError


def names(text: str) -> tuple[str, ...]:
    """The words of an option, with commas between them; none of an empty one."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def pairs(option: str, given: Sequence[str] | None) -> dict[str, str]:
    """The pairs of a repeatable option.

    Raises:
        DpuError: one is no NAME=VALUE.
    """
    found = {}
    for text in given or ():
        name, sign, value = text.partition("=")
        if not (name and sign and value):
            raise DpuError(option, f"'{text}' is no NAME=VALUE", code="E501")
        found[name] = value
    return found
