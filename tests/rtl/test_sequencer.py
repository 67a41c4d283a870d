"""Fetch, dispatch, queues and semaphores of a tile together."""

from .runner import run_bench


def test_sequencer() -> None:
    queues = {"LoadQueue": 16, "MxuQueue": 8, "VpuQueue": 5, "StoreQueue": 1}
    run_bench("sequencer", None, "dpu_sequencer", {"Tiles": 3, "RemoteLatency": 9, **queues}, "test_dpu_sequencer")
