"""Quantise: float canonical operations become the quantised ones, in a policy's precisions, scales from calibration.

Convolutions take static scales, linears dynamic ones for each token or static ones, attention a static scale a head
(keys) and a channel (values). Linears that feed one attention and share their input become sections of one operation.
Statistics are asked of the producer wherever it can give them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f16, f32, i8
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from ..errors import DpuError
from ..ir import graph as g
from ..ir import qgraph as q
from ..ir.arch import Arch, load_arch
from ..ir.locations import where
from ..ir.naming import op_names
from ..ir.signature import argument_names, result_names, set_argument_names, set_result_names
from . import quantise_layers as layers
from .calibration import statistic_name
from .derived import Derived, Statistics, fetcher
from .policy import Choices, choose_policy
from .quantise_attention import argument_name, attention
from .quantise_function import Function, scale_of, tensor
from .unsupported import check

__all__ = ["Derived", "Quantise", "Statistics", "fetcher", "quantise", "scale_of"]


@dataclass(frozen=True)
class Quantise(ModulePass):
    """Turn float operations into quantised ones of a policy's precisions, with scales from calibration."""

    name = "quantise"

    arch: str = "dpu_tiny"
    policy: str = ""  # a shipped policy or a file; by default w8a8, probabilities as the graph has them

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        choices: Choices | None = None
        if self.policy:
            file = Path(self.policy) if self.policy.endswith(".json") else None
            choices = Choices(choose_policy(None if file else self.policy, file))
        quantise(op, load_arch(self.arch), None, {}, choices=choices)
        if choices is not None:
            choices.check()


def quantise(
    module: ModuleOp,
    arch: Arch,
    statistics: Statistics | None,
    derived: Derived,
    part: str = "unet",
    choices: Choices | None = None,
) -> None:
    """Rewrite every function of `module`. Without statistics every maximum is taken as one.

    `choices` say each layer's precision; without them it is w8a8, with probabilities as the graph has them.

    `derived` receives the arrays behind parameters with source `derived::...` (scales of keys and values). Statistics
    of parts other than the UNet carry the part's name before the operation's.

    Raises:
        DpuError: an operation has no quantised form, named with its ONNX node.
    """
    names = {op: statistic_name(part, name) for op, name in op_names(module).items()}
    precisions = choices.of_module(module, names, part) if choices is not None else {}
    functions = [f for f in module.ops if isinstance(f, FuncOp)]
    state = _cross_function_values(functions)
    returned_kv: dict[str, tuple[g.AttentionOp, str]] = {}
    for f in functions:
        for op in f.body.block.ops:
            if isinstance(op, g.AttentionOp):
                for role in ("k", "v"):
                    value = getattr(op, role)
                    if isinstance(value, BlockArgument):
                        returned_kv[argument_name(f, value)] = (op, role)
    for f in functions:
        _rewrite(Function(f, arch, statistics, derived, names, returned_kv, state, part, precisions, choices))
    module.verify()


def _cross_function_values(functions: list[FuncOp]) -> dict[str, Attribute]:
    """Names that one function returns and another takes."""
    returned = {n for f in functions for n in result_names(f)}
    return {n: f16 for f in functions for n in argument_names(f) if n in returned}


def _rewrite(f: Function) -> None:
    if f.func.arg_attrs is None:
        set_argument_names(f.func, argument_names(f.func))
    if f.func.res_attrs is None:
        set_result_names(f.func, result_names(f.func))
    for op in list(f.block.ops):
        f.anchor = op
        if op in f.done or isinstance(op, g.ParamOp):
            continue
        if isinstance(op, ReturnOp):
            _return(f, op)
            break
        rule = _RULES.get(type(op))
        if rule is None:
            raise DpuError(
                where(op),
                f"'{op.name}' of {' and '.join('x'.join(map(str, g.shape_of(v))) for v in op.operands)}",
                why="it has no quantised form on the DPU",
                hint="run the graph passes first (dpuc passes lists them), or keep this part on the host",
                code="E220",
            )
        check(op)
        rule(f, op)
    _retype_arguments(f)
    for op in reversed(list(f.block.ops)):
        if type(op) in _RULES:
            f.block.erase_op(op, safe_erase=False)
    for op in reversed(list(f.block.ops)):
        if isinstance(op, g.ParamOp) and not op.value.uses:
            f.block.erase_op(op)


def _return(f: Function, op: ReturnOp) -> None:
    values, names = [], []
    stored = result_names(f.func)
    for v, name in zip(op.operands, stored, strict=True):
        values.append(f.value(v))
        names.append(name)
    for v, name in zip(op.operands, stored, strict=True):
        if v in f.mu:
            values.append(f.mu[v])
            names.append(f"{name}.mu")
    new = ReturnOp(*values)
    f.emit(new, op)
    f.block.erase_op(op)
    set_result_names(f.func, names)
    f.func.update_function_type()


def _retype_arguments(f: Function) -> None:
    """Arguments computed by another entry take the type that entry gives them."""
    for arg, name in list(zip(f.block.args, argument_names(f.func), strict=True)):
        if name in f.returned_kv:
            _retype(f, arg, i8)
        elif (name in f.state and g.shape_of(arg)[1] == 1) or _is_time_embedding(arg):
            _retype(f, arg, f32)
        elif not name.endswith(".mu"):
            _retype(f, arg, f16)
    f.func.update_function_type()


def _retype(f: Function, arg: BlockArgument, element: Attribute) -> None:
    shape = g.shape_of(arg)
    if cast(TensorType[Attribute], arg.type).element_type == element:
        return
    names = argument_names(f.func)
    new = f.block.insert_arg(tensor(shape, element), arg.index)
    new.name_hint = arg.name_hint
    arg.replace_all_uses_with(new)
    f.block.erase_arg(arg)
    set_argument_names(f.func, names)


def _is_time_embedding(value: SSAValue) -> bool:
    return any(isinstance(u.operation, q.QConvOp) and u.operation.temb is value for u in value.uses)


_RULES: dict[type[Operation], Any] = {
    g.ConvOp: layers.conv,
    g.GroupNormOp: layers.group_norm,
    g.LayerNormOp: layers.layer_norm,
    g.LinearOp: layers.linear,
    g.AttentionOp: attention,
    g.SiluOp: layers.silu,
}
