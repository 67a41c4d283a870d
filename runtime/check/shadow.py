"""Shadows: copies of what a program stored into its DRAM tensors, kept when the DRAM is used again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from ...ir.container import Slot
from ...ir.tile_program import Dram

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

DTYPES: dict[str, type[np.generic]] = {"f16": np.float16, "f32": np.float32, "i8": np.int8, "i32": np.int32}
POISON = 0xA5  # what memory holds that nobody wrote


@dataclass(frozen=True)
class Stored:
    """A STORE that touched a tensor: where it ran, and the box of bytes, relative to the tensor."""

    tile: int
    word: int
    start: int
    inner: int
    n: tuple[int, ...]
    stride: tuple[int, ...]

    def starts(self) -> npt.NDArray[np.int64]:
        """First byte of each run."""
        out = np.array([self.start], np.int64)
        for n, stride in zip(self.n, self.stride, strict=True):
            out = (np.arange(n, dtype=np.int64)[:, None] * stride + out).reshape(-1)
        return out

    def covers(self, byte: int) -> bool:
        s = self.starts()
        return bool(np.any((s <= byte) & (byte < s + self.inner)))


@dataclass
class Shadow:
    """What the program stored into one DRAM tensor."""

    name: str
    dtype: str
    shape: tuple[int, int, int]
    row_bytes: int
    base: int
    offset: int
    data: Bytes
    written: npt.NDArray[np.bool_]
    stores: list[Stored] = field(default_factory=list)

    @classmethod
    def of(cls, dram: Dram, place: tuple[int, int]) -> Shadow:
        """The shadow of a tensor of the tile program that lies at `place` (base register, offset)."""
        size = dram.shape[0] * dram.shape[1] * dram.row_bytes
        data, written = np.full(size, POISON, np.uint8), np.zeros(size, np.bool_)
        return cls(dram.name, dram.dtype, dram.shape, dram.row_bytes, *place, data, written)

    @classmethod
    def of_slot(cls, slot: Slot) -> Shadow:
        """The shadow of a tensor that the container describes."""
        place = slot.row_bytes, slot.base, slot.offset
        data, written = np.full(slot.bytes, POISON, np.uint8), np.zeros(slot.bytes, np.bool_)
        return cls(slot.name, slot.dtype, slot.shape, *place, data, written)

    def take(self, region: Bytes, tile: int, word: int, dma: np.void) -> None:
        """Copy what a STORE wrote, as far as it lies in this tensor."""
        inner, n, stride = int(dma["inner"]), dma["n"].tolist(), dma["dstride"].tolist()
        start, size = int(dma["offset"]) - self.offset, len(self.data)
        reach = [(m - 1) * s for m, s in zip(n, stride, strict=True)]
        low, high = start + sum(min(r, 0) for r in reach), start + sum(max(r, 0) for r in reach) + inner
        if not inner or not all(n) or high <= 0 or low >= size:
            return
        stored = Stored(tile, word, start, inner, tuple(n), tuple(stride))
        if low >= 0 and high <= size:
            shape, strides = (*n[::-1], inner), (*stride[::-1], 1)
            at = self.offset + start
            as_strided(self.data[start:], shape, strides)[...] = as_strided(region[at:], shape, strides)
            as_strided(self.written[start:], shape, strides)[...] = True
            self.stores.append(stored)
            return
        touched = False
        for s in stored.starts().tolist():
            a, z = max(s, 0), min(s + inner, size)
            if a < z:
                self.data[a:z] = region[self.offset + a : self.offset + z]
                self.written[a:z] = touched = True
        if touched:
            self.stores.append(stored)

    def values(self) -> Array:
        """The tensor's elements [B, T, C]."""
        return elements(self.data, self.shape, self.row_bytes, self.dtype)

    def absent(self) -> npt.NDArray[np.bool_]:
        """Elements of which a byte was never stored."""
        size = np.dtype(DTYPES[self.dtype]).itemsize
        b, t, c = self.shape
        rows = self.written.reshape(b, t, self.row_bytes)[..., : c * size]
        return np.asarray(~rows.reshape(b, t, c, size).all(axis=3))

    def byte_of(self, index: tuple[int, int, int]) -> int:
        """First byte of an element."""
        b, t, c = index
        return (b * self.shape[1] + t) * self.row_bytes + c * np.dtype(DTYPES[self.dtype]).itemsize


def elements(data: Bytes, shape: tuple[int, int, int], row_bytes: int, dtype: str) -> Array:
    b, t, c = shape
    kind = np.dtype(DTYPES[dtype])
    rows = data.reshape(b * t, row_bytes)[:, : c * kind.itemsize]
    return np.ascontiguousarray(rows).view(kind).reshape(shape)
