"""The option `--parts ARCH:PART,...` of verbs that compile parts of a workload themselves."""

from __future__ import annotations

import typer


def arch_parts(text: str) -> list[tuple[str, str]]:
    """(arch, part) of each entry of the option.

    Raises:
        typer.BadParameter: an entry is not ARCH:PART, or there is no such part.
    """
    from ...codegen.estimate import PARTS

    found = []
    for entry in filter(None, map(str.strip, text.split(","))):
        arch, _, part = entry.partition(":")
        if part not in PARTS:
            raise typer.BadParameter(f"'{entry}' is no ARCH:PART; parts: {', '.join(PARTS)}", param_hint="--parts")
        found.append((arch, part))
    return found
