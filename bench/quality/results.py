"""The result file, and what people read of it: the table, published figures beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from ..metrics.bootstrap import Estimate
from ..metrics.report import Number
from ..metrics.report import number as rounded
from ..rates import Result
from .kept import check_result

FORMAT: Literal["dpu.quality/1"] = "dpu.quality/1"
_COMMANDS = "; "  # between the commands of a file that several runs wrote
POINTS = 0.02
"""How far caption accuracy of W8A8 with dynamic scales may lie below the reference's."""
PREDICTED_DB = 0.5
"""How far the mean PSNR of predicted pictures may lie from that of the simulated ones, dB."""
UNIFORM = "w8a8"
"""The precision that others are held against."""


class Value(Result):
    """A mean over prompts, and its 95 % interval where there are enough of them."""

    value: Number
    low: Number | None = None
    high: Number | None = None

    @classmethod
    def of(cls, e: Estimate) -> Value:
        """With seven digits; JSON has no infinity."""
        return cls(value=number(e.value), low=_end(e.low), high=_end(e.high))

    def text(self, digits: int = 4, factor: float = 1.0) -> str:
        """As `36.1 [35.2, 37.0]`."""
        value, low, high = (
            f"{factor * x:.{digits}g}" if isinstance(x, float) else str(x) for x in (self.value, self.low, self.high)
        )
        return value if self.low is None else f"{value} [{low}, {high}]"


def number(x: float) -> Number:
    """With seven digits, as JSON can hold it."""
    return rounded(x, 7)


def _end(x: float | None) -> Number | None:
    return None if x is None else number(x)


class Accuracy(Result):
    """Shares of pictures in which the classifier sees the caption; the interval is of all four attributes together."""

    attributes: dict[str, float]
    all: float
    low: float
    high: float


class Predicted(Result):
    """PSNR of a second implementation's pictures (`predict.py`) beside the simulator's, same prompts and seeds."""

    prompts: int
    images: int
    psnr: Value  # dB, of the predicted pictures against the reference
    simulated: Value  # dB, of the simulated ones
    difference: Value  # dB, predicted less simulated, paired by prompt
    beside_simulated: Value  # dB, of the predicted against the simulated pictures; equal ones count as 100
    flip: Value  # of the predicted pictures against the reference
    cpu_seconds_an_image: float  # measured; median
    made_on: tuple[str, ...] = ()
    predictor_sha256: str = ""  # of its source
    arithmetic: str = "torch in float32 on diffusers' modules, fake quantisation written apart from the compiler's"

    @property
    def verdict(self) -> str:
        """Whether the mean is within the bound, and the interval with it."""
        d = self.difference
        if not isinstance(d.value, float) or abs(d.value) > PREDICTED_DB:
            return f"NOT within {PREDICTED_DB:g} dB"
        ends = [e for e in (d.low, d.high) if isinstance(e, float)]
        if len(ends) < 2:
            return f"within {PREDICTED_DB:g} dB, no interval"
        sure = max(map(abs, ends)) <= PREDICTED_DB
        return f"within {PREDICTED_DB:g} dB, the interval {'too' if sure else 'is not'}"


class Row(Result):
    """One precision at one number of steps; metrics are against the reference at the same steps, none of itself."""

    precision: str
    steps: int
    prompts: int
    images: int
    accuracy: Accuracy
    exceptions: int  # float16 overflows, NaN, inputs beyond float16, over all pictures
    cpu_seconds_an_image: float  # measured; median, of the process that made it
    made_on: tuple[str, ...] = ()  # processors and versions
    accuracy_change: Value | None = None  # in shares, paired by prompt
    psnr: Value | None = None  # dB
    psnr_gain: Value | None = None  # dB more than w8a8's pictures of the same run, paired by prompt
    ssim: Value | None = None
    ms_ssim: Value | None = None
    flip: Value | None = None
    feature_distance: Value | None = None
    kernel_distance: Value | None = None
    psnr_quantiles: tuple[Number, ...] = ()  # 5, 50 and 95 % of the pictures
    equal_images: int = 0
    layers: dict[str, int] = Field(default_factory=dict)  # of the program: how many have which precision
    predicted: Predicted | None = None  # by `dpubench predict`


