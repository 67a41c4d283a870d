"""Words to text, see `syntax.py`. The assembler gives the same words back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

import numpy as np

from ..ir.container import Program
from ..ir.isa import DTYPE, ENGINE_OF, VEC, Engine, Flag, Opcode, Words
from .syntax import ITEMS, Fields, mnemonic


def raw_dtype(opcode: Opcode) -> np.dtype[np.void]:
    """The fields of a word with floats as their bits."""
    dtype = DTYPE[opcode]
    if dtype is not VEC:
        return dtype
    assert dtype.fields is not None and dtype.names is not None
    kinds = [np.dtype(("<u4", 2)) if n == "imm" else dtype.fields[n][0] for n in dtype.names]
    offsets = [dtype.fields[n][1] for n in dtype.names]
    return np.dtype({"names": list(dtype.names), "formats": kinds, "offsets": offsets, "itemsize": dtype.itemsize})


_RAW = {o: raw_dtype(o) for o in Opcode}


def word_fields(one: np.void) -> tuple[Opcode, Fields]:
    """Opcode and field values of a word with a legal opcode."""
    opcode = Opcode(int(one["opcode"]))
    record = np.frombuffer(one.tobytes(), _RAW[opcode])[0]
    fields: Fields = {n: record[n].tolist() for n in record.dtype.names or ()}
    return opcode, fields


def _tokens(mask: int) -> Iterator[str]:
    for bit in range(16):
        if mask >> bit & 1:
            yield f"{Engine(bit // 4).name.lower()}{bit % 4}"


def _order(opcode: Opcode, f: Fields) -> str:
    """`wait ... signal ... drain`, without the separator; empty for a word that has none of it."""
    remote = f.get("remote", 0)
    assert isinstance(remote, int)
    tiles = [f"tile{t}" for t in range(32) if remote >> t & 1]
    store = opcode == Opcode.STORE
    flags = f["flags"]
    assert isinstance(flags, int) and isinstance(f["wait"], int) and isinstance(f["signal"], int)
    wait = [*_tokens(f["wait"]), *([] if store else tiles)]
    signal = [*_tokens(f["signal"]), *(tiles if store else [])]
    parts = [" ".join([word, *names]) for word, names in (("wait", wait), ("signal", signal)) if names]
    parts += [flag.name.lower() for flag in Flag if flags & flag]
    if rest := flags & ~sum(Flag):
        parts.append(f"flags {rest:#x}")
    return " ".join(parts)


def disassemble_word(one: np.void, names: Mapping[int, str] | None = None) -> str:
    """One word as text; an illegal opcode as a comment with its bytes. `names` gives graph operations by tag."""
    if int(one["opcode"]) not in DTYPE:
        return f"# illegal opcode {int(one['opcode'])}: {one.tobytes().hex()}"
    opcode, f = word_fields(one)
    text = [mnemonic(opcode, f)]
    for item in ITEMS[opcode]:
        values = (f[n] for n in item.fields)
        if any(any(v) if isinstance(v, list) else v for v in values):
            text.append(f"{item.key}={item.show(f)}")
    out = " ".join(text)
    if order := _order(opcode, f):
        out += f" ; {order}"
    tag = f["tag"]
    assert isinstance(tag, int)
    name = (names or {}).get(tag)
    if tag or name is not None:
        out += f" ; tag {tag}" + (f" {json.dumps(name)}" if name is not None else "")
    return out


def disassemble(words: Words, names: Mapping[int, str] | None = None, start: int = 0) -> Iterator[str]:
    """A stream, one line a word with its index; `start` is the index of the first."""
    for i in range(len(words)):
        yield f"{start + i:04d} {disassemble_word(words[i], names)}"


def disassemble_program(
    program: Program,
    entry: str | None = None,
    tile: int | None = None,
    operation: str | None = None,
    tag: int | None = None,
    engine: Engine | None = None,
    words: range | None = None,
) -> Iterator[str]:
    """Lines of a program: a header, then the streams of all or the chosen entries and tiles.

    Words are kept if they belong to `tag`, to a graph operation or ONNX node whose name matches the regular expression
    `operation`, to `engine`, and lie in `words`; entries and tiles that have none are left out. Without these filters
    the text assembles to the same words.
    """
    yield f"# arch {program.arch.name}, digest {program.arch.digest}"
    for e in program.entries:
        if entry is not None and e.name != entry:
            continue
        names = {s.tag: s.name for s in e.sources}
        wanted = np.ones(1 << 16, bool)
        if tag is not None:
            wanted[:] = False
            wanted[tag] = True
        if operation is not None:
            match = re.compile(operation)
            hit = [s.tag for s in e.sources if any(match.search(n) for n in (s.name, *s.nodes))]
            kept = np.zeros_like(wanted)
            kept[hit] = True
            wanted &= kept
        filtered = not (tag is None and operation is None and engine is None and words is None)
        header = ["", f".entry {e.name}"]
        if not filtered:
            yield from header
            header = []
        for t, stream in enumerate(program.words[e.name]):
            if tile is not None and t != tile:
                continue
            keep = wanted[stream["tag"]]
            if engine is not None:
                keep &= np.isin(stream["opcode"], [int(o) for o, x in ENGINE_OF.items() if x == engine])
            if words is not None:
                keep &= np.isin(np.arange(len(stream)), words)
            if filtered and not keep.any():
                continue
            yield from header
            header = []
            yield f".tile {t}"
            for i in np.flatnonzero(keep).tolist():
                yield f"{i:04d} {disassemble_word(stream[i], names)}"
