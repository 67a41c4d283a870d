"""The tensor dialect `dpu.t.*`: what ONNX import produces, in ONNX's own layouts.

One small class an operation, named like the ONNX operator in snake case and meaning the same; what ONNX takes as small
constant inputs (axes, sizes, a Slice's bounds) are properties. Result types are static, so `reshape` and `expand` need
no further property. A few operations (`linear`, `attention`, `silu`, ...) have no ONNX counterpart: the recognising
passes write them, and `canonicalise` turns all that is left into the operations of `graph.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float32Type,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .graph import ints, shape_of

UNARY = ("sigmoid", "erf", "gelu", "sin", "cos", "sqrt", "exp", "neg", "is_nan", "silu", "quick_gelu", "cast")
"""Element-wise operations of one value, by name."""
BINARY = ("add", "sub", "mul", "div", "pow", "equal")
"""Element-wise operations of two values with ONNX broadcasting, by name."""


class Unary(IRDLOperation):
    """`y = f(x)`, element-wise."""

    x = operand_def(TensorType)
    y = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def verify_(self) -> None:
        if shape_of(self.x) != shape_of(self.y):
            raise VerifyException(f"y is {shape_of(self.y)}, x {shape_of(self.x)}")


class Binary(IRDLOperation):
    """`y = f(a, b)`, element-wise; dimensions of 1 are repeated."""

    a = operand_def(TensorType)
    b = operand_def(TensorType)
    y = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = "$a `,` $b attr-dict `:` type($a) `,` type($b) `->` type($y)"

    def verify_(self) -> None:
        expected = broadcast(shape_of(self.a), shape_of(self.b))
        if expected != shape_of(self.y):
            raise VerifyException(f"y is {shape_of(self.y)}, expected {expected}")


def broadcast(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...] | None:
    """The shape of an element-wise result, or None when the two shapes do not fit."""
    rank = max(len(a), len(b))
    pairs = list(zip((1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b), strict=True))
    if any(x != y and 1 not in (x, y) for x, y in pairs):
        return None
    return tuple(max(x, y) if min(x, y) else 0 for x, y in pairs)


def _define(base: type[Any], names: Sequence[str]) -> dict[str, type[Any]]:
    made: dict[str, type[Any]] = {}
    for name in names:
        title = name.title().replace("_", "")
        text = f"The function {name}" if name in ("silu", "quick_gelu") else f"ONNX {title}"
        cls = type(title, (base,), {"name": f"dpu.t.{name}", "__doc__": f"{text}, element-wise."})
        made[name] = irdl_op_definition(cls)
    return made


ELEMENTWISE: dict[str, type[Any]] = {**_define(Unary, UNARY), **_define(Binary, BINARY)}
"""The classes of the element-wise operations, by name without the prefix."""


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A small value that a pass must see, as `dense<...> : type`. `source` also names it in the weight store."""

    name = "dpu.t.constant"

    value = prop_def(DenseIntOrFPElementsAttr)
    source = opt_prop_def(StringAttr)
    y = result_def(TensorType)

    traits = traits_def(Pure())

    def scalar(self) -> float | None:
        """The value, when all elements are the same."""
        values = set(self.value.get_values())
        return float(next(iter(values))) if len(values) == 1 else None

    def floats(self) -> list[float]:
        """All elements, in row-major order."""
        values = [float(v) for v in self.value.get_values()]
        return values * math.prod(shape_of(self.y)) if self.value.is_splat() else values

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.value)
        if self.source:
            printer.print_string(" source ")
            printer.print_attribute(self.source)

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        value = parser.parse_attribute()
        if not isinstance(value, DenseIntOrFPElementsAttr):
            parser.raise_error("expected dense<...> : tensor type")
        source = parser.parse_attribute() if parser.parse_optional_keyword("source") else None
        return ConstantOp(properties={"value": value, "source": source}, result_types=[value.type])


@irdl_op_definition
class CausalMaskOp(IRDLOperation):
    """A mask that is added to attention scores: 0 for a key up to the query's position, minus infinity after it."""

    name = "dpu.t.causal_mask"

    y = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($y)"


def static_input(op: Any) -> dict[str, Attribute | None]:
    """The properties of an operation, in either dialect, that say how its input is quantised."""
    return {"x_scale": op.x_scale, "x_zero": op.x_zero}


@irdl_op_definition
class MatmulOp(IRDLOperation):
    """`y = a b` over the last two dimensions, the others broadcast."""

    name = "dpu.t.matmul"

    a = operand_def(TensorType)
    b = operand_def(TensorType)
    x_scale = opt_prop_def(FloatAttr)  # a is quantised statically: the model says so
    x_zero = opt_prop_def(IntegerAttr)  # its zero point in [-128, 127]
    y = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$a `,` $b attr-dict `:` type($a) `,` type($b) `->` type($y)"

    def verify_(self) -> None:
        a, b = shape_of(self.a), shape_of(self.b)
        if a[-1] != b[-2]:
            raise VerifyException(f"a has {a[-1]} columns but b {b[-2]} rows")