class Sqnr(Result):
    """SQNR in dB and cosine of the noise prediction against float32, step by step, means over prompts (seed 0)."""

    precision: str
    steps: int
    prompts: int
    one_forward: tuple[float, ...]  # on the reference's samples
    free_running: tuple[float, ...]
    one_forward_cosine: tuple[float, ...] = ()  # not in files of earlier versions
    free_running_cosine: tuple[float, ...] = ()


class Cost(Result):
    """What one image takes a device at a precision. `model` is "tiny" or "sdxl"."""

    precision: str
    model: str
    arch: str
    steps: int
    seconds: float
    dram_bytes: int
    joules: float
    joules_are: str
    usd_a_thousand: float | None = None
    provenance: Literal["simulated", "assumed"]  # of seconds and bytes
    source: str


class Quality(Result):
    """The whole result."""

    format: Literal["dpu.quality/1"] = FORMAT
    command: str
    provenance: str = (
        "pictures of precisions: simulated, bit for bit; of fp16 and fp32: computed on the CPU, see arithmetic; metrics"
        " are computed from the pictures"
    )
    model_sha256: str
    classifier_sha256: str
    arch: str
    calibration: str
    reference: str
    arithmetic: dict[str, str]
    guidance: float
    interval: str = "95 %, over prompts: bootstrap BCa; of accuracy: bootstrap over prompts, then over their pictures"
    versions: dict[str, str]  # of what scored the pictures; each row says what made them
    programs: dict[str, str]  # sha256
    rows: tuple[Row, ...]
    sqnr: tuple[Sqnr, ...] = ()
    costs: tuple[Cost, ...] = ()

    @property
    def commands(self) -> list[str]:
        """The runs that its rows are of."""
        return self.command.split(_COMMANDS)

    def text(self) -> str:
        """The table for people."""
        return "\n".join([*_table(self), *verdicts(self), *better_than_uniform(self)])


def merged(new: Quality, old: Quality | None, path: Path) -> Quality:
    """`new`, and of `old` the rows that it does not replace: other precisions and steps, and those of more images.

    A run of fewer images, for a precision that is not worth 400, so leaves its reference's row as it was; what it says
    beside w8a8 is of the images of both.

    Raises:
        DpuError: E522, `old` is of another model, arch or calibration.
    """
    if old is None:
        return new
    check_result(path, old, new, ("model_sha256", "classifier_sha256", "arch", "calibration", "reference", "guidance"))
    stale = {n for n, digest in old.programs.items() if new.programs.get(n, digest) != digest}
    rows = {(r.precision, r.steps): r for r in old.rows if r.precision not in stale}
    others = {r.steps: r.psnr for r in old.rows if r.precision == UNIFORM}
    fresh = [r for r in new.rows if (same := rows.get((r.precision, r.steps))) is None or same.images <= r.images]
    for r in fresh:
        if r.precision == UNIFORM and r.psnr != others.get(r.steps):  # earlier gains are over other pictures
            rows = {k: o.model_copy(update={"psnr_gain": None}) if k[1] == r.steps else o for k, o in rows.items()}
    rows |= {(r.precision, r.steps): _with_prediction(r, rows.get((r.precision, r.steps))) for r in fresh}
    sqnr = {(s.precision, s.steps): s for s in old.sqnr if s.precision not in stale}
    sqnr |= {(s.precision, s.steps): s for s in new.sqnr}
    costs = {(c.precision, c.model, c.arch, c.steps): c for c in (*old.costs, *new.costs)}
    commands = [*(old.commands if len(rows) > len(fresh) else ()), *new.commands]
    changes = {
        "command": _COMMANDS.join(dict.fromkeys(commands)),
        "rows": tuple(sorted(rows.values(), key=lambda r: (r.steps, _order(r.precision, new.rows)))),
        "sqnr": tuple(sqnr.values()),
        "costs": tuple(costs.values()),
        "programs": old.programs | new.programs,
    }
    return new.model_copy(update=changes)


