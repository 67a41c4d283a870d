"""Compile a graph of a few operations, run it on the simulator, and read its results.

    net = Net(samples=2)
    x = net.input("x", tokens=35, channels=16)
    y = net.linear(x, net.param(w))
    net.returns(y)
    got = compile_net(net, "dpu_tiny", {"x": array}).run()["y0"]

Scales come from the same inputs (float interpreter, calibration statistics), so nothing saturates by accident. `emit`
checks every program with `codegen/witness.py`; `compile_net` proves it (`codegen/verify`) and times it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from dpu.codegen.emit import Emitted, emit
from dpu.codegen.verify.verify import verify_program
from dpu.ir.arch import Arch, load_arch
from dpu.ir.container import Base, Entry, Slot
from dpu.ir.dialects import parse_module
from dpu.ir.isa import Words
from dpu.passes.calibration import Calibration
from dpu.passes.policy import Choices, Policy
from dpu.passes.quantise import Derived, fetcher, quantise
from dpu.runtime.float_interpreter import FloatInterpreter
from dpu.runtime.statistics import Statistics
from dpu.simulator.machine import Machine
from dpu.simulator.timing import simulate

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
Regions = dict[int, npt.NDArray[np.uint8]]

ITEM = {"f16": np.float16, "f32": np.float32, "i8": np.int8}


@dataclass(frozen=True)
class Value:
    """An SSA value of the text: its name and shape."""

    name: str
    shape: tuple[int, ...]

    @property
    def type(self) -> str:
        return f"tensor<{'x'.join(map(str, self.shape))}xf16>"

    def __str__(self) -> str:
        return f"%{self.name}"


def _optional(word: str, value: Value | None) -> str:
    return "" if value is None else f" {word} {value} : {value.type}"


@dataclass
class Net:
    """Writes the text of one function of canonical operations. Results are called y0, y1, ..."""

    samples: int = 1
    arguments: list[Value] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    arrays: dict[str, F32] = field(default_factory=dict)
    results: list[Value] = field(default_factory=list)

    def input(self, name: str, tokens: int, channels: int) -> Value:
        """An argument."""
        self.arguments.append(Value(name, (self.samples, tokens, channels)))
        return self.arguments[-1]

    def param(self, array: npt.ArrayLike) -> Value:
        """A parameter with these values."""
        name = f"p{len(self.arrays)}"
        self.arrays[name] = np.asarray(array, np.float32)
        value = Value(name, self.arrays[name].shape)
        self.lines.append(f'{value} = dpu.param "{name}" : {value.type}')
        return value

    def _op(self, text: str, types: Sequence[Value], shape: tuple[int, ...]) -> Value:
        y = Value(f"v{len(self.lines)}", shape)
        self.lines.append(f"{y} = dpu.{text} : {', '.join(t.type for t in types)} -> {y.type}")
        return y

    def linear(
        self,
        x: Value,
        w: Value,
        *,
        x2: Value | None = None,
        bias: Value | None = None,
        residual: Value | None = None,
        act: str = "",
        geglu: bool = False,
    ) -> Value:
        b, t, _ = x.shape
        text = f"linear {x}{_optional('concat', x2)}, {w}{_optional('bias', bias)}{_optional('residual', residual)}"
        text += (f' act "{act}"' if act else "") + (" geglu" if geglu else "")
        return self._op(text, [x, w], (b, t, w.shape[1] // (2 if geglu else 1)))

    def conv(
        self,
        x: Value,
        w: Value,
        size: tuple[int, int],
        *,
        stride: int = 1,
        pad: tuple[int, int, int, int] = (1, 1, 1, 1),
        x2: Value | None = None,
        bias: Value | None = None,
        temb: Value | None = None,
        residual: Value | None = None,
        upsample: bool = False,
    ) -> Value:
        n, _, kh, kw = w.shape
        up = 2 if upsample else 1
        ho = (size[0] * up + pad[0] + pad[2] - kh) // stride + 1
        wo = (size[1] * up + pad[1] + pad[3] - kw) // stride + 1
        text = f"conv {x}{_optional('concat', x2)}, {w}{_optional('bias', bias)}{_optional('temb', temb)}"
        text += f"{_optional('residual', residual)} size {size[0]} x {size[1]} stride {stride}"
        text += (" upsample" if upsample else "") + f" {{pad = array<i64: {', '.join(map(str, pad))}>}}"
        return self._op(text, [x, w], (x.shape[0], ho * wo, n))

    def group_norm(
        self,
        x: Value,
        gamma: Value,
        beta: Value,
        groups: int,
        *,
        x2: Value | None = None,
        act: str = "",
        eps: float = 1e-5,
    ) -> Value:
        channels = x.shape[2] + (x2.shape[2] if x2 else 0)
        text = f"group_norm {x}{_optional('concat', x2)}, {gamma}, {beta} groups {groups} eps {eps:e} : f64"
        text += f' act "{act}"' if act else ""
        return self._op(text, [x, gamma, beta], (*x.shape[:2], channels))

    def layer_norm(self, x: Value, gamma: Value, beta: Value, eps: float = 1e-5) -> Value:
        return self._op(f"layer_norm {x}, {gamma}, {beta} eps {eps:e} : f64", [x, gamma, beta], x.shape)

    def attention(
        self,
        q: Value,
        k: Value,
        v: Value,
        heads: int,
        scale: float,
        *,
        key_block: int = 1024,
        prob_bits: int = 8,
        causal: bool = False,
    ) -> Value:
        text = f"attention {q}, {k}, {v} heads {heads} scale {scale!r} key_block {key_block}"
        text += f" prob_bits {prob_bits} : i64" + (" causal" if causal else "")
        return self._op(text, [q, k, v], q.shape)

    def silu(self, x: Value) -> Value:
        return self._op(f"silu {x}", [x], x.shape)

    def returns(self, *values: Value) -> None:
        self.results += values

    def text(self) -> str:
        """The module."""
        arguments = ", ".join(f'{a}: {a.type} {{dpu.name = "{a.name}"}}' for a in self.arguments)
        results = ", ".join(f'{v.type} {{dpu.name = "y{i}"}}' for i, v in enumerate(self.results))
        body = "".join(f"  {line}\n" for line in self.lines)
        last = f"{', '.join(map(str, self.results))} : {', '.join(v.type for v in self.results)}"
        return f"func.func @f({arguments}) -> ({results}) {{\n{body}  func.return {last}\n}}\n"


@dataclass(frozen=True)
class Compiled:
    """A program, its inputs, and what the float interpreter makes of them."""

    arch: Arch
    emitted: Emitted
    inputs: Mapping[str, F32]
    reference: Mapping[str, F32]
    cycles: int

    @property
    def entry(self) -> Entry:
        return self.emitted.program.entries[0]

    @property
    def streams(self) -> list[Words]:
        return self.emitted.program.words[self.entry.name]

    def regions(self) -> Regions:
        """Fresh DRAM: constants and inputs in place. Everything else is 0x55, so that a read of garbage shows."""
        p = self.emitted.program
        regions = {int(b): np.full(max(p.base_bytes.get(b, 0), 64), 0x55, np.uint8) for b in Base}
        regions[int(Base.CONST)][: len(p.constants)] = p.constants
        for slot in self.entry.inputs:
            rows = _rows(regions, slot)
            data = np.ascontiguousarray(self.inputs[slot.name].astype(ITEM[slot.dtype])).reshape(len(rows), -1)
            rows[:, : data.nbytes // len(rows)] = data.view(np.uint8)
        return regions

    def outputs(self, regions: Regions) -> dict[str, F32]:
        """The entry's results by name."""
        found = {}
        for slot in self.entry.outputs:
            item = np.dtype(ITEM[slot.dtype])
            data = np.ascontiguousarray(_rows(regions, slot)[:, : slot.shape[2] * item.itemsize])
            found[slot.name] = data.view(item).reshape(slot.shape).astype(np.float32)
        return found

    def run(self) -> dict[str, F32]:
        """The results of a fresh machine. Nothing overflows float16 or becomes NaN."""
        regions = self.regions()
        total = Machine(self.arch, regions).run(self.streams, entry=self.entry.name).total
        assert (total.fp16_overflow, total.nan) == (0, 0)
        return self.outputs(regions)


