"""What each network learns: the losses of the VAE, of UNet with text encoders, and of the classifier."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from .captions import ATTRIBUTES, FORMS, split
from .compose import Composer, class_numbers
from .judge import Classifier
from .loop import Run, Trained, compile_or_not, train
from .model import Denoiser, build_vae, scheduler, token_table

_EDGE = 0.5  # weight of the difference of neighbouring pixels in the VAE's loss
_KL = 1e-4  # weight of the KL divergence, a mean over latent elements
_DROP = 0.1  # captions that are left out in training, for guidance
_MIN_SNR = 5.0  # gamma of min-SNR weighting (arXiv 2303.09556)
_LOGVAR = -6.0  # of the VAE's posterior, to start with
_CHUNK = 512  # pictures encoded at once
_STATISTICS = 64  # one in so many of the cached latents' number is enough to measure mean and deviation


@dataclass(frozen=True)
class Sizes:
    """Samples a step, and how many pictures become latents for the UNet."""

    vae: int = 128
    classifier: int = 256
    unet: int = 512
    latents: int = 262_144

    def scaled(self, fraction: float) -> Sizes:
        """A fraction of it, for a rehearsal on a small computer."""
        return Sizes(*(max(2, int(n * fraction)) for n in (self.vae, self.classifier, self.unet, self.latents)))


@dataclass(frozen=True)
class Data:
    """The training combinations on the device, and what makes pictures of them."""

    composer: Composer
    classes: torch.Tensor  # [combinations, 4]

    @classmethod
    def load(cls, device: torch.device) -> Data:
        """Training combinations only: nothing that is held out is ever drawn from here."""
        from .sprites import load_sprites

        return cls(Composer(load_sprites(), device), class_numbers(split()[0], device))

    def draw(self, n: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """(pictures [n, 3, size, size], indices of their combinations [n])."""
        index = torch.randint(len(self.classes), (n,), generator=generator, device=self.composer.device)
        return self.composer(self.classes[index], generator), index


def autocast(run: Run) -> torch.autocast:
    """bfloat16 on a GPU, float32 on a CPU."""
    return torch.autocast(run.device.type, torch.bfloat16, enabled=run.device.type == "cuda")


def on_device(run: Run, module: nn.Module) -> Any:
    """The module on the run's device, channels last."""
    untyped: Any = module.to(run.device)
    return untyped.to(memory_format=torch.channels_last)


def seeded(run: Run, stage: str, build: Any) -> Any:
    """What `build` makes, its initial weights drawn from the run's seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.generator(f"{stage} weights", 0).initial_seed())
        return build()


def train_vae(run: Run, data: Data, sizes: Sizes, seconds: float) -> tuple[Any, Trained]:
    """Train the VAE; then each latent channel gets mean 0 and, with `scaling_factor`, standard deviation 1."""
    vae = on_device(run, seeded(run, "vae", build_vae))
    with torch.no_grad():  # a narrow posterior: with a deviation of 1 the decoder sees little but noise for long
        vae.quant_conv.weight[4:] = 0
        vae.quant_conv.bias[4:] = _LOGVAR
    batch = sizes.vae

    def loss(pictures: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with autocast(run):
            posterior = vae.encode(pictures).latent_dist
            made = vae.decode(posterior.mean + posterior.std * noise).sample
        difference = made.float() - pictures
        pixels = difference.abs().mean()
        edges = difference.diff(dim=2).abs().mean() + difference.diff(dim=3).abs().mean()
        mean, logvar = posterior.mean.float(), posterior.logvar.float()
        kl = 0.5 * (mean.square() + logvar.exp() - 1 - logvar).mean()
        return pixels, difference.square().mean(), edges, kl

    call = compile_or_not(run, loss)
    side = vae.config.sample_size // 8

    def losses(step: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
        pictures, _ = data.draw(batch, generator)
        noise = torch.randn(batch, 4, side, side, generator=generator, device=run.device)
        pixels, squares, edges, kl = call(pictures.contiguous(memory_format=torch.channels_last), noise)
        return {"loss": pixels + squares + _EDGE * edges + _KL * kl, "l1": pixels, "mse": squares, "kl": kl}

    vae.train()
    trained = train(run, "vae", vae, losses, peak=5e-4, batch=batch, decay=0.999, weight_decay=1e-4, seconds=seconds)
    vae.eval().requires_grad_(False)
    _whiten(run, vae, data, max(32, sizes.latents // _STATISTICS))
    return vae, trained


@torch.no_grad()
def _whiten(run: Run, vae: Any, data: Data, n: int) -> None:
    """Fold each latent channel's mean and deviation into the 1x1 convolutions beside it, then measure the scale."""
    means = _latents(run, vae, data, n, "latent statistics")[0].float()
    mean, std = means.mean((0, 2, 3)), means.std((0, 2, 3))
    into, out = vae.quant_conv, vae.post_quant_conv
    out.bias += (out.weight[:, :, 0, 0] @ mean[:, None])[:, 0]
    out.weight *= std[None, :, None, None]
    into.weight[:4] /= std[:, None, None, None]
    into.bias[:4] = (into.bias[:4] - mean) / std
    into.bias[4:] -= 2 * std.log()
    means = _latents(run, vae, data, n, "latent scale")[0].float()
    vae.register_to_config(scaling_factor=round(1 / means.std().item(), 5))


