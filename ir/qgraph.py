"""The graph dialect, quantised form: the operations that are lowered, each with its exact arithmetic.

The arithmetic of every operation, step by step, is in `docs/numerics.md`; nothing here depends on a schedule, except
that column statistics are partials whose row blocks `passes/tiling.py` chooses for one arch.

Companion tensors are results of their own, so that wiring and lifetimes are visible:
  row pair    B x 2 x T   float32   {sum, sum of squares} of each token, for LayerNorm
  row maximum B x 1 x T   float32   absolute maximum of each token, for dynamic quantisation
  column pair B x P x 2N  float32   P partials of {sum, sum of squares} of each channel, for GroupNorm
Weights stay float in the graph; they are quantised per output channel when the constants are written.

Integers of 15 bits have the element type i16. They are stored as two int8 planes side by side, x = 128 hi + lo: a token
of C channels is C bytes of hi, then C of lo. Scales of 15-bit integers are their step, as those of int8 are.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .graph import btc, conv_out_size, shape_of

SECTION_KINDS = ("f16", "f32", "geglu", "q8_head", "q8_static")
"""What a section of a linear writes: float16; float32; float16 after GEGLU; int8 with a scale for each token and head
(queries); int8 with a static scale for each column (keys)."""

STATS = ("none", "row_pair", "row_max", "column_pair")


WEIGHT_BITS = (8, 4)


def _expect(condition: bool, text: str) -> None:
    if not condition:
        raise VerifyException(text)


def integer_bits(element: Attribute) -> int:
    """Bits of a quantised tensor's elements: 8, or 15 where the type is i16; 0 for floats."""
    width = element.width.data if isinstance(element, IntegerType) else 0
    return 15 if width == 16 else width


def planes_of(value: SSAValue) -> int:
    """int8 planes that a tensor is stored in: 2 for 15-bit integers, else 1."""
    return 2 if isinstance(value.type, TensorType) and integer_bits(value.type.element_type) == 15 else 1


@irdl_op_definition
class QConvOp(IRDLOperation):
    """A convolution of int8 or 15-bit pixels with static scales; the result is float16.

    `y = f16(cvt(acc) * cs[n] + bias[n] (+ temb[b, n]) (+ residual))`, `cs[n] = x_scale * w_scale[n]`. A second source
    has its own scale; the ratio is folded into its weights. With `upsample`, four 2x2-tap phases with summed weights.
    With `x_zero`, pixels hold `x / x_scale + x_zero`, so does the border, and the bias takes that off again.
    With 15-bit pixels `cvt(acc_hi) * 128 + cvt(acc_lo)` takes the place of `cvt(acc)`. `w_bits` is 8 if it is left out.
    """

    name = "dpu.q.conv"

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
    x_scale = prop_def(FloatAttr)
    x2_scale = opt_prop_def(FloatAttr)
    x_zero = opt_prop_def(IntegerAttr)
    w_bits = opt_prop_def(IntegerAttr)
    y_exp = opt_prop_def(IntegerAttr)  # y is stored as y * 2^-y_exp
    y = result_def(TensorType)
    stats = opt_result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$x (`concat` $x2^ `:` type($x2))? `,` $w (`bias` $bias^ `:` type($bias))? (`temb` $temb^ `:` type($temb))? "
        "(`residual` $residual^ `:` type($residual))? `size` $height `x` $width `stride` $stride "
        "(`upsample` $upsample^)? attr-dict `:` type($x) `,` type($w) `->` type($y) (`,` type($stats)^)?"
    )

    def out_size(self) -> tuple[int, int]:
        """(height, width) of the result."""
        return conv_out_size(self)

    def verify_(self) -> None:
        b, t, c = btc(self.x, "x")
        h, w = self.height.value.data, self.width.value.data
        _expect(t == h * w, f"x has {t} tokens but size is {h} x {w}")
        c += btc(self.x2, "x2")[2] if self.x2 else 0
        n, c_w, kh, kw = shape_of(self.w)
        _expect(c == c_w, f"x has {c} channels but w reduces {c_w}")
        ho, wo = self.out_size()
        _expect(btc(self.y, "y") == (b, ho * wo, n), f"y is {shape_of(self.y)}, expected {(b, ho * wo, n)}")
        if self.upsample:
            ok = (kh, kw) == (3, 3) and self.stride.value.data == 1 and set(self.pad.get_values()) == {1}
            _expect(ok, "upsample needs a 3x3 kernel, stride 1 and padding 1")
        _expect((self.x2 is None) == (self.x2_scale is None), "x2 and x2_scale come together")
        planes = planes_of(self.x)
        _expect(self.x2 is None or planes_of(self.x2) == planes, "x and x2 have different bits")
        _expect(planes == 1 or self.x_zero is None, "15-bit pixels have no zero point")
        bits = weight_bits(self)
        _expect(bits in WEIGHT_BITS, f"w_bits is {bits}, expected 8 or 4")

    @property
    def planes(self) -> int:
        """int8 planes of the pixels."""
        return planes_of(self.x)


