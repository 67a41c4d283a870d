"""Common subexpressions and dead code."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.traits import Pure

from ..ir.locations import fuse


@dataclass(frozen=True)
class MergeDuplicates(ModulePass):
    """Compute equal values once; remove operations that nobody reads."""

    name = "merge-duplicates"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.ops:
            for region in func.regions:
                for block in region.blocks:
                    merge(block)
                    remove_dead(block)


def merge(block: Block) -> None:
    """Redirect readers of an operation to the first equal one; that one's location names the nodes of all."""
    first: dict[object, Operation] = {}
    for op in list(block.ops):
        if op.regions or not op.has_trait(Pure):
            continue
        properties = tuple(sorted({**op.properties, **op.attributes}.items(), key=lambda kv: kv[0]))
        key = (op.name, tuple(op.operands), tuple(op.result_types), tuple(properties))
        kept = first.setdefault(key, op)
        if kept is not op:
            kept.location = fuse(kept.location, op.location)
            for old, new in zip(op.results, kept.results, strict=True):
                old.replace_all_uses_with(new)
            op.detach()
            op.erase()


def remove_dead(block: Block) -> None:
    """Remove side-effect free operations without a reader, from the last to the first."""
    for op in reversed(list(block.ops)):
        if op.has_trait(Pure) and not any(True for r in op.results for _ in r.uses):
            op.detach()
            op.erase()
