"""Posteriors whose answer is known without privacy: what samplers are measured against.

`stored` are posteriors that others computed (Stan and NumPyro; ../shared/data/posteriors), with
their own draws. `MADE` are simulated ones of the same kind; their draws are exact: from closed
forms, from a grid over log sigma, or by rejection from a Student t around the mode. No chain is in
them. For experiments and tests only.
"""

import csv
import gzip
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import expit

from dpmcmc.families.banana import Banana, draw_posterior, simulate
from dpmcmc.families.multinomial import probabilities
from dpmcmc.fit.local import table_of
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import ModelOptions, ModelSpec, NormalPrior
from experiments import categories

RAND = Path(__file__).parent / "data"  # of the demo
SHARED = Path(os.environ.get("DPMCMC_SHARED", Path(__file__).resolve().parents[2] / "shared"))
EXACT = 12_000  # draws of a posterior that was made here
FLAT = 1000.0  # prior scale that stands for a flat prior
ROOMS = {"tight": (0.0, 0.0), "wide": (2.0, 2.0), "off-centre": (0.0, 3.0)}  # in ranges of the data
DEGREES = 8  # of freedom of the t that draws are rejected from
GRID = 4001
DISPERSION = 2.0  # of negative binomial counts


@dataclass(frozen=True)
class Posterior:
    """A job's public facts and rows, and what its draws must be like.

    draws: (n, d), independent, in the parameters that `read` makes of released ones. means, sds:
    (d,), of the posterior, as exactly as they are known.
    """

    schema: Schema
    columns: dict
    model: ModelSpec
    draws: np.ndarray
    means: np.ndarray
    sds: np.ndarray
    read: Callable = np.asarray


def number(name, values, room=(0.0, 0.0)):
    """A column whose bounds are off the values by so many of their ranges, below and above."""
    low, high = float(np.min(values)), float(np.max(values))
    return NumberColumn(
        name=name, lower=low - room[0] * (high - low), upper=high + room[1] * (high - low)
    )


def raw(draws, columns):
    """Coefficients (draw, d) of the standardised design as those of the number columns themselves.

    What stands behind the slopes is a log sd, which becomes an sd.
    """
    middle = np.array([(column.lower + column.upper) / 2 for column in columns])
    half = np.array([(column.upper - column.lower) / 2 for column in columns])
    slopes = draws[:, 1 : len(columns) + 1] / half
    intercept = draws[:, :1] - (slopes * middle).sum(axis=1, keepdims=True)
    return np.concatenate((intercept, slopes, np.exp(draws[:, len(columns) + 1 :])), axis=1)


STORED = {  # file, family, prior scale
    "adult": ("adult_logit_clip3", "logistic", 3.0),
    "powerplant": ("powerplant_linreg", "linear", 1.0),
    "kidiq": ("kidiq-kidscore_momhsiq", "linear", FLAT),
    "earnings": ("earnings-logearn_interaction_z", "linear", FLAT),
    "nes1980": ("nes1980-nes", "linear", FLAT),
    "wells": ("wells_data-wells_dist100_model", "logistic", FLAT),
}
BOUND = {"adult": 3.0}  # of columns whose rows were scaled down to this norm


