"""Rule 1: each operand lies inside the buffer or tensor that it means, and the record fits the words."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ...errors import DpuError
from ...ir.container import Base, Program
from ...ir.isa import Words
from ...ir.operands import capacities
from .boxes import DRAM, RANKS, Boxes
from .provenance import Meaning
from .report import HINT, Reporter


def check_objects(program: Program, meaning: Meaning, where: str) -> None:
    """Buffers lie in their scratchpads, tensors in their regions; tensors that live all the time are apart.

    Raises:
        DpuError: E361.
    """
    room = {int(b): n for b, n in capacities(program.arch).items()}
    for i, (tile, space, at, words) in enumerate(meaning.buffers.tolist()):
        if not 0 <= tile < program.arch.tiles or at < 0 or words <= 0 or at + words > room.get(space, 0):
            what = f"buffer {i}, words [{at:#x}, {at + words:#x}) of space {space} of tile {tile}, does not exist"
            raise DpuError(where, what, why=f"that space has {room.get(space, 0):#x} words", hint=HINT, code="E361")
    fixed: list[tuple[int, int, int, int]] = []
    for i, (base, first, size) in enumerate(meaning.tensors.tolist()):
        limit = program.base_bytes.get(base, 0)
        if first < 0 or size <= 0 or first + size > limit:
            what = f"{meaning.name(len(meaning.buffers) + i)} leaves its region"
            raise DpuError(where, what, why=f"that region has {limit:#x} bytes", hint=HINT, code="E361")
        if base != Base.WORK:
            fixed.append((base, first, first + size, len(meaning.buffers) + i))
    fixed.sort()
    for (base, _, end, i), (other, first, _, j) in pairwise(fixed):
        if base == other and first < end:
            what = f"{meaning.name(i)} and {meaning.name(j)} overlap"
            raise DpuError(where, what, why="both live as long as the program", hint=HINT, code="E361")


def check_record(report: Reporter, meaning: Meaning, tile: int, words: Words, b: Boxes) -> None:
    """Each word has the operands that the record describes.

    Raises:
        DpuError: E360.
    """
    record = meaning.tiles[tile]
    masks = np.zeros(len(words), np.uint16)
    np.bitwise_or.at(masks, b.word, np.uint16(1) << b.rank)
    bad = masks != record.masks
    if bad.any():
        i = int(np.argmax(bad))
        ranks = RANKS[report.opcode(tile, i)]

        def names(mask: int) -> str:
            found = [n for r, n in enumerate(ranks) if mask >> r & 1]
            found += [f"number {r}" for r in range(len(ranks), 16) if mask >> r & 1]
            return ", ".join(found) or "none"

        what = f"has the operands {names(int(masks[i]))}; meant are {names(int(record.masks[i]))}"
        raise report.error("E360", tile, i, what, "the file's record of this word is of other operands")


def check_extents(report: Reporter, meaning: Meaning, tile: int, b: Boxes) -> None:
    """Each operand lies inside the buffer or tensor that it means.

    Raises:
        DpuError: E361.
    """
    # Objects as arrays, tensors behind buffers.
    buffers, tensors = meaning.buffers.astype(np.int64), meaning.tensors
    space = np.concatenate([buffers[:, 1], tensors[:, 0] + DRAM])
    home = np.concatenate([buffers[:, 0], np.full(len(tensors), tile)])
    first = np.concatenate([buffers[:, 2], tensors[:, 1]])
    end = first + np.concatenate([buffers[:, 3], tensors[:, 2]])
    thing = meaning.tiles[tile].objects
    outside = (b.space != space[thing]) | (home[thing] != tile) | (b.lo < first[thing]) | (b.hi > end[thing])
    if outside.any():
        j = int(np.argmax(outside))
        i = int(b.word[j])
        operand = report.operand(report.opcode(tile, i), int(b.rank[j]), int(b.space[j]), int(b.lo[j]), int(b.hi[j]))
        what = f"{operand} leaves {meaning.name(int(thing[j]))}"
        raise report.error("E361", tile, i, what, "an operand lies inside the buffer or tensor that it means")
