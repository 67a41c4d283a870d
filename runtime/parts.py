"""Text encoders and the VAE decoder as graphs: what the host does around them (look-up, pick), and where they run.

A part is called like a `HostModel`, with arrays by ONNX input name. It runs its function by `run`, which is a device's
session or the float interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import DpuError
from .tensors import F32, from_btc

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..frontend.weights import WeightStore
    from ..ir.container import Program
    from .float_interpreter import Observe, Override
    from .session import Session

PARTS = ("text_encoder", "text_encoder_2", "vae_decoder")
TABLE = "embedding/"
"""Prefix of the look-up tables that a program carries, followed by the parameter's source."""

Segment = Mapping[str, Any]


class Part(Protocol):
    """A model of the pipeline: arrays in and out by ONNX name."""

    @property
    def inputs(self) -> Mapping[str, Any]: ...
    @property
    def outputs(self) -> Sequence[str]: ...
    def __call__(self, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, F32]: ...


class GraphPart:
    """A part whose function runs by `run(inputs)`; its host segments run here.

    Args:
        entry: name of the part and its function.
        segments: host segments of the module (`passes/host_segments.py`).
        table: look-up tables by parameter source.
        run: the function, from tensors by name to tensors by name.
        outputs: names of its results.
    """

    def __init__(
        self,
        entry: str,
        segments: Sequence[Segment],
        table: Callable[[str], npt.NDArray[Any]],
        run: Callable[[Mapping[str, F32]], dict[str, F32]],
        arguments: Sequence[str],
        outputs: Sequence[str],
    ) -> None:
        self.name, self._run, self._table = entry, run, table
        self._embeddings = [s for s in segments if s["kind"] == "embedding"]
        self._picks = [s for s in segments if s["kind"] == "pick"]
        looked_up = {str(s["output"]): str(s["input"]) for s in self._embeddings}
        self._inputs: Mapping[str, Any] = {looked_up.get(a, a): np.float32 for a in arguments}
        self._outputs = [*outputs, *(str(s["output"]) for s in self._picks)]

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Input names; the order is the model's."""
        return self._inputs

    @property
    def outputs(self) -> Sequence[str]:
        """Result names, those of picks last."""
        return self._outputs

    def __call__(self, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, F32]:
        """Results by name, those of picks among them.

        Raises:
            DpuError: a token is outside the vocabulary.
        """
        values: dict[str, Any] = {k: np.asarray(v) for k, v in inputs.items()}
        for s in self._embeddings:
            ids, table = values[s["input"]].astype(np.int64), self._table(s["table"])
            outside = ids[(ids < 0) | (ids >= len(table))]
            if outside.size:
                raise DpuError(self.name, f"token {outside[0]} is outside a vocabulary of {len(table)}", code="E407")
            position = self._table(s["position"])[: ids.shape[1]]
            values[s["output"]] = table[ids].astype(np.float32) + position.astype(np.float32)
        found = self._run(values)
        for s in self._picks:
            ids = values[s["ids"]]
            at = (ids == s["token"]).argmax(axis=1) if "token" in s else ids.argmax(axis=1)
            found[s["output"]] = np.asarray(found[s["input"]])[np.arange(len(ids)), at]
        return found


def device_parts(session: Session) -> dict[str, GraphPart]:
    """The parts that a program on a device has entries for."""
    program = session.program
    found = {}
    for entry in program.entries:
        if entry.part == "unet":
            continue

        def run(values: Mapping[str, F32], name: str = entry.name) -> dict[str, F32]:
            return session.run(name, values)

        found[entry.part] = GraphPart(
            entry.part,
            part_segments(program, entry.part),
            lambda source: program.tables[TABLE + source],
            run,
            [s.name for s in entry.inputs],
            [s.name for s in entry.outputs],
        )
    return found


def part_segments(program: Program, part: str) -> list[Segment]:
    """The host segments of one part, as the compiler recorded them."""
    recorded = program.info.get("segments", {})
    return list(recorded.get(part, ())) if isinstance(recorded, Mapping) else []


def float_part(
    part: str,
    module: ModuleOp,
    store: WeightStore,
    observe: Observe | None = None,
    operands: Observe | None = None,
    device: str = "cpu",
    override: Override | None = None,
) -> GraphPart:
    """A part in float32 by the interpreter on `device`, with observers for calibration; `override` takes the place of
    operations."""
    from xdsl.dialects.func import FuncOp

    from ..ir.signature import argument_names, result_names
    from ..passes.host_segments import segments
    from .float_interpreter import FloatInterpreter

    (function,) = (f for f in module.ops if isinstance(f, FuncOp))
    interpreter = FloatInterpreter(module, store, device)
    names = argument_names(function)

    def run(values: Mapping[str, F32]) -> dict[str, F32]:
        found = interpreter.run(function.sym_name.data, values, observe, operands, override)
        first = np.asarray(values[names[0]])
        if first.ndim == 4:  # an image in, an enlarged image out
            _, _, h, w = first.shape
            side = {k: round((v.shape[1] / (h * w)) ** 0.5) for k, v in found.items()}
            return {k: from_btc(v, h * side[k], w * side[k]) for k, v in found.items()}
        return found

    return GraphPart(part, segments(module), store.get, run, names, result_names(function))


def canonical_part(folder: Path, part: str, shapes: Mapping[str, tuple[int, ...]]) -> tuple[ModuleOp, WeightStore]:
    """A part of an exported folder as a canonical function."""
    from ..frontend.importer import import_onnx
    from ..passes.pipeline import FLOAT_PIPELINE, run_passes

    module, store = import_onnx(folder / part / "model.onnx", shapes=dict(shapes), part=part)
    run_passes(module, FLOAT_PIPELINE)
    return module, store
