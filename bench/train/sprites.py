"""The icons, rendered once: `sprites.npz` has each of `captions.OBJECTS` as 96x96 RGBA.

To make it again:

    npm pack @iconify-json/fluent-emoji-flat@1.2.6
    pip install resvg-py
    python -m dpu.bench.train.sprites iconify-json-fluent-emoji-flat-1.2.6.tgz
"""

from __future__ import annotations

import argparse
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import DpuError
from ...files import atomic_write
from .captions import OBJECTS

SPRITES = Path(__file__).parent / "sprites.npz"
SIDE = 96  # pixels
PACKAGE = "@iconify-json/fluent-emoji-flat 1.2.6"


def load_sprites(path: Path = SPRITES) -> npt.NDArray[np.uint8]:
    """[objects, SIDE, SIDE, RGBA] in the order of `OBJECTS`.

    Raises:
        DpuError: the file is missing, or holds other objects.
    """
    try:
        with np.load(path) as file:
            names, pixels = [str(n) for n in file["names"]], np.asarray(file["pixels"], np.uint8)
    except (OSError, ValueError, KeyError) as e:
        raise DpuError(
            str(path), f"no readable sprites ({e})", hint="bench/train/README.md makes it", code="E106"
        ) from e
    if names != list(OBJECTS) or pixels.shape != (len(names), SIDE, SIDE, 4):
        raise DpuError(
            str(path),
            f"{len(names)} sprites of shape {pixels.shape[1:]}, which are not those of captions.OBJECTS",
            hint="render it again: bench/train/README.md",
            code="E106",
        )
    return pixels


def render(package: Path, out: Path = SPRITES) -> None:
    """Render the icons of the npm package's tarball into `out`.

    Raises:
        DpuError: the tarball has no icons.json, or an icon is missing.
    """
    import resvg_py  # type: ignore[import-not-found, unused-ignore]
    from PIL import Image

    try:
        with tarfile.open(package) as tar:
            member = tar.extractfile("package/icons.json")
            icons: dict[str, Any] = json.load(member)["icons"] if member else {}
    except (OSError, tarfile.TarError, KeyError, ValueError) as e:
        raise DpuError(str(package), f"no icon package ({e})", hint=f"it is {PACKAGE}", code="E106") from e
    pixels = []
    for name, (_, icon) in OBJECTS.items():
        if icon not in icons:
            raise DpuError(str(package), f"no icon '{icon}' for '{name}'", hint=f"it is {PACKAGE}", code="E106")
        body = icons[icon]["body"]
        svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" width="{SIDE}" height="{SIDE}">{body}</svg>'
        png = bytes(resvg_py.svg_to_bytes(svg_string=svg, width=SIDE, height=SIDE))
        pixels.append(np.asarray(Image.open(io.BytesIO(png)).convert("RGBA")))
    with atomic_write(out) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, names=np.array(list(OBJECTS)), pixels=np.stack(pixels))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=SPRITES)
    arguments = parser.parse_args()
    render(arguments.package, arguments.out)
