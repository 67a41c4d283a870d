"""Shared by all tests: quiet threads, no network, and one exported tiny pipeline for the whole run.

`--rtl-sources FOLDER` runs the benches with the SystemVerilog files of a folder in place of those of the same name:
`dpubench rtl-mutants` tries faults so.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dpu.runtime.xrt.device import XrtDevice

sys.path.append(str(Path(__file__).parents[1]))  # tests of one folder use helpers of another: tests.properties.harness

# Before torch is imported: spinning threads on shared cores make everything many times slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny seeded pipeline, exported once for all tests and workers. Read only."""
    from dpu.frontend.sdxl import export_tiny

    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    out = base / "tiny-exported"
    with (base / "tiny-exported.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        export_tiny(out)  # finished parts are kept, so the second worker only looks
    return out


@pytest.fixture(scope="session")
def rtl_tools() -> None:
    """Skips the test where the RTL cannot be built: the reason is the error that a user would read."""
    from dpu.errors import DpuError
    from dpu.rtl import toolchain

    try:
        toolchain.toolchain()
    except DpuError as e:
        pytest.skip(str(e))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rtl-sources", default="", help="SystemVerilog files in place of those of the same name")


@pytest.fixture(scope="session", autouse=True)
def _rtl_sources(request: pytest.FixtureRequest) -> Iterator[None]:
    folder = request.config.getoption("--rtl-sources")
    if not folder:
        yield
        return
    from dpu.rtl import toolchain

    given, found = sorted(Path(folder).glob("*.sv")), toolchain.sources

    def sources(*tops: str, extra: Sequence[Path] = ()) -> list[Path]:
        return found(*tops, extra=[*given, *extra])  # stand-ins of a test go before

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(toolchain, "sources", sources)
        # A fault may leave bits unused, or widths unequal: it is to be run, not linted.
        patch.setattr(toolchain, "LINT", ("-Wno-lint", "-Wno-style", "--assert", "--no-timing"))
        yield


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str], tuple[int, str, str]]:
    """Run a command line in this process: (exit code, standard output, standard error)."""
    from dpu.bench.cli import dpubench
    from dpu.runtime.cli import dpuc, dpurun

    def call(line: str) -> tuple[int, str, str]:
        command, *arguments = shlex.split(line)
        main = {"dpuc": dpuc.main, "dpurun": dpurun.main, "dpubench": dpubench.main}[command]
        monkeypatch.setattr(sys, "argv", [command, *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return call


@pytest.fixture
def pyxrt(rtl_tools: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The stand-in of XRT's Python module, imported as if it were installed."""
    monkeypatch.syspath_prepend(Path(__file__).parent / "xrt" / "stand_in")
    import pyxrt

    yield pyxrt
    sys.modules.pop("pyxrt", None)


@pytest.fixture
def xrt_device(pyxrt: Any, tmp_path: Path) -> Callable[..., XrtDevice]:
    """Opens dpu_tiny on the stand-in; arguments are those of `XrtDevice`."""
    from dpu.ir.arch import load_arch
    from dpu.runtime.xrt.device import XrtDevice

    image = tmp_path / "tiny.xclbin"
    image.write_text(json.dumps({"arch": "dpu_tiny"}))
    return lambda **given: XrtDevice(load_arch("dpu_tiny"), image, **given)
