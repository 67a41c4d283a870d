"""Run attention whose exponentials take longer than its products under the matrix work of the other stream.

With few lanes (`tiling.vector_bound`) the vector unit takes twice as long for a block of scores as the array for both
products with it. In lock-step both streams are in attention together and the array waits. So:

    before   linear.0   linear.1            centre.0 centre.1   attention.0           attention.1             next.0
    after    linear.0   linear.1 first part, centre.0 | attention.0 with the rest of linear.1, centre.1
                        attention.1 with next.0 first part | next.0 last part with the prologue of next.1

Parts are sections (`Emitter.cut`): in attention a turn, in a linear a product and an epilogue. Of both, the next one is
the linear's while the array has less to do than the vector unit. An array in order must not be kept from the next block
of scores for long, so there a linear's products are no longer than the exponentials of a block (`linear_blocks`).

Words stay as they are, only their order changes, and only where what changes places has nothing to do with each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ..ir import cost
from ..ir.arch import Arch, load_arch
from ..ir.isa import DTYPE, Opcode, Words
from ..ir.tile import ProgramOp
from ..ir.tile_program import Instr, Section, TileProgram, uncollected
from .overlap_prologues import Group, conflict
from .plan_scratchpad import fits
from .text_form import rewrite
from .tiling import cdiv, vector_bound

SUMS = 0.1
"""The part of a linear behind which values are centred, with sums of all tiles, which should be there by then."""
BEGIN = 0.15
"""The part of a linear behind which the other stream's attention begins, whose keys and values come from all tiles."""
KEEP = 0.33
"""The part of the linear behind an attention that stays behind it: the other stream's prologue runs under it."""
LEAD = 3
"""Turns of an attention before the prologue of the linear under it, which reads what the last attention stored."""


@dataclass(frozen=True)
class WeaveAttention(ModulePass):
    """Run attention that keeps the vector unit busy under the other stream's matrix work."""

    name = "weave-attention"

    arch: str = "dpu_tiny"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        arch = load_arch(self.arch)
        if not vector_bound(arch):  # reading and writing the text takes longer than the pass
            return
        for program in [p for p in op.ops if isinstance(p, ProgramOp)]:
            rewrite(program, lambda p: weave(p, arch))


def worthwhile(arch: Arch, scores: int, product: int, cycles: int) -> bool:
    """Whether attention whose blocks have so many ACC words of scores gains under a linear whose longest product has so
    many, and takes so many cycles.

    While the array is at that product the vector unit needs a block of scores to work at. Two blocks of scores and
    three products must leave so much of ACC that its ring has a gap for each, since a buffer begins at a bank.
    """
    long_enough = scores * cdiv(arch.cols, arch.lanes) >= cycles
    return long_enough and 2 * scores + 3 * product <= arch.words["acc"] * 5 // 8


@uncollected()
def weave(program: TileProgram, arch: Arch) -> None:
    """Reorder the sections of one program in place; not at all where buffers would not fit their scratchpads then."""
    if not vector_bound(arch):
        return
    before = program.sections
    program.sections = _Weaver(list(before), arch).run()
    if not fits(program, arch):
        program.sections = before


Chunk = list[Section]
"""The n-th sections of all tiles."""


