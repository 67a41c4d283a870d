"""The predictor beside the simulator, stage by stage on the seeded UNet: each stage is fed what the simulator
stored before it, so that a rounding that falls the other way does not hide what comes after."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dpu.bench.quality.predict_blocks as blocks
import dpu.bench.quality.predict_layers as layers
import numpy as np
import pytest
import torch
from dpu.bench.quality.predict_pipeline import Predictor, check_range, compiled_layers, exact
from dpu.codegen.dpufile import load
from dpu.codegen.driver import compile_folder
from dpu.errors import DpuError
from dpu.frontend.tiny import build_tiny
from dpu.ir.container import Program
from dpu.passes.calibration import Calibration, load_calibration
from dpu.passes.policy import Policy, Precision, Rule, named_policy
from dpu.runtime.calibrate import calibrate_folder
from dpu.runtime.looking import Looking
from dpu.runtime.session import Session
from dpu.runtime.sqnr import psnr, sqnr
from dpu.runtime.targets import open_device
from dpu.runtime.unets import DpuUnet

SIDE, TIMESTEP = 8, 500.0
EQUAL = 0.65
"""Share of the stages that are equal to the last bit, where inputs are int8; with one quantiser left out 0.6 at most
(`test_a_quantiser_left_out`). Sums of 15-bit integers go beyond 2^24, where float32 rounds: there it says nothing."""
BOUND, BOUND_15 = 42.0, 60.0
"""dB, of every stage. Blocks of 8 tokens: one integer that rounds the other way leaves 48 dB, four of them 42. How many
do depends on the order of torch's sums, and so on the processor: 44.0 dB was the least on one, with GPTQ."""
MIXED = Policy(
    name="mixed",
    default=Precision(),
    rules=(Rule(layers="/down_blocks*", weights=4), Rule(layers="*attn2*", activations=16, probabilities=15)),
)


@dataclass
class Ground:
    """The seeded pipeline's folder and its calibration."""

    folder: Path
    path: Path
    calibration: Calibration
    out: Path
    kept: dict[str, tuple[Program, dict[str, torch.Tensor]]] = field(default_factory=dict)


