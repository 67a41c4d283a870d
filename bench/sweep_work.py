"""One point of a sweep on a worker: the estimate of an arch on graphs that the worker imports once.

A task holds all that it needs (the arch and its DRAM file as text), so it runs the same on any machine of a cluster.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from ..codegen.estimate import PARTS, Workload
from ..errors import DpuError
from ..ir.arch import Arch
from ..passes.policy import named_policy
from ..simulator.economics.inputs import folder

ROOT = Path(__file__).parent.parent
SOURCES = ("ir", "simulator", "frontend", "passes", "codegen")
"""Folders whose code and data an estimate comes from."""
SHIPPED = "sdxl_base"


class Images(NamedTuple):
    """What one forward makes: pixels, and images (two samples each, with guidance)."""

    width: int = 1024
    height: int = 1024
    number: int = 1

    @property
    def text(self) -> str:
        """As on the command line."""
        return f"{self.width}x{self.height}x{self.number}"


class Task(NamedTuple):
    """An arch and its images. `arch` and `dram` (of archs with a parameter file, else empty) are JSON."""

    key: str
    arch: str
    dram: str
    model: str  # a folder; empty for the graphs that ship
    images: Images
    precision: str  # a shipped policy


def model_folder(model: str) -> Path:
    """Where the graphs are."""
    return Path(model) if model else folder() / "workload" / SHIPPED


@lru_cache(maxsize=1)
def _workload(model: str, images: Images, precision: str) -> Workload:
    size = (images.height, images.width)
    return Workload(model_folder(model), size, 2 * images.number, named_policy(precision))


@cache
def _scratch() -> TemporaryDirectory[str]:
    """Of this process; removed with it."""
    return TemporaryDirectory(prefix="dpu-sweep-")


@cache
def _dram_file(text: str) -> Path:
    """A parameter file with this text: one path for one text, because what is known of a DRAM is kept by its path."""
    place = Path(_scratch().name) / hashlib.sha256(text.encode()).hexdigest()
    place.mkdir()
    path: Path = place / f"{json.loads(text)['name']}.json"
    path.write_text(text)
    return path


@cache
def code_digest() -> str:
    """Over every source file that decides an estimate."""
    digest = hashlib.sha256()
    for name in SOURCES:
        for path in sorted((ROOT / name).rglob("*")):
            if path.suffix in (".py", ".json", ".cpp", ".hpp") and path.is_file():
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def graph_digest(model: str) -> str:
    """Over the graphs of a folder.

    Raises:
        DpuError: there are none.
    """
    place, digest = model_folder(model), hashlib.sha256()
    for part in PARTS:
        for path in (place / f"{part}.onnx", place / part / "model.onnx"):
            if path.is_file():
                digest.update(part.encode() + path.read_bytes())
    if digest.digest() == hashlib.sha256().digest():
        what = f"holds none of {', '.join(f'{s}.onnx' for s in PARTS)}"
        raise DpuError(str(place), what, hint="configs/workload/sdxl_base has the full-size graphs", code="E106")
    return digest.hexdigest()


def estimate(task: Task) -> dict[str, Any]:
    """The entries of a task, or why the arch cannot run them: what the cache keeps."""
    fields = json.loads(task.arch)
    if task.dram:
        fields["dram"]["parameters"] = str(_dram_file(task.dram))
    try:
        found = _workload(task.model, task.images, task.precision).estimate(Arch.model_validate(fields))
    except DpuError as e:
        return {"key": task.key, "error": f"{e.where}: {e.what}"}
    entries = [
        {
            "part": e.part,
            "entry": e.entry,
            "cycles": e.cycles,
            "macs": e.macs,
            "executed": e.executed,
            "dram_bytes": e.bytes,
            "bound": e.bound,
        }
        for e in found
    ]
    return {"key": task.key, "entries": entries}
