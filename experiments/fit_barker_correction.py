"""Fit the noise that turns N(0, 2) into nearly a logistic variable, and write it for the sampler.

    python experiments/fit_barker_correction.py [--output dpmcmc/samplers/barker_correction.py]

The Barker test accepts where lambda + N(0, 2) + V > 0. Exactly logistic noise would need a V whose
characteristic function is pi t / sinh(pi t) * exp(t^2), which exceeds 1: no such V exists. Over all
symmetric V on a grid of locations and scales this linear programme minimises
sup_x |P(x + N(0, 2) + V > 0) - logistic(x)|; the optimum over a fine grid is the optimum of all
mixtures of normals to the grid's precision. Masses at few points win: no scale above 0 is used.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.optimize import linprog
from scipy.special import expit, ndtr

VARIANCE = 2.0
REACH = 30.0
TEMPLATE = '''"""Symmetric correction noise of the Barker test.

Made by experiments/fit_barker_correction.py.
V is +-LOCATIONS[k] with probability WEIGHTS[k]. With N(0, VARIANCE) added it is nearly logistic:
sup over x of |P(x + N(0, VARIANCE) + V > 0) - 1 / (1 + exp(-x))| <= ERROR.
"""

VARIANCE = {variance!r}
LOCATIONS = {locations!r}
WEIGHTS = {weights!r}
ERROR = {error!r}
'''


def acceptance(x, locations, scales=0.0):
    """P(x + N(0, 2) + V > 0), one column for each symmetric pair of components."""
    sd = np.sqrt(VARIANCE + np.square(scales))
    return 0.5 * (ndtr((x[:, None] + locations) / sd) + ndtr((x[:, None] - locations) / sd))


def best_weights(locations, scales, points):
    """Weights of the components that minimise the largest error at the points."""
    columns = acceptance(points, locations, scales)
    slack = -np.ones((len(points), 1))
    target = expit(points)
    found = linprog(
        np.r_[np.zeros(len(locations)), 1.0],
        A_ub=np.block([[columns, slack], [-columns, slack]]),
        b_ub=np.r_[target, -target],
        A_eq=np.r_[np.ones(len(locations)), 0.0][None],
        b_eq=[1.0],
        method="highs",
    )
    if not found.success:
        raise RuntimeError("the linear programme has no solution")
    return found.x[:-1]


def fit():
    """Coarse grid of locations and scales, then finer locations around those that were used."""
    points = np.linspace(0, REACH, 1501)
    where, scale = (grid.ravel() for grid in np.meshgrid(np.linspace(0, 15, 151), (0, 0.2, 0.8)))
    used = best_weights(where, scale, points) > 1e-9
    print("scales used on the coarse grid:", sorted(set(scale[used])))
    where = where[used]
    for step in (0.01, 0.001):
        near = np.unique(np.clip(np.add.outer(where, step * np.arange(-15, 16)), 0, None).round(4))
        weights = best_weights(near, np.zeros_like(near), points)
        where, weights = near[weights > 1e-9], weights[weights > 1e-9]
    return where, weights / weights.sum()


def measured_error(locations, weights):
    """Largest error over a fine grid, and beyond its end (where both sides are monotone)."""
    x = np.linspace(0, REACH, 300_001)
    inside = np.abs(acceptance(x, locations) @ weights - expit(x)).max()
    return float(max(inside, expit(-REACH))) + 1e-7  # slope 0 at the largest error, curvature < 1


def main():
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(__file__).resolve().parent.parent / "dpmcmc/samplers/barker_correction.py"
    parser.add_argument("--output", type=Path, default=default)
    output = parser.parse_args().output
    locations, weights = fit()
    weights = weights.round(9)
    weights[0] += 1 - weights.sum()
    error = measured_error(locations, weights)
    text = TEMPLATE.format(
        variance=VARIANCE,
        locations=tuple(float(x) for x in locations),
        weights=tuple(round(float(w), 9) for w in weights),
        error=round(error + 5e-8, 7),
    )
    output.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
