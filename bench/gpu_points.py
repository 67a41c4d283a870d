"""The points of `dpubench gpu`, most important first. Each is one JSON file: a killed run goes on at the next one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..measurement import Measurement
from ..runtime.gpu.ort_rewrite import FUSIONS
from ..runtime.gpu.power import Window
from ..runtime.workload import evaluation_prompts
from .gpu_context import GUIDANCE, STEPS, Bench, arrivals, percentile
from .gpu_experiment import DIGEST

BEST = "torch:regional"
"""The engine that whole images are measured with."""
ORT = "ort:all"
_WARM_IMAGES, _FEW_IMAGES = 8, 8  # before the first repetition; at least, of other steps than the workload's


@dataclass
class Found:
    """What a point found: records, and what explains them."""

    measurements: list[Measurement]
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Point:
    """One measurement. `run` does it.

    `work` and `build` are guessed seconds: `work` without its window, `build` for making `engine` first. `window` is
    whether the seconds of a window come on top, `least` how many of them at least, `vae` whether whole images are made,
    whose VAE and text encoders are built once a process.
    """

    name: str
    what: str
    work: float
    run: Callable[[Bench], Found]
    engine: str = ""
    build: float = 0.0
    window: bool = False
    least: float = 0.0
    vae: bool = False

    def seconds(self, loaded: str, window: float, parts: bool = True) -> float:
        """What it will take, when this engine is loaded and, with `parts`, VAE and text encoders are."""
        spent = self.work + (max(window, self.least) if self.window else self.least)
        spent += 0.0 if not self.engine or self.engine == loaded else self.build
        return spent + (PARTS_SECONDS if self.vae and not parts else 0.0)


PARTS_SECONDS = 30.0
"""Guessed: VAE and text encoders, the VAE compiled for the first time (23 s on an H200)."""


def _window(
    bench: Bench, name: str, window: Window, units: int, unit: str, experiment: Mapping[str, str] | None = None
) -> tuple[list[Measurement], dict[str, Any]]:
    """Records of a window over `units` of work: energy each, mean power; and its samples."""
    if not window.seconds:
        return [], {}
    given: dict[str, Any] = {"experiment": experiment, "window_s": f"{window.seconds:.1f}"}
    joules = bench.record(f"{name}.energy", f"J/{unit}", [window.joules / units], **given)
    watts = bench.record(f"{name}.power", "W", [window.watts], **given)
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


def images(kind: str, count: int, steps: int, energy: bool) -> Callable[[Bench], Found]:
    """Whole images, `count` at a time, all prompts of the workload in order; a prompt's seed is its place.

    Of the workload's steps every prompt is made once or more.
    """

    def run(bench: Bench) -> Found:
        name = f"images.{kind}.n{count}.{steps}steps"
        pipeline = bench.pipeline(kind, count)
        prompts, seeds = evaluation_prompts(), list[int]()
        parts: dict[str, list[float]] = {}

        def make() -> None:
            chosen = [(len(seeds) + i) % len(prompts) for i in range(count)]
            seeds.extend(chosen)
            pipeline.make([prompts[i] for i in chosen], chosen, steps, GUIDANCE)
            for part, spent in pipeline.seconds.items():
                parts.setdefault(part, []).append(spent)

        cuda = bench.device == "cuda"
        for _ in range(max(1, _WARM_IMAGES // count) if cuda and bench.repetition == 1 else 1):
            make()
        seeds.clear()
        parts.clear()
        wanted = len(prompts) if steps == STEPS else _FEW_IMAGES
        least = math.ceil(wanted / count) if cuda else 2
        seconds, window = bench.watch(make, bench.window if energy else 0.0, least, warm=0)
        experiment = bench.experiment(kind, seeds, steps)
        done = len(seconds) * count
        more, details = _window(bench, name, window, done, "image", experiment) if energy else ([], {})
        given: dict[str, Any] = {
            "experiment": experiment,
            "images_a_batch": count,
            "engine": pipeline.unet.label,
            "repetition": bench.repetition,
        }
        made = [
            bench.record(f"{name}.rate", "image/s", [count / s for s in seconds], **given),
            bench.record(f"{name}.latency", "s", seconds, **given),
        ]
        for part, spent in parts.items():
            made.append(bench.record(f"{name}.{part.replace(' ', '_')}", "s", spent, **given))
        details |= {"p50": percentile(seconds, 50), "p90": percentile(seconds, 90), "p99": percentile(seconds, 99)}
        details |= {
            "images": done,
            "prompts": len(set(seeds)),
            "digest": DIGEST,
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
        prompts, seeds = evaluation_prompts(), list[int]()

        def make() -> None:
            at = len(seeds) % len(prompts)
            seeds.append(at)
            pipeline.make([prompts[at]], [at], STEPS, GUIDANCE)

        make()
        bench.synchronise()
        started = time.perf_counter()
        for _ in range(3):
            make()
        capacity = 3 / (time.perf_counter() - started)
        seeds.clear()
        times = arrivals(load * capacity, max(bench.window, 3 / capacity))
        start, latency = time.perf_counter(), []
        for at in times:
            wait = start + at - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            make()
            latency.append(time.perf_counter() - start - at)
        if not latency:
            return Found([], {"arrivals": 0})
        experiment = bench.experiment(kind, seeds, STEPS)
        name = f"server.{kind}.load{load:g}.latency"
        made = bench.record(name, "s", latency, experiment=experiment, load=load, engine=pipeline.unet.label)
        details = {f"p{p}": percentile(latency, p) for p in (50, 90, 99)}
        more = {"arrivals": len(times), "capacity image/s": capacity, "queue": "FIFO, one image", "digest": DIGEST}
        return Found([made], details | more)

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


_BUILD = {"torch": 45.0, "ort": 25.0}
"""Seconds to make an engine, guessed from an H200's first runs: weights, compiling, choosing algorithms."""
_STEP, _IMAGE = 0.04, 0.72  # seconds, likewise


