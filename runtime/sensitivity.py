"""Which layers cost most: the noise at the UNet's output when one operation alone is quantised.

A float forward keeps all its values; each operation is then replaced and only what depends on it is computed again. The
noise of small errors adds up, so the shares say where a mixed policy would gain most.

At full size that is hundreds of forwards. `own_noise` takes two: each operation is quantised on the float forward's
operands and its own result is compared. It says which layers lose bits, not what that does to the output.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import inf, isfinite, log10
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from ..errors import DpuError
from ..files import atomic_write
from ..ir.locations import nodes_of
from ..ir.naming import op_names
from ..ir.signature import argument_names, result_names
from ..passes.quantise import Statistics
from .fake_quantise import QUANTISED, FakeQuantiser
from .float_interpreter import FloatInterpreter, Get, Override, evaluate
from .tensors import F32, SINUSOID

if TYPE_CHECKING:
    from torch import Tensor

    from .float_interpreter import Weights
    from .pipeline import Pipeline, Request, Step

Progress = Callable[[int, int], None]
TRAJECTORY = 20  # denoising steps of the image that inputs are taken from


@dataclass(frozen=True)
class LayerCost:
    """One operation quantised alone: the SQNR of the output, and its part of the noise of all that were tried."""

    name: str  # as in calibration files
    kind: str  # linear, conv, attention
    nodes: tuple[str, ...]  # ONNX nodes it came from
    sqnr_db: float
    noise_share: float


def sensitivity(
    module: ModuleOp,
    weights: Weights,
    calibration: Statistics,
    inputs: Sequence[Mapping[str, npt.ArrayLike]],
    progress: Progress | None = None,
) -> list[LayerCost]:
    """The cost of each linear, convolution and attention of a canonical module, the most costly first.

    `inputs` are host inputs by name, of one forward each; noise over signal is averaged over them. All values of one
    forward are held in memory. `progress` gets (forwards done, forwards in all).

    Raises:
        DpuError: no inputs, an input or a statistic is missing, or an operation has no quantised form.
    """
    functions, targets = targets_of(module, inputs)
    interpreter, quantiser = FloatInterpreter(module, weights), FakeQuantiser(module, calibration)
    noise = dict.fromkeys(targets, 0.0)
    for i, given in enumerate(inputs):
        forward = Forward(functions, interpreter, given)
        for j, op in enumerate(targets):
            noise[op] += forward.noise(op, quantiser) / len(inputs)
            if progress:
                progress(i * len(targets) + j + 1, len(inputs) * len(targets))
    return _costs(module, noise)


def own_noise(
    module: ModuleOp,
    weights: Weights,
    calibration: Statistics,
    inputs: Sequence[Mapping[str, npt.ArrayLike]],
    progress: Progress | None = None,
) -> list[LayerCost]:
    """The SQNR of each operation's own result on float operands, the noisiest first; memory is that of one forward.

    `noise_share` is the operation's part of the sum of all noise over signal.

    Raises:
        DpuError: as of `sensitivity`.
    """
    functions, targets = targets_of(module, inputs)
    interpreter, quantiser = FloatInterpreter(module, weights), FakeQuantiser(module, calibration)
    noise = dict.fromkeys(targets, 0.0)
    done = 0

    def compare(op: Operation, get: Get) -> Tensor | None:
        nonlocal done
        if op not in noise:
            return None
        clean = evaluate(op, get)
        error = (quantiser(op, get) - clean).double().square().sum() / clean.double().square().sum()
        noise[op] += float(error) / len(inputs)
        done += 1
        if progress:
            progress(done, len(inputs) * len(targets))
        return clean

    for given in inputs:
        named = dict(given)
        for f in functions:
            named |= interpreter.run(f.sym_name.data, named, override=compare)
    return _costs(module, noise)


def targets_of(module: ModuleOp, inputs: Sequence[Mapping[str, npt.ArrayLike]]) -> tuple[list[FuncOp], list[Operation]]:
    """The functions, and their operations that have a quantised form."""
    if not inputs:
        raise DpuError("sensitivity", "no inputs", code="E501")
    functions = [f for f in module.ops if isinstance(f, FuncOp)]
    return functions, [op for f in functions for op in f.body.block.ops if isinstance(op, QUANTISED)]


def _costs(module: ModuleOp, noise: Mapping[Operation, float]) -> list[LayerCost]:
    """Noise over signal by operation as a table, the most costly first."""
    names, total = op_names(module), sum(noise.values())
    return [
        LayerCost(names[op], op.name.removeprefix("dpu."), nodes_of(op), _decibels(x), x / total if total else 0.0)
        for op, x in sorted(noise.items(), key=lambda item: -item[1])
    ]


def together_db(costs: Sequence[LayerCost]) -> float:
    """The SQNR of all operations quantised at once, if their errors are independent."""
    return _decibels(sum(10 ** (-c.sqnr_db / 10) for c in costs))


def _decibels(noise_over_signal: float) -> float:
    return -10 * log10(noise_over_signal) if noise_over_signal else inf


class Forward:
    """A float forward over all functions, its values kept, and what one changed operation does to its outputs."""

    def __init__(
        self, functions: Sequence[FuncOp], interpreter: FloatInterpreter, inputs: Mapping[str, npt.ArrayLike]
    ) -> None:
        self._functions, self._interpreter = functions, interpreter
        self._values: dict[SSAValue, Tensor] = {}
        self._named: dict[str, npt.ArrayLike] = dict(inputs)

        def keep(op: Operation, results: Sequence[Tensor]) -> None:
            self._values.update(zip(op.results, results, strict=True))

        for f in functions:
            self._named |= interpreter.run(f.sym_name.data, self._named, keep)
        taken = {n.removesuffix(SINUSOID) for f in functions for n in argument_names(f)}
        self._outputs = [n for f in functions for n in result_names(f) if n not in taken]

    def noise(self, op: Operation, replacement: Callable[[Operation, Get], Tensor]) -> float:
        """Noise over signal, in power, of the outputs when `op` is evaluated by `replacement`."""
        changed: dict[str, F32] = {}
        for f in self._functions:
            touched = {a for a, n in zip(f.body.block.args, argument_names(f), strict=True) if n in changed}
            if not touched and op.parent is not f.body.block:
                continue
            dirty: set[SSAValue] = set(touched)
            override = self._override(op, replacement, dirty)
            found = self._interpreter.run(f.sym_name.data, {**self._named, **changed}, override=override)
            end = f.body.block.last_op
            assert isinstance(end, ReturnOp)
            changed |= {n: found[n] for n, v in zip(result_names(f), end.operands, strict=True) if v in dirty}
        clean = {n: np.asarray(self._named[n], np.float64) for n in self._outputs}
        power = sum(float(np.sum((clean[n] - changed[n]) ** 2)) for n in self._outputs if n in changed)
        return power / sum(float(np.sum(x**2)) for x in clean.values())

    def _override(
        self, op: Operation, replacement: Callable[[Operation, Get], Tensor], dirty: set[SSAValue]
    ) -> Override:
        """Replace `op`, take what does not depend on it from the float forward, and note in `dirty` what does."""

        def override(at: Operation, get: Get) -> Tensor | None:
            if at is not op and dirty.isdisjoint(at.operands):
                return self._values[at.results[0]]
            dirty.update(at.results)
            return replacement(at, get) if at is op else None

        return override


@dataclass(frozen=True)
class Findings:
    """The costs of a model's layers, and of what they are."""

    costs: list[LayerCost]
    info: Mapping[str, str]

    def text(self, top: int) -> str:
        """The table that `dpuc sensitivity` prints."""
        own = "own" in self.info
        what = "own results" if own else "one quantised at a time"
        lines = [f"layers that cost most ({self.info['precision']}, {what}, {self.info['inputs']})"]
        lines.append(f"{'':>3}  {'SQNR':>6}  {'noise':>6}  {'sum':>6}  {'kind':<9}  layer")
        seen = 0.0
        for i, c in enumerate(self.costs[:top]):
            seen += c.noise_share
            db = f"{c.sqnr_db:6.1f}  {c.noise_share:6.1%}  {seen:6.1%}"
            lines.append(f"{i + 1:>3}  {db}  {c.kind:<9}  {c.name}")
        rest = len(self.costs) - top
        if rest > 0:
            lines.append(f"     and {rest} more with {max(1 - seen, 0):.1%} of the noise")
        if not own:
            lines.append(f"all {len(self.costs)} together, if independent: {together_db(self.costs):.1f} dB")
        return "\n".join(lines)

    def save(self, path: Path) -> None:
        """Write everything as JSON; an infinite SQNR is null.

        Raises:
            DpuError: the folder cannot be written.
        """
        layers = [asdict(c) | {"sqnr_db": c.sqnr_db if isfinite(c.sqnr_db) else None} for c in self.costs]
        found = {"format": "dpu-sensitivity-1", **self.info, "layers": layers}
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(found, indent=1) + "\n")


