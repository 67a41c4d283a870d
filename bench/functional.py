"""What the functional simulator takes, against ONNX Runtime on u8s8 linears, convolutions and attention products alone.

Both run in this process, on as many threads, in turn. The peer's graphs have the products of a block and nothing else
(QLinearMatMul and QLinearConv, made for 8 bits unsigned times 8 bits signed); the simulator executes every word of the
compiled block, vector words and transfers too.
"""

from __future__ import annotations

import os
import platform
import resource
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from pydantic import BaseModel, ConfigDict
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ..codegen.emit import emit
from ..evidence import Provenance
from ..ir.arch import Arch, load_arch
from ..ir.container import Base, Program
from ..ir.dialects import parse_module
from ..ir.graph import AttentionOp, ConvOp, LinearOp, ParamOp, btc, shape_of
from ..ir.isa import Engine
from ..ir.macs import total_macs
from ..passes.quantise import Derived, fetcher, quantise
from ..simulator import threads
from ..simulator.machine import Counters, Machine
from .blocks import BLOCKS

Shape = tuple[int, ...]

PER_FORWARD = {
    "transformer 1280 @ 32x32": 60,
    "transformer 640 @ 64x64": 10,
    "convolutions 1280 @ 32x32": 7,
    "convolutions 640 @ 64x64": 5,
    "convolutions 320 @ 128x128": 5,
}
"""How often a guided forward of SDXL has each block: five sixths of its multiply-accumulates, without cross-attention
and the convolutions of concatenated inputs."""


class FunctionalRow(BaseModel):
    """One block: seconds of the simulator and of the peer, here and now."""

    model_config = ConfigDict(frozen=True)

    block: str
    gmacs: float
    words: int
    simulator: float
    onnxruntime: float
    provenance: str = Provenance.MEASURED.label

    @property
    def ratio(self) -> float:
        """The simulator's time over the peer's."""
        return self.simulator / self.onnxruntime


class Functional(BaseModel):
    """All blocks of a run."""

    model_config = ConfigDict(frozen=True)

    arch: str
    machine: str
    threads: int
    load: float
    peak_gigabytes: float
    rows: tuple[FunctionalRow, ...]

    def text(self) -> str:
        """A table, and what the blocks of a guided forward add up to."""
        lines = [f"{self.arch} on {self.machine}, {self.threads} threads, load {self.load:.1f} when it began"]
        lines.append(f"{'block':<28}{'GMAC':>7}{'words':>8}{'simulator s':>13}{'ONNX Runtime s':>16}{'ratio':>7}")
        lines += [
            f"{r.block:<28}{r.gmacs:>7.1f}{r.words:>8}{r.simulator:>13.3f}{r.onnxruntime:>16.3f}{r.ratio:>7.2f}"
            for r in self.rows
        ]
        if {r.block for r in self.rows} == set(PER_FORWARD):
            times = [(PER_FORWARD[r.block], r) for r in self.rows]
            ours, peer = sum(n * r.simulator for n, r in times), sum(n * r.onnxruntime for n, r in times)
            gmacs = sum(n * r.gmacs for n, r in times)
            name = f"{sum(PER_FORWARD.values())} blocks of a forward"
            lines.append(f"{name:<28}{gmacs:>7.0f}{'':>8}{ours:>13.1f}{peer:>16.1f}{ours / peer:>7.2f}  (their sum)")
        lines.append(f"at most {self.peak_gigabytes:.1f} GB; provenance: measured")
        return "\n".join(lines)


def measure(arch_name: str = "dpu_f2", names: Sequence[str] = (), runs: int = 3) -> Functional:
    """The named blocks, or all: the shortest of `runs` runs of each side.

    Raises:
        KeyError: no such block.
    """
    arch, load = load_arch(arch_name), os.getloadavg()[0]
    rows = tuple(_block(name, BLOCKS[name], arch, runs) for name in names or BLOCKS)
    return Functional(
        arch=arch.name,
        machine=f"{platform.processor() or platform.machine()}, {os.cpu_count()} processors",
        threads=threads.count(),
        load=load,
        peak_gigabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        rows=rows,
    )


