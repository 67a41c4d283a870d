"""The places where the UNet of a pipeline can run: ONNX Runtime, the float graph, a device.

All three have the two methods of `pipeline.Unet`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..errors import DpuError
from ..ir.signature import argument_names, result_names
from .float_interpreter import FloatInterpreter, Observe, Override, find_func
from .host_model import HostModel
from .pipeline_files import PipelineFiles
from .tensors import F32, SINUSOID, from_btc

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from .float_interpreter import Weights
    from .session import Session

OUTPUT = "out_sample"


class OnnxUnet:
    """The reference: ONNX Runtime on the CPU, float32 arithmetic."""

    def __init__(self, files: PipelineFiles, name: str = "unet/model.onnx") -> None:
        self._model = HostModel(files, name)
        missing = [n for n in ("sample", "timestep") if n not in self._model.shapes]
        if missing:
            raise DpuError(
                f"{files.where}: {name}",
                f"no input '{missing[0]}'",
                why="it is no UNet of SDXL",
                hint=f"its inputs are {', '.join(self._model.shapes)}",
                code="E405",
            )
        self._fixed: dict[str, F32] = {}

    def prepare(self, conditioning: Mapping[str, F32]) -> None:
        """Keep the conditioning of one image."""
        self._fixed = dict(conditioning)

    def step(self, sample: F32, timestep: float) -> F32:
        """One forward."""
        # A scalar timestep where the model has no axis for it (Optimum), a vector of one elsewhere.
        shape = [1] * len(self._model.shapes["timestep"])
        inputs = {**self._fixed, "sample": sample, "timestep": np.full(shape, timestep, np.float32)}
        found = self._model(inputs)
        return found[OUTPUT] if OUTPUT in found else found[self._model.outputs[0]]


class FloatUnet:
    """The canonical graph in float32. Functions run in the order of the module and feed each other by name."""

    def __init__(self, module: ModuleOp, weights: Weights, device: str = "cpu") -> None:
        from xdsl.dialects.func import FuncOp

        self._run = FloatInterpreter(module, weights, device)
        functions = [op.sym_name.data for op in module.ops if isinstance(op, FuncOp)]
        self._arguments = {f: argument_names(find_func(module, f)) for f in functions}
        self._results = {f: result_names(find_func(module, f)) for f in functions}
        self._values: dict[str, npt.NDArray[np.float32]] = {}
        self._fresh: set[str] = set()  # functions whose inputs have not changed since they ran
        self.observe: Observe | None = None
        self.observe_inputs: Observe | None = None
        self.override: Override | None = None  # takes the place of operations
        self.observe_fixed = True  # also functions of the conditioning alone, which run once an image

    def prepare(self, conditioning: Mapping[str, F32]) -> None:
        """Take the conditioning of one image; everything runs anew."""
        self._values = dict(conditioning)
        self._fresh = set()

    def step(self, sample: F32, timestep: float) -> F32:
        """One forward; functions that depend on the conditioning only run in the first."""
        self._values |= {"sample": sample, "timestep": np.array([timestep], np.float32)}
        changed = {"sample", "timestep"}
        for function, arguments in self._arguments.items():
            depends = bool(changed & {a.removesuffix(SINUSOID) for a in arguments})
            if function in self._fresh and not depends:
                continue
            seen = (self.observe, self.observe_inputs) if depends or self.observe_fixed else (None, None)
            found = self._run.run(function, self._values, *seen, self.override)
            self._values |= found
            changed |= set(found)
            self._fresh.add(function)
        name = OUTPUT if OUTPUT in self._values else self._results[function][0]
        return from_btc(self._values[name], *sample.shape[2:])


class DpuUnet:
    """A compiled UNet on a device. Entries marked `once` run once an image, the others in each step, in file order."""

    def __init__(self, session: Session) -> None:
        self.session = session
        entries = [e for e in session.program.entries if e.part == "unet"]
        inputs = {s.name: s for e in entries for s in e.inputs}
        if "sample" not in inputs:
            raise DpuError("program", f"no input 'sample', only {', '.join(inputs)}", code="E405")
        self.sample = inputs["sample"]
        self._entries = [(e.name, e.once) for e in entries]
        self._fixed: dict[str, F32] = {}
        self.batch = self.sample.shape[0]

    @property
    def latent_size(self) -> tuple[int, int]:
        """(height, width) of the latent that the program was compiled for."""
        return self.sample.height, self.sample.width

    def check_samples(self, samples: int) -> None:
        """Refuse more samples than the program computes at once.

        Raises:
            DpuError: `samples` are too many.
        """
        if samples > self.batch:
            raise DpuError(
                "program",
                f"compiled with --batch {self.batch}, the request needs {samples} samples a step",
                why="guidance needs two samples a step",
                hint="compile with --batch 2, or run with --guidance 1",
                code="E403",
            )

    def prepare(self, conditioning: Mapping[str, F32]) -> None:
        """Run what does not depend on the step."""
        self._fixed = {k: self._fit(v) for k, v in conditioning.items()}
        for name, once in self._entries:
            if once:
                self.session.run(name, self._fixed)

    def step(self, sample: F32, timestep: float) -> F32:
        """One forward."""
        values = {**self._fixed, "sample": self._fit(sample), "timestep": np.array([timestep], np.float32)}
        found: dict[str, F32] = {}
        for name, once in self._entries:
            if not once:
                found = self.session.run(name, values)
                values |= found
        return (found[OUTPUT] if OUTPUT in found else next(iter(found.values())))[: len(sample)]

    def _fit(self, x: F32) -> F32:
        """`x` with as many samples as the program has: without guidance the last one is computed twice."""
        self.check_samples(len(x))
        return x if len(x) == self.batch else np.concatenate([x, *[x[-1:]] * (self.batch - len(x))])
