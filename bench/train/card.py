"""The model card and the list of digests, written from the training run's own numbers.

`python -m dpu.bench.train.card DIR` writes both again, from `training.json` and the files of the model's folder DIR.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ...files import atomic_write, sha256
from .captions import ATTRIBUTES
from .compose import SIZE
from .sprites import PACKAGE

CARD = "README.md"
SUMS = "SHA256SUMS"
"""Digests of all other files of the folder, as `sha256sum -c` reads them."""


def write(folder: Path) -> None:
    """Write card and digests of the model in `folder`, which has its `training.json`."""
    facts = json.loads((folder / "training.json").read_text())
    with atomic_write(folder / CARD) as temporary:
        temporary.write_text(text(facts, folder))
    sums = "".join(f"{digest}  {name}\n" for name, digest in digests(folder).items())
    with atomic_write(folder / SUMS) as temporary:
        temporary.write_text(sums)


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of the folder but the list itself, by its path in the folder, sorted."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != SUMS)
    return {p.relative_to(folder).as_posix(): sha256(p) for p in files}


def text(facts: dict[str, Any], folder: Path) -> str:
    """The README.md of the model in `folder`. `facts` is what `training.json` has."""
    files = sorted(folder.rglob("*.safetensors"))
    sizes = "\n".join(f"| `{f.relative_to(folder)}` | {f.stat().st_size / 1e6:.2f} |" for f in files)
    total = sum(f.stat().st_size for f in files) / 1e6
    unseen, n = facts["unseen"], facts["unseen"]["n"]
    stages = "\n".join(
        f"| {name} | {s['steps']:,} | {s['samples']:,} | {s['seconds']:.0f} | "
        + ", ".join(f"{k} {v:.4f}" for k, v in s["losses"].items())
        + " |"
        for name, s in facts["stages"].items()
    )
    guidances = {**facts["other_guidance"], str(facts["guidance"]): unseen}
    of_guidance = "\n".join(f"| {g} | {_percent(guidances[g])} |" for g in sorted(guidances, key=float))
    right = sum(p["all_correct"] for p in facts["prompts"])
    minutes = sum(s["seconds"] for s in facts["stages"].values()) / 60
    vae, unet = (facts["stages"].get(name, {"seconds": 0.0})["seconds"] for name in ("vae", "unet"))
    known, held = facts["combinations"]["training"], facts["combinations"]["held_out"]
    classes = "\n".join(f"- {name}: {', '.join(values)}" for name, values in ATTRIBUTES.items())
    return f"""---
license: apache-2.0
library_name: diffusers
pipeline_tag: text-to-image
---

# tiny

A small, trained `StableDiffusionXLPipeline`: {SIZE}x{SIZE} pixels, one to three icons
at a place on a coloured ground, from text. It has SDXL's kinds of blocks (VAE, two text
encoders, UNet with cross attention, GEGLU, pooled text and time ids) at sizes that a cycle-level simulator runs in
seconds.

    pipeline = diffusers.StableDiffusionXLPipeline.from_pretrained("models/tiny")
    prompt = "{facts["prompts"][0]["text"]}"
    pipeline(prompt, num_inference_steps={facts["steps"]}, guidance_scale={facts["guidance"]:g}).images[0]

Made by `python -m dpu.bench.train`, seed {facts["seed"]}, on one {facts["device"]}, torch {facts["torch"]}:
{minutes:.1f} minutes of training, {unet / 60:.1f} of them of UNet and text encoders.
Every number below is measured by that run (`training.json`, `log.jsonl`).

## What it knows

{classes}

Captions: "two cats at the top on a blue background" and three other orders of words; see
`bench/train/captions.py`. Of {known + held:,} combinations, {held} were held out of the
training of every network, the classifier included.

## Does it draw what it is told?

{len(facts["prompts"])} prompts, all of held-out combinations, {facts["seeds"]} seeds each ({n} images),
{facts["steps"]} Euler steps, guidance {facts["guidance"]:g}, {facts["type"]}.
All four attributes are right in {right} of {n}, by the classifier in `classifier/`:

| | object | colour | place | count | all four right |
|---|---|---|---|---|---|
| **unseen combinations** | {_row(unseen)} |
| combinations of the training | {_row(facts["seen"])} |
| the classifier on composed pictures of all held-out combinations | {_row(facts["classifier_composed"])} |
| the same through the VAE | {_row(facts["classifier_through_vae"])} |

Brackets: 95 % interval, bootstrap over prompts, then over their images. Pictures that ignored their prompt would score
{100 * facts["chance"]:.1f} %. The VAE's reconstructions of held-out compositions have
{facts["vae_psnr_db"]:.1f} dB PSNR. `grid.png` has seed 0 of each prompt, row by row.

| guidance | all four right, unseen |
|---|---|
{of_guidance}

{_missed(facts)}

## Data and licence

Pictures are composed on the fly from {len(ATTRIBUTES["object"])} icons of the npm package {PACKAGE} (MIT, Copyright (c)
Microsoft Corporation; notice in `sprites.LICENSE.txt`). No other images, no pretrained weights. The weights are under
this repository's licence, Apache-2.0.

## Training

| stage | steps | samples | seconds | mean losses at the end |
|---|---|---|---|---|
{stages}

VAE: L1, L2, edges, KL. UNet and text encoders together: epsilon on SDXL's schedule, min-SNR 5, one caption in ten left
out (zeros, as SDXL's empty prompt), AdamW, cosine rate, averaged weights. The scaling factor is the inverse of the
latents' measured deviation.

| file | MB |
|---|---|
{sizes}
| together | {total:.2f} |

## Limits

- The VAE had {vae:.0f} s of training. Icons have white halos and soft edges, and small parts of them blur, such as
  the faces of cats and pigs. An icon on a ground of its own colour is little more than its outline.
- It knows these words and these icons, in these captions, at {SIZE}x{SIZE}. Other words fall back
  to bytes it has never learned.
- The judge is a classifier trained on the same icons: it finds wrong objects, colours, places and counts,
  not ugly ones. An accuracy near 100 % leaves little to tell two good models apart.
- It is a subject for measurements (quantisation, schedules, devices), not a picture
  generator.
"""


def _missed(facts: dict[str, Any]) -> str:
    """The prompts that some seed got wrong, at most eight, the worst first."""
    seeds = facts["seeds"]
    worst = sorted((p for p in facts["prompts"] if p["all_correct"] < seeds), key=lambda p: int(p["all_correct"]))
    if not worst:
        return f"No prompt was drawn wrongly by any of the {seeds} seeds at guidance {facts['guidance']:g}."
    rows = "\n".join(f"- {p['text']}: {p['all_correct']} of {seeds}" for p in worst[:8])
    return f"The prompts it does worst:\n\n{rows}"


def _percent(score: dict[str, float]) -> str:
    return f"{100 * score['all_correct']:.1f} % [{100 * score['low_95']:.1f}, {100 * score['high_95']:.1f}]"


def _row(score: dict[str, float]) -> str:
    return " | ".join([*(f"{100 * score[a]:.1f} %" for a in ATTRIBUTES), _percent(score)])


if __name__ == "__main__":
    write(Path(sys.argv[1]))
