"""Frechet distance against closed forms; the FID's Inception against pytorch-fid's values; statistics files."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from dpu.bench.metrics import inception
from dpu.bench.metrics.frechet import Gaussian, frechet_distance, read_statistics
from dpu.errors import DpuError

from tests.bench.metrics_images import picture
from tests.bench.metrics_inception import hashed_weights


def gaussian(mean: list[float], covariance: list[list[float]]) -> Gaussian:
    return Gaussian(np.array(mean, float), np.array(covariance, float))


def random_gaussian(seed: int, d: int) -> Gaussian:
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((d, d))
    return Gaussian(rng.standard_normal(d), root @ root.T)


def test_one_dimension() -> None:
    """(m1 - m2)^2 + (s1 - s2)^2: N(1, 4) and N(4, 25) give 9 + 9."""
    assert frechet_distance(gaussian([1], [[4]]), gaussian([4], [[25]])) == pytest.approx(18, abs=1e-12)


def test_diagonal_covariances() -> None:
    a, b = gaussian([0, 1, 2], np.diag([1.0, 4, 9]).tolist()), gaussian([0, 0, 0], np.diag([16.0, 4, 1]).tolist())
    assert frechet_distance(a, b) == pytest.approx(5 + (1 - 4) ** 2 + 0 + (3 - 1) ** 2, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_two_dimensions_that_do_not_commute(seed: int) -> None:
    """Of a 2 x 2 product with eigenvalues p, q: (sqrt p + sqrt q)^2 = p + q + 2 sqrt(pq) = trace + 2 sqrt(det)."""
    a, b = random_gaussian(seed, 2), random_gaussian(seed + 50, 2)
    product = a.covariance @ b.covariance
    assert not np.allclose(product, product.T)
    root = sqrt(np.trace(product) + 2 * sqrt(np.linalg.det(product)))
    apart = a.mean - b.mean
    truth = apart @ apart + np.trace(a.covariance) + np.trace(b.covariance) - 2 * root
    assert frechet_distance(a, b) == pytest.approx(truth, abs=1e-9)


def test_covariances_of_rank_one() -> None:
    """uu' and vv' share |u . v|: what fewer images than dimensions look like."""
    u, v = np.array([1.0, 2, 3, 0]), np.array([2.0, 0, 1, 1])
    a, b = Gaussian(np.zeros(4), np.outer(u, u)), Gaussian(np.zeros(4), np.outer(v, v))
    assert frechet_distance(a, b) == pytest.approx(14 + 6 - 2 * 5, abs=1e-6)  # roots of rounding errors of 1e-15


def test_properties() -> None:
    a, b = random_gaussian(1, 30), random_gaussian(2, 30)
    assert frechet_distance(a, a) == pytest.approx(0, abs=1e-9)
    assert frechet_distance(a, b) == pytest.approx(frechet_distance(b, a), rel=1e-12)
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((30, 30)))[0]
    turned = [Gaussian(turn @ g.mean, turn @ g.covariance @ turn.T) for g in (a, b)]
    assert frechet_distance(*turned) == pytest.approx(frechet_distance(a, b), rel=1e-10)
    scaled = [Gaussian(3 * g.mean, 9 * g.covariance) for g in (a, b)]
    assert frechet_distance(*scaled) == pytest.approx(9 * frechet_distance(a, b), rel=1e-10)


def test_a_sample_has_its_mean_and_covariance() -> None:
    """n - 1 in the denominator: three points on a line, by hand."""
    found = Gaussian.of(np.array([[0.0, 0], [1, 2], [2, 4]]))
    assert found.mean.tolist() == [1, 2]
    assert found.covariance == pytest.approx(np.array([[1, 2], [2, 4]]), abs=1e-14)


def test_fewer_rows_than_dimensions_take_a_shorter_way_to_the_same_distance() -> None:
    """The sample's own factor against the symmetric root of its covariance. The long way takes roots of eigenvalues
    that should be 0 and are rounding errors of eps |C1| |C2|; there are 33, and each counts twice."""
    rng = np.random.default_rng(4)
    few, more = Gaussian.of(rng.standard_normal((8, 40))), Gaussian.of(1 + rng.standard_normal((90, 40)))
    assert few.factor is not None and more.factor is None
    long_way = frechet_distance(Gaussian(few.mean, few.covariance), more)
    norms = np.linalg.norm(few.covariance, 2) * np.linalg.norm(more.covariance, 2)
    rounding = 2 * 33 * sqrt(np.finfo(float).eps * norms)
    assert rounding < 1e-5
    for a, b in ((few, more), (more, few)):
        assert frechet_distance(a, b) == pytest.approx(long_way, abs=rounding)
    assert frechet_distance(few, few) == pytest.approx(0, abs=1e-9)


def test_large_samples_approach_the_distance_of_their_laws() -> None:
    """20,000 of N(0, I) and N(m, 4I) in 4 dimensions: |m|^2 + 4 (1 - 2)^2 = 5; means and deviations of the samples are
    good to 1 to 2 parts in sqrt(20,000) = 141, and enter about twice: within 0.15."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20_000, 4)), 2 * rng.standard_normal((20_000, 4)) + [1, 0, 0, 0]
    assert frechet_distance(Gaussian.of(x), Gaussian.of(y)) == pytest.approx(5, abs=0.15)


