"""Thesis B, Figure 7.3: MMD between private and non-private posteriors against epsilon, d = 2.

    python -m experiments.figure_b_7_3 [--quick] [--output var/figure_b_7_3]

n = 100,000 simulated normal rows, 1, 5 and 10 holders. The posterior without privacy has the
variance of the residuals known, and the same prior. Squared MMD by the thesis' unbiased estimator
and kernel exp(-|x - y|^2 / 2) / 2 pi, averaged over releases; chains give every 50th state. That
kernel is a thousand times as wide as the posterior is, so it sees how far off the means are and
not the widths: beside it stands the MMD of draws in sds of the posterior without privacy. Noise is
what replacing a row costs, with the response in units of its own bound. Writes figure_b_7_3.csv,
.png and .json.
"""

import time

import numpy as np
from matplotlib import pyplot as plt

from dpmcmc.releases.regression.fixed import fixed_s_fast
from dpmcmc.releases.regression.statistics import Noisy
from experiments.regression_data import noised, noises, simulated
from experiments.regression_methods import DRAWS, Source, drawn
from experiments.reporting import COLOURS, MARKS, choose, tidy, write_csv, write_json

ROWS, HOLDERS, EPSILONS, RUNS = 100_000, (1, 5, 10), (0.5, 1.0, 4.0, 10.0), 10
STEPS = {"MCMC-normalX": (3400, 400), "MCMC-B&S, weak": (3400, 400)}
NAMES = ("MCMC-normalX", "MCMC-fixedS", "Bayes-fixedS-fast", "MCMC-B&S, weak")
EVERY = 50


def squared_mmd(x, y):
    """Unbiased, of as many draws of each."""
    n = min(len(x), len(y))
    x, y = x[:n], y[:n]

    def kernel(a, b):
        away = ((a[:, None] - b[None]) ** 2).sum(axis=-1)
        return np.exp(-0.5 * away) / (2.0 * np.pi)

    whole = kernel(x, x) + kernel(y, y) - kernel(x, y) - kernel(y, x)
    return float((whole.sum() - np.trace(whole)) / (n * (n - 1)))


def plain(rows, random):
    """Draws (count, d) of the posterior without privacy, their mean and sds."""
    gram, moments, _, sizes = rows.sums(1)
    theta = np.linalg.solve(gram[0], moments[0])
    variance = float(((rows.y - rows.x @ theta) ** 2).mean())
    told = Noisy(gram, moments, None, (0.0, 0.0, np.inf), sizes)
    found = fixed_s_fast(told, rows.prior(), variance)
    return found.draws(DRAWS, Source(random)), np.sqrt(np.diagonal(found.covariance))


def cell(name, rows, holders, epsilon, runs, random):
    """MMD of one method, averaged over releases."""
    start, noise = time.time(), noises(epsilon, rows.delta)["replace-one, balanced"]
    noisy = noised(rows, holders, noise, runs, random, squares="B&S" in name)
    draws = drawn(name, rows, noisy, random, STEPS.get(name))
    draws = draws[::EVERY] if name in STEPS else draws
    reference, sds = plain(rows, random)
    pairs = [(draws[:, k], random.permutation(reference)) for k in range(runs)]
    raw = [squared_mmd(*pair) for pair in pairs]
    own = [squared_mmd(a / sds, b / sds) for a, b in pairs]
    return {
        "holders": holders,
        "epsilon": epsilon,
        "method": name,
        "mmd2": float(np.mean(raw)),
        "mmd2_error": float(np.std(raw, ddof=1) / runs**0.5),
        "mmd2_in_sds": float(np.mean(own)),
        "mmd2_in_sds_error": float(np.std(own, ddof=1) / runs**0.5),
        "seconds": round(time.time() - start, 2),
    }


def figure(path, found):
    """A panel for each number of holders."""
    counts = sorted({r["holders"] for r in found})
    plots, panels = plt.subplots(
        1, len(counts), figsize=(3.4 * len(counts) + 2, 3.4), layout="constrained", squeeze=False
    )
    for axes, count in zip(panels[0], counts, strict=True):
        for k, name in enumerate(NAMES):
            some = [r for r in found if (r["holders"], r["method"]) == (count, name)]
            x, y = [r["epsilon"] for r in some], [r["mmd2_in_sds"] for r in some]
            axes.plot(x, y, label=name, color=COLOURS[k], marker=MARKS[k])
        axes.set(title=f"holders {count}", xscale="log", xlabel=r"$\epsilon$ (replace-one)")
        tidy(axes)
    panels[0, 0].set_ylabel("squared MMD, draws in sds")
    plots.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside right upper")
    plots.savefig(path, dpi=150)


def main():
    """Run every cell and draw the figure."""
    choice, start, found = choose("figure_b_7_3", __doc__), time.time(), []
    rows, _ = simulated(ROWS, 2, choice.random)
    holders, epsilons = ((1,), (1.0, 10.0)) if choice.quick else (HOLDERS, EPSILONS)
    for count in holders:
        for epsilon in epsilons:
            for name in NAMES:
                found.append(
                    cell(name, rows, count, epsilon, 4 if choice.quick else RUNS, choice.random)
                )
                write_csv(choice.output / "figure_b_7_3.csv", found)
    figure(choice.output / "figure_b_7_3.png", found)
    settings = {"rows": ROWS, "runs": RUNS, "steps": STEPS, "every": EVERY}
    path = choice.output / "figure_b_7_3.json"
    write_json(path, choice, settings, {"cells": len(found)}, time.time() - start)


if __name__ == "__main__":
    main()
