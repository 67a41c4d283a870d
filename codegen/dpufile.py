"""The `.dpu` file: a valid safetensors file, so that any tool can list it and nothing needs a parser of its own.

    8 bytes   length of the header
    header    JSON: name, dtype, shape and place of each tensor; `__metadata__`, strings only
    data      words/<entry>/<tile> u8 [n, 64], constants u8 [m], table/<name>, source/<entry> u8 (JSON), file/<path> u8

Metadata: `format`, `format_version`, `abi`, `arch` (JSON), `arch_digest`, `entries` (JSON, without source maps),
`base_bytes`, `host_segments`, `info`, `checksums` (JSON: SHA-256 of each tensor) and `header_sha256` over all of these
and the tensor table. Constants are streamed when written and memory-mapped when read: their size is no matter.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from ..errors import DpuError
from ..files import atomic_write
from ..ir.arch import Arch
from ..ir.container import Entry, HostSegment, Program, SourceOp
from ..ir.isa import ABI_VERSION, HEADER, WORD_BYTES, Words

FORMAT, FORMAT_VERSION = "dpu", "1"
BLOCK = 16 << 20  # bytes hashed or written at once
MAX_HEADER = 100 << 20  # the limit of the safetensors library

Bytes = npt.NDArray[np.uint8]
Chunks = Iterable[bytes | memoryview | npt.NDArray[Any]]

_DTYPES = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "F16": np.dtype("<f2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "F32": np.dtype("<f4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F64": np.dtype("<f8"),
}
_NAMES = {v: k for k, v in _DTYPES.items()}

_SOURCES = TypeAdapter(list[SourceOp])
_ENTRIES = TypeAdapter(list[Entry])
_SEGMENTS = TypeAdapter(list[HostSegment])
_BASES = TypeAdapter(dict[int, int])
_INFO = TypeAdapter(dict[str, object])
_SUMS = TypeAdapter(dict[str, str])


@dataclass(frozen=True)
class Tensor:
    """A tensor of the file: its numpy type and shape, and its first byte and size in the data section."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int
    bytes: int


def _blocks(array: npt.NDArray[Any]) -> Iterator[memoryview]:
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    for at in range(0, len(flat), BLOCK):
        yield flat[at : at + BLOCK].data


def _chunks(chunks: Chunks) -> Iterator[memoryview]:
    for chunk in chunks:
        if isinstance(chunk, np.ndarray):
            yield from _blocks(chunk)
        else:
            yield memoryview(chunk)


