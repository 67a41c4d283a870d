"""Commands that need no model library load none: help, compiling and looking inside start at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "torch",
    "diffusers",
    "transformers",
    "onnxruntime",
    "onnx",
    "matplotlib",
    "plotly",
    "accelerate",
    "xdsl",
    "safetensors",
)
MODELS = ("torch", "diffusers", "transformers", "onnxruntime", "matplotlib", "accelerate")


def _loaded(code: str, watched: tuple[str, ...]) -> list[str]:
    """Which of `watched` a fresh interpreter has loaded after `code`."""
    script = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\n"
    script += f"print('LOADED', [m for m in {watched!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    line = next(x for x in done.stdout.splitlines() if x.startswith("LOADED"))
    return list(eval(line.removeprefix("LOADED ")))


@pytest.mark.parametrize("module", ["runtime.cli.dpuc", "runtime.cli.dpurun", "bench.cli.dpubench"])
def test_help_is_light(module: str) -> None:
    code = f"sys.argv = ['x', '--help']; from dpu.{module} import main; main()"
    assert _loaded(code, HEAVY) == []


@pytest.mark.parametrize("verb", ["compile", "calibrate", "dis", "opt", "export"])
def test_help_of_a_verb_is_light(verb: str) -> None:
    code = f"sys.argv = ['x', '{verb}', '--help']; from dpu.runtime.cli.dpuc import main; main()"
    assert _loaded(code, HEAVY) == []


@pytest.mark.parametrize(
    "module",
    [
        "codegen.dpufile",
        "codegen.witness",
        "codegen.driver",
        "frontend.importer",
        "frontend.weights",
        "passes.pipeline",
    ],
)
def test_the_compiler_needs_no_model_library(module: str) -> None:
    assert _loaded(f"import dpu.{module}", MODELS) == []
