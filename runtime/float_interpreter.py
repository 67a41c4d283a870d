"""Float32 evaluation of the canonical graph: what every quantised program is compared with.

Tensors are torch, samples x tokens x channels. Weights are read from the weight store when first used, converted to
float32 and kept, so that the steps after the first pay only for arithmetic; of a model larger than `KEPT` the rest is
converted each time, which is little beside the arithmetic of so many weights.

The arithmetic runs on the CPU or on a GPU (`device="cuda"`), in float32 on both: TF32 is off. A GPU adds in another
order, so its results differ from the CPU's in the last bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from ..errors import DpuError
from ..ir import graph as g
from ..ir.graph import ints, shape_of
from ..ir.locations import where
from ..ir.signature import argument_names, result_names
from .tensors import F32, host_input, sinusoid

if TYPE_CHECKING:
    from torch import Tensor

Observe = Callable[[Operation, "Sequence[Tensor]"], None]
Get = Callable[[str], Any]
"""The tensor of an operation's operand by name, None where the operand is absent."""
Override = Callable[[Operation, Get], "Tensor | None"]
"""Takes the place of an operation: its result, or None to have it evaluated as it stands."""


KEPT = 2 << 30
"""Bytes of parameters that an interpreter keeps on the CPU; on a GPU it is half of what is free at the start."""

DEVICES = ("cpu", "cuda")


class Weights(Protocol):
    """What the interpreter asks of a weight store."""

    def get(self, source: str, transform: Sequence[str] = ()) -> npt.NDArray[Any]:
        """The array called `source`, transformed."""
        ...


class FloatInterpreter:
    """Evaluates the functions of one module; keeps the parameters it has read.

    `observe` is called with each operation and its results, `observe_inputs` with each operation and its operands in
    order (absent optional operands are skipped), `override` before an operation is evaluated, all in program order.
    """

    def __init__(self, module: ModuleOp, weights: Weights, device: str = "cpu") -> None:
        self.module = module
        self.device = device
        self._weights = weights
        self._most = kept_bytes(device)
        self._params: dict[tuple[str, tuple[str, ...]], Tensor] = {}
        self._kept = 0

    def run(
        self,
        func: str,
        inputs: Mapping[str, npt.ArrayLike],
        observe: Observe | None = None,
        observe_inputs: Observe | None = None,
        override: Override | None = None,
    ) -> dict[str, F32]:
        """Results by name of function `func` on `inputs` by argument name.

        An input may be samples x tokens x channels, NCHW, samples x channels, or a vector of scalars; the embedding
        `x.sinusoid` is computed from `x`.

        Raises:
            DpuError: no such function, an input is missing, or an operation is not of the canonical graph.
        """
        import torch

        function = find_func(self.module, func)
        values: dict[SSAValue, Tensor] = {}
        for name, argument in zip(argument_names(function), function.body.block.args, strict=True):
            given = host_input(name, shape_of(argument), inputs, f"function '{func}'")
            values[argument] = torch.from_numpy(given).to(self.device)
        uses = {v: sum(1 for _ in v.uses) for op in function.body.block.ops for v in (*op.operands, *op.results)}
        with torch.inference_mode(), full_float32():
            for op in function.body.block.ops:
                if isinstance(op, ReturnOp):
                    return {
                        name: np.ascontiguousarray(values[v].cpu().numpy())
                        for name, v in zip(result_names(function), op.operands, strict=True)
                    }
                if isinstance(op, g.ParamOp):
                    values[op.value] = self._param(op)
                else:
                    operands = [values[v] for v in op.operands]
                    if observe_inputs:
                        observe_inputs(op, operands)
                    get = _getter(op, values)
                    found = override(op, get) if override else None
                    values[op.results[0]] = evaluate(op, get) if found is None else found
                    for v in op.operands:  # the last reader frees a tensor, so that memory follows liveness
                        uses[v] -= 1
                        if uses[v] == 0:
                            values.pop(v, None)
                if observe:
                    observe(op, [values[v] for v in op.results if v in values])
        raise DpuError(f"function '{func}'", "ends without a return", code="E401")

    def _param(self, op: g.ParamOp) -> Tensor:
        import torch

        transform = tuple(t.data for t in op.transform) if op.transform else ()
        key = (op.source.data, transform)
        if key not in self._params:
            array = np.array(self._weights.get(op.source.data, transform), np.float32, order="C")
            if array.shape != shape_of(op.value):
                raise DpuError(
                    f"parameter '{op.source.data}'",
                    f"is {list(array.shape)} in the weight store, {list(shape_of(op.value))} in the graph",
                    code="E402",
                )
            made = torch.from_numpy(array).to(self.device)
            if self._kept + array.nbytes > self._most:
                return made
            self._kept += array.nbytes
            self._params[key] = made
        return self._params[key]


def kept_bytes(device: str) -> int:
    """Bytes of parameters that an interpreter on `device` keeps.

    Raises:
        DpuError: no such device, or this computer has none.
    """
    if device not in DEVICES:
        raise DpuError("--device", f"no device '{device}'", hint=f"one of {', '.join(DEVICES)}", code="E501")
    if device == "cpu":
        return KEPT
    import torch

    if not torch.cuda.is_available():
        raise DpuError(
            "--device cuda",
            "PyTorch sees no CUDA GPU",
            why=f"torch {torch.__version__} on this computer has none",
            hint="install a CUDA build of PyTorch on a computer with a GPU, or use --device cpu",
            code="E430",
        )
    free, _ = torch.cuda.mem_get_info()
    return int(free // 2)


@contextmanager
def full_float32() -> Iterator[None]:
    """Products on a GPU in float32: TF32, which convolutions use by default, keeps 10 bits of a factor."""
    import torch

    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    matmul.allow_tf32 = False
    try:
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False, deterministic=True):
            yield
    finally:
        matmul.allow_tf32 = before


