"""Regressions that came after the linear ones, simulated and real, and their fits.

Nothing is given to `dpmcmc.sample` but data, bounds, a formula and a budget. The fit without
privacy is the maximum likelihood one of the same model, with sandwich sds. Of each cell: how many
results are reliable, widths over its sds, how often 90 % intervals of reliable results hold it and,
where responses were drawn from the model, the truth, and how far the worst of them lies off, in its
own sds. `python -m experiments.glms [--runs 20] [--cells NAME ...]` adds what is missing to the CSV
and writes the table into experiments/README.md; data in ../shared/data.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from scipy import optimize
from scipy.special import digamma, expit, gammaln
from scipy.stats import poisson

from dpmcmc import CategoryColumn, ModelSpec, NumberColumn, Schema, sample
from experiments import ordered
from experiments.baselines import DELTA
from experiments.calibration import LEVEL, code_version
from experiments.real_data import CRASH, HEALTH, HOUSE, ILL, PUPIL, RIDES, WAGE, made, read
from experiments.reporting import add_missing, rows_of, table_of_cells

EPSILONS = (0.5, 1.0, 2.0, 4.0)
COLUMNS = (
    "cell", "rows", "coefficients", "epsilon", "runs", "reliable", "width", "held", "least_held",
    "truth", "worst", "code",
)  # fmt: skip
HERE = Path(__file__).parent
DATA, TABLE = HERE / "data" / "glms.csv", HERE / "README.md"
BEGIN, END = "<!-- glms: begin -->", "<!-- glms: end -->"
EFFECTS = np.array([0.6, -1.0, -0.5, 0.5])
LEFT = {
    "gamma": "y",
    "binomial": "y | trials(n)",
    "exponential": "surv(y, n)",
    "weibull": "surv(y, n)",
    "ordinal": "y",
    "negative_binomial": "y",
    "beta": "y",
    "hurdle_poisson": "y",
}
# intercepts, or cuts
FIRST = {
    "gamma": (2.0,),
    "binomial": (-1.0,),
    "exponential": (-2.0,),
    "weibull": (2.0,),
    "ordinal": (-2.0, -0.5, 0.5, 2.5),
    "negative_binomial": (0.5,),
    "beta": (-1.0,),
    "hurdle_poisson": (0.7,),
}
ZEROS = np.array([-0.3, -0.5, 0.9, 0.4, -0.6])  # log odds of a zero
SHAPE = 1.5  # of times; of what counts' means vary by
PRECISION = 8.0  # of shares
# logs of scales
LAST = {
    "weibull": -np.log(SHAPE),
    "negative_binomial": np.log(SHAPE),
    "beta": np.log(PRECISION),
}
STEP = 1e-5  # of a derivative
ENDS = {  # of the response and of what stands beside it
    "gamma": ((0.01, 100.0), None),
    "binomial": ((0.0, 20.0), (1.0, 20.0)),
    "exponential": ((0.01, 20.0), (0.0, 1.0)),
    "weibull": ((0.01, 20.0), (0.0, 1.0)),
    "ordinal": ((0.0, 4.0), None),
    "negative_binomial": ((0.0, 200.0), None),
    "beta": ((0.0001, 0.9999), None),
    "hurdle_poisson": ((0.0, 60.0), None),
}
SIMULATED = {f"{family} {rows}": (family, rows) for family in LEFT for rows in (2000, 20_000)}


def fitted(family, x, y, beside):
    """Return the maximum likelihood fit (d,) and its sandwich sds; with a log scale behind it."""
    if family == "weibull":
        return of_times(x, np.log(y), beside)
    if family == "ordinal":
        theta = ordered.fitted(x, y)[0]
        scores, whole = ordered.told(x, y, theta)
        back = np.linalg.inv(whole)
        return theta, np.sqrt(np.diag(back @ scores.T @ scores @ back))
    if family == "negative_binomial":
        return of_counts(x, y)
    if family == "beta":
        return of_shares(x, y)
    if family == "hurdle_poisson":
        return of_zeros(x, y)
    theta = np.zeros(len(x))
    if family == "gamma":
        theta[0] = np.log(y.mean())
    elif family == "exponential":
        theta[0] = np.log(max(beside.sum(), 1.0) / y.sum())
    for _ in range(60):
        eta = np.clip(theta @ x, -30.0, 30.0)
        if family == "gamma":
            slope = y * np.exp(-eta)
            psi = slope - 1.0
        elif family == "binomial":
            p = 1.0 / (1.0 + np.exp(-eta))
            psi, slope = y - beside * p, beside * p * (1.0 - p)
        else:
            slope = y * np.exp(eta)
            psi = beside - slope
        back = np.linalg.inv((x * slope) @ x.T)
        step = back @ (x @ psi)
        theta = theta + step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-12))
    scores = x * psi
    return theta, np.sqrt(np.diag(back @ scores @ scores.T @ back))


def of_times(x, logs, event):
    """Return the Weibull fit (d + 1,) of logs of times, and its sandwich sds."""

    def parts(theta):
        z = np.clip((logs - theta[:-1] @ x) * np.exp(-theta[-1]), -50.0, 50.0)
        off = np.exp(z) - event
        return z, off, np.vstack((x * off * np.exp(-theta[-1]), z * off - event))

    def minus(theta):
        z, off, scores = parts(theta)
        return np.sum(off + event - event * (z - theta[-1])), -scores.sum(axis=1)

    start = np.append(np.zeros(len(x)), 0.0)
    start[0] = np.log(np.exp(logs).sum() / max(event.sum(), 1.0))
    theta = optimize.minimize(minus, start, jac=True, method="BFGS", options={"gtol": 1e-6}).x
    z, off, scores = parts(theta)
    sd, u = np.exp(theta[-1]), off + event
    slope = np.empty((len(theta), len(theta)))
    slope[:-1, :-1] = (x * u) @ x.T / sd**2
    slope[-1, :-1] = slope[:-1, -1] = x @ (off + z * u) / sd
    slope[-1, -1] = np.sum(z * off + z * z * u)
    back = np.linalg.inv(slope)
    return theta, np.sqrt(np.diag(back @ scores @ scores.T @ back))


def of_counts(x, y):
    """Return the negative binomial fit (d + 1,), log k last, and its sandwich sds."""

    def scores(theta):
        k, mean = np.exp(theta[-1]), np.exp(theta[:-1] @ x)
        off = k * (y - mean) / (k + mean)
        return np.vstack((x * off, k * (digamma(y + k) - digamma(k) - np.log1p(mean / k)) - off))

    def minus(theta):
        k, eta = np.exp(theta[-1]), theta[:-1] @ x
        logs = gammaln(y + k) - gammaln(k) + k * theta[-1] - (k + y) * np.log(k + np.exp(eta))
        return -np.sum(logs + y * eta), -scores(theta).sum(axis=1)

    start = np.zeros(len(x) + 1)
    start[0] = np.log(y.mean())
    return by_scores(minus, scores, start)


def of_shares(x, y):
    """Return the beta fit (d + 1,), log phi last, and its sandwich sds."""

    def parts(theta):
        phi, mean = np.exp(theta[-1]), expit(theta[:-1] @ x)
        a, b = mean * phi, (1.0 - mean) * phi
        return phi, mean, a, b, np.log(y) - digamma(a), np.log1p(-y) - digamma(b)

    def scores(theta):
        phi, mean, _, _, over, under = parts(theta)
        last = phi * (mean * over + (1.0 - mean) * under + digamma(phi))
        return np.vstack((x * (phi * mean * (1.0 - mean) * (over - under)), last))

    def minus(theta):
        phi, _, a, b, _, _ = parts(theta)
        logs = gammaln(phi) - gammaln(a) - gammaln(b)
        logs += (a - 1.0) * np.log(y) + (b - 1.0) * np.log1p(-y)
        return -np.sum(logs), -scores(theta).sum(axis=1)

    start = np.zeros(len(x) + 1)
    start[0], start[-1] = np.log(y.mean() / (1.0 - y.mean())), 1.0
    return by_scores(minus, scores, start)


def of_zeros(x, y):
    """Return the hurdle fit (2 d,), log odds of a zero last, and its sandwich sds."""
    d, above = len(x), y > 0.0

    def parts(theta):
        eta, odds = theta[:d] @ x, theta[d:] @ x
        rate = np.exp(eta)
        return eta, rate, -rate / np.expm1(-rate), odds

    def scores(theta):
        _, _, mean, odds = parts(theta)
        return np.vstack((x * (above * (y - mean)), x * (~above - expit(odds))))

    def minus(theta):
        eta, rate, _, odds = parts(theta)
        counts = y * eta - rate - np.log(-np.expm1(-rate))
        logs = np.where(above, counts - np.logaddexp(0.0, odds), -np.logaddexp(0.0, -odds))
        return -np.sum(logs), -scores(theta).sum(axis=1)

    start = np.zeros(2 * d)
    start[0] = np.log(y[above].mean())
    return by_scores(minus, scores, start)


def by_scores(minus, scores, start):
    """Return where minus the log likelihood is least, and sandwich sds."""
    theta = optimize.minimize(minus, start, jac=True, method="BFGS", options={"gtol": 1e-5}).x
    for _ in range(3):
        moves = STEP * np.eye(len(theta))
        slope = np.array(
            [(scores(theta - m) - scores(theta + m)).sum(axis=1) / (2.0 * STEP) for m in moves]
        )
        back, own = np.linalg.inv(0.5 * (slope + slope.T)), scores(theta)
        theta = theta + back @ own.sum(axis=1)
    return theta, np.sqrt(np.diag(back @ own @ own.T @ back))


def drawn(family, eta, rng):
    """Return responses and what stands beside them, by the model."""
    n, (low, high) = len(eta), ENDS[family][0]
    if family == "hurdle_poisson":  # quantiles of counts above 0
        none = np.exp(-np.exp(eta))
        share = none + (1.0 - none) * rng.random(n)
        return np.clip(poisson.ppf(share, np.exp(eta)), 1.0, high), None
    if family == "gamma":
        return np.clip(np.exp(eta) * rng.gamma(2.0, 0.5, n), low, high), None
    if family == "negative_binomial":
        return np.clip(rng.poisson(np.exp(eta) * rng.gamma(SHAPE, 1.0 / SHAPE, n)), low, high), None
    if family == "beta":
        mean = expit(eta)
        return np.clip(rng.beta(mean * PRECISION, (1.0 - mean) * PRECISION), low, high), None
    if family == "binomial":
        trials = rng.integers(1, 21, n)
        return rng.binomial(trials, 1.0 / (1.0 + np.exp(-eta))) * 1.0, trials * 1.0
    if family == "weibull":
        time = rng.exponential(size=n) ** (1.0 / SHAPE) * np.exp(eta)
    else:
        time = rng.exponential(size=n) * np.exp(-eta)
    last = rng.uniform(2.0, 20.0, n)
    return np.clip(np.minimum(time, last), low, high), (time <= last) * 1.0


def simulated(name, rng):
    """Return (family, x, y, beside, ends, truth) of a cell."""
    family, n = SIMULATED[name]
    a, b, g = rng.uniform(-1, 1, n), np.clip(0.3 * rng.normal(size=n), -1, 1), rng.integers(0, 3, n)
    x, truth = np.stack([np.ones(n), a, b, g == 1, g == 2]), np.append(FIRST[family], EFFECTS)
    if family == "ordinal":
        return family, x, ordered.drawn(x, truth, rng), None, ENDS[family], truth
    whole = np.append(truth, LAST[family]) if family in LAST else truth
    if family == "hurdle_poisson":
        above = rng.random(n) >= expit(ZEROS @ x)
        y = drawn(family, truth @ x, rng)[0] * above
        return family, x, y, None, ENDS[family], np.append(truth, ZEROS)
    return family, x, *drawn(family, truth @ x, rng), ENDS[family], whole


def rides():
    """Rides of people without a subscription, among all of an hour: far from independent."""
    case, known = (
        made("linear", "datasets", "bike_hour", "casual", RIDES, (0.0, 400.0)),
        read("datasets", "bike_hour"),
    )
    return "binomial", case.x, case.y, known["cnt"].astype(float), ((0.0, 400.0), (1.0, 1000.0))


def leaving():
    """Grades until a pupil of STAR leaves the study; those of the last grade are censored."""
    known = read("panels", "star")
    grade = np.array(["K", "1", "2", "3"])
    at = np.argmax(known["gr"] == grade[:, None], axis=0)
    order = np.lexsort((at, known["id"]))
    ids = known["id"][order]
    first = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
    last = np.append(first[1:], len(ids)) - 1
    start, end = at[order][first], at[order][last]
    told = {key: values[order][first] for key, values in known.items()}
    words = {key: how for key, how in PUPIL.items() if isinstance(how, str)}
    there = ~np.any(
        [told[key] == "" for key in words] + [told[key] == "NA" for key in words], axis=0
    )
    x = [(told[key] == how) * 1.0 for key, how in words.items()]
    x = np.vstack([np.ones(len(first)), *x])[:, there]
    return (
        "exponential", x, (end - start + 1.0)[there], (end < 3)[there] * 1.0,
        ((0.5, 4.0), (0.0, 1.0)),
    )  # fmt: skip


def above(folder, name, response, columns, ends):
    """Return a cell of a number above 0."""
    case = made("linear", folder, name, response, columns, ends)
    return "gamma", case.x, case.y, None, (ends, None)


def counted(folder, name, response, columns, most, family="negative_binomial"):
    """Return a cell of counts."""
    case = made("linear", folder, name, response, columns, (0.0, most))
    return family, case.x, case.y, None, ((0.0, most), None)


def food():
    """Shares of food in the expenditure of a household."""
    case = made(
        "linear", "real", "vietnamh",
        lambda k: np.exp(k["lnrlfood"].astype(float) - k["lntotal"].astype(float)), HOUSE,
        (0.01, 0.99),
    )  # fmt: skip
    return "beta", case.x, case.y, None, ((0.01, 0.99), None)


def in_order(name, response, columns, most, when=None):
    """Return a cell of ordered categories, numbered from 0 to most."""
    case = made("linear", "real", name, response, columns, (0.0, most), when)
    return "ordinal", case.x, case.y, None, ((0.0, most), None)


def injuries():
    """Injuries in crashes: none, possible, slight, incapacitating, fatal."""
    told = ["0.0", "1.0", "2.0", "3.0", "4.0"]
    return in_order(
        "nasscds", "injSeverity", CRASH, 4.0, lambda known: np.isin(known["injSeverity"], told)
    )


def health():
    """Self-rated health: poor, fair, good, excellent; up to five years of the same people."""

    def rated(known):
        poor, fair, good = (known[key] == "1" for key in ("hlthp", "hlthf", "hlthg"))
        return np.select([poor, fair, good], [0.0, 1.0, 2.0], 3.0)

    rest = {key: how for key, how in HEALTH.items() if key not in ("hlthg", "hlthf")}
    return in_order("randhie", rated, rest, 3.0)


FOUND = {
    "wages": lambda: above("real", "cps1988", "wage", WAGE, (50.0, 5000.0)),
    "expenditure": lambda: above(
        "real", "vietnamh", lambda k: np.exp(k["lntotal"].astype(float)) / 1000.0, HOUSE,
        (0.5, 300.0),
    ),
    "casual rides": rides,
    "leaving a study": leaving,
    "leaving, weibull": lambda: ("weibull", *leaving()[1:]),
    "injuries": injuries,
    "health": health,
    "food": food,
    "rides": lambda: counted("datasets", "bike_hour", "cnt", RIDES, 1000.0),
    "pharmacy": lambda: counted("real", "vietnami", "pharvis", ILL, 40.0),
    "doctor visits": lambda: counted("real", "randhie", "mdvis", HEALTH, 80.0),
    "visits, hurdle": lambda: counted(
        "real", "randhie", "mdvis", HEALTH, 80.0, "hurdle_poisson"
    ),
    "illness, hurdle": lambda: counted(
        "real", "vietnami", "illness", ILL, 10.0, "hurdle_poisson"
    ),
    "pharmacy, hurdle": lambda: counted(
        "real", "vietnami", "pharvis", ILL, 40.0, "hurdle_poisson"
    ),
}  # fmt: skip


def declared(family, x, y, beside, ends):
    """Return (columns, schema, formula)."""
    names = [f"x{k}" for k in range(1, len(x))]
    words = [set(np.unique(row)) <= {0.0, 1.0} for row in x[1:]]
    facts = [
        CategoryColumn(name=name, categories=("0", "1"))
        if word
        else NumberColumn(name=name, lower=-1.0, upper=1.0)
        for name, word in zip(names, words, strict=True)
    ]
    columns = {
        name: np.where(row > 0.5, "1", "0") if word else row
        for name, row, word in zip(names, x[1:], words, strict=True)
    }
    if family == "ordinal":
        words = tuple(str(k) for k in range(int(ends[0][1]) + 1))
        facts.append(CategoryColumn(name="y", categories=words))
        columns["y"] = np.array(words)[y.astype(int)]
    else:
        facts.append(NumberColumn(name="y", lower=ends[0][0], upper=ends[0][1]))
        columns["y"] = y
    if beside is not None:
        facts.append(NumberColumn(name="n", lower=ends[1][0], upper=ends[1][1]))
        columns["n"] = beside
    formula = f"{LEFT[family]} ~ {' + '.join(names)}"
    return columns, Schema(columns=tuple(facts), rows=len(y)), formula


def measured(name, epsilon, runs):
    """One row of the CSV. The noise is the system's: no two calls agree."""
    found, case, truth = [], None, None
    for run in range(runs):
        if name in SIMULATED:
            *case, truth = simulated(name, np.random.default_rng([9, run]))
            fit = fitted(*case[:4])
        elif case is None:
            case = FOUND[name]()
            fit = fitted(*case[:4])
        (theta, sds), (columns, schema, formula) = fit, declared(*case)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = sample(
                columns, schema=schema, model=ModelSpec(family=case[0], formula=formula),
                epsilon=epsilon, delta=DELTA, accept_low_quality=True,
            )  # fmt: skip
        draws = result.on("design")
        draws = draws.reshape(-1, draws.shape[-1])[:, : len(theta)]
        low, high = np.quantile(draws, LEVEL, axis=0)
        off = np.abs(draws.mean(axis=0) - theta) / draws.std(axis=0)
        held = (low < theta) & (theta < high)
        right = held if truth is None else (low < truth) & (truth < high)
        if result.verdict.status == "reliable":
            found.append((draws.std(axis=0) / sds, held, right, off))
    row = {
        "cell": name, "rows": len(case[2]), "coefficients": len(theta), "epsilon": epsilon,
        "runs": runs, "reliable": len(found), "code": code_version(),
    }  # fmt: skip
    if found:
        width, held, right, off = (np.array(part) for part in zip(*found, strict=True))
        row |= {
            "width": round(float(np.median(width)), 3),
            "held": round(float(held.mean()), 3),
            "least_held": round(float(held.mean(axis=0).min()), 3),
            "truth": "" if truth is None else round(float(right.mean()), 3),
            "worst": round(float(off.max()), 2),
        }
    return row


def main(words=None):
    """Add what is missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--cells", nargs="*", default=[*SIMULATED, *FOUND])
    parser.add_argument("--output", type=Path, default=DATA, help="the CSV; rows in it are kept")
    choice = parser.parse_args(words)

    def run(name, epsilon):
        return [measured(name, epsilon, choice.runs)]

    for row in add_missing(choice.output, COLUMNS, choice.cells, EPSILONS, run):
        print(" ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    if choice.output == DATA:
        head, rest = TABLE.read_text().split(BEGIN)
        whole = (
            head
            + BEGIN
            + "\n"
            + table_of_cells(rows_of(DATA), EPSILONS)
            + "\n"
            + END
            + rest.split(END)[1]
        )
        TABLE.write_text(whole)


if __name__ == "__main__":
    main()
