"""Host tensors <-> samples x tokens x channels <-> bytes of a slot."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ..errors import DpuError
from ..ir.container import Slot
from ..ir.numerics import f32_to_f16

F32 = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
SINUSOID = ".sinusoid"
"""The suffix that `split-entries` gives to the embedding of a scalar input: the host computes it."""

_DTYPES: dict[str, np.dtype[np.generic]] = {
    "f16": np.dtype("<f2"),
    "f32": np.dtype("<f4"),
    "i8": np.dtype("i1"),
    "i32": np.dtype("<i4"),
}


def as_btc(array: npt.ArrayLike, shape: tuple[int, ...], name: str = "input") -> F32:
    """`array` as float32 samples x tokens x channels of `shape`.

    NCHW, samples x channels and scalars are rearranged; one sample is repeated.

    Raises:
        DpuError: its elements do not fit `shape`.
    """
    x = np.asarray(array, np.float32)
    original = x.shape
    if len(shape) == 3:
        if x.ndim == 4:
            x = x.reshape(*x.shape[:2], -1).transpose(0, 2, 1)
        elif x.ndim == 2:
            x = x[:, None, :]
        elif x.ndim < 2:
            x = x.reshape(-1, 1, 1) if shape[2] == 1 else x.reshape(1, 1, -1)
    if x.ndim == len(shape) and x.shape[0] == 1 and x.shape[1:] == shape[1:]:
        x = np.broadcast_to(x, shape)
    if x.shape != shape:
        raise DpuError(
            f"input '{name}'",
            f"is {_times(original)}, expected {_times(shape)}",
            why="a program and its graph have fixed sizes",
            code="E403",
        )
    # A copy: the caller may write into its array afterwards, and torch refuses one that it cannot write.
    return np.array(x, np.float32, order="C")


def from_btc(array: npt.NDArray[np.generic], height: int, width: int) -> F32:
    """Pixels as tokens -> NCHW."""
    b, t, c = array.shape
    if t != height * width:
        raise DpuError("output", f"has {t} tokens, not {height} x {width} pixels", code="E403")
    return np.ascontiguousarray(array.transpose(0, 2, 1).reshape(b, c, height, width), np.float32)


def sinusoid(x: F32, half: int) -> F32:
    """`[cos(x f), sin(x f)]` for each scalar of x[b, 1, n], in float32: the meaning of `dpu.sinusoid`."""
    frequency = np.exp(np.float32(-np.log(10000.0)) * np.arange(half, dtype=np.float32) / np.float32(half))
    angle = np.asarray(x, np.float32)[..., None] * frequency.astype(np.float32)
    both = np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)
    return np.ascontiguousarray(both.reshape(*x.shape[:-1], -1), np.float32)


def host_input(name: str, shape: tuple[int, ...], values: Mapping[str, npt.ArrayLike], where: str = "input") -> F32:
    """The value of input `name`, as `shape`, from the host's values by name.

    Input `x.sinusoid` is the embedding of each of the n scalars of `x`, `channels / n` wide, unless it is given itself.

    Raises:
        DpuError: there is no value, or its shape does not fit.
    """
    if name in values:
        return as_btc(values[name], shape, name)
    source = name.removesuffix(SINUSOID)
    if source == name or source not in values:
        raise DpuError(where, f"input '{name}' is missing", hint=f"given are {', '.join(values)}", code="E401")
    x = np.atleast_1d(np.asarray(values[source], np.float32))
    b, _, c = shape
    scalars = 1 if x.ndim == 1 else x.shape[1]
    if c % (2 * scalars):
        raise DpuError(where, f"{scalars} scalars do not fill the {c} channels of '{name}'", code="E403")
    return sinusoid(as_btc(x.reshape(-1, 1, scalars), (b, 1, scalars), source), c // (2 * scalars))


def pack(slot: Slot, value: F32) -> tuple[Bytes, int]:
    """The bytes of `slot` for a value of its shape, rows padded with zero, and how many elements overflowed float16."""
    values: npt.NDArray[np.generic] = value
    overflows = 0
    if slot.dtype == "f16":
        values, overflows = f32_to_f16(value)
    data = np.ascontiguousarray(values, _DTYPES[slot.dtype]).reshape(slot.shape[0] * slot.shape[1], -1).view(np.uint8)
    rows = np.zeros((len(data), slot.row_bytes), np.uint8)
    rows[:, : data.shape[1]] = data
    return rows.reshape(-1), overflows


def unpack(slot: Slot, data: Bytes) -> F32:
    """The host tensor of an output slot: NCHW, samples x channels, or samples x tokens x channels, in float32."""
    dtype = _DTYPES[slot.dtype]
    b, t, c = slot.shape
    rows = data[: slot.bytes].reshape(b * t, slot.row_bytes)[:, : c * dtype.itemsize]
    values = np.ascontiguousarray(rows).view(dtype).reshape(b, t, c)
    if slot.layout == "NCHW":
        return from_btc(values, slot.height, slot.width)
    return np.ascontiguousarray(values[:, 0] if slot.layout == "BC" else values, np.float32)


def _times(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "a scalar"
