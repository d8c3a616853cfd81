"""Does a chain that starts from a release beat the release alone, at the same total budget?

For each data set and epsilon: `noisy_quadratic` with all defaults, and the chain that the planner
expects most of, which pays for its own smaller release first. Errors are of the posterior mean, in
sds of the posterior without privacy, root mean square over coefficients and runs; widths are sds
over those. `python -m experiments.chain_or_release [--runs 2] [--cells NAME ...]`.
"""

import argparse
import math
import time
from pathlib import Path

import numpy as np

from dpmcmc import ModelSpec, sample
from dpmcmc.families import MODELS
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import AutoOptions, NoisyQuadraticOptions
from dpmcmc.inputs.spec import JobSpec, PrivacySpec
from dpmcmc.planner.facts import PublicFacts
from dpmcmc.planner.resolve import fill
from dpmcmc.planner.select import best_chain
from experiments.calibration import DELTA, fitted
from experiments.real_responses import observed
from experiments.reporting import add_row, rows_of

CELLS, EPSILONS = ("powerplant", "bike", "adult"), (50.0, 200.0, 1000.0, 10.0, 4.0, 1.0, 2.0, 0.5)
RELEASES = 5  # runs of the release for one of the chain: they take a second
COLUMNS = (
    "cell", "epsilon", "algorithm", "share", "runs", "expected_ess", "expected_error", "ess",
    "r_hat", "reliable", "error", "width", "narrowest", "widest", "seconds",
)  # fmt: skip
DATA = Path(__file__).parent / "data" / "chain_or_release.csv"


def planned(schema, model, epsilon, options=None):
    """Return the filled job of the release, or of the best chain."""
    design = make_design(schema, model.formula)
    model = MODELS[model.family].resolved(design, model)
    privacy = PrivacySpec(delta=DELTA, epsilon=epsilon)
    spec = JobSpec(model=model, sampler=options or AutoOptions(), privacy=privacy)
    facts = PublicFacts(design, spec)
    return fill(facts, spec) if options else best_chain(facts, spec)


def measured(name, epsilon, filled, runs):
    """One row of the CSV. The noise is the system's: no two calls agree."""
    case, y, schema, columns, formula = observed(name)
    truth, sds, _ = fitted(case.family, case.x, y)
    model, start = ModelSpec(family=case.family, formula=formula), None
    off, wide, ess, hats, good, began = [], [], [], [], 0, time.perf_counter()
    for _ in range(runs):
        algorithm = filled.spec.sampler.algorithm
        result = sample(
            columns,
            schema=schema,
            model=model,
            delta=DELTA,
            epsilon=epsilon,
            sampler=algorithm,
            accept_low_quality=True,
        )
        start = getattr(result.plan.spec.sampler, "start", None)
        told = result.summary()[: len(truth)]
        off.append((np.array([one.mean for one in told]) - truth) / sds)
        wide.append(np.array([one.sd for one in told]) / sds)
        ess.append(np.mean([one.ess_bulk or 0.0 for one in told]))
        hats.append(max(one.r_hat or math.inf for one in told))
        good += result.verdict.status == "reliable"
    each = np.median(wide, axis=0)
    return {
        "cell": name,
        "epsilon": epsilon,
        "algorithm": filled.spec.sampler.algorithm,
        "share": 1.0 if start is None else start.share,
        "runs": runs,
        "expected_ess": f"{filled.ess:.4g}",
        "expected_error": f"{filled.error:.3g}",
        "ess": f"{np.mean(ess):.4g}",
        "r_hat": f"{np.median(hats):.4g}",
        "reliable": good,
        "error": f"{np.sqrt(np.mean(np.square(off))):.3g}",
        "width": f"{np.median(each):.3g}",
        "narrowest": f"{each.min():.3g}",
        "widest": f"{each.max():.3g}",
        "seconds": f"{(time.perf_counter() - began) / runs:.3g}",
    }


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--cells", nargs="*", default=list(CELLS))
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(EPSILONS))
    parser.add_argument("--output", type=Path, default=DATA, help="the CSV; rows in it are kept")
    choice = parser.parse_args(words)
    done = {(row["cell"], float(row["epsilon"])) for row in rows_of(choice.output)}
    for name in choice.cells:
        for epsilon in choice.epsilons:
            if (name, epsilon) in done:
                continue
            case, _, schema, _, formula = observed(name)
            model = ModelSpec(family=case.family, formula=formula)
            release = planned(schema, model, epsilon, NoisyQuadraticOptions())
            for filled, runs in (
                (release, RELEASES * choice.runs),
                (planned(schema, model, epsilon), choice.runs),
            ):
                row = measured(name, epsilon, filled, runs)
                add_row(choice.output, COLUMNS, row)
                print(" ".join(f"{key} {value}" for key, value in row.items()), flush=True)


if __name__ == "__main__":
    main()