def _block(name: str, text: str, arch: Arch, runs: int) -> FunctionalRow:
    peers = [product(*p) for p in products(parse_module(text))]
    program = compiled(text, arch)
    run = simulation(program)
    words = sum(run().words[e] for e in Engine)  # and compiled code is loaded
    ours = peer = float("inf")
    for _ in range(runs):
        peer = min(peer, sum(_seconds(p) for p in peers))
        ours = min(ours, _seconds(run))
    return FunctionalRow(
        block=name, gmacs=total_macs(parse_module(text)) / 1e9, words=words, simulator=ours, onnxruntime=peer
    )


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def compiled(text: str, arch: Arch) -> Program:
    """The program of a block with random weights."""
    module = parse_module(text)
    shapes = {op.source.data: shape_of(op.value) for op in module.walk() if isinstance(op, ParamOp)}

    def fetch(source: str, transform: tuple[str, ...]) -> Any:
        shape = shapes[source]
        fan_in = np.prod(shape) / (shape[1] if len(shape) == 2 else shape[0])
        values = np.random.default_rng(zlib.crc32(source.encode())).standard_normal(shape, np.float32)
        return (values / np.sqrt(fan_in)).astype(np.float16)

    derived: Derived = {}
    quantise(module, arch, None, derived)
    return emit(module, arch, fetcher(fetch, derived), {}).program


def simulation(program: Program) -> Callable[[], Counters]:
    """A run of the program's one entry on random inputs."""
    regions = {b: np.zeros(n, np.uint8) for b, n in program.base_bytes.items()}
    regions[Base.CONST] = program.constants
    machine, (entry,) = Machine(program.arch, regions), program.entries
    for slot in entry.inputs:
        values = np.random.default_rng(1).standard_normal(slot.shape, np.float32).astype(np.float16)
        machine.view(slot.base, slot.offset, slot.shape, np.float16)[...] = values
    return lambda: machine.run(program.words[entry.name], entry=entry.name)


def products(module: ModuleOp) -> list[tuple[str, Shape, Shape, dict[str, Any]]]:
    """The products of a block: operator, shape of the activations, of the other operand, attributes."""
    return [p for op in module.walk() for p in _of(op)]


def _of(op: Operation) -> list[tuple[str, Shape, Shape, dict[str, Any]]]:
    if isinstance(op, LinearOp):
        b, t, _ = btc(op.y, "y")
        k, n = shape_of(op.w)
        return [("QLinearMatMul", (b * t, k), (k, n), {"constant": True})]
    if isinstance(op, ConvOp):
        b, _, c = btc(op.x, "x")
        pads, stride = [int(p) for p in op.pad.get_values()], int(op.stride.value.data)
        shape = (b, c, int(op.height.value.data), int(op.width.value.data))
        return [("QLinearConv", shape, shape_of(op.w), {"pads": pads, "strides": [stride, stride]})]
    if isinstance(op, AttentionOp):
        b, t, c = btc(op.q, "q")
        keys, heads = btc(op.k, "k")[1], int(op.heads.value.data)
        queries, wide = (b * heads, t, c // heads), (b * heads, c // heads, keys)
        scores, values = (b * heads, t, keys), (b * heads, keys, c // heads)
        return [("QLinearMatMul", queries, wide, {}), ("QLinearMatMul", scores, values, {})]
    return []


def product(kind: str, a: Shape, b: Shape, attributes: dict[str, Any]) -> Callable[[], object]:
    """A session of one u8s8 product, and how to run it; a constant operand may be packed before."""
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 256, a, np.uint8), rng.integers(-127, 128, b, np.int8)
    convolution = kind == "QLinearConv"
    names = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy"]
    constants: dict[str, Any] = {s: np.array(0.01, np.float32) for s in ("sx", "sw", "sy")}
    constants |= {"zx": np.array(128, np.uint8), "zw": np.array(0, np.int8), "zy": np.array(128, np.uint8)}
    fixed = convolution or attributes.pop("constant", False)
    feeds: dict[str, Any] = {"x": left}
    if fixed:
        constants["w"] = right
    else:
        feeds["w"] = right
    types = {"x": TensorProto.UINT8, "w": TensorProto.INT8}
    graph = helper.make_graph(
        [helper.make_node(kind, names, ["y"], **attributes)],
        "product",
        [helper.make_tensor_value_info(n, types[n], v.shape) for n, v in feeds.items()],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [onnx.numpy_helper.from_array(v, n) for n, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads.count()
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    session.run(None, feeds)
    return lambda: session.run(None, feeds)
