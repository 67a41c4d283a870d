"""`python -m dpu.bench.train --out DIR`: trains `tiny` and its judge, evaluates, and writes the model folder.

It goes on from DIR's checkpoints when it is started again with the same options.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tarfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ...errors import DpuError
from ...files import atomic_write
from . import card, evaluate
from .captions import evaluation_prompts, split
from .judge import FILE
from .loop import Run, Trained, cores, write_json
from .model import pipeline
from .stages import Data, Sizes, train_classifier, train_denoiser, train_vae

# Of the time, in the order in which they run; a stage that is done leaves its share to the others.
_SHARES = {"vae": 0.2, "classifier": 0.06, "unet": 0.66, "evaluation": 0.08}
_NOTICE = Path(__file__).parent / "sprites.LICENSE.txt"
_GUIDANCES = (1.0, 3.0, 7.5)  # beside the usual one
_BUNDLES = {"tiny-unet.tar": ("unet",), "tiny-rest.tar": None}  # each stays below 16 MiB


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of checkpoints, log and model")
    parser.add_argument("--minutes", type=float, default=22.0, help="for everything from now on (default 22)")
    parser.add_argument("--seed", type=int, default=0, help="of weights, data and noise (default 0)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=torch.cuda.is_available())
    parser.add_argument("--steps", default="", help="fixed numbers of steps, as in vae=8000,classifier=900,unet=20000")
    parser.add_argument("--work", type=float, default=1.0, help="fraction of batches and of cached latents")
    parser.add_argument("--checkpoint-seconds", type=float, default=120.0)
    parser.add_argument("--seeds", type=int, default=evaluate.SEEDS, help="images a prompt in the evaluation")
    a = parser.parse_args()
    steps = {name: int(n) for name, n in (part.split("=") for part in a.steps.split(",") if part)}
    if unknown := set(steps) - set(_SHARES):
        parser.error(f"--steps: no stage {', '.join(sorted(unknown))}; there are vae, classifier and unet")
    a.out.mkdir(parents=True, exist_ok=True)
    run = Run(a.out, a.seed, torch.device(a.device), a.checkpoint_seconds, steps, a.compile)
    try:
        train_all(run, Sizes().scaled(a.work), a.minutes * 60, a.seeds)
    except DpuError as e:
        print(e, file=sys.stderr)
        sys.exit(2)


def train_all(run: Run, sizes: Sizes, seconds: float, seeds: int) -> None:
    """All stages within about `seconds`; what an earlier run finished is only loaded."""
    end = time.monotonic() + seconds
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    name = torch.cuda.get_device_name(run.device) if run.device.type == "cuda" else f"CPU, {cores()} cores"
    run.log("run", device=name, torch=torch.__version__, seed=run.seed, seconds=seconds, **asdict(sizes))

    def share(stage: str) -> float:
        later = list(_SHARES)[list(_SHARES).index(stage) :]
        return max(1.0, (end - time.monotonic()) * _SHARES[stage] / sum(_SHARES[s] for s in later))

    data = Data.load(run.device)
    vae, vae_trained = train_vae(run, data, sizes, share("vae"))
    classifier, classifier_trained = train_classifier(run, data, vae, sizes, share("classifier"))
    denoiser, unet_trained = train_denoiser(run, data, vae, sizes, share("unet"))
    trained = {"vae": vae_trained, "classifier": classifier_trained, "unet": unet_trained}
    for stage, result in trained.items():
        run.log(stage, done=asdict(result))
    folder = run.out / "tiny"
    _save(folder, denoiser, vae, classifier)
    _bundle(run, folder)  # once now, in case time runs out
    facts = _evaluate(run, folder, data, classifier, trained, name, seeds)
    write_json(folder / "training.json", facts)
    shutil.copyfile(run.out / "log.jsonl", folder / "log.jsonl")
    shutil.copyfile(_NOTICE, folder / _NOTICE.name)
    card.write(folder)
    _bundle(run, folder)


def _save(folder: Path, denoiser: Any, vae: Any, classifier: torch.nn.Module) -> None:
    """The pipeline in float16 as diffusers saves it, and the judge beside it."""
    from safetensors.torch import save_file

    shutil.rmtree(folder, ignore_errors=True)
    for part in (denoiser.text_encoder, denoiser.text_encoder_2, denoiser.unet, vae):
        part.to(torch.float16).to(memory_format=torch.contiguous_format)  # as safetensors wants it
    pipeline(denoiser, vae).save_pretrained(folder)
    (folder / FILE).parent.mkdir()
    half = {k: v.to(torch.float16).contiguous() for k, v in classifier.state_dict().items()}
    save_file(half, folder / FILE)
    classifier.load_state_dict({k: v.float() for k, v in half.items()})  # what is reported is of the saved weights
    for file in folder.rglob("*.safetensors"):
        file.chmod(0o644)


def _evaluate(
    run: Run, folder: Path, data: Data, classifier: Any, trained: dict[str, Trained], device: str, seeds: int
) -> dict[str, Any]:
    """Everything the model card says, measured on the saved folder."""
    import diffusers

    untyped: Any = diffusers
    start = time.monotonic()
    kind = torch.float16 if run.device.type == "cuda" else torch.float32
    loaded = untyped.StableDiffusionXLPipeline.from_pretrained(folder, torch_dtype=kind, add_watermarker=False)
    loaded.to(run.device)
    loaded.set_progress_bar_config(disable=True)
    unseen = evaluation_prompts()
    main_score, pictures, found = evaluate.caption_score(loaded, classifier, unseen, seeds)
    evaluate.write_grid(pictures[::seeds], 8, folder / "grid.png")
    run.log("evaluation", unseen=main_score.as_json())
    facts: dict[str, Any] = {
        "seed": run.seed,
        "device": device,
        "torch": torch.__version__,
        "type": str(kind).removeprefix("torch."),
        "steps": evaluate.STEPS,
        "guidance": evaluate.GUIDANCE,
        "seeds": seeds,
        "combinations": {"training": len(split()[0]), "held_out": len(split()[1])},
        "stages": {stage: asdict(result) for stage, result in trained.items()},
        "unseen": main_score.as_json(),
        "prompts": [
            {"text": text, "all_correct": int(found[i * seeds : (i + 1) * seeds].all(1).sum())}
            for i, (_, text) in enumerate(unseen)
        ],
        "chance": evaluate.chance(unseen),
        "seen": evaluate.caption_score(loaded, classifier, evaluate.prompts_of_training(), seeds)[0].as_json(),
        "other_guidance": {
            str(g): evaluate.caption_score(loaded, classifier, unseen, seeds, g)[0].as_json() for g in _GUIDANCES
        },
        "classifier_composed": evaluate.real_score(classifier, data.composer, None, seeds).as_json(),
        "classifier_through_vae": evaluate.real_score(classifier, data.composer, loaded.vae, seeds).as_json(),
        "vae_psnr_db": round(evaluate.psnr(loaded.vae, data.composer), 2),
    }
    facts["evaluation_seconds"] = round(time.monotonic() - start, 1)
    run.log("evaluation", **{k: v for k, v in facts.items() if k not in ("prompts", "stages")})
    return facts


def _bundle(run: Run, folder: Path) -> None:
    """Two tar files of the model folder, the UNet and the rest, to carry it away."""
    for name, parts in _BUNDLES.items():
        with atomic_write(run.out / name) as temporary, tarfile.open(temporary, "w") as tar:
            for path in sorted(folder.iterdir()):
                if (path.name in parts) if parts else path.name != "unet":
                    tar.add(path, f"tiny/{path.name}")
        run.log("bundle", file=name, bytes=(run.out / name).stat().st_size)


if __name__ == "__main__":
    main()
