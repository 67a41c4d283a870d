"""Choosing tiles and lanes of `dpu_f2`: which of them fit, and units that are sized side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from dpu.bench import rtl_size, rtl_size_candidates, rtl_size_table
from dpu.rtl.size.yosys import Flow, Unit

from .test_size import _fake, _result, _row


def _candidate(tiles: int, lanes: int, seconds: float) -> rtl_size.Candidate:
    return rtl_size.Candidate(tiles=tiles, lanes=lanes, seconds=seconds, utilisation=0.5)


def test_the_fastest_that_fits() -> None:
    """Three tiles need all regions, two the roomier ones; what was not sized fits nowhere."""
    rows = (_row("dpu_f2", 64, 16, lut=270_000, dsp=2000), _row("64x64-l8", 64, 8, lut=200_000, dsp=2000))
    candidates = (_candidate(3, 8, 70.0), _candidate(3, 16, 60.0), _candidate(2, 16, 80.0), _candidate(3, 32, 50.0))
    result = _result(*rows).model_copy(update={"candidates": candidates})
    found = rtl_size_candidates.choices(result)
    assert [(c.candidate.tiles, c.candidate.lanes, c.fits) for c in found] == [
        (3, 32, False), (3, 16, False), (3, 8, True), (2, 16, True),
    ]  # fmt: skip
    assert [f.region for f in found[2].regions] == ["SLR2", "SLR0", "SLR1"]  # most LUTs first
    assert [f.region for f in found[3].regions] == ["SLR2", "SLR0"]
    assert found[0].regions == () and found[1].regions[2].over == ["lut"]  # 83 % of SLR1
    text = rtl_size_table.page(result)
    assert "| 3 | 32 | not sized | not sized | not sized | not known | 50% | 50.0 |" in text
    assert "| 3 | 16 | 71%, 79%, 0% | 83%, 83%, 0% | 62%, 65%, 0% | LUT in SLR1 | 50% | 60.0 |" in text
    assert "| 3 | 8 | 53%, 79%, 0% | 61%, 83%, 0% | 46%, 65%, 0% | yes | 50% | **70.0** |" in text
    assert "| 2 | 16 | 71%, 79%, 0% | - | 62%, 65%, 0% | yes | 50% | 80.0 |" in text


def test_a_choice_has_a_port_a_tile() -> None:
    three, two = (rtl_size_candidates.choice_arch(tiles, 8) for tiles in (3, 2))
    assert (three.tiles, three.lanes, three.cols) == (3, 8, 64)
    assert three.dram.bytes_per_cycle * 2 == two.dram.bytes_per_cycle * 3


def test_units_side_by_side_are_those_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def digest(module: str, given: Mapping[str, int], flow: Flow) -> str:
        return f"{module} {dict(given)} {flow}"

    def synthesise(module: str, given: Mapping[str, int], flow: Flow) -> Unit:
        made.append(digest(module, given, flow))
        return _fake(module, given, flow).model_copy(update={"digest": made[-1]})

    monkeypatch.setattr(rtl_size, "digest", digest)
    monkeypatch.setattr(rtl_size, "synthesise", synthesise)
    monkeypatch.setattr(rtl_size, "yosys_version", lambda: "0")
    one = rtl_size.measure(["dpu_tiny", "16x16"], ["fpga"], tmp_path / "one.json", "")
    in_turn = sorted(made)
    made.clear()
    two = rtl_size.measure(["dpu_tiny", "16x16"], ["fpga"], tmp_path / "two.json", "", jobs=2)
    assert two == one and sorted(made) == in_turn and len(in_turn) == len({*in_turn})


def test_a_failing_unit_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def synthesise(module: str, given: Mapping[str, int], flow: Flow) -> Unit:
        raise ValueError(module)

    monkeypatch.setattr(rtl_size, "synthesise", synthesise)
    monkeypatch.setattr(rtl_size, "yosys_version", lambda: "0")
    with pytest.raises(ValueError, match="dpu_top"):
        rtl_size.measure(["dpu_tiny"], ["fpga"], tmp_path / "size.json", "", jobs=2)
