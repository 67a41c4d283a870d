"""Whether two canonical modules are the same graph, whoever exported the model.

Both are walked from their results to their inputs, in parallel. Operations, properties, shapes and wiring must agree;
a parameter is compared by its content after its transforms, as float16, because optimisers rename, fold and merge
initialisers. What may differ: the order of operations, the width of floats, the names of parameters and of the values
that pass from @time and @context to the step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from ..ir.graph import ParamOp, shape_of
from ..ir.locations import where
from ..ir.signature import argument_names, result_names
from .weights import WeightStore

SEGMENTS = "dpu.host_segments"


def same_graph(
    a: ModuleOp, store_a: WeightStore, b: ModuleOp, store_b: WeightStore, *, contents: bool = True
) -> list[str]:
    """The differences between two canonical modules, one line each; none when they are the same graph.

    Behind a difference the walk stops, so one cause gives few lines. Without `contents`, parameters are compared by
    shape only.

    Raises:
        DpuError: a parameter has no value, in one of the stores.
    """
    walk = _Walk(_Side(a, store_a), _Side(b, store_b), contents)
    walk.run()
    return walk.differences


def digest(store: WeightStore, source: str, transform: tuple[str, ...] = ()) -> str:
    """What a parameter is, independent of its name: the SHA-256 of its elements, floats rounded to float16."""
    value = store.get(source, transform, check=False)
    plain = value.astype(np.float32 if value.dtype.kind == "V" else value.dtype, copy=False)
    wide = np.float16 if plain.dtype.kind == "f" else np.int64
    with np.errstate(over="ignore"):
        return hashlib.sha256(np.ascontiguousarray(plain.astype(wide)).data).hexdigest()


@dataclass
class _Side:
    """One of the two modules."""

    module: ModuleOp
    store: WeightStore
    functions: dict[str, FuncOp] = field(default_factory=dict)
    made: dict[str, SSAValue] = field(default_factory=dict)  # values that pass between functions, by name
    owner: dict[Any, FuncOp] = field(default_factory=dict)  # function of a block
    digests: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for op in self.module.ops:
            if isinstance(op, FuncOp):
                self.functions[op.sym_name.data] = op
                self.owner[op.body.block] = op
        taken = {n for f in self.functions.values() for n in argument_names(f)}
        for f in self.functions.values():
            last = f.body.block.last_op
            values = last.operands if last else ()
            self.made.update((n, v) for n, v in zip(result_names(f), values, strict=True) if n in taken)

    def name(self, arg: BlockArgument) -> str:
        """The name of a function's argument."""
        return argument_names(self.owner[arg.block])[arg.index]

    def outer(self, f: FuncOp) -> dict[str, str]:
        """Name and attributes of each argument that comes from outside the module."""
        attrs = f.arg_attrs.data if f.arg_attrs else [DictionaryAttr({})] * len(f.body.block.args)
        pairs = zip(argument_names(f), attrs, f.body.block.args, strict=True)
        return {n: _interface(a, v) for n, a, v in pairs if n not in self.made}

    def results(self, f: FuncOp) -> dict[str, tuple[str, SSAValue]]:
        """Name, attributes and value of each result that leaves the module."""
        last = f.body.block.last_op
        values = list(last.operands) if last else []
        attrs = f.res_attrs.data if f.res_attrs else [DictionaryAttr({})] * len(values)
        pairs = zip(result_names(f), attrs, values, strict=True)
        return {n: (_interface(a, v), v) for n, a, v in pairs if n not in self.made}

    def content(self, op: ParamOp) -> str:
        """The digest of a parameter."""
        return self.of(op.source.data, tuple(t.data for t in op.transform or ()))

    def of(self, source: str, transform: tuple[str, ...] = ()) -> str:
        """The digest of a stored parameter after transforms, read once."""
        key = source, transform
        if key not in self.digests:
            self.digests[key] = digest(self.store, *key)
        return self.digests[key]

    def segments(self, contents: bool) -> list[tuple[tuple[str, str], ...]]:
        """What is cut out for the host, tables by content, in an order of their own."""
        found = self.module.attributes.get(SEGMENTS)
        result = []
        for each in found.data if isinstance(found, ArrayAttr) else ():
            assert isinstance(each, DictionaryAttr)
            fields = {k: v.data if isinstance(v, StringAttr) else str(v) for k, v in each.data.items()}
            for key in {"table", "position"} & fields.keys():
                fields[key] = self.of(fields[key]) if contents else "a table"
            result.append(tuple(sorted(fields.items())))
        return sorted(result)


