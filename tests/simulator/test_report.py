"""Profile, figures, files and trace of a small program whose timing is written down by hand (`recorded.py`)."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from dpu.errors import DpuError
from dpu.ir.arch import Arch
from dpu.simulator.figures import figures, hover
from dpu.simulator.idle import Idle
from dpu.simulator.occupancy import bin_edges, busy_bins, owned, share
from dpu.simulator.profile import Report, covered, profile
from dpu.simulator.report import ProgramReport, load_report, report_html, write_report
from dpu.simulator.roofline import attainable, ceilings, points
from dpu.simulator.trace import write_trace

from .recorded import CYCLES, ENTRY, PAYLOAD, TIMES, TINY, WORDS, recorded, tile

TWO = Arch.model_validate(TINY.model_dump() | {"name": "two", "tiles": 2})


def report(arch: Arch = TINY) -> Report:
    streams, timing = recorded(arch)
    return profile(ENTRY, streams, timing, arch, {0: 4096, 1: 8192})


def totals(r: Report) -> None:
    """The table sums to the whole, exactly."""
    rows = r.rows
    assert sum(x.logical_macs for x in rows) == r.logical_macs
    assert sum(x.executed_macs for x in rows) == r.executed_macs
    assert sum(x.own for x in rows) + r.unowned == r.tiles * r.cycles
    assert sum(x.bytes_read for x in rows) == r.bytes_read
    assert sum(x.bytes_written for x in rows) == r.bytes_written
    assert sum(x.words for x in rows) + r.control_words == r.words
    assert sum(m.read for m in r.memory.regions) == r.bytes_read
    assert sum(m.written for m in r.memory.regions) == r.bytes_written
    for e, finished in r.finished.items():
        idle = sum(sum(x.idle.get(e, {}).values()) for x in rows)
        assert sum(x.ran[e] for x in rows) + idle + finished == r.tiles * r.cycles, e
    groups = r.energy.by_group()
    assert sum(x.energy for x in rows) + groups["leakage"] == pytest.approx(r.energy.total.value, rel=1e-12)
    assert sum(groups.values()) == pytest.approx(r.energy.total.value, rel=1e-12)
    assert all(0 <= x.waiting <= x.own for x in rows)


@pytest.mark.parametrize("arch", [TINY, TWO], ids=["one tile", "two tiles"])
def test_the_table_sums_to_the_whole(arch: Arch) -> None:
    totals(report(arch))


def test_a_tile_without_work() -> None:
    streams, timing = recorded(TWO)
    streams[1], timing.tiles[1] = streams[0][-1:], tile(WORDS[-1:], TIMES[-1:], PAYLOAD[-1:])
    r = profile(ENTRY, streams, timing, TWO)
    totals(r)
    assert r.unowned == CYCLES and r.finished["MXU"] == 2 * CYCLES - 1157
    assert "of them on tiles without work" in report_html(ProgramReport.of([r]))


def test_rows_by_graph_operation() -> None:
    r = report()
    by = {row.name: row for row in r.rows}
    assert [row.name for row in r.rows] == ["conv_in", "tag 7", "norm<1>", "folded"]  # as they begin; the last: never
    conv = by["conv_in"]
    assert (conv.start, conv.span, conv.active, conv.mxu_busy) == (21, 1307 - 21, 64 + 1032, 1032)
    assert (conv.logical_macs, conv.executed_macs) == (1000, 128 * 64 * 8)
    assert (conv.bytes_read, conv.intensity) == (512, 128 * 64 * 8 / 512)
    assert conv.utilisation == 128 * 64 * 8 / (64 * 1286)
    assert (conv.nodes, conv.shapes) == (("/conv_in/Conv",), ("1x128x8 f16",))
    assert conv.tiling == "128 rows x 8 columns x 64 deep, 1 of 1 MM words"
    assert conv.bound == "mxu"
    assert by["norm<1>"].bytes_written == 2048
    assert by["norm<1>"].bound == "vpu"  # VEC 133 cycles, STORE 128
    assert by["tag 7"].bound == "sync"  # a lone LOAD: 16 cycles of data, 40 until visible
    folded = by["folded"]
    assert (folded.words, folded.span, folded.own, folded.logical_macs, folded.energy) == (0, 0, 0, 24, 0)
    assert r.provenance == "simulated"
    assert r.utilisation == 1024 / (64 * r.cycles)
    assert r.executed_utilisation == 65536 / (64 * r.cycles)
    assert (r.bytes_read, r.bytes_written) == (512 + 64, 2048)
    assert r.stalls["MXU"] == {"semaphore X": 5}  # what the timing model says, as it is


def test_every_cycle_belongs_to_one_operation() -> None:
    """conv_in: LOAD from 0 (waiting until 21) to 85 and MM 101 (waiting until 125) to 1157; the rest is the norm's."""
    by = {row.name: row for row in report().rows}
    assert (by["conv_in"].own, by["conv_in"].waiting) == (85 + 1056, 21 + 24)
    assert (by["tag 7"].own, by["tag 7"].waiting) == (16, 0)
    assert by["norm<1>"].own == CYCLES - 1157
    assert by["norm<1>"].waiting == (1310 - 1157) + (1507 - 1443) + (CYCLES - 1635)


