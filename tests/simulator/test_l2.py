"""The shared L2 in front of a DRAM of bursts: clocks worked out by hand, who leaves, C++ against Python.

TOY is that of test_dram.py with 5 clocks each way; the user's clock is the DRAM's. A line is 256 bytes: 8 columns, 4
clocks apart, and 4 clocks in its slice. A miss comes at the channel 5 after its address; its data go through the slice
when they leave the DRAM, and are at the port 5 later. A hit is at the port 64 after the slice.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from dpu.ir.arch import Arch, load_arch
from dpu.ir.container import Entry
from dpu.ir.cost import L2_LATENCY, L2_LINE, L2_SLICE_BYTES, L2_SLICES
from dpu.ir.isa import Buffer, Opcode, word
from dpu.simulator.dram import native
from dpu.simulator.dram.core import NEVER, Core, L2Counters, Note, PythonCore
from dpu.simulator.dram.params import config, load_dram
from dpu.simulator.memory import with_dram
from dpu.simulator.profile import profile
from dpu.simulator.report import ProgramReport, load_report, report_html, write_report
from dpu.simulator.timing import simulate

from .test_dram import TOY

TINY = load_arch("dpu_tiny")
END = word(Opcode.END)
PATHS = TOY.replace(request_path=50, response_path=50)  # ns: 5 clocks
CORES = [PythonCore, pytest.param(native.NativeCore, marks=pytest.mark.skipif(not native.compiler(), reason="no C++"))]


def test_what_the_derivations_rest_on() -> None:
    assert (L2_LINE, L2_SLICE_BYTES, L2_SLICES, L2_LATENCY) == (256, 64, 16, 64)


def run(core: Core, requests: list[tuple[int, int, int, int]], cached: bool = True) -> dict[int, tuple[int, int]]:
    """Requests (cycle, port, address, bytes), 64 bytes a cycle: of each port (first data, last data)."""
    first, found = {}, {}
    todo = sorted(requests)
    while True:
        note, cycle, port = core.step(todo[0][0] if todo else 1 << 40)
        if note == Note.FIRST:
            first[port] = cycle
            core.open(cycle, port)
        elif note == Note.LAST:
            found[port] = (first[port], cycle)
        elif todo:
            now, port, address, size = todo.pop(0)
            core.request(now, port, False, size // 64, address, size, (1, 1, 1), (0, 0, 0), cached)
        else:
            return found


@pytest.mark.parametrize("kind", CORES)
def test_one_read_serves_all(kind: type[PythonCore]) -> None:
    """Four lines of one page: ACT 5, RD 15, 19, ... The last column of line k at 43 + 32k, its data until 50 + 32k:
    slice until 54, at port 0 at 59, 91, 123, 155. The last takes 4 cycles more through the port: 159.

    Port 1 asked in the same cycle: behind port 0 in each slice, 4 later. Port 2 asks at 200, when all are there: slice
    until 204, at the port at 268, 16 cycles through it.
    """
    core = kind(config(PATHS, 1e8, 3, l2_bytes=4096))
    assert run(core, [(0, 0, 0, 1024), (0, 1, 0, 1024), (200, 2, 0, 1024)]) == {
        0: (59, 159),
        1: (63, 163),
        2: (268, 284),
    }
    assert core.counters()[0].bytes_read == 1024
    assert core.l2() == L2Counters(hits=4, merged=4, misses=4, bytes=3 * 1024)
    assert core.l2().hit_rate == 8 / 12


@pytest.mark.parametrize("kind", CORES)
def test_what_is_not_cached_passes_by(kind: type[PythonCore]) -> None:
    """The same as without an L2: data of line k at the port at 50 + 32k + 5, nothing kept."""
    core = kind(config(PATHS, 1e8, 2, l2_bytes=4096))
    found = run(core, [(0, 0, 0, 1024)], cached=False)
    plain = kind(config(PATHS, 1e8, 2))
    assert found == run(plain, [(0, 0, 0, 1024)], cached=True) == {0: (146 + 5, 146 + 5 + 16)}
    assert core.l2() == plain.l2() == L2Counters()
    assert core.counters() == plain.counters()


@pytest.mark.parametrize("kind", CORES)
def test_a_slice_serves_one_at_a_time(kind: type[PythonCore]) -> None:
    """Lines 0 and 16 share slice 0, line 1 has its own. All are there at 1000, when three ports hit."""
    core = kind(config(PATHS, 1e8, 6, l2_bytes=1 << 16))
    warm = [(0, k, 256 * line, 256) for k, line in enumerate((0, 1, 16))]
    hits = [(1000, 3 + k, 256 * line, 256) for k, line in enumerate((0, 1, 16))]
    found = run(core, [*warm, *hits])
    assert {p: found[p] for p in (3, 4, 5)} == {3: (1068, 1072), 4: (1068, 1072), 5: (1072, 1076)}


@pytest.mark.parametrize("kind", CORES)
def test_a_part_of_a_line_reads_all_of_it(kind: type[PythonCore]) -> None:
    """64 bytes pass the slice in one cycle. RD 15 to 43, data until 50, slice 51, port 56. The rest is there then."""
    core = kind(config(PATHS, 1e8, 2, l2_bytes=4096))
    assert run(core, [(0, 0, 64, 64), (100, 1, 0, 256)]) == {0: (56, 57), 1: (168, 172)}
    assert core.counters()[0].bytes_read == 256
    assert core.l2() == L2Counters(hits=1, merged=0, misses=1, bytes=320)


def outcome(core: Core, lines: list[int]) -> str:
    """M, H or + (merged) of look-ups of lines, each long after the one before."""
    said = ""
    for k, line in enumerate(lines):
        before = core.l2()
        run(core, [(1000 * (k + 1), 0, 256 * line, 256)])
        after = core.l2()
        said += "H" if after.hits > before.hits else "M" if after.misses > before.misses else "+"
    return said


@pytest.mark.parametrize("kind", CORES)
def test_the_least_recently_used_leaves(kind: type[PythonCore]) -> None:
    """Four lines of room: 4 takes the place of 1, because 0 was used again."""
    assert outcome(kind(config(PATHS, 1e8, 1, l2_bytes=1024)), [0, 1, 2, 3, 0, 4, 0, 1]) == "MMMMHMHM"
    # Sixteen ways in two sets: the seventeenth even line takes the place of the first, odd lines have their own set.
    two = kind(config(PATHS, 1e8, 1, l2_bytes=2 * 16 * 256))
    assert outcome(two, [1, *range(0, 34, 2), 0, 1]) == "M" + 17 * "M" + "MH"


@pytest.mark.parametrize("kind", CORES)
def test_a_line_that_leaves_before_it_is_there(kind: type[PythonCore]) -> None:
    """Room for one: line 1 takes the place of line 0 while that is on its way. Its port gets it; line 0 is read again.

    ACT 5; lines 0, 1, 0 one behind the other: columns from 15, 47, 79, the last at 43, 75, 107; data until 50, 82, 114;
    slices 54, 86, 118; ports 59, 91, 123.
    """
    core = kind(config(PATHS, 1e8, 3, l2_bytes=256))
    found = run(core, [(0, 0, 0, 256), (1, 1, 256, 256), (2, 2, 0, 256)])
    assert found == {0: (59, 63), 1: (91, 95), 2: (123, 127)}
    assert core.l2() == L2Counters(hits=0, merged=0, misses=3, bytes=768)
    run(core, [(1000, 0, 0, 256)])
    assert core.l2().hits == 1


# C++ and Python


def drive(core: Core, seed: int, ports: int) -> list[tuple[int, int, int]]:
    """Random transfers of all ports within 64 KiB, half of the reads cached; reads are opened some cycles late."""
    rng = random.Random(seed)
    calls = []
    for _ in range(80):
        n = tuple(rng.choice([1, 1, 2, 5]) for _ in range(3))
        stride = tuple(rng.choice([64, 640, 1280, 96, 4096]) for _ in range(3))
        size = rng.choice([40, 64, 640, 5000])
        calls.append((rng.randrange(6000), rng.randrange(ports), rng.randrange(1 << 16), size, n, stride))
    calls.sort()
    found: list[tuple[int, int, int]] = []
    opens: list[tuple[int, int]] = []
    while calls or opens or core.due() < NEVER:
        soon = min([c[0] for c in calls[:1]] + [o[0] for o in opens] + [NEVER])
        note, cycle, who = core.step(min(soon, 1 << 40))
        if note != Note.NONE:
            found.append((int(note), cycle, who))
            if note == Note.FIRST:
                opens.append((cycle + rng.choice([0, 0, 30]), who))
        elif opens and min(opens)[0] == soon:
            now, port = min(opens)
            opens.remove((now, port))
            core.open(now, port)
        elif calls:
            now, port, address, inner, n, stride = calls.pop(0)
            floor = 1 + inner * n[0] * n[1] * n[2] // 64
            core.request(now, port, port == 0, floor, address, inner, n, stride, rng.random() < 0.5)
    return found


@pytest.mark.skipif(native.compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("l2_bytes", [256, 5000, 65536])
def test_compiled_and_python_agree_integer_for_integer(seed: int, l2_bytes: int) -> None:
    change: list[dict[str, int | float | str]] = [
        {},
        {"outstanding": 2, "buffer_bytes": 8192},
        {"interleave_bytes": 64},
    ]
    for name in ("hbm2_vu47p", "lpddr5x_8533_128"):
        c = config(load_dram(name).replace(**change[seed % 3]), [250e6, 1e9, 100e6][seed % 3], 6, l2_bytes)
        compiled, python = native.NativeCore(c), PythonCore(c)
        found = drive(python, seed, 6)
        assert drive(compiled, seed, 6) == found
        assert compiled.counters() == python.counters()
        assert compiled.l2() == python.l2()
        l2 = python.l2()
        assert min(l2.merged, l2.misses, l2.bytes) > 0 and (l2.hits > 0 or l2_bytes == 256)
        assert not python.fills, "every line that was asked for came"


# In the timing of programs


@pytest.fixture(scope="module")
def arch(tmp_path_factory: pytest.TempPathFactory) -> Arch:
    """Two tiles of dpu_tiny with an L2 of 4 KiB in front of TOY."""
    path = tmp_path_factory.mktemp("dram") / "toy.json"
    path.write_text(PATHS.model_dump_json())
    return with_dram(TINY.model_copy(update={"tiles": 2, "l2_bytes": 4096}), str(path))


def load(base: int = 0) -> np.ndarray:
    words = word(Opcode.LOAD, base=base, buffer=Buffer.ACT, inner=1024, n=[1, 1, 1])
    return np.concatenate([words, END])


NATIVE = [False, pytest.param(True, marks=pytest.mark.skipif(not native.compiler(), reason="no C++"))]


@pytest.mark.parametrize("compiled", NATIVE)
def test_two_tiles_load_the_same_lines(arch: Arch, compiled: bool) -> None:
    """Until 69 as in `test_two_tiles_on_one_bank_or_two`: tile 0's LOAD starts at 43, its address goes out at 51; PRE
    69, ACT 79, RD 89 + 4i. Data of line k until 124 + 32k, slice 4, way 5: at the port at 133 + 32k. ACT takes a word
    of 8 bytes a cycle, 32 cycles a line: until 261, done 3 later.

    Tile 1's LOAD starts at 79, its address goes out at 87, before any line is there: 4 behind tile 0 in each slice.
    """
    t = simulate(arch, [load(), load()], native=compiled)
    times = [[int(v[0]) for v in (x.start, x.begin, x.issued, x.visible)] for x in t.tiles]
    assert times == [[43, 133, 261, 264], [79, 137, 265, 268]]
    assert t.channels is not None
    assert t.channels.total.bytes_read == 4 * 256 + 2 * 2 * 64  # four lines, and two instructions a tile
    assert t.channels.l2 == L2Counters(hits=0, merged=4, misses=4, bytes=2048)
    assert not any("l2_bytes" in x for x in t.not_modelled) and any("L2's tag ports" in x for x in t.not_modelled)


@pytest.mark.parametrize("compiled", NATIVE)
def test_only_constants_are_kept(arch: Arch, compiled: bool) -> None:
    """Base 1 is written while a program runs; without `l2_bytes` nothing is kept, and base 0 is like base 1."""
    t = simulate(arch, [load(1), load(1)], native=compiled)
    plain = simulate(arch.model_copy(update={"l2_bytes": 0}), [load(), load()], native=compiled)
    assert t.channels is not None and plain.channels is not None
    assert t.channels.total.bytes_read == plain.channels.total.bytes_read == 2 * 1024 + 2 * 2 * 64
    assert t.channels.l2 == L2Counters() and plain.channels.l2 is None
    assert t.cycles == plain.cycles


def test_a_fluid_says_that_it_has_none(arch: Arch) -> None:
    t = simulate(with_dram(arch, "simple"), [load(), load()])
    assert "the shared L2 (l2_bytes): a DRAM without addresses, so that every read goes to it" in t.not_modelled


def test_the_report_has_the_l2(arch: Arch, tmp_path: Path) -> None:
    entry = Entry(name="unet", inputs=(), outputs=(), sources=())
    words = [load(), load()]
    report = profile(entry, words, simulate(arch, words), arch)
    assert report.dram is not None and report.dram.l2 is not None
    row = report.dram.l2
    assert (row.hits, row.merged, row.misses, row.bytes, row.filled) == (0, 4, 4, 2048, 1024)
    assert row.hit_rate == 0.5
    write_report(ProgramReport.of([report]), tmp_path / "out")
    assert load_report(tmp_path / "out").entries == (report,)
    html = (tmp_path / "out" / "report.html").read_text()
    assert "<h2>Shared L2</h2>" in html and '<td data-v="0.5">50.0 %</td>' in html
    plain = arch.model_copy(update={"l2_bytes": 0})
    report = profile(entry, words, simulate(plain, words), plain)
    assert report.dram is not None and report.dram.l2 is None
    assert "Shared L2" not in report_html(ProgramReport.of([report]))
