"""`dpubench metrics`: the table, the file, every kind of bad input word for word, MLPerf's window."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from dpu.bench.gate_conditions import WINDOW
from dpu.bench.metrics import inception, mlperf
from dpu.bench.metrics.report import Request, measure
from PIL import Image

from tests.bench.metrics_images import disturbed, flat, picture, write
from tests.bench.metrics_inception import hashed_weights

Run = Callable[..., tuple[int, str, str]]
NAMES = [f"{i:02}.png" for i in range(6)]
KERNEL = "kernel distance (EfficientNet-Lite0)"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A reference, the same with little noise, the same with much."""
    base = tmp_path_factory.mktemp("images")
    images = {n: picture(64, 48, v) for v, n in enumerate(NAMES)}
    return (
        write(base / "a", images),
        write(base / "b", {n: disturbed(p, 8, v) for v, (n, p) in enumerate(images.items())}),
        write(base / "c", {n: disturbed(p, 60, v) for v, (n, p) in enumerate(images.items())}),
    )


def test_the_table_and_the_file(run: Run, folders: tuple[Path, Path, Path], tmp_path: Path) -> None:
    a, b, _ = folders
    out = tmp_path / "metrics.json"
    code, printed, err = run(f"dpubench metrics {a} {b} -o {out}")
    assert code == 0, err
    content = json.loads(out.read_text())
    assert content["format"] == "dpu.metrics/1" and content["images"] == 6 and content["mlperf"] == ""
    names = [s["name"] for s in content["scores"]]
    assert names == [
        "PSNR",
        "SSIM",
        "MS-SSIM (3 scales)",
        "FLIP (67 pixels a degree)",
        "feature distance (EfficientNet-Lite0)",
        KERNEL,
    ]
    for score in content["scores"]:
        assert score["low"] <= score["value"] <= score["high"]
        assert f"{score['name']:<37}  {score['value']:>10.5g}" in printed
        if score["name"] != KERNEL:
            column = [image[score["name"]] for image in content["per_image"].values()]
            assert score["value"] == pytest.approx(np.mean(column), rel=1e-8)
    assert list(content["per_image"]) == NAMES
    assert printed.splitlines()[0] == f"{b} against {a}: 6 pairs"
    assert content["versions"]["flip-evaluator"] == "1.7"
    assert "FID" not in printed and "LPIPS" not in printed and "KID" not in printed
    again = tmp_path / "again.json"
    run(f"dpubench metrics {a} {b} -o {again}")
    assert again.read_text() == out.read_text()


def test_more_noise_is_worse_in_every_metric(folders: tuple[Path, Path, Path]) -> None:
    a, b, c = folders
    near, far = measure(Request(a, b)), measure(Request(a, c))
    for x, y in zip(near.scores, far.scores, strict=True):
        assert isinstance(x.value, float) and isinstance(y.value, float)
        assert x.value > y.value if x.better == "higher" else x.value < y.value, x.name
    assert near.reference_sha256 == far.reference_sha256 and near.candidate_sha256 != far.candidate_sha256


def test_equal_images(run: Run, folders: tuple[Path, Path, Path], tmp_path: Path) -> None:
    a = folders[0]
    out = tmp_path / "same.json"
    code, printed, _ = run(f"dpubench metrics {a} {a} -o {out}")
    assert code == 0
    assert "PSNR                                     infinite                        -  dB    higher" in printed
    values = {s["name"]: s["value"] for s in json.loads(out.read_text())["scores"]}
    assert values["PSNR"] == "infinite" and values["SSIM"] == pytest.approx(1, abs=1e-9)
    assert [v for n, v in values.items() if "distance" in n or "FLIP" in n] == pytest.approx([0, 0, 0], abs=1e-12)


def test_two_images(run: Run, folders: tuple[Path, Path, Path]) -> None:
    a, b, _ = folders
    code, printed, _ = run(f"dpubench metrics {a / NAMES[0]} {b / NAMES[1]}")
    assert code == 0
    assert printed.splitlines()[0].endswith(": 1 pair")
    assert printed.splitlines()[-2:] == [
        "no intervals: fewer than 5 pairs",
        "no kernel distance (EfficientNet-Lite0): it is one of sets, and needs two pairs or more",
    ]


