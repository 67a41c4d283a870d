"""The operator table, continued: QuantizeLinear and DequantizeLinear.

A stored int8 tensor with its DequantizeLinear is one parameter that keeps integers and scales. A pair in front of a
convolution or a linear says how its input is quantised, and is a property of that operation; in front of anything else
it says nothing that the DPU needs: the value goes on unrounded. Types wider than 8 bits are taken as no statement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx_ir as ir
from xdsl.ir import Attribute

from .build import Array, Node, Value, f32_attr, i64_attr
from .weights import Entry

EIGHT = (ir.DataType.INT8, ir.DataType.UINT8)


def quantize_linear(node: Node) -> None:
    """Of a stored parameter the integers; of computed data a note of scale and zero point."""
    x, scale, zero = node.value(0), _scale(node), _zero(node)
    dtype = node.value(2).dtype if node.has(2) else ir.DataType(node.attrs.get("output_dtype") or ir.DataType.UINT8)
    out = Value(str(node.node.outputs[0].name), x.shape, dtype)
    if x.ssa is None:
        node.define(0, replace(out, weight=(_rounded(node, x, scale, zero, dtype), ())))
        return
    static = None
    if scale.size == 1 and zero.size == 1 and dtype in EIGHT:
        shift = 128 if dtype == ir.DataType.UINT8 else 0
        static = (float(scale.reshape(())), int(zero.reshape(())) - shift)
    node.define(0, replace(out, ssa=node.ssa(), static=static, quantised_from=x.dtype))


def dequantize_linear(node: Node) -> None:
    """Of a stored tensor a parameter with scales; of a QuantizeLinear's result the value before it."""
    x, name = node.value(0), str(node.node.outputs[0].name)
    scale, zero = _scale(node), _zero(node)
    if x.quantised_from is not None:
        node.define(0, Value(name, x.shape, x.quantised_from, ssa=x.ssa, static=x.static))
        return
    if x.weight is None and x.folded is None:
        node.fail("its input is neither stored nor a QuantizeLinear's result", hint="keep Q and DQ next to each other")
    axis = int(node.attrs.get("axis", 1)) % max(len(x.shape), 1)
    if scale.size not in (1, x.shape[axis] if x.shape else 1):
        node.fail(f"{scale.size} scales for {x.shape[axis]} indices", hint="quantise with a scale for each channel")
    source = node.builder.loaded.source(name)
    node.builder.loaded.store.add(source, _integers(node, x, scale, zero, axis))
    node.define(0, Value(name, x.shape, node.value(1).dtype, weight=(source, ())))


def static_input(node: Node, i: int = 0) -> dict[str, Attribute]:
    """The properties that say how input `i` is quantised; none if nothing does."""
    static = node.value(i).static
    if static is None:
        return {}
    scale, zero = static
    return {"x_scale": f32_attr(scale), **({"x_zero": i64_attr(zero)} if zero else {})}


def _scale(node: Node) -> Array:
    if int(node.attrs.get("block_size", 0)):
        node.fail("a scale for each block", hint="quantise with a scale for each output channel")
    scale = node.constant(1, "scale").astype(np.float32)
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        node.fail("a scale that is not positive", hint="quantise the model again")
    return scale


def _zero(node: Node) -> Array:
    return node.constant(2, "zero point").astype(np.int64) if node.has(2) else np.zeros(1, np.int64)


def _integers(node: Node, x: Value, scale: Array, zero: Array, axis: int) -> Entry:
    """The entry of a stored integer tensor: a view of its file when nothing is added to it."""
    store = node.builder.loaded.store
    scales = Entry(scale.shape, scale.dtype, read=lambda: scale)
    if x.weight is not None and not x.weight[1] and not zero.any():
        stored = store.entry(x.weight[0])
        return replace(stored, scales=scales, axis=axis)
    along = [1] * len(x.shape)
    if zero.size > 1:
        along[axis] = zero.size
    shift, read = zero.reshape(along if x.shape else ()), _reader(node, x)

    def shifted() -> Array:
        q = read().astype(np.int64) - shift
        return q.astype(np.int8 if q.size and np.abs(q).max() <= 128 and q.max() < 128 else np.int32)

    return Entry(x.shape, np.dtype(np.int8), read=shifted, scales=scales, axis=axis)


def _rounded(node: Node, x: Value, scale: Array, zero: Array, dtype: ir.DataType) -> str:
    """A new stored tensor: the integers of a stored float parameter, made when they are read."""
    axis = int(node.attrs.get("axis", 1)) % max(len(x.shape), 1)
    along = [1] * len(x.shape)
    if scale.size > 1:
        along[axis] = scale.size
    shape = along if x.shape else ()
    s, z, read = scale.reshape(shape), zero.reshape(shape if zero.size > 1 else ()), _reader(node, x)
    kind = np.dtype(dtype.numpy())
    limits = np.iinfo(kind)
    source = node.builder.loaded.source(str(node.node.outputs[0].name))

    def rounded() -> Array:
        q: Array = np.clip(np.rint(read().astype(np.float32) / s) + z, limits.min, limits.max).astype(kind)
        return q

    node.builder.loaded.store.add(source, Entry(x.shape, kind, read=rounded))
    return source


def _reader(node: Node, x: Value) -> Callable[[], Array]:
    store, weight, folded = node.builder.loaded.store, x.weight, x.folded
    if weight is not None:
        return lambda: store.get(*weight)
    assert folded is not None
    return lambda: folded
