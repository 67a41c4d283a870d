"""`models/tiny` draws the same picture on the simulator, on the GPU's kernels and on the RTL, in three precisions.

The GPU's kernels are compiled for the CPU here; on a machine with CUDA `dpurun --device cuda` runs the same source.
"""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from dpu.codegen.dpufile import load
from dpu.codegen.driver import compile_folder
from dpu.ir.container import Program
from dpu.runtime.calibrate import calibrate_folder
from dpu.runtime.cuda_device import CudaDevice
from dpu.runtime.device import Device
from dpu.runtime.export import export_pipeline
from dpu.runtime.parts import device_parts
from dpu.runtime.pipeline import Pipeline, Request
from dpu.runtime.pipeline_files import BundledFiles
from dpu.runtime.session import Session
from dpu.runtime.targets import open_device
from dpu.runtime.unets import DpuUnet
from PIL import Image

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("rtl_tools"),
    pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler"),
]
MODEL = Path(__file__).parent.parent.parent / "models" / "tiny"
PRECISIONS = ("w8a8", "w4a8", "w8a16")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A program of models/tiny for dpu_tiny in each precision, from one calibration."""
    work = tmp_path_factory.mktemp("same")
    export_pipeline(str(MODEL), work / "tiny")
    calibrate_folder(work / "tiny", work / "calib.safetensors", prompts=2, steps=4)
    made = {name: work / f"{name}.dpu" for name in PRECISIONS}
    for name, out in made.items():
        compile_folder(work / "tiny", arch="dpu_tiny", precision=name, calibration=work / "calib.safetensors", out=out)
    return made


def picture(program: Program, path: Path, device: Device, steps: int, seed: int = 7) -> bytes:
    """The PNG of the demo's caption."""
    with Session(program, device) as session:
        pipeline = Pipeline(BundledFiles(program.files, str(path)), device_parts(session))
        request = Request("three hearts on the left on a green background", seed=seed, steps=steps)
        pixels = pipeline.generate(request, DpuUnet(session)).pixels
    assert pixels.std() > 5  # a picture, not one colour
    out = io.BytesIO()
    Image.fromarray(np.asarray(pixels)).save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_gpus_kernels_draw_the_simulators_picture(programs: dict[str, Path], precision: str) -> None:
    path = programs[precision]
    program = load(path)
    sim = picture(program, path, open_device("sim", program.arch, timed=False), steps=2)
    assert picture(program, path, CudaDevice(program.arch, timed=False, device="cpu"), steps=2) == sim
    assert picture(program, path, open_device("sim", program.arch, timed=False), steps=2, seed=8) != sim


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_rtl_draws_the_simulators_picture(programs: dict[str, Path], precision: str) -> None:
    """One step: 35 to 80 million cycles, a minute or more each."""
    path = programs[precision]
    program = load(path)
    sim = picture(program, path, open_device("sim", program.arch, timed=False), steps=1)
    assert picture(program, path, open_device("rtl", program.arch), steps=1) == sim
