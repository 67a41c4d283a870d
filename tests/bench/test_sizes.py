"""`dpubench sizes`: programs of graphs without weights, one row each, continued where a run was stopped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dpu.bench.sizes import ARCHS, SIZES, Case, SizeRow, cases, compile_case, measure
from dpu.codegen.driver import compile_onnx
from dpu.errors import DpuError
from dpu.ir.arch import load_arch


def case(part: str = "vae_decoder", width: int = 96, height: int = 64, batch: int = 1) -> Case:
    return Case(part=part, width=width, height=height, batch=batch, arch="dpu_tiny")


def test_every_size_and_batch_is_asked_for() -> None:
    names = [c.name for c in cases()]
    assert len(set(names)) == len(names) == len(ARCHS) * (len(SIZES) + 3 + len(SIZES) + 2)
    for name in ("unet-1024x1024-b8-dpu_f2", "unet-1536x640-b2-dpu_32tops", "vae_decoder-512x512-b1-dpu_f2"):
        assert name in names
    # The aspect buckets have about the pixels of the native size, in steps of 64.
    assert all(abs(w * h / 1024**2 - 1) < 0.07 and w % 64 == h % 64 == 0 for w, h in SIZES[:-1])


def test_words_without_weights_are_those_of_the_program_with_them(tiny_folder: Path) -> None:
    wanted = case("unet", batch=2)
    row, words = compile_case(tiny_folder, wanted, load_arch("dpu_tiny"))
    assert row.verified and not row.error
    onnx = tiny_folder / "unet" / "model.onnx"
    shapes = {"sample": (2, 4, 8, 12)}
    made = compile_onnx(onnx, "unet", load_arch("dpu_tiny"), shapes, None)
    assert made.program.words.keys() == words.keys() == row.entries.keys() == {"time", "context", "unet"}
    for name, streams in made.program.words.items():
        assert all(np.array_equal(a, b) for a, b in zip(streams, words[name], strict=True))
        assert row.entries[name].words == max(map(len, streams))
    sources = next(e.sources for e in made.program.entries if e.name == "unet")
    macs = sum(s.macs for s in sources)
    assert row.entries["unet"].macs == macs
    assert 0.8 * macs < row.entries["unet"].executed  # padding adds, upsampling folded into a convolution saves
    assert row.region_bytes["const"] == made.program.constants.nbytes
    assert row.anonymous_peak > 0


def test_a_run_continues_and_times_later(tiny_folder: Path, tmp_path: Path) -> None:
    out, keep = tmp_path / "sizes.json", tmp_path / "words"
    lines: list[str] = []
    first = measure(tiny_folder, [case()], out, keep=keep)
    assert first.rows[0].entries["vae_decoder"].cycles is None
    both = [case(), case(width=40)]
    second = measure(tiny_folder, both, out, keep=keep, say=lines.append)
    assert lines == [f"{both[0].name}: kept", f"{both[1].name}: compiling"]
    assert second.rows[0] == first.rows[0]
    assert "error[E504]: --size 40x64: sides must be multiples of" in second.rows[1].error
    assert second.text().count(both[1].name) == 1
    lines.clear()
    timed = measure(tiny_folder, both, out, timed=True, keep=keep, say=lines.append)
    assert lines == [f"{both[0].name}: timing", f"{both[1].name}: kept"]
    entry = timed.rows[0].entries["vae_decoder"]
    assert entry.cycles is not None and entry.bytes_read is not None
    assert 0 < (entry.utilisation(load_arch("dpu_tiny")) or 0) < 2
    again = measure(tiny_folder, [case()], timed=True)  # the words that were kept are those of the program
    assert again.rows[0].entries == timed.rows[0].entries
    with pytest.raises(DpuError, match="no such file"):
        measure(tmp_path, [case()])
    out.write_text("{}")
    with pytest.raises(DpuError, match="is no file of this command"):
        measure(tiny_folder, [case()], out)


def test_a_crash_is_a_row_and_is_tried_again(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, keep = tmp_path / "sizes.json", tmp_path / "words"
    lines: list[str] = []

    def go(timed: bool) -> SizeRow:
        lines.clear()
        return measure(tiny_folder, [case()], out, timed=timed, keep=keep, say=lines.append).rows[0]

    name = case().name
    with monkeypatch.context() as m:
        m.setattr("dpu.bench.sizes.sys.executable", "false")  # a process that fails
        assert go(timed=False).error == "crashed: exit code 1"
    row = go(timed=False)
    assert lines == [f"{name}: compiling"] and row.verified and not row.error
    with monkeypatch.context() as m:
        m.setattr("dpu.bench.sizes.sys.executable", "false")
        assert go(timed=True) == row.model_copy(update={"error": "crashed: exit code 1"})
    timed = go(timed=True)
    assert lines == [f"{name}: timing"] and not timed.error and timed.entries["vae_decoder"].cycles


def test_side_by_side_is_the_same(tiny_folder: Path) -> None:
    wanted = [case(), case(width=40), case(width=64)]
    one, two = (measure(tiny_folder, wanted, jobs=jobs).rows for jobs in (1, 2))
    plain = {"cpu_seconds": 0.0, "anonymous_peak": 0}
    assert [r.model_copy(update=plain) for r in two] == [r.model_copy(update=plain) for r in one]
    assert [r.case for r in one] == wanted