def run_float(
    module: ModuleOp,
    func: str,
    inputs: Mapping[str, npt.ArrayLike],
    weights: Weights,
    observe: Observe | None = None,
) -> dict[str, F32]:
    """Results by name of one function; `FloatInterpreter` keeps the weights between calls, this does not."""
    return FloatInterpreter(module, weights).run(func, inputs, observe)


def find_func(module: ModuleOp, name: str) -> FuncOp:
    """The function called `name`.

    Raises:
        DpuError: there is none.
    """
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    if name not in functions:
        raise DpuError(f"function '{name}'", "not in the module", hint=f"one of {', '.join(functions)}", code="E401")
    return functions[name]


def _getter(op: Operation, values: Mapping[SSAValue, Tensor]) -> Get:
    def get(name: str) -> Tensor | None:
        value: SSAValue | None = getattr(op, name)
        return None if value is None else values[value]

    return get


def evaluate(op: Operation, get: Get) -> Tensor:
    """The result of one operation on the operands that `get` gives.

    Raises:
        DpuError: the operation is not of the canonical graph.
    """
    rule = _RULES.get(type(op))
    if rule is None:
        raise DpuError(
            where(op),
            f"'{op.name}' has no rule in the float interpreter",
            why="it evaluates the canonical graph only",
            hint="run the import passes first",
            code="E404",
        )
    y: Tensor = rule(op, get)
    return y


def _source(op: Any, get: Get) -> Any:
    import torch

    x = get("x")
    return x if op.x2 is None else torch.cat([x, get("x2")], dim=-1)


def _activate(x: Any, act: Any) -> Any:
    import torch.nn.functional as F

    if act is None:
        return x
    name = act if isinstance(act, str) else act.data
    if name == "silu":
        return F.silu(x)
    return F.gelu(x) if name == "gelu" else x * (1.702 * x).sigmoid()


def _linear(op: g.LinearOp, get: Get) -> Any:
    y = _source(op, get) @ get("w")
    if op.bias:
        y = y + get("bias")
    if op.geglu:
        value, gate = y.chunk(2, dim=-1)
        y = value * _activate(gate, "gelu")
    y = _activate(y, op.act)
    return y + get("residual") if op.residual else y


def _pixels(x: Any, height: int, width: int) -> Any:
    return x.reshape(x.shape[0], height, width, x.shape[2]).permute(0, 3, 1, 2)  # NCHW, channels last in memory


def _tokens(x: Any) -> Any:
    return x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, x.shape[1])


def _conv(op: g.ConvOp, get: Get) -> Any:
    import torch.nn.functional as F

    x = _pixels(_source(op, get), op.height.value.data, op.width.value.data)
    if op.upsample:
        x = F.interpolate(x, scale_factor=2, mode="nearest")
    top, left, bottom, right = ints(op.pad)
    y = F.conv2d(F.pad(x, (left, right, top, bottom)), get("w"), get("bias"), stride=op.stride.value.data)
    y = _tokens(y)
    if op.temb:
        y = y + get("temb")
    return y + get("residual") if op.residual else y


def _group_norm(op: g.GroupNormOp, get: Get) -> Any:
    import torch.nn.functional as F

    x = _source(op, get).transpose(1, 2)
    y = F.group_norm(x, op.groups.value.data, get("gamma"), get("beta"), op.eps.value.data)
    return _activate(y.transpose(1, 2), op.act)


def _layer_norm(op: g.LayerNormOp, get: Get) -> Any:
    import torch.nn.functional as F

    gamma = get("gamma")
    return F.layer_norm(get("x"), gamma.shape, gamma, get("beta"), op.eps.value.data)


def _attention(op: g.AttentionOp, get: Get) -> Any:
    import torch.nn.functional as F

    heads = op.heads.value.data
    q, k, v = (get(x).unflatten(-1, (heads, -1)).transpose(1, 2) for x in "qkv")
    y = F.scaled_dot_product_attention(q, k, v, is_causal=op.causal is not None, scale=op.scale.value.data)
    return y.transpose(1, 2).flatten(2)


def _upsample(op: g.UpsampleOp, get: Get) -> Any:
    import torch.nn.functional as F

    x = _pixels(get("x"), op.height.value.data, op.width.value.data)
    return _tokens(F.interpolate(x, scale_factor=2, mode="nearest"))


def _concat(op: g.ConcatOp, get: Get) -> Any:
    import torch

    return torch.cat([get("a"), get("b")], dim=-1)


def _sinusoid(op: g.SinusoidOp, get: Get) -> Any:
    import torch

    x = get("x")
    return torch.from_numpy(sinusoid(x.cpu().numpy(), op.half.value.data)).to(x.device)


_RULES: dict[type[Operation], Callable[[Any, Get], Any]] = {
    g.LinearOp: _linear,
    g.ConvOp: _conv,
    g.GroupNormOp: _group_norm,
    g.LayerNormOp: _layer_norm,
    g.AttentionOp: _attention,
    g.SiluOp: lambda op, get: _activate(get("x"), "silu"),
    g.GeluOp: lambda op, get: _activate(get("x"), "gelu"),
    g.QuickGeluOp: lambda op, get: _activate(get("x"), "quick_gelu"),
    g.UpsampleOp: _upsample,
    g.AddOp: lambda op, get: get("a") + get("b"),
    g.MulOp: lambda op, get: get("a") * get("b"),
    g.ConcatOp: _concat,
    g.SinusoidOp: _sinusoid,
}
