"""What the figures of a job show, from released draws alone. Drawn in the browser by plots.js."""

import io
import math
from datetime import date
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.web.shown import digits, of_curve

Json = dict[str, Any]
Floats = NDArray[np.float64]
BINS, RANK_BINS = 40, 20
EPOCH = date(1970, 1, 1)
MAX_POINTS = 300  # of a trace, which is some 300 pixels wide
MAX_PAIRS = 300  # points of a scatter plot
MAX_CELLS = 2_000_000  # numbers of a chain that is fetched for its figures
MAX_PAIRED = 4  # parameters that are shown against one another unless others are chosen
MAX_DRAWN = 6  # parameters whose figures are drawn unless all are asked for


def read(parquet: bytes) -> tuple[list[str], Floats]:
    """Return a chain's parameters, and its draws: (chain, draw, parameter)."""
    from pyarrow import parquet as files  # heavy: first needed here

    table = files.read_table(io.BytesIO(parquet))
    chains = 1 + int(table["chain"][-1].as_py())
    names = [field.name for field in table.schema if field.type == "double"]
    draws = np.stack([table[name].to_numpy().reshape(chains, -1) for name in names], axis=-1)
    return names, draws


def of(names: list[str], draws: Floats, num_warmup: int) -> Json:
    """Return the figures of parameters, and of pairs of the first few. draws: as `read` does."""
    kept = draws[:, num_warmup:]
    pairs = [
        pair(names[i], names[j], kept[:, :, i].ravel(), kept[:, :, j].ravel())
        for i, j in combinations(range(min(MAX_PAIRED, len(names))), 2)
    ]
    each = {name: of_parameter(draws[:, :, k], num_warmup) for k, name in enumerate(names)}
    return {"figures": each, "pairs": pairs}


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
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    bins = (rank * RANK_BINS // max(order.size, 1)).reshape(draws.shape)
    counts = [np.bincount(row, minlength=RANK_BINS).tolist() for row in bins]
    return {"counts": counts, "level": draws.shape[1] / RANK_BINS}


def bins(found: list[Json]) -> Json:
    """Return what is drawn of the bins of a check: ends, released shares and expected ones.

    A bin with too few rows has no share.
    """
    return {
        "ends": [
            f"{100.0 * end:.3g}" for end in [found[0]["low"], *(one["high"] for one in found)]
        ],
        "shares": [one["share"] for one in found],
        "expected": [one["expected"] for one in found],
    }


def pair(x: str, y: str, first: Floats, second: Floats) -> Json:
    """Return draws of two parameters against one another. x, y: their names; both (draw,)."""
    every = max(1, -(-first.size // MAX_PAIRS))
    order = first[::every].argsort()
    points = {"x": _short(first[::every][order]), "y": _short(second[::every][order])}
    with np.errstate(invalid="ignore"):  # what does not move has no correlation
        correlation = float(np.corrcoef(first, second)[0, 1])
    finite = correlation if np.isfinite(correlation) else None
    return {"x": x, "y": y, "correlation": finite, "points": points}


def curves(found: Json, response: str, lower: float | str | None) -> list[Json]:
    """Return what is drawn of a mean response along a covariate, one of each category if there are.

    found: a curve as the API answers it. lower: the covariate's lower bound, a day for dates, whose
    values are days since then.
    """
    days = date.fromisoformat(lower) if isinstance(lower, str) else None
    at = [value + (days - EPOCH).days for value in found["at"]] if days else found["at"]
    rest = ", ".join(
        f"{name} {value if isinstance(value, str) else digits(value)}"
        for name, value in found["given"].items()
    )
    named = {f"Expected {response}": found["expected"]} if found["expected"] else {}
    named |= {f"{response} = {name}": one for name, one in (found["probabilities"] or {}).items()}
    ends = ("mean", "q05", "q95", "q25", "q75")
    return [
        {
            "band": {
                "at": at,
                "days": days is not None,
                **{end: _short(np.array([one[end] for one in spreads])) for end in ends},
            },
            "words": f"{name} along {found['covariate']}: mean, and at each point the 50 % and 90 %"
            f" interval{f'; at {rest}' if rest else ''}",
        }
        for name, spreads in named.items()
    ]


def _short(values: Floats) -> list[Any]:
    """Return numbers with five digits: what a picture shows."""
    numbers = np.asarray(values, np.float64)
    scale = np.power(10.0, 4 - np.floor(np.log10(np.maximum(np.abs(numbers), 1e-300))))
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.round(numbers * scale) / scale
    short: list[Any] = np.where(np.isfinite(rounded), rounded, numbers).tolist()
    return short


def forest(parameters: list[Json]) -> Json:
    """Return the rows of a forest plot and the ticks of its axis, places in per cent of its width.

    parameters: of a summary on the standardised scale; only coefficients can be compared, so
    intercepts, scales and what curves are made of are left out where there is anything else.
    """
    apart = ("Intercept", "log_sigma", "log_dispersion")
    shown = [
        parameter
        for parameter in parameters
        if parameter["name"].split(":")[-1] not in apart
        and not parameter["name"].startswith("sd(")
        and not of_curve(parameter["name"])
    ] or parameters
    ends = [value for parameter in shown for value in (parameter["q05"], parameter["q95"])]
    low, high = min([*ends, 0.0]), max([*ends, 0.0])
    width = (high - low) or 1.0

    def at(value: float) -> float:
        return float(round(2.0 + 96.0 * (value - low) / width, 3))

    rows = [
        {
            **parameter,
            "zero": at(0.0),
            "from": at(parameter["q05"]),
            "to": at(parameter["q95"]),
            "at": at(parameter["mean"]),
            "inner_from": at(parameter["q25"]),
            "inner_to": at(parameter["q75"]),
        }
        for parameter in shown
    ]
    ticks = [{"at": at(value), "value": value} for value in _ticks(low, high)]
    return {"rows": rows, "ticks": ticks, "apart": len(parameters) - len(shown)}


def compared(names: list[str], by_job: list[dict[str, Json]]) -> list[Json]:
    """Return the rows of a forest plot of several jobs, places in per cent of its width.

    by_job: of each job, its summary's parameters by name. A row is one parameter on a scale of its
    own, in the units that the summaries have: `bars` are of the jobs that have it, `job` says
    which; zero is left out where it is far away.
    """
    return [
        _compared(name, [{**job[name], "job": k} for k, job in enumerate(by_job) if name in job])
        for name in names
    ]


def _compared(name: str, bars: list[Json]) -> Json:
    low = min(min(bar["q05"], bar["mean"]) for bar in bars)
    high = max(max(bar["q95"], bar["mean"]) for bar in bars)
    width = (high - low) or abs(high) or 1.0
    if low - width < 0.0 < high + width:
        low, high = min(low, 0.0), max(high, 0.0)
        width = (high - low) or 1.0

    def at(value: float) -> float:
        return float(round(6.0 + 88.0 * (value - low) / width, 3))

    ends = {"from": "q05", "to": "q95", "at": "mean"}
    values = _ticks(low, low + width)
    return {
        "name": name,
        "bars": [{**bar, **{k: at(bar[v]) for k, v in ends.items()}} for bar in bars],
        "zero": at(0.0) if low <= 0.0 <= high else None,
        "ticks": [{"at": at(value), "value": value} for value in values],
        "digits": _digits(values),
    }


def _digits(values: list[float]) -> int:
    """Return how many digits that count write ticks as they are, at least 3."""
    slack = 1e-6 * (values[-1] - values[0])
    counts = range(3, 15)
    wrong = (
        max(abs(float(f"{value:.{count}g}") - value) for value in values) > slack
        for count in counts
    )
    return next((count for count, far in zip(counts, wrong, strict=True) if not far), counts[-1])


def _ticks(low: float, high: float) -> list[float]:
    """Return up to five round numbers from low to high."""
    rough = ((high - low) or 1.0) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(k * power for k in (1, 2, 2.5, 5, 10) if k * power >= rough)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
