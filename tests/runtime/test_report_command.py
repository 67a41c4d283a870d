"""`dpuc report`: a program is timed, not run; bad input is one error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dpu.codegen.dpufile import save
from dpu.errors import DpuError
from dpu.ir.arch import load_arch
from dpu.ir.container import Entry, Program, SourceOp
from dpu.ir.isa import Buffer, Opcode, word
from dpu.runtime.reports import report_command
from dpu.simulator.report import load_report

TINY = load_arch("dpu_tiny")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of two entries that load something, as `p.dpu` in the working folder."""
    monkeypatch.chdir(tmp_path)
    load = word(Opcode.LOAD, buffer=Buffer.WGT, inner=64, n=[1, 1, 1])
    stream = np.concatenate([load, word(Opcode.END)])
    source = SourceOp(tag=0, name="conv", kind="dpu.q.conv", nodes=("/Conv",), macs=5)
    entries = [Entry(name=n, inputs=(), outputs=(), sources=(source,)) for n in ("net", "vae")]
    words = {e.name: [stream.copy()] for e in entries}
    save(Program(TINY, entries, words, np.zeros(64, np.uint8), {0: 64}), "p.dpu")
    return Path("p.dpu")


def test_a_report_of_a_program(program: Path) -> None:
    said = report_command(program, Path("a/b"), (), 45, None)
    assert sorted(p.name for p in Path("a/b").iterdir()) == ["report.html", "report.json", "roofline.png"]
    found = load_report("a/b")
    assert [e.entry for e in found.entries] == ["net", "vae"]
    assert [(e.logical_macs, e.bytes_read, e.memory.regions[0].bytes) for e in found.entries] == [(5, 64, 64)] * 2
    assert said.splitlines()[-2:] == [
        "one run of each on dpu_tiny: cycles simulated, energy assumed (constants at 45 nm)",
        "wrote a/b/report.html, report.json, roofline.png",
    ]


def test_one_entry_and_another_node(program: Path) -> None:
    report_command(program, Path("one"), ["vae"], 7, None)
    found = load_report("one")
    assert [(e.entry, e.energy.node_nm) for e in found.entries] == [("vae", 7)]


def test_comparing_a_report_with_a_program(program: Path) -> None:
    report_command(program, Path("a"), (), 45, None)
    said = report_command(None, Path("c"), (), 45, (Path("a"), program))
    assert said.splitlines()[0] == "A a on dpu_tiny" and said.splitlines()[-2:] == [
        "no operation differs",
        "wrote c/compare.html",
    ]
    assert Path("c/compare.html").is_file()
    assert report_command(None, None, (), 45, (Path("a"), Path("a/report.json"))).endswith("no operation differs")


def refused(*arguments: object) -> str:
    with pytest.raises(DpuError) as e:
        report_command(*arguments)  # type: ignore[arg-type]
    return e.value.text()


def test_bad_input(program: Path) -> None:
    assert refused(None, Path("o"), (), 45, None) == (
        "error[E501]: PROGRAM: there is nothing to report\n  try: give a .dpu file, or --compare A B"
    )
    assert refused(program, None, (), 45, None) == "error[E501]: --out: a report needs a folder\n  try: -o DIR"
    assert refused(program, Path("o"), ["unet"], 45, None) == (
        "error[E501]: --entry: no entry 'unet'\n  try: one of net, vae"
    )
    assert refused(program, Path("o"), (), 5, None) == (
        "error[E501]: --node: there are no constants for 5 nm\n  try: one of 45, 7"
    )
    assert refused(None, None, (), 45, (Path("x"), program)) == (
        "error[E106]: x: no such report\n  try: write it: dpuc report PROGRAM -o DIR"
    )
    assert refused(Path("x.dpu"), Path("o"), (), 45, None).startswith("error[E301]: x.dpu: cannot be read")
    assert not Path("o").exists()