def _rows(regions: Regions, slot: Slot) -> npt.NDArray[np.uint8]:
    return regions[slot.base][slot.offset : slot.offset + slot.bytes].reshape(-1, slot.row_bytes)


@dataclass(frozen=True)
class _Arrays:
    arrays: Mapping[str, F32]

    def get(self, source: str, transform: Sequence[str] = ()) -> npt.NDArray[Any]:
        return self.arrays[source]


def compile_net(
    net: Net, arch: Arch | str, inputs: Mapping[str, npt.ArrayLike], policy: Policy | None = None
) -> Compiled:
    """Calibrate on `inputs` (rounded to float16 here), quantise, emit and time."""
    arch = load_arch(arch) if isinstance(arch, str) else arch
    rounded = {k: np.asarray(v, np.float16).astype(np.float32) for k, v in inputs.items()}
    module = parse_module(net.text())
    statistics = Statistics(module)
    interpreter = FloatInterpreter(module, _Arrays(net.arrays))
    reference = interpreter.run("f", rounded, observe_inputs=statistics.operands)
    derived: Derived = {}
    choices = None if policy is None else Choices(policy)
    quantise(module, arch, Calibration({}, statistics.tensors), derived, choices=choices)
    emitted = emit(module, arch, fetcher(_Arrays(net.arrays).get, derived), {})
    verify_program(emitted.program)
    timing = simulate(arch, emitted.program.words["f"], "f")
    assert timing.cycles > 0
    return Compiled(arch, emitted, rounded, reference, timing.cycles)
