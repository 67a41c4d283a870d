"""What an operator's importer works with: the values known so far, and one node of the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.dialects.builtin import BFloat16Type as BF16
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..errors import DpuError
from ..ir.graph import ParamOp
from ..ir.locations import node_loc
from ..ir.tensor import CausalMaskOp, ConstantOp
from .fold import LIMIT
from .onnx_load import Loaded
from .weights import Entry, compose

Array = npt.NDArray[Any]
SMALL = 1024
"""Constants of up to so many elements are written into the graph; larger ones are named parameters."""

ELEMENTS: dict[ir.DataType, Attribute] = {
    ir.DataType.FLOAT: Float32Type(),
    ir.DataType.FLOAT16: Float16Type(),
    ir.DataType.BFLOAT16: BF16(),
    ir.DataType.DOUBLE: Float64Type(),
    ir.DataType.INT64: i64,
    ir.DataType.INT32: i32,
    ir.DataType.INT8: IntegerType(8),
    ir.DataType.UINT8: IntegerType(8),
    ir.DataType.BOOL: i1,
}
FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE)


@dataclass
class Value:
    """An ONNX value: an SSA value, a parameter on disk, or a folded constant."""

    name: str
    shape: tuple[int, ...]
    dtype: ir.DataType
    ssa: SSAValue | None = None
    weight: tuple[str, tuple[str, ...]] | None = None
    folded: Array | None = None
    static: tuple[float, int] | None = None  # scale and zero point in [-128, 127] that the model quantises it with
    quantised_from: ir.DataType | None = None  # a QuantizeLinear's result: the type before it; `ssa` is the value

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape))


@dataclass
class Builder:
    """The function being built and every ONNX value seen so far."""

    loaded: Loaded
    block: Block
    values: dict[str, Value] = field(default_factory=dict)

    def array(self, value: Value) -> Array | None:
        """The content of a value that is known now and not large."""
        if value.folded is not None:
            return value.folded
        store = self.loaded.store
        if value.weight is None or value.size > LIMIT or not store.present(value.weight[0]):
            return None
        array = store.get(*value.weight, check=False)  # a mask may be infinite; who computes with it looks again
        value.folded = array.astype(value.dtype.numpy()) if array.dtype != value.dtype.numpy() else array
        return value.folded

    def view(self, value: Value, step: str, shape: tuple[int, ...], name: str) -> Value:
        """A parameter seen through one more transform."""
        assert value.weight is not None
        source, transform = value.weight
        steps = compose(self.loaded.store.entry(source).shape, transform, step)
        return Value(name, shape, value.dtype, weight=(source, steps))


@dataclass
class Node:
    """One ONNX node with its inputs looked up."""

    builder: Builder
    node: ir.Node
    inputs: list[Value | None]
    attrs: dict[str, Any]

    @property
    def name(self) -> str:
        """The node's name; exporters may leave it out."""
        if isinstance(self.node.name, bytes):  # not UTF-8
            return self.node.name.decode(errors="replace")
        return self.node.name or ":".join([self.node.op_type, *(str(o.name) for o in self.node.outputs[:1])])

    def fail(self, what: str, why: str = "", hint: str = "", code: str = "E104") -> NoReturn:
        """Refuse the node.

        Raises:
            DpuError: always.
        """
        where = f"{self.builder.loaded.file}: node '{self.name}'"
        raise DpuError(where, f"{self.node.op_type}: {what}", why, hint, code=code)

    def has(self, i: int) -> bool:
        """Whether input `i` is given."""
        return i < len(self.inputs) and self.inputs[i] is not None

    def value(self, i: int) -> Value:
        """Input `i`, which must be given."""
        value = self.inputs[i] if i < len(self.inputs) else None
        if value is None:
            self.fail(f"input {i} is missing", hint="check the model with onnx.checker")
        return value

    def shape(self, i: int = 0) -> tuple[int, ...]:
        """The static shape of input `i`."""
        return self.value(i).shape

    def constant(self, i: int, what: str) -> Array:
        """The content of input `i`, which must be known at import."""
        array = self.builder.array(self.value(i))
        if array is None:
            self.fail(
                f"its {what} (input '{self.value(i).name}') is computed from data",
                why="programs have static shapes",
                hint="export with static shapes, or give all open dimensions with --shape",
            )
        return array

    def ssa(self, i: int = 0, param: bool = False) -> SSAValue:
        """Input `i` as an SSA value. With `param`, a stored parameter stays a name even when it is small."""
        value = self.value(i)
        if value.ssa is None or (param and isinstance(value.ssa.owner, ConstantOp)):
            value.ssa = self._materialise(value, param)
        return value.ssa

    def _materialise(self, value: Value, param: bool) -> SSAValue:
        store = self.builder.loaded.store
        kind = tensor_type(value.shape, value.dtype)
        visible = value.size == 1 or value.dtype not in FLOATS or self._matters()
        array = self.builder.array(value) if value.weight is None or (visible and not param) else None
        if array is not None and is_causal(array):
            return self.emit(CausalMaskOp(result_types=[kind])).results[0]
        source = value.weight[0] if value.weight and not value.weight[1] else None
        if array is not None and source is None and (value.size > 1 or param):
            source = self.builder.loaded.source(value.name)
            store.add(source, Entry(value.shape, array.dtype, read=lambda: array))
        if array is not None and value.size <= SMALL and not param:
            data = [x.item() for x in array.reshape(-1)]
            if value.dtype in FLOATS:
                data = [float(x) for x in data]
            elements = DenseIntOrFPElementsAttr.from_list(kind, data)  # type: ignore[type-var]
            named = StringAttr(source) if source else None
            constant = ConstantOp(properties={"value": elements, "source": named}, result_types=[kind])
            return self.emit(constant).results[0]
        if value.weight is not None:
            source, transform = value.weight
            via = ArrayAttr([StringAttr(t) for t in transform]) if transform else None
        elif source is not None:
            via = None
        else:
            self.fail(f"input '{value.name}' has no value")
        param_op = ParamOp(properties={"source": StringAttr(source), "transform": via}, result_types=[kind])
        return self.emit(param_op).results[0]

    def _matters(self) -> bool:
        """Whether a recogniser must see this node's constants: InstanceNorm's ones and zeros, a sine's frequencies."""
        if self.node.op_type == "InstanceNormalization":
            return True
        users = {u.node.op_type for out in self.node.outputs for u in out.uses()}
        return bool(users & {"Sin", "Cos", "Softmax", "Where"})

    def emit(self, op: Operation) -> Operation:
        """Append an operation that comes from this node."""
        op.location = node_loc(self.builder.loaded.file.name, self.name)
        self.builder.block.add_op(op)
        return op

    def type(self, shape: Sequence[int], like: int = 0) -> TensorType[Attribute]:
        """A tensor type with the element type of input `like`."""
        return tensor_type(shape, self.value(like).dtype)

    def finish(self, op: Operation, dtypes: Sequence[ir.DataType] = ()) -> None:
        """Append `op`; its results are the node's outputs."""
        self.emit(op)
        for i, (out, result) in enumerate(zip(self.node.outputs, op.results, strict=False)):
            kind = result.type
            assert isinstance(kind, TensorType)
            dtype = dtypes[i] if dtypes else self.value(0).dtype
            self.define(i, Value(str(out.name), kind.get_shape(), dtype, ssa=result))

    def define(self, i: int, value: Value) -> None:
        """Say what output `i` is."""
        self.builder.values[str(self.node.outputs[i].name)] = value


