"""The cost of one quantised layer: by hand, against the compiled program, and when a calibration is wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dpu.codegen.emit import emit
from dpu.errors import DpuError
from dpu.ir.arch import load_arch
from dpu.ir.dialects import parse_module
from dpu.ir.naming import op_names
from dpu.passes.calibration import Calibration
from dpu.passes.policy import Choices, Policy, Precision
from dpu.passes.quantise import fetcher, quantise
from dpu.runtime.fake_quantise import QUANTISED, FakeQuantiser
from dpu.runtime.float_interpreter import FloatInterpreter
from dpu.runtime.sensitivity import Findings, LayerCost, own_noise, sensitivity, together_db
from dpu.runtime.session import Session
from dpu.runtime.sim_device import SimDevice
from dpu.runtime.sqnr import sqnr
from dpu.runtime.statistics import Statistics

Arrays = dict[str, np.ndarray]
PAD = "{pad = array<i64: 1, 1, 1, 1>}"


class Store:
    """Seeded parameters by name; a graph's text declares their shapes."""

    def __init__(self, seed: int = 0) -> None:
        self.rng, self.arrays = np.random.default_rng(seed), Arrays()

    def param(self, name: str, *shape: int) -> str:
        reduced = int(np.prod(shape[1:])) if len(shape) == 4 else shape[0]
        values = self.rng.standard_normal(shape)
        self.arrays[name] = (values / reduced**0.5 if len(shape) > 1 else 1 + 0.3 * values).astype(np.float32)
        return f'%{name} = dpu.param "{name}" : {tensor(*shape)}\n'

    def get(self, source: str, transform: Sequence[str] = ()) -> np.ndarray:
        return self.arrays[source]


def tensor(*shape: int) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf16>"


def functions(module: Any) -> list[str]:
    return [f.sym_name.data for f in module.ops]


def run(module: Any, store: Store, inputs: Arrays, **hooks: Any) -> Arrays:
    """All functions in order; what one returns the next may take."""
    interpreter, known = FloatInterpreter(module, store), dict(inputs)
    for f in functions(module):
        known |= interpreter.run(f, known, **hooks)
    return known


def calibrated(module: Any, store: Store, runs: list[Arrays]) -> Calibration:
    statistics = Statistics(module)
    for inputs in runs:
        run(module, store, inputs, observe=statistics.results, observe_inputs=statistics.operands)
    return Calibration({}, statistics.tensors)


# -- one layer by hand -------------------------------------------------------------------------------------------------


def integers(x: np.ndarray, scale: Any, limit: int = 127) -> np.ndarray:
    return np.clip(np.rint(x / scale), -limit, limit) * scale


def columns(w: np.ndarray) -> np.ndarray:
    """w [k, n] with int8 columns."""
    return integers(w, np.abs(w).max(axis=0) / 127)


def half(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float16).astype(np.float64)


def test_a_linear_costs_what_int8_tokens_and_columns_cost() -> None:
    s = Store()
    x = s.rng.standard_normal((2, 9, 16)).astype(np.float32) * np.exp(s.rng.standard_normal((2, 9, 1)))
    text = f"func.func @f(%x: {tensor(2, 9, 16)}) -> {tensor(2, 9, 24)} {{\n{s.param('w', 16, 24)}"
    text += s.param("b", 24) + f"%y = dpu.linear %x, %w bias %b : {tensor(24)} : {tensor(2, 9, 16)}, "
    text += f"{tensor(16, 24)} -> {tensor(2, 9, 24)}\nfunc.return %y : {tensor(2, 9, 24)}\n}}"
    w, b = s.arrays["w"].astype(float), s.arrays["b"]
    h = half(x)
    by_hand = integers(h, np.abs(h).max(axis=2, keepdims=True) / 127) @ columns(w) + b
    module = parse_module(text)
    (cost,) = sensitivity(module, s, Calibration({}, {}), [{"x": x}])
    assert (cost.kind, cost.name, cost.noise_share) == ("linear", "f/dpu.linear", 1)
    # A quotient on the edge of two integers may fall to either side; one in 250 values moves the sum by less than this.
    assert cost.sqnr_db == pytest.approx(sqnr(x.astype(float) @ w + b, by_hand), abs=0.05)


