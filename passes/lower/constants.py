"""Constants of a program: what each one is and how its bytes are made. Bytes are made only when they are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from ...ir.graph import ParamOp, shape_of
from ...ir.tile import DramOp
from ..weights import F32

Bytes = npt.NDArray[np.uint8]
Fetch = Callable[[str, tuple[str, ...]], npt.NDArray[Any]]
"""Reads a parameter by source and transform, as `WeightStore.get` does."""


@dataclass
class ConstantPool:
    """Constant tensors by name, with the function that makes their bytes (in the layout of their `tile.dram`)."""

    fetch: Fetch
    makers: dict[str, Callable[[], Bytes]] = field(default_factory=dict)
    drams: dict[str, DramOp] = field(default_factory=dict)

    def param(self, value: SSAValue) -> F32:
        """A parameter's values in float32, shape of the SSA value."""
        op = cast(ParamOp, value.owner)
        transform = tuple(t.data for t in op.transform.data) if op.transform else ()
        return np.asarray(self.fetch(op.source.data, transform)).astype(np.float32).reshape(shape_of(value))

    def add(self, name: str, dtype: str, shape: tuple[int, int, int], make: Callable[[], npt.NDArray[Any]]) -> DramOp:
        """The constant called `name`, made once; `make` gives an array of `shape` in that dtype."""
        if name not in self.drams:
            dram = DramOp(name, dtype, shape, "const")
            self.drams[name] = dram
            self.makers[name] = lambda: _rows(make(), dram)
        return self.drams[name]

    def raw(self, name: str, size: int, make: Callable[[], Bytes]) -> DramOp:
        """A constant of plain bytes, such as packed weight tiles."""
        if name not in self.drams:
            self.drams[name] = DramOp(name, "i8", (1, 1, size), "const", row_bytes=size)
            self.makers[name] = make
        return self.drams[name]


def _rows(array: npt.NDArray[Any], dram: DramOp) -> Bytes:
    """Array of the tensor's shape as bytes with the tensor's row pitch."""
    b, t, c = (int(x) for x in dram.shape.get_values())
    rows = np.ascontiguousarray(array).reshape(b * t, c).view(np.uint8)
    out = np.zeros((b * t, dram.row_bytes.value.data), np.uint8)
    out[:, : rows.shape[1]] = rows
    return out.reshape(-1)
