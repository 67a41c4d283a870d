"""The compiled event loop against the one in Python: every number of every program is the same."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from dpu.errors import DpuError
from dpu.ir.arch import Arch, load_arch
from dpu.ir.isa import Buffer, Engine, Format, Opcode, Operand, Words, pack, wait_bit, word
from dpu.simulator import native_library, timing_native
from dpu.simulator.memory import with_dram
from dpu.simulator.timing import simulate
from dpu.simulator.timing_result import Timing

from ..rtl.layers import LAYERS
from .timing_programs import streams

pytestmark = pytest.mark.skipif(native_library.compiler() is None, reason="no C++ compiler")

TINY = load_arch("dpu_tiny")
MEMORIES = ("ideal", "simple", "hbm2_vu47p", "lpddr5x_8533_128")


def shape(arch: Arch, **change: object) -> Arch:
    return Arch.model_validate(arch.model_dump() | change)


ARCHS = {
    "dpu_tiny": TINY,
    "two tiles, 4 lanes": shape(TINY, tiles=2, lanes=4),
    "16 x 16, queues of 2": shape(TINY, rows=16, cols=16, queues={"load": 2, "mxu": 2, "vpu": 2, "store": 2}),
    "two tiles, an L2 of 16 KiB": shape(TINY, tiles=2, lanes=4, l2_bytes=1 << 14),
    "dpu_f2": load_arch("dpu_f2"),
    "dpu_32tops": load_arch("dpu_32tops"),
}


def result(arch: Arch, program: list[Words], native: bool) -> Timing | str:
    """The timing, or the text of the error."""
    try:
        return simulate(arch, program, "drawn", native)
    except DpuError as e:
        return e.text()


def assert_same(a: Timing | str, b: Timing | str) -> None:
    """All of two timings, order of reasons included."""
    if isinstance(a, str) or isinstance(b, str):
        assert a == b
        return
    for x, y in zip(a.tiles, b.tiles, strict=True):
        for f in fields(x):
            u, v = getattr(x, f.name), getattr(y, f.name)
            if isinstance(u, np.ndarray):
                assert (u.dtype, u.tolist()) == (v.dtype, v.tolist()), f.name
            else:
                assert repr(u) == repr(v), f.name
    for name in ("arch", "entry", "cycles", "dram", "not_modelled", "channels"):
        assert getattr(a, name) == getattr(b, name), name


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("name", ARCHS)
def test_random_programs(name: str, memory: str) -> None:
    arch = with_dram(ARCHS[name], memory)
    stuck = 0
    for seed in range(12):
        program = streams(np.random.default_rng(seed), arch, 30 + 10 * seed, broken=seed % 4 == 3)
        native = result(arch, program, native=True)
        stuck += isinstance(native, str)
        assert_same(native, result(arch, program, native=False))
    assert 1 <= stuck <= 3, "of the three broken programs; all others end"


def test_random_programs_use_the_l2() -> None:
    arch = with_dram(ARCHS["two tiles, an L2 of 16 KiB"], "lpddr5x_8533_128")
    found = simulate(arch, streams(np.random.default_rng(8), arch, 110), "drawn").channels
    assert found is not None and found.l2 is not None
    assert found.l2.hits > 50 and found.l2.merged > 50 and found.l2.misses > arch.l2_bytes // 256


def test_the_python_dram_model_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """All in Python against all in C++."""
    arch = with_dram(ARCHS["two tiles, 4 lanes"], "hbm2_vu47p")
    program = streams(np.random.default_rng(5), arch, 60)
    native = result(arch, program, native=True)
    monkeypatch.setenv("DPU_DRAM", "python")
    assert not timing_native.chosen()
    assert_same(native, result(arch, program, native=False))


@pytest.mark.parametrize("name", list(LAYERS))
def test_compiled_layers(name: str) -> None:
    """On two tiles; with bursts, because there every part takes part."""
    from ..properties.harness import Net, compile_net

    arch = ARCHS["two tiles, 4 lanes"]
    net = Net(2 if name == "conv_sources" else 1)
    inputs = LAYERS[name](net, np.random.default_rng(1), arch.cols)
    words = compile_net(net, arch, inputs).emitted.program.words["f"]
    for memory in ("simple", "hbm2_vu47p"):
        timed = with_dram(arch, memory)
        assert_same(result(timed, words, native=True), result(timed, words, native=False))


def test_a_deadlock_reads_the_same() -> None:
    waits = word(Opcode.MM, nx=4, ny=1, nc=1, nkx=1, nky=1, nn=1, tag=6, wait=wait_bit(Engine.VPU, 3))
    far = word(Opcode.LOAD, inner=64, n=[1, 1, 1], remote=0b01)
    program = [np.concatenate([waits, word(Opcode.END)]), np.concatenate([far, word(Opcode.END)])]
    assert result(ARCHS["two tiles, 4 lanes"], program, native=True) == (
        "error[E414]: entry 'drawn': deadlock: entry 'drawn' tile 0 word 0 (MM, tag 6) waits for a token of "
        "VPU->MXU[3]; entry 'drawn' tile 1 word 0 (LOAD, tag 0) waits for a token of tile 0\n"
        "  why: no tile can advance, so the tokens never come\n"
        "  try: dpuc verify names the word at fault; compile the model again"
    )


def test_a_word_that_no_verifier_passes_is_left_to_python() -> None:
    """Affine 1 reads operand B of ACC, which the operands of the word do not list."""
    source = pack(Buffer.ACC, Format.I32)
    odd = word(
        Opcode.VEC, rows=4, tiles=1, valid=8, a_src=pack(Buffer.VBUF, Format.F16), b_src=source, m1=int(Operand.ELEM)
    )
    program = [np.concatenate([odd, word(Opcode.END)])]
    for native in (True, False):
        with pytest.raises(KeyError):
            simulate(TINY, program, native=native)


# The library


def use(monkeypatch: pytest.MonkeyPatch, library: native_library.Library) -> None:
    monkeypatch.setattr(timing_native, "LIBRARY", library)
    timing_native._library.cache_clear()


@pytest.fixture
def restored() -> Iterator[None]:
    yield
    timing_native._library.cache_clear()


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("mxu.hpp", "behind <= 1 ? 3 : 1", "behind <= 1 ? 2 : 1"),
        ("run.cpp", "std::max(e.last + 1, done)", "std::max(e.last, done)"),
        ("walk.hpp", "std::min(w.rows, (bank + 1) * size - first)", "w.rows"),
        ("ports.hpp", "work -= rate * (last - t);", "work -= last - t;"),
    ],
)
def test_these_tests_see_a_wrong_rule(
    file: str, before: str, after: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restored: None
) -> None:
    """One rule changed in the C++: some random program shows it."""
    own = timing_native.LIBRARY
    root = own.sources[0].parents[1]
    for folder in ("timing_cpp", "dram"):
        shutil.copytree(root / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "*.py"))
    text = (tmp_path / "timing_cpp" / file).read_text()
    assert text.count(before) == 1
    (tmp_path / "timing_cpp" / file).write_text(text.replace(before, after))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(native_library, "FLAGS", ("-std=c++17", "-O0", "-shared", "-fPIC"))  # quick to compile
    moved = {k: tuple(tmp_path / p.relative_to(root) for p in getattr(own, k)) for k in ("sources", "headers")}
    use(monkeypatch, replace(own, **moved))
    arch = with_dram(ARCHS["dpu_tiny"], "simple")
    for seed in range(40):
        program = streams(np.random.default_rng(seed), arch, 100)
        try:
            assert_same(result(arch, program, native=True), result(arch, program, native=False))
        except AssertionError:
            return
    pytest.fail("no program shows the wrong rule")


def _build(folder: str) -> str:
    import os

    os.environ["XDG_CACHE_HOME"] = folder
    return str(timing_native.LIBRARY.build())


def test_several_processes_build_at_once(tmp_path: Path) -> None:
    with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as pool:
        paths = list(pool.map(_build, [str(tmp_path)] * 3))
    left = sorted(p.name for p in (tmp_path / "dpu").iterdir())
    assert set(paths) == {str(tmp_path / "dpu" / left[-1])}
    assert left == [".timing.lock", Path(paths[0]).name], "nothing half done is left"


def test_the_sources_have_no_warnings() -> None:
    compiler = native_library.compiler()
    assert compiler is not None
    for source in timing_native.LIBRARY.sources:
        command = [compiler, "-std=c++17", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-fsyntax-only", str(source)]
        subprocess.run(command, check=True)


def test_every_header_counts_for_the_digest() -> None:
    folder = timing_native.LIBRARY.sources[0].parent
    listed = {p.name for p in (*timing_native.LIBRARY.sources, *timing_native.LIBRARY.headers) if p.parent == folder}
    assert listed == {p.name for p in folder.iterdir() if p.suffix in (".hpp", ".cpp")}


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, restored: None) -> None:
    """Python runs, with the same result; asked for, the compiled loop is an error."""
    program = streams(np.random.default_rng(1), TINY, 40)
    native = result(TINY, program, native=True)
    for name, value in (("PATH", ""), ("CXX", ""), ("XDG_CACHE_HOME", str(tmp_path))):
        monkeypatch.setenv(name, value)
    timing_native._library.cache_clear()
    assert not timing_native.chosen()
    assert_same(native, simulate(TINY, program, "drawn"))
    monkeypatch.setenv("DPU_TIMING", "native")
    assert result(TINY, program, native=None) == (  # type: ignore[arg-type]
        "error[E427]: timing model: no C++ compiler\n"
        "  why: $CXX, c++, g++ and clang++ were looked for; DPU_TIMING=native asks for the compiled model\n"
        "  try: install one, or unset DPU_TIMING: the same model in Python is about 70 times slower"
    )
