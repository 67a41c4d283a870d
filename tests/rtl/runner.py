"""Builds one cocotb bench with Verilator and runs it; rtl/bench/README.md says how to add one."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path

import dpu
import pytest
from dpu.rtl import toolchain
from dpu.rtl.model import COVERED

from . import shared

BENCH = Path(dpu.__file__).parent / "rtl" / "bench"
SHOWN = 80  # lines of the log of a failed bench
EXPOSED = ("*_i", "*_o", "*_ni", "s_axi*", "m_axi*")
"""Signals of the top that a bench sees: ports, by their names. All of the rest stays optimised."""


def run_bench(
    name: str,
    sources: Sequence[str | Path] | None,
    top: str,
    parameters: Mapping[str, object],
    test_module: str,
    testcases: Sequence[str] | None = None,
    env: Mapping[str, str] | None = None,
    waves: bool = False,
    expose: Sequence[str] = (),
    search: Sequence[Path] = (BENCH,),
) -> None:
    """Build `top` with `parameters` and run the cocotb tests of `test_module`; a failed one fails the pytest test.

    `sources` None: the file of `top` and of all it uses, from rtl/ and the folders `search`. `expose` are patterns of
    signals inside the top that the bench reads besides its ports. The bench finds `parameters` as JSON in the
    environment variable BENCH_PARAMETERS.
    """
    files = _files(sources, top, search)
    begin = time.perf_counter()
    program = _build(name, files, top, parameters, waves, tuple(expose))
    built = time.perf_counter()
    said = {"BENCH_PARAMETERS": json.dumps(dict(parameters)), **(env or {})}
    _run(program, top, test_module, testcases, said, waves, search)
    print(f"{name}: build {built - begin:.1f} s, run {time.perf_counter() - built:.1f} s")


def _files(sources: Sequence[str | Path] | None, top: str, search: Sequence[Path]) -> list[Path]:
    if sources is None:
        return toolchain.sources(top, extra=[p for folder in search for p in sorted(folder.rglob("*.sv"))])
    return [Path(s) if Path(s).is_absolute() else toolchain.FOLDER / s for s in sources]


def _build(
    name: str, files: Sequence[Path], top: str, parameters: Mapping[str, object], waves: bool, expose: tuple[str, ...]
) -> Path:
    import cocotb_tools.config as config

    driver = config.share_dir / "lib" / "verilator" / "verilator.cpp"
    visible = "`verilator_config\n" + "".join(
        f'public_flat_rw -module "{top}" -var "{pattern}"\n' for pattern in (*EXPOSED, *expose)
    )
    folder = toolchain.cache_folder() / "control"
    folder.mkdir(parents=True, exist_ok=True)
    control = folder / f"{name}-{top}-{os.getpid()}.vlt"
    control.write_text(visible)
    arguments = ["--exe", "--vpi", "--timescale", "1ns/1ps", "-o", "bench", "-LDFLAGS"]
    arguments += [f"-Wl,-rpath,{config.libs_dir} -L{config.libs_dir} -lcocotbvpi_verilator"]
    arguments += ["--trace-vcd"] if waves else []
    arguments += COVERED if shared.coverage else []
    # The path of the control file is not part of what is built, so it goes among the files, by content.
    job = toolchain.Build(
        name=f"bench/{name}",
        top=top,
        files=(*files, _settled(control, visible)),
        target="bench",
        parameters=dict(parameters),
        arguments=(*toolchain.LINT, *arguments, str(driver)),
        flags={"OPT_FAST": "-O1", "OPT_SLOW": "-O0", "OPT_GLOBAL": "-O2"},
        inputs=(driver,),
    )
    return toolchain.build(job)


def _settled(path: Path, text: str) -> Path:
    """`path` renamed after its content, so that equal builds have equal inputs."""
    import hashlib

    final = path.with_name(f"ports-{hashlib.sha256(text.encode()).hexdigest()[:16]}.vlt")
    path.replace(final)
    return final


def _run(
    program: Path,
    top: str,
    test_module: str,
    testcases: Sequence[str] | None,
    env: Mapping[str, str],
    waves: bool,
    search: Sequence[Path],
) -> None:
    from cocotb_tools.runner import get_runner

    folder = Path(tempfile.mkdtemp(prefix=f"{test_module}-"))
    log, results = folder / "log.txt", folder / "results.xml"
    runner = get_runner("verilator")
    runner.build_dir, runner._sources, runner._verilog_sources, runner._vhdl_sources = program.parent, [], [], []
    paths, sys.path[:] = list(sys.path), [*map(str, search), *sys.path]  # cocotb hands sys.path to the simulation
    try:
        # The program is called "bench" whatever the top is: say so, and give the top's name in the environment.
        runner._test_command = lambda: [[str(program), *(["--trace"] if waves else [])]]  # type: ignore[method-assign]
        runner.test(
            test_module=test_module,
            hdl_toplevel=top,
            hdl_toplevel_lang="verilog",
            testcase=list(testcases) if testcases else None,
            extra_env={"PYTHONDONTWRITEBYTECODE": "1", **env},
            build_dir=program.parent,
            test_dir=folder,
            results_xml=str(results),
            log_file=log,
            waves=waves,
        )
    except (SystemExit, RuntimeError) as e:
        _fail(log, results, str(e))
    finally:
        sys.path[:] = paths
    failed = _failures(results)
    if failed or not _count(results):
        _fail(log, results, "no test ran" if not failed else "")
    if shared.coverage is not None:  # cocotb writes it where the bench runs
        shutil.copyfile(folder / "coverage.dat", shared.coverage / f"{test_module}.{folder.name}.dat")
    if waves:
        print(f"waves: {folder / 'dump.vcd'}")
    else:
        shutil.rmtree(folder, ignore_errors=True)


def _count(results: Path) -> int:
    return len(list(ET.parse(results).iter("testcase"))) if results.is_file() else 0


def _failures(results: Path) -> list[str]:
    if not results.is_file():
        return []
    found = []
    for case in ET.parse(results).iter("testcase"):
        for bad in (*case.findall("failure"), *case.findall("error")):
            text = bad.get("error_msg") or bad.get("message") or bad.text or ""
            found.append(f"{case.get('classname')}.{case.get('name')}: {text.strip()[:400]}")
    return found


def _fail(log: Path, results: Path, why: str) -> None:
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    failed = _failures(results)
    head = "\n".join(failed) or why or "the simulation ended early"
    pytest.fail(f"{head}\n--- end of {log}\n" + "\n".join(lines[-SHOWN:]), pytrace=False)