def stored(name, bounds="tight", folder=SHARED):
    """A posterior that others computed. Raises FileNotFoundError where it is not there.

    Priors: those on standardised columns are ours up to terms of a hundredth of a posterior sd
    (Adult's Normal(0, 1) is Normal(0, 9) on columns within +-3; half-normal, Cauchy and flat ones
    of sigma stand against hundreds of rows); flat ones of coefficients are Normal(0, FLAT^2).
    """
    file, family, scale = STORED[name]
    found, index = (
        np.load(folder / "data" / "posteriors" / f"{file}.npz"),
        json.loads((folder / "data" / "posteriors" / "index.json").read_text()),
    )
    x, y, draws = found["X"][:, 1:], found["y"], found["draws"].astype(np.float64)
    if file in index:
        means, sds = index[file]["ref_mean"], index[file]["ref_sd"]
    else:
        known = json.loads((folder / "data" / "posteriors" / f"{file}.json").read_text())
        means, sds = known["mean"], known["sd"]
    values = {f"x{k}": column for k, column in enumerate(x.T)}
    room = ROOMS[bounds]
    facts = [
        NumberColumn(name=key, lower=-BOUND[name], upper=BOUND[name])
        if name in BOUND
        else number(key, column, room)
        for key, column in values.items()
    ]
    if family == "logistic":
        response, answers = BinaryColumn(name="y", categories=("0", "1")), np.where(y > 0, "1", "0")
    else:
        response, answers = number("y", y, room), y
    return Posterior(
        schema=Schema(columns=(*facts, response), rows=len(x)),
        columns=values | {"y": answers},
        model=ModelSpec(
            family=family, formula="y ~ " + " + ".join(values), prior=NormalPrior(scale=scale)
        ),
        draws=draws,
        means=np.array(means),
        sds=np.array(sds),
        read=partial(raw, columns=tuple(facts)),
    )


def _made(schema, columns, model, draws):
    return Posterior(schema, columns, model, draws, draws.mean(axis=0), draws.std(axis=0))


def _covariates(rng, rows):
    """Two correlated columns, the second skewed."""
    first = rng.normal(size=rows)
    return {"x0": first, "x1": np.exp(0.4 * (0.5 * first + rng.normal(size=rows)))}


def linear(bounds, known=False, rows=1000, degrees=None):
    """Linear regression with an unknown noise scale, or a known one.

    degrees: of freedom of t-distributed errors, which the model takes to be normal.
    """
    rng = np.random.default_rng(31)
    x = _covariates(rng, rows)
    errors = rng.standard_t(degrees, size=rows) if degrees else rng.normal(size=rows)
    y = 20.0 + 3.0 * x["x0"] - 4.0 * x["x1"] + 2.0 * errors
    columns, room = x | {"y": y}, ROOMS[bounds]
    schema = Schema(columns=tuple(number(k, v, room) for k, v in columns.items()), rows=rows)
    model = ModelSpec(
        family="linear",
        formula="y ~ x0 + x1",
        prior=NormalPrior(scale=100.0),
        options=ModelOptions(noise_scale=2.0 if known else None),
    )
    built = make_design(schema, model.formula).build(table_of(schema, columns))
    expected = (schema.columns[-1].upper - schema.columns[-1].lower) / 8.0
    draws = _linear_draws(*built, 100.0, 2.0 if known else None, np.log(expected), rng)
    return _made(schema, columns, model, draws)


def _linear_draws(x, y, scale, sigma, log_expected, rng):
    """Exact draws of (coefficients, log sigma) under Normal(0, scale^2), Normal(., 1.5^2)."""
    values, vectors = np.linalg.eigh(x @ x.T)
    projected = vectors.T @ (x @ y)
    if sigma is not None:
        logs = np.full(EXACT, np.log(sigma))
    else:
        residual = y - x.T @ np.linalg.lstsq(x.T, y, rcond=None)[0]
        grid = 0.5 * np.log(residual.var()) + np.linspace(-10, 10, GRID) / np.sqrt(2 * len(y))
        weight = np.exp(-2.0 * grid)[:, None]
        precision = weight * values + scale**-2
        log = -len(y) * grid - 0.5 * weight[:, 0] * (y @ y)
        log += 0.5 * ((weight * projected) ** 2 / precision - np.log(precision)).sum(axis=1)
        log -= 0.5 * ((grid - log_expected) / 1.5) ** 2
        below = np.cumsum(np.exp(log - log.max()))
        logs = np.interp(rng.random(EXACT), below / below[-1], grid)
    weight = np.exp(-2.0 * logs)[:, None]
    precision = weight * values + scale**-2
    straight = weight * projected / precision
    straight += rng.normal(size=straight.shape) / np.sqrt(precision)
    draws = straight @ vectors.T
    return draws if sigma is not None else np.column_stack((draws, logs))


