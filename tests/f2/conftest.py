"""Cards for the tests of the custom logic."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .cl_host import Host, fresh


@pytest.fixture
def host(rtl_tools: None) -> Iterator[Host]:
    found = fresh()
    yield found
    found.card.close()


@pytest.fixture(params=[0, 80], ids=["smooth", "pauses"])
def either(request: pytest.FixtureRequest, rtl_tools: None) -> Iterator[Host]:
    found = fresh(request.param, seed=5)
    yield found
    found.card.close()