class _Writer:
    """Streams tensors into a file whose header is written last, into room kept for it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.table: dict[str, dict[str, object]] = {}
        self.checksums: dict[str, str] = {}
        self.at = 0

    def add(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...] | None, data: Iterable[memoryview]) -> None:
        digest = hashlib.sha256()
        begin = self.at
        for block in data:
            digest.update(block)
            self.file.write(block)
            self.at += block.nbytes
        if shape is None:  # a stream of bytes whose length is known now
            shape = (self.at - begin,)
        self.table[name] = {"dtype": _NAMES[dtype], "shape": list(shape), "data_offsets": [begin, self.at]}
        self.checksums[name] = digest.hexdigest()


def _header_digest(table: dict[str, Any], metadata: dict[str, str]) -> str:
    rest = {k: v for k, v in metadata.items() if k != "header_sha256"}
    return hashlib.sha256(json.dumps([table, rest], sort_keys=True).encode()).hexdigest()


def _header(table: dict[str, Any], metadata: dict[str, str]) -> bytes:
    metadata = metadata | {"header_sha256": _header_digest(table, metadata)}
    text = json.dumps({"__metadata__": metadata, **table}, separators=(",", ":"))
    return text.encode()


def _metadata(program: Program) -> dict[str, str]:
    bare = [e.model_copy(update={"sources": ()}) for e in program.entries]
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "abi": str(ABI_VERSION),
        "arch": json.dumps(program.arch.model_dump(mode="json"), sort_keys=True),
        "arch_digest": program.arch.digest,
        "entries": _ENTRIES.dump_json(bare).decode(),
        "base_bytes": _BASES.dump_json(program.base_bytes).decode(),
        "host_segments": _SEGMENTS.dump_json(program.host_segments).decode(),
        "info": json.dumps(program.info, sort_keys=True),
    }


def _plan(program: Program, path: str) -> list[tuple[str, npt.NDArray[Any]]]:
    """Names and arrays of all tensors but the constants, words first."""
    names = [e.name for e in program.entries]
    for name in names:
        if name not in program.words:
            raise DpuError(path, f"entry '{name}' has no words", code="E305")
    for name in program.words:
        if names.count(name) != 1:
            raise DpuError(path, f"words belong to {names.count(name)} entries called '{name}'", code="E305")
    out: list[tuple[str, npt.NDArray[Any]]] = []
    for name in names:
        for tile, words in enumerate(program.words[name]):
            raw = np.ascontiguousarray(words).view(np.uint8).reshape(len(words), WORD_BYTES)
            out.append((f"words/{name}/{tile}", raw))
    for name, array in program.tables.items():
        if array.dtype.newbyteorder("<") not in _NAMES:
            raise DpuError(path, f"table '{name}' has dtype {array.dtype}, which the file cannot hold", code="E305")
        out.append((f"table/{name}", array.astype(array.dtype.newbyteorder("<"), copy=False)))
    for e in program.entries:
        text = _SOURCES.dump_json(list(e.sources))
        out.append((f"source/{e.name}", np.frombuffer(text, np.uint8)))
    for name, content in program.files.items():
        out.append((f"file/{name}", np.frombuffer(content, np.uint8)))
    return out


def save(program: Program, path: Path | str, constants: Chunks | None = None) -> None:
    """Write a program. `constants`, if given, is the constants image in pieces instead of `program.constants`.

    The file appears whole or not at all.

    Raises:
        DpuError: E101 the folder cannot be written, E305 the program holds something the file cannot.
    """
    plan = _plan(program, str(path))
    metadata = _metadata(program)
    nowhere = [10**18, 10**18]
    sizes: dict[str, Any] = {
        name: {"dtype": "BOOL", "shape": list(a.shape), "data_offsets": nowhere}
        for name, a in [*plan, ("constants", np.empty(0, np.uint8))]
    }
    sizes["constants"]["shape"] = [10**18]
    blank = dict.fromkeys(sizes, "0" * 64)
    room = len(_header(sizes, metadata | {"checksums": json.dumps(blank, sort_keys=True)}))
    room = -(-(8 + room) // WORD_BYTES) * WORD_BYTES - 8  # words and constants start on a beat of the file

    with atomic_write(path) as temporary, temporary.open("wb") as file:
        file.seek(8 + room)
        writer = _Writer(file)
        u8 = np.dtype(np.uint8)
        words = [x for x in plan if x[0].startswith("words/")]
        for name, array in words:
            writer.add(name, u8, array.shape, _blocks(array))
        if constants is None:
            writer.add("constants", u8, None, _blocks(program.constants))
        else:
            writer.add("constants", u8, None, _chunks(constants))
        for name, array in plan[len(words) :]:
            writer.add(name, array.dtype, array.shape, _blocks(array))
        header = _header(writer.table, metadata | {"checksums": json.dumps(writer.checksums, sort_keys=True)})
        file.seek(0)
        file.write(room.to_bytes(8, "little"))
        file.write(header.ljust(room))
        file.flush()
        os.fsync(file.fileno())


_COMPILE = "compile a model: dpuc compile DIR --calibration FILE -o FILE.dpu"
_DAMAGED = "the file was changed or damaged after it was written"
_AGAIN = "copy or compile it again"


def _not_a_program(path: str, why: str, hint: str = _COMPILE) -> DpuError:
    return DpuError(path, f"not a DPU program ({why})", hint=hint, code="E301")


def _read_header(path: Path) -> tuple[dict[str, Any], int]:
    """The header as JSON, and where the data begins."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            missing = size < 10 or not 2 <= length <= MAX_HEADER
            raw = b"" if missing else file.read(length)
    except OSError as e:
        raise DpuError(str(path), f"cannot be read ({e.strerror})", hint=_COMPILE, code="E301") from e
    if missing or not raw.startswith(b"{"):
        raise _not_a_program(str(path), "safetensors header is missing")
    if len(raw) < length:
        what = f"truncated: the header has {length} bytes, the file holds {len(raw)} of them"
        raise _not_a_program(str(path), what, _AGAIN)
    try:
        header = json.loads(raw)
    except ValueError as e:
        raise _not_a_program(str(path), "the safetensors header is no JSON") from e
    return header, 8 + length


