"""A state file that is something else is refused with its own text by every run that goes on with one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from dpu.bench import campaign, fuzz, image_tables, rtl_mutants, rtl_size, sizes
from dpu.bench.resumed import read_record
from dpu.errors import DpuError

READERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "campaign": (lambda out: campaign.run(20, ["one"], out), "programs that are in it are added to"),
    "mutants": (
        lambda out: rtl_mutants._state([], 1, 1, out, "dpubench rtl-mutants"),
        "faults that are in it are not run again",
    ),
    "fuzz": (lambda out: fuzz.fuzz("arch", 1, out), "cases that are in it are not run again"),
    "rtl-size": (rtl_size._load, "units that are in the output are kept"),
    "sizes": (lambda out: sizes._load(out, {}, "dpubench sizes"), "sizes that are in it are not compiled again"),
    "tables": (image_tables.read, "archs that are in it are kept"),
}


@pytest.mark.parametrize("name", READERS)
def test_foreign_json_is_refused(name: str, tmp_path: Path) -> None:
    out = tmp_path / "state.json"
    reader, why = READERS[name]
    out.write_text('{"weather": "fine"}')
    with pytest.raises(DpuError) as e:
        reader(out)
    head, *rest = e.value.text().splitlines()
    assert head.startswith(f"error[E502]: {out}: is no file of this command (field '")
    assert rest == [f"  why: {why}", "  try: choose another output"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"weather": "fine"}', "field 'format': Field required"),
        (b"not JSON", "Invalid JSON: expected ident at line 1 column 2"),
        (
            b'{"format": "arch", "cases": "many"}',
            "field 'cases': Input should be a valid integer, unable to parse string as an integer",
        ),
        (b"\xff\xfe", "Invalid JSON: expected value at line 1 column 1"),
    ],
)
def test_the_text_says_what_is_wrong(content: bytes, said: str, tmp_path: Path) -> None:
    out = tmp_path / "state.json"
    out.write_bytes(content)
    with pytest.raises(DpuError) as e:
        read_record(out, fuzz.FuzzResult, "cases that are in it are not run again")
    assert e.value.text() == (
        f"error[E502]: {out}: is no file of this command ({said})\n"
        "  why: cases that are in it are not run again\n"
        "  try: choose another output"
    )


def test_a_state_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DpuError) as e:
        read_record(tmp_path, fuzz.FuzzResult)
    assert e.value.text() == (f"error[E101]: {tmp_path}: cannot be read (Is a directory)\n  try: choose another output")
