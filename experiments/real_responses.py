"""Real responses: how far private posteriors are from the non-private one, with all defaults.

Nothing is given to `dpmcmc.sample` but data, bounds, a formula and a budget. For each data set and
epsilon: rms distance of the posterior mean to the one without privacy, over what the widths promise
of that distance, sqrt(sd^2 - exact sd^2); how often 90 % intervals hold the exact mean; the same
distance in exact sds beside simple estimators: adaSSP (Wang 2018) for linear, objective (Kifer,
Smith and Thakurta 2012) and output perturbation (Chaudhuri, Monteleoni and Sarwate 2011; the best
of several penalties) for logistic, and Newton's method with noise in public coordinates for all.
`python -m experiments.real_responses [--runs 40] [--cells NAME ...]`, data in ../shared/data.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from dpmcmc import BinaryColumn, CategoryColumn, ModelSpec, NumberColumn, Schema, sample
from dpmcmc.releases.quadratic import Quadratic
from experiments.baselines import DELTA, baselines
from experiments.calibration import LEVEL, REAL, code_version, fitted
from experiments.reporting import add_row, rows_of

EPSILONS = (0.5, 1.0, 4.0)
COLUMNS = (
    "cell", "epsilon", "runs", "algorithm", "ratio", "worst_ratio", "held", "least_held",
    "right_sign", "width", "distance", "unreliable", "weight", "newton", "adassp", "objective",
    "output", "code",
)  # fmt: skip
DATA = Path(__file__).parent / "data" / "real_responses.csv"


def observed(name):
    """Return (Case, y, schema, columns, formula) of a data set as it is."""
    case = REAL[name]()
    x, y, names = case.x[1:], case.y, [f"x{k}" for k in range(1, len(case.x))]
    low = [0.0 if set(np.unique(row)) <= {0.0, 1.0} else -1.0 for row in x]
    facts = [
        BinaryColumn(name=key, categories=("0", "1"))
        if least == 0.0
        else NumberColumn(name=key, lower=-1.0, upper=1.0)
        for key, least in zip(names, low, strict=True)
    ]
    columns = {
        key: np.where(row > 0.5, "1", "0") if least == 0.0 else row
        for key, row, least in zip(names, x, low, strict=True)
    }
    if case.family == "multinomial":
        words = tuple(str(k) for k in range(int(case.ends[1]) + 1))
        facts.append(CategoryColumn(name="y", categories=words))
        columns["y"] = np.array(words)[y.astype(int)]
    elif case.family == "logistic":
        facts.append(BinaryColumn(name="y", categories=("0", "1")))
        columns["y"] = np.where(y > 0.5, "1", "0")
    else:
        facts.append(NumberColumn(name="y", lower=float(case.ends[0]), upper=float(case.ends[1])))
        columns["y"] = y
    schema = Schema(columns=tuple(facts), rows=len(y))
    return case, y, schema, columns, "y ~ " + " + ".join(names)


def measured(name, epsilon, runs):
    """One row of the CSV. The noise is the system's: no two calls agree."""
    case, y, schema, columns, formula = observed(name)
    d, rng = len(case.x), np.random.default_rng()
    truth, sds, _ = fitted(case.family, case.x, y)
    model = ModelSpec(family=case.family, formula=formula)
    means, wide, held, others, chosen = [], [], [], {}, ""
    bad, weights = [], []
    for _ in range(runs):
        result = sample(
            columns,
            schema=schema,
            model=model,
            delta=DELTA,
            epsilon=epsilon,
            accept_low_quality=True,
        )
        chosen = result.plan.spec.sampler.algorithm
        bad.append(result.verdict.status != "reliable")
        if result.release is not None:
            weights.append(getattr(Quadratic.from_dict(result.release.to_dict()), "weight", 1.0))
        draws = result.draws[:, result.plan.num_warmup :].reshape(-1, result.draws.shape[2])[:, :d]
        low, high = np.quantile(draws, LEVEL, axis=0)
        held.append((low < truth) & (truth < high))
        means.append(draws.mean(axis=0))
        wide.append(draws.std(axis=0))
        for key, value in baselines(case, y, epsilon, truth, sds, rng).items():
            others.setdefault(key, []).append((value - truth) / sds)
    means, wide, held = np.array(means), np.array(wide), np.array(held)
    promised = np.sqrt(np.maximum(np.mean(wide**2, axis=0) - sds**2, 0.01 * sds**2))
    ratio = np.sqrt(np.mean((means - truth) ** 2, axis=0)) / promised
    told = {key: round(float(np.sqrt(np.mean(np.square(v)))), 3) for key, v in others.items()}
    return {
        "cell": name,
        "epsilon": epsilon,
        "runs": runs,
        "algorithm": chosen,
        "ratio": round(float(np.sqrt(np.mean(ratio**2))), 3),
        "worst_ratio": round(float(ratio.max()), 3),
        "held": round(float(held.mean()), 3),
        "least_held": round(float(held.mean(axis=0).min()), 3),
        "right_sign": round(float(np.mean(np.sign(means[:, 1]) == np.sign(truth[1]))), 3),
        "width": round(float(np.median(wide / sds)), 3),
        "distance": round(float(np.sqrt(np.mean(((means - truth) / sds) ** 2))), 3),
        "unreliable": round(float(np.mean(bad)), 3),
        "weight": round(float(np.mean(weights)), 3) if weights else "",
        **{key: told.get(key, "") for key in ("newton", "adassp", "objective", "output")},
        "code": code_version(),
    }


def explained(rows):
    """Return (Spearman's correlation, cells): of drift with the part of rows that was cut.

    Drift: the distance squared that widths do not promise, over the width squared. Of the cells
    that are mostly reliable.
    """
    good = [row for row in rows if float(row["unreliable"]) <= 0.5 and row["weight"]]
    width, far = (np.array([float(r[k]) for r in good]) for k in ("width", "distance"))
    drift = (far**2 - np.maximum(width**2 - 1.0, 0.0)) / width**2
    cut = [1.0 - float(row["weight"]) for row in good]
    return float(spearmanr(drift, cut).statistic), len(good)


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--cells", nargs="*", default=["adult", "powerplant", "bike", "air"])
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(EPSILONS))
    parser.add_argument("--output", type=Path, default=DATA, help="the CSV; rows in it are kept")
    choice = parser.parse_args(words)
    code_version()
    done = {(row["cell"], float(row["epsilon"])) for row in rows_of(choice.output)}
    for name in choice.cells:
        for epsilon in choice.epsilons:
            if (name, epsilon) not in done:
                row = measured(name, epsilon, choice.runs)
                add_row(choice.output, COLUMNS, row)
                print(" ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    found, cells = explained(rows_of(choice.output))
    print(f"drift and the part of rows that was cut: correlation {found:.2f} of {cells} cells")


if __name__ == "__main__":
    main()
