"""The points of `dpubench gpu`, most important first. Each is one JSON file: a killed run goes on at the next one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..measurement import Measurement
from ..runtime.gpu.ort_rewrite import FUSIONS
from ..runtime.gpu.power import Window
from ..runtime.workload import evaluation_prompts
from .gpu_context import GUIDANCE, STEPS, Bench, arrivals, percentile

BEST = "torch:regional"
"""The engine that whole images are measured with."""
ORT = "ort:all"


@dataclass
class Found:
    """What a point found: records, and what explains them."""

    measurements: list[Measurement]
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Point:
    """One measurement. `run` does it; `work` and `build` are guessed seconds, `build` for making `engine` first."""

    name: str
    what: str
    work: float
    run: Callable[[Bench], Found]
    engine: str = ""
    build: float = 0.0

    def seconds(self, loaded: str) -> float:
        """What it will take, when this engine is loaded."""
        return self.work + (0.0 if self.engine == loaded else self.build)


def _window(bench: Bench, name: str, window: Window, units: int, unit: str) -> tuple[list[Measurement], dict[str, Any]]:
    """Records of a window over `units` of work: energy each, mean power; and its samples."""
    if not window.seconds:
        return [], {}
    joules = bench.record(f"{name}.energy", f"J/{unit}", [window.joules / units], window_s=f"{window.seconds:.1f}")
    watts = bench.record(f"{name}.power", "W", [window.watts], window_s=f"{window.seconds:.1f}")
    clocks = [s[2] for s in window.samples]
    return [joules, watts], {
        "window seconds": window.seconds,
        "window joules": window.joules,
        "SM clock MHz": [min(clocks), max(clocks)] if clocks else [],
        "temperature C": max((s[3] for s in window.samples), default=0),
        "samples": len(window.samples),
        "throttle reasons": window.throttle,
    }


def _idle(bench: Bench) -> Found:
    """The board without work, this process's context on it."""
    time.sleep(min(5.0, bench.window))
    if bench.board is None:
        return Found([])
    with bench.board.window() as window:
        time.sleep(min(20.0, bench.window))
    return Found([bench.record("idle.power", "W", [window.watts])], {"watts": [s[1] for s in window.samples]})


def step(kind: str, batch: int = 2, energy: bool = True) -> Callable[[Bench], Found]:
    """UNet forwards one after the other: latency of each, energy, difference from eager torch."""

    def run(bench: Bench) -> Found:
        name = f"step.{kind}.b{batch}"
        unet = bench.unet(kind, batch)
        error = bench.error(unet)
        seconds, window = bench.watch(unet.forward, bench.window if energy else 0.0, bench.least)
        more, details = _window(bench, name, window, len(seconds), "forward") if energy else ([], {})
        made = bench.record(f"{name}.latency", "s", seconds, batch=batch, engine=unet.label, guidance=GUIDANCE)
        notes = dict(unet.notes)
        if kind == ORT or "refused without CPU nodes" in notes:
            notes["placement"] = unet.placement()  # type: ignore[attr-defined]
        details |= {
            "p50": percentile(seconds, 50),
            "p90": percentile(seconds, 90),
            "p99": percentile(seconds, 99),
            "relative error to eager torch": error,
            "engine": unet.label,
            "notes": notes,
            "memory": bench.memory(),
        }
        return Found([made, *more], details)

    return run


