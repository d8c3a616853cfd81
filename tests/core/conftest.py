"""Public facts, data and randomness for the core's tests."""

import numba
import numpy as np
import pytest

from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
from tests.sources import Seeded


def pytest_collection_modifyitems(items):
    """With NUMBA_DISABLE_JIT=1: what needs the compiler is skipped, and scalars may warn.

    Compiled code computes inf * 0 or a division by 0 in silence, where the next line settles what
    is meant; NumPy's scalars, which the interpreter sees in its place, warn of them.
    """
    if not numba.config.DISABLE_JIT:
        return
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("ignore::RuntimeWarning"))
        for why in (mark.args[0] for mark in item.iter_markers("compiled")):
            item.add_marker(pytest.mark.skip(reason=f"too slow when interpreted: {why}"))


@pytest.fixture
def seeded():
    return Seeded


@pytest.fixture
def schema_of():
    """Three covariates and a binary response, with this many rows."""

    def make(rows):
        return Schema(
            columns=(
                NumberColumn(name="age", lower=20, upper=80),
                NumberColumn(name="body mass", lower=10, upper=50),
                CategoryColumn(name="group", categories=("a", "b", "c")),
                BinaryColumn(name="ill", categories=("no", "yes")),
            ),
            rows=rows,
        )

    return make


@pytest.fixture
def people():
    """Simulated columns: a logistic response, coefficients (-0.3, 1.0, 0.5, -0.5) on age, b, c."""

    def make(rows, seed=1):
        rng = np.random.default_rng(seed)
        age, mass = rng.uniform(20, 80, rows), rng.uniform(10, 50, rows)
        group = rng.choice(["a", "b", "c"], rows)
        eta = -0.3 + (age - 50) / 30 + 0.5 * (group == "b") - 0.5 * (group == "c")
        ill = np.where(rng.random(rows) < 1 / (1 + np.exp(-eta)), "yes", "no")
        return {"age": age, "body mass": mass, "group": group, "ill": ill}

    return make