class _Weaver:
    """A program's sections, and where those of each operation are."""

    def __init__(self, sections: list[Section], arch: Arch) -> None:
        self.sections, self.arch = sections, arch
        self.tag = np.array([s.tag for s in sections], np.int64)
        self.stream = np.array([s.stream for s in sections], np.int64)
        self.main = np.array([s.phase == "main" for s in sections], np.bool_)

    def run(self) -> list[Section]:
        """The sections in their new order."""
        for tag in self._attentions():
            self._under_linear_before(tag)
            self._under_linear_behind(tag)
        return self.sections

    def _attentions(self) -> list[int]:
        """Tags of operations whose first product takes row maxima: scores."""
        found: dict[int, bool] = {}
        for section in self.sections:
            if section.tag not in found:
                first = next(_products([section]), None)
                if first is not None:
                    found[section.tag] = "rowmax_at" in first.roles
        return [tag for tag, is_attention in found.items() if is_attention]

    def _first(self, tag: int) -> npt.NDArray[np.int64]:
        """Where the sections of an operation's first unit are, in stream 0."""
        found = np.flatnonzero((self.tag == tag) & (self.stream == 0))
        behind = np.flatnonzero((self.tag == tag) & (self.stream == 1) & self.main)
        return found[found < behind[0]] if len(behind) else found

    def _last(self, tag: int) -> npt.NDArray[np.int64]:
        """Where the main sections of its last unit are, in stream 1."""
        found = np.flatnonzero((self.tag == tag) & (self.stream == 1) & self.main)
        before = np.flatnonzero((self.tag == tag) & (self.stream == 0) & self.main)
        return found[found > before[-1]] if len(before) else found

    def _under_linear_before(self, tag: int) -> None:
        mine = self._first(tag)
        n = int(mine[0]) if len(mine) else 0
        while n > 0 and not (self.tag[n] != tag and self.main[n] and next(_products([self.sections[n]]), None)):
            n -= 1
        last = self.sections[n]
        if last.stream != 1 or last.tag == tag:
            return
        key = (last.tag, 1, last.step, "main")
        lo = next(i for i in np.flatnonzero(self.tag == last.tag) if _key(self.sections[i]) == key)
        parts = _Parts(self.sections[lo : mine[-1] + 1], tag, key, 0)
        if not self._pays(parts) or not parts.independent():
            return
        linear, attention = _chunks(parts.linear), _chunks(parts.attention)
        first = round(SUMS * len(linear)) if parts.same else 0
        begin = max(first, round(BEGIN * len(linear)))
        order = [*_flat(linear[:first]), *parts.same, *_flat(linear[first:begin])]
        merged = self._merged(attention, linear[begin:])
        tail = next((n for n, (is_linear, _) in reversed([*enumerate(merged)]) if is_linear), -1)
        order += _flat(chunk for _, chunk in merged[: tail + 1])
        rest = [chunk for _, chunk in merged[tail + 1 :]]
        order += [*parts.other, *_flat(rest[:-1]), *parts.next, *_flat(rest[-1:])]
        self._put(int(lo), order)

    def _under_linear_behind(self, tag: int) -> None:
        mine = self._last(tag)
        if not len(mine):
            return
        n = int(mine[-1]) + 1
        while n < len(self.sections) and not (self.main[n] and next(_products([self.sections[n]]), None)):
            n += 1
        if n == len(self.sections) or self.sections[n].stream != 0:
            return
        key = _key(self.sections[n])
        hi = next(i for i in np.flatnonzero(self.tag == key[0])[::-1] if _key(self.sections[i]) == key)
        parts = _Parts(self.sections[mine[0] : hi + 1], tag, key, 1)
        if not parts.prologue or parts.other or not self._pays(parts) or not parts.independent():
            return
        attention, linear, prologue = (_chunks(p) for p in (parts.attention, parts.linear, parts.prologue))
        until = len(linear) - round(KEEP * len(linear))
        order = _flat(attention[:LEAD])
        attention = attention[LEAD:]
        for turn in prologue:
            order += [*_flat([turn]), *_flat(attention[:1])]
            attention = attention[1:]
        order += _flat(chunk for _, chunk in self._merged(attention, linear[:until]))
        late, waiting = linear[until:], _chunks(parts.same)
        for n, chunk in enumerate(late):
            due = waiting[(n - 1) * len(waiting) // len(late) : n * len(waiting) // len(late)] if n else []
            order += [*_flat(due), *chunk]
        order += _flat(waiting[(len(late) - 1) * len(waiting) // len(late) :] if late else waiting)
        self._put(int(mine[0]), order)

    def _pays(self, parts: _Parts) -> bool:
        """Whether it is `worthwhile`, by the longest products of both."""
        scores, product = (
            max((_size(self.arch, p) for p in _products(part)), default=(0, 0))
            for part in (parts.attention, parts.linear)
        )
        return worthwhile(self.arch, scores[0], *product)

    def _merged(self, attention: Sequence[Chunk], linear: Sequence[Chunk]) -> list[tuple[bool, Chunk]]:
        """Both in one order: the linear's next while the array has less to do than the vector unit. The first is one
        of the attention's, whose end comes last."""
        work = [_work(self.arch, part) for part in (attention, linear)]
        order: list[tuple[bool, Chunk]] = []
        at, ahead = [0, 0], 0
        while at[0] < len(attention) or at[1] < len(linear):
            turn = int(at[1] < len(linear) and (at[0] == len(attention) or (at[0] > 0 and ahead > 0)))
            order.append((turn == 1, (attention, linear)[turn][at[turn]]))
            ahead += int(work[turn][at[turn]])
            at[turn] += 1
        return order

    def _put(self, lo: int, order: list[Section]) -> None:
        span = slice(lo, lo + len(order))
        self.sections[span] = order
        self.tag[span] = [s.tag for s in order]
        self.stream[span] = [s.stream for s in order]
        self.main[span] = [s.phase == "main" for s in order]


Key = tuple[int, int, int, str]


def _key(section: Section) -> Key:
    return section.tag, section.stream, section.step, section.phase


class _Parts:
    """The sections of a window: an attention's of one stream and a linear's of the other, and what is between them."""

    def __init__(self, window: Sequence[Section], tag: int, linear: Key, stream: int) -> None:
        self.attention: list[Section] = []
        self.linear: list[Section] = []
        self.prologue: list[Section] = []  # of the linear
        self.same: list[Section] = []  # what else there is of the attention's stream, or of the linear's
        self.other: list[Section] = []
        self.next: list[Section] = []  # of the attention, in the other stream
        for s in window:
            if s.tag == tag:
                (self.attention if s.stream == stream else self.next).append(s)
            elif _key(s) == linear:
                self.linear.append(s)
            elif s.tag == linear[0] and s.stream == linear[1]:
                self.prologue.append(s)
            else:
                (self.same if s.stream == stream else self.other).append(s)

    def independent(self) -> bool:
        """Whether no stream's sections have to do with the other's."""
        mine = _group([*self.attention, *self.same])
        theirs = _group([*self.linear, *self.prologue, *self.other, *self.next])
        used = (mine.reads | mine.writes | mine.made, theirs.reads | theirs.writes | theirs.made)
        if not mine.writes.isdisjoint(used[1]) or not theirs.writes.isdisjoint(used[0]):
            return False
        return not (
            conflict(mine.loads, theirs.stores)
            or conflict(theirs.loads, mine.stores)
            or conflict(mine.stores, theirs.stores)
        )


def _group(sections: Iterable[Section]) -> Group:
    group = Group((0, 0, 0, "main"))
    for section in sections:
        group.add(section)
    return group


def _chunks(sections: Sequence[Section]) -> list[Chunk]:
    """The first of each tile, then the second of each, and so on."""
    by_tile: dict[int, list[Section]] = {}
    for s in sections:
        by_tile.setdefault(s.tile, []).append(s)
    most = max((len(of) for of in by_tile.values()), default=0)
    return [[of[n] for of in by_tile.values() if n < len(of)] for n in range(most)]


def _flat(chunks: Iterable[Chunk]) -> list[Section]:
    return list(chain.from_iterable(chunks))


def _products(sections: Iterable[Section]) -> Iterator[Instr]:
    return (op for s in sections for op in s.ops if isinstance(op, Instr) and op.opcode == Opcode.MM)


def _size(arch: Arch, product: Instr) -> tuple[int, int]:
    """ACC words of a product, and its cycles as in `cost.mm_stream`."""
    f = product.fields
    rows = f["nx"] * f["ny"]
    return f["nn"] * rows, f["nn"] * f["nc"] * f["nkx"] * f["nky"] * max(rows, arch.rows)


def _work(arch: Arch, chunks: Sequence[Chunk]) -> npt.NDArray[np.int64]:
    """Cycles of the vector unit minus those of the array, of the first tile of each chunk."""
    found = np.zeros(len(chunks), np.int64)
    for opcode, sign in ((Opcode.VEC, 1), (Opcode.MM, -1)):
        at: list[int] = []
        which: list[int] = []
        words: dict[tuple[int, int], tuple[int, Instr]] = {}  # equal values are one object
        for n, chunk in enumerate(chunks):
            for op in chunk[0].ops:
                if isinstance(op, Instr) and op.opcode == opcode:
                    at.append(n)
                    which.append(words.setdefault((id(op.names), id(op.values)), (len(words), op))[0])
        records = _records(opcode, [op for _, op in words.values()])
        cycles = cost.vec_occupancy(arch, records) if opcode == Opcode.VEC else cost.mm_occupancy(arch, records)
        np.add.at(found, at, sign * cycles[which])
    return found


def _records(opcode: Opcode, words: Sequence[Instr]) -> Words:
    """Words with the fields that costs depend on: neither addresses nor immediates."""
    records: Words = np.zeros(len(words), DTYPE[opcode])
    for n, word in enumerate(words):
        for name, value in zip(word.names, word.values, strict=True):
            if name not in word.roles and name != "imm":
                records[name][n] = value
    return records
