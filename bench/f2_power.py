"""Power of an F2 card while something runs on it, as the shell reports it: samples, and the record of a measurement.

The file has every sample with its raw text, beside a measurement that only a real card gives: it must name the EC2
instance, the image that was loaded and the SDK's library. Watts are Vccint's (`rtl/deploy/describe.py` says what
they leave out), so a cost of energy from them is a lower bound.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ..errors import DpuError
from ..files import atomic_write
from ..measurement import SCHEMA, DeviceIdentity, Measurement
from ..rtl.deploy.describe import Described, parse
from ..rtl.deploy.f2 import describe_plan
from ..rtl.deploy.steps import perform
from ..runtime.f2.identity import identity as card_identity

LIBRARIES = ("/usr/lib64", "/usr/local/lib64", "/usr/lib", "/usr/local/lib", "/usr/lib/x86_64-linux-gnu")


@dataclass(frozen=True)
class Sample:
    """One look at the card. `seconds` since the first."""

    seconds: float
    watts: int
    mean: int
    most: int
    text: str


def library(folders: Sequence[str] = LIBRARIES) -> Path:
    """The SDK's library.

    Raises:
        DpuError: E445, it is not installed.
    """
    for folder in folders:
        for path in sorted(Path(folder).glob("libfpga_mgmt.so*")):
            return path.resolve()
    hint = "in a checkout of aws-fpga: source sdk_setup.sh"
    raise DpuError("libfpga_mgmt.so", "is not installed", f"looked in {', '.join(folders)}", hint, code="E445")


def look(slot: int) -> tuple[Described, str]:
    """The card now, and the text that says so."""
    (text,) = perform(describe_plan(slot, metrics=True), lambda _: None)
    return parse(text), text


def record(
    slot: int,
    seconds: float,
    interval: float,
    during: str,
    say: Callable[[str], None],
    identify: Callable[[int, str], DeviceIdentity],
    look: Callable[[int], tuple[Described, str]] = look,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Measurement, list[Sample]]:
    """Samples every `interval` seconds for `seconds`, or until the command `during` has ended.

    `identify` makes the device's identity of the slot and the image that is loaded.

    Raises:
        DpuError: E446, no image is loaded, it changed on the way, the tool says nothing of power, or `during` failed.
    """
    begin, samples = clock(), list[Sample]()
    image = ""
    running = subprocess.Popen(shlex.split(during)) if during else None
    try:
        while True:
            card, text = look(slot)
            if card.image == "none" or card.status != "loaded":
                raise DpuError(f"slot {slot}", f"has no image: {card.status}", hint="dpubench f2-load", code="E446")
            if image not in ("", card.image):
                what = f"image {image} became {card.image}"
                raise DpuError(f"slot {slot}", what, "samples of two images are no measurement", code="E446")
            if card.power_last is None or card.power_mean is None or card.power_max is None:
                raise DpuError(f"slot {slot}", "the tool gives no power", "its -M printed no watts", code="E446")
            image = card.image
            now = clock() - begin
            samples.append(Sample(round(now, 3), card.power_last, card.power_mean, card.power_max, text))
            say(f"{now:8.1f} s  {card.power_last} W" + (f"  {card.troubles}" if card.troubles else ""))
            if running is not None and (code := running.poll()) is not None:
                if code:
                    raise DpuError("--during", f"'{during}' ended with code {code}", code="E446")
                break
            if running is None and now + interval > seconds:
                break
            sleep(interval)
    finally:
        if running is not None and running.poll() is None:
            running.terminate()
            running.wait()
    command = f"dpubench f2-record --slot {slot} --interval {interval:g}" + (f" --during '{during}'" if during else "")
    conditions = {"rail": "Vccint", "interval": f"{interval:g} s", "refresh": "not published for F2; F1: 60 s"}
    measured = Measurement.of(
        "vccint_power", "W", [s.watts for s in samples], identify(slot, image), command=command, statistic="mean",
        conditions=conditions,
    )  # fmt: skip
    return measured, samples


def identity(slot: int, image: str) -> DeviceIdentity:
    """This instance's card with an image.

    Raises:
        DpuError: E445, there is no SDK; E523, this is no EC2 instance.
    """
    return card_identity(f"slot {slot}", image, str(library()), Path("/sys"), "")


def save(path: Path, measured: Measurement, samples: Sequence[Sample]) -> None:
    """The results file: the measurement, and every sample as the tool printed it."""
    found = {
        "format": SCHEMA,
        "measurements": [measured.model_dump(mode="json")],
        "samples": [asdict(s) for s in samples],
    }
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(found, indent=1) + "\n")