@irdl_op_definition
class QGroupNormOp(IRDLOperation):
    """GroupNorm of float16 from per-channel statistics, then SiLU, then integers with a static scale or float16.

    With `scale`, y is int8 or 15 bits: `q = cvt(y * (1 / scale))`. Else y is float16 and `row_max` may be asked for.
    """

    name = "dpu.q.group_norm"

    x = operand_def(TensorType)
    stats = operand_def(TensorType)
    x2 = opt_operand_def(TensorType)
    stats2 = opt_operand_def(TensorType)
    gamma = operand_def(TensorType)
    beta = operand_def(TensorType)
    groups = prop_def(IntegerAttr)
    eps = prop_def(FloatAttr)
    act = opt_prop_def(StringAttr)
    scale = opt_prop_def(FloatAttr)
    y = result_def(TensorType)
    row_max = opt_result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$x `stats` $stats (`concat` $x2^ `:` type($x2) )? (`stats2` $stats2^ `:` type($stats2))? `,` $gamma `,` $beta "
        "`groups` $groups `eps` $eps (`act` $act^)? (`scale` $scale^)? attr-dict "
        "`:` type($x) `,` type($stats) `,` type($gamma) `,` type($beta) `->` type($y) (`,` type($row_max)^)?"
    )

    def verify_(self) -> None:
        b, t, c = btc(self.x, "x")
        c += btc(self.x2, "x2")[2] if self.x2 else 0
        g = self.groups.value.data
        _expect(c % g == 0, f"{c} channels do not divide into {g} groups")
        _expect(btc(self.y, "y") == (b, t, c), f"y is {shape_of(self.y)}, expected {(b, t, c)}")
        _expect((self.x2 is None) == (self.stats2 is None), "x2 and stats2 come together")


@irdl_op_definition
class QQuantiseOp(IRDLOperation):
    """`y = cvt(x * (1 / scale))`: float16 to int8 or 15 bits with a static scale.

    With `zero`, `y = cvt_offset(x * (1 / scale) + (zero + 128) - 128)` in [-128, 127].
    """

    name = "dpu.q.quantise"

    x = operand_def(TensorType)
    scale = prop_def(FloatAttr)
    zero = opt_prop_def(IntegerAttr)
    y = result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x `scale` $scale attr-dict `:` type($x) `->` type($y)"


@irdl_op_definition
class QSiluOp(IRDLOperation):
    """`y = f16(x * sigmoid(x))` of float16 or float32."""

    name = "dpu.q.silu"

    x = operand_def(TensorType)
    y = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"


@irdl_op_definition
class QCentreOp(IRDLOperation):
    """`mu[n] = mean over tokens of v`, `y = cvt_i8((v - mu[n]) * (1 / scale[n]))`: values for attention."""

    name = "dpu.q.centre"

    v = operand_def(TensorType)
    stats = operand_def(TensorType)
    scale = operand_def(TensorType)
    y = result_def(TensorType)
    mu = result_def(TensorType)

    traits = traits_def(Pure())
    assembly_format = (
        "$v `stats` $stats `scale` $scale attr-dict `:` type($v) `,` type($stats) `,` type($scale) "
        "`->` type($y) `,` type($mu)"
    )


