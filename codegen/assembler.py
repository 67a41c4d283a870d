"""Text to words, see `syntax.py`. The inverse of the disassembler.

A line holds one word, or `.entry NAME` or `.tile N`, which say where the words that follow belong. `#` begins a
comment. The index in front of a word and the operation's name behind its tag are for the reader and are ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from ..errors import DpuError
from ..ir.isa import DmaFormat, Engine, Flag, Opcode, Words, empty, word
from .disassembler import raw_dtype
from .syntax import ITEMS, MNEMONIC, Fields, Item, code_value, integer

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|;|[^\s;"#]+|#.*')
_SEMAPHORE = re.compile(r"(load|mxu|vpu|store)([0-3])")
_REMOTE = re.compile(r"tile(\d+)")
_OPCODES = {name: opcode for opcode, name in MNEMONIC.items()}
_ITEMS: dict[Opcode, dict[str, Item]] = {o: {i.key: i for i in items} for o, items in ITEMS.items()}


def _opcode(text: str) -> tuple[Opcode, Fields]:
    """Opcode and, for LOAD and STORE, the format."""
    if text in _OPCODES and text not in ("load", "store"):
        return _OPCODES[text], {}
    name, _, form = text.partition(".")
    if name in ("load", "store") and form:
        return _OPCODES[name], {"format": code_value(DmaFormat, form)}
    raise ValueError(f"unknown mnemonic '{text}' (known: {', '.join(MNEMONIC.values())}, with load.FORMAT)")


def _order(opcode: Opcode, tokens: list[str], f: Fields) -> None:
    """Read `wait ... signal ... drain ...` into `wait`, `signal`, `remote` and `flags`."""
    masks = {"wait": 0, "signal": 0}
    flags = remote = 0
    mode = ""
    for token in tokens:
        semaphore, tile = _SEMAPHORE.fullmatch(token), _REMOTE.fullmatch(token)
        if mode == "flags":
            flags |= integer(token)
            mode = ""
        elif token in masks or token == "flags":
            mode = token
        elif token.upper() in Flag.__members__:
            flags |= Flag[token.upper()]
        elif semaphore and mode:
            masks[mode] |= 1 << (4 * Engine[semaphore[1].upper()] + int(semaphore[2]))
        elif tile and (opcode, mode) in ((Opcode.LOAD, "wait"), (Opcode.STORE, "signal")) and int(tile[1]) < 32:
            remote |= 1 << int(tile[1])
        else:
            raise ValueError(f"'{token}' has no meaning for {opcode.name} here")
    f.update(masks)
    f["flags"] = flags
    if opcode in (Opcode.LOAD, Opcode.STORE):
        f["remote"] = remote


def _parse(text: str) -> Words | None:
    """One line's word; None for a line without one. Raises ValueError."""
    tokens = _TOKEN.findall(text)
    if _TOKEN.sub("", text).strip():
        raise ValueError("a quotation mark is not closed")
    if tokens and tokens[-1].startswith("#"):
        tokens.pop()
    if tokens and tokens[0].isdigit():
        tokens.pop(0)
    if not tokens:
        return None
    sections: list[list[str]] = [[]]
    for token in tokens:
        if token == ";":
            sections.append([])
        else:
            sections[-1].append(token)
    head, *rest = sections
    if not head:
        raise ValueError("the line has no mnemonic")
    opcode, f = _opcode(head[0])
    seen: set[str] = set()
    for token in head[1:]:
        key, equals, value = token.partition("=")
        item = _ITEMS[opcode].get(key)
        if item is None or not equals:
            known = ", ".join(_ITEMS[opcode])
            raise ValueError(f"{MNEMONIC[opcode]} has no field '{key}' (known: {known})")
        if key in seen:
            raise ValueError(f"field '{key}' occurs twice")
        seen.add(key)
        try:
            f.update(item.read(value))
        except ValueError as e:
            raise ValueError(f"field '{key}': {e}") from None
    order: list[str] = []
    for section in rest:
        if section[:1] == ["tag"]:
            if not 2 <= len(section) <= 3 or (len(section) == 3 and not section[2].startswith('"')):
                raise ValueError("a tag is 'tag NUMBER \"name\"'")
            f["tag"] = integer(section[1])
        else:
            order += section
    _order(opcode, order, f)
    immediates = f.pop("imm", [0, 0])
    try:
        out = word(opcode, **f)
        if opcode == Opcode.VEC:
            out.view(raw_dtype(opcode))["imm"] = np.array(immediates, np.uint32)
    except (ValueError, OverflowError) as e:
        raise ValueError(str(e)) from None
    return out


@dataclass
class _Streams:
    entries: dict[str, dict[int, list[Words]]] = field(default_factory=dict)
    entry: str = "main"
    tile: int = 0

    def add(self, one: Words) -> None:
        self.entries.setdefault(self.entry, {}).setdefault(self.tile, []).append(one)


def _join(words: list[Words]) -> Words:
    return np.concatenate(words) if words else empty(0)


def assemble(text: str, source: str = "text") -> dict[str, list[Words]]:
    """Streams by entry and tile. Words before any `.entry` belong to entry `main`, tile 0.

    Raises:
        DpuError: E330 with the line: unknown mnemonic, field or value, or a value that does not fit.
    """
    out = _Streams()
    for n, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        try:
            if stripped.startswith(".entry "):
                out.entry, out.tile = stripped.removeprefix(".entry ").strip(), 0
                out.entries.setdefault(out.entry, {})
            elif stripped.startswith(".tile "):
                out.tile = integer(stripped.removeprefix(".tile ").strip())
                tiles = out.entries.setdefault(out.entry, {})
                if out.tile != len(tiles):
                    raise ValueError(f"tile {out.tile} follows {len(tiles)} tiles; tiles are given in order")
                tiles[out.tile] = []
            elif stripped.startswith("."):
                raise ValueError(f"unknown directive '{stripped.split()[0]}' (known: .entry, .tile)")
            else:
                one = _parse(stripped)
                if one is not None:
                    out.add(one)
        except ValueError as e:
            raise DpuError(f"{source}:{n}", str(e), code="E330") from e
    return {entry: [_join(words) for words in tiles.values()] for entry, tiles in out.entries.items()}


def assemble_words(text: str, source: str = "text") -> Words:
    """One stream.

    Raises:
        DpuError: E330, see `assemble`, or the text has several streams.
    """
    streams = [s for tiles in assemble(text, source).values() for s in tiles]
    if len(streams) > 1:
        raise DpuError(source, f"holds {len(streams)} streams, expected one", code="E330")
    return streams[0] if streams else empty(0)