def test_fid_with_weights_and_statistics(folders: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """With hashed weights of the right architecture: the FIDs are Frechet distances of its features, in closed form."""
    a, b, _ = folders
    two_a, two_b = (write(tmp_path / s.name, {}) for s in (a, b))
    for source, target in ((a, two_a), (b, two_b)):
        for name in NAMES[:2]:
            shutil.copy(source / name, target / name)
    weights, statistics = tmp_path / "inception.pth", tmp_path / "val.npz"
    torch.save(hashed_weights({k: v.shape for k, v in inception.Inception().state_dict().items()}), weights)
    mean = np.linspace(0, 5, 2048)
    np.savez(statistics, mu=mean, sigma=np.eye(2048))
    found = measure(Request(two_a, two_b, inception=weights, statistics=statistics, dataset="coco-2014-val"))
    values = {s.name: s for s in found.scores}
    network = inception.load(weights)
    sides = [np.stack([network.features(np.asarray(Image.open(f / n))) for n in NAMES[:2]]) for f in (two_a, two_b)]
    # Of two images a covariance is uu' with u = (x1 - x2) / sqrt 2: roots share |u . v|, with the unit matrix |u|.
    (x, u), (y, v) = ((f.mean(0), (f[0] - f[1]) / sqrt(2)) for f in sides)
    for name, truth in (
        ("FID of candidate against reference", (x - y) @ (x - y) + u @ u + v @ v - 2 * abs(u @ v)),
        ("FID of candidate against statistics", (y - mean) @ (y - mean) + v @ v + 2048 - 2 * sqrt(v @ v)),
        ("FID of reference against statistics", (x - mean) @ (x - mean) + u @ u + 2048 - 2 * sqrt(u @ u)),
    ):
        assert values[name].value == pytest.approx(truth, rel=1e-6)
        assert values[name].low is None
    assert found.mlperf == "not comparable with MLPerf's window: 2 images, MLPerf scores 5,000; no CLIP score (--clip)"
    assert found.notes == [
        "no intervals: fewer than 5 pairs",
        "FID of 2 images: biased upwards, covariances of 2,048 dimensions need more images than that",
    ]


# -- MLPerf's window ---------------------------------------------------------------------------------------------------


def test_the_window_is_two_sided() -> None:
    """Bounds and reference as MLPerf publishes them; AMD's INT8 entry passes, a better FID fails too."""
    assert WINDOW == {"fid": (23.01085758, 23.95007626), "clip": (31.68631873, 31.81331801)}
    coco = "coco-2014-val"
    assert mlperf.verdict(23.48046692, 31.74981837, 5000, coco) == (
        "inside MLPerf's window: FID 23.4805 in 23.011 to 23.950; CLIP 31.7498 in 31.686 to 31.813"
    )
    assert mlperf.verdict(23.909, 31.749, 5000, coco).startswith("inside")
    assert mlperf.verdict(22.9, 31.75, 5000, coco) == "FID 22.9 is outside 23.011 to 23.950"
    assert mlperf.verdict(24.0, 31.75, 5000, coco) == "FID 24 is outside 23.011 to 23.950"
    assert mlperf.verdict(23.5, 31.9, 5000, coco) == "CLIP 31.9 is outside 31.686 to 31.813"


def test_other_images_are_not_comparable() -> None:
    start = "not comparable with MLPerf's window: "
    assert mlperf.verdict(23.5, 31.75, 40, "coco-2014-val") == start + "40 images, MLPerf scores 5,000"
    assert mlperf.verdict(23.5, 31.75, 5000, "") == start + "dataset is '', MLPerf's is 'coco-2014-val'"
    assert mlperf.verdict(None, None, 5000, "coco-2014-val") == (
        start + "no FID against COCO's statistics (--statistics); no CLIP score (--clip)"
    )


# -- bad input ---------------------------------------------------------------------------------------------------------

SIZE_WHY = "\n  why: images are compared pixel by pixel\n  try: make both images at one size\n"
NAME_TAIL = "\n  why: images are compared in pairs of one name\n  try: give both images of a prompt the same name\n"
RGB_TAIL = "\n  why: the metrics are defined on 8-bit RGB\n  try: save it as PNG in 8-bit RGB, without transparency\n"


def png(folder: Path, name: str, image: Image.Image) -> Path:
    folder.mkdir(exist_ok=True)
    image.save(folder / name)
    return folder


def missing(d: Path) -> str:
    write(d / "a", {"x.png": picture()})
    return "error[E106]: DIR/b: no such file or folder\n  try: check the path\n"


def file_and_folder(d: Path) -> str:
    write(d / "a", {"x.png": picture()})
    Image.fromarray(picture()).save(d / "b", format="PNG")
    return "error[E106]: DIR/b: is a file, DIR/a is a folder\n  try: give two folders or two images\n"


def empty_folder(d: Path) -> str:
    write(d / "a", {"x.png": picture()})
    write(d / "b", {})
    (d / "b" / "notes.txt").write_text("no image")
    return "error[E106]: DIR/b: holds no PNG\n  try: give a folder of PNG images\n"


def lacks_a_name(d: Path) -> str:
    write(d / "a", {"x.png": picture(), "y.png": picture(), "z.png": picture()})
    write(d / "b", {"x.png": picture()})
    return f"error[E522]: DIR/b: lacks 2 of the 3 names, the first is 'y.png' of DIR/a{NAME_TAIL}"


def has_another_name(d: Path) -> str:
    write(d / "a", {"x.png": picture()})
    write(d / "b", {"x.png": picture(), "w.png": picture()})
    return f"error[E522]: DIR/a: lacks 1 of the 2 names, the first is 'w.png' of DIR/b{NAME_TAIL}"


def other_size(d: Path) -> str:
    write(d / "a", {"x.png": picture(64, 64)})
    write(d / "b", {"x.png": picture(64, 96)})
    return f"error[E522]: DIR/b/x.png: is 96x64, DIR/a/x.png is 64x64{SIZE_WHY}"


def too_small(d: Path) -> str:
    for side in "ab":
        write(d / side, {"x.png": picture(43, 64)})
    return (
        "error[E117]: DIR/a/x.png: is 64x43, each side must be at least 44\n"
        "  why: the third scale of MS-SSIM is a quarter of the image and must hold one window of 11 pixels\n"
        "  try: make a larger image\n"
    )


def transparent(d: Path) -> str:
    write(d / "a", {"x.png": picture()})
    png(d / "b", "x.png", Image.fromarray(picture()).convert("RGBA"))
    return f"error[E117]: DIR/b/x.png: mode is 'RGBA', allowed: 'RGB'{RGB_TAIL}"


def grey(d: Path) -> str:
    png(d / "a", "x.png", Image.fromarray(picture()).convert("L"))
    write(d / "b", {"x.png": picture()})
    return f"error[E117]: DIR/a/x.png: mode is 'L', allowed: 'RGB'{RGB_TAIL}"


def sixteen_bits(d: Path) -> str:
    """A 48-bit PNG by hand: Pillow reads it as 8-bit RGB."""
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 64, 64, 16, 2, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + bytes(64 * 6) for _ in range(64)))
    (d / "a").mkdir()
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    (d / "a" / "x.png").write_bytes(content)
    write(d / "b", {"x.png": flat(0, 0, 0)})
    return f"error[E117]: DIR/a/x.png: has 16 bits a channel, allowed: 8{RGB_TAIL}"


