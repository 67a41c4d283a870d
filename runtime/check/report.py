"""What a check found, as data and as text."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TensorRow(_Model):
    """One result: how many elements differ, the first of them (sample, token, channel), and the distance."""

    name: str
    dtype: str
    shape: tuple[int, int, int]
    elements: int
    differing: int
    unwritten: int  # elements the simulator never stored
    first: tuple[int, int, int] | None = None
    expected: float | None = None  # the interpreter's value there
    actual: float | None = None  # the simulator's
    note: str = ""  # why elements cannot be compared
    db: float | None = None  # 10 log10 of signal over difference; None when equal or not finite

    @property
    def ok(self) -> bool:
        return not self.differing


class OpRow(_Model):
    """One graph operation of an entry."""

    entry: str
    tag: int
    name: str
    kind: str
    nodes: tuple[str, ...]
    tensors: tuple[TensorRow, ...]

    @property
    def ok(self) -> bool:
        return all(t.ok for t in self.tensors)


class CheckReport(_Model):
    """What `check` found: one row an operation, in program order; `error` if the simulator stopped the program."""

    arch: str
    rows: tuple[OpRow, ...]
    error: str = ""
    folder: str = ""  # where the first difference was written

    @property
    def ok(self) -> bool:
        return not self.error and all(r.ok for r in self.rows)

    @property
    def first(self) -> OpRow | None:
        """The first operation that differs."""
        return next((r for r in self.rows if not r.ok), None)

    def text(self) -> str:
        """The report in a few lines."""
        tensors = [t for r in self.rows for t in r.tensors]
        bad = [r for r in self.rows if not r.ok]
        elements = sum(t.elements for t in tensors)
        lines = [
            f"{len(self.rows) - len(bad)} of {len(self.rows)} operations equal bit for bit "
            f"({len(tensors)} tensors, {elements} elements, arch {self.arch})"
        ]
        for r in bad[:20]:
            for t in r.tensors:
                if not t.ok:
                    lines.append(f"  {r.entry} {r.kind} {r.name}: {_describe(t)}")
        if len(bad) > 20:
            lines.append(f"  and {len(bad) - 20} more")
        if self.error:
            lines.append(self.error)
        if self.folder:
            lines.append(f"first difference written to {self.folder}")
        return "\n".join(lines)


def _describe(t: TensorRow) -> str:
    text = f"{t.name}: {t.differing} of {t.elements} elements differ"
    if t.note:
        text += f", {t.note}"
    if t.unwritten:
        text += f", {t.unwritten} were never stored"
    if t.first is not None:
        text += f"; first at {list(t.first)}: {t.actual}, expected {t.expected}"
    return text if t.db is None else f"{text}; {t.db:.1f} dB"
