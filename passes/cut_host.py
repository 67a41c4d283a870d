"""Token lookup and end-of-text pick of a text encoder run on the host; what is left is a stack of layers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from ..ir.graph import ParamOp, shape_of
from ..ir.locations import fuse, name_hint
from ..ir.tensor import (
    ELEMENTWISE,
    ArgmaxOp,
    ConcatOp,
    ConstantOp,
    GatherNdOp,
    GatherOp,
    LinearOp,
    ReshapeOp,
    static_input,
)
from .host_segments import add_segment
from .match import AddOp, tensor, transforms
from .merge_duplicates import remove_dead

NAME = "dpu.name"
Cast, Equal = ELEMENTWISE["cast"], ELEMENTWISE["equal"]


@dataclass(frozen=True)
class CutHost(ModulePass):
    """Cut token and position lookup and the end-of-text pick out of text encoders: they run on the host."""

    name = "cut-host"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.ops:
            if isinstance(func, FuncOp):
                for each in list(func.body.block.ops):
                    if isinstance(each, GatherOp) and isinstance(each.x.owner, ParamOp):
                        _cut_lookup(op, func, each)
                    elif isinstance(each, (GatherOp, GatherNdOp)):
                        _cut_pick(op, func, each)
                remove_dead(func.body.block)
                _drop_unused_integers(func)


def _cut_lookup(module: ModuleOp, func: FuncOp, gather: GatherOp) -> None:
    """`gather(table, ids) + positions` -> an argument `<ids>.embedded`."""
    ids = _through(gather.indices)
    if not isinstance(ids, BlockArgument) or not isinstance(gather.x.owner, ParamOp) or gather.axis.value.data != 0:
        return
    y: SSAValue = gather.y
    last: Operation = gather
    position = None
    if y.has_one_use():
        add = next(iter(y.uses)).operation
        other = next((v for v in add.operands if v is not y), None)
        table = other.owner if other is not None else None
        if isinstance(add, AddOp) and isinstance(table, ParamOp) and _is_positions(table, shape_of(y)):
            last, y, position = add, add.results[0], table
    name = _arg_name(func, ids)
    arg = func.body.block.insert_arg(tensor(shape_of(y), gather.y), ids.index + 1)
    arg.name_hint = name_hint(f"{name}_embedded")
    arg.location = fuse(gather.location, last.location)
    _name_argument(func, arg.index, f"{name}.embedded")
    y.replace_all_uses_with(arg)
    more = {"position": position.source} if position else {}
    add_segment(
        module,
        kind="embedding",
        entry=func.sym_name.data,
        input=name,
        output=f"{name}.embedded",
        table=gather.x.owner.source,
        **more,
    )


def _is_positions(table: ParamOp, shape: tuple[int, ...]) -> bool:
    """Whether a stored table is read from its first row on, one row a token, the same for all samples."""
    steps = transforms(table)
    once = math.prod(shape_of(table.value)) == math.prod(shape[-2:])
    return once and all(step.startswith(("rows:0:", "reshape:")) for step in steps)


def _cut_pick(module: ModuleOp, func: FuncOp, pick: GatherOp | GatherNdOp) -> None:
    """`linear(x[b, end-of-text])` -> `linear(x)` of all tokens as a result; the host takes the row.

    The linear works on each token alone, so picking after it gives the same row.
    """
    found = _pick_of(pick)
    if found is None:
        return
    x, ids, token = found
    y: SSAValue = pick.y
    operations: list[Operation] = [pick]
    while y.has_one_use() and isinstance(use := next(iter(y.uses)).operation, (LinearOp, Cast)):
        operations.append(use)
        y = use.results[0]
    last = func.body.block.last_op
    uses = [u for u in y.uses if isinstance(u.operation, ReturnOp)]
    if len(uses) != 1 or len(list(y.uses)) != 1 or last is None:
        return
    for op in operations[1:]:
        kind = tensor((*shape_of(x)[:2], shape_of(op.results[0])[-1]), op.results[0])
        if isinstance(op, LinearOp):
            new: Operation = LinearOp(
                operands=[x, op.w, op.bias], properties={"geglu": op.geglu, **static_input(op)}, result_types=[kind]
            )
        else:
            new = Cast(operands=[x], result_types=[kind])
        new.location = fuse(pick.location, op.location)
        func.body.block.insert_op_before(new, last)
        x = new.results[0]
    index = uses[0].index
    last.operands[index] = x
    name = _result_name(func, index)
    _set_result(func, index, f"{name}.tokens")
    more = {"token": token} if token is not None else {}
    arguments = {"ids": _arg_name(func, ids), "input": f"{name}.tokens", "output": name}
    add_segment(module, kind="pick", entry=func.sym_name.data, **arguments, **more)


def _pick_of(pick: GatherOp | GatherNdOp) -> tuple[SSAValue, BlockArgument, int | None] | None:
    """(x, ids, token) when the pick is row `place` of each sample of x: samples x tokens x channels.

    Written as GatherND at (sample, place), or as Gather of the rows of all samples at `sample * tokens + place`.
    """
    samples, indices = shape_of(pick.indices)[0], pick.indices.owner
    x, parts, step = pick.x, [pick.indices], 1
    if isinstance(pick, GatherNdOp):
        parts = list(indices.xs) if isinstance(indices, ConcatOp) else []
    elif isinstance(x.owner, ReshapeOp) and len(shape_of(x.owner.x)) == 3:
        x = x.owner.x
        step = shape_of(x)[1]
        if isinstance(indices, AddOp):
            parts = sorted(indices.operands, key=lambda v: not isinstance(v.owner, ConstantOp))
        elif samples == 1:  # adding zero to the only place was left out
            return None if (found := _place_of(_through(pick.indices).owner)) is None else (x, *found)
    if len(parts) != 2 or len(shape_of(x)) != 3 or not isinstance(rows := parts[0].owner, ConstantOp):
        return None
    found = _place_of(_through(parts[1]).owner)
    if found is None or rows.floats() != [float(i * step) for i in range(samples)]:
        return None
    return x, *found


def _place_of(place: object) -> tuple[BlockArgument, int | None] | None:
    """(ids, token) when the operation finds the first `token` in each row of ids, or the highest id."""
    if not isinstance(place, ArgmaxOp):
        return None
    source = _through(place.x)
    if isinstance(source, BlockArgument):
        return source, None
    if isinstance(source.owner, Equal):
        a, b = source.owner.operands
        ids, token = _through(a), b.owner
        if isinstance(ids, BlockArgument) and isinstance(token, ConstantOp) and (value := token.scalar()) is not None:
            return ids, int(value)
    return None


def _through(value: SSAValue) -> SSAValue:
    """The value behind casts and reshapes."""
    while isinstance(value.owner, (Cast, ReshapeOp)):
        value = value.owner.operands[0]
    return value


def _arg_name(func: FuncOp, arg: BlockArgument) -> str:
    attrs = func.arg_attrs.data[arg.index].data if func.arg_attrs else {}
    name = attrs.get(NAME)
    return name.data if isinstance(name, StringAttr) else arg.name_hint or f"arg{arg.index}"


def _result_name(func: FuncOp, index: int) -> str:
    name = func.res_attrs.data[index].data.get(NAME) if func.res_attrs else None
    return name.data if isinstance(name, StringAttr) else f"out{index}"


def _retype(func: FuncOp) -> None:
    block = func.body.block
    assert block.last_op is not None
    func.function_type = FunctionType.from_lists([a.type for a in block.args], [v.type for v in block.last_op.operands])


def _name_argument(func: FuncOp, index: int, name: str) -> None:
    attrs = list(func.arg_attrs.data) if func.arg_attrs else [DictionaryAttr({})] * (len(func.body.block.args) - 1)
    func.arg_attrs = ArrayAttr([*attrs[:index], DictionaryAttr({NAME: StringAttr(name)}), *attrs[index:]])
    _retype(func)


def _set_result(func: FuncOp, index: int, name: str) -> None:
    assert func.body.block.last_op is not None
    attrs = (
        list(func.res_attrs.data) if func.res_attrs else [DictionaryAttr({})] * len(func.body.block.last_op.operands)
    )
    attrs[index] = DictionaryAttr({**attrs[index].data, NAME: StringAttr(name)})
    func.res_attrs = ArrayAttr(attrs)
    _retype(func)


def _drop_unused_integers(func: FuncOp) -> None:
    """Token ids that only the host reads are no arguments any more."""
    block = func.body.block
    for arg in reversed(list(block.args)):
        if not any(True for _ in arg.uses) and not str(arg.type).endswith(("f16>", "f32>")):
            if func.arg_attrs:
                attrs = list(func.arg_attrs.data)
                del attrs[arg.index]
                func.arg_attrs = ArrayAttr(attrs)
            block.erase_arg(arg)
            _retype(func)
