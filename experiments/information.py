"""How few rows will do: results by n mu^2 for each coefficient, whatever the verdict asks of it.

Linear regressions of real responses (`real_data` and `unseen`) at epsilon .5 and 1. A row of the
CSV is a run: whether everything else that the verdict asks for holds, whether each direction's
curvature is clear of its noise, the part of the coefficients whose 90 % interval holds the fit
without privacy, and how far the worst of them is off, in the result's own sds. Data as for
`unseen`. `python -m experiments.information [--runs 10] [--below 40]`
"""

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np

from dpmcmc import sample
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.privacy import accountant
from dpmcmc.releases import noisy_quadratic, quadratic_verdict
from experiments import real_data, unseen
from experiments.asked import model_of
from experiments.baselines import DELTA
from experiments.calibration import LEVEL, REAL, code_version, fitted
from experiments.real_responses import observed
from experiments.reporting import add_row, rows_of

DATA = Path(__file__).parent / "data" / "information.csv"
COLUMNS = (
    "cell", "rows", "coefficients", "epsilon", "information", "otherwise", "clear", "held", "worst",
    "code",
)  # fmt: skip
EPSILONS = (0.5, 1.0)
ENDS = (10.0, 15.0, 20.0, 25.0, 30.0, 40.0)
LEAST = 7.5  # below which no run is made


class _Noted:
    """The last release that a verdict was asked for."""

    def __init__(self):
        self.release = None
        self._verdict = quadratic_verdict.verdict

    def verdict(self, release, prior=None):
        self.release = release
        return self._verdict(release, prior)


def runs_of(name, epsilon, runs, most):
    """Yield rows of the CSV."""
    case, y, schema, columns, formula = observed(name)
    if case.family != "linear":
        return
    truth, _, _ = fitted(case.family, case.x, y)
    d, mu = len(truth), accountant.mu_of_epsilon(epsilon, DELTA)
    information = len(y) * mu**2 / d
    if not LEAST <= information < most:
        return
    noted = _Noted()
    noisy_quadratic.verdict = noted.verdict
    for _ in range(runs):
        result = sample(
            columns, schema=schema, model=model_of(case, formula), delta=DELTA, epsilon=epsilon,
            sampler=NoisyQuadraticOptions(estimand="model"), accept_low_quality=True,
        )  # fmt: skip
        draws = result.draws.reshape(-1, result.draws.shape[2])[:, :d]
        low, high = np.quantile(draws, LEVEL, axis=0)
        yield {
            "cell": name,
            "rows": len(y),
            "coefficients": d,
            "epsilon": epsilon,
            "information": round(information, 1),
            "otherwise": result.verdict.status == "reliable",
            "clear": not quadratic_verdict._dim(noted.release),
            "held": round(float(((low < truth) & (truth < high)).mean()), 3),
            "worst": round(
                float((np.abs(draws.mean(axis=0) - truth) / draws.std(axis=0)).max()), 2
            ),
            "code": code_version(),
        }


def table(rows):
    """Lines: by information and whether each direction is clear, of otherwise reliable runs."""
    bins = defaultdict(list)
    for row in rows:
        if row["otherwise"] == "True":
            at = int(np.searchsorted(ENDS, float(row["information"]), side="right"))
            bins[at, row["clear"] == "True"].append((float(row["held"]), float(row["worst"])))
    yield "| n mu^2 a coefficient | directions | runs | held | more than 3 sds off | 4 | farthest |"
    yield "|---|---|---|---|---|---|---|"
    ends = (LEAST, *ENDS)
    for (at, clear), found in sorted(bins.items()):
        held, worst = np.array(found).T
        off = f"{(worst > 3.0).sum()} | {(worst > 4.0).sum()} | {worst.max():.1f}"
        of = f"{ends[at]:g} to {ends[at + 1]:g} | {'clear' if clear else 'not all'}"
        yield f"| {of} | {len(held)} | {held.mean():.3f} | {off} |"


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--below", type=float, default=ENDS[-1])
    parser.add_argument("--output", type=Path, default=DATA, help="the CSV; cells in it are kept")
    choice = parser.parse_args(words)
    code_version()
    quadratic_verdict._informed = lambda _: True
    known = real_data.CELLS | unseen.cells()
    REAL.update(known)
    done = {(row["cell"], float(row["epsilon"])) for row in rows_of(choice.output)}
    for name in known:
        for epsilon in EPSILONS:
            if (name, epsilon) not in done:
                for row in runs_of(name, epsilon, choice.runs, choice.below):
                    add_row(choice.output, COLUMNS, row)
    print(*table(rows_of(choice.output)), sep="\n")


if __name__ == "__main__":
    main()
