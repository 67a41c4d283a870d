"""Who computes a sweep's estimates: processes of this machine, or a Ray cluster through joblib's Ray backend."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..errors import DpuError
from .sweep_work import Task, estimate

BACKENDS = ("local", "ray")
_WAVE = 4
"""Tasks of a Ray worker between two writes of the cache: joblib's Ray backend gives no results before all are there."""


def local(jobs: int = 0) -> Callable[[Sequence[Task]], Iterator[dict[str, Any]]]:
    """Processes of this machine; as many as it has cores for 0. A worker imports the graphs once, about 7 CPU s."""

    def estimates(tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
        from joblib import Parallel, delayed

        count = min(jobs or os.cpu_count() or 1, len(tasks))
        pool = Parallel(n_jobs=count, backend="loky", return_as="generator_unordered", batch_size=1)
        yield from pool(delayed(estimate)(t) for t in tasks)

    return estimates


def ray(address: str = "") -> Callable[[Sequence[Task]], Iterator[dict[str, Any]]]:
    """A Ray cluster at `address` (as `ray start` prints it; empty: that of RAY_ADDRESS, else one of this machine).

    Every node needs this package and, for `--model`, the folder at the same path.

    Raises:
        DpuError: ray is not installed, or there is no cluster at the address.
    """
    try:
        import ray as package
        from ray.util.joblib import register_ray
    except ImportError as e:
        what = f"ray cannot be imported ({e})"
        raise DpuError("--backend ray", what, hint="pip install 'dpu[ray]', or --backend local", code="E501") from e
    if not package.is_initialized():
        try:
            package.init(address=address or None, log_to_driver=False)
        except (ConnectionError, ValueError, RuntimeError) as e:
            what = f"no Ray cluster answers ({e})"
            raise DpuError(f"--address {address}", what, hint="ray start --head", code="E501") from e
    register_ray()

    def estimates(tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
        from joblib import Parallel, delayed, parallel_config

        count = min(int(package.cluster_resources().get("CPU", 1)), len(tasks))
        wave = _WAVE * count
        with parallel_config(backend="ray", n_jobs=count), Parallel(batch_size=1) as pool:
            for first in range(0, len(tasks), wave):
                yield from pool(delayed(estimate)(t) for t in tasks[first : first + wave])

    return estimates
