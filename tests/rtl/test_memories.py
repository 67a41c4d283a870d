"""FIFOs and scratchpads of the RTL."""

import pytest

from .runner import run_bench


@pytest.mark.parametrize("depth", [1, 5])
def test_fifo(depth: int) -> None:
    run_bench("fifo", None, "dpu_fifo", {"Width": 32, "Depth": depth}, "test_dpu_memories", ["fifo"])


@pytest.mark.parametrize(("words", "banks"), [(64, 2), (50, 3)])
def test_scratchpad(words: int, banks: int) -> None:
    parameters = {"Words": words, "WordBits": 40, "Banks": banks}
    run_bench("scratchpad", None, "dpu_scratchpad", parameters, "test_dpu_memories", ["scratchpad"])


@pytest.mark.parametrize(("words", "lanes"), [(64, 4), (50, 8)])
def test_param(words: int, lanes: int) -> None:
    run_bench("param", None, "dpu_param", {"Words": words, "Lanes": lanes}, "test_dpu_memories", ["param"])
