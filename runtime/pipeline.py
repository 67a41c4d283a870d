"""The SDXL pipeline around a UNet: prompt to image, step by step as diffusers does it.

    prompt -> tokenizers -> text encoders -> [scheduler step <-> UNet with guidance] x steps -> VAE decoder -> pixels

Text encoders, UNet and VAE decoder run on the device where the program has them, else in ONNX Runtime on the host.
Tokenizers, look-ups, scheduler, guidance and image conversion are host segments; each is timed and reported. The same
seed gives the latents that diffusers draws on the CPU.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import DpuError
from ..files import atomic_write
from .host_model import HostModel
from .parts import Part
from .pipeline_files import PipelineFiles, extract, read_json, require
from .tensors import F32

os.environ.setdefault("HF_HUB_OFFLINE", "1")

TEXT_ENCODERS = ("text_encoder", "text_encoder_2")
NEEDED = [
    "model_index.json",
    "scheduler/scheduler_config.json",
    "tokenizer/tokenizer_config.json",
    "tokenizer_2/tokenizer_config.json",
    "text_encoder/model.onnx",
    "text_encoder_2/model.onnx",
    "unet/config.json",
    "vae/config.json",
    "vae_decoder/model.onnx",
]


@dataclass(frozen=True)
class Request:
    """One image to make. Without height and width it has the size the model was trained for."""

    prompt: str
    negative_prompt: str | None = None
    seed: int = 0
    steps: int = 20
    guidance: float = 5.0
    height: int = 0
    width: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= 1000:
            raise DpuError("--steps", f"{self.steps} is not between 1 and 1000", code="E501")
        if not 0 <= self.seed < 1 << 64:
            raise DpuError("--seed", f"{self.seed} is not between 0 and 2^64 - 1", code="E501")
        if not math.isfinite(self.guidance):
            what = f"{self.guidance} is no scale"
            raise DpuError("--guidance", what, hint="5 is usual, 1 turns guidance off", code="E501")
        for side in (self.height, self.width):
            if side and (side % 32 or side < 32):
                raise DpuError("--size", f"{side} is not a multiple of 32", hint="for example 128x128", code="E501")


@dataclass(frozen=True)
class Conditioning:
    """What the text encoders give the UNet, once an image; with guidance sample 0 is the negative prompt."""

    encoder_hidden_states: F32
    text_embeds: F32
    time_ids: F32

    def inputs(self) -> dict[str, F32]:
        """By the names of the UNet's inputs."""
        return {k: getattr(self, k) for k in ("encoder_hidden_states", "text_embeds", "time_ids")}


class Unet(Protocol):
    """The denoiser, wherever it runs."""

    def prepare(self, conditioning: Mapping[str, F32]) -> None:
        """Take what does not change over the steps of one image."""
        ...

    def step(self, sample: F32, timestep: float) -> F32:
        """The predicted noise for the scaled sample [batch, 4, h, w]."""
        ...


@dataclass(frozen=True)
class Step:
    """One denoising step, as an observer sees it: the UNet's input, its output, and the latents after the step."""

    index: int
    timestep: float
    sample: F32
    noise: F32
    latents: F32
    conditioning: Conditioning | None = None


@dataclass(frozen=True)
class HalfWay:
    """An image after `steps` steps: all that the others depend on, where the scheduler remembers nothing."""

    steps: int
    latents: F32
    conditioning: Conditioning


