"""What does not change from step to step is not in the function that runs in every step."""

from __future__ import annotations

from pathlib import Path

from dpu.codegen.driver import graph_of
from dpu.ir.arch import load_arch
from dpu.ir.graph import ParamOp
from dpu.ir.signature import argument_names
from dpu.passes.quantise import quantise
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue


def inputs_by_operation(function: FuncOp) -> dict[str, set[str]]:
    """Of every operation that computes, the function's inputs that it depends on."""
    body = function.body.block
    needs: dict[SSAValue, set[str]] = {a: {n} for a, n in zip(body.args, argument_names(function), strict=True)}
    found = {}
    for number, op in enumerate(body.ops):
        needed = set().union(*(needs.get(v, set()) for v in op.operands))
        needs.update((r, needed) for r in op.results)
        if not isinstance(op, ParamOp | ReturnOp):
            found[f"{number} {op.name}"] = needed
    return found


def test_every_operation_of_the_step_needs_the_sample(tiny_folder: Path) -> None:
    module, _, _ = graph_of(tiny_folder / "unet" / "model.onnx", "unet", {"sample": (2, 4, 8, 8)}, absent=True)
    quantise(module, load_arch("dpu_f2"), None, {}, "unet")
    functions = {f.sym_name.data: inputs_by_operation(f) for f in module.ops if isinstance(f, FuncOp)}
    assert set(functions) == {"time", "context", "unet"}
    assert [op for op, needed in functions["unet"].items() if "sample" not in needed] == []
    assert all(needed == {"encoder_hidden_states"} for needed in functions["context"].values())
    # One linear of @time is the same in every step: the first of the sizes and the pooled text.
    fixed = [op for op, needed in functions["time"].items() if "timestep.sinusoid" not in needed]
    assert [op.split()[1] for op in fixed] == ["dpu.q.linear"]
