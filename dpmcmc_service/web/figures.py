"""What the figures of a job show, from released draws alone. Drawn in the browser by plots.js."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Json = dict[str, Any]
Floats = NDArray[np.float64]
BINS, RANK_BINS = 40, 20
MAX_POINTS = 400  # of a trace, which is some 300 pixels wide
MAX_PAIRS = 300  # points of a scatter plot
MAX_CELLS = 2_000_000  # numbers of a chain that is fetched for its figures
MAX_DRAWN = 12  # parameters whose figures are drawn unless all are asked for


def of_parameter(draws: Floats, num_warmup: int) -> Json:
    """Return trace, density and ranks of one parameter. draws: (chain, draw), warm-up included."""
    kept = draws[:, num_warmup:]
    return {
        "trace": trace(draws, num_warmup),
        "density": density(kept.ravel()),
        "ranks": ranks(kept),
    }


def trace(draws: Floats, num_warmup: int) -> Json:
    """Return every k-th draw of each chain, so that there are at most MAX_POINTS."""
    every = max(1, -(-draws.shape[1] // MAX_POINTS))
    return {
        "at": list(range(0, draws.shape[1], every)),
        "chains": _short(draws[:, ::every]),
        "warmup": num_warmup,
    }


def density(values: Floats) -> Json:
    """Return a histogram as a density: middles of bins, and heights."""
    heights, edges = np.histogram(values, BINS, density=True)
    return {"at": _short(0.5 * (edges[1:] + edges[:-1])), "heights": _short(heights)}


def ranks(draws: Floats) -> Json:
    """Return how many ranks of each chain lie in each bin: level bins are chains that agree.

    Source: Vehtari et al. 2021, section 4.3.
    """
    order = draws.ravel().argsort(kind="stable")
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    bins = (place * RANK_BINS // max(order.size, 1)).reshape(draws.shape)
    counts = [np.bincount(row, minlength=RANK_BINS).tolist() for row in bins]
    return {"counts": counts, "level": draws.shape[1] / RANK_BINS}


def pair(first: Floats, second: Floats) -> Json:
    """Return points of two parameters, each a draw; both (draw,)."""
    every = max(1, -(-first.size // MAX_PAIRS))
    order = first[::every].argsort()
    return {"x": _short(first[::every][order]), "y": _short(second[::every][order])}


def _short(values: Floats) -> list[Any]:
    """Return numbers with five digits: what a picture shows."""
    found = np.asarray(values, np.float64)
    scale = np.power(10.0, 4 - np.floor(np.log10(np.maximum(np.abs(found), 1e-300))))
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.round(found * scale) / scale
    short: list[Any] = np.where(np.isfinite(rounded), rounded, found).tolist()
    return short


def forest(parameters: list[Json]) -> list[Json]:
    """Return intervals in parts of the width of a forest plot, zero where it is inside.

    parameters: of a summary on the standardised scale; the intercept is left out.
    """
    shown = [one for one in parameters if one["name"] != "Intercept"] or parameters
    ends = [value for one in shown for value in (one["q05"], one["q95"])]
    low, high = min([*ends, 0.0]), max([*ends, 0.0])
    width = (high - low) or 1.0

    def at(value: float) -> float:
        return float(round(2.0 + 96.0 * (value - low) / width, 3))

    return [
        {
            **one,
            "zero": at(0.0),
            "from": at(one["q05"]),
            "to": at(one["q95"]),
            "at": at(one["mean"]),
            "inner_from": at(one["q25"]),
            "inner_to": at(one["q75"]),
        }
        for one in shown
    ]
