"""`dpuc`: the compiler's command. One verb, one file of this folder."""

from __future__ import annotations

from collections.abc import Callable

from .calibrate import calibrate
from .common import new_app, run_app
from .compile import compile_model
from .diff_passes import diff_passes
from .dis import dis
from .explain import explain
from .export import export
from .importing import import_model
from .inspect import inspect
from .opt import opt
from .passes import passes
from .reduce import reduce
from .report import report
from .sensitivity import sensitivity
from .verify import verify

app = new_app("Compile diffusion models for the DPU: export, calibrate, compile, look inside.")
VERBS: dict[str, Callable[..., None]] = {
    "export": export,
    "calibrate": calibrate,
    "sensitivity": sensitivity,
    "compile": compile_model,
    "import": import_model,
    "opt": opt,
    "passes": passes,
    "diff-passes": diff_passes,
    "reduce": reduce,
    "dis": dis,
    "inspect": inspect,
    "report": report,
    "explain": explain,
    "verify": verify,
}
for _name, _function in VERBS.items():
    app.command(_name)(_function)


def main() -> None:
    """The entry point of the package."""
    run_app(app, "dpuc")
