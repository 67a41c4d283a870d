"""Tensor dialect to canonical form: one walk that follows each tensor's layout instead of moving its elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from ..errors import DpuError
from ..ir import graph as g
from ..ir import tensor as t
from ..ir.graph import ints, shape_of
from ..ir.locations import where
from .match import element, parameter, transforms
from .views import Atom, Dim, View, canonical_size, input_view, merge, whole

KEY_BLOCK, PROB_BITS = 1024, 8
"""Attention's numerics unless a policy says otherwise."""


@dataclass(frozen=True)
class Canonicalise(ModulePass):
    """Turn imported tensors into samples x tokens x channels, in one order; reshapes and transposes disappear."""

    name = "canonicalise"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in list(op.ops):
            if isinstance(func, FuncOp) and any(o.name.startswith("dpu.t.") for o in func.walk()):
                _Walk(func).run()


class _Walk:
    """The state of one walk over one function."""

    def __init__(self, func: FuncOp) -> None:
        self.func = func
        self.views: dict[SSAValue, View] = {}
        self.block = Block()

    def run(self) -> None:
        old = self.func.body.block
        attrs = []
        for i, arg in enumerate(old.args):
            shape = shape_of(arg)
            size = canonical_size(shape)
            if size is None:
                raise self.error(
                    self.func, f"input {i} has {len(shape)} dimensions", "samples, channels, height, width"
                )
            new = self.block.insert_arg(TensorType(element(arg), list(size)), i)
            new.name_hint, new.location = arg.name_hint, arg.location
            self.views[arg] = input_view(new, shape)
            given = self.func.arg_attrs.data[i].data if self.func.arg_attrs else {}
            attrs.append(self.boundary(given, self.views[arg]))
        for op in old.ops:
            self.visit(op)
        last = old.last_op
        assert isinstance(last, ReturnOp)
        results = [self.views[v] for v in last.operands]
        put_in_order(self.block, [v.value for v in results])
        self.block.add_op(ReturnOp(*(v.value for v in results)))
        given_results = self.func.res_attrs.data if self.func.res_attrs else [DictionaryAttr({})] * len(results)
        res_attrs = [self.boundary(d.data, v) for d, v in zip(given_results, results, strict=True)]
        new_func = FuncOp(
            self.func.sym_name.data,
            FunctionType.from_lists([a.type for a in self.block.args], [v.value.type for v in results]),
            Region(self.block),
            arg_attrs=ArrayAttr(attrs),
            res_attrs=ArrayAttr(res_attrs),
        )
        new_func.location = self.func.location
        parent = self.func.parent
        assert parent is not None
        parent.insert_op_before(new_func, self.func)
        self.func.detach()
        self.func.erase(safe_erase=False)

    def boundary(self, given: Any, view: View) -> DictionaryAttr:
        """The attributes of an argument or result: its name, and the shape and layout that the host knows."""
        layout = view.layout()
        if layout is None:
            raise self.error(self.func, f"a result of shape {view.shape} mixes tokens and channels", "NCHW, NTC or NC")
        shape = DenseArrayBase.from_list(i64, list(view.shape))
        return DictionaryAttr({**given, "dpu.layout": StringAttr(layout), "dpu.shape": shape})

    def error(self, op: Operation, what: str, expected: str) -> DpuError:
        return DpuError(
            where(op),
            what,
            why=f"canonical form needs {expected}",
            hint="see the dump of the pass before `canonicalise`; a pattern of this exporter may be unknown",
            code="E203",
        )

    def visit(self, op: Operation) -> None:
        rule = _RULES.get(type(op))
        if isinstance(op, (ReturnOp, g.ParamOp, t.ConstantOp, t.CausalMaskOp)):
            return
        if rule is None:
            operands = ", ".join(str(shape_of(v)) for v in op.operands)
            raise DpuError(
                where(op),
                f"operation '{op.name}' on {operands} has no canonical form",
                why="the recognising passes left it over: it is no part of a linear, convolution, norm, attention or "
                "activation that the DPU runs",
                hint="export with diffusers' default attention processors, or add a pattern to passes/recognise_*.py",
                code="E203",
            )
        rule(self, op)

    def view(self, op: Operation, value: SSAValue) -> View:
        """Where an operand lies."""
        if value not in self.views:
            kind = "a stored parameter" if isinstance(value.owner, g.ParamOp) else "a constant"
            raise self.error(op, f"operand of shape {shape_of(value)} is {kind}", "computed data here")
        return self.views[value]

    def param(self, op: Operation, value: SSAValue | None) -> SSAValue | None:
        """A copy of a parameter, in front of the operation that reads it."""
        if value is None:
            return None
        owner = value.owner
        if isinstance(owner, t.ConstantOp) and owner.source:
            new = parameter(owner.source, [], owner.y.type)
        elif isinstance(owner, g.ParamOp):
            new = parameter(owner.source, transforms(owner), owner.value.type)
        else:
            raise self.error(op, f"a weight of shape {shape_of(value)} is computed", "weights stored in the model")
        new.location = op.location
        self.block.add_op(new)
        return new.value

    def emit(self, op: Operation, new: Operation) -> SSAValue:
        """Append a canonical operation for `op`."""
        new.location = op.location
        self.block.add_op(new)
        return new.results[0]


