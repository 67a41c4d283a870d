"""Codes of errors: registered, used, documented, asserted; and the errors that no other test meets."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dpu.bench.errors_doc import generated, used_codes
from dpu.codegen.emit import emit
from dpu.errors import CODES, GROUPS, DpuError, reason, refusing
from dpu.frontend.pipeline_folder import MANIFEST, PipelineFolder
from dpu.frontend.weights import WeightStore
from dpu.ir.arch import load_arch
from dpu.ir.dialects import parse_module
from dpu.passes.pipeline import run_passes
from dpu.passes.quantise import quantise
from dpu.runtime.device import Capability, Ticket, check_program
from dpu.runtime.failures import SeededWeights, predicate
from dpu.runtime.float_interpreter import FloatInterpreter
from dpu.runtime.reduce_graph import reduce_module
from dpu.runtime.sim_device import SimDevice

ROOT = Path(__file__).parent.parent

NOT_ASSERTED = {
    "E224": "a text encoder longer than a block of keys; no arch that ships is that small",
    "E227": "more gate tables than slots: the graph knows fewer functions than a tile has slots",
    "E324": "a field wider than the word: the scratchpads of the archs that ship are smaller than the fields",
    "E402": "a weight store that does not belong to its module",
    "E406": "a model that ONNX Runtime refuses though onnx reads it",
    "E407": "token ids come from the pipeline's own tokenizer",
    "E426": "slots are checked against the regions when the program is made",
}
"""Codes that no test asserts, and why."""


def test_every_code_is_registered_and_used() -> None:
    used = used_codes()
    assert not [f"{place} raises {code}" for code, place in used.items() if code not in CODES]
    assert not [code for code in CODES if code not in used], "registered but raised nowhere"
    assert all(code[:2] in GROUPS for code in CODES) and list(CODES) == sorted(CODES)


def test_an_unregistered_code_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"code E999 is not in dpu\.errors\.CODES"):
        DpuError("here", "what", code="E999")


def test_the_page_is_fresh() -> None:
    assert (ROOT / "docs" / "errors.md").read_text() == generated(), "stale: run python -m dpu.bench.errors_doc"


def test_every_code_is_asserted_or_says_why_not() -> None:
    texts = [p.read_text() for p in (ROOT / "tests").rglob("*.py") if p != Path(__file__)]
    own = Path(__file__).read_text().partition('"""Codes that no test asserts, and why."""')[2]
    asserted = set(re.findall(r"E\d{3}", "".join([*texts, own])))
    assert set(CODES) - asserted == set(NOT_ASSERTED)


def test_the_reason_is_that_of_the_first_cause() -> None:
    with pytest.raises(DpuError) as e, refusing("f.onnx", "cannot be read", hint="try again", code="E102"):
        try:
            raise KeyError("axis")
        except KeyError as inner:
            raise ValueError("while reading\nf.onnx") from inner
    assert str(e.value) == "error[E102]: f.onnx: cannot be read (KeyError: 'axis')\n  try: try again"
    assert reason(AssertionError()) == "AssertionError" and reason(ValueError("a\n b")) == "a b"


NET = """func.func @net(%x: tensor<1x8x16xf16> {dpu.name = "x"}) -> (tensor<1x8x16xf16> {dpu.name = "y"}) {
  %w = dpu.param "w" : tensor<16x16xf16>
  %y = dpu.linear %x, %w : tensor<1x8x16xf16>, tensor<16x16xf16> -> tensor<1x8x16xf16>
  func.return %y : tensor<1x8x16xf16>
}
"""


def refused(code: str) -> Any:
    return pytest.raises(DpuError, match=rf"error\[{code}\]: \S")


def test_a_manifest_that_is_none_or_that_files_do_not_match(tmp_path: Path) -> None:
    with refused("E110"):
        PipelineFolder.load(tmp_path)
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / MANIFEST).write_text(json.dumps({"format": 1, "parts": {"unet": {"files": {"a": "0"}}}}))
    with refused("E116"):
        PipelineFolder.load(tmp_path).verify()


def test_a_parameter_that_is_not_there() -> None:
    with refused("E115"):
        WeightStore().entry("unet::w")


def test_graphs_that_passes_refuse() -> None:
    erf = NET.replace("dpu.linear %x, %w : tensor<1x8x16xf16>, tensor<16x16xf16>", "dpu.t.erf %x : tensor<1x8x16xf16>")
    with refused("E203"):
        run_passes(parse_module(erf), ["canonicalise"])
    with refused("E225"):
        run_passes(parse_module(NET.replace("func.return %y", "func.return %x")), ["lower-to-tile"])


def test_reading_what_the_module_does_not_hold() -> None:
    module = parse_module(NET)
    weights = SeededWeights(module)
    with refused("E401"):
        FloatInterpreter(module, weights).run("nosuch", {})
    arch = load_arch("dpu_tiny")
    with refused("E506"):
        reduce_module(module, predicate("compile-error", arch, weights), lambda _: None)
    quantised = parse_module(NET)
    quantise(quantised, arch, None, {})
    with refused("E404"):
        FloatInterpreter(quantised, weights).run("net", {"x": np.zeros((1, 8, 16))})


def test_a_device_refuses_what_it_does_not_have() -> None:
    arch = load_arch("dpu_tiny")
    module = parse_module(NET)
    weights = SeededWeights(module)
    quantise(module, arch, None, {})
    program = emit(module, arch, weights.get, {}).program
    have = Capability("sim", arch.name, arch.digest, 0, arch.clock_hz, 0)
    with refused("E421"):
        check_program(program, have)
    program.info["abi"] = 0
    with refused("E422"):
        check_program(program, have)
    device = SimDevice(arch, timed=False)
    with refused("E423"):
        device.submit(3, {})
    with refused("E424"):
        device.wait(Ticket(9, "net"))
    with refused("E425"):
        device.read(1 << 60, 8)
    device.close()
