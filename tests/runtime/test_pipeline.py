"""The pipeline against diffusers' own, on the tiny model, and the comparison helpers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from dpu.errors import DpuError
from dpu.runtime.host_model import HostModel
from dpu.runtime.pipeline import Pipeline, Request, Step
from dpu.runtime.pipeline_files import BundledFiles, FolderFiles
from dpu.runtime.sqnr import compare, cosine, psnr, sqnr
from dpu.runtime.unets import OnnxUnet
from onnx import TensorProto, helper


@pytest.fixture(scope="module")
def files(tiny_folder: Path) -> FolderFiles:
    return FolderFiles(tiny_folder)


@pytest.fixture(scope="module")
def unet(files: FolderFiles) -> OnnxUnet:
    return OnnxUnet(files)


@pytest.mark.parametrize(
    ("negative", "guidance", "size"), [(None, 5.0, (64, 96)), ("a blurry cat", 3.0, (64, 64)), (None, 1.0, (64, 64))]
)
def test_images_are_those_of_diffusers(
    tiny_folder: Path, files: FolderFiles, unet: OnnxUnet, negative: str | None, guidance: float, size: tuple[int, int]
) -> None:
    from diffusers import StableDiffusionXLPipeline

    request = Request("a red fox in the snow", negative, 7, 5, guidance, *size)
    found = Pipeline(files).generate(request, unet)
    reference = StableDiffusionXLPipeline.from_pretrained(tiny_folder, torch_dtype=torch.float32)
    reference.set_progress_bar_config(disable=True)
    want = reference(
        request.prompt,
        negative_prompt=negative,
        num_inference_steps=5,
        guidance_scale=guidance,
        height=size[0],
        width=size[1],
        generator=torch.Generator("cpu").manual_seed(7),
    )
    pixels = np.asarray(want.images[0])
    assert pixels.shape == found.pixels.shape
    assert pixels.std() > 10  # an image, not a plain colour
    # The same float32 operations in another order: a rounding to 8 bits may go the other way, more may not.
    assert np.abs(pixels.astype(int) - found.pixels).max() <= 1
    assert psnr(pixels, found.pixels) > 60


def test_files_inside_a_program_are_enough(tiny_folder: Path, files: FolderFiles, unet: OnnxUnet) -> None:
    from dpu.frontend.host_files import host_files

    bundle = BundledFiles(host_files(tiny_folder), "tiny.dpu")
    assert not any(name.startswith("unet/") and name != "unet/config.json" for name in bundle.names())
    request = Request("a blue house", seed=1, steps=2, height=64, width=64)
    assert np.array_equal(
        Pipeline(bundle).generate(request, unet).pixels, Pipeline(files).generate(request, unet).pixels
    )


def test_comparing_a_unet_with_itself_and_with_a_worse_one(files: FolderFiles, unet: OnnxUnet) -> None:
    class Worse:
        prepare = unet.prepare

        def step(self, sample: np.ndarray, timestep: float) -> np.ndarray:
            return unet.step(sample, timestep) * np.float32(1.01)

    pipeline, steps = Pipeline(files), []
    request = Request("a tree", steps=2, height=64, width=64)
    same = compare(pipeline, request, unet, unet)
    assert same.teacher_forced == same.free_running == [float("inf")] * 2
    assert same.image_psnr == float("inf")
    worse = compare(pipeline, request, unet, Worse(), steps.append)
    assert worse.teacher_forced == pytest.approx([40.0, 40.0], abs=0.01)  # 20 log10(100)
    assert worse.free_running[1] < 40.0
    assert same.teacher_forced_cosine == same.free_running_cosine == pytest.approx([1, 1], abs=1e-12)
    assert all(0.9999 < c <= 1 for c in worse.teacher_forced_cosine) and len(worse.teacher_forced_cosine) == 2
    assert worse.free_running_cosine[1] < 1
    assert [s.index for s in steps if isinstance(s, Step)] == [0, 1, 0, 1]


def test_sqnr_and_psnr_by_hand() -> None:
    assert sqnr([3.0, 4.0], [3.0, 3.5]) == pytest.approx(20.0)  # 25 / 0.25
    assert np.isnan(sqnr([1.0], [np.inf]))
    assert psnr([0, 0], [255, 0]) == pytest.approx(3.0103)


def test_cosine_by_hand() -> None:
    assert cosine([3, 4], [4, 3]) == pytest.approx(24 / 25, abs=1e-15)
    assert cosine([1, 0], [0, 5]) == 0
    assert cosine([1.5, -2], [-3, 4]) == -1
    assert cosine([[1, 2], [3, 4]], [[2, 4], [6, 8]]) == 1
    assert np.isnan(cosine([0, 0], [1, 1]))
    assert np.isnan(cosine([1, 1], [float("nan"), 1]))


@pytest.mark.parametrize("angle", [0.01, 0.3, np.pi / 2, 2.0])
def test_a_rotation_by_an_angle_has_its_cosine_and_sqnr(angle: float) -> None:
    """|r - f|^2 = 2 - 2 cos of the angle, for unit vectors."""
    r, f = [1.0, 0.0], [np.cos(angle), np.sin(angle)]
    assert cosine(r, f) == pytest.approx(np.cos(angle), abs=1e-12)
    assert sqnr(r, f) == pytest.approx(-10 * np.log10(2 - 2 * np.cos(angle)), abs=1e-9)


def test_what_is_missing_is_named(tiny_folder: Path) -> None:
    with pytest.raises(DpuError, match=r"no model_index\.json, scheduler/scheduler_config\.json.*vae_decoder"):
        Pipeline(BundledFiles({}, "unet.dpu"))
    with pytest.raises(DpuError, match="multiple of 32"):
        Request("x", height=50, width=64)
    with pytest.raises(DpuError, match="between 1 and 1000"):
        Request("x", steps=0)


def test_prompt_lists_are_long_enough_and_disjoint() -> None:
    from dpu.runtime.workload import calibration_prompts, evaluation_prompts

    calibration, evaluation = calibration_prompts(), evaluation_prompts()
    assert len(calibration) == 8
    assert len(set(evaluation)) == len(evaluation) >= 20
    assert not set(calibration) & set(evaluation)


def test_a_scalar_stays_a_scalar_on_the_host(tmp_path: Path) -> None:
    """Optimum's UNet takes a scalar timestep; one axis more and its time embedding does not fit."""
    value = helper.make_tensor_value_info("t", TensorProto.FLOAT, [])
    shape = helper.make_tensor_value_info("n", TensorProto.INT64, [0])
    graph = helper.make_graph([helper.make_node("Shape", ["t"], ["n"])], "g", [value], [shape])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
    assert HostModel(FolderFiles(tmp_path), "m.onnx")({"t": np.float32(501)})["n"].shape == (0,)