def _step(name: str, what: str, kind: str, energy: bool = False, build: float = 0.0) -> Point:
    engine = kind.partition(":")[0]
    plain = kind in ("torch:eager", "torch:graph")
    made = build or (8.0 if plain else _BUILD[engine])
    return Point(name, what, 4.0, step(kind, energy=energy), f"{kind} batch 2", made, window=energy, least=210 * _STEP)


def _images(name: str, what: str, kind: str, count: int, steps: int = STEPS, energy: bool = True) -> Point:
    each = _IMAGE * steps / STEPS
    wanted = len(evaluation_prompts()) if steps == STEPS else _FEW_IMAGES
    return Point(
        name,
        what,
        work=each * (max(count, _WARM_IMAGES) + count / 2),
        run=images(kind, count, steps, energy),
        engine=f"{kind} batch {2 * count}",
        build=_BUILD[kind.partition(":")[0]] + (15 if "fp8" in kind else 0),
        window=energy,
        least=each * max(wanted, count),
        vae=True,
    )


def _server(percent: int) -> Point:
    what = f"Poisson arrivals at {percent} % of capacity"
    run, engine = server(BEST, percent / 100), f"{BEST} batch 2"
    return Point(f"server-{percent}", what, 12, run, engine, _BUILD["torch"], window=True, vae=True)


def _points() -> tuple[Point, ...]:
    fp8 = f"{BEST}:fp8"
    return (
        Point("idle", "the board without work", 25, _idle),
        _step("step-torch", "UNet step, torch.compile block by block", BEST, energy=True),
        _images("images-20", "whole images, one at a time, 20 steps", BEST, 1),
        _images("images-30", "whole images, 30 steps", BEST, 1, 30, energy=False),
        _images("images-50", "whole images, 50 steps", BEST, 1, 50, energy=False),
        _server(80),
        _step("step-ort", "UNet step, ONNX Runtime with all rewrites", ORT, energy=True),
        _images("images-20-ort", "whole images in ONNX Runtime", ORT, 1),
        _step("step-ort-none", "UNet step, ONNX Runtime as exported", "ort:none", build=45),
        _images("offline-8", "8 images at a time", BEST, 8),
        _step("step-torch-cudnn", "UNet step, attention by cuDNN", f"{BEST}:cudnn"),
        _step("step-fp8", "UNet step, FP8 linears", fp8, energy=True, build=60),
        _images("offline-8-fp8", "8 images at a time, FP8 linears", fp8, 8),
        Point("vae", "VAE decoder, float16, compiled", 3, vae("fp16"), window=True, vae=True),
        Point("encoders", "text encoders", 5, _encoders, window=True),
        *[_step(f"ort-without-{f}", f"ONNX Runtime without {f}", f"ort:all,-{f}") for f in FUSIONS],
        _step("ort-cudnn", "ONNX Runtime with cuDNN attention", "ort:all:cudnn"),
        _step("ort-conv-bias", "ONNX Runtime, bias in cuDNN's convolutions", "ort:all:conv-bias"),
        _step("ort-strict", "ONNX Runtime, LayerNorm sums in float32", "ort:all:strict"),
        Point("layers", "seconds by layer, and the rates that bound them", 20, _layers, "eager, by layer"),
        Point("tiny-torch", "tiny pipeline against the reference", 65, tiny("torch")),
        Point("tiny-ort", "tiny pipeline against the reference, ONNX Runtime", 75, tiny("ort")),
        _step("step-eager", "UNet step, eager torch", "torch:eager"),
        _step("step-graph", "UNet step, eager torch in a CUDA graph", "torch:graph"),
        _step("step-reduce-overhead", "UNet step, torch.compile as a whole", "torch:reduce-overhead", build=130),
        _server(50),
        _server(95),
        *[_images(f"offline-{n}", f"{n} images at a time", BEST, n) for n in (2, 4, 16)],
        Point("vae-bf16", "VAE decoder, bfloat16", 35, vae("bf16", energy=False)),
        Point("vae-fp32", "VAE decoder, float32, as SDXL's config asks", 40, vae("fp32", energy=False)),
        _images("offline-16-fp8", "16 images at a time, FP8 linears", fp8, 16),
        _step("step-max-autotune", "UNet step, torch.compile max-autotune", "torch:max-autotune", build=480),
    )


POINTS = _points()