@irdl_op_definition
class QLinearOp(IRDLOperation):
    """One or more linears of one input, which is quantised for each token, to `x_bits` 8 (if left out) or 15.

    The input is `layer_norm(x)` when gamma and beta are given, else `concat(x, x2)`. Sections are separate weights with
    their own epilogue (`SECTION_KINDS`) and statistics (`STATS`). Operand `rows` is the row pair (with LayerNorm) or
    the row maximum (without) that the producer left; without it the operation computes it. Results: for each section
    its value, then the scales of a `q8_head` section (B x heads x T float32) or the statistics it asks for.
    `k_scale` names the per-column scales of `q8_static` sections, one operand each.

    With `x_scale` the scale is static. Then x and x2 are int8 already, with zero point `x_zero` and without LayerNorm;
    or they are float16, and what the product reads is `cvt(x * (1 / x_scale))`, after LayerNorm if there is one.
    `w_bits` are those of each section's weight, 8 if it is left out. `gram` is the matrix of x^T x by which the errors
    of int4 weights are compensated when they are quantised (`passes/int4.py`).
    """

    name = "dpu.q.linear"

    x = operand_def(TensorType)
    x2 = opt_operand_def(TensorType)
    rows = opt_operand_def(TensorType)
    gamma = opt_operand_def(TensorType)
    beta = opt_operand_def(TensorType)
    weights = var_operand_def(TensorType)
    biases = var_operand_def(TensorType)
    residual = opt_operand_def(TensorType)
    k_scales = var_operand_def(TensorType)
    gram = opt_operand_def(TensorType)
    kinds = prop_def(ArrayAttr[StringAttr])
    stats = prop_def(ArrayAttr[StringAttr])
    has_bias = prop_def(DenseArrayBase)
    eps = opt_prop_def(FloatAttr)
    act = opt_prop_def(StringAttr)
    heads = opt_prop_def(IntegerAttr)
    x_scale = opt_prop_def(FloatAttr)
    x_zero = opt_prop_def(IntegerAttr)
    x_bits = opt_prop_def(IntegerAttr)
    w_bits = opt_prop_def(DenseArrayBase)
    x_exp = opt_prop_def(IntegerAttr)  # x is stored as x * 2^-x_exp
    y_exp = opt_prop_def(IntegerAttr)  # float16 results are stored as y * 2^-y_exp
    results_ = var_result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$x (`concat` $x2^ `:` type($x2))? (`rows` $rows^ `:` type($rows))? (`norm` $gamma^ `:` type($gamma))? "
        "(`,` $beta^ `:` type($beta))? `weights` `(` $weights `:` type($weights) `)` "
        "`biases` `(` ($biases^ `:` type($biases))? `)` (`residual` $residual^ `:` type($residual))? "
        "(`k_scales` `(` $k_scales^ `:` type($k_scales) `)`)? (`gram` $gram^ `:` type($gram))? "
        "`kinds` $kinds `stats` $stats (`act` $act^)? "
        "attr-dict `:` type($x) `->` type($results_)"
    )

    @property
    def is_stored(self) -> bool:
        """Whether x is int8 in DRAM."""
        return isinstance(self.x.type, TensorType) and integer_bits(self.x.type.element_type) == 8

    @property
    def planes(self) -> int:
        """int8 planes of the rows that the product reads."""
        return 2 if self.x_bits is not None and self.x_bits.value.data == 15 else 1

    def verify_(self) -> None:
        _, _, k = btc(self.x, "x")
        k += btc(self.x2, "x2")[2] if self.x2 else 0
        _expect(len(self.weights) == len(self.kinds.data) == len(self.stats.data), "weights, kinds and stats differ")
        _expect(self.gram is None or shape_of(self.gram) == (k, k), f"x has {k} channels, its gram does not")
        for w in self.weights:
            _expect(shape_of(w)[0] == k, f"x has {k} channels but w reduces {shape_of(w)[0]}")
        for kind in self.kinds.data:
            _expect(kind.data in SECTION_KINDS, f"section kind '{kind.data}' is none of {', '.join(SECTION_KINDS)}")
        for s in self.stats.data:
            _expect(s.data in STATS, f"statistics '{s.data}' are none of {', '.join(STATS)}")
        sections = zip(self.kinds.data, self.stats.data, strict=True)
        results = sum(1 + (k.data == "q8_head" or s.data != "none") for k, s in sections)
        _expect(len(self.results_) == results, f"{len(self.results_)} results, sections give {results}")
        _expect(not self.is_stored or (self.gamma is None and self.rows is None), "int8 x with LayerNorm or rows")
        _expect(
            not self.is_stored or (self.x_scale is not None and self.planes == 1), "int8 x without x_scale, or 15 bits"
        )
        _expect(self.is_stored or self.x_zero is None, "float16 x with x_zero")
        _expect(self.x_scale is None or self.rows is None or self.gamma is not None, "x_scale with row maxima")
        bits = 8 if self.x_bits is None else self.x_bits.value.data
        _expect(bits in (8, 15), f"x_bits is {bits}, expected 8 or 15")
        for bits in section_bits(self):
            _expect(bits in WEIGHT_BITS, f"w_bits is {bits}, expected 8 or 4")
        _expect(len(section_bits(self)) == len(self.kinds.data), "w_bits and kinds differ")
        _expect((self.gamma is None) == (self.beta is None) == (self.eps is None), "gamma, beta, eps come together")


