"""Pairs of images: two PNG files, or the files of the same name in two folders."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...errors import DpuError, refusing
from ...files import sha256

LEAST_SIDE = 44
"""Pixels: the third scale of MS-SSIM is a quarter of the image and must hold one window of 11."""

Pixels = npt.NDArray[np.uint8]
"""Height x width x 3, 8-bit sRGB."""

_RGB8 = "the metrics are defined on 8-bit RGB"


@dataclass(frozen=True)
class Pair:
    """Two files that show the same prompt."""

    name: str
    reference: Path
    candidate: Path

    def read(self) -> tuple[Pixels, Pixels]:
        """Both images.

        Raises:
            DpuError: one cannot be read or is not 8-bit RGB, or they differ in size.
        """
        a, b = read_rgb(self.reference), read_rgb(self.candidate)
        if a.shape != b.shape:
            raise DpuError(
                str(self.candidate),
                f"is {_size(b)}, {self.reference} is {_size(a)}",
                why="images are compared pixel by pixel",
                hint="make both images at one size",
                code="E522",
            )
        return a, b


def pairs(reference: Path, candidate: Path) -> list[Pair]:
    """The pairs of two files, or of two folders: every `*.png` of one has its namesake in the other; by name, sorted.

    Raises:
        DpuError: a path is missing, one is a folder and the other a file, a folder holds no PNG, or names differ.
    """
    for path in (reference, candidate):
        if not path.exists():
            raise DpuError(str(path), "no such file or folder", code="E106")
    if reference.is_dir() != candidate.is_dir():
        kinds = [f"is a {'folder' if p.is_dir() else 'file'}" for p in (candidate, reference)]
        raise DpuError(
            str(candidate), f"{kinds[0]}, {reference} {kinds[1]}", hint="give two folders or two images", code="E106"
        )
    if not reference.is_dir():
        return [Pair(reference.name, reference, candidate)]
    ours, theirs = _names(reference), _names(candidate)
    for here, there, missing in ((reference, candidate, ours - theirs), (candidate, reference, theirs - ours)):
        if missing:
            raise DpuError(
                str(there),
                f"lacks {len(missing)} of the {len(ours | theirs)} names, the first is '{min(missing)}' of {here}",
                why="images are compared in pairs of one name",
                hint="give both images of a prompt the same name",
                code="E522",
            )
    return [Pair(name, reference / name, candidate / name) for name in sorted(ours)]


def read_rgb(path: Path) -> Pixels:
    """One image.

    Raises:
        DpuError: it is no readable PNG, not 8-bit RGB, or smaller than `LEAST_SIDE`.
    """
    from PIL import Image

    with refusing(str(path), "is no readable PNG", code="E117"), _not_too_large(path):
        header = path.read_bytes()[:26]
        with Image.open(path, formats=["PNG"]) as image:
            image.load()
            mode, pixels = image.mode, np.asarray(image)
    if mode != "RGB":
        raise DpuError(str(path), f"mode is '{mode}', allowed: 'RGB'", why=_RGB8, code="E117")
    if (depth := header[24]) != 8:  # of the IHDR chunk; Pillow would drop the low byte without a word
        raise DpuError(str(path), f"has {depth} bits a channel, allowed: 8", why=_RGB8, code="E117")
    if min(pixels.shape[:2]) < LEAST_SIDE:
        raise DpuError(
            str(path),
            f"is {_size(pixels)}, each side must be at least {LEAST_SIDE}",
            why="the third scale of MS-SSIM is a quarter of the image and must hold one window of 11 pixels",
            hint="make a larger image",
            code="E117",
        )
    return pixels


@contextmanager
def _not_too_large(path: Path) -> Iterator[None]:
    """Say that an image is too large where Pillow speaks of an attack."""
    from PIL import Image

    try:
        yield
    except Image.DecompressionBombError as e:
        largest = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        why = f"Pillow reads at most {largest:,} pixels"
        raise DpuError(str(path), "is too large to be read", why, "make a smaller image", code="E117") from e


def digest(paths: Iterable[Path]) -> str:
    """The hex digest of files in order, names left aside: which images a result is about."""
    whole = hashlib.sha256()
    for path in paths:
        whole.update(bytes.fromhex(sha256(path)))
    return whole.hexdigest()


def _names(folder: Path) -> set[str]:
    found = {p.name for p in folder.iterdir() if p.suffix.lower() == ".png" and p.is_file()}
    if not found:
        raise DpuError(str(folder), "holds no PNG", hint="give a folder of PNG images", code="E106")
    return found


def _size(pixels: Pixels) -> str:
    return f"{pixels.shape[1]}x{pixels.shape[0]}"
