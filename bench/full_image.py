"""One whole image on the simulated device beside float32: export, calibrate, compile, denoise, compare, write down.

Every stage that is finished is kept in a work folder, and the image after each step, so that the command can be killed
and given again. What it writes is one JSON file and one small PNG: the device's image, and beside it the same image of
the whole pipeline in float32.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DpuError
from ..files import atomic_write, sha256
from .rates import Result

if TYPE_CHECKING:
    from ..runtime.generate import Summary

ROOT = Path(__file__).parent.parent
SOURCES = ("*.py", "*.cu", "*.cpp", "*.hpp")
PAIR_BYTES = 200_000  # of the PNG that goes into results/
_SIDES = (256, 224, 192, 160, 128)
_STAGES = "stages.json"
UNITS = {
    "wall_seconds": "s, all processes of the stage together",
    "cpu_seconds": "s, all threads and processes of the stage together",
    "peak_rss_bytes": "bytes, of the largest process",
    "peak_gpu_bytes": "bytes that torch had allocated at once: simulated memories and the float32 UNet",
    "forward_db": "dB, 10 log10(sum r^2 / sum (r - f)^2) of the UNet's output on the reference's samples of that step",
    "free_db": "dB, the same of the UNet's output on the device's own samples",
    "seconds": "s of one guided forward",
    "latents_db": "dB, SQNR of the final latents",
    "psnr_db": "dB, 10 log10(255^2 / mean (r - f)^2) of the 8-bit images",
}
PROVENANCE = {
    "quality": "simulated: by the bit-exact simulator of the tile, beside float32 on the same weights",
    "seconds and bytes": "measured: on the machine below, of the simulation and of the reference, not of a DPU",
}


class Stage(Result):
    """What one command took; nothing where what it makes was there before."""

    name: str
    command: str
    kept: bool = False
    wall_seconds: float | None = None
    cpu_seconds: float | None = None
    peak_rss_bytes: int | None = None
    peak_gpu_bytes: int | None = None
    processes: int = 1  # more than one: it was stopped and went on


class StepFigures(Result):
    """One denoising step."""

    index: int
    timestep: float
    forward_db: float
    free_db: float
    seconds: dict[str, float]  # of one forward: device on the reference's samples and on its own, reference


class Quality(Result):
    """Distance from float32. `unet`: text encoders and VAE decoder are the device's in both images; `whole`: in one."""

    unet_latents_db: float
    unet_psnr_db: float
    whole_latents_db: float
    whole_psnr_db: float


class FullImage(Result):
    """One image and its float32 reference."""

    command: str
    commit: str
    sources_sha256: str  # of the package's sources, whatever the commit says
    provenance: dict[str, str] = PROVENANCE
    units: dict[str, str] = UNITS
    machine: dict[str, Any]
    model: dict[str, Any]
    program: dict[str, Any]
    request: dict[str, Any]
    reference: str
    launcher: str
    stages: list[Stage]
    steps: list[StepFigures]
    quality: Quality
    numerics: dict[str, int]
    image_sha256: str
    reference_sha256: str

    def text(self) -> str:
        """The record for people."""
        r, q = self.request, self.quality
        lines = [f"{r['width']}x{r['height']}, {r['steps']} steps, {self.program['arch']}, {self.machine['device']}"]
        for s in self.stages:
            peak = f", {s.peak_rss_bytes / 2**30:.1f} GiB" if s.peak_rss_bytes else ""
            lines.append(
                f"{s.name:<10} " + ("was there" if s.wall_seconds is None else f"{s.wall_seconds:.1f} s{peak}")
            )
        lines.append("step  timestep  one forward  free-running  (SQNR in dB, against float32)")
        lines += [f"{s.index:4}  {s.timestep:8.0f}  {s.forward_db:11.1f}  {s.free_db:12.1f}" for s in self.steps]
        for what, latents, image in (
            ("same text encoders and VAE decoder", q.unet_latents_db, q.unet_psnr_db),
            ("whole pipeline in float32", q.whole_latents_db, q.whole_psnr_db),
        ):
            lines.append(f"against the {what}: latents {latents:.1f} dB, PSNR {image:.1f} dB")
        return "\n".join(lines)


