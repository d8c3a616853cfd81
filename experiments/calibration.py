"""Whether released intervals hold the truth: coverage and width of `noisy_quadratic`.

Responses are simulated from a known model, over real covariates (../shared/data, where they
are) and simulated ones, so that the truth is known. For each cell: coverage of 90 % intervals, of
the worst coefficient too, width over the non-private posterior's, and how often the release calls
itself unreliable. `python -m experiments.calibration [--quick] [--runs 40] [--cells NAME ...]`.
"""

import argparse
import csv
import gzip
import hashlib
import math
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from matplotlib import pyplot as plt

import dpmcmc
from dpmcmc.families import MODELS
from dpmcmc.families.assumptions import Assumptions
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.inputs.spec import ModelOptions
from dpmcmc.privacy import accountant
from dpmcmc.releases import prior_conflict
from dpmcmc.releases.base import Facts
from dpmcmc.releases.design_rows import HeldRows
from dpmcmc.releases.noisy_quadratic import Rows, released, sd_inflation, usual_far
from dpmcmc.releases.quadratic_verdict import verdict
from experiments import categories
from experiments.baselines import DELTA, estimates
from experiments.posteriors import SHARED
from experiments.reporting import COLOURS, add_row, rows_of
from tests.sources import Seeded

DISPERSION = 2.0  # of negative binomial counts
FAMILIES = {
    name: family
    for name, model in MODELS.items()
    if (family := model.rows(ModelOptions(dispersion=DISPERSION))) is not None
    and name
    not in ("student_t", "gamma", "binomial", "exponential", "weibull", "ordinal")  # see glms
}
COUNTS = ("poisson", "negative_binomial")
DRAWS, LEVEL = 4000, (0.05, 0.95)
PRIOR_SD = 2.5  # of coefficients of columns within [-1, 1], as by default,
WIDE_SD = 100.0  # or where the truth lies beyond two of those: who knows so asks for a wider prior
EPSILONS = (0.5, 1.0, 2.0, 4.0, 10.0)
COLUMNS = (
    "cell", "family", "rows", "coefficients", "epsilon", "runs", "domain", "coverage", "worst",
    "width", "widest", "announced", "rms", "unreliable", "coverage_reliable", "seconds", "distance",
    "newton", "newton_coverage", "adassp", "objective", "code",
)  # fmt: skip
HERE = Path(__file__).parent / "data"
OUTPUTS = {"robust": HERE / "calibration.csv", "model": HERE / "calibration_model.csv"}
COMPARED = 10  # runs in which simpler estimators stand beside, on the real covariates
DOMAIN = 100.0  # n mu^2 over the number of coefficients, from which a release is to be reliable


@cache  # of the code that was read, whatever becomes of the files
def code_version():
    """Return what names the code of the release, so that rows of different code are told apart."""
    digest = hashlib.sha256()
    for folder in ("families", "models", "releases"):
        for path in sorted((Path(dpmcmc.__file__).parent / folder).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:10]


@dataclass(frozen=True)
class Case:
    """Covariates (d, n) within [-1, 1], the truth (p,), and the declared ends of the response.

    y: the response as it was, where it is a real one. dispersion: of negative binomial counts.
    """

    family: str
    x: np.ndarray
    theta: np.ndarray
    sd: float
    ends: tuple
    y: np.ndarray | None = None
    dispersion: float = DISPERSION

    def simulated(self, rng):
        if self.family == "multinomial":
            return categories.drawn(self.x, self.theta, rng)
        eta = self.theta @ self.x
        if self.family == "logistic":
            return (rng.random(len(eta)) < 1.0 / (1.0 + np.exp(-eta))) * 1.0
        if self.family in COUNTS:
            mean = np.exp(np.minimum(eta, 15.0))
            if self.family == "negative_binomial":
                mean = mean * rng.gamma(self.dispersion, 1.0 / self.dispersion, len(mean))
            return np.clip(rng.poisson(mean), *self.ends) * 1.0
        return np.clip(eta + self.sd * rng.standard_normal(len(eta)), *self.ends)


