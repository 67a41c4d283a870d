"""What the rewrites share: looking at values, making nodes, and weights that are made from others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

MS = "com.microsoft"
"""Domain of ONNX Runtime's own operators."""
MEMORY = "memory"
"""The location of weights that are handed to ONNX Runtime as arrays."""
Kind = Literal["as is", "float32", "ohwi"]
Derived = dict[str, tuple[str, Kind]]
"""New weight: (weight of the model, how it is made from that one)."""


def producer(value: ir.Value | None, op: str) -> ir.Node | None:
    """The node that makes `value`, if it is an `op` of the standard domain."""
    node = value.producer() if value is not None else None
    return node if node is not None and node.op_type == op and node.domain in ("", MS) else None


def uses(value: ir.Value) -> list[ir.Node]:
    """The nodes that read `value`, each once; not the graph's outputs."""
    return list(dict.fromkeys(node for node, _ in value.uses()))


def only_reader(value: ir.Value) -> ir.Node | None:
    """The one node that reads `value`; none if there are others, or if it is an output of the graph."""
    readers = uses(value)
    return readers[0] if len(readers) == 1 and not value.is_graph_output() else None


def attribute(node: ir.Node, name: str, default: Any = None) -> Any:
    """The value of an attribute."""
    found = node.attributes.get(name)
    return default if found is None else found.value


def permutation(node: ir.Node) -> tuple[int, ...]:
    """Of a Transpose."""
    return tuple(attribute(node, "perm", ()))


def dims(value: ir.Value | None) -> tuple[int, ...]:
    """The static shape of a value; () where it is unknown or open."""
    if value is None or value.shape is None or not value.shape.is_static():
        return ()
    return tuple(int(d) for d in value.shape.numpy())


def is_weight(value: ir.Value | None) -> bool:
    """Whether it is a named weight or a constant of the graph."""
    return value is not None and value.is_initializer()


def constant(value: ir.Value | None) -> np.ndarray[Any, Any] | None:
    """The array of a small constant that is stored in the graph."""
    tensor = value.const_value if value is not None else None
    if tensor is None or isinstance(tensor, ir.ExternalTensor):
        return None
    return np.asarray(tensor.numpy())


def make(
    op: str,
    inputs: Sequence[ir.Value | None],
    attributes: Mapping[str, Any],
    name: str,
    outputs: int = 1,
    domain: str = "",
) -> ir.Node:
    """A new node whose outputs are named after it."""
    made = ir.node(op, list(inputs), dict(attributes), domain=domain, num_outputs=outputs, name=name)
    for i, value in enumerate(made.outputs):
        value.name = f"{name}_output_{i}"
    return made


def typed(value: ir.Value, dtype: ir.DataType | None, shape: Sequence[int]) -> ir.Value:
    """Give a value its type and shape."""
    value.type = ir.TensorType(dtype) if dtype is not None else None
    value.shape = ir.Shape(list(shape)) if shape else None
    return value


def add_constant(graph: ir.Graph, name: str, array: np.ndarray[Any, Any]) -> ir.Value:
    """A constant stored in the graph; the same name twice is one constant."""
    if name in graph.initializers:
        return graph.initializers[name]
    value = ir.Value(name=name, const_value=ir.tensor(array, name=name))
    typed(value, ir.DataType.from_numpy(array.dtype), array.shape)
    graph.register_initializer(value)
    return value


def add_weight(graph: ir.Graph, derived: Derived, source: ir.Value, kind: Kind) -> ir.Value:
    """A weight made from the weight `source`; its array is made when the model is loaded (`derive`)."""
    assert source.name is not None
    if kind == "as is":
        return source
    name = f"{source.name}:{kind}"
    if name in graph.initializers:
        return graph.initializers[name]
    shape = dims(source)
    dtype = source.dtype
    assert dtype is not None
    if kind == "ohwi":
        shape = (shape[0], *shape[2:], shape[1])
    else:
        dtype = ir.DataType.FLOAT
    small = constant(source)
    if small is not None:
        return add_constant(graph, name, derive(small, kind))
    value = ir.Value(name=name)
    typed(value, dtype, shape)
    value.const_value = external(name, dtype, shape)
    graph.register_initializer(value)
    derived[name] = (source.name, kind)
    return value


def external(name: str, dtype: ir.DataType, shape: Sequence[int]) -> ir.ExternalTensor:
    """A tensor whose bytes are handed over at load time."""
    size = int(np.prod(shape, dtype=np.int64)) * int(dtype.itemsize)
    return ir.ExternalTensor(MEMORY, 0, size, dtype, shape=ir.Shape(list(shape)), name=name, base_dir="")


def derive(array: np.ndarray[Any, Any], kind: Kind) -> np.ndarray[Any, Any]:
    """The array of a derived weight: float32, or a convolution's with its channels last."""
    if kind == "float32":
        return array.astype(np.float32)
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1)) if kind == "ohwi" else array


def replace(old: ir.Value, new: ir.Value) -> None:
    """Every reader of `old` reads `new`, and the graph gives it out under the old name."""
    for node, index in list(old.uses()):
        node.replace_input_with(index, new)
    graph = old.graph
    if graph is not None and old.is_graph_output():
        name = old.name
        old.name = f"{name}:replaced"
        new.name = name
        for i, value in enumerate(graph.outputs):
            if value is old:
                graph.outputs[i] = new


def sweep(graph: ir.Graph) -> None:
    """Remove nodes and constants that nobody reads."""
    for node in reversed(list(graph)):
        if not any(v.uses() or v.is_graph_output() for v in node.outputs):
            graph.remove(node, safe=True)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            del graph.initializers[name]
