"""Compilation and loading of kernels before the first job, on small simulated rows.

The worker does this before it forks: once for all of its processes, and those that replace a lost
one have it at birth. Nothing random outlives it: every run draws from a key of its own.
"""

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from app.services.planning.calls import load_planner
from dpmcmc.base.private import Released
from dpmcmc.families import MODELS
from dpmcmc.fit.local import sample
from dpmcmc.fit.results import Result
from dpmcmc.inputs.options import AlgorithmOptions, Proposal
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import ModelSpec
from dpmcmc.mechanisms import sums
from dpmcmc.posterior.diagnostics import summarise
from dpmcmc.releases import RELEASES
from dpmcmc.samplers import SAMPLERS
from worker import parent

ROWS = 24  # of fewer chains are refused
SCHEMA = Schema(
    columns=(
        NumberColumn(name="x", lower=-1.0, upper=1.0),
        NumberColumn(name="count", lower=0.0, upper=3.0),
        BinaryColumn(name="y", categories=("0", "1")),
        CategoryColumn(name="g", categories=("0", "1", "2")),
    ),
    rows=ROWS,
)
DATA: dict[str, list[object]] = {
    "x": [0.5] * ROWS,
    "count": [1.0] * ROWS,
    "y": ["0", "1"] * (ROWS // 2),
    "g": ["0", "1", "2", "0"] * (ROWS // 4),
}


def unpack(folder: Path | None) -> None:
    """Copy kernels compiled earlier to the cache folder, which must be writable.

    Numba compiles anew what is of another version, source or processor.
    """
    wanted = os.environ.get("NUMBA_CACHE_DIR")
    if folder is not None and wanted and folder.is_dir():
        shutil.copytree(folder, wanted, dirs_exist_ok=True)


def once(folder: Path) -> None:
    """Load the kernels, one worker at a time: the first compiles for all.

    Where kernels were never compiled for these sources and this processor, only those of releases
    are waited for, which the planner takes where nothing else is asked for; see `compile_rest`.
    """
    load()
    with _locked(folder):
        if compiled().exists():
            warm_up()
        else:
            warm_up_releases()


def compile_rest(folder: Path) -> subprocess.Popen[bytes] | None:
    """Compile the remaining kernels in a process of low priority.

    It ends with the thread that called. A job that needs one of these kernels meanwhile compiles it
    by itself.
    """
    if compiled().exists():
        return None
    return subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-m", "worker.warmup", str(folder)],
        preexec_fn=_give_way,
    )


def _give_way() -> None:
    """Lower the priority of this process, and let it exit with its parent."""
    parent.die_with_parent(signal.SIGKILL)
    os.nice(19)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "warmup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def compiled() -> Path:
    """Return the marker file of fully compiled kernels, for these sources and processor."""
    from llvmlite import binding
    from numba import config

    processor = f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"
    name = hashlib.sha256(processor.encode()).hexdigest()[:16]
    return Path(config.CACHE_DIR) / f"compiled-{name}"  # type: ignore[attr-defined]


def load() -> None:
    """Import what jobs need, which takes most of a worker's start."""
    from dpmcmc.kernels.compiled import ratio_sums  # noqa: F401 - it is the import that takes its time

    load_planner()
    summarise(Released(np.arange(32.0).reshape(2, 16, 1)), ["x"])


def warm_up() -> None:
    """Run every sampler and release for a few steps, and summarise the draws."""
    warm_up_releases()
    model = MODELS["logistic"].example
    for sampler in SAMPLERS.values():
        options = sampler.options(num_steps=8, num_chains=2)
        for choice in _kinds(options):
            result = _ran(model, choice)
            summarise(Released(result.draws), result.plan.parameters)


def warm_up_releases() -> None:
    """Run every release for a few draws, so that its kernels are compiled."""
    one = np.ones((1, 1))  # loops that are for many rows alone
    sums.vector_cells(one, 1.0, 1.0, sums.COMPILED_LOOPS)
    sums.matrix_cells((one,), 1.0, 1.0, 1.0, loops=sums.COMPILED_LOOPS)
    for release in RELEASES.values():
        model = next(model for name, model in MODELS.items() if name in release.families)
        _ran(model.example, release.options(num_steps=8))


def _ran(model: ModelSpec, options: AlgorithmOptions) -> Result:
    """Return the result of one small run."""
    return sample(
        DATA,
        schema=SCHEMA,
        model=model,
        delta=1e-6,
        noise_multiplier=1.0,
        sampler=options,
        accept_low_quality=True,
    )


def _kinds(options: Any) -> list[Any]:
    """Return the options, and their full-vector variant if any."""
    if isinstance(getattr(options, "proposal", None), Proposal):
        return [options, replace(options, proposal=Proposal(kind="full"))]
    return [options]


if __name__ == "__main__":
    load()
    with _locked(Path(sys.argv[1])) if len(sys.argv) > 1 else nullcontext():
        warm_up()
        compiled().touch()
