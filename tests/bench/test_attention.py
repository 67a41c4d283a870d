"""The study of attention's probabilities: cases worked out by hand, and rows that would not notice a wrong width."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from dpu.bench.attention import cost, page, real, study
from dpu.bench.attention.device import Exact, Quantised, of_floats, of_integers, on_device, quantised, split
from dpu.bench.attention.operands import DISTRIBUTIONS, QUERIES, Operands, rounded, synthetic
from dpu.ir.arch import load_arch
from dpu.passes.policy import named_policy

TINY = load_arch("dpu_tiny")
D = 8  # channels of a head, one column tile of dpu_tiny


def two_keys(ratio: float) -> Quantised:
    """One query; key 0 has `ratio` times the weight of key 1; the values are 1 and -1 in every channel, mean 0."""
    q, k, v = np.zeros((1, 1, D), np.int8), np.zeros((1, 2, D), np.int8), np.zeros((1, 2, D), np.int8)
    q[0, 0, 0], k[0, 0, 0] = 127, 127  # scores 127^2 and 0
    v[0, 0], v[0, 1] = 127, -127
    q_scale = np.full((1, 1, 1), np.log(ratio) / 127**2, np.float32)
    one = np.ones(1, np.float32)
    return Quantised(q, q_scale, k, one, v, np.zeros((1, 1, D), np.float32), np.full(D, 1 / 127, np.float32))


# Worked out by hand for 600: l = 1 + 1/600. 8 bits: P = 255 and round(255/600 = 0.425) = 0, so y = 1 / l = 0.998336.
# 15 bits: 16319 and round(27.198) = 27, so y = (1 - 27/16319) / l = 0.996684; exact is (1 - 1/600) / l = 0.996672.
# float16 has steps of 2^-11 = 0.00049 here. For 400, 255/400 = 0.6375 becomes 1: y = (1 - 1/255) / (1 + 1/400).
@pytest.mark.parametrize(
    ("ratio", "bits", "hand"),
    [
        (600, 8, 1 / (1 + 1 / 600)),
        (600, 15, (1 - 27 / 16319) / (1 + 1 / 600)),
        (400, 8, (1 - 1 / 255) / (1 + 1 / 400)),
        (400, 15, (1 - 41 / 16319) / (1 + 1 / 400)),
    ],
)
def test_two_keys_by_hand(ratio: float, bits: int, hand: float) -> None:
    y = on_device(two_keys(ratio), 1.0, bits, TINY)
    np.testing.assert_array_equal(y, np.full((1, 1, D), np.float16(hand), np.float32))


def test_float64_of_two_keys() -> None:
    want = (1 - 1 / 600) / (1 + 1 / 600)
    np.testing.assert_allclose(of_integers(two_keys(600), 1.0).y, want, rtol=1e-6)  # scales are float32


def test_equal_keys_are_exact_in_both_widths() -> None:
    """All p are 1, which both widths have; V sums to its centred integers, and the mean comes back."""
    rng = np.random.default_rng(0)
    x = Operands(np.ones((1, 3, D), np.float32), np.zeros((1, 20, D), np.float32), _half(rng, (1, 20, D)), 1, 1.0)
    ints = quantised(x)
    exact = of_integers(ints, 1.0)
    for bits in (8, 15):
        y = on_device(ints, 1.0, bits, TINY)
        assert np.abs(y - exact.y).max() <= 2.0**-11 * np.abs(exact.y).max() * 1.001  # float16, and float32 before it
    assert study.rounding_noise(exact, 64, 255) == 0


def _half(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float16).astype(np.float32)


def test_operands_become_integers_as_worked_out_by_hand() -> None:
    q, k = np.zeros((1, 2, D), np.float32), np.zeros((1, 2, D), np.float32)
    q[0, 0, :2], q[0, 1, :2] = (4, 1), (-2, 0.5)  # channel 0: maximum 4, of keys 1: f = 2; channel 1: 1 and 1
    k[0, 0, :2], k[0, 1, :2] = (1, -1), (0.5, 0)
    v = np.zeros((1, 2, D), np.float32)
    v[0, :, 0] = 3, 1  # mean 2, so +1 and -1
    found = quantised(Operands(q, k, v, 1, 1.0))
    # Queries / f: (2, 1) and (-1, 0.5), each by its own maximum; keys * f: (2, -1) and (1, 0), by 2.
    assert found.q[0, :, :2].tolist() == [[127, 64], [-127, 64]]  # 63.5 is rounded to even
    np.testing.assert_allclose(found.q_scale[0, 0], [2 / 127, 1 / 127], rtol=1e-6)
    assert found.k[0, :, :2].tolist() == [[127, -64], [64, 0]]
    np.testing.assert_allclose(found.k_scale, [2 / 127], rtol=1e-6)
    assert (found.mu[0, 0, :2].tolist(), found.v[0, :, 0].tolist()) == ([2, 0], [127, -127])


def test_the_peak_of_all_queries_counts_for_smoothing() -> None:
    x = synthetic("Gaussian, sigma 1", 77)
    part = Operands(x.q[:, :3], x.k, x.v, 1, x.scale, np.abs(x.q).max((0, 1)))
    np.testing.assert_array_equal(quantised(part).q, quantised(x).q[:, :3])


def test_expected_noise_by_hand() -> None:
    """Blocks of 3: p = 1, 1/2 and 1/1000 of the first maximum; then one key alone at 1/10 of it, p = 1 and w = 1/10.

    l = 1 + 0.5 + 0.001 + 0.1 = 1.601. 8 bits: errors 0, 1/(12 255^2), 0.001^2 (below 1/510) and 0. 15 bits: 0.001 is
    above 1/32638. The two channels' values are 1, -1, 1, -1 and twice that: variances 1 and 4.
    """
    scores = np.log(np.array([1, 0.5, 0.001, 0.1]))[None, None, None]
    values = np.array([1.0, -1, 1, -1])[None, None, :, None] * [1, 2]
    x = Exact(scores, values)
    p, w, total = study.relative(scores, 3)
    np.testing.assert_allclose(p[0, 0, 0], [1, 0.5, 0.001, 1])
    np.testing.assert_allclose(w[0, 0, 0], [1, 1, 1, 0.1])
    np.testing.assert_allclose(total, 1.601)
    step8, step15 = 1 / (12 * 255**2), 1 / (12 * 16319**2)
    assert study.rounding_noise(x, 3, 255) == pytest.approx(5 * (step8 + 1e-6) / 1.601**2)
    assert study.rounding_noise(x, 3, 16319) == pytest.approx(5 * 2 * step15 / 1.601**2)
    # In one block the last key is at 0.1: one more rounding error.
    assert study.rounding_noise(x, 4, 255) == pytest.approx(5 * (2 * step8 + 1e-6) / 1.601**2)


@pytest.mark.parametrize("keys", [77, 1024])
def test_the_device_has_the_noise_that_the_formula_expects(keys: int) -> None:
    """Within 0.5 dB: 4,096 results of one noise, whose mean square has a deviation of sqrt(2 / 4096), 0.1 dB."""
    x = synthetic("Gaussian, sigma 1", keys)
    row = study.compare("g", "synthetic", x, load_arch("dpu_f2"))
    for bits in (8, 15):
        w = row.width(bits)
        assert w.probabilities_db == pytest.approx(w.expected_db, abs=0.5)
    # The widths differ by 20 log10(16319 / 255) = 36 dB of rounding; float16 results leave at least 15 of them.
    assert row.width(15).probabilities_db > row.width(8).probabilities_db + 15
    assert row.width(15).share < row.width(8).share
    assert row.key_block == min(keys + -keys % 64, 1024)


def test_a_peak_among_many_small_keys_is_where_8_bits_lose() -> None:
    """1 key ln 600 above 4,095: the 1,023 of its block become 0, the others have a maximum of their own.

    With one query's peak in one of 4 blocks, 1023/600 of l = 1 + 4095/600 is lost: 21.8 %, the spread of scores aside.
    """
    row = study.compare("p", "synthetic", synthetic("1 key ln 600 above near-equal ones", 4096), load_arch("dpu_f2"))
    assert row.key_block == 1024
    assert row.lost == pytest.approx(1023 / 600 / (1 + 4095 / 600), abs=0.03)
    assert row.width(8).sqnr_db < row.operands_db - 10
    assert row.gain > 10
    assert row.width(15).sqnr_db == pytest.approx(row.operands_db, abs=0.1)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_scores_are_seeded_and_what_they_say(name: str) -> None:
    x, again, other = (synthetic(name, 256, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(x.k, again.k)
    assert not np.array_equal(x.k, other.k)
    scores = of_floats(x).scores[0, 0]
    assert scores.shape == (QUERIES, 256)
    ordered = np.sort(scores, axis=1)
    if name.startswith("Gaussian"):
        sigma = float(name.split()[-1])
        assert scores.std() == pytest.approx(sigma, rel=0.1)
    if "above near-equal" in name:
        count, gap = int(name[0]), 4 if "keys 4 " in name else np.log(600)
        assert np.abs(ordered[:, -count:] - gap).max() < 0.02  # float16 queries and keys
        assert np.abs(ordered[:, : -count - 1]).max() < 0.6  # 6 deviations
    if name.startswith("sink"):
        best = scores.argmax(axis=1)
        assert np.bincount(best).max() > QUERIES / 2  # most queries see it first


def test_hooks_hear_what_attention_computes() -> None:
    torch = pytest.importorskip("torch")
    from diffusers.models.attention_processor import Attention

    torch.manual_seed(0)
    attention = Attention(query_dim=32, heads=2, dim_head=16).eval()
    heard = real._Heard(attention)
    x = torch.randn(3, 40, 32)
    inputs: list[torch.Tensor] = []
    attention.to_out[0].register_forward_pre_hook(lambda module, args: inputs.append(args[0]))
    with torch.no_grad():
        attention(x)
        attention(x * 2)
    ((name, operands),) = heard.operands(0, (1,))
    assert (name, operands.heads, operands.q.shape, operands.keys) == ("", 2, (3, 40, 32), 40)
    # float16 operands: 2^-11 of values and, in the exponent, of scores of about 1.
    np.testing.assert_allclose(of_floats(operands).y, inputs[1].numpy(), atol=4e-3)
    np.testing.assert_allclose(operands.q_peak, np.abs(split(operands.q, 1)).max((0, 1, 2)))


def test_a_study_and_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "KEYS", (77,))
    monkeypatch.setattr(study, "DISTRIBUTIONS", {n: DISTRIBUTIONS[n] for n in list(DISTRIBUTIONS)[1:3]})
    found = study.measure(None, "dpubench attention --no-costs", with_costs=False)
    assert [(r.scores, r.keys) for r in found.rows] == [("Gaussian, sigma 1", 77), ("Gaussian, sigma 2", 77)]
    prices = [cost.Cost(arch="a", bits=b, unet_cycles=c, attention_cycles=d, image_seconds=s) for b, c, d, s in COSTS]
    found = found.model_copy(update={"costs": tuple(prices)})
    page.save(found, tmp_path / "a.json")
    kept = study.Study.model_validate_json((tmp_path / "a.json").read_text())
    assert kept == found and json.loads((tmp_path / "a.json").read_text())["provenance"] == "simulated"
    text = (tmp_path / "a.md").read_text()
    assert "15 bits take a +5.0% cycles a UNet forward of full-size SDXL (2.10 instead of 2.00 s an image" in text
    assert "| a | 100.0 | 105.0 | +5.0% | 10.0 | +50.0% | 2.00 s | 2.10 s |" in text
    row = found.rows[0]
    assert f"| Gaussian, sigma 1 | 77 | {row.effective_keys:.1f} | " in text
    assert f"{row.operands_db:.1f} | {row.width(8).sqnr_db:.1f} | " in text
    assert "Real weights" not in text


COSTS = ((8, 100_000_000, 10_000_000, 2.0), (15, 105_000_000, 15_000_000, 2.1))


def test_the_policy_differs_from_w8a8_in_its_probabilities_alone() -> None:
    eight, fifteen = cost.policy(8), cost.policy(15)
    assert eight.digest == named_policy("w8a8").digest != fifteen.digest
    assert fifteen.default == named_policy("w8a8").default.model_copy(update={"probabilities": 15})


@pytest.mark.slow
def test_15_bits_cost_attention_a_product() -> None:
    found = {(c.arch, c.bits): c for c in cost.costs()}
    for arch in ("dpu_f2", "dpu_32tops"):
        eight, fifteen = found[arch, 8], found[arch, 15]
        more = fifteen.attention_cycles - eight.attention_cycles
        assert 0 < more < eight.attention_cycles  # at most what all products would take again
        assert fifteen.unet_cycles - eight.unet_cycles == pytest.approx(more, rel=0.02)


def test_no_pipeline_is_refused(tmp_path: Path) -> None:
    from dpu.errors import DpuError

    with pytest.raises(DpuError) as refused:
        next(real.captured(tmp_path, 0, print))
    assert str(refused.value) == (
        f"error[E501]: {tmp_path}: is no folder of diffusers: there is no model_index.json\n"
        "  try: models/tiny is one; leave out --model for synthetic scores alone"
    )


def test_one_row_is_one_head_of_float16_values() -> None:
    x = rounded(np.full((2, D), 1 / 3), np.ones((3, D)), np.ones((3, D)))
    assert x.q[0, 0, 0] == np.float32(np.float16(1 / 3)) and x.channels == D


def test_the_page_is_no_result(tmp_path: Path) -> None:
    from dpu.bench.cli.attention import attention
    from dpu.errors import DpuError

    with pytest.raises(DpuError) as refused:
        attention(output=tmp_path / "x.md")
    assert str(refused.value) == (
        f"error[E501]: --output: '{tmp_path / 'x.md'}' is the name of the page\n"
        "  why: it is kept beside the JSON\n"
        "  try: end it in .json"
    )
