"""Collectors: which magnitude counts, from records of a calibration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from dpu.errors import DpuError
from dpu.ir.dialects import parse_module
from dpu.passes.calibration import Calibration
from dpu.passes.collectors import (
    BINS,
    Collected,
    Collector,
    edges,
    normal_square_of_maximum,
    parse_collector,
    percentile_of,
)
from dpu.runtime.float_interpreter import FloatInterpreter
from dpu.runtime.statistics import Statistics

LINEAR = """builtin.module { func.func @unet(%x: tensor<2x400x8xf32>) -> tensor<2x400x4xf32> {
  %w = dpu.param "w" : tensor<8x4xf32>
  %y = dpu.linear %x, %w : tensor<2x400x8xf32>, tensor<8x4xf32> -> tensor<2x400x4xf32>
  func.return %y : tensor<2x400x4xf32> } }"""
KEY = "unet/dpu.linear:x"


class Ones:
    def get(self, source: str, transform: Sequence[str] = ()) -> np.ndarray:
        return np.ones((8, 4), np.float16)


def bins_of(values: np.ndarray) -> np.ndarray:
    """The definition: which edges a magnitude lies between."""
    return np.clip(np.searchsorted(edges(), values.astype(np.float64), side="right") - 1, 0, BINS - 1)


def recorded(runs: Sequence[np.ndarray]) -> Calibration:
    module = parse_module(LINEAR)
    statistics, run = Statistics(module), FloatInterpreter(module, Ones())
    for x in runs:
        run.run("unet", {"x": x}, statistics.results, statistics.operands)
    return Calibration({}, statistics.tensors, "a test")


def test_collectors_of_three_runs() -> None:
    rng = np.random.default_rng(0)
    runs = [rng.standard_normal((2, 400, 8)).astype(np.float32) * s for s in (1, 2, 0.5)]
    base = recorded(runs)
    every = np.abs(np.concatenate(runs).ravel())
    assert Collected(base).absmax(KEY) == base.absmax(KEY) == every.max()
    mean = Collected(base, Collector("mean")).absmax(KEY)
    assert mean == pytest.approx(np.mean([np.abs(x).max() for x in runs]), rel=1e-6)
    for percent in (99.0, 99.9):
        found = Collected(base, Collector("percentile", percent)).absmax(KEY)
        assert found == pytest.approx(np.percentile(every, percent), rel=1 / 16)  # a bin is a sixteenth of an octave
        assert found < every.max()
    everything = Collected(base, Collector("percentile", 100 - 1e-9)).absmax(KEY)
    assert everything == pytest.approx(every.max(), rel=1 / 16) and everything <= every.max()
    result = "unet/dpu.linear:y"
    assert Collected(base, Collector("mean")).absmax(result) == base.absmax(result)  # exponents cover the maximum


@pytest.mark.parametrize("kind", ["absmax", "percentile", "mean"])
def test_a_smoothed_input_has_headroom_whatever_the_collector(kind: str) -> None:
    rng = np.random.default_rng(1)
    runs = [(rng.standard_normal((2, 400, 8)) * scale).astype(np.float32) for scale in (1, 2, 3)]
    factor = np.array([1, 2, 4, 1, 0.5, 1, 1, 8], np.float32)
    seen = Collected(recorded(runs), Collector(kind), {KEY: factor})  # type: ignore[arg-type]
    peaks = np.array([np.abs(x).max((0, 1)) for x in runs])
    covered = (2 * peaks.max(0) - peaks.mean(0)) / factor
    assert seen.absmax(KEY) == pytest.approx(covered.max(), rel=1e-5)
    np.testing.assert_allclose(seen.channel_absmax(KEY), peaks.max(0) / factor, rtol=1e-6)


def test_bins_are_sixteenths_of_octaves_and_the_observer_counts_in_them() -> None:
    limits = edges()
    assert len(limits) == BINS + 1 and (np.diff(limits) > 0).all()
    assert limits[0] == 0 and limits[1] == 2.0**-24 * (1 + 1 / 16) and limits[-1] == 2.0**40
    values = np.array([0, 1e-30, 2.0**-24, 0.99999, 1, 1.0624, 1.0625, 3.1, 65504, 2.0**39, 2.0**50], np.float32)
    at = bins_of(values)
    assert at.tolist() == [
        0,
        0,
        0,
        24 * 16 - 1,
        24 * 16,
        24 * 16,
        24 * 16 + 1,
        25 * 16 + 8,
        39 * 16 + 15,
        63 * 16,
        BINS - 1,
    ]
    statistics = Statistics(parse_module(LINEAR))
    statistics._count("k", torch.from_numpy(values))
    statistics._count("k", torch.from_numpy(values[:3]))
    expected = np.bincount(at, minlength=BINS) + np.bincount(at[:3], minlength=BINS)
    assert np.array_equal(statistics.tensors["k"], expected)


def test_percentiles_of_histograms() -> None:
    counts = np.zeros(BINS, np.int64)
    assert percentile_of(counts, 99.9, 7.0) == 7.0
    one = int(bins_of(np.ones(1, np.float32))[0])
    counts[one], counts[one + 16] = 75, 25
    assert percentile_of(counts, 75, 9.0) == 1 + 1 / 16  # the end of the bin
    assert percentile_of(counts, 60, 9.0) == 1 + 0.8 / 16
    assert percentile_of(counts, 87.5, 9.0) == 2 + 1 / 16
    assert percentile_of(counts, 99.9, 2.01) == 2.01


def test_models_of_normal_channels() -> None:
    rng = np.random.default_rng(3)
    sigma = np.array([1, 0.3, 4, 2.0])
    x = np.abs(rng.standard_normal((200_000, 4)) * sigma)
    assert normal_square_of_maximum(sigma) == pytest.approx(np.square(x.max(1)).mean(), rel=0.02)
    assert normal_square_of_maximum(np.zeros(3)) == 0


def test_names_of_collectors() -> None:
    assert parse_collector("absmax") == Collector()
    assert parse_collector("percentile") == parse_collector("percentile99.99") == Collector("percentile", 99.99)
    assert parse_collector("percentile99.9").text == "percentile99.9"
    assert parse_collector("percentile").text == parse_collector("percentile99.990").text == "percentile"
    with pytest.raises(DpuError) as e:
        parse_collector("median")
    assert e.value.text().splitlines() == [
        "error[E501]: --collector median: no such collector",
        "  try: one of absmax, mean, percentile (which is percentile99.99)",
    ]
    with pytest.raises(DpuError) as e:
        parse_collector("percentile100")
    assert e.value.text().splitlines() == [
        "error[E501]: --collector percentile100: 100 is not between 50 and 100",
        "  try: such as percentile99.9",
    ]


def test_old_files_are_refused() -> None:
    base = recorded([np.ones((2, 400, 8), np.float32)])
    old = Calibration({}, {k: v for k, v in base.tensors.items() if k.endswith("absmax")}, "old.safetensors")
    old.tensors.pop(f"{KEY}:mean_absmax")  # type: ignore[attr-defined]
    for kind, statistic in (("percentile", "counts"), ("mean", "mean_absmax")):
        with pytest.raises(DpuError) as e:
            Collected(old, Collector(kind)).absmax(KEY)  # type: ignore[arg-type]
        assert e.value.text().splitlines() == [
            f"error[E240]: old.safetensors: no statistic '{statistic}' for '{KEY}'",
            f"  why: --collector {kind} needs it, and an earlier version that did not record it made the file",
            "  try: calibrate again: dpuc calibrate DIR -o calib.safetensors",
        ]
    assert Collected(old).absmax(KEY) == 1
