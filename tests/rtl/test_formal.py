"""Proofs of the RTL (rtl/formal): the quick ones here, all of them in `make formal` and under `-m slow`."""

from __future__ import annotations

import pytest
from dpu.errors import DpuError
from dpu.rtl.formal import floats, report, solve
from dpu.rtl.formal.subjects import SUBJECTS
from dpu.rtl.toolchain import FOLDER, sources

tools = pytest.mark.skipif(bool(solve.missing() or floats.missing()), reason=solve.missing() or floats.missing())
BY_NAME = {s.name: s for s in SUBJECTS}
QUICK = [s for s in SUBJECTS if s.quick]
REST = [s for s in SUBJECTS if not s.quick]


def _holds(row: report.Row) -> None:
    assert row.good, report.line(row)


@tools
@pytest.mark.parametrize("subject", QUICK, ids=lambda s: s.name)
def test_a_quick_proof_holds(subject: solve.Subject) -> None:
    proof = solve.run(subject, subject.mode)
    assert proof.status == "PASS", (proof.failed, proof.log[-2000:])


@tools
@pytest.mark.parametrize("name", ["fifo", "semaphores", "axil"])
def test_covers_are_reached_and_a_seeded_bug_is_refuted(name: str) -> None:
    subject = BY_NAME[name]
    cover = solve.run(subject, "cover")
    assert cover.status == "PASS" and not cover.failed, cover.failed
    assert cover.covered == sources(subject.top)[-1].read_text(encoding="utf-8").count(": cover (")
    found = solve.run(subject, "bmc", subject.bugs[0])
    assert found.status == "FAIL" and found.failed, found.log[-2000:]


@tools
@pytest.mark.parametrize("function", [f for f in floats.FUNCTIONS if f.quick], ids=lambda f: f.name)
def test_arithmetic_is_ieee_754(function: floats.Function) -> None:
    _holds(report.prove_function(function))


@tools
@pytest.mark.slow
@pytest.mark.parametrize("subject", REST, ids=lambda s: s.name)
def test_a_long_proof_holds_as_far_as_the_limit(subject: solve.Subject) -> None:
    _holds(report.prove_subject(subject, 120))


@tools
@pytest.mark.slow
@pytest.mark.parametrize("function", [f for f in floats.FUNCTIONS if not f.quick], ids=lambda f: f.name)
def test_the_multiplier_is_ieee_754(function: floats.Function) -> None:
    _holds(report.prove_function(function))


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)
def test_every_edit_has_its_place(subject: solve.Subject) -> None:
    text = {f.stem: f.read_text(encoding="utf-8") for f in sources(subject.top)}
    for edit in (*subject.bugs, *subject.reduced, *subject.cover_reduced, *subject.bug_reduced):
        assert solve.apply(text[edit.file], edit) != text[edit.file]


def test_an_edit_without_a_place_is_an_error() -> None:
    with pytest.raises(DpuError) as error:
        solve.apply("assign a = b;", solve.Edit("dpu_x", "c", "d"))
    assert str(error.value) == (
        "error[E428]: dpu_x.sv: cannot be edited for a proof: 'c' is there 0 times\n"
        "  why: a seeded bug or a reduction names one place\n"
        "  try: give the table of rtl/formal the text that the file has now"
    )


def test_every_wrapper_is_used_and_every_proof_has_a_bug() -> None:
    wrappers = {p.stem for p in (FOLDER / "formal").glob("*_formal.sv")}
    assert wrappers == {s.top for s in SUBJECTS} | {floats.TOP}
    assert all(s.bugs for s in SUBJECTS) and all(f.bugs for f in floats.FUNCTIONS)


def test_the_table_is_that_of_the_record() -> None:
    rows = report.read()
    assert report.markdown(rows) in report.README.read_text(encoding="utf-8")
    assert [r.name for r in rows] == [s.name for s in SUBJECTS] + [f.name for f in floats.FUNCTIONS]
