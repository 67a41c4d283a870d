"""Everything here needs Verilator and a C++ compiler, and is skipped with the reason where they are not.

`--rtl-coverage FOLDER` writes counts of lines and toggles, for `dpubench coverage`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dpu.rtl.model import Model

from . import shared


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rtl-coverage", default="", help="where counts of lines and toggles go, a file a model")


@pytest.fixture(scope="session", autouse=True)
def _tools(rtl_tools: None) -> None:
    pytest.importorskip("cocotb")


@pytest.fixture(scope="session", autouse=True)
def _coverage(request: pytest.FixtureRequest) -> Iterator[None]:
    folder = request.config.getoption("--rtl-coverage")
    if not folder:
        yield
        return
    place, make, number = Path(folder).absolute(), Model.__init__, itertools.count()
    place.mkdir(parents=True, exist_ok=True)

    def counting(self: Model, *args: Any, **given: Any) -> None:
        kept = dict(zip(("arch", "waves", "checked", "stall", "seed", "extra", "coverage"), args, strict=False)) | given
        kept["coverage"] = place / f"dpu_top.{os.getpid()}.{next(number)}.dat"
        make(self, **kept)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared, "coverage", place)
        patch.setattr(Model, "__init__", counting)
        yield
