"""Profile, report and trace of a small program."""

import itertools
import json

import numpy as np
import pytest
from dpu.errors import DpuError
from dpu.ir.arch import load_arch
from dpu.ir.container import Entry, SourceOp
from dpu.ir.isa import Buffer, Engine, Format, Opcode, pack, signal_bit, wait_bit, word
from dpu.simulator.profile import Report, covered, profile
from dpu.simulator.report import write_report
from dpu.simulator.roofline import attainable
from dpu.simulator.timing import Timing, simulate
from dpu.simulator.trace import write_trace

TINY = load_arch("dpu_tiny")
L, M, V, S = Engine.LOAD, Engine.MXU, Engine.VPU, Engine.STORE
ENTRY = Entry(
    name="unet",
    inputs=(),
    outputs=(),
    sources=(
        SourceOp(tag=0, name="conv_in", kind="dpu.q.conv", nodes=("/conv_in/Conv",), macs=1000),
        SourceOp(tag=1, name="norm<1>", kind="dpu.norm", nodes=("/norm/Mul", "/norm/Add"), macs=0),
    ),
)


def timed() -> tuple[list[np.ndarray], Timing]:
    act = {"a_src": pack(Buffer.ACC, Format.I32), "a_rs": 1, "d_src": pack(Buffer.VBUF, Format.F16), "d_rs": 1}
    words = [
        word(Opcode.LOAD, buffer=Buffer.WGT, inner=512, n=[1, 1, 1], signal=signal_bit(M)),
        word(Opcode.MM, nx=128, ny=1, nc=8, nkx=1, nky=1, nn=1, sx=1, an=128, wait=wait_bit(L), signal=signal_bit(V)),
        word(Opcode.VEC, tag=1, rows=128, tiles=1, valid=8, wait=wait_bit(M), signal=signal_bit(S), **act),
        word(Opcode.STORE, tag=1, base=1, buffer=Buffer.VBUF, inner=2048, n=[1, 1, 1], wait=wait_bit(V)),
        word(Opcode.LOAD, tag=7, buffer=Buffer.PARAM, inner=64, n=[1, 1, 1]),
        word(Opcode.END),
    ]
    streams = [np.concatenate(words)]
    return streams, simulate(TINY, streams, "unet")


def report() -> Report:
    streams, timing = timed()
    return profile(ENTRY, streams, timing, TINY)


def test_rows_by_graph_operation() -> None:
    """LOAD: data 21 to 85, visible 125. MM: 8 + 8 * 128 = 1,032 cycles, 125 to 1,157, visible 1,307."""
    r = report()
    by = {row.name: row for row in r.rows}
    assert [row.name for row in r.rows] == ["conv_in", "tag 7", "norm<1>"]  # in order of their beginning
    conv = by["conv_in"]
    assert (conv.start, conv.span, conv.active, conv.mxu_busy) == (21, 1307 - 21, 64 + 1032, 1032)
    assert (conv.logical_macs, conv.executed_macs) == (1000, 128 * 64 * 8)
    assert (conv.bytes_read, conv.intensity) == (512, 128 * 64 * 8 / 512)
    assert conv.utilisation == 128 * 64 * 8 / (64 * 1286)
    assert conv.nodes == ("/conv_in/Conv",)
    assert conv.bound == "mxu"
    assert by["norm<1>"].bytes_written == 2048
    assert by["norm<1>"].bound == "vpu"  # VEC 136 cycles, STORE 128
    assert by["tag 7"].bound == "sync"  # a lone LOAD: 16 cycles of data, 40 until visible
    assert r.provenance == "simulated"
    assert r.utilisation == 1000 / (64 * r.cycles)
    assert r.executed_utilisation == 65536 / (64 * r.cycles)
    assert (r.bytes_read, r.bytes_written) == (512 + 64, 2048)
    assert r.stalls["MXU"]["semaphore LOAD"] == 125 - 2


def test_covered_counts_overlaps_once() -> None:
    assert covered(np.array([5, 0, 20]), np.array([15, 10, 25])) == 20
    assert covered(np.array([0, 2]), np.array([10, 3])) == 10
    assert covered(np.array([], int), np.array([], int)) == 0


def test_attainable_is_the_lower_roof() -> None:
    r = report()
    assert (attainable(r, 0.5), attainable(r, 100)) == (32, 64)


def test_report_files(tmp_path) -> None:
    r = report()
    write_report(r, tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["report.html", "report.json"]
    assert Report.model_validate_json((tmp_path / "out" / "report.json").read_text()) == r
    html = (tmp_path / "out" / "report.html").read_text()
    assert "<svg" in html and "norm&lt;1&gt;" in html and "norm<1>" not in html.split("<svg")[0]
    assert "src=" not in html and "<link" not in html and "@import" not in html
    write_report(r, tmp_path / "out")  # again: replaced
    assert (tmp_path / "out" / "report.html").read_text() == html
    with pytest.raises(DpuError):
        write_report(r, tmp_path / "none" / "out")


def test_trace_has_a_span_for_every_word(tmp_path) -> None:
    _, timing = timed()
    write_trace(tmp_path / "trace.json", timing, ENTRY)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert [e["name"] for e in spans] == ["conv_in", "conv_in", "norm<1>", "norm<1>", "tag 7"]
    assert spans[1]["args"]["nodes"] == ["/conv_in/Conv"]
    assert spans[1]["ts"] == pytest.approx(1.25) and spans[1]["dur"] == pytest.approx(10.32)  # 100 MHz
    assert {e["args"]["name"] for e in events if e["name"] == "thread_name"} == {"LOAD", "MXU", "VPU", "STORE"}
    assert [e["args"]["rate"] for e in events if e["ph"] == "C"][:2] == [0, 8]
    for track in range(4):  # spans of one track follow each other
        mine = sorted((e["ts"], e["dur"]) for e in spans if e["tid"] == track)
        assert all(a[0] + a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(mine))