def put_in_order(block: Block, results: Sequence[SSAValue]) -> None:
    """Put operations in the order in which the results need them, whatever order the file had; the rest goes.

    Operands come in order before their reader, its parameters last; of the two sides of a sum the longer one comes
    first, so a shortcut follows what it bridges, as in the model's source.
    """
    depth: dict[SSAValue, int] = {}
    for op in block.ops:
        step = 0 if isinstance(op, (g.ParamOp, g.ConcatOp)) else 1
        own = max((depth.get(v, 0) for v in op.operands), default=0) + step
        depth.update((r, own) for r in op.results)
    ordered: dict[Operation, None] = {}
    todo = [v.owner for v in reversed(results)]
    while todo:
        op = todo[-1]
        if not isinstance(op, Operation) or op in ordered:
            todo.pop()
            continue
        needed = [v for v in op.operands if isinstance(v.owner, Operation) and v.owner not in ordered]
        if isinstance(op, g.AddOp):
            needed.sort(key=lambda v: -depth[v])
        needed.sort(key=lambda v: isinstance(v.owner, g.ParamOp))
        if needed:
            todo += [v.owner for v in reversed(needed)]
        else:
            ordered[op] = None
            todo.pop()
    for op in reversed([op for op in block.ops if op not in ordered]):
        op.detach()
        op.erase()
    for op in ordered:
        op.detach()
        block.add_op(op)


def _type(result: SSAValue, b: int, tokens: int, c: int) -> TensorType[Attribute]:
    return TensorType(element(result), [b, tokens, c])


def _int(x: int) -> IntegerAttr:
    return IntegerAttr(x, i64)


def _check(walk: _Walk, op: Operation, ok: bool, view: View, expected: str) -> None:
    if not ok:
        raise walk.error(op, f"operand of shape {view.shape} lies across samples, tokens and channels", expected)


def _image(walk: _Walk, op: Operation, value: SSAValue) -> tuple[View, int, int]:
    """The view of an NCHW operand, its height and width."""
    x = walk.view(op, value)
    _check(walk, op, len(x.dims) == 4 and x.layout() == "NCHW", x, "samples x channels x height x width")
    return x, x.shape[2], x.shape[3]


def _conv(walk: _Walk, op: t.ConvOp) -> None:
    x, h, w = _image(walk, op, op.x)
    stride = ints(op.stride)
    if stride[0] != stride[1]:
        raise walk.error(op, f"stride {stride}", "the same stride both ways")
    n, ho, wo = shape_of(op.y)[1:]
    new = g.ConvOp(
        operands=[x.value, None, walk.param(op, op.w), walk.param(op, op.bias), None, None],
        properties={
            "height": _int(h),
            "width": _int(w),
            "stride": _int(stride[0]),
            "pad": op.pad,
            **t.static_input(op),
        },
        result_types=[_type(op.y, x.size[0], ho * wo, n)],
    )
    walk.views[op.y] = input_view(walk.emit(op, new), shape_of(op.y))


def _rows(walk: _Walk, op: Operation, value: SSAValue) -> View:
    """The view of an operand whose last dimension is the channels and whose others are samples and tokens."""
    x = walk.view(op, value)
    ok = x.covers(x.dims[-1:], "c") and x.covers(x.dims[:-1], "bt")
    _check(walk, op, ok, x, "the channels as the last dimension")
    return x


