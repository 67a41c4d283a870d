"""How the verifier says what is wrong: the word as text, its operation and ONNX nodes, and the other word involved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import DpuError
from ...ir.container import Base, Entry, Program
from ...ir.isa import DTYPE, ENGINE_OF, Buffer, Opcode
from ..disassembler import disassemble_word
from .boxes import DRAM, RANKS
from .provenance import HOST, NOBODY, Meaning

HINT = "a fault of the compiler if dpuc made this file as it is: keep the file and report it; else compile it again"


@dataclass(frozen=True)
class Reporter:
    """Names the words of one entry."""

    program: Program
    entry: Entry
    meaning: Meaning

    def split(self, number: int) -> tuple[int, int]:
        """(tile, index) of a word number."""
        for tile, words in enumerate(self.program.words[self.entry.name]):
            if number < len(words):
                return tile, number
            number -= len(words)
        raise IndexError(number)

    def opcode(self, tile: int, index: int) -> Opcode:
        """Opcode of a word."""
        return Opcode(int(self.program.words[self.entry.name][tile]["opcode"][index]))

    def place(self, tile: int, index: int) -> str:
        """`entry 'unet', tile 0, word 17 (VEC, tag 3)`."""
        word = self.program.words[self.entry.name][tile][index]
        code = int(word["opcode"])
        name = Opcode(code).name if code in DTYPE else f"opcode {code}"
        return f"entry '{self.entry.name}', tile {tile}, word {index} ({name}, tag {int(word['tag'])})"

    def who(self, number: int) -> str:
        """A writer in a sentence."""
        if number == HOST:
            return "the host"
        if number == NOBODY:
            return "nobody"
        tile, index = self.split(number)
        code = int(self.program.words[self.entry.name][tile]["opcode"][index])
        return f"{ENGINE_OF[Opcode(code)].name} word {index} of tile {tile}"

    def writers(self, numbers: Sequence[int]) -> str:
        """Writers in a sentence, the first few of them."""
        names = [self.who(n) for n in numbers[:4]]
        if len(numbers) > 4:
            names.append(f"{len(numbers) - 4} more")
        return ", ".join(names) if names else "nobody"

    def operand(self, opcode: Opcode, rank: int, space: int, lo: int, hi: int) -> str:
        """`operand 'a' (VBUF words [0x40, 0x80))`."""
        if space >= DRAM:
            base = space - DRAM
            known = f" ({Base(base).name})" if base in set(Base) else ""
            where = f"bytes [{lo:#x}, {hi:#x}) of base register {base}{known}"
        else:
            where = f"{Buffer(space).name} words [{lo:#x}, {hi:#x})"
        return f"operand '{RANKS[opcode][rank]}' ({where})"

    def lines(self, tile: int, index: int, others: Sequence[int] = ()) -> list[str]:
        """The word and the `others` (word numbers) as text, each with what it was made from."""
        out = []
        first = np.cumsum([0, *map(len, self.program.words[self.entry.name])])
        sources = {s.tag: s for s in self.entry.sources}
        for t, i in [(tile, index), *(self.split(n) for n in others[:4] if n >= 0 and n != first[tile] + index)]:
            word = self.program.words[self.entry.name][t][i]
            out.append(f"tile {t} word {i}: {disassemble_word(word)}")
            source = sources.get(int(word["tag"]))
            if source is not None:
                nodes = f", ONNX nodes {', '.join(source.nodes)}" if source.nodes else ""
                out.append(f"  from {source.kind} '{source.name}'{nodes}")
        return out

    def error(self, code: str, tile: int, index: int, what: str, why: str, others: Sequence[int] = ()) -> DpuError:
        """The error for one word."""
        text = "\n    ".join([why, *self.lines(tile, index, others)])
        return DpuError(self.place(tile, index), what, why=text, hint=HINT, code=code)

    def output(self, name: str, found: Sequence[int], expected: Sequence[int]) -> DpuError:
        """The error for an output that is not what the entry should leave."""
        extra, missing = [w for w in found if w not in expected], [w for w in expected if w not in found]
        parts = []
        if extra:
            parts.append(f"holds what {self.writers(extra)} wrote")
        if missing:
            parts.append(f"lacks what {self.writers(missing)} should have written")
        why = ["the host reads this tensor when the entry has ended"]
        for n in [*extra[:1], *missing[:1]]:
            if n >= 0:
                why += self.lines(*self.split(n))
        what = f"output '{name}' {' and '.join(parts)}"
        return DpuError(f"entry '{self.entry.name}'", what, why="\n    ".join(why), hint=HINT, code="E368")
