"""Pages about pass dumps: what changed is there, renumbering is not, and large texts are capped."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from dpu.errors import DpuError
from dpu.ir.dialects import parse_module
from dpu.passes import dump_html
from dpu.passes.dump_html import dumps, write_pages
from dpu.passes.pipeline import run_passes

TEXT = """func.func @f(%x: tensor<1x2x3xf32>) -> tensor<1x2x3xf32> {
  %a = dpu.silu %x : tensor<1x2x3xf32> -> tensor<1x2x3xf32>
  %b = dpu.silu %x : tensor<1x2x3xf32> -> tensor<1x2x3xf32>
  %y = dpu.add %a, %b : tensor<1x2x3xf32>, tensor<1x2x3xf32> -> tensor<1x2x3xf32>
  func.return %y : tensor<1x2x3xf32>
}"""


def test_a_page_says_what_each_pass_changed(tmp_path: Path) -> None:
    run_passes(parse_module(TEXT), ["recognise-norm", "merge-duplicates"], tmp_path)
    (page,) = write_pages(tmp_path)
    html = page.read_text()
    assert [d.name for d in dumps(tmp_path)] == ["input", "recognise-norm", "merge-duplicates"]
    assert html.count("<details>") == 2
    assert "no difference" in html
    assert "-1 dpu.silu" in html
    removed = re.findall(r"<span class=del>(.*?)</span>", html)
    assert len(removed) == 1 and "dpu.silu" in removed[0] and "&lt;1x2x3xf32&gt;" in removed[0]
    assert "<script" not in html and "http" not in html and "src=" not in html  # nothing from elsewhere
    again = write_pages(tmp_path)[0].read_text()
    assert again == html


def test_renumbering_and_locations_are_no_difference(tmp_path: Path) -> None:
    lines = [f'  %{i} = op.x %{i - 1} : i32 loc("/n{i}"("m.onnx":0:0))' for i in range(1, 30)]
    (tmp_path / "00-input.mlir").write_text("\n".join(lines))
    moved = [re.sub(r"%(\d+)", lambda m: f"%{int(m[1]) + 1}", line).replace("/n", "/k") for line in lines]
    moved.insert(15, "  %new = op.y : i32")
    (tmp_path / "01-a.mlir").write_text("\n".join(moved))
    html = write_pages(tmp_path)[0].read_text()
    assert re.findall(r"class=(?:add|del)>(.*?)<", html) == ["+  %new = op.y : i32"]
    assert " loc(" not in html


def test_parts_have_pages_of_their_own(tmp_path: Path) -> None:
    for part in ("unet", "vae_decoder"):
        run_passes(parse_module(TEXT), ["merge-duplicates"], tmp_path / part)
    pages = write_pages(tmp_path)
    assert [str(p.relative_to(tmp_path)) for p in pages] == [
        "unet/index.html",
        "vae_decoder/index.html",
        "index.html",
    ]
    assert 'href="unet/index.html"' in pages[-1].read_text()


def test_large_dumps_are_capped_and_the_page_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "00-input.mlir").write_text("\n".join(f"old {i % 7} {i}" for i in range(40_000)))
    (tmp_path / "01-a.mlir").write_text("\n".join(f"new {i % 5} {i}" for i in range(40_000)))
    (tmp_path / "02-b.mlir").write_text("\n".join(f"new {i % 5} {i} {'x' * 200}" for i in range(40_000)))
    (tmp_path / "03-c.mlir").write_text("\n".join(f"line {i} {'y' * 900}" for i in range(2_000)))
    (tmp_path / "04-d.mlir").write_text("\n".join(f"line {i + 1} {'y' * 900}" for i in range(0, 4_000, 2)))
    started = time.perf_counter()
    html = write_pages(tmp_path)[0].read_text()
    assert time.perf_counter() - started < 10
    assert "not compared: 40000 and 40000 lines" in html
    assert f"more than {dump_html.MAX_BYTES}" in html
    assert f"the first {dump_html.MAX_SHOWN} of" in html
    assert "more characters" in html
    assert len(html) < 4_000_000


def test_a_stopped_compilation_still_has_a_page(tmp_path: Path) -> None:
    run_passes(parse_module(TEXT), ["merge-duplicates"], tmp_path)
    (tmp_path / "summary.json").unlink()
    assert "merge-duplicates" in write_pages(tmp_path)[0].read_text()
    (tmp_path / "summary.json").write_text(json.dumps({"not": "a list"}))
    assert write_pages(tmp_path)


def test_a_folder_without_dumps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DpuError, match="holds no NN-<pass>"):
        write_pages(tmp_path)
    with pytest.raises(DpuError, match="no such folder"):
        write_pages(tmp_path / "none")
