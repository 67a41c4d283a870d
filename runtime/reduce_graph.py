"""The smallest part of a module that still fails: delta debugging over its operations.

A part is a set of operations. What they read of operations outside it becomes a new argument of their function, what
nobody in it reads becomes a result, and functions, parameters and arguments that nobody needs go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from ..errors import DpuError
from ..ir.dialects import print_module, verify
from ..ir.locations import name_hint
from ..ir.naming import op_names
from ..ir.signature import NAME, argument_names, result_names

Fails = Callable[[ModuleOp], str]
"""How a module, which it may change, fails: a line of text, or nothing if it does not."""
Say = Callable[[int, int], None]
"""Told of progress: operations removed, and all."""
Unit = tuple[int, int]
"""An operation: the number of its function, and its place among those that have operands."""


@dataclass
class Reduced:
    """The smallest module found, how it fails, and what it took."""

    module: ModuleOp
    failure: str
    operations: int
    before: int
    tries: int


def units(module: ModuleOp) -> list[Unit]:
    """All operations of a module that can be removed; parameters and constants go with their last reader."""
    return [(i, j) for i, f in enumerate(_functions(module)) for j in range(len(_computing(f)))]


def reduce_module(module: ModuleOp, fails: Fails, say: Say | None = None) -> Reduced:
    """The smallest failing part of `module`; the same one in every run, since nothing is random.

    No operation, and no result of the module, can be taken from it without losing the failure.

    Raises:
        DpuError: the module does not fail.
    """
    search = _Search(module, fails, say)
    everything = tuple(units(module))
    if not search.fails(everything):
        what = "does not fail, so there is nothing to reduce"
        raise DpuError("module", what, hint="check --when, and the seeded weights of a text", code="E506")
    kept = search.functions(everything)
    kept = search.ddmin(kept)
    dropped = search.results(kept)
    smallest = build(module, kept, dropped)
    assert smallest is not None
    return Reduced(smallest, search.failure, len(kept), len(everything), search.tries)


@dataclass
class _Search:
    """Tries parts of a module, each once."""

    module: ModuleOp
    judge: Fails
    say: Say | None
    tries: int = 0
    failure: str = ""
    seen: dict[str, str] = field(default_factory=dict)
    total: int = 0

    def __post_init__(self) -> None:
        self.total = len(units(self.module))

    def fails(self, kept: Sequence[Unit], dropped: frozenset[str] = frozenset()) -> bool:
        """Whether a part is a module and fails; then it is the smallest so far."""
        candidate = build(self.module, kept, dropped)
        if candidate is None:
            return False
        text = print_module(candidate)
        if text not in self.seen:
            self.tries += 1
            self.seen[text] = self.judge(candidate)
        if not self.seen[text]:
            return False
        self.failure = self.seen[text]
        if self.say is not None:
            self.say(self.total - len(kept), self.total)
        return True

    def functions(self, kept: tuple[Unit, ...]) -> tuple[Unit, ...]:
        """One function alone if that fails, else without those that can be spared."""
        numbers = list(dict.fromkeys(i for i, _ in kept))
        if len(numbers) < 2:
            return kept
        by_size = sorted(numbers, key=lambda n: (sum(i == n for i, _ in kept), n))
        for number in by_size:
            alone = tuple(u for u in kept if u[0] == number)
            if self.fails(alone):
                return alone
        for number in reversed(by_size):
            without = tuple(u for u in kept if u[0] != number)
            if without and self.fails(without):
                kept = without
        return kept

    def ddmin(self, kept: tuple[Unit, ...]) -> tuple[Unit, ...]:
        """Zeller's and Hildebrandt's minimising delta debugging, in program order."""
        pieces = 2
        while len(kept) > 1:
            size = -(-len(kept) // pieces)
            chunks = [kept[i : i + size] for i in range(0, len(kept), size)]
            smaller = next((c for c in chunks if self.fails(c)), None)
            if smaller is not None:
                kept, pieces = smaller, 2
                continue
            rests = (tuple(u for u in kept if u not in set(c)) for c in reversed(chunks))  # readers before producers
            smaller = next((r for r in rests if self.fails(r)), None) if len(chunks) > 2 else None
            if smaller is not None:
                kept, pieces = smaller, max(pieces - 1, 2)
            elif size == 1:
                break
            else:
                pieces = min(2 * pieces, len(kept))
        return kept

    def results(self, kept: Sequence[Unit]) -> frozenset[str]:
        """Results that can be left out."""
        whole = build(self.module, kept)
        assert whole is not None
        dropped: frozenset[str] = frozenset()
        for f in _functions(whole):
            for name in result_names(f):
                more = dropped | {f"{f.sym_name.data}/{name}"}
                if self.fails(kept, more):
                    dropped = more
        return dropped


def build(module: ModuleOp, kept: Sequence[Unit], dropped: frozenset[str] = frozenset()) -> ModuleOp | None:
    """The module of the kept operations, without the results in `dropped` (`function/name`); None if there is none."""
    keep = set(kept)
    new = module.clone()
    old_names = op_names(module)
    for i, (f, original) in enumerate(zip(_functions(new), _functions(module), strict=True)):
        mine = {j for n, j in keep if n == i}
        if not mine:
            f.detach()
            f.erase()
            continue
        names = {op: old_names[old] for op, old in zip(f.body.block.ops, original.body.block.ops, strict=True)}
        if not _shrink(f, mine, names, dropped):
            return None
    try:
        verify(new, "reducing")
    except DpuError:
        return None
    return new


def _shrink(f: FuncOp, keep: set[int], names: dict[Operation, str], dropped: frozenset[str]) -> bool:
    """Make `f` the function of the operations in `keep`; False if it would return nothing."""
    block, prefix = f.body.block, f.sym_name.data
    last = block.last_op
    if not isinstance(last, ReturnOp):
        return False
    computing = _computing(f)
    kept = [op for j, op in enumerate(computing) if j in keep]
    arguments = [*_attributes(argument_names(f), f.arg_attrs)]
    returned = dict(zip(last.operands, _attributes(result_names(f), f.res_attrs), strict=True))

    def name_of(value: SSAValue, op: Operation) -> str:
        plain = names[op].removeprefix(f"{prefix}/").removeprefix("/")
        return f"{prefix}/{plain}.{next(i for i, r in enumerate(op.results) if r is value)}"

    results: dict[SSAValue, DictionaryAttr] = {}
    inside = set(kept)
    for op in kept:
        read = any(u.operation in inside for r in op.results for u in r.uses)
        wanted = [r for r in op.results if r in returned]
        if not read and not wanted:
            wanted = [r for r in op.results if _static(r)]
        for r in wanted:
            results[r] = returned.get(r) or DictionaryAttr({NAME: StringAttr(name_of(r, op))})
    results = {r: a for r, a in results.items() if f"{prefix}/{_name(a)}" not in dropped}
    if not results:
        return False
    last.detach()
    last.erase()
    block.add_op(ReturnOp(*results))
    for j, op in reversed(list(enumerate(computing))):
        if j in keep:
            continue
        for r in op.results:
            if r.uses:
                name = name_of(r, op)
                argument = block.insert_arg(r.type, len(block.args))
                argument.name_hint = name_hint(name)
                arguments.append(DictionaryAttr({NAME: StringAttr(name)}))
                r.replace_all_uses_with(argument)
        op.detach()
        op.erase()
    for op in reversed(list(block.ops)):
        if not op.operands and not isinstance(op, ReturnOp) and not any(r.uses for r in op.results):
            op.detach()
            op.erase()
    for argument in reversed(block.args):
        if not argument.uses:
            del arguments[argument.index]
            block.erase_arg(argument)
    f.update_function_type()
    f.properties["arg_attrs"] = ArrayAttr(arguments)
    f.properties["res_attrs"] = ArrayAttr(list(results.values()))
    return True


def _functions(module: ModuleOp) -> list[FuncOp]:
    return [op for op in module.ops if isinstance(op, FuncOp)]


def _computing(f: FuncOp) -> list[Operation]:
    return [op for op in f.body.block.ops if op.operands and not isinstance(op, ReturnOp)]


def _static(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and DYNAMIC_INDEX not in value.type.get_shape()


def _attributes(names: Sequence[str], stored: ArrayAttr[DictionaryAttr] | None) -> list[DictionaryAttr]:
    """The attributes of arguments or results, each with its name."""
    old = stored.data if stored is not None else [DictionaryAttr({})] * len(names)
    return [DictionaryAttr({**a.data, NAME: StringAttr(n)}) for a, n in zip(old, names, strict=True)]


def _name(attributes: DictionaryAttr) -> str:
    name = attributes.data[NAME]
    assert isinstance(name, StringAttr)
    return name.data
