"""One image, from a model file and a request to a PNG, a trace, a report and a summary: what `dpurun` does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import DpuError
from ..files import sha256
from . import reports
from .device import DeviceCounters
from .looking import Looking
from .pipeline import Image, Pipeline, Request, Step, Unet
from .pipeline_files import BundledFiles, FolderFiles, PipelineFiles
from .resume import Call, Folder, KeptPart, KeptUnet, Later, Log
from .targets import CARDS, check_card, check_device, check_target, open_device

if TYPE_CHECKING:
    from ..ir.container import Entry, Program
    from ..simulator.timing_result import Timing
    from .session import Session
    from .sqnr import Comparison

OnStep = Callable[[Step], None]
_WORST = 5  # operations that the summary names


@dataclass
class Summary:
    """What a run did. `cycles` is of the modelled device, by entry and run; host work is timed in `host` instead."""

    target: str
    steps: int
    wall_seconds: float
    host: Mapping[str, float]
    arch: str = ""
    clock_hz: float = 0.0
    peak_macs: int = 0  # a cycle
    cycles: Mapping[str, int] = field(default_factory=dict)
    runs: Mapping[str, int] = field(default_factory=dict)  # how often an image runs each entry
    counters: DeviceCounters = field(default_factory=DeviceCounters)
    input_overflows: int = 0
    exceptions: list[tuple[str, int]] = field(default_factory=list)  # operation, overflows and NaN; most first
    host_segments: list[tuple[str, str]] = field(default_factory=list)
    comparison: Comparison | None = None
    timed: bool = True
    calls: list[Call] = field(default_factory=list)  # of models, in the order of the run
    stand_in: str = ""  # what took a card's place
    remarks: list[tuple[str, str]] = field(default_factory=list)  # of the device: name, text

    @property
    def image_cycles(self) -> int:
        """Cycles of one image on the modelled device; further runs of a comparison are not part of it."""
        return sum(n * self.runs[name] for name, n in self.cycles.items())

    def text(self) -> str:
        """The lines that `dpurun` prints."""
        lines: list[str] = []
        if self.arch and not self.timed:
            lines.append(f"modelled device  {self.arch}; cycles were not simulated (--no-timing)")
        elif self.arch:
            how = {"sim": "simulated", "rtl": "RTL, memory modelled"}.get(self.target, "counted by the card")
            if self.stand_in:
                how = f"simulated: {self.stand_in} standing in for the card"
            what = "modelled device" if self.stand_in or self.target not in CARDS else "device"
            lines.append(
                f"{what:16} {_seconds(self.image_cycles / self.clock_hz)} an image on {self.arch} "
                f"({self.image_cycles:,} cycles at {self.clock_hz / 1e6:g} MHz, {how})"
            )
            a_run = ", ".join(f"{name} {n:,}" for name, n in self.cycles.items())
            lines.append(f"cycles a run     {a_run}")
            if self.counters.cycles and self.peak_macs:
                used = self.counters.macs / (self.peak_macs * self.counters.cycles)
                lines.append(f"utilisation      {used:.1%} of peak MACs, padding counted as work")
        lines.append(f"this computer    {_seconds(self.wall_seconds)} for {self.steps} steps")
        lines.append("  of which       " + ", ".join(f"{k} {_seconds(v)}" for k, v in self.host.items()))
        taken = sum(c.taken for c in self.calls)
        if taken:
            lines.append(f"resumed          {taken} of {len(self.calls)} model calls are of a run before this one")
        lines += [f"{name:16} {text}" for name, text in self.remarks]
        for name, why in self.host_segments:
            lines.append(f"on the host      {name}: {why}")
        if self.arch:
            c = self.counters
            lines.append(
                f"numerics         {c.fp16_overflow} float16 overflows, {c.nan} NaN, "
                f"{self.input_overflows} inputs beyond float16"
            )
            for name, count in self.exceptions[:_WORST]:
                lines.append(f"                 {count} in {name}")
            if len(self.exceptions) > _WORST:
                lines.append(f"                 and in {len(self.exceptions) - _WORST} more operations")
        if self.comparison:
            lines += _comparison(self.comparison)
        return "\n".join(lines)


def open_model(path: Path) -> tuple[PipelineFiles, Program | None]:
    """The host files of an exported folder or a `.dpu`, and the program if it is one.

    Raises:
        DpuError: there is no such folder or file, or it is no program.
    """
    if path.is_dir():
        return FolderFiles(path), None
    from ..codegen.dpufile import load

    program = load(path)
    return BundledFiles(program.files, str(path)), program


def make_image(
    model: Path,
    target: str,
    request: Request,
    out: Path,
    trace: Path | None = None,
    report: Path | None = None,
    compare_with: Path | None = None,
    on_step: OnStep | None = None,
    looking: Looking | None = None,
    waves: Path | None = None,
    device: str = "cpu",
    resume: Path | None = None,
    timed: bool = True,
    reference_out: Path | None = None,
    card_image: str = "",
    card: str = "",
    watch: bool = False,
) -> Summary:
    """Make one image and write what was asked for.

    Args:
        model: a `.dpu`, or an exported folder (target `cpu` only).
        target: where the UNet runs.
        request: prompt, seed, steps, guidance, size.
        out: the PNG.
        trace: a Perfetto trace of one run of each entry, if the device is simulated.
        report: a folder for the report of the simulated device.
        compare_with: an exported folder whose float32 UNet the device's is compared with, step by step; with `device`
            cuda that UNet runs there too, in torch.
        on_step: called after each denoising step.
        looking: what to see of the run from the inside.
        waves: a VCD file of the signals of target `rtl`.
        device: where target `sim` computes, `cpu` or `cuda`.
        resume: a folder that keeps what each model gave, so that the same run goes on where it was stopped.
        timed: whether target `sim` simulates cycles.
        reference_out: a PNG for the image of the whole pipeline in float32, with `compare_with`.
        card_image: what a card is loaded with: the file or name of an FPGA image.
        card: which card.
        watch: say on standard error what a card does.

    Raises:
        DpuError: the model does not fit the target or the request, or a run fails.
    """
    check_target(target)
    looking = looking or Looking()
    check_device(device, target)
    check_card(target, card_image, card, watch)
    looking.check(target, device)
    if waves is not None and target != "rtl":
        raise DpuError("--waves", f"target {target} has none", hint="--target rtl", code="E501")
    if not request.prompt.strip():
        raise DpuError("--prompt", "is empty", hint='say what the image shows, as in --prompt "a red fox"', code="E501")
    _check_together(target, trace, report, compare_with, looking, resume, timed, reference_out)
    if target == "cpu":
        for option, path in (
            ("--trace", trace),
            ("--report", report),
            ("--compare", compare_with),
            ("--resume", resume),
        ):
            if path is not None:
                raise DpuError(
                    option,
                    "target cpu has none",
                    why="it is the reference, not a device",
                    hint="--target sim",
                    code="E501",
                )
    files, program = open_model(model)
    start = time.perf_counter()
    if target == "cpu":
        return _on_cpu(files, request, out, start, on_step)
    if program is None:
        raise DpuError(
            str(model),
            f"is a folder, and target '{target}' runs a compiled program",
            hint=f"compile it: dpuc compile {model} --arch dpu_tiny -o model.dpu",
            code="E405",
        )
    from .parts import device_parts
    from .session import Session
    from .sqnr import compare
    from .unets import DpuUnet
    from .watching import watching

    opened = open_device(target, program.arch, waves, device, timed, card_image, card)
    with Session.on(program, opened) as session, watching(opened, request.steps, watch, on_step) as on_step:
        looking.attach(session.device, program)
        unet = DpuUnet(session)
        parts = device_parts(session)
        request = _sized(request, Pipeline(files, parts), unet.latent_size)
        unet.check_samples(2 if request.guidance > 1 else 1)
        log = Folder(resume, _key(model, request, compare_with, device), session) if resume else Log()
        pipeline = Pipeline(files, {name: KeptPart(part, log, name) for name, part in parts.items()})
        comparison = None
        if compare_with:
            reference = Later(lambda: _reference(compare_with, request, unet.latent_size, device))
            whole = Pipeline(FolderFiles(compare_with))
            comparison = compare(pipeline, request, reference, unet, on_step, whole, log)
            image = comparison.found
        else:
            image = pipeline.generate(request, KeptUnet(unet, log), on_step)
            log.add_taken("found", image.seconds)
        image.save(out)
        if reference_out and comparison and comparison.whole:
            comparison.whole.save(reference_out)
        timings: Mapping[str, Timing] = getattr(session.device, "timings", {})
        if trace:
            reports.write_trace(trace, program, timings, looking.trace_detail)
        if report:
            reports.write_report(report, program, timings)
        return _summary(target, request, session, image, time.perf_counter() - start, comparison, log, timed)


def _check_together(
    target: str,
    trace: Path | None,
    report: Path | None,
    compare_with: Path | None,
    looking: Looking,
    resume: Path | None,
    timed: bool,
    reference_out: Path | None,
) -> None:
    """Refuse options that do not go together."""
    if reference_out and not compare_with:
        raise DpuError("--reference", "goes together with --compare DIR", hint="give both", code="E501")
    if not timed and target != "sim":
        raise DpuError("--no-timing", f"target {target} has none", hint="--target sim", code="E501")
    inside = (
        ("--trace", trace),
        ("--report", report),
        ("--dump-tensors", looking.dump_tensors),
        ("--break-at", looking.break_at),
    )
    for option, value in inside:
        if value and target in CARDS:
            raise DpuError(option, f"target {target} has none", hint="--target sim or --target rtl", code="E501")
        if value and not timed and option in ("--trace", "--report"):
            raise DpuError(option, "needs the cycles", hint="leave out --no-timing", code="E501")
        if value and resume:
            why = "entries that a run before this one ran do not run again"
            raise DpuError(option, "does not go with --resume", why=why, hint="leave out one of the two", code="E501")


def _key(model: Path, request: Request, compare_with: Path | None, device: str) -> dict[str, object]:
    """What makes a run the same run."""
    from ..frontend.onnx_load import weights_digest

    key: dict[str, object] = {"program": sha256(model), "request": asdict(request)}
    if compare_with:
        onnx = compare_with / "unet" / "model.onnx"
        key["reference"] = {"graph": sha256(onnx), "weights": weights_digest(onnx), "device": device}
    return key


def _reference(folder: Path, request: Request, latent: tuple[int, int], device: str) -> Unet:
    """The float32 UNet of a folder: ONNX Runtime's, or on a GPU the canonical graph in torch."""
    from .unets import FloatUnet, OnnxUnet

    if device == "cpu":
        return OnnxUnet(FolderFiles(folder))
    from .calibrate import canonical_unet

    return FloatUnet(*canonical_unet(folder, 2 if request.guidance > 1 else 1, latent), device)


