"""An iterator that runs ahead in a thread of its own, by a few items: what makes them and what uses them take a core
each, where both spend their time outside the interpreter (compiled kernels, hashing, writing)."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from queue import Full, Queue
from typing import TypeVar

T = TypeVar("T")
_PATIENCE = 0.1  # seconds between looks at whether anybody still wants the items


def ahead(items: Iterable[T], depth: int = 4) -> Iterator[T]:
    """The same items in the same order, up to `depth` of them made before they are asked for.

    An exception of `items` is raised here, where its item would have come. When this iterator is closed, the thread
    ends after the item that it is making.
    """
    ready: Queue[tuple[T] | BaseException | None] = Queue(depth)
    unwanted = threading.Event()

    def put(item: tuple[T] | BaseException | None) -> bool:
        while not unwanted.is_set():
            try:
                ready.put(item, timeout=_PATIENCE)
                return True
            except Full:
                continue
        return False

    def make() -> None:
        try:
            for item in items:
                if not put((item,)):
                    return
            put(None)
        except BaseException as e:
            put(e)

    thread = threading.Thread(target=make, name="ahead", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item[0]
    finally:
        unwanted.set()
        thread.join()
