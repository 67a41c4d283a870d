"""Mutations of bytes, JSON values, texts and ONNX models: each takes a source of random numbers and returns a copy."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, MutableSequence
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, helper

NUMBERS = (0, 1, -1, 2, 3, 7, 63, 64, 255, 1 << 15, 1 << 16, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63))
VALUES: tuple[Any, ...] = (
    *NUMBERS, 1 << 70, None, True, False, 0.5, -0.0, 1e308, float("nan"), float("inf"), "", "x", "0", "-1", "f16",
    "../x", "\x00", "é" * 40, [], [0], [[]], [1, 2, 3], {}, {"a": 1}, {"name": "x"},
)  # fmt: skip
OPERATORS = (
    "Add", "Mul", "Conv", "MatMul", "Gemm", "Reshape", "Transpose", "Softmax", "LayerNormalization", "Attention",
    "Split",
    "Concat", "Slice", "Gather", "Expand", "Resize", "Squeeze", "Unsqueeze", "Shape", "Cast", "Constant", "If", "Loop",
    "ConstantOfShape", "Range", "Tile", "Where", "ReduceProd", "Flatten", "Identity", "GatherND", "ArgMax", "Nope", "",
    "InstanceNormalization", "GroupNormalization", "Gelu", "Pow", "Div", "Trilu", "Mod", "Equal", "CastLike", "Size",
)  # fmt: skip
ATTRIBUTES = (
    "axis", "axes", "perm", "to", "group", "pads", "strides", "dilations", "auto_pad", "epsilon", "num_groups", "value",
    "keepdims", "mode", "scale", "is_causal", "num_outputs", "allowzero", "start", "end", "alpha", "transA", "body",
)  # fmt: skip


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    """One to four faults of a transfer: flipped bits, cut, repeated, moved or overwritten pieces."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out) + 1)
        size = rng.choice((1, 1, 2, 4, 8, 64, 500))
        kind = rng.randrange(6)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del out[at : at + size]
        elif kind == 2:
            out[at:at] = out[at : at + size]
        elif kind == 3:
            out[at : at + size] = rng.randbytes(size)
        elif kind == 4:
            out[at : at + 8] = rng.choice(NUMBERS).to_bytes(8, "little", signed=True)[: rng.choice((1, 2, 4, 8))]
        elif rng.random() < 0.3:
            del out[at:]
    return bytes(out)


def mutate_json(rng: random.Random, value: Any) -> Any:
    """One to three values replaced, left out, added or moved, anywhere in a JSON value."""
    value = copy.deepcopy(value)
    for _ in range(rng.randint(1, 3)):
        places = list(_places(value))
        if not places:
            return rng.choice(VALUES)
        holder, key = rng.choice(places)
        kind = rng.randrange(8)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[rng.choice(("x", "", "__metadata__", str(key) + "x"))] = copy.deepcopy(holder[key])
        elif kind == 1:
            holder.insert(key, copy.deepcopy(holder[key]))
        elif kind == 2:
            other, name = rng.choice(places)
            if isinstance(other, dict) and name in other:
                holder[key] = copy.deepcopy(other[name])
        elif kind == 3 and isinstance(holder[key], int):
            holder[key] += rng.choice((-1, 1, 8, -8))
        elif kind == 4 and isinstance(holder[key], int | float):
            holder[key] = rng.choice(NUMBERS)
        else:
            holder[key] = copy.deepcopy(rng.choice(VALUES))
    return value


def _places(value: Any) -> Any:
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


_NUMBER = re.compile(r"(?<![%#A-Za-z_.\d])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|(?<=x)\d+(?=x)")
_KINDS = {
    "value": re.compile(r"%[\w]+"),
    "type": re.compile(r"tensor<[^<>]*>|![\w.]+<[^<>]*>"),
    "element": re.compile(r"(?<=[x<])(?:f16|f32|i8|i32|i64|i1)\b"),
    "operation": re.compile(r"\b(?:dpu|func|tile)\.[\w.]+"),
    "string": re.compile(r'"[^"\n]*"'),
    "word": re.compile(r"[A-Za-z_][\w.]*"),
    "attribute": re.compile(r"\w+ = [^,{}]+"),
}
"""What one piece of a module may be replaced by another piece of."""