def test_a_convolution_costs_what_static_scales_of_its_two_sources_cost() -> None:
    s = Store(1)
    x, x2 = s.rng.standard_normal((1, 30, 8)), 5 * s.rng.standard_normal((1, 30, 4))
    given = {"x": x.astype(np.float32), "x2": x2.astype(np.float32)}
    text = f"func.func @f(%x: {tensor(1, 30, 8)}, %x2: {tensor(1, 30, 4)}) -> {tensor(1, 30, 16)} {{\n"
    text += s.param("w", 16, 12, 1, 1) + f"%y = dpu.conv %x concat %x2 : {tensor(1, 30, 4)}, %w size 5 x 6 stride 1 "
    text += f"{{pad = array<i64: 0, 0, 0, 0>}} : {tensor(1, 30, 8)}, {tensor(16, 12, 1, 1)} -> {tensor(1, 30, 16)}\n"
    text += f"func.return %y : {tensor(1, 30, 16)}\n}}"
    w = s.arrays["w"][:, :, 0, 0].T.astype(float)
    maxima = {"f/dpu.conv:x:absmax": np.float32(2), "f/dpu.conv:x2:absmax": np.float32(17)}  # the first clips
    s1, s2 = 2 / 127, 17 / 127
    both = columns(np.concatenate([w[:8], w[8:] * (s2 / s1)]))
    by_hand = integers(half(x), s1) @ both[:8] + integers(half(x2), s2) * (s1 / s2) @ both[8:]
    (cost,) = sensitivity(parse_module(text), s, Calibration({}, maxima), [given])
    assert cost.kind == "conv"
    assert cost.sqnr_db == pytest.approx(sqnr(np.concatenate([x, x2], 2) @ w, by_hand), abs=0.05)


@pytest.mark.parametrize(("block", "bits", "causal"), [(64, 8, ""), (8, 8, ""), (64, 15, ""), (64, 8, "causal")])
def test_an_attention_costs_what_its_scales_and_probabilities_cost(block: int, bits: int, causal: str) -> None:
    s = Store(2)
    c, d, t, n = 16, 8, 20 if causal else 6, 20
    spread = np.exp(s.rng.standard_normal(c))
    q, k = s.rng.standard_normal((1, t, c)) * spread, s.rng.standard_normal((1, n, c)) / spread
    v = 3 + s.rng.standard_normal((1, n, c))
    keys = tensor(1, n, c)
    text = f"func.func @f(%x: {tensor(1, t, c)}, %k: {keys}, %v: {keys}) -> {tensor(1, t, c)} {{\n"
    text += s.param("w", c, c) + f"%q = dpu.linear %x, %w : {tensor(1, t, c)}, {tensor(c, c)} -> {tensor(1, t, c)}\n"
    text += f"%y = dpu.attention %q, %k, %v heads 2 scale 0.35 key_block {block} prob_bits {bits} : i64 {causal} : "
    text += f"{tensor(1, t, c)}, {keys}, {keys} -> {tensor(1, t, c)}\n"
    text += f"func.return %y : {tensor(1, t, c)}\n}}"
    s.arrays["w"] = np.eye(c, dtype=np.float32)
    given = {name: x.astype(np.float32) for name, x in (("x", q), ("k", k), ("v", v))}
    module = parse_module(text)

    q_max, k_max = np.abs(q).max((0, 1)), np.abs(k).max((0, 1))
    smooth = np.clip(np.sqrt(q_max / k_max), 1 / 16, 16)
    mean = half(v).mean(axis=1, keepdims=True)
    vq = integers(half(v) - mean, np.abs(v - v.mean(axis=1)).max((0, 1)) / 127)
    exact, by_hand, steps = np.zeros((1, t, c)), np.zeros((1, t, c)), 255 if bits == 8 else 16319
    mask = np.triu(np.full((t, n), -1e5), 1) if causal else np.zeros((t, n))
    for h in (slice(0, d), slice(d, c)):
        qh, kh = half((q / smooth)[0, :, h]), (k * smooth)[0, :, h]
        scores = integers(qh, np.abs(qh).max(1, keepdims=True) / 127) @ integers(kh, np.abs(kh).max() / 127).T * 0.35
        scores += mask
        blocks = [slice(lo, lo + block) for lo in range(0, n, block)]
        tops = [scores[:, b].max(1, keepdims=True) for b in blocks]
        p = [np.exp(scores[:, b] - top) for b, top in zip(blocks, tops, strict=True)]
        weight = [np.exp(top - tops[0]) for top in tops]
        o = sum(w * (np.rint(x * steps) / steps @ vq[0, b, h]) for w, x, b in zip(weight, p, blocks, strict=True))
        total = sum(w * x.sum(1, keepdims=True) for w, x in zip(weight, p, strict=True))
        by_hand[0, :, h] = o / total + mean[0, :, h]
        soft = np.exp(q[0, :, h] @ k[0, :, h].T * 0.35 + mask)
        exact[0, :, h] = soft / soft.sum(1, keepdims=True) @ v[0, :, h]
    costs = {c.kind: c for c in sensitivity(module, s, calibrated(module, s, [given]), [given])}
    assert costs["attention"].sqnr_db == pytest.approx(sqnr(exact, by_hand), abs=0.1)


