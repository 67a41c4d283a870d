"""Traces at two levels of detail, compressed, and never larger than the limit when the choice is ours."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from dpu.errors import DpuError
from dpu.ir.arch import load_arch
from dpu.ir.container import Entry, SourceOp
from dpu.ir.isa import Engine
from dpu.simulator import trace_file
from dpu.simulator.timing_result import TileTiming, Timing
from dpu.simulator.trace import DRAM_POINTS, instruction_events, op_events, write_trace
from dpu.simulator.trace_file import write_events

ENGINES = (Engine.LOAD, Engine.MXU, Engine.VPU, Engine.STORE)


def timing(tiles: int, words: int, per_op: int = 40) -> tuple[Timing, Entry]:
    """Words of four engines in turn, with irregular durations; every operation has `per_op` of them."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(tiles):
        engine = np.resize(np.array([int(e) for e in ENGINES]), words)
        begin = np.cumsum(rng.integers(1, 400, words))
        issued = begin.copy()
        for e in range(4):
            mine = np.flatnonzero(engine == e)
            issued[mine[:-1]] = begin[mine[1:]] - 1
        zero = np.zeros(words, np.int64)
        tag = 1 + np.arange(words) // per_op
        made.append(TileTiming(engine, tag, begin, begin, issued, issued, zero + 64, zero + 7, zero, {}, {}))
    end = int(max(t.issued.max() for t in made))
    dram = [(int(c), float(r)) for c, r in zip(range(0, end, 50), rng.integers(0, 64, end // 50 + 1), strict=False)]
    sources = tuple(
        SourceOp(tag=t, name=f"/block.{t}/MatMul", kind="dpu.q.linear", nodes=(f"/block.{t}/MatMul",), macs=1)
        for t in range(1, words // per_op + 2)
    )
    return Timing(load_arch("dpu_tiny"), "f", end, made, dram, ()), Entry(
        name="f", inputs=(), outputs=(), sources=sources
    )


def read(path: Path) -> dict[str, object]:
    raw = path.read_bytes()
    return json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)


def test_ops_are_one_span_for_each_operation_and_engine(tmp_path: Path) -> None:
    timed, entry = timing(2, 400)
    assert write_trace(tmp_path / "t.json.gz", timed, entry, "ops") == "ops"
    document = read(tmp_path / "t.json.gz")
    spans = [e for e in document["traceEvents"] if e["ph"] == "X"]
    assert len(spans) == 2 * 4 * 10
    assert sum(e["args"]["words"] for e in spans) == 800
    assert sum(e["args"]["macs"] for e in spans) == 800 * 64
    first = spans[0]
    mine = (timed.tiles[0].engine == 0) & (timed.tiles[0].tag == 1)
    assert first["ts"] == pytest.approx(timed.tiles[0].begin[mine].min() / 100)
    assert first["ts"] + first["dur"] == pytest.approx(timed.tiles[0].issued[mine].max() / 100)
    assert document["otherData"]["detail"] == "ops"


def test_spans_of_one_track_never_overlap(tmp_path: Path) -> None:
    timed, entry = timing(1, 400)
    tile = timed.tiles[0]
    tile.tag[60:70] = 1  # words of the first operation among those of the second
    spans = [e for e in op_events(timed, entry) if e["ph"] == "X"]
    tracks = {e["tid"] for e in spans}
    assert len(tracks) > 4
    for track in tracks:
        mine = sorted((e["ts"], e["dur"]) for e in spans if e["tid"] == track)
        assert all(a[0] + a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(mine))


def test_instructions_are_every_word_and_the_same_plain_or_compressed(tmp_path: Path) -> None:
    timed, entry = timing(2, 400)
    for name in ("t.json", "t.json.gz"):
        assert write_trace(tmp_path / name, timed, entry) == "instructions"  # small: the finest
    assert read(tmp_path / "t.json") == read(tmp_path / "t.json.gz")
    events = read(tmp_path / "t.json")["traceEvents"]
    assert events == json.loads(json.dumps(list(instruction_events(timed, entry))))
    assert sum(e["ph"] == "X" for e in events) == 800
    assert (tmp_path / "t.json.gz").stat().st_size < (tmp_path / "t.json").stat().st_size / 5
    first = (tmp_path / "t.json.gz").read_bytes()
    write_trace(tmp_path / "t.json.gz", timed, entry)
    assert (tmp_path / "t.json.gz").read_bytes() == first


def test_a_large_program_falls_back_to_operations_within_the_limit(tmp_path: Path) -> None:
    timed, entry = timing(8, 250_000, per_op=500)  # 2 million words: over 25 MB
    path = tmp_path / "t.json.gz"
    assert write_trace(path, timed, entry, "auto") == "ops"
    assert path.stat().st_size <= trace_file.LIMIT
    document = read(path)
    spans = [e for e in document["traceEvents"] if e["ph"] == "X"]
    assert len(spans) == 8 * 4 * 500
    assert sum(e["ph"] == "C" for e in document["traceEvents"]) == DRAM_POINTS
    moved = sum(e["args"]["rate"] for e in document["traceEvents"] if e["ph"] == "C") / DRAM_POINTS
    assert moved == pytest.approx(np.mean([r for _, r in timed.dram]), rel=0.01)  # the mean rate is kept


def test_the_limit_holds_when_the_estimate_is_wrong(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    noise = ["".join(map(chr, rng.integers(97, 123, 60))) for _ in range(12_000)]
    levels = {
        "instructions": lambda: ({"ph": "X", "name": n} for n in noise),
        "ops": lambda: ({"ph": "X", "name": n} for n in noise[:9000]),
    }
    path = tmp_path / "t.json.gz"
    assert write_events(path, levels, {}, limit=600_000) == "instructions"
    assert path.stat().st_size > 450_000
    assert write_events(path, levels, {}, limit=450_000) == "ops"
    assert 300_000 < path.stat().st_size <= 450_000 and "cut" not in read(path)["otherData"]
    assert write_events(path, levels, {}, limit=300_000) == "ops"  # even the coarsest does not fit: cut, and it says so
    assert 200_000 < path.stat().st_size <= 300_000
    document = read(path)
    assert "left out" in document["otherData"]["cut"]
    assert 0 < len(document["traceEvents"]) < 9000
    assert write_events(path, levels, {}, "instructions", limit=1000) == "instructions"  # asked for: whole
    assert len(read(path)["traceEvents"]) == 12_000


def test_a_level_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    timed, entry = timing(1, 40)
    with pytest.raises(DpuError, match="'all' is no level"):
        write_trace(tmp_path / "t.json", timed, entry, "all")
    assert not list(tmp_path.iterdir())