def fitted(family, x, y, dispersion=DISPERSION):
    """Return estimate, sds and residual sd without privacy."""
    if family == "multinomial":
        return *categories.fitted(x, y), 1.0
    theta = np.linalg.lstsq(x.T, np.log(y + 0.5), rcond=None)[0] if family in COUNTS else 0.0
    if family == "linear":
        theta = np.linalg.lstsq(x.T, y, rcond=None)[0]
        sd = math.sqrt(((y - theta @ x) ** 2).sum() / (len(y) - len(x)))
        return theta, np.sqrt(np.diag(np.linalg.inv(x @ x.T))) * sd, sd
    theta = np.zeros(len(x)) + theta
    for _ in range(30):
        eta = theta @ x
        mean = np.exp(np.minimum(eta, 30.0)) if family in COUNTS else 1.0 / (1.0 + np.exp(-eta))
        slope = mean if family in COUNTS else mean * (1.0 - mean)
        gain = dispersion / (dispersion + mean) if family == "negative_binomial" else 1.0
        precision = (x * slope * gain) @ x.T + 1e-9 * np.eye(len(x))
        theta = theta + np.linalg.solve(precision, x @ (gain * (y - mean)))
    return theta, np.sqrt(np.diag(np.linalg.inv(precision))), 1.0


def read(name):
    with gzip.open(SHARED / "data" / "datasets" / name, "rt") as lines:
        rows = list(csv.DictReader(lines))
    return {key: np.array([row[key] for row in rows]) for key in rows[0]}


def scaled(values, low=None, high=None):
    values = values.astype(float)
    low, high = values.min() if low is None else low, values.max() if high is None else high
    return np.clip((values - 0.5 * (low + high)) / (0.5 * (high - low)), -1.0, 1.0)


def designed(columns):
    return np.vstack([np.ones(len(columns[0])), *columns])


def real(family, x, y, ends):
    theta, _, sd = fitted(family, x, y)
    return Case(family, x, theta, sd, ends, y)


def adult():
    known = read("adult.csv.gz")
    bounds = (("age", 17, 90), ("education_num", 1, 16), ("hours_per_week", 1, 99))
    words = (("sex", "Male"), ("marital_status", "Married-civ-spouse"), ("race", "White"))
    columns = [scaled(known[name], *ends) for name, *ends in bounds]
    columns += [(known[name] == word) * 1.0 for name, word in words]
    return real("logistic", designed(columns), (known["income"] == ">50K") * 1.0, (0.0, 1.0))


def adult_categories(answers):
    known = read("adult.csv.gz")
    bounds = (("age", 17, 90), ("education_num", 1, 16), ("hours_per_week", 1, 99))
    columns = [scaled(known[name], *ends) for name, *ends in bounds]
    x, y = designed([*columns, (known["sex"] == "Male") * 1.0]), answers(known)
    return real("multinomial", x, y, (0.0, y.max()))


def season():
    known = read("bike_hour.csv.gz")
    columns = [scaled(known[name], 0, 1) for name in ("temp", "hum", "windspeed")]
    columns += [known["workingday"].astype(float), scaled(known["cnt"], 0, 1000)]
    return real("multinomial", designed(columns), known["season"].astype(float) - 1.0, (0.0, 3.0))


def powerplant():
    known = read("powerplant.csv.gz")
    y = known["PE"].astype(float)
    x = designed([scaled(known[name]) for name in ("AT", "V", "AP", "RH")])
    return real("linear", x, y, (y.min(), y.max()))


def bike():
    known = read("bike_hour.csv.gz")
    columns = [scaled(known[name], 0, 1) for name in ("temp", "hum", "windspeed")]
    columns += [known[name].astype(float) for name in ("workingday", "yr")]
    return real("poisson", designed(columns), known["cnt"].astype(float), (0.0, 1000.0))


