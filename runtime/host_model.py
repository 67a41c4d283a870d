"""An ONNX model on the host's CPU, through ONNX Runtime, in float32 arithmetic whatever type its weights have.

ONNX Runtime's CPU provider would round some results of a float16 model to float16 and others not. So the graph is
rewritten in memory: float16 initialisers, constants, casts and signatures become float32. This is the reference that
everything else is measured against: float16 weights, float32 arithmetic.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from posixpath import dirname, join
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DpuError
from ..frontend import interface
from .pipeline_files import PipelineFiles

_INLINE = 1024  # elements; larger tensors are handed to ONNX Runtime without going through protobuf (2 GiB at most)


def threads() -> int:
    """CPU threads for host work: `OMP_NUM_THREADS`, else the cores of the machine."""
    return int(os.environ.get("OMP_NUM_THREADS", "") or os.cpu_count() or 1)


class HostModel:
    """One session. Call it with arrays by input name; it returns arrays by output name."""

    def __init__(self, files: PipelineFiles, name: str, part: str = "") -> None:
        import onnx
        import onnxruntime as ort

        ort.set_default_logger_severity(3)
        try:
            model = onnx.load_model_from_string(bytes(files.view(name)))
        except Exception as e:  # protobuf's DecodeError has no public base
            raise DpuError(f"{files.where}: {name}", "not a readable ONNX file", why=str(e), code="E102") from e
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads()
        # Spinning threads starve whoever shares the cores; the gain without neighbours is small.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        names, self._weights = _to_float32(model, files, dirname(name))
        if names:
            values = [ort.OrtValue.ortvalue_from_numpy(w) for w in self._weights]
            options.add_external_initializers(names, values)
        try:
            self._session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        except Exception as e:  # onnxruntime raises its own classes, all derived from RuntimeError or Exception
            raise DpuError(f"{files.where}: {name}", "ONNX Runtime cannot load it", why=str(e), code="E406") from e
        kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
        self.inputs: dict[str, Any] = {i.name: kinds.get(i.type, np.float32) for i in self._session.get_inputs()}
        self.shapes: dict[str, list[int | str]] = {i.name: i.shape for i in self._session.get_inputs()}
        names = [o.name for o in self._session.get_outputs()]
        wanted = interface.outputs(part, names) if part else dict.fromkeys(names)
        self._fetch = list(wanted)
        self.outputs: list[str] = [canonical or name for name, canonical in wanted.items()]
        self.name = name

    def __call__(self, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, npt.NDArray[np.float32]]:
        """Outputs by name. Inputs are converted to the model's types; extra ones are ignored.

        Raises:
            DpuError: ONNX Runtime refuses the inputs.
        """
        try:
            # Not ascontiguousarray, which gives a scalar an axis.
            feed = {n: np.asarray(inputs[n], dtype, order="C") for n, dtype in self.inputs.items()}
            return dict(zip(self.outputs, self._session.run(self._fetch, feed), strict=True))
        except Exception as e:
            raise DpuError(self.name, "ONNX Runtime failed", why=str(e), code="E406") from e


def _to_float32(model: Any, files: PipelineFiles, folder: str) -> tuple[list[str], list[npt.NDArray[Any]]]:
    """Rewrite `model`; returns the large initialisers that stay outside it, by name and value."""
    from onnx import TensorProto, numpy_helper

    half, single = TensorProto.FLOAT16, TensorProto.FLOAT
    names: list[str] = []
    values: list[npt.NDArray[Any]] = []
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        del graph.value_info[:]
        for value in (*graph.input, *graph.output):
            if value.type.tensor_type.elem_type == half:
                value.type.tensor_type.elem_type = single
        for tensor in graph.initializer:
            if tensor.data_type != half and not tensor.external_data:
                continue
            array = _load(tensor, files, folder)
            if tensor.data_type == half:
                array = array.astype(np.float32)
            name = tensor.name
            tensor.CopyFrom(numpy_helper.from_array(array[:0] if array.size > _INLINE else array, name))
            if array.size > _INLINE:
                names.append(name)
                values.append(array)
                tensor.ClearField("raw_data")
                tensor.dims[:] = array.shape
                tensor.data_location = TensorProto.EXTERNAL
                tensor.external_data.add(key="location", value="memory")
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.name in ("to", "dtype") and attribute.i == half:
                    attribute.i = single
                if attribute.HasField("t") and attribute.t.data_type == half:
                    array = numpy_helper.to_array(attribute.t).astype(np.float32)
                    attribute.t.CopyFrom(numpy_helper.from_array(array, attribute.t.name))
                graphs += [attribute.g] if attribute.HasField("g") else []
    return names, values


def _load(tensor: Any, files: PipelineFiles, folder: str) -> npt.NDArray[Any]:
    from onnx import helper, numpy_helper

    if not tensor.external_data:
        return np.asarray(numpy_helper.to_array(tensor))
    place = {e.key: e.value for e in tensor.external_data}
    data = files.view(join(folder, place["location"]))
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    count, offset = int(np.prod(tensor.dims, dtype=np.int64)), int(place.get("offset", "0"))
    if offset + count * dtype.itemsize > len(data):
        raise DpuError(
            f"{files.where}: {join(folder, place['location'])}",
            f"ends before tensor '{tensor.name}'",
            hint="copy or export the folder again",
            code="E112",
        )
    return np.frombuffer(data, dtype, count, offset).reshape(tuple(tensor.dims))
