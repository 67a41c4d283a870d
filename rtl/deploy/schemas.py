"""What external commands take: options, values and positions, from the makers' documentation.

`schemas.json` has for each command its source and the day that it was read; without a day the entry is from memory,
and only in part compared with what searches show of the source (assumed). Of a command it holds what this project
uses, not all that there is: what it does not know is refused before anything runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...errors import DpuError

REST = "..."
"""The pattern of an option that takes all words that follow."""


@dataclass(frozen=True)
class Schema:
    """One command. `options`: the pattern of each one's value, None for a flag. `positional`: patterns in order."""

    source: str
    date: str
    options: Mapping[str, str | None]
    required: Sequence[str]
    positional: Sequence[str]


@cache
def schemas() -> Mapping[str, Schema]:
    """By command: the words that name it, without folders."""
    found = json.loads((Path(__file__).parent / "schemas.json").read_text())
    return {name: Schema(**fields) for name, fields in found.items()}


def name_of(argv: Sequence[str]) -> str:
    """The longest command of `schemas` that begins these words; "" if none does. `sudo` is no part of it."""
    words = [Path(argv[0]).name, *argv[1:]] if argv else []
    if words[:1] == ["sudo"]:
        return name_of(words[1:])
    names = (" ".join(words[:n]) for n in range(min(3, len(words)), 0, -1))
    return next((n for n in names if n in schemas()), "")


def check(argv: Sequence[str]) -> None:
    """Refuse a command line that the documentation does not allow.

    Raises:
        DpuError: E446, an unknown command or option, a value of another form, something missing or too much.
    """
    name = name_of(argv)
    if not name:
        raise DpuError(" ".join(argv[:3]), "no such command is known", hint="add it to schemas.json", code="E446")
    schema = schemas()[name]
    words = list(argv[1:] if argv[0] == "sudo" else argv)[len(name.split()) :]
    seen, positions = set(), []
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            positions.append(word)
            continue
        if word not in schema.options:
            raise _wrong(name, schema, f"it has no option '{word}'")
        seen.add(word)
        pattern = schema.options[word]
        if pattern == REST:
            break
        if pattern is None:
            continue
        value = words.pop(0) if words else ""
        if not re.fullmatch(pattern, value):
            raise _wrong(name, schema, f"{word} is '{value}', expected {pattern}")
    if missing := [o for o in schema.required if o not in seen]:
        raise _wrong(name, schema, f"{missing[0]} is missing")
    if len(positions) != len(schema.positional):
        raise _wrong(name, schema, f"{len(positions)} arguments, expected {len(schema.positional)}")
    for value, pattern in zip(positions, schema.positional, strict=True):
        if not re.fullmatch(pattern, value):
            raise _wrong(name, schema, f"'{value}' is no {pattern}")


def _wrong(name: str, schema: Schema, what: str) -> DpuError:
    return DpuError(
        name,
        what,
        schema.source + (f", read {schema.date}" if schema.date else ", from memory"),
        "give other values",
        code="E446",
    )
