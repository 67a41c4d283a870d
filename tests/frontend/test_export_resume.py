"""An export that was killed goes on: what was finished is kept, nothing is left over, and the result is the same."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from dpu.errors import DpuError
from dpu.frontend.pipeline_folder import PipelineFolder
from dpu.frontend.sdxl import export_tiny

PARTS = ("unet", "vae_decoder")

KILLED = """
import os, signal, sys
from pathlib import Path
from dpu.frontend import sdxl

made = 0

def dying(function, at):
    def call(*args, **kwargs):
        global made
        made += 1
        if made == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    return call

where, at = sys.argv[2], int(sys.argv[3])
setattr(sdxl, where, dying(getattr(sdxl, where), at))
sdxl.export_tiny(Path(sys.argv[1]), parts=("unet", "vae_decoder"))
"""


def killed(out: Path, where: str, at: int) -> None:
    """An export in a process of its own that dies when it calls a function of the exporter for the `at`-th time."""
    run = subprocess.run([sys.executable, "-c", KILLED, str(out), where, str(at)], capture_output=True, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr.decode()


def export(out: Path) -> list[str]:
    """Export in this process: what it said."""
    lines: list[str] = []
    export_tiny(out, parts=PARTS, progress=lines.append)
    return lines


def test_a_killed_export_goes_on_and_is_the_same(tmp_path: Path) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    export(whole)

    killed(out, "seeded_tensor", 20)  # in the UNet's weights
    assert [p.name for p in out.glob("*unet*") if p.is_dir()] == [".unet.partial"]
    killed(out, "export_part", 1)  # in the UNet's graph: its weights are whole
    weights = (out / ".unet.partial" / "diffusion_pytorch_model.safetensors").stat()
    killed(out, "export_part", 2)  # in the VAE decoder's graph: the UNet is whole
    kept = (out / "unet" / "diffusion_pytorch_model.safetensors").stat()
    assert (kept.st_ino, kept.st_mtime_ns) == (weights.st_ino, weights.st_mtime_ns)

    lines = export(out)
    assert next(line for line in lines if line.startswith(("unet", "vae"))) == "unet: kept"
    assert [line for line in lines if "tracing" in line] == ["vae_decoder: tracing"]
    assert not [line for line in lines if "writing weights" in line and line.startswith("vae:")]
    assert sorted(p.name for p in out.iterdir()) == sorted(p.name for p in whole.iterdir())
    first, second = (json.loads((f / "dpu_pipeline.json").read_text()) for f in (whole, out))
    assert first == second
    PipelineFolder.load(out).verify()


def test_weights_of_another_seed_are_not_kept(tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    killed(out, "export_part", 1)
    for folder in (out, other):
        export_tiny(folder, seed=1, parts=("unet",))
    assert (out / "dpu_pipeline.json").read_text() == (other / "dpu_pipeline.json").read_text()


def test_weights_that_changed_since_are_not_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    killed(out, "export_part", 1)
    with (out / ".unet.partial" / "diffusion_pytorch_model.safetensors").open("r+b") as file:
        file.seek(-2, os.SEEK_END)
        file.write(b"\0\1")
    assert "unet: weights kept" not in export(out)
    PipelineFolder.load(out).verify()


def test_two_exports_of_one_folder(tmp_path: Path) -> None:
    partial = tmp_path / ".unet.partial"
    partial.mkdir()
    handle = os.open(partial, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        with pytest.raises(DpuError) as caught:
            export(tmp_path)
    finally:
        os.close(handle)
    assert caught.value.text().splitlines() == [
        f"error[E101]: {tmp_path / 'unet'}: another process is writing it",
        f"  why: it holds a lock on {partial}",
        "  try: wait until it is done, or choose another folder",
    ]
