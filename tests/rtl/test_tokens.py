"""Semaphores, queues and tokens between tiles of the RTL."""

import pytest

from .runner import run_bench


def test_semaphores() -> None:
    run_bench("semaphores", None, "dpu_semaphores", {"Tiles": 3}, "test_dpu_tokens", ["semaphores"])


@pytest.mark.parametrize("depth", [1, 8])
def test_queue(depth: int) -> None:
    parameters = {"Depth": depth, "IsStore": 1}
    run_bench("queue", None, "dpu_queue", parameters, "test_dpu_tokens", ["queue"])


def test_remote() -> None:
    run_bench("remote", None, "dpu_remote", {"Tiles": 3, "Latency": 7}, "test_dpu_tokens", ["remote"])