@irdl_op_definition
class GemmOp(IRDLOperation):
    """`y = alpha a' b' + beta c`, with a, b transposed when `trans_a`, `trans_b` are set."""

    name = "dpu.t.gemm"

    a = operand_def(TensorType)
    b = operand_def(TensorType)
    c = opt_operand_def(TensorType)
    alpha = opt_prop_def(FloatAttr[Float32Type])
    beta = opt_prop_def(FloatAttr[Float32Type])
    trans_a = opt_prop_def(UnitAttr)
    trans_b = opt_prop_def(UnitAttr)
    x_scale = opt_prop_def(FloatAttr)  # a is quantised statically: the model says so
    x_zero = opt_prop_def(IntegerAttr)  # its zero point in [-128, 127]
    y = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$a `,` $b (`plus` $c^ `:` type($c))? (`trans_a` $trans_a^)? (`trans_b` $trans_b^)? attr-dict "
        "`:` type($a) `,` type($b) `->` type($y)"
    )


@irdl_op_definition
class LinearOp(IRDLOperation):
    """`y[..., n] = sum_k x[..., k] w[k, n] + bias[n]`; with `geglu`, w has 2N columns and `y = value * gelu(gate)`."""

    name = "dpu.t.linear"

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    geglu = opt_prop_def(UnitAttr)
    x_scale = opt_prop_def(FloatAttr)  # x is quantised statically: the model says so
    x_zero = opt_prop_def(IntegerAttr)  # its zero point in [-128, 127]
    y = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$x `,` $w (`bias` $bias^ `:` type($bias))? (`geglu` $geglu^)? attr-dict "
        "`:` type($x) `,` type($w) `->` type($y)"
    )

    def verify_(self) -> None:
        x, (k, n) = shape_of(self.x), shape_of(self.w)
        n //= 2 if self.geglu else 1
        if x[-1] != k:
            raise VerifyException(f"x has {x[-1]} channels but w reduces {k}")
        if shape_of(self.y) != (*x[:-1], n):
            raise VerifyException(f"y is {shape_of(self.y)}, expected {(*x[:-1], n)}")


@irdl_op_definition
class ConvOp(IRDLOperation):
    """Two-dimensional convolution, NCHW; `pad` is top, left, bottom, right."""

    name = "dpu.t.conv"

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    stride = prop_def(DenseArrayBase)
    pad = prop_def(DenseArrayBase)
    x_scale = opt_prop_def(FloatAttr)  # x is quantised statically: the model says so
    x_zero = opt_prop_def(IntegerAttr)  # its zero point in [-128, 127]
    y = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x `,` $w (`bias` $bias^ `:` type($bias))? attr-dict `:` type($x) `,` type($w) `->` type($y)"


class _Norm(IRDLOperation):
    x = operand_def(TensorType)
    gamma = operand_def(TensorType)
    beta = operand_def(TensorType)
    eps = prop_def(FloatAttr[Float32Type])
    y = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$x `,` $gamma `,` $beta `eps` $eps attr-dict `:` type($x) `,` type($gamma) `,` type($beta) `->` type($y)"
    )


@irdl_op_definition
class InstanceNormOp(_Norm):
    """Normalisation of each sample's channel over all further dimensions, then `gamma`, `beta` of the channel."""

    name = "dpu.t.instance_norm"


@irdl_op_definition
class LayerNormOp(_Norm):
    """Normalisation over the last dimension, then `gamma`, `beta`."""

    name = "dpu.t.layer_norm"


@irdl_op_definition
class GroupNormOp(_Norm):
    """Normalisation of each sample's group of channels (dimension 1), then `gamma`, `beta` of the channel."""

    name = "dpu.t.group_norm"

    groups = prop_def(IntegerAttr[I64])
    assembly_format = (
        "$x `,` $gamma `,` $beta `groups` $groups `eps` $eps attr-dict "
        "`:` type($x) `,` type($gamma) `,` type($beta) `->` type($y)"
    )


@irdl_op_definition
class AttentionOp(IRDLOperation):
    """`y = softmax(scale * q k^T) v` on samples x heads x tokens x head dimension; `causal` hides later keys."""

    name = "dpu.t.attention"

    q = operand_def(TensorType)
    k = operand_def(TensorType)
    v = operand_def(TensorType)
    scale = prop_def(FloatAttr[Float32Type])
    causal = opt_prop_def(UnitAttr)
    y = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$q `,` $k `,` $v `scale` $scale (`causal` $causal^)? attr-dict "
        "`:` type($q) `,` type($k) `,` type($v) `->` type($y)"
    )

    def verify_(self) -> None:
        q, k, v = shape_of(self.q), shape_of(self.k), shape_of(self.v)
        if len(q) != 4 or q[:2] != k[:2] or k[:3] != v[:3] or q[3] != k[3]:
            raise VerifyException(f"q {q}, k {k} and v {v} do not fit")