def weight_bits(op: QConvOp) -> int:
    """Bits of a convolution's weight."""
    return 8 if op.w_bits is None else op.w_bits.value.data


def section_bits(op: QLinearOp) -> list[int]:
    """Bits of the weight of each section of a linear."""
    if op.w_bits is None:
        return [8] * len(op.kinds.data)
    return [int(b) for b in op.w_bits.get_values()]


@irdl_op_definition
class QAttentionOp(IRDLOperation):
    """Attention of int8 queries (scale a token and head), keys (scale a head) and centred values (scale a channel).

    Per block of `key_block` keys: `S = q k^T`, its row maximum, `p = exp2((S - max) * c[i])`, probabilities of
    `prob_bits` bits, `O += p v`; see docs/numerics.md. With `causal` a token sees itself and earlier ones: scores are
    masked in float before their maximum is taken.
    """

    name = "dpu.q.attention"

    q = operand_def(TensorType)
    q_scale = operand_def(TensorType)
    k = operand_def(TensorType)
    v = operand_def(TensorType)
    mu = operand_def(TensorType)
    v_scale = operand_def(TensorType)
    heads = prop_def(IntegerAttr)
    scale = prop_def(FloatAttr)
    k_scale = prop_def(DenseArrayBase)  # float32, one a head
    key_block = prop_def(IntegerAttr)
    prob_bits = prop_def(IntegerAttr)
    causal = opt_prop_def(UnitAttr)
    y = result_def(TensorType)
    row_max = opt_result_def(TensorType)

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$q `scale` $q_scale `,` $k `,` $v `mu` $mu `scale` $v_scale `heads` $heads `by` $scale "
        "`key_block` $key_block `prob_bits` $prob_bits (`causal` $causal^)? attr-dict "
        "`:` type($q) `,` type($q_scale) `,` "
        "type($k) `,` type($v) `,` type($mu) `,` type($v_scale) `->` type($y) (`,` type($row_max)^)?"
    )

    def verify_(self) -> None:
        b, t, c = btc(self.q, "q")
        _expect(btc(self.k, "k") == btc(self.v, "v"), f"k is {shape_of(self.k)} but v {shape_of(self.v)}")
        _expect(c % self.heads.value.data == 0, f"{c} channels do not divide into {self.heads.value.data} heads")
        _expect(btc(self.y, "y") == (b, t, c), f"y is {shape_of(self.y)}, expected {(b, t, c)}")
        _expect(self.prob_bits.value.data in (8, 15), f"prob_bits is {self.prob_bits.value.data}, expected 8 or 15")
        block = self.key_block.value.data
        _expect(0 < block <= 1024, "key_block must be 1 to 1024, so that float32 holds the sums")
        if self.causal:
            keys = btc(self.k, "k")[1]
            _expect(keys == t, f"causal attention of {t} queries on {keys} keys")
            _expect(keys <= block, f"causal attention takes one block of keys, {keys} are more than {block}")


QGRAPH_OPS = [
    QConvOp,
    QGroupNormOp,
    QQuantiseOp,
    QSiluOp,
    QCentreOp,
    QLinearOp,
    QAttentionOp,
]
