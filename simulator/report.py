"""The report of a timed program: `report.json`, a self-contained `report.html`, `roofline.png`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import DpuError, reason
from ..files import atomic_write
from .profile import Report
from .report_page import report_page
from .roofline import roofline_png

FORMAT: Literal["dpu-report-2"] = "dpu-report-2"


class ProgramReport(BaseModel):
    """One run of each timed entry point of a program, in the program's order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["dpu-report-2"] = FORMAT
    arch: str
    arch_digest: str
    provenance: Literal["simulated"] = "simulated"
    entries: tuple[Report, ...]

    @classmethod
    def of(cls, entries: Sequence[Report]) -> ProgramReport:
        """Of entries of one program."""
        return cls(
            arch=entries[0].arch if entries else "",
            arch_digest=entries[0].arch_digest if entries else "",
            entries=tuple(entries),
        )


def report_html(report: ProgramReport) -> str:
    """One page without external assets."""
    return report_page(report.entries)


def write_report(report: ProgramReport, folder: Path | str) -> None:
    """Write the three files into `folder` (created if its parent exists), each atomically.

    Raises:
        DpuError: the folder cannot be written.
    """
    folder = Path(folder)
    make_folder(folder)
    with atomic_write(folder / "report.json") as path:
        path.write_text(report.model_dump_json(indent=1) + "\n", encoding="utf-8")
    with atomic_write(folder / "report.html") as path:
        path.write_text(report_html(report), encoding="utf-8")
    with atomic_write(folder / "roofline.png") as path:
        path.write_bytes(roofline_png(report.entries))


def make_folder(folder: Path, parents: bool = False) -> None:
    """Make a folder for results if it is missing.

    Raises:
        DpuError: it cannot be made.
    """
    try:
        folder.mkdir(parents=parents, exist_ok=True)
    except OSError as e:
        raise DpuError(str(folder), f"cannot create the folder ({e.strerror})", code="E101") from e


def load_report(path: Path | str) -> ProgramReport:
    """A `report.json`, or the one in a folder.

    Raises:
        DpuError: there is none, or it is no report of this version.
    """
    path = Path(path)
    file = path / "report.json" if path.is_dir() else path
    if not file.is_file():
        raise DpuError(str(file), "no such report", code="E106", hint="write it: dpuc report PROGRAM -o DIR")
    try:
        return ProgramReport.model_validate_json(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as e:
        raise DpuError(str(file), f"cannot be read ({reason(e)})", code="E306") from e
    except ValidationError as e:
        first = e.errors()[0]
        field = ".".join(map(str, first["loc"]))
        place = f"field '{field}': " if field else ""
        raise DpuError(str(file), f"no report of this version ({place}{first['msg']})", code="E306") from e
