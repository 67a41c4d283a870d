"""Bad input through the real commands: one located error, exit code 2, no traceback, nothing half-written.

The pipeline is the tiny one with a UNet of two convolutions in its place, which compiles in a fraction of a second.
Texts are asserted whole; the working folder of a test is short for its own paths.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from dpu.codegen.dpufile import load
from dpu.errors import DpuError
from dpu.files import sha256
from dpu.frontend.onnx_load import weights_digest
from dpu.ir.arch import load_arch
from dpu.runtime.cli import dpuc, dpurun
from dpu.runtime.session import Session
from dpu.runtime.sim_device import SimDevice
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file

Run = Callable[..., tuple[int, str, str]]
COMPILE = "dpuc compile pipe --calibration good.st --size 64x64"
COMPILE_ONE = "dpuc compile {model} --calibration {calibration} --shape sample=2x4x8x8 -o out.dpu"


def write_unet(path: Path, act: str = "Sigmoid", channels: int = 8, nan: bool = False) -> None:
    """`conv_out(x * act(x))` with x = conv_in(sample), batch and image size open, weights in `weights.bin`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    shapes = {"conv_in.weight": (channels, 4, 3, 3), "conv_in.bias": (channels,)}
    shapes |= {"conv_out.weight": (4, channels, 3, 3), "conv_out.bias": (4,)}
    weights = {name: (rng.standard_normal(shape) / 10).astype(np.float16) for name, shape in shapes.items()}
    if nan:
        weights["conv_in.weight"][0, 0, 1, 2] = np.nan

    def conv(name: str, x: str, y: str) -> onnx.NodeProto:
        return helper.make_node("Conv", [x, f"{name}.weight", f"{name}.bias"], [y], f"/{name}/Conv", pads=[1] * 4)

    nodes = [
        conv("conv_in", "sample", "a"),
        helper.make_node(act, ["a"], ["b"], f"/act/{act}"),
        helper.make_node("Mul", ["a", "b"], ["c"], "/act/Mul"),
        conv("conv_out", "c", "out_sample"),
    ]
    sample, out = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT16, ["batch", 4, "height", "width"])
        for n in ("sample", "out_sample")
    )
    tensors = [numpy_helper.from_array(w, name) for name, w in weights.items()]
    graph = helper.make_graph(nodes, "unet", [sample], [out], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)


STATISTICS = {
    "/conv_in/Conv#3:x:channel_absmax": np.full(4, 3, np.float32),
    "/conv_in/Conv#3:y:absmax": np.float32(2),
    "/act/Mul:y:absmax": np.float32(2),
    "/conv_out/Conv#3:x:channel_absmax": np.full(8, 2, np.float32),
    "/conv_out/Conv#3:y:absmax": np.float32(2),
}


def write_statistics(path: Path, model: Path, **more: object) -> None:
    """A calibration file that says it was made for `model`."""
    info = {"format": "dpu-calibration-1", "model": sha256(model), **more}
    save_file({k: np.asarray(v) for k, v in STATISTICS.items()}, path, {"calibration": json.dumps(info)})


def flipped(data: bytes, at: int) -> bytes:
    """`data` with the lowest bit of one byte changed."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def write_programs(folder: Path) -> None:
    """Every way in which a `.dpu` can be damaged, made from `good.dpu`."""
    data = (folder / "good.dpu").read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    at = {name: begin + header[name]["data_offsets"][0] for name in ("words/unet/0", "constants")}
    abi = header["__metadata__"]["abi"]
    damaged = {
        "words": flipped(data, at["words/unet/0"] + 70),
        "constants": flipped(data, at["constants"] + 100),
        "header": data.replace(b"dpu_tiny", b"dpu_tinz", 1),
        "short": data[:-1000],
        "short_header": data[:200],
        "longer": data + b"x",
        "five_bytes": data[:5],
        "empty": b"",
        "abi": data.replace(f'"abi":"{abi}"'.encode(), b'"abi":"9"', 1),
    }
    for name, content in damaged.items():
        assert content != data
        (folder / f"{name}.dpu").write_bytes(content)


def write_archs(folder: Path) -> None:
    """Arch files with one fault each, and one whose scratchpads are too small."""
    good: dict[str, Any] = load_arch("dpu_tiny").model_dump(mode="json")
    faults: dict[str, dict[str, Any]] = {
        "unknown_field": {"lanez": 8},
        "text": {"lanes": "eight"},
        "zero": {"lanes": 0},
        "negative": {"dram": {**good["dram"], "bytes": -1}},
        "tiles": {"tiles": 0},
        "small": {"name": "small", "buffers": {**good["buffers"], "act": {"bytes": 64}}},
    }
    for name, fault in faults.items():
        (folder / f"{name}.json").write_text(json.dumps({**good, **fault}))
    (folder / "cut_off.json").write_text('{"name":')
    (folder / "bytes.json").write_bytes(b"\xff\xfe")


OK_MLIR = """builtin.module { func.func @f(%x: tensor<1x2x3xf32>) -> tensor<1x2x3xf32> {
  %a = dpu.silu %x : tensor<1x2x3xf32> -> tensor<1x2x3xf32>
  func.return %a : tensor<1x2x3xf32> } }
