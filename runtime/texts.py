"""Modules as text: importing an ONNX file and running passes on a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import DpuError
from ..files import atomic_write


def optimise(source: Path, passes: Sequence[str], out: Path | None) -> None:
    """Run `passes` on the module in `source`; the result goes to `out` or to standard output.

    It names ONNX nodes if `source` does.

    Raises:
        DpuError: the file is no module, a pass does not exist, or it refuses the module.
    """
    from ..ir.dialects import parse_module, print_module
    from ..passes.pipeline import run_passes

    try:
        text = source.read_text()
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "not UTF-8 text"
        raise DpuError(str(source), f"cannot be read ({reason})", code="E107") from e
    module = parse_module(text, str(source))
    run_passes(module, passes)
    _write(print_module(module, locations=" loc(" in text), out)


def import_text(
    model: Path,
    shapes: Sequence[str],
    passes: bool,
    part: str,
    out: Path | None,
    dump_dir: Path | None,
    locations: bool = False,
) -> None:
    """The text of an ONNX file as a module, after the float passes if asked for; weights may be absent.

    Raises:
        DpuError: the file cannot be imported.
    """
    from ..frontend.importer import import_onnx
    from ..ir.dialects import print_module
    from ..passes.pipeline import FLOAT_PIPELINE, run_passes
    from .compiling import parse_shapes

    if dump_dir is not None and not passes:
        raise DpuError("--dump-passes", "there are no passes to dump", hint="add --passes", code="E501")
    module, _ = import_onnx(model, shapes=parse_shapes(list(shapes)), part=part, weights="absent")
    if passes:
        run_passes(module, FLOAT_PIPELINE, dump_dir)
    _write(print_module(module, locations), out)


def _write(text: str, out: Path | None) -> None:
    if out is None:
        print(text, end="")
        return
    with atomic_write(out) as temporary:
        temporary.write_text(text)
