"""Load the compiled kernels before the first job, by running tiny ones on made-up rows.

The worker does this before it forks: once for all of its processes, and those that replace a lost
one have it at birth. Nothing random outlives it: every run draws from a key of its own.
"""

import fcntl
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from app.jobs.upkeep import load_planner
from dpmcmc.diagnostics import summarise
from dpmcmc.privacy.types import Released
from dpmcmc.releases import RELEASES, AlgorithmOptions
from dpmcmc.run import Result, sample
from dpmcmc.samplers import SAMPLERS, Proposal
from dpmcmc.schema import BinaryColumn, NumberColumn, Schema
from dpmcmc.spec import ModelSpec

ROWS = 8
SCHEMA = Schema(
    columns=(
        NumberColumn(name="x", lower=-1.0, upper=1.0),
        BinaryColumn(name="y", categories=("0", "1")),
    ),
    rows=ROWS,
)
DATA: dict[str, list[object]] = {"x": [0.5] * ROWS, "y": ["0", "1"] * (ROWS // 2)}


def unpack(folder: Path | None) -> None:
    """Copy kernels that were compiled earlier to where they are looked for, which is written to.

    Numba compiles anew what is of another version, source or processor.
    """
    wanted = os.environ.get("NUMBA_CACHE_DIR")
    if folder is not None and wanted and folder.is_dir():
        shutil.copytree(folder, wanted, dirs_exist_ok=True)


def once(folder: Path) -> None:
    """Warm up while no other worker on this folder does: the first one compiles for the rest."""
    load()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "warmup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        warm_up()


def load() -> None:
    """Import what jobs need, most of a worker's start: any number of workers may do so at once."""
    from dpmcmc.kernels import rows  # noqa: F401 - it is the import that takes its time

    load_planner()
    summarise(Released(np.arange(32.0).reshape(2, 16, 1)), ["x"])


def warm_up() -> None:
    """Run every registered sampler and release for a few steps, and summarise what it gave."""
    model = ModelSpec(family="logistic", formula="y ~ x")
    for sampler in SAMPLERS.values():
        options = sampler.options(num_steps=8, num_chains=2)
        for choice in _kinds(options):
            result = _ran(model, choice)
            summarise(Released(result.draws), result.plan.parameters)
    for release in RELEASES.values():
        family = "logistic" if "logistic" in release.families else "gaussian_mean"
        model = ModelSpec(family=family, formula="y ~ x" if family == "logistic" else "~ x")
        options = release.options(num_steps=8)
        _ran(model, options)


def _ran(model: ModelSpec, options: AlgorithmOptions) -> Result:
    return sample(
        DATA, schema=SCHEMA, model=model, delta=1e-6, noise_multiplier=1.0, sampler=options
    )


def _kinds(options: Any) -> list[Any]:
    """The options, and those with the full-vector proposal where there is one."""
    if isinstance(getattr(options, "proposal", None), Proposal):
        return [options, replace(options, proposal=Proposal(kind="full"))]
    return [options]


if __name__ == "__main__":
    warm_up()
