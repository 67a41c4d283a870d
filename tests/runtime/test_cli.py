"""The commands as users meet them: errors without tracebacks, early checks, help that answers a question."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from dpu.errors import DpuError
from dpu.runtime.cli import dpuc
from dpu.runtime.cli.common import check_output, parse_size
from dpu.runtime.compiling import parse_shapes

Run = Callable[..., tuple[int, str, str]]
VERBS = list(dpuc.VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_asks_a_question_and_ends_with_two_examples(run: Run, verb: str) -> None:
    code, out, _ = run(f"dpuc {verb} --help")
    assert code == 0
    question = out.split("Usage:")[1].split("\n\n")[1].strip()
    assert question.endswith("?")
    assert len(re.findall(rf"^ +dpuc {verb}\b", out, re.MULTILINE)) == 2


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("dpurun nosuch --target f3 --prompt x", "error[E430]: --target f3: no such target"),
        ("dpurun nosuch --target cuda --prompt x", "error[E430]: --target cuda: no such target"),
        ("dpurun nosuch.dpu --prompt x", "error[E301]: nosuch.dpu: cannot be read"),
        ("dpurun nosuch --prompt x --size 1x2x3", "'1x2x3' is no size"),
        ("dpurun nosuch --prompt x --size 50", "50 is not a multiple of 32"),
        ("dpurun nosuch --prompt x --steps 0", "0 is not between 1 and 1000"),
        ("dpurun nosuch --prompt x -o /nosuch/a.png", "folder '/nosuch' does not exist"),
        ("dpuc export nosuch -o {out}", "error[E106]: nosuch: no such pipeline"),
        ("dpuc calibrate nosuch -o {out}/c", "error[E106]: nosuch: no such folder"),
        ("dpuc calibrate nosuch -o {out}/c --prompts 99", "99 is not between 1 and 8"),
        ("dpuc calibrate nosuch -o {out}/c --captions none", "--captions none: not a readable text file"),
        ("dpuc compile nosuch --collector median", "error[E501]: --collector median: no such collector"),
        ("dpuc compile nosuch --estimate --smooth", "error[E501]: --smooth: an estimate reads no calibration"),
        ("dpuc calibrate nosuch -o /nosuch/c", "folder '/nosuch' does not exist"),
        ("dpuc compile nosuch -o {out}/a.dpu", "nosuch: no such file"),
        ("dpuc compile nosuch -o /nosuch/a.dpu", "folder '/nosuch' does not exist"),
        ("dpuc dis nosuch.dpu", "error[E301]"),
        ("dpuc inspect nosuch.dpu", "error[E301]"),
        ("dpuc verify nosuch.dpu", "error[E301]"),
        ("dpuc import nosuch.onnx", "nosuch.onnx"),
        ("dpuc opt nosuch.mlir --passes canonicalise", "error[E107]: nosuch.mlir: cannot be read"),
    ],
)
def test_bad_input_is_one_located_error_and_exit_2(run: Run, tmp_path: Path, line: str, text: str) -> None:
    code, _, err = run(line.format(out=tmp_path))
    assert code == 2
    assert err.startswith("error[E")
    assert text in err
    assert "Traceback" not in err


def test_dpubench_refuses_a_verb_that_does_not_exist(run: Run) -> None:
    code, out, _ = run("dpubench --help")
    assert code == 0
    assert "products" in out and "blocks" in out
    assert run("dpubench beauty")[0] == 2


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["dpuc", "dis", "nosuch.dpu", "--debug"])
    with pytest.raises(DpuError):
        dpuc.main()


def test_opt_runs_passes_on_text(run: Run, tmp_path: Path) -> None:
    text = """builtin.module { func.func @f(%x: tensor<1x2x3xf32>) -> tensor<1x2x3xf32> {
      %a = dpu.silu %x : tensor<1x2x3xf32> -> tensor<1x2x3xf32>
      %b = dpu.silu %x : tensor<1x2x3xf32> -> tensor<1x2x3xf32>
      %y = dpu.add %a, %b : tensor<1x2x3xf32>, tensor<1x2x3xf32> -> tensor<1x2x3xf32>
      func.return %y : tensor<1x2x3xf32> } }"""
    source, out = tmp_path / "in.mlir", tmp_path / "out.mlir"
    source.write_text(text)
    assert run(f"dpuc opt {source} --passes merge-duplicates -o {out}")[0] == 0
    assert out.read_text().count("dpu.silu") == 1
    code, printed, _ = run(f"dpuc opt {source} --passes merge-duplicates")
    assert code == 0
    assert printed.strip() == out.read_text().strip()


def test_passes_are_listed_with_a_sentence_each(run: Run) -> None:
    code, out, _ = run("dpuc passes")
    assert code == 0
    assert all(re.fullmatch(r"[a-z-]+ +\S.*\.", line) for line in out.splitlines())


def test_the_reference_makes_an_image(run: Run, tiny_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.png"
    code, printed, err = run(f"dpurun {tiny_folder} --target cpu --prompt 'a fox' --steps 2 --size 96x64 -o {out}")
    assert code == 0, err
    from PIL import Image

    assert Image.open(out).size == (96, 64)
    assert "text encoders" in printed
    assert "unet" in printed


def test_a_folder_is_no_program(run: Run, tiny_folder: Path) -> None:
    code, _, err = run(f"dpurun {tiny_folder} --prompt 'a fox'")
    assert code == 2
    assert "runs a compiled program" in err
    assert "dpuc compile" in err


def test_sizes_and_shapes() -> None:
    assert parse_size("64") == (64, 64)
    assert parse_size("96x64") == (64, 96)
    assert parse_size(None) == (0, 0)
    assert parse_shapes(["sample=2x4x8x8", "timestep=1"]) == {"sample": (2, 4, 8, 8), "timestep": (1,)}
    for bad in ("sample", "sample=2xx", "=2", "sample=0x1"):
        with pytest.raises(DpuError, match="--shape"):
            parse_shapes([bad])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_refused_before_the_work(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(DpuError, match="is not writable"):
        check_output(tmp_path / "x")
