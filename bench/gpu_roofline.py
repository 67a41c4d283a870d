"""The GPU's roofline: what its layers attain against its measured rates, in the axes of the DPU's report.

x is MACs a byte moved once (`bench/profile.py`), y MACs a second, as `simulator/roofline.py` has them per DRAM byte, so
that a DPU's report can be drawn into the same figure.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from ..files import atomic_write
from ..simulator.roofline import Ceiling, scaled

if TYPE_CHECKING:
    from ..simulator.profile import Report
    from .gpu_context import Bench
    from .profile import Part

_RUNS = 10
_AHEAD = 400_000_000  # cycles, about 0.2 s: more than the host takes to launch a forward with its events
_LEAVES = ("Conv2d", "Linear")


class RooflinePoint(BaseModel):
    """One layer: MACs a byte, MACs a second, share of the time of all layers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: str
    x: float
    y: float
    share: float


class GpuRoofline(BaseModel):
    """Points of one UNet forward and the rates that bound them, all measured by `dpubench gpu`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    device: str
    macs_per_second: dict[str, float]  # type: of a large product
    bytes_per_second: float  # of a large copy, read and written
    points: tuple[RooflinePoint, ...]

    def ceilings(self) -> list[Ceiling]:
        """The limits in the form of the DPU's report."""
        memory = Ceiling(f"copy {scaled(self.bytes_per_second, 'B/s')}", self.bytes_per_second, True, "solid")
        flat = [
            Ceiling(f"{name} product {scaled(rate, 'MAC/s')}", rate, False, "solid")
            for name, rate in self.macs_per_second.items()
        ]
        return [memory, *flat]


