"""Events to a trace file, plain or gzip; `auto` takes the finest level of detail that stays small enough."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO

from ..errors import DpuError
from ..files import atomic_write

LIMIT = 25_000_000  # bytes of a trace, compressed
_SAMPLE = 20_000  # events that an estimate compresses
_BLOCK = 64  # events encoded together

Event = dict[str, object]
Levels = Mapping[str, Callable[[], Iterator[Event]]]
"""Events by level of detail, finest first."""


def write_events(
    path: Path,
    levels: Levels,
    about: Event,
    detail: str = "auto",
    sizes: Mapping[str, int] | None = None,
    limit: int = LIMIT,
) -> str:
    """Write a trace, atomically; the level of detail that was written.

    A level that was asked for is written whole, whatever its size. `auto` takes the finest whose file, compressed, has
    at most `limit` bytes, and of the coarsest as many events as fit; the trace says so. `sizes` are the numbers of
    events where they are known, which spares writing a file that will not fit.

    Raises:
        DpuError: no such level, or the folder cannot be written.
    """
    if detail != "auto" and detail not in levels:
        hint = f"one of auto, {', '.join(levels)}"
        raise DpuError("--trace-detail", f"'{detail}' is no level of detail", hint=hint, code="E501")
    names = list(levels) if detail == "auto" else [detail]
    bound = limit if detail == "auto" else None
    with atomic_write(path) as temporary:
        for name in names:
            last = name == names[-1]
            if not last and _estimate(levels[name](), (sizes or {}).get(name, 0)) > limit:
                continue
            with temporary.open("wb") as f:
                whole = _Writer(f, path.suffix == ".gz", bound).write(levels[name](), about | {"detail": name})
            if whole or last:
                break
    return name


def _estimate(events: Iterator[Event], number: int) -> float:
    """Compressed bytes of so many events like the first ones."""
    if number <= _SAMPLE:
        return 0.0
    sample = ",\n".join(map(_text, islice(events, _SAMPLE))).encode()
    return len(zlib.compress(sample, 6)) / _SAMPLE * number


def _text(event: Event) -> str:
    return json.dumps(event, separators=(",", ":"))


class _Writer:
    """One document. Compressed bytes are counted even where the file is plain."""

    def __init__(self, file: IO[bytes], compress: bool, limit: int | None) -> None:
        self.file, self.compress, self.limit = file, compress, limit
        self.packer = zlib.compressobj(6, zlib.DEFLATED, 31)  # a gzip member without name and time
        self.size = 0

    def write(self, events: Iterator[Event], about: Event) -> bool:
        """Write events until they end or the limit is near; whether all were written."""
        self._put(b'{"displayTimeUnit":"ns","traceEvents":[\n')
        whole, separator = True, ""
        while block := list(islice(events, _BLOCK)):
            text = (separator + ",\n".join(map(_text, block))).encode()
            # A block takes at most its text, and the compressor may hold back as much of earlier ones.
            if self.limit is not None and self.size + 2 * len(text) + (64 << 10) > self.limit:
                whole = False
                break
            self._put(text)
            separator = ",\n"
        note = {} if whole else {"cut": f"events beyond {self.limit} compressed bytes are left out"}
        self._put(f'\n],"otherData":{json.dumps(about | note)}}}\n'.encode())
        last = self.packer.flush()
        self.size += len(last)
        if self.compress:
            self.file.write(last)
        return whole

    def _put(self, data: bytes) -> None:
        packed = self.packer.compress(data)
        self.size += len(packed)
        self.file.write(packed if self.compress else data)