def _on_cpu(files: PipelineFiles, request: Request, out: Path, start: float, on_step: OnStep | None) -> Summary:
    from .unets import OnnxUnet

    if "unet/model.onnx" not in files.names():
        raise DpuError(
            files.where,
            "holds no ONNX model of the UNet",
            why="target cpu is the float32 reference; a compiled program has quantised constants only",
            hint="give a folder that dpuc export wrote",
            code="E405",
        )
    image = Pipeline(files).generate(request, OnnxUnet(files), on_step)
    image.save(out)
    return Summary("cpu", request.steps, time.perf_counter() - start, image.seconds)


def _summary(
    target: str,
    request: Request,
    session: Session,
    image: Image,
    wall: float,
    comparison: Comparison | None,
    log: Log,
    timed: bool,
) -> Summary:
    program, arch = session.program, session.program.arch
    work = log.work(session)
    return Summary(
        target,
        request.steps,
        wall,
        image.seconds,
        arch.name,
        session.device.capability.clock_hz,
        arch.peak_macs_per_cycle,
        work.cycles,
        {e.name: _runs(e, request) for e in program.entries},
        work.device_counters,
        work.input_overflows,
        _exceptions(program, work.exceptions),
        [(s.name, s.why) for s in program.host_segments],
        comparison,
        timed,
        log.calls,
        str(getattr(session.device, "stand_in", "")),
        list(getattr(session.device, "remarks", ())),
    )