Importer = Callable[[Node], None]


def tensor_type(shape: Sequence[int], dtype: ir.DataType) -> TensorType[Attribute]:
    """The xDSL type of an ONNX tensor.

    Raises:
        DpuError: the element type has no place here.
    """
    if dtype not in ELEMENTS:
        raise DpuError("graph", f"element type {dtype.name}", hint="export in float16 or float32", code="E104")
    if min(shape, default=1) < 1:
        size = "x".join(map(str, shape))
        raise DpuError("graph", f"a tensor of {size} has no elements", hint="check the shapes given", code="E104")
    return TensorType(ELEMENTS[dtype], list(shape))


def is_causal(array: Array) -> bool:
    """Whether an array is a mask, boolean or added to scores, that hides exactly the later keys."""
    if array.ndim < 2 or array.shape[-1] != array.shape[-2] or array.shape[-1] < 2:
        return False
    later = np.triu(np.ones(array.shape[-2:], bool), 1)
    shown = array if array.dtype == bool else array == 0
    hidden = ~array if array.dtype == bool else array < -1e4
    return bool(np.all(np.where(later, hidden, shown)))


def i64_attr(x: int) -> IntegerAttr[I64]:
    """An integer property."""
    return IntegerAttr(int(x), i64)


def f32_attr(x: float) -> FloatAttr[Float32Type]:
    """A float property."""
    return FloatAttr(float(x), f32)


def array_attr(xs: Sequence[int]) -> DenseArrayBase[I64]:
    """A property of several integers."""
    return DenseArrayBase.from_list(i64, [int(x) for x in xs])


def axis_of(node: Node, default: int) -> int:
    """The attribute `axis` of a node as a dimension of its first input, not negative."""
    return int(node.attrs.get("axis", default)) % max(len(node.shape()), 1)
