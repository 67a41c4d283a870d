"""`dpuc reduce` as one function: a text or a model and a failure to the smallest text that fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ..errors import DpuError
from ..files import atomic_write
from ..ir.arch import load_arch
from ..ir.dialects import parse_module, print_module
from .failures import CompileError, SeededWeights, Weights, compile_module, is_quantised, predicate
from .reduce_graph import reduce_module


def reduce_text(
    source: Path,
    when: str,
    arch: str,
    out: Path,
    part: str = "unet",
    shapes: Sequence[str] = (),
    size: tuple[int, int] = (0, 0),
    say: Callable[[int, int], None] | None = None,
) -> str:
    """Write the smallest module that still fails to `out`; what to print.

    Raises:
        DpuError: the input cannot be read, `when` names no failure, or the module does not fail.
    """
    description = load_arch(arch)
    if source.suffix == ".mlir":
        text = _read(source)
        module, locations = parse_module(text, str(source)), " loc(" in text
        weights: Weights = SeededWeights(module)
    else:
        module, weights = _import(source, part, shapes, size)
        locations = True
    fails = predicate(when, description, weights)
    if when.strip().startswith("sqnr") and is_quantised(module):
        why = "the float reference is the canonical graph"
        raise DpuError("--when sqnr", "needs a module before quantisation", why=why, code="E501")
    if not isinstance(fails, CompileError):
        # What does not compile at all says so here; during the search it only counts as another failure.
        _ = compile_module(module.clone(), description, weights)[0].program
    found = reduce_module(module, fails, say)
    with atomic_write(out) as temporary:
        temporary.write_text(print_module(found.module, locations), encoding="utf-8")
    return (
        f"{found.operations} of {found.before} operations left after {found.tries} tries\n"
        f"fails: {found.failure}\nwrote {out}"
    )


def _read(source: Path) -> str:
    try:
        return source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "not UTF-8 text"
        raise DpuError(str(source), f"cannot be read ({reason})", code="E107") from e


def _import(source: Path, part: str, shapes: Sequence[str], size: tuple[int, int]) -> tuple[ModuleOp, Weights]:
    """The canonical graph of a model, or its tensor graph where a pass refuses that."""
    from ..codegen.driver import latent_size
    from ..frontend.importer import import_onnx
    from ..frontend.part_shapes import part_shapes
    from ..passes.pipeline import FLOAT_PIPELINE, run_passes
    from .compiling import parse_shapes

    wanted = dict(parse_shapes(list(shapes)))
    onnx = source
    if source.is_dir():
        onnx, latent = source / part / "model.onnx", latent_size(source, size)
        given = {"sample": (2, 4, *latent)} if part == "unet" else part_shapes(onnx, latent)
        wanted = given | wanted
    module, store = import_onnx(onnx, shapes=wanted, part=part)
    canonical = module.clone()
    try:
        run_passes(canonical, FLOAT_PIPELINE)
    except DpuError:
        return module, store
    return canonical, store
