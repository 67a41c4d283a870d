"""The compiled UNet is close to float32, runs on the device as a whole, and does what the numerics chapter says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from dpu.codegen.driver import Compiled
from dpu.ir.container import Base, Program
from dpu.ir.graph import ParamOp
from dpu.ir.locations import nodes_of
from dpu.passes.calibration import load_calibration
from dpu.runtime.calibrate import canonical_unet
from dpu.runtime.check.compare import check
from dpu.runtime.device import DeviceCounters
from dpu.runtime.float_interpreter import Weights
from dpu.runtime.pipeline import Pipeline, Request, Step
from dpu.runtime.pipeline_files import FolderFiles
from dpu.runtime.sensitivity import sensitivity, together_db
from dpu.runtime.session import Session
from dpu.runtime.sim_device import SimDevice
from dpu.runtime.sqnr import Comparison, compare
from dpu.runtime.unets import DpuUnet, OnnxUnet
from dpu.runtime.workload import calibration_prompts, evaluation_prompts
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp

STEPS = 20
FLOOR = 22.0  # dB of one forward
ON_HOST = {
    *("tokenizer", "embedding", "pick", "sinusoid"),
    *("scheduler step", "guidance combination", "image conversion"),
}
"""What the architecture gives to the host; `sinusoid x of unet` names the kind, a tensor and the part."""


@dataclass
class Measured:
    """One image made with the device's UNet and with the reference, on an evaluation prompt."""

    comparison: Comparison
    steps: list[Step]  # of the reference
    conditioning: dict[str, np.ndarray]
    counters: DeviceCounters
    exceptions: dict[tuple[str, int], int]
    input_overflows: int


@pytest.fixture(scope="module")
def measured(compiled: Compiled, tiny_folder: Path) -> Measured:
    prompt = evaluation_prompts()[0]
    assert prompt not in calibration_prompts()
    files = FolderFiles(tiny_folder)
    pipeline, request = Pipeline(files), Request(prompt, seed=0, steps=STEPS, height=64, width=64)
    seen: list[Step] = []
    program = compiled.program
    with Session(program, SimDevice(program.arch, timed=False)) as session:
        found = compare(pipeline, request, OnnxUnet(files), DpuUnet(session), seen.append)
        counters = session.device.counters()
        exceptions, overflows = dict(session.exceptions), session.input_overflows
    return Measured(found, seen[:STEPS], pipeline.encode(request).inputs(), counters, exceptions, overflows)


@pytest.fixture(scope="module")
def graph(compiled: Compiled, tiny_folder: Path) -> tuple[ModuleOp, Weights]:
    """The canonical float UNet at the program's size."""
    sample = next(s for s in compiled.program.entry("unet").inputs if s.name == "sample")
    return canonical_unet(tiny_folder, sample.shape[0], (sample.height, sample.width))


# -- quality -----------------------------------------------------------------------------------------------------------


def test_each_forward_is_close_to_float32(measured: Measured) -> None:
    c = measured.comparison
    worst, best = min(c.teacher_forced), max(c.teacher_forced)
    print(f"one forward {worst:.1f} to {best:.1f} dB, image PSNR {c.image_psnr:.1f} dB")
    assert len(c.teacher_forced) == STEPS
    # About 30 dB is what this model's layers add up to (see the sensitivity test); the floor leaves room for others.
    assert worst >= FLOOR, [round(x, 1) for x in c.teacher_forced]
    assert c.image_psnr > 15


def test_nothing_overflows_and_nothing_is_nan(measured: Measured) -> None:
    assert measured.counters.fp16_overflow == 0
    assert measured.counters.nan == 0
    assert measured.exceptions == {}
    assert measured.input_overflows == 0


def test_the_noise_of_single_layers_predicts_that_of_the_program(
    measured: Measured, graph: tuple[ModuleOp, Weights], calibration: Path
) -> None:
    at = STEPS // 2
    step = measured.steps[at]
    given = {**measured.conditioning, "sample": step.sample, "timestep": np.array([step.timestep], np.float32)}
    costs = sensitivity(*graph, load_calibration(calibration), [given])
    print("layers that cost most: " + ", ".join(f"{c.name} {c.sqnr_db:.1f} dB" for c in costs[:3]))
    # Nearly all noise comes from three convolutions, first and last of the model, whose errors are independent; 2 dB
    # are for what correlation there is and for float16 storage.
    assert abs(together_db(costs) - measured.comparison.teacher_forced[at]) < 2


# -- the whole UNet is on the device -----------------------------------------------------------------------------------


def test_every_operation_of_the_graph_has_words(compiled: Compiled, graph: tuple[ModuleOp, Weights]) -> None:
    program = compiled.program
    for entry in program.entries:
        tags = {int(t) for stream in program.words[entry.name] for t in np.unique(stream["tag"])}
        assert not [s.name for s in entry.sources if s.tag not in tags], entry.name
    functions = {f.sym_name.data: f for f in graph[0].ops if isinstance(f, FuncOp)}
    assert set(functions) == {e.name for e in program.entries if e.part == "unet"}
    for name, function in functions.items():
        sources = program.entry(name).sources
        covered = {n for s in sources for n in s.nodes}
        ops = [op for op in function.body.block.ops if not isinstance(op, ParamOp | ReturnOp)]
        assert ops
        assert not [op.name for op in ops if not nodes_of(op) or not covered.issuperset(nodes_of(op))], name
        for kind in ("conv", "attention", "group_norm"):
            wanted = sum(op.name == f"dpu.{kind}" for op in ops)
            assert sum(s.kind == f"dpu.q.{kind}" for s in sources) == wanted, (name, kind)


def test_the_host_does_what_the_architecture_lists_and_no_more(compiled: Compiled) -> None:
    names = [s.name for s in compiled.program.host_segments]
    unknown = [n for n in names if n not in ON_HOST and n.split(" ")[0] not in ON_HOST]
    assert not unknown
    assert {e.part for e in compiled.program.entries} == {"unet", "text_encoder", "text_encoder_2", "vae_decoder"}
    assert all(s.why for s in compiled.program.host_segments)


# -- bit for bit -------------------------------------------------------------------------------------------------------


def _inputs(program: Program) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    slots = [(f"{e.name}/{s.name}", s) for e in program.entries for s in e.inputs if s.base == Base.IO]
    return {name: rng.standard_normal(s.shape).astype(np.float32) for name, s in slots}


@pytest.mark.parametrize("fixture", ["compiled", "compiled_f2"])
def test_every_value_equals_the_interpreter_of_the_numerics_chapter(
    fixture: str, request: pytest.FixtureRequest
) -> None:
    program: Compiled = request.getfixturevalue(fixture)
    report = check(program.emitted, program.fetch, _inputs(program.program))
    assert report.ok, report.text()
    assert {r.entry for r in report.rows} == {e.name for e in program.program.entries}
    assert len(program.program.words["unet"]) == program.program.arch.tiles
