"""The range of the estimate's error comes from the entries that were simulated in full."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dpu.bench.estimate_cycles import error
from dpu.errors import DpuError


def table(path: Path, *rows: tuple[str, str, int, int]) -> Path:
    keys = ("arch", "entry", "estimated", "simulated")
    path.write_text(json.dumps({"entries": [dict(zip(keys, r, strict=True)) for r in rows]}))
    return path


def test_range_of_the_entries(tmp_path: Path) -> None:
    """True over estimated: 110 / 100 and 95 / 100; another arch's entry does not count."""
    path = table(
        *(tmp_path / "t.json", ("a", "unet", 100, 110), ("a", "vae_decoder", 100, 95), ("b", "unet", 100, 300))
    )
    found = error("a", path)
    assert (found.value, found.low, found.high, found.provenance) == (1.0, 0.95, 1.1, "assumed")
    assert found.source == (
        "timing simulation of all entries over the estimate: 0.950 to 1.100 (dpubench estimate-error)"
    )


def test_one_is_in_the_range(tmp_path: Path) -> None:
    found = error("a", table(tmp_path / "t.json", ("a", "unet", 100, 110)))
    assert (found.low, found.high) == (1.0, 1.1)


@pytest.mark.parametrize("arch", ["a", "b"])
def test_without_the_unet(tmp_path: Path, arch: str) -> None:
    found = error(arch, table(tmp_path / "t.json", ("a", "text_encoder", 100, 101)))
    assert (found.low, found.high) == (0.8, 1.25)
    assert found.source == "no source: the UNet of this arch was not simulated (dpubench estimate-error)"


def test_a_damaged_table(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text("[]")
    with pytest.raises(DpuError) as e:
        error("a", path)
    assert str(e.value) == (
        f"error[E520]: {path}: is no table of this version (list indices must be integers or slices, not str)\n"
        "  try: dpubench estimate-error --help"
    )
