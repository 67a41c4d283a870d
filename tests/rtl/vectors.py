"""The float functions and function units of the RTL as a shared library: millions of vectors a test."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from . import shared

OPS = (
    "ftz", "fadd", "fmul", "fmax", "i32", "i33", "from_f16", "to_f16", "to_i8", "to_i8_offset", "to_i15",
    "fmul_split", "fmax_or_add", "fadd_positive",
)  # fmt: skip


@cache
def library() -> Any:
    """The compiled library."""
    loaded = shared.library("dpu_vectors_tb", {}, fast="-O2")
    loaded.vectors_unit.restype = ctypes.c_uint64
    loaded.vectors_reset()
    return loaded


def _pointer(x: Any) -> Any:
    return None if x is None else ctypes.c_void_p(x.ctypes.data)


def bits(x: Any) -> Any:
    """Contiguous 32-bit patterns of a float32 or integer array."""
    x = np.ascontiguousarray(x)
    return x.view(np.uint32) if x.dtype.itemsize == 4 else x.astype(np.uint32)


def combinational(op: str, a: Any, b: Any = None, sign: Any = None) -> Any:
    """The function `op` of dpu_fp_pkg on 32-bit patterns."""
    a = bits(a)
    b = np.zeros_like(a) if b is None else bits(b)
    assert a.shape == b.shape
    sign = None if sign is None else np.ascontiguousarray(sign, np.uint8)
    y = np.empty_like(a)
    library().vectors_combinational(
        OPS.index(op), ctypes.c_uint64(a.size), _pointer(a), _pointer(b), _pointer(sign), _pointer(y)
    )
    return y


def load_table(slot: int, image: Any) -> None:
    """Write a table image into one of the two slots."""
    library().vectors_table(slot, _pointer(np.ascontiguousarray(image, np.uint8)))


def unit(name: str, code: Any, x: Any, slot: Any = 0, holes: int = 0) -> Any:
    """Arguments through dpu_func (`code`: Function) or dpu_recip (`code`: 1 for rsqrt), one a cycle.

    `holes` of 256 cycles bring no argument. The latency of every result is checked.
    """
    x = bits(x)
    code, slot = (np.ascontiguousarray(np.broadcast_to(v, x.shape), np.uint8) for v in (code, slot))
    y = np.empty_like(x)
    cycle = library().vectors_unit(
        ("func", "recip").index(name), ctypes.c_uint64(x.size), *map(_pointer, (code, slot, x)), holes, _pointer(y)
    )
    assert not cycle, f"{name}: valid_o in cycle {cycle - 1} is not valid_i of FuncLatency cycles before"
    return y
