"""Levels of linear models that few rows have, or none: right, or unreliable."""

import numpy as np
import pytest

from dpmcmc import CategoryColumn, NumberColumn, Schema, sample
from tests.sources import Seeded

ROWS, LEVELS, PRIOR_SD = 20_000, ("u", "v", "w"), 16.0


def fitted(few, epsilon, seed, **told):
    """A fit of which `few` rows have the last level, whose effect is 2."""
    rng = np.random.default_rng((few, seed))
    a, codes = rng.uniform(-1, 1, ROWS), rng.integers(0, 2, ROWS)
    codes[:few] = 2
    t = np.clip(0.7 * a + 2.0 * (codes == 2) + rng.normal(size=ROWS), -8, 8)
    columns = (
        NumberColumn(name="a", lower=-1, upper=1),
        CategoryColumn(name="g", categories=LEVELS),
        NumberColumn(name="t", lower=-8, upper=8),
    )
    data = {"a": a, "g": np.array(LEVELS)[codes], "t": t}
    given = {"epsilon": epsilon, "delta": 1e-6, "random": Seeded(seed)}
    return sample("t ~ a + g", data, Schema(columns=columns, rows=ROWS), **given, **told)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0, 10.0])
def test_a_level_that_no_row_has_is_unreliable(epsilon):
    """Noise passed for a row: twenty-one of twenty-four results had a fifth of the prior's sd."""
    for seed in range(6):
        assert fitted(0, epsilon, seed).verdict.status == "unreliable"


@pytest.mark.parametrize("few", [1, 5, 40, 200])
def test_a_level_that_few_rows_have_is_right_or_unreliable(few):
    reliable = []
    for seed, epsilon in enumerate((0.5, 1.0, 4.0, 10.0, 100.0)):
        fit = fitted(few, epsilon, seed)
        reliable.append(fit.verdict.status == "reliable")
        if reliable[-1]:
            row = fit.summary(mixing=False)["g[w]"]
            assert abs(row.mean - 2.0) < 4.0 * row.sd
            assert row.sd > 0.6 / np.sqrt(few)
    assert reliable[-1] or few < 40
    assert few < 200 or all(reliable[1:])
