"""Where a program keeps what: regions of DRAM, lives of the tensors in them, and how full the scratchpads get.

Lives come from the words and when they ran, not from the compiler's plan. A tensor is a result that the source map
names; what an operation stores beside these is taken as it lies, merged over gaps shorter than `GAP`. It lives from its
first STORE to the end of the last LOAD that reads it before another operation overwrites it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from ..ir.arch import Arch
from ..ir.container import Base, Entry, SourceOp
from ..ir.isa import Buffer, Words
from ..ir.operands import capacities, operands
from .occupancy import by_tag
from .timing_result import Timing

Ints = npt.NDArray[np.int64]

GAP = 256  # bytes: the alignment of tensors in a region


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Region(_Model):
    """What one base register addresses."""

    name: str
    bytes: int  # as the program asks for, or as far as the entry reaches
    touched: int  # one past the last byte that a word of this entry names
    read: int  # bytes named by LOAD words
    written: int


class Life(_Model):
    """A tensor that this entry writes: bytes [offset, offset + bytes) of a region, alive in cycles [first, last)."""

    name: str  # of the tensor
    operation: str  # that writes it
    region: str
    offset: int
    bytes: int
    first: int
    last: int
    read: bool  # by a LOAD of this entry


class Fill(_Model):
    """How far words reach into a scratchpad, on the tile that reaches farthest."""

    buffer: str
    bytes: int  # of the buffer
    used: int


class MemoryMap(_Model):
    """Of one entry point. `work_peak`: bytes of WORK tensors alive together, at most."""

    regions: tuple[Region, ...]
    lives: tuple[Life, ...]
    scratchpads: tuple[Fill, ...]
    work_peak: int


class _Accesses:
    """DRAM accesses of all tiles, in the order in which they begin."""

    def __init__(self, arch: Arch, words: Sequence[Words], timing: Timing) -> None:
        columns: list[list[Ints]] = [[] for _ in range(8)]
        self.fills: dict[Buffer, int] = dict.fromkeys(capacities(arch), 0)
        for stream, t in zip(words, timing.tiles, strict=True):
            stream = stream[: len(t.engine)]
            for o in operands(stream, arch):
                if not o.dram:
                    for b in np.unique(o.buffer).tolist():
                        if b in self.fills:
                            self.fills[Buffer(b)] = max(self.fills[Buffer(b)], int(o.hi[o.buffer == b].max()))
                    continue
                i = o.index
                tag = stream["tag"][i].astype(np.int64)
                new = (o.buffer, o.lo, o.hi, tag, t.begin[i], t.issued[i], o.write.astype(np.int64), t.payload[i])
                for column, values in zip(columns, new, strict=True):
                    column.append(values)
        empty = np.zeros(0, np.int64)
        joined = [np.concatenate(c) if c else empty for c in columns]
        order = np.argsort(joined[4], kind="stable")
        self.base, self.lo, self.hi, self.tag, self.begin, self.end, write, self.payload = (c[order] for c in joined)
        self.write = write.astype(np.bool_)


def memory_map(
    arch: Arch, entry: Entry, words: Sequence[Words], timing: Timing, base_bytes: Mapping[int, int] | None = None
) -> MemoryMap:
    """Derive the map of a timed entry. `base_bytes` are the sizes of the program's regions."""
    a = _Accesses(arch, words, timing)
    sources = {s.tag: s for s in entry.sources}
    sizes = dict(base_bytes or {})
    regions, lives = [], []
    for base in sorted({*sizes, *np.unique(a.base).tolist()}):
        mine = a.base == base
        touched = int(a.hi[mine].max()) if mine.any() else 0
        name = Base(base).name if base in set(Base) else f"base {base}"
        regions.append(
            Region(
                name=name,
                bytes=sizes.get(base, touched),
                touched=touched,
                read=int(a.payload[mine & ~a.write].sum()),
                written=int(a.payload[mine & a.write].sum()),
            )
        )
        lives += _lives(a, base, name, sources)
    size = {b: arch.word_bytes.get(b.name.lower(), 1) for b in a.fills}
    capacity = capacities(arch)
    return MemoryMap(
        regions=tuple(regions),
        lives=tuple(lives),
        scratchpads=tuple(
            Fill(buffer=b.name, bytes=capacity[b] * size[b], used=n * size[b])
            for b, n in a.fills.items()
            if b != Buffer.TABLE
        ),
        work_peak=_peak([x for x in lives if x.region == Base.WORK.name]),
    )


def _lives(a: _Accesses, base: int, region: str, sources: Mapping[int, SourceOp]) -> list[Life]:
    stores, loads = (np.flatnonzero((a.base == base) & (a.write == w)) for w in (True, False))
    lo, hi, tag, begin, end = a.lo[stores], a.hi[stores], a.tag[stores], a.begin[stores], a.end[stores]
    read_lo, read_hi, read_begin, read_end = a.lo[loads], a.hi[loads], a.begin[loads], a.end[loads]
    found = []
    for t, mine in by_tag(tag):
        source = sources.get(t)
        operation = source.name if source is not None else f"tag {t}"
        for name, at, past in _tensors(source, base, lo[mine], hi[mine], operation):
            own = mine[(lo[mine] < past) & (hi[mine] > at)]
            first, final, last = int(begin[own].min()), int(begin[own].max()), int(end[own].max())
            behind = slice(int(np.searchsorted(begin, final, side="right")), None)
            others = begin[behind][(lo[behind] < past) & (hi[behind] > at) & (tag[behind] != t)]
            limit = int(others.min()) if len(others) else np.iinfo(np.int64).max
            between = slice(*np.searchsorted(read_begin, [first, limit]).tolist())
            reads = read_end[between][(read_lo[between] < past) & (read_hi[between] > at)]
            found.append(
                Life(
                    name=name,
                    operation=operation,
                    region=region,
                    offset=at,
                    bytes=past - at,
                    first=first,
                    last=max(last, int(reads.max())) if len(reads) else last,
                    read=bool(len(reads)),
                )
            )
    return sorted(found, key=lambda x: (x.first, x.offset))


def _tensors(source: SourceOp | None, base: int, lo: Ints, hi: Ints, operation: str) -> list[tuple[str, int, int]]:
    """(name, first byte, one past the last) of what an operation stores in a region."""
    found = []
    rest = np.ones(len(lo), np.bool_)
    for slot in source.outputs if source is not None else ():
        at, past = slot.offset, slot.offset + slot.bytes
        inside = (lo < past) & (hi > at)
        if slot.base == base and inside.any():
            found.append((slot.name, at, past))
            rest &= ~inside
    if rest.any():
        found += [(operation, at, past) for at, past in _merged(lo[rest], hi[rest])]
    return found


def _merged(lo: Ints, hi: Ints) -> list[tuple[int, int]]:
    """Intervals with less than `GAP` between them as one."""
    order = np.argsort(lo, kind="stable")
    lo, hi = lo[order], np.maximum.accumulate(hi[order])
    new = np.flatnonzero(np.concatenate([[True], lo[1:] - hi[:-1] >= GAP]))
    ends = np.concatenate([hi[new[1:] - 1], hi[-1:]])
    return list(zip(lo[new].tolist(), ends.tolist(), strict=True))


def _peak(lives: Sequence[Life]) -> int:
    """Most bytes alive at once."""
    changes = sorted([(x.first, 1, x.bytes) for x in lives] + [(x.last, 0, -x.bytes) for x in lives])
    alive = most = 0
    for _, _, change in changes:
        alive += change
        most = max(most, alive)
    return most