def sensitivity_of_folder(
    folder: Path,
    calibration: Path,
    size: tuple[int, int] = (0, 0),
    steps: int = 3,
    progress: Progress | None = None,
    own: bool = False,
) -> Findings:
    """The costs of an exported pipeline's UNet, on `steps` inputs of the float run of the first evaluation prompt.

    With `own`, each layer's own result is compared instead of the output.

    Raises:
        DpuError: the folder is no exported pipeline, or the calibration is of another model.
    """
    from ..codegen.driver import check_calibration
    from ..files import sha256
    from ..passes.calibration import load_calibration
    from .calibrate import canonical_unet
    from .pipeline import Pipeline, Request
    from .pipeline_files import FolderFiles
    from .workload import evaluation_prompts

    if not 1 <= steps <= TRAJECTORY:
        raise DpuError("--steps", f"{steps} is not between 1 and {TRAJECTORY}", code="E501")
    statistics = load_calibration(calibration)
    pipeline = Pipeline(FolderFiles(folder))
    digest = sha256(folder / "unet" / "model.onnx")
    check_calibration(statistics, folder / "unet" / "model.onnx")
    request = Request(evaluation_prompts()[0], steps=TRAJECTORY, height=size[0], width=size[1])
    height, width = pipeline.size(request)
    module, weights = canonical_unet(folder, 2, (height // pipeline.scale, width // pipeline.scale))
    inputs = unet_inputs(pipeline, request, module, weights, steps)
    costs = (own_noise if own else sensitivity)(module, weights, statistics, inputs, progress)
    info = {
        "model": digest,
        "calibration": sha256(calibration),
        "precision": "w8a8",
        "size": f"{width}x{height}",
        "prompt": request.prompt,
        "inputs": f"{steps} of {TRAJECTORY} steps",
        **({"own": "noise over signal of each layer's own result on float operands"} if own else {}),
    }
    return Findings(costs, info)


def unet_inputs(
    pipeline: Pipeline, request: Request, module: ModuleOp, weights: Weights, count: int
) -> list[dict[str, npt.ArrayLike]]:
    """What the UNet sees in `count` steps, from the first to the last, of the float run of a request."""
    from .unets import FloatUnet

    fixed = pipeline.encode(request).inputs()
    found: list[dict[str, npt.ArrayLike]] = []
    wanted = set(np.linspace(0, request.steps - 1, count).round().astype(int).tolist())

    def keep(step: Step) -> None:
        if step.index in wanted:
            found.append({**fixed, "sample": step.sample.copy(), "timestep": np.array([step.timestep], np.float32)})
        if len(found) == count:
            raise _EnoughError  # what is left of the run would only cost time

    with suppress(_EnoughError):
        pipeline.generate(request, FloatUnet(module, weights), keep, decode=False)
    return found


class _EnoughError(Exception):
    """All inputs that were wanted have been seen."""
