"""Worker processes of `dpubench quality`, one thread each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Task = TypeVar("Task")
Found = TypeVar("Found")


def each(work: Callable[[Task], Found], todo: Sequence[Task], jobs: int, ordered: bool = True) -> Iterator[Found]:
    """What `work` makes of each task, on at most `jobs` processes; in this one where a second has nothing to do.

    With `ordered` in the order of the tasks, else as they are done.
    """
    jobs = min(jobs, len(todo))
    if jobs <= 1:
        yield from map(work, todo)
        return
    from joblib import Parallel, delayed, parallel_config

    # One thread a process: tasks are independent, and many small products share threads badly.
    with parallel_config(backend="loky", n_jobs=jobs, inner_max_num_threads=1):
        pool = Parallel(return_as="generator" if ordered else "generator_unordered", batch_size=1)
        yield from pool(delayed(work)(t) for t in todo)


def gathered(
    work: Callable[[Task], Found], todo: Sequence[Task], jobs: int, progress: Callable[[int, int], None]
) -> list[Found]:
    """What `work` makes of each task, in order, on at most `jobs` processes; `progress` counts tasks."""
    found = []
    for one in each(work, todo, jobs):
        found.append(one)
        progress(len(found), len(todo))
    return found
