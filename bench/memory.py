"""Memory of compiling a large model: what is resident beyond the page cache, against the model's size.

The model is a chain of linears whose float16 weights are one sparse file beside the ONNX graph: nothing of it takes
disk, and reading it costs what reading a real file costs. It is compiled in a process of its own, which looks at its
anonymous memory (`RssAnon`) a hundred times a second; pages of mapped files are the page cache and not counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from pydantic import BaseModel, ConfigDict

from ..codegen.driver import compile_onnx
from ..files import atomic_write
from ..ir.arch import load_arch
from ..passes.calibration import Calibration

WEIGHTS = "weights.bin"
STATUS = Path("/proc/self/status")


class MemoryResult(BaseModel):
    """One compilation: sizes in bytes, `anonymous` at its highest and before the model was opened."""

    model_config = ConfigDict(frozen=True)

    command: str
    arch: str
    layers: int
    width: int
    model_bytes: int
    largest_tensor_bytes: int
    constants_bytes: int
    anonymous_before: int
    anonymous_peak: int
    seconds: float

    @property
    def growth(self) -> int:
        """Anonymous memory that the compilation took."""
        return self.anonymous_peak - self.anonymous_before

    def text(self) -> str:
        """The result for people."""
        return (
            f"model {self.model_bytes / 1e9:.2f} GB, largest tensor {self.largest_tensor_bytes / 1e6:.0f} MB, "
            f"program {self.constants_bytes / 1e9:.2f} GB\n"
            f"anonymous memory {self.anonymous_peak / 1e6:.0f} MB at its highest, {self.anonymous_before / 1e6:.0f} MB "
            f"before: {self.anonymous_peak / self.model_bytes:.2f} of the model\n"
            f"{self.seconds:.0f} s for {self.arch}"
        )

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        with atomic_write(path) as temporary:
            temporary.write_text(self.model_dump_json(indent=2) + "\n")


def write_model(folder: Path, layers: int, width: int, tokens: int = 16, sparse: bool = True) -> Path:
    """A chain of `layers` linears of width x width as ONNX with external data; its weights are zeros where `sparse`."""
    value, nodes, tensors = "x", [], []
    size = width * width * 2
    for i in range(layers):
        weight = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT16, dims=[width, width])
        weight.data_location = TensorProto.EXTERNAL
        for key, text in (("location", WEIGHTS), ("offset", str(i * size)), ("length", str(size))):
            weight.external_data.add(key=key, value=text)
        tensors.append(weight)
        result = "y" if i == layers - 1 else f"h{i}"
        nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [result], name=f"/linear{i}/MatMul"))
        value = result
    shape = [1, tokens, width]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, shape)],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    with (folder / WEIGHTS).open("wb") as file:
        if sparse:
            file.truncate(layers * size)
        for _ in range(0 if sparse else layers):
            file.write((rng.standard_normal((width, width), np.float32) * width**-0.5).astype(np.float16).tobytes())
    path = folder / "model.onnx"
    onnx.save(model, path)
    return path


def measure(layers: int = 19, width: int = 8192, arch: str = "dpu_f2", sparse: bool = True) -> MemoryResult:
    """Compile such a model in a process of its own and in a folder that goes afterwards; 19 x 8192 are 2.55 GB.

    Raises:
        RuntimeError: the compilation failed.
    """
    with tempfile.TemporaryDirectory(prefix="dpu-memory-") as work:
        folder = Path(work)
        write_model(folder, layers, width, sparse=sparse)
        run = subprocess.run(
            [sys.executable, "-m", __name__, str(folder), arch], capture_output=True, text=True, check=False
        )
        if run.returncode:
            raise RuntimeError(f"the compilation failed:\n{run.stderr}")
        found = json.loads(run.stdout)
    return MemoryResult(
        command=f"dpubench memory --layers {layers} --width {width} --arch {arch}",
        arch=arch,
        layers=layers,
        width=width,
        model_bytes=layers * width * width * 2,
        largest_tensor_bytes=width * width * 2,
        **found,
    )


def anonymous() -> int:
    """Bytes of this process that are resident and belong to no file."""
    for line in STATUS.read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{STATUS} has no RssAnon; Linux has it since 4.5")


def _child(folder: Path, arch: str) -> dict[str, float]:
    """Compile the model in `folder` and watch this process."""
    description = load_arch(arch)
    before = peak = anonymous()
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.01):
            peak = max(peak, anonymous())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    start = time.perf_counter()
    compiled = compile_onnx(folder / "model.onnx", "chain", description, {}, Calibration({}, {}))
    compiled.emitted.save(folder / "model.dpu")
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    constants = compiled.program.constants.nbytes
    return {
        "constants_bytes": constants,
        "anonymous_before": before,
        "anonymous_peak": max(peak, anonymous()),
        "seconds": seconds,
    }


if __name__ == "__main__":
    print(json.dumps(_child(Path(sys.argv[1]), sys.argv[2])))
