"""The predictor as a whole pipeline: diffusers' StableDiffusionXLPipeline with the predictor's blocks in it.

Weights are the model's own. Of the compiler's it reads the calibration and the policy (with their readers), and from
the program how many keys an attention takes at once and each layer's precision, which must be the policy's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DpuError
from ..metrics.images import Pixels
from .plan import program_path
from .predict_blocks import Stored, TextEncoder, convert
from .predict_layers import Compiled, Layers
from .variants import parse_variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch import Tensor

    from ...ir.container import Program
    from ...passes.calibration import Calibration
    from ...passes.policy import Policy

PARTS = ("text_encoder", "text_encoder_2", "unet", "vae_decoder")
DEVICES = ("cpu", "cuda")
SOURCES = ("predict_numbers.py", "predict_layers.py", "predict_blocks.py", "predict_pipeline.py")
_LARGEST = 2.0**14
"""A tensor that calibration saw beyond it is stored with an exponent, which the predictor does not know."""


class Predictor:
    """A pipeline whose pictures are the predicted ones.

    Args:
        pipeline: diffusers' own, in float32; its UNet and VAE are changed in place.
        policy: each layer's precision.
        calibration: what the program's scales are made from.
        gptq: codes of int4 linears are compensated with the calibration's gram matrices, computed anew.
        compiled: of each part, what its program says of a layer by ONNX node; without it attention takes 1,024 keys.
        device: "cpu" or "cuda".
        covered: the magnitude that the static scale of an operand covers; without it the largest that was seen.

    Raises:
        DpuError: a block or a layer that the predictor does not know, or statistics are missing.
    """

    def __init__(
        self,
        pipeline: Any,
        policy: Policy,
        calibration: Calibration,
        gptq: bool = False,
        compiled: Mapping[str, Mapping[str, Compiled]] | None = None,
        device: str = "cpu",
        covered: Callable[[str], float] | None = None,
    ) -> None:
        import torch

        check_range(calibration)
        self._pipeline, self._device = pipeline, device
        largest = covered or calibration.absmax
        of = {p: Layers(p, calibration, policy, largest, gptq, compiled[p] if compiled else None) for p in PARTS}
        with torch.inference_mode():
            convert(of["unet"], pipeline.unet)
            convert(of["vae_decoder"], pipeline.vae.decoder, "/decoder")
            post = pipeline.vae.post_quant_conv
            if post is not None:
                pipeline.vae.post_quant_conv = Stored(of["vae_decoder"].conv("/post_quant_conv", post))
            encoders = [TextEncoder(of[n], getattr(pipeline, n).float()) for n in PARTS[:2]]
        self._encoders = [e.to(device) for e in encoders]
        for module in (pipeline.unet, pipeline.vae):
            module.to(device)

    def conditioning(self, prompt: str) -> tuple[Tensor, Tensor]:
        """Hidden states of both encoders side by side [1, tokens, c], and the pooled projection [1, c]."""
        import torch

        hidden: list[Tensor] = []
        pooled: Tensor | None = None
        p = self._pipeline
        with exact(self._device):
            for tokenizer, encoder in zip((p.tokenizer, p.tokenizer_2), self._encoders, strict=True):
                longest = tokenizer.model_max_length
                ids = tokenizer(
                    prompt, padding="max_length", max_length=longest, truncation=True, return_tensors="pt"
                ).input_ids
                states, found = encoder(ids.to(self._device))
                hidden.append(states)
                pooled = pooled if found is None else found
        assert pooled is not None
        return torch.cat(hidden, dim=-1), pooled

    def noise(self, sample: Tensor, timestep: float, states: Tensor, pooled: Tensor, time_ids: Tensor) -> Tensor:
        """The UNet's prediction for scaled samples [b, 4, h, w], on the CPU."""
        import torch

        added = {"text_embeds": pooled.to(self._device), "time_ids": time_ids.to(self._device)}
        with exact(self._device):
            at = torch.tensor(timestep, device=self._device)
            (y,) = self._pipeline.unet(
                sample.to(self._device),
                at,
                encoder_hidden_states=states.to(self._device),
                added_cond_kwargs=added,
                return_dict=False,
            )
        found: Tensor = y.cpu()
        return found

    def decode(self, latents: Tensor) -> Tensor:
        """Images [b, 3, h, w] of unscaled latents, on the CPU."""
        with exact(self._device):
            (y,) = self._pipeline.vae.decode(latents.to(self._device), return_dict=False)
        found: Tensor = y.cpu()
        return found

    def pictures(self, prompt: str, steps: int, seeds: Sequence[int], guidance: float) -> list[Pixels]:
        """A picture [h, w, 3] for each seed, all of them at once."""
        import torch

        p, n = self._pipeline, len(seeds)
        config = p.unet.config
        shape = (1, config.in_channels, config.sample_size, config.sample_size)
        noise = [torch.randn(shape, generator=torch.Generator().manual_seed(s)) for s in seeds]
        states, pooled = (x.repeat_interleave(n, dim=0) for x in self.conditioning(prompt))
        with exact(self._device):
            images = p(
                prompt_embeds=states,
                pooled_prompt_embeds=pooled,
                negative_prompt_embeds=torch.zeros_like(states),
                negative_pooled_prompt_embeds=torch.zeros_like(pooled),
                latents=torch.cat(noise).to(self._device),
                num_inference_steps=steps,
                guidance_scale=guidance,
                output_type="pt",
            ).images
        pixels = (images * 255).round().clamp(0, 255).permute(0, 2, 3, 1).to(torch.uint8).cpu().numpy()
        return [np.ascontiguousarray(x) for x in pixels]


