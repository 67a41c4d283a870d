"""One function a rate of change: what is fixed for an image, for a step, and what runs every time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from ..ir.graph import ParamOp, SinusoidOp
from ..ir.locations import name_hint, nodes_of
from .host_segments import add_segment

NAME = "dpu.name"


@dataclass(frozen=True)
class SplitEntries(ModulePass):
    """Move what does not depend on the first input into functions of its own: @time and @context.

    Inputs that meet before they meet the first one share a function: @time when there is a sinusoid among them (its
    result becomes an argument, the sinusoid a host segment), else @context. Their results are further arguments of the
    original function.
    """

    name = "split-entries"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in list(op.ops):
            if isinstance(func, FuncOp) and len(func.body.block.args) > 1:
                _Split(op, func).run()


@dataclass
class _Entry:
    """A function in the making."""

    name: str
    block: Block = field(default_factory=Block)
    arg_attrs: list[DictionaryAttr] = field(default_factory=list)
    values: dict[SSAValue, SSAValue] = field(default_factory=dict)
    results: dict[SSAValue, str] = field(default_factory=dict)

    def argument(self, of: SSAValue, name: str, attrs: DictionaryAttr | None = None) -> None:
        """A new argument that stands for `of`."""
        arg = self.block.insert_arg(of.type, len(self.block.args))
        arg.name_hint = name_hint(name)
        arg.location = of.location if isinstance(of, BlockArgument) else of.owner.location  # type: ignore[union-attr]
        known = attrs.data if attrs else {}
        self.arg_attrs.append(DictionaryAttr({**known, NAME: StringAttr(name)}))
        self.values[of] = arg

    def copy(self, op: Operation) -> None:
        """Append a copy of an operation; parameters it reads come with it."""
        for v in op.operands:
            if v not in self.values and isinstance(v.owner, ParamOp):
                self.copy(v.owner)
        new = op.clone(self.values)
        new.location = op.location
        self.block.add_op(new)

    def finish(self, results: Sequence[SSAValue], names: Sequence[DictionaryAttr], like: FuncOp) -> FuncOp:
        """The function."""
        self.block.add_op(ReturnOp(*(self.values[v] for v in results)))
        kind = FunctionType.from_lists([a.type for a in self.block.args], [self.values[v].type for v in results])
        args, res = ArrayAttr(self.arg_attrs), ArrayAttr(list(names))
        func = FuncOp(self.name, kind, Region(self.block), arg_attrs=args, res_attrs=res)
        func.location = like.location
        return func


class _Split:
    """Splitting one function."""

    def __init__(self, module: ModuleOp, func: FuncOp) -> None:
        self.module, self.func, self.block = module, func, func.body.block
        self.deps: dict[SSAValue, frozenset[int]] = {}

    def run(self) -> None:
        for arg in self.block.args:
            self.deps[arg] = frozenset([arg.index])
        ops = [op for op in self.block.ops if not isinstance(op, ReturnOp)]
        for op in ops:
            needed = frozenset().union(*(self.deps[v] for v in op.operands))
            self.deps.update((r, needed) for r in op.results)
        groups = self._groups(ops)
        if not groups:
            return
        entries = {i: entry for members, entry in groups for i in members}
        step = _Entry(self.func.sym_name.data)
        last = self.block.last_op
        assert isinstance(last, ReturnOp)
        step_ops = [op for op in ops if op.operands and self._entry(op, entries) is None]
        step_reads = {v for op in (*step_ops, last) for v in op.operands}
        for arg in self.block.args:
            if arg.index not in entries:
                step.argument(arg, self._name(arg), self._attrs(arg))
        for arg in self.block.args:
            if arg.index in entries and not self._only_sinusoids(arg):
                entries[arg.index].argument(arg, self._name(arg), self._attrs(arg))
            if arg.index in entries and arg in step_reads:
                step.argument(arg, self._name(arg), self._attrs(arg))
        for op in ops:
            entry = self._entry(op, entries)
            if entry is None or not op.operands:
                continue
            if isinstance(op, SinusoidOp) and isinstance(op.x, BlockArgument):
                self._cut(op, entry)
            else:
                entry.copy(op)
            if op.results[0] in step_reads:
                taken = {*entry.results.values(), *step.values}
                name = _unique(self._value_name(op, entry), taken)
                entry.results[op.results[0]] = name
                step.argument(op.results[0], name)
        for op in step_ops:
            step.copy(op)
        self._replace([entry for _, entry in groups], step, last)

    def _groups(self, ops: list[Operation]) -> list[tuple[frozenset[int], _Entry]]:
        """Inputs other than the first that meet without it, each group with its function."""
        members = [{i} for i in range(1, len(self.block.args))]
        timed: set[int] = set()
        for op in ops:
            needed = self.deps[op.results[0]]
            if not needed or 0 in needed:
                continue
            if isinstance(op, SinusoidOp):
                timed |= needed
            merged = set().union(*(m for m in members if m & needed))
            members = [m for m in members if not m & needed] + [merged]
        members.sort(key=min)
        result, taken = [], {f.sym_name.data for f in self.module.ops if isinstance(f, FuncOp)}
        for m in members:
            name = _unique("time" if m & timed else "context", taken)
            taken.add(name)
            result.append((frozenset(m), _Entry(name)))
        return result

    def _entry(self, op: Operation, entries: dict[int, _Entry]) -> _Entry | None:
        """The function that an operation moves to; None when it stays."""
        needed = self.deps[op.results[0]]
        found = {id(entries[i]): entries[i] for i in needed if i in entries}
        return next(iter(found.values())) if len(found) == 1 and needed <= entries.keys() else None

    def _cut(self, op: SinusoidOp, entry: _Entry) -> None:
        assert isinstance(op.x, BlockArgument)
        source = self._name(op.x)
        entry.argument(op.y, f"{source}.sinusoid")
        add_segment(
            self.module,
            kind="sinusoid",
            entry=entry.name,
            input=source,
            output=f"{source}.sinusoid",
            half=op.half,
        )

    def _only_sinusoids(self, arg: BlockArgument) -> bool:
        return all(isinstance(u.operation, SinusoidOp) for u in arg.uses)

    def _attrs(self, arg: BlockArgument) -> DictionaryAttr | None:
        return self.func.arg_attrs.data[arg.index] if self.func.arg_attrs else None

    def _name(self, arg: BlockArgument) -> str:
        attrs = self._attrs(arg)
        name = attrs.data.get(NAME) if attrs else None
        return name.data if isinstance(name, StringAttr) else arg.name_hint or f"arg{arg.index}"

    def _value_name(self, op: Operation, entry: _Entry) -> str:
        """A crossing value is named after its layer: from its weights, else from its ONNX node's path."""
        for v in op.operands:
            if isinstance(v.owner, ParamOp) and v.owner.source.data.endswith(".weight"):
                return v.owner.source.data.partition("::")[2].removesuffix(".weight")
        path = next((n.strip("/").rpartition("/")[0] for n in nodes_of(op)), "")
        return path.replace("/", ".") or f"{entry.name}.{len(entry.results)}"

    def _replace(self, entries: list[_Entry], step: _Entry, last: ReturnOp) -> None:
        funcs = []
        for entry in entries:
            if entry.results:
                names = [DictionaryAttr({NAME: StringAttr(n)}) for n in entry.results.values()]
                funcs.append(entry.finish(list(entry.results), names, self.func))
        result_names = list(self.func.res_attrs.data) if self.func.res_attrs else []
        funcs.append(step.finish(list(last.operands), result_names, self.func))
        parent = self.func.parent
        assert parent is not None
        for func in funcs:
            parent.insert_op_before(func, self.func)
        self.func.detach()
        self.func.erase(safe_erase=False)


def _unique(name: str, taken: set[str] | set[object]) -> str:
    if name not in taken:
        return name
    return next(n for n in (f"{name}_{i}" for i in range(1, len(taken) + 2)) if n not in taken)
