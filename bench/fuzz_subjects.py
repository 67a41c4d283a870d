"""What is fuzzed: one class a format, made once a process, that turns a number into one damaged input and reads it."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save, save_file

from ..codegen import dpufile, inspect
from ..codegen.disassembler import disassemble_program
from ..codegen.emit import emit
from ..codegen.verify.verify import verify_program
from ..errors import DpuError
from ..frontend.importer import import_onnx
from ..frontend.pipeline_folder import MANIFEST, PipelineFolder
from ..ir.arch import Arch, load_arch
from ..ir.dialects import parse_module, print_module
from ..passes.calibration import FORMAT, METADATA, load_calibration
from ..passes.lower.program import lower_module
from ..passes.pipeline import FLOAT_PIPELINE, PASSES, run_passes
from ..passes.plan_scratchpad import plan
from ..passes.quantise import Derived, fetcher, quantise
from ..simulator.dram.params import config, load_dram
from .fuzz_mutate import mutate_bytes, mutate_json, mutate_onnx, mutate_text

TILE_PASSES = ("quantise{arch=dpu_tiny}", "lower-to-tile", "overlap-prologues", "weave-attention", "plan-scratchpad")


class Subject(Protocol):
    """One format: `run` makes case `seed` and reads it; what it raises, but for a DpuError, is a finding."""

    def __init__(self, folder: Path) -> None: ...

    def run(self, seed: int) -> None: ...


def convolutions() -> onnx.ModelProto:
    """Two convolutions with a silu between them: nine kilobytes."""
    rng = np.random.default_rng(0)
    shapes = {"w1": (8, 4, 3, 3), "b1": (8,), "w2": (4, 8, 3, 3), "b2": (4,)}
    nodes = [
        helper.make_node("Conv", ["sample", "w1", "b1"], ["a"], "/conv_in/Conv", pads=[1] * 4),
        helper.make_node("Sigmoid", ["a"], ["b"], "/act/Sigmoid"),
        helper.make_node("Mul", ["a", "b"], ["c"], "/act/Mul"),
        helper.make_node("Conv", ["c", "w2", "b2"], ["y"], "/conv_out/Conv", pads=[1] * 4),
    ]
    return _model(
        nodes, {n: rng.standard_normal(s) / 8 for n, s in shapes.items()}, ("sample", (1, 4, 4, 4)), (1, 4, 4, 4)
    )


def attention() -> onnx.ModelProto:
    """A layer norm, attention with its shape arithmetic, and a linear with GELU."""
    rng = np.random.default_rng(1)
    weights: dict[str, Any] = {n: rng.standard_normal((16, 16)) / 4 for n in ("wq", "wk", "wv", "wo", "wf")}
    weights |= {"g": np.ones(16), "s": np.zeros(16)}
    weights |= {"two": np.array([2, 8]), "first": np.array([0]), "last": np.array([0, 0, 16])}
    make = helper.make_node
    nodes = [
        make("LayerNormalization", ["x", "g", "s"], ["n"], "/norm", axis=-1, epsilon=1e-5),
        make("Shape", ["n"], ["shape"], "/Shape", start=0, end=2),
        make("Concat", ["shape", "two"], ["heads"], "/Concat", axis=0),
    ]
    for h in "qkv":
        nodes += [
            make("MatMul", ["n", f"w{h}"], [f"{h}0"], f"/to_{h}/MatMul"),
            make("Reshape", [f"{h}0", "heads"], [f"{h}1"], f"/to_{h}/Reshape"),
            make("Transpose", [f"{h}1"], [h], f"/to_{h}/Transpose", perm=[0, 2, 1, 3]),
        ]
    nodes += [
        make("Attention", ["q", "k", "v"], ["a0"], "/Attention"),
        make("Transpose", ["a0"], ["a1"], "/Transpose", perm=[0, 2, 1, 3]),
        make("Reshape", ["a1", "last"], ["a"], "/Reshape"),
        make("MatMul", ["a", "wo"], ["o"], "/to_out/MatMul"),
        make("Add", ["o", "x"], ["r"], "/Add"),
        make("MatMul", ["r", "wf"], ["f"], "/ff/MatMul"),
        make("Gelu", ["f"], ["y"], "/ff/Gelu"),
    ]
    return _model(nodes, weights, ("x", (1, 8, 16)), (1, 8, 16))


def _model(
    nodes: list[onnx.NodeProto], weights: dict[str, Any], x: tuple[str, tuple[int, ...]], y: tuple[int, ...]
) -> onnx.ModelProto:
    def tensor(name: str, a: Any) -> onnx.TensorProto:
        return numpy_helper.from_array(a if a.dtype == np.int64 else a.astype(np.float16), name)

    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(x[0], TensorProto.FLOAT16, x[1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, y)],
        [tensor(n, a) for n, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


MODELS: tuple[Callable[[], onnx.ModelProto], ...] = (convolutions, attention)


class Onnx:
    """Bytes or structure of a model damaged; imported, canonicalised, one in eight compiled to words and proved."""

    def __init__(self, folder: Path) -> None:
        self.models = [make() for make in MODELS]
        self.path = folder / "model.onnx"
        self.arch = load_arch("dpu_tiny")

    def run(self, seed: int) -> None:
        rng = random.Random(seed)
        model = rng.choice(self.models)
        data = mutate_onnx(rng, model) if rng.random() < 0.75 else mutate_bytes(rng, model.SerializeToString())
        self.path.write_bytes(data)
        module, store = import_onnx(self.path, part="unet")
        try:
            run_passes(module, FLOAT_PIPELINE)
        except DpuError as e:
            if e.code == "E205":  # what import leaves, the passes must take
                raise AssertionError(e.what) from e
            raise
        derived: Derived = {}
        quantise(module, self.arch, None, derived)
        if seed % 8 == 0:
            verify_program(emit(module, self.arch, fetcher(store.get, derived), {}).program)


class Dpu:
    """A program damaged: bytes, tensor table, metadata, source map; digests repaired in most, so that more is read."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "program.dpu"
        arch = load_arch("dpu_tiny")
        source = folder / "source.onnx"
        onnx.save(convolutions(), source)
        module, store = import_onnx(source, part="unet")
        run_passes(module, FLOAT_PIPELINE)
        derived: Derived = {}
        quantise(module, arch, None, derived)
        emit(module, arch, fetcher(store.get, derived), {}).save(self.path)
        self.data = self.path.read_bytes()
        begin = 8 + int.from_bytes(self.data[:8], "little")
        self.header, self.body = json.loads(self.data[8:begin]), self.data[begin:]

    def run(self, seed: int) -> None:
        rng = random.Random(seed)
        self.path.write_bytes(mutate_bytes(rng, self.data) if rng.random() < 0.2 else self._structure(rng))
        program = dpufile.load(self.path)
        for line in disassemble_program(program):
            del line
        inspect.inspect(program, as_json=True)
        inspect.inspect(program)
        verify_program(program)

    def _structure(self, rng: random.Random) -> bytes:
        header, body = json.loads(json.dumps(self.header)), self.body
        kind = rng.randrange(4)
        meta = header["__metadata__"]
        if kind == 0:
            header = mutate_json(rng, header)
        elif kind == 1:  # a JSON document inside the metadata
            name = rng.choice([k for k, v in meta.items() if v[:1] in "[{"])
            meta[name] = json.dumps(mutate_json(rng, json.loads(meta[name])))
        elif kind == 2:  # the content of a tensor
            entry = header[rng.choice([k for k in header if k != "__metadata__"])]
            first, last = entry["data_offsets"]
            piece = mutate_bytes(rng, body[first:last])[: last - first].ljust(last - first, b"\0")
            body = body[:first] + piece + body[last:]
        else:  # a source map
            name = rng.choice([k for k in header if k.startswith("source/")])
            first, last = header[name]["data_offsets"]
            text = json.dumps(mutate_json(rng, json.loads(body[first:last])), separators=(",", ":")).encode()
            body = body[:first] + text[: last - first].ljust(last - first) + body[last:]
        if rng.random() < 0.9:
            _repair(header, body)
        text = json.dumps(header, separators=(",", ":")).encode()
        return len(text).to_bytes(8, "little") + text + body