class Runner:
    """Runs stages as processes of their own, and remembers in `folder` which are finished and what they took."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.say = folder, say
        file = folder / _STAGES
        self.stages: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.exists() else {}

    def record(self, stage: Stage) -> None:
        """Write down a stage."""
        self.stages[stage.name] = stage.model_dump()
        with atomic_write(self.folder / _STAGES) as temporary:
            temporary.write_text(json.dumps(self.stages, indent=2) + "\n")

    def dpuc(self, name: str, arguments: Sequence[str | Path], makes: Path) -> None:
        """`dpuc ARGUMENTS`, unless this stage is finished with the same arguments, or somebody else made `makes`.

        Raises:
            DpuError: E501, it failed; its output is in the stage's log.
        """
        words = [str(a) for a in arguments]
        command = f"dpuc {' '.join(words)}"
        before = self.stages.get(name)
        if makes.exists() and before is not None and before["command"] == command:
            self.say(f"{name}: finished before")
            return
        if makes.exists() and before is None:
            self.say(f"{name}: {makes} is there")
            self.record(Stage(name=name, command=command, kept=True))
            return
        self.say(f"{name}: {command}")
        log, start = self.folder / f"{name}.log", time.perf_counter()
        call = "from dpu.runtime.cli.dpuc import main; main()"
        with log.open("ab") as out:
            process = subprocess.Popen([sys.executable, "-c", call, *words], stdout=out, stderr=subprocess.STDOUT)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - start
        if process.returncode:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
            raise DpuError(name, f"exit code {process.returncode}", why=tail, hint=f"see {log}", code="E501")
        self.record(
            Stage(
                name=name,
                command=command,
                wall_seconds=wall,
                cpu_seconds=used.ru_utime + used.ru_stime,
                peak_rss_bytes=used.ru_maxrss * 1024,
            )
        )
        self.say(f"{name}: {wall:.1f} s")


class _Image:
    """The stage that makes the image: it is written down after each step, so that a kill loses no account."""

    def __init__(self, runner: Runner, command: str, device: str) -> None:
        self._runner, self._device = runner, device
        before = runner.stages.get("image")
        self._before = Stage(**before) if before else Stage(name="image", command=command, processes=0)
        self._start, self._cpu = time.perf_counter(), time.process_time()
        self._steps = 0

    def on_step(self, _: object) -> None:
        """Called after each step of each pass."""
        self._steps += 1
        self._runner.say(f"image: step {self._steps} after {time.perf_counter() - self._start:.1f} s")
        self.record()

    def record(self) -> None:
        """Write the stage down as it is now."""
        b = self._before
        gpu = None
        if self._device == "cuda":
            import torch

            gpu = max(b.peak_gpu_bytes or 0, torch.cuda.max_memory_allocated())
        self._runner.record(
            Stage(
                name="image",
                command=b.command,
                wall_seconds=(b.wall_seconds or 0.0) + time.perf_counter() - self._start,
                cpu_seconds=(b.cpu_seconds or 0.0) + time.process_time() - self._cpu,
                peak_rss_bytes=max(b.peak_rss_bytes or 0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024),
                peak_gpu_bytes=gpu,
                processes=b.processes + 1,
            )
        )


def measure(
    model: Path,
    arch: str,
    device: str,
    calibration: Path,
    program: Path,
    work: Path,
    output: Path | None,
    prompt: str,
    seed: int,
    steps: int,
    source: str = "sdxl",
    weights: str = "seeded",
    size: str = "",
    prompts: int = 2,
    calibration_steps: int = 5,
    commit: str = "",
    command: str = "",
    say: Callable[[str], None] = print,
) -> FullImage:
    """Make the image, and what it needs if that is missing.

    Args:
        model: the exported folder.
        arch: what to compile for.
        device: where reference and simulator compute, `cpu` or `cuda`.
        calibration: the statistics.
        program: the `.dpu`.
        work: folder of finished stages, finished steps, logs and the images in full size.
        output: the JSON file; the pair of images is written beside it.
        prompt: what the image shows.
        seed: of the starting noise.
        steps: denoising steps.
        source: what to export: `sdxl` or `tiny-seeded`.
        weights: of the export, `seeded` or `realistic`.
        size: WIDTHxHEIGHT; empty: the model's.
        prompts: calibration prompts.
        calibration_steps: steps of each, chosen evenly from a schedule of `steps`.
        commit: of the sources, where git does not know.
        command: what the record says of itself.
        say: hears of every stage and step.

    Raises:
        DpuError: a stage fails.
    """
    from ..codegen.dpufile import load
    from ..runtime.cli.common import parse_size
    from ..runtime.generate import make_image
    from ..runtime.gpu.identity import commit as checkout
    from ..runtime.pipeline import Request

    runner = Runner(work, say)
    at_size = ["--size", size] if size else []
    runner.dpuc("export", ["export", source, "--weights", weights, "-o", model], model / "dpu_pipeline.json")
    few = f"--prompts {prompts} --steps {calibration_steps} --of-steps {max(steps, calibration_steps)}".split()
    runner.dpuc("calibrate", ["calibrate", model, *few, *at_size, "--device", device, "-o", calibration], calibration)
    runner.dpuc(
        "compile", ["compile", model, "--arch", arch, *at_size, "--calibration", calibration, "-o", program], program
    )
    height, width = parse_size(size)
    request = Request(prompt, seed=seed, steps=steps, height=height, width=width)
    out, reference = work / "image.png", work / "reference.png"
    said = f'dpurun {program} --device {device} --prompt "{prompt}" --seed {seed} --steps {steps} --compare {model}'
    stage = _Image(runner, f"{said} --no-timing --resume {work / 'steps'}", device)
    summary = make_image(
        program,
        "sim",
        request,
        out,
        compare_with=model,
        on_step=stage.on_step,
        device=device,
        resume=work / "steps",
        timed=False,
        reference_out=reference,
    )
    stage.record()
    loaded = load(program, verify=False)
    found = _record(summary, runner, model, program, loaded.arch.name, request.__dict__, out, reference, device)
    made = found.model_copy(update={"command": command or said, "commit": commit or checkout() or "unknown"})
    if output is not None:
        made.save(output)
        _pair(out, reference, output.with_suffix(".png"))
    return made


def _record(
    summary: Summary,
    runner: Runner,
    model: Path,
    program: Path,
    arch: str,
    request: Mapping[str, Any],
    out: Path,
    reference: Path,
    device: str,
) -> FullImage:
    from PIL import Image

    c = summary.comparison
    assert c is not None
    with Image.open(out) as png:
        width, height = png.size
    seconds = {(call.scope, call.model, call.number): call.seconds for call in summary.calls}
    names = {
        "device_forced": ("forced", "unet"),
        "device_free": ("found", "unet"),
        "reference": ("forced", "reference"),
    }
    steps = [
        StepFigures(
            index=i,
            timestep=t,
            forward_db=round(c.teacher_forced[i], 3),
            free_db=round(c.free_running[i], 3),
            seconds={k: round(seconds[(*v, i)], 3) for k, v in names.items() if (*v, i) in seconds},
        )
        for i, t in enumerate(c.timesteps)
    ]
    q = Quality(
        unet_latents_db=round(c.latents, 3),
        unet_psnr_db=round(c.image_psnr, 3),
        whole_latents_db=round(c.whole_latents, 3),
        whole_psnr_db=round(c.whole_psnr, 3),
    )
    how = "ONNX Runtime on the CPU" if device == "cpu" else "the canonical graph in torch on the GPU, TF32 off"
    work = summary.counters
    return FullImage(
        command="",
        commit="",
        sources_sha256=sources_digest(),
        machine=machine(device),
        model=_model(model),
        program={"name": program.name, "sha256": sha256(program), "bytes": program.stat().st_size, "arch": arch},
        request={**request, "width": width, "height": height},
        reference=f"UNet: {how}, float32; text encoders and VAE decoder of the whole image: ONNX Runtime, float32",
        launcher=_launcher(device),
        stages=[Stage(**s) for s in runner.stages.values()],
        steps=steps,
        quality=q,
        numerics={
            "runs": work.runs,
            "words": work.words,
            "macs": work.macs,
            "fp16_overflow": work.fp16_overflow,
            "nan": work.nan,
            "input_overflows": summary.input_overflows,
        },
        image_sha256=sha256(out),
        reference_sha256=sha256(reference),
    )


def _launcher(device: str) -> str:
    if device == "cpu":
        return "none: the CPU's own functional simulator"
    from ..simulator.cuda.launches import Launcher
    from ..simulator.cuda.library import kernels

    return "C++" if Launcher(kernels(device)).native else "Python"


def _model(folder: Path) -> dict[str, Any]:
    """What the export says of itself; its digests name every file."""
    manifest = json.loads((folder / "dpu_pipeline.json").read_text())
    parts = manifest.get("parts", {})
    files = {k: v for p in parts.values() for k, v in p.get("files", {}).items()}
    kept = {k: manifest[k] for k in ("source", "seed", "opset", "precision", "weights", "exporter") if k in manifest}
    return {**kept, "manifest_sha256": sha256(folder / "dpu_pipeline.json"), "files": files}


def machine(device: str) -> dict[str, Any]:
    """The computer, its GPU, and the versions that decide what comes out."""
    info = Path("/proc/cpuinfo")
    names = [n for n in info.read_text().splitlines() if n.startswith("model name")] if info.is_file() else []
    found: dict[str, Any] = {
        "processor": names[0].split(":", 1)[1].strip() if names else platform.machine(),
        "processors": os.cpu_count() or 1,
        "load": round(os.getloadavg()[0], 1),
        "device": "cpu",
        "versions": {"python": platform.python_version()} | {n: _version(n) for n in _PACKAGES},
    }
    if device == "cuda":
        import torch

        p = torch.cuda.get_device_properties(0)
        found |= {
            "device": p.name,
            "gpu_bytes": p.total_memory,
            "cuda": torch.version.cuda,
            "driver": _driver(),
        }
    return found


_PACKAGES = ("torch", "numpy", "onnxruntime", "onnx-ir", "transformers", "diffusers", "xdsl")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _driver() -> str:
    """Version of the NVIDIA driver, as its own tool says it."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def sources_digest() -> str:
    """SHA-256 over the sources of the package, names and contents."""
    digest = hashlib.sha256()
    outside = {".venv", "build", "dist", "out", "tests"}
    files = (f for pattern in SOURCES for f in ROOT.rglob(pattern))
    for file in sorted(f for f in files if not outside & set(f.relative_to(ROOT).parts)):
        digest.update(f"{file.relative_to(ROOT).as_posix()} {sha256(file)}\n".encode())
    return digest.hexdigest()


def _pair(image: Path, reference: Path, out: Path) -> None:
    """Both images side by side, the device's left, as large as `PAIR_BYTES` allow."""
    from PIL import Image

    with Image.open(image) as a, Image.open(reference) as b:
        for side in _SIDES:
            pair = Image.new("RGB", (2 * side, side))
            for at, picture in enumerate((a, b)):
                pair.paste(picture.convert("RGB").resize((side, side), Image.Resampling.LANCZOS), (at * side, 0))
            with atomic_write(out) as temporary:
                pair.save(temporary, format="PNG", optimize=True)
            if out.stat().st_size <= PAIR_BYTES:
                return
