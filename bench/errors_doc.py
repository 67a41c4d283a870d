"""`docs/errors.md`: every error code with its meaning and, where the tests hold one, an error as it is printed.

`python -m dpu.bench.errors_doc` writes it; a test fails while it is stale.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from ..errors import CODES, GROUPS
from ..files import atomic_write

ROOT = Path(__file__).parent.parent
EXAMPLES = Path("tests", "e2e", "test_bad_input.py")
"""Where errors are asserted verbatim."""


def sources() -> Iterator[Path]:
    """The modules of the package."""
    for folder in ("", "ir", "simulator", "frontend", "passes", "codegen", "runtime", "bench"):
        yield from sorted((ROOT / folder).glob("*.py") if not folder else (ROOT / folder).rglob("*.py"))


def used_codes() -> dict[str, str]:
    """Every code that a module raises, and the first place of it."""
    found: dict[str, str] = {}
    for path in sources():
        if path == ROOT / "errors.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"E\d{3}", node.value):
                found.setdefault(node.value, f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def examples() -> dict[str, str]:
    """The first text of each code that the tests assert whole."""
    found: dict[str, str] = {}
    file = ROOT / EXAMPLES
    for node in ast.walk(ast.parse(file.read_text())) if file.is_file() else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = re.match(r"(E\d{3})\]: \S", node.value)
            if match and ("  why: " in node.value or "  try: " in node.value):
                found.setdefault(match[1], f"error[{node.value}")
    return found


def generated() -> str:
    """The page."""
    known = examples()
    lines = [
        "# Errors",
        "",
        "Generated from `errors.py` by `python -m dpu.bench.errors_doc`; do not edit.",
        "",
        "Bad input ends a command with exit code 2 and one error: a code, the file, node or option at fault, what is",
        "wrong with the value seen, why it cannot be accepted, and what to try. A code keeps its meaning.",
    ]
    for prefix, title in GROUPS.items():
        lines += ["", f"## {prefix}xx: {title.lower()}", "", "| code | meaning |", "|---|---|"]
        codes = [c for c in CODES if c.startswith(prefix)]
        lines += [f"| {c} | {CODES[c]} |" for c in codes]
        for c in codes:
            if c in known:
                lines += ["", *(f"    {line}" for line in known[c].splitlines())]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page."""
    with atomic_write(ROOT / "docs" / "errors.md") as path:
        path.write_text(generated())


if __name__ == "__main__":
    main()
