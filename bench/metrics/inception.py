"""Features of the FID's Inception-V3, with weights that the user has: `pt_inception-2015-12-05-6726825d.pth`.

That file is TensorFlow's network of 2015 as the package pytorch-fid published it, and what MLPerf scores SDXL with. The
network is torchvision's Inception-V3 with 1,008 classes and these differences (mlcommons/inference,
text_to_image/tools/fid/inception.py): average pooling does not count the padding, and the last block pools by maximum.
Layers are named as in the file.
"""

from __future__ import annotations

from pathlib import Path
from pickle import UnpicklingError

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, interpolate, max_pool2d, relu

from ...errors import DpuError, refusing
from .bootstrap import Array
from .images import Pixels

DIMENSIONS = 2048
_SIDE = 299
_CLASSES = 1008
_Kernel = int | tuple[int, int]


class _Conv(nn.Module):
    """Convolution, batch normalisation, ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: _Kernel, stride: int = 1, same: bool = True) -> None:
        super().__init__()
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        padding = (height // 2, width // 2) if same else 0
        self.conv = nn.Conv2d(inputs, outputs, (height, width), stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        """All three."""
        return relu(self.bn(self.conv(x)))


class _Mixed(nn.Module):
    """A block of branches: each a chain of named layers, or a chain that ends in two layers side by side."""

    def __init__(self, inputs: int, layers: dict[str, tuple[int, int, _Kernel, int]], pool: str) -> None:
        super().__init__()
        self.pool = pool
        for name, (source, outputs, kernel, stride) in layers.items():
            self.add_module(name, _Conv(source or inputs, outputs, kernel, stride, same=stride == 1))
        chains: dict[str, list[str]] = {}
        for name in layers:
            chains.setdefault(name.split("_")[0], []).append(name)
        self.chains = [names for key, names in chains.items() if key != "branch"]

    def forward(self, x: Tensor) -> Tensor:
        """Branches side by side, in the order of the file; the pooled one last."""
        found = []
        for names in self.chains:
            y = x
            for name in names:
                if name[-1] in "ab":  # side by side
                    found.append(self.get_submodule(name)(y))
                else:
                    y = self.get_submodule(name)(y)
            if not names[-1].endswith("b"):
                found.append(y)
        match self.pool:
            case "mean":
                pooled = avg_pool2d(x, 3, 1, 1, count_include_pad=False)
            case "maximum":
                pooled = max_pool2d(x, 3, 1, 1)
            case _:
                return torch.cat([*found, max_pool2d(x, 3, 2)], 1)
        return torch.cat([*found, self.get_submodule("branch_pool")(pooled)], 1)


def _a(inputs: int, pooled: int) -> _Mixed:
    layers: dict[str, tuple[int, int, _Kernel, int]] = {
        "branch1x1": (0, 64, 1, 1),
        "branch5x5_1": (0, 48, 1, 1),
        "branch5x5_2": (48, 64, 5, 1),
        "branch3x3dbl_1": (0, 64, 1, 1),
        "branch3x3dbl_2": (64, 96, 3, 1),
        "branch3x3dbl_3": (96, 96, 3, 1),
        "branch_pool": (0, pooled, 1, 1),
    }
    return _Mixed(inputs, layers, "mean")


def _b(inputs: int) -> _Mixed:
    layers: dict[str, tuple[int, int, _Kernel, int]] = {
        "branch3x3": (0, 384, 3, 2),
        "branch3x3dbl_1": (0, 64, 1, 1),
        "branch3x3dbl_2": (64, 96, 3, 1),
        "branch3x3dbl_3": (96, 96, 3, 2),
    }
    return _Mixed(inputs, layers, "stride")


def _c(inputs: int, c: int) -> _Mixed:
    row, column = (1, 7), (7, 1)
    layers: dict[str, tuple[int, int, _Kernel, int]] = {
        "branch1x1": (0, 192, 1, 1),
        "branch7x7_1": (0, c, 1, 1),
        "branch7x7_2": (c, c, row, 1),
        "branch7x7_3": (c, 192, column, 1),
        "branch7x7dbl_1": (0, c, 1, 1),
        "branch7x7dbl_2": (c, c, column, 1),
        "branch7x7dbl_3": (c, c, row, 1),
        "branch7x7dbl_4": (c, c, column, 1),
        "branch7x7dbl_5": (c, 192, row, 1),
        "branch_pool": (0, 192, 1, 1),
    }
    return _Mixed(inputs, layers, "mean")


def _d(inputs: int) -> _Mixed:
    layers: dict[str, tuple[int, int, _Kernel, int]] = {
        "branch3x3_1": (0, 192, 1, 1),
        "branch3x3_2": (192, 320, 3, 2),
        "branch7x7x3_1": (0, 192, 1, 1),
        "branch7x7x3_2": (192, 192, (1, 7), 1),
        "branch7x7x3_3": (192, 192, (7, 1), 1),
        "branch7x7x3_4": (192, 192, 3, 2),
    }
    return _Mixed(inputs, layers, "stride")


def _e(inputs: int, pool: str) -> _Mixed:
    layers: dict[str, tuple[int, int, _Kernel, int]] = {
        "branch1x1": (0, 320, 1, 1),
        "branch3x3_1": (0, 384, 1, 1),
        "branch3x3_2a": (384, 384, (1, 3), 1),
        "branch3x3_2b": (384, 384, (3, 1), 1),
        "branch3x3dbl_1": (0, 448, 1, 1),
        "branch3x3dbl_2": (448, 384, 3, 1),
        "branch3x3dbl_3a": (384, 384, (1, 3), 1),
        "branch3x3dbl_3b": (384, 384, (3, 1), 1),
        "branch_pool": (0, 192, 1, 1),
    }
    return _Mixed(inputs, layers, pool)


class Inception(nn.Module):
    """The network up to its mean over places."""

    def __init__(self) -> None:
        super().__init__()
        self.Conv2d_1a_3x3 = _Conv(3, 32, 3, 2, same=False)
        self.Conv2d_2a_3x3 = _Conv(32, 32, 3, same=False)
        self.Conv2d_2b_3x3 = _Conv(32, 64, 3)
        self.Conv2d_3b_1x1 = _Conv(64, 80, 1)
        self.Conv2d_4a_3x3 = _Conv(80, 192, 3, same=False)
        self.Mixed_5b, self.Mixed_5c, self.Mixed_5d = _a(192, 32), _a(256, 64), _a(288, 64)
        self.Mixed_6a = _b(288)
        self.Mixed_6b, self.Mixed_6c, self.Mixed_6d, self.Mixed_6e = (_c(768, c) for c in (128, 160, 160, 192))
        self.Mixed_7a = _d(768)
        self.Mixed_7b, self.Mixed_7c = _e(1280, "mean"), _e(2048, "maximum")
        self.fc = nn.Linear(DIMENSIONS, _CLASSES)  # in the file, and not used

    def forward(self, x: Tensor) -> Tensor:
        """1 x 3 x 299 x 299 in -1 to 1 -> 2,048 numbers."""
        for name, layer in self.named_children():
            if name in ("Conv2d_3b_1x1", "Mixed_5b"):
                x = max_pool2d(x, 3, 2)
            if name != "fc":
                x = layer(x)
        return x.mean((0, 2, 3))

    @torch.inference_mode()
    def features(self, image: Pixels) -> Array:
        """Of one image, resized to 299 x 299 (bilinear, not antialiased) as MLPerf's scorer does."""
        x = torch.from_numpy(image.astype(np.float32)).permute(2, 0, 1)[None] / 255
        x = interpolate(x, size=(_SIDE, _SIDE), mode="bilinear", align_corners=False)
        return np.asarray(self(2 * x - 1).double().numpy(), np.float64)


def load(path: Path) -> Inception:
    """The network with the weights of a file.

    Raises:
        DpuError: no such file, no state dict, or one of another network.
    """
    if not path.is_file():
        raise DpuError(str(path), "no such file", hint="give pt_inception-2015-12-05-6726825d.pth", code="E106")
    network = Inception().eval().requires_grad_(False)
    with refusing(
        str(path),
        "holds no weights of the FID's Inception-V3",
        hint="give pt_inception-2015-12-05-6726825d.pth, as pytorch-fid published it",
        code="E112",
    ):
        try:
            weights = torch.load(path, map_location="cpu", weights_only=True)
        except (UnpicklingError, EOFError):  # torch's text advises to run what is in the file
            raise ValueError("it is no file of tensors") from None
        network.load_state_dict(weights)
    return network
