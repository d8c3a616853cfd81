"""When a release that ends early would have failed: the two rules of newton_path, on real data.

Every run goes on to its end, and says what each rule would have done: `far`, that the last far look
did not see the curvature above its noise; `near`, that the first near look is unreliable even with
half the noise of both. noise: of the last far curvature over its median, which MAX_FAR_NOISE is
about. `python -m experiments.early_stop [--runs 2] [--cells NAME ...]`, data in ../shared/data.
"""

import argparse
from pathlib import Path

import numpy as np

from dpmcmc import ModelSpec, sample
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.releases import newton_path
from experiments import real_responses
from experiments.baselines import DELTA
from experiments.calibration import code_version
from experiments.real_data import CELLS
from experiments.reporting import add_row, rows_of

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
COLUMNS = (
    "cell", "estimand", "epsilon", "usable", "reliable", "far", "near", "noise", "why", "code",
)  # fmt: skip
DATA = Path(__file__).parent / "data" / "early_stop.csv"


SAID: dict = {}


class Watched(newton_path._Path):
    """A path that goes on whatever its rules say, and remembers what they said."""

    def unseen(self):
        sums = self.last.sums
        edge = np.sqrt(2.0 * len(sums.score)) * sums.sds[1]
        middle = float(np.median(np.linalg.eigvalsh(sums.curvature)))
        SAID.update({"far": super().unseen(), "noise": round(edge / middle, 3), "near": False})
        return False

    def _hopeless(self, iterates, left):
        if len(iterates) == 1:
            SAID["near"] = super()._hopeless(iterates, left)
            self.stopped = ""
        return False


def measured(name, estimand, epsilon):
    """One row of the CSV. The noise is the system's: no two calls agree."""
    case, _, schema, columns, formula = real_responses.observed(name)
    model = ModelSpec(family=case.family, formula=formula)
    options = NoisyQuadraticOptions(estimand=estimand)
    facts = {"schema": schema, "model": model, "sampler": options}
    result = sample(columns, **facts, delta=DELTA, epsilon=epsilon, accept_low_quality=True)
    return {
        "cell": name,
        "estimand": estimand,
        "epsilon": epsilon,
        "usable": result.plan.usable,
        "reliable": result.verdict.status == "reliable",
        **SAID,
        "why": result.verdict.sentence[:60],
        "code": code_version(),
    }


def told(rows):
    """Say how many reliable and other runs each rule would have ended."""
    for status in ("True", "False"):
        some = [row for row in rows if row["reliable"] == status]
        ended = {rule: sum(row[rule] == "True" for row in some) for rule in ("far", "near")}
        both = sum("True" in (row["far"], row["near"]) for row in some)
        kind = "reliable" if status == "True" else "unreliable"
        print(f"{both} of {len(some)} {kind} runs: {ended['far']} far, {ended['near']} near")


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--cells", nargs="*", default=list(CELLS))
    parser.add_argument("--output", type=Path, default=DATA, help="the CSV; rows in it are kept")
    choice = parser.parse_args(words)
    real_responses.REAL, newton_path._Path = CELLS, Watched
    done = {row["cell"] for row in rows_of(choice.output)}
    for name in choice.cells:
        for estimand in ("robust", "model"):
            for epsilon in EPSILONS:
                for _ in range(choice.runs if name not in done else 0):
                    add_row(choice.output, COLUMNS, measured(name, estimand, epsilon))
    told(rows_of(choice.output))


if __name__ == "__main__":
    main()
