"""Constants are made while they are written: the same bytes as in memory, in little memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dpu.bench.memory import measure, write_model
from dpu.codegen.dpufile import load
from dpu.codegen.driver import Compiled, compile_onnx
from dpu.ir.arch import load_arch
from dpu.passes.calibration import Calibration
from dpu.passes.lower.constants import ConstantsImage

FIXED = 150e6
"""Bytes that a compilation takes whatever the size of its weights: the IR of these models, blocks of 16 MB."""


def _compiled(folder: Path) -> Compiled:
    path = write_model(folder, 3, 96, tokens=5, sparse=False)
    return compile_onnx(path, "chain", load_arch("dpu_tiny"), {}, Calibration({}, {}))


def test_a_written_program_has_the_bytes_of_one_in_memory(tmp_path: Path) -> None:
    inside = _compiled(tmp_path / "a").program
    written = _compiled(tmp_path / "b")
    written.emitted.save(tmp_path / "b.dpu")
    assert inside.constants.nbytes > 3 * 96 * 96
    assert np.array_equal(inside.constants, load(tmp_path / "b.dpu").constants)
    assert np.array_equal(written.program.constants, inside.constants)  # a view of the file
    assert not written.program.constants.flags.writeable


def test_every_constant_is_made_once_and_in_order(tmp_path: Path) -> None:
    compiled = _compiled(tmp_path)
    made: list[int] = []
    image = compiled.emitted.image
    assert image is not None

    def noted(offset: int, make):
        def run():
            made.append(offset)
            return make()

        return offset, run

    compiled.emitted.image = ConstantsImage(image.size, tuple(noted(*place) for place in image.places))
    compiled.emitted.save(tmp_path / "a.dpu")
    assert made == sorted(offset for offset, _ in image.places)


def test_gaps_are_zero_and_overlaps_an_error() -> None:
    one = np.full(4, 7, np.uint8)
    image = ConstantsImage(16, ((8, lambda: [one[:2], one[2:]]), (2, lambda: [one])))
    assert image.array().tolist() == [0, 0, 7, 7, 7, 7, 0, 0, 7, 7, 7, 7, 0, 0, 0, 0]
    with pytest.raises(ValueError, match="overlap"):
        ConstantsImage(16, ((0, lambda: [one]), (2, lambda: [one]))).array()


def test_memory_does_not_grow_with_the_model() -> None:
    """200 MB of weights in a process of its own."""
    found = measure(layers=6, width=4096)
    assert found.model_bytes > 200e6
    assert found.growth < 2 * found.largest_tensor_bytes + FIXED, found.text()


@pytest.mark.slow
def test_a_model_of_2_5_gb_compiles_in_3_gb() -> None:
    found = measure()
    assert found.model_bytes > 2.5e9
    assert found.anonymous_peak < 3e9, found.text()
