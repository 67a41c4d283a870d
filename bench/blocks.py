"""Blocks of full-size SDXL: `--estimate` against the timing simulation of the compiled block, without weights."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict

from ..codegen.emit import emit
from ..codegen.estimate import entry_shapes
from ..ir.arch import load_arch
from ..ir.dialects import parse_module
from ..passes.lower.estimator import Estimator
from ..passes.quantise import Derived, fetcher, quantise
from ..simulator.memory import with_dram
from ..simulator.timing import simulate


class BlockRow(BaseModel):
    """One block on one arch: cycles estimated and simulated, utilisation by logical MACs, words, seconds here."""

    model_config = ConfigDict(frozen=True)

    block: str
    arch: str
    gmacs: float
    estimated: int
    simulated: int
    utilisation: float
    words: int
    compile_seconds: float
    simulate_seconds: float

    @property
    def ratio(self) -> float:
        """Estimated over simulated cycles."""
        return self.estimated / self.simulated


def transformer_block(b: int, t: int, c: int, heads: int) -> str:
    """Text of a transformer block without cross-attention: LayerNorm, self-attention, GEGLU, two residuals."""
    x, w, v = f"tensor<{b}x{t}x{c}xf16>", f"tensor<{c}x{c}xf16>", f"tensor<{c}xf16>"
    wide, h = f"tensor<{c}x{8 * c}xf16>", f"tensor<{b}x{t}x{4 * c}xf16>"
    down, v8 = f"tensor<{4 * c}x{c}xf16>", f"tensor<{8 * c}xf16>"
    linears = "\n".join(f"  %{n} = dpu.linear %n, %w{n} : {x}, {w} -> {x}" for n in "qkv")
    params = "\n".join(f'  %w{n} = dpu.param "w{n}" : {w}' for n in "qkvoi")
    return f"""func.func @block(%x: {x}) -> {x} {{
{params}
  %w1 = dpu.param "w1" : {wide}
  %w2 = dpu.param "w2" : {down}
  %b = dpu.param "b" : {v}
  %b1 = dpu.param "b1" : {v8}
  %h = dpu.linear %x, %wi bias %b : {v} : {x}, {w} -> {x}
  %n = dpu.layer_norm %h, %b, %b eps 1.0e-5 : f64 : {x}, {v}, {v} -> {x}
{linears}
  %a = dpu.attention %q, %k, %v heads {heads} scale 0.125 key_block 1024 prob_bits 8 : i64 : {x}, {x}, {x} -> {x}
  %o = dpu.linear %a, %wo bias %b : {v} residual %h : {x} : {x}, {w} -> {x}
  %m = dpu.layer_norm %o, %b, %b eps 1.0e-5 : f64 : {x}, {v}, {v} -> {x}
  %f = dpu.linear %m, %w1 bias %b1 : {v8} geglu : {x}, {wide} -> {h}
  %z = dpu.linear %f, %w2 bias %b : {v} residual %o : {x} : {h}, {down} -> {x}
  func.return %z : {x}
}}"""


def resnet_convs(b: int, side: int, c: int) -> str:
    """Text of two 3x3 convolutions with GroupNorm and SiLU between them."""
    t = side * side
    x, w, v = f"tensor<{b}x{t}x{c}xf16>", f"tensor<{c}x{c}x3x3xf16>", f"tensor<{c}xf16>"
    conv = f"size {side} x {side} stride 1 {{pad = array<i64: 1, 1, 1, 1>}} : {x}, {w} -> {x}"
    return f"""func.func @block(%x: {x}) -> {x} {{
  %w = dpu.param "w" : {w}
  %b = dpu.param "b" : {v}
  %y = dpu.conv %x, %w bias %b : {v} {conv}
  %n = dpu.group_norm %y, %b, %b groups 32 eps 1.0e-5 act "silu" : {x}, {v}, {v} -> {x}
  %z = dpu.conv %n, %w bias %b : {v} residual %x : {x} {conv}
  func.return %z : {x}
}}"""


BLOCKS = {
    "transformer 1280 @ 32x32": transformer_block(2, 1024, 1280, 20),
    "transformer 640 @ 64x64": transformer_block(2, 4096, 640, 10),
    "convolutions 1280 @ 32x32": resnet_convs(2, 32, 1280),
    "convolutions 640 @ 64x64": resnet_convs(2, 64, 640),
    "convolutions 320 @ 128x128": resnet_convs(2, 128, 320),
}


def measure(archs: Sequence[str], dram: str = "") -> list[BlockRow]:
    """Every block on every arch, with another DRAM timing if one is named. Weights are zeros: cycles do not care."""
    return [_one(name, text, arch, dram) for arch in archs for name, text in BLOCKS.items()]


def _one(name: str, source: str, arch_name: str, dram: str = "") -> BlockRow:
    arch = with_dram(load_arch(arch_name), dram) if dram else load_arch(arch_name)
    module = parse_module(source)
    shapes = entry_shapes(module, arch)
    derived: Derived = {}
    quantise(module, arch, None, derived)
    estimates = Estimator(arch).estimate(shapes)[0]
    start = time.perf_counter()
    zeros = fetcher(lambda source, transform: np.zeros(1, np.float16), derived)
    emitted = emit(module, arch, zeros, {}, constants=False)
    compiled = time.perf_counter()
    streams = emitted.program.words["block"]
    timing = simulate(arch, streams, "block")
    macs = sum(e.macs for e in estimates)
    return BlockRow(
        block=name,
        arch=arch.name,
        gmacs=macs / 1e9,
        estimated=sum(e.cycles for e in estimates),
        simulated=timing.cycles,
        utilisation=macs / (arch.peak_macs_per_cycle * timing.cycles),
        words=max(len(s) for s in streams),
        compile_seconds=compiled - start,
        simulate_seconds=time.perf_counter() - compiled,
    )


def text(rows: list[BlockRow]) -> str:
    """A table: what was estimated, what was simulated, and their ratio."""
    lines = [
        f"{'block':<28}{'arch':<12}{'GMAC':>7}{'estimated':>12}{'simulated':>12}{'ratio':>7}{'used':>8}{'words':>8}"
    ]
    for r in rows:
        lines.append(
            f"{r.block:<28}{r.arch:<12}{r.gmacs:>7.1f}{r.estimated:>12,}{r.simulated:>12,}{r.ratio:>7.2f}"
            f"{r.utilisation:>8.1%}{r.words:>8}"
        )
    return "\n".join(lines)