def poisson(bounds):
    """Counts of two columns."""
    rng, rows = np.random.default_rng(32), 1000
    x = _covariates(rng, rows)
    y = rng.poisson(np.exp(0.8 + 0.3 * x["x0"] - 0.2 * x["x1"])).astype(float)
    columns, room = x | {"y": y}, ROOMS[bounds]
    facts = [number(k, v, room) for k, v in x.items()]
    counts = NumberColumn(name="y", lower=0.0, upper=float(y.max() * (1.0 + room[1])))
    schema = Schema(columns=(*facts, counts), rows=rows)
    model = ModelSpec(family="poisson", formula="y ~ x0 + x1", prior=NormalPrior(scale=5.0))
    x, y = make_design(schema, model.formula).build(table_of(schema, columns))
    draws = _rejected(x, y, np.exp, np.exp, np.exp, 5.0, rng)
    return _made(schema, columns, model, draws)


def logistic(bounds):
    """A binary response of a column and of a category with four levels, one of them rare."""
    rng, rows = np.random.default_rng(33), 1000
    codes = rng.choice(4, size=rows, p=(0.4, 0.3, 0.22, 0.08))
    far = np.exp(0.6 * rng.normal(size=rows))
    score = -0.6 + 0.5 * far + np.array([0.0, 0.8, -0.7, 1.0])[codes]
    answers = rng.random(rows) < 1.0 / (1.0 + np.exp(-score))
    columns = {"far": far, "group": np.array(list("abcd"))[codes]}
    columns |= {"y": np.where(answers, "1", "0")}
    schema = Schema(
        columns=(
            number("far", far, ROOMS[bounds]),
            CategoryColumn(name="group", categories=("a", "b", "c", "d")),
            BinaryColumn(name="y", categories=("0", "1")),
        ),
        rows=rows,
    )
    return _of_two("y ~ far + group", schema, columns, 10.0, rng)


def _rejected(x, y, potential, mean, information, scale, rng):
    """Exact draws (EXACT, d) of a regression's coefficients under Normal(0, scale^2).

    potential, and its first and second derivatives: log likelihood y eta - potential(eta).
    """
    mode = np.zeros(len(x))
    for _ in range(60):
        eta = mode @ x
        hessian = (x * information(eta)) @ x.T + np.eye(len(x)) / scale**2
        move = np.linalg.solve(hessian, x @ (y - mean(eta)) - mode / scale**2)
        mode += move / max(1.0, np.abs(move @ x).max())

    def log(theta):  # (draw, d)
        inside = theta @ (x @ y) - 0.5 * (theta**2).sum(axis=1) / scale**2
        return inside - np.concatenate(
            [potential(one @ x).sum(axis=1) for one in _parts(theta, len(y))]
        )

    return _around(mode, hessian, log, rng)


def _around(mode, hessian, log, rng):
    """Exact draws (EXACT, p) of a log density of positions (draw, p), by rejection from a t."""
    p, root = len(mode), np.linalg.inv(np.linalg.cholesky(hessian)).T

    def over(z):  # log density over that of the t, for z (draw, p)
        return log(mode + z @ root.T) + 0.5 * (DEGREES + p) * np.log1p((z**2).sum(axis=1) / DEGREES)

    kept, highest = [], 0.3 + over(np.zeros((1, p)))[0]
    while sum(map(len, kept)) < EXACT:
        z = rng.normal(size=(8000, p)) / np.sqrt(rng.chisquare(DEGREES, (8000, 1)) / DEGREES)
        found = over(z)
        if found.max() > highest:  # the bound was too low for what came before: begin again
            kept, highest = [], found.max() + 0.1
            continue
        kept.append(mode + z[np.log(rng.random(8000)) < found - highest] @ root.T)
    return np.concatenate(kept)[:EXACT]


