"""Reports of the compiled tiny pipeline: every table sums to the whole, on one tile and on three."""

from __future__ import annotations

import pytest
from dpu.codegen.driver import Compiled
from dpu.runtime.reports import program_report
from dpu.simulator.roofline import ceilings, points
from dpu.simulator.timing import simulate


@pytest.mark.parametrize("which", ["compiled", "compiled_f2"])
def test_sums(which: str, request: pytest.FixtureRequest) -> None:
    compiled: Compiled = request.getfixturevalue(which)
    program = compiled.program
    timings = {e.name: simulate(program.arch, program.words[e.name], e.name) for e in program.entries}
    report = program_report(program, timings)
    assert [e.entry for e in report.entries] == [e.name for e in program.entries]
    for r, entry in zip(report.entries, program.entries, strict=True):
        timing = timings[r.entry]
        rows = r.rows
        whole = r.tiles * timing.cycles
        assert sum(x.logical_macs for x in rows) == r.logical_macs == sum(s.macs for s in entry.sources)
        assert sum(x.executed_macs for x in rows) == r.executed_macs == timing.executed_macs
        assert sum(x.own for x in rows) + r.unowned == whole
        assert sum(x.bytes_read for x in rows) == sum(t.bytes_read for t in timing.tiles)
        assert sum(x.bytes_written for x in rows) == sum(t.bytes_written for t in timing.tiles)
        assert sum(x.words for x in rows) + r.control_words == sum(len(t.engine) for t in timing.tiles)
        for e, finished in r.finished.items():
            idle = [n for x in rows for n in x.idle.get(e, {}).values()]
            assert all(n > 0 for n in idle)
            assert sum(x.ran[e] for x in rows) + sum(idle) + finished == whole
        assert sum(x.energy for x in rows) == pytest.approx(r.energy.total.value - r.energy.by_group()["leakage"])
        for f in r.memory.scratchpads:
            assert 0 <= f.used <= f.bytes
        work = next(m for m in r.memory.regions if m.name == "WORK")
        assert r.memory.work_peak <= work.bytes >= work.touched
        assert all(0 <= x.first <= x.last <= r.cycles for x in r.memory.lives)
        assert all(x.read for x in r.memory.lives if x.region == "WORK"), "a WORK tensor that nobody reads"
        for p in points(r):
            roofs = [c for c in ceilings(r) if c.name.startswith("array") or "ports" in c.name or "pins" in c.name]
            assert not p.row.executed_macs or all(p.y <= c.at(p.x) * (1 + 1e-9) for c in roofs)
