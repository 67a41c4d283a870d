"""What must never give a GO: each with the reason that the gate states. The set is a GO but for the one change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dpu.measurement import DeviceIdentity, Measurement

from tests.economics.gate_evidence_set import BINARY, CPU, F2, SIM, EvidenceSet, record

FAST = 0.05  # s an image on the card: far beyond 2x, so that only the change can matter
AGAIN = "\n  try: measure again, and keep the file as it was written"

Change = Callable[[EvidenceSet], object]


def test_the_set_itself_is_a_go(tmp_path: Path) -> None:
    assert EvidenceSet(tmp_path, FAST).decide().verdict == "GO"


def first(content: Any) -> Any:
    return content["measurements"][0]


def raw(s: EvidenceSet, old: str, new: str) -> None:
    s.files["fpga"].write_text(s.files["fpga"].read_text().replace(old, new, 1))


def log(s: EvidenceSet) -> None:
    """A raw log beside the record, edited after the measurement."""
    path = s.files["fpga"].parent / "power.log"
    path.write_text("90 W")
    s.edit("fpga", lambda c: first(c)["files"].update({"power.log": hashlib.sha256(b"80 W").hexdigest()}))


REFUSED: dict[str, tuple[Change, str]] = {
    "no raw samples": (
        lambda s: s.edit("fpga", lambda c: first(c).update(samples=[])),
        "error[E523]: fpga/card.json: measurement: samples must be one or more finite numbers" + AGAIN,
    ),
    "samples left out": (
        lambda s: s.edit("fpga", lambda c: first(c).pop("samples")),
        "error[E523]: fpga/card.json: measurement: samples: Field required" + AGAIN,
    ),
    "a value edited by hand": (
        lambda s: s.edit("fpga", lambda c: first(c).update(value=0.01)),
        "error[E523]: fpga/card.json: measurement: value 0.01 is not the median of its samples, 0.05" + AGAIN,
    ),
    "a record that calls itself measured": (
        lambda s: s.edit("fpga", lambda c: first(c).update(provenance="measured")),
        "error[E523]: fpga/card.json: measurement: provenance: Extra inputs are not permitted" + AGAIN,
    ),
    "a log edited afterwards": (
        log,
        "error[E523]: fpga/power.log: sha256 is 0d3a00c2e0d5fbb4..., the measurement 'seconds_per_image' was made with"
        " LOG...\n  why: the number belongs to another file\n  try: measure again, and keep the file as it was written",
    ),
    "NaN in the samples": (
        lambda s: raw(s, "0.05,", "NaN,"),
        "error[E520]: fpga/card.json: is no readable JSON ('NaN' is no number)\n  try: measure again",
    ),
    "NaN as the value": (
        lambda s: raw(s, '"value": 0.05', '"value": NaN'),
        "error[E520]: fpga/card.json: is no readable JSON ('NaN' is no number)\n  try: measure again",
    ),
    "no time at all": (
        lambda s: s.write("fpga", [record("seconds_per_image", "s", [0.0] * 20, F2), *s.fpga()[1:]]),
        "error[E523]: fpga/card.json: measurement 'seconds_per_image': sample is 0 s, allowed: above 0" + AGAIN,
    ),
    "seconds that are watts": (
        lambda s: s.write("fpga", [record("seconds_per_image", "W", [0.05] * 20, F2), *s.fpga()[1:]]),
        "error[E523]: fpga/card.json: measurement 'seconds_per_image': unit is 'W', allowed: s" + AGAIN,
    ),
    "a program of another digest": (
        lambda s: s.edit("fpga", lambda c: first(c)["files"].update({"sdxl.dpu": "e" * 64})),
        f"error[E523]: fpga/card.json: measurement 'seconds_per_image': condition 'binary_sha256': value is"
        f" '{'b' * 16}', allowed: '{'e' * 16}', the digest of 'sdxl.dpu'" + AGAIN,
    ),
    "infinity": (
        lambda s: raw(s, '"value": 0.05', '"value": Infinity'),
        "error[E520]: fpga/card.json: is no readable JSON ('Infinity' is no number)\n  try: measure again",
    ),
    "a stale schema": (
        lambda s: s.edit("gpu", lambda c: c.update(format="dpu.measurements/0")),
        "error[E521]: gpu/h200.json: field 'format': value is 'dpu.measurements/0', allowed: 'dpu.measurements/1'\n"
        "  try: measure again with this version",
    ),
    "a device without marks": (
        lambda s: s.edit("fpga", lambda c: first(c)["device"].update(marks={})),
        "error[E523]: fpga/card.json: measurement: device: '' is no instance of a f2 device: name the device, or say"
        " what stands in for it" + AGAIN,
    ),
    "prompt sets mixed in one file": (
        lambda s: s.edit("fpga", lambda c: c["measurements"][1]["conditions"].update(prompts_sha256="d" * 64)),
        f"error[E522]: fpga/card.json: measurement 'board_power': condition 'prompts_sha256': value is '{'d' * 64}',"
        f" allowed: '{'c' * 64}', as in 'seconds_per_image'\n"
        "  why: one file is evidence of one experiment\n"
        "  try: measure all of it with the same model, prompts, seeds and settings",
    ),
    "two programs in one file": (
        lambda s: s.edit("fpga", lambda c: c["measurements"][2]["conditions"].update(binary_sha256="e" * 64)),
        f"error[E522]: fpga/card.json: measurement 'cycles.unet': condition 'binary_sha256': value is '{'e' * 64}',"
        f" allowed: '{'b' * 64}', as in 'seconds_per_image'\n"
        "  why: one file is evidence of one experiment\n"
        "  try: measure all of it with the same model, prompts, seeds and settings",
    ),
    "a file that is not there": (
        lambda s: s.files.update(gpu=s.folder / "gpu" / "none.json"),
        "error[E106]: gpu/none.json: no such file\n  try: check the path",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path: Path, name: str) -> None:
    change, said = REFUSED[name]
    s = EvidenceSet(tmp_path, FAST)
    change(s)
    if name == "a log edited afterwards":
        seen, made = (hashlib.sha256(t).hexdigest()[:16] for t in (b"90 W", b"80 W"))
        said = said.replace("0d3a00c2e0d5fbb4", seen).replace("LOG", made)
    if name == "a file that is not there":
        s.request = lambda *_, made=s.request, **__: made(gpu=(s.files["gpu"],))  # type: ignore[method-assign]
    assert s.refused() == said


def stand_in(s: EvidenceSet) -> None:
    device = F2.model_copy(update={"stand_in": "the Verilated custom logic"})
    s.write("fpga", s.fpga(device))


def cpu_as_gpu(s: EvidenceSet) -> None:
    s.write("gpu", s.gpu(CPU))


def no_gpu(s: EvidenceSet) -> None:
    s.files["gpu"].unlink()


def tiny(s: EvidenceSet) -> None:
    s.write("quality", s.quality(model="tiny"))


def hundredfold(s: EvidenceSet) -> list[Measurement]:
    given = {"binary_sha256": BINARY}
    return [record(f"cycles.{k}", "cycle", [100 * n], SIM, **given) for k, n in s.cycles_of_image.items()]


def unnamed_binaries(s: EvidenceSet) -> None:
    for role in ("fpga", "simulated", "quality"):
        s.edit(role, lambda c: [m["conditions"].pop("binary_sha256") for m in c["measurements"]])


EXPERIMENTS = {
    "prompts_sha256": ("d" * 64, f"prompts_sha256: '{'c' * 16}' in h200.json, '{'d' * 16}' in card.json"),
    "seeds": ("20-39", "seeds: '0-19' in h200.json, '20-39' in card.json"),
    "model_sha256": ("d" * 64, f"model_sha256: '{'a' * 16}' in h200.json, '{'d' * 16}' in card.json"),
    "policy": ("w4a8", "policy: 'w8a8' in h200.json, 'w4a8' in card.json"),
    "steps": ("4", "card.json: steps is '4', that of the workload '20'"),
    "scheduler": ("dpm", "card.json: scheduler is 'dpm', that of the workload 'euler'"),
    "resolution": ("512", "card.json: resolution is '512', that of the workload '1024'"),
    "guidance": ("1.0", "card.json: guidance is '1.0', that of the workload '8.0'"),
    "model": ("tiny", "card.json: model is 'tiny', that of the workload 'sdxl-base-1.0'"),
}


@pytest.mark.parametrize("key", EXPERIMENTS)
def test_mismatched_experiments(tmp_path: Path, key: str) -> None:
    value, said = EXPERIMENTS[key]
    s = EvidenceSet(tmp_path, FAST)
    s.write("fpga", s.fpga(**{key: value}))
    assert s.said("same experiment") == ("NOT PROVEN", "failed", said)


@pytest.mark.parametrize("key", EXPERIMENTS)
def test_experiments_that_are_not_stated(tmp_path: Path, key: str) -> None:
    s = EvidenceSet(tmp_path, FAST)
    s.edit("gpu", lambda c: [m["conditions"].pop(key) for m in c["measurements"]])
    assert s.said("same experiment") == ("NOT PROVEN", "failed", f"h200.json does not state {key}")


def test_guidance_may_be_written_differently(tmp_path: Path) -> None:
    s = EvidenceSet(tmp_path, FAST)
    s.write("fpga", s.fpga(guidance="8"))
    assert s.said("same experiment")[:2] == ("GO", "met")


UNRANGED = "40% (assumed): the scenario states no range (low, high)"
QUALITY = "FID 23.011 to 23.950; CLIP 31.686 to 31.813"
LINK = "simulator within 5 % of the FPGA"
FAILED: dict[str, tuple[Change, str, str, str]] = {
    "a stand-in passed as the card": (
        stand_in,
        "measured FPGA",
        "failed",
        "card.json: 'seconds_per_image' is simulated (the Verilated custom logic)",
    ),
    "simulated results passed as the card's": (
        lambda s: s.write("fpga", s.fpga(DeviceIdentity(target="sim", name="simulator"))),
        "measured FPGA",
        "failed",
        "card.json: 'seconds_per_image' is simulated (target 'sim'); 'seconds_per_image' is of target 'sim', allowed:"
        " 'f2'",
    ),
    "a CPU passed as the GPU": (
        cpu_as_gpu,
        "measured GPU",
        "failed",
        "h200.json: 'images_per_second' is of target 'cpu', allowed: 'gpu'",
    ),
    "no GPU": (no_gpu, "measured GPU", "missing", "no measurements of target 'gpu': whole images, and power"),
    "too few images": (
        lambda s: s.write("fpga", s.fpga(count=19)),
        "measured FPGA",
        "failed",
        "card.json: 'seconds_per_image' is of 19 images, allowed: 20 or more",
    ),
    "no power": (
        lambda s: s.edit("fpga", lambda c: c["measurements"].pop(1)),
        "measured FPGA",
        "failed",
        "card.json: no board_power and no wall_energy_per_image",
    ),
    "6 % more cycles": (
        lambda s: s.write("fpga", s.fpga(scale=1.06)),
        LINK,
        "failed",
        "entry 'unet': the FPGA takes 1.0600x the simulator's cycles, allowed: 0.95 to 1.05",
    ),
    "6 % fewer cycles": (
        lambda s: s.write("fpga", s.fpga(scale=0.94)),
        LINK,
        "failed",
        "entry 'unet': the FPGA takes 0.9400x the simulator's cycles, allowed: 0.95 to 1.05",
    ),
    "another binary simulated": (
        lambda s: s.write("simulated", s.simulated(binary_sha256="e" * 64)),
        LINK,
        "failed",
        f"binary_sha256: '{'b' * 12}' in card.json, '{'e' * 12}' in sim.json: cycles of different programs",
    ),
    "no binary named": (
        unnamed_binaries,
        LINK,
        "failed",
        "binary_sha256: '' in card.json, '' in sim.json: cycles of different programs",
    ),
    "the card's cycles passed as the simulator's": (
        lambda s: s.write("simulated", [m for m in s.fpga() if m.name.startswith("cycles.")]),
        LINK,
        "failed",
        "sim.json holds no cycles of target 'sim'",
    ),
    "another device's cycles in the card's file": (
        lambda s: s.edit("fpga", lambda c: c["measurements"][2].update(device=CPU.model_dump(mode="json"))),
        LINK,
        "failed",
        "card.json holds cycles of target 'cpu', allowed: 'f2'",
    ),
    "a card that states only a rate": (
        lambda s: s.write("fpga", [record("images_per_second", "image/s", [20.0] * 20, F2), *s.fpga()[1:]]),
        "measured FPGA",
        "failed",
        "card.json: no seconds_per_image of the experiment's steps",
    ),
    "seconds that the card's own cycles do not allow": (
        lambda s: [s.write("fpga", s.fpga(scale=100.0)), s.write("simulated", hundredfold(s))],
        "seconds agree with cycles",
        "failed",
        "card.json: 0.05 s an image, 5 s of cycles at 250 MHz",
    ),
    "no cycles of the UNet": (
        lambda s: [s.write("fpga", [m for m in s.fpga() if "unet" not in m.name])],
        "seconds agree with cycles",
        "missing",
        "card.json: no cycles of time, unet",
    ),
    "an entry that was not simulated": (
        lambda s: s.write("simulated", s.simulated()[:1]),
        LINK,
        "failed",
        "entries unet, vae_decoder were measured, unet simulated",
    ),
    "a tiny model's quality": (
        tiny,
        "quality",
        "failed",
        "images.json: quality of 'tiny': it shows the method, never the quality of 'sdxl-base-1.0'",
    ),
    "another model's quality": (
        lambda s: s.write("quality", s.quality(model_sha256="d" * 64)),
        "quality",
        "failed",
        f"images.json: model_sha256 is '{'d' * 16}', that of the FPGA '{'a' * 16}'",
    ),
    "another policy's quality": (
        lambda s: s.write("quality", s.quality(policy="fp16")),
        "quality",
        "failed",
        "images.json: policy is 'fp16', that of the FPGA 'w8a8'",
    ),
    "another binary's quality": (
        lambda s: s.write("quality", s.quality(binary_sha256="e" * 64)),
        "quality",
        "failed",
        f"images.json: images of binary '{'e' * 12}', the FPGA ran '{'b' * 12}'",
    ),
    "quality at other steps": (
        lambda s: s.write("quality", s.quality(steps="50")),
        "quality",
        "failed",
        "images.json: steps is '50', that of the workload '20'",
    ),
    "FID of twenty images": (
        lambda s: s.write("quality", s.quality(images="20")),
        "quality",
        "failed",
        "images.json: fid is of 20 images of 'coco-2014-val', allowed: 5000 of 'coco-2014-val'",
    ),
    "a GPU's scores as the DPU's": (
        lambda s: s.write("quality", s.quality(platform="gpu")),
        "quality",
        "missing",
        f"no FID and CLIP of the DPU's images ({QUALITY}), nor any other score",
    ),
    "a score without a floor": (
        lambda s: s.write("quality", s.score("psnr", "dB", 30.0)),
        "quality",
        "missing",
        "images.json: no FID and CLIP, and no floor for psnr",
    ),
}


UNCOUNTED = (
    "a stand-in passed as the card",
    "simulated results passed as the card's",
    "a card that states only a rate",
)
"""Their speed counts for nothing: the cost falls back to the stored cycles, 50 s an image, which lose."""


@pytest.mark.parametrize("name", FAILED)
def test_not_proven(tmp_path: Path, name: str) -> None:
    change, condition, status, said = FAILED[name]
    s = EvidenceSet(tmp_path, FAST)
    change(s)
    verdict = "NO-GO" if name in UNCOUNTED else "NOT PROVEN"
    assert s.said(condition) == (verdict, status, said)


def test_a_stated_floor_caps_the_verdict(tmp_path: Path) -> None:
    s = EvidenceSet(tmp_path, FAST)
    s.write("quality", s.score("psnr", "dB", 30.0))
    d = s.decide({"psnr": 26.4})
    (found,) = [c for c in d.cases[0].conditions if c.name == "quality"]
    assert d.verdict == "NOT PROVEN" and found.status == "missing"
    assert found.said == f"images.json: psnr 30 reaches the floor 26.4, which is assumed; a GO needs {QUALITY}"
    d = s.decide({"psnr": 31.0})
    (found,) = [c for c in d.cases[0].conditions if c.name == "quality"]
    assert d.verdict == "NO-GO" and found.said == "images.json: psnr is 30 dB, below the stated floor 31"


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ({"fid": 23.951}, "images.json: FID 23.951 is outside 23.011 to 23.950"),
        ({"fid": 23.0}, "images.json: FID 23 is outside 23.011 to 23.950"),
        ({"clip": 31.68}, "images.json: CLIP 31.68 is outside 31.686 to 31.813"),
        ({"clip": 31.82}, "images.json: CLIP 31.82 is outside 31.686 to 31.813"),
    ],
)
def test_scores_outside_the_window(tmp_path: Path, scores: dict[str, float], said: str) -> None:
    s = EvidenceSet(tmp_path, FAST)
    s.write("quality", s.quality(**scores))  # type: ignore[arg-type]
    assert s.said("quality") == ("NO-GO", "failed", said)


@pytest.mark.parametrize(
    ("change", "verdict", "status", "said"),
    [
        ({"value": 0.95, "high": 1.0}, "NOT PROVEN", "failed", "95% (assumed), allowed: up to 80%"),
        (
            {"low": None, "high": None},
            "NOT PROVEN",
            "missing",
            "40% (assumed): the scenario states no range (low, high)",
        ),
    ],
)
def test_utilisation(tmp_path: Path, change: dict[str, Any], verdict: str, status: str, said: str) -> None:
    s = EvidenceSet(tmp_path, FAST)
    path = Path(s.place)
    content = json.loads(path.read_text())
    content["utilisation"] = {k: v for k, v in (content["utilisation"] | change).items() if v is not None}
    path.write_text(json.dumps(content))
    assert s.said("realistic utilisation") == (verdict, status, said)


def test_two_cards(tmp_path: Path) -> None:
    """Rate of one program and cycles of another cannot be put together from two files."""
    s = EvidenceSet(tmp_path, FAST)
    other = tmp_path / "fpga" / "other.json"
    s.files["other"] = other
    s.write("other", [record("seconds_per_image", "s", [0.01] * 20, F2, binary_sha256="e" * 64)])
    del s.files["other"]
    made = s.request
    s.request = lambda *_, **__: made(fpga=(s.files["fpga"], other))  # type: ignore[method-assign]
    assert s.refused() == (
        "error[E501]: --fpga: 2 files: card.json, other.json\n"
        "  why: rate, power, cycles and quality must be of one program on one card\n"
        "  try: give one file"
    )
