"""The layers: an import may only point down the list, whatever it is for."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ["", "ir", "simulator", "rtl", "frontend", "passes", "codegen", "runtime", "bench"]  # "" is the root


def _modules() -> list[Path]:
    found = list(ROOT.glob("*.py"))
    for layer in LAYERS[1:]:
        found += (ROOT / layer).rglob("*.py")
    return sorted(found)


def _imports(path: Path) -> list[tuple[int, tuple[str, ...]]]:
    """(line, path inside the package) of every import of the package's own modules."""
    package = path.relative_to(ROOT).parts[:-1]
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names if a.name.split(".")[0] == "dpu"]
            found += [(node.lineno, tuple(n.split(".")[1:])) for n in names]
        elif isinstance(node, ast.ImportFrom):
            module = tuple((node.module or "").split(".")) if node.module else ()
            if node.level:
                base = package[: len(package) - node.level + 1]
                found += [(node.lineno, (*base, *module, a.name)) for a in node.names]
            elif module[:1] == ("dpu",):
                found += [(node.lineno, (*module[1:], a.name)) for a in node.names]
    return found


def _layer(parts: tuple[str, ...]) -> int:
    return LAYERS.index(parts[0]) if parts and parts[0] in LAYERS else 0


@pytest.mark.parametrize("path", _modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    parts = path.relative_to(ROOT).parts
    own = _layer(parts[:-1])
    up = [f"line {line}: {'.'.join(name)}" for line, name in _imports(path) if _layer(name) > own]
    assert not up, f"{'/'.join(parts)} is in layer '{LAYERS[own] or 'root'}' and imports from above: {up}"


def test_the_check_sees_relative_and_absolute_imports(tmp_path: Path) -> None:
    source = ROOT / "runtime" / "cli" / "dpurun.py"
    assert any(name[:1] == ("runtime",) for _, name in _imports(source))
    assert _layer(("bench", "cli")) > _layer(("runtime",)) > _layer(("errors",))
