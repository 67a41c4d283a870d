"""One small fault at a time, put into a compiled program: what a compiler bug or a damaged file would look like.

Each function of `MUTATIONS` changes a draft in place and says what it did, or gives None where the draft has nothing of
the kind. Words change and the record of what operands mean (`codegen/verify/provenance.py`) stays, as when encoder or
semaphores are wrong; the planner's and the scheduler's mutations change the record's addresses and positions too, as
when those passes are wrong.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..codegen.verify.boxes import RANKS, boxes
from ..codegen.verify.provenance import meaning, rewrite
from ..ir.arch import Arch
from ..ir.container import Base, Program
from ..ir.isa import DTYPE, ENGINE_OF, Buffer, Engine, Flag, Opcode, Words

SRAM_FIELDS = {
    Opcode.LOAD: ("sram",),
    Opcode.STORE: ("sram",),
    Opcode.MM: ("act", "wgt", "acc", "init_at", "rowmax_at"),
    Opcode.VEC: ("a", "b", "d", "a1", "b1", "a2", "b2", "r", "sub_at", "red_at"),
}
STRIDES = {
    Opcode.LOAD: ("dstride", "sstride"),
    Opcode.STORE: ("dstride", "sstride"),
    Opcode.MM: ("sx", "sy", "sc", "skx", "sky", "wn", "an"),
    Opcode.VEC: ("a_rs", "a_ts", "b_rs", "b_ts", "d_rs", "d_ts"),
}
COUNTS = {
    Opcode.LOAD: ("inner", "n", "pad"),
    Opcode.STORE: ("inner", "n"),
    Opcode.MM: ("nx", "ny", "nc", "nkx", "nky", "nn"),
    Opcode.VEC: ("rows", "tiles"),
}
CODES = {
    Opcode.LOAD: ("format", "fill"),
    Opcode.STORE: ("format",),
    Opcode.MM: ("mode", "rowmax", "valid"),
    Opcode.VEC: ("valid", "a_src", "b_src", "d_src", "op2", "m1", "m2", "func", "rq", "sub", "red"),
}
MOVES = (Opcode.LOAD, Opcode.STORE)


@dataclass
class Draft:
    """A program to change: one entry's words are copies, the rest is shared and replaced, never written."""

    program: Program
    entry: str
    rng: np.random.Generator

    @classmethod
    def of(cls, program: Program, entry: str, seed: tuple[int, ...]) -> Draft:
        words = {k: [w.copy() for w in v] if k == entry else v for k, v in program.words.items()}
        return cls(replace(program, words=words, tables=dict(program.tables)), entry, np.random.default_rng(seed))

    @property
    def words(self) -> list[Words]:
        return self.program.words[self.entry]

    def fields(self, tile: int, opcode: Opcode) -> npt.NDArray[Any]:
        """All words of a tile by the fields of one opcode."""
        return self.words[tile].view(DTYPE[opcode])

    def pick(self, wanted: Callable[[Words, int], npt.NDArray[np.bool_]]) -> tuple[int, int] | None:
        """A random word (tile, index) among the wanted."""
        found = [(t, int(i)) for t, w in enumerate(self.words) for i in np.flatnonzero(wanted(w, t))]
        return found[self.rng.integers(len(found))] if found else None

    def choose(self, *options: Any) -> Any:
        """One of the options."""
        return options[self.rng.integers(len(options))]

    def bit(self, mask: int) -> int:
        """A random set bit."""
        return int(self.choose(*(b for b in range(32) if mask >> b & 1)))

    def opcode(self, tile: int, index: int) -> Opcode:
        return Opcode(int(self.words[tile]["opcode"][index]))

    def work(self, *opcodes: Opcode) -> tuple[int, int, Opcode] | None:
        """A random word that does something."""
        wanted = [int(o) for o in opcodes or tuple(SRAM_FIELDS)]

        def busy(w: Words, _: int) -> npt.NDArray[np.bool_]:
            fence = np.isin(w["opcode"], MOVES) & (w.view(DTYPE[Opcode.LOAD])["inner"] == 0)
            return np.asarray(np.isin(w["opcode"], wanted) & ~fence)

        at = self.pick(busy)
        return None if at is None else (*at, self.opcode(*at))

    def change(self, tile: int, index: int, opcode: Opcode, field: str, delta: int) -> str | None:
        """Add to a field, or to one number of a vector field."""
        cell = self.fields(tile, opcode)[field][index : index + 1]
        flat = cell.reshape(-1)
        k = int(self.rng.integers(len(flat)))
        info = np.iinfo(flat.dtype)
        old = int(flat[k])
        if not info.min <= old + delta <= info.max or delta == 0:
            return None
        flat[k] = old + delta
        return f"{_place(tile, index, opcode)} {field}{f'[{k}]' if len(flat) > 1 else ''} {old} -> {old + delta}"


