"""Names of a function's arguments and results: the attribute `dpu.name`, else the name in the text, else a number."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

NAME = "dpu.name"


def argument_names(f: FuncOp) -> list[str]:
    """Names of the arguments, `argN` where there is none."""
    return _names(f.arg_attrs, list(f.body.block.args), "arg")


def result_names(f: FuncOp) -> list[str]:
    """Names of the results, `outN` where there is none."""
    last = f.body.block.last_op
    return _names(f.res_attrs, list(last.operands) if last else [], "out")


def set_argument_names(f: FuncOp, names: Sequence[str]) -> None:
    """Store the names of all arguments as attributes."""
    f.properties["arg_attrs"] = _attributes(names)


def set_result_names(f: FuncOp, names: Sequence[str]) -> None:
    """Store the names of all results as attributes."""
    f.properties["res_attrs"] = _attributes(names)


def _attributes(names: Sequence[str]) -> ArrayAttr[DictionaryAttr]:
    return ArrayAttr([DictionaryAttr({NAME: StringAttr(n)}) for n in names])


def _names(attributes: ArrayAttr[DictionaryAttr] | None, values: list[SSAValue], prefix: str) -> list[str]:
    stored = [d.data.get(NAME) for d in attributes] if attributes is not None else [None] * len(values)
    return [
        a.data if isinstance(a, StringAttr) else v.name_hint or f"{prefix}{i}"
        for i, (a, v) in enumerate(zip(stored, values, strict=True))
    ]