def test_idle_cycles_have_the_reason_that_held() -> None:
    """LOAD: dispatched at 1, data at 21. MM: its token at 125. VEC: at 1307, three cycles until it runs."""
    by = {row.name: row for row in report().rows}
    assert by["conv_in"].idle == {"LOAD": {"dispatch": 1, "memory": 20}, "MXU": {"semaphore LOAD": 125}}
    assert by["norm<1>"].idle == {
        "VPU": {"semaphore MXU": 1307, "pipeline": 3},
        "STORE": {"semaphore VPU": 1507},
    }
    assert by["tag 7"].idle == {}  # its data follow those before
    assert report().finished == {
        "LOAD": CYCLES - 101,
        "MXU": CYCLES - 1157,
        "VPU": CYCLES - 1443,
        "STORE": CYCLES - 1635,
    }


def test_words_that_overlap_are_cut() -> None:
    """A second LOAD whose data begin before the end of the first one's: no cycle counts twice."""
    times = [*TIMES]
    times[4] = (2, 80, 101, 141)
    streams, timing = recorded(times=times)
    idle = Idle(TINY, streams, timing, 0)
    assert idle.ran.tolist() == [59, 1032, 133, 128, 21, 0]
    o = owned(timing.tiles[0], CYCLES)
    assert int((o.end - o.begin).sum()) == CYCLES and (o.begin[1:] == o.end[:-1]).all()


def test_covered_counts_overlaps_once() -> None:
    assert covered(np.array([5, 0, 20]), np.array([15, 10, 25])) == 20
    assert covered(np.array([0, 2]), np.array([10, 3])) == 10
    assert covered(np.array([], int), np.array([], int)) == 0


def test_bins_hold_all_busy_cycles() -> None:
    _, timing = recorded(TWO)
    edges = bin_edges(CYCLES, 200)
    assert share(np.array([0, 10]), np.array([5, 20]), np.array([0.0, 4, 12, 20])).tolist() == [4, 3, 8]
    busy = busy_bins(timing, 200)
    width = float(edges[1])
    assert [len(v) for v in busy["MXU"]] == [200, 200]
    assert sum(busy["MXU"][1]) * width == pytest.approx(1032, abs=200 * 5e-4 * width)
    runs = report().occupancy.runs
    assert all(sum(parts) == pytest.approx(1, abs=2.5e-3) for parts in zip(*runs.values(), strict=True))
    assert [report().rows[i].name for i in report().occupancy.operation[:1]] == ["conv_in"]


def test_the_roofs() -> None:
    r = report()
    assert (attainable(r, 0.5), attainable(r, 100)) == (32, 64)
    found = {c.name: c.rate for c in ceilings(r)}
    assert found == {
        "DRAM sustained, ports 6.4 GB/s": 6.4e9,  # both 64 bytes a cycle
        "array 6.4 GMAC/s": 6.4e9,
        "VPU lanes 800 Melement/s": 8e8,
    }
    banks = 2 * (2 * 8 + 2 * 8 + 4 * 32 + 2 * 16 + 2 * 64)  # read and write, a word of each
    assert [c.rate for c in ceilings(r, "sram") if c.slanted] == [banks * 1e8]


