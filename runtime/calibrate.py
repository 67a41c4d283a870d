"""Calibration: the pipeline on fixed prompts with the UNet's canonical graph in float32, statistics of what it sees.

After each step the statistics are saved beside the output file with all that the next step needs, so that an
interrupted run continues there (with Euler; with a scheduler that remembers earlier steps, at the last whole prompt).

A long schedule can be recorded at a few of its timesteps (`FewSteps`): their noise levels are exactly those of the long
one, from its first to its last, and the sampler jumps from each to the next.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import DpuError
from ..files import atomic_write
from ..frontend.part_shapes import part_shapes
from ..passes.calibration import FORMAT, GRAM, METADATA, load_calibration
from .float_interpreter import kept_bytes
from .parts import PARTS, canonical_part, float_part
from .pipeline import Conditioning, HalfWay, Pipeline, Request, Step
from .statistics import Statistics
from .unets import FloatUnet
from .workload import prompts_sha256

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..frontend.weights import WeightStore
    from .float_interpreter import Weights
    from .pipeline_files import PipelineFiles

F32 = npt.NDArray[np.float32]
RECORDS = "2"
"""Which statistics a partial file holds: those of another version cannot be continued."""


class FewSteps(Pipeline):
    """A pipeline whose steps are evenly chosen timesteps of a schedule of `of`, the first and the last among them.

    Fewer steps of a schedule of their own would not do: with SDXL's "leading" spacing 20 steps begin at timestep 951,
    5 steps at 801, and the noisiest inputs, where activations are largest, would never be seen. Here sigmas, timestep
    embedding and input scale are those of the long schedule; only the latents differ from it, by the error of Euler's
    method over steps that are longer. The exact latents would cost the forwards of all steps.

    Raises:
        DpuError: files are missing.
    """

    def __init__(self, files: PipelineFiles, of: int) -> None:
        super().__init__(files)
        self._of = of

    def scheduler(self, steps: int) -> Any:
        """A fresh scheduler, set to `steps` timesteps of the long schedule.

        Raises:
            DpuError: the long one has fewer, or this kind of scheduler takes no timesteps.
        """
        found = super().scheduler(self._of)
        every = [float(t) for t in found.timesteps]
        if steps > len(every):
            raise DpuError("--of-steps", f"{steps} steps cannot be chosen from {len(every)}", code="E501")
        try:
            found.set_timesteps(timesteps=[every[i] for i in evenly(len(every), steps)])
        except (TypeError, ValueError) as e:
            raise DpuError(
                "--of-steps",
                f"{type(found).__name__} takes no chosen timesteps",
                why=str(e),
                hint="leave it out: --steps alone makes a schedule of its own",
                code="E501",
            ) from e
        return found


def evenly(total: int, count: int) -> list[int]:
    """`count` of the numbers below `total`, evenly spaced, from the first to the last."""
    return [round(i * (total - 1) / max(count - 1, 1)) for i in range(count)]


def calibrate(
    pipeline: Pipeline,
    module: ModuleOp,
    weights: Weights,
    out: Path,
    prompts: Sequence[str],
    steps: int = 20,
    guidance: float = 5.0,
    size: tuple[int, int] = (0, 0),
    model_digest: str = "",
    progress: Callable[[int, int], None] | None = None,
    parts: Mapping[str, tuple[ModuleOp, WeightStore]] | None = None,
    weights_digest: str = "",
    of_steps: int = 0,
    device: str = "cpu",
    grams: bool = False,
) -> None:
    """Write the statistics of `prompts` to `out`; `progress` gets (steps done, steps in all).

    `parts` are text encoders and VAE decoder as canonical graphs: they run in float32 and are recorded too. `of_steps`
    is what the file says of a `pipeline` with `FewSteps`. The graphs run on `device`, "cpu" or "cuda"; only runs on the
    CPU give the same bytes again on another computer. `grams`: the UNet's gram matrices too, see `Statistics`.

    Raises:
        DpuError: no prompts, or `out` cannot be written.
    """
    if not prompts:
        raise DpuError("calibrate", "no prompts", code="E501")
    first_request = Request("", steps=steps, guidance=guidance, height=size[0], width=size[1])  # refused before a file
    height, width = pipeline.size(first_request)
    info = {
        "format": FORMAT,
        "model": model_digest,
        **({"weights": weights_digest} if weights_digest else {}),
        "prompts": str(len(prompts)),
        "prompts_sha256": prompts_sha256(prompts),
        "steps": str(steps),
        "guidance": repr(guidance),
        "size": f"{height}x{width}",
        **({"of_steps": str(of_steps)} if of_steps else {}),
        **({"device": device} if device != "cpu" else {}),
        **({"grams": "unet"} if grams else {}),
    }
    partial = out.with_name(f".{out.name}.partial")
    so_far = {**info, "records": RECORDS}
    tensors, first = _resume(partial, so_far)
    half_way = _half_way(tensors, first % steps)
    statistics = Statistics(module, tensors, grams=grams)
    _save(partial, statistics.tensors, {**so_far, "done": str(first)})  # an unwritable folder shows before the work
    unet = FloatUnet(module, weights, device)
    unet.observe, unet.observe_inputs = statistics.results, statistics.operands
    for name, (graph, store) in (parts or {}).items():
        own = Statistics(graph, statistics.tensors, name)
        pipeline.parts[name] = float_part(name, graph, store, own.results, own.operands, device)
    total = len(prompts) * steps

    resumable = pipeline.resumable
    for i, prompt in enumerate(prompts):
        if i < first // steps:
            continue

        def on_step(step: Step, before: int = i * steps) -> None:
            done = before + step.index + 1
            if resumable and step.index + 1 < steps:
                _save(partial, {**statistics.tensors, **_state(step)}, {**so_far, "done": str(done)})
            if progress:
                progress(done, total)

        request = Request(prompt, seed=i, steps=steps, guidance=guidance, height=height, width=width)
        unet.observe_fixed = half_way is None  # else its sums are those of before the interruption
        with one_thread():
            pipeline.generate(request, unet, on_step, decode=bool(parts), half_way=half_way)
        half_way = None
        _save(partial, statistics.tensors, {**so_far, "done": str((i + 1) * steps)})
    bad = [k for k, v in statistics.tensors.items() if not np.isfinite(v).all()]
    if bad:
        raise DpuError("calibrate", f"{len(bad)} statistics are not finite, first '{bad[0]}'", code="E242")
    _save(out, statistics.tensors, info)
    partial.unlink(missing_ok=True)


_STATE = "state::"
"""Prefix of the tensors of a partial file that are no statistics."""


def _state(step: Step) -> dict[str, F32]:
    """What the step after this one needs."""
    assert step.conditioning is not None
    return {f"{_STATE}{k}": v for k, v in {"latents": step.latents, **step.conditioning.inputs()}.items()}


def _half_way(tensors: dict[str, F32], steps: int) -> HalfWay | None:
    """Take the state of an image after `steps` steps out of `tensors`."""
    state = {k.removeprefix(_STATE): tensors.pop(k) for k in list(tensors) if k.startswith(_STATE)}
    return HalfWay(steps, state.pop("latents"), Conditioning(**state)) if state else None


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums of one thread: the statistics, and so the program, must not depend on how many cores there are."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _resume(partial: Path, info: Mapping[str, str]) -> tuple[dict[str, F32], int]:
    if not partial.exists():
        return {}, 0
    try:
        found = load_calibration(partial)
    except DpuError:
        return {}, 0  # not ours or cut short: start again
    rest = {k: v for k, v in found.info.items() if k != "done"}
    if rest != dict(info):
        return {}, 0
    grams = {f"{key}:{GRAM}": read() for key, read in found.grams.items()}
    return {**found.tensors, **grams}, int(found.info["done"])


def _save(path: Path, tensors: Mapping[str, Any], info: Mapping[str, str]) -> None:
    from safetensors.numpy import save_file

    with atomic_write(path) as temporary:
        # One entry: the library writes several in an order of its own, and equal runs should give equal files.
        save_file(dict(sorted(tensors.items())), temporary, {METADATA: json.dumps(info, sort_keys=True)})


def calibrate_folder(
    folder: Path,
    out: Path,
    prompts: int | Sequence[str] = 8,
    steps: int = 20,
    guidance: float = 5.0,
    size: tuple[int, int] = (0, 0),
    progress: Callable[[int, int], None] | None = None,
    of_steps: int = 0,
    device: str = "cpu",
    grams: bool = False,
) -> None:
    """Calibrate an exported pipeline with `prompts`, or with the first so many calibration prompts.

    With `of_steps` the `steps` are chosen evenly from a schedule of so many (`FewSteps`). `device` is where the graphs
    run: "cpu" or "cuda". `grams`: the UNet's gram matrices too, see `Statistics`.

    Raises:
        DpuError: the folder is no exported pipeline, the graph cannot be imported, or there is no such device.
    """
    from ..files import sha256
    from ..frontend.onnx_load import weights_digest
    from .pipeline_files import FolderFiles
    from .workload import calibration_prompts

    if isinstance(prompts, int):
        prompts = first_of(calibration_prompts(), prompts)
    kept_bytes(device)  # refused before the work
    if of_steps and of_steps < steps:
        raise DpuError("--of-steps", f"{steps} steps cannot be chosen from {of_steps}", code="E501")
    pipeline = FewSteps(FolderFiles(folder), of_steps) if of_steps else Pipeline(FolderFiles(folder))
    height, width = pipeline.size(Request("", height=size[0], width=size[1]))
    latent = (height // pipeline.scale, width // pipeline.scale)
    module, weights = canonical_unet(folder, 2 if guidance > 1 else 1, latent)
    onnx = folder / "unet" / "model.onnx"
    graphs = {name: canonical_part(folder, name, part_shapes(folder / name / "model.onnx", latent)) for name in PARTS}
    calibrate(
        pipeline,
        module,
        weights,
        out,
        prompts,
        steps,
        guidance,
        (height, width),
        sha256(onnx),
        progress,
        graphs,
        weights_digest(onnx),
        of_steps,
        device,
        grams,
    )


def first_of(prompts: Sequence[str], count: int | None) -> Sequence[str]:
    """The first `count` prompts, or all.

    Raises:
        DpuError: there are not so many.
    """
    if count is not None and not 1 <= count <= len(prompts):
        raise DpuError("--prompts", f"{count} is not between 1 and {len(prompts)}", code="E501")
    return prompts[:count]


def read_captions(path: Path) -> list[str]:
    """The captions of a text file, one a line; empty lines are left out.

    Raises:
        DpuError: the file is unreadable or holds none.
    """
    hint = "one caption a line, as the model was trained on"
    try:
        found = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "no UTF-8"
        raise DpuError(f"--captions {path}", f"not a readable text file ({reason})", hint=hint, code="E501") from e
    if not found:
        raise DpuError(f"--captions {path}", "holds no caption", hint=hint, code="E501")
    return found


def canonical_unet(folder: Path, batch: int, latent: tuple[int, int]) -> tuple[ModuleOp, Weights]:
    """The UNet of an exported folder as canonical functions, at one size."""
    from ..frontend.importer import import_onnx
    from ..passes.pipeline import FLOAT_PIPELINE, run_passes

    shapes = {"sample": (batch, 4, *latent)}
    module, weights = import_onnx(folder / "unet" / "model.onnx", shapes=shapes, part="unet")
    run_passes(module, FLOAT_PIPELINE)
    return module, weights
