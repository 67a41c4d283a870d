"""Inputs that the model quantises itself: every use of a static scale and zero point equals the interpreter."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from dpu.codegen.emit import emit
from dpu.codegen.verify.verify import verify_program
from dpu.ir.arch import load_arch
from dpu.ir.dialects import parse_module, print_module
from dpu.passes.calibration import Calibration
from dpu.passes.policy import Choices, Policy, Precision
from dpu.passes.quantise import fetcher, quantise
from dpu.runtime.check.compare import check
from dpu.runtime.float_interpreter import FloatInterpreter
from dpu.runtime.statistics import Statistics

from .simulated import result

SIDE, C = 6, 16
T = SIDE * SIDE
X, V = f"tensor<1x{T}x{C}xf16>", f"tensor<{C}xf16>"
W, WIDE = f"tensor<{C}x{C}x3x3xf16>", f"tensor<{C}x{2 * C}x3x3xf16>"
M, M2 = f"tensor<{C}x{C}xf16>", f"tensor<{2 * C}x{C}xf16>"
CONV = f"size {SIDE} x {SIDE} stride 1"
PAD = "pad = array<i64: 1, 1, 1, 1>"
SYMMETRIC = "x_scale = 3.2e-2 : f32"
SHIFTED = f"{SYMMETRIC}, x_zero = 11 : i64"
UP = f"tensor<1x{4 * T}x{C}xf16>"

BODIES = {
    "convolution": (
        f'%w = dpu.param "w" : {W}\n%y = dpu.conv %x, %w bias %b : {V} {CONV} {{{PAD}, STATIC}} : {X}, {W} -> {X}'
    ),
    "no bias": f'%w = dpu.param "w" : {W}\n%y = dpu.conv %x, %w {CONV} {{{PAD}, STATIC}} : {X}, {W} -> {X}',
    "two sources": (
        f'%w = dpu.param "w" : {WIDE}\n'
        f"%y = dpu.conv %x concat %z : {X}, %w {CONV} {{{PAD}, STATIC}} : {X}, {WIDE} -> {X}"
    ),
    "upsample": f'%w = dpu.param "w" : {W}\n%y = dpu.conv %x, %w {CONV} upsample {{{PAD}, STATIC}} : {X}, {W} -> {UP}',
    "after GroupNorm": (
        f'%w = dpu.param "w" : {W}\n'
        f"%h = dpu.conv %x, %w {CONV} {{{PAD}}} : {X}, {W} -> {X}\n"
        f'%n = dpu.group_norm %h, %b, %b groups 4 eps 1.0e-5 act "silu" : {X}, {V}, {V} -> {X}\n'
        f"%y = dpu.conv %n, %w {CONV} {{{PAD}, STATIC}} : {X}, {W} -> {X}"
    ),
    "linear": f'%w = dpu.param "m" : {M}\n%y = dpu.linear %x, %w bias %b : {V} act "silu" {{STATIC}} : {X}, {M} -> {X}',
    "linear of two sources": (
        f'%w = dpu.param "m2" : {M2}\n%y = dpu.linear %x concat %z : {X}, %w {{STATIC}} : {X}, {M2} -> {X}'
    ),
    "linear after LayerNorm": (
        f'%w = dpu.param "m" : {M}\n%n = dpu.layer_norm %x, %b, %b eps 1.0e-5 : f64 : {X}, {V}, {V} -> {X}\n'
        f"%y = dpu.linear %n, %w {{STATIC}} : {X}, {M} -> {X}"
    ),
    "attention": (
        f'%w = dpu.param "m" : {M}\n'
        + "\n".join(f"%{r} = dpu.linear %x, %w bias %b : {V} {{STATIC}} : {X}, {M} -> {X}" for r in "qkv")
        + f"\n%y = dpu.attention %q, %k, %v heads HEADS scale 0.3 key_block 64 prob_bits 8 : i64 : {X}, {X}, {X} -> {X}"
    ),
}


class _Weights:
    """Float or int8 with scales, seeded by name; integers that no scale of our own would give."""

    def __init__(self, integers: bool) -> None:
        self.integers = integers

    def get(self, source: str, transform: tuple[str, ...] = ()) -> np.ndarray:
        rng = np.random.default_rng(zlib.crc32(source.encode()))
        if source == "b":
            return rng.standard_normal(C).astype(np.float32)
        shape = {"w": (C, C, 3, 3), "wide": (C, 2 * C, 3, 3), "m": (C, C), "m2": (2 * C, C)}[source]
        q = rng.integers(-90, 91, shape, np.int8)
        scale = np.broadcast_to(
            rng.uniform(1e-3, 2e-3, (C, 1, 1, 1) if len(shape) == 4 else C).astype(np.float32), shape
        )
        if self.integers and transform[:1] in (("integers",), ("scales",)):
            return q if transform[0] == "integers" else scale
        return (q * scale).astype(np.float32)


@pytest.mark.parametrize("arch", ["dpu_tiny", "dpu_f2"])
@pytest.mark.parametrize("static", [SYMMETRIC, SHIFTED], ids=["symmetric", "shifted"])
@pytest.mark.parametrize("name", BODIES)
def test_static_inputs(name: str, static: str, arch: str) -> None:
    equal(name, static, arch, None, 25 if name == "attention" else 30)


@pytest.mark.parametrize("name", BODIES)
def test_weights_of_four_bits(name: str) -> None:
    """A policy may make int4 of the model's integers; zero points take the sums of what the array multiplies."""
    equal(name, SHIFTED, "dpu_tiny", Choices(Policy(name="four", default=Precision(weights=4))), 12)


def equal(name: str, static: str, arch: str, choices: Choices | None, least: float) -> None:
    """A body equals the interpreter, and the float result to `least` dB."""
    heads = "2" if arch == "dpu_tiny" else "1"
    body = BODIES[name].replace("STATIC", static).replace("HEADS", heads).replace('"w" : ' + WIDE, '"wide" : ' + WIDE)
    last = UP if name == "upsample" else X
    arguments = f"%x: {X}, %z: {X}" if "%z" in body else f"%x: {X}"
    text = f'func.func @f({arguments}) -> {last} {{\n%b = dpu.param "b" : {V}\n{body}\nfunc.return %y : {last}\n}}'
    module = parse_module(text)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    rng = np.random.default_rng(5)
    inputs = {n: rng.standard_normal((1, T, C)).astype(np.float16).astype(np.float32) for n in ("x", "z")}
    inputs = {n: a for n, a in inputs.items() if f"%{n}" in arguments}
    statistics, weights, derived = Statistics(module), _Weights(integers=True), {}
    interpreter = FloatInterpreter(module, weights)
    (reference,) = interpreter.run("f", inputs, observe_inputs=statistics.operands).values()
    quantise(module, load_arch(arch), Calibration({}, statistics.tensors), derived, choices=choices)
    fetch = fetcher(weights.get, derived)
    emitted = emit(module, load_arch(arch), fetch, {})
    verify_program(emitted.program)
    report = check(emitted, fetch, inputs)
    assert report.ok, report.text()
    y = result(emitted, inputs)
    sqnr = 10 * np.log10(np.sum(reference**2) / np.sum((y - reference.reshape(y.shape)) ** 2))
    assert sqnr > least, sqnr
