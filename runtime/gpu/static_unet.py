"""What both engines are: a UNet of fixed shape that reads and writes the same device tensors in every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class StaticUnet:
    """Buffers of a UNet; an engine fills in `forward`.

    Args:
        config: of diffusers.
        batch: samples; with guidance two an image, the negative ones first.
        latent: height and width.
        device: "cuda", or "cpu" in tests.
        dtype: of weights and activations.
    """

    label = "unet"

    def __init__(
        self, config: Mapping[str, Any], batch: int, latent: tuple[int, int], device: str, dtype: torch.dtype
    ) -> None:
        import torch

        self.batch, self.latent, self.device, self.dtype = batch, latent, device, dtype
        self.notes: dict[str, Any] = {}
        pooled = config["projection_class_embeddings_input_dim"] - 6 * config["addition_time_embed_dim"]

        def buffer(*shape: int, kind: torch.dtype = dtype) -> torch.Tensor:
            return torch.zeros(shape, dtype=kind, device=device)

        self.buffers: dict[str, torch.Tensor] = {
            "sample": buffer(batch, config["in_channels"], *latent),
            "timestep": buffer(1, kind=torch.float32),
            "encoder_hidden_states": buffer(batch, 77, config["cross_attention_dim"]),
            "text_embeds": buffer(batch, pooled),
            "time_ids": buffer(batch, 6),
        }
        self.out = buffer(batch, config["out_channels"], *latent)

    def prepare(self, conditioning: Mapping[str, torch.Tensor]) -> None:
        """Take what does not change over the steps: encoder_hidden_states, text_embeds, time_ids."""
        for name, value in conditioning.items():
            self.buffers[name].copy_(value)

    def forward(self) -> None:
        """Run once: `buffers` to `out`. On CUDA it may return before the GPU is done."""
        raise NotImplementedError

    def close(self) -> None:
        """Free the device's memory."""
        self.buffers.clear()