def _parts(draws, rows):
    return np.array_split(draws, max(1, len(draws) * rows // 4_000_000))


def counts(bounds):
    """Forty yearly counts up to a hundred, and a cubic of the year: few rows, rates far from 1."""
    rng, rows = np.random.default_rng(11), 40
    year = (np.arange(1, rows + 1) - 20.5) / 20
    x = {"t": year, "t2": year**2, "t3": year**3}
    y = rng.poisson(np.exp(4.27 + 1.3 * year + 0.07 * year**2 - 0.95 * year**3)).astype(float)
    facts = [number(k, v, ROOMS[bounds]) for k, v in x.items()]
    top = NumberColumn(name="y", lower=0.0, upper=float(y.max() * (1.0 + ROOMS[bounds][1])))
    schema, columns = Schema(columns=(*facts, top), rows=rows), x | {"y": y}
    model = ModelSpec(family="poisson", formula="y ~ t + t2 + t3", prior=NormalPrior(scale=20.0))
    built = make_design(schema, model.formula).build(table_of(schema, columns))
    return _made(schema, columns, model, _rejected(*built, np.exp, np.exp, np.exp, 20.0, rng))


def groups(bounds):
    """Counts of eight groups whose rates lie far apart, where one step for all swings for ever."""
    rng, rows, words = np.random.default_rng(16), 800, tuple("abcdefgh")
    codes, x = rng.choice(8, rows), rng.normal(size=rows)
    y = rng.poisson(np.exp(1.9 + 0.3 * x + np.linspace(-2.6, 0.7, 8)[codes])).astype(float)
    top = NumberColumn(name="y", lower=0.0, upper=float(y.max() * (1.0 + ROOMS[bounds][1])))
    facts = (number("x", x, ROOMS[bounds]), CategoryColumn(name="g", categories=words), top)
    schema = Schema(columns=facts, rows=rows)
    columns = {"x": x, "g": np.array(words)[codes], "y": y}
    model = ModelSpec(family="poisson", formula="y ~ x + g", prior=NormalPrior(scale=5.0))
    built = make_design(schema, model.formula).build(table_of(schema, columns))
    return _made(schema, columns, model, _rejected(*built, np.exp, np.exp, np.exp, 5.0, rng))


def negative_binomial(bounds):
    """Counts of two columns that vary more than Poisson ones."""
    rng, rows = np.random.default_rng(34), 1000
    x = _covariates(rng, rows)
    rates = np.exp(0.8 + 0.3 * x["x0"] - 0.2 * x["x1"])
    y = rng.poisson(rates * rng.gamma(DISPERSION, 1.0 / DISPERSION, rows)).astype(float)
    facts = [number(k, v, ROOMS[bounds]) for k, v in x.items()]
    top = NumberColumn(name="y", lower=0.0, upper=float(y.max() * (1.0 + ROOMS[bounds][1])))
    schema, columns = Schema(columns=(*facts, top), rows=rows), x | {"y": y}
    return _of_counts("y ~ x0 + x1", schema, columns, rng)


def _of_counts(formula, schema, columns, rng):
    """The posterior of negative binomial counts under Normal(0, 5^2)."""
    model = ModelSpec(
        family="negative_binomial",
        formula=formula,
        prior=NormalPrior(scale=5.0),
        options=ModelOptions(dispersion=DISPERSION),
    )
    x, y = make_design(schema, formula).build(table_of(schema, columns))
    k, mode = DISPERSION, np.zeros(len(x))
    for _ in range(60):
        mean = np.exp(mode @ x)
        slope = k * mean * (k + y) / (k + mean) ** 2
        hessian = (x * slope) @ x.T + np.eye(len(x)) / 5.0**2
        move = np.linalg.solve(hessian, x @ (k * (y - mean) / (k + mean)) - mode / 5.0**2)
        mode += move / max(1.0, np.abs(move @ x).max())

    def log(theta):
        found = [
            ((one @ x) * y - (y + k) * np.logaddexp(np.log(k), one @ x)).sum(axis=1)
            for one in _parts(theta, len(y))
        ]
        return np.concatenate(found) - 0.5 * (theta**2).sum(axis=1) / 5.0**2

    return _made(schema, columns, model, _around(mode, hessian, log, rng))


def multinomial(bounds):
    """Three categories, of two correlated columns, one of them skewed."""
    rng, rows = np.random.default_rng(35), 1500
    x = _covariates(rng, rows)
    scores = np.stack([0.0 * x["x0"], 0.4 + 0.8 * x["x0"], -1.0 + 0.7 * x["x1"]])
    codes = (scores + rng.gumbel(size=scores.shape)).argmax(axis=0)
    facts = [number(k, v, ROOMS[bounds]) for k, v in x.items()]
    schema = Schema(
        columns=(*facts, CategoryColumn(name="y", categories=("a", "b", "c"))), rows=rows
    )
    return _of_categories("y ~ x0 + x1", schema, x | {"y": np.array(list("abc"))[codes]}, rng)


def _of_categories(formula, schema, columns, rng):
    """The posterior of a multinomial regression under Normal(0, 2.5^2)."""
    model = ModelSpec(family="multinomial", formula=formula, prior=NormalPrior(scale=2.5))
    x, y = make_design(schema, formula).build(table_of(schema, columns))
    precision = 2.5**-2
    mode, _ = categories.fitted(x, y, precision)
    _, q = probabilities(mode.reshape(-1, len(x)) @ x)
    hessian = categories.curvature(x, q) + precision * np.eye(len(mode))
    hit = (y == np.arange(1, len(q) + 1)[:, None]) @ x.T  # (class, d)

    def log(theta):
        found = theta @ hit.ravel() - 0.5 * precision * (theta**2).sum(axis=1)
        ends = []
        for one in _parts(theta, len(y) * len(q)):
            eta = one.reshape(len(one), len(q), len(x)) @ x
            top = np.maximum(eta.max(axis=1), 0.0)
            total = np.exp(-top) + np.exp(eta - top[:, None]).sum(axis=1)
            ends.append((top + np.log(total)).sum(axis=1))
        return found - np.concatenate(ends)

    return _made(schema, columns, model, _around(mode, hessian, log, rng))


def nearly_separated(bounds):
    """A binary response that a column tells but for a few rows: the prior rules the slope."""
    rng, x = np.random.default_rng(36), np.linspace(-3.0, 3.0, 400)
    answers = x + 0.15 * rng.logistic(size=400) > 0.0
    facts = number("x", x, ROOMS[bounds]), BinaryColumn(name="y", categories=("0", "1"))
    schema, columns = Schema(columns=facts, rows=400), {"x": x, "y": np.where(answers, "1", "0")}
    return _of_two("y ~ x", schema, columns, 2.5, rng)


def _of_two(formula, schema, columns, scale, rng):
    """The posterior of a logistic regression under Normal(0, scale^2)."""
    model = ModelSpec(family="logistic", formula=formula, prior=NormalPrior(scale=scale))
    x, y = make_design(schema, formula).build(table_of(schema, columns))
    draws = _rejected(
        *(x, y, lambda eta: np.logaddexp(0.0, eta), expit),
        *(lambda eta: expit(eta) * expit(-eta), scale, rng),
    )
    return _made(schema, columns, model, draws)


def rand(made, formula, *others):
    """A posterior of the RAND data, with their declared bounds. made: what makes it."""
    table = json.loads((RAND / "randhie.json").read_text())
    with gzip.open(RAND / "randhie.csv.gz", "rt") as lines:
        rows = list(csv.DictReader(lines))
    facts, columns = [], {}
    for one in table["columns"]:
        name, words = one["name"], tuple(one.get("categories", ()))
        columns[name] = np.array([row[name] for row in rows])
        if one["type"] == "number":
            facts.append(NumberColumn(name=name, lower=one["lower"], upper=one["upper"]))
            columns[name] = columns[name].astype(float)
        else:
            kind = BinaryColumn if one["type"] == "binary" else CategoryColumn
            facts.append(kind(name=name, categories=words))
    schema = Schema(columns=tuple(facts), rows=len(rows))
    return made(formula, schema, columns, *others, np.random.default_rng(37))


def years(bounds):
    """Sixty-two yearly means; off-centre, years count from 0: slope and intercept are one."""
    rng, year = np.random.default_rng(8), np.arange(1952.0, 2014.0)
    y = 9.3 + 0.02 * (year - 1980.0) + 1.1 * rng.normal(size=len(year))
    first = number("x", year, ROOMS[bounds])
    if bounds == "off-centre":
        first = NumberColumn(name="x", lower=0.0, upper=2013.0)
    schema = Schema(columns=(first, number("y", y, ROOMS[bounds])), rows=len(year))
    columns, scale = {"x": year, "y": y}, 1000.0
    model = ModelSpec(family="linear", formula="y ~ x", prior=NormalPrior(scale=scale))
    built = make_design(schema, model.formula).build(table_of(schema, columns))
    expected = (schema.columns[-1].upper - schema.columns[-1].lower) / 8.0
    draws = _linear_draws(*built, scale, None, np.log(expected), rng)
    return _made(schema, columns, model, draws)


def means(bounds):
    """The mean of three columns of known variances."""
    rng, rows, variances = np.random.default_rng(21), 1000, np.array([4.0, 1.0, 9.0])
    values = np.array([3.0, -1.0, 10.0]) + np.sqrt(variances) * rng.normal(size=(rows, 3))
    posterior = 1 / (rows / variances + 1 / 20.0**2)
    middle = posterior * values.sum(axis=0) / variances
    model = ModelSpec(
        family="gaussian_mean",
        formula="~ x0 + x1 + x2",
        prior=NormalPrior(scale=20.0),
        options=ModelOptions(variances=tuple(variances)),
    )
    draws = middle + np.sqrt(posterior) * rng.normal(size=(EXACT, 3))
    return _made(*_columns(values, bounds), model, draws)


def bananas(bounds, dimensions, tempering):
    """A banana, tempered or not."""
    rng, rows = np.random.default_rng(22), 2000
    banana = Banana(
        variances=(1.0, 0.5, 2.0)[:dimensions], a=0.6, b=0.1, m=0.2, prior_variance=100.0
    )
    values = simulate(banana, np.array([0.3, -0.2, 1.0])[:dimensions], rows, random=rng)
    model = ModelSpec(
        family="banana",
        formula="~ " + " + ".join(f"x{k}" for k in range(dimensions)),
        prior=NormalPrior(scale=10.0),
        tempering=tempering,
        options=ModelOptions(variances=banana.variances, a=banana.a, b=banana.b, m=banana.m),
    )
    draws = draw_posterior(
        banana, values.mean(axis=0), rows, EXACT, random=rng, tempering=tempering or 1.0
    )
    return _made(*_columns(values, bounds), model, draws)


def _columns(values, bounds):
    """Schema and columns of values (row, d)."""
    columns = {f"x{k}": column for k, column in enumerate(values.T)}
    facts = tuple(number(name, column, ROOMS[bounds]) for name, column in columns.items())
    return Schema(columns=facts, rows=len(values)), columns


MADE = {
    "linear": linear,
    "linear-known": partial(linear, known=True),
    "linear-small": partial(linear, rows=46),
    "linear-heavy": partial(linear, rows=3000, degrees=4),
    "poisson": poisson,
    "negative-binomial": negative_binomial,
    "multinomial": multinomial,
    "logistic": logistic,
    "nearly-separated": nearly_separated,
    "counts": counts,
    "groups": groups,
    "years": years,
    "means": means,
    "banana-2-tempered": partial(bananas, dimensions=2, tempering=0.02),
    "banana-3": partial(bananas, dimensions=3, tempering=None),
}
POSTERIORS = {
    **{f"{name}/tight": partial(stored, name) for name in STORED},
    **{
        f"{name}/{bounds}": partial(stored, name, bounds)
        for name in ("earnings", "wells")
        for bounds in ("wide", "off-centre")
    },
    **{
        f"{name}/{bounds}": partial(make, bounds) for name, make in MADE.items() for bounds in ROOMS
    },
    "rand-visit/declared": partial(rand, _of_two, "any_visit ~ chronic + income + health", 2.5),
    "rand-family/declared": partial(rand, _of_counts, "family_size ~ age + income + sex"),
    "rand-health/declared": partial(rand, _of_categories, "health ~ age + chronic + income"),
}
