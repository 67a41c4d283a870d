"""What a compiled program is: entry points, words, constants, memory plan, source map. The data model of a `.dpu` file.

`codegen/dpufile.py` writes and reads it as a safetensors file.

Base registers: `CONST` weights and parameters, read only; `WORK` activations of one entry, dead after it; `STATE`
tensors that one entry writes and another reads (cached cross-attention K and V, time embeddings); `IO` inputs and
outputs that the host writes and reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from .arch import Arch
from .isa import Words


class Base(IntEnum):
    """Use of the base registers; 4 to 7 are free."""

    CONST = 0
    WORK = 1
    STATE = 2
    IO = 3


ROW_ALIGN = 64  # bytes; every DRAM tensor row starts on an AXI beat


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Slot(_Model):
    """One DRAM tensor, samples x tokens x channels: element (b, t, c) at
    `base + offset + (b * tokens + t) * row_bytes + c * itemsize`. The one description of a tensor in DRAM."""

    name: str
    shape: tuple[int, int, int]
    dtype: Literal["f16", "f32", "i8", "i32"]
    base: int
    offset: int
    row_bytes: int
    layout: str = "BTC"  # how the host's tensor maps onto it: "NCHW", "BTC", "BC"
    height: int = 0  # of an NCHW tensor
    width: int = 0

    @property
    def bytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.row_bytes


class SourceOp(_Model):
    """A graph operation that owns words: its `tag` is in each word's header."""

    tag: int
    name: str  # unique in the entry
    kind: str  # graph operation, e.g. "dpu.q.linear"
    nodes: tuple[str, ...]  # ONNX nodes it came from
    macs: int  # multiply-accumulates of the graph operation, before padding and upsample folding
    outputs: tuple[Slot, ...] = ()


class Entry(_Model):
    """One entry point: run to completion by one submit."""

    name: str
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    sources: tuple[SourceOp, ...]
    once: bool = False  # runs once an image instead of once a step
    part: str = "unet"  # the model it belongs to


class HostSegment(_Model):
    """Work that the host does, and why."""

    name: str
    why: str
    nodes: tuple[str, ...] = ()


@dataclass
class Program:
    """A compiled program in memory.

    `words[entry][tile]` is that tile's stream. `constants` is the image bound to `Base.CONST`. `base_bytes` is the size
    of each region. `tables` are named arrays that tools need but the device does not (row blocks of statistics, the
    quantised graph's text as bytes, checks). `files` are the pipeline's own files (tokenizer, scheduler, host models).
    """

    arch: Arch
    entries: list[Entry]
    words: dict[str, list[Words]]
    constants: npt.NDArray[np.uint8]
    base_bytes: dict[int, int]
    host_segments: list[HostSegment] = field(default_factory=list)
    tables: dict[str, npt.NDArray[np.generic]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    info: dict[str, object] = field(default_factory=dict)  # precision, model digest, compiler version, digests

    def entry(self, name: str) -> Entry:
        """The entry point called `name`.

        Raises:
            KeyError: there is none.
        """
        for e in self.entries:
            if e.name == name:
                return e
        raise KeyError(name)
