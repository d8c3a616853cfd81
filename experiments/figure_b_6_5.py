"""Thesis B, Figure 6.5: a statistic chosen by what the first rows tell, against one fixed before.

    python -m experiments.figure_b_6_5 [--quick] [--output var/figure_b_6_5]

100 rows of Uniform(-theta, theta) within [-10, 10], Laplace noise of epsilon 1 (the thesis does not
say which), a flat prior of theta on (0, 10). The first 10 rows release |x|; the power a of |x|^a
that the other 90 release is the one whose expected inverse Fisher information is least given that
(a in .1, .2, ..., 2); the posterior knows both. Beside it |x| for both parts, |x| of all rows at
once, and the power that is best before any row is seen, of all rows at once. The parts are
separate rows, so that all cost the same epsilon. Writes figure_b_6_5.csv (a row for each theta and
way), .png and .json.
"""

import time

import numpy as np
from matplotlib import pyplot as plt
from scipy import stats

from dpmcmc.queries.statistics.families import UniformWidth
from dpmcmc.queries.statistics.fisher import information
from dpmcmc.queries.statistics.inference import sampled
from dpmcmc.queries.statistics.inference_targets import NormalSum, Several
from dpmcmc.queries.statistics.inference_targets import laplace as unit_laplace
from dpmcmc.queries.statistics.populations import UniformWidth as Law
from experiments.regression_methods import Source
from experiments.released import BOUND, errors, laplace, power
from experiments.reporting import COLOURS, MARKS, choose, tidy, write_csv, write_json

EPSILON, FIRST, REST = 1.0, 10, 90
THETAS, POWERS = np.arange(1, 11) / 10.0, np.arange(1, 21) / 10.0
GRID = np.linspace(0.02, BOUND, 120)  # where information is worked out
FLAT, RUNS, WARMUP, DRAWS = stats.uniform(0.0, BOUND), 300, 50, 500


def inverses():
    """1 / information of the other rows, (powers, grid)."""
    noises = [laplace(power(a), EPSILON) for a in POWERS]
    return np.array([
        [1.0 / information(Law(), power(a), theta, REST, noise) for theta in GRID]
        for a, noise in zip(POWERS, noises, strict=True)
    ])  # fmt: skip


def part(x, a, random):
    """Releases of |x|^a of these rows: the target of one chain each."""
    statistic = power(a)
    noise = laplace(statistic, EPSILON)
    sums = statistic.of(x).sum(axis=1)
    values = sums + noise.scale * unit_laplace(random, sums.shape)
    return NormalSum(values, noise, statistic, x.shape[1], UniformWidth())


def drawn(target, random):
    """Draws of theta, one chain for each release."""
    return sampled("mh", target, FLAT, 2, WARMUP, DRAWS, random)


def chosen(draws, inverse):
    """The power that each run takes, by what its first release tells."""
    scores = np.array([np.interp(draws, GRID, one).mean(axis=1) for one in inverse])
    return POWERS[scores.argmin(axis=0)]


def ways(theta, runs, inverse, random):
    """Draws of each way, and the powers chosen."""
    x = theta * (2.0 * random.uniforms((runs, FIRST + REST)) - 1.0)
    first = part(x[:, :FIRST], 1.0, random)
    powers = chosen(drawn(first, random), inverse)
    both = np.empty((runs, DRAWS))
    for a in np.unique(powers):
        some = powers == a
        head = NormalSum(first.values[some], first.noise, first.statistic, FIRST, UniformWidth())
        both[some] = drawn(Several((head, part(x[some, FIRST:], a, random))), random)
    before = POWERS[inverse.mean(axis=1).argmin()]  # the prior is flat, and so is the grid
    fixed = drawn(Several((first, part(x[:, FIRST:], 1.0, random))), random)
    return powers, {
        "selected": both,
        "|x|, two parts": fixed,
        "|x|, all rows": drawn(part(x, 1.0, random), random),
        f"best by the prior (a = {before:g}), all rows": drawn(part(x, before, random), random),
    }


def run_all(choice):
    """Every theta."""
    inverse, random, found = inverses(), Source(choice.random), []
    for theta in THETAS[7:] if choice.quick else THETAS:
        powers, draws = ways(theta, 40 if choice.quick else RUNS, inverse, random)
        q25, q50, q75 = np.quantile(powers, (0.25, 0.5, 0.75))
        for name, each in draws.items():
            row = {"theta": float(theta), "way": name, **errors(each, theta)}
            found.append(row | {"a_q25": q25, "a_q50": q50, "a_q75": q75})
    return found


def figure(path, found):
    """Errors and chosen powers by theta."""
    plots, panels = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for k, name in enumerate(dict.fromkeys(r["way"] for r in found)):
        some = [r for r in found if r["way"] == name]
        x, wide = [r["theta"] for r in some], [2.0 * r["standard_error"] for r in some]
        style = {"color": COLOURS[k], "marker": MARKS[k], "markersize": 5}
        panels[0].errorbar(x, [r["mse"] for r in some], wide, label=name, **style)
    middle = [r["a_q50"] for r in some]
    panels[1].vlines(x, [r["a_q25"] for r in some], [r["a_q75"] for r in some], linewidth=5)
    panels[1].plot(x, middle, "o", color="black")
    panels[0].set(xlabel=r"$\theta$", ylabel="mean squared error", yscale="log")
    panels[1].set(xlabel=r"$\theta$", ylabel="selected a: quartiles")
    for axes in panels:
        tidy(axes)
    panels[0].legend(frameon=False, fontsize=8)
    plots.savefig(path, dpi=150)


def main():
    """Run every theta and draw the figure."""
    choice, start = choose("figure_b_6_5", __doc__), time.time()
    found = run_all(choice)
    write_csv(choice.output / "figure_b_6_5.csv", found)
    figure(choice.output / "figure_b_6_5.png", found)
    settings = {"epsilon": EPSILON, "runs": RUNS, "steps": (WARMUP, DRAWS)}
    findings = {
        f"{r['theta']:g}, {r['way']}": [round(r[key], 4) for key in ("mse", "standard_error")]
        for r in found
    }
    path = choice.output / "figure_b_6_5.json"
    write_json(path, choice, settings, findings, time.time() - start)


if __name__ == "__main__":
    main()