def _linear(walk: _Walk, op: t.LinearOp) -> None:
    x = _rows(walk, op, op.x)
    n = shape_of(op.y)[-1]
    new = g.LinearOp(
        operands=[x.value, None, walk.param(op, op.w), walk.param(op, op.bias), None],
        properties={"geglu": op.geglu, **t.static_input(op)},
        result_types=[_type(op.y, *x.size[:2], n)],
    )
    walk.views[op.y] = View(walk.emit(op, new), (*x.dims[:-1], whole("c", n)))


def _layer_norm(walk: _Walk, op: t.LayerNormOp) -> None:
    x = _rows(walk, op, op.x)
    new = g.LayerNormOp(
        operands=[x.value, walk.param(op, op.gamma), walk.param(op, op.beta)],
        properties={"eps": op.eps},
        result_types=[_type(op.y, *x.size)],
    )
    walk.views[op.y] = x.on(walk.emit(op, new))


def _group_norm(walk: _Walk, op: t.GroupNormOp) -> None:
    x = walk.view(op, op.x)
    ok = x.covers(x.dims[:1], "b") and x.covers(x.dims[1:2], "c") and x.covers(x.dims[2:], "t")
    _check(walk, op, ok, x, "samples x channels x pixels")
    new = g.GroupNormOp(
        operands=[x.value, None, walk.param(op, op.gamma), walk.param(op, op.beta)],
        properties={"groups": op.groups, "eps": op.eps},
        result_types=[_type(op.y, *x.size)],
    )
    walk.views[op.y] = x.on(walk.emit(op, new))


def _attention(walk: _Walk, op: t.AttentionOp) -> None:
    views = [walk.view(op, v) for v in (op.q, op.k, op.v)]
    for v in views:
        samples, head, tokens, channels = v.dims
        ok = v.covers((samples,), "b") and v.covers((tokens,), "t") and v.covers((head, channels), "c")
        _check(walk, op, ok, v, "samples x heads x tokens x head dimension")
    q, k, v = views
    heads, d = shape_of(op.q)[1], shape_of(op.v)[3]
    new = g.AttentionOp(
        operands=[q.value, k.value, v.value],
        properties={
            "heads": _int(heads),
            "scale": op.scale,
            "key_block": _int(KEY_BLOCK),
            "prob_bits": _int(PROB_BITS),
            "causal": op.causal,
        },
        result_types=[_type(op.y, *q.size[:2], heads * d)],
    )
    dims: tuple[Dim, ...] = (q.dims[0], merge([Atom("c", d, heads)]), q.dims[2], merge([Atom("c", 1, d)]))
    walk.views[op.y] = View(walk.emit(op, new), dims)


def _sinusoid(walk: _Walk, op: t.SinusoidOp) -> None:
    x, half = walk.view(op, op.x), op.half.value.data
    atoms = merge(a for d in x.dims for a in d)
    repeats = atoms[0].size if atoms and atoms[0].axis == "*" else 0
    ok = x.dims[-1] == () and (x.covers(x.dims, "bc") or (len(atoms) == 1 and len(x.dims) == 2))
    _check(walk, op, ok and x.size[1] == 1, x, "a few scalars a sample")
    samples, scalars = repeats or x.size[0], x.size[2]
    new = g.SinusoidOp(
        operands=[x.value],
        properties={"half": op.half},
        result_types=[_type(op.y, samples, 1, scalars * 2 * half)],
    )
    dims: list[Dim] = (
        [whole("b", repeats)]
        if repeats
        else [merge(Atom("c", a.step * 2 * half, a.size) if a.axis == "c" else a for a in d) for d in x.dims[:-1]]
    )
    walk.views[op.y] = View(walk.emit(op, new), (*dims, whole("c", 2 * half)))


def _unary(kind: type[Operation]) -> Callable[[_Walk, Any], None]:
    def rule(walk: _Walk, op: Any) -> None:
        x = walk.view(op, op.x)
        new = kind(operands=[x.value], result_types=[_type(op.y, *x.size)])
        walk.views[op.y] = x.on(walk.emit(op, new))

    return rule


