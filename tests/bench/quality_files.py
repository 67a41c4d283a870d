"""Hand-made pictures and a stand-in for the model, for the tests of `dpubench quality`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from dpu.bench.metrics.images import Pixels
from dpu.bench.quality.pictures import Kept, Made, key_of, picture_path
from dpu.bench.quality.plan import PARTS, Plan, make_plan
from dpu.bench.train.judge import FILE, Classifier
from safetensors.torch import save_file


def model(folder: Path, content: str = "weights") -> Path:
    """A folder that looks like a diffusers model with a classifier of seeded weights."""
    for part in PARTS:
        (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / part / "config.json").write_text(f"{part} {content}")
    (folder / "model_index.json").write_text("{}")
    torch.manual_seed(0)
    (folder / FILE).parent.mkdir(exist_ok=True)
    save_file({k: v.half() for k, v in Classifier().state_dict().items()}, folder / FILE)
    return folder


def picture(seed: int, side: int = 128) -> Pixels:
    """16 squares of random colours."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(40, 216, (4, 4, 3))
    return np.asarray(np.kron(coarse, np.ones((side // 4, side // 4, 1))), np.uint8)


def disturbed(p: Pixels, sigma: float, seed: int) -> Pixels:
    """With noise of a standard deviation."""
    noise = np.random.default_rng(seed).normal(0, sigma, p.shape)
    return np.asarray(np.clip(p + noise, 0, 255).round(), np.uint8)


def fill(work: Path, plan: Plan, precision: str, prompts: int, seeds: int, sigma: float, seconds: float = 1.0) -> None:
    """Pictures of a precision: those of the reference with noise."""
    for prompt in range(prompts):
        kept = Kept(key_of(plan, work, precision))
        for seed in range(seeds):
            base = picture(100 * prompt + seed)
            noisy = disturbed(base, sigma, 7 + seed) if sigma else base
            kept.found[seed] = Made(noisy, seconds, prompt, "a test")
        kept.save(picture_path(work, precision, 20, prompt))


def workplace(base: Path, programs: tuple[str, ...] = ("w8a8", "w4a8")) -> tuple[Path, Path, Plan]:
    """A model, a work folder with files in place of programs, and the plan."""
    where, work = model(base / "model"), base / "work"
    plan = make_plan(where, "dpu_tiny", work)
    (work / "programs").mkdir()
    for name in programs:
        (work / "programs" / f"{name}.dpu").write_text(name)
    return where, work, plan
