"""What each operand means: the buffer or DRAM tensor it lies in and, if it is read, the words that wrote it.

Derived where addresses do not exist yet: every buffer and every DRAM tensor has memory of its own, words are encoded
relative to them, and the tile program is executed in the order in which the lowering wrote it, before any pass
moved a section. So neither the address planners, nor the scheduler, nor the semaphores have a say in it. The record
travels in `Program.tables`, and the verifier holds the finished words against it.

    verify/<entry>/buffers      i32 [b, 4]   on-chip buffers: tile, space, first word, words
    verify/<entry>/tensors      i64 [t, 3]   DRAM tensors: base register, first byte, bytes
    verify/<entry>/names        u8           JSON: the tensors' names
    verify/<entry>/lists        i32 [k]      distinct lists of writers, one behind the other
    verify/<entry>/ends         i32 [l]      where each list ends
    verify/<entry>/outputs      i32 [o]      of each output of the entry, the list of words that leave it
    verify/<entry>/<tile>/masks     u16 [n]  of each word, the ranks of its operands (`boxes.RANKS`)
    verify/<entry>/<tile>/objects   [m]      of each operand, its buffer, or b + its tensor
    verify/<entry>/<tile>/writers   [m]      of each operand, its list; 0 is the empty list

Writers are word numbers counted through the entry's streams, tile after tile; `HOST` is the host, before the entry.
In `lists` they are relative to the reading word (its own number minus the writer's), which makes the rounds of a loop
equal; those of outputs count from 0. Constants have no list: nothing writes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import DpuError
from ...ir.arch import Arch
from ...ir.container import Base, Program, Slot
from ...ir.isa import DMA, Buffer, Opcode, Words
from ...ir.tile_program import Dram
from ..encode import Encoded
from .boxes import DRAM, RANKS, Boxes, Ints, boxes, coarse, tables
from .last_writers import execute

Place = tuple[int, int, tuple[int, ...] | None, tuple[int, ...]]
"""(first cell, one past the last, shape or None for one run, strides in bytes of 4 a cell)."""

HOST = -1
NOBODY = -2
HOST_FAR = np.iinfo(np.int32).max  # HOST in a list

_ROLES = {
    Opcode.LOAD: {"dst": "sram", "src": "dram"},
    Opcode.STORE: {"src": "sram", "dst": "dram"},
    Opcode.MM: {},
    Opcode.VEC: {"table": "func"},
}


@dataclass(frozen=True)
class Tile:
    """The record of one stream. Rows of `objects` and `writers` are operands, sorted by word and rank."""

    masks: npt.NDArray[np.uint16]
    objects: npt.NDArray[np.int32]
    writers: npt.NDArray[np.int32]


@dataclass(frozen=True)
class Meaning:
    """The record of one entry."""

    buffers: npt.NDArray[np.int32]
    tensors: npt.NDArray[np.int64]
    names: list[str]
    lists: list[tuple[int, ...]]  # relative, as stored
    outputs: list[tuple[int, ...]]  # word numbers
    tiles: list[Tile]

    def expected(self, which: int, word: int) -> tuple[int, ...]:
        """The writers of list `which` for the word with number `word`, ascending."""
        far = self.lists[which]
        if len(far) == 1:
            return (HOST if far[0] == HOST_FAR else word - far[0],)
        return tuple(sorted(HOST if d == HOST_FAR else word - d for d in far))

    def name(self, thing: int) -> str:
        """An object as messages call it."""
        if thing < len(self.buffers):
            tile, space, at, words = self.buffers[thing].tolist()
            return f"buffer {thing} ({Buffer(space).name} words [{at:#x}, {at + words:#x}) of tile {tile})"
        base, first, size = self.tensors[thing - len(self.buffers)].tolist()
        name = self.names[thing - len(self.buffers)]
        return f"tensor '{name}' (bytes [{first:#x}, {first + size:#x}) of base register {base})"


class _Lists:
    """Lists of writers, each kept once; number 0 is the empty one."""

    def __init__(self) -> None:
        self.number: dict[tuple[int, ...], int] = {(): 0}

    def add(self, one: tuple[int, ...]) -> int:
        return self.number.setdefault(one, len(self.number))

    def tables(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        flat = [x for one in self.number for x in one]
        return np.array(flat, np.int32), np.cumsum([len(one) for one in self.number], dtype=np.int32)


def content(slot: Slot, size: int) -> Place:
    """The cells of a tensor's elements, padding of rows left out, in granules of `size` bytes."""
    item = {"f16": 2, "f32": 4, "i8": 1, "i32": 4}[slot.dtype]
    rows, run = slot.shape[0] * slot.shape[1], -(-slot.shape[2] * item // size)
    lo, step = slot.offset // size, slot.row_bytes // size
    if step <= run or rows == 1:
        return lo, lo + (rows - 1) * step + run, None, ()
    return lo, lo + (rows - 1) * step + run, (rows, run), (4 * step, 4)


def fences(words: Words) -> npt.NDArray[np.bool_]:
    """Which words only order others: DMA words that move nothing."""
    dma = np.isin(words["opcode"], (int(Opcode.LOAD), int(Opcode.STORE)))
    return np.asarray(dma & (words.view(DMA)["inner"] == 0))


@dataclass
class Source:
    """One entry before anything has an address.

    `written` are the words, (tile, index) as encoded, in the order in which the lowering wrote them; `tensors` are
    those of the program.
    """

    written: npt.NDArray[np.int32]
    tensors: Sequence[Dram]
    encoded: Encoded
    inputs: Sequence[Dram]
    outputs: Sequence[Dram]


def record(
    entry: str, source: Source, arch: Arch, final: list[Words], drams: Mapping[Dram, tuple[int, int]]
) -> dict[str, npt.NDArray[np.generic]]:
    """The tables of one entry. `final` are the finished streams, `drams` where the tensors were put.

    Raises:
        DpuError: E361, an operation leaves its buffer or tensor. That is a fault of the lowering.
    """
    encoded, buffers, tensors = source.encoded, source.encoded.buffers, source.tensors
    number = {d: len(buffers) + i for i, d in enumerate(tensors)}

    moved = []  # of each word as scheduled, its number in the finished streams
    first = 0
    for old, new in zip(encoded.relative, final, strict=True):
        kept = np.flatnonzero(~fences(new))
        assert len(kept) == len(old), "words were added that are no fences"
        moved.append(first + kept)
        first += len(new)

    streams, objects = [], []
    rows = np.array([d.row_bytes for d in tensors], np.int64)
    size = np.concatenate([np.full(len(buffers), 64), np.gcd(64, rows), [64]])
    for t, words_ in enumerate(encoded.relative):
        streams.append(boxes(words_, arch))
        objects.append(_objects(encoded, t, streams[-1]))
        _granules(streams[-1], objects[-1], size)
    streams = [coarse(b, size[thing]) for b, thing in zip(streams, objects, strict=True)]
    bytes_ = np.array([_tensor_bytes(d) for d in tensors], np.int64)
    extent = np.concatenate([buffers[:, 3], -(-bytes_ // size[len(buffers) : -1]), [0]]).astype(np.int64)
    for t, (b, thing) in enumerate(zip(streams, objects, strict=True)):
        bad = (b.lo < 0) | (b.hi > extent[thing])
        if bad.any():
            i = int(np.argmax(bad))
            word = encoded.relative[t][int(b.word[i])]
            opcode = Opcode(int(word["opcode"]))
            raise DpuError(
                f"entry '{entry}', tile {t}, word {int(moved[t][b.word[i]])} ({opcode.name}, tag {int(word['tag'])})",
                f"operand '{RANKS[opcode][int(b.rank[i])]}' touches [{int(b.lo[i])}, {int(b.hi[i])}) of an object of "
                f"{int(extent[thing[i]])} words or granules of {int(size[thing[i]])} bytes",
                why="the lowering wrote an operand that leaves its buffer or tensor, or that has none",
                code="E361",
            )

    words = sum(map(len, final))
    host = {number[d] for d in source.inputs if d in number}
    constant = {number[d] for d in tensors if d.kind == "const"}
    outputs = [(number[d], content(_slot(d), int(size[number[d]]))) for d in source.outputs]
    flat, ends, writers, left = _last_writers(
        source.written, streams, objects, moved, words, extent, host, constant, outputs
    )
    base = {"const": Base.CONST, "work": Base.WORK, "state": Base.STATE, "io": Base.IO}
    out: dict[str, npt.NDArray[np.generic]] = {
        "buffers": buffers,
        "tensors": np.array([(base[d.kind], drams[d][1], _tensor_bytes(d)) for d in tensors], np.int64).reshape(-1, 3),
        "names": np.frombuffer(json.dumps([d.name for d in tensors]).encode(), np.uint8),
        "lists": flat,
        "ends": ends,
        "outputs": np.array(left, np.int32),
    }
    for t, (b, thing) in enumerate(zip(streams, objects, strict=True)):
        masks = np.zeros(len(final[t]), np.uint16)
        start = sum(map(len, final[:t]))
        np.bitwise_or.at(masks, moved[t][b.word] - start, np.uint16(1) << b.rank)
        out |= {f"{t}/masks": masks, f"{t}/objects": _small(thing), f"{t}/writers": _small(writers[t])}
    return {f"verify/{entry}/{k}": v for k, v in out.items()}


def _granules(b: Boxes, thing: npt.NDArray[np.int32], size: Ints) -> None:
    """Make `size`, of each object a power of two of bytes, one on which all operands of a stream start and step."""
    far = np.flatnonzero(b.space >= DRAM)
    np.gcd.at(size, thing[far], b.lo[far])
    strides, counts = b.steps[b.shape[far]], b.extents[b.shape[far]]
    for level in range(1, counts.shape[1]):
        steps = counts[:, level] > 1
        np.gcd.at(size, thing[far[steps]], strides[steps, level])


def _small(x: npt.NDArray[Any]) -> npt.NDArray[np.generic]:
    """The same numbers in the narrowest unsigned type."""
    top = int(x.max(initial=0))
    return x.astype(np.uint8 if top < 1 << 8 else np.uint16 if top < 1 << 16 else np.uint32)


def _tensor_bytes(d: Dram) -> int:
    return d.shape[0] * d.shape[1] * d.row_bytes


_RANKS_OF = {
    opcode: {
        role: [k for k, name in enumerate(names) if name in (_ROLES[opcode].get(role, role), f"{role}, last tile")]
        for role in (*names, *_ROLES[opcode])
    }
    for opcode, names in RANKS.items()
    if opcode in _ROLES
}
"""Ranks of the boxes that an operand of a role has."""


def _objects(encoded: Encoded, tile: int, b: Boxes) -> npt.NDArray[np.int32]:
    """The object of each operand of a tile; -1, the last one, of size zero, where the operation names none."""
    ranks = 16
    places = np.full(len(encoded.relative[tile]) * ranks, -1, np.int32)
    for o in encoded.operands[tile]:
        for rank in _RANKS_OF[o.opcode][o.role]:
            places[o.indices * ranks + rank] = o.objects
    return np.asarray(places[b.word * ranks + b.rank])


def _slot(d: Dram) -> Slot:
    return Slot(name="", base=0, offset=0, row_bytes=d.row_bytes, dtype=d.dtype, shape=d.shape)  # type: ignore[arg-type]


def _last_writers(
    order: npt.NDArray[np.int32],
    streams: list[Boxes],
    objects: list[npt.NDArray[np.int32]],
    moved: list[Ints],
    words: int,
    extent: Ints,
    host: set[int],
    constant: set[int],
    outputs: list[tuple[int, Place]],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], list[npt.NDArray[np.int32]], list[int]]:
    """Execute the words in `order`, (tile, index): all lists, one behind the other, where each ends, the list of each
    operand, and that of each output at the end.

    Looking at the outputs is one more word, behind all others.
    """
    steps, extents, begins = tables(streams)
    shapes: list[npt.NDArray[Any]] = [b.shape + begin for b, begin in zip(streams, begins, strict=True)]
    last_counts = np.ones((len(outputs), steps.shape[1]), np.int64)
    last_strides = np.zeros((len(outputs), steps.shape[1]), np.int64)
    for i, (_, (low, high, shape, strides)) in enumerate(outputs):
        last_counts[i, 0], last_strides[i, 0] = high - low, 1
        if shape is not None:
            last_counts[i, :2], last_strides[i, 1] = shape[::-1], strides[0] // 4
    shapes.append(len(steps) + np.arange(len(outputs)))
    first = np.cumsum([0, *(len(m) for m in moved)])
    number = np.concatenate([*moved, [words]])
    rows_of = [np.searchsorted(b.word, np.arange(len(m) + 1)) for b, m in zip(streams, moved, strict=True)]
    offset = np.cumsum([0, *(len(b) for b in streams)])
    rows = np.concatenate([r[:-1] + o for r, o in zip(rows_of, offset, strict=False)])
    rows = np.concatenate([rows, offset[-1:], offset[-1:] + len(outputs)])
    thing = np.concatenate([*objects, [x for x, _ in outputs]]).astype(np.int32)
    tile, index = order.T
    run = np.concatenate([first[tile] + index, first[-1:]])
    position = np.zeros(len(number), np.int32)  # END is not executed and has no operands
    position[run] = np.arange(len(run))
    last = np.zeros(len(extent), np.int32)
    np.maximum.at(last, thing, np.repeat(position, np.diff(rows)))
    initial = np.full(len(extent), NOBODY, np.int32)
    initial[list(host)] = HOST
    skipped = np.zeros(len(extent), np.bool_)
    skipped[list(constant)] = True
    yes = np.ones(len(outputs), np.bool_)
    which, flat, ends = execute(
        run,
        rows,
        thing,
        np.concatenate([*(b.lo for b in streams), [p[0] for _, p in outputs]]).astype(np.int64),
        np.concatenate(shapes).astype(np.int32),
        np.concatenate([extents, last_counts]),
        np.concatenate([steps, last_strides]),
        np.concatenate([*(b.read for b in streams), yes]),
        np.concatenate([*(b.write for b in streams), ~yes]),
        number,
        extent,
        initial,
        skipped,
        last,
        words + 1,
        HOST,
        HOST_FAR,
    )
    # Numbered in order of appearance.
    operands = int(offset[-1])
    appears = np.full(len(ends), operands, np.int64)
    appears[which[:operands][::-1]] = np.arange(operands - 1, -1, -1)
    appears[0] = -1
    kept = np.argsort(appears, kind="stable")[: int((appears < operands).sum())]
    length = np.diff(ends, prepend=0)
    lists: list[npt.NDArray[Any]] = []
    for z, n in zip(ends[kept].tolist(), length[kept].tolist(), strict=True):
        lists.append(flat[z - n : z])
    renumbered = np.zeros(len(ends), np.int32)
    renumbered[kept] = np.arange(len(kept))
    left = []
    for one in which[operands:].tolist():  # these are of word numbers, not of distances
        far = flat[ends[one] - length[one] : ends[one]]
        writers = np.sort(np.where(far == HOST_FAR, HOST, words - far)).astype(np.int32)
        same = (i for i, other in enumerate(lists) if len(other) == len(writers) and (other == writers).all())
        left.append(next(same, len(lists)))
        if left[-1] == len(lists):
            lists.append(writers)
    return (
        np.concatenate(lists),
        np.cumsum([len(one) for one in lists], dtype=np.int32),
        np.split(renumbered[which[:operands]], offset[1:-1]),
        left,
    )


def meaning(program: Program, entry: str) -> Meaning:
    """The record of an entry as the file carries it.

    Raises:
        DpuError: E360, there is none or it does not fit the words.
    """
    prefix = f"verify/{entry}/"
    table = {k.removeprefix(prefix): v for k, v in program.tables.items() if k.startswith(prefix)}
    where = f"entry '{entry}'"
    try:
        flat, ends = table["lists"].tolist(), table["ends"].tolist()
        lists = [tuple(flat[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
        names = json.loads(table["names"].tobytes())
        tiles = []
        for t, words in enumerate(program.words[entry]):
            masks = table[f"{t}/masks"].astype(np.uint16)
            objects, writers = (table[f"{t}/{k}"].astype(np.int32) for k in ("objects", "writers"))
            operands = int(np.bitwise_count(masks).sum())
            if len(masks) != len(words) or len(objects) != operands or len(writers) != operands:
                raise ValueError(f"the record of tile {t} is of {len(masks)} words, the stream has {len(words)}")
            if writers.max(initial=0) >= len(lists) or objects.max(initial=0) >= len(table["buffers"]) + len(names):
                raise ValueError(f"the record of tile {t} names what it does not hold")
            tiles.append(Tile(masks, objects, writers))
        _check_numbers(lists, tiles, sum(map(len, program.words[entry])))
        outputs = [tuple(lists[i]) for i in table["outputs"].tolist()]
        if any(not HOST <= w < sum(map(len, program.words[entry])) for one in outputs for w in one):
            raise ValueError("an output names a word that does not exist")
        if len(outputs) != len(program.entry(entry).outputs) or len(names) != len(table["tensors"]):
            raise ValueError("outputs or names are missing")
    except (KeyError, TypeError, ValueError, IndexError) as e:
        what = f"table '{prefix}{e.args[0]}' is missing" if isinstance(e, KeyError) else str(e)
        raise DpuError(
            where,
            f"no record of what its operands mean ({what})",
            why="without it nobody can tell whether a word reads the value that the compiler meant",
            hint="compile the model again",
            code="E360",
        ) from e
    return Meaning(table["buffers"].astype(np.int32), table["tensors"].astype(np.int64), names, lists, outputs, tiles)


def _check_numbers(lists: Sequence[Sequence[int]], tiles: Sequence[Tile], words: int) -> None:
    """Every writer is the host or one of the entry's `words`.

    Raises:
        ValueError: it is not.
    """
    far = [[d for d in one if d != HOST_FAR] for one in lists]
    least, most = (np.array([f(one, default=0) for one in far], np.int64) for f in (min, max))
    first = 0
    for t, tile in enumerate(tiles):
        me = first + np.repeat(np.arange(len(tile.masks)), np.bitwise_count(tile.masks))
        used = tile.writers >= 0
        me, at = me[used], tile.writers[used]
        if (me - most[at] < 0).any() or (me - least[at] >= words).any():
            raise ValueError(f"the record of tile {t} names words that do not exist")
        first += len(tile.masks)


def rewrite(program: Program, entry: str, tile: int, order: Sequence[int]) -> None:
    """Replace the record in `program.tables` by that of the program whose stream of `tile` is reordered: word i of the
    new stream is word `order[i]` of the old one. What each operand means stays."""
    old = meaning(program, entry)
    first = np.cumsum([0, *map(len, program.words[entry])])
    number = np.arange(first[-1])
    number[first[tile] + np.array(order)] = first[tile] + np.arange(len(order))
    lists = _Lists()

    def moved(absolute: Sequence[int]) -> list[int]:
        return [w if w == HOST else int(number[w]) for w in absolute]

    prefix = f"verify/{entry}/"
    for t, record in enumerate(old.tiles):
        masks, objects = record.masks, record.objects
        start = np.concatenate([[0], np.cumsum(np.bitwise_count(masks))])
        words = order if t == tile else range(len(masks))
        writers, rows = [], []
        for i in words:
            me = int(number[first[t] + i])
            for row in range(int(start[i]), int(start[i + 1])):
                writers_of = moved(old.expected(int(record.writers[row]), int(first[t]) + i))
                writers.append(lists.add(tuple(sorted(HOST_FAR if w == HOST else me - w for w in writers_of))))
                rows.append(row)
        tables = {"masks": masks[list(words)], "objects": _small(objects[rows])}
        tables["writers"] = _small(np.array(writers, np.int64))
        program.tables |= {f"{prefix}{t}/{k}": v for k, v in tables.items()}
    outputs = [lists.add(tuple(sorted(moved(one)))) for one in old.outputs]
    flat, ends = lists.tables()
    program.tables |= {f"{prefix}lists": flat, f"{prefix}ends": ends, f"{prefix}outputs": np.array(outputs, np.int32)}
