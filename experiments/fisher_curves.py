"""What thesis B's Figures 4.1 to 4.4 share: curves of Fisher information, and who is above whom."""

import time

import numpy as np
from matplotlib import pyplot as plt

from dpmcmc.privacy.accountant import noise_multiplier_for
from dpmcmc.queries.statistics.fisher import gaussian_information
from dpmcmc.queries.statistics.mechanisms import Statistic
from dpmcmc.queries.statistics.populations import moments
from experiments.reporting import COLOURS, MARKS, choose, tidy, write_csv, write_json

ROWS, EPSILON, DELTA = 100, 1.0, 1e-4
UNBOUNDED = 1e6  # bounds that clamp nothing
NOISES = {  # noise sd over sensitivity, and whether rows are clamped to their bounds
    "none": (0.0, False),
    "thesis: epsilon-GDP": (1.0 / EPSILON, False),
    "replace-one, (epsilon, delta)": (noise_multiplier_for(EPSILON, DELTA, 1), True),
}


def curves(population, kind, powers, thetas, bounds):
    """One row for each noise, power and theta: the information of a sum with Gaussian noise.

    The thesis' own takes rows as they are; the last noise is that of a release: at (1, 1e-4), of
    rows that are clamped. Sensitivities are the same where the thesis' rows lie between its bounds.
    """
    low = -UNBOUNDED
    for name, (multiplier, clamped) in NOISES.items():
        for a in powers:
            sensitivity = Statistic(kind, a, *bounds).sensitivity
            limits = bounds if clamped else (low, UNBOUNDED)
            for theta in thetas:
                known = moments(population, Statistic(kind, a, *limits), float(theta))
                found = gaussian_information(known, ROWS, multiplier * sensitivity)
                yield {
                    "noise": name,
                    "power": a,
                    "theta": float(theta),
                    "sensitivity": sensitivity,
                    "noise_sd": multiplier * sensitivity,
                    "information": found,
                }


def best(found, noise, powers):
    """(thetas, power that is best among these at each)."""
    some = [r for r in found if r["noise"] == noise and r["power"] in powers]
    thetas = sorted({r["theta"] for r in some})
    each = [[r for r in some if r["theta"] == t] for t in thetas]
    return thetas, [max(one, key=lambda r: r["information"])["power"] for one in each]


def winners(found, powers):
    """For each noise: which power is best, as [[from theta, to theta, power], ...]."""
    out = {}
    for noise in NOISES:
        thetas, chosen = best(found, noise, powers)
        stretches = []
        for theta, a in zip(thetas, chosen, strict=True):
            if stretches and stretches[-1][2] == a:
                stretches[-1][1] = theta
            else:
                stretches.append([theta, theta, a])
        out[noise] = [[round(t, 4), round(u, 4), a] for t, u, a in stretches]
    return out


def figure(path, found, label):
    """Columns: noise. A line for each power."""
    plots, panels = plt.subplots(1, len(NOISES), figsize=(11, 3.4), layout="constrained")
    for axes, noise in zip(panels, NOISES, strict=True):
        for k, a in enumerate(sorted({r["power"] for r in found})):
            some = [r for r in found if (r["noise"], r["power"]) == (noise, a)]
            x, y = [r["theta"] for r in some], [r["information"] for r in some]
            style = {"color": COLOURS[k], "marker": MARKS[k], "markersize": 4, "markevery": 6}
            axes.plot(x, y, label=label.format(a=a), **style)
        axes.set(title=noise, xlabel=r"$\theta$", yscale="log")
        tidy(axes)
    panels[0].set_ylabel(r"$F(\theta)$, n = 100")
    plots.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper")
    plots.savefig(path, dpi=150)


def main(name, doc, population, kind, powers, thetas, bounds, findings, label):
    """Run a figure whose curves are of powers."""
    choice, start = choose(name, doc), time.time()
    thetas = thetas[::4] if choice.quick else thetas
    found = list(curves(population, kind, powers, thetas, bounds))
    write_csv(choice.output / f"{name}.csv", found)
    figure(choice.output / f"{name}.png", found, label)
    settings = {"rows": ROWS, "bounds": bounds, "epsilon": EPSILON, "delta": DELTA}
    told = findings(found)
    write_json(choice.output / f"{name}.json", choice, settings, told, time.time() - start)


def grid(low, high, count=97):
    """Values of theta."""
    return np.linspace(low, high, count)