def _check_metadata(path: str, header: dict[str, Any]) -> dict[str, str]:
    metadata = header.get("__metadata__")
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise _not_a_program(path, "a safetensors file of another kind")
    if any(not isinstance(v, str) for v in metadata.values()):
        raise _not_a_program(path, "its metadata holds more than strings")
    abi, version = metadata.get("abi"), metadata.get("format_version")
    if abi != str(ABI_VERSION):
        raise DpuError(path, f"ABI {abi}, this build reads {ABI_VERSION}", hint="compile the model again", code="E302")
    if version != FORMAT_VERSION:
        what = f"format version {version}, this build reads {FORMAT_VERSION}"
        raise DpuError(path, what, hint="compile the model again", code="E302")
    table = {k: v for k, v in header.items() if k != "__metadata__"}
    if metadata.get("header_sha256") != _header_digest(table, metadata):
        raise DpuError(path, "checksum of the header differs", why=_DAMAGED, hint=_AGAIN, code="E303")
    return cast(dict[str, str], metadata)


def _tensors(path: Path, header: dict[str, Any], begin: int) -> dict[str, Tensor]:
    """The tensor table, checked against the size of the file."""
    out: dict[str, Tensor] = {}
    end = 0
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        try:
            dtype, shape = _DTYPES[entry["dtype"]], tuple(int(n) for n in entry["shape"])
            first, last = (int(n) for n in entry["data_offsets"])
        except (KeyError, TypeError, ValueError, OverflowError) as e:
            raise _not_a_program(str(path), f"the table entry of tensor '{name}' is malformed") from e
        if first < 0 or min(shape, default=0) < 0 or last - first != math.prod(shape) * dtype.itemsize:
            raise _not_a_program(str(path), f"tensor '{name}' has {last - first} bytes for shape {list(shape)}")
        out[name] = Tensor(dtype, shape, first, last - first)
        end = max(end, last)
    out = dict(sorted(out.items(), key=lambda item: item[1].offset))
    size = path.stat().st_size - begin
    if size != end:
        kind = "truncated" if size < end else "trailing bytes"
        what = f"{kind}: the header promises {end} bytes of data, the file holds {size}"
        raise _not_a_program(str(path), what, _AGAIN)
    return out


def check_arch(program: Program, arch: Arch, where: str = "program") -> None:
    """A program runs only on the arch that it was compiled for.

    Raises:
        DpuError: E304.
    """
    if program.arch.digest != arch.digest:
        raise DpuError(
            where,
            f"compiled for arch '{program.arch.name}' (digest {program.arch.digest}), "
            f"asked to run on '{arch.name}' (digest {arch.digest})",
            hint=f"compile the model with --arch {arch.name}",
            code="E304",
        )


