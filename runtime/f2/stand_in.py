"""Cards without cards: a library with the SDK's entry points over the Verilated custom logic (`standin/`).

The driver cannot tell it from the SDK but by the symbol `dpu_standin`, which makes its results `simulated`. It is built
on first use, like the RTL model, and set up through the environment.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ...errors import DpuError
from ...ir.arch import Arch
from ...rtl import toolchain
from ...rtl.f2 import build
from .sdk import SLOTS
from .settings import Settings

NAME = "stand-in"
IMAGE = "agfi-standin"
FOLDER = Path(__file__).parent / "standin"
FAULTS = "DPU_STANDIN_FAULTS"
"""Environment variable of what goes wrong; `standin/faults.hpp` has its form."""
STALL_SECONDS, COOL_SECONDS = 4e-3, 1e-2
"""Of the card's time, which passes a thousand times slower here."""


class StandIn:
    """`slots` cards with an image for `arch`; `settings` reach them, until `close`.

    `faults` is the list that `standin/faults.hpp` describes; `image` is what the slots have loaded at first; with
    `interrupts` they have event files. One at a time: the library is one, and reads its environment when it is opened.

    Raises:
        DpuError: E428, Verilator, a compiler or make is missing, or fails.
    """

    def __init__(
        self,
        arch: Arch,
        slots: int = 1,
        faults: str = "",
        image: str = IMAGE,
        interrupts: bool = True,
        settings: Settings | None = None,
    ) -> None:
        self.arch = arch
        logic = build.library(arch)
        library = _library(build.SIM)
        self._folder = Path(tempfile.mkdtemp(prefix="dpu-standin-"))
        pages, pagemap = self._folder / "pages", self._folder / "pagemap"
        pages.mkdir()
        (self._folder / "sys").mkdir()
        events = str(self._folder / "events{slot}")
        if interrupts:
            for slot in range(slots):
                os.mkfifo(events.format(slot=slot))
        given = {
            "DPU_STANDIN_LOGIC": str(logic),
            "DPU_STANDIN_SLOTS": str(slots),
            "DPU_STANDIN_IMAGE": image,
            "DPU_STANDIN_HUGEPAGES": str(pages),
            "DPU_STANDIN_PAGEMAP": str(pagemap),
            "DPU_STANDIN_EVENTS": events if interrupts else "",
            FAULTS: faults,
        }
        self._before = {name: os.environ.get(name) for name in given}
        os.environ |= given
        self.settings = replace(
            settings or Settings(stall_seconds=STALL_SECONDS),
            access="sdk",
            library=str(library),
            sysfs=self._folder / "sys",
            hugepages=pages,
            pagemap=pagemap,
            events=events,
        )

    def close(self) -> None:
        """Remove what it left behind; its cards must be closed."""
        shutil.rmtree(self._folder, ignore_errors=True)
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Lease:
    """A share in the stand-in of this process; slots take and release theirs at any time, each on its own thread."""

    def __init__(self, arch: Arch) -> None:
        global _shared, _leases
        with _lock:
            if _shared is None:
                given = {"DPU_F2_STALL_SECONDS": str(STALL_SECONDS), "DPU_F2_COOL_SECONDS": str(COOL_SECONDS)}
                settings = Settings.of({**given, **os.environ})
                _shared = StandIn(arch, SLOTS, os.environ.get(FAULTS, ""), settings=settings)
            if _shared.arch.digest != arch.digest:
                what = f"has cards of '{_shared.arch.name}' in this process, not of '{arch.name}'"
                raise DpuError(f"--card {NAME}", what, code="E501")
            _leases += 1
            self._held = True
            self.settings = _shared.settings

    def release(self) -> None:
        """Give it back; the last one closes the stand-in."""
        global _shared, _leases
        with _lock:
            if not self._held:
                return
            self._held = False
            _leases -= 1
            if not _leases and _shared is not None:
                _shared.close()
                _shared = None


_lock = threading.Lock()  # of the two below
_shared: StandIn | None = None
_leases = 0


def _library(headers: Path) -> Path:
    """The compiled library, from the cache or new.

    Raises:
        DpuError: E428, the compiler fails.
    """
    sources = sorted(FOLDER.glob("*.cpp"))
    compiler = toolchain.toolchain().compiler
    read = [*sources, *sorted(FOLDER.glob("*.hpp")), *sorted(headers.glob("*.h"))]
    digest = hashlib.sha256(toolchain.digest(read).encode() + toolchain.compiler_version().encode()).hexdigest()[:16]
    folder = toolchain.cache_folder() / "standin" / digest
    result = folder / "libfpga_mgmt.so"
    if result.is_file():
        return result
    folder.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder)
    os.close(handle)
    try:
        said = ["-std=gnu++20", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", f"-I{headers}"]
        toolchain.run([compiler, *said, *sources, "-o", temporary, "-ldl", "-pthread"], "compiling the stand-in")
        Path(temporary).replace(result)
    finally:
        with suppress(FileNotFoundError):
            Path(temporary).unlink()
    return result
