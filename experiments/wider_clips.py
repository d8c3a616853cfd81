"""How far clips of the model's own scores may go out for what noise may hide beyond them.

`clips.NEARLY`, `clips.MOST_WIDER` (linear models) and `clips.MOST_WIDER_BENT` (others): a wider
clip than the one with the least variance is taken where what may be unseen beyond that would make
the result unreliable, if the sd is then at most so many times as large. Of each setting: how many
results are reliable, how often they hold the fit without privacy, the worst distance in their own
sds, and the median width of all. `python -m experiments.wider_clips [--runs 4]`; data in
../shared/data.
"""

import argparse
from unittest.mock import patch

import numpy as np

from dpmcmc import ModelSpec, sample
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.releases import clips
from experiments import real_data
from experiments.baselines import DELTA
from experiments.calibration import LEVEL, REAL, fitted
from experiments.real_responses import observed

LINEAR = ("powerplant", "wage", "tobacco", "alcohol", "outlays", "air")
OTHERS = ("crashes", "bike", "pharmacy", "illness", "visits")
EPSILONS = (1.0, 2.0, 4.0)
SETTINGS = (
    *(("MOST_WIDER", value, LINEAR) for value in (1.0, 1.3, 2.0, 4.0)),
    *(("MOST_WIDER_BENT", value, OTHERS) for value in (1.0, 1.3, 2.0)),
    *(("NEARLY", value, LINEAR) for value in (0.5, 1.0)),
)


def measured(cells, runs):
    """Return a line on all results of these data sets."""
    reliable, held, far, wide = [], [], [], []
    for name in cells:
        case, y, schema, columns, formula = observed(name)
        truth, sds, _ = fitted(case.family, case.x, y)
        model = ModelSpec(family=case.family, formula=formula)
        for epsilon in EPSILONS * runs:
            result = sample(
                columns, schema=schema, model=model, delta=DELTA, epsilon=epsilon,
                sampler=NoisyQuadraticOptions(estimand="model"), accept_low_quality=True,
            )  # fmt: skip
            draws = result.draws.reshape(-1, result.draws.shape[2])[:, : len(truth)]
            low, high = np.quantile(draws, LEVEL, axis=0)
            wide.append(np.median(draws.std(axis=0) / sds))
            reliable.append(result.verdict.status == "reliable")
            if reliable[-1]:
                held.append(np.mean((low < truth) & (truth < high)))
                far.append(np.abs((draws.mean(axis=0) - truth) / draws.std(axis=0)).max())
    return (
        f"{sum(reliable)} of {len(reliable)} reliable, hold {np.mean(held):.2f}, worst"
        f" {np.max(far):.1f} sds, width {np.median(wide):.2f}"
    )


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=4)
    choice = parser.parse_args(words)
    REAL.update(real_data.CELLS)
    for constant, value, cells in SETTINGS:
        with patch.object(clips, constant, value):
            print(constant, value, measured(cells, choice.runs), flush=True)


if __name__ == "__main__":
    main()
