"""An iterator that runs ahead in a thread gives the same items, errors included, and ends when nobody wants more."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from dpu.codegen.ahead import ahead


def test_items_come_in_order() -> None:
    assert list(ahead(range(100), depth=2)) == list(range(100))
    assert list(ahead([])) == []


def test_an_error_comes_where_its_item_would() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise KeyError("two")

    seen: list[int] = []
    with pytest.raises(KeyError, match="two"):
        seen.extend(ahead(broken()))
    assert seen == [1]


def test_the_thread_ends_with_its_user() -> None:
    made: list[int] = []

    def endless() -> Iterator[int]:
        while True:
            made.append(len(made))
            yield made[-1]

    items = ahead(endless(), depth=2)
    assert next(items) == 0
    items.close()
    count = len(made)
    assert count <= 5
    assert "ahead" not in {t.name for t in threading.enumerate()}
