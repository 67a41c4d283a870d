"""How a tensor of the import dialect lies in a canonical one.

A canonical value is samples x tokens x channels (axes `b`, `t`, `c`). Each dimension of the imported tensor is a list
of atoms, outermost first; an atom is a stretch of one axis. So the queries of ten heads, `B x 10 x T x 64`, are
`[b:B] [c:10 step 64] [t:T] [c:64 step 1]` of a `B x T x 640` value. Reshape and transpose only rearrange atoms: they
cost nothing and need no operation. Atoms of one element are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from xdsl.ir import SSAValue

from ..ir.graph import shape_of


class Atom(NamedTuple):
    """`size` elements of `axis`, `step` apart. Axis `*` stands for repeated elements."""

    axis: str
    step: int
    size: int


Dim = tuple[Atom, ...]


def merge(atoms: Iterable[Atom]) -> Dim:
    """The same elements with neighbours joined where one continues the other."""
    merged: list[Atom] = []
    for a in atoms:
        if a.size == 1:
            continue
        last = merged[-1] if merged else None
        if last and last.axis == a.axis and last.step == a.step * a.size:
            merged[-1] = Atom(a.axis, a.step, last.size * a.size)
        else:
            merged.append(a)
    return tuple(merged)


def whole(axis: str, size: int) -> Dim:
    """A dimension that is all of one axis."""
    return merge([Atom(axis, 1, size)])


@dataclass(frozen=True)
class View:
    """An imported tensor as dimensions over the axes of a canonical value."""

    value: SSAValue
    dims: tuple[Dim, ...]

    @property
    def size(self) -> tuple[int, int, int]:
        """(samples, tokens, channels) of the canonical value."""
        b, t, c = shape_of(self.value)
        return b, t, c

    @property
    def shape(self) -> tuple[int, ...]:
        """The imported tensor's shape."""
        return tuple(prod(a.size for a in dim) for dim in self.dims)

    def axis(self, name: str) -> Dim:
        """All of one axis of the canonical value."""
        return whole(name, self.size["btc".index(name)])

    def covers(self, dims: Sequence[Dim], axes: str) -> bool:
        """Whether `dims`, one after the other, are exactly these axes in order."""
        return merge(a for d in dims for a in d) == merge(a for x in axes for a in self.axis(x))

    def transpose(self, perm: Sequence[int]) -> View:
        """The dimensions in another order."""
        return View(self.value, tuple(self.dims[p] for p in perm))

    def reshape(self, shape: Sequence[int]) -> View | None:
        """The same elements with another shape, or None when an atom would be cut unevenly."""
        atoms = [a for d in self.dims for a in d]
        dims: list[Dim] = []
        for size in shape:
            taken: list[Atom] = []
            while size > 1:
                if not atoms:
                    return None
                axis, step, have = atoms.pop(0)
                if have <= size:
                    if size % have:
                        return None
                    taken.append(Atom(axis, step, have))
                    size //= have
                else:
                    if have % size:
                        return None
                    taken.append(Atom(axis, step * (have // size), size))
                    atoms.insert(0, Atom(axis, step, have // size))
                    size = 1
            dims.append(merge(taken))
        return None if atoms else View(self.value, tuple(dims))

    def on(self, value: SSAValue) -> View:
        """The same layout of another canonical value of the same size."""
        return View(value, self.dims)

    def layout(self) -> str | None:
        """`NCHW`, `NTC`, `NC` or `N` when that is what it is (a single scalar is `N`)."""
        d = self.dims
        if len(d) == 4 and self.covers(d[:1], "b") and self.covers(d[1:2], "c") and self.covers(d[2:], "t"):
            return "NCHW"
        if len(d) == 3 and all(self.covers((dim,), axis) for dim, axis in zip(d, "btc", strict=True)):
            return "NTC"
        if len(d) == 2 and self.covers(d[:1], "b") and self.covers(d[1:], "c") and self.size[1] == 1:
            return "NC"
        if len(d) <= 1 and self.covers(d, "b") and self.size[1:] == (1, 1):
            return "N"
        return None


def canonical_size(shape: Sequence[int]) -> tuple[int, int, int] | None:
    """(samples, tokens, channels) of an input of one of the layouts that `View.layout` knows."""
    if len(shape) == 4:
        return shape[0], shape[2] * shape[3], shape[1]
    if len(shape) == 3:
        return shape[0], shape[1], shape[2]
    if len(shape) == 2:
        return shape[0], 1, shape[1]
    return (shape[0] if shape else 1, 1, 1) if len(shape) <= 1 else None


def input_view(value: SSAValue, shape: Sequence[int]) -> View:
    """The view of an input: NCHW, NTC, NC or N by its rank."""
    b, t, c = shape_of(value)
    if len(shape) == 4:
        h, w = shape[2:]
        return View(value, (whole("b", b), whole("c", c), merge([Atom("t", w, h)]), merge([Atom("t", 1, w)])))
    axes = {3: "btc", 2: "bc", 1: "b", 0: ""}[len(shape)]
    return View(value, tuple(whole(a, {"b": b, "t": t, "c": c}[a]) for a in axes))
