"""All dialects in one place: the parsing context, and reading and printing modules as text."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.ir import Dialect
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError

from ..errors import DpuError, reason
from .graph import GRAPH_OPS
from .locations import where
from .qgraph import QGRAPH_OPS
from .tensor import TENSOR_OPS
from .tile import TILE


def dialect() -> Dialect:
    """The dialect `dpu`: tensor operations, the canonical graph and the quantised one."""
    ops: list[type[Any]] = [*GRAPH_OPS, *QGRAPH_OPS, *TENSOR_OPS]
    return Dialect("dpu", ops, [])


def context() -> Context:
    """A context that knows every operation of the project."""
    ctx = Context()
    for each in (Builtin, Func, dialect(), TILE):
        ctx.load_dialect(each)
    return ctx


def parse_module(text: str, name: str = "<text>") -> ModuleOp:
    """Read a module from its text and verify it.

    Raises:
        DpuError: the text is no module, or breaks an operation's rules.
    """
    for found in _STRINGS.finditer(text):
        if found[0] == '"':  # said here: the lexer of xDSL tries every way to cut the rest of the line into pieces
            line, column = _position(text, found.start())
            what = "not a module (a string does not end on its line, or has an escape that does not exist)"
            raise DpuError(f"{name}:{line}:{column}", what, hint="start from a dump of --dump-passes", code="E201")
    try:
        module = Parser(context(), text, name).parse_module()
    except ParseError as e:
        line, column = _position(text, e.span.start)
        what = f"not a module ({' '.join(e.msg.split())})"
        raise DpuError(f"{name}:{line}:{column}", what, hint="start from a dump of --dump-passes", code="E201") from e
    except Exception as e:  # an attribute that refuses its content, or a depth that Python refuses
        what = f"not a module ({reason(e)})"
        raise DpuError(name, what, hint="start from a dump of --dump-passes", code="E201") from e
    verify(module, f"reading {name}")
    return module


_STRINGS = re.compile(r'"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"|//[^\n]*|"')
"""String literals and comments as xDSL knows them; a quote alone begins a string that is none."""


def _position(text: str, at: int) -> tuple[int, int]:
    """Line and column of a character, both from one."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def verify(module: ModuleOp, after: str) -> None:
    """Check every operation's rules.

    Raises:
        DpuError: one is broken; names the ONNX node, what went before and the rule.
    """
    try:
        module.verify()
    except Exception as e:  # VerifyException, or what a rule that unpacks a shape of another rank raises
        # Only now is it worth the time to ask each operation alone, which of them it is.
        for op in module.walk():
            try:
                op.verify(verify_nested_ops=False)
            except Exception as own:
                raise DpuError(where(op), f"after {after}: {op.name}: {_innermost(own)}", code="E204") from own
        raise DpuError("module", f"after {after}: {_innermost(e)}", code="E204") from e


def _innermost(error: BaseException) -> str:
    """The rule itself: xDSL wraps it into a print of the whole module."""
    while error.__cause__ is not None or error.__context__ is not None:
        inner = error.__cause__ or error.__context__
        assert inner is not None
        error = inner
    return str(error).strip()


def print_module(module: ModuleOp, locations: bool = False) -> str:
    """The text of a module; with `locations`, each operation ends in the ONNX nodes it came from."""
    out = StringIO()
    Printer(stream=out, print_debuginfo=locations).print_op(module)
    return out.getvalue() + "\n"