Mutation = Callable[[Draft], str | None]


def _place(tile: int, index: int, opcode: Opcode) -> str:
    return f"tile {tile} word {index} {opcode.name}"


# -- semaphores --------------------------------------------------------------------------------------------------------


def _engine(w: Words) -> npt.NDArray[np.int64]:
    table = np.full(256, -1)
    table[list(ENGINE_OF)] = list(ENGINE_OF.values())
    return np.asarray(table[w["opcode"]])


def _mask(name: str, what: str) -> Mutation:
    """Drop, add or redirect one bit of `wait`, `signal` or `remote`."""

    def mutate(d: Draft) -> str | None:
        def wanted(w: Words, t: int) -> npt.NDArray[np.bool_]:
            mine = _engine(w)
            fit = np.isin(w["opcode"], MOVES) if name == "remote" else (mine >= 0) & (mine != Engine.CTRL)
            return np.asarray(fit & (value(d, t) != 0) if what != "add" else fit)

        def value(d: Draft, t: int) -> npt.NDArray[Any]:
            return np.asarray(d.fields(t, Opcode.LOAD)[name] if name == "remote" else d.words[t][name])

        at = d.pick(wanted)
        if at is None or (name == "remote" and len(d.words) == 1):
            return None
        t, i = at
        masks = value(d, t)
        old = new = int(masks[i])
        mine = int(_engine(d.words[t])[i])
        legal = (
            [x for x in range(len(d.words)) if x != t] if name == "remote" else [b for b in range(16) if b // 4 != mine]
        )
        if what != "add":
            new &= ~(1 << d.bit(old))
        if what != "drop":
            free = [b for b in legal if not old >> b & 1]
            if not free:
                return None
            new |= 1 << int(d.choose(*free))
        masks[i] = new
        return f"{_place(t, i, d.opcode(t, i))} {name} {old:#x} -> {new:#x}"

    return mutate


def _pairs(d: Draft, t: int) -> list[tuple[int, int, int, int]]:
    """Matched local tokens of a tile: (producer word, its signal bit, consumer word, its wait bit)."""
    w = d.words[t]
    mine = _engine(w).tolist()
    waiting: dict[tuple[int, int, int], list[int]] = {}
    found = []
    for i, (e, wait, signal) in enumerate(zip(mine, w["wait"].tolist(), w["signal"].tolist(), strict=True)):
        for b in range(16):
            if wait >> b & 1:
                p = waiting[b // 4, e, b % 4].pop(0)
                found.append((p, 4 * e + b % 4, i, b))
        for b in range(16):
            if signal >> b & 1:
                waiting.setdefault((e, b // 4, b % 4), []).append(i)
    return found


def _pair(d: Draft) -> tuple[int, int, int, int, int] | None:
    found = [(t, *p) for t in range(len(d.words)) for p in _pairs(d, t)]
    return found[d.rng.integers(len(found))] if found else None


def drop_token(d: Draft) -> str | None:
    """A signal and the wait that takes its token: all counts stay sound."""
    found = _pair(d)
    if found is None:
        return None
    t, p, sb, c, wb = found
    d.words[t]["signal"][p] &= np.uint16(0xFFFF & ~(1 << sb))
    d.words[t]["wait"][c] &= np.uint16(0xFFFF & ~(1 << wb))
    return f"tile {t} token from word {p} to word {c}"


def drop_remote_token(d: Draft) -> str | None:
    """A remote signal and its wait."""
    found = []
    for s in range(len(d.words)):
        for t in range(len(d.words)):
            stores, loads = d.fields(s, Opcode.STORE), d.fields(t, Opcode.LOAD)
            sent = np.flatnonzero((stores["opcode"] == Opcode.STORE) & (stores["remote"] >> t & 1 == 1))
            taken = np.flatnonzero((loads["opcode"] == Opcode.LOAD) & (loads["remote"] >> s & 1 == 1))
            found += [(s, int(p), t, int(c)) for p, c in zip(sent, taken, strict=True)]
    if not found:
        return None
    s, p, t, c = found[d.rng.integers(len(found))]
    d.fields(s, Opcode.STORE)["remote"][p] &= np.uint32(0xFFFFFFFF & ~(1 << t))
    d.fields(t, Opcode.LOAD)["remote"][c] &= np.uint32(0xFFFFFFFF & ~(1 << s))
    return f"token from tile {s} word {p} to tile {t} word {c}"


def _shifted(field: str, direction: int) -> Mutation:
    """A token signalled by an earlier word of its engine, or taken by a later one: all counts stay sound."""

    def mutate(d: Draft) -> str | None:
        found = _pair(d)
        if found is None:
            return None
        t, p, sb, c, wb = found
        i, bit = (p, sb) if field == "signal" else (c, wb)
        w = d.words[t]
        same = np.flatnonzero((_engine(w) == _engine(w)[i]) & (w[field] >> bit & 1 == 0))
        near = same[same < i][-3:] if direction < 0 else same[same > i][:3]
        if not len(near):
            return None
        j = int(d.choose(*near.tolist()))
        w[field][i] &= np.uint16(0xFFFF & ~(1 << bit))
        w[field][j] |= np.uint16(1 << bit)
        return f"tile {t} {field} bit {bit} from word {i} to word {j}"

    return mutate


def other_number(d: Draft) -> str | None:
    """A token moved to another semaphore of its pair."""
    found = _pair(d)
    if found is None:
        return None
    t, p, sb, c, wb = found
    k = int(d.rng.integers(1, 4))
    new_s, new_w = sb // 4 * 4 + (sb + k) % 4, wb // 4 * 4 + (wb + k) % 4
    for field, i, old, new in (("signal", p, sb, new_s), ("wait", c, wb, new_w)):
        if int(d.words[t][field][i]) >> new & 1:
            return None
        d.words[t][field][i] ^= np.uint16(1 << old | 1 << new)
    return f"tile {t} token from word {p} to word {c} on semaphore {new_s % 4}"


def clear_drain(d: Draft) -> str | None:
    at = d.pick(lambda w, t: w["flags"] & Flag.DRAIN != 0)
    if at is None:
        return None
    d.words[at[0]]["flags"][at[1]] &= np.uint8(0xFF & ~Flag.DRAIN)
    return _place(*at, d.opcode(*at))


# -- order -------------------------------------------------------------------------------------------------------------


def swap_words(d: Draft) -> str | None:
    """Neighbours in a stream, but not in the record."""
    t = int(d.rng.integers(len(d.words)))
    w = d.words[t]
    if len(w) < 3:
        return None
    i = int(d.rng.integers(len(w) - 2))
    w[i], w[i + 1] = w[i + 1].copy(), w[i].copy()
    return f"tile {t} words {i} and {i + 1}"


def move_word(d: Draft) -> str | None:
    """A word with its record, as a wrong scheduler would: what it means stays."""
    t = int(d.rng.integers(len(d.words)))
    n = len(d.words[t]) - 1
    if n < 3:
        return None
    i = int(d.rng.integers(n))
    j = int(np.clip(i + d.choose(-8, -4, -2, -1, 1, 2, 4, 8), 0, n - 1))
    if i == j:
        return None
    order = list(range(n + 1))
    order.insert(j, order.pop(i))
    rewrite(d.program, d.entry, t, order)
    d.program.words[d.entry][t] = d.words[t][order]
    return f"tile {t} word {i} to {j}"


# -- operands ----------------------------------------------------------------------------------------------------------


def shift_scratchpad(d: Draft) -> str | None:
    at = d.work()
    if at is None:
        return None
    t, i, o = at
    used = _used(d, t, i, o)
    names = [n for n in SRAM_FIELDS[o] if n in used]
    if not names:
        return None
    name = str(d.choose(*names))
    size = used[name]
    return d.change(t, i, o, name, int(d.choose(-size, -1, 1, size, int(d.rng.integers(-600, 600)))))


def _used(d: Draft, t: int, i: int, o: Opcode) -> dict[str, int]:
    """The operands of a word with their extent."""
    b = boxes(d.words[t][i : i + 1], d.program.arch)
    return {RANKS[o][r]: int(hi - lo) for r, lo, hi in zip(b.rank.tolist(), b.lo, b.hi, strict=True)}


def swap_operands(d: Draft) -> str | None:
    at = d.work(Opcode.MM, Opcode.VEC)
    if at is None:
        return None
    t, i, o = at
    used = [n for n in SRAM_FIELDS[o] if n in _used(d, t, i, o)]
    if len(used) < 2:
        return None
    a, b = d.rng.choice(used, 2, replace=False)
    f = d.fields(t, o)
    x, y = int(f[a][i]), int(f[b][i])
    if x == y or max(x, y) > min(np.iinfo(f[n].dtype).max for n in (a, b)):
        return None
    f[a][i], f[b][i] = y, x
    return f"{_place(t, i, o)} {a} and {b}"


def borrow_operand(d: Draft) -> str | None:
    """An address of another word of the same kind: another slot, another block."""
    at = d.work()
    if at is None:
        return None
    t, i, o = at
    names = [n for n in (*SRAM_FIELDS[o], "offset") if n in _used(d, t, i, o) or (n == "offset" and o in MOVES)]
    if not names:
        return None
    name = str(d.choose(*names))
    f = d.fields(t, o)
    others = np.unique(f[name][(f["opcode"] == o) & (f[name] != f[name][i])])
    if not len(others):
        return None
    return d.change(t, i, o, name, int(d.choose(*others.tolist())) - int(f[name][i]))


def _field(table: Mapping[Opcode, tuple[str, ...]], *deltas: int) -> Mutation:
    def mutate(d: Draft) -> str | None:
        at = d.work()
        if at is None:
            return None
        t, i, o = at
        return d.change(t, i, o, str(d.choose(*table[o])), int(d.choose(*deltas)))

    return mutate


def shift_dram(d: Draft) -> str | None:
    at = d.work(*MOVES)
    if at is None:
        return None
    return d.change(*at, "offset", int(d.choose(-256, -64, -8, -2, 2, 8, 16, 64, 128, 256, 4096)))


def wrong_base(d: Draft) -> str | None:
    at = d.work(*MOVES)
    if at is None:
        return None
    t, i, o = at
    old = int(d.fields(t, o)["base"][i])
    return d.change(t, i, o, "base", int(d.choose(*(x for x in range(8) if x != old))) - old)


def wrong_buffer(d: Draft) -> str | None:
    at = d.work(*MOVES)
    if at is None:
        return None
    t, i, o = at
    old = int(d.fields(t, o)["buffer"][i])
    return d.change(t, i, o, "buffer", int(d.choose(*(x for x in range(6) if x != old))) - old)


# -- planners and memory -----------------------------------------------------------------------------------------------


def move_buffer(d: Draft) -> str | None:
    """A whole on-chip buffer, in the record too, as a wrong planner would place it."""
    m = meaning(d.program, d.entry)
    thing = int(d.rng.integers(len(m.buffers)))
    tile, space, at, size = m.buffers[thing].tolist()
    if space == Buffer.TABLE:
        return None
    room = d.program.arch.words[Buffer(space).name.lower()]
    near = m.buffers[max(0, thing - 24) : thing + 24]  # written about the same time
    near = near[(near[:, 1] == space) & (near[:, 0] == tile)]
    to = int(d.choose(at - size, at + size, at - 1, at + 1, *near[:, 2].tolist()))
    if to == at or to < 0 or to + size > room:
        return None
    if not _shift_object(d, thing, to - at):
        return None
    table = m.buffers.copy()
    table[thing, 2] = to
    d.program.tables[f"verify/{d.entry}/buffers"] = table
    return f"buffer {thing} ({Buffer(space).name} of tile {tile}, {size} words) {at} -> {to}"


def move_tensor(d: Draft) -> str | None:
    """A whole DRAM tensor of the work region, in the record too."""
    m = meaning(d.program, d.entry)
    work = np.flatnonzero(m.tensors[:, 0] == Base.WORK)
    if not len(work):
        return None
    i = int(d.choose(*work.tolist()))
    _, at, size = m.tensors[i].tolist()
    to = int(d.choose(at - 256, at + 256, at - 64, at + 64, *m.tensors[work][:, 1].tolist()))
    if to == at or to < 0 or to + size > d.program.base_bytes[Base.WORK]:
        return None
    if not _shift_object(d, len(m.buffers) + i, to - at):
        return None
    table = m.tensors.copy()
    table[i, 1] = to
    d.program.tables[f"verify/{d.entry}/tensors"] = table
    return f"tensor '{m.names[i]}' ({size} bytes) {at} -> {to}"


def _shift_object(d: Draft, thing: int, delta: int) -> bool:
    """Move every operand that means an object; False if no word does."""
    m = meaning(d.program, d.entry)
    done = False
    for t, record in enumerate(m.tiles):
        b = boxes(d.words[t], d.program.arch)
        for j in np.flatnonzero(record.objects == thing).tolist():
            i, opcode = int(b.word[j]), d.opcode(t, int(b.word[j]))
            name = RANKS[opcode][int(b.rank[j])]
            if name.endswith("last tile"):
                continue
            cell = d.fields(t, opcode)["offset" if name == "dram" else name]
            if not 0 <= int(cell[i]) + delta <= np.iinfo(cell.dtype).max:
                return False
            cell[i] = int(cell[i]) + delta
            done = True
    return done


def shrink_region(d: Draft) -> str | None:
    base = int(d.choose(*(b for b, n in d.program.base_bytes.items() if n)))
    old = d.program.base_bytes[base]
    new = old - int(d.choose(64, 256, old // 2))
    if new <= 0:
        return None
    d.program = replace(d.program, base_bytes=d.program.base_bytes | {base: new})
    return f"base register {base} {old} -> {new} bytes"


def shrink_scratchpad(d: Draft) -> str | None:
    name = str(d.choose("act", "wgt", "acc", "vbuf", "param"))
    description = copy.deepcopy(d.program.arch.model_dump())
    old = description["buffers"][name]["bytes"]
    description["buffers"][name]["bytes"] = new = old // int(d.choose(2, 4, 16, 64))
    d.program = replace(d.program, arch=Arch.model_validate(description))
    return f"{name} {old} -> {new} bytes"


# -- data --------------------------------------------------------------------------------------------------------------


def immediate(d: Draft) -> str | None:
    at = d.work(Opcode.VEC)
    if at is None:
        return None
    t, i, o = at
    k = int(d.rng.integers(2))
    cell = d.fields(t, o)["imm"]
    old = float(cell[i, k])
    cell[i, k] = new = float(d.choose(0.0, -old, 2 * old, old + 1))
    return None if new == old else f"{_place(t, i, o)} imm[{k}] {old} -> {new}"


def codes(d: Draft) -> str | None:
    """Formats, modes, operand kinds, functions, reductions, valid columns."""
    at = d.work()
    if at is None:
        return None
    t, i, o = at
    return d.change(t, i, o, str(d.choose(*CODES[o])), int(d.choose(-16, -2, -1, 1, 2, 16)))


def flip_bit(d: Draft) -> str | None:
    """Any bit of any word."""
    t = int(d.rng.integers(len(d.words)))
    i, bit = int(d.rng.integers(len(d.words[t]))), int(d.rng.integers(512))
    raw = d.words[t].view(np.uint8).reshape(len(d.words[t]), 64)
    raw[i, bit // 8] ^= np.uint8(1 << bit % 8)
    return f"tile {t} word {i} bit {bit}"


MUTATIONS: dict[str, dict[str, Mutation]] = {
    "semaphores": {f"{what} {name}": _mask(name, what) for name in ("wait", "signal", "remote") for what in
                   ("drop", "add", "redirect")}
    | {"drop token": drop_token, "drop remote token": drop_remote_token, "signal earlier": _shifted("signal", -1),
       "signal later": _shifted("signal", 1), "wait earlier": _shifted("wait", -1), "wait later": _shifted("wait", 1),
       "other number": other_number},
    "drains": {"clear drain": clear_drain},
    "order": {"swap words": swap_words, "move word": move_word},
    "operands": {"shift scratchpad address": shift_scratchpad, "swap operands": swap_operands,
                 "borrow address": borrow_operand, "stride": _field(STRIDES, -8, -1, 1, 8),
                 "count": _field(COUNTS, -1, 1, 8), "shift DRAM offset": shift_dram, "wrong base": wrong_base,
                 "wrong buffer": wrong_buffer},
    "planners": {"move buffer": move_buffer, "move tensor": move_tensor},
    "memory": {"shrink region": shrink_region, "shrink scratchpad": shrink_scratchpad},
    "data": {"immediate": immediate, "codes": codes, "flip bit": flip_bit},
}  # fmt: skip
"""Mutations by class."""
