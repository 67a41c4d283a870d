"""What every lowering shares: the arch, DRAM tensors of graph values, constants, and the sections written so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from ...errors import DpuError
from ...ir.arch import Arch
from ...ir.tile_program import ITEM_BYTES, Buf, Dram, Section
from ..tiling import Unit, part_index, row_blocks, units
from .constants import ConstantPool
from .emitter import Emitter

MOST_WORDS = 3_000_000
"""Words of one tile in one entry: 190 MB. Lowering makes an object of each, so more would fill the memory."""

Block = tuple[Emitter, Emitter]
"""One block of work: its prologue (may run under the previous block's main part) and its main part."""

Template = Callable[[Unit], Iterable[Block]]


def at(dram: Dram, b: int = 0, t: int = 0, c: int = 0) -> int:
    """Byte offset of element (b, t, c) from the tensor's start."""
    return (b * dram.shape[1] + t) * dram.row_bytes + c * ITEM_BYTES[dram.dtype]


def pitch(dram: Dram) -> int:
    """Bytes from one token to the next."""
    return dram.row_bytes


def exponent(attribute: IntegerAttr[Any] | None) -> int:
    """The power of two that a tensor is stored divided by, or the zero point it is stored with; none is 0."""
    return 0 if attribute is None else attribute.value.data


@dataclass
class Lowering:
    """State of lowering one entry."""

    arch: Arch
    pool: ConstantPool
    tensors: dict[SSAValue, Dram] = field(default_factory=dict)
    declared: list[Dram] = field(default_factory=list)
    body: list[Section] = field(default_factory=list)
    tables: list[dict[str, Buf]] = field(default_factory=list)  # gate table buffers of each tile
    tag: int = 0
    source: str = ""
    words: int = 0  # estimate of what the fullest tile has so far
    most_words: ClassVar[int] = MOST_WORDS

    def admit(self, words: int) -> None:
        """Refuse an operation before its words are made, if they are too many; `words` is an estimate for one tile.

        Raises:
            DpuError: E206.
        """
        if self.words + words > self.most_words:
            before = f", after {self.words:,} of the operations before it" if self.words else ""
            raise DpuError(
                self.source,
                f"would take about {words:,} instruction words a tile{before}",
                why=f"an entry may have {self.most_words:,}; arch '{self.arch.name}' cuts it into blocks that small",
                hint="use an arch with larger scratchpads or more tiles, or a smaller image",
                code="E206",
            )

    def share(self, tokens: int) -> int:
        """Rows of the fullest tile."""
        return -(-tokens // self.arch.tiles)

    def blocks_of(self, samples: int, tokens: int, rows: int) -> int:
        """Blocks of at most `rows` rows on the fullest tile; a single sample is cut into two units, see `units`."""
        share = self.share(tokens)
        return samples * -(-share // rows) if samples > 1 else 2 * -(-share // (2 * rows))

    def emitter(self) -> Emitter:
        return Emitter(self.arch)

    def tiles_of(self, channels: int) -> int:
        """Column tiles of so many channels."""
        return -(-channels // self.arch.cols)

    def tail(self, channels: int) -> int:
        """Valid columns of the last column tile."""
        return (channels - 1) % self.arch.cols + 1

    def declare(self, name: str, dtype: str, shape: tuple[int, int, int], kind: str = "work") -> Dram:
        """A new DRAM tensor."""
        dram = Dram.of(name, dtype, shape, kind)
        self.declared.append(dram)
        return dram

    def result(self, value: SSAValue, dtype: str, shape: tuple[int, int, int], suffix: str = "") -> Dram:
        """The DRAM tensor of an operation's result; entries' outputs were declared before."""
        if value not in self.tensors:
            self.tensors[value] = self.declare(f"{self.source}{suffix}", dtype, shape)
        return self.tensors[value]

    def operand(self, value: SSAValue, dtype: str = "f16") -> Dram:
        """The DRAM tensor of an operand that is read as `dtype`.

        Raises:
            DpuError: it is stored as something else.
        """
        dram = self.tensors[value]
        if dram.dtype != dtype:
            raise DpuError(
                self.source,
                f"reads '{dram.name}' as {dtype}, but it is stored as {dram.dtype}",
                why="a one-token tensor that is returned or added to an image is float32, other operands are float16",
                hint="compute it twice, or keep one of its readers on the host",
                code="E228",
            )
        return dram

    def run(self, groups: list[list[Unit]], template: Template) -> None:
        """Write the sections of one graph operation: group by group, block by block, tile by tile."""
        for step_base, group in enumerate(groups):
            iterators: list[tuple[Unit, Iterator[Block]]] = [(u, iter(template(u))) for u in group]
            step = 0
            while iterators:
                ready: list[tuple[Unit, Block]] = []
                alive: list[tuple[Unit, Iterator[Block]]] = []
                for u, it in iterators:
                    block = next(it, None)
                    if block is not None:
                        ready.append((u, block))
                        alive.append((u, it))
                for phase, index in (("prologue", 0), ("main", 1)):
                    for u, block in ready:
                        for ops in block[index].parts:
                            number = step_base * 1000 + step
                            self.body.append(Section(u.tile, self.tag, u.stream, number, phase, self.source, ops))
                iterators = alive
                step += 1


def grid(samples: int, tokens: int) -> tuple[int, int]:
    """(samples, tokens) as lowered: samples of one token become tokens of one sample, so that weights pass once."""
    return (1, samples) if tokens == 1 else (samples, tokens)


def stat_parts(samples: int, tokens: int, tiles: int, rows: int) -> dict[int, list[tuple[int, int]]]:
    """Row blocks of each sample's column-statistics partials, in order."""
    parts: dict[int, list[tuple[int, int]]] = {}
    for u in part_index(samples, tokens, tiles):
        parts.setdefault(u.b, []).extend(row_blocks(u, rows))
    return parts


def all_units(samples: int, tokens: int, arch: Arch, grain: int = 1) -> list[list[Unit]]:
    return units(samples, tokens, arch.tiles, grain)
