"""How a module can fail, for `dpuc reduce --when`: it does not compile, its program is wrong, or its noise is high.

Weights come from a model or, for a text alone, are drawn from a generator seeded with their name; so are inputs.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from ..codegen.emit import Emitted, emit
from ..errors import DpuError
from ..ir.arch import Arch
from ..ir.graph import ParamOp, shape_of
from ..ir.signature import argument_names, result_names
from ..passes.calibration import Calibration
from ..passes.lower.constants import Fetch
from ..passes.lower.program import dtype_of
from ..passes.pipeline import FLOAT_PIPELINE, run_passes
from ..passes.quantise import Derived, fetcher, quantise
from ..passes.weights import INTEGERS, SCALES

Array = npt.NDArray[Any]
KINDS = "compile-error[=CODE], check, sqnr<DB"


class Weights(Protocol):
    """What the predicates ask of a weight store."""

    def get(self, source: str, transform: Sequence[str] = ()) -> Array: ...


class SeededWeights:
    """Parameters that a module declares, drawn from their names: vectors near one, matrices that keep sizes."""

    def __init__(self, module: ModuleOp) -> None:
        self._shapes = {}
        for op in module.walk():
            if isinstance(op, ParamOp):
                transform = tuple(t.data for t in op.transform.data) if op.transform else ()
                self._shapes[op.source.data, transform] = shape_of(op.value)

    def get(self, source: str, transform: Sequence[str] = ()) -> Array:
        plain = tuple(t for t in transform if t not in (INTEGERS, SCALES))  # it has no int8 weights: floats answer
        shape = self._shapes[source, plain]
        rng = np.random.default_rng(zlib.crc32(source.encode()))
        if len(shape) == 1:
            return np.asarray(np.abs(1 + 0.3 * rng.standard_normal(shape)) + 0.01, np.float32)
        reduced = math.prod(shape[1:]) if len(shape) == 4 else shape[0]
        return np.asarray(rng.standard_normal(shape) / reduced**0.5, np.float32)


def predicate(text: str, arch: Arch, weights: Weights) -> Callable[[ModuleOp], str]:
    """The failure that `--when` names: a function that says how a module fails, or nothing.

    Raises:
        DpuError: the text names none.
    """
    text = text.strip()
    if match := re.fullmatch(r"compile-error(?:=(E\d+))?", text):
        return CompileError(arch, weights, match[1] or "")
    if text == "check":
        return lambda module: _quietly(lambda: _check(module, arch, weights))
    if match := re.fullmatch(r"sqnr\s*<\s*(-?\d+(?:\.\d+)?)", text):
        limit = float(match[1])
        return lambda module: _quietly(lambda: _sqnr(module, arch, weights, limit))
    raise DpuError("--when", f"'{text}' is no failure", hint=f"one of {KINDS}", code="E501")


class CompileError:
    """Compiling is refused with `code`; without one, with the code (or the exception) of the first failure seen."""

    def __init__(self, arch: Arch, weights: Weights, code: str = "") -> None:
        self.arch, self.weights, self.code = arch, weights, code

    def __call__(self, module: ModuleOp) -> str:
        from ..codegen.verify.verify import verify_program

        try:
            emitted, _, _ = compile_module(module, self.arch, self.weights)
            verify_program(emitted.program)
        except DpuError as e:
            code, text = e.code, e.text().splitlines()[0]
        except Exception as e:
            code, text = type(e).__name__, f"{type(e).__name__}: {e}"
        else:
            return ""
        self.code = self.code or code
        return text if code == self.code else ""


def _quietly(judge: Callable[[], str]) -> str:
    """A module that does not compile at all fails in another way than the one looked for."""
    try:
        return judge()
    except Exception:
        return ""


def is_quantised(module: ModuleOp) -> bool:
    """Whether a module has operations of the quantised graph."""
    return any(op.name.startswith("dpu.q.") for op in module.walk())


def compile_module(module: ModuleOp, arch: Arch, weights: Weights) -> tuple[Emitted, Fetch, dict[str, Array]]:
    """Compile a module of the tensor, canonical or quantised graph; with it the host's inputs by name.

    A float module is calibrated on the very inputs.

    Raises:
        DpuError: a pass or the code generation refuses it.
    """
    if any(op.name.startswith("dpu.t.") for op in module.walk()):
        run_passes(module, FLOAT_PIPELINE)
    inputs = host_inputs(module)
    derived: Derived = {}
    if not is_quantised(module):
        _, statistics = run_reference(module, inputs, weights)
        quantise(module, arch, Calibration({}, statistics), derived)
    fetch = fetcher(weights.get, derived)
    return emit(module, arch, fetch, {}), fetch, inputs


def producers_first(module: ModuleOp) -> list[FuncOp]:
    """Functions so that each comes after those that return what it takes."""
    left, order = [f for f in module.ops if isinstance(f, FuncOp)], []
    while left:
        pending = {n for f in left for n in result_names(f)}
        ready = next((f for f in left if not pending & set(argument_names(f))), left[0])
        order.append(ready)
        left.remove(ready)
    return order


def host_inputs(module: ModuleOp) -> dict[str, Array]:
    """Seeded inputs by name: what no function returns."""
    functions = producers_first(module)
    made = {n for f in functions for n in result_names(f)}
    quantised = is_quantised(module)
    return {
        name: _drawn(name, value, quantised)
        for f in functions
        for name, value in zip(argument_names(f), f.body.block.args, strict=True)
        if name not in made
    }


def _drawn(name: str, value: SSAValue, quantised: bool) -> Array:
    rng, shape, dtype = np.random.default_rng(zlib.crc32(name.encode())), shape_of(value), dtype_of(value)
    if dtype == "i8":
        return rng.integers(-127, 128, shape).astype(np.float32)
    drawn = rng.standard_normal(shape).astype(np.float16).astype(np.float32)
    # Float32 between operations of the quantised graph is scales and sums of squares.
    return np.abs(drawn) + np.float32(0.01) if dtype == "f32" and quantised else drawn


def run_reference(
    module: ModuleOp, inputs: dict[str, Array], weights: Weights
) -> tuple[dict[str, Array], dict[str, npt.NDArray[np.float32]]]:
    """Results of a canonical module in float32 by `function/name`, and the statistics of the run."""
    from .float_interpreter import FloatInterpreter
    from .statistics import Statistics

    statistics, interpreter = Statistics(module), FloatInterpreter(module, weights)
    known, found = dict(inputs), dict[str, Array]()
    for f in producers_first(module):
        name = f.sym_name.data
        results = interpreter.run(name, known, observe_inputs=statistics.operands, observe=statistics.results)
        known |= results
        found |= {f"{name}/{key}": value for key, value in results.items()}
    return found, statistics.tensors


def _check(module: ModuleOp, arch: Arch, weights: Weights) -> str:
    from .check.compare import check

    emitted, fetch, inputs = compile_module(module, arch, weights)
    report = check(emitted, fetch, inputs)
    if report.ok:
        return ""
    if report.error:
        return report.error.splitlines()[0]
    row = report.first
    assert row is not None
    return f"{row.entry} {row.kind} {row.name} differs from the interpreter"


def _sqnr(module: ModuleOp, arch: Arch, weights: Weights, limit: float) -> str:
    from .session import Session
    from .sim_device import SimDevice
    from .sqnr import sqnr

    if any(op.name.startswith("dpu.t.") for op in module.walk()):
        run_passes(module, FLOAT_PIPELINE)
    names = [f.sym_name.data for f in producers_first(module)]
    expected, _ = run_reference(module, host_inputs(module), weights)
    emitted, _, inputs = compile_module(module, arch, weights)
    worst, where = math.inf, ""
    with Session(emitted.program, SimDevice(arch, timed=False)) as session:
        for name in names:
            for key, value in session.run(name, inputs).items():
                level = sqnr(expected[f"{name}/{key}"], value)
                if not level >= worst:
                    worst, where = level, f"result '{key}' of '{name}'"
    return "" if worst >= limit else f"{where} has {worst:.1f} dB, less than {limit:g}"