@contextmanager
def exact(device: str) -> Iterator[None]:
    """Without gradients; sums in float32 (no TF32), on the CPU by one thread, so that they do not depend on cores."""
    import torch

    before, tf32 = torch.get_num_threads(), (torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    if device == "cpu":
        torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            yield
    finally:
        torch.set_num_threads(before)
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = tf32


def check_range(calibration: Calibration) -> None:
    """Refuse a model whose tensors are stored with exponents.

    Raises:
        DpuError: calibration saw a tensor beyond 2^14.
    """
    peaks = {n: float(v.max()) for n, v in calibration.tensors.items() if n.endswith(":y:absmax")}
    name = max(peaks, key=lambda n: peaks[n], default="")
    if name and peaks[name] > _LARGEST:
        what = f"'{name}' is {peaks[name]:.0f}, the predictor knows no more than {_LARGEST:.0f}"
        why = "the DPU stores such tensors with an exponent"
        raise DpuError(calibration.where, what, why=why, hint="compare another model", code="E220")


def compiled_layers(program: Program) -> dict[str, dict[str, Compiled]]:
    """What a program says of each layer, by part and ONNX node."""
    from ...codegen.precisions import GRAPHS, layers
    from ...ir.dialects import parse_module
    from ...ir.locations import nodes_of
    from ...ir.qgraph import QAttentionOp

    found: dict[str, dict[str, Compiled]] = {p: {} for p in PARTS}
    for layer in layers(program):
        said = Compiled(frozenset(layer.weights), layer.activations, layer.scale)
        found.setdefault(layer.part, {}).update(dict.fromkeys(layer.nodes, said))
    for table, content in program.tables.items():
        if table.startswith(GRAPHS):
            of_part = found[table.removeprefix(GRAPHS)]
            for op in parse_module(content.tobytes().decode(), table).walk():
                if isinstance(op, QAttentionOp):
                    block = op.key_block.value.data
                    of_part.update({n: of_part[n]._replace(key_block=block) for n in nodes_of(op)})
    return found


def open_predictor(model: Path, work: Path, precision: str, device: str = "cpu") -> Predictor:
    """The predictor of a precision whose program and calibration are in a work folder of `dpubench quality`.

    Raises:
        DpuError: no program, no calibration, no CUDA device, or the program is of another policy.
    """
    from ...codegen.dpufile import load
    from ...passes.calibration import load_calibration
    from ...passes.collectors import Collected

    check_device(device)
    variant = parse_variant(precision)
    if variant.smooth:
        what, why = "the predictor knows no '+smooth'", "it moves no factors of channels between layers"
        raise DpuError(f"--precisions {precision}", what, why=why, hint="leave it out", code="E501")
    program = load(program_path(work, precision))
    calibration = load_calibration(work / "calibration.safetensors")
    covered = Collected(calibration, variant.collector).absmax
    compiled = compiled_layers(program)
    return Predictor(load_pipeline(model), variant.policy, calibration, variant.gptq, compiled, device, covered)


def check_device(device: str) -> None:
    """Refuse a device that is not there.

    Raises:
        DpuError: it is unknown, or torch sees none.
    """
    import torch

    if device not in DEVICES:
        raise DpuError("--device", f"there is no '{device}'", hint=f"one of {', '.join(DEVICES)}", code="E501")
    if device == "cuda" and not torch.cuda.is_available():
        raise DpuError("--device cuda", "torch sees no CUDA device", hint="--device cpu", code="E501")


def load_pipeline(model: Path) -> Any:
    """diffusers' pipeline of a folder, in float32 and quiet."""
    import diffusers
    import transformers

    libraries: Any = diffusers, transformers  # mostly untyped
    for library in libraries:
        library.utils.logging.disable_progress_bar()
    pipeline = libraries[0].StableDiffusionXLPipeline.from_pretrained(
        model, add_watermarker=False, local_files_only=True
    )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def digest() -> str:
    """Over the predictor's source: pictures of another version are other pictures."""
    found = hashlib.sha256()
    for name in SOURCES:
        found.update((Path(__file__).parent / name).read_bytes())
    return found.hexdigest()
