"""`dpubench sdxl-quality` without a run: what a folder is, what is refused, what a rehearsal is called, estimates."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from dpu.bench.quality import sdxl, sdxl_estimate, sdxl_experiment
from dpu.bench.quality.draw import figure_png
from dpu.bench.quality.gallery import Shown, page_html
from dpu.bench.quality.sdxl_experiment import MLPERF_NEGATIVE, captions, prompts, read_captions
from dpu.bench.quality.sdxl_model import SEEDED, UNTRAINED, look
from dpu.bench.quality.sdxl_pictures import Made, note, read, save
from dpu.bench.quality.sdxl_plan import DECLARED, Request
from dpu.bench.quality.sdxl_results import QUALITY, REHEARSAL, check_name, merged, page
from dpu.errors import DpuError
from dpu.frontend.tiny import build_tiny
from dpu.runtime.sqnr import psnr

from tests.bench.quality_files import disturbed, picture
from tests.bench.sdxl_files import folder, quality, row

Run = Callable[[str], tuple[int, str, str]]
WHY = "its weights are seeded"


def request(model: Path, work: Path, count: int = 0, **more: object) -> Request:
    return Request(model, work, ("w8a8",), prompts(count), **more)  # type: ignore[arg-type]


# -- what a folder is --------------------------------------------------------------------------------------------------


def test_trained_weights_have_a_digest_and_no_excuse(tmp_path: Path) -> None:
    given = look(folder(tmp_path / "a"))
    assert given.not_sdxl == () and not given.exported and given.size == 1024
    every = "\n".join(given.weights_sha256.values())
    assert given.name == f"weights {hashlib.sha256(every.encode()).hexdigest()[:12]}"
    file = tmp_path / "a" / "unet" / "diffusion_pytorch_model.safetensors"
    assert given.weights_sha256["unet"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert given.parameters["unet"] == 320 * 36 + 320 + 400 and given.gram_bytes == 4 * (5 * 10**2 + 40**2)
    assert request(tmp_path, tmp_path).why_rehearsal(given) == ()
    other = tmp_path / "a" / "tokenizer" / "vocab.json"
    other.write_text("{}")
    changed = look(tmp_path / "a")
    assert changed.model_sha256 != given.model_sha256 and changed.name == given.name


def test_seeded_weights_are_recognised_by_what_they_hold(tmp_path: Path) -> None:
    given = look(folder(tmp_path / "a", seeded=True))
    assert given.name == SEEDED and not given.exported  # no dpu_pipeline.json says so
    assert given.not_sdxl[0].startswith("its weights are seeded: the UNet's conv_in holds the identity")
    one = dict(build_tiny(seed=7).unet.state_dict())["conv_in.weight"]
    assert torch.equal(one[:4, :, 1, 1], torch.eye(4))  # the tiny model's, of any seed


def test_untrained_weights_are_recognised(tmp_path: Path) -> None:
    given = look(folder(tmp_path / "a", norm=1.0))
    assert given.name == UNTRAINED
    assert given.not_sdxl == ("its weights are untrained: the scale of every normalisation in the UNet is exactly 1",)


def test_another_architecture_is_not_sdxl(tmp_path: Path) -> None:
    where = folder(tmp_path / "a")
    config = json.loads((where / "unet" / "config.json").read_text()) | {"transformer_layers_per_block": [0, 2, 4]}
    (where / "unet" / "config.json").write_text(json.dumps(config))
    assert look(where).not_sdxl == (
        "it is not SDXL base: transformer_layers_per_block of unet is [0, 2, 4], SDXL base's is [1, 2, 10]",
    )


def test_reasons_of_a_rehearsal_add_up(tmp_path: Path) -> None:
    given = look(folder(tmp_path / "a", seeded=True))
    why = request(tmp_path, tmp_path, count=1, steps=2, size=512, rehearsal=True).why_rehearsal(given)
    assert why[1:] == (
        "it has 1 of the 40 prompts",
        "it has 2 of 20 steps",
        "its pictures have 512 pixels a side, the model was trained for 1024",
        DECLARED,
    )


# -- which pictures ----------------------------------------------------------------------------------------------------


def test_the_prompts_are_those_of_the_experiment() -> None:
    e = prompts(0)
    assert len(e.asked) == e.whole == 40 and e.asked[3].seed == 3 and e.negative is None and e.guidance == 5
    assert e.rehearsal(20) == () and prompts(2).asked == e.asked[:2]


def test_captions_are_made_as_mlperf_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "captions_source.tsv"
    file.write_text('id\timage_id\tcaption\theight\n70\t1\tA city at night.\t640\n71\t2\t"It says ""no"""\t480\n')
    assert read_captions(file) == ["A city at night.", 'It says "no"']
    e = captions(file, 0)
    assert (e.guidance, e.negative, e.dataset) == (8, MLPERF_NEGATIVE, "captions of captions_source.tsv")
    assert [a.seed for a in e.asked] == [0, 0] and e.rehearsal(20) == ("it has 2 of the 5,000 captions",)
    known = hashlib.sha256(b'A city at night.\nIt says "no"').hexdigest()
    monkeypatch.setattr(sdxl_experiment, "MLPERF_CAPTIONS", known)
    asked = captions(file, 1)
    assert asked.dataset == "coco-2014-val" and len(asked.asked) == 1
    assert Request(tmp_path, tmp_path, ("w8a8",), asked).dataset == "coco-2014-val"
    assert Request(tmp_path, tmp_path, ("w8a8",), asked, steps=30).dataset == "coco-2014-val at 30 steps"
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    (tmp_path / "a.json").write_text('["one", "two"]')
    assert read_captions(tmp_path / "a.txt") == read_captions(tmp_path / "a.json") == ["one", "two"]


