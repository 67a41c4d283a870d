"""Operations of a program by a glob over their names, their ONNX nodes and their tensors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from ..errors import DpuError
from ..ir.container import Entry, Program, SourceOp


def split_entry(program: Program, pattern: str) -> tuple[list[Entry], str]:
    """`unet:/conv_in*` as the entries it is about and the rest; without a known entry before the colon, all entries."""
    head, colon, rest = pattern.partition(":")
    named = [e for e in program.entries if fnmatchcase(e.name, head)] if colon else []
    return (named, rest) if named else (program.entries, pattern)


def matches(source: SourceOp, glob: str) -> bool:
    """Whether the name of an operation, one of its nodes or one of its tensors matches."""
    return any(fnmatchcase(n, glob) for n in (source.name, *source.nodes, *(s.name for s in source.outputs)))


def matching(program: Program, option: str, patterns: Iterable[str]) -> list[tuple[Entry, SourceOp]]:
    """The operations that any of the patterns matches, in program order.

    Raises:
        DpuError: a pattern matches none.
    """
    found: set[tuple[str, int]] = set()
    for pattern in patterns:
        entries, glob = split_entry(program, pattern)
        hit = {(e.name, s.tag) for e in entries for s in e.sources if s.tag and matches(s, glob)}
        if not hit:
            near = difflib.get_close_matches(glob, list(dict.fromkeys(_names(entries))), 3, 0.3)
            hint = f"such as {', '.join(near)}" if near else "dpuc dis names the operation of each word"
            raise DpuError(f"{option} {pattern}", "matches no operation, node or tensor", hint=hint, code="E501")
        found |= hit
    return [(e, s) for e in program.entries for s in e.sources if (e.name, s.tag) in found]


def _names(entries: Iterable[Entry]) -> Iterator[str]:
    for e in entries:
        for s in e.sources:
            yield from (s.name, *s.nodes)