def _repair(header: Any, body: bytes) -> None:
    """Digests as the damaged content has them, as far as it can still be read."""
    with suppress(KeyError, TypeError, ValueError, AttributeError, OverflowError):
        meta = header["__metadata__"]
        table = {k: v for k, v in header.items() if k != "__metadata__"}
        sums = json.loads(meta["checksums"])
        for name, entry in table.items():
            first, last = entry["data_offsets"]
            sums[name] = hashlib.sha256(body[first:last]).hexdigest()
        meta["checksums"] = json.dumps(sums)
        meta["arch_digest"] = Arch.model_validate_json(meta["arch"]).digest
    with suppress(TypeError, AttributeError, NameError):
        meta["header_sha256"] = dpufile._header_digest({k: v for k, v in header.items() if k != "__metadata__"}, meta)


class Json:
    """An arch, DRAM parameters, a calibration, a pipeline manifest damaged; an arch that is read is compiled for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.archs = [load_arch(name).model_dump(mode="json") for name in ("dpu_tiny", "dpu_f2")]
        self.dram = load_dram("lpddr5x_8533_128").model_dump(mode="json")
        self.text = _stages(folder)[1]
        for name in ("unet", "vae"):
            (folder / name).mkdir(exist_ok=True)
            (folder / name / "model.onnx").write_bytes(b"x")
        part = {"onnx": "unet/model.onnx", "files": {"unet/model.onnx": "0" * 64}}
        self.manifest = {"format": 1, "source": "tiny-seeded", "parts": {"unet": part, "vae": {**part, "onnx": None}}}

    def run(self, seed: int) -> None:
        rng = random.Random(seed)
        (self._arch, self._arch, self._calibration, self._manifest, self._dram)[rng.randrange(5)](rng)

    def _write(self, rng: random.Random, name: str, value: Any) -> Path:
        text = json.dumps(mutate_json(rng, value)).encode()
        path = self.folder / name
        path.write_bytes(mutate_bytes(rng, text) if rng.random() < 0.2 else text)
        return path

    def _arch(self, rng: random.Random) -> None:
        arch = load_arch(str(self._write(rng, "arch.json", rng.choice(self.archs))))
        _ = (arch.words, arch.digest, arch.peak_macs_per_cycle)
        if rng.random() < 0.5:
            module = parse_module(self.text)
            quantise(module, arch, None, {})
            for entry, _ in lower_module(module, arch, _weights):
                plan(entry.program, arch)

    def _dram(self, rng: random.Random) -> None:
        path = self._write(rng, f"{rng.randrange(1 << 60)}.json", self.dram)  # load_dram remembers files by their path
        try:
            config(load_dram(str(path)), rng.choice((250e6, 1e9, 333333333.0)), 2)
        finally:
            path.unlink()

    def _calibration(self, rng: random.Random) -> None:
        info = {"format": FORMAT, "model": "0" * 64, "size": "64x64", "steps": "20"}
        tensors = {"/a:x:channel_absmax": np.ones(4, np.float32), "/a:y:absmax": np.ones((), np.float32)}
        path = self.folder / "calibration.st"
        text = json.dumps(mutate_json(rng, info))
        save_file(tensors, path, {METADATA: text} if rng.random() < 0.9 else None)
        if rng.random() < 0.3:
            path.write_bytes(mutate_bytes(rng, save(tensors, {METADATA: text})))
        found = load_calibration(path)
        for key in ("/a:x", "/a:y", "/b:x"):
            found.absmax(key)

    def _manifest(self, rng: random.Random) -> None:
        self._write(rng, MANIFEST, self.manifest)
        folder = PipelineFolder.load(self.folder)
        for part in folder.parts:
            folder.onnx(part)
        folder.onnx("unet")
        folder.verify()


def _weights(source: str, transform: tuple[str, ...]) -> Any:
    raise AssertionError(f"a lowering asked for the weight {source}")


def _stages(folder: Path) -> list[str]:
    """Each model as text after import, after the float passes, quantised, and as tile programs."""
    texts = []
    for make in MODELS:
        path = folder / "stage.onnx"
        onnx.save(make(), path)
        module, _ = import_onnx(path, part="unet")
        texts.append(print_module(module, locations=True))
        for passes in (FLOAT_PIPELINE, TILE_PASSES[:1], TILE_PASSES[1:2]):
            run_passes(module, list(passes))
            texts.append(print_module(module))
    return texts


class Text:
    """The text of a module of any stage damaged; read, printed and taken through the passes that follow."""

    def __init__(self, folder: Path) -> None:
        self.texts = _stages(folder)

    def run(self, seed: int) -> None:
        rng = random.Random(seed)
        at = rng.randrange(len(self.texts))
        while at % 4 == 3 and rng.random() < 0.7:  # tile programs are long: they take most of the time
            at = rng.randrange(len(self.texts))
        module = parse_module(mutate_text(rng, self.texts[at]), "case.mlir")
        print_module(module, locations=True)
        if rng.random() < 0.2:
            run_passes(module, [rng.choice(list(PASSES))])
            return
        for passes in ([*FLOAT_PIPELINE, *TILE_PASSES], TILE_PASSES, TILE_PASSES[1:], TILE_PASSES[2:])[at % 4 :][:1]:
            run_passes(module, list(passes))


SUBJECTS: dict[str, type[Subject]] = {"onnx": Onnx, "dpu": Dpu, "json": Json, "text": Text}
"""Every format by its name on the command line."""
