"""One stable, unique name an operation: calibration files, source maps and reports use the same."""

from __future__ import annotations

from collections import Counter

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from .locations import nodes_of


def op_names(scope: ModuleOp | FuncOp) -> dict[Operation, str]:
    """A name for each operation under `scope`: its last ONNX node, else function and IR name; `#2` tells equals apart.

    The count starts anew in each function, so the names of a function do not depend on the others.
    """
    functions = [scope] if isinstance(scope, FuncOp) else [op for op in scope.ops if isinstance(op, FuncOp)]
    names: dict[Operation, str] = {}
    for function in functions:
        seen: Counter[str] = Counter()
        for op in function.body.block.ops:
            base = (nodes_of(op) or (f"{function.sym_name.data}/{op.name}",))[-1]
            seen[base] += 1
            names[op] = base if seen[base] == 1 else f"{base}#{seen[base]}"
    return names
