"""The `// RUN:` lines of tests/filecheck, executed in this process.

`// RUN: dpuc opt --passes NAMES %s | filecheck %s` parses the file, runs the passes and matches the printed module;
`// RUN: not dpuc opt --passes NAMES %s 2>&1 | filecheck %s` expects the passes to refuse it and matches the message.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from dpu.errors import DpuError
from dpu.ir.dialects import parse_module, print_module
from dpu.passes.pipeline import PASSES, run_passes
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser

ROOT = Path(__file__).parent / "filecheck"
FILES = sorted(ROOT.rglob("*.mlir"))
RUN = re.compile(r"^// RUN: (not )?dpuc opt --passes (\S+) %s (?:2>&1 )?\| filecheck (.*)%s$", re.MULTILINE)


def output(text: str, name: str, passes: list[str], refused: bool) -> str:
    """What `dpuc opt` prints."""
    try:
        module = parse_module(text, name)
        run_passes(module, passes)
    except DpuError as e:
        if refused:
            return e.text()
        raise
    assert not refused, f"{name}: the passes accepted it"
    return print_module(module)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_filecheck(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = path.read_text()
    runs = RUN.findall(text)
    assert len(runs) == text.count("// RUN:") > 0, f"{path}: a RUN line that this runner does not know"
    for refused, passes, flags in runs:
        prefixes = [f.partition("=")[2] for f in shlex.split(flags) if f.startswith("--check-prefix=")]
        options = Options(match_filename=str(path), check_prefixes=prefixes or ["CHECK"])
        printed = output(text, path.name, passes.split(","), bool(refused))
        matcher = Matcher(options, FInput(f"output of {path.name}", printed), Parser.from_opts(options))
        code = matcher.run()
        assert code == 0, f"{path}\n{capfd.readouterr().err}\nprinted:\n{printed}"


def test_every_graph_pass_has_a_filecheck_test() -> None:
    tested = {name for path in FILES for _, passes, _ in RUN.findall(path.read_text()) for name in passes.split(",")}
    assert set(PASSES) <= {name.partition("{")[0] for name in tested} | UNTESTED


UNTESTED = {"quantise", "lower-to-tile", "overlap-prologues", "plan-scratchpad"}
"""Passes that need calibration data or whole programs; their tests are in Python."""
