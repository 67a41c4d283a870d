"""Where a number of a comparison comes from: its derivation as a tree (`dpubench explain`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import DpuError
from ..evidence import Quantity

if TYPE_CHECKING:
    from rich.tree import Tree

_SAME = ("convert", "scale")
_COLOURS = {"assumed": "red", "simulated": "yellow", "published": "cyan", "datasheet": "blue", "measured": "green"}


def choose(found: Mapping[str, Quantity], name: str, platform: str, where: str) -> tuple[str, list[str]]:
    """The full name of the number meant, and the other names that end alike. The DPU's comes first.

    Raises:
        DpuError: no number has this name.
    """
    wanted = f"{platform}.{name}" if platform else name
    alike = [k for k in found if k == wanted or k.endswith(f".{wanted}")]
    if wanted in found:
        alike = [wanted, *(k for k in alike if k != wanted)]
    if not alike:
        outputs = sorted({k.split(".", 1)[-1] for k in found if ".vs." not in k and k.count(".") == 1})
        raise DpuError(where, f"holds no number '{wanted}'", hint=f"one of {', '.join(outputs)}", code="E524")
    return alike[0], alike[1:]


def tree(q: Quantity, depth: int) -> Tree:
    """The derivation down to `depth` levels; a number that was shown before is only named again."""
    from rich.text import Text
    from rich.tree import Tree

    seen: set[int] = set()

    def label(q: Quantity) -> Text:
        colour = _COLOURS[q.provenance.label]
        spread = "" if q.uncertainty is None else f" ± {q.uncertainty:.2g}"
        said = Text()
        said.append(q.name or "", style="bold")
        said.append(f"{' = ' if q.name else ''}{q.value:.6g}{spread} {q.unit if q.unit != '1' else ''}".rstrip() + "  ")
        said.append(q.provenance.label, style=colour)
        said.append(f"  {q.source}", style="dim" if q.op else "")
        return said

    def add(parent: Tree, q: Quantity, left: int) -> None:
        branch = parent.add(label(q))
        if not q.inputs:
            return
        if id(q) in seen:
            branch.add("as above")
            return
        seen.add(id(q))
        if left == 0:
            branch.add(f"... {len(q.inputs)} inputs (--depth)")
            return
        for i in _inputs(q):
            add(branch, i, left - 1)

    root = Tree(label(q))
    for i in _inputs(q):
        add(root, i, depth - 1)
    return root


def _inputs(q: Quantity) -> list[Quantity]:
    """Inputs as a reader wants them: a change of unit and its input are one number, sums of sums one sum."""
    if q.op in _SAME and len(q.inputs) == 1 and not q.inputs[0].name:
        return _inputs(q.inputs[0])
    found: list[Quantity] = []
    for i in q.inputs:
        bare = _bare(i)
        found += _inputs(i) if bare.op == q.op == "add" and not i.name and not bare.name else [i]
    return found


def _bare(q: Quantity) -> Quantity:
    """Without unnamed changes of unit around it."""
    while q.op in _SAME and not q.name and len(q.inputs) == 1:
        q = q.inputs[0]
    return q
