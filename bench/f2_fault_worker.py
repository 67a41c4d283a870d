"""The process in which faults are sown: a line of faults in, a line of JSON about the run with them out.

`python -m dpu.bench.f2_fault_worker micro` makes a micro pipeline of two entries and two steps on the F2 stand-in
for each line; `... PROGRAM.dpu` makes an image of one step. What must come out are the simulator's bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..codegen.dpufile import load
from ..errors import DpuError
from ..files import sha256
from ..ir.arch import load_arch
from ..ir.container import Program
from ..ir.dialects import parse_module
from ..runtime.f2.opening import open_f2
from ..runtime.f2.sdk import SdkCard, library
from ..runtime.f2.stand_in import FAULTS, IMAGE, NAME, Lease
from ..runtime.failures import SeededWeights, compile_module
from ..runtime.generate import make_image
from ..runtime.pipeline import Request
from ..runtime.session import Session
from ..runtime.sim_device import SimDevice

MICRO = "micro"
STALL_SECONDS = 2e-4
"""Of the card's time that make a hang of the micro pipeline, whose words take microseconds."""
STEPS = 2
_NET = """
func.func @context(%c: tensor<2x8x16xf16> {dpu.name = "c"}) -> (tensor<2x8x16xf16> {dpu.name = "k"}) {
  %w = dpu.param "v" : tensor<16x16xf16>
  %k = dpu.linear %c, %w : tensor<2x8x16xf16>, tensor<16x16xf16> -> tensor<2x8x16xf16>
  func.return %k : tensor<2x8x16xf16>
}
func.func @unet(%x: tensor<2x8x16xf16> {dpu.name = "x"}, %k: tensor<2x8x16xf16> {dpu.name = "k"})
    -> (tensor<2x8x16xf16> {dpu.name = "y"}) {
  %w = dpu.param "w" : tensor<16x16xf16>
  %b = dpu.linear %x, %w residual %k : tensor<2x8x16xf16>
      : tensor<2x8x16xf16>, tensor<16x16xf16> -> tensor<2x8x16xf16>
  %y = dpu.linear %b, %w : tensor<2x8x16xf16>, tensor<16x16xf16> -> tensor<2x8x16xf16>
  func.return %y : tensor<2x8x16xf16>
}
"""


def micro() -> tuple[Program, dict[str, np.ndarray[Any, np.dtype[np.float32]]]]:
    """Program and inputs of the micro pipeline: `context` once, whose STATE `unet` reads in each step."""
    module = parse_module(_NET)
    emitted, _, inputs = compile_module(module, load_arch("dpu_tiny"), SeededWeights(module))
    return emitted.program, inputs


def run_micro(session: Session, inputs: dict[str, Any]) -> str:
    """Digest of all that the steps gave: each feeds the next."""
    digest = hashlib.sha256()
    session.run("context", {"c": inputs["c"]})
    x = inputs["x"]
    for _ in range(STEPS):
        x = session.run("unet", {"x": x})["y"]
        digest.update(x.tobytes())
    return digest.hexdigest()


def small() -> Callable[[], dict[str, Any]]:
    """Runs the micro pipeline on the stand-in as the environment says; what came of it."""
    program, inputs = micro()
    with Session(program, SimDevice(program.arch, timed=False)) as session:
        expected = run_micro(session, inputs)
    os.environ["DPU_F2_STALL_SECONDS"] = os.environ["DPU_F2_COOL_SECONDS"] = str(STALL_SECONDS)

    def attempt() -> dict[str, Any]:
        device = open_f2(program.arch, IMAGE, NAME)
        try:
            found = run_micro(Session(program, device), inputs)
            accesses = library(device.settings.library).dpu_standin_accesses(0)
            mended = device.bus.noise.text()
        finally:
            device.close()
        return {"outcome": "correct" if found == expected else "wrong", "mended": mended, "accesses": accesses}

    return attempt


def image(path: Path) -> Callable[[], dict[str, Any]]:
    """The same for the picture of one step of a program."""

    def make(target: str, card: str) -> tuple[str, str]:
        with tempfile.TemporaryDirectory(prefix="dpu-faults-") as folder:
            out = Path(folder) / "out.png"
            request = Request("a red fox", seed=7, steps=1)
            done = make_image(
                path, target, request, out, timed=target != "sim", card_image=IMAGE if card else "", card=card
            )
            return sha256(out), "; ".join(text for name, text in done.remarks if name == "mended")

    expected, _ = make("sim", "")
    arch = load(path).arch

    def attempt() -> dict[str, Any]:
        lease = Lease(arch)
        card = SdkCard(0, lease.settings.library, lease.settings.sysfs)  # keeps the count of accesses
        try:
            found, mended = make("f2", NAME)
            accesses = library(lease.settings.library).dpu_standin_accesses(0)
        finally:
            card.close()
            lease.release()
        return {"outcome": "correct" if found == expected else "wrong", "mended": mended, "accesses": accesses}

    return attempt


def main() -> None:
    """Answer every line of standard input."""
    attempt = small() if sys.argv[1] == MICRO else image(Path(sys.argv[1]))
    for line in sys.stdin:
        os.environ[FAULTS] = line.strip()
        try:
            result = attempt()
        except DpuError as e:
            result = {"outcome": "error", "code": e.code, "text": e.text(), "remedy": bool(e.hint)}
        except Exception as e:  # a finding: nothing else may come out of the driver
            result = {"outcome": "crash", "text": f"{type(e).__name__}: {e}"[:500]}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
