import numpy as np
import pytest
from numba import njit

from dpmcmc.kernels.compiled.maths import OPTIONS
from dpmcmc.kernels.compiled.scattered import LANES, ROWS, dots

COUNT = 40


@njit(**OPTIONS)
def every(flat, starts, weights, here, there):
    for i in range(0, len(starts), ROWS):
        dots(flat, starts, i, weights, here, there)


@pytest.mark.parametrize("columns", [4, 8, 12, 20])
def test_sums_are_those_of_the_rows_wherever_they_stand(columns):
    rng, width = np.random.default_rng(1), columns + 3
    rows = rng.normal(size=(COUNT, width)).astype(np.float32)
    weights = rng.normal(size=(2, columns))
    assert columns % LANES == 0
    order = rng.permutation(COUNT)
    here, there = np.empty((2, COUNT)), np.empty((2, COUNT))
    for k, picked in enumerate((np.arange(COUNT), order)):
        every(rows.reshape(-1), picked * width, weights, here[k], there[k])
    assert (here[1] == here[0, order]).all()
    assert (there[1] == there[0, order]).all()
    exact = rows[:, :columns].astype(np.longdouble) @ weights.T
    assert here[0] == pytest.approx(exact[:, 0].astype(float), rel=1e-12, abs=1e-14)
    assert there[0] == pytest.approx(exact[:, 1].astype(float), rel=1e-12, abs=1e-14)