# -- Inception ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def weight_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state dict of the right architecture with hashed numbers."""
    path = tmp_path_factory.mktemp("inception") / "inception.pth"
    torch.save(hashed_weights({k: v.shape for k, v in inception.Inception().state_dict().items()}), path)
    return path


def test_inception_is_that_of_pytorch_fid(weight_file: Path) -> None:
    """Features that pytorch-fid 0.3.0 with torchvision 0.28.0 gives with the same weights for the same image (equal in
    all bits on the machine where they were taken; elsewhere float32 sums differ in the fifth digit)."""
    found = inception.load(weight_file).features(picture(96, 64))
    peer = [0.45333051681518555, 6.142814636230469, 9.047635078430176, 9.709084510803223, 0.9592422842979431]
    assert found.shape == (2048,) and found.dtype == np.float64
    assert found[:5] == pytest.approx(peer, rel=1e-3)
    assert found.argmax() == 1950 and found.max() == pytest.approx(23.234535217285156, rel=1e-3)
    assert found.sum() == pytest.approx(5094.773632294171, rel=1e-4)


def test_inception_has_the_published_shape() -> None:
    """23,850,960 parameters with 1,008 classes, 566 tensors, as torchvision's with pytorch-fid's blocks."""
    network = inception.Inception()
    assert sum(p.numel() for p in network.parameters()) == 23_850_960
    assert len(network.state_dict()) == 566


def test_other_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.pth"
    with pytest.raises(DpuError) as e:
        inception.load(path)
    assert str(e.value) == (f"error[E106]: {path}: no such file\n  try: give pt_inception-2015-12-05-6726825d.pth")
    path.write_bytes(b"nothing")
    with pytest.raises(DpuError) as e:
        inception.load(path)
    assert str(e.value) == (
        f"error[E112]: {path}: holds no weights of the FID's Inception-V3 (it is no file of tensors)\n"
        "  try: give pt_inception-2015-12-05-6726825d.pth, as pytorch-fid published it"
    )
    torch.save({"fc.weight": torch.zeros(1)}, path)
    with pytest.raises(DpuError, match=r"Missing key\(s\) in state_dict"):
        inception.load(path)


# -- statistics --------------------------------------------------------------------------------------------------------


def test_statistics_files(tmp_path: Path) -> None:
    path = tmp_path / "val.npz"
    with pytest.raises(DpuError) as e:
        read_statistics(path)
    assert str(e.value) == (f"error[E106]: {path}: no such file\n  try: give val2014.npz of MLPerf's text_to_image")
    np.savez(path, mu=np.zeros(4), sigma=np.eye(4))
    with pytest.raises(DpuError) as e:
        read_statistics(path)
    assert str(e.value) == (
        f"error[E112]: {path}: holds no statistics (mu and sigma are (4,) and (4, 4), expected 2048 dimensions)\n"
        "  try: give an NPZ file with mu and sigma"
    )
    np.savez(path, mu=np.arange(2048.0), sigma=np.eye(2048, dtype=np.float32))
    found = read_statistics(path)
    assert found.mean[-1] == 2047 and found.covariance.dtype == np.float64
