"""`dpubench`: the command of measurements. One verb, one file of this folder; those of the economics share two."""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.cli.common import new_app, run_app
from . import deploy, economics
from .attention import attention
from .blocks import blocks
from .campaign import campaign
from .caption import caption
from .coverage import coverage
from .cycles import cycles
from .cycles_holdout import cycles_holdout
from .dram import dram
from .estimate_error import estimate_error
from .exporters import exporters
from .f2_faults import f2_faults
from .f2_image import f2_image
from .f2_latency import f2_latency
from .functional import functional
from .fuzz import fuzz
from .golden import golden
from .gpu import gpu
from .held_out import held_out
from .image import image
from .memory import memory
from .metrics import metrics
from .mutate import mutate
from .policy_search import policy_search
from .predict import predict
from .products import products
from .profile import profile
from .quality import quality
from .rates import rates
from .report import report
from .rtl_image import rtl_image
from .rtl_mutants import rtl_mutants
from .rtl_size import rtl_size
from .sdxl_quality import sdxl_quality
from .sensitivity import sensitivity
from .sizes import sizes
from .tables import tables
from .timing import timing

app = new_app("Measure against a peer or a bound, in one run, and print the ratio.")
economics.register(app)
VERBS: dict[str, Callable[..., None]] = {
    "products": products,
    "blocks": blocks,
    "estimate-error": estimate_error,
    "functional": functional,
    "dram": dram,
    "cycles": cycles,
    "timing": timing,
    "rates": rates,
    "rtl-image": rtl_image,
    "image": image,
    "exporters": exporters,
    "memory": memory,
    "golden": golden,
    "mutate": mutate,
    "fuzz": fuzz,
    "campaign": campaign,
    "sizes": sizes,
    "tables": tables,
    "f2-faults": f2_faults,
    "f2-image": f2_image,
    "f2-latency": f2_latency,
    "rtl-mutants": rtl_mutants,
    "rtl-size": rtl_size,
    "coverage": coverage,
    "cycles-holdout": cycles_holdout,
    "gpu": gpu,
    "profile": profile,
    "metrics": metrics,
    "quality": quality,
    "predict": predict,
    "attention": attention,
    "sensitivity": sensitivity,
    "policy-search": policy_search,
    "sdxl-quality": sdxl_quality,
    "caption": caption,
    "held-out": held_out,
    "report": report,
    **deploy.VERBS,
}
for _name, _function in VERBS.items():
    app.command(_name)(_function)


def main() -> None:
    """The entry point of the package."""
    run_app(app, "dpubench")
