"""Both engines and the loop on the CPU, where they compute the same; what a machine without a GPU is told."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from dpu.errors import DpuError
from dpu.frontend.tiny import SCHEDULER, build_tiny, tiny_configs
from dpu.runtime.gpu.ort_engine import OrtOptions, OrtUnet
from dpu.runtime.gpu.power import Board
from dpu.runtime.gpu.requirements import Found, require
from dpu.runtime.gpu.sampler import denoise, schedule
from dpu.runtime.gpu.torch_engine import TorchText, TorchUnet, TorchVae, compile_blocks, graph_breaks
from dpu.runtime.gpu.weights import seeded

LATENT = (8, 8)
CPU_FUSIONS = ("attention", "skip_layer_norm")  # those whose operators ONNX Runtime has a CPU kernel for


@pytest.fixture(scope="module")
def config() -> dict:
    return tiny_configs()["unet"]


@pytest.fixture(scope="module")
def state(config: dict) -> dict[str, torch.Tensor]:
    return seeded("unet", config, torch.float32)


@pytest.fixture(scope="module")
def engine(config: dict, state: dict[str, torch.Tensor]) -> TorchUnet:
    return TorchUnet(config, state, 2, LATENT, mode="eager", device="cpu", dtype=torch.float32)


def conditioning(batch: int = 2) -> dict[str, torch.Tensor]:
    rng = torch.Generator().manual_seed(1)
    return {
        "encoder_hidden_states": torch.randn(batch, 77, 192, generator=rng),
        "text_embeds": torch.randn(batch, 128, generator=rng),
        "time_ids": torch.tensor([[64.0, 64, 0, 0, 64, 64]] * batch),
    }


def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


def test_seeded_weights_are_the_exported_ones(state: dict[str, torch.Tensor]) -> None:
    weights = build_tiny().unet.state_dict()
    assert weights.keys() == state.keys()
    assert all(torch.equal(weights[n], state[n]) for n in weights)


def test_onnx_runtime_and_torch_agree(
    config: dict, state: dict[str, torch.Tensor], engine: TorchUnet, exported: bytes
) -> None:
    graph = ir.from_proto(onnx.load_model_from_string(exported))
    ort = OrtUnet(config, state, 2, LATENT, OrtOptions(CPU_FUSIONS), device="cpu", precision="fp32", graph=graph)
    sample = torch.randn(2, 4, *LATENT, generator=torch.Generator().manual_seed(2))
    for unet in (ort, engine):
        unet.prepare(conditioning())
        unet.buffers["sample"].copy_(sample)
        unet.buffers["timestep"].fill_(501.0)
        unet.forward()
    assert relative(ort.out, engine.out) < 1e-5
    first = ort.out.clone()
    ort.buffers["timestep"].fill_(1.0)  # bound tensors are read again in every run
    ort.forward()
    assert relative(ort.out, first) > 1e-3
    assert set(ort.placement()) == {"CPUExecutionProvider"}


def test_the_loop_is_that_of_diffusers(engine: TorchUnet) -> None:
    pipeline = build_tiny()
    noise = torch.randn(1, 4, *LATENT, generator=torch.Generator().manual_seed(3))
    given = conditioning()
    plan = schedule({**SCHEDULER, "_class_name": "EulerDiscreteScheduler"}, 5)
    found = denoise(engine, given, noise, plan, 5.0)
    expected = pipeline(
        prompt_embeds=given["encoder_hidden_states"][1:],
        negative_prompt_embeds=given["encoder_hidden_states"][:1],
        pooled_prompt_embeds=given["text_embeds"][1:],
        negative_pooled_prompt_embeds=given["text_embeds"][:1],
        latents=noise,
        num_inference_steps=5,
        guidance_scale=5.0,
        height=64,
        width=64,
        output_type="latent",
    ).images
    assert relative(found, expected) < 1e-4


def test_an_unknown_scheduler_is_refused() -> None:
    with pytest.raises(DpuError) as refused:
        schedule({"_class_name": "DDIMScheduler"}, 5)
    assert refused.value.text() == (
        "error[E501]: scheduler: DDIMScheduler has no loop on the GPU\n  try: dpurun runs it on the host"
    )


def test_compiled_blocks_compute_the_same(config: dict, state: dict[str, torch.Tensor], engine: TorchUnet) -> None:
    again = TorchUnet(config, state, 2, LATENT, mode="eager", device="cpu", dtype=torch.float32)
    assert compile_blocks(again.module, backend="eager") == 22
    breaks = graph_breaks()
    for unet in (engine, again):
        unet.prepare(conditioning())
        unet.buffers["sample"].fill_(0.5)
        unet.buffers["timestep"].fill_(501.0)
        unet.forward()
    assert relative(again.out, engine.out) < 1e-6
    assert graph_breaks() == breaks


def test_vae_and_text_encoders() -> None:
    pipeline, configs = build_tiny(), tiny_configs()
    vae = TorchVae(configs["vae"], seeded("vae", configs["vae"], torch.float32), LATENT, "eager", "cpu", torch.float32)
    latents = torch.randn(1, 4, *LATENT, generator=torch.Generator().manual_seed(4))
    expected = pipeline.vae.decode(latents / configs["vae"]["scaling_factor"]).sample
    assert relative(vae.decode(latents), expected) < 1e-5
    names = ("text_encoder", "text_encoder_2")
    states = {n: seeded(n, configs[n], torch.float32) for n in names}
    text = TorchText(configs, states, "cpu", torch.float32)
    tokens = pipeline.tokenizer("a red fox", padding="max_length", max_length=77, return_tensors="pt").input_ids
    hidden, pooled = text.encode(tokens, tokens)
    wanted, _, wanted_pooled, _ = pipeline.encode_prompt("a red fox", do_classifier_free_guidance=False)
    assert relative(hidden, wanted) < 1e-5
    assert relative(pooled, wanted_pooled) < 1e-5


NOTHING = Found(False, "2.13.0+cpu", 0, "1.32.0", False, False)


def test_a_machine_without_a_gpu_is_told_what_is_missing() -> None:
    with pytest.raises(DpuError) as refused:
        require("--target gpu", "ort", NOTHING)
    assert refused.value.text() == (
        "error[E431]: --target gpu: not here: an NVIDIA driver, a CUDA device in torch 2.13.0+cpu, "
        "the CUDA provider in onnxruntime 1.32.0\n"
        "  why: the GPU path runs on an NVIDIA GPU only\n"
        "  try: a machine with an NVIDIA GPU and its driver; a CUDA build of torch 2.11 or newer; "
        "pip uninstall onnxruntime, then pip install 'dpu[gpu]'; --target cpu runs the reference anywhere"
    )
    with pytest.raises(DpuError) as refused:
        require("dpubench gpu", "torch", NOTHING, power=True)
    assert refused.value.what == (
        "not here: an NVIDIA driver, a CUDA device in torch 2.13.0+cpu, the package nvidia-ml-py"
    )


def test_a_machine_with_all_of_it_passes() -> None:
    require("--target gpu", "ort", Found(True, "2.11.0+cu130", 1, "1.31.1", True, True), power=True)
    require("--target gpu", "best", Found(True, "2.11.0+cu130", 1, "1.30.0", False, True), power=True)


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(DpuError) as refused:
        require("--target gpu", "tvm")
    assert refused.value.text() == "error[E430]: --engine tvm: no such engine\n  try: one of ort, torch, best"


def test_a_window_reads_the_energy_counter() -> None:
    counter = iter((5_000.0, 65_000.0))
    nvml = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByIndex=lambda i: i,
        nvmlDeviceGetTotalEnergyConsumption=lambda h: next(counter),
        nvmlDeviceGetPowerUsage=lambda h: 700_000,
        nvmlDeviceGetClockInfo=lambda h, kind: 1980,
        nvmlDeviceGetTemperature=lambda h, kind: 50,
        nvmlDeviceGetCurrentClocksEventReasons=lambda h: 0x4 | 0x40,
    )
    board = Board(0, nvml)
    with board.window() as window:
        pass
    assert window.joules == 60.0
    assert window.watts == pytest.approx(60.0 / window.seconds)
    assert board.throttle() == ["software power cap", "hardware thermal"]


def test_fp8_linears_round_operands_only() -> None:
    from dpu.runtime.gpu.fp8 import Fp8Linear

    linear = torch.nn.Linear(64, 32).requires_grad_(False)
    fp8 = Fp8Linear(linear)
    x = torch.randn(16, 64, generator=torch.Generator().manual_seed(5))
    meant = torch.nn.functional.linear(x, fp8.weight.float() * fp8.scale.t(), linear.bias)
    assert relative(meant, linear(x)) < 0.05  # 3 bits of mantissa
    try:
        found = fp8(x)
    except (RuntimeError, NotImplementedError) as e:
        pytest.skip(f"torch._scaled_mm has no such product on this CPU: {e}"[:200])
    assert relative(found, linear(x)) < 0.08


def test_options_of_the_provider() -> None:
    name, given = OrtOptions(attention_kernel="cudnn", fuse_conv_bias=True, cuda_graph=False).provider()
    assert (name, given["sdpa_kernel"], given["fuse_conv_bias"]) == ("CUDAExecutionProvider", "10", "1")
    assert given["enable_cuda_graph"] == "0"
    with pytest.raises(DpuError, match="there is no 'fast'"):
        OrtOptions(attention_kernel="fast").provider()


def test_arrays_are_checked(config: dict, state: dict[str, torch.Tensor]) -> None:
    from dpu.runtime.gpu.weights import find

    assert np.array_equal(find(state, "conv_in.weight").numpy(), state["conv_in.weight"].numpy())
    with pytest.raises(DpuError, match="tensor 'nosuch' is missing"):
        find(state, "nosuch")