def layer_seconds(bench: Bench) -> dict[str, float]:
    """Seconds of each convolution and linear of the eager UNet for two samples, and of each attention's products."""
    import torch

    from ..runtime.gpu.torch_engine import TorchUnet

    bench.free()
    unet = TorchUnet(
        bench.configs["unet"], bench.state("unet"), 2, bench.latent, "eager", "fp16", bench.device, bench.dtype
    )
    bench.draw(unet)
    cuda = bench.device == "cuda"
    spans: dict[str, list[Any]] = {}
    open_spans: dict[str, Any] = {}

    def mark() -> Any:
        import time

        if not cuda:
            return time.perf_counter()
        events: Any = torch.cuda
        event = events.Event(enable_timing=True)
        event.record()
        return event

    def before(name: str) -> Any:
        def hook(*_: Any) -> None:
            open_spans[name] = mark()

        return hook

    def after(name: str) -> Any:
        def hook(*_: Any) -> None:
            spans.setdefault(name, []).append((open_spans.pop(name), mark()))

        return hook

    inside: dict[str, list[str]] = {}
    for name, module in unet.module.named_modules():
        kind = type(module).__name__
        if kind in _LEAVES or kind == "Attention":
            module.register_forward_pre_hook(before(name))
            module.register_forward_hook(after(name))
        if kind == "Attention":
            inside[name] = [f"{name}.{n}" for n, m in module.named_modules() if type(m).__name__ in _LEAVES]
    for _ in range(_RUNS + 2):
        if cuda:  # let the host run ahead, so that events are as far apart as the GPU's work, not the host's
            untyped: Any = torch.cuda
            untyped._sleep(_AHEAD)
        unet.forward()
    bench.synchronise()

    def seconds(name: str) -> float:
        found = spans[name][2:]  # the first two warm up
        each: list[float] = [a.elapsed_time(b) / 1e3 if cuda else b - a for a, b in found]
        return sorted(each)[len(each) // 2]

    times = {name: seconds(name) for name in spans}
    for name, parts in inside.items():
        times[name] = max(times[name] - sum(times.get(p, 0.0) for p in parts), 0.0)
    unet.close()
    return times


def rates(bench: Bench) -> dict[str, tuple[str, list[float]]]:
    """(unit, samples) of large products in float16, FP8 and int8, and of a copy: what the tensor cores really run."""
    import torch

    side = 8192 if bench.device == "cuda" else 64
    size = 1 << (32 if bench.device == "cuda" else 16)
    found: dict[str, tuple[str, list[float]]] = {}

    def time_of(run: Any) -> list[float]:
        return bench.watch(run, 0.0, 20)[0]

    a = torch.randn(side, side, device=bench.device).to(bench.dtype)
    b = torch.randn(side, side, device=bench.device).to(bench.dtype)
    found["fp16 product"] = ("MAC/s", [side**3 / s for s in time_of(lambda: a @ b)])
    i8, j8 = ((x.clamp(-1, 1) * 127).to(torch.int8) for x in (a, b.t().contiguous().t()))
    found["int8 product"] = ("MAC/s", [side**3 / s for s in time_of(lambda: torch._int_mm(i8, j8))])
    if bench.device == "cuda":
        e, f = a.to(torch.float8_e4m3fn), b.t().contiguous().to(torch.float8_e4m3fn).t()
        one = torch.ones((), device=bench.device)

        def fp8() -> Any:
            return torch._scaled_mm(e, f, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)

        found["fp8 product"] = ("MAC/s", [side**3 / s for s in time_of(fp8)])
    source = torch.zeros(size, dtype=torch.uint8, device=bench.device)
    target = torch.empty_like(source)
    found["copy"] = ("byte/s", [2 * size / s for s in time_of(lambda: target.copy_(source))])
    return found


def roofline(device: str, attained: Mapping[str, float], seconds: Mapping[str, float], unet: Part) -> GpuRoofline:
    """Join measured seconds (of two samples) and counted work (of one)."""
    found = []
    whole = sum(seconds.values()) or 1.0
    for layer in unet.layers:
        name = layer.name
        spent = seconds.get(name)
        if not spent:
            continue
        moved = 2 * (layer.bytes - layer.weight_bytes) + layer.weight_bytes
        found.append(
            RooflinePoint(
                name=name, kind=layer.kind, x=2 * layer.macs / moved, y=2 * layer.macs / spent, share=spent / whole
            )
        )
    products = {k.removesuffix(" product"): v for k, v in attained.items() if k.endswith(" product")}
    return GpuRoofline(device=device, macs_per_second=products, bytes_per_second=attained["copy"], points=tuple(found))


def overlay_png(gpu: GpuRoofline, reports: Sequence[Report] = ()) -> bytes:
    """Both in one figure: the GPU's layers filled by class, the DPU's operations hollow."""
    import matplotlib
    from matplotlib.figure import Figure

    from ..simulator.roofline import ceilings, points

    colours = {"linear": "#0072B2", "convolution": "#E69F00", "attention": "#D55E00"}
    figure: Any
    with matplotlib.rc_context({"font.size": 8}):
        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        axes = figure.subplots()
        xs = [p.x for p in gpu.points] or [1.0]
        x0, x1 = min(xs) / 4, max(xs) * 4
        roofs = [("GPU", c) for c in gpu.ceilings()] + [("DPU", c) for r in reports for c in ceilings(r)]
        for who, c in roofs:
            line = [c.at(x0), c.at(x1)]
            axes.plot([x0, x1], line, linewidth=0.9, linestyle="-" if who == "GPU" else ":", label=f"{who} {c.name}")
        for kind, colour in colours.items():
            mine = [p for p in gpu.points if p.kind == kind]
            sizes = [12 + 900 * p.share for p in mine]
            axes.scatter([p.x for p in mine], [p.y for p in mine], s=sizes, c=colour, alpha=0.7, label=f"GPU {kind}")
        for r in reports:
            found = [p for p in points(r) if p.row.executed_macs]
            axes.scatter(
                [p.x for p in found],
                [p.y for p in found],
                s=[12 + 900 * p.share for p in found],
                facecolors="none",
                edgecolors="#666666",
                label=f"DPU {r.arch} {r.entry}",
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("MACs a byte")
        axes.set_ylabel("MAC/s")
        axes.legend(fontsize=6, loc="lower right")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    return buffer.getvalue()


def write_roofline(merged: Path, report: Path | None = None) -> None:
    """`roofline.json` and `roofline.png` beside a merged results file, if it has seconds by layer.

    `report` is a DPU's `report.json`, whose entries are drawn into the figure.
    """
    from ..measurement import read_measurements
    from ..simulator.report import load_report
    from .profile import profile

    layers = json.loads(merged.read_text())["points"].get("layers")
    if layers is None:
        return
    records = read_measurements(merged)
    attained = {
        name.removeprefix("rate.").replace("_", " "): m.value for name, m in records.items() if name.startswith("rate.")
    }
    device = next(iter(records.values())).device.name
    found = roofline(device, attained, layers["details"]["layers"], profile(layers=True).parts[2])
    with atomic_write(merged.parent / "roofline.json") as path:
        path.write_text(found.model_dump_json() + "\n")
    drawn = load_report(report).entries if report else ()
    with atomic_write(merged.parent / "roofline.png") as path:
        path.write_bytes(overlay_png(found, drawn))