@dataclass
class Image:
    """A finished image: pixels [height, width, 3], final latents, and host seconds by segment."""

    pixels: npt.NDArray[np.uint8]
    latents: F32
    seconds: dict[str, float] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write a PNG atomically."""
        from PIL import Image as Pillow

        with atomic_write(path) as temporary:
            Pillow.fromarray(self.pixels).save(temporary, format="PNG")


class Pipeline:
    """An SDXL pipeline without its UNet.

    Raises:
        DpuError: files are missing.
    """

    def __init__(self, files: PipelineFiles, parts: Mapping[str, Part] | None = None) -> None:
        require(files, [n for n in NEEDED if n.removesuffix("/model.onnx") not in (parts or {})])
        self.files = files
        self.parts = dict(parts or {})  # what runs elsewhere than in ONNX Runtime on this computer
        self._vae_config = read_json(files, "vae/config.json")
        self._unet_config = read_json(files, "unet/config.json")
        self._zeros_for_empty = bool(read_json(files, "model_index.json").get("force_zeros_for_empty_prompt", True))
        self.scale = 2 ** (len(self._vae_config["block_out_channels"]) - 1)  # pixels a latent, each way

    @property
    def default_size(self) -> tuple[int, int]:
        """Height and width that the model was trained for."""
        side = int(self._unet_config["sample_size"]) * self.scale
        return side, side

    @cached_property
    def _tokenizers(self) -> list[Any]:
        from transformers import CLIPTokenizer

        with tempfile.TemporaryDirectory() as folder:
            found = []
            for name in ("tokenizer", "tokenizer_2"):
                try:
                    found.append(CLIPTokenizer.from_pretrained(extract(self.files, name, Path(folder))))
                except Exception as e:  # transformers raises OSError, ValueError, KeyError and its own
                    raise DpuError(
                        f"{self.files.where}: {name}", "not a CLIP tokenizer", why=str(e), code="E110"
                    ) from e
        return found

    @cached_property
    def _text_encoders(self) -> list[Part]:
        return [self._part(name) for name in TEXT_ENCODERS]

    @cached_property
    def _vae_decoder(self) -> Part:
        return self._part("vae_decoder")

    def _part(self, name: str) -> Part:
        return self.parts[name] if name in self.parts else HostModel(self.files, f"{name}/model.onnx", name)

    def _encode_text(self, text: str) -> tuple[F32, F32]:
        """(hidden states of both encoders side by side, pooled projection of the second) of one prompt."""
        hidden, pooled = [], None
        for tokenizer, encoder in zip(self._tokenizers, self._text_encoders, strict=True):
            ids = tokenizer(
                text, padding="max_length", max_length=tokenizer.model_max_length, truncation=True, return_tensors="np"
            )["input_ids"]
            found = encoder({next(iter(encoder.inputs)): ids})
            hidden.append(found["hidden_states"])
            pooled = found.get("text_embeds", pooled)
        assert pooled is not None
        return np.concatenate(hidden, axis=-1), pooled

    def encode(self, request: Request) -> Conditioning:
        """The UNet's conditioning of a request: one sample, or two with guidance (negative prompt first)."""
        height, width = self.size(request)
        hidden, pooled = self._encode_text(request.prompt)
        ids = np.array([[height, width, 0, 0, height, width]], np.float32)
        if request.guidance > 1:
            if request.negative_prompt is None and self._zeros_for_empty:
                no_hidden, no_pooled = np.zeros_like(hidden), np.zeros_like(pooled)
            else:
                no_hidden, no_pooled = self._encode_text(request.negative_prompt or "")
            hidden, pooled = np.concatenate([no_hidden, hidden]), np.concatenate([no_pooled, pooled])
            ids = np.repeat(ids, 2, axis=0)
        return Conditioning(hidden, pooled, ids)

    def size(self, request: Request) -> tuple[int, int]:
        """(height, width) of a request in pixels."""
        height, width = self.default_size
        return request.height or height, request.width or width

    def scheduler(self, steps: int) -> Any:
        """A fresh scheduler of diffusers, set to `steps` steps."""
        import diffusers

        config = read_json(self.files, "scheduler/scheduler_config.json")
        kind = getattr(diffusers, str(config.get("_class_name", "EulerDiscreteScheduler")))
        found = kind.from_config(config)
        found.set_timesteps(steps, device="cpu")
        return found

    @property
    def resumable(self) -> bool:
        """Whether a step depends on nothing but the latents before it."""
        return read_json(self.files, "scheduler/scheduler_config.json").get("_class_name") == "EulerDiscreteScheduler"

    def noise(self, request: Request, scheduler: Any) -> Any:
        """The starting latents of a request, a torch tensor."""
        import torch
        from diffusers.utils.torch_utils import randn_tensor

        height, width = self.size(request)
        shape = (1, int(self._unet_config["in_channels"]), height // self.scale, width // self.scale)
        generator = torch.Generator("cpu").manual_seed(request.seed)
        return randn_tensor(shape, generator=generator, dtype=torch.float32) * scheduler.init_noise_sigma

    def decode(self, latents: F32) -> npt.NDArray[np.uint8]:
        """Pixels [height, width, 3] of latents [1, 4, h, w]."""
        return np.asarray(np.round(self.decode_floats(latents) * 255), np.uint8)

    def decode_floats(self, latents: F32) -> F32:
        """The picture [height, width, 3] of latents [1, 4, h, w], from 0 to 1, before it becomes 8-bit pixels."""
        config = self._vae_config
        if config.get("latents_mean") and config.get("latents_std"):
            mean, std = (np.array(config[k], np.float32).reshape(1, -1, 1, 1) for k in ("latents_mean", "latents_std"))
            latents = latents * std / np.float32(config["scaling_factor"]) + mean
        else:
            latents = latents / np.float32(config["scaling_factor"])
        image = self._vae_decoder({next(iter(self._vae_decoder.inputs)): latents})[self._vae_decoder.outputs[0]]
        return np.asarray(np.clip(image[0] / 2 + 0.5, 0, 1).transpose(1, 2, 0))

    def generate(
        self,
        request: Request,
        unet: Unet,
        on_step: Callable[[Step], None] | None = None,
        decode: bool = True,
        half_way: HalfWay | None = None,
    ) -> Image:
        """Make one image; `on_step` is called after each denoising step. Without `decode` the pixels stay black.

        `half_way` continues an image of the same request where `resumable` schedulers were stopped.
        """
        import torch

        seconds: dict[str, float] = {}
        with _timed(seconds, "text encoders"):
            conditioning = self.encode(request) if half_way is None else half_way.conditioning
        with _timed(seconds, "scheduler and guidance"):
            scheduler = self.scheduler(request.steps)
            latents = self.noise(request, scheduler) if half_way is None else torch.from_numpy(half_way.latents)
        with _timed(seconds, "unet"):
            unet.prepare(conditioning.inputs())
        guided = request.guidance > 1
        # Some schedulers draw noise in each step; Euler does not.
        generator = torch.Generator("cpu").manual_seed(request.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for index, t in enumerate(scheduler.timesteps):
                if half_way is not None and index < half_way.steps:
                    continue
                with _timed(seconds, "scheduler and guidance"):
                    model_input = torch.cat([latents] * 2) if guided else latents
                    sample = scheduler.scale_model_input(model_input, t).numpy()
                with _timed(seconds, "unet"):
                    noise = unet.step(sample, float(t))
                with _timed(seconds, "scheduler and guidance"):
                    predicted = torch.from_numpy(noise)
                    if guided:
                        negative, positive = predicted.chunk(2)
                        predicted = negative + request.guidance * (positive - negative)
                    latents = _scheduler_step(scheduler, predicted, t, latents, generator)
                if on_step:
                    on_step(Step(index, float(t), sample, noise, latents.numpy(), conditioning))
        height, width = self.size(request)
        pixels = np.zeros((height, width, 3), np.uint8)
        if decode:
            with _timed(seconds, "vae decoder"):
                pixels = self.decode(latents.numpy())
        return Image(pixels, latents.numpy(), seconds)


def _scheduler_step(scheduler: Any, predicted: Any, t: Any, latents: Any, generator: Any) -> Any:
    import inspect

    takes = inspect.signature(scheduler.step).parameters
    extra = {"generator": generator} if "generator" in takes else {}
    return scheduler.step(predicted, t, latents, **extra, return_dict=False)[0]


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
