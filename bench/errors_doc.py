"""`docs/errors.md`: every error code with its class, its meaning and an error as it is printed.

`python -m dpu.bench.errors_doc` writes it; a test fails while it is stale.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from ..errors import GROUPS, KINDS
from ..files import atomic_write

ROOT = Path(__file__).parent.parent


def sources() -> Iterator[Path]:
    """The modules of the package."""
    for folder in ("", "ir", "simulator", "frontend", "passes", "codegen", "runtime", "rtl", "bench"):
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


def without_hint() -> list[str]:
    """Places that raise a `DpuError` without a hint though its class has no usual one."""
    found = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) != "DpuError" or len(node.args) > 3:
                continue
            given = {k.arg: k.value for k in node.keywords}
            code = given.get("code")
            if "hint" not in given and isinstance(code, ast.Constant) and not KINDS[str(code.value)].usual:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def literals(module: ast.Module) -> Iterator[str]:
    """Every text of a module but those looked for inside another; `...` is what an f-string fills in."""
    known = {ast.unparse(n.targets[0]): n.value for n in module.body if isinstance(n, ast.Assign)}
    inside = {id(part) for n in ast.walk(module) if isinstance(n, ast.JoinedStr) for part in n.values}
    inside |= {id(n.left) for n in ast.walk(module) if isinstance(n, ast.Compare) and isinstance(n.ops[0], ast.In)}
    for node in ast.walk(module):
        if id(node) not in inside and isinstance(node, ast.JoinedStr | ast.Constant):
            yield _text(node, known)


def _text(node: ast.AST | None, known: dict[str, ast.expr]) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(p, known) for p in parts)
        case ast.FormattedValue(value=ast.Name(id=name)):
            return _text(known.get(name), {})
    return "..."


def examples() -> dict[str, str]:
    """The text of each code that the tests hold word for word; of several the first that is longest in lines."""
    found: dict[str, str] = {}
    files = sorted((ROOT / "tests").rglob("*.py"), key=lambda p: (p.parent.name != "e2e", p))
    for text in (t for file in files for t in literals(ast.parse(file.read_text()))):
        match = re.match(r"(?:error\[)?(E\d{3})\]: \S.*: \S", text)
        if match and _worth(text) > _worth(found.get(match[1], "")):
            found[match[1]] = f"error[{text.removeprefix('error[')}"
    return found


def _worth(text: str) -> tuple[bool, int]:
    return bool(text) and "..." not in text, text.count("\n") + bool(text)


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
        "",
        "In Python every error is a `dpu.errors.DpuError` with the fields `code`, `where`, `what`, `why` and `hint`,",
        "of the class beside its code: `except errors.UnsupportedNode` catches E104 and nothing else.",
    ]
    for prefix, title in GROUPS.items():
        lines += ["", f"## {prefix}xx: {title.lower()}", "", "| code | class | meaning |", "|---|---|---|"]
        codes = [c for c in KINDS if c.startswith(prefix)]
        lines += [f"| {c} | {KINDS[c].__name__} | {KINDS[c].__doc__} |" for c in codes]
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
