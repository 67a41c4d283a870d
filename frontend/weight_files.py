"""Safetensors files as places on disk: where each tensor's bytes are, and writing them one tensor at a time."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..errors import DpuError

_TORCH = {"F16": torch.float16, "F32": torch.float32, "BF16": torch.bfloat16, "I64": torch.int64, "F64": torch.float64}
_NAMES = {dtype: name for name, dtype in _TORCH.items()}


@dataclass(frozen=True)
class WeightRef:
    """The bytes of one tensor: `length` bytes at `offset` of `file`."""

    file: Path
    offset: int
    length: int
    dtype: torch.dtype
    shape: tuple[int, ...]

    def load(self) -> torch.Tensor:
        """Read the tensor into memory."""
        with self.file.open("rb") as f:
            f.seek(self.offset)
            data = bytearray(f.read(self.length))
        return torch.frombuffer(data, dtype=self.dtype).reshape(self.shape)


def read_header(path: Path) -> dict[str, WeightRef]:
    """Every tensor of a safetensors file, by name, without reading any of them.

    Raises:
        DpuError: the file is no safetensors file, is cut short, or holds a type that no weight has.
    """
    try:
        with path.open("rb") as f:
            size = int.from_bytes(f.read(8), "little")
            if not 0 < size <= path.stat().st_size - 8:
                raise ValueError("its header is longer than the file")
            header: dict[str, Any] = json.loads(f.read(size))
        refs = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            dtype = _TORCH[entry["dtype"]]
            refs[name] = WeightRef(path, 8 + size + begin, end - begin, dtype, tuple(entry["shape"]))
            if refs[name].offset + refs[name].length > path.stat().st_size:
                raise ValueError(f"tensor '{name}' ends behind the end of the file")
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise DpuError(
            str(path),
            f"not a readable safetensors file ({e})",
            hint="copy or download the file again",
            code="E112",
        ) from e
    return refs


def find_weights(folder: Path, stem: str, prefer_fp16: bool) -> dict[str, WeightRef]:
    """The tensors of one part of a diffusers folder, from one file or from shards, fp16 variant or plain.

    Raises:
        DpuError: no weight file of any of these names is there.
    """
    variants = (".fp16", "") if prefer_fp16 else ("", ".fp16")
    for variant in variants:
        single = folder / f"{stem}{variant}.safetensors"
        if single.is_file():
            return read_header(single)
        index = folder / f"{stem}.safetensors.index{variant}.json"
        if index.is_file():
            shards = sorted(set(json.loads(index.read_text())["weight_map"].values()))
            return {name: ref for shard in shards for name, ref in read_header(folder / shard).items()}
    raise DpuError(
        str(folder / f"{stem}.safetensors"),
        "missing",
        why="a diffusers SDXL folder holds the weights of each part as safetensors",
        hint="save the pipeline with safe_serialization=True",
        code="E111",
    )


def write_weights(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]],
    dtype: torch.dtype,
    value: Callable[[str], torch.Tensor],
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, WeightRef]:
    """Write a safetensors file of one dtype, asking `value` for one tensor at a time.

    `progress` gets (bytes written, bytes in all) after each tensor.

    Raises:
        DpuError: there is no room for the file.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape in shapes.items():
        length = torch.Size(shape).numel() * dtype.itemsize
        header[name] = {"dtype": _NAMES[dtype], "shape": list(shape), "data_offsets": [offset, offset + length]}
        offset += length
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)  # the first tensor is aligned, so that a reader may map it
    check_room(path.parent, offset)
    done = 0
    with path.open("wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for name in shapes:
            data = value(name).to(dtype).contiguous().numpy().reshape(-1).view("u1").data
            f.write(data)
            done += data.nbytes
            if progress:
                progress(done, offset)
    return read_header(path)


def check_room(folder: Path, needed: int) -> None:
    """Refuse to begin a file of `needed` bytes that the disk cannot hold.

    Raises:
        DpuError: it cannot.
    """
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DpuError(
            str(folder),
            f"{needed / 1e9:.1f} GB of weights, {free / 1e9:.1f} GB free",
            hint="make room, or write to another disk with -o; finished parts are kept",
            code="E101",
        )


def link_or_copy(source: Path, target: Path) -> None:
    """Make `target` a hard link of `source`, or a copy where the file system has no links between the two."""
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)
