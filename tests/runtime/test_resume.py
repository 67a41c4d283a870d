"""A killed run goes on where it was: the same image and the same figures as of a run that nobody stopped."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from dpu.codegen.driver import compile_folder
from dpu.errors import DpuError
from dpu.runtime import generate
from dpu.runtime.calibrate import calibrate_folder
from dpu.runtime.generate import Summary, make_image
from dpu.runtime.pipeline import Request
from dpu.runtime.resume import Work
from dpu.runtime.unets import DpuUnet

REQUEST = Request("a red fox in the snow", seed=7, steps=2)


class Killed(Exception):
    pass


@pytest.fixture(scope="module")
def program(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny pipeline at 64x64, compiled from a short calibration."""
    folder = tmp_path_factory.mktemp("program")
    calibration, out = folder / "calib.safetensors", folder / "tiny.dpu"
    calibrate_folder(tiny_folder, calibration, prompts=1, steps=2, size=(64, 64))
    compile_folder(tiny_folder, arch="dpu_tiny", calibration=calibration, size=(64, 64), out=out)
    return out


def run(program: Path, out: Path, compare: Path, resume: Path | None, kill_after: int = 99) -> Summary:
    seen = 0

    def on_step(_: object) -> None:
        nonlocal seen
        seen += 1
        if seen > kill_after:
            raise Killed

    return make_image(
        program,
        "sim",
        REQUEST,
        out,
        compare_with=compare,
        on_step=on_step,
        resume=resume,
        timed=False,
        reference_out=out.with_name(f"reference-{out.name}"),
    )


@pytest.fixture(scope="module")
def whole(program: Path, tiny_folder: Path) -> tuple[Summary, Path]:
    """A run without a folder, and its image."""
    out = program.parent / "whole.png"
    return run(program, out, tiny_folder, None), out


def figures(s: Summary) -> tuple[object, ...]:
    c = s.comparison
    assert c is not None
    return (
        (c.timesteps, c.teacher_forced, c.free_running, c.latents, c.image_psnr, c.whole_latents, c.whole_psnr),
        (s.counters, s.input_overflows, s.exceptions, list(s.host)),
    )


@pytest.mark.parametrize(
    "kill_after", [0, 1, 2, 3, 5]
)  # in the passes whole, forced and found, between steps or at ends
def test_a_killed_run_goes_on(
    program: Path, tiny_folder: Path, whole: tuple[Summary, Path], tmp_path: Path, kill_after: int
) -> None:
    folder, out = tmp_path / "run", tmp_path / "out.png"
    with pytest.raises(Killed):
        run(program, out, tiny_folder, folder, kill_after)
    finished = {f.name: f.stat().st_mtime_ns for f in folder.glob("*.safetensors")}
    summary = run(program, out, tiny_folder, folder)
    assert finished and finished.items() <= {f.name: f.stat().st_mtime_ns for f in folder.glob("*.safetensors")}.items()
    assert sum(c.taken for c in summary.calls) > 0
    assert out.read_bytes() == whole[1].read_bytes()
    assert figures(summary) == figures(whole[0])
    reference = out.with_name("reference-out.png").read_bytes()
    assert reference == whole[1].with_name("reference-whole.png").read_bytes()


def test_a_finished_run_computes_nothing_again(
    program: Path, tiny_folder: Path, whole: tuple[Summary, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = tmp_path / "run", tmp_path / "out.png"
    run(program, out, tiny_folder, folder)
    monkeypatch.setattr(DpuUnet, "step", None)
    monkeypatch.setattr(generate, "_reference", None)
    summary = run(program, tmp_path / "again.png", tiny_folder, folder)
    assert (tmp_path / "again.png").read_bytes() == out.read_bytes()
    assert figures(summary) == figures(whole[0])
    assert all(c.taken for c in summary.calls)
    lines = summary.text().splitlines()
    assert lines[0] == "modelled device  dpu_tiny; cycles were not simulated (--no-timing)"
    assert (
        f"resumed          {len(summary.calls)} of {len(summary.calls)} model calls are of a run before this one"
        in lines
    )


def test_a_folder_of_another_run_is_refused(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make_image(program, "sim", replace(REQUEST, steps=1), tmp_path / "a.png", resume=folder, timed=False)
    with pytest.raises(DpuError) as e:
        make_image(program, "sim", replace(REQUEST, steps=1, seed=8), tmp_path / "b.png", resume=folder, timed=False)
    assert e.value.what.startswith(f"{folder} is of another run: request {{'guidance': 5.0")
    assert e.value.hint == "name another folder, or delete this one"


def test_a_damaged_step_is_refused(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    request = replace(REQUEST, steps=1)
    make_image(program, "sim", request, tmp_path / "a.png", resume=folder, timed=False)
    first, second = folder / "found-unet-000.safetensors", folder / "found-vae_decoder-000.safetensors"
    kept = first.read_bytes()
    first.write_bytes(kept[: len(kept) // 2])
    with pytest.raises(DpuError, match="not a readable call") as e:
        make_image(program, "sim", request, tmp_path / "b.png", resume=folder, timed=False)
    assert e.value.hint == "delete it: it is computed again"
    shutil.copy(second, first)  # of the same run, but of another call
    with pytest.raises(DpuError, match="was computed from other inputs"):
        make_image(program, "sim", request, tmp_path / "b.png", resume=folder, timed=False)
    first.unlink()
    make_image(program, "sim", request, tmp_path / "b.png", resume=folder, timed=False)
    assert (tmp_path / "b.png").read_bytes() == (tmp_path / "a.png").read_bytes()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"resume": Path("r"), "trace": Path("t.json")}, "--trace: does not go with --resume"),
        ({"timed": False, "report": Path("r")}, "--report: needs the cycles"),
        ({"reference_out": Path("r.png")}, "--reference: goes together with --compare DIR"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, object], text: str, tmp_path: Path) -> None:
    with pytest.raises(DpuError, match=text):
        make_image(tmp_path / "none.dpu", "sim", REQUEST, tmp_path / "a.png", **options)  # type: ignore[arg-type]


def test_targets_that_do_not_know_an_option(tmp_path: Path) -> None:
    with pytest.raises(DpuError, match="--resume: target cpu has none"):
        make_image(tmp_path, "cpu", REQUEST, tmp_path / "a.png", resume=tmp_path)
    with pytest.raises(DpuError, match="--no-timing: target rtl has none"):
        make_image(tmp_path, "rtl", REQUEST, tmp_path / "a.png", timed=False)


def test_work_survives_json() -> None:
    work = Work({"runs": 3}, 2, {("unet", 7): 5}, {"unet": 11})
    assert Work.load(work.dump()) == work
