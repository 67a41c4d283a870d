"""Goldens of the reference programs: a figure that moves by more than 0.5 % needs `dpubench golden --accept REASON`."""

from __future__ import annotations

from pathlib import Path

import pytest
from dpu.bench import golden
from dpu.codegen.driver import Compiled
from dpu.errors import DpuError

FOLDER = Path(__file__).parents[2] / golden.FOLDER


@pytest.mark.parametrize(("name", "fixture"), [("tiny-dpu_tiny", "compiled"), ("tiny-dpu_f2", "compiled_f2")])
def test_nothing_moved(name: str, fixture: str, request: pytest.FixtureRequest, tiny_folder: Path) -> None:
    compiled: Compiled = request.getfixturevalue(fixture)
    db = golden.first_forward_db(compiled.program, tiny_folder)
    moved = golden.differences(golden.load(name, FOLDER), golden.measure(name, compiled.program, sqnr_db=db))
    assert not moved, "\n".join([*moved[:40], 'if this is meant: dpubench golden --accept "why"'])


def test_a_difference_names_the_layer_and_both_values(compiled: Compiled) -> None:
    old = golden.measure("tiny-dpu_tiny", compiled.program)
    entry = old.entries[0]
    layer = entry.layers[1]
    slower = layer.model_copy(update={"span": layer.span * 2})
    layers = (entry.layers[0], slower, *entry.layers[2:])
    changed = entry.model_copy(update={"layers": layers, "cycles": round(entry.cycles * 1.004)})
    new = old.model_copy(update={"entries": (changed, *old.entries[1:])})
    assert golden.differences(old, new) == [
        f"{entry.entry}: {layer.name}: span {layer.span:,} -> {2 * layer.span:,} (+100.0%)"
    ]
    assert golden.differences(old, old) == []


def test_accepting_needs_a_reason(tmp_path: Path) -> None:
    with pytest.raises(DpuError) as e:
        golden.accept("  ", tmp_path)
    assert e.value.text() == (
        "error[E511]: --accept: no reason\n"
        "  why: a golden that moved without one is a bug\n"
        '  try: say why, as in --accept "better tiling"'
    )


def test_a_missing_golden_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(DpuError, match=r"E510.*no golden"):
        golden.load("nosuch", tmp_path)


def test_a_golden_reads_back(compiled: Compiled, tmp_path: Path) -> None:
    one = golden.measure("tiny-dpu_tiny", compiled.program, "a test")
    golden.save(one, tmp_path)
    assert golden.load("tiny-dpu_tiny", tmp_path) == one
