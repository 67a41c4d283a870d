"""Seeded faults in the SystemVerilog: sites from slang's syntax trees, all faults of a draw in one copy of the source.

A site's expression E becomes `((dpu_mutant_pkg::Id == n) ? (E with the fault) : (E))`. Id is read from a file when a
model is made, so one build serves every fault, and with 0 the copy is the design.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..rtl import toolchain
from ..rtl.f2.build import SIM
from ..rtl.f2.build import TOP as CARD
from ..rtl.model import KERNEL, TOP

OPERATORS = {
    "operator": "another operator: + for -, & for |, < for <=, == for !=, && for ||",
    "off by one": "a constant of a sum, difference or comparison one larger",
    "back-pressure": "a ready, room or credit that is always there",
    "stuck enable": "the condition of a register's update always or never true",
    "reset": "a register that comes out of reset with all bits set",
    "swap": "operands of a difference, comparison or shift, or the sides of a choice, exchanged",
    "lost carry": "+ without carries",
    "early": "a conjunct missing in what says done, last, valid or start",
    "lost update": "a register that keeps its value",
    "negated": "a condition the other way round",
}
"""Name, and what it does."""

FROZEN = {"dpu_isa_pkg", "dpu_tables_pkg", "dpu_pkg", "dpu_mxu_pkg"}
"""Generated, types only, or functions of elaboration: no expression of theirs is evaluated while hardware runs."""

_CONSTANT_FUNCTIONS = {"crc_rows"}
_SWAPS = {
    "+": "-", "-": "+", "&": "|", "|": "&", "&&": "||", "||": "&&", "==": "!=", "!=": "==", "<": "<=", "<=": "<",
    ">": ">=", ">=": ">", "<<": ">>", ">>": "<<", "^": "|", "*": "+",
}  # fmt: skip
_TURNED = {"-", "<", "<=", ">", ">=", "<<", ">>"}
_FLOW = ("ready", "room", "fit", "credit", "granted", "space")
_EARLY = ("done", "last", "valid", "start", "take", "end", "idle", "quiet", "finish", "retire", "load", "move")

# Kinds of nodes that nothing below is taken from.
_CLOSED = (
    "Parameter", "VariableDimension", "Assertion", "AssertProperty", "Event", "FunctionPrototype", "HierarchyInstan",
    "ModuleHeader", "DataDeclaration", "Typedef", "NetDeclaration", "ElementSelect", "Selector", "RangeSelect",
    "Genvar", "PackageImport", "ImmediateAssert", "AssignmentPattern",
)  # fmt: skip


@dataclass(frozen=True)
class Site:
    """A place where a fault fits: bytes `start` to `end` of a file."""

    module: str
    operator: str
    line: int
    start: int
    end: int
    before: str
    after: str


@dataclass(frozen=True)
class Mutant:
    """A fault and its number."""

    id: int
    site: Site


def _text(source: str, node: Any) -> str:
    r = node.sourceRange
    return source[r.start.offset : r.end.offset]


class _Finder:
    """Walks one file's tree."""

    def __init__(self, module: str, source: str) -> None:
        from pyslang.syntax import SyntaxNode, SyntaxTree

        self.node, self.module, self.source = SyntaxNode, module, source
        self.tree = SyntaxTree.fromText(source, module)
        self.sites: list[Site] = []

    def run(self) -> list[Site]:
        self._walk(self.tree.root, clocked=False, reset=False)
        return self.sites

    def _add(self, operator: str, node: Any, after: str) -> None:
        r = node.sourceRange
        start, end = r.start.offset, r.end.offset
        line = self.source.count("\n", 0, start) + 1
        self.sites.append(Site(self.module, operator, line, start, end, self.source[start:end], after))

    def _children(self, node: Any) -> Iterator[Any]:
        return (node[i] for i in range(len(node)) if isinstance(node[i], self.node))

    def _walk(self, node: Any, clocked: bool, reset: bool) -> None:
        kind = node.kind.name
        if any(k in kind for k in _CLOSED):
            return
        if kind == "FunctionDeclaration" and any(f" {n}(" in _text(self.source, node) for n in _CONSTANT_FUNCTIONS):
            return
        clocked |= kind == "AlwaysFFBlock"
        if kind == "ConditionalStatement":
            self._conditional(node, clocked, reset)
        elif kind in ("AssignmentExpression", "NonblockingAssignmentExpression"):
            self._assignment(node, clocked, reset)
        else:
            self._expression(node, kind)
            for child in self._open(node, kind):
                self._walk(child, clocked, reset)

    def _open(self, node: Any, kind: str) -> Iterable[Any]:
        """The children that are evaluated while hardware runs."""
        only = {
            "LoopGenerate": "block",
            "ForLoopStatement": "statement",
            "CastExpression": "right",
            "MultipleConcatenationExpression": "concatenation",
            "StandardCaseItem": "clause",
            "DefaultCaseItem": "clause",
        }
        if kind == "IfGenerate":
            return [x for x in (node.block, node.elseClause) if x is not None]
        return [getattr(node, only[kind])] if kind in only else self._children(node)

    def _conditional(self, node: Any, clocked: bool, reset: bool) -> None:
        predicate = _text(self.source, node.predicate)
        is_reset = clocked and predicate.strip() in ("!rst_ni", "!rst")
        if not is_reset:
            if clocked:
                self._add("stuck enable", node.predicate, "1'b0" if len(self.sites) % 2 else "1'b1")
            self._add("negated", node.predicate, f"!({predicate})")
            self._walk(node.predicate, clocked, reset)
        self._walk(node.statement, clocked, is_reset or reset)
        if node.elseClause is not None:
            self._walk(node.elseClause, clocked, reset)

    def _assignment(self, node: Any, clocked: bool, reset: bool) -> None:
        left, value = _text(self.source, node.left), node.right
        text = _text(self.source, value)
        plain = "'{" not in text
        if reset:
            if text in ("'0", "1'b0"):
                self._add("reset", value, "'1" if text == "'0" else "1'b1")
            return
        if clocked and plain and node.kind.name.startswith("Nonblocking") and "{" not in left:
            self._add("lost update", value, left)
        name = left.split("[")[0].split(".")[0].strip()
        if any(k in name for k in _EARLY) and value.kind.name in ("BinaryAndExpression", "LogicalAndExpression"):
            part = value.left if len(self.sites) % 2 else value.right
            self._add("early", value, _text(self.source, part))
        self._walk(value, clocked, reset)

    def _expression(self, node: Any, kind: str) -> None:
        if hasattr(node, "operatorToken") and hasattr(node, "left") and hasattr(node, "right"):
            left, right = (_text(self.source, x) for x in (node.left, node.right))
            op = node.operatorToken.valueText
            if op in _SWAPS:
                self._add("operator", node, f"({left}) {_SWAPS[op]} ({right})")
            if op == "+":
                self._add("lost carry", node, f"({left}) ^ ({right})")
            if op in _TURNED:
                self._add("swap", node, f"({right}) {op} ({left})")
            for side in (node.left, node.right):
                if op in ("+", "-", "==", "!=", "<", "<=", ">", ">=") and _is_constant(_text(self.source, side)):
                    self._add("off by one", side, f"({_text(self.source, side)}) + 1'b1")
        elif kind == "ConditionalExpression":
            yes, no = _text(self.source, node.left), _text(self.source, node.right)
            if "'{" not in yes + no:
                self._add("swap", node, f"{_text(self.source, node.predicate)} ? ({no}) : ({yes})")
        elif kind in ("IdentifierName", "IdentifierSelectName"):
            text = _text(self.source, node)
            if any(k in text.split("[")[0] for k in _FLOW):
                self._add("back-pressure", node, "'1")


