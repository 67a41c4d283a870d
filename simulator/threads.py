"""The threads among which a large word's rows are shared. No result depends on their number."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

R = TypeVar("R")


def _allowed() -> int:
    named = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return max(1, int(named)) if named.isdigit() else len(os.sched_getaffinity(0))


_count = _allowed()


def count() -> int:
    """Threads in use, this one included: OMP_NUM_THREADS, or the processor's that this process may use."""
    return _count


def limit(threads: int) -> None:
    """Use so many threads from now on."""
    global _count
    _count = max(1, threads)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(64, "dpu")  # starts them as they are needed


def submit(f: Callable[..., R], *args: Any) -> Future[R]:
    """Begin `f` in another thread."""
    return _pool().submit(f, *args)