def mutate_text(rng: random.Random, text: str) -> str:
    """One to three faults of someone who edits a module: numbers, names, types, lines, sometimes characters."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kind = rng.randrange(12)
        if kind <= 3:
            text = _renumber(rng, text, everywhere=kind >= 2)
        elif kind <= 7:
            text = _exchange(rng, text, rng.choice(list(_KINDS)))
        elif kind <= 9:
            lines = text.split("\n")
            i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            if kind == 9:
                lines[i], lines[j] = lines[j], lines[i]
            else:
                del lines[i]
            text = "\n".join(lines)
        else:
            at = rng.randrange(len(text) + 1)
            new = rng.choice((*"{}()<>[]:,='%@#!?\x00é\\/\"", ""))
            text = text[:at] + new + text[at + rng.choice((0, 0, 1, 5)) :]
    return text


def _renumber(rng: random.Random, text: str, everywhere: bool) -> str:
    """Another number in one place, or in all types that name it, so that the module may stay consistent."""
    found = list(_NUMBER.finditer(text))
    if not found:
        return text
    one = rng.choice(found)
    new = str(rng.choice((rng.randint(1, 8), rng.randint(1, 64), int(one[0]) * 2 if one[0].isdecimal() else 1)))
    if rng.random() < 0.2:
        new = rng.choice((str(rng.choice(NUMBERS)), "1.0e400", "-0.5", "nan"))
    if everywhere and one[0].isdecimal():
        return re.sub(rf"(?<=[x<]){one[0]}(?=x)", new.lstrip("-"), text)
    return text[: one.start()] + new + text[one.end() :]


def _exchange(rng: random.Random, text: str, kind: str) -> str:
    found = list(_KINDS[kind].finditer(text))
    if not found:
        return text
    one, other = rng.choice(found), rng.choice(found)[0]
    if kind == "string" and rng.random() < 0.3:
        other = rng.choice(('""', '"x"', '"quick_gelu"', '"\\22"', '"a::b"', '"transpose:9,9"', '"rows:5:1"'))
    if kind == "attribute" and rng.random() < 0.5:
        other = ""
    if kind in ("type", "element", "operation", "string") and rng.random() < 0.5:
        return text.replace(one[0], other)
    return text[: one.start()] + other + text[one.end() :]


def mutate_onnx(rng: random.Random, model: ModelProto) -> bytes:
    """One to three changes of the structure of a model that keep it a protobuf."""
    out = ModelProto()
    out.CopyFrom(model)
    for _ in range(rng.choice((1, 1, 2, 3))):
        rng.choice(_STRUCTURE)(rng, out)
    return bytes(out.SerializeToString())


def _node(rng: random.Random, model: ModelProto) -> Any:
    return rng.choice(model.graph.node) if model.graph.node else model.graph.node.add()


def _names(graph: GraphProto) -> list[str]:
    found = [n for node in graph.node for n in [*node.input, *node.output]]
    return [*found, *(t.name for t in graph.initializer), *(v.name for v in graph.input), ""]


def _drop(rng: random.Random, items: MutableSequence[Any]) -> None:
    if items:
        del items[rng.randrange(len(items))]


def _operator(rng: random.Random, model: ModelProto) -> None:
    _node(rng, model).op_type = rng.choice(OPERATORS)


def _domain(rng: random.Random, model: ModelProto) -> None:
    _node(rng, model).domain = rng.choice(("ai.onnx", "com.microsoft", "x"))


def _edge(rng: random.Random, model: ModelProto) -> None:
    node = _node(rng, model)
    ends = rng.choice((node.input, node.input, node.output))
    if ends:
        ends[rng.randrange(len(ends))] = rng.choice(_names(model.graph))


def _edges(rng: random.Random, model: ModelProto) -> None:
    node = _node(rng, model)
    ends = rng.choice((node.input, node.output))
    if rng.random() < 0.5:
        _drop(rng, ends)
    else:
        ends.append(rng.choice(_names(model.graph)))


def _nodes(rng: random.Random, model: ModelProto) -> None:
    nodes = model.graph.node
    if not nodes:
        return
    kind = rng.randrange(3)
    if kind == 0:
        _drop(rng, nodes)
    elif kind == 1:
        nodes.add().CopyFrom(rng.choice(nodes))
    else:
        order = list(nodes)
        rng.shuffle(order)
        del nodes[:]
        nodes.extend(order)


def _attribute(rng: random.Random, model: ModelProto) -> None:
    node = _node(rng, model)
    if node.attribute and rng.random() < 0.3:
        _drop(rng, node.attribute)
        return
    if node.attribute and rng.random() < 0.3:
        one = rng.choice(node.attribute)
        one.type = rng.choice(AttributeProto.AttributeType.values())
        return
    name = rng.choice([a.name for a in node.attribute] * 3 + list(ATTRIBUTES))
    for i in reversed([i for i, a in enumerate(node.attribute) if a.name == name]):
        del node.attribute[i]
    value: Any = rng.choice(
        (*NUMBERS, 0.5, 1e30, "x", "SAME_UPPER", [0], [1, 0], [1, -1, 1 << 40], [2, 2, 2, 2], [-9] * 4)
    )
    if rng.random() < 0.1:
        value = GraphProto()  # a graph where a number belongs
        value.CopyFrom(model.graph)
    node.attribute.append(helper.make_attribute(name, value))


def _initializer(rng: random.Random, model: ModelProto) -> None:
    tensors = model.graph.initializer
    if not tensors:
        return
    one = rng.choice(tensors)
    kind = rng.randrange(8)
    if kind == 0:
        _drop(rng, tensors)
    elif kind == 1 and one.dims:
        one.dims[rng.randrange(len(one.dims))] = rng.choice(NUMBERS)
    elif kind == 2:
        one.dims.append(rng.choice(NUMBERS))
    elif kind == 3:
        one.data_type = rng.choice(TensorProto.DataType.values())
    elif kind == 4:
        one.raw_data = one.raw_data[: rng.randrange(len(one.raw_data) + 1)]
    elif kind == 5:
        one.name = rng.choice(_names(model.graph))
    elif kind == 6:
        one.raw_data = rng.randbytes(len(one.raw_data))
    else:
        one.data_location = TensorProto.EXTERNAL
        places = ("nosuch.bin", "../x", "/etc/hostname", "", ".", "model.onnx")
        for key, value in (("location", rng.choice(places)), ("offset", str(rng.choice(NUMBERS))), ("length", "x")):
            if rng.random() < 0.7:
                one.external_data.add(key=key, value=value)


def _boundary(rng: random.Random, model: ModelProto) -> None:
    values = rng.choice((model.graph.input, model.graph.output))
    if not values:
        return
    one = rng.choice(values)
    dims = one.type.tensor_type.shape.dim
    kind = rng.randrange(7)
    if kind == 0:
        _drop(rng, values)
    elif kind == 1 and dims:
        rng.choice(dims).dim_value = rng.choice(NUMBERS)
    elif kind == 2 and dims:
        rng.choice(dims).dim_param = rng.choice(("batch", "", "1", "é"))
    elif kind == 3:
        one.type.tensor_type.elem_type = rng.choice(TensorProto.DataType.values())
    elif kind == 4:
        one.name = rng.choice(_names(model.graph))
    elif kind == 5:
        one.ClearField("type")
    else:
        dims.add().dim_value = rng.choice(NUMBERS)


def _model(rng: random.Random, model: ModelProto) -> None:
    kind = rng.randrange(5)
    if kind == 0 and model.opset_import:
        model.opset_import[0].version = rng.choice((0, 1, 13, 17, 20, 24, 99, -1))
    elif kind <= 1:
        del model.opset_import[:]
    elif kind == 2:
        model.ir_version = rng.choice(NUMBERS)
    elif kind == 3:
        model.ClearField("graph")
    else:
        node = _node(rng, model)
        inner = helper.make_node(node.op_type, list(node.input), list(node.output), domain=rng.choice(("x", "")))
        function = helper.make_function(
            "x", node.op_type, list(node.input), list(node.output), [inner], [helper.make_opsetid("", 23)]
        )
        model.functions.append(function)
        node.domain = "x"  # where the inner node is of the same domain, the function calls itself


_STRUCTURE: tuple[Callable[[random.Random, ModelProto], None], ...] = (
    _operator, _operator, _domain, _edge, _edge, _edges, _nodes, _attribute, _attribute, _initializer, _initializer,
    _boundary, _boundary, _model,
)  # fmt: skip
