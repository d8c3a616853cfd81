"""Whether the epsilon that an unreliable result names would have done.

Of every data set of `real_data`, epsilon and estimand: results that are unreliable and name an
epsilon, and how often a result at that epsilon is reliable; how many name none, with what is wrong;
and whether a result of the other estimand at the same epsilon is reliable.
`python -m experiments.mended [--runs 3] [--cells NAME ...]` adds what is missing to the CSV and
prints what all of it says, by what was wrong; data in ../shared/data.
"""

import argparse
from collections import defaultdict
from functools import partial
from pathlib import Path

import numpy as np

from dpmcmc import ModelSpec, sample
from dpmcmc.inputs.options import NoisyQuadraticOptions
from experiments import real_data
from experiments.asked import ESTIMANDS
from experiments.baselines import DELTA
from experiments.calibration import REAL, code_version
from experiments.real_responses import observed
from experiments.reporting import add_missing, rows_of

EPSILONS = (0.5, 1.0, 2.0)
HIGHEST, AGAIN = 30.0, 2  # epsilons that are tried, and runs there
COLUMNS = (
    "cell", "family", "epsilon", "estimand", "reason", "named", "reliable",
    "other", "code",
)  # fmt: skip
DATA = Path(__file__).parent / "data" / "mended.csv"


def measured(name, epsilon, runs):
    """Rows of the CSV, one of each unreliable result. The noise is the system's."""
    case, _, schema, columns, formula = observed(name)

    def fit(at, estimand):
        return sample(
            columns, schema=schema, model=ModelSpec(family=case.family, formula=formula),
            delta=DELTA, epsilon=at, sampler=NoisyQuadraticOptions(estimand=estimand),
            accept_low_quality=True,
        ).verdict  # fmt: skip

    for estimand in ESTIMANDS:
        for _ in range(runs):
            verdict = fit(epsilon, estimand)
            other = "robust" if estimand == "model" else "model"
            if verdict.status == "reliable":
                continue
            named = verdict.mended_at
            tried = [fit(named, estimand) for _ in range(AGAIN)] if _tried(named) else []
            yield {
                "cell": name,
                "family": case.family,
                "epsilon": epsilon,
                "estimand": estimand,
                "reason": "; ".join(each[:40] for each in verdict.reasons),
                "named": named or "",
                "reliable": np.mean([v.status == "reliable" for v in tried]) if tried else "",
                "other": int(fit(epsilon, other).status == "reliable"),
                "code": code_version(),
            }


def _tried(named):
    return named is not None and named <= HIGHEST


def by_reason(rows):
    """Lines: of each kind of reason how many results name an epsilon that was tried."""
    kinds = defaultdict(list)
    for row in rows:
        kinds[row["estimand"], row["reason"][:30]].append(row)
    for (estimand, reason), some in sorted(kinds.items()):
        shares = [float(row["reliable"]) for row in some if row["reliable"] != ""]
        times = [float(row["named"]) / float(row["epsilon"]) for row in some if row["reliable"]]
        share = f"{np.mean(shares):.2f} at {np.median(times):.1f} times" if shares else "-"
        others = np.mean([int(row["other"]) for row in some])
        yield (
            f"{estimand}: {reason}: {len(some)} unreliable, {len(shares)} tried, reliable {share};"
            f" the other estimand at the same epsilon {others:.2f}"
        )


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cells", nargs="*", default=list(real_data.CELLS))
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(EPSILONS))
    parser.add_argument("--output", type=Path, default=DATA, help="the CSV; rows in it are kept")
    choice = parser.parse_args(words)
    REAL.update(real_data.CELLS)
    run = partial(measured, runs=choice.runs)
    for _ in add_missing(choice.output, COLUMNS, choice.cells, choice.epsilons, run):
        pass  # the lines below are of all rows
    for line in by_reason(rows_of(choice.output)):
        print(line)


if __name__ == "__main__":
    main()
