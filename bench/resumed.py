"""Records that a later run goes on with: only those of this command, and of the same thing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from ..errors import DpuError

_Record = TypeVar("_Record", bound=BaseModel)


def read_record(path: Path, kind: type[_Record], why: str = "") -> _Record:
    """The record that an earlier run left in `path`; `why` it has to be one.

    Raises:
        DpuError: E101, it cannot be read; E502, it is something else.
    """
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as e:
        raise DpuError(str(path), f"cannot be read ({e.strerror})", hint="choose another output", code="E101") from e
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(x) for x in first["loc"])
        what = f"is no file of this command ({f'field {where!r}: ' if where else ''}{first['msg']})"
        raise DpuError(str(path), what, why, "choose another output", code="E502") from e


def check_same(path: Path, old: BaseModel, fresh: BaseModel, names: Iterable[str], what: str, why: str) -> None:
    """Refuse to go on with `old`, read from `path`, where one of `names` differs from what a fresh record would have.

    Raises:
        DpuError: E502, "`what` of another `name`", because of `why`.
    """
    for name in names:
        was, now = getattr(old, name), getattr(fresh, name)
        if was != now:
            raise DpuError(
                str(path),
                f"{what} of another {name} ({was!r}, now {now!r})",
                why,
                "name another file, or remove this one",
                code="E502",
            )
