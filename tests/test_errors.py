"""Codes of errors: a class each, used, documented, asserted; and the errors that no other test meets, word for word."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from dpu import errors
from dpu.bench import golden
from dpu.bench.errors_doc import examples, generated, used_codes, without_hint
from dpu.codegen.assembler import assemble
from dpu.codegen.dpufile import save
from dpu.codegen.emit import emit
from dpu.codegen.sync import insert_semaphores
from dpu.codegen.witness import check_program
from dpu.errors import GROUPS, KINDS, DpuError, reason, refusing
from dpu.frontend.pipeline_folder import MANIFEST, PipelineFolder
from dpu.frontend.weights import Entry as Parameter
from dpu.frontend.weights import WeightStore
from dpu.ir.arch import load_arch
from dpu.ir.container import Entry, Program
from dpu.ir.dialects import parse_module
from dpu.ir.isa import MAX_TOKENS, Buffer, Engine, Opcode, Words, empty, signal_bit, wait_bit, word
from dpu.passes.calibration import Calibration
from dpu.passes.pipeline import run_passes
from dpu.passes.quantise import quantise
from dpu.runtime.device import Capability, Ticket
from dpu.runtime.device import check_program as check_device
from dpu.runtime.failures import SeededWeights, predicate
from dpu.runtime.float_interpreter import FloatInterpreter
from dpu.runtime.host_model import HostModel
from dpu.runtime.parts import GraphPart
from dpu.runtime.pipeline_files import FolderFiles
from dpu.runtime.reduce_graph import reduce_module
from dpu.runtime.session import Session
from dpu.runtime.sim_device import SimDevice
from onnx import TensorProto, helper

ROOT = Path(__file__).parent.parent
TINY = load_arch("dpu_tiny")
Case = Callable[[Path], object]


def test_every_code_is_a_class_and_used() -> None:
    used = used_codes()
    assert not [f"{place} raises {code}" for code, place in used.items() if code not in KINDS]
    assert not [code for code in KINDS if code not in used], "a class that nothing raises"
    assert all(code[:2] in GROUPS for code in KINDS) and list(KINDS) == sorted(KINDS)
    for code, kind in KINDS.items():
        assert getattr(errors, kind.__name__) is kind and kind.code == code and kind.__doc__


def test_an_error_is_of_the_class_of_its_code() -> None:
    with pytest.raises(errors.UnsupportedNode) as e:
        raise DpuError("m.onnx: node '/a'", "Cosh", "no rule", code="E104")
    assert not isinstance(e.value, errors.UnreadableModel)
    for other in (pickle.loads(pickle.dumps(e.value)), copy.copy(e.value)):
        assert type(other) is errors.UnsupportedNode and vars(other) == vars(e.value) and str(other) == str(e.value)


def test_an_unregistered_code_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"code E999 has no class in dpu\.errors"):
        DpuError("here", "what", code="E999")


def test_the_page_is_fresh() -> None:
    assert (ROOT / "docs" / "errors.md").read_text() == generated(), "stale: run python -m dpu.bench.errors_doc"


def test_every_code_is_asserted_word_for_word() -> None:
    assert sorted(set(KINDS) - set(examples())) == [], "no test holds a text of these codes"


def test_every_error_says_what_to_try() -> None:
    assert not without_hint()


def test_the_reason_is_that_of_the_first_cause() -> None:
    with pytest.raises(DpuError) as e, refusing("f.onnx", "cannot be read", hint="try again", code="E102"):
        try:
            raise KeyError("axis")
        except KeyError as inner:
            raise ValueError("while reading\nf.onnx") from inner
    assert str(e.value) == "error[E102]: f.onnx: cannot be read (KeyError: 'axis')\n  try: try again"
    assert reason(AssertionError()) == "AssertionError" and reason(ValueError("a\n b")) == "a b"


# -- graphs ------------------------------------------------------------------------------------------------------------


def net(*lines: str, tokens: int = 8, channels: int = 16) -> str:
    """A function of `%x`; in its lines `X` is the type of `%x` and of the result, `W` that of the parameter `%w`."""
    x, w = f"tensor<1x{tokens}x{channels}xf16>", f"tensor<{channels}x{channels}xf16>"
    body = "".join(f"  {line}\n" for line in ('%w = dpu.param "w" : W', *lines))
    body = body.replace("W", w).replace("X", x)
    return f'func.func @net(%x: {x} {{dpu.name = "x"}}) -> ({x} {{dpu.name = "y"}}) {{\n{body}}}\n'


NET = net("%y = dpu.linear %x, %w : X, W -> X", "func.return %y : X")
ERF = net('%y = dpu.t.erf %x : X -> X loc("/mid/Erf"("unet.onnx":0:0))', "func.return %y : X")
NOTHING = net("func.return %x : X")
WIDE = net("%y = dpu.linear %x, %w : X, W -> X", "func.return %y : X", channels=4000)
LONG = net("%y = dpu.silu %x : X -> X", "func.return %y : X", tokens=1 << 40)
GATES = net(
    '%a = dpu.linear %x, %w act "silu" : X, W -> X',
    '%b = dpu.linear %a, %w act "gelu" : X, W -> X',
    '%y = dpu.linear %b, %w act "quick_gelu" : X, W -> X',
    "func.return %y : X",
)
CAUSAL = net(
    *(f"%{n} = dpu.linear %x, %w : X, W -> X" for n in "qkv"),
    "%y = dpu.attention %q, %k, %v heads 1 scale 0.25 key_block 1024 prob_bits 8 : i64 causal : X, X, X -> X",
    "func.return %y : X",
    tokens=4096,
)


def passes(text: str, *names: str) -> Case:
    return lambda _: run_passes(parse_module(text), names)


def compiles(text: str) -> Case:
    def case(_: Path) -> object:
        module = parse_module(text)
        quantise(module, TINY, None, {})
        return emit(module, TINY, SeededWeights(module).get, {})

    return case


def uncalibrated(_: Path) -> object:
    return quantise(parse_module(CAUSAL), TINY, Calibration({}, {}, "calib.st"), {})


def run_float(text: str, function: str, quantised: bool = False, weights: Any = None) -> Case:
    def case(_: Path) -> object:
        module = parse_module(text)
        if quantised:
            quantise(module, TINY, None, {})
        interpreter = FloatInterpreter(module, weights or SeededWeights(module))
        return interpreter.run(function, {"x": np.zeros((1, 8, 16))})

    return case


class Transposed:
    """Weights of another model."""

    def get(self, source: str, transform: Any = ()) -> np.ndarray:
        return np.zeros((16, 8), np.float32)


def nothing_fails(_: Path) -> object:
    module = parse_module(NET)
    return reduce_module(module, predicate("compile-error", TINY, SeededWeights(module)))


# -- files -------------------------------------------------------------------------------------------------------------


def changed_file(folder: Path) -> object:
    (folder / "a").write_bytes(b"x")
    (folder / MANIFEST).write_text(json.dumps({"format": 1, "parts": {"unet": {"files": {"a": "0"}}}}))
    return PipelineFolder.load(folder).verify()


def only_a_shape(_: Path) -> object:
    store = WeightStore()
    store.add("unet::w", Parameter((16, 16), np.dtype(np.float16)))
    return store.get("unet::w")


def no_words(folder: Path) -> object:
    program = empty_program()
    program.words.clear()
    return save(program, folder / "x.dpu")


def unknown_to_the_host(folder: Path) -> object:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Nosuch", ["x"], ["y"], "/n", domain="com.nosuch")], "g", [value], [])
    graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1]))
    domains = [helper.make_opsetid("", 20), helper.make_opsetid("com.nosuch", 1)]
    onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=10), folder / "model.onnx")
    return HostModel(FolderFiles(folder), "model.onnx")


def outside_the_vocabulary(_: Path) -> object:
    embedding = {"kind": "embedding", "input": "ids", "output": "e", "table": "t", "position": "p"}
    part = GraphPart("text_encoder", [embedding], lambda _: np.zeros((1000, 8)), lambda values: {}, ["e"], [])
    return part({"ids": np.array([[1, 999, 1000]])})


# -- programs ----------------------------------------------------------------------------------------------------------

END = word(Opcode.END)


def mm(**fields: Any) -> Words:
    return word(Opcode.MM, **(dict.fromkeys(("nx", "ny", "nc", "nkx", "nky", "nn"), 1) | fields))


def empty_program() -> Program:
    entry = Entry(name="net", inputs=(), outputs=(), sources=())
    return Program(TINY, [entry], {"net": [END]}, np.zeros(64, np.uint8), {0: 64, 3: 4096})


def load(**fields: Any) -> Words:
    return word(Opcode.LOAD, **({"buffer": Buffer.ACT, "inner": TINY.cols, "n": (1, 1, 1), "base": 1} | fields))


def store(**fields: Any) -> Words:
    return word(Opcode.STORE, **({"buffer": Buffer.ACT, "inner": TINY.cols, "n": (1, 1, 1), "base": 1} | fields))


def witness(*streams: list[Words]) -> Case:
    arch = TINY.model_copy(update={"tiles": len(streams)})
    return lambda _: check_program([np.concatenate(s) for s in streams], arch, {0: 1 << 20, 1: 1 << 20}, "entry 'x'")


# -- devices -----------------------------------------------------------------------------------------------------------


def device(use: Callable[[SimDevice], object]) -> Case:
    def case(_: Path) -> object:
        sim = SimDevice(TINY, timed=False)
        try:
            return use(sim)
        finally:
            sim.close()

    return case


def capability(abi: int, memory: int) -> Case:
    have = Capability("sim", TINY.name, TINY.digest, abi, TINY.clock_hz, memory)
    return lambda _: check_device(empty_program(), have)


def beyond_the_io(_: Path) -> object:
    with Session(empty_program(), SimDevice(TINY, timed=False)) as session:
        return session.peek(3, 0, 1 << 30)


COMPILER = "  try: compile the model again; if the error stays, it is the compiler's"

REFUSED: dict[str, tuple[Case, str]] = {
    "E110": (
        lambda folder: PipelineFolder.load(folder),
        "error[E110]: DIR/dpu_pipeline.json: no readable pipeline manifest ([Errno 2] No such file or directory: "
        "'DIR/dpu_pipeline.json')\n"
        "  try: export a pipeline first: dpuc export tiny-seeded -o DIR",
    ),
    "E113": (
        only_a_shape,
        "error[E113]: unet::w: has no value, only the shape 16x16\n"
        "  why: the graph was imported without weights\n"
        "  try: import a model whose weight file is there, or ask for shapes and counts only",
    ),
    "E115": (
        lambda _: WeightStore().entry("unet::w"),
        "error[E115]: unet::w: no such parameter\n  try: the module and the weight store belong to different models",
    ),
    "E116": (
        changed_file,
        "error[E116]: DIR/a: its SHA-256 is not the one in dpu_pipeline.json\n"
        "  try: run the export again: changed parts are replaced",
    ),
    "E203": (
        passes(ERF, "canonicalise"),
        "error[E203]: unet.onnx: node '/mid/Erf': operation 'dpu.t.erf' on (1, 8, 16) has no canonical form\n"
        "  why: the recognising passes left it over: it is no part of a linear, convolution, norm, attention or "
        "activation that the DPU runs\n"
        "  try: export with diffusers' default attention processors, or add a pattern to passes/recognise_*.py",
    ),
    "E206": (
        passes(LONG, "quantise{arch=dpu_tiny}", "lower-to-tile"),
        "error[E206]: net/dpu.q.silu: would take about 12,884,901,888 instruction words a tile\n"
        "  why: an entry may have 3,000,000; arch 'dpu_tiny' cuts it into blocks that small\n"
        "  try: use an arch with larger scratchpads or more tiles, or a smaller image",
    ),
    "E224": (
        compiles(CAUSAL),
        "error[E224]: operation 'dpu.attention': causal attention of 4096 tokens\n"
        "  why: a mask needs all keys in one block, and arch 'dpu_tiny' holds 512\n"
        "  try: use an arch with larger scratchpads",
    ),
    "E225": (
        passes(NOTHING, "lower-to-tile"),
        "error[E225]: function 'net': returns its argument as 'y'\n"
        "  try: end the function in one return of different values",
    ),
    "E227": (
        compiles(GATES),
        "error[E227]: function 'net': uses 3 gate tables: sigmoid, phi, quick_gelu\n"
        "  why: a tile holds 2, loaded once\n"
        "  try: split it into functions",
    ),
    "E240": (
        uncalibrated,
        "error[E240]: calib.st: no statistic 'channel_absmax' for 'net/dpu.attention:k'\n"
        "  why: the graph has an operation that calibration did not see\n"
        "  try: calibrate this model again: dpuc calibrate DIR -o calib.safetensors",
    ),
    "E305": (
        no_words,
        "error[E305]: DIR/x.dpu: entry 'net' has no words\n"
        "  try: give every entry words of its own, and every table numbers",
    ),
    "E310": (
        witness([load(signal=signal_bit(Engine.LOAD)), END]),
        f"error[E310]: entry 'x', tile 0, word 0 (LOAD, tag 0): a mask names the pair (LOAD, LOAD)\n{COMPILER}",
    ),
    "E310, opcode": (
        lambda _: insert_semaphores([(0, 0)], [empty(1)], TINY),
        f"error[E310]: word 0: opcode 0 does not exist\n{COMPILER}",
    ),
    "E311": (
        witness([mm(acc=10**6), END]),
        "error[E311]: entry 'x', tile 0, word 0 (MM, tag 0): operand 'acc' touches words [0xf4240, 0xf4241) of "
        "ACC\n"
        f"  why: ACC of arch 'dpu_tiny' has 0x800 words\n{COMPILER}",
    ),
    "E312": (
        witness([load(offset=1 << 20, tag=9), END]),
        "error[E312]: entry 'x', tile 0, word 0 (LOAD, tag 9): operand 'dram' touches bytes [0x100000, 0x100008) "
        "of base register 1\n"
        f"  why: that region has 0x100000 bytes\n{COMPILER}",
    ),
    "E313": (witness([load()]), f"error[E313]: entry 'x', tile 0: the stream has no END\n{COMPILER}"),
    "E320": (
        witness([mm(wait=wait_bit(Engine.LOAD)), END]),
        "error[E320]: entry 'x', tile 0, word 0 (MM, tag 0): waits for load0, which has no token here\n"
        f"  why: every wait needs an earlier signal in stream order, else the engines may wait forever\n{COMPILER}",
    ),
    "E321": (
        witness([*[load(signal=signal_bit(Engine.MXU))] * (MAX_TOKENS + 1), END]),
        "error[E321]: entry 'x', tile 0, word 255 (LOAD, tag 0): signals mxu0, which already holds 255 tokens\n"
        f"{COMPILER}",
    ),
    "E322": (
        witness([load(signal=signal_bit(Engine.MXU)), END]),
        f"error[E322]: entry 'x', tile 0: semaphore 0 of (LOAD, MXU) ends with 1 tokens\n{COMPILER}",
    ),
    "E323": (
        witness([load(remote=2), store(remote=2), END], [load(remote=1), store(remote=1), END]),
        "error[E323]: entry 'x', tile 0, word 0 (LOAD, tag 0): waits for a token from tile 1 that never comes\n"
        f"{COMPILER}",
    ),
    "E324": (
        compiles(WIDE),
        "error[E324]: net/dpu.q.linear: VEC.tiles = 500: the field holds 0 to 255\n"
        "  why: a tensor or block is larger than an instruction can address\n"
        "  try: use an arch with a larger array, such as dpu_f2, or split the operation",
    ),
    "E330": (
        lambda _: assemble("load nosuch=1", "p.dasm"),
        "error[E330]: p.dasm:1: unknown mnemonic 'load' (known: load, mxu.mm, vpu.vec, store, end, with "
        "load.FORMAT)\n"
        "  try: write words as dpuc dis prints them",
    ),
    "E340": (
        lambda _: insert_semaphores([(0, 1), (0, 0)], [np.concatenate([load(), load()])], TINY),
        "error[E340]: order[0]: names word 1 of tile 0\n"
        "  why: the global order must hold every word of every stream once, each stream's in stream order\n"
        "  try: order every word of every stream once",
    ),
    "E401": (run_float(NET, "nosuch"), "error[E401]: function 'nosuch': not in the module\n  try: one of net"),
    "E402": (
        run_float(NET, "net", weights=Transposed()),
        "error[E402]: parameter 'w': is [16, 8] in the weight store, [16, 16] in the graph\n"
        "  try: use the weight store that the import of this module made",
    ),
    "E404": (
        run_float(NET, "net", quantised=True),
        "error[E404]: operation 'dpu.q.linear': 'dpu.q.linear' has no rule in the float interpreter\n"
        "  why: it evaluates the canonical graph only\n"
        "  try: run the import passes first",
    ),
    "E406": (
        unknown_to_the_host,
        "error[E406]: DIR: model.onnx: ONNX Runtime cannot load it\n"
        "  why: as ONNX Runtime says it\n"
        "  try: export the model again, or update onnxruntime",
    ),
    "E407": (
        outside_the_vocabulary,
        "error[E407]: text_encoder: token 1000 is outside a vocabulary of 1000\n"
        "  try: use the tokenizer that was exported with this text encoder",
    ),
    "E421": (
        capability(abi=0, memory=1 << 30),
        "error[E421]: program: ABI 1, the device has 0\n  try: compile it again",
    ),
    "E422": (
        capability(abi=1, memory=1000),
        "error[E422]: program: needs 4160 bytes of device memory, there are 1000\n"
        "  try: compile for a smaller image, or use a device with more memory",
    ),
    "E423": (
        device(lambda sim: sim.submit(3, {})),
        "error[E423]: sim: no program with handle 3\n  try: load a program before submitting to it",
    ),
    "E424": (
        device(lambda sim: sim.wait(Ticket(9, "net"))),
        "error[E424]: sim: ticket 9 is unknown or already waited for\n"
        "  try: wait once for each ticket that submit returned",
    ),
    "E425": (
        device(lambda sim: sim.read(1 << 60, 8)),
        "error[E425]: sim: bytes 1152921504606846976 to 1152921504606846983 are in no allocation\n"
        "  try: allocate it first, writable unless it holds constants",
    ),
    "E426": (
        beyond_the_io,
        "error[E426]: entry 'peek': a slot ends at byte 1073741824 of base 3, which has 4096 bytes\n"
        "  try: bind memory of the sizes that the program asks for",
    ),
    "E506": (
        nothing_fails,
        "error[E506]: module: does not fail, so there is nothing to reduce\n"
        "  try: check --when, and the seeded weights of a text",
    ),
    "E510": (
        lambda folder: golden.load("nosuch", folder),
        'error[E510]: DIR/nosuch.json: no golden\n  try: make it: dpubench golden --accept "first values"',
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path) -> None:
    case, text = REFUSED[name]
    with pytest.raises(DpuError) as e:
        case(tmp_path)
    found = str(e.value).replace(str(tmp_path), "DIR")
    if isinstance(e.value, errors.HostModelFailure):
        found = found.replace(e.value.why, "as ONNX Runtime says it")
    assert found == text
