"""PSNR, SSIM, MS-SSIM: the definition written out, two peers, closed forms, properties."""

from __future__ import annotations

from math import log10

import numpy as np
import pytest
import pytorch_msssim
import torch
from dpu.bench.metrics.images import LEAST_SIDE
from dpu.bench.metrics.pixels import EXPONENTS, K1, K2, SIGMA, WINDOW, L, ms_ssim, ssim
from dpu.runtime.sqnr import psnr

from tests.bench.metrics_images import Pixels, disturbed, flat, picture

METRICS = (psnr, ssim, ms_ssim)


def written_out(a: Pixels, b: Pixels) -> float:
    """SSIM as the paper has it: every window of every channel, one by one."""
    at = np.arange(WINDOW) - WINDOW // 2
    w = np.exp(-(at[:, None] ** 2 + at**2) / (2 * SIGMA**2))
    w /= w.sum()
    c1, c2 = (K1 * L) ** 2, (K2 * L) ** 2
    found = []
    for channel in range(3):
        for i in range(a.shape[0] - WINDOW + 1):
            for j in range(a.shape[1] - WINDOW + 1):
                x, y = (im[i : i + WINDOW, j : j + WINDOW, channel].astype(float) for im in (a, b))
                mx, my = (w * x).sum(), (w * y).sum()
                vx, vy, vxy = (w * (x - mx) ** 2).sum(), (w * (y - my) ** 2).sum(), (w * (x - mx) * (y - my)).sum()
                found.append((2 * mx * my + c1) * (2 * vxy + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2)))
    return float(np.mean(found))


def test_ssim_is_the_definition() -> None:
    a = picture(14, 17)
    b = disturbed(a, 40)
    assert ssim(a, b) == pytest.approx(written_out(a, b), abs=1e-12)


@pytest.mark.parametrize(
    ("height", "width", "size", "peer", "decibels"),
    [
        (64, 64, 20, 0.8989163537634107, 26.693316066478854),
        (50, 71, 60, 0.5536471002411159, 17.489487951882225),
        (96, 64, 5, 0.9918296119796981, 38.169214065893215),
    ],
)
def test_ssim_and_psnr_are_those_of_scikit_image(
    height: int, width: int, size: int, peer: float, decibels: float
) -> None:
    """Values of scikit-image 0.26.0: structural_similarity(channel_axis=2, gaussian_weights=True, sigma=1.5,
    use_sample_covariance=False, data_range=255) and peak_signal_noise_ratio. It is too large to install for this."""
    a = picture(height, width)
    b = disturbed(a, size)
    assert ssim(a, b) == pytest.approx(peer, abs=1e-12)
    assert psnr(a, b) == pytest.approx(decibels, abs=1e-10)


@pytest.mark.parametrize("size", [3, 30, 120])
def test_peer_of_both(size: int) -> None:
    """pytorch-msssim keeps its window in float32: seven digits. It takes images above 160 only."""
    a = picture(176, 200)
    b = disturbed(a, size)
    x, y = (torch.from_numpy(i.astype(np.float64)).permute(2, 0, 1)[None] for i in (a, b))
    assert ssim(a, b) == pytest.approx(float(pytorch_msssim.ssim(x, y, data_range=255)), abs=2e-6)
    peer = pytorch_msssim.ms_ssim(x, y, data_range=255, weights=list(EXPONENTS))
    assert ms_ssim(a, b) == pytest.approx(float(peer), abs=2e-6)


def test_flat_images_leave_the_luminance_term() -> None:
    """No variance: contrast is c2 / c2 = 1, SSIM is (2 m n + c1) / (m^2 + n^2 + c1), MS-SSIM its last power."""
    a, b = flat(100, 100, 100), flat(150, 150, 150)
    c1 = 2.55**2
    term = (2 * 100 * 150 + c1) / (100**2 + 150**2 + c1)
    assert ssim(a, b) == pytest.approx(term, abs=1e-10)
    assert ms_ssim(a, b) == pytest.approx(term ** (0.3001 / (0.0448 + 0.2856 + 0.3001)), abs=1e-10)
    assert sum(EXPONENTS) == pytest.approx(1, abs=1e-15)


def test_psnr_by_hand() -> None:
    """All pixels one off: 20 log10 255; half of them two off: mean square 2."""
    a = flat(10, 10, 10)
    assert psnr(a, a + 1) == pytest.approx(20 * log10(255), abs=1e-12)
    b = a.copy()
    b[:32] += 2
    assert psnr(a, b) == pytest.approx(20 * log10(255) - 10 * log10(2), abs=1e-12)


def test_an_inverted_image_has_no_ms_ssim() -> None:
    a = picture(96, 96)
    inverted = (255 - a).astype(np.uint8)
    assert ssim(a, inverted) < 0
    assert ms_ssim(a, inverted) == 0


@pytest.mark.parametrize("metric", METRICS)
def test_identity_symmetry_and_noise(metric: object) -> None:
    assert callable(metric)
    a = picture(80, 64)
    worse = [metric(a, disturbed(a, size)) for size in (1, 4, 16, 64)]
    assert metric(a, a) == (float("inf") if metric is psnr else pytest.approx(1, abs=1e-12))
    assert all(x > y for x, y in zip([metric(a, a), *worse], worse, strict=False))
    b = disturbed(a, 16)
    assert metric(a, b) == pytest.approx(metric(b, a), abs=1e-12)


def test_the_smallest_image_has_three_scales() -> None:
    a = picture(LEAST_SIDE, LEAST_SIDE + 1)
    assert 0 < ms_ssim(a, disturbed(a, 9)) < 1
    with pytest.raises(RuntimeError):
        ms_ssim(picture(LEAST_SIDE - 1, 64), picture(LEAST_SIDE - 1, 64))
