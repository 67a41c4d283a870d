"""Small programs to mutate: convolutions with statistics, attention and linears, on one tile and on three."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..codegen.emit import Emitted, emit
from ..ir.arch import Arch, load_arch
from ..ir.dialects import parse_module
from ..passes.calibration import Calibration
from ..passes.lower.constants import Fetch
from ..passes.quantise import Derived, fetcher, quantise
from ..runtime.float_interpreter import FloatInterpreter
from ..runtime.statistics import Statistics

SIZE = (6, 7)
CHANNELS = 16
HEADS = 2


def three_tiles() -> Arch:
    """`dpu_tiny` with three tiles."""
    description = load_arch("dpu_tiny").model_dump()
    return Arch.model_validate(description | {"name": "dpu_tiny_x3", "tiles": 3})


class _Weights:
    """Seeded parameters, made as the text asks for them."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.arrays: dict[str, npt.NDArray[np.float32]] = {}

    def line(self, name: str, *shape: int) -> str:
        reduced = np.prod(shape[1:]) if len(shape) == 4 else shape[0]
        array = self.rng.standard_normal(shape) / reduced**0.5 if len(shape) > 1 else 1 + self.rng.random(shape) / 4
        self.arrays[name] = array.astype(np.float32)
        return f'  %{name} = dpu.param "{name}" : {_tensor(*shape)}'

    def get(self, source: str, transform: Sequence[str] = ()) -> npt.NDArray[Any]:
        return self.arrays[source]


def _tensor(*shape: int) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf16>"


def _text(w: _Weights) -> str:
    t, c = SIZE[0] * SIZE[1], CHANNELS
    x, v, m = _tensor(2, t, c), _tensor(c), _tensor(c, c)
    kernel = _tensor(c, c, 3, 3)
    conv = f"size {SIZE[0]} x {SIZE[1]} stride 1 {{pad = array<i64: 1, 1, 1, 1>}}"
    head = f"heads {HEADS} scale {(c // HEADS) ** -0.5!r} key_block 64 prob_bits 8 : i64"
    lines = [
        *(w.line(n, c, c, 3, 3) for n in ("k1", "k2")),
        *(w.line(n, c, c) for n in ("wp", "wq", "wk", "wv", "wo")),
        w.line("g", c),
        w.line("b", c),
        w.line("wg", c, 4 * c),
        w.line("wd", 2 * c, c),
        f"  %h = dpu.conv %x, %k1 {conv} : {x}, {kernel} -> {x}",
        f'  %n = dpu.group_norm %h, %g, %b groups 4 eps 1.0e-5 : f64 act "silu" : {x}, {v}, {v} -> {x}',
        f"  %r = dpu.conv %n, %k2 residual %h : {x} {conv} : {x}, {kernel} -> {x}",
        f"  %p = dpu.linear %r, %wp : {x}, {m} -> {x}",
        f"  %l = dpu.layer_norm %p, %g, %b eps 1.0e-5 : f64 : {x}, {v}, {v} -> {x}",
        *(f"  %{n} = dpu.linear %l, %w{n} : {x}, {m} -> {x}" for n in "qkv"),
        f"  %a = dpu.attention %q, %k, %v {head} : {x}, {x}, {x} -> {x}",
        f"  %o = dpu.linear %a, %wo residual %p : {x} : {x}, {m} -> {x}",
        f"  %f = dpu.linear %o, %wg geglu : {x}, {_tensor(c, 4 * c)} -> {_tensor(2, t, 2 * c)}",
        f"  %y = dpu.linear %f, %wd residual %o : {x} : {_tensor(2, t, 2 * c)}, {_tensor(2 * c, c)} -> {x}",
    ]
    body = "\n".join(lines)
    return (
        f'func.func @net(%x: {x} {{dpu.name = "x"}}) -> ({x} {{dpu.name = "y"}}) {{\n'
        f"{body}\n  func.return %y : {x}\n}}\n"
    )


def compile_net(arch: Arch) -> tuple[Emitted, Fetch, Mapping[str, npt.NDArray[np.float32]]]:
    """The net on an arch, how its parameters are read, and the input it was calibrated on."""
    weights = _Weights()
    module = parse_module(_text(weights))
    x = np.random.default_rng(1).standard_normal((2, SIZE[0] * SIZE[1], CHANNELS)).astype(np.float16)
    inputs = {"x": x.astype(np.float32)}
    statistics = Statistics(module)
    FloatInterpreter(module, weights).run("net", inputs, observe_inputs=statistics.operands)
    derived: Derived = {}
    quantise(module, arch, Calibration({}, statistics.tensors), derived)
    fetch = fetcher(weights.get, derived)
    return emit(module, arch, fetch, {}), fetch, inputs
