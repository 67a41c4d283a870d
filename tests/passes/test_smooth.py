"""Smoothing: float results stay as they are, the alpha that is chosen is the best one, and it helps where it should."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from dpu.errors import DpuError
from dpu.ir.dialects import parse_module
from dpu.passes.calibration import Calibration
from dpu.passes.collectors import Collected
from dpu.passes.derived import Derived, fetcher
from dpu.passes.policy import Choices, Policy, Precision
from dpu.passes.smooth import SmoothQuant, _Rewrite, places
from dpu.passes.smooth_search import ALPHAS, Reader, best, factors
from dpu.runtime.fake_quantise import FakeQuantiser
from dpu.runtime.float_interpreter import FloatInterpreter, Get
from dpu.runtime.statistics import Statistics
from xdsl.ir import Operation

K = 24
BLOCK = f"""builtin.module {{
  func.func @context(%text: tensor<2x5x{K}xf32> {{dpu.name = "text"}}) -> (tensor<2x5x{K}xf32> {{dpu.name = "k"}},
      tensor<2x5x{K}xf32> {{dpu.name = "v"}}) {{
    %wk = dpu.param "wk" : tensor<{K}x{K}xf32>
    %wv = dpu.param "wv" : tensor<{K}x{K}xf32>
    %bv = dpu.param "bv" : tensor<{K}xf32>
    %k = dpu.linear %text, %wk : tensor<2x5x{K}xf32>, tensor<{K}x{K}xf32> -> tensor<2x5x{K}xf32>
    %v = dpu.linear %text, %wv bias %bv : tensor<{K}xf32> :
      tensor<2x5x{K}xf32>, tensor<{K}x{K}xf32> -> tensor<2x5x{K}xf32>
    func.return %k, %v : tensor<2x5x{K}xf32>, tensor<2x5x{K}xf32>
  }}
  func.func @unet(%x: tensor<2x9x{K}xf32> {{dpu.name = "x"}}, %k: tensor<2x5x{K}xf32> {{dpu.name = "k"}},
      %v: tensor<2x5x{K}xf32> {{dpu.name = "v"}}) -> (tensor<2x9x{K}xf32> {{dpu.name = "y"}}) {{
    %gamma = dpu.param "gamma" : tensor<{K}xf32>
    %beta = dpu.param "beta" : tensor<{K}xf32>
    %wq = dpu.param "wq" : tensor<{K}x{K}xf32>
    %wo = dpu.param "wo" : tensor<{K}x{K}xf32>
    %wu = dpu.param "wu" : tensor<{K}x{4 * K}xf32>
    %bu = dpu.param "bu" : tensor<{4 * K}xf32>
    %wd = dpu.param "wd" : tensor<{2 * K}x{K}xf32>
    %n = dpu.layer_norm %x, %gamma, %beta eps 1.0e-05 : f32 :
      tensor<2x9x{K}xf32>, tensor<{K}xf32>, tensor<{K}xf32> -> tensor<2x9x{K}xf32>
    %q = dpu.linear %n, %wq : tensor<2x9x{K}xf32>, tensor<{K}x{K}xf32> -> tensor<2x9x{K}xf32>
    %a = dpu.attention %q, %k, %v heads 2 : i64 scale 0.3 : f64 key_block 64 : i64 prob_bits 8 : i64 :
      tensor<2x9x{K}xf32>, tensor<2x5x{K}xf32>, tensor<2x5x{K}xf32> -> tensor<2x9x{K}xf32>
    %o = dpu.linear %a, %wo residual %x : tensor<2x9x{K}xf32> :
      tensor<2x9x{K}xf32>, tensor<{K}x{K}xf32> -> tensor<2x9x{K}xf32>
    %m = dpu.group_norm %o, %gamma, %beta groups 4 : i64 eps 1.0e-05 : f32 :
      tensor<2x9x{K}xf32>, tensor<{K}xf32>, tensor<{K}xf32> -> tensor<2x9x{K}xf32>
    %u = dpu.linear %m, %wu bias %bu : tensor<{4 * K}xf32> geglu :
      tensor<2x9x{K}xf32>, tensor<{K}x{4 * K}xf32> -> tensor<2x9x{2 * K}xf32>
    %y = dpu.linear %u, %wd : tensor<2x9x{2 * K}xf32>, tensor<{2 * K}x{K}xf32> -> tensor<2x9x{K}xf32>
    func.return %y : tensor<2x9x{K}xf32>
  }}
}}"""
"""Every place: LayerNorm, values of another function, GroupNorm, GEGLU; outlying channels behind both norms."""

SHAPES = {"wk": (K, K), "wv": (K, K), "bv": (K,), "beta": (K,), "wq": (K, K), "wo": (K, K), "bu": (4 * K,)}
SHAPES |= {"wu": (K, 4 * K), "wd": (2 * K, K), "gamma": (K,)}


class Weights:
    """Seeded, in float16 as a model stores them."""

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        self.arrays = {n: (rng.standard_normal(s) / s[0] ** 0.5).astype(np.float16) for n, s in SHAPES.items()}
        self.arrays["gamma"] = (1 + 0.2 * rng.standard_normal(K)).astype(np.float16)
        self.arrays["gamma"][3] = 15

    def get(self, source: str, transform: tuple[str, ...] = ()) -> np.ndarray:
        return self.arrays[source]


class Read:
    """The parameters of a smoothed module."""

    def __init__(self, fetch: Callable[[str, tuple[str, ...]], np.ndarray]) -> None:
        self._fetch = fetch

    def get(self, source: str, transform: tuple[str, ...] = ()) -> np.ndarray:
        return self._fetch(source, transform)


def feeds(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {"text": (2, 5, K), "x": (2, 9, K)}
    return {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def run(interpreter: FloatInterpreter, given: dict[str, np.ndarray], **observers: object) -> np.ndarray:
    values: dict[str, np.ndarray] = dict(given)
    for function in ("context", "unet"):
        values |= interpreter.run(function, values, **observers)  # type: ignore[arg-type]
    return values["y"]


def calibration(grams: bool = True) -> Calibration:
    module = parse_module(BLOCK)
    statistics, interpreter = Statistics(module, grams=grams), FloatInterpreter(module, Weights())
    for seed in range(8):
        run(interpreter, feeds(seed), observe_inputs=statistics.operands, observe=statistics.results)
    tensors = {k: v for k, v in statistics.tensors.items() if not k.endswith(":gram")}
    read = {k.removesuffix(":gram"): (lambda v=v: v) for k, v in statistics.tensors.items() if k.endswith(":gram")}
    return Calibration({}, tensors, "a test", read)


def test_every_place_is_found() -> None:
    found = [(type(p.maker).__name__, [r.w.name_hint for r in p.readers]) for p in places(parse_module(BLOCK))]
    expected = [("LayerNormOp", ["wq"]), ("LinearOp", ["wo"]), ("GroupNormOp", ["wu"]), ("LinearOp", ["wd"])]
    assert found == expected


def test_powers_of_two_change_no_bit_of_a_float_result() -> None:
    """So the rewrite is exact, and what other factors change is rounding."""
    module, derived, store = parse_module(BLOCK), Derived(), Weights()
    before = run(FloatInterpreter(parse_module(BLOCK), store), feeds(99))
    fetch = fetcher(store.get, derived)
    rewrite, rng = _Rewrite("unet", derived, fetch), np.random.default_rng(1)
    for place in list(places(module)):
        rewrite.divide(place, np.exp2(rng.integers(-6, 7, place.channels)).astype(np.float32))
    module.verify()
    after = run(FloatInterpreter(module, Read(fetch)), feeds(99))
    assert len(derived) == 2 + 1 + 2 + 1 + 2 + 1 + 2 + 1  # makers' parameters and readers' weights
    assert np.array_equal(before, after)


@pytest.mark.parametrize("scale", ["static", "dynamic"])
def test_searched_factors_change_float_results_by_rounding_alone(scale: str) -> None:
    module, derived, store = parse_module(BLOCK), Derived(), Weights()
    before = run(FloatInterpreter(parse_module(BLOCK), store), feeds(99))
    fetch = fetcher(store.get, derived)
    policy = Policy(name="p", default=Precision(scale=scale))  # type: ignore[arg-type]
    smoothing = SmoothQuant(Collected(calibration()), Choices(policy))
    smoothing.apply(module, derived, fetch)
    after = run(FloatInterpreter(module, Read(fetch)), feeds(99))
    assert derived and not np.array_equal(before, after)
    # A few roundings of 2^-24 on each of five layers, sums of at most 2 K terms of mixed sign.
    assert np.abs(after - before).max() <= 64 * 2.0**-24 * np.abs(before).max()
    assert all(s.after_db > s.before_db for s in smoothing.chosen if s.alpha is not None)
    assert all(s.after_db == s.before_db for s in smoothing.chosen if s.alpha is None)


def test_statistics_follow_the_factors() -> None:
    """After smoothing the statistics are those that a calibration of the smoothed graph would have."""
    module, derived, store, base = parse_module(BLOCK), Derived(), Weights(), calibration()
    collected = Collected(base)
    fetch = fetcher(store.get, derived)
    SmoothQuant(collected, Choices(Policy(name="p", default=Precision(scale="static")))).apply(module, derived, fetch)
    assert collected.factors
    again, interpreter = Statistics(module, grams=True), FloatInterpreter(module, Read(fetch))
    for seed in range(8):
        run(interpreter, feeds(seed), observe_inputs=again.operands, observe=again.results)
    for key, factor in collected.factors.items():
        assert (factor != 1).any()
        np.testing.assert_allclose(collected.channel_absmax(key), again.tensors[f"{key}:channel_absmax"], rtol=1e-4)
        assert collected.absmax(key) >= again.tensors[f"{key}:channel_absmax"].max()
        if key.endswith(":v"):
            centred = again.tensors[f"{key}:centred_absmax"]
            np.testing.assert_allclose(collected.centred_absmax(key), centred, rtol=1e-3)
        else:
            square = again.tensors[f"{key}:channel_square"]
            np.testing.assert_allclose(collected.channel_square(key), square, rtol=1e-3)
        if (read := collected.gram(key)) is not None and f"{key}:gram" in again.tensors:
            np.testing.assert_allclose(read(), again.tensors[f"{key}:gram"], rtol=1e-3, atol=1e-2)


def test_smoothing_lowers_the_noise_of_a_quantised_module() -> None:
    """Measured on inputs that calibration did not see: the linears behind the norms with an outlying channel."""
    store, base = Weights(), calibration()

    def noise(smooth: bool) -> float:
        module, derived = parse_module(BLOCK), Derived()
        fetch = fetcher(store.get, derived)
        collected = Collected(base)
        if smooth:
            SmoothQuant(collected, Choices(Policy(name="p"))).apply(module, derived, fetch)
        interpreter, quantiser = FloatInterpreter(module, Read(fetch)), FakeQuantiser(module, collected)

        def only_linears(op: Operation, get: Get) -> torch.Tensor | None:
            return quantiser(op, get) if op.name == "dpu.linear" else None

        total = power = 0.0
        for seed in range(50, 54):
            clean = run(FloatInterpreter(parse_module(BLOCK), store), feeds(seed))
            found = run(interpreter, feeds(seed), override=only_linears)
            total += float(np.square(found - clean).sum())
            power += float(np.square(clean).sum())
        return 10 * np.log10(power / total)

    plain, smoothed = noise(False), noise(True)
    assert smoothed > plain + 1, (plain, smoothed)


def test_the_best_alpha_is_the_one_with_the_least_noise() -> None:
    """Against the definition: quantise input rows and weights with each alpha, and compare the products."""
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((4096, 64)) * np.where(np.arange(64) == 5, 30, 1)
    w = (rng.standard_normal((64, 48)) / 8).astype(np.float32)
    tensors = {
        "l:x:channel_absmax": np.abs(rows).max(0).astype(np.float32),
        "l:x:channel_mean": np.abs(rows).max(0).astype(np.float32),  # of one run: no headroom
        "l:x:channel_square": np.square(rows).mean(0).astype(np.float32),
        "l:x:token_square": np.float32(np.square(np.abs(rows).max(1)).mean()),
    }
    statistics = Collected(Calibration({}, tensors))
    for scale in ("static", "dynamic"):
        precision = Precision(scale=scale)  # type: ignore[arg-type]
        reader = Reader("l:x", w, 8, precision)
        found = best(statistics, [reader])

        def measured(factor: np.ndarray, scale: str = scale) -> float:
            x, m = rows / factor, w * factor[:, None]
            largest = np.abs(x).max() if scale == "static" else np.abs(x).max(1, keepdims=True)
            qx = np.rint(x * 127 / largest) * largest / 127
            step = np.abs(m).max(0) / 127
            return float(np.square(qx @ (np.rint(m / step) * step) - rows @ w).sum() / np.square(rows @ w).sum())

        noises = {a: measured(factors(np.abs(rows).max(0), np.abs(w).max(1), a)) for a in ALPHAS}
        assert found.alpha is not None
        assert noises[found.alpha] <= 1.05 * min(noises.values())
        assert noises[found.alpha] < measured(np.ones(64)) / 4
        # A token's largest value has no rounding error where its scale is the token's own; the prediction counts one.
        within = 0.1 if scale == "static" else 1.0
        assert found.before_db == pytest.approx(-10 * np.log10(measured(np.ones(64))), abs=within)
        assert found.after_db == pytest.approx(-10 * np.log10(noises[found.alpha]), abs=within)


def test_channels_that_nobody_saw_keep_their_weights() -> None:
    s = factors(np.array([0.0, 2.0, 8.0]), np.array([1.0, 0.0, 0.5]), 0.5)
    assert s[0] == s[1] == 1
    assert s[2] == pytest.approx(1)  # the largest of x / s is that of x


def test_old_calibrations_are_refused() -> None:
    base = calibration()
    tensors = {k: v for k, v in base.tensors.items() if k.endswith("absmax")}
    old = Calibration({}, tensors, "old.safetensors")
    module, derived, store = parse_module(BLOCK), Derived(), Weights()
    with pytest.raises(DpuError) as e:
        SmoothQuant(Collected(old), Choices(Policy(name="p"))).apply(module, derived, fetcher(store.get, derived))
    assert e.value.text().splitlines() == [
        "error[E240]: old.safetensors: no statistic 'channel_square' for 'unet/dpu.linear:x'",
        "  why: --smooth needs it, and an earlier version that did not record it made the file",
        "  try: calibrate again: dpuc calibrate DIR -o calib.safetensors",
    ]
