"""The noise of one forward of the UNet when one layer alone has each of its choices: cheap, and kept.

Two choices of one layer make noise of the same kind in the same place, so their ratio in one forward is taken for that
of their pictures.

    WORK/trials/<digest>-forward.json
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict
from xdsl.dialects.func import FuncOp

from ...files import atomic_write
from ...passes.policy import Precision
from ...runtime.fake_quantise import FakeQuantiser
from ...runtime.float_interpreter import FloatInterpreter
from ...runtime.sensitivity import Forward
from ..resumed import read_record
from .search import OPTIONS
from .sensitivity_model import Key
from .sensitivity_trials import Place, Progress, pipeline_of
from .workers import each

INPUTS = 3
"""Steps of one picture, from the first to the last."""
Noise = dict[tuple[Key, Precision], float]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: Literal["dpu.quality-forward/1"] = "dpu.quality-forward/1"
    inputs: dict[int, dict[str, float]] = {}  # by number of the input, then by layer and choice


def forward_noise(place: Place, work: Path, jobs: int, progress: Progress = lambda done, total: None) -> Noise:
    """Noise over signal, in power, of the UNet's output: the mean over `INPUTS` steps of the first prompt's picture.

    Raises:
        DpuError: E502, the file of an earlier run is damaged; or what a worker met.
    """
    path = work / "trials" / f"{place.digest}-forward.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = read_record(path, _File, "noises are kept there") if path.is_file() else _File()
    todo = [(place.model_dump_json(), n) for n in range(INPUTS) if n not in kept.inputs]
    for done, (n, found) in enumerate(each(_measure, todo, jobs, ordered=False)):
        kept.inputs[n] = found
        with atomic_write(path) as temporary:
            temporary.write_text(kept.model_dump_json(indent=0) + "\n")
        progress(done + 1, len(todo))
    layers = [x for x in pipeline_of(place).layers if x.part == "unet"]
    return {
        (x.key, p): sum(kept.inputs[n][_label(x.name, p)] for n in range(INPUTS)) / INPUTS
        for x in layers
        for p in OPTIONS[x.kind]
    }


def _label(name: str, precision: Precision) -> str:
    return f"{name} {precision.model_dump_json()}"


def _measure(task: tuple[str, int]) -> tuple[int, dict[str, float]]:
    place = Place.model_validate_json(task[0])
    pipeline = pipeline_of(place)
    module, weights = pipeline.unet
    where = (place.prompts[0], place.steps, place.seed, place.guidance)
    given = pipeline.inputs(*where, INPUTS)[task[1]]
    functions = [f for f in module.ops if isinstance(f, FuncOp)]
    forward = Forward(functions, FloatInterpreter(module, weights), given)
    quantiser = FakeQuantiser(module, pipeline.statistics)
    found = {}
    for layer in (x for x in pipeline.layers if x.part == "unet"):
        op = pipeline.op(layer.key)
        for precision in OPTIONS[layer.kind]:
            quantiser.precisions = {op: precision}
            found[_label(layer.name, precision)] = forward.noise(op, quantiser)
    return task[1], found