def images(kind: str, count: int, steps: int, energy: bool, headline: bool = False) -> Callable[[Bench], Found]:
    """Whole images, `count` at a time, all prompts of the workload in order; a prompt's seed is its place."""

    def run(bench: Bench) -> Found:
        name = f"images.{kind}.n{count}.{steps}steps"
        pipeline = bench.pipeline(kind, count)
        prompts, at = evaluation_prompts(), 0
        parts: dict[str, list[float]] = {}

        def make() -> None:
            nonlocal at
            chosen = [(at + i) % len(prompts) for i in range(count)]
            at += count
            pipeline.make([prompts[i] for i in chosen], chosen, steps, GUIDANCE)
            for part, spent in pipeline.seconds.items():
                parts.setdefault(part, []).append(spent)

        least = max(1, (len(prompts) if headline else 8) // count) if bench.device == "cuda" else 2
        seconds, window = bench.watch(make, bench.window if energy else 0.0, least)
        more, details = _window(bench, name, window, len(seconds) * count, "image") if energy else ([], {})
        rate = [count / s for s in seconds]
        given: dict[str, Any] = {
            "images_a_batch": count,
            "steps": steps,
            "guidance": GUIDANCE,
            "engine": pipeline.unet.label,
            "resolution": 8 * bench.latent[0],
        }
        made = [
            bench.record(f"{name}.rate", "image/s", rate, **given),
            bench.record(f"{name}.latency", "s", seconds, **given),
        ]
        for part, spent in parts.items():
            made.append(bench.record(f"{name}.{part.replace(' ', '_')}", "s", spent[-len(seconds) :], **given))
        details |= {"p50": percentile(seconds, 50), "p90": percentile(seconds, 90), "p99": percentile(seconds, 99)}
        details |= {
            "prompts": len(prompts),
            "memory": bench.memory(),
            "vae": "fp16, as with the fp16 fix of SDXL's VAE",
        }
        details |= {"notes": dict(pipeline.unet.notes), "vae notes": pipeline.vae.notes}
        return Found(made + more, details)

    return run


def vae(dtype: str, mode: str = "compile", energy: bool = True) -> Callable[[Bench], Found]:
    """The VAE decoder alone, one image a run."""

    def run(bench: Bench) -> Found:
        import torch

        decoder = bench.vae(dtype, mode)
        latents = torch.randn(decoder.latents.shape, generator=torch.Generator().manual_seed(0)).to(bench.device)
        seconds, window = bench.watch(lambda: decoder.decode(latents), bench.window if energy else 0.0, 50)
        name = f"vae.{mode}.{dtype}"
        more, details = _window(bench, name, window, len(seconds), "image") if energy else ([], {})
        return Found([bench.record(f"{name}.latency", "s", seconds), *more], details | {"notes": decoder.notes})

    return run


def _encoders(bench: Bench) -> Found:
    """Both text encoders on the two prompts of one image."""
    import torch

    text = bench.text()
    ids = torch.randint(0, 500, (2, 77), generator=torch.Generator().manual_seed(0)).to(bench.device)
    seconds, window = bench.watch(lambda: text.encode(ids, ids), bench.window, bench.least)
    more, details = _window(bench, "encoders", window, len(seconds), "image")
    return Found([bench.record("encoders.latency", "s", seconds, prompts=2), *more], details)


def server(kind: str, load: float) -> Callable[[Bench], Found]:
    """One image at a time from a queue with Poisson arrivals at `load` of what the engine can do."""

    def run(bench: Bench) -> Found:
        pipeline = bench.pipeline(kind, 1)
        prompts = evaluation_prompts()

        def make(i: int) -> None:
            pipeline.make([prompts[i % len(prompts)]], [i], STEPS, GUIDANCE)

        make(0)
        bench.synchronise()
        started = time.perf_counter()
        for i in range(3):
            make(i)
        capacity = 3 / (time.perf_counter() - started)
        times = arrivals(load * capacity, max(bench.window, 3 / capacity))
        start, latency = time.perf_counter(), []
        for i, at in enumerate(times):
            wait = start + at - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            make(i)
            latency.append(time.perf_counter() - start - at)
        if not latency:
            return Found([], {"arrivals": 0})
        made = bench.record(f"server.{kind}.load{load:g}.latency", "s", latency, load=load, steps=STEPS)
        details = {f"p{p}": percentile(latency, p) for p in (50, 90, 99)}
        return Found(
            [made], {**details, "arrivals": len(times), "capacity image/s": capacity, "queue": "FIFO, one image"}
        )

    return run


def tiny(engine: str) -> Callable[[Bench], Found]:
    """The tiny pipeline on the GPU against the float32 reference on the CPU: PSNR of the image."""

    def run(bench: Bench) -> Found:
        import tempfile
        from math import log10
        from pathlib import Path

        import numpy as np

        from ..frontend.sdxl import export_tiny
        from ..runtime.gpu.images import make_on_gpu
        from ..runtime.pipeline import Pipeline, Request
        from ..runtime.pipeline_files import FolderFiles
        from ..runtime.unets import OnnxUnet

        request = Request("a red fox in the snow", seed=7, steps=STEPS, height=64, width=64)
        with tempfile.TemporaryDirectory() as work:
            export_tiny(Path(work) / "tiny", size=64)
            files = FolderFiles(Path(work) / "tiny")
            expected = Pipeline(files).generate(request, OnnxUnet(files)).pixels.astype(float)
            found, label = make_on_gpu(files, request, engine, device=bench.device)
        error = float(np.mean((found.pixels - expected) ** 2))
        psnr = 10 * log10(255**2 / error) if error else 99.0
        return Found(
            [bench.record(f"tiny.{engine}.psnr", "dB", [psnr])],
            {"engine": label, "at least": 40.0, "passes": psnr >= 40},
        )

    return run


def _layers(bench: Bench) -> Found:
    """Seconds of each layer of the eager UNet, for the roofline."""
    from .gpu_roofline import layer_seconds, rates

    from_modules = layer_seconds(bench)
    attained = rates(bench)
    return Found(
        [bench.record(f"rate.{k.replace(' ', '_')}", u, v) for k, (u, v) in attained.items()],
        {"layers": from_modules},
    )


_BUILD = {"torch": 110.0, "ort": 70.0, "": 0.0}
"""Seconds to make an engine, guessed: weights, compiling, choosing algorithms."""


def _step(name: str, what: str, kind: str, energy: bool = False, build: float = 0.0) -> Point:
    engine = kind.partition(":")[0]
    plain = kind in ("torch:eager", "torch:graph")
    made = build or (20.0 if plain else _BUILD[engine])
    return Point(name, what, 85.0 if energy else 20.0, step(kind, energy=energy), f"{kind} batch 2", made)


def _images(name: str, what: str, kind: str, count: int, work: float, steps: int = STEPS, energy: bool = True) -> Point:
    run = images(kind, count, steps, energy, headline=count == 1 and steps == STEPS)
    return Point(name, what, work, run, f"{kind} batch {2 * count}", _BUILD[kind.partition(":")[0]])


def _points() -> tuple[Point, ...]:
    best = f"{BEST} batch 2"
    fp8 = f"{BEST}:fp8"
    return (
        Point("idle", "the board without work", 30, _idle),
        _step("step-torch", "UNet step, torch.compile block by block", BEST, energy=True),
        _images("images-20", "whole images, one at a time, 20 steps", BEST, 1, 130),
        _images("images-30", "whole images, 30 steps", BEST, 1, 40, 30, energy=False),
        _images("images-50", "whole images, 50 steps", BEST, 1, 55, 50, energy=False),
        Point("server-80", "Poisson arrivals at 80 % of capacity", 75, server(BEST, 0.8), best, 110),
        _step("step-ort", "UNet step, ONNX Runtime with all rewrites", ORT, energy=True),
        _images("images-20-ort", "whole images in ONNX Runtime", ORT, 1, 110),
        _step("step-ort-none", "UNet step, ONNX Runtime as exported", "ort:none"),
        _images("offline-8", "8 images at a time", BEST, 8, 100),
        _step("step-torch-cudnn", "UNet step, attention by cuDNN", f"{BEST}:cudnn"),
        _step("step-fp8", "UNet step, FP8 linears", fp8, energy=True),
        _images("offline-8-fp8", "8 images at a time, FP8 linears", fp8, 8, 100),
        Point("vae", "VAE decoder, float16, compiled", 75, vae("fp16"), "", 0),
        Point("encoders", "text encoders", 70, _encoders),
        *[_step(f"ort-without-{f}", f"ONNX Runtime without {f}", f"ort:all,-{f}") for f in FUSIONS],
        _step("ort-cudnn", "ONNX Runtime with cuDNN attention", "ort:all:cudnn"),
        _step("ort-conv-bias", "ONNX Runtime, bias in cuDNN's convolutions", "ort:all:conv-bias"),
        _step("ort-strict", "ONNX Runtime, LayerNorm sums in float32", "ort:all:strict"),
        Point("layers", "seconds by layer, and the rates that bound them", 60, _layers),
        Point("tiny-torch", "tiny pipeline against the reference", 60, tiny("torch")),
        Point("tiny-ort", "tiny pipeline against the reference, ONNX Runtime", 60, tiny("ort")),
        _step("step-eager", "UNet step, eager torch", "torch:eager"),
        _step("step-graph", "UNet step, eager torch in a CUDA graph", "torch:graph"),
        _step("step-reduce-overhead", "UNet step, torch.compile as a whole", "torch:reduce-overhead", build=150),
        Point("server-50", "Poisson arrivals at 50 % of capacity", 75, server(BEST, 0.5), best, 110),
        Point("server-95", "Poisson arrivals at 95 % of capacity", 75, server(BEST, 0.95), best, 110),
        *[_images(f"offline-{n}", f"{n} images at a time", BEST, n, 100) for n in (2, 4, 16)],
        Point("vae-bf16", "VAE decoder, bfloat16", 60, vae("bf16", energy=False)),
        Point("vae-fp32", "VAE decoder, float32, as SDXL's config asks", 60, vae("fp32", energy=False)),
        _images("offline-16-fp8", "16 images at a time, FP8 linears", fp8, 16, 100),
        _step("step-max-autotune", "UNet step, torch.compile max-autotune", "torch:max-autotune", build=480),
    )


POINTS = _points()
