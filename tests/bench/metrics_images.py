"""Images of the metrics' tests, from integers alone: the same on every machine and in every version of numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]


def picture(height: int = 64, width: int = 64, variant: int = 0) -> Pixels:
    """Slopes, a grid and some hash noise, each channel its own."""
    y, x, c = np.indices((height, width, 3)) + 1
    slope = (x * (2 + c) + y * (3 + variant)) % 180
    grid = 50 * ((x // 8 + y // (5 + c) + variant) % 2)
    return (slope + grid + _hash(x, y, c + 7 * variant) % 26).astype(np.uint8)


def disturbed(image: Pixels, size: int, variant: int = 0) -> Pixels:
    """The image with whole numbers of -size to size added, cut to 0 to 255."""
    y, x, c = np.indices(image.shape) + 1
    noise = _hash(y, x, c + 3 + 11 * variant) % (2 * size + 1) - size
    return np.clip(image.astype(np.int64) + noise, 0, 255).astype(np.uint8)


def flat(red: int, green: int, blue: int, side: int = 64) -> Pixels:
    """One colour."""
    return np.full((side, side, 3), (red, green, blue), np.uint8)


def write(folder: Path, images: dict[str, Pixels]) -> Path:
    """The images as PNG files of a new folder."""
    from PIL import Image

    folder.mkdir()
    for name, pixels in images.items():
        Image.fromarray(pixels).save(folder / name)
    return folder


def _hash(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64], c: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    mixed = (a * 73856093) ^ (b * 19349663) ^ (c * 83492791)
    return (mixed * 2654435761 % (1 << 32)) >> 13
