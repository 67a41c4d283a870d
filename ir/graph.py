"""The graph dialect, canonical form: what a model computes, on samples x tokens x channels.

Every activation is `tensor<B x T x C>`; an image is its pixels in row-major order as tokens, and operations that need
the spatial size carry `height` and `width`. Weights are `dpu.param` operations: names, never data. Operations here are
float; `qgraph.py` has the quantised ones that are lowered, `tensor.py` the ones that ONNX import produces.
Each operation keeps the ONNX nodes it came from in its location.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

ACTIVATIONS = ("silu", "gelu", "quick_gelu")


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The static shape of a tensor value."""
    return cast(TensorType[Attribute], value.type).get_shape()


def btc(value: SSAValue, what: str) -> tuple[int, int, int]:
    """(samples, tokens, channels) of a value.

    Raises:
        VerifyException: it is not a rank-3 tensor; `what` names it.
    """
    shape = shape_of(value)
    if len(shape) != 3:
        raise VerifyException(f"{what} has shape {'x'.join(map(str, shape))}, expected samples x tokens x channels")
    return shape[0], shape[1], shape[2]


def _expect(condition: bool, text: str) -> None:
    if not condition:
        raise VerifyException(text)


def ints(attribute: Any) -> tuple[int, ...]:
    """The values of an `array<i64: ...>` property."""
    return tuple(int(x) for x in attribute.get_values())


@irdl_op_definition
class ParamOp(IRDLOperation):
    """A parameter on disk: `source` names it in the weight store, `transform` is what the store applies on reading.

    Transforms are a list such as `["transpose"]`, `["reshape:320,4,3,3"]`, `["rows:0:1280"]`; see
    `frontend/weights.py`.
    """

    name = "dpu.param"

    source = prop_def(StringAttr)
    transform = opt_prop_def(ArrayAttr[StringAttr])
    value = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = "$source (`via` $transform^)? attr-dict `:` type($value)"


@irdl_op_definition
class LinearOp(IRDLOperation):
    """`y[b, t, n] = act(sum_k concat(x, x2)[b, t, k] * w[k, n] + bias[n]) + residual[b, t, n]`.

    With `geglu`, w has 2N columns, value half first, and `y = value * gelu(gate)`.
    """

    name = "dpu.linear"

    x = operand_def(TensorType)
    x2 = opt_operand_def(TensorType)
    w = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    residual = opt_operand_def(TensorType)
    act = opt_prop_def(StringAttr)
    geglu = opt_prop_def(UnitAttr)
    x_scale = opt_prop_def(FloatAttr)  # x and x2 are quantised statically: the model says so
    x_zero = opt_prop_def(IntegerAttr)  # their zero point in [-128, 127]
    y = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$x (`concat` $x2^ `:` type($x2))? `,` $w (`bias` $bias^ `:` type($bias))? "
        "(`residual` $residual^ `:` type($residual))? (`act` $act^)? (`geglu` $geglu^)? attr-dict "
        "`:` type($x) `,` type($w) `->` type($y)"
    )

    def verify_(self) -> None:
        b, t, k = btc(self.x, "x")
        k += btc(self.x2, "x2")[2] if self.x2 else 0
        k_w, n = shape_of(self.w)
        n //= 2 if self.geglu else 1
        _expect(k == k_w, f"x has {k} channels but w reduces {k_w}")
        _expect(btc(self.y, "y") == (b, t, n), f"y is {shape_of(self.y)}, expected {(b, t, n)}")
        if self.residual:
            _expect(shape_of(self.residual) == (b, t, n), f"residual is {shape_of(self.residual)}, y {(b, t, n)}")
        if self.act:
            _expect(self.act.data in ACTIVATIONS, f"act '{self.act.data}' is none of {', '.join(ACTIVATIONS)}")