# -- a graph with everything -------------------------------------------------------------------------------------------


def block(s: Store, c: int = 32) -> tuple[Any, list[Arrays]]:
    """A residual block, a transformer block with cross-attention and an upsampling convolution; two forwards."""
    x, text, q, big = tensor(2, 64, c), tensor(2, 11, c), tensor(c), tensor(2, 256, c)
    linear, kernel = f"{x}, {tensor(c, c)} -> {x}\n", f"{x}, {tensor(c, c, 3, 3)}"
    body = f"func.func @context(%t: {text}) -> ({text} {{dpu.name = 'to_k'}}, {text} {{dpu.name = 'to_v'}}) {{\n"
    body += s.param("wk", c, c) + s.param("wv", c, c)
    body += "".join(f"%{r} = dpu.linear %t, %w{r} : {text}, {tensor(c, c)} -> {text}\n" for r in "kv")
    body += (
        f"func.return %k, %v : {text}, {text}\n}}\nfunc.func @step(%x: {x}, %to_k: {text}, %to_v: {text}) -> {big} {{\n"
    )
    body += "".join(s.param(n, c, c, 3, 3) for n in ("w0", "w1", "w2")) + s.param("wq", c, c) + s.param("wo", c, c)
    body += s.param("g", c) + s.param("b", c) + s.param("wi", c, 8 * c) + s.param("wf", 4 * c, c)
    body += f"""
      %c0 = dpu.conv %x, %w0 size 8 x 8 stride 1 {PAD} : {kernel} -> {x}
      %n = dpu.group_norm %c0, %g, %b groups 4 eps 1.0e-5 : f64 act "silu" : {x}, {q}, {q} -> {x}
      %c1 = dpu.conv %n, %w1 bias %b : {q} residual %c0 : {x} size 8 x 8 stride 1 {PAD} : {kernel} -> {x}
      %l = dpu.layer_norm %c1, %g, %b eps 1.0e-5 : f64 : {x}, {q}, {q} -> {x}
      %q = dpu.linear %l, %wq : {linear}
      %a = dpu.attention %q, %to_k, %to_v heads 2 scale 0.25 key_block 64 prob_bits 8 : i64 : {x}, {text}, {text} -> {x}
      %o = dpu.linear %a, %wo bias %b : {q} residual %c1 : {x} : {linear}
      %m = dpu.layer_norm %o, %g, %b eps 1.0e-5 : f64 : {x}, {q}, {q} -> {x}
      %i = dpu.linear %m, %wi geglu : {x}, {tensor(c, 8 * c)} -> {tensor(2, 64, 4 * c)}
      %f = dpu.linear %i, %wf residual %o : {x} : {tensor(2, 64, 4 * c)}, {tensor(4 * c, c)} -> {x}
      %y = dpu.conv %f, %w2 bias %b : {q} size 8 x 8 stride 1 upsample {PAD} : {kernel} -> {big}
      func.return %y : {big}
    }}"""
    runs = [
        {n: s.rng.standard_normal((2, t, c)).astype(np.float32) for n, t in (("x", 64), ("t", 11))} for _ in range(2)
    ]
    return parse_module(body.replace("'", '"')), runs