"""


@pytest.fixture(scope="module")
def made(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that the command lines below name. Read only: tests work in copies of links."""
    from dpu.codegen.driver import compile_folder

    here = tmp_path_factory.mktemp("bad-input")
    pipe = here / "pipe"
    pipe.mkdir()
    for part in tiny_folder.iterdir():
        if part.name != "unet":
            (pipe / part.name).symlink_to(part)
    write_unet(pipe / "unet" / "model.onnx")
    shutil.copy(tiny_folder / "unet" / "config.json", pipe / "unet")
    write_statistics(here / "good.st", pipe / "unet" / "model.onnx")
    for name, batch in (("good.dpu", 2), ("one.dpu", 1)):
        calibration = here / "good.st"
        compile_folder(
            pipe, arch="dpu_tiny", calibration=calibration, size=(64, 64), batch=batch, out=here / name, parts=()
        )
    write_programs(here)
    write_archs(here)

    write_unet(here / "absent.onnx")
    (here / "weights.bin").unlink()
    for name, fault in {"nan": {"nan": True}, "op": {"act": "Cosh"}, "wide": {"channels": 4096}, "cut": {}}.items():
        write_unet(here / name / "model.onnx", **fault)  # type: ignore[arg-type]
        write_statistics(here / f"{name}.st", here / name / "model.onnx")
    weights = here / "cut" / "weights.bin"
    weights.write_bytes(weights.read_bytes()[:-100])
    (here / "cut.onnx").write_bytes((pipe / "unet" / "model.onnx").read_bytes()[:300])
    (here / "empty.onnx").touch()

    write_statistics(here / "other_format.st", pipe / "unet" / "model.onnx", format="dpu-calibration-0")
    write_statistics(here / "other_model.st", here / "nan" / "model.onnx")
    info = {"format": "dpu-calibration-1", "model": sha256(pipe / "unet" / "model.onnx")}
    metadata = {"calibration": json.dumps(info)}
    save_file({"/act/Mul:y:absmax": np.full(1, np.nan, np.float32)}, here / "nan_inside.st", metadata)
    save_file({"a": np.zeros(1, np.float32)}, here / "foreign.safetensors")
    (here / "text.txt").write_text("hello\n")

    (here / "ok.mlir").write_text(OK_MLIR)
    (here / "unknown_op.mlir").write_text(OK_MLIR.replace("dpu.silu", "dpu.nosuch"))
    (here / "type.mlir").write_text(OK_MLIR.replace("-> tensor<1x2x3xf32>\n", "-> tensor<1x2x4xf32>\n"))
    (here / "bytes.mlir").write_bytes(b"\xff\xfe")
    (here / "empty.mlir").touch()
    return here


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], made: Path) -> Run:
    """Run a command line in this process, in `made`: (exit code, standard output, standard error)."""
    monkeypatch.chdir(made)

    def call(line: str) -> tuple[int, str, str]:
        command, *arguments = shlex.split(line)
        monkeypatch.setattr(sys, "argv", [command, *arguments])
        with pytest.raises(SystemExit) as stop:
            {"dpuc": dpuc.main, "dpurun": dpurun.main}[command]()
        out, err = capfd.readouterr()
        return int(stop.value.code or 0), out, err

    return call


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder below `folder`, hidden ones too, with size and time of change."""
    paths = (Path(base, name) for base, folders, names in os.walk(folder) for name in [*folders, *names])
    return {str(p.relative_to(folder)): (p.lstat().st_size, p.lstat().st_mtime_ns) for p in paths}


def refuses(run: Run, made: Path, line: str, text: str) -> None:
    """`line` is refused with exactly `text` (after `error[`) and changes no file."""
    before = snapshot(made)
    code, out, err = run(line)
    assert (code, out, err.replace(f"{made}/", "").strip()) == (2, "", f"error[{text}")
    assert snapshot(made) == before


def cases(*lines: tuple[str, str]) -> Any:
    """Parametrise over (command line, text of the error after `error[`)."""
    return pytest.mark.parametrize(("line", "text"), lines, ids=[line for line, _ in lines])


_EXPORT_AGAIN = (
    "  why: the file is cut off, is no ONNX protobuf, or is a Git LFS pointer\n"
    "  try: copy, download or export the file again"
)


@cases(
    (
        "dpuc import cut.onnx -o out.mlir",
        "E102]: cut.onnx: not a readable ONNX model (Error parsing message with type 'onnx.ModelProto': "
        f"Wire format was corrupt)\n{_EXPORT_AGAIN}",
    ),
    (
        "dpuc compile cut.onnx --calibration good.st -o out.dpu",
        "E102]: cut.onnx: not a readable ONNX model (Error parsing message with type 'onnx.ModelProto': "
        f"Wire format was corrupt)\n{_EXPORT_AGAIN}",
    ),
    (
        "dpuc import empty.onnx -o out.mlir",
        f"E102]: empty.onnx: not a readable ONNX model (the file is empty)\n{_EXPORT_AGAIN}",
    ),
    (
        "dpuc import text.txt -o out.mlir",
        "E102]: text.txt: not a readable ONNX model (Error parsing message with type 'onnx.ModelProto': "
        f"Wire format was corrupt)\n{_EXPORT_AGAIN}",
    ),
    ("dpuc import nan -o out.mlir", "E102]: nan: is a folder\n  try: give the path of an .onnx file in it"),
    (
        "dpuc import nosuch.onnx -o out.mlir",
        "E106]: nosuch.onnx: no such file\n  try: give the path of an .onnx file",
    ),
    (
        COMPILE_ONE.format(model="absent.onnx", calibration="good.st"),
        "E111]: weights.bin: the file with the weights cannot be opened (no such file; parameter "
        "'unet::conv_in.weight' and maybe others are in it)\n"
        "  try: keep the weight files in the folder of the .onnx file, as they were exported",
    ),
    (
        COMPILE_ONE.format(model="cut/model.onnx", calibration="cut.st"),
        "E112]: cut/weights.bin: parameter 'unet::conv_out.weight' needs 1,168 bytes but the file has 1,076\n"
        "  why: the file was cut off, or belongs to another model\n"
        "  try: copy or download the file again",
    ),
    (
        COMPILE_ONE.format(model="op/model.onnx", calibration="op.st"),
        "E104]: op/model.onnx: node '/act/Cosh': Cosh: unsupported operator, inputs 2x8x8x8\n"
        "  why: import knows the operators of diffusers' SDXL exports\n"
        "  try: re-export with torch.onnx.export(dynamo=True, opset_version=20), or add the operator to "
        "frontend/onnx_ops.py",
    ),
    (
        COMPILE_ONE.format(model="nan/model.onnx", calibration="nan.st"),
        "E114]: nan/weights.bin: parameter 'unet::conv_in.weight': element [0, 0, 1, 2] is nan\n"
        "  why: a weight that is not finite makes every image black, and no scale can hold it\n"
        "  try: export again from a sound checkpoint (overflow of fp16 turns large weights into inf)",
    ),
    (
        COMPILE_ONE.format(model="wide/model.onnx", calibration="wide.st"),
        "E230]: /conv_out/Conv#4: 512 channel tiles under a 3x3 kernel\n"
        "  why: one row must fit the scratchpads of arch 'dpu_tiny'\n"
        "  try: use an arch with larger buffers",
    ),
    (
        "dpuc compile op/model.onnx --calibration op.st -o out.dpu",
        "E105]: op/model.onnx: input 'sample' has the open dimension 'batch' (batch x 4 x height x width)\n"
        "  why: programs have static shapes\n"
        "  try: give its shape, as in --shape sample=2x4x128x128",
    ),
    (
        "dpuc compile op/model.onnx --calibration op.st --shape smple=1 -o out.dpu",
        "E105]: op/model.onnx: has no input 'smple'\n  try: name one of sample",
    ),
    (
        "dpuc compile op/model.onnx --calibration op.st --shape sample=2x5x8x8 -o out.dpu",
        "E105]: op/model.onnx: input 'sample' is batch x 4 x height x width, it cannot be 2x5x8x8\n"
        "  try: change only its open dimensions, those with a name",
    ),
    (
        "dpuc compile nosuch -o out.dpu",
        "E106]: nosuch: no such file\n  try: export first: dpuc export tiny-seeded -o DIR, then dpuc compile DIR",
    ),
)
def test_a_model_that_cannot_be_compiled(run: Run, made: Path, line: str, text: str) -> None:
    refuses(run, made, line, text)


_CALIBRATE = "  try: write one: dpuc calibrate DIR -o calib.safetensors"


@cases(
    (
        "dpuc compile pipe --size 64x64 -o out.dpu",
        "E243]: pipe/unet/model.onnx: no calibration\n"
        "  why: convolutions, keys and values have static scales\n"
        "  try: dpuc calibrate DIR -o calib.safetensors, then pass --calibration calib.safetensors",
    ),
    (
        "dpuc compile pipe --calibration nosuch.st --size 64x64 -o out.dpu",
        f"E241]: nosuch.st: not a readable calibration file (No such file or directory: nosuch.st)\n{_CALIBRATE}",
    ),
    (
        "dpuc compile pipe --calibration text.txt --size 64x64 -o out.dpu",
        "E241]: text.txt: not a readable calibration file (Error while deserializing header: header too small)\n"
        f"{_CALIBRATE}",
    ),
    (
        "dpuc compile pipe --calibration pipe --size 64x64 -o out.dpu",
        f"E241]: pipe: not a readable calibration file (is a folder)\n{_CALIBRATE}",
    ),
    (
        "dpuc compile pipe --calibration foreign.safetensors --size 64x64 -o out.dpu",
        'E241]: foreign.safetensors: its format is "none", expected dpu-calibration-1\n  try: calibrate again',
    ),
    (
        "dpuc compile pipe --calibration other_format.st --size 64x64 -o out.dpu",
        'E241]: other_format.st: its format is "dpu-calibration-0", expected dpu-calibration-1\n  try: calibrate again',
    ),
    (
        "dpuc compile pipe --calibration nan_inside.st --size 64x64 -o out.dpu",
        "E242]: nan_inside.st: statistic '/act/Mul:y:absmax' is not finite\n"
        "  why: scales are made from it\n"
        "  try: calibrate again",
    ),
)
def test_a_calibration_that_does_not_fit(run: Run, made: Path, line: str, text: str) -> None:
    refuses(run, made, line, text)


def test_the_calibration_of_another_model(run: Run, made: Path) -> None:
    model = sha256(made / "pipe/unet/model.onnx")[:12]
    write_unet(made / "renamed" / "model.onnx", act="Tanh")
    write_statistics(made / "other.st", made / "renamed" / "model.onnx")
    other = sha256(made / "renamed/model.onnx")[:12]
    refuses(
        run,
        made,
        "dpuc compile pipe --calibration other.st --size 64x64 -o out.dpu",
        f"E244]: other.st: made for a model with sha256 {other}, pipe/unet/model.onnx has {model}\n"
        "  try: calibrate this model: dpuc calibrate DIR -o calib.safetensors",
    )
    refuses(
        run,
        made,
        "dpuc sensitivity pipe --calibration other.st --size 64x64 -o out.json",
        f"E244]: other.st: made for a model with sha256 {other}, pipe/unet/model.onnx has {model}\n"
        "  try: calibrate this model: dpuc calibrate DIR -o calib.safetensors",
    )


def test_the_calibration_of_the_same_graph_with_other_weights(run: Run, made: Path) -> None:
    model = made / "pipe/unet/model.onnx"
    write_statistics(made / "weights.st", model, weights="0" * 64)
    refuses(
        run,
        made,
        "dpuc compile pipe --calibration weights.st --size 64x64 -o out.dpu",
        f"E244]: weights.st: made for weights with sha256 000000000000, the weights of pipe/unet/model.onnx have "
        f"{weights_digest(model)[:12]}\n"
        "  try: calibrate this model: dpuc calibrate DIR -o calib.safetensors",
    )


_SEE = "  try: configs/arch/dpu_tiny.json shows every field, ir/arch.py says what each means"
_ARCHS = "  try: one of dpu_32tops, dpu_asic, dpu_f2, dpu_tiny, or the path of a JSON file"


@cases(
    (f"{COMPILE} --arch nosuch -o out.dpu", f"E505]: nosuch: no such arch\n{_ARCHS}"),
    (f"{COMPILE} --arch nosuch.json -o out.dpu", f"E505]: nosuch.json: no such arch\n{_ARCHS}"),
    (
        f"{COMPILE} --arch unknown_field.json -o out.dpu",
        f"E502]: unknown_field.json: field 'lanez': there is no such field\n{_SEE}",
    ),
    (
        f"{COMPILE} --arch text.json -o out.dpu",
        "E502]: text.json: field 'lanes': Input should be a valid integer, unable to parse string as an integer\n"
        f"{_SEE}",
    ),
    (
        f"{COMPILE} --arch zero.json -o out.dpu",
        f"E502]: zero.json: field 'lanes': Input should be greater than 0\n{_SEE}",
    ),
    (
        f"{COMPILE} --arch negative.json -o out.dpu",
        f"E502]: negative.json: field 'dram.bytes': Input should be greater than 0\n{_SEE}",
    ),
    (
        f"{COMPILE} --arch tiles.json -o out.dpu",
        f"E502]: tiles.json: tiles is 0, must be 1 to 32 (remote semaphore masks)\n{_SEE}",
    ),
    (
        f"{COMPILE} --arch cut_off.json -o out.dpu",
        f"E502]: cut_off.json: Invalid JSON: EOF while parsing a value at line 1 column 8\n{_SEE}",
    ),
    (
        f"{COMPILE} --arch bytes.json -o out.dpu",
        "E502]: bytes.json: not a readable JSON file ('utf-8' codec can't decode byte 0xff in position 0: invalid "
        f"start byte)\n{_SEE}",
    ),
    (
        f"{COMPILE} --arch small.json -o out.dpu",
        "E230]: /conv_in/Conv#4: 1 channel tiles under a 3x3 kernel\n"
        "  why: one row must fit the scratchpads of arch 'small'\n"
        "  try: use an arch with larger buffers",
    ),
    ("dpuc compile pipe --estimate --arch dpu_f2,nosuch", f"E505]: nosuch: no such arch\n{_ARCHS}"),
)
def test_an_arch_that_is_none(run: Run, made: Path, line: str, text: str) -> None:
    refuses(run, made, line, text)


_COMPILE_IT = "  try: compile a model: dpuc compile DIR --calibration FILE -o FILE.dpu"
_DAMAGED = "  why: the file was changed or damaged after it was written\n  try: copy or compile it again"
_SHORT = "E301]: short.dpu: not a DPU program (truncated: the header promises "


@pytest.mark.parametrize("command", ["dpurun {} --prompt x -o out.png", "dpuc verify {}", "dpuc inspect {}"])
@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("words.dpu", f"E303]: words.dpu: checksum of tensor 'words/unet/0' differs\n{_DAMAGED}"),
        ("constants.dpu", f"E303]: constants.dpu: checksum of tensor 'constants' differs\n{_DAMAGED}"),
        ("header.dpu", f"E303]: header.dpu: checksum of the header differs\n{_DAMAGED}"),
        ("five_bytes.dpu", f"E301]: five_bytes.dpu: not a DPU program (safetensors header is missing)\n{_COMPILE_IT}"),
        ("empty.dpu", f"E301]: empty.dpu: not a DPU program (safetensors header is missing)\n{_COMPILE_IT}"),
        ("text.txt", f"E301]: text.txt: not a DPU program (safetensors header is missing)\n{_COMPILE_IT}"),
        (
            "foreign.safetensors",
            f"E301]: foreign.safetensors: not a DPU program (a safetensors file of another kind)\n{_COMPILE_IT}",
        ),
        ("nosuch.dpu", f"E301]: nosuch.dpu: cannot be read (No such file or directory)\n{_COMPILE_IT}"),
        ("abi.dpu", "E302]: abi.dpu: ABI 9, this build reads 1\n  try: compile the model again"),
    ],
)
def test_a_program_that_is_damaged_or_none(run: Run, made: Path, command: str, program: str, text: str) -> None:
    refuses(run, made, command.format(program), text)


def test_a_program_that_is_cut_off_or_too_long(run: Run, made: Path) -> None:
    raw = (made / "good.dpu").read_bytes()
    header = int.from_bytes(raw[:8], "little")
    data = len(raw) - 8 - header
    where = "not a DPU program"
    promised = f"the header promises {data} bytes of data, the file holds"
    for program, what in (
        ("short", f"truncated: {promised} {data - 1000}"),
        ("longer", f"trailing bytes: {promised} {data + 1}"),
        ("short_header", f"truncated: the header has {header} bytes, the file holds 192 of them"),
    ):
        text = f"E301]: {program}.dpu: {where} ({what})\n  try: copy or compile it again"
        for line in (f"dpurun {program}.dpu --prompt x -o out.png", f"dpuc verify {program}.dpu"):
            refuses(run, made, line, text)


def test_dis_reads_no_constants_but_checks_the_rest(run: Run, made: Path) -> None:
    assert run("dpuc dis constants.dpu --engine mxu")[0] == 0
    refuses(run, made, "dpuc dis words.dpu", f"E303]: words.dpu: checksum of tensor 'words/unet/0' differs\n{_DAMAGED}")


def test_a_program_of_another_arch_than_the_device(made: Path) -> None:
    """No command line says this: `--target sim` takes its arch from the program."""
    program, other = load(made / "good.dpu"), load_arch("dpu_f2")
    with pytest.raises(DpuError) as e:
        Session(program, SimDevice(other))
    assert str(e.value) == (
        f"error[E420]: program for arch 'dpu_tiny' ({program.arch.digest}): the device is 'dpu_f2' ({other.digest})\n"
        "  why: instruction words fit one array, buffer and tile configuration only\n"
        "  try: compile with --arch dpu_f2"
    )
    with pytest.raises(DpuError) as e:
        load(made / "good.dpu", arch=other)
    assert str(e.value) == (
        f"error[E304]: {made}/good.dpu: compiled for arch 'dpu_tiny' (digest {program.arch.digest}), asked to run on "
        f"'dpu_f2' (digest {other.digest})\n"
        "  try: compile the model with --arch dpu_f2"
    )


_TARGETS = "  try: one of sim, rtl, f2, xrt, cpu, gpu"


@cases(
    (
        "dpurun good.dpu --prompt '' -o out.png",
        'E501]: --prompt: is empty\n  try: say what the image shows, as in --prompt "a red fox"',
    ),
    (
        "dpurun good.dpu --prompt '  ' -o out.png",
        'E501]: --prompt: is empty\n  try: say what the image shows, as in --prompt "a red fox"',
    ),
    (
        "dpurun good.dpu --prompt x --steps 0 -o out.png",
        "E501]: --steps: 0 is not between 1 and 1000\n  try: see --help",
    ),
    (
        "dpurun good.dpu --prompt x --steps -3 -o out.png",
        "E501]: --steps: -3 is not between 1 and 1000\n  try: see --help",
    ),
    (
        "dpurun good.dpu --prompt x --seed -1 -o out.png",
        "E501]: --seed: -1 is not between 0 and 2^64 - 1\n  try: see --help",
    ),
    (
        "dpurun good.dpu --prompt x --guidance nan -o out.png",
        "E501]: --guidance: nan is no scale\n  try: 5 is usual, 1 turns guidance off",
    ),
    (
        "dpurun good.dpu --prompt x --size axb -o out.png",
        "E501]: --size: 'axb' is no size\n  try: write it as 64x64, width first",
    ),
    (
        "dpurun good.dpu --prompt x --size 40x64 -o out.png",
        "E501]: --size: 40 is not a multiple of 32\n  try: for example 128x128",
    ),
    (
        "dpurun good.dpu --prompt x --size 96x64 -o out.png",
        "E403]: --size: 96x64, the program makes 64x64\n"
        "  why: sizes are fixed when a program is compiled\n"
        "  try: compile with --size 96x64",
    ),
    (
        "dpurun one.dpu --prompt x -o out.png",
        "E403]: program: compiled with --batch 1, the request needs 2 samples a step\n"
        "  why: guidance needs two samples a step\n"
        "  try: compile with --batch 2, or run with --guidance 1",
    ),
    (
        "dpurun good.dpu --prompt x --waves waves.vcd -o out.png",
        "E501]: --waves: target sim has none\n  try: --target rtl",
    ),
    (
        "dpurun good.dpu --prompt x --target f2 -o out.png",
        "E432]: libfpga_mgmt.so: cannot be loaded (libfpga_mgmt.so: cannot open shared object file: "
        "No such file or directory)\n  why: target f2 reaches the card through it\n"
        "  try: on an F2 instance: source sdk_setup.sh of aws-fpga; without a card: --card stand-in",
    ),
    (
        "dpurun good.dpu --prompt x --target f2 --card 0,9 -o out.png",
        "E501]: --card: '0,9' names no slots\n  try: a slot, 0 to 7; several as 0,1,2; stand-in without a card",
    ),
    (
        "dpurun good.dpu --prompt x --target xrt -o out.png",
        "E501]: --image: target xrt needs a device binary\n"
        "  try: dpubench xrt-build makes a .xclbin; give it with --image",
    ),
    ("dpurun good.dpu --prompt x --target cuda -o out.png", f"E430]: --target cuda: no such target\n{_TARGETS}"),
    (
        "dpurun good.dpu --prompt x --target cpu -o out.png",
        "E405]: good.dpu: holds no ONNX model of the UNet\n"
        "  why: target cpu is the float32 reference; a compiled program has quantised constants only\n"
        "  try: give a folder that dpuc export wrote",
    ),
    (
        "dpurun pipe --prompt x --target cpu --trace out.json -o out.png",
        "E501]: --trace: target cpu has none\n  why: it is the reference, not a device\n  try: --target sim",
    ),
    (
        "dpurun pipe --prompt x --target cpu --report out -o out.png",
        "E501]: --report: target cpu has none\n  why: it is the reference, not a device\n  try: --target sim",
    ),
    (
        "dpurun pipe --prompt x --target cpu -o out.png",
        "E405]: pipe: unet/model.onnx: no input 'timestep'\n  why: it is no UNet of SDXL\n  try: its inputs are sample",
    ),
    (
        "dpurun pipe --prompt x -o out.png",
        "E405]: pipe: is a folder, and target 'sim' runs a compiled program\n"
        "  try: compile it: dpuc compile pipe --arch dpu_tiny -o model.dpu",
    ),
    (
        "dpurun good.dpu --prompt x --compare good.dpu -o out.png",
        "E106]: good.dpu: is a file, expected an exported folder\n  try: dpuc export tiny-seeded -o DIR",
    ),
)
def test_a_request_that_cannot_run(run: Run, made: Path, line: str, text: str) -> None:
    refuses(run, made, line, text)


_MULTIPLE = (
    "sides must be multiples of 32\n"
    "  why: the VAE makes 8x8 pixels of a latent, the UNet halves those 4 to 1\n"
    "  try: the nearest is 64x64"
)


@cases(
    ("dpuc compile pipe --calibration good.st --size 65x64 -o out.dpu", f"E504]: --size 65x64: {_MULTIPLE}"),
    ("dpuc compile pipe --calibration good.st --size 72x64 -o out.dpu", f"E504]: --size 72x64: {_MULTIPLE}"),
    (
        "dpuc compile pipe --calibration good.st --size 0x64 -o out.dpu",
        "E501]: --size: '0x64' is no size\n  try: write it as 64x64, width first",
    ),
    (
        f"{COMPILE} --batch 0 -o out.dpu",
        "E501]: --batch: 0 is not between 1 and 63\n  try: 2 is one image with guidance",
    ),
    (
        f"{COMPILE} --precision w4a4 -o out.dpu",
        "E503]: --precision w4a4: not available\n"
        "  try: one of tiny-searched, w4a8, w8a16, w8a8, w8a8-sensitive, w8a8-static",
    ),
    (
        f"{COMPILE} --precision w4a8 --policy p.json -o out.dpu",
        "E501]: --policy: there is --precision w4a8\n  try: leave out one of the two",
    ),
    (
        f"{COMPILE} --gptq -o out.dpu",
        "E501]: --gptq: policy 'w8a8' has no int4 weights\n  try: leave out one of the two",
    ),
    (
        f"{COMPILE} --precision w4a8 --gptq -o out.dpu",
        "E240]: good.st: no gram matrices\n  why: --gptq compensates errors by them\n"
        "  try: dpuc calibrate DIR --grams -o calib.safetensors",
    ),
    (
        f"{COMPILE} --policy none.json -o out.dpu",
        "E507]: none.json: not a readable JSON file (No such file or directory)\n"
        "  try: configs/policy/w4a8.json shows every field, passes/policy.py says what each means",
    ),
    (
        "dpuc compile op/model.onnx --shape sample -o out.dpu",
        "E501]: --shape sample: not NAME=AxBxC\n  try: such as --shape sample=2x4x128x128",
    ),
    ("dpuc compile pipe --estimate --steps 0", "E501]: --steps: 0 is not 1 or more\n  try: see --help"),
    ("dpuc calibrate pipe --steps 0 -o out.st", "E501]: --steps: 0 is not between 1 and 1000\n  try: see --help"),
    ("dpuc calibrate pipe --prompts 0 -o out.st", "E501]: --prompts: 0 is not between 1 and 8\n  try: see --help"),
    (
        "dpuc calibrate pipe --guidance inf -o out.st",
        "E501]: --guidance: inf is no scale\n  try: 5 is usual, 1 turns guidance off",
    ),
    (
        "dpuc calibrate good.dpu -o out.st",
        "E106]: good.dpu: is a file, expected an exported folder\n  try: dpuc export tiny-seeded -o DIR",
    ),
    ("dpuc dis good.dpu --tile 7", "E501]: --tile: no tile 7, they are 0 to 0\n  try: see --help"),
    ("dpuc dis good.dpu --entry nosuch", "E501]: --entry: no entry 'nosuch'\n  try: one of unet"),
    (
        "dpuc dis good.dpu --op (",
        "E501]: --op: '(' is no regular expression (missing ), unterminated subpattern at position 0)\n"
        "  try: see --help",
    ),
    (
        "dpuc export nosuch -o out",
        "E106]: nosuch: no such pipeline\n  try: tiny-seeded, sdxl, or a local diffusers folder",
    ),
    (
        "dpuc export nan -o out",
        "E111]: nan/model_index.json: missing\n"
        "  why: an SDXL source is a diffusers folder with model_index.json and one subfolder for each part\n"
        "  try: give the folder that pipeline.save_pretrained(...) wrote",
    ),
    ("dpuc export pipe -o pipe", "E501]: pipe: is the source itself\n  try: choose another output folder"),
    (
        "dpuc export tiny-seeded --size 50 -o out",
        "E501]: --size: an image size of 50 pixels\n"
        "  why: the VAE and the UNet together halve each side five times\n"
        "  try: choose a multiple of 32, such as 64, 128 or 1024",
    ),
    (
        "dpuc export tiny-seeded --opset 3 -o out",
        "E501]: --opset: opset 3 is not supported\n"
        "  try: choose one from 18 to 24; 23 has Attention and GroupNormalization",
    ),
    (
        "dpuc export tiny-seeded --precision int8 -o out",
        "E501]: --precision: 'int8' is no type of weights\n  try: choose fp16 or fp32",
    ),
)
def test_an_argument_out_of_range(run: Run, made: Path, line: str, text: str) -> None:
    refuses(run, made, line, text)


_DUMP = "  try: start from a dump of --dump-passes"


@cases(
    (
        "dpuc opt --passes quantise{arch=dpu_tiny ok.mlir -o out.mlir",
        "E202]: pass 'quantise': cannot read options '{arch=dpu_tiny' (Malformed pass arguments, expected either a "
        "space or `}` here)\n"
        "  try: write quantise{option=value}, more of them separated by spaces",
    ),
    (
        "dpuc opt --passes quantise{size=3} ok.mlir -o out.mlir",
        "E202]: pass 'quantise': cannot read options '{size=3}' (Provided arguments [\"size\"] not found in expected "
        'arguments ["arch", "policy"])\n'
        "  try: write quantise{option=value}, more of them separated by spaces",
    ),
    ("dpuc opt --passes quantise{arch=nosuch} ok.mlir -o out.mlir", f"E505]: nosuch: no such arch\n{_ARCHS}"),
    (
        "dpuc opt --passes lower-to-tile ok.mlir -o out.mlir",
        "E226]: operation 'dpu.silu': 'dpu.silu' has no lowering\n  try: run the quantise pass first",
    ),
    (
        "dpuc opt --passes canonicalise unknown_op.mlir -o out.mlir",
        f"E201]: unknown_op.mlir:2:19: not a module (Operation dpu.nosuch is not registered)\n{_DUMP}",
    ),
    (
        "dpuc opt --passes canonicalise type.mlir -o out.mlir",
        "E201]: type.mlir:3:15: not a module (operand is used with type tensor<1x2x3xf32>, but has been previously "
        f"used or defined with type tensor<1x2x4xf32>)\n{_DUMP}",
    ),
    (
        "dpuc opt --passes canonicalise empty.mlir -o out.mlir",
        f"E201]: empty.mlir:1:1: not a module (Could not parse entire input!)\n{_DUMP}",
    ),
    (
        "dpuc opt --passes canonicalise text.txt -o out.mlir",
        f"E201]: text.txt:2:1: not a module (Operation hello is not registered)\n{_DUMP}",
    ),
    (
        "dpuc opt --passes canonicalise bytes.mlir -o out.mlir",
        "E107]: bytes.mlir: cannot be read (not UTF-8 text)\n  try: give a text file in UTF-8",
    ),
    (
        "dpuc opt --passes canonicalise pipe -o out.mlir",
        "E107]: pipe: cannot be read (Is a directory)\n  try: give a text file in UTF-8",
    ),
    (
        "dpuc import op/model.onnx --dump-passes out -o out.mlir",
        "E501]: --dump-passes: there are no passes to dump\n  try: add --passes",
    ),
)
def test_a_module_or_a_pass_that_is_none(run: Run, made: Path, line: str, text: str) -> None:
    refuses(run, made, line, text)


def test_an_unknown_pass_is_answered_with_all_names(run: Run, made: Path) -> None:
    from dpu.passes.pipeline import PASSES

    names = ", ".join(PASSES)
    line = "dpuc opt --passes canonicalise,nosuch ok.mlir -o out.mlir"
    refuses(run, made, line, f"E202]: pass 'nosuch': no such pass\n  try: one of {names}")


_WRITABLE = "  try: choose an existing, writable folder"


@pytest.mark.parametrize(
    "line",
    [
        "dpuc calibrate pipe -o {}",
        "dpuc compile pipe --calibration good.st --size 64x64 -o {}",
        "dpuc sensitivity pipe --calibration good.st --size 64x64 -o {}",
        "dpuc import op/model.onnx -o {}",
        "dpuc opt --passes canonicalise ok.mlir -o {}",
        "dpurun good.dpu --prompt x -o {}",
        "dpurun good.dpu --prompt x -o out.png --trace {}",
    ],
)
def test_a_file_that_cannot_be_written(run: Run, made: Path, line: str) -> None:
    folder = "E101]: pipe: is a folder, expected a file name\n  try: such as pipe/FILE"
    refuses(run, made, line.format("pipe"), folder)
    missing = f"E101]: nosuch/x: folder 'nosuch' does not exist\n{_WRITABLE}"
    refuses(run, made, line.format("nosuch/x"), missing)
    below_a_file = f"E101]: text.txt/x: 'text.txt' is a file, expected a folder\n{_WRITABLE}"
    refuses(run, made, line.format("text.txt/x"), below_a_file)


@pytest.mark.parametrize(
    "line",
    [
        "dpuc export tiny-seeded -o {}",
        "dpuc compile pipe --calibration good.st --size 64x64 --dump-passes {}",
        "dpuc compile pipe --calibration good.st --size 64x64 --bisect {}",
        "dpuc import op/model.onnx --passes --dump-passes {}",
        "dpurun good.dpu --prompt x -o out.png --report {}",
    ],
)
def test_a_folder_that_cannot_be_made(run: Run, made: Path, line: str) -> None:
    for place in ("text.txt", "text.txt/x", "text.txt/x/y"):
        text = f"E101]: {place}: 'text.txt' is a file, expected a folder\n{_WRITABLE}"
        refuses(run, made, line.format(place), text)


def test_a_folder_is_not_made_for_a_request_that_is_refused(run: Run, made: Path) -> None:
    line = "dpurun good.dpu --prompt x --steps 2 --size 96x64 -o out.png --trace out.json --report out/deep"
    text = "E403]: --size: 96x64, the program makes 64x64\n  why: sizes are fixed when a program is compiled\n"
    refuses(run, made, line, f"{text}  try: compile with --size 96x64")


def test_an_existing_output_is_untouched_by_a_failure(run: Run, made: Path) -> None:
    (made / "kept.dpu").write_bytes(b"kept")
    assert run(f"{COMPILE_ONE.format(model='nan/model.onnx', calibration='nan.st')[:-7]}kept.dpu")[0] == 2
    assert (made / "kept.dpu").read_bytes() == b"kept"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("dpuc verify words.dpu", f"E303]: words.dpu: checksum of tensor 'words/unet/0' differs\n{_DAMAGED}"),
        ("dpurun good.dpu --prompt x --steps 0", "E501]: --steps: 0 is not between 1 and 1000\n  try: see --help"),
    ],
)
def test_the_installed_commands_do_the_same(made: Path, line: str, text: str) -> None:
    command, *arguments = shlex.split(line)
    done = subprocess.run(
        [Path(sys.executable).parent / command, *arguments], cwd=made, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error[{text}\n")
