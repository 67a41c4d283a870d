"""The summary counts what the program holds; text and JSON show the same facts."""

from __future__ import annotations

import json

import numpy as np
from dpu.codegen.inspect import inspect, summary
from dpu.ir.arch import load_arch
from dpu.ir.container import Entry, HostSegment, Program, Slot, SourceOp
from dpu.ir.isa import Opcode, word


def program() -> Program:
    x = Slot(name="sample", shape=(2, 4, 8), dtype="f16", base=3, offset=64, row_bytes=64)
    op = SourceOp(tag=1, name="a", kind="dpu.q.linear", nodes=(), macs=10)
    stream = np.concatenate([word(Opcode.LOAD), word(Opcode.MM), word(Opcode.MM), word(Opcode.END)])
    return Program(
        load_arch("dpu_tiny"),
        [Entry(name="unet", inputs=(x,), outputs=(), sources=(op,), once=True)],
        {"unet": [stream]},
        np.zeros(3 << 20, np.uint8),
        {0: 3 << 20, 3: 4096, 5: 10},
        [HostSegment(name="scheduler", why="65k elements", nodes=("n",))],
        {"rows": np.zeros((2, 3), np.float32)},
        {"vocab.json": b"{}"},
        {"precision": "w8a8"},
    )


def test_summary() -> None:
    facts = summary(program())
    entry = facts["entries"][0]
    assert entry["tiles"] == [{"words": 4, "engines": {"LOAD": 1, "MXU": 2, "VPU": 0, "STORE": 0, "CTRL": 1}}]
    assert (entry["words"], entry["macs"], entry["inputs"][0]["bytes"]) == (4, 10, 512)
    assert facts["regions"] == {"CONST": 3 << 20, "IO": 4096, "5": 10}
    assert json.loads(inspect(program(), as_json=True)) == facts


def test_text() -> None:
    text = inspect(program())
    for line in (
        "constants    3.0 MiB",
        "precision    w8a8",
        "  4 words, 256 B; 1 graph operations, 10 MACs",
        "  input   sample: 2x4x8 f16 BTC, IO + 0x40, 512 B",
        "  tile 0: 4 words (1 LOAD, 2 MXU, 1 CTRL)",
        "  scheduler: 65k elements (1 nodes)",
        "  rows: float32 [2, 3]",
        "  vocab.json: 2 B",
    ):
        assert line in text.splitlines(), text
    assert "entry 'unet'" in text and "once an image" in text
