"""Whole images on the GPU: token ids and seeds to 8-bit pixels, for measuring; `dpurun` goes through `images.py`.

Both prompts of an image are encoded, the negative one too, as MLPerf does. Images are denoised as one batch and decoded
one at a time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .sampler import denoise, schedule
from .torch_engine import TorchText, TorchVae, synchronise

if TYPE_CHECKING:
    import numpy as np
    import torch

    from .static_unet import StaticUnet


class GpuPipeline:
    """Text encoders, UNet and VAE of one pipeline. `seconds` are those of the last `make`, by part."""

    def __init__(
        self, text: TorchText, unet: StaticUnet, vae: TorchVae, scheduler: Mapping[str, Any], tokenizer: Any
    ) -> None:
        self.text, self.unet, self.vae = text, unet, vae
        self.scheduler, self.tokenizer = scheduler, tokenizer
        self.seconds: dict[str, float] = {}

    @property
    def images(self) -> int:
        """Images a batch, with guidance."""
        return self.unet.batch // 2

    def make(
        self, prompts: Sequence[str], seeds: Sequence[int], steps: int = 20, guidance: float = 8.0, negative: str = ""
    ) -> list[np.ndarray[Any, Any]]:
        """Pixels [H, W, 3] of each image; as many prompts as the batch has images."""
        import torch

        device = self.unet.device
        started = time.perf_counter()
        with torch.inference_mode():
            ids = self._ids([*[negative] * len(prompts), *prompts])
            hidden, pooled = self.text.encode(ids, ids)
            side = 8 * self.unet.latent[0]
            times = torch.tensor([[side, side, 0, 0, side, side]] * len(ids), dtype=torch.float32, device=device)
            given = {"encoder_hidden_states": hidden, "text_embeds": pooled, "time_ids": times}
            started = self._mark("text encoders", started)
            noise = torch.cat([self._noise(seed) for seed in seeds]).to(device)
            latents = denoise(self.unet, given, noise, schedule(self.scheduler, steps), guidance)
            started = self._mark("unet", started)
            pixels = []
            for one in latents:
                image = self.vae.decode(one[None])[0].float()
                levels = (image / 2 + 0.5).clamp(0, 1).mul(255).round().to(torch.uint8)
                pixels.append(levels.permute(1, 2, 0).cpu().numpy())
            self._mark("vae decoder", started)
        return pixels

    def _ids(self, texts: Sequence[str]) -> torch.Tensor:
        found: torch.Tensor = self.tokenizer(
            list(texts), padding="max_length", max_length=77, truncation=True, return_tensors="pt"
        ).input_ids
        return found.to(self.unet.device)

    def _noise(self, seed: int) -> torch.Tensor:
        """As diffusers draws it on the CPU."""
        import torch

        return torch.randn(1, 4, *self.unet.latent, generator=torch.Generator("cpu").manual_seed(seed))

    def _mark(self, part: str, started: float) -> float:
        synchronise(self.unet.device)
        now = time.perf_counter()
        self.seconds[part] = now - started
        return now
