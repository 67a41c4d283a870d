"""Stepping a run: the same words in the same order as without, stopped where asked, and what can be seen there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dpu.errors import DpuError
from dpu.ir.arch import load_arch
from dpu.ir.dialects import parse_module
from dpu.runtime import failures
from dpu.runtime.breaks import Breakpoint
from dpu.runtime.looking import Looking, Quit, _lines
from dpu.runtime.session import Session
from dpu.runtime.sim_device import SimDevice
from dpu.simulator.machine import Machine
from dpu.simulator.stepping import Stepper

X, W = "tensor<1x40x16xf16>", "tensor<16x16xf16>"
TEXT = f"""func.func @f(%x: {X} {{dpu.name = "x"}}) -> ({X} {{dpu.name = "y"}}) {{
%w = dpu.param "w" : {W}
%a = dpu.linear %x, %w act "silu" : {X}, {W} -> {X} loc("/one/MatMul"("m":0:0))
%b = dpu.linear %a, %w : {X}, {W} -> {X} loc(fused["/two/MatMul"("m":0:0), "/two/Add"("m":0:0)])
%c = dpu.linear %b, %w residual %a : {X} : {X}, {W} -> {X} loc("/three/MatMul"("m":0:0))
func.return %c : {X} }}"""


def compiled(arch: str) -> tuple[Any, dict[str, Any]]:
    module = parse_module(TEXT)
    emitted, _, inputs = failures.compile_module(module, load_arch(arch), failures.SeededWeights(module))
    return emitted.program, inputs


def regions(program: Any) -> dict[int, Any]:
    found = {b: np.full(max(program.base_bytes.get(b, 0), 64), 0x3A, np.uint8) for b in range(4)}
    found[0][: len(program.constants)] = program.constants
    return found


@pytest.mark.parametrize("arch", ["dpu_tiny", "dpu_32tops"])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_steps_are_the_run(arch: str, size: int) -> None:
    program, _ = compiled(arch)
    words = program.words["f"]
    whole, stepped = Machine(program.arch, regions(program)), Machine(program.arch, regions(program))
    expected: list[tuple[int, int, int]] = []
    found: list[tuple[int, int, int]] = []
    counters = whole.run(words, lambda *x: expected.append(x), "f")
    stepper = Stepper(stepped, words, lambda *x: found.append(x), "f")
    executed = 0
    while not stepper.done:
        n = stepper.step(size)
        assert 0 < n <= size
        executed += n
    assert stepper.step() == 0
    assert executed == sum(len(w) for w in words)
    assert stepper.counters == counters
    assert found == expected  # the order too
    assert all(np.array_equal(whole.regions[b], stepped.regions[b]) for b in range(4))


@pytest.mark.parametrize("arch", ["dpu_tiny", "dpu_32tops"])
def test_until_stops_before_the_first_word_of_an_operation(arch: str) -> None:
    program, _ = compiled(arch)
    words = program.words["f"]
    tag = next(s.tag for s in program.entries[0].sources if "/two/Add" in s.nodes)
    stepper = Stepper(Machine(program.arch, regions(program)), words, None, "f")
    stops = [np.flatnonzero(w["tag"] == tag).tolist() for w in words]
    assert stepper.until(stops)
    assert tag not in stepper.counters.tags
    state = stepper.states[stepper.tile]
    assert int(state.words[state.at]["tag"]) == tag
    assert stepper.until(stops) and tag not in stepper.counters.tags  # it stands there already
    stepper.step()
    assert stepper.counters.tags[tag].words == 1
    stepper.finish()
    assert stepper.done and not stepper.until(stops)


def session(commands: str, pattern: str = "f:/two/*", times: int = 1, arch: str = "dpu_tiny") -> tuple[list[str], Any]:
    """What a script shows, and the last result."""
    program, inputs = compiled(arch)
    shown: list[str] = []
    device = SimDevice(program.arch, timed=False)
    device.runner = Breakpoint(program, pattern, iter(commands.splitlines()), shown.append).run
    with Session(program, device) as s:
        for _ in range(times):
            y = s.run("f", inputs)["y"]
    return shown, y


def plain() -> Any:
    program, inputs = compiled("dpu_tiny")
    with Session(program, SimDevice(program.arch, timed=False)) as s:
        return s.run("f", inputs)["y"]


def test_a_script_sees_where_it_is_and_changes_nothing() -> None:
    shown, y = session(
        "where\nsemaphores\nstep\nstep 3\nbuffers param 0 2\nbuffers act 0 1 u8\ndram io 0 32 f16\nhelp\n"
    )
    text = "\n".join(shown)
    assert shown[0] == "stopped at '/two/Add' (dpu.q.linear), run 1 of entry 'f'"
    assert "operation   /two/Add (dpu.q.linear)" in text
    assert "nodes       /two/MatMul, /two/Add" in text
    assert "/two/Add (dpu.q.linear): 0 of its " in text and "<- next" in text
    assert "queues      LOAD " in text and "next" in text
    assert "PARAM[0]  " in text and "ACT[0]  " in text and "io+0  " in text
    assert sum(line.startswith("tile 0 word ") for line in shown) == 1 + 1 + 1 + 3
    assert np.array_equal(y, plain())


def test_it_stops_again_in_the_next_run_until_the_commands_end() -> None:
    shown, y = session("continue\ncontinue\n", times=3)
    assert sum(line.startswith("stopped at") for line in shown) == 3
    shown, _ = session("continue\n", times=4)
    assert sum(line.startswith("stopped at") for line in shown) == 2  # the second stop finds no more commands
    assert np.array_equal(y, plain())


def test_quit_ends_the_run() -> None:
    with pytest.raises(Quit):
        session("step 2\nquit\n")


def test_stepping_past_the_end_says_so() -> None:
    shown, y = session("step 1000000\nstep\nwhere\nsemaphores\n")
    assert "all tiles have ended; continue goes on with the next entry" in shown
    assert "tile 0 has ended" in shown[-2]
    assert shown[-1] == "semaphores  no tokens"
    assert np.array_equal(y, plain())


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("jump", "no such command"),
        ("step 0", "0 is not 1 or more"),
        ("step x", "invalid literal"),
        ("buffers nosuch 0 1", "no buffer 'nosuch'; one of act, wgt, acc, vbuf, param"),
        ("buffers act 0 9999999", "which holds"),
        ("buffers act 0", "write buffers NAME lo n"),
        ("dram nosuch 0 1", "no base 'nosuch'"),
        ("dram io 0 999999999", "which holds"),
        ("dram 1 0 8 f64", "no type 'f64'"),
        ("dram io -1 8", "no place and number"),
        ("step '", "No closing quotation"),
    ],
)
def test_a_bad_command_is_a_line_and_the_next_one_works(command: str, text: str) -> None:
    shown, y = session(f"{command}\nsemaphores\n")
    assert any(text in line for line in shown)
    assert shown[-1].startswith("semaphores")
    assert y.shape == (1, 40, 16)


def test_several_tiles_are_shown_each(tmp_path: Path) -> None:
    shown, _ = session("where\nstep 50\nwhere\n", pattern="/three/*", arch="dpu_32tops")
    program, _ = compiled("dpu_32tops")
    assert len({line.split()[1] for line in shown if line.startswith("tile ")}) == program.arch.tiles


def test_commands_come_from_a_file_or_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import io

    script = tmp_path / "commands"
    script.write_text("where\nquit\n")
    assert list(_lines(script)) == ["where", "quit"]
    assert capsys.readouterr().out == "> where\n> quit\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("step 2\ncontinue\n"))
    assert [x.strip() for x in _lines(None)] == ["step 2", "continue"]
    program, inputs = compiled("dpu_tiny")
    device = SimDevice(program.arch, timed=False)
    Looking(break_at="/two/*", break_commands=script).attach(device, program)
    with Session(program, device) as s, pytest.raises(Quit):
        s.run("f", inputs)
    with pytest.raises(DpuError, match="no such file"):
        Looking(break_at="/two/*", break_commands=tmp_path / "none").check("sim")
