"""Locations: which ONNX nodes an operation came from, kept through every rewrite.

xDSL gives the operations of a rewrite an unknown location. Patterns here derive from `LocatedPattern`, whose `replace`
gives new operations the fused locations of what they replace.
"""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

UNKNOWN: LocationAttr = UnknownLoc()


def node_loc(file: str, node: str) -> NameLoc:
    """The location of one ONNX node: `loc("/conv_in/Conv"("unet.onnx":0:0))`."""
    return NameLoc(StringAttr(node), FileLineColLoc(StringAttr(file), IntAttr(0), IntAttr(0)))


def fuse(*locations: Attribute) -> LocationAttr:
    """One location for an operation that stands for several; each part once, in order of first appearance."""
    parts: dict[Attribute, None] = {}
    for location in locations:
        parts.update((p, None) for p in _parts(location) if not isinstance(p, UnknownLoc))
    if not parts:
        return UNKNOWN
    if len(parts) == 1:
        (only,) = parts
        return cast(LocationAttr, only)
    return FusedLoc(ArrayAttr(list(parts)), NoneAttr())


def name_hint(name: str) -> str:
    """A name as xDSL accepts it for a value: letters, digits, underscores."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"_{plain}" if plain[:1].isdigit() else plain or "_"


def nodes_of(op: Operation) -> tuple[str, ...]:
    """The names of the ONNX nodes an operation came from."""
    return tuple(p.desc.data for p in _named(op))


def _named(op: Operation) -> list[NameLoc]:
    return [p for p in _parts(op.location) if isinstance(p, NameLoc)]


def _parts(location: Attribute) -> tuple[Attribute, ...]:
    return tuple(cast(ArrayAttr[Attribute], location.locations)) if isinstance(location, FusedLoc) else (location,)


def where(op: Operation) -> str:
    """How an error names an operation: `unet.onnx: node '/conv_in/Conv'`, or its IR name when it has no node."""
    nodes = nodes_of(op)
    if not nodes:
        return f"operation '{op.name}'"
    file = next((p.location.filename.data for p in _named(op) if isinstance(p.location, FileLineColLoc)), "graph")
    more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    return f"{file}: node '{nodes[-1]}'{more}"


class LocatedPattern(RewritePattern, ABC):
    """A rewrite pattern that keeps locations: use its `replace` instead of the rewriter's."""

    def replace(
        self,
        rewriter: PatternRewriter,
        op: Operation,
        new_ops: Operation | Sequence[Operation],
        new_results: Sequence[SSAValue | None] | None = None,
        absorbed: Sequence[Operation] = (),
    ) -> None:
        """Replace `op` by `new_ops`, whose meaning includes `absorbed`; absorbed operations without a use go too.

        List `absorbed` from producer to consumer.
        """
        new = [new_ops] if isinstance(new_ops, Operation) else list(new_ops)
        location = fuse(*(a.location for a in absorbed), op.location)
        for each in new:
            if isinstance(each.location, UnknownLoc):
                each.location = location
        rewriter.replace(op, new, new_results)
        for each in reversed(absorbed):
            if each.parent is not None and not any(r.uses for r in each.results):
                rewriter.erase(each)
