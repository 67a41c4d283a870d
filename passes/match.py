"""What the recognising passes share: looking at constants and parameters, and making new parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from ..ir.graph import ParamOp, shape_of
from ..ir.tensor import ELEMENTWISE, ConstantOp, ReshapeOp

AddOp, MulOp, DivOp = ELEMENTWISE["add"], ELEMENTWISE["mul"], ELEMENTWISE["div"]


def scalar(value: SSAValue) -> float | None:
    """The value of a constant whose elements are all the same."""
    return value.owner.scalar() if isinstance(value.owner, ConstantOp) else None


def element(value: SSAValue) -> Attribute:
    """The element type of a tensor value."""
    return cast(TensorType[Attribute], value.type).get_element_type()


def tensor(shape: Sequence[int], like: SSAValue) -> TensorType[Attribute]:
    """A tensor type with the element type of `like`."""
    return TensorType(element(like), list(shape))


def op_and(op: Operation, kind: type[Operation]) -> list[tuple[Any, SSAValue]]:
    """The operands of a commutative operation, each way round in which the first is made by a `kind`."""
    a, b = op.operands
    return [(x, y) for x, y in ((a, b), (b, a)) if isinstance(x.owner, kind)]


def parameter(source: StringAttr, transform: Sequence[str], kind: TensorType[Attribute]) -> ParamOp:
    """A new parameter operation."""
    via = ArrayAttr([StringAttr(t) for t in transform]) if transform else None
    return ParamOp(properties={"source": source, "transform": via}, result_types=[kind])


def transforms(param: ParamOp) -> list[str]:
    """The transforms of a parameter as texts."""
    return [t.data for t in param.transform] if param.transform else []


def transposed(param: ParamOp) -> ParamOp:
    """The matrix of a parameter with rows and columns exchanged."""
    rows, columns = shape_of(param.value)
    steps = transforms(param)
    steps = steps[:-1] if steps[-1:] == ["transpose"] else [*steps, "transpose"]
    return parameter(param.source, steps, tensor((columns, rows), param.value))


def vector(value: SSAValue, axis: int, rank: int) -> ParamOp | None:
    """A new rank-1 parameter, when `value` is a stored vector that broadcasts along `axis` of a value of `rank`."""
    shape = (1,) * (rank - len(shape_of(value))) + shape_of(value)
    if len(shape) != rank or any(d != 1 for i, d in enumerate(shape) if i != axis % rank):
        return None
    while isinstance(value.owner, ReshapeOp):
        value = value.owner.x
    n = shape[axis]
    if isinstance(value.owner, ConstantOp) and value.owner.source:
        source, steps = value.owner.source, []
    elif isinstance(value.owner, ParamOp):
        source, steps = value.owner.source, transforms(value.owner)
    else:
        return None
    if shape_of(value) != (n,):
        steps = [*steps[:-1], f"reshape:{n}"] if steps and steps[-1].startswith("reshape") else [*steps, f"reshape:{n}"]
    return parameter(source, steps, tensor((n,), value))
