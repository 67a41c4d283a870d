"""The float interpreter against torch's own modules, one operation at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from dpu.errors import DpuError
from dpu.ir.dialects import parse_module
from dpu.runtime.float_interpreter import FloatInterpreter, run_float
from dpu.runtime.tensors import as_btc, from_btc, sinusoid

RNG = np.random.default_rng(3)


class Store:
    """Seeded arrays by name."""

    def __init__(self, **arrays: np.ndarray) -> None:
        self.arrays, self.reads = arrays, 0

    def get(self, source: str, transform: Sequence[str] = ()) -> np.ndarray:
        self.reads += 1
        return self.arrays[source]


def _run(body: str, signature: str, result: str, inputs: dict[str, np.ndarray], **weights: np.ndarray) -> np.ndarray:
    text = f"builtin.module {{\n func.func @f({signature}) -> {result} {{\n{body}\n func.return %y : {result}\n }}\n}}"
    module = parse_module(text)
    (y,) = run_float(module, "f", inputs, Store(**weights)).values()
    return y


def _rand(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def _param(name: str, shape: str) -> str:
    return f'%{name} = dpu.param "{name}" : tensor<{shape}xf32>\n'


def test_linear_with_geglu_bias_and_residual() -> None:
    x, r, w, b = _rand(2, 5, 8), _rand(2, 5, 6), _rand(8, 12), _rand(12)
    y = _run(
        _param("w", "8x12") + _param("b", "12") + "%y = dpu.linear %x, %w bias %b : tensor<12xf32> residual %r : "
        "tensor<2x5x6xf32> geglu : tensor<2x5x8xf32>, tensor<8x12xf32> -> tensor<2x5x6xf32>",
        "%x: tensor<2x5x8xf32>, %r: tensor<2x5x6xf32>",
        "tensor<2x5x6xf32>",
        {"x": x, "r": r},
        w=w,
        b=b,
    )
    value, gate = torch.from_numpy(x @ w + b).chunk(2, -1)
    np.testing.assert_allclose(y, (value * F.gelu(gate)).numpy() + r, rtol=1e-5, atol=1e-5)


def test_conv_with_upsample_second_source_and_time_embedding() -> None:
    x, x2, t, w, b = _rand(1, 12, 3), _rand(1, 12, 2), _rand(1, 1, 4), _rand(4, 5, 3, 3), _rand(4)
    y = _run(
        _param("w", "4x5x3x3") + _param("b", "4") + "%y = dpu.conv %x concat %x2 : tensor<1x12x2xf32>, %w bias %b : "
        "tensor<4xf32> temb %t : tensor<1x1x4xf32> size 3 x 4 stride 1 upsample {pad = array<i64: 1, 1, 1, 1>} : "
        "tensor<1x12x3xf32>, tensor<4x5x3x3xf32> -> tensor<1x48x4xf32>",
        "%x: tensor<1x12x3xf32>, %x2: tensor<1x12x2xf32>, %t: tensor<1x1x4xf32>",
        "tensor<1x48x4xf32>",
        {"x": x, "x2": x2, "t": t},
        w=w,
        b=b,
    )
    image = (
        torch.from_numpy(from_btc(np.concatenate([x, x2], -1), 3, 4)).repeat_interleave(2, 2).repeat_interleave(2, 3)
    )
    want = F.conv2d(image, torch.from_numpy(w), torch.from_numpy(b), padding=1).numpy()
    np.testing.assert_allclose(from_btc(y, 6, 8), want + t.reshape(1, 4, 1, 1), rtol=1e-4, atol=1e-4)


def test_group_norm_straddles_its_sources() -> None:
    x, x2, g, b = _rand(2, 7, 4), _rand(2, 7, 2), _rand(6), _rand(6)
    y = _run(
        _param("g", "6") + _param("b", "6") + "%y = dpu.group_norm %x concat %x2 : tensor<2x7x2xf32>, %g, %b groups "
        '2 : i64 eps 1.0e-05 : f64 act "silu" : tensor<2x7x4xf32>, tensor<6xf32>, tensor<6xf32> -> tensor<2x7x6xf32>',
        "%x: tensor<2x7x4xf32>, %x2: tensor<2x7x2xf32>",
        "tensor<2x7x6xf32>",
        {"x": x, "x2": x2},
        g=g,
        b=b,
    )
    both = torch.from_numpy(np.concatenate([x, x2], -1)).transpose(1, 2)
    want = F.silu(F.group_norm(both, 2, torch.from_numpy(g), torch.from_numpy(b), 1e-5)).transpose(1, 2)
    np.testing.assert_allclose(y, want.numpy(), rtol=1e-4, atol=1e-5)


def test_attention_is_softmax_of_scaled_products() -> None:
    q, k, v = _rand(2, 5, 8), _rand(2, 7, 8), _rand(2, 7, 8)
    y = _run(
        "%y = dpu.attention %q, %k, %v heads 2 : i64 scale 0.5 : f64 key_block 64 : i64 prob_bits 8 : i64 : "
        "tensor<2x5x8xf32>, tensor<2x7x8xf32>, tensor<2x7x8xf32> -> tensor<2x5x8xf32>",
        "%q: tensor<2x5x8xf32>, %k: tensor<2x7x8xf32>, %v: tensor<2x7x8xf32>",
        "tensor<2x5x8xf32>",
        {"q": q, "k": k, "v": v},
    )
    for head in (slice(0, 4), slice(4, 8)):
        s = 0.5 * q[..., head] @ k[..., head].transpose(0, 2, 1)
        p = np.exp(s - s.max(-1, keepdims=True))
        np.testing.assert_allclose(y[..., head], p / p.sum(-1, keepdims=True) @ v[..., head], rtol=1e-4, atol=1e-5)


def test_weights_are_read_once_and_observers_see_every_operation() -> None:
    text = """builtin.module { func.func @f(%x: tensor<1x2x3xf32> {dpu.name = "in"}) ->
      (tensor<1x2x3xf32> {dpu.name = "out"}) {
      %w = dpu.param "w" : tensor<3x3xf32>
      %h = dpu.linear %x, %w : tensor<1x2x3xf32>, tensor<3x3xf32> -> tensor<1x2x3xf32>
      %y = dpu.silu %h : tensor<1x2x3xf32> -> tensor<1x2x3xf32>
      func.return %y : tensor<1x2x3xf32> } }"""
    store = Store(w=np.eye(3, dtype=np.float16))
    run = FloatInterpreter(parse_module(text), store)
    seen: list[str] = []
    for _ in range(2):
        out = run.run("f", {"in": np.ones((1, 2, 3))}, lambda op, y: seen.append(op.name))
    assert store.reads == 1
    assert seen == ["dpu.param", "dpu.linear", "dpu.silu"] * 2
    np.testing.assert_allclose(out["out"], 1 / (1 + np.exp(-1.0)), rtol=1e-6)


def test_missing_and_misshaped_inputs_are_named() -> None:
    module = parse_module(
        "builtin.module { func.func @f(%x: tensor<1x2x3xf32>) -> tensor<1x2x3xf32> {"
        "func.return %x : tensor<1x2x3xf32> } }"
    )
    with pytest.raises(DpuError, match="'x' is missing"):
        run_float(module, "f", {}, Store())
    with pytest.raises(DpuError, match="2x2x3, expected 1x2x3"):
        run_float(module, "f", {"x": np.ones((2, 2, 3))}, Store())
    with pytest.raises(DpuError, match="function 'g'"):
        run_float(module, "g", {}, Store())


def test_host_layouts_become_tokens() -> None:
    image = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    tokens = as_btc(image, (1, 12, 2))
    assert tokens[0, 5, 1] == image[0, 1, 1, 1]
    assert np.array_equal(from_btc(tokens, 3, 4), image)
    assert as_btc(7.0, (2, 1, 1)).tolist() == [[[7.0]], [[7.0]]]
    assert as_btc(np.ones((2, 5)), (2, 1, 5)).shape == (2, 1, 5)


def test_sinusoid_is_that_of_diffusers() -> None:
    from diffusers.models.embeddings import get_timestep_embedding

    t = np.array([0.0, 1.0, 500.0, 999.0], np.float32)
    want = get_timestep_embedding(torch.from_numpy(t), 32, flip_sin_to_cos=True, downscale_freq_shift=0).numpy()
    # The frequencies differ by an ulp or two, which an angle of a thousand turns into 1e-4.
    np.testing.assert_allclose(sinusoid(t.reshape(4, 1, 1), 16)[:, 0], want, atol=2e-4)