def air():
    known = {
        name: values.astype(float) for name, values in read("airquality_thesis003.csv.gz").items()
    }
    names = ["PT08_S1_CO", "NMHC_GT", "C6H6_GT", "PT08_S2_NMHC", "NOx_GT", "PT08_S3_NOx", "NO2_GT"]
    whole = np.all([known[name] > -200 for name in [*names, "CO_GT"]], axis=0)
    y = known["CO_GT"][whole]
    x = designed([scaled(known[name][whole]) for name in names])
    return real("linear", x, y, (y.min(), y.max()))


def columns_of(kind, count, n, rng):
    if kind == "correlated":
        return np.clip(
            (0.9 * rng.normal(size=(1, n)) + 0.45 * rng.normal(size=(count, n))) / 3.5, -1, 1
        )
    if kind == "skewed":
        return 2.0 * np.minimum(rng.exponential(size=(count, n)) / 10.0, 1.0) - 1.0
    if kind == "heavy":
        return np.clip(rng.standard_t(3, (count, n)) / 20.0, -1, 1)
    if kind == "rare":
        return (rng.random((count, n)) < np.geomspace(0.02, 0.3, count)[:, None]) * 1.0
    return rng.uniform(-1, 1, (count, n)) * (0.2 if kind == "wide" else 1.0)


def simulated(kind, family, n, d):
    """Covariates of one kind; coefficients that move a predictor by about one in all."""
    rng = np.random.default_rng(n + 7 * d)
    columns = columns_of(kind, d - 1, n, rng)
    size = np.minimum(1.0 / (np.sqrt(d - 1.0) * np.maximum(columns.std(axis=1), 0.02)), 3.0)
    theta = np.concatenate(
        ([0.0], rng.choice([-1.0, 1.0], d - 1) * size * rng.uniform(0.3, 1, d - 1))
    )
    x = designed(list(columns))
    if family == "multinomial":
        other = np.concatenate(([-0.5], rng.permuted(theta[1:])))
        return Case(
            family, designed(list(columns)), np.concatenate((theta, other)), 1.0, (0.0, 2.0)
        )
    theta[0] = {"logistic": -1.0, "linear": 2.0}.get(family, 1.0) - float((theta @ x).mean())
    eta = theta @ x
    room = 5.0 if kind == "wide" else 1.0
    ends = {
        "logistic": (0.0, 1.0),
        "linear": (
            2.0 - room * np.abs(eta - 2.0).max() - 4.0,
            2.0 + room * np.abs(eta - 2.0).max() + 4.0,
        ),
    }.get(family, (0.0, room * 200.0))
    return Case(family, x, theta, 1.0, ends)


REAL = {
    "adult": adult,
    "powerplant": powerplant,
    "bike": bike,
    "air": air,
    "marital": lambda: adult_categories(categories.marital),
    "occupation": lambda: adult_categories(categories.occupation),
    "workclass": lambda: adult_categories(categories.workclass),
    "season": season,
}
SIZES = ((500, 2), (2000, 4), (20_000, 10), (100_000, 50))
KINDS = ("plain", "correlated", "skewed", "heavy", "rare", "wide")
SIMULATED = {
    f"{kind}-{family}-{n}x{d}": (kind, family, n, d)
    for n, d in SIZES
    for family in FAMILIES
    for kind in KINDS
}
LARGE = {f"plain-{family}-1000000x20": ("plain", family, 1_000_000, 20) for family in FAMILIES}