class _Reader:
    """Views of the tensors of one file, and their checksums."""

    def __init__(self, path: Path) -> None:
        self.path = path
        header, begin = _read_header(path)
        self.metadata = _check_metadata(str(path), header)
        self.tensors = _tensors(path, header, begin)
        self.map: Bytes = np.memmap(path, np.uint8, mode="r")[begin:]
        try:
            self.checksums = _SUMS.validate_json(self.metadata["checksums"])
        except (KeyError, ValidationError) as e:
            raise _not_a_program(str(path), "its checksums cannot be read") from e

    def raw(self, name: str) -> Bytes:
        t = self.tensors[name]
        return self.map[t.offset : t.offset + t.bytes]

    def array(self, name: str) -> npt.NDArray[Any]:
        t = self.tensors[name]
        return self.raw(name).view(t.dtype).reshape(t.shape)

    def check(self, name: str) -> None:
        digest = hashlib.sha256()
        for block in _blocks(self.raw(name)):
            digest.update(block)
        if digest.hexdigest() != self.checksums.get(name):
            raise DpuError(
                str(self.path),
                f"checksum of tensor '{name}' differs",
                why=_DAMAGED,
                hint=_AGAIN,
                code="E303",
            )

    def words(self, name: str) -> Words:
        t = self.tensors[name]
        if t.dtype != np.uint8 or len(t.shape) != 2 or t.shape[1] != WORD_BYTES:
            raise _not_a_program(str(self.path), f"tensor '{name}' is {t.shape}, words are u8 [n, {WORD_BYTES}]")
        return self.raw(name).view(HEADER)


def _check_digest(path: str, arch: Arch, metadata: dict[str, str]) -> None:
    if arch.digest != metadata.get("arch_digest"):
        raise DpuError(
            path,
            f"arch '{arch.name}' has digest {arch.digest} in this build, {metadata.get('arch_digest')} in the file",
            why="the meaning of an arch description changed between the build that compiled it and this one",
            hint="compile the model again",
            code="E304",
        )


def load(path: Path | str, verify: bool = True, arch: Arch | None = None) -> Program:
    """Read a program. Words, tables and constants are read-only views of the mapped file.

    All checksums are checked, without `verify` all but that of the constants. With `arch`, the program must have been
    compiled for it.

    Raises:
        DpuError: E301 no program or cut short, E302 another ABI, E303 a checksum differs, E304 another arch.
    """
    path = Path(path)
    reader = _Reader(path)
    metadata = reader.metadata
    try:
        own = Arch.model_validate_json(metadata["arch"])
        _check_digest(str(path), own, metadata)
        if arch is not None and arch.digest != own.digest:
            check_arch(Program(own, [], {}, np.empty(0, np.uint8), {}), arch, str(path))
        for name in reader.tensors:
            if verify or name != "constants":
                reader.check(name)
        entries = [
            e.model_copy(update={"sources": tuple(_SOURCES.validate_json(reader.raw(f"source/{e.name}").tobytes()))})
            for e in _ENTRIES.validate_json(metadata["entries"])
        ]
        words: dict[str, dict[int, Words]] = {}
        for name in reader.tensors:
            if name.startswith("words/"):
                entry, tile = name.removeprefix("words/").rsplit("/", 1)
                words.setdefault(entry, {})[int(tile)] = reader.words(name)
        bases = _BASES.validate_json(metadata["base_bytes"])
        if any(not 0 <= b < 8 or not 0 <= n < 1 << 40 for b, n in bases.items()):
            raise ValueError(f"regions of {bases} bytes: there are 8, below 2^40 bytes each")
        streams = {e.name: [words[e.name][t] for t in range(len(words.get(e.name, ())))] for e in entries}

        def part(prefix: str) -> Iterator[tuple[str, str]]:
            return ((n.removeprefix(prefix), n) for n in reader.tensors if n.startswith(prefix))

        return Program(
            arch=own,
            entries=entries,
            words=streams,
            constants=reader.raw("constants"),
            base_bytes=bases,
            host_segments=_SEGMENTS.validate_json(metadata["host_segments"]),
            tables={short: reader.array(name) for short, name in part("table/")},
            files={short: reader.raw(name).tobytes() for short, name in part("file/")},
            info=_INFO.validate_json(metadata["info"]),
        )
    except (LookupError, TypeError, ValueError, OverflowError) as e:  # pydantic's ValidationError is a ValueError
        first = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise _not_a_program(str(path), f"its metadata does not make a program: {first}") from e