def on_device(
    s: Store, calibration: Calibration, runs: list[Arrays], precision: Precision | None = None
) -> list[np.ndarray]:
    """What the compiled program gives for each forward."""
    module, _ = block(Store())
    derived: dict[str, Any] = {}
    arch = load_arch("dpu_tiny")
    choices = Choices(Policy(name="all", default=precision)) if precision else None
    quantise(module, arch, calibration, derived, choices=choices)
    program = emit(module, arch, fetcher(s.get, derived), {}).program
    found = []
    with Session(program, SimDevice(arch, timed=False)) as session:
        for inputs in runs:
            session.run("context", inputs)
            found.append(next(iter(session.run("step", inputs).values())))
    return found


@pytest.fixture(scope="module")
def everything() -> dict[str, Any]:
    s = Store()
    module, runs = block(s)
    calibration = calibrated(module, s, runs)
    exact = [run(module, s, r)["y"] for r in runs]
    return {"store": s, "module": module, "runs": runs, "calibration": calibration, "exact": exact}


def test_noise_of_single_layers_adds_up_to_the_noise_of_the_program(everything: dict[str, Any]) -> None:
    e = everything
    costs = sensitivity(e["module"], e["store"], e["calibration"], e["runs"])
    assert sorted(c.kind for c in costs) == ["attention"] + ["conv"] * 3 + ["linear"] * 6
    assert [c.sqnr_db for c in costs] == sorted(c.sqnr_db for c in costs)
    assert sum(c.noise_share for c in costs) == pytest.approx(1)
    device = on_device(e["store"], e["calibration"], e["runs"])
    noise = np.mean([10 ** (-sqnr(x, y) / 10) for x, y in zip(e["exact"], device, strict=True)])
    # Rounding errors of different layers are independent, so their powers add. A factor of 1.5 is left for layers that
    # are not linear in their input, for float16 storage, and because sums over few errors scatter.
    assert 1 / 1.5 < 10 ** (-together_db(costs) / 10) / noise < 1.5


@pytest.mark.parametrize(
    "precision",
    [
        Precision(),
        Precision(scale="static"),
        Precision(weights=4),
        Precision(activations=16),
        Precision(activations=16, scale="static"),
        Precision(probabilities=15),
    ],
    ids=lambda p: "-".join(str(x) for x in p.model_dump().values()),
)
def test_all_layers_at_once_make_the_errors_of_the_program(everything: dict[str, Any], precision: Precision) -> None:
    e = everything
    quantiser = FakeQuantiser(e["module"], e["calibration"], keep=True)
    quantiser.precisions = {op: precision for op in op_names(e["module"]) if isinstance(op, QUANTISED)}
    fake = [
        run(
            e["module"],
            e["store"],
            r,
            override=lambda op, get: quantiser(op, get) if isinstance(op, QUANTISED) else None,
        )["y"]
        for r in e["runs"]
    ]
    device = on_device(e["store"], e["calibration"], e["runs"], precision)
    for exact, f, d in zip(e["exact"], fake, device, strict=True):
        # They differ where a quotient lies on the edge of two integers, and each such step moves those of the next
        # layer. Independent noise of the same power would be 3 dB above the program's own; this is well below it.
        assert sqnr(d, f) > sqnr(exact, d) + 3


