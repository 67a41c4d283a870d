"""Constants of a program: what each one is and how its bytes are made.

Bytes are made only when they are written, a few columns of a weight at a time: memory does not grow with the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from ...ir.graph import ParamOp, shape_of
from ...ir.tile_program import Dram
from ..weights import F32, Fixed, fixed

Bytes = npt.NDArray[np.uint8]
Maker = Callable[[], Iterable[Bytes]]
"""Makes a constant's bytes, in pieces."""

PANEL = 1 << 20
"""Elements of a weight that are worked on at once."""
Fetch = Callable[[str, tuple[str, ...]], npt.NDArray[Any]]
"""Reads a parameter by source and transform, as `WeightStore.get` does."""


@dataclass
class ConstantPool:
    """Constant tensors by name, with the function that makes their bytes (in the layout of their tensor)."""

    fetch: Fetch
    makers: dict[str, Maker] = field(default_factory=dict)
    drams: dict[str, Dram] = field(default_factory=dict)

    def stored(self, value: SSAValue) -> npt.NDArray[Any]:
        """A parameter's values as stored, a view of the file where that is possible, in the shape of the SSA value."""
        op = cast(ParamOp, value.owner)
        transform = tuple(t.data for t in op.transform.data) if op.transform else ()
        return np.asarray(self.fetch(op.source.data, transform)).reshape(shape_of(value))

    def fixed(self, value: SSAValue) -> Fixed | None:
        """A parameter's integers and scales, if the model stores those."""
        op = cast(ParamOp, value.owner)
        found = fixed(self.fetch, op.source.data, tuple(t.data for t in op.transform.data) if op.transform else ())
        return found.map(lambda a: a.reshape(shape_of(value))) if found is not None else None

    def weight(self, value: SSAValue) -> npt.NDArray[Any] | Fixed:
        """A weight as stored: floats of any width, or integers and scales."""
        found = self.fixed(value)
        return self.stored(value) if found is None else found

    def param(self, value: SSAValue) -> F32:
        """A parameter's values in float32, shape of the SSA value."""
        return self.stored(value).astype(np.float32)

    def add(self, name: str, dtype: str, shape: tuple[int, int, int], make: Callable[[], npt.NDArray[Any]]) -> Dram:
        """The constant called `name`, made once; `make` gives an array of `shape` in that dtype."""
        if name not in self.drams:
            dram = Dram.of(name, dtype, shape, "const")
            self.drams[name] = dram
            self.makers[name] = lambda: [_rows(make(), dram)]
        return self.drams[name]

    def raw(self, name: str, size: int, make: Maker) -> Dram:
        """A constant of plain bytes, such as packed weight tiles; `make` gives them in pieces."""
        if name not in self.drams:
            self.drams[name] = Dram(name, "i8", (1, 1, size), "const", size)
            self.makers[name] = make
        return self.drams[name]


def _rows(array: npt.NDArray[Any], dram: Dram) -> Bytes:
    """Array of the tensor's shape as bytes with the tensor's row pitch."""
    b, t, c = dram.shape
    rows = np.ascontiguousarray(array).reshape(b * t, c).view(np.uint8)
    out = np.zeros((b * t, dram.row_bytes), np.uint8)
    out[:, : rows.shape[1]] = rows
    return out.reshape(-1)


@dataclass(frozen=True)
class ConstantsImage:
    """All constants of a program at their offsets, each made when it is its turn and not kept."""

    size: int
    places: tuple[tuple[int, Maker], ...]

    def chunks(self) -> Iterator[Bytes]:
        """The image from its first byte to its last."""
        at = 0
        for offset, make in sorted(self.places, key=lambda place: place[0]):
            yield from _zeros(offset - at)
            at = offset
            for piece in make():
                yield piece
                at += len(piece)
        yield from _zeros(self.size - at)

    def array(self) -> Bytes:
        """The image in memory."""
        image, at = np.empty(self.size, np.uint8), 0
        for piece in self.chunks():
            image[at : at + len(piece)] = piece
            at += len(piece)
        return image


def _zeros(count: int) -> Iterator[Bytes]:
    if count < 0:
        raise ValueError(f"two constants overlap by {-count} bytes")
    while count > 0:
        step = min(count, PANEL)
        yield np.zeros(step, np.uint8)
        count -= step
