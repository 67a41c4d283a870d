"""All dialects in one place: the parsing context, and reading and printing modules as text."""

from __future__ import annotations

from importlib.util import find_spec
from io import StringIO
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.ir import Dialect
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from ..errors import DpuError
from .graph import GRAPH_OPS
from .tensor import TENSOR_OPS


def dialect() -> Dialect:
    """The dialect `dpu`: graph, quantised graph and tensor operations."""
    ops: list[type[Any]] = [*GRAPH_OPS, *TENSOR_OPS]
    if find_spec("dpu.ir.qgraph"):
        from .qgraph import QGRAPH_OPS

        ops += QGRAPH_OPS
    return Dialect("dpu", ops, [])


def context() -> Context:
    """A context that knows every operation of the project."""
    ctx = Context()
    for each in (Builtin, Func, dialect()):
        ctx.load_dialect(each)
    if find_spec("dpu.ir.tile"):
        from .tile import TILE

        ctx.load_dialect(TILE)
    return ctx


def parse_module(text: str, name: str = "<text>") -> ModuleOp:
    """Read a module from its text and verify it.

    Raises:
        DpuError: the text is no module, or breaks an operation's rules.
    """
    try:
        module = Parser(context(), text, name).parse_module()
        module.verify()
    except (ParseError, VerifyException) as e:
        raise DpuError(name, f"not a valid module\n{e}", hint="`dpuc passes` lists the operations", code="E201") from e
    return module


def print_module(module: ModuleOp, locations: bool = False) -> str:
    """The text of a module; with `locations`, each operation ends in the ONNX nodes it came from."""
    out = StringIO()
    Printer(stream=out, print_debuginfo=locations).print_op(module)
    return out.getvalue() + "\n"
