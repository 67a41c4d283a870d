"""Everything here needs Verilator and a C++ compiler, and is skipped with the reason where they are not.

`--rtl-sources FOLDER` runs the benches with the SystemVerilog files of a folder in place of those of the same name:
`dpubench rtl-mutants` tries faults so. `--rtl-coverage FOLDER` writes counts of lines and toggles, for
`dpubench coverage`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from dpu.rtl import toolchain
from dpu.rtl.model import Model

from . import shared


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rtl-sources", default="", help="SystemVerilog files in place of those of the same name")
    parser.addoption("--rtl-coverage", default="", help="where counts of lines and toggles go, a file a model")


@pytest.fixture(scope="session", autouse=True)
def _tools(rtl_tools: None) -> None:
    pytest.importorskip("cocotb")


@pytest.fixture(scope="session", autouse=True)
def _sources(request: pytest.FixtureRequest) -> Iterator[None]:
    folder = request.config.getoption("--rtl-sources")
    if not folder:
        yield
        return
    given, found = sorted(Path(folder).glob("*.sv")), toolchain.sources

    def sources(*tops: str, extra: Sequence[Path] = ()) -> list[Path]:
        return found(*tops, extra=[*given, *extra])  # stand-ins of a test go before

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toolchain, "sources", sources)
        # A fault may leave bits unused, or widths unequal: it is to be run, not linted.
        patch.setattr(toolchain, "LINT", ("-Wno-lint", "-Wno-style", "--assert", "--no-timing"))
        yield


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