def _is_constant(text: str) -> bool:
    """A number, or one in a cast: 1, 16'd1, PtrW'(1)."""
    inner = text.strip()
    if "'(" in inner and inner.endswith(")"):
        inner = inner.split("'(", 1)[1][:-1]
    return inner.replace("'", "").replace("d", "").replace("h", "").isalnum() and inner[:1].isdigit()


def sites(module: str, source: str) -> list[Site]:
    """All places of a file where a fault of one of `OPERATORS` fits."""
    found = _Finder(module, source).run()
    return [s for s in found if s.before.strip() != s.after.strip()]


def around() -> list[Path]:
    """Files of the modules that put the tiles on a card, F2 or Alveo, but for the models of shell and memory."""
    design, found = toolchain.sources(TOP), [*toolchain.sources(CARD), *toolchain.sources(KERNEL)]
    return [p for p in found if p not in design and SIM not in p.parents]


def everything() -> list[Path]:
    """Files of the modules that faults are drawn in: the tiles', then those around them."""
    return [*toolchain.sources(TOP), *around()]


def draw(seed: int, each: int, modules: Sequence[str] = ()) -> list[Mutant]:
    """`each` faults of every module, of the operators that were drawn least so far.

    No two overlap. A module with fewer sites has fewer.
    """
    rng, used = np.random.default_rng(seed), Counter[str]()
    found: list[Mutant] = []
    for path in everything():
        if path.stem in FROZEN or (modules and path.stem not in modules):
            continue
        left = sites(path.stem, path.read_text())
        taken: list[Site] = []
        while left and len(taken) < each:
            least = min(used[s.operator] for s in left)
            some = [s for s in left if used[s.operator] == least]
            one = some[int(rng.integers(len(some)))]
            used[one.operator] += 1
            taken.append(one)
            left = [s for s in left if s.end <= one.start or s.start >= one.end]
        found += [Mutant(len(found) + 1 + i, s) for i, s in enumerate(sorted(taken, key=lambda s: s.start))]
    return found


def write(mutants: Sequence[Mutant], folder: Path) -> list[Path]:
    """Copies of the files that have faults, and the package that says which fault is on; their paths.

    The number of the fault is read from `folder`/id, 0 without that file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    by_module: dict[str, list[Mutant]] = {}
    for m in mutants:
        by_module.setdefault(m.site.module, []).append(m)
    files = {p.stem: p for p in everything()}
    written = [_put(folder / "dpu_mutant_pkg.sv", _PACKAGE.replace("FILE", str(folder / "id")))]
    for module, some in by_module.items():
        text = files[module].read_text()
        for m in sorted(some, key=lambda m: -m.site.start):
            s = m.site
            changed = f"((dpu_mutant_pkg::Id == 32'd{m.id}) ? ({s.after}) : ({s.before}))"
            text = text[: s.start] + changed + text[s.end :]
        written.append(_put(folder / f"{module}.sv", text))
    return written


def _put(path: Path, text: str) -> Path:
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)
    return path


_PACKAGE = """// Which fault is on: read from a file when the model is made.

// A fault that is off may still close a loop of wires that nothing ever goes around: not optimised, but no error.
`verilator_config
lint_off -rule UNOPTFLAT
`verilog

package dpu_mutant_pkg;
  function automatic int unsigned selected();
    int file, id;
    id = 0;
    file = $fopen("FILE", "r");
    if (file != 0) begin
      if ($fscanf(file, "%d", id) != 1) id = 0;
      $fclose(file);
    end
    return unsigned'(id);
  endfunction
  int unsigned Id = selected();
endpackage
"""
