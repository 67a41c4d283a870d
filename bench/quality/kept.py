"""What an earlier run left: a plan or a result, read if it is of this version, refused if it is of something else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from ...errors import DpuError
from ...files import atomic_write

Kept = TypeVar("Kept", bound=BaseModel)
Shown = Callable[[object], str]
"""A value in an error text."""

_OTHER_WORK, _OTHER_OUTPUT = "choose another --work", "choose another output file"


def read_result(path: Path, kind: type[Kept]) -> Kept | None:
    """The result of an earlier run; none if there is no file.

    Raises:
        DpuError: E521, it is no result of this version.
    """
    return _read(path, kind, "result", _OTHER_OUTPUT) if path.is_file() else None


def check_result(path: Path, old: BaseModel, new: BaseModel, names: Iterable[str]) -> None:
    """Refuse to add `new` to `old`, read from `path`, where a field differs.

    Raises:
        DpuError: E522, of the first field that does.
    """
    _check(path, old, new, names, lambda value: f"'{str(value)[:40]}'", hint=_OTHER_OUTPUT)


def keep_plan(path: Path, plan: Kept, why: str, shown: Shown) -> Kept:
    """The plan of a work folder, written there if it has none. `why` it must be the same.

    Raises:
        DpuError: E521, it is no plan of this version; E522, it is another.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file():
        with atomic_write(path) as temporary:
            temporary.write_text(plan.model_dump_json(indent=1) + "\n")
        return plan
    _check(path, _read(path, type(plan), "plan", _OTHER_WORK), plan, type(plan).model_fields, shown, why, _OTHER_WORK)
    return plan


def _read(path: Path, kind: type[Kept], what: str, hint: str) -> Kept:
    try:
        return kind.model_validate_json(path.read_text())
    except ValidationError as e:
        said = f"is no {what} of this version ({e.errors()[0]['msg']})"
        raise DpuError(str(path), said, hint=hint, code="E521") from e


def _check(
    path: Path, old: BaseModel, new: BaseModel, names: Iterable[str], shown: Shown, why: str = "", hint: str = ""
) -> None:
    for name in names:
        seen, wanted = getattr(old, name), getattr(new, name)
        if seen != wanted:
            what = f"field '{name}': value is {shown(seen)}, allowed: {shown(wanted)}"
            raise DpuError(str(path), what, why=why, hint=hint, code="E522")
