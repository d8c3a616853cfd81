"""What thesis B's Figures 6.1, 6.2 and 6.4 share: |x| against x^2, by error and by information."""

import numpy as np
from matplotlib import pyplot as plt

from dpmcmc.queries.statistics.fisher import information
from dpmcmc.queries.statistics.populations import NormalVariance
from experiments.released import ROWS, errors, like, posteriors, power
from experiments.reporting import COLOURS, MARKS, tidy

THETA, POWERS = 2.0, (1.0, 2.0)


def cell(a, epsilon, noise, name, algorithm, effort, runs, form, random):
    """One power of |x| at one noise: error of the posterior's mean, and Fisher information."""
    statistic = power(a)
    how = like(noise, statistic, form)
    found = posteriors(how, THETA, runs, algorithm, effort, random)
    return {
        "power": a,
        "epsilon": epsilon,
        "noise": name,
        "noise_sd": noise.sd,
        **errors(found, THETA),
        "information": information(NormalVariance(), statistic, THETA, ROWS, noise, form),
        "runs": runs,
    }


def figure(path, found, noises):
    """Errors and information by epsilon."""
    plots, panels = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
    for axes, key in zip(panels, ("mse", "information"), strict=True):
        for k, (name, a) in enumerate((name, a) for name in noises for a in POWERS):
            some = [r for r in found if (r["noise"], r["power"]) == (name, a)]
            x, y = [r["epsilon"] for r in some], [r[key] for r in some]
            label = f"|x|^{a:g}, {name}"
            axes.plot(x, y, label=label, color=COLOURS[k], marker=MARKS[k], markersize=5)
        axes.set(xlabel=r"$\epsilon$", yscale="log", ylabel=key.replace("mse", "squared error"))
        tidy(axes)
    panels[0].legend(frameon=False, fontsize=8)
    plots.savefig(path, dpi=150)


def findings(found):
    """By noise: where |x| tells more and where it errs less, of all epsilons."""
    told = {}
    for name in dict.fromkeys(r["noise"] for r in found):
        pairs = [[r for r in found if (r["noise"], r["power"]) == (name, a)] for a in POWERS]
        both = list(zip(*pairs, strict=True))
        sds = [
            (two["mse"] - one["mse"]) / np.hypot(one["standard_error"], two["standard_error"])
            for one, two in both
        ]
        told[name] = {
            "epsilons": [one["epsilon"] for one, _ in both],
            "information of |x| over that of x^2": [
                round(one["information"] / two["information"], 3) for one, two in both
            ],
            "error of x^2 over that of |x|": [
                round(two["mse"] / one["mse"], 3) for one, two in both
            ],
            "their difference in standard errors": [round(float(sd), 1) for sd in sds],
        }
    return told
