"""The weight store: parameters by name, on disk until somebody reads one.

A source is "part::initializer", such as "unet::conv_in.weight". What `get` returns is the stored array (a view of a
memory-mapped file where possible) after a list of transforms, each a short text:

- `transpose` (all dimensions reversed) or `transpose:1,0,2`
- `reshape:320,4,3,3`
- `rows:0:1280`, `cols:0:640`: a range of the first, of the last dimension

An int8 parameter with scales reads as float32. Its `integers`, or its `scales` in the same shape, are read with that
word as the first transform; both are views where possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DpuError, refusing

Array = npt.NDArray[Any]
INTEGERS, SCALES = "integers", "scales"
_FLOATS = "fV"  # numpy's kinds of float16/32/64 and of bfloat16


@dataclass(frozen=True)
class Entry:
    """One parameter: in a file (`file`, `offset`), in memory (`read`), or absent (neither).

    With `scales`, the stored integers are multiplied by them: one, or one for each index of dimension `axis`.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    file: Path | None = None
    offset: int = 0
    read: Callable[[], Array] | None = None
    scales: Entry | None = None
    axis: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass
class WeightStore:
    """All parameters of a model, of one or several parts."""

    entries: dict[str, Entry] = field(default_factory=dict)
    _maps: dict[Path, Array] = field(default_factory=dict, repr=False)
    _checked: set[str] = field(default_factory=set, repr=False)

    def __contains__(self, source: object) -> bool:
        return source in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, source: str, entry: Entry) -> None:
        """Name one parameter. Naming the same one again replaces it."""
        self.entries[source] = entry

    def merge(self, other: WeightStore) -> None:
        """Take over the parameters of another part."""
        self.entries.update(other.entries)

    def entry(self, source: str) -> Entry:
        """What is known of a parameter without reading it."""
        try:
            return self.entries[source]
        except KeyError:
            raise DpuError(
                source,
                "no such parameter",
                hint="the module and the weight store belong to different models",
                code="E115",
            ) from None

    def present(self, source: str) -> bool:
        """Whether a parameter has a value, or only a shape."""
        entry = self.entry(source)
        return entry.file is not None or entry.read is not None

    def shape(self, source: str, transform: Sequence[str] = ()) -> tuple[int, ...]:
        """The shape of a parameter after `transform`, without reading it."""
        shape = self.entry(source).shape
        for step in transform:
            shape = transformed_shape(shape, step)
        return shape

    def get(self, source: str, transform: Sequence[str] = (), check: bool = True) -> Array:
        """The value of a parameter after `transform`; a view of the file where that is possible.

        The first read of a parameter looks for NaN and infinity, unless `check` is off.

        Raises:
            DpuError: the parameter is absent, unknown, cut off in its file, or not finite.
        """
        if check and source not in self._checked:
            self.check_finite(source)
        entry = self.entry(source)
        if transform and transform[0] in (INTEGERS, SCALES):
            value = self._stored(source) if transform[0] == INTEGERS else self._scales(source, entry)
            transform = transform[1:]
        else:
            value = self._stored(source)
            if entry.scales is not None:
                value = (value.astype(np.float32) * self._scales(source, entry)).astype(np.float32)
        for step in transform:
            value = transformed(value, step)
        return value

    def _scales(self, source: str, entry: Entry) -> Array:
        """The scales of an int8 parameter, in its shape."""
        if entry.scales is None:
            raise ValueError(f"parameter {source!r} has no scales")
        scales = self._read(f"{source} (scales)", entry.scales).astype(np.float32).reshape(-1)
        along = [1] * len(entry.shape)
        if scales.size > 1:
            along[entry.axis] = scales.size
        return np.broadcast_to(scales.reshape(along), entry.shape)

    def check_finite(self, source: str) -> None:
        """Look for NaN and infinity in one parameter, 16 Mi elements at a time.

        Raises:
            DpuError: there is one.
        """
        entry = self.entry(source)
        flat = self._stored(source) if entry.scales is None else self._read(source, entry.scales)
        shape, flat = flat.shape, flat.reshape(-1)
        if flat.dtype.kind in _FLOATS:
            for at in range(0, flat.size, 1 << 24):
                block = flat[at : at + (1 << 24)]
                bad = np.flatnonzero(~np.isfinite(block.astype(np.float32) if block.dtype.kind == "V" else block))
                if bad.size:
                    index = np.unravel_index(at + int(bad[0]), shape)
                    raise DpuError(
                        f"{entry.file}: parameter '{source}'" if entry.file else source,
                        f"element {list(map(int, index))} is {float(block[bad[0]])}",
                        why="a weight that is not finite makes every image black, and no scale can hold it",
                        hint="export again from a sound checkpoint (overflow of fp16 turns large weights into inf)",
                        code="E114",
                    )
        self._checked.add(source)

    def _stored(self, source: str) -> Array:
        return self._read(source, self.entry(source))

    def _read(self, source: str, entry: Entry) -> Array:
        if entry.read is not None:
            hint = "export the model again"
            with refusing(f"parameter '{source}'", "its data does not fit its type and shape", hint=hint, code="E112"):
                return np.asarray(entry.read()).reshape(entry.shape)
        if entry.file is None:
            raise DpuError(
                source,
                f"has no value, only the shape {'x'.join(map(str, entry.shape))}",
                why="the graph was imported without weights",
                hint="import a model whose weight file is there, or ask for shapes and counts only",
                code="E113",
            )
        if entry.nbytes == 0:
            return np.empty(entry.shape, entry.dtype)
        mapped = self._map(entry.file)
        if entry.offset + entry.nbytes > mapped.size:
            raise too_short(entry.file, source, entry.offset + entry.nbytes, mapped.size)
        return mapped[entry.offset : entry.offset + entry.nbytes].view(entry.dtype).reshape(entry.shape)

    def _map(self, file: Path) -> Array:
        if file not in self._maps:
            try:
                self._maps[file] = np.asarray(np.memmap(file, np.uint8, "r"))
            except (OSError, ValueError) as e:
                raise missing(file, str(e)) from e
        return self._maps[file]


