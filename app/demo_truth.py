"""The demo's data are public: what a logistic regression finds in them without any privacy."""

import csv
import gzip
from collections.abc import Mapping
from pathlib import Path

import numpy as np

STEPS = 12  # of Newton's method, which doubles the digits that are right


Bounds = Mapping[str, tuple[float, float]]


def coefficients(file: Path, formula: str, bounds: Bounds) -> dict[str, float]:
    """Return maximum likelihood estimates by column, each of one unit of it.

    file: a gzipped CSV. formula: `response ~ a + b`, of a yes or no and of columns of numbers.
    bounds: of each column, to which it is clamped as the service does.
    """
    response, names = (
        formula.split("~")[0].strip(),
        formula.split("~")[1].replace(" ", "").split("+"),
    )
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    y = np.array([row[response] == "yes" for row in rows], np.float64)
    columns = [np.clip([float(row[name]) for row in rows], *bounds[name]) for name in names]
    x = np.column_stack((np.ones(len(y)), *columns))
    scale = np.abs(x).max(axis=0)
    x /= scale
    theta = np.zeros(x.shape[1])
    for _ in range(STEPS):
        p = 1.0 / (1.0 + np.exp(-x @ theta))
        curvature = (x * (p * (1.0 - p))[:, None]).T @ x
        theta += np.linalg.solve(curvature, x.T @ (y - p))
    return dict(zip(["Intercept", *names], (theta / scale).tolist(), strict=True))
