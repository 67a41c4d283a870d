"""Folders that look like SDXL with given weights, and results, for the tests of `dpubench sdxl-quality`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from dpu.bench.metrics.report import Score
from dpu.bench.quality.results import Cost
from dpu.bench.quality.sdxl_results import QUALITY, REHEARSAL, Row, SdxlQuality
from dpu.frontend.pipeline_folder import WEIGHT_STEMS
from dpu.frontend.sdxl import SDXL_CONFIGS
from dpu.frontend.seeded import seeded_tensor
from dpu.frontend.tiny import build_tokenizer
from safetensors.torch import save_file
from transformers import CLIPConfig, CLIPModel, CLIPTextConfig, CLIPVisionConfig


def folder(where: Path, kind: str = "StableDiffusionXLPipeline", seeded: bool = False, norm: float = 0.9) -> Path:
    """SDXL base's configs around a few tensors: what `sdxl_model.look` reads. `norm` is the scale of all
    normalisations; where `seeded`, the first convolution is that of seeded weights."""
    torch.manual_seed(0)
    for part, stem in WEIGHT_STEMS.items():
        (where / part).mkdir(parents=True)
        shutil.copy(SDXL_CONFIGS / f"{part}.json", where / part / "config.json")
        save_file({"some.weight": torch.randn(8, 4)}, where / part / f"{stem}.safetensors")
    shape = (320, 4, 3, 3)
    unet = {
        "conv_in.weight": seeded_tensor(3, "unet", "conv_in.weight", shape) if seeded else torch.randn(shape),
        "conv_norm_out.weight": torch.full((320,), norm),
        "mid.ff.net.2.weight": torch.zeros(10, 40),
    }
    save_file(unet, where / "unet" / "diffusion_pytorch_model.safetensors")
    (where / "model_index.json").write_text(json.dumps({"_class_name": kind}))
    for name in ("scheduler", "tokenizer", "tokenizer_2"):
        (where / name).mkdir()
        (where / name / f"{name.split('_')[0]}_config.json").write_text("{}")
    return where


def row(precision: str, psnr: float | None = None, why: tuple[str, ...] = (), program: str = "") -> Row:
    """One precision with a PSNR and no other score."""
    scores = (
        ()
        if psnr is None
        else (Score(name="PSNR", unit="dB", better="higher", value=psnr, low=psnr - 1, high=psnr + 1),)
    )
    return Row(
        what=REHEARSAL if why else QUALITY,
        why=why,
        model="seeded weights" if why else "weights 0123456789ab",
        precision=precision,
        experiment="prompts",
        steps=20,
        prompts=40,
        whole=40,
        scores=scores,
        mlperf="",
        notes=(),
        exceptions=3,
        seconds_an_image=360.0,
        images_an_hour=10.0,
        made_on=("NVIDIA H200, torch 2.11.0",),
        program_sha256=program or ("" if psnr is None else f"program of {precision}"),
    )


def quality(rows: list[Row], model: str = "m" * 64) -> SdxlQuality:
    """A result of these rows, with the estimated costs of its programs."""
    costs = [
        Cost(
            precision=r.precision,
            model="sdxl",
            arch="dpu_f2",
            steps=20,
            seconds=50.0,
            dram_bytes=10**12,
            joules=2000.0,
            joules_are="at the wall",
            usd_a_thousand=25.0,
            provenance="assumed",
            source="an estimate",
        )
        for r in rows
        if r.program_sha256
    ]
    return SdxlQuality(
        what=rows[0].what,
        command="dpubench sdxl-quality DIR",
        model=rows[0].model,
        model_sha256=model,
        weights_sha256={"unet": "u" * 64},
        arch="dpu_f2",
        size=1024,
        calibration="8 calibration prompts",
        reference="fp16",
        experiments={"prompts": "configs/workload/prompts.json"},
        versions={"dpu": "0.1.0"},
        stages=(),
        rows=tuple(rows),
        costs=tuple(costs),
    )


def small_clip(out: Path) -> Path:
    """A CLIP of two small layers on either side, saved as transformers does."""
    tokenizer = build_tokenizer()
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    layers = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = CLIPTextConfig(vocab_size=len(tokenizer), max_position_embeddings=77, **ends, **layers)
    vision = CLIPVisionConfig(image_size=32, patch_size=8, **layers)
    torch.manual_seed(0)
    model = CLIPModel(CLIPConfig(text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=16))
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return out
