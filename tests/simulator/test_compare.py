"""Two reports against each other."""

from __future__ import annotations

import re

import pytest
from dpu.simulator.compare import compare, compare_page, compare_text
from dpu.simulator.profile import Report, profile
from dpu.simulator.report import ProgramReport

from .recorded import CYCLES, ENTRY, TIMES, TINY, recorded


def report(late: int = 0) -> Report:
    """The small program; `late` cycles more before VEC."""
    times = [
        t if i not in (2, 3) else (t[0] + late, t[1] + late, t[2] + late, t[3] + late) for i, t in enumerate(TIMES)
    ]
    streams, timing = recorded(times=times, cycles=CYCLES + late)
    return profile(ENTRY, streams, timing, TINY)


def test_differences_add_up_and_the_largest_is_first() -> None:
    a, b = ProgramReport.of([report()]), ProgramReport.of([report(1000)])
    c = compare(a, b)
    assert (c.changes[0].entry, c.changes[0].name) == ("unet", "norm<1>")
    assert c.changes[0].delta == pytest.approx(1000 / TINY.clock_hz)
    assert sum(x.delta for x in c.changes) == pytest.approx(b.entries[0].seconds - a.entries[0].seconds)
    assert compare_text(c) == (
        "A A on dpu_tiny\n"
        "B B on dpu_tiny\n"
        "entry                    A ms         B ms    change  A Mcycles  B Mcycles\n"
        "unet                    0.017        0.027   +58.8 %      0.002      0.003\n"
        "largest differences of own time, us a run:\n"
        "         A          B      B - A   of all     MMACs   DRAM kB  operation, bound by\n"
        "      5.45      15.45     +10.00  100.0 %    +0.000      +0.0  unet: norm<1>, vpu"
    )


def test_a_report_equals_itself() -> None:
    a = ProgramReport.of([report()])
    assert compare_text(compare(a, a)).endswith("\nno operation differs")
    assert "4 operations do not differ" in compare_page(compare(a, a))


def test_entries_and_operations_of_only_one() -> None:
    one = report()
    other = one.model_copy(
        update={
            "entry": "vae",
            "rows": tuple(r.model_copy(update={"name": f"{r.name}'"}) for r in one.rows),
        }
    )
    c = compare(ProgramReport.of([one]), ProgramReport.of([other]), ("x", "y<"))
    assert c.entries == ("unet", "vae")
    lines = compare_text(c).splitlines()
    assert lines[3].split()[:4] == ["unet", "0.017", "0.000", "gone"]
    assert lines[4].split()[:4] == ["vae", "0.000", "0.017", "new"]
    assert {x.bound for x in c.changes} >= {"gone: mxu", "new: mxu"}
    page = compare_page(c)
    assert "B: y&lt; on dpu_tiny" in page and "norm&lt;1&gt;" in page and "y< " not in page
    assert not re.search(r"src=|<link|@import|https?:", page)
    assert page == compare_page(c)
