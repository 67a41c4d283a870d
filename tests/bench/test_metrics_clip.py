"""CLIP score with a small seeded model of the right kind; captions."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from dpu.bench.metrics.clip_score import load, prepared, read_captions
from dpu.errors import DpuError
from safetensors.torch import load_file, save_file

from tests.bench.metrics_images import flat, picture
from tests.bench.sdxl_files import small_clip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CLIP of two small layers on either side, saved as transformers does."""
    return small_clip(tmp_path_factory.mktemp("clip"))


def test_the_score_is_100_times_the_cosine_of_the_embeddings(folder: Path) -> None:
    """The towers taken one by one; the model's own call gives logits = exp(scale) x cosine."""
    judge = load(folder)
    image, caption = picture(48, 64), "a red fox in the snow"
    tokens = judge.tokenizer(caption, padding="max_length", max_length=77, return_tensors="pt")
    pixels = torch.from_numpy(prepared(image, 32))
    with torch.inference_mode():
        whole = judge.model(**tokens, pixel_values=pixels)
        seen = judge.model.visual_projection(judge.model.vision_model(pixel_values=pixels).pooler_output)[0]
        said = judge.model.text_projection(judge.model.text_model(**tokens).pooler_output)[0]
    score = judge.score(image, caption)
    assert score == pytest.approx(100 * float(seen @ said / (seen.norm() * said.norm())), abs=1e-3)
    scale = float(judge.model.logit_scale.detach().exp())
    assert score == pytest.approx(100 * float(whole.logits_per_image) / scale, abs=1e-3)
    assert -100 <= score <= 100
    assert score == judge.score(image, caption) != judge.score(image, "a blue bicycle")
    assert score != judge.score(flat(9, 90, 200), caption)


def test_a_long_caption_is_cut(folder: Path) -> None:
    judge = load(folder)
    many = "a fox " * 100
    assert judge.score(picture(), many) == judge.score(picture(), many + "and a bicycle")


def test_preparation_by_hand() -> None:
    """A flat colour stays it: (x / 255 - mean) / deviation; of a wide or high image the middle is left."""
    found = prepared(flat(255, 0, 51), 32)
    assert found.shape == (1, 3, 32, 32)
    assert found[0, 0] == pytest.approx(np.full((32, 32), (1 - 0.48145466) / 0.26862954), abs=1e-5)
    assert found[0, 1] == pytest.approx(np.full((32, 32), -0.4578275 / 0.26130258), abs=1e-5)
    assert found[0, 2] == pytest.approx(np.full((32, 32), (0.2 - 0.40821073) / 0.27577711), abs=1e-5)
    wide = np.zeros((64, 192, 3), np.uint8)
    wide[:, 64:128] = 255
    for image in (wide, wide.transpose(1, 0, 2)):
        assert prepared(np.ascontiguousarray(image), 64)[0, 0].min() == pytest.approx(
            (1 - 0.48145466) / 0.26862954, abs=1e-5
        )
    assert prepared(picture(100, 151), 32).shape == (1, 3, 32, 32)


def test_a_model_that_lacks_a_weight_is_refused(folder: Path, tmp_path: Path) -> None:
    """transformers would make it up."""
    broken = shutil.copytree(folder, tmp_path / "broken")
    weights = load_file(broken / "model.safetensors")
    del weights["visual_projection.weight"]
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    with pytest.raises(DpuError) as e:
        load(broken)
    assert str(e.value).startswith(
        f"error[E112]: {broken}: holds no CLIP model of transformers (1 weights are missing, the first is "
        "'visual_projection.weight')\n"
    )


def test_folders_without_a_model(tmp_path: Path) -> None:
    hint = "\n  try: save it: CLIPModel and CLIPTokenizer of transformers, save_pretrained(DIR)"
    with pytest.raises(DpuError) as e:
        load(tmp_path / "nosuch")
    assert str(e.value) == f"error[E106]: {tmp_path}/nosuch: no such folder{hint}"
    with pytest.raises(DpuError) as e:
        load(tmp_path)
    assert str(e.value).startswith(f"error[E112]: {tmp_path}: holds no CLIP model of transformers (")
    assert str(e.value).endswith(hint)


def test_captions(tmp_path: Path) -> None:
    path = tmp_path / "captions.json"
    path.write_text('{"a.png": "a fox", "b.png": "a dog", "more.png": "unused"}')
    assert read_captions(path, ["b.png", "a.png"]) == ["a dog", "a fox"]
    with pytest.raises(DpuError) as e:
        read_captions(path, ["a.png", "c.png", "d.png"])
    assert str(e.value) == (
        f"error[E522]: {path}: has no caption for 2 of 3 images, the first is 'c.png'\n"
        "  why: a CLIP score is that of an image and its caption\n"
        '  try: write {"name.png": "caption", ...}'
    )
    path.write_text('["a fox"]')
    with pytest.raises(DpuError) as e:
        read_captions(path, ["a.png"])
    assert str(e.value) == (
        f"error[E107]: {path}: holds no captions (it is no object of texts)\n"
        '  try: write {"name.png": "caption", ...}'
    )
    with pytest.raises(DpuError) as e:
        read_captions(tmp_path / "nosuch.json", ["a.png"])
    assert str(e.value) == f"error[E106]: {tmp_path}/nosuch.json: no such file\n  try: check the path"
