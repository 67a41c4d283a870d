"""Constant folding: ONNX operators on small arrays, in numpy.

Exporters compute shapes with chains of Shape, Gather, Add, Div, Concat, ...; with static inputs all of them are
constants. Only what such chains use is here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

Array = npt.NDArray[Any]
Attributes = dict[str, Any]
LIMIT = 1 << 20
"""Results with more elements than this stay operations."""


def fold(op: str, xs: list[Array | None], attrs: Attributes, outputs: int) -> list[Array] | None:
    """The results of an operator on known inputs, or None when it is not one of these or the result is large."""
    function = FOLDS.get(op)
    if function is None or (op in ("Expand", "ConstantOfShape", "Tile") and _size(op, xs) > LIMIT):
        return None
    with np.errstate(all="ignore"):
        result = function(attrs, *xs) if op != "Split" else _split(attrs, xs, outputs)
    results = list(result) if isinstance(result, (list, tuple)) else [np.asarray(result)]
    return results if all(r.size <= LIMIT for r in results) else None


def _size(op: str, xs: list[Array | None]) -> int:
    shape = xs[0] if op == "ConstantOfShape" else xs[1]
    factor = xs[0].size if op != "ConstantOfShape" and xs[0] is not None else 1
    return int(np.prod(np.abs(shape))) * (factor if op == "Tile" else 1) if shape is not None else 0


def dtype_of(code: int) -> np.dtype[Any]:
    """The numpy type of an ONNX type number."""
    return np.dtype(ir.DataType(code).numpy())


def reshape_target(shape: tuple[int, ...], target: Array, allowzero: bool) -> tuple[int, ...]:
    """The static shape that ONNX Reshape gives."""
    dims = [int(d) for d in target]
    if not allowzero:
        dims = [shape[i] if d == 0 else d for i, d in enumerate(dims)]
    if -1 in dims:
        rest = int(np.prod([d for d in dims if d != -1]))
        dims[dims.index(-1)] = int(np.prod(shape)) // rest if rest else 0
    return tuple(dims)


def slices(rank: int, starts: Array, ends: Array, axes: Array | None, steps: Array | None) -> tuple[slice, ...]:
    """The Python slices of an ONNX Slice."""
    result = [slice(None)] * rank
    for i, axis in enumerate(range(len(starts)) if axes is None else axes):
        step = 1 if steps is None else int(steps[i])
        end: int | None = int(ends[i])
        if step < 0 and end is not None and end < -(1 << 31):
            end = None
        result[int(axis)] = slice(int(starts[i]), end, step)
    return tuple(result)


def unsqueeze(x: Array, axes: Array) -> Array:
    """ONNX Unsqueeze: `axes` are those of the result."""
    rank = x.ndim + len(axes)
    taken = {int(a) % rank for a in axes}
    dims = iter(x.shape)
    return x.reshape([1 if i in taken else next(dims) for i in range(rank)])


def squeeze(x: Array, axes: Array | None) -> Array:
    """ONNX Squeeze."""
    return np.squeeze(x) if axes is None else np.squeeze(x, tuple(int(a) for a in axes))


def _div(_: Attributes, a: Array, b: Array) -> Any:
    if a.dtype.kind in "iu":
        return (np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))).astype(a.dtype)
    return a / b


def _split(attrs: Attributes, xs: list[Array | None], outputs: int) -> list[Array]:
    x, axis = xs[0], int(attrs.get("axis", 0))
    assert x is not None
    if len(xs) > 1 and xs[1] is not None:
        return np.split(x, np.cumsum(xs[1])[:-1], axis)
    return np.array_split(x, outputs, axis)


def _fill(attrs: Attributes, shape: Array) -> Array:
    value = attrs.get("value")
    fill = value.numpy().reshape(()) if value is not None else np.float32(0)
    return np.full([int(d) for d in shape], fill)


def _trilu(attrs: Attributes, x: Array, k: Array | None = None) -> Array:
    by = 0 if k is None else int(k)
    return np.triu(x, by) if int(attrs.get("upper", 1)) else np.tril(x, by)


def _reduce(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(attrs: Attributes, x: Array, axes: Array | None = None) -> Any:
        given = axes if axes is not None else attrs.get("axes")
        axis = None if given is None or len(given) == 0 else tuple(int(a) for a in given)
        return function(x, axis=axis, keepdims=bool(attrs.get("keepdims", 1)))

    return run


FOLDS: dict[str, Callable[..., Any]] = {
    "Identity": lambda _, x: x,
    "Add": lambda _, a, b: a + b,
    "Sub": lambda _, a, b: a - b,
    "Mul": lambda _, a, b: a * b,
    "Div": _div,
    "Mod": lambda _, a, b: np.mod(a, b),
    "Pow": lambda _, a, b: np.power(a, b).astype(a.dtype),
    "Neg": lambda _, x: -x,
    "Abs": lambda _, x: np.abs(x),
    "Sqrt": lambda _, x: np.sqrt(x),
    "Reciprocal": lambda _, x: np.reciprocal(x),
    "Exp": lambda _, x: np.exp(x),
    "Log": lambda _, x: np.log(x),
    "Floor": lambda _, x: np.floor(x),
    "Ceil": lambda _, x: np.ceil(x),
    "Min": lambda _, *xs: np.minimum.reduce(xs),
    "Max": lambda _, *xs: np.maximum.reduce(xs),
    "Equal": lambda _, a, b: a == b,
    "Less": lambda _, a, b: a < b,
    "LessOrEqual": lambda _, a, b: a <= b,
    "Greater": lambda _, a, b: a > b,
    "GreaterOrEqual": lambda _, a, b: a >= b,
    "And": lambda _, a, b: a & b,
    "Or": lambda _, a, b: a | b,
    "Not": lambda _, x: ~x,
    "Where": lambda _, c, a, b: np.where(c, a, b),
    "IsNaN": lambda _, x: np.isnan(x),
    "Cast": lambda attrs, x: x.astype(dtype_of(int(attrs["to"]))),
    "CastLike": lambda _, x, like: x.astype(like.dtype),
    "Range": lambda _, a, b, step: np.arange(a, b, step, dtype=a.dtype),
    "Concat": lambda attrs, *xs: np.concatenate(xs, int(attrs["axis"])),
    "Gather": lambda attrs, x, i: np.take(x, i, int(attrs.get("axis", 0))),
    "Shape": lambda attrs, x: np.array(x.shape[attrs.get("start", 0) : attrs.get("end")], np.int64),
    "Size": lambda _, x: np.array(x.size, np.int64),
    "Slice": lambda _, x, s, e, a=None, st=None: x[slices(x.ndim, s, e, a, st)],
    "Squeeze": lambda _, x, axes=None: squeeze(x, axes),
    "Unsqueeze": lambda _, x, axes: unsqueeze(x, axes),
    "Reshape": lambda attrs, x, t: x.reshape(reshape_target(x.shape, t, bool(attrs.get("allowzero", 0)))),
    "Flatten": lambda attrs, x: x.reshape(int(np.prod(x.shape[: int(attrs.get("axis", 1))])), -1),
    "Transpose": lambda attrs, x: x.transpose(attrs.get("perm")),
    "Expand": lambda _, x, s: x * np.ones([int(d) for d in s], x.dtype) if x.dtype != bool else x & np.ones(s, bool),
    "Tile": lambda _, x, n: np.tile(x, [int(d) for d in n]),
    "ConstantOfShape": _fill,
    "Trilu": _trilu,
    "ReduceProd": _reduce(np.prod),
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
    "ReduceSum": _reduce(np.sum),
    "Split": lambda attrs, x: x,
}
"""Operators by name, each taking the attributes, then the inputs (None where one is left out)."""
