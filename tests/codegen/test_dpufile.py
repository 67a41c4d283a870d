"""The container: exact round trip, streaming, and every kind of damage refused with its code."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from dpu.codegen.dpufile import check_arch, load, save
from dpu.errors import DpuError
from dpu.ir import isa
from dpu.ir.arch import load_arch
from dpu.ir.container import Entry, HostSegment, Program, Slot, SourceOp
from dpu.ir.isa import Opcode, word

TINY = load_arch("dpu_tiny")


def sample(constants: bytes = bytes(range(200))) -> Program:
    x = Slot(name="x", shape=(1, 4, 8), dtype="f16", base=3, offset=0, row_bytes=64)
    op = SourceOp(tag=1, name="a", kind="dpu.q.linear", nodes=("/a/MatMul",), macs=10, outputs=(x,))
    words = np.concatenate([word(Opcode.MM, tag=1, nx=4, act=3), word(Opcode.END)])
    return Program(
        arch=TINY,
        entries=[
            Entry(name="unet", inputs=(x,), outputs=(x,), sources=(op,)),
            Entry(name="te/clip", inputs=(), outputs=(), sources=(), once=True),
        ],
        words={"unet": [words], "te/clip": [words[1:]]},
        constants=np.frombuffer(constants, np.uint8),
        base_bytes={0: len(constants), 3: 256},
        host_segments=[HostSegment(name="scheduler", why="host work")],
        tables={
            "rows": np.arange(6, dtype=np.int64).reshape(2, 3),
            "scale": np.float32([[1.5]]),
            "text": np.zeros(0, np.uint8),
        },
        files={"tokenizer/vocab.json": b"{}", "empty": b""},
        info={"precision": "w8a8"},
    )


def equal(a: Program, b: Program) -> None:
    assert a.arch == b.arch and a.entries == b.entries and a.base_bytes == b.base_bytes
    assert a.host_segments == b.host_segments and a.files == b.files and a.info == b.info
    assert a.words.keys() == b.words.keys() and a.tables.keys() == b.tables.keys()
    for name, streams in a.words.items():
        assert [s.tobytes() for s in streams] == [s.tobytes() for s in b.words[name]]
    for name, table in a.tables.items():
        other = b.tables[name]
        assert table.dtype == other.dtype and table.shape == other.shape and np.array_equal(table, other)
    assert np.array_equal(a.constants, b.constants)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "x.dpu"
    save(sample(), file)
    return file


def test_round_trip(path: Path) -> None:
    program = load(path)
    equal(sample(), program)
    assert not program.constants.flags.writeable and not program.words["unet"][0].flags.writeable
    assert program.words["unet"][0].dtype == isa.HEADER


def test_it_is_a_safetensors_file_with_aligned_data(path: Path) -> None:
    tensors = safetensors.numpy.load_file(path)
    assert tensors["words/unet/0"].shape == (2, 64)
    assert tensors["table/rows"].tolist() == [[0, 1, 2], [3, 4, 5]]
    with safetensors.safe_open(path, "numpy") as f:
        assert f.metadata()["abi"] == str(isa.ABI_VERSION)
    assert (8 + int.from_bytes(path.read_bytes()[:8], "little")) % 64 == 0


def test_saving_again_gives_the_same_bytes(path: Path, tmp_path: Path) -> None:
    save(load(path), tmp_path / "y.dpu")
    assert (tmp_path / "y.dpu").read_bytes() == path.read_bytes()


def test_constants_stream_in_and_stay_on_disk(tmp_path: Path) -> None:
    size, n = 1 << 20, 96
    rng = np.random.default_rng(0)
    chunk = rng.integers(0, 256, size, np.uint8)
    program = sample(b"")
    tracemalloc.start()
    save(program, tmp_path / "big.dpu", constants=(chunk for _ in range(n)))
    back = load(tmp_path / "big.dpu")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert back.constants.shape == (n * size,) and np.array_equal(back.constants[-size:], chunk)
    assert peak < 40 << 20  # one block of 16 MiB, and slack; the image has 96 MiB
    save(sample(), tmp_path / "b.dpu", constants=[bytes(range(100)), memoryview(bytes(range(100, 200)))])
    equal(load(tmp_path / "b.dpu"), sample())


def edit(path: Path, change) -> Path:  # type: ignore[no-untyped-def]
    """Rewrite the header with a changed copy of its JSON."""
    raw = path.read_bytes()
    n = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + n])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + n :])
    return path


def refused(path: Path, code: str, text: str, **more) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DpuError) as e:
        load(path, **more)
    assert e.value.code == code and text in str(e.value), str(e.value)
    assert str(path) in str(e.value)


def test_foreign_and_damaged_files_are_refused(path: Path, tmp_path: Path) -> None:
    raw = path.read_bytes()
    n = int.from_bytes(raw[:8], "little")
    other = tmp_path / "other.dpu"
    for content in (b"", b"abc", b"PK\x03\x04" + bytes(100), bytes(100), raw[8:]):
        other.write_bytes(content)
        refused(other, "E301", "not a DPU program (safetensors header is missing)")
    for cut in (20, n // 2):
        other.write_bytes(raw[:cut])
        refused(other, "E301", "truncated: the header has")
    other.write_bytes(raw[:-1])
    refused(other, "E301", "truncated: the header promises")
    other.write_bytes(raw + b"x")
    refused(other, "E301", "trailing bytes")
    safetensors.numpy.save_file({"w": np.zeros(3, np.float32)}, other)
    refused(other, "E301", "a safetensors file of another kind")
    refused(tmp_path / "none.dpu", "E301", "cannot be read (No such file or directory)")
    refused(tmp_path, "E301", "cannot be read")


def test_another_abi_or_format_version_is_refused(path: Path) -> None:
    refused(edit(path, lambda h: h["__metadata__"].update(abi="2")), "E302", "ABI 2, this build reads 1")
    edit(path, lambda h: h["__metadata__"].update(abi=str(isa.ABI_VERSION), format_version="7"))
    refused(path, "E302", "format version 7")


def test_every_changed_byte_of_a_tensor_is_found(path: Path) -> None:
    raw = path.read_bytes()
    n = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + n])
    for name, t in header.items():
        if name == "__metadata__" or t["data_offsets"][0] == t["data_offsets"][1]:
            continue
        damaged = bytearray(raw)
        damaged[8 + n + t["data_offsets"][0]] ^= 1
        path.write_bytes(damaged)
        refused(path, "E303", f"checksum of tensor '{name}' differs")
        if name == "constants":
            load(path, verify=False)
        else:
            refused(path, "E303", name, verify=False)


def test_changed_metadata_is_found(path: Path) -> None:
    refused(edit(path, lambda h: h["__metadata__"].update(base_bytes="{}")), "E303", "checksum of the header")
    save(sample(), path)
    refused(edit(path, lambda h: h.pop("constants")), "E303", "checksum of the header")


def test_another_arch_is_refused(path: Path) -> None:
    f2 = load_arch("dpu_f2")
    refused(path, "E304", f"compiled for arch 'dpu_tiny' (digest {TINY.digest}), asked to run on 'dpu_f2'", arch=f2)
    with pytest.raises(DpuError, match="E304"):
        check_arch(load(path), f2)
    check_arch(load(path, arch=TINY), TINY)


def test_what_the_file_cannot_hold_leaves_nothing_behind(tmp_path: Path) -> None:
    program = sample()
    program.tables["bad"] = np.array(["text"])
    with pytest.raises(DpuError, match=r"E305.*table 'bad'"):
        save(program, tmp_path / "x.dpu")
    program = sample()
    del program.words["unet"]
    with pytest.raises(DpuError, match=r"E305.*entry 'unet' has no words"):
        save(program, tmp_path / "x.dpu")

    def broken():  # type: ignore[no-untyped-def]
        yield b"abc"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        save(sample(), tmp_path / "x.dpu", constants=broken())
    assert list(tmp_path.iterdir()) == []
