"""SSIM and MS-SSIM of 8-bit RGB images, in float64. PSNR is `runtime.sqnr.psnr`.

SSIM: Wang, Bovik, Sheikh, Simoncelli, "Image quality assessment: from error visibility to structural similarity",
2004. Gaussian window of 11 x 11 with sigma 1.5, K1 = 0.01, K2 = 0.03, L = 255, variances weighted by the window
(not the sample variance), only where the whole window lies inside the image, each colour channel alone, then the mean.

MS-SSIM: Wang, Simoncelli, Bovik, "Multiscale structural similarity for image quality assessment", 2003. Three scales
in place of five, so that an image of 64 x 64 has one: the paper's first three exponents over their sum. So it is
not comparable with five-scale figures. Between scales a mean of 2 x 2 pixels; an odd last row or column is dropped.
A negative contrast-structure term (inverted images) counts as 0, since no power of it exists.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, conv2d

from .images import Pixels

WINDOW, SIGMA = 11, 1.5
K1, K2, L = 0.01, 0.03, 255.0
_PAPER = (0.0448, 0.2856, 0.3001)
EXPONENTS = tuple(w / sum(_PAPER) for w in _PAPER)


def ssim(a: Pixels, b: Pixels) -> float:
    """Mean SSIM of two images of one size, 1 when equal; sides of at least 11."""
    return float(_terms(_channels(a), _channels(b))[0].mean())


def ms_ssim(a: Pixels, b: Pixels) -> float:
    """Three-scale MS-SSIM of two images of one size, 1 when equal; sides of at least 44."""
    x, y = _channels(a), _channels(b)
    product = torch.ones(3, dtype=torch.float64)
    for scale, exponent in enumerate(EXPONENTS):
        whole, contrast = _terms(x, y)
        term = whole if scale == len(EXPONENTS) - 1 else contrast
        product *= term.clamp(min=0) ** exponent
        x, y = avg_pool2d(x, 2), avg_pool2d(y, 2)
    return float(product.mean())


def _channels(image: Pixels) -> Tensor:
    """3 x 1 x height x width, so that channels are filtered one by one."""
    return torch.from_numpy(image.astype(np.float64)).permute(2, 0, 1)[:, None]


def _blur(x: Tensor) -> Tensor:
    at = torch.arange(WINDOW, dtype=torch.float64) - WINDOW // 2
    taps = torch.exp(-(at**2) / (2 * SIGMA**2))
    taps /= taps.sum()
    return conv2d(conv2d(x, taps.reshape(1, 1, -1, 1)), taps.reshape(1, 1, 1, -1))


def _terms(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """SSIM and its contrast-structure term of each channel, as means over the image."""
    c1, c2 = (K1 * L) ** 2, (K2 * L) ** 2
    mx, my = _blur(x), _blur(y)
    vx, vy, vxy = _blur(x * x) - mx * mx, _blur(y * y) - my * my, _blur(x * y) - mx * my
    contrast = (2 * vxy + c2) / (vx + vy + c2)
    whole = (2 * mx * my + c1) / (mx * mx + my * my + c1) * contrast
    return whole.mean((1, 2, 3)), contrast.mean((1, 2, 3))