def _runs(entry: Entry, request: Request) -> int:
    """How often one image runs an entry; text encoders run for each prompt that is not empty."""
    if entry.part.startswith("text_encoder"):
        return 2 if request.guidance > 1 and request.negative_prompt is not None else 1
    return 1 if entry.once else request.steps


def _exceptions(program: Program, counted: Mapping[tuple[str, int], int]) -> list[tuple[str, int]]:
    names = {(e.name, s.tag): s.name for e in program.entries for s in e.sources}
    found = [(f"{key[0]}: {names.get(key, f'tag {key[1]}')}", n) for key, n in counted.items() if n]
    return sorted(found, key=lambda x: -x[1])


def _sized(request: Request, pipeline: Pipeline, latent: tuple[int, int]) -> Request:
    """The request at the program's size; asking for another one is an error."""
    height, width = (n * pipeline.scale for n in latent)
    if (request.height or height, request.width or width) != (height, width):
        raise DpuError(
            "--size",
            f"{request.width}x{request.height}, the program makes {width}x{height}",
            why="sizes are fixed when a program is compiled",
            hint=f"compile with --size {request.width}x{request.height}",
            code="E403",
        )
    return Request(
        request.prompt, request.negative_prompt, request.seed, request.steps, request.guidance, height, width
    )


def _comparison(c: Comparison) -> list[str]:
    lines = ["step  timestep  SQNR of one forward  SQNR free-running  (dB, against float32)"]
    for i, (t, teacher, free) in enumerate(zip(c.timesteps, c.teacher_forced, c.free_running, strict=True)):
        lines.append(f"{i:4}  {t:8.0f}  {teacher:19.1f}  {free:17.1f}")
    lines.append(f"final latents {c.latents:.1f} dB, image PSNR {c.image_psnr:.1f} dB")
    if c.whole:
        both = f"final latents {c.whole_latents:.1f} dB, image PSNR {c.whole_psnr:.1f} dB"
        lines.append(f"against the whole pipeline in float32, text encoders and VAE decoder too: {both}")
    return lines


def _seconds(s: float) -> str:
    return f"{s:.2f} s" if s >= 1 else f"{s * 1e3:.1f} ms"
