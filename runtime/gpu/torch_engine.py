"""The torch engine: diffusers' modules in channels-last float16, compiled, replayed as one CUDA graph.

Modes: `eager`; `graph` eager operations in a CUDA graph; `regional` each repeated block compiled by itself, all of
them in one CUDA graph, which compiles in a fraction of the time; `reduce-overhead` and `max-autotune` as torch.compile
means them, over the whole UNet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...errors import DpuError, reason
from .static_unet import StaticUnet
from .weights import build

if TYPE_CHECKING:
    import torch

    from .weights import State

MODES = ("eager", "graph", "regional", "reduce-overhead", "max-autotune")
PRECISIONS = ("fp16", "fp8")
ATTENTION = ("default", "cudnn")
"""Which kernels scaled_dot_product_attention tries first: torch's own choice, or cuDNN's, made for Hopper."""
_WARM_UP = 3
_REPEATED = ("BasicTransformerBlock", "ResnetBlock2D")


class TorchUnet(StaticUnet):
    """diffusers' UNet.

    Raises:
        DpuError: there is no such mode or precision.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        state: State,
        batch: int,
        latent: tuple[int, int],
        mode: str = "regional",
        precision: str = "fp16",
        device: str = "cuda",
        dtype: torch.dtype | None = None,
        attention: str = "default",
    ) -> None:
        import torch

        if mode not in MODES:
            raise DpuError("--mode", f"there is no '{mode}'", hint=f"one of {', '.join(MODES)}", code="E501")
        if precision not in PRECISIONS:
            raise DpuError(
                "--precision", f"there is no '{precision}'", hint=f"one of {', '.join(PRECISIONS)}", code="E501"
            )
        super().__init__(config, batch, latent, device, dtype or torch.float16)
        self.label = f"torch {torch.__version__} {mode} {precision}" + (
            f" {attention}" if attention != "default" else ""
        )
        started = time.perf_counter()
        self.module: Any = build("unet", config, state, self.dtype, device).to(memory_format=torch.channels_last)
        if precision == "fp8":
            from .fp8 import to_fp8

            self.notes["fp8 linears"] = to_fp8(self.module)
        self.notes["load seconds"] = time.perf_counter() - started
        self._call: Callable[[], None] = self._plain
        self._attention = attention
        started = time.perf_counter()
        if mode == "regional":
            self.notes["compiled blocks"] = compile_blocks(self.module)
        elif mode in ("reduce-overhead", "max-autotune"):
            self.module = torch.compile(self.module, mode=mode, fullgraph=False, dynamic=False)
        with torch.inference_mode(), _attention(attention):
            if mode in ("graph", "regional") and device == "cuda":
                try:
                    self._call = captured(self._plain)
                except RuntimeError as e:  # what cannot be recorded still runs, and the notes say so
                    self.notes["cuda graph refused"] = reason(e)
            for _ in range(_WARM_UP):
                self._call()
        synchronise(device)
        self.notes["compile seconds"] = time.perf_counter() - started
        self.notes["graph breaks"] = graph_breaks()

    def _plain(self) -> None:
        import torch

        b = self.buffers
        compiler: Any = torch.compiler
        compiler.cudagraph_mark_step_begin()
        sample = b["sample"].contiguous(memory_format=torch.channels_last)
        added = {"text_embeds": b["text_embeds"], "time_ids": b["time_ids"]}
        out = self.module(
            sample, b["timestep"], b["encoder_hidden_states"], added_cond_kwargs=added, return_dict=False
        )[0]
        self.out.copy_(out)

    def forward(self) -> None:
        """Run once."""
        import torch

        with torch.inference_mode():
            self._call()

    def close(self) -> None:
        """Free the device's memory."""
        super().close()
        self._call = self._plain
        self.module = None
        if self._attention != "default":
            _forget()


