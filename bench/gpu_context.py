"""What the points of `dpubench gpu` work with: weights, one engine at a time, the board, timing loops."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DpuError
from ..measurement import DeviceIdentity, Measurement, Statistic
from ..runtime.gpu.identity import identity
from ..runtime.gpu.power import Board, Window
from ..runtime.workload import evaluation_prompts, prompts_sha256
from .gpu_experiment import BASE, policy, scheduler_name, seed_text

if TYPE_CHECKING:
    import torch

    from ..runtime.gpu.pipeline import GpuPipeline
    from ..runtime.gpu.static_unet import StaticUnet

GUIDANCE, STEPS = 8.0, 20  # of MLPerf's SDXL benchmark
_WARM_UP = 10  # runs before anything is timed
_CPU_FUSIONS = ("attention", "skip_layer_norm")


@dataclass
class Bench:
    """One process of measurements.

    Args:
        folder: where points are kept.
        command: how the process was called.
        window: seconds of work that energy and latency are taken over.
        repetition: how often this point ran before, and once; the engine is warm after the first.
        device: "cuda"; "cpu" lets tests run every line of it.
        board: the GPU's NVML.
        configs: component: its config; the published ones of SDXL base.
        model: the name of these configs in workload files.
        latent: height and width.
        stand_in: what takes a GPU's place, in tests: its numbers are then simulated, not measured.
    """

    folder: Path
    command: str = "dpubench gpu"
    window: float = 60.0
    repetition: int = 1
    least: int = 200
    device: str = "cuda"
    board: Board | None = None
    configs: Mapping[str, Any] = field(default_factory=dict)
    scheduler: Mapping[str, Any] = field(default_factory=dict)
    latent: tuple[int, int] = (128, 128)
    model: str = ""
    stand_in: str = ""
    say: Callable[[str], None] = lambda _: None
    _states: dict[str, Any] = field(default_factory=dict)
    _digest: Future[str] | None = None
    _unet: tuple[str, StaticUnet] | None = None
    _vae: dict[str, Any] = field(default_factory=dict)
    _text: Any = None
    _references: dict[int, torch.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from ..frontend.pipeline_folder import read_json
        from ..frontend.sdxl import SDXL_CONFIGS

        names = ("text_encoder", "text_encoder_2", "unet", "vae")
        self.model = self.model or ("" if self.configs else BASE)
        self.configs = self.configs or {n: read_json(SDXL_CONFIGS / f"{n}.json") for n in names}
        self.scheduler = self.scheduler or read_json(SDXL_CONFIGS / "scheduler.json")
        if self.device == "cuda" and self.board is None:
            self.board = Board.of_torch()

    # what ran

    def identity(self) -> dict[str, Any]:
        """GPU, driver, versions, commit."""
        return identity(self.board if self.device == "cuda" else None)

    def gpu(self) -> DeviceIdentity:
        """The device of every record; only a real GPU makes it measured."""
        if self.stand_in or self.board is None:
            return DeviceIdentity(target="gpu", name="none", stand_in=self.stand_in or "CPU")
        nvml = self.board.nvml
        uuid, driver = nvml.nvmlDeviceGetUUID(self.board.handle), nvml.nvmlSystemGetDriverVersion()
        name = nvml.nvmlDeviceGetName(self.board.handle)
        text = [x.decode() if isinstance(x, bytes) else str(x) for x in (name, uuid, driver)]
        return DeviceIdentity(target="gpu", name=text[0], marks={"uuid": text[1], "driver": text[2]})

    def record(
        self,
        name: str,
        unit: str,
        samples: Sequence[float],
        statistic: Statistic = "median",
        experiment: Mapping[str, str] | None = None,
        **conditions: object,
    ) -> Measurement:
        """A measurement of now; the names of `experiment` are kept, those of other conditions written with spaces."""
        given = {k.replace("_", " "): str(v) for k, v in conditions.items()} | dict(experiment or {})
        return Measurement.of(
            name, unit, samples, self.gpu(), command=self.command, statistic=statistic, conditions=given
        )

    def experiment(self, kind: str, seeds: Sequence[int], steps: int) -> dict[str, str]:
        """What images of these seeds are the experiment of: `gate_evidence.EXPERIMENT`.

        Args:
            kind: of the engine.
            seeds: of the images that were timed; a prompt's seed is its place in the list.
            steps: of one image.
        """
        prompts = evaluation_prompts()
        self.state("unet")
        assert self._digest is not None
        return {
            "model": self.model,
            "model_sha256": self._digest.result(),
            "policy": policy(kind, self.dtype),
            "prompts_sha256": prompts_sha256([prompts[i] for i in sorted(set(seeds))]),
            "seeds": seed_text(seeds),
            "steps": str(steps),
            "guidance": str(GUIDANCE),
            "scheduler": scheduler_name(self.scheduler),
            "resolution": str(8 * self.latent[0]),
        }

    # what runs

    @property
    def dtype(self) -> torch.dtype:
        """Of weights and activations."""
        import torch

        return torch.float16 if self.device == "cuda" else torch.float32

    def state(self, component: str) -> Any:
        """The seeded weights of a component, made once."""
        from ..runtime.gpu.weights import seeded, weights_sha256

        if component not in self._states:
            started = time.perf_counter()
            self._states[component] = seeded(component, self.configs[component], self.dtype)
            self.say(f"weights of {component}: {time.perf_counter() - started:.1f} s")
            if component == "unet":  # 5 GB: beside the compiling of an engine, which waits for it before it is timed
                pool = ThreadPoolExecutor(1)
                self._digest = pool.submit(weights_sha256, self._states[component])
                pool.shutdown(wait=False)
        return self._states[component]

    @property
    def loaded(self) -> str:
        """The engine that is there."""
        return self._unet[0] if self._unet else ""

    @property
    def has_parts(self) -> bool:
        """Whether whole images need nothing but an engine."""
        return bool(self._vae) and self._text is not None

    def unet(self, kind: str, batch: int) -> StaticUnet:
        """An engine: `torch:MODE[:fp8][:cudnn]`, or `ort:FUSIONS[:OPTION...]`; the one before it is freed."""
        key = f"{kind} batch {batch}"
        if self._unet and self._unet[0] == key:
            return self._unet[1]
        self.free()
        state = self.state("unet")
        self.say(f"{key}: building")
        engine, *rest = kind.split(":")
        if engine == "torch":
            from ..runtime.gpu.torch_engine import TorchUnet

            mode, precision = rest[0], "fp8" if "fp8" in rest else "fp16"
            attention = "cudnn" if "cudnn" in rest else "default"
            if self.device != "cuda":
                mode = "eager"
            made: StaticUnet = TorchUnet(
                self.configs["unet"], state, batch, self.latent, mode, precision, self.device, self.dtype, attention
            )
        elif engine == "ort":
            made = self._ort(state, batch, rest)
        else:
            raise DpuError("dpubench gpu", f"there is no engine '{engine}'", hint="torch or ort", code="E501")
        assert self._digest is not None
        digest = self._digest.result()  # nothing else runs while an engine is timed
        notes = {k: v for k, v in made.notes.items() if isinstance(v, float | int | str)}
        self.say(f"{key}: {notes}, weights {digest[:12]}")
        self._unet = (key, made)
        return made

    def _ort(self, state: Any, batch: int, rest: list[str]) -> StaticUnet:
        from ..runtime.gpu.ort_engine import OrtOptions, OrtUnet
        from ..runtime.gpu.ort_rewrite import chosen_fusions

        fusions = chosen_fusions(rest[0])
        if self.device != "cuda":
            fusions = tuple(f for f in fusions if f in _CPU_FUSIONS)
        known: dict[str, dict[str, Any]] = {
            "cudnn": {"attention_kernel": "cudnn"},
            "conv-bias": {"fuse_conv_bias": True},
            "strict": {"strict_layer_norm": True},
            "no-graph": {"cuda_graph": False},
        }
        extra = {k: v for option in rest[1:] for k, v in known[option].items()}
        precision = "fp16" if self.device == "cuda" else "fp32"
        options = OrtOptions(fusions, **extra)
        return OrtUnet(self.configs["unet"], state, batch, self.latent, options, self.device, precision)

    def free(self) -> None:
        """Drop the UNet."""
        import gc

        import torch

        if self._unet:
            self._unet[1].close()
        self._unet = None
        gc.collect()
        if self.device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def vae(self, dtype: str = "fp16", mode: str = "compile") -> Any:
        """The VAE decoder, built once for each type."""
        import torch

        from ..runtime.gpu.torch_engine import TorchVae

        key = f"{mode} {dtype}"
        if key not in self._vae:
            kinds = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
            chosen = kinds[dtype] if self.device == "cuda" else torch.float32
            mode = mode if self.device == "cuda" else "eager"
            self._vae[key] = TorchVae(self.configs["vae"], self.state("vae"), self.latent, mode, self.device, chosen)
        return self._vae[key]

    def text(self) -> Any:
        """Both text encoders, built once."""
        from ..runtime.gpu.torch_engine import TorchText

        if self._text is None:
            states = {n: self.state(n) for n in ("text_encoder", "text_encoder_2")}
            self._text = TorchText(self.configs, states, self.device, self.dtype)
        return self._text

    def pipeline(self, kind: str, images: int) -> GpuPipeline:
        """A whole pipeline for `images` guided images at a time."""
        from ..frontend.clip_vocabulary import clip_tokenizer, find_vocabulary
        from ..frontend.tiny import build_tokenizer
        from ..runtime.gpu.pipeline import GpuPipeline

        vocabulary = find_vocabulary() if self.device == "cuda" else None
        tokenizer = build_tokenizer() if vocabulary is None else clip_tokenizer(vocabulary)
        return GpuPipeline(self.text(), self.unet(kind, 2 * images), self.vae(), self.scheduler, tokenizer)

    # how it is timed

    def synchronise(self) -> None:
        """Wait for the GPU."""
        from ..runtime.gpu.torch_engine import synchronise

        synchronise(self.device)

    def watch(
        self, run: Callable[[], None], seconds: float, least: int = 1, warm: int | None = None
    ) -> tuple[list[float], Window]:
        """Run again and again for `seconds` and at least `least` times: seconds of each run, and the board's window.

        `warm` runs go before, none of them timed.
        """
        found: list[float] = []
        for _ in range(min(_WARM_UP, least) if warm is None else warm):
            run()
        self.synchronise()

        def loop() -> None:
            end = time.perf_counter() + seconds
            while time.perf_counter() < end or len(found) < least:
                started = time.perf_counter()
                run()
                self.synchronise()
                found.append(time.perf_counter() - started)

        if self.board is None:
            loop()
            return found, Window()
        with self.board.window() as window:
            loop()
        return found, window

    def draw(self, unet: StaticUnet) -> None:
        """Seeded inputs of a middle step."""
        import torch

        rng = torch.Generator("cpu").manual_seed(0)
        for name, value in unet.buffers.items():
            if name == "timestep":
                value.fill_(501.0)
            elif name == "time_ids":
                side = 8.0 * self.latent[0]
                value.copy_(torch.tensor([[side, side, 0, 0, side, side]]).expand_as(value))
            else:
                value.copy_(torch.randn(value.shape, generator=rng))

    def error(self, unet: StaticUnet) -> float:
        """Relative difference of an engine's output from eager torch, same weights and inputs."""
        import torch

        if unet.batch not in self._references:
            from ..runtime.gpu.torch_engine import TorchUnet

            plain = TorchUnet(
                self.configs["unet"],
                self.state("unet"),
                unet.batch,
                self.latent,
                "eager",
                "fp16",
                self.device,
                self.dtype,
            )
            self.draw(plain)
            plain.forward()
            self._references[unet.batch] = plain.out.float().cpu()
            plain.close()
            if self.device == "cuda":
                torch.cuda.empty_cache()
        self.draw(unet)
        unet.forward()
        self.synchronise()
        expected = self._references[unet.batch]
        return float((unet.out.float().cpu() - expected).norm() / expected.norm())

    def memory(self) -> dict[str, int]:
        """Bytes in use on the board, and the largest that torch took."""
        import torch

        found: dict[str, int] = {}
        if self.device == "cuda":
            found["torch peak"] = torch.cuda.max_memory_allocated()
            assert self.board is not None
            found["board used"] = int(self.board.nvml.nvmlDeviceGetMemoryInfo(self.board.handle).used)
        return found


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that at least `percent` of all do not exceed (nearest rank, as MLPerf's LoadGen takes it)."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def arrivals(rate: float, seconds: float, seed: int = 0) -> list[float]:
    """Times of a Poisson process of `rate` a second, below `seconds`."""
    rng, at = random.Random(seed), 0.0
    found: list[float] = []
    while True:
        at += rng.expovariate(rate)
        if at >= seconds:
            return found
        found.append(at)
