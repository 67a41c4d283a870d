"""`dpuc compile --smooth --collector`: equal to the interpreter bit for bit, and the program says what it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dpu.codegen.driver import compile_folder
from dpu.codegen.inspect import inspect
from dpu.errors import DpuError
from dpu.passes.calibration import load_calibration
from dpu.passes.collectors import Collector
from dpu.runtime.calibrate import calibrate_folder
from dpu.runtime.compiling import check_text


def test_a_smoothed_program_with_another_collector(tiny_folder: Path, tmp_path: Path) -> None:
    calibration = tmp_path / "calib.safetensors"
    calibrate_folder(tiny_folder, calibration, ["a red fox"], steps=1, size=(64, 64))
    options = {"arch": "dpu_tiny", "calibration": calibration, "size": (64, 64), "parts": ()}
    compiled = compile_folder(
        tiny_folder,
        **options,  # type: ignore[arg-type]
        precision="w8a8-static",
        collector=Collector("percentile", 99.9),
        smooth=True,
    )
    text, ok = check_text(compiled, None)
    assert ok, text
    info = compiled.program.info
    assert info["collector"] == "percentile99.9"
    assert info["smooth"]["inputs"] == len(info["smooth"]["layers"]) > 10
    assert any(alpha is not None and after > before for _, alpha, before, after in info["smooth"]["layers"])
    notes = compiled.summary()
    assert "note           collector: percentile99.9: larger values of static inputs saturate" in notes
    assert f"note           smooth: alpha of {info['smooth']['inputs']} inputs of linears: " in notes
    shown = inspect(compiled.program).splitlines()
    assert "collector    percentile99.9" in shown
    assert f"smooth       alpha of {info['smooth']['inputs']} inputs of linears: {info['smooth']['alphas']}" in shown
    assert json.loads(inspect(compiled.program, as_json=True))["info"]["smooth"] == json.loads(
        json.dumps(info["smooth"])
    )
    assert "smooth" not in load_calibration(calibration).info


def test_without_a_calibration_they_are_refused(tiny_folder: Path) -> None:
    for options, option in (({"smooth": True}, "--smooth"), ({"collector": Collector("mean")}, "--collector mean")):
        with pytest.raises(DpuError) as e:
            compile_folder(tiny_folder, arch="dpu_tiny", uncalibrated=True, **options)  # type: ignore[arg-type]
        assert e.value.text().splitlines() == [
            f"error[E501]: {option}: an uncalibrated program has no statistics",
            "  try: leave out one of the two, or give --calibration",
        ]