# -- refused before any work -------------------------------------------------------------------------------------------

CAPTIONS = "\n  try: give MLPerf's captions_source.tsv, a JSON list of texts, or a text file with a caption a line\n"


def no_folder(d: Path) -> tuple[str, str]:
    return "DIR/none", (
        "error[E106]: DIR/none: no such folder\n"
        "  why: the model is a diffusers SDXL folder with model_index.json; nothing is downloaded\n"
        "  try: give what pipeline.save_pretrained(...) wrote; for a rehearsal: dpuc export sdxl -o out/sdxl\n"
    )


def no_index(d: Path) -> tuple[str, str]:
    (d / "a").mkdir()
    return "DIR/a", (
        "error[E111]: DIR/a/model_index.json: missing\n"
        "  why: an SDXL source is a diffusers folder with model_index.json and one subfolder for each part\n"
        "  try: give the folder that pipeline.save_pretrained(...) wrote\n"
    )


def wrong_class(d: Path) -> tuple[str, str]:
    folder(d / "a", kind="StableDiffusionPipeline")
    return "DIR/a", (
        "error[E110]: DIR/a/model_index.json: the pipeline class is 'StableDiffusionPipeline'\n"
        "  why: only Stable Diffusion XL pipelines have the parts that are exported here\n"
        "  try: export the pipeline again\n"
    )


def no_weights(d: Path) -> tuple[str, str]:
    (folder(d / "a") / "vae" / "diffusion_pytorch_model.safetensors").unlink()
    return "DIR/a", (
        "error[E111]: DIR/a/vae/diffusion_pytorch_model.safetensors: missing\n"
        "  why: a diffusers SDXL folder holds the weights of each part as safetensors\n"
        "  try: save the pipeline with safe_serialization=True\n"
    )


def no_tokenizer(d: Path) -> tuple[str, str]:
    shutil.rmtree(folder(d / "a") / "tokenizer_2")
    return "DIR/a", (
        "error[E111]: DIR/a/tokenizer_2: missing\n"
        "  why: a prompt becomes tokens there\n"
        "  try: give the whole pipeline's folder, as pipeline.save_pretrained(...) writes it\n"
    )


def rehearsal_by_another_name(d: Path) -> tuple[str, str]:
    folder(d / "a", seeded=True)
    return "DIR/a -o DIR/sdxl.json", (
        "error[E501]: --output: value is DIR/sdxl.json, and these pictures are a rehearsal, not SDXL's quality\n"
        "  why: its weights are seeded: the UNet's conv_in holds the identity of dpuc export's seeded weights\n"
        "  try: say so in the name: -o DIR/sdxl-rehearsal.json\n"
    )


def no_inception(d: Path) -> tuple[str, str]:
    folder(d / "a")
    return "DIR/a --inception DIR/i.pth", (
        "error[E106]: DIR/i.pth: no such file\n  try: give pt_inception-2015-12-05-6726825d.pth\n"
    )


def no_clip(d: Path) -> tuple[str, str]:
    folder(d / "a")
    return "DIR/a --clip DIR/clip", (
        "error[E106]: DIR/clip: no such folder\n"
        "  try: save it: CLIPModel and CLIPTokenizer of transformers, save_pretrained(DIR)\n"
    )


def statistics_alone(d: Path) -> tuple[str, str]:
    return "DIR/a --statistics DIR/val.npz", (
        "error[E501]: --inception: is missing: --statistics are of its features\n  try: see --help\n"
    )


def no_captions(d: Path) -> tuple[str, str]:
    return "DIR/a --captions DIR/c.tsv", f"error[E106]: DIR/c.tsv: no such file{CAPTIONS}"


