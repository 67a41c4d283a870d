"""What every command shares: errors without tracebacks, early checks of outputs, progress bars, size arguments."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import DpuError

if TYPE_CHECKING:
    import typer

EXIT_REFUSED = 2
DEBUG_HELP = "--debug, anywhere, shows the traceback of an error."


def new_app(help_text: str) -> typer.Typer:
    """An empty command in the project's style: plain help, no completion, own error handling."""
    import typer

    return typer.Typer(
        help=help_text,
        epilog=DEBUG_HELP,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


def run_app(app: typer.Typer, name: str) -> None:
    """Run a command and exit: 2 with the text of a `DpuError`, its traceback with `--debug` only."""
    # Before torch and ONNX Runtime are loaded: waiting threads that spin starve whoever shares the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # it warns about image packages that nothing here uses
    debug = "--debug" in sys.argv
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    try:
        app(args=arguments, prog_name=name)  # typer itself exits with 130 when interrupted, and when a pipe closes
    except DpuError as e:
        if debug:
            raise
        print(e.text(), file=sys.stderr)
        sys.exit(EXIT_REFUSED)


def check_output(path: Path | None, folder: bool = False) -> None:
    """Refuse an output that cannot be written, before any work; nothing is made yet.

    A `folder` may be missing together with its parents: whoever writes into it makes them.

    Raises:
        DpuError: the place does not exist, is no folder, or is not writable.
    """
    if path is None:
        return
    if not folder and path.is_dir():
        raise DpuError(str(path), "is a folder, expected a file name", hint=f"such as {path / 'FILE'}", code="E101")
    place = path if folder else path.parent
    while folder and not place.exists():
        place = place.parent
    if not place.exists():
        what = f"folder '{place}' does not exist"
    elif not place.is_dir():
        what = f"'{place}' is a file, expected a folder"
    elif not os.access(place, os.W_OK | os.X_OK):
        what = f"folder '{place}' is not writable"
    else:
        return
    raise DpuError(str(path), what, hint="choose an existing, writable folder", code="E101")


def parse_size(text: str | None) -> tuple[int, int]:
    """(height, width) of `WIDTHxHEIGHT` or of one side; (0, 0) without text.

    Raises:
        DpuError: it is neither.
    """
    if not text:
        return 0, 0
    sides = text.lower().split("x")
    if len(sides) > 2 or not all(s.isdecimal() and int(s) > 0 for s in sides):
        raise DpuError("--size", f"'{text}' is no size", hint="write it as 64x64, width first", code="E501")
    return int(sides[-1]), int(sides[0])


def say(line: str) -> None:
    """A line on standard error: how far long work is."""
    print(line, file=sys.stderr, flush=True)


def say_stage(line: str) -> None:
    """Name the stage of long work on standard error, if somebody is looking: logs and pipes get results alone."""
    if sys.stderr.isatty():
        say(f"... {line}")


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error, from the first call of what is yielded, with (done, total), on."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True))
    task = bar.add_task(label, total=None)

    def update(done: int, total: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield update
    finally:
        if bar.live.is_started:
            bar.stop()
