"""What quantisation knows of a function at work: what became of its values, scales, who asks for which statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import DYNAMIC_INDEX, FloatAttr, IntegerAttr, StringAttr, TensorType, f32, i8, i16
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from ..ir import graph as g
from ..ir import qgraph as q
from ..ir.arch import Arch
from ..ir.locations import fuse
from ..ir.numerics import I15_MAX
from .derived import F32, Derived, Statistics
from .exponents import exponents
from .policy import Choices, Precision, follows_model


def tensor(shape: tuple[int, ...], element: Attribute) -> TensorType[Attribute]:
    """The tensor type of a shape and element type."""
    return TensorType(element, shape)


def scale_of(amax: npt.ArrayLike, bits: int = 8) -> F32:
    """`amax / 127` in float32, of 15 bits `amax / 16319`; 1 where nothing was seen."""
    a = np.asarray(amax, np.float32)
    return np.where(a > 0, a / np.float32(LARGEST[bits]), np.float32(1)).astype(np.float32)


LARGEST = {8: 127, 15: I15_MAX}
"""The largest quantised value of so many bits."""

INTEGERS_OF: dict[int, Attribute] = {8: i8, 15: i16}
"""Element types of quantised tensors by bits."""

NORMED = "GroupNorm"
"""Key of what a GroupNorm writes for all convolutions that read it."""


def static_of(op: Operation) -> tuple[float, int] | None:
    """Scale and zero point of a convolution's or linear's input, where the model gives them."""
    if not isinstance(op, g.ConvOp | g.LinearOp) or op.x_scale is None:
        return None
    return op.x_scale.value.data, 0 if op.x_zero is None else op.x_zero.value.data


def model_scale(op: Operation) -> tuple[float, int] | None:
    """What `static_of` gives, as far as it is followed: linears after LayerNorm quantise what LayerNorm makes."""
    return static_of(op) if follows_model(op) else None


class Function:
    """A function whose operations are rewritten, one by one, in order."""

    def __init__(
        self,
        func: FuncOp,
        arch: Arch,
        statistics: Statistics | None,
        derived: Derived,
        names: dict[Operation, str],
        returned_kv: dict[str, tuple[g.AttentionOp, str]],
        state: dict[str, Attribute],
        part: str,
        precisions: dict[Operation, Precision],
        choices: Choices | None = None,
    ) -> None:
        self.part, self.precisions, self.choices = part, precisions, choices
        self.func, self.arch, self.derived, self.names = func, arch, derived, names
        self.statistics = statistics
        self.returned_kv, self.state = returned_kv, state
        self.block = func.body.block
        self.new: dict[SSAValue, SSAValue] = {}  # float value -> its float16 (or float32) replacement
        self.stats: dict[SSAValue, tuple[str, SSAValue]] = {}  # float value -> what its producer left
        # Statically quantised values by scale, zero point and bits; those of a GroupNorm, which has one scale: NORMED.
        self.integers: dict[tuple[SSAValue, float, int, int] | tuple[SSAValue, str], SSAValue] = {}
        self.mu: dict[SSAValue, SSAValue] = {}  # centred values' means
        self.q_scale: dict[SSAValue, SSAValue] = {}
        self.done: set[Operation] = set()
        self.exponents: dict[SSAValue, int] = {}
        if statistics is not None:
            self.exponents = exponents(func, self.result_absmax)
        self.anchor: Operation | None = None

    def emit(self, op: Operation, *sources: Operation) -> None:
        """Insert before the operation at work, with the fused locations of `sources`."""
        op.location = fuse(*(s.location for s in sources))
        assert self.anchor is not None
        self.block.insert_op_before(op, self.anchor)

    def value(self, v: SSAValue) -> SSAValue:
        """What has taken a float value's place."""
        return self.new.get(v, v)

    def set_exponent(self, properties: dict[str, Attribute], name: str, v: SSAValue) -> None:
        """Store a value's exponent if it has one."""
        if v in self.exponents:
            properties[name] = IntegerAttr(self.exponents[v], 64)

    def optional(self, v: SSAValue | None) -> list[SSAValue]:
        """An operand group of one or none."""
        return [] if v is None else [self.value(v)]

    def precision(self, op: Operation) -> Precision:
        """What the policy says of a layer."""
        return self.precisions.get(op, Precision())

    def bits(self, op: Operation) -> int:
        """Bits of a layer's input; a scale that the model gives is one of int8."""
        return 8 if model_scale(op) is not None else self.precision(op).activation_bits

    def is_static(self, op: g.LinearOp) -> bool:
        """Whether the policy gives a linear's input a static scale."""
        return model_scale(op) is None and self.precision(op).scale == "static"

    def wanted(self, v: SSAValue) -> str:
        """The statistics that readers of `v` need most."""
        kinds = set()
        for use in v.uses:
            if isinstance(use.operation, g.GroupNormOp):
                kinds.add("column_pair")
            elif isinstance(use.operation, g.LayerNormOp):
                kinds.add("row_pair")
            elif isinstance(use.operation, g.LinearOp) and use.index == 0 and use.operation.x2 is None:
                kinds.add("none" if self.is_static(use.operation) else "row_max")
        return next((k for k in ("column_pair", "row_pair", "row_max") if k in kinds), "none")

    def stats_type(self, kind: str, shape: tuple[int, int, int]) -> TensorType[Attribute]:
        """The type of a companion of a tensor of `shape`."""
        b, t, n = shape
        if kind == "column_pair":
            return tensor((b, DYNAMIC_INDEX, 2 * n), f32)
        return tensor((b, 2 if kind == "row_pair" else 1, t), f32)

    def absmax(self, op: Operation, operand: str) -> float:
        """The calibrated maximum of an operand."""
        if self.statistics is None:
            return 1.0
        return self.statistics.absmax(f"{self.names[op]}:{operand}")

    def result_absmax(self, op: Operation) -> float:
        """The calibrated maximum of a result, 0 if calibration did not record it."""
        key = f"{self.names[op]}:y"
        return self.statistics.absmax(key) if self.statistics is not None and key in self.statistics else 0.0

    def channels(self, op: Operation, operand: str, n: int, centred: bool = False) -> F32:
        """The calibrated maximum of each channel of an operand, `centred` less its mean."""
        if self.statistics is None:
            return np.ones(n, np.float32)
        key = f"{self.names[op]}:{operand}"
        return self.statistics.centred_absmax(key) if centred else self.statistics.channel_absmax(key)

    def param(
        self, source: str, array: F32 | Callable[[], F32], at: Operation, shape: tuple[int, ...] | None = None
    ) -> SSAValue:
        """A parameter with these values; of what is read later, with this shape."""
        self.derived[source] = array
        shape = np.shape(cast(F32, array)) if shape is None else shape
        op = g.ParamOp(properties={"source": StringAttr(source)}, result_types=[tensor(shape, f32)])
        self.emit(op, at)
        return op.value

    def quantised(self, v: SSAValue, scale: float, at: Operation, zero: int = 0, bits: int = 8) -> SSAValue:
        """The int8 or 15-bit form of a value with a static scale and zero point, made once."""
        key = (v, scale, zero, bits)
        if key not in self.integers:
            op = q.QQuantiseOp(
                operands=[self.value(v)],
                properties={
                    "scale": FloatAttr(math.ldexp(scale, -self.exponents.get(v, 0)), 32),
                    "zero": IntegerAttr(zero, 64) if zero else None,
                },
                result_types=[tensor(g.shape_of(v), INTEGERS_OF[bits])],
            )
            self.emit(op, at)
            self.integers[key] = op.y
        return self.integers[key]