class TorchVae:
    """The VAE decoder: latents [1, 4, h, w] to an image [1, 3, H, W] in -1 to 1.

    `dtype` float16 suits seeded weights and the published fp16 fix of SDXL's VAE; the original needs float32.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        state: State,
        latent: tuple[int, int],
        mode: str = "compile",
        device: str = "cuda",
        dtype: torch.dtype | None = None,
    ) -> None:
        import torch

        self.dtype, self.device = dtype or torch.float16, device
        self.config = config
        self.module: Any = build("vae", config, state, self.dtype, device).to(memory_format=torch.channels_last)
        self.latents = torch.zeros(1, config["latent_channels"], *latent, dtype=torch.float32, device=device)
        self.notes: dict[str, Any] = {}
        self._decode: Any = self._plain
        started = time.perf_counter()
        if mode == "compile":
            self._decode = torch.compile(self._plain, dynamic=False)
        with torch.inference_mode():
            for _ in range(_WARM_UP if device == "cuda" else 1):
                self._decode(self.latents)
        synchronise(device)
        self.notes["compile seconds"] = time.perf_counter() - started

    def _plain(self, latents: torch.Tensor) -> torch.Tensor:
        import torch

        scaled = (latents / self.config["scaling_factor"]).to(self.dtype)
        image: torch.Tensor = self.module.decode(
            scaled.contiguous(memory_format=torch.channels_last), return_dict=False
        )[0]
        return image

    def decode(self, latents: torch.Tensor) -> torch.Tensor:
        """The image of scaled-up latents; float32 in, `dtype` out."""
        import torch

        with torch.inference_mode():
            self.latents.copy_(latents)
            image: torch.Tensor = self._decode(self.latents)
        return image


class TorchText:
    """Both text encoders: token ids [n, 77] each to hidden states side by side and the pooled projection."""

    def __init__(
        self,
        configs: Mapping[str, Mapping[str, Any]],
        states: Mapping[str, State],
        device: str = "cuda",
        dtype: torch.dtype | None = None,
    ) -> None:
        import torch

        self.device = device
        names = ("text_encoder", "text_encoder_2")
        self.modules: list[Any] = [build(n, configs[n], states[n], dtype or torch.float16, device) for n in names]

    def encode(self, ids: torch.Tensor, ids_2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(hidden states [n, 77, 2048], pooled [n, 1280]) as SDXL takes them: of the last layer but one."""
        import torch

        with torch.inference_mode():
            first = self.modules[0](ids, output_hidden_states=True)
            second = self.modules[1](ids_2, output_hidden_states=True)
            hidden = torch.cat([first.hidden_states[-2], second.hidden_states[-2]], dim=-1)
            return hidden, second.text_embeds


@contextmanager
def _attention(name: str) -> Iterator[None]:
    """Choose attention kernels while a UNet is compiled and recorded: both keep what they saw."""
    if name == "default":
        yield
        return
    import torch._functorch.config as functorch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    untyped: Any = functorch
    order = [
        SDPBackend.CUDNN_ATTENTION,
        SDPBackend.FLASH_ATTENTION,
        SDPBackend.EFFICIENT_ATTENTION,
        SDPBackend.MATH,
    ]
    _forget()
    with sdpa_kernel(order, set_priority=True), untyped.patch(enable_autograd_cache=False):
        yield


def _forget() -> None:
    """Drop compiled code: neither torch's code of this process nor its cache on disk knows which attention it chose."""
    import torch._dynamo as dynamo

    dynamo.reset()


def synchronise(device: str) -> None:
    """Wait for the GPU; nothing to do for the CPU."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def compile_blocks(module: Any, backend: str = "inductor") -> int:
    """Compile each repeated block of a UNet by itself, in place; returns how many.

    Blocks of one class share their code, so that torch's limit of variants for one function must cover all shapes.
    """
    import torch._dynamo as dynamo

    config: Any = dynamo.config
    config.recompile_limit = 256
    config.accumulated_recompile_limit = 1024
    config.fail_on_recompile_limit_hit = True  # else it would go on in eager mode without a word
    blocks = [m for m in module.modules() if type(m).__name__ in _REPEATED]
    for block in blocks:
        block.compile(backend=backend, dynamic=False)
    return len(blocks)


def graph_breaks() -> int:
    """Places where torch left compiled code for Python, in this process so far; a UNet that compiled well has none."""
    from torch._dynamo.utils import counters

    return sum(counters["graph_break"].values())


def captured(call: Callable[[], None]) -> Callable[[], None]:
    """`call` recorded as a CUDA graph, after a warm-up that compiles and chooses algorithms."""
    import torch

    cuda: Any = torch.cuda
    side = cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(_WARM_UP):
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    torch.cuda.synchronize()
    return graph.replay
