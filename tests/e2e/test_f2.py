"""`dpurun --target f2` on the stand-in makes the simulator's picture, byte for byte; with a fault on the way, too."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from dpu.codegen.driver import compile_folder
from dpu.runtime.cli import dpurun
from dpu.runtime.f2.stand_in import FAULTS

from .conftest import SIZE

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("rtl_tools")]


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], program: Path, out: Path, *more: str
) -> tuple[str, str]:
    """What `dpurun` prints on standard output and on standard error."""
    line = ["dpurun", str(program), "--prompt", "a red fox", "--steps", "2", "-o", str(out), *more]
    monkeypatch.setattr(sys, "argv", line)
    with pytest.raises(SystemExit) as stop:
        dpurun.main()
    printed = capsys.readouterr()
    assert not stop.value.code, printed.err
    return printed.out, printed.err


def test_tiny_seeded_for_two_steps_is_the_simulators_picture(
    tiny_folder: Path,
    calibration: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """About 20 million cycles of the custom logic, twice; tests/f2/test_whole_image.py has several slots."""
    program = tmp_path / "tiny.dpu"
    compile_folder(tiny_folder, arch="dpu_tiny", calibration=calibration, size=SIZE, out=program)
    run(monkeypatch, capsys, program, tmp_path / "sim.png", "--target", "sim", "--no-timing")
    expected = (tmp_path / "sim.png").read_bytes()

    f2 = ("--target", "f2", "--card", "stand-in")
    out, err = run(monkeypatch, capsys, program, tmp_path / "f2.png", *f2, "--watch")
    assert (tmp_path / "f2.png").read_bytes() == expected
    assert "simulated: the RTL of the custom logic standing in for the card)" in out
    assert "card             slot 0, interrupts of " in out
    assert "slot 0, step 1 of 2, 1 left in about " in err and "power not modelled" in err

    monkeypatch.setenv(FAULTS, "image-lost@3000")
    out, _ = run(monkeypatch, capsys, program, tmp_path / "lost.png", *f2)
    assert (tmp_path / "lost.png").read_bytes() == expected
    assert "mended           1 reloads" in out
