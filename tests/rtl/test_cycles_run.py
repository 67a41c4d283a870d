"""The table of cycles: its order, what a second run keeps, what is beyond the bounds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from dpu.bench import cycles, cycles_run
from dpu.bench.cycles import CASES, Cycles, EngineCycles, LayerCycles, Row, misses, replaced, table
from dpu.errors import DpuError
from dpu.ir.isa import Opcode, Words, word


def row(case: tuple[str, str, str], model: int = 20_000, layers: Sequence[LayerCycles] = ()) -> Row:
    arch, dram, entry = case
    long, short = misses(layers)
    engine = EngineCycles(engine="MXU", words=1, exact=1, error=0)
    return Row(arch=arch, dram=dram, entry=entry, words=2, rtl=20_000, model=model, median=0.0, long=long, short=short,
               engines=(engine,))  # fmt: skip


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """Rows that were run, in place of a compiler and an RTL simulator that take half an hour."""
    ran: list[tuple[str, str, str]] = []

    def programs(names: Sequence[str], work: Path) -> dict[str, tuple[Path, dict[str, list[Words]]]]:
        entries = {entry for _, _, entry in CASES}
        streams = {e: [word(Opcode.END, signal=i)] for i, e in enumerate(sorted(entries))}
        return {n: (work / n, streams) for n in names}

    def run(case: cycles_run._Case) -> Row:
        ran.append((case.arch.name, case.dram, case.entry))
        return row(ran[-1])

    monkeypatch.setattr(cycles_run, "_programs", programs)
    monkeypatch.setattr(cycles_run._Case, "row", run)
    return ran


def test_a_run_goes_on_with_rows_of_the_same_sources(made: list[tuple[str, str, str]]) -> None:
    lines: list[str] = []
    rows = []
    for found in cycles_run.measure(say=lines.append):
        rows.append(found)
        if len(rows) == 5:  # stopped
            break
    assert made[:5] == list(CASES[:5])
    made.clear()
    again = list(cycles_run.measure(kept=rows, say=lines.append))
    assert [r.case for r in again] == list(CASES) and made == list(CASES[5:])
    assert again[:5] == rows and len({r.made_of for r in again}) == len(CASES)
    assert lines[5] == f"1 of {len(CASES)}  dpu_tiny ideal time: +0.000 %  (kept)"
    made.clear()
    old = [r.model_copy(update={"made_of": "0" * 16}) for r in again]
    assert list(cycles_run.measure(["tiny_16"], old)) == [r for r in again if r.arch == "tiny_16"]
    assert made == [c for c in CASES if c[0] == "tiny_16"]


def test_an_unknown_arch_is_refused() -> None:
    with pytest.raises(DpuError) as e:
        next(cycles_run.measure(["tiny"]))
    assert e.value.text() == ("error[E505]: tiny: no such arch\n  try: one of dpu_tiny, tiny_16, tiny_x2, f2_x1")


def test_what_makes_a_row_is_told_apart() -> None:
    archs, end = cycles.archs(), [word(Opcode.END)]
    first = cycles_run.made_of(archs["dpu_tiny"], end)
    assert first == cycles_run.made_of(archs["dpu_tiny"], [np.array(end[0])])
    assert first != cycles_run.made_of(archs["tiny_16"], end)
    assert first != cycles_run.made_of(archs["dpu_tiny"], [word(Opcode.END, signal=1)])


def test_rows_of_other_archs_stay() -> None:
    rows = replaced([row(CASES[0]), row(CASES[20]), row(("mine", "ideal", "net"))], row(CASES[7]))
    assert [r.case for r in rows] == [CASES[0], CASES[7], CASES[20], ("mine", "ideal", "net")]
    assert replaced(rows, row(CASES[7], 20_001))[1].model == 20_001


def test_bounds_are_those_of_the_holdout() -> None:
    fine = [
        LayerCycles(name="a", tile=0, rtl=10_000, model=10_100),
        LayerCycles(name="b", tile=0, rtl=9_999, model=9_899),
    ]
    assert row(CASES[0], layers=fine).agrees and row(CASES[0], 20_100).agrees and not row(CASES[0], 20_101).agrees
    bad = [LayerCycles(name="c", tile=1, rtl=10_000, model=10_101), LayerCycles(name="d", tile=0, rtl=50, model=151)]
    both = [row(CASES[0], layers=[*fine, *bad]), row(CASES[1])]
    assert (both[0].long.beyond, both[0].short.beyond) == (1, 1)
    said = table("dpubench cycles", both)
    assert not said.agrees and said.text().splitlines()[-3:] == [
        "beyond the bounds:",
        "  dpu_tiny, time on ideal: c, tile 1: RTL 10,000, model 10,101",
        "  dpu_tiny, time on ideal: d, tile 0: RTL 50, model 151",
    ]
    assert Cycles.model_validate_json(said.model_dump_json()) == said
