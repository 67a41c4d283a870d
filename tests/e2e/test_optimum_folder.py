"""A folder as Optimum writes it, from text encoders to VAE: the same program as from this project's own export.

Its graphs are those of `tests/data/optimum`, their weights made from the seed; configurations and tokenizers lie where
Optimum puts them: no `vae/`, no manifest, tokenizers as `vocab.json` and `merges.txt`, weights in `model.onnx_data`.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from dpu.bench.exporters import DATA, PARTS, fill
from dpu.codegen.driver import compile_folder
from dpu.ir.container import Program
from dpu.ir.isa import DTYPE, VEC, Opcode, Words
from dpu.runtime.calibrate import calibrate_folder
from dpu.runtime.cli import dpurun

SIZE = (64, 64)
FLOOR = 22.0  # dB of one forward against float32, as in test_quality.py


@pytest.fixture(scope="module")
def optimum(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("optimum")
    shutil.copy(tiny_folder / "model_index.json", out)
    shutil.copytree(tiny_folder / "scheduler", out / "scheduler")
    for name in ("tokenizer", "tokenizer_2"):
        (out / name).mkdir()
        shutil.copy(tiny_folder / name / "tokenizer_config.json", out / name)
        model = json.loads((tiny_folder / name / "tokenizer.json").read_text())["model"]
        merges = (m if isinstance(m, str) else " ".join(m) for m in model["merges"])
        (out / name / "vocab.json").write_text(json.dumps(model["vocab"]))
        (out / name / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]))
    for part in PARTS:
        (out / part).mkdir()
        shutil.copy(tiny_folder / part.removesuffix("_decoder") / "config.json", out / part)
        ir.save(fill(DATA / f"{part}.onnx", part), out / part / "model.onnx", external_data="model.onnx_data")
    return out


def compiled(folder: Path, work: Path) -> Program:
    calibration = work / f"{folder.name}.safetensors"
    calibrate_folder(folder, calibration, prompts=1, steps=2, size=SIZE)
    out = work / f"{folder.name}.dpu"
    return compile_folder(folder, arch="dpu_tiny", calibration=calibration, size=SIZE, out=out).program


def without_immediates(words: Words) -> bytes:
    """A stream but for the scales in its words: float32 weights calibrate a little different from float16 ones."""
    assert DTYPE[Opcode.VEC] is VEC
    words = words.copy()
    words.view(VEC)["imm"][words["opcode"] == Opcode.VEC] = 0
    return words.tobytes()


@pytest.mark.slow
def test_the_program_and_its_image(
    optimum: Path,
    tiny_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other, own = compiled(optimum, tmp_path), compiled(tiny_folder, tmp_path)
    assert [e.name for e in other.entries] == [e.name for e in own.entries]
    assert {"text_encoder", "text_encoder_2", "unet", "vae_decoder"} <= {e.name for e in own.entries}
    assert other.base_bytes == own.base_bytes
    for a, b in zip(other.entries, own.entries, strict=True):
        assert (a.inputs, a.outputs) == (b.inputs, b.outputs), a.name
        for x, y in zip(other.words[a.name], own.words[a.name], strict=True):
            assert without_immediates(x) == without_immediates(y), a.name
    # Weights rounded to int8 by scales of their float32 values, or of those rounded to float16 before.
    assert np.mean(other.constants != own.constants) < 0.05
    line = f"dpurun {tmp_path / optimum.name}.dpu --target sim --prompt x --steps 1 --compare {optimum}"
    monkeypatch.setattr(sys, "argv", shlex.split(f"{line} -o {tmp_path / 'out.png'}"))
    with pytest.raises(SystemExit) as stop:
        dpurun.main()
    text = capsys.readouterr().out
    assert stop.value.code in (0, None), text
    step = text.partition("free-running")[2].splitlines()[1].split()
    assert step[0] == "0" and float(step[2]) > FLOOR, text
