"""Make the graphs of this folder again: the tiny pipeline as Optimum, onnxslim and onnxsim write it, without weights.

    python3 -m venv /tmp/other
    /tmp/other/bin/pip install optimum-onnx==0.1.0 optimum==2.1.0 transformers==4.57.6 diffusers==0.39.0 \\
        torch==2.13.0 onnxslim==0.1.98 onnxsim==0.8.1
    .venv/bin/python tests/data/optimum/make.py /tmp/other/bin

Optimum needs older packages than this project, hence an environment of its own; a test needs neither.

Every initialiser that holds weights becomes external data that is not there, and its `doc_string` says which seeded
tensors it was: `name[128,192]^T|other[...]`, transposed and joined along the last axis. `dpu.bench.exporters` reads
that back. Values are renamed to `v0`, `v1`, ... to save space; node names stay, the compiler reports them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from dpu.bench.exporters import ABSENT, FIXED, PARTS
from dpu.frontend.seeded import named_tensors
from dpu.frontend.tiny import build_tiny
from onnx import TensorProto, numpy_helper
from safetensors.torch import load_file, save_file

HERE = Path(__file__).parent
QUIET = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def main(tools: Path) -> None:
    """Export, simplify, strip, write."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        pipe = build_tiny()
        save_for_transformers_4(pipe, work / "diffusers")
        task = ["--task", "text-to-image", "--library", "diffusers"]
        run(tools / "optimum-cli", "export", "onnx", "--model", work / "diffusers", *task, work / "optimum")
        for part in PARTS:
            state = named_tensors(getattr(pipe, "vae" if part == "vae_decoder" else part))
            weights = {n: t.numpy() for n, t in state.items()}
            source = work / "optimum" / part / "model.onnx"
            fixed = [f"{n}:{','.join(map(str, s))}" for n, s in FIXED[part].items()]
            made = {"optimum": source} | {
                set_: work / f"{set_}-{part}.onnx"
                for set_ in ("onnxslim", "onnxsim", "onnxslim_fixed", "onnxsim_fixed")
            }
            run(tools / "onnxslim", source, made["onnxslim"])
            run(tools / "onnxsim", source, made["onnxsim"])
            run(tools / "onnxslim", source, made["onnxslim_fixed"], "--input-shapes", *fixed)
            run(tools / "onnxsim", source, made["onnxsim_fixed"], "--overwrite-input-shape", *fixed)
            for set_, path in made.items():
                folder = HERE if set_ == "optimum" else HERE / set_
                folder.mkdir(exist_ok=True)
                model = strip(onnx.load(path), weights)
                (folder / f"{part}.onnx").write_bytes(model.SerializeToString(deterministic=True))


def save_for_transformers_4(pipe: object, folder: Path) -> None:
    """A diffusers folder whose text encoder and tokenizers transformers 4 can read, too."""
    pipe.save_pretrained(folder)
    file = folder / "text_encoder" / "model.safetensors"
    tensors = {f"text_model.{n.removeprefix('text_model.')}": t for n, t in load_file(file).items()}
    save_file(tensors, file, metadata={"format": "pt"})
    for name in ("tokenizer", "tokenizer_2"):
        model = json.loads((folder / name / "tokenizer.json").read_text())["model"]
        (folder / name / "vocab.json").write_text(json.dumps(model["vocab"]))
        merges = "".join(f"{m if isinstance(m, str) else ' '.join(m)}\n" for m in model["merges"])
        (folder / name / "merges.txt").write_text(f"#version: 0.2\n{merges}")


def run(*command: object) -> None:
    """Run a tool, showing what it prints only when it fails."""
    done = subprocess.run([str(c) for c in command], env={**os.environ, **QUIET}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def strip(model: onnx.ModelProto, weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """The graph without weights, metadata and long names."""
    graph = model.graph
    for field in ("metadata_props", "doc_string", "producer_version"):
        model.ClearField(field)
    for field in ("value_info", "metadata_props", "doc_string"):
        graph.ClearField(field)
    short: dict[str, str] = {v.name: v.name for v in (*graph.input, *graph.output)} | {"": ""}
    known = recipes(weights)
    for tensor in graph.initializer:
        recipe = recipe_of(numpy_helper.to_array(tensor), known, weights)
        if recipe is not None:
            place = TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type, doc_string=recipe)
            place.data_location = TensorProto.EXTERNAL
            place.external_data.add(key="location", value=ABSENT)
            tensor.CopyFrom(place)
        elif np.prod(tensor.dims) > 2**13:
            print(f"{tensor.name} {list(tensor.dims)} is no seeded tensor and stays inside")
        tensor.name = short.setdefault(tensor.name, f"v{len(short)}")
    for node in graph.node:
        for field in ("metadata_props", "doc_string"):
            node.ClearField(field)
        for names in (node.input, node.output):
            names[:] = [short.setdefault(n, f"v{len(short)}") for n in names]
    return model


def recipes(weights: dict[str, np.ndarray]) -> dict[bytes, str]:
    """The recipe of each seeded tensor and each transposed matrix, by its bytes."""
    known: dict[bytes, str] = {}
    for name, value in weights.items():
        text = f"{name}[{','.join(map(str, value.shape))}]"
        known[value.tobytes()] = text
        if value.ndim == 2:
            known.setdefault(value.T.tobytes(), f"{text}^T")
    return known


def recipe_of(value: np.ndarray, known: dict[bytes, str], weights: dict[str, np.ndarray]) -> str | None:
    """The recipe of an initialiser, or None when it is no weight."""
    if value.dtype != np.float32 or value.size < 8:
        return None
    whole = known.get(value.tobytes())
    if whole or value.ndim != 2:
        return whole
    parts, at = [], 0
    while at < value.shape[1]:
        widths = {w.shape[0] for w in weights.values() if w.ndim == 2 and w.shape[1] == value.shape[0]}
        found = (known.get(value[:, at : at + n].tobytes()) for n in sorted(widths, reverse=True))
        part = next((p for p in found if p), None)
        if part is None:
            return None
        parts.append(part)
        shape = part[part.index("[") + 1 : part.index("]")].split(",")
        at += int(shape[0] if part.endswith("^T") else shape[1])
    return "|".join(parts)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
