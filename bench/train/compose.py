"""Pictures made on the fly: sprites on a coloured ground, placed by a combination and a seeded jitter.

Everything is tensors on one device, so that composing a batch takes no work of the CPU.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from .captions import COLOURS, COUNTS, PLACES, Combination

SIZE = 128  # pixels of a picture, each way
_TILE = 64  # pixels of a sprite's tile
_SIDES = (56, 42, 36)  # pixels of a sprite where there are one, two, three
_APART = (0, 47, 39)  # pixels between the middles of neighbours
_OFF_CENTRE = 30  # pixels from the picture's middle to a place's
# Jitter, uniform to either side: of the group and each sprite (pixels), scale, angle (radians), ground (bytes).
_GROUP, _EACH, _SCALE, _ANGLE, _LIGHT, _TINT = 4.0, 1.5, 0.07, 0.12, 7.0, 4.0
_PLACES: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {  # place: (its middle, direction of a row), (x, y)
    "left": ((-_OFF_CENTRE, 0), (0, 1)),
    "right": ((_OFF_CENTRE, 0), (0, 1)),
    "top": ((0, -_OFF_CENTRE), (1, 0)),
    "bottom": ((0, _OFF_CENTRE), (1, 0)),
    "centre": ((0, 0), (1, 0)),
}


class Composer:
    """Makes batches of pictures from class numbers.

    Args:
        sprites: [objects, side, side, RGBA] bytes, as `load_sprites` gives them.
        device: where pictures are made.
    """

    def __init__(self, sprites: npt.NDArray[np.uint8], device: torch.device) -> None:
        rgba = torch.from_numpy(sprites).to(device, torch.float32).permute(0, 3, 1, 2) / 255
        premultiplied = torch.cat([rgba[:, :3] * rgba[:, 3:], rgba[:, 3:]], 1)
        self._tiles = torch.stack([_tile(premultiplied, side) for side in _SIDES])
        self._grounds = torch.tensor(list(COLOURS.values()), dtype=torch.float32, device=device)
        placed = [_PLACES[p] for p in PLACES]
        self._middles = torch.tensor([m for m, _ in placed], dtype=torch.float32, device=device)
        self._rows = torch.tensor([r for _, r in placed], dtype=torch.float32, device=device)
        self._apart = torch.tensor(_APART, dtype=torch.float32, device=device)
        self.device = device

    def __call__(self, classes: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Pictures [n, 3, SIZE, SIZE] in [-1, 1] of `classes` [n, 4] (object, colour, place, count).

        The same classes and generator state give the same pictures on the same kind of device.
        """
        n = len(classes)
        object_, colour, place, count = classes.unbind(1)

        def jitter(width: float, *shape: int) -> torch.Tensor:
            return width * (2 * torch.rand(n, *shape, generator=generator, device=self.device) - 1)

        ground = (self._grounds[colour] + jitter(_LIGHT, 1) + jitter(_TINT, 3)).clamp(0, 255) / 255
        picture = ground[:, :, None, None].expand(n, 3, SIZE, SIZE)
        middle = self._middles[place] + jitter(_GROUP, 2)
        tiles = self._tiles[count, object_]
        for slot in range(len(COUNTS)):
            along = (slot - count / 2) * self._apart[count]
            centre = middle + along[:, None] * self._rows[place] + jitter(_EACH, 2)
            scale, angle = 1 + jitter(_SCALE), jitter(_ANGLE)
            there = (count >= slot)[:, None, None, None]
            layer = _place(tiles, centre, scale, angle) * there
            picture = picture * (1 - layer[:, 3:]) + layer[:, :3]
        return picture * 2 - 1


def class_numbers(combinations: tuple[Combination, ...], device: torch.device) -> torch.Tensor:
    """[n, 4] class numbers of combinations."""
    rows = [(c.object, c.colour, c.place, c.count) for c in combinations]
    return torch.tensor(rows, dtype=torch.int64, device=device)


def _tile(premultiplied: torch.Tensor, side: int) -> torch.Tensor:
    """Sprites at `side` pixels in the middle of a tile, with a white rim that sets them off any ground."""
    small = F.interpolate(premultiplied, size=(side, side), mode="bilinear", antialias=True, align_corners=False)
    tile = F.pad(small, [(_TILE - side) // 2] * 4)
    colour, alpha = tile[:, :3], tile[:, 3:]
    rim = F.avg_pool2d(F.max_pool2d(alpha, 5, 1, 2), 3, 1, 1) * (1 - alpha)
    return torch.cat([colour + rim, alpha + rim], 1)


def _place(tiles: torch.Tensor, centre: torch.Tensor, scale: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    """[n, 4, SIZE, SIZE]: each tile scaled, turned, and put at `centre` (pixels from the picture's middle)."""
    cosine, sine = torch.cos(angle), torch.sin(angle)
    turn = torch.stack([torch.stack([cosine, sine], -1), torch.stack([-sine, cosine], -1)], -2)
    matrix = turn * (SIZE / _TILE / scale)[:, None, None]
    shift = -(matrix @ (centre * 2 / SIZE)[:, :, None])
    grid = F.affine_grid(torch.cat([matrix, shift], -1), [len(tiles), 4, SIZE, SIZE], align_corners=False)
    return F.grid_sample(tiles, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
