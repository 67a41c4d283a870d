"""The denoising loop with everything on the GPU: scheduler and guidance in float32, no copy to the host in a step.

The scheduler is Euler, as in diffusers' EulerDiscreteScheduler with epsilon prediction: its timesteps and sigmas are
diffusers' own, its step is `latent + (sigma_next - sigma) * noise`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import DpuError

if TYPE_CHECKING:
    import torch

    from .static_unet import StaticUnet


@dataclass(frozen=True)
class Schedule:
    """Timesteps and sigmas of a run; there is one sigma more, the last one 0."""

    timesteps: tuple[float, ...]
    sigmas: tuple[float, ...]
    init_noise_sigma: float


def schedule(config: Mapping[str, Any], steps: int) -> Schedule:
    """The schedule of diffusers' Euler scheduler.

    Raises:
        DpuError: the pipeline's scheduler is another one.
    """
    import diffusers

    kind = str(config.get("_class_name", "EulerDiscreteScheduler"))
    if kind != "EulerDiscreteScheduler" or config.get("prediction_type", "epsilon") != "epsilon":
        raise DpuError("scheduler", f"{kind} has no loop on the GPU", hint="dpurun runs it on the host", code="E501")
    untyped: Any = diffusers
    found = untyped.EulerDiscreteScheduler.from_config(dict(config))
    found.set_timesteps(steps, device="cpu")
    return Schedule(
        tuple(float(t) for t in found.timesteps),
        tuple(float(s) for s in found.sigmas),
        float(found.init_noise_sigma),
    )


def denoise(
    unet: StaticUnet,
    conditioning: Mapping[str, torch.Tensor],
    noise: torch.Tensor,
    plan: Schedule,
    guidance: float,
) -> torch.Tensor:
    """Latents of finished images.

    Args:
        unet: for two samples an image with guidance above 1, else one.
        conditioning: the UNet's, negative samples first.
        noise: standard normal, images x 4 x h x w, float32, on the UNet's device.
        plan: from `schedule`.
        guidance: scale; 1 or less turns it off.
    """
    import torch

    guided = guidance > 1
    with torch.inference_mode():
        unet.prepare(conditioning)
        latents = noise * plan.init_noise_sigma
        n = len(latents)
        sample, timestep = unet.buffers["sample"], unet.buffers["timestep"]
        for i, t in enumerate(plan.timesteps):
            sigma, following = plan.sigmas[i], plan.sigmas[i + 1]
            scaled = latents / (sigma**2 + 1) ** 0.5
            sample[:n].copy_(scaled)
            if guided:
                sample[n:].copy_(scaled)
            timestep.fill_(t)
            unet.forward()
            found = unet.out.float()
            if guided:
                negative, positive = found[:n], found[n:]
                found = negative + guidance * (positive - negative)
            latents = latents + (following - sigma) * found
    return latents
