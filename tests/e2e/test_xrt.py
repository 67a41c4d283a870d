"""`dpurun --target xrt` on the stand-in of pyxrt makes the simulator's picture, byte for byte."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from dpu.codegen.driver import compile_folder
from dpu.runtime.cli import dpurun

SIZE = (64, 64)

pytestmark = pytest.mark.slow


def test_tiny_seeded_for_two_steps_is_the_simulators_picture(
    tiny_folder: Path,
    calibration: Path,
    pyxrt: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """About 20 million cycles of the Verilated kernel with its assertions."""
    program, image = tmp_path / "tiny.dpu", tmp_path / "tiny.xclbin"
    compile_folder(tiny_folder, arch="dpu_tiny", calibration=calibration, size=SIZE, out=program)
    image.write_text(json.dumps({"arch": "dpu_tiny"}))
    made = {}
    for target, more in (("sim", []), ("xrt", ["--image", str(image)])):
        out = tmp_path / f"{target}.png"
        line = ["dpurun", str(program), "--target", target, "--prompt", "a red fox", "--steps", "2", "-o", str(out)]
        monkeypatch.setattr(sys, "argv", [*line, *more])
        with pytest.raises(SystemExit) as stop:
            dpurun.main()
        printed = capsys.readouterr()
        assert not stop.value.code, printed.err
        made[target] = out.read_bytes(), printed.out
    assert made["xrt"][0] == made["sim"][0]
    assert "simulated: the Verilated kernel standing in for the card)" in made["xrt"][1]
    assert "card             stand_in_u50, kernel reached by hw_context" in made["xrt"][1]
