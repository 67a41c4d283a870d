"""Power-of-two exponents: activations beyond float16 are stored scaled, and nothing else changes."""

from __future__ import annotations

import numpy as np
from dpu.codegen.emit import emit
from dpu.ir.arch import load_arch
from dpu.ir.container import Base
from dpu.ir.dialects import parse_module
from dpu.passes.calibration import Calibration
from dpu.passes.quantise import fetcher, quantise
from dpu.runtime.check.compare import check
from dpu.runtime.float_interpreter import FloatInterpreter
from dpu.runtime.statistics import Statistics
from dpu.simulator.machine import Machine

C, SIDE = 16, 6
T = SIDE * SIDE
X, W, V = f"tensor<1x{T}x{C}xf16>", f"tensor<{C}x{C}x3x3xf16>", f"tensor<{C}xf16>"
CONV = f"size {SIDE} x {SIDE} stride 1 {{pad = array<i64: 1, 1, 1, 1>}} : {X}, {W} -> {X}"
TEXT = f"""func.func @f(%x: {X}) -> {X} {{
  %w1 = dpu.param "w1" : {W}
  %w2 = dpu.param "w2" : {W}
  %w3 = dpu.param "w3" : {W}
  %g = dpu.param "g" : {V}
  %b = dpu.param "b" : {V}
  %h = dpu.conv %x, %w1 bias %b : {V} {CONV}
  %n = dpu.group_norm %h, %g, %b groups 4 eps 1.0e-6 act "silu" : {X}, {V}, {V} -> {X}
  %r = dpu.conv %n, %w2 bias %b : {V} residual %h : {X} {CONV}
  %m = dpu.group_norm %r, %g, %b groups 4 eps 1.0e-6 act "silu" : {X}, {V}, {V} -> {X}
  %z = dpu.conv %m, %w3 {CONV}
  func.return %z : {X}
}}"""


class _Arrays:
    """A residual stream of about 3e5: the first convolution's weights are that large."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        size = (9 * C) ** -0.5
        self.arrays = {f"w{i}": rng.standard_normal((C, C, 3, 3)) * size for i in (1, 2, 3)}
        self.arrays["w1"] = self.arrays["w1"] * 1e5
        self.arrays["w2"] = self.arrays["w2"] * 1e5
        self.arrays |= {"g": 1 + 0.1 * rng.standard_normal(C), "b": 0.1 * rng.standard_normal(C)}

    def get(self, source: str, transform: tuple[str, ...] = ()) -> np.ndarray:
        return self.arrays[source].astype(np.float32)


def test_a_stream_beyond_float16_neither_overflows_nor_loses_precision() -> None:
    weights, arch = _Arrays(), load_arch("dpu_tiny")
    x = np.random.default_rng(1).standard_normal((1, T, C)).astype(np.float16).astype(np.float32)
    module = parse_module(TEXT)
    statistics = Statistics(module)
    (name,) = ["z"]
    reference = FloatInterpreter(module, weights).run(
        "f", {"x": x}, observe=statistics.results, observe_inputs=statistics.operands
    )[name]
    derived: dict = {}
    quantise(module, arch, Calibration({}, statistics.tensors), derived)
    text = str(module)
    # 1e5 times a normal value of 4 standard deviations: 2^14 = 16,384 needs an exponent of 4 to 6, one for the chain.
    assert text.count("y_exp") == 2
    fetch = fetcher(weights.get, derived)
    emitted = emit(module, arch, fetch, {})
    program = emitted.program
    regions = {int(b): np.zeros(max(program.base_bytes[b], 64), np.uint8) for b in Base}
    regions[Base.CONST][: len(program.constants)] = program.constants
    entry = program.entries[0]
    machine = Machine(arch, regions)
    (slot,) = entry.inputs
    machine.view(slot.base, slot.offset, (T, slot.row_bytes // 2), np.float16)[:, :C] = x[0]
    counters = machine.run(program.words["f"])
    assert counters.total.fp16_overflow == 0 and counters.total.nan == 0
    (out,) = entry.outputs
    found = machine.view(out.base, out.offset, (T, out.row_bytes // 2), np.float16)[:, :C].astype(np.float32)
    # Three int8 convolutions in a row stay above 30 dB (tests/properties derives the bound of one).
    assert 10 * np.log10((reference**2).sum() / ((reference - found[None]) ** 2).sum()) > 30
    report = check(emitted, fetch, {"x": x})
    assert report.ok, report.text()