@irdl_op_definition
class ConvOp(IRDLOperation):
    """`y = conv2d(upsample?(concat(x, x2)), w) + bias + temb + residual` on pixels as tokens.

    `w` is N x C x kh x kw. `pad` is top, left, bottom, right. With `upsample`, x is first enlarged twice in both
    directions by nearest neighbour; `height` and `width` are those of x. `temb` is B x 1 x N.
    """

    name = "dpu.conv"

    x = operand_def(TensorType)
    x2 = opt_operand_def(TensorType)
    w = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    temb = opt_operand_def(TensorType)
    residual = opt_operand_def(TensorType)
    height = prop_def(IntegerAttr)
    width = prop_def(IntegerAttr)
    stride = prop_def(IntegerAttr)
    pad = prop_def(DenseArrayBase)
    upsample = opt_prop_def(UnitAttr)
    x_scale = opt_prop_def(FloatAttr)  # of x and x2, if the model says so
    x_zero = opt_prop_def(IntegerAttr)  # their zero point in [-128, 127]
    y = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$x (`concat` $x2^ `:` type($x2))? `,` $w (`bias` $bias^ `:` type($bias))? (`temb` $temb^ `:` type($temb))? "
        "(`residual` $residual^ `:` type($residual))? `size` $height `x` $width `stride` $stride "
        "(`upsample` $upsample^)? attr-dict `:` type($x) `,` type($w) `->` type($y)"
    )

    def out_size(self) -> tuple[int, int]:
        """(height, width) of the result."""
        return conv_out_size(self)

    def verify_(self) -> None:
        b, t, c = btc(self.x, "x")
        h, w = self.height.value.data, self.width.value.data
        _expect(t == h * w, f"x has {t} tokens but size is {h} x {w}")
        c += btc(self.x2, "x2")[2] if self.x2 else 0
        n, c_w, _, _ = shape_of(self.w)
        _expect(c == c_w, f"x has {c} channels but w reduces {c_w}")
        ho, wo = self.out_size()
        _expect(btc(self.y, "y") == (b, ho * wo, n), f"y is {shape_of(self.y)}, expected {(b, ho * wo, n)}")
        if self.residual:
            _expect(shape_of(self.residual) == shape_of(self.y), f"residual is {shape_of(self.residual)}")
        if self.temb:
            _expect(shape_of(self.temb) == (b, 1, n), f"temb is {shape_of(self.temb)}, expected {(b, 1, n)}")


def conv_out_size(op: Any) -> tuple[int, int]:
    """(height, width) of the result of an operation with a convolution's properties."""
    _, _, kh, kw = shape_of(op.w)
    top, left, bottom, right = ints(op.pad)
    s, up = op.stride.value.data, 2 if op.upsample else 1
    h = (op.height.value.data * up + top + bottom - kh) // s + 1
    w = (op.width.value.data * up + left + right - kw) // s + 1
    return h, w


@irdl_op_definition
class GroupNormOp(IRDLOperation):
    """Group normalisation over (tokens, channels of a group) of `concat(x, x2)`, then `gamma`, `beta` and `act`."""

    name = "dpu.group_norm"

    x = operand_def(TensorType)
    x2 = opt_operand_def(TensorType)
    gamma = operand_def(TensorType)
    beta = operand_def(TensorType)
    groups = prop_def(IntegerAttr)
    eps = prop_def(FloatAttr)
    act = opt_prop_def(StringAttr)
    y = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$x (`concat` $x2^ `:` type($x2))? `,` $gamma `,` $beta `groups` $groups `eps` $eps (`act` $act^)? attr-dict "
        "`:` type($x) `,` type($gamma) `,` type($beta) `->` type($y)"
    )

    def verify_(self) -> None:
        b, t, c = btc(self.x, "x")
        c += btc(self.x2, "x2")[2] if self.x2 else 0
        g = self.groups.value.data
        _expect(c % g == 0, f"{c} channels do not divide into {g} groups")
        _expect(btc(self.y, "y") == (b, t, c), f"y is {shape_of(self.y)}, expected {(b, t, c)}")


@irdl_op_definition
class LayerNormOp(IRDLOperation):
    """Layer normalisation over the channels of each token, then `gamma`, `beta`."""

    name = "dpu.layer_norm"

    x = operand_def(TensorType)
    gamma = operand_def(TensorType)
    beta = operand_def(TensorType)
    eps = prop_def(FloatAttr)
    y = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$x `,` $gamma `,` $beta `eps` $eps attr-dict `:` type($x) `,` type($gamma) `,` type($beta) `->` type($y)"
    )

    def verify_(self) -> None:
        _expect(btc(self.x, "x") == btc(self.y, "y"), f"y is {shape_of(self.y)}, x {shape_of(self.x)}")


