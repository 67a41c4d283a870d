"""Weights from a safetensors checkpoint in place of those of the ONNX file, int8 and int4 ones included.

For a parameter NAME of the graph (a state-dictionary name such as `conv_in.weight`) the file may hold

    NAME                   F16, BF16, F32: the values
    NAME + scale           I8 of the same shape, times one scale a tensor or one an output channel (the first dimension)
    NAME[_packed] + scale  U8 [n, k/2] or I32 [n, k/8], times a scale for each group of columns [n, groups]

where the scale is called `NAME_scale`, `NAME.scale` or, for `STEM.weight`, `STEM.scale`. Nibbles are unsigned, 8 stands
for zero, the low nibble comes first; groups are equally long (128 columns, as a rule). This is what compressed-tensors
writes as `int-quantized` and `pack-quantized`, without zero points.

Int8 weights keep their integers and scales through compilation. Int4 weights are read as floats and quantised to int8;
streaming them as int4 is later work.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from ..errors import DpuError
from .weights import Array, Entry, WeightStore

_DTYPES: dict[str, Any] = {
    "F16": np.float16,
    "F32": np.float32,
    "BF16": ml_dtypes.bfloat16,
    "I8": np.int8,
    "U8": np.uint8,
    "I32": np.int32,
    "I64": np.int64,
}


def use_checkpoint(store: WeightStore, part: str, path: Path) -> int:
    """Take the parameters of one part from a safetensors file; how many were in it.

    Raises:
        DpuError: no safetensors file, no parameter of the part in it, or one of another shape or an unknown layout.
    """
    tensors, others = _tensors(path)
    found = 0
    for source in list(store):
        prefix, _, name = source.partition("::")
        if prefix == part and name in others:
            raise _refuse(
                path, name, f"is {others[name]}", "weights are F16, BF16, F32, I8, or int4 packed into U8 or I32"
            )
        if prefix != part or (name not in tensors and f"{name}_packed" not in tensors):
            continue
        store.add(source, _entry(path, store, source, name, tensors))
        found += 1
    if not found:
        raise DpuError(
            str(path),
            f"holds none of the parameters of '{part}'",
            hint="give a checkpoint whose names are those of the exported model",
            code="E113",
        )
    return found


def _tensors(path: Path) -> tuple[dict[str, Entry], dict[str, str]]:
    """What the file holds, and the types of what it holds in another than `_DTYPES`."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if not 0 < size <= path.stat().st_size - 8:
                raise ValueError("its header is longer than the file")
            header = json.loads(file.read(size))
        header.pop("__metadata__", None)
        out, others = {}, {}
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            if entry["dtype"] not in _DTYPES:
                others[name] = str(entry["dtype"])
                continue
            out[name] = Entry(tuple(entry["shape"]), np.dtype(_DTYPES[entry["dtype"]]), path, 8 + size + begin)
            if end - begin != out[name].nbytes or 8 + size + end > path.stat().st_size:
                raise ValueError(f"tensor '{name}' is cut off")
        return out, others
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise DpuError(
            str(path), f"not a readable safetensors file ({e})", hint="copy or download the file again", code="E112"
        ) from e


def _entry(path: Path, store: WeightStore, source: str, name: str, tensors: dict[str, Entry]) -> Entry:
    shape = store.shape(source)
    stored = tensors.get(name) or tensors[f"{name}_packed"]
    if stored.dtype.kind in "fV":
        if stored.shape != shape:
            raise _refuse(path, name, f"is {_text(stored.shape)}, the graph wants {_text(shape)}")
        return stored
    scale = _scale(name, tensors)
    if scale is None:
        raise _refuse(path, name, f"is {stored.dtype} without a scale")
    if (zero := tensors.get(f"{name}_zero_point")) is not None and WeightStore({"zero": zero}).get("zero").any():
        raise _refuse(path, name, "has zero points", "the array multiplies by symmetric weights")
    if stored.dtype == np.int8:
        n = math.prod(scale.shape)
        if stored.shape != shape or n not in (1, shape[0]):
            raise _refuse(path, name, f"is {_text(stored.shape)} with {n} scales, the graph wants {_text(shape)}")
        return Entry(shape, stored.dtype, path, stored.offset, scales=scale)
    return _packed(path, name, stored, scale, shape)


def _scale(name: str, tensors: dict[str, Entry]) -> Entry | None:
    names = [f"{name}_scale", f"{name}.scale", f"{name.removesuffix('.weight')}.scale"]
    return next((tensors[n] for n in names if n in tensors and tensors[n].dtype.kind in "fV"), None)


def _packed(path: Path, name: str, stored: Entry, scale: Entry, shape: tuple[int, ...]) -> Entry:
    """An int4 weight, read as float32."""
    n, k = shape[0], math.prod(shape[1:])
    groups = math.prod(scale.shape) // n
    if stored.nbytes != n * -(-k // 2) or len(scale.shape) != 2 or scale.shape[0] != n or k % max(groups, 1) or k % 2:
        what = f"is {_text(stored.shape)} {stored.dtype} with scales {_text(scale.shape)} for a weight {_text(shape)}"
        raise _refuse(path, name, what)
    raw = WeightStore({"q": stored, "s": scale})

    def read() -> Array:
        packed = np.ascontiguousarray(raw.get("q")).reshape(n, -1).view(np.uint8)
        out = np.empty((n, k), np.float32)
        out[:, 0::2] = (packed & 15).astype(np.int8) - 8
        out[:, 1::2] = (packed >> 4).astype(np.int8) - 8
        out.reshape(n, groups, -1)[...] *= raw.get("s").astype(np.float32)[..., None]
        return out.reshape(shape)

    return Entry(shape, np.dtype(np.float32), read=read)


def _refuse(path: Path, name: str, what: str, why: str = "") -> DpuError:
    return DpuError(f"{path}: '{name}'", what, why=why, hint="frontend/checkpoint.py lists the layouts", code="E113")


def _text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "a scalar"