def one(case, y, mu, random, estimand="robust"):
    """Return draws (DRAWS, p) in the units of the response, and whether they may be believed."""
    d, linear = len(case.theta), case.family == "linear"
    unit = (case.ends[1] - case.ends[0]) / 8.0 if linear else 1.0
    middle = 0.5 * (case.ends[0] + case.ends[1]) / unit if linear else 0.0
    start = np.append(middle, np.zeros(d - 1))
    if case.family in COUNTS:
        start[0] = np.log(np.array(case.ends) + 0.5).mean()
    mean = np.append(start, 0.0) if linear else start
    sd = PRIOR_SD if np.abs(case.theta - mean[:d]).max() <= 2.0 * PRIOR_SD else WIDE_SD
    prior = np.append(np.full(d, 8.0**-2), 1.5**-2) if linear else np.full(d, sd**-2.0)
    counts = case.family == "negative_binomial"
    options = ModelOptions(dispersion=case.dispersion if counts else None)
    family = MODELS[case.family].rows(options)
    told = family, HeldRows(case.x, y / unit), start, mean, prior, 1.0
    declared = np.isin(case.x, (0.0, 1.0)).all(axis=1)  # such columns are declared as categories
    rows = Rows(
        *told, fixed=False, classes=d // len(case.x), indicators=declared, intercept=True,
        ends=(case.ends[0] / unit, case.ends[1] / unit), box=box_of(case.x),
    )  # fmt: skip
    options = NoisyQuadraticOptions(num_far=usual_far(case.family), estimand=estimand)
    found = released(rows, math.sqrt(len(case.x)), options, 1.0 / mu, random)
    draws = found.posterior(mean, prior, random).draws(1, DRAWS, random)[0]
    draws[:, :d] *= unit
    draws[:, d:] += math.log(unit)
    judged = verdict(found, None if linear else (mean, prior))
    return draws, judged.reliable and not prior_conflict.pulls(found, mean, prior)[0].any()


def box_of(x):
    """Declared bounds (d,) of covariates: an intercept, categories, numbers."""
    low = np.where(np.isin(x, (0.0, 1.0)).all(axis=1), 0.0, -1.0)
    low[(x == 1.0).all(axis=1)] = 1.0
    return low, np.ones(len(x))


def measured(name, case, epsilon, runs, seed, estimand="model"):
    """One cell: a row of the CSV."""
    n, d, linear = case.x.shape[1], len(case.theta), case.family == "linear"
    mu, rng = accountant.mu_of_epsilon(epsilon, DELTA), np.random.default_rng(seed)
    rng_of_others = np.random.default_rng(seed + 1)
    truth = np.append(case.theta, math.log(case.sd)) if linear else case.theta
    held, wide, off, far, bad, spent, others = [], [], [], [], [], 0.0, {}
    for run in range(runs):
        y = case.simulated(rng)
        sds = fitted(case.family, case.x, y)[1]
        sds = np.append(sds, 1.0 / math.sqrt(2.0 * n)) if linear else sds
        start = time.perf_counter()
        draws, reliable = one(case, y, mu, Seeded(10_000 + seed * 1000 + run), estimand)
        spent += time.perf_counter() - start
        low, high = np.quantile(draws, LEVEL, axis=0)
        held.append((low < truth) & (truth < high))
        wide.append(draws.std(axis=0) / sds)
        off.append((draws.mean(axis=0) - truth) / draws.std(axis=0))
        far.append((draws.mean(axis=0) - truth) / sds)
        bad.append(not reliable)
        if name in REAL and case.family != "multinomial" and run < COMPARED:
            for key, value in estimates(case, y, epsilon, mu, sds[:d], rng_of_others).items():
                others.setdefault(key, []).append(value)
    others = {key: float(np.sqrt(np.mean(np.square(v)))) for key, v in others.items()}
    others |= {key: v * v for key, v in others.items() if key == "newton_coverage"}
    held, good = np.array(held), ~np.array(bad)
    return {
        "cell": name,
        "family": case.family,
        "rows": n,
        "coefficients": d,
        "epsilon": epsilon,
        "runs": runs,
        "domain": round(n * mu * mu / (DOMAIN * d), 3),
        "coverage": round(float(held.mean()), 3),
        "worst": round(float(held.mean(axis=0).min()), 3),
        "width": round(float(np.median(wide)), 3),
        "widest": round(float(np.median(wide, axis=0).max()), 3),
        "announced": round(announced(n, d, mu, case.family, estimand), 3),
        "rms": round(float(np.sqrt(np.mean(np.square(off)))), 3),
        "unreliable": round(float(np.mean(bad)), 3),
        "coverage_reliable": round(float(held[good].mean()), 3) if good.any() else "",
        "seconds": round(spent / runs, 3),
        "distance": round(float(np.sqrt(np.mean(np.square(far)))), 3),
        **{key: round(others[key], 3) for key in others},
        "code": code_version(),
    }


