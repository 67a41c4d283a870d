"""`dpubench report` as users meet it: help, the file it leaves, and refusals."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from inspect import signature
from pathlib import Path

import pytest
from dpu.bench.cli import dpubench
from dpu.bench.cli.report import _command, report
from dpu.simulator.economics.inputs import folder

from tests.bench.report_findings import ROOT
from tests.economics.shared import edited

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in this process, in the root of the sources: (exit code, standard output, standard error)."""
    monkeypatch.chdir(ROOT)

    def call(line: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dpubench", *shlex.split(line)])
        with pytest.raises(SystemExit) as stop:
            dpubench.main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return call


def test_help_asks_a_question_and_has_two_examples(run: Run) -> None:
    code, out, _ = run("report --help")
    assert code == 0
    assert out.split("Usage:")[1].split("\n\n")[1].strip() == "Should this DPU become a chip?"
    assert len(re.findall(r"^ +dpubench report\b", out, re.MULTILINE)) == 2


def test_it_writes_one_file(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    line = f"report --arch dpu_asic --economics scenario_b --traffic steady --runs 1 --samples 200 -o {out}"
    code, printed, _ = run(line)
    assert (code, printed) == (0, f"wrote {out}\n")
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]
    assert out.read_text().startswith("<!doctype html>") and "200 draws" in out.read_text()
    said = "dpubench report --arch dpu_asic --economics scenario_b --traffic steady --runs 1 --samples 200"
    assert f"Made by <code>{said}</code>" in out.read_text()


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("report --arch nosuch -o {out}", "error[E505]: nosuch: no such arch"),
        ("report --economics nosuch -o {out}", "error[E106]: nosuch: no such file in configs/economics"),
        ("report --economics scenario_a,scenario_a -o {out}", "error[E501]: --economics: value is"),
        (
            "report --plan nosuch -o {out}",
            "error[E106]: nosuch: no such file in configs/tapeout\n  try: one of plan, or",
        ),
        ("report --traffic nosuch -o {out}", "error[E106]: nosuch: no such file in configs/traffic"),
        ("report --workload nosuch.json -o {out}", "error[E106]: nosuch.json: no such file"),
        ("report --cycles dpu_asic -o {out}", "error[E501]: --cycles: 'dpu_asic' is no NAME=VALUE"),
        ("report --cycles dpu_asic=nosuch.json -o {out}", "error[E106]: nosuch.json: no such file"),
        (
            "report --arch dpu_asic --cycles x=y.json -o {out}",
            "error[E501]: --cycles x: no such arch\n  try: one of dpu_",
        ),
        ("report --results nosuch -o {out}", "error[E106]: nosuch: no such folder\n  try: leave --results out for the"),
        ("report -o /nosuch/a.html", "error[E101]: /nosuch/a.html: folder '/nosuch' does not exist"),
        ("report -o configs", "error[E101]: configs: is a folder, expected a file name"),
    ],
)
def test_bad_input_is_one_located_error_and_exit_2(run: Run, tmp_path: Path, line: str, text: str) -> None:
    code, out, err = run(line.format(out=tmp_path / "page.html"))
    assert (code, out) == (2, "")
    assert text in err and "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_file_where_the_default_folder_goes(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").write_text("")
    monkeypatch.chdir(tmp_path)
    code, out, err = run("report")
    assert (code, out) == (2, "")
    assert err == ("error[E101]: out: 'out' is a file, expected a folder\n  try: choose an existing, writable folder\n")


def test_the_command_on_the_page_can_be_pasted(tmp_path: Path) -> None:
    given = {k: p.default for k, p in signature(report).parameters.items()}
    line = _command(given | {"results": Path("two words"), "plan": "a;b"}, report)
    assert line == "dpubench report --plan 'a;b' --results 'two words'"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "tables.json",
            "{",
            "holds no tables of dpubench tables\n  try: make it again: dpubench tables PROGRAM... -o {file}\n",
        ),
        (
            "image.json",
            '{"steps": [{"forward_db": 1}], "quality": {"unet_psnr_db": NaN}, "program": {"arch": "dpu_tiny"}}',
            "is no record of dpubench image (PSNR is nan dB, the lowest SQNR 1.0 dB)\n  try: dpubench image --help\n",
        ),
    ],
)
def test_damaged_evidence_is_named(run: Run, tmp_path: Path, name: str, text: str, said: str) -> None:
    file = tmp_path / "results" / "sim" / name
    file.parent.mkdir(parents=True)
    file.write_text(text)
    page = tmp_path / "page.html"
    line = "--arch dpu_asic --economics scenario_a --traffic steady --runs 1 --samples 100"
    code, out, err = run(f"report {line} --results {tmp_path / 'results'} -o {page}")
    assert (code, out) == (2, "")
    assert f"error[E520]: {file}: {said.format(file=file)}" in err
    assert not page.exists()


def test_a_wrong_field_of_the_plan_is_named(run: Run, tmp_path: Path) -> None:
    file = edited("tapeout/plan.json", ("nodes", "7", "mpw", "unit"), "USD/h", tmp_path / "plan.json")
    code, _, err = run(f"report --plan {file} -o {tmp_path / 'page.html'}")
    assert code == 2
    assert err == (
        f"error[E520]: {file}: field 'nodes.7.mpw': unit is 'USD/h', allowed: 0 to 1e+10 USD\n"
        "  try: docs/economics.md describes every field\n"
    )
    assert (folder() / "tapeout" / "plan.json").is_file()