@pytest.mark.parametrize("view", ["dram", "sram"])
def test_no_point_is_above_a_roof(view: str) -> None:
    r = report()
    found = points(r, view)
    assert [p.row.name for p in found] == ["conv_in", "norm<1>"]  # the others compute nothing
    conv, norm = found
    assert conv.y == 65536 / 1286 * 1e8 and norm.y == 1024 / (1700 - 1310) * 1e8
    assert conv.share == conv.row.own / CYCLES
    for p in found:
        roofs = [c for c in ceilings(r, view) if c.slanted or ("VPU" in c.name) == (not p.row.executed_macs)]
        assert all(p.y <= c.at(p.x) for c in roofs)


def test_hover_names_what_there_is() -> None:
    r = report()
    assert hover(r, r.rows[0]) == (
        "<b>conv_in</b><br>dpu.q.conv<br>ONNX /conv_in/Conv<br>result 1x128x8 f16<br>"
        "tiles 128 rows x 8 columns x 64 deep, 1 of 1 MM words<br>bound by <b>mxu</b>, 67.04 % of the time<br>"
        "span 1,286 cycles (12.9 us), from 21<br>MACs 65,536 executed, 1,000 logical<br>79.6 % of the array<br>"
        "DRAM 512 B read, 0 B written; scratchpads 70,656 B<br>"
        "idle MXU semaphore LOAD 125; LOAD memory 20<br>     LOAD dispatch 1"
    )
    assert "norm&lt;1&gt;" in hover(r, r.rows[2]) and "norm<1>" not in hover(r, r.rows[2])


def test_figures_are_plain_data() -> None:
    made = figures(report(TWO))
    assert list(made) == ["roofline", "time", "occupancy", "memory", "energy"]
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert (
        made["occupancy"]["data"][0]["y"][:2] == ["LOAD 0", "MXU 0"] and made["occupancy"]["data"][0]["y"][-1] == "DRAM"
    )
    views = [b["args"][0]["visible"] for b in made["roofline"]["layout"]["updatemenus"][0]["buttons"]]
    assert [a != b for a, b in zip(*views, strict=True)] == [True] * len(made["roofline"]["data"])


def test_report_files(tmp_path: Path) -> None:
    r = ProgramReport.of([report(), report().model_copy(update={"entry": "vae<&>"})])
    write_report(r, tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["report.html", "report.json", "roofline.png"]
    assert load_report(tmp_path / "out") == load_report(tmp_path / "out" / "report.json") == r
    before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    write_report(ProgramReport.model_validate_json(before["report.json"]), tmp_path / "out")  # replaced, the same bytes
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before
    with pytest.raises(DpuError, match="E101"):
        write_report(r, tmp_path / "none" / "out")
    assert before["roofline.png"].startswith(b"\x89PNG") and len(before["report.html"]) < 4_000_000


def test_the_page_needs_nothing_else() -> None:
    html = report_html(ProgramReport.of([report()]))
    assert html.count('id="plotly"') == html.count('id="figures"') == 1
    own = re.sub(r'<script type="text/plain" id="plotly">[^<]*</script>', "", html)
    assert len(own) < len(html) - 1_000_000
    assert not re.search(r"src=|<link|@import|https?:", own)
    assert "norm&lt;1&gt;" in own and "norm<1>" not in own
    figure = re.search(r'id="figures">(.*?)</script>', own)
    assert figure and list(json.loads(figure[1])) == ["unet"]
    foot = re.findall(r"<tfoot>(.*?)</tfoot>", own)[0]
    assert re.findall(r'data-v="([^"]*)"', foot)[:4] == ["1024", "65536", str(CYCLES), str(CYCLES)]
    assert "No entry point was timed" in report_html(ProgramReport.of([]))


def test_bad_reports_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DpuError) as e:
        load_report("none")
    assert e.value.text() == ("error[E106]: none: no such report\n  try: write it: dpuc report PROGRAM -o DIR")
    Path("old.json").write_text('{"format": "dpu-report-1", "arch": "dpu_tiny", "arch_digest": "", "entries": []}')
    with pytest.raises(DpuError) as e:
        load_report("old.json")
    assert e.value.text() == (
        "error[E306]: old.json: no report of this version (field 'format': Input should be 'dpu-report-2')\n"
        "  try: write it again: dpuc report PROGRAM -o DIR"
    )
    Path("cut.json").write_bytes(b"\xff{")
    with pytest.raises(DpuError) as e:
        load_report("cut.json")
    assert e.value.text().startswith("error[E306]: cut.json: cannot be read ('utf-8' codec can't decode byte 0xff")


def test_trace_has_a_span_for_every_word(tmp_path: Path) -> None:
    _, timing = recorded()
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
