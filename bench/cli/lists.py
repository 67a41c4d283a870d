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


def precisions(text: str) -> tuple[str, ...]:
    """The names of `--precisions`.

    Raises:
        DpuError: it names none.
    """
    if not (found := names(text)):
        raise DpuError("--precisions", "names none", hint="such as --precisions w8a8,w4a8", code="E501")
    return found


def step_counts(text: str) -> tuple[int, ...]:
    """The numbers of `--steps`, each once.

    Raises:
        DpuError: they are none.
    """
    try:
        return tuple(dict.fromkeys(int(n) for n in text.split(",")))
    except ValueError as e:
        raise DpuError("--steps", f"'{text}' are no numbers", hint="such as --steps 20,30,50", code="E501") from e
