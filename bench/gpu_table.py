"""`results/gpu/README.md`: the tables of a merged results file, and the gap to MLPerf's best entry."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

from ..files import atomic_write
from ..measurement import Measurement, read_measurements
from ..runtime.gpu.ort_rewrite import FUSIONS
from ..simulator.economics.inputs import Accelerator
from .gpu_experiment import stated
from .gpu_merge import NOT_STATED, repetitions
from .gpu_points import BEST, ORT

MLPERF_DOES = (
    ("UNet in FP8: QKV, attention products, feed-forward, convolutions but the shortcuts", "`step-fp8`: linears only"),
    ("VAE in INT8 (convolutions of its first blocks)", "float16"),
    ("TensorRT engines: tactics searched for each layer, epilogues fused", "torch.compile's Triton and cuBLAS kernels"),
    ("16 images a batch offline, 8 GPUs, batches across requests", "one GPU, a batch of images at a time"),
    (
        "LoadGen, 5,000 prompts and 600 s or more, FID and CLIP within bounds",
        "shorter runs, seeded weights, no quality",
    ),
)
"""What the H200 entry runs (inference_results_v5.1 @965182b, closed/Cisco/configs/C885_H200x8; v4.1 calibration.md),
and what is measured here instead."""


def price_of(peer: Accelerator, given: float) -> tuple[float, str]:
    """(USD an hour, where it comes from): the option's, else the accelerator's on-demand price."""
    if given > 0:
        return given, "--price-per-hour"
    stated = peer.rental.on_demand
    return (stated.value, stated.source) if stated is not None else (0.0, "none stated")


def table(merged: Path, peer: Accelerator, price_per_hour: float = 0.0) -> str:
    """The page."""
    content = json.loads(merged.read_text())
    found, points = read_measurements(merged), content["points"]
    device = next(iter(found.values())).device if found else None
    price, source = price_of(peer, price_per_hour)
    lines = [
        "# The GPU baseline",
        "",
        f"Rendered by `dpubench gpu --merge`; do not edit. Measured {content['manner']}.",
        "Provenance of every number here: "
        + (device.provenance.label if device else "none")
        + f" on {device.name if device else 'nothing'}, unless a column says otherwise.",
        "",
        *_identities(points),
        *(["", content["note"]] if content["note"] else []),
        "",
        *_steps(found, points),
        *_ablation(found, points),
        *_images(found, price, source),
        *_spread(found),
        *_experiment(points),
        *_server(found, points),
        *_parts(found),
        *_gap(found, peer),
    ]
    for title, names in (("Failed", content["failed"]), ("Not run", content["not run"])):
        if names:
            shown = [f"- `{n}`" + (f": {names[n]}" if isinstance(names, dict) else "") for n in names]
            lines += ["", f"## {title}", "", *shown]
    return "\n".join(lines) + "\n"


def _identities(points: dict[str, Any]) -> list[str]:
    """A line for each GPU, driver, commit and set of packages; with several, the points of each."""
    groups: dict[str, list[str]] = {}
    for point, info in points.items():
        i: dict[str, Any] = info["identity"]
        line = (
            f"GPU {i.get('gpu', {}).get('name', '-')}, driver {i.get('driver', '-')}, "
            f"power limit {i.get('power limit W', '-')} W, commit {_commit(i)}; "
            + ", ".join(f"{k} {v}" for k, v in i.get("packages", {}).items())
            + f"; TensorRT: {i.get('tensorrt', '-')}."
        )
        groups.setdefault(line, []).append(f"`{point}`")
    if len(groups) < 2:
        return list(groups)
    return [f"- {line} Of these: {', '.join(names)}." for line, names in groups.items()]


def _commit(identity: dict[str, Any]) -> str:
    """Short; `+` means that files differed from it."""
    text = str(identity.get("commit", ""))
    return text[:12] + ("+" if text.endswith("+") else "") or "-"


def _steps(found: dict[str, Measurement], points: dict[str, Any]) -> list[str]:
    rows = []
    for point, info in points.items():
        d = info["details"]
        latency = found.get(_KINDS.get(point, ""))
        if latency is None or "p50" not in d:
            continue
        stem = latency.name.removesuffix(".latency")
        energy = found.get(f"{stem}.energy")
        notes = d.get("notes", {})
        compiled = notes.get("compile seconds", 0.0) + notes.get("load seconds", 0.0)
        joules = f"{energy.value:.1f}" if energy else "-"
        rows.append(
            f"| {point} | {d['engine']} | {1e3 * d['p50']:.2f} | {1e3 * d['p90']:.2f} | {1e3 * d['p99']:.2f} | "
            f"{joules} | {d['relative error to eager torch']:.4f} | {compiled:.0f} |"
        )
    head = "| point | engine | p50 ms | p90 ms | p99 ms | J a forward | relative error to eager | load and compile s |"
    if not rows:
        return []
    return ["## UNet step, one guided image (batch 2)", "", head, "|---|---|---|---|---|---|---|---|", *rows, ""]


_KINDS = {
    "step-torch": f"step.{BEST}.b2.latency",
    "step-torch-cudnn": f"step.{BEST}:cudnn.b2.latency",
    "step-ort": f"step.{ORT}.b2.latency",
    "step-ort-none": "step.ort:none.b2.latency",
    "step-fp8": f"step.{BEST}:fp8.b2.latency",
    "step-eager": "step.torch:eager.b2.latency",
    "step-graph": "step.torch:graph.b2.latency",
    "step-reduce-overhead": "step.torch:reduce-overhead.b2.latency",
    "step-max-autotune": "step.torch:max-autotune.b2.latency",
    "ort-cudnn": "step.ort:all:cudnn.b2.latency",
    "ort-conv-bias": "step.ort:all:conv-bias.b2.latency",
    "ort-strict": "step.ort:all:strict.b2.latency",
    **{f"ort-without-{f}": f"step.ort:all,-{f}.b2.latency" for f in FUSIONS},
}


def _ablation(found: dict[str, Measurement], points: dict[str, Any]) -> list[str]:
    full = found.get(_KINDS["step-ort"])
    rows = []
    for fusion in FUSIONS:
        without = found.get(_KINDS[f"ort-without-{fusion}"])
        if full is None or without is None:
            continue
        lost = without.value - full.value
        rows.append(f"| {fusion} | {1e3 * without.value:.2f} | {1e3 * lost:+.2f} | {100 * lost / full.value:+.1f} % |")
    if not rows:
        return []
    placed = points.get("step-ort", {}).get("details", {}).get("notes", {})
    return [
        "## What each rewrite of the ONNX graph is worth",
        "",
        "| without | p50 ms | slower by ms | of all |",
        "|---|---|---|---|",
        *rows,
        "",
        f"Nodes on the CPU in a step: {placed.get('nodes on the CPU', '-')}. "
        f"CUDA graph: {placed.get('cuda graph', '-')}. Operators: {placed.get('operators', '-')}.",
        "",
    ]


def _images(found: dict[str, Measurement], price: float, source: str) -> list[str]:
    rows = []
    for name, rate in _rates(found).items():
        stem = name.removesuffix(".rate")
        latency, energy, watts = (found.get(f"{stem}.{x}") for x in ("latency", "energy", "power"))
        c = rate.conditions
        mean = fmean(m.value for m in repetitions(found, name))
        dollars = f"{price / 3600 / mean:.6f}" if price else "-"
        rows.append(
            f"| {c.get('engine', '')} | {c.get('images a batch', '')} | {c.get('steps', '')} | {mean:.3f} | "
            f"{len(repetitions(found, name))} | {latency.value if latency else 0:.3f} | "
            f"{f'{energy.value:.0f}' if energy else '-'} | {f'{watts.value:.0f}' if watts else '-'} | {dollars} | "
            f"{'stated' if stated(c) else NOT_STATED} |"
        )
    if not rows:
        return []
    return [
        "## Whole images",
        "",
        f"USD an image at {price:g} USD an hour ({source}), always busy. Energy is the board's, without the host.",
        "image/s is the mean of the runs' medians; the other columns are of the first run.",
        "",
        "| engine | images a batch | steps | image/s | runs | s a batch (median) | J an image | W | USD an image |"
        " experiment |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *rows,
        "",
    ]


def _rates(found: dict[str, Measurement]) -> dict[str, Measurement]:
    return {k: m for k, m in found.items() if k.startswith("images.") and k.endswith(".rate")}


def _spread(found: dict[str, Measurement]) -> list[str]:
    """Repetitions: each over a window of its own, the engine loaded once."""
    rows = []
    for name, rate in _rates(found).items():
        runs = repetitions(found, name)
        if len(runs) < 2:
            continue
        rates, c = [m.value for m in runs], rate.conditions
        energies = repetitions(found, name.removesuffix("rate") + "energy")
        joules = [m.value for m in energies]
        each = ", ".join(f"{m.value:.0f} ({float(m.conditions.get('window s', 0)):.0f} s)" for m in energies)
        mean = fmean(rates)
        rows.append(
            f"| {c.get('engine', '')} | {c.get('images a batch', '')} | {c.get('steps', '')} | {len(runs)} | "
            f"{mean:.4f} | {min(rates):.4f} to {max(rates):.4f} | {100 * (max(rates) - min(rates)) / mean:.2f} % | "
            f"{f'{fmean(joules):.0f}' if joules else '-'} | {each or '-'} |"
        )
    if not rows:
        return []
    return [
        "## Spread over repetitions",
        "",
        "Runs one after the other in one process, each over a window of its own; a run's rate is its median.",
        "",
        "| engine | images a batch | steps | runs | image/s, mean | min to max | spread | J an image, mean |"
        " each (window) |",
        "|---|---|---|---|---|---|---|---|---|",
        *rows,
        "",
    ]


def _experiment(points: dict[str, Any]) -> list[str]:
    """What the images are of, as `dpubench gate` compares it."""
    groups: dict[str, list[str]] = {}
    for point, info in points.items():
        said = info.get("experiment")
        if isinstance(said, dict):
            said = ", ".join(f"{k} {v[:16] if k.endswith('sha256') else v}" for k, v in said.items())
        if said:
            groups.setdefault(said, []).append(f"`{point}`")
    if not groups:
        return []
    what = ["", f"`model_sha256`: {_DIGEST}"] if any(said != NOT_STATED for said in groups) else []
    shown = [
        f"- {', '.join(names)}: {'measured before points stated it' if said == NOT_STATED else said}"
        for said, names in groups.items()
    ]
    return ["## The experiment of each point", "", *shown, *what, ""]


_DIGEST = (
    "the weights of the UNet as `dpuc export` writes them (`weights_digest`; in a `.dpu` it is `calibration.weights`). "
    "Digests are shown by their first 16 digits."
)


def _server(found: dict[str, Measurement], points: dict[str, Any]) -> list[str]:
    rows = []
    for point, info in points.items():
        d = info["details"]
        if point.startswith("server-") and "p99" in d:
            rows.append(
                f"| {point.removeprefix('server-').partition('.')[0]} % of {d['capacity image/s']:.2f} image/s | "
                f"{d['arrivals']} | "
                f"{d['p50']:.2f} | {d['p90']:.2f} | {d['p99']:.2f} |"
            )
    if not rows:
        return []
    head = ["## Under Poisson arrivals, 20 steps, one image at a time", ""]
    return [*head, "| load | images | p50 s | p90 s | p99 s |", "|---|---|---|---|---|", *rows, ""]


def _parts(found: dict[str, Measurement]) -> list[str]:
    rows = [
        f"| {n} | {m.value:.4g} | {m.unit} | {len(m.samples)} |"
        for n, m in found.items()
        if n.startswith(("vae.", "encoders.", "rate.", "idle.", "tiny."))
    ]
    return (
        ["## Parts, rates, checks", "", "| record | value | unit | samples |", "|---|---|---|---|", *rows, ""]
        if rows
        else []
    )


def _gap(found: dict[str, Measurement], peer: Accelerator) -> list[str]:
    offline = peer.offline
    if offline is None:
        return []
    rows = []
    for name, m in _rates(found).items():
        if name.endswith(".20steps.rate"):
            c, mean = m.conditions, fmean(r.value for r in repetitions(found, name))
            rows.append(
                f"| {c.get('engine', '')}, {c.get('images a batch', '')} a batch | {mean:.3f} | "
                f"{offline.value:.3f} | {offline.value / mean:.2f} |"
            )
    if not rows:
        return []
    return [
        f"## The gap to MLPerf's best entry of {peer.title}",
        "",
        f"{offline.value:.3f} image/s a GPU, {offline.provenance}: {offline.source}.",
        "",
        "| here | image/s here | image/s there | ratio |",
        "|---|---|---|---|",
        *rows,
        "",
        "| there | here |",
        "|---|---|",
        *[f"| {there} | {here} |" for there, here in MLPERF_DOES],
        "",
    ]


def write_table(merged: Path, out: Path, peer: Accelerator, price_per_hour: float = 0.0) -> None:
    """Render the page beside the merged file."""
    text = table(merged, peer, price_per_hour)
    with atomic_write(out) as temporary:
        temporary.write_text(text)