def other_table(d: Path) -> tuple[str, str]:
    (d / "c.tsv").write_text("a\tb\n1\t2\n")
    what = "holds no captions (its first line names no column 'caption')"
    return "DIR/a --captions DIR/c.tsv", f"error[E107]: DIR/c.tsv: {what}{CAPTIONS}"


def too_many(d: Path) -> tuple[str, str]:
    return "DIR/a --count 41", "error[E501]: --count: 41 is not between 1 and 40\n  try: 0: all\n"


def twice(d: Path) -> tuple[str, str]:
    return "DIR/a --precisions w8a8,w8a8", (
        "error[E501]: --precisions: 'w8a8' is there twice\n  try: give every precision once\n"
    )


def another_work_folder(d: Path) -> tuple[str, str]:
    given = look(folder(d / "a"))
    sdxl.make_plan(request(d / "a", d / "work"), given)
    (d / "a" / "tokenizer" / "vocab.json").write_text("{}")
    old, new = given.model_sha256[:12], look(d / "a").model_sha256[:12]
    return "DIR/a --work DIR/work", (
        f"error[E522]: DIR/work/plan.json: field 'model_sha256': value is '{old}', allowed: '{new}'\n"
        "  why: the pictures in this folder are of another model, arch, size or calibration\n"
        "  try: choose another --work\n"
    )


