"""models/tiny: the files are those of its list; they load and draw what they are told; so does their W8A8 program."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from dpu.bench import caption as captions_of_pictures
from dpu.bench import held_out
from dpu.bench.train import card, evaluate
from dpu.bench.train.captions import FORMS, all_combinations, caption, combination_of, evaluation_prompts, split
from dpu.bench.train.compose import Composer, class_numbers
from dpu.bench.train.judge import load_judge, look
from dpu.bench.train.model import UNET, VAE
from dpu.bench.train.sprites import load_sprites
from dpu.codegen.driver import compile_folder
from dpu.errors import DpuError
from dpu.frontend import sdxl
from dpu.runtime.calibrate import calibrate_folder
from dpu.runtime.export import export_pipeline
from PIL import Image

ROOT = Path(__file__).parent.parent.parent
MODEL = ROOT / "models" / "tiny"
PROMPT = "three hearts on the left on a green background"  # the demo's


def composed(n: int, seed: int = 0) -> tuple[np.ndarray, list[str]]:
    """Pictures [n, 128, 128, 3] made of icons, without any network, and their captions."""
    combinations = split()[1][:: len(split()[1]) // n][:n]
    composer = Composer(load_sprites(), torch.device("cpu"))
    found = composer(class_numbers(combinations, composer.device), torch.Generator().manual_seed(seed))
    pixels = ((found + 1) * 127.5).round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).numpy()
    return np.ascontiguousarray(pixels), [caption(c, 0) for c in combinations]


def test_the_files_are_those_of_the_list() -> None:
    listed = dict(reversed(line.split("  ")) for line in (MODEL / card.SUMS).read_text().splitlines())
    assert card.digests(MODEL) == listed
    weights = [f.stat().st_size for f in MODEL.rglob("*.safetensors")]
    assert len(weights) == 5 and max(weights) <= 15e6 and sum(weights) <= 24e6


def test_the_card_is_what_its_generator_writes() -> None:
    facts = json.loads((MODEL / "training.json").read_text())
    assert (MODEL / card.CARD).read_text() == card.text(facts, MODEL), "run python -m dpu.bench.train.card models/tiny"
    assert "All four attributes are right in 400 of 400" in (MODEL / card.CARD).read_text()


def test_the_shipped_pipeline_draws_what_it_is_told() -> None:
    import diffusers

    pipeline = diffusers.StableDiffusionXLPipeline.from_pretrained(MODEL, dtype=torch.float32, add_watermarker=False)
    pipeline.set_progress_bar_config(disable=True)
    for config, ours in ((pipeline.unet.config, UNET), (pipeline.vae.config, VAE)):
        assert json.dumps({k: config[k] for k in ours if k != "scaling_factor"}) == json.dumps(
            {k: v for k, v in ours.items() if k != "scaling_factor"}  # the VAE's is measured by the training
        )
    (seen,) = look(load_judge(MODEL), evaluate.generate(pipeline, [PROMPT], seeds=1))
    assert caption(seen.combination, 0) == PROMPT


def test_a_caption_says_one_combination() -> None:
    for c in all_combinations()[::7]:
        assert {combination_of(caption(c, form)) for form in range(FORMS)} == {c}
    assert combination_of("a red fox in the snow") is None


def test_the_demos_caption_is_held_out() -> None:
    assert f"PROMPT := {PROMPT}\n" in (ROOT / "Makefile").read_text()
    assert combination_of(PROMPT) in split()[1]


def test_the_judge_reads_composed_pictures_and_finds_what_is_wrong() -> None:
    pictures, texts = composed(24)
    seen = look(load_judge(MODEL), pictures)
    assert [caption(s.combination, 0) for s in seen] == texts
    wanted = combination_of("two cats at the top on a blue background")
    apple = next(s for s, text in zip(seen, texts, strict=True) if "apple" in text)
    assert wanted is not None and apple.against(apple.combination) == "correct"
    assert apple.against(wanted).startswith("object apple, not cat")


def test_pictures_are_judged_from_their_files(tmp_path: Path) -> None:
    pictures, texts = composed(2)
    names = [tmp_path / "a.png", tmp_path / "b.png"]
    for name, pixels in zip(names, pictures, strict=True):
        Image.fromarray(pixels).save(name)
    found = captions_of_pictures.judge_images(names, texts[0], MODEL)
    assert found.correct == 1
    lines = found.text().splitlines()
    assert lines[1].startswith(f"{names[0]}  {texts[0]}") and lines[1].endswith("%  correct")
    assert not lines[2].endswith("correct")
    assert lines[3] == f"1 of 2 correct, by the classifier in {MODEL} (measured)"


def test_the_picture_in_the_readme_shows_its_captions() -> None:
    assert (ROOT / "docs" / "demo.png").stat().st_size <= 200_000
    pixels = np.asarray(Image.open(ROOT / "docs" / "demo.png"))
    tiles = pixels.reshape(2, 128, 6, 128, 3).swapaxes(1, 2).reshape(12, 128, 128, 3)  # float32's row, the device's row
    wanted = [c for c, _ in evaluation_prompts()[:6]]
    assert [s.combination for s in look(load_judge(MODEL), np.ascontiguousarray(tiles))] == wanted * 2
    assert not np.array_equal(tiles[:6], tiles[6:])


def test_what_cannot_be_judged_is_refused(tmp_path: Path) -> None:
    small = tmp_path / "small.png"
    Image.fromarray(np.zeros((64, 64, 3), np.uint8)).save(small)
    (tmp_path / "classifier").mkdir()
    (tmp_path / "classifier" / "model.safetensors").write_bytes(b"no weights")
    refusals = []
    for image, prompt, model in (
        (small, None, MODEL),
        (small, "a red fox in the snow", MODEL),
        (small, None, tmp_path / "none"),
        (small, None, tmp_path),
    ):
        with pytest.raises(DpuError) as refused:
            captions_of_pictures.judge_images([image], prompt, model)
        refusals.append(str(refused.value))
    assert refusals[0] == (
        f"error[E117]: {small}: is 64x64, the judge reads 128x128\n"
        "  why: it was trained at that size\n"
        "  try: make the picture at 128x128"
    )
    assert refusals[1] == (
        "error[E501]: --prompt: 'a red fox in the snow' is no caption that the judge knows\n"
        "  why: it was trained on the words and orders of words of bench/train/captions.py\n"
        '  try: for example "two cats at the top on a blue background"'
    )
    assert refusals[2] == (
        f"error[E111]: {tmp_path}/none/classifier/model.safetensors: missing\n"
        "  why: the pictures are judged by the classifier that was trained beside the model\n"
        "  try: give the folder models/tiny, or one that python -m dpu.bench.train wrote"
    )
    assert refusals[3].startswith(
        f"error[E112]: {tmp_path}/classifier/model.safetensors: holds no weights of this classifier ("
    )


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DpuError) as refused:
        held_out.check_size(Path("small.dpu"), 64, 96)
    assert str(refused.value) == (
        "error[E405]: small.dpu: makes pictures of 96x64, the judge reads 128x128\n"
        "  why: it was trained at that size\n"
        "  try: compile with --size 128x128"
    )
    with pytest.raises(DpuError) as refused:
        held_out.draw(tmp_path / "a.dpu", tmp_path, n=41, model=MODEL)
    assert str(refused.value).startswith("error[E501]: --prompts: 41 is not between 1 and 40")


def test_a_folder_is_exported_at_its_own_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    monkeypatch.setattr(sdxl, "export_sdxl", lambda *_, size, **__: sizes.append(size))
    for size in (0, 64):
        export_pipeline(str(MODEL), tmp_path / "out", size)
    assert sizes == [128, 64]
    silent = tmp_path / "silent"
    shutil.copytree(MODEL, silent, ignore=shutil.ignore_patterns("*.safetensors", "tokenizer*"))
    (silent / "unet" / "config.json").write_text("{}")
    with pytest.raises(DpuError) as refused:
        export_pipeline(str(silent), tmp_path / "out")
    assert str(refused.value) == (
        f"error[E110]: {silent}: its configs do not say what size of image it makes\n"
        "  why: sample_size of the UNet is None, block_out_channels of the VAE are [24, 48, 64, 64]\n"
        "  try: give --size"
    )


@pytest.mark.slow
def test_the_simulated_device_draws_captions_that_no_network_saw(tmp_path: Path) -> None:
    folder, statistics, program = tmp_path / "tiny", tmp_path / "calib.safetensors", tmp_path / "tiny.dpu"
    export_pipeline(str(MODEL), folder)
    calibrate_folder(folder, statistics, prompts=2, steps=10)
    compile_folder(folder, arch="dpu_tiny", calibration=statistics, out=program)
    found = held_out.draw(program, folder, n=2, model=MODEL)
    assert [text for _, text in found.prompts] == [text for _, text in evaluation_prompts()[:2]]
    assert found.correct == (2, 2)
    assert not np.array_equal(found.drawn, found.reference)