@irdl_op_definition
class SinusoidOp(IRDLOperation):
    """`y[..., :] = [cos(x f), sin(x f)]` of one scalar x, with `f[i] = exp(-ln(10000) i / half)`."""

    name = "dpu.t.sinusoid"

    x = operand_def(TensorType)
    half = prop_def(IntegerAttr[I64])
    y = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x `half` $half attr-dict `:` type($x) `->` type($y)"


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """The same elements in row-major order with the shape of the result (also Flatten, Squeeze, Unsqueeze)."""

    name = "dpu.t.reshape"

    x = operand_def(TensorType)
    y = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def verify_(self) -> None:
        if math.prod(shape_of(self.x)) != math.prod(shape_of(self.y)):
            raise VerifyException(f"{shape_of(self.x)} cannot be reshaped to {shape_of(self.y)}")


@irdl_op_definition
class ExpandOp(IRDLOperation):
    """x with dimensions of 1 repeated to the shape of the result."""

    name = "dpu.t.expand"

    x = operand_def(TensorType)
    y = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"


@irdl_op_definition
class ResizeOp(IRDLOperation):
    """Nearest-neighbour enlargement of an NCHW image by whole factors, to the size of the result."""

    name = "dpu.t.resize"

    x = operand_def(TensorType)
    y = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"


@irdl_op_definition
class TransposeOp(IRDLOperation):
    """`y` has dimension `perm[i]` of x as its dimension i."""

    name = "dpu.t.transpose"

    x = operand_def(TensorType)
    perm = prop_def(DenseArrayBase)
    y = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def verify_(self) -> None:
        expected = tuple(shape_of(self.x)[i] for i in ints(self.perm))
        if shape_of(self.y) != expected:
            raise VerifyException(f"y is {shape_of(self.y)}, expected {expected}")


class _Axis(IRDLOperation):
    x = operand_def(TensorType)
    axis = prop_def(IntegerAttr[I64])
    y = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x `axis` $axis attr-dict `:` type($x) `->` type($y)"


@irdl_op_definition
class SoftmaxOp(_Axis):
    """Softmax over `axis` (not negative)."""

    name = "dpu.t.softmax"


@irdl_op_definition
class ArgmaxOp(_Axis):
    """The index of the first maximum along `axis`, which is dropped."""

    name = "dpu.t.argmax"


@irdl_op_definition
class SliceOp(IRDLOperation):
    """Elements `start`, `start + 1`, ..., `end - 1` of one dimension."""

    name = "dpu.t.slice"

    x = operand_def(TensorType)
    axis = prop_def(IntegerAttr[I64])
    start = prop_def(IntegerAttr[I64])
    end = prop_def(IntegerAttr[I64])
    y = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x `axis` $axis `from` $start `to` $end attr-dict `:` type($x) `->` type($y)"


@irdl_op_definition
class ConcatOp(IRDLOperation):
    """All inputs, one after the other along `axis` (not negative)."""

    name = "dpu.t.concat"

    xs = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr[I64])
    y = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$xs `axis` $axis attr-dict `:` type($xs) `->` type($y)"


@irdl_op_definition
class SplitOp(IRDLOperation):
    """The inverse of concat; result types say where to cut."""

    name = "dpu.t.split"

    x = operand_def(TensorType)
    axis = prop_def(IntegerAttr[I64])
    ys = var_result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x `axis` $axis attr-dict `:` type($x) `->` type($ys)"


@irdl_op_definition
class GatherOp(IRDLOperation):
    """Rows `indices` of dimension `axis` of x."""

    name = "dpu.t.gather"

    x = operand_def(TensorType)
    indices = operand_def(TensorType)
    axis = prop_def(IntegerAttr[I64])
    y = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x `at` $indices `axis` $axis attr-dict `:` type($x) `,` type($indices) `->` type($y)"


@irdl_op_definition
class GatherNdOp(IRDLOperation):
    """`y[i] = x[indices[i, 0], indices[i, 1], ...]` (ONNX GatherND without batch dimensions)."""

    name = "dpu.t.gather_nd"

    x = operand_def(TensorType)
    indices = operand_def(TensorType)
    y = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = "$x `at` $indices attr-dict `:` type($x) `,` type($indices) `->` type($y)"


@irdl_op_definition
class WhereOp(IRDLOperation):
    """`y = condition ? a : b`, element-wise with broadcasting."""

    name = "dpu.t.where"

    condition = operand_def(TensorType)
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    y = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = "$condition `,` $a `,` $b attr-dict `:` type($condition) `,` type($a) `,` type($b) `->` type($y)"


TENSOR_OPS: list[type[Any]] = [
    *ELEMENTWISE.values(),
    ConstantOp,
    CausalMaskOp,
    MatmulOp,
    GemmOp,
    LinearOp,
    ConvOp,
    InstanceNormOp,
    LayerNormOp,
    GroupNormOp,
    AttentionOp,
    SinusoidOp,
    ReshapeOp,
    ExpandOp,
    ResizeOp,
    TransposeOp,
    SoftmaxOp,
    ArgmaxOp,
    SliceOp,
    ConcatOp,
    SplitOp,
    GatherOp,
    GatherNdOp,
    WhereOp,
]
"""The import-level operations; `ir/dialects.py` joins them with the others into the dialect `dpu`."""


def elementwise(name: str, *operands: SSAValue, result: Attribute) -> Any:
    """A new element-wise operation."""
    return ELEMENTWISE[name](operands=list(operands), result_types=[result])