def _binary(kind: type[Operation]) -> Callable[[_Walk, Any], None]:
    def rule(walk: _Walk, op: Any) -> None:
        a, b = walk.view(op, op.a), walk.view(op, op.b)
        if len(b.dims) > len(a.dims) or b.size[1] > a.size[1]:
            a, b = b, a
        padded = ((),) * (len(a.dims) - len(b.dims)) + b.dims
        same = all(x == y or (y == () and all(z.axis == "t" for z in x)) for x, y in zip(a.dims, padded, strict=True))
        fits = b.size == a.size if a.dims == padded else b.size == (a.size[0], 1, a.size[2])
        _check(walk, op, same and fits, b, f"the layout of the other operand, {a.shape}, or one value a channel")
        new = kind(operands=[a.value, b.value], result_types=[_type(op.y, *a.size)])
        walk.views[op.y] = a.on(walk.emit(op, new))

    return rule


def _concat(walk: _Walk, op: t.ConcatOp) -> None:
    axis = op.axis.value.data
    parts = [walk.view(op, x) for x in op.xs]
    rest = parts[0].dims[:axis] + parts[0].dims[axis + 1 :]
    for v in parts:
        ok = v.covers(v.dims[axis : axis + 1], "c") and v.dims[:axis] + v.dims[axis + 1 :] == rest
        _check(walk, op, ok and v.size[:2] == parts[0].size[:2], v, "a concatenation of channels")
    value, c = parts[0].value, parts[0].size[2]
    for v in parts[1:]:
        c += v.size[2]
        result = _type(op.y, *v.size[:2], c)
        value = walk.emit(op, g.ConcatOp(operands=[value, v.value], result_types=[result]))
    dims = parts[0].dims
    walk.views[op.y] = View(value, (*dims[:axis], whole("c", c), *dims[axis + 1 :]))


def _resize(walk: _Walk, op: t.ResizeOp) -> None:
    x, h, w = _image(walk, op, op.x)
    if shape_of(op.y)[2:] != (2 * h, 2 * w):
        raise walk.error(op, f"enlargement from {h} x {w} to {shape_of(op.y)[2:]}", "a factor of two both ways")
    new = g.UpsampleOp(
        operands=[x.value],
        properties={"height": _int(h), "width": _int(w)},
        result_types=[_type(op.y, x.size[0], 4 * h * w, x.size[2])],
    )
    walk.views[op.y] = input_view(walk.emit(op, new), shape_of(op.y))


def _reshape(walk: _Walk, op: t.ReshapeOp) -> None:
    if op.x not in walk.views:
        return  # a parameter: its reader copies it
    x = walk.view(op, op.x)
    y = x.reshape(shape_of(op.y))
    if y is None:
        raise walk.error(op, f"reshape from {x.shape} to {shape_of(op.y)}", "dimensions that divide evenly")
    walk.views[op.y] = y


def _transpose(walk: _Walk, op: t.TransposeOp) -> None:
    walk.views[op.y] = walk.view(op, op.x).transpose(ints(op.perm))


def _expand(walk: _Walk, op: t.ExpandOp) -> None:
    x, shape = walk.view(op, op.x), shape_of(op.y)
    dims = ((),) * (len(shape) - len(x.dims)) + x.dims
    new: Sequence[Dim] = [d if d or n == 1 else (Atom("*", 0, n),) for d, n in zip(dims, shape, strict=True)]
    walk.views[op.y] = View(x.value, tuple(new))


def _cast(walk: _Walk, op: Any) -> None:
    walk.views[op.y] = walk.view(op, op.x)


_RULES: dict[type[Operation], Callable[[_Walk, Any], None]] = {
    t.ConvOp: _conv,
    t.LinearOp: _linear,
    t.LayerNormOp: _layer_norm,
    t.GroupNormOp: _group_norm,
    t.AttentionOp: _attention,
    t.SinusoidOp: _sinusoid,
    t.ELEMENTWISE["silu"]: _unary(g.SiluOp),
    t.ELEMENTWISE["gelu"]: _unary(g.GeluOp),
    t.ELEMENTWISE["quick_gelu"]: _unary(g.QuickGeluOp),
    t.ELEMENTWISE["add"]: _binary(g.AddOp),
    t.ELEMENTWISE["mul"]: _binary(g.MulOp),
    t.ELEMENTWISE["cast"]: _cast,
    t.ConcatOp: _concat,
    t.ResizeOp: _resize,
    t.ReshapeOp: _reshape,
    t.TransposeOp: _transpose,
    t.ExpandOp: _expand,
}