CASES = [
    *(no_folder, no_index, wrong_class, no_weights, no_tokenizer, rehearsal_by_another_name, no_inception, no_clip),
    *(statistics_alone, no_captions, other_table, too_many, twice, another_work_folder),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_bad_input(run: Run, tmp_path: Path, case: Callable[[Path], tuple[str, str]]) -> None:
    line, text = case(tmp_path)
    more = "" if "--work" in line else f" --work {tmp_path / 'w'}"
    code, out, err = run(f"dpubench sdxl-quality {line.replace('DIR', str(tmp_path))}{more}")
    assert code == 2 and out == ""
    assert err.replace(str(tmp_path), "DIR") == text
    assert not (tmp_path / "w").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA GPU")
def test_no_gpu(run: Run, tmp_path: Path) -> None:
    code, _, err = run(f"dpubench sdxl-quality {tmp_path} --device cuda")
    assert code == 2 and err == (
        "error[E430]: --device cuda: PyTorch sees no CUDA GPU\n"
        f"  why: torch {torch.__version__} on this computer has none\n"
        "  try: install a CUDA build of PyTorch on a computer with a GPU, or use --device cpu\n"
    )


# -- what is said beforehand -------------------------------------------------------------------------------------------


def test_the_estimate_of_full_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """40 prompts on an H200: 21 forwards of 17 s are 357 s a picture; 3.47 GB parameters are 6.94 GB in float16."""
    given = look(folder(tmp_path / "a")).model_copy(update={"parameters": {"unet": 3_470_000_000}})
    found = sdxl_estimate.estimate(request(tmp_path / "a", tmp_path / "w", device="cuda"), given)
    by_name = {s.name: s for s in found.stages}
    assert by_name["w8a8"].seconds == pytest.approx(40 * 21 * 17)
    assert "357 s a picture, 10.1 images an hour; measured on one H200" in by_name["w8a8"].source
    assert found.disk["export"] == 6.94e9 and found.disk["programs"] == pytest.approx(1.1 * 3.47e9)
    assert found.left == found.pictures == 80 and found.gpu == pytest.approx(15.8e9)
    # 140 of export, 104 of 40 forwards, 146 of compilation, 40 x 24 x 0.15 of fp16, 40 x 357, 40 x 16 of scores
    assert found.seconds == pytest.approx(140 + 104 + 146 + 144 + 14280 + 640)
    text = found.text()
    assert "to make      80 of 80 pictures" in text and "too short" not in text
    assert text.splitlines()[-1].startswith("in all       about 4.3 h; it can be stopped, and goes on")
    monkeypatch.setattr(sdxl_estimate.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(0, 0, 5 * 10**9))
    with pytest.raises(DpuError) as e:
        sdxl_estimate.estimate(request(tmp_path / "a", tmp_path / "w"), given).check_room()
    assert e.value.what == "about 11.0 GB are needed, 5.0 GB are free" and e.value.code == "E101"


def test_plan_says_and_makes_nothing(run: Run, tmp_path: Path) -> None:
    folder(tmp_path / "a", seeded=True)
    code, out, err = run(f"dpubench sdxl-quality {tmp_path / 'a'} --count 1 --plan --work {tmp_path / 'w'}")
    assert code == 0 and out == "" and not (tmp_path / "w").exists()
    assert err.startswith(f"{REHEARSAL}: seeded weights\n  its weights are seeded: ")
    assert "to make      4 of 4 pictures" in err and "images an hour" in err


# -- pictures and results ----------------------------------------------------------------------------------------------


def test_a_picture_says_what_it_was_made_from(tmp_path: Path) -> None:
    path, made = tmp_path / "x" / "0000.png", Made(picture(1), 12.5, 3, "here")
    assert note(path, "k") is None
    save(path, made, "k")
    found = read(path, "k")
    assert found is not None and np.array_equal(found.pixels, made.pixels) and found[1:] == made[1:]
    with pytest.raises(DpuError, match="made from another program, model, prompt or number of steps"):
        note(path, "another")
    from PIL import Image

    Image.fromarray(picture(1)).save(path)
    with pytest.raises(DpuError, match="does not say what it was made from"):
        note(path, "k")
    path.write_text("no picture")
    with pytest.raises(DpuError, match="is no readable PNG"):
        note(path, "k")


def test_a_rehearsal_and_a_result_do_not_meet(tmp_path: Path) -> None:
    result, rehearsal = quality([row("fp16"), row("w8a8", 25.0)]), quality([row("w8a8", 25.0, (WHY,))])
    assert (result.what, rehearsal.what) == (QUALITY, REHEARSAL)
    with pytest.raises(DpuError) as e:
        merged(rehearsal, result, tmp_path / "r.json")
    assert e.value.what == f"field 'what': value is '{QUALITY}', allowed: '{REHEARSAL}'"
    with pytest.raises(DpuError, match="these pictures are no rehearsal"):
        check_name(QUALITY, (), tmp_path / "sdxl-rehearsal.json")
    check_name(QUALITY, (), tmp_path / "sdxl.json")
    check_name(REHEARSAL, (WHY,), tmp_path / "sdxl-rehearsal.json")


def test_rows_are_kept_until_their_program_changes(tmp_path: Path) -> None:
    old = quality([row("fp16"), row("w8a8", 25.0), row("w4a8", 20.0)])
    whole = merged(quality([row("fp16"), row("w8a8", 26.0)]), old, tmp_path / "r.json")
    assert [(r.precision, r.scores[0].value if r.scores else None) for r in whole.rows] == [
        ("fp16", None),
        ("w8a8", 26.0),
        ("w4a8", 20.0),
    ]
    other = row("w8a8", 27.0, program="other").model_copy(update={"steps": 30})
    assert [r.steps for r in merged(quality([other]), old, tmp_path / "r.json").rows if r.precision == "w8a8"] == [30]
    with pytest.raises(DpuError, match="field 'model_sha256'"):
        merged(quality([row("w8a8", 1.0)], model="n" * 64), old, tmp_path / "r.json")


def test_every_row_page_and_figure_says_what_it_is() -> None:
    for q in (
        quality([row("fp16"), row("w8a8", 25.0)]),
        quality([row("fp16", None, (WHY,)), row("w8a8", 25.0, (WHY,))]),
    ):
        text, shown = page(q, "r.json", ["r.png"]), [Shown("a cat", 3, {"fp16": picture(1), "w8a8": picture(2)})]
        html = page_html(sdxl._about(q), shown)
        rows = [line for line in text.splitlines() if "| prompts |" in line]
        assert len(rows) == 2 and all(line.startswith(f"| {q.what} | {q.model} | ") for line in rows)
        assert text.startswith(f"# {q.title}\n") and f"![The frontier, {q.what}](r.png)" in text
        assert f"<h1>{q.title.replace(chr(39), '&#x27;')}: precisions side by side, 20 steps</h1>" in html
        for published in ("26.4", "22.0", "20.6", "of another's SDXL", "Not ours"):
            assert published in text
    assert q.text().startswith(f"REHEARSAL, NOT SDXL'S QUALITY: seeded weights\n  {WHY}\n")
    assert "w8a8: 10 images an hour (measured) on NVIDIA H200, torch 2.11.0" in q.text()


def test_the_frontier_has_speed_memory_energy_and_cost() -> None:
    q = quality([row("fp16"), row("w8a8", 25.0)])
    points = {r.precision: p for r in q.rows if (p := sdxl._point(r)) is not None}
    assert list(points) == ["w8a8"] and points["w8a8"][:3] == (25.0, 24.0, 26.0)
    assert figure_png(points, q.costs, "a title", "published, another's SDXL").startswith(b"\x89PNG")


def test_large_pictures_are_scaled_down_and_their_psnr_is_not() -> None:
    base = picture(1, 512)
    noisy = disturbed(base, 5, 1)
    html = page_html(sdxl._about(quality([row("fp16")])), [Shown("a <cat>", 3, {"fp16": base, "w8a8": noisy})])
    assert html.count('src="data:image/png;base64,') == 3 and "http" not in html and "256px" in html
    assert "a &lt;cat&gt;" in html and f"{psnr(base, noisy):.1f} dB" in html and "caption" not in html.split("<h1>")[1]
    assert len(html) < 3 * 256 * 256 * 3 * 4 / 3 + 5000