def test_a_layer_with_a_bad_scale_is_first(everything: dict[str, Any]) -> None:
    e = everything
    good = sensitivity(e["module"], e["store"], e["calibration"], e["runs"][:1])
    convs = [c for c in good if c.kind == "conv"]
    last = convs[-1].name
    tensors = dict(e["calibration"].tensors)
    key = f"{last}:x:channel_absmax"
    tensors[key] = tensors[key] * np.float32(40)
    calls: list[tuple[int, int]] = []
    bad = sensitivity(e["module"], e["store"], Calibration({}, tensors), e["runs"][:1], lambda *at: calls.append(at))
    assert good[0].name != last
    assert bad[0].name == last
    assert bad[0].noise_share > 0.9
    assert calls == [(i + 1, 10) for i in range(10)]
    others = {c.name: c.sqnr_db for c in good if c.name != last}
    assert {c.name: c.sqnr_db for c in bad if c.name != last} == others


def test_the_last_layer_s_own_noise_is_what_it_costs_the_output(everything: dict[str, Any]) -> None:
    e = everything
    calls: list[tuple[int, int]] = []
    own = own_noise(e["module"], e["store"], e["calibration"], e["runs"], lambda *at: calls.append(at))
    output = {c.name: c.sqnr_db for c in sensitivity(e["module"], e["store"], e["calibration"], e["runs"])}
    name = [n for op, n in op_names(e["module"]).items() if op.name == "dpu.conv"][-1]  # gives the function's result
    last = next(c for c in own if c.name == name)
    assert last.sqnr_db == pytest.approx(output[last.name], abs=1e-4)
    assert {c.name for c in own} == set(output)
    assert [c.sqnr_db for c in own] == sorted(c.sqnr_db for c in own)
    assert calls == [(i + 1, 20) for i in range(20)]
    with pytest.raises(DpuError, match="no inputs"):
        own_noise(e["module"], e["store"], e["calibration"], [])


# -- what is refused and printed ---------------------------------------------------------------------------------------


def test_missing_inputs_and_statistics_are_refused(everything: dict[str, Any]) -> None:
    e = everything
    with pytest.raises(DpuError, match="no inputs"):
        sensitivity(e["module"], e["store"], e["calibration"], [])
    with pytest.raises(DpuError, match="E240"):
        sensitivity(e["module"], e["store"], Calibration({}, {}), e["runs"])


def test_the_table_names_the_first_layers_and_counts_the_rest(tmp_path: Path) -> None:
    costs = [
        LayerCost("/conv_out/Conv", "conv", ("/conv_out/Conv",), 30.0, 0.9),
        LayerCost("/to_q/MatMul", "linear", (), 40.0, 0.1),
        LayerCost("/to_k/MatMul", "linear", (), inf, 0.0),
    ]
    findings = Findings(costs, {"precision": "w8a8", "inputs": "1 of 20 steps"})
    lines = findings.text(1).splitlines()
    assert lines[2].split() == ["1", "30.0", "90.0%", "90.0%", "conv", "/conv_out/Conv"]
    assert lines[3].strip() == "and 2 more with 10.0% of the noise"
    assert lines[4] == "all 3 together, if independent: 29.6 dB"
    findings.save(tmp_path / "layers.json")
    stored = json.loads((tmp_path / "layers.json").read_text())
    assert stored["format"] == "dpu-sensitivity-1"
    assert [x["sqnr_db"] for x in stored["layers"]] == [30.0, 40.0, None]