@torch.no_grad()
def _latents(run: Run, vae: Any, data: Data, n: int, what: str) -> tuple[torch.Tensor, torch.Tensor]:
    """(posterior means [n, 4, h, w], combination indices [n]) of n training pictures, in float16 on a GPU."""
    side = vae.config.sample_size // 8
    kind = torch.float16 if run.device.type == "cuda" else torch.float32
    latents = torch.empty(n, 4, side, side, dtype=kind, device=run.device)
    indices = torch.empty(n, dtype=torch.int64, device=run.device)
    for at in range(0, n, _CHUNK):
        pictures, index = data.draw(min(_CHUNK, n - at), run.generator(what, at))
        with autocast(run):
            latents[at : at + len(index)] = vae.encode(pictures).latent_dist.mean
        indices[at : at + len(index)] = index
    return latents, indices


def train_denoiser(run: Run, data: Data, vae: Any, sizes: Sizes, seconds: float) -> tuple[Denoiser, Trained]:
    """Train UNet and text encoders to predict noise, on latents that are encoded once."""
    start = time.monotonic()
    model: Denoiser = on_device(run, seeded(run, "unet", Denoiser))
    tokens = token_table(split()[0], run.device)
    latents, indices = _latents(run, vae, data, sizes.latents, "latents")
    latents *= vae.config.scaling_factor
    kept = scheduler().alphas_cumprod.to(run.device)
    signal, noise_level, snr = kept.sqrt(), (1 - kept).sqrt(), kept / (1 - kept)
    weights = snr.clamp(max=_MIN_SNR) / snr
    run.log("unet", latents=len(latents), seconds=round(time.monotonic() - start, 1))
    batch = sizes.unet

    def loss(clean: torch.Tensor, noise: torch.Tensor, t: torch.Tensor, ids: torch.Tensor, keep: torch.Tensor) -> Any:
        noisy = clean * signal[t][:, None, None, None] + noise * noise_level[t][:, None, None, None]
        with autocast(run):
            predicted = model(noisy.contiguous(memory_format=torch.channels_last), t, ids, keep)
        each = (predicted.float() - noise).square().mean((1, 2, 3))
        return (each * weights[t]).mean(), each.mean()

    with torch.no_grad():  # the first call installs transformers' hooks, which torch.compile could not trace through
        model.encode(tokens[0, :1])
    call = compile_or_not(run, loss)

    def losses(step: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
        def integers(high: int) -> torch.Tensor:
            return torch.randint(high, (batch,), generator=generator, device=run.device)

        pick, form, t = integers(len(latents)), integers(FORMS), integers(len(kept))
        keep = (torch.rand(batch, generator=generator, device=run.device) >= _DROP).float()
        noise = torch.randn(batch, *latents.shape[1:], generator=generator, device=run.device)
        weighted, plain = call(latents[pick].float(), noise, t, tokens[indices[pick], form], keep)
        return {"loss": weighted, "mse": plain}

    model.train()
    left = seconds - (time.monotonic() - start)
    trained = train(run, "unet", model, losses, peak=6e-4, batch=batch, decay=0.9995, weight_decay=1e-2, seconds=left)
    return model.eval().requires_grad_(False), trained


def train_classifier(run: Run, data: Data, vae: Any, sizes: Sizes, seconds: float) -> tuple[Classifier, Trained]:
    """Train the judge on composed pictures, half of them through the VAE, blurred, noisy and off in colour."""
    model: Classifier = on_device(run, seeded(run, "classifier", Classifier))
    side, batch = vae.config.sample_size // 8, sizes.classifier

    def loss(pictures: torch.Tensor, labels: torch.Tensor) -> Any:
        with autocast(run):
            rows = model(pictures)
        each = [F.cross_entropy(row.float(), labels[:, i]) for i, row in enumerate(rows)]
        right = torch.stack([row.argmax(1) == labels[:, i] for i, row in enumerate(rows)]).all(0)
        return torch.stack(each).sum(), right.float().mean()

    call = compile_or_not(run, loss)

    def losses(step: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
        pictures, index = data.draw(batch, generator)
        half = batch // 2
        with torch.no_grad():
            noise = torch.randn(half, 4, side, side, generator=generator, device=run.device)
            amount = 0.2 * torch.rand(half, 1, 1, 1, generator=generator, device=run.device)
            with autocast(run):
                latents = vae.encode(pictures[:half]).latent_dist.mean
                pictures[:half] = vae.decode(latents + amount * noise).sample.float()
            pictures = _degrade(pictures, generator)
        total, right = call(pictures.contiguous(memory_format=torch.channels_last), data.classes[index])
        return {"loss": total, "all_correct": right}

    model.train()
    trained = train(
        run, "classifier", model, losses, peak=1e-3, batch=batch, decay=0.998, weight_decay=1e-2, seconds=seconds
    )
    assert len(model.heads) == len(ATTRIBUTES)
    return model.eval().requires_grad_(False), trained


def _degrade(pictures: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each picture blurred and with noise by its own random amount, and its colours a little off."""

    def uniform(*shape: int) -> torch.Tensor:
        return torch.rand(len(pictures), *shape, generator=generator, device=pictures.device)

    blurred = F.avg_pool2d(F.pad(pictures, [1] * 4, mode="replicate"), 3, 1)
    pictures = torch.lerp(pictures, blurred, uniform(1, 1, 1))
    pictures = pictures * (1 + 0.1 * (uniform(1, 1, 1) - 0.5)) + 0.08 * (uniform(3, 1, 1) - 0.5)
    noise = torch.randn(pictures.shape, generator=generator, device=pictures.device)
    return pictures + 0.08 * uniform(1, 1, 1) * noise
