"""Every precision of linears and convolutions: proved, equal to the interpreter bit for bit, as good as its bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from dpu.codegen.emit import Emitted, emit
from dpu.codegen.verify.verify import verify_program
from dpu.ir.arch import load_arch
from dpu.ir.dialects import parse_module, print_module
from dpu.ir.isa import DMA, DmaFormat, Opcode
from dpu.passes.calibration import Calibration
from dpu.passes.policy import Choices, Policy, Precision, Rule
from dpu.passes.quantise import Derived, fetcher, quantise
from dpu.runtime.check.compare import check
from dpu.runtime.float_interpreter import FloatInterpreter
from dpu.runtime.statistics import Statistics
from dpu.simulator.timing import simulate

from ..properties.harness import Net, Value
from .simulated import result

F32 = np.ndarray
SIDE = 7
POLICIES = {
    "w4a8": Precision(weights=4),
    "w8a16": Precision(activations=16),
    "w8a8-static": Precision(scale="static"),
    "w4a16-static": Precision(weights=4, activations=16, scale="static"),
}


class Case:
    """A net under construction: seeded weights of unit gain."""

    def __init__(self, samples: int) -> None:
        self.rng = np.random.default_rng(3)
        self.net = Net(samples)

    def x(self, name: str, tokens: int, channels: int) -> Value:
        return self.net.input(name, tokens, channels)

    def w(self, *shape: int) -> Value:
        k = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
        return self.net.param((self.rng.standard_normal(shape) / k**0.5).astype(np.float16))

    def v(self, n: int, mean: float = 0.0) -> Value:
        return self.net.param((mean + self.rng.standard_normal(n) / 4).astype(np.float16))


def linear(c: Case) -> Value:
    """Ragged everything, bias, activation, residual."""
    return c.net.linear(c.x("x", 13, 97), c.w(97, 70), bias=c.v(70), act="silu", residual=c.x("r", 13, 70))


def two_sources(c: Case) -> Value:
    """Sources whose tiles do not fill a group."""
    return c.net.linear(c.x("x", 9, 70), c.w(70 + 150, 24), x2=c.x("x2", 9, 150))


def long_reduction(c: Case) -> Value:
    """A reduction that dpu_tiny loads in parts, the last group of which is short."""
    return c.net.linear(c.x("x", 5, 1500), c.w(1500, 20))


def normed(c: Case) -> Value:
    """LayerNorm with its own statistics, then with those of the producer; row maxima from a producer."""
    h = c.net.linear(c.net.layer_norm(c.x("x", 11, 40), c.v(40, 1), c.v(40)), c.w(40, 48))
    h = c.net.linear(c.net.layer_norm(h, c.v(48, 1), c.v(48)), c.w(48, 64), bias=c.v(64))
    return c.net.linear(h, c.w(64, 8))


def geglu(c: Case) -> Value:
    h = c.net.linear(c.x("x", 10, 64), c.w(64, 2 * 72), bias=c.v(144), geglu=True)
    return c.net.linear(h, c.w(72, 64), residual=c.x("r", 10, 64))


def attention(c: Case) -> Value:
    x = c.x("x", 12, 64)
    n = c.net.layer_norm(x, c.v(64, 1), c.v(64))
    q, k, v = (c.net.linear(n, c.w(64, 64), bias=c.v(64)) for _ in range(3))
    return c.net.linear(c.net.attention(q, k, v, 1, 0.125), c.w(64, 64), residual=x)


def convolution(c: Case) -> Value:
    """Two sources of different range, bias, one vector an image, residual."""
    y = c.net.conv(
        c.x("x", SIDE * SIDE, 20),
        c.w(24, 20 + 70, 3, 3),
        (SIDE, SIDE),
        x2=c.x("x2", SIDE * SIDE, 70),
        bias=c.v(24),
        residual=c.x("r", SIDE * SIDE, 24),
    )
    return c.net.conv(y, c.w(12, 24, 3, 3), (SIDE, SIDE), stride=2)


def wide_convolution(c: Case) -> Value:
    """Channels that dpu_tiny loads in parts."""
    return c.net.conv(c.x("x", SIDE * SIDE, 200), c.w(16, 200, 3, 3), (SIDE, SIDE))


def upsampled(c: Case) -> Value:
    return c.net.conv(c.x("x", SIDE * SIDE, 16), c.w(16, 16, 3, 3), (SIDE, SIDE), upsample=True, bias=c.v(16))


def resnet(c: Case) -> Value:
    """GroupNorm over two sources that writes integers for the convolution."""
    x, x2 = (c.net.conv(c.x(n, SIDE * SIDE, 12), c.w(16, 12, 1, 1), (SIDE, SIDE), pad=(0,) * 4) for n in ("x", "x2"))
    n = c.net.group_norm(x, c.v(32, 1), c.v(32), 4, x2=x2, act="silu")
    return c.net.conv(n, c.w(16, 32, 3, 3), (SIDE, SIDE), bias=c.v(16))


CASES: dict[str, Callable[[Case], Value]] = {
    f.__name__: f
    for f in (
        *(linear, two_sources, long_reduction, normed, geglu, attention),
        *(convolution, wide_convolution, upsampled, resnet),
    )
}


def build(
    make: Callable[[Case], Value], arch: str, policy: Policy | None, gptq: bool = False
) -> tuple[Emitted, Callable, dict, F32, str]:
    """The emitted net, what it fetches, its inputs, the float result, the quantised text."""
    case = Case(2)
    case.net.returns(make(case))
    net = case.net
    rng = np.random.default_rng(8)
    inputs = {
        a.name: (rng.standard_normal(a.shape) * (3 if a.name == "x2" else 1)).astype(np.float16).astype(np.float32)
        for a in net.arguments
    }

    class Arrays:
        @staticmethod
        def get(source: str, transform: tuple[str, ...] = ()) -> np.ndarray:
            return net.arrays[source]

    module = parse_module(net.text())
    statistics = Statistics(module, grams=True)
    (reference,) = FloatInterpreter(module, Arrays).run("f", inputs, observe_inputs=statistics.operands).values()
    derived: Derived = {}
    choices = Choices(policy, gptq) if policy is not None else None
    grams = {k.removesuffix(":gram"): lambda a=a: a for k, a in statistics.tensors.items() if k.endswith(":gram")}
    calibration = Calibration({}, statistics.tensors, grams=grams)
    quantise(module, load_arch(arch), calibration, derived, choices=choices)
    if choices is not None and gptq:
        assert {k.why for k in choices.kept} <= {"gram matrices are those of linears"}
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    fetch = fetcher(Arrays.get, derived)
    return emit(module, load_arch(arch), fetch, {}), fetch, inputs, np.asarray(reference), text


def decibels(reference: F32, y: F32) -> float:
    return float(10 * np.log10((reference**2).sum() / ((y - reference.reshape(y.shape)) ** 2).sum()))


@pytest.mark.parametrize("arch", ["dpu_tiny", "dpu_f2"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("policy", POLICIES)
def test_equal_bit_for_bit(policy: str, name: str, arch: str) -> None:
    chosen = Policy(name=policy, default=POLICIES[policy])
    emitted, fetch, inputs, reference, _ = build(CASES[name], arch, chosen)
    verify_program(emitted.program)
    report = check(emitted, fetch, inputs)
    assert report.ok, report.text()
    # Weights of 4 bits leave 20 dB of a Gaussian; three layers in a row, each as far off, 15. 8 bits: 38.9 for each
    # operand, less where the largest value is far from the others.
    least = 13 if "w4" in policy else 24
    assert decibels(reference, result(emitted, inputs)) > least


@pytest.mark.parametrize("name", ["linear", "two_sources", "convolution", "resnet"])
def test_wide_activations_leave_the_noise_of_weights(name: str) -> None:
    """15-bit activations take away half of the noise that weights and activations of 8 bits have together, or more."""
    found = {}
    for bits in (8, 16):
        policy = Policy(name="test", default=Precision(activations=bits))
        emitted, _, inputs, reference, _ = build(CASES[name], "dpu_tiny", policy)
        found[bits] = decibels(reference, result(emitted, inputs))
    assert found[16] > found[8] + 2, found


@pytest.mark.parametrize("name", ["linear", "two_sources", "long_reduction", "convolution", "wide_convolution"])
def test_what_a_precision_moves_and_multiplies(name: str) -> None:
    """int4 weights take about half of the constants; two planes double the products and leave the weights alone."""

    def of(precision: Precision) -> tuple[int, int, int]:
        emitted, *_ = build(CASES[name], "dpu_f2", Policy(name="test", default=precision))
        p = emitted.program
        words = [w for stream in p.words["f"] for w in stream]
        mm = sum(int(w["opcode"]) == Opcode.MM for w in words)
        loads = np.concatenate([s[s["opcode"] == Opcode.LOAD] for s in p.words["f"]]).view(DMA)
        packed = loads[loads["format"] == DmaFormat.INT4]
        assert simulate(p.arch, p.words["f"], "f").cycles > 0
        return len(p.constants), mm, len(packed)

    (size, products, none), (four, same, packed) = of(Precision()), of(Precision(weights=4))
    assert none == 0 and packed > 0 and products <= same
    assert 0.45 * size < four < 0.75 * size
    (wide_size, wide, none) = of(Precision(activations=16))
    assert (wide_size, none) == (size, 0)
    assert wide >= 2 * products


@pytest.mark.parametrize("name", ["linear", "two_sources", "normed", "geglu", "attention", "resnet"])
def test_compensated_weights(name: str) -> None:
    """Equal bit for bit, each linear with the gram matrix of its input, also after LayerNorm and of two sources."""
    policy = Policy(name="test", default=Precision(weights=4))
    emitted, fetch, inputs, reference, text = build(CASES[name], "dpu_tiny", policy, gptq=True)
    assert text.count(" gram ") == text.count("dpu.q.linear")
    verify_program(emitted.program)
    report = check(emitted, fetch, inputs)
    assert report.ok, report.text()
    if name in ("linear", "two_sources"):  # of few rows: what is made up for is what these inputs show
        plain, *_ = build(CASES[name], "dpu_tiny", policy)
        assert decibels(reference, result(emitted, inputs)) > decibels(reference, result(plain, inputs)) + 1


def test_layers_of_one_attention_may_differ() -> None:
    """Weights of one operation may differ; activations that differ make operations of their own."""
    rule = Rule(layers="f/dpu.linear#2", weights=4)
    *_, text = build(attention, "dpu_tiny", Policy(name="test", rules=(rule,)))
    assert "w_bits = array<i64: 8, 4, 8>" in text
    rule = Rule(layers="f/dpu.linear#2", activations=16)
    emitted, fetch, inputs, _, text = build(attention, "dpu_tiny", Policy(name="test", rules=(rule,)))
    assert 'kinds ["q8_head", "f16"]' in text and 'kinds ["q8_static"]' in text and text.count("x_bits = 15") == 1
    assert check(emitted, fetch, inputs).ok


def test_readers_of_a_group_norm_may_differ() -> None:
    """A GroupNorm writes integers if all its readers take the same ones; else each quantises for itself."""

    def make(c: Case) -> Value:
        x = c.net.conv(c.x("x", SIDE * SIDE, 12), c.w(16, 12, 1, 1), (SIDE, SIDE), pad=(0,) * 4)
        n = c.net.group_norm(x, c.v(16, 1), c.v(16), 4)
        a = c.net.conv(n, c.w(8, 16, 3, 3), (SIDE, SIDE))
        return c.net.conv(n, c.w(8, 16, 3, 3), (SIDE, SIDE), residual=a)

    rule = Rule(layers="f/dpu.conv#3", activations=16)
    emitted, fetch, inputs, _, text = build(make, "dpu_tiny", Policy(name="test", rules=(rule,)))
    assert "xi16>" in text and "dpu.q.group_norm" in text
    assert text.count("dpu.q.quantise") == 3  # the input, and the GroupNorm's result twice
    assert check(emitted, fetch, inputs).ok
    *_, text = build(make, "dpu_tiny", Policy(name="test", default=Precision(activations=16)))
    assert text.count("dpu.q.quantise") == 1 and text.count("xi16>") >= 3


def test_without_a_policy_it_is_w8a8() -> None:
    for make in CASES.values():
        assert build(make, "dpu_tiny", None)[-1] == build(make, "dpu_tiny", Policy(name="w8a8"))[-1]
