"""The predictor's quantisers beside hand-made numbers, and its int4 weights beside the compiler's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from dpu.bench.quality.predict_layers import Attention, Conv, Linear, group_norm, layer_norm, phase
from dpu.bench.quality.predict_numbers import Weight, dynamic, half, int4_weight, int8_weight, scale_of, static
from dpu.ir.numerics import W4_GROUP
from dpu.passes.int4 import contiguous, inputs_of, quantise_int4
from dpu.runtime.sqnr import sqnr
from torch import nn
from torch.nn import functional as F


def test_dynamic_and_static_integers() -> None:
    x = torch.tensor([[0.5, -2.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    q, s = dynamic(x)
    assert q.tolist() == [[32, -127, 64, 0], [0, 0, 0, 0]]  # 31.75 and 63.5 (half to even) steps
    assert s[:, 0].tolist() == pytest.approx([2 / 127, 2.0**-24 / 127])
    q, s = dynamic(x, 15)
    assert q[0].tolist() == [4080, -16319, 8160, 0] and float(s[0, 0]) == pytest.approx(2 / 16319)
    step = scale_of(torch.tensor(1.27))
    assert static(torch.tensor([0.014, -0.015, 5.0, -5.0]), step).tolist() == [1, -2, 127, -127]  # -1.5 to even
    assert float(scale_of(torch.tensor(0.0))) == 1
    assert half(torch.tensor([1 + 2.0**-12, 1e6, -1e6])).tolist() == [1, 65504, -65504]


def test_int8_weight_by_channel() -> None:
    w = int8_weight(torch.tensor([[1.27, 0.014], [-2.54, 1.0], [0.0, 0.0]]))
    assert w.q.tolist() == [[127, 1], [-127, 50], [0, 0]]
    assert w.scale.tolist() == pytest.approx([0.01, 0.02, 1])


def test_linear_of_known_integers() -> None:
    weight = Weight(torch.tensor([[2.0, -1.0], [127.0, 0.0]]), torch.tensor([0.5, 0.25]))
    bias = torch.tensor([10.0, 20.0])
    x = torch.tensor([[127.0, -63.0], [254.0, 2.0]])  # steps of 1 and 2
    y = Linear("n", weight, bias, 8, None)(x)
    assert y.tolist() == [[(254 + 63) * 0.5 + 10, 127 * 127 * 0.25 + 20], [(254 - 1) * 2 * 0.5 + 10, 16129 * 0.5 + 20]]
    y = Linear("n", weight, bias, 8, torch.tensor(2.0))(x)  # 63.5 and -31.5 steps, to even
    assert y[0].tolist() == [(2 * 64 + 32) * 1.0 + 10, 127 * 64 * 0.5 + 20]


@pytest.mark.parametrize("gptq", [False, True])
def test_int4_weights_are_the_compilers(gptq: bool) -> None:
    rng = np.random.default_rng(3)
    widths = [200, 96]  # two sources: groups of 128, 72 and 96
    w = rng.standard_normal((24, sum(widths))).astype(np.float32)
    w[5], w[6, 128:200] = 0, 0  # a channel and a group of nothing
    inputs = rng.standard_normal((500, sum(widths))) * rng.uniform(0.1, 3, sum(widths))
    gram = (inputs.T @ inputs).astype(np.float32)
    theirs = quantise_int4(w, contiguous(widths), inputs_of(gram) if gptq else None)
    ours = int4_weight(torch.from_numpy(w), widths, torch.from_numpy(gram) if gptq else None)
    assert W4_GROUP == 128
    same = ours.q.numpy() == theirs.integers()
    assert np.mean(same) > 0.999 if gptq else same.all()  # two libraries invert the gram matrix
    assert np.array_equal(ours.scale.numpy(), theirs.scale)
    plain = int4_weight(torch.from_numpy(w), widths)
    assert gptq == bool(np.mean(plain.q.numpy() != ours.q.numpy()) > 0.05)


def test_four_phases_are_upsampling_and_a_convolution() -> None:
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 4, 3, padding=1)
    x = torch.randint(-127, 128, (2, 3, 5, 6)).float()
    kernels = [phase(conv.weight.detach(), py, px) for py in (0, 1) for px in (0, 1)]
    weights = [Weight(k.flatten(1), torch.ones(4)) for k in kernels]  # no rounding of weights
    found = Conv("n", weights, conv, [torch.tensor(1.0)], 3, 8)(x)
    wanted = conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))
    assert torch.allclose(found, wanted, atol=1e-3)


def test_convolution_of_two_sources_has_two_steps() -> None:
    conv = nn.Conv2d(2, 1, 1, bias=False)
    steps = [torch.tensor(1.0), torch.tensor(0.5)]
    made = Conv("n", [Weight(torch.tensor([[3.0, 5.0]]), torch.tensor([2.0]))], conv, steps, 1, 8)
    x = torch.tensor([7.2, 7.2])[None, :, None, None]
    assert made(x).item() == (3 * 7 + 5 * 14) * 2  # the second weight was multiplied by 0.5 before


def test_norms_are_torchs() -> None:
    torch.manual_seed(0)
    x = half(torch.randn(2, 12, 4, 4) * 3 + 1)
    group, layer = nn.GroupNorm(3, 12, eps=1e-6), nn.LayerNorm(12)
    for norm in (group, layer):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    with torch.no_grad():
        assert torch.allclose(group_norm(x, group, silu=True), F.silu(group(x)), atol=1e-5)
        tokens = x.flatten(2).mT
        assert torch.allclose(layer_norm(tokens, layer), layer(tokens), atol=1e-5)


@pytest.mark.parametrize("bits", [8, 15])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_in_blocks_is_softmax(bits: int, causal: bool) -> None:
    torch.manual_seed(1)
    q, k, v = (torch.randn(2, 50, 32) for _ in range(3))
    heads, k_step = 2, scale_of(k.abs().amax().repeat(2))
    v_step = scale_of((v - v.mean(1, keepdim=True)).abs().amax(dim=(0, 1)))
    found = Attention(heads, k_step, v_step, 0.25, 16, bits, causal)(q, k, v)
    split = [x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v)]
    wanted = F.scaled_dot_product_attention(*split, scale=0.25, is_causal=causal).transpose(1, 2).flatten(2)
    assert sqnr(wanted, found) > 35  # three operands of 30 to 40 steps: each about 40 dB
