"""`dpubench`: the command of measurements. It has no verb yet: workloads, sweeps and the gate come with `bench/`."""

from __future__ import annotations

from ...runtime.cli.common import new_app, run_app

app = new_app("Measure, sweep and decide. No verb in this version; `dpurun --report` writes the simulator's report.")


@app.callback()
def dpubench() -> None:
    """A group without verbs: typer needs one of the two."""


def main() -> None:
    """The entry point of the package."""
    run_app(app, "dpubench")
