"""MLPerf's window for SDXL, two-sided: FID and CLIP score of 5,000 COCO captions (closed division, published).

A score of other images says nothing about the window, however near it is: FID grows as images get fewer.
"""

from __future__ import annotations

from ..gate_conditions import DATASET, QUALITY_IMAGES, WINDOW, outside

FULL_NAMES = {"fid": "FID", "clip": "CLIP"}
_MISSING = {"fid": "no FID against COCO's statistics (--statistics)", "clip": "no CLIP score (--clip)"}


def verdict(fid: float | None, clip: float | None, images: int, dataset: str) -> str:
    """One line: inside, outside, or not comparable and why. `fid` is that against the statistics of COCO's images."""
    why = []
    if images != QUALITY_IMAGES:
        why.append(f"{images:,} images, MLPerf scores {QUALITY_IMAGES:,}")
    if dataset != DATASET:
        why.append(f"dataset is '{dataset}', MLPerf's is '{DATASET}'")
    scores = {k: v for k, v in (("fid", fid), ("clip", clip)) if v is not None}
    why += [_MISSING[k] for k in WINDOW if k not in scores]
    if why:
        return f"not comparable with MLPerf's window: {'; '.join(why)}"
    return outside(scores) or "inside MLPerf's window: " + "; ".join(
        f"{FULL_NAMES[k]} {scores[k]:g} in {low:.3f} to {high:.3f}" for k, (low, high) in WINDOW.items()
    )
