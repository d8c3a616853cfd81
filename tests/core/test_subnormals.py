"""Rows of subnormal numbers take no longer than others: where rows are touched there are none."""

import os
import threading
from typing import Any

import numpy as np
import pytest
from numba import config

from dpmcmc import BinaryColumn, ModelSpec, NumberColumn, PrivacySpec, Schema
from dpmcmc.families import MODELS
from dpmcmc.fit.run import Run
from dpmcmc.inputs.schema import Table
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.kernels.subnormals import BITS, control, flushed
from dpmcmc.releases import RELEASES
from dpmcmc.samplers import SAMPLERS

compiled = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="needs the compiler")
known = pytest.mark.skipif(not BITS, reason="the register of this machine is not known")
SMALL, SMALL_SINGLE = np.array([1e-310]), np.array([1e-40], np.float32)


def modes() -> int:
    """The control register without the flags of what happened, which any arithmetic sets."""
    return int(control()) & ~0x3F


def are_flushed() -> bool:
    """As operands, and as results, in both precisions, by NumPy's own code."""
    operands = (SMALL * 1.0)[0] == 0.0 and (SMALL_SINGLE * np.float32(1.0))[0] == 0.0
    halves = np.array([1e-30], np.float32) * np.float32(1e-10), np.array([1e-300]) * 1e-10
    return bool(operands and all(half[0] == 0.0 for half in halves))


@known
def test_no_subnormals_in_the_block_nor_in_threads_it_starts() -> None:
    before = modes()
    assert not are_flushed()
    found: list[bool] = []
    with flushed():
        assert are_flushed()
        thread = threading.Thread(target=lambda: found.append(are_flushed()))
        thread.start()
        thread.join()
    assert found == [True]
    assert modes() == before
    assert not are_flushed()


@known
def test_the_register_is_put_back_after_an_error() -> None:
    before = modes()
    with pytest.raises(ValueError, match="x"), flushed():
        raise ValueError("x")
    assert modes() == before


SCHEMA = Schema(
    columns=(
        NumberColumn(name="x", lower=-1.0, upper=1.0),
        NumberColumn(name="count", lower=0.0, upper=3.0),
        BinaryColumn(name="y", categories=("0", "1")),
    ),
    rows=300,
)


FORMULAS = {"logistic": "y ~ x", "gaussian_mean": "~ x", "linear": "count ~ x"}


def table(x: float) -> Table:
    rows = np.linspace(-1.0, 1.0, SCHEMA.rows)
    rows[7] = x
    ones = np.arange(SCHEMA.rows) % 2
    return Table({"x": rows, "count": 3.0 * ones, "y": ones.astype(np.int32)}, SCHEMA.rows)


@known
@pytest.mark.parametrize("algorithm", [*SAMPLERS, *RELEASES])
def test_every_algorithm_touches_rows_without_subnormals(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen from where draws leave: inside of what a job does with its rows."""
    from dpmcmc import sample

    seen: list[bool] = []
    release = RELEASES.get(algorithm)
    known = {"logistic"} if release is None else release.families
    family, formula = next((one, told) for one, told in FORMULAS.items() if one in known)
    model = MODELS[family]
    shown = model.release

    def looked(*given: Any) -> Any:
        seen.append(are_flushed())
        return shown(*given)

    monkeypatch.setitem(MODELS, family, _replaced(model, release=looked))
    made = sample(
        {"x": [0.5] * 300, "count": [1.0] * 300, "y": ["0", "1"] * 150},
        schema=SCHEMA,
        model=ModelSpec(family=family, formula=formula),
        delta=1e-6,
        noise_multiplier=1.0,
        sampler=(RELEASES.get(algorithm) or SAMPLERS[algorithm]).options(num_steps=4),
        accept_low_quality=True,
    )
    assert made.draws.shape[1] == 4
    assert seen
    assert all(seen)


def _replaced(model: Any, **changes: Any) -> Any:
    from dataclasses import replace

    return replace(model, **changes)


@compiled  # plain Python warns of an infinity times 0, which kernels hold
@pytest.mark.parametrize("trace", [1e-310, 1e-40, -1e-38, 1e-20])
def test_rows_that_a_kernel_sees_are_zero_or_normal_with_normal_squares(trace: float) -> None:
    from dpmcmc.formula.design import make_design

    options = SAMPLERS["dp_penalty"].options(num_steps=4, num_chains=1)
    spec = JobSpec(
        model=ModelSpec(family="logistic", formula="y ~ x"),
        sampler=options,
        privacy=PrivacySpec(delta=1e-6, noise_multiplier=1.0),
    )
    target: Any = MODELS["logistic"].target(make_design(SCHEMA, "y ~ x"), spec, table(trace), 1)
    rows = target._x
    assert (rows**2 >= np.finfo(np.float32).smallest_normal).sum() + (rows == 0).sum() == rows.size


@known
def test_a_run_flushes_while_its_blocks_are_made_and_no_longer() -> None:
    run = Run.__new__(Run)
    run._process = os.getpid()
    run._blocks = (are_flushed() for _ in range(2))  # type: ignore[assignment]
    assert [next(run), next(run)] == [True, True]
    assert not are_flushed()