@pytest.fixture(scope="module")
def ground(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Ground:
    out = tmp_path_factory.mktemp("predict")
    path = out / "c.safetensors"
    calibrate_folder(tiny_folder, path, prompts=1, steps=2, size=(8 * SIDE, 8 * SIDE), grams=True)
    return Ground(tiny_folder, path, load_calibration(path), out)


def inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    found = {
        "sample": rng.standard_normal((2, 4, SIDE, SIDE)),
        "encoder_hidden_states": rng.standard_normal((2, 77, 192)) * 0.5,
        "text_embeds": rng.standard_normal((2, 128)) * 0.5,
        "time_ids": np.full((2, 6), 64.0),
    }
    return {k: v.astype(np.float16).astype(np.float32) for k, v in found.items()}


def unet_of(g: Ground, policy: Policy, gptq: bool, program: Program | None) -> Any:
    unet = build_tiny().unet.half().float()
    compiled = compiled_layers(program)["unet"] if program else None
    of = layers.Layers("unet", g.calibration, policy, g.calibration.absmax, gptq, compiled)
    with torch.no_grad():
        blocks.convert(of, unet)
    return unet


def stored(g: Ground, policy: Policy, gptq: bool) -> tuple[Program, dict[str, torch.Tensor]]:
    """The program, and what its UNet stored in float16 by ONNX node, samples x tokens x channels; made once."""
    name = f"{policy.name}{gptq}"
    if name not in g.kept:
        g.kept[name] = _stored(g, policy, gptq)
    return g.kept[name]


def _stored(g: Ground, policy: Policy, gptq: bool) -> tuple[Program, dict[str, torch.Tensor]]:
    out = g.out / f"{policy.name}{gptq}"
    path = out.with_suffix(".dpu")
    size = (8 * SIDE, 8 * SIDE)
    compile_folder(
        g.folder, arch="dpu_tiny", precision=policy, calibration=g.path, size=size, out=path, parts=(), gptq=gptq
    )
    program = load(path)
    device = open_device("sim", program.arch, timed=False)
    Looking(dump_tensors=("*",), dump_to=out).attach(device, program)
    given = inputs()
    sample = given.pop("sample")
    with Session(program, device) as session:
        unet = DpuUnet(session)
        unet.prepare(given)
        unet.step(sample, TIMESTEP)
    records = json.loads((out / "index.json").read_text())["tensors"]
    half = [r for r in records if r["entry"] == "unet" and r["dtype"] == "f16"]
    return program, {r["nodes"][-1]: torch.from_numpy(np.load(out / r["file"]).astype(np.float32)) for r in half}


STAGES: dict[type, Callable[[Any], str]] = {
    blocks.Resnet: lambda m: (m.shortcut or m.conv2).node,
    blocks.Basic: lambda m: m.down.node,
    blocks.Transformer: lambda m: m.proj_out.node,
    blocks.Projections: lambda m: m.out.node,
    blocks.Upsample: lambda m: m.conv.node,
    blocks.Stored: lambda m: m.conv.node,
}


def compared(unet: Any, simulated: dict[str, torch.Tensor]) -> dict[str, float]:
    """SQNR in dB of each stage of the predictor, whose result is then replaced by the simulator's."""
    found: dict[str, float] = {}

    def watch(module: Any, node: str) -> None:
        def hook(_module: Any, _inputs: Any, result: Any) -> Any:
            y = result[0] if isinstance(result, tuple) else result
            wanted = simulated[node]
            wanted = wanted.mT.unflatten(2, y.shape[2:]) if y.dim() == 4 else wanted
            found[node] = sqnr(wanted, y)
            return (wanted,) if isinstance(result, tuple) else wanted

        module.register_forward_hook(hook)

    for module in unet.modules():
        if type(module) in STAGES:
            watch(module, STAGES[type(module)](module))
    given = {k: torch.from_numpy(v) for k, v in inputs().items()}
    added = {k: given[k] for k in ("text_embeds", "time_ids")}
    with exact("cpu"):
        unet(given["sample"], torch.tensor(TIMESTEP), given["encoder_hidden_states"], added_cond_kwargs=added)
    return found


@pytest.mark.parametrize("name", ["w8a8", "w8a8-static", "w4a8+gptq", "w8a16", "mixed"])
def test_every_stage_is_the_simulators(ground: Ground, name: str) -> None:
    base = name.removesuffix("+gptq")
    policy = MIXED if name == "mixed" else named_policy(base)
    program, simulated = stored(ground, policy, base != name)
    found = compared(unet_of(ground, policy, base != name, program), simulated)
    low = min(found, key=lambda n: found[n])
    equal = sum(db == float("inf") for db in found.values())
    assert len(found) == 57
    assert found[low] > (BOUND_15 if name == "w8a16" else BOUND), (low, found[low])
    assert equal > EQUAL * len(found) or name == "w8a16", equal


def _exactly(x: torch.Tensor, bits: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    return x, torch.ones_like(x[..., :1])


MUTATIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    "rows of linears, and queries": ("dynamic", _exactly),
    "inputs of convolutions, keys and values": ("static", lambda x, scale, bits=8: x / scale),
    "int8 weights": ("int8_weight", lambda w: layers.Weight(w, torch.ones(len(w)))),
    "probabilities": ("_STEPS", {8: 2.0**40, 15: 2.0**40}),
    "float16 of queries and values": ("half", lambda x: x),
}


def test_a_quantiser_left_out(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = named_policy("w8a8")
    program, simulated = stored(ground, policy, False)
    for what, (name, instead) in MUTATIONS.items():
        with monkeypatch.context() as m:
            m.setattr(layers, name, instead)
            found = compared(unet_of(ground, policy, False, program), simulated)
        equal = sum(db == float("inf") for db in found.values())
        assert equal < EQUAL * len(found), (what, equal)


def test_a_program_of_another_policy_is_refused(ground: Ground) -> None:
    compiled = {"/conv_in/Conv": layers.Compiled(frozenset({8}), 8, "static")}
    policy = named_policy("w8a16")
    of = layers.Layers("unet", ground.calibration, policy, ground.calibration.absmax, compiled=compiled)
    with pytest.raises(DpuError) as e:
        of.conv("/conv_in", build_tiny().unet.conv_in)
    assert e.value.code == "E522"
    assert "layer '/conv_in/Conv' of unet: compiled as Compiled(weights=frozenset({8}), bits=8" in e.value.text()


def test_unknown_layers_and_large_tensors_are_refused(ground: Ground) -> None:
    with pytest.raises(DpuError) as e:
        layers.Layers("unet", ground.calibration, named_policy("w8a8"), ground.calibration.absmax).conv("/c", None)  # type: ignore[arg-type]
    assert e.value.text().splitlines() == [
        f"error[E240]: {ground.path}: no statistics of '/c'",
        "  why: the predictor finds layers by the names that torch's exporter gives ONNX nodes",
        "  try: calibrate an export of dpuc export or dpubench quality",
    ]
    large = Calibration({}, {"vae_decoder/a:y:absmax": np.array(2.0**14 + 1, np.float32)}, "c")
    with pytest.raises(DpuError) as e:
        check_range(large)
    assert e.value.text().splitlines() == [
        "error[E220]: c: 'vae_decoder/a:y:absmax' is 16385, the predictor knows no more than 16384",
        "  why: the DPU stores such tensors with an exponent",
        "  try: compare another model",
    ]


def test_whole_pictures(ground: Ground) -> None:
    made = Predictor(build_tiny(), named_policy("w8a8"), ground.calibration)
    alone, again = (made.pictures("a red fox", 1, [3], 5.0)[0] for _ in range(2))
    assert alone.shape == (128, 128, 3) and alone.std() > 0
    assert np.array_equal(alone, again)
    together = made.pictures("a red fox", 1, [3, 4], 5.0)
    assert psnr(alone, together[0]) > psnr(alone, together[1]) + 10