@irdl_op_definition
class AttentionOp(IRDLOperation):
    """`y = softmax(scale * q k^T + mask) v` per head; q, k, v are tokens x (heads * head dimension).

    Numerics belong to the operation: `key_block` keys share one maximum and `prob_bits` (8 or 15) is the width of a
    quantised probability; the float meaning does not depend on either.
    """

    name = "dpu.attention"

    q = operand_def(TensorType)
    k = operand_def(TensorType)
    v = operand_def(TensorType)
    heads = prop_def(IntegerAttr)
    scale = prop_def(FloatAttr)
    key_block = prop_def(IntegerAttr)
    prob_bits = prop_def(IntegerAttr)
    causal = opt_prop_def(UnitAttr)
    y = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$q `,` $k `,` $v `heads` $heads `scale` $scale `key_block` $key_block `prob_bits` $prob_bits "
        "(`causal` $causal^)? attr-dict `:` type($q) `,` type($k) `,` type($v) `->` type($y)"
    )

    def verify_(self) -> None:
        b, t, c = btc(self.q, "q")
        _expect(btc(self.k, "k") == btc(self.v, "v"), f"k is {shape_of(self.k)} but v {shape_of(self.v)}")
        _expect(btc(self.k, "k")[0] == b and btc(self.k, "k")[2] == c, f"k is {shape_of(self.k)}, q {shape_of(self.q)}")
        _expect(c % self.heads.value.data == 0, f"{c} channels do not divide into {self.heads.value.data} heads")
        _expect(btc(self.y, "y") == (b, t, c), f"y is {shape_of(self.y)}, expected {(b, t, c)}")
        _expect(self.prob_bits.value.data in (8, 15), f"prob_bits is {self.prob_bits.value.data}, expected 8 or 15")


class _Unary(IRDLOperation):
    x = operand_def(TensorType)
    y = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"


@irdl_op_definition
class SiluOp(_Unary):
    """`y = x * sigmoid(x)`, element-wise."""

    name = "dpu.silu"


@irdl_op_definition
class GeluOp(_Unary):
    """`y = x * Phi(x)` (the erf form), element-wise."""

    name = "dpu.gelu"


@irdl_op_definition
class QuickGeluOp(_Unary):
    """`y = x * sigmoid(1.702 x)`, element-wise."""

    name = "dpu.quick_gelu"


@irdl_op_definition
class UpsampleOp(IRDLOperation):
    """Nearest-neighbour enlargement by two in both directions; `height` and `width` are those of x."""

    name = "dpu.upsample"

    x = operand_def(TensorType)
    height = prop_def(IntegerAttr)
    width = prop_def(IntegerAttr)
    y = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x `size` $height `x` $width attr-dict `:` type($x) `->` type($y)"


class _Binary(IRDLOperation):
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    y = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = "$a `,` $b attr-dict `:` type($a) `,` type($b) `->` type($y)"


@irdl_op_definition
class AddOp(_Binary):
    """`y = a + b`; b may have one token (a column vector for every sample)."""

    name = "dpu.add"


@irdl_op_definition
class MulOp(_Binary):
    """`y = a * b`, element-wise."""

    name = "dpu.mul"


@irdl_op_definition
class ConcatOp(_Binary):
    """Channels of a, then channels of b."""

    name = "dpu.concat"


@irdl_op_definition
class SinusoidOp(IRDLOperation):
    """`y = [cos(x f), sin(x f)]` with `f[i] = exp(-ln(10000) i / half)`: the sinusoidal embedding of a few scalars.

    x is B x 1 x n, or 1 x 1 x n for all samples; each of the n scalars gives 2 * half channels. It always runs on the
    host, in float32.
    """

    name = "dpu.sinusoid"

    x = operand_def(TensorType)
    half = prop_def(IntegerAttr)
    y = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x `half` $half attr-dict `:` type($x) `->` type($y)"


GRAPH_OPS: list[type[Operation]] = [
    ParamOp,
    LinearOp,
    ConvOp,
    GroupNormOp,
    LayerNormOp,
    AttentionOp,
    SiluOp,
    GeluOp,
    QuickGeluOp,
    UpsampleOp,
    AddOp,
    MulOp,
    ConcatOp,
    SinusoidOp,
]
"""The canonical operations; `ir/dialects.py` joins them with the others into the dialect `dpu`."""

GRAPH = Dialect("dpu", GRAPH_OPS, [])