def missing(file: Path, reason: str = "no such file") -> DpuError:
    """The error for an external data file that cannot be opened."""
    return DpuError(
        str(file),
        f"the file with the weights cannot be opened ({reason})",
        hint="keep the weight files in the folder of the .onnx file, as they were exported",
        code="E111",
    )


def too_short(file: Path, source: str, need: int, have: int) -> DpuError:
    """The error for an external data file that ends before a parameter does."""
    return DpuError(
        str(file),
        f"parameter '{source}' needs {need:,} bytes but the file has {have:,}",
        why="the file was cut off, or belongs to another model",
        hint="copy or download the file again",
        code="E112",
    )


def transformed_shape(shape: tuple[int, ...], step: str) -> tuple[int, ...]:
    """The shape after one transform."""
    kind, _, rest = step.partition(":")
    if kind == "transpose":
        return tuple(shape[i] for i in _ints(rest)) if rest else shape[::-1]
    if kind == "reshape":
        return _ints(rest)
    if kind in ("rows", "cols"):
        start, end = (int(x) for x in rest.split(":"))
        return (end - start, *shape[1:]) if kind == "rows" else (*shape[:-1], end - start)
    raise ValueError(f"unknown weight transform {step!r}")


def compose(shape: tuple[int, ...], transform: Sequence[str], step: str) -> tuple[str, ...]:
    """`transform` followed by `step`, without steps that cancel out; `shape` is that of the stored parameter."""
    steps = [*transform]
    before = shape
    for each in steps:
        before = transformed_shape(before, each)
    after = transformed_shape(before, step)
    if after == before and step.startswith("reshape"):
        return tuple(steps)
    if step == "transpose" and steps and steps[-1] == "transpose":
        return tuple(steps[:-1])
    if step.startswith("reshape") and steps and steps[-1].startswith("reshape"):
        return compose(shape, steps[:-1], step)
    return (*steps, step)


def transformed(value: Array, step: str) -> Array:
    """The value after one transform."""
    kind, _, rest = step.partition(":")
    if kind == "transpose":
        return value.transpose(_ints(rest) if rest else None)
    if kind == "reshape":
        return value.reshape(_ints(rest))
    start, end = (int(x) for x in rest.split(":"))
    if kind == "rows":
        return value[start:end]
    if kind == "cols":
        return value[..., start:end]
    raise ValueError(f"unknown weight transform {step!r}")


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(x) for x in text.split(",") if x)