def no_png(d: Path) -> str:
    write(d / "a", {"x.png": picture()})
    (d / "b").mkdir()
    (d / "b" / "x.png").write_bytes(b"not an image")
    return (
        "error[E117]: DIR/b/x.png: is no readable PNG (as Pillow says it)\n"
        "  try: save it as PNG in 8-bit RGB, without transparency\n"
    )


def cut_off(d: Path) -> str:
    for side in "ab":
        write(d / side, {"x.png": picture()})
    path = d / "b" / "x.png"
    path.write_bytes(path.read_bytes()[:2000])
    return (
        "error[E117]: DIR/b/x.png: is no readable PNG (as Pillow says it)\n"
        "  try: save it as PNG in 8-bit RGB, without transparency\n"
    )


@pytest.mark.parametrize(
    "case",
    [
        missing,
        file_and_folder,
        empty_folder,
        lacks_a_name,
        has_another_name,
        other_size,
        too_small,
        transparent,
        grey,
        sixteen_bits,
        no_png,
        cut_off,
    ],
)
def test_bad_images(run: Run, tmp_path: Path, case: Callable[[Path], str]) -> None:
    expected = case(tmp_path)
    out = tmp_path / "out.json"
    code, printed, err = run(f"dpubench metrics {tmp_path / 'a'} {tmp_path / 'b'} -o {out}")
    assert (code, printed) == (2, "")
    seen = re.sub(r"(is no readable PNG) \(.+\)", r"\1 (as Pillow says it)", err.replace(str(tmp_path), "DIR"))
    assert seen == expected
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--clip x", "error[E501]: --captions: is missing: --clip and --captions go together\n  try: see --help\n"),
        ("--captions x", "error[E501]: --clip: is missing: --clip and --captions go together\n  try: see --help\n"),
        (
            "--statistics x",
            "error[E501]: --inception: is missing: --statistics are of its features\n  try: see --help\n",
        ),
    ],
)
def test_options_that_go_together(run: Run, options: str, text: str) -> None:
    assert run(f"dpubench metrics a b {options}") == (2, "", text)


def test_help_asks_a_question_and_ends_with_two_examples(run: Run) -> None:
    code, out, _ = run("dpubench metrics --help")
    assert code == 0
    assert out.split("Usage:")[1].split("\n\n")[1].strip().endswith("?")
    assert out.count("\n    dpubench metrics ") == 2


@pytest.mark.parametrize("name", ["00.png", "new.png"])
def test_the_result_takes_no_image_s_place(run: Run, folders: tuple[Path, Path, Path], name: str) -> None:
    a, b, _ = folders
    before = {p.name: p.read_bytes() for p in a.iterdir()}
    for line in (f"{a} {b} -o {a / name}", f"{a / '00.png'} {b / '00.png'} -o {a / '00.png'}"):
        code, out, err = run(f"dpubench metrics {line}")
        assert (code, out) == (2, "")
        assert err == (
            f"error[E501]: --output: value is {line.split()[-1]}, which is an input or would be one\n"
            "  why: the result would take its place\n  try: choose another file\n"
        )
    assert {p.name: p.read_bytes() for p in a.iterdir()} == before


def test_an_image_of_too_many_pixels(monkeypatch: pytest.MonkeyPatch, run: Run, tmp_path: Path) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    path = write(tmp_path / "x", {"a.png": picture(64, 64, 0)}) / "a.png"
    code, _, err = run(f"dpubench metrics {path} {path}")
    assert code == 2
    assert err == (
        f"error[E117]: {path}: is too large to be read\n"
        "  why: Pillow reads at most 2,000 pixels\n  try: make a smaller image\n"
    )
