"""`dpuc compile` as one function: compile, check against the independent interpreter, or only estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ..codegen.driver import Compiled, compile_folder
from ..errors import DpuError
from ..ir.arch import load_arch
from ..ir.container import Base
from ..passes.collectors import ABSMAX, Collector
from ..passes.dump_html import write_pages
from ..passes.policy import Policy

Shapes = Mapping[str, tuple[int, ...]]


def compile_text(
    model: Path,
    arch: str,
    precision: str | Policy,
    calibration: Path | None,
    size: tuple[int, int],
    batch: int,
    shapes: Shapes,
    out: Path | None,
    dump_dir: Path | None,
    check: bool,
    bisect: Path | None,
    checkpoint: Path | None = None,
    uncalibrated: bool = False,
    progress: Callable[[str], None] | None = None,
    gptq: bool = False,
    collector: Collector = ABSMAX,
    smooth: bool = False,
) -> tuple[str, bool]:
    """What to print, and whether the check (if there was one) found every value equal.

    `progress` is called with a line of text before each stage.

    Raises:
        DpuError: see `compile_folder` and `check`.
    """
    with _pages(dump_dir):
        compiled = compile_folder(
            model,
            arch=arch,
            precision=precision,
            calibration=calibration,
            size=size,
            batch=batch,
            shapes=shapes,
            out=out,
            dump_dir=dump_dir,
            checkpoint=checkpoint,
            uncalibrated=uncalibrated,
            progress=progress,
            gptq=gptq,
            collector=collector,
            smooth=smooth,
        )
    text = compiled.summary()
    if not check and bisect is None:
        return text, True
    report, ok = check_text(compiled, bisect)
    return f"{text}\n{report}", ok


@contextmanager
def _pages(dump_dir: Path | None) -> Iterator[None]:
    """Pages about the dumps that the block leaves, also where it was refused half-way."""
    try:
        yield
    finally:
        dumped = dump_dir is not None and any(any(dump_dir.glob(f"{at}[0-9]*-*.mlir")) for at in ("", "*/"))
        if dump_dir is not None and dumped:
            write_pages(dump_dir)


def check_text(compiled: Compiled, bisect: Path | None) -> tuple[str, bool]:
    """Run every entry on the simulator with seeded inputs and compare each operation with the interpreter."""
    from .check.compare import check

    rng = np.random.default_rng(0)
    inputs = {
        f"{entry.name}/{slot.name}": rng.standard_normal(slot.shape).astype(np.float32)
        for entry in compiled.program.entries
        for slot in entry.inputs
        if slot.base == Base.IO
    }
    report = check(compiled.emitted, compiled.fetch, inputs, bisect=bisect)
    return f"check: {report.text()}", report.ok


def estimate_text(
    model: Path, archs: str, steps: int, size: tuple[int, int], batch: int, policy: Policy | None = None
) -> str:
    """The estimate of a folder of graphs on archs named with commas between them; without a policy it is w8a8.

    Raises:
        DpuError: it is no folder, it holds no graph, or an operation does not fit an arch.
    """
    from ..codegen.estimate import estimate_folder

    if steps < 1:
        raise DpuError("--steps", f"{steps} is not 1 or more", code="E501")
    if not model.is_dir():
        what = "is a file, expected a folder" if model.exists() else "no such folder"
        raise DpuError(str(model), what, hint="configs/workload/sdxl_base has the graphs", code="E106")
    return estimate_folder(model, [load_arch(a.strip()) for a in archs.split(",")], steps, size, batch, policy)


def parse_shapes(texts: list[str]) -> dict[str, tuple[int, ...]]:
    """`["sample=2x4x16x16"]` as shapes by input name.

    Raises:
        DpuError: a text is no NAME=AxBxC.
    """
    shapes = {}
    for text in texts:
        name, _, dims = text.partition("=")
        try:
            shapes[name] = tuple(int(d) for d in dims.split("x"))
        except ValueError as e:
            raise DpuError(
                f"--shape {text}", "not NAME=AxBxC", hint="such as --shape sample=2x4x128x128", code="E501"
            ) from e
        if not name or min(shapes[name]) < 1:
            raise DpuError(f"--shape {text}", "every dimension must be at least 1", code="E501")
    return shapes