def _with_prediction(new: Row, old: Row | None) -> Row:
    """A row, with the prediction of an earlier one of the same program."""
    if new.predicted is not None or old is None or old.predicted is None:
        return new
    return new.model_copy(update={"predicted": old.predicted})


def _order(precision: str, rows: Sequence[Row]) -> tuple[int, str]:
    names = [r.precision for r in rows]
    return (names.index(precision) if precision in names else len(names)), precision


def _table(q: Quality) -> list[str]:
    lines = [
        f"{'precision':<14}{'steps':>5}{'images':>7}  {'caption accuracy':<24}{'PSNR dB':<22}{'SSIM':<8}{'FLIP':<9}"
        f"{'features':<10}kernel distance"
    ]
    for r in q.rows:
        accuracy = f"{r.accuracy.all:.1%} [{r.accuracy.low:.1%}, {r.accuracy.high:.1%}]"
        line = f"{r.precision:<14}{r.steps:>5}{r.images:>7}  {accuracy:<24}"
        if r.psnr and r.ssim and r.flip and r.feature_distance and r.kernel_distance:
            alone = [Value(value=v.value).text() for v in (r.ssim, r.flip, r.feature_distance)]
            line += f"{r.psnr.text():<22}{alone[0]:<8}{alone[1]:<9}{alone[2]:<10}{r.kernel_distance.text(3)}"
        else:
            line += "the reference"
        lines.append(line)
    return lines


def verdicts(q: Quality) -> list[str]:
    """Whether W8A8 with dynamic scales keeps its captions, at each number of steps."""
    lines = []
    for r in q.rows:
        change = r.accuracy_change
        if r.precision != "w8a8" or change is None or not isinstance(change.value, float):
            continue
        kept = "is within" if change.value >= -POINTS else "is NOT within"
        certain = isinstance(change.low, float) and change.low >= -POINTS
        how = "so is the whole interval" if certain else "the interval is not, or there is none"
        lines.append(
            f"w8a8, {r.steps} steps, {r.images} images: caption accuracy changes by {change.text(3, 100)} points from"
            f" {q.reference}'s: {kept} {100 * POINTS:g} points; {how}"
        )
    return lines


class Beside(NamedTuple):
    """A precision and uniform w8a8: PSNR gained, and by what part the small model's image takes more on an arch."""

    precision: str
    steps: int
    images: int
    arch: str
    gain: Value  # dB
    seconds: float  # -0.01: 1 % less time
    dram_bytes: float

    @property
    def better(self) -> bool:
        """Whether its pictures are better, by the whole interval."""
        return isinstance(self.gain.value, float) and isinstance(self.gain.low, float) and self.gain.low > 0


def beside_uniform(q: Quality) -> list[Beside]:
    """Every precision that was scored together with w8a8, on every arch on which both were timed."""
    costs = {(c.precision, c.arch, c.steps): c for c in q.costs if c.model == "tiny"}
    found = []
    for r in q.rows:
        for name, arch, steps in costs:
            base = costs.get((UNIFORM, arch, steps))
            if (name, steps) == (r.precision, r.steps) and r.psnr_gain is not None and base is not None:
                own = costs[name, arch, steps]
                time, bytes_ = own.seconds / base.seconds - 1, own.dram_bytes / base.dram_bytes - 1
                found.append(Beside(name, steps, r.images, arch, r.psnr_gain, time, bytes_))
    return found


def better_than_uniform(q: Quality) -> list[str]:
    """Which precisions have better pictures than w8a8 in no more simulated time: a line for each arch."""
    groups: dict[tuple[int, str], list[Beside]] = {}
    for b in beside_uniform(q):
        groups.setdefault((b.steps, b.arch), []).append(b)
    lines = []
    for (steps, arch), some in groups.items():
        best = sorted((b for b in some if b.better and b.seconds <= 0), key=lambda b: -float(b.gain.value))
        said = [f"{b.precision} does, by {b.gain.text(3)} dB in {-b.seconds:.2%} less time" for b in best]
        lines.append(
            f"better than uniform w8a8 in no more time on {arch} (simulated), {steps} steps: "
            + ("; ".join(said) or f"NONE of {', '.join(b.precision for b in some)}")
        )
    return lines