def announced(n, d, mu, family, estimand):
    """What the planner expects of widths, from public facts alone: the same in all coordinates."""
    guess = SimpleNamespace(precision=n * np.eye(d), longest=0.0)
    facts = Facts(Assumptions(guess, n, 1.0), math.sqrt(d), np.full(d, 1e-6), family)
    return float(np.mean(sd_inflation(NoisyQuadraticOptions(estimand=estimand), facts, 1.0 / mu)))


def cases(choice):
    """Yield (name, Case) of what was asked for and is there."""
    known = {name: make for name, make in REAL.items() if SHARED.exists()}
    known |= {name: lambda told=told: simulated(*told) for name, told in SIMULATED.items()}
    known |= {name: lambda told=told: simulated(*told) for name, told in LARGE.items()}
    quick = [f"plain-{family}-2000x4" for family in FAMILIES]
    names = choice.cells or (quick if choice.quick else list(known))
    for name in names:
        yield name, known[name]()


def drawn(path, rows):
    """Plot coverage, unreliable cells hollow, and width by epsilon. Reads the CSV alone."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5))
    names = list(dict.fromkeys(row["cell"] for row in rows))
    for k, name in enumerate(names):
        mine = sorted(
            (row for row in rows if row["cell"] == name), key=lambda r: float(r["epsilon"])
        )
        known = name in REAL
        colour = COLOURS[list(REAL).index(name)] if known else "0.75"
        label = name if known else ("simulated" if k == len(names) - 1 else None)
        at = [float(row["epsilon"]) for row in mine]
        for axis, key in zip(axes, ("coverage", "width"), strict=True):
            values = [float(row[key]) for row in mine]
            axis.plot(
                at, values, color=colour, lw=1.5 if known else 0.5, label=label, zorder=2 + known
            )
            for x, y, row in zip(at, values, mine, strict=True):
                hollow = float(row["unreliable"]) > 0.5
                axis.plot(
                    x, y, "o", ms=5, color=colour, mfc="white" if hollow else colour, zorder=4
                )
    axes[0].axhspan(0.85, 0.96, color="0.93", zorder=0)
    axes[0].set(
        xscale="log", xlabel="epsilon", ylabel="coverage of 90 % intervals", ylim=(0.5, 1.02)
    )
    axes[1].set(xscale="log", yscale="log", xlabel="epsilon", ylabel="width over non-private")
    axes[1].legend(frameon=False)
    axes[0].set_title("hollow: calls itself unreliable in most runs", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three small cells, under a minute")
    parser.add_argument("--runs", type=int, default=None)
    parser.add_argument("--cells", nargs="*")
    parser.add_argument("--epsilons", nargs="*", type=float)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--estimand", choices=tuple(OUTPUTS), default="model")
    parser.add_argument("--output", type=Path, help="the CSV; cells in it are kept")
    choice = parser.parse_args(words)
    choice.output = choice.output or OUTPUTS[choice.estimand]
    choice.output.parent.mkdir(parents=True, exist_ok=True)
    done = {(row["cell"], float(row["epsilon"])) for row in rows_of(choice.output)}
    runs = choice.runs or (10 if choice.quick else 40)
    code_version()
    for name, case in cases(choice):
        for epsilon in choice.epsilons or ((1.0, 4.0) if choice.quick else EPSILONS):
            if (name, epsilon) in done:
                continue
            row = measured(name, case, epsilon, runs, choice.seed, choice.estimand)
            add_row(choice.output, COLUMNS, row)
            print(" ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    drawn(choice.output.with_suffix(".png"), rows_of(choice.output))


if __name__ == "__main__":
    main()