class _Walk:
    """The state of one comparison."""

    def __init__(self, a: _Side, b: _Side, contents: bool) -> None:
        self.a, self.b, self.contents = a, b, contents
        self.differences: list[str] = []
        self.pairs: dict[SSAValue, SSAValue] = {}
        self.back: dict[SSAValue, SSAValue] = {}
        self.todo: list[tuple[SSAValue, SSAValue, str]] = []

    def run(self) -> None:
        if list(self.a.functions) != list(self.b.functions):
            names = [", ".join(f"@{n}" for n in side.functions) for side in (self.a, self.b)]
            self.say("module", "functions", *names)
            return
        if self.a.segments(self.contents) != self.b.segments(self.contents):
            for x, y in _unequal(self.a.segments(self.contents), self.b.segments(self.contents)):
                self.say("module", "host segments", x, y)
        for name, fa in self.a.functions.items():
            fb = self.b.functions[name]
            self.same(f"@{name}", "inputs", self.a.outer(fa), self.b.outer(fb))
            ra, rb = self.a.results(fa), self.b.results(fb)
            self.same(f"@{name}", "results", {n: r[0] for n, r in ra.items()}, {n: r[0] for n, r in rb.items()})
            self.todo += [(v, rb[n][1], f"@{name}: result '{n}'") for n, (_, v) in ra.items() if n in rb]
            while self.todo:
                self.visit(*self.todo.pop())
        if not self.differences:
            for name, fa in self.a.functions.items():
                sizes = [
                    sum(1 for op in f.body.block.ops if not isinstance(op, ParamOp))
                    for f in (fa, self.b.functions[name])
                ]
                self.same(f"@{name}", "operations", *sizes)

    def visit(self, x: SSAValue, y: SSAValue, at: str) -> None:
        """Compare two values that must be the same."""
        if isinstance(x.owner, ParamOp) and isinstance(y.owner, ParamOp):
            if self.same(at, "parameter's shape", shape_of(x), shape_of(y)) and self.contents:
                ca, cb = self.a.content(x.owner), self.b.content(y.owner)
                if ca != cb:
                    self.say(at, "parameter's content", x.owner.source.data, y.owner.source.data)
            return
        if x in self.pairs or y in self.back:
            if self.pairs.get(x) is not y:
                self.say(at, "sharing", "computed once", "computed again" if x in self.pairs else "another value")
            return
        self.pairs[x], self.back[y] = y, x
        if isinstance(x, BlockArgument) and isinstance(y, BlockArgument):
            self.arguments(x, y, at)
        elif isinstance(x.owner, Operation) and isinstance(y.owner, Operation):
            self.operations(x, y, x.owner, y.owner, at)
        else:
            self.say(at, "value", *("an input" if isinstance(v, BlockArgument) else "computed" for v in (x, y)))

    def arguments(self, x: BlockArgument, y: BlockArgument, at: str) -> None:
        nx, ny = self.a.name(x), self.b.name(y)
        made = self.a.made.get(nx), self.b.made.get(ny)
        if made[0] is not None and made[1] is not None:
            self.todo.append((made[0], made[1], at))
        else:
            self.same(at, "input", nx, ny)

    def operations(self, x: SSAValue, y: SSAValue, p: Operation, q: Operation, at: str) -> None:
        if not self.same(at, "operation", p.name, q.name):
            return
        here = f"{p.name} at {where(p)}"
        same = self.same(here, "shape", shape_of(x), shape_of(y))
        skipped = ("operandSegmentSizes", "resultSegmentSizes")
        for key in sorted((p.properties.keys() | q.properties.keys()) - set(skipped)):
            same &= self.same(here, key, _text(p.properties.get(key)), _text(q.properties.get(key)))
        xs, ys = dict(_operands(p)), dict(_operands(q))
        if same and self.same(here, "operands", ", ".join(xs), ", ".join(ys)):
            self.todo += [(v, ys[name], f"{here}, {name}") for name, v in reversed(xs.items())]

    def same(self, at: str, what: str, x: object, y: object) -> bool:
        """Whether two facts agree; a line when they do not."""
        if x != y:
            self.say(at, what, x, y)
        return x == y

    def say(self, at: str, what: str, x: object, y: object) -> None:
        self.differences.append(f"{at}: {what}: {x} | {y}")


def _operands(op: Operation) -> Iterator[tuple[str, SSAValue]]:
    """The operands that are there, with their names."""
    definition: Any = type(op)
    for name, _ in definition.get_irdl_definition().operands:
        value = getattr(op, name)
        if isinstance(value, SSAValue):
            yield name, value
        elif value is not None:
            yield from ((f"{name}[{i}]", v) for i, v in enumerate(value))


def _interface(attrs: DictionaryAttr, value: SSAValue) -> str:
    layout, shape = attrs.data.get("dpu.layout"), attrs.data.get("dpu.shape")
    return f"{'x'.join(map(str, shape_of(value)))} as {layout or 'it is'} {shape or ''}".strip()


def _text(attribute: Attribute | None) -> str:
    return "none" if attribute is None else str(attribute)


def _unequal(xs: list[Any], ys: list[Any]) -> Iterator[tuple[object, object]]:
    for i in range(max(len(xs), len(ys))):
        x, y = xs[i : i + 1], ys[i : i + 1]
        if x != y:
            fields = (dict(x[0]) if x else None, dict(y[0]) if y else None)
            yield fields
