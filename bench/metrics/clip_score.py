"""CLIP score: 100 times the cosine of an image's and its caption's embedding, with a CLIP folder that the user has.

MLPerf's scorer is OpenAI's ViT-B/32 through open_clip; `openai/clip-vit-base-patch32` for transformers holds the same
weights. The image is prepared as open_clip does: shorter side to the network's with bicubic antialiased resizing,
centre crop, the published mean and deviation. A caption of more tokens than the network takes is cut.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...errors import DpuError, refusing
from .images import Pixels

_MEAN = (0.48145466, 0.4578275, 0.40821073)
_DEVIATION = (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True)
class Clip:
    """A CLIP model with its tokenizer, of transformers."""

    model: Any
    tokenizer: Any

    @torch.inference_mode()
    def score(self, image: Pixels, caption: str) -> float:
        """-100 to 100; larger where the image fits its caption better."""
        longest = self.model.config.text_config.max_position_embeddings
        tokens = self.tokenizer(caption, padding="max_length", truncation=True, max_length=longest, return_tensors="pt")
        pixels = torch.from_numpy(prepared(image, self.model.config.vision_config.image_size))
        found = self.model(**tokens, pixel_values=pixels)
        a, b = found.image_embeds[0].double(), found.text_embeds[0].double()
        return 100 * float(a @ b / (a.norm() * b.norm()))


def prepared(image: Pixels, side: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """1 x 3 x side x side: what the vision tower reads."""
    from PIL import Image

    height, width = image.shape[:2]
    wide, high = (side * n // min(height, width) for n in (width, height))
    small = np.asarray(Image.fromarray(image).resize((wide, high), Image.Resampling.BICUBIC), np.float64) / 255
    top, left = round((high - side) / 2), round((wide - side) / 2)
    crop = (small[top : top + side, left : left + side] - _MEAN) / _DEVIATION
    return np.ascontiguousarray(crop.transpose(2, 0, 1)[None].astype(np.float32))


def load(folder: Path) -> Clip:
    """The model of a folder, without network.

    Raises:
        DpuError: no such folder, or it holds no CLIP model of transformers.
    """
    from transformers import CLIPModel, CLIPTokenizer

    hint = "save it: CLIPModel and CLIPTokenizer of transformers, save_pretrained(DIR)"
    if not folder.is_dir():
        raise DpuError(str(folder), "no such folder", hint=hint, code="E106")
    with refusing(str(folder), "holds no CLIP model of transformers", hint=hint, code="E112"):
        loader: Any = CLIPModel  # its stub knows one of the two kinds of result
        model, report = loader.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, output_loading_info=True
        )
        if missing := sorted(report["missing_keys"]):
            raise ValueError(f"{len(missing)} weights are missing, the first is '{missing[0]}'")
        tokenizer = CLIPTokenizer.from_pretrained(folder, local_files_only=True)
    return Clip(model.eval(), tokenizer)


def read_captions(path: Path, names: Sequence[str]) -> list[str]:
    """The caption of each image, from a JSON object {"name.png": "caption"}.

    Raises:
        DpuError: no such file, no such object, or an image without a caption.
    """
    if not path.is_file():
        raise DpuError(str(path), "no such file", code="E106")
    hint = 'write {"name.png": "caption", ...}'
    with refusing(str(path), "holds no captions", hint=hint, code="E107"):
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or not all(isinstance(v, str) for v in content.values()):
            raise ValueError("it is no object of texts")
    if missing := [n for n in names if n not in content]:
        raise DpuError(
            str(path),
            f"has no caption for {len(missing)} of {len(names)} images, the first is '{missing[0]}'",
            why="a CLIP score is that of an image and its caption",
            hint=hint,
            code="E522",
        )
    return [content[n] for n in names]
