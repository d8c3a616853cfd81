"""Thesis A, Figure 7.1: what clipping log likelihood ratios does to the posterior.

    python experiments/figure_7_1.py [--quick] [--output var/figure_7_1]

Random walk Metropolis-Hastings (3,000 draws, d = 2) and HMC (500 draws, d = 2 and 10) without
privacy on the banana model with n = 100,000 rows. Each row's log likelihood ratio is clipped to
+-bound |theta - theta'|. MMD of the second half of a chain against 2,000 exact draws, beside that
of ten exact samples. Beyond the thesis: every chain is repeated; one of 10 times the length
for each bound tells bias from the noise of a short chain; and RWMH is tried at d = 10.
Writes figure_7_1.png, .csv (a row for each chain) and .json. All data is simulated.
"""

import time

import numpy as np
from matplotlib import pyplot as plt
from non_private import Problem, Target, hmc, rwmh
from reporting import COLOURS, MARKS, choose, tidy, write_csv, write_json

from dpmcmc.families.banana import exact_posterior, straighten
from experiments.evaluation import mmd

ROWS, REFERENCE, EXACT, LONGER = 100_000, 2000, 10, 10
BOUNDS = (0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0)
QUICK_BOUNDS = (0.1, 1.0, 5.0)
SAMPLERS = {  # name, d: (sampler, draws, its settings)
    ("RWMH", 2): (rwmh, 3000, {"scale": 0.008}),
    ("HMC", 2): (hmc, 500, {"step_size": 0.003, "leapfrogs": 10}),
    ("HMC", 10): (hmc, 500, {"step_size": 0.002, "leapfrogs": 10}),
}
WALK = {"scale": 0.0025}  # RWMH at d = 10, where the thesis gave up


def width(problem, draws):
    """Geometric mean over coordinates of sd over exact sd, straightened. draws: (draws, d)."""
    _, variances = exact_posterior(problem.banana, problem.means, problem.rows)
    straight = straighten(problem.banana, draws)
    return float(np.exp(np.mean(np.log(straight.std(axis=0) / np.sqrt(variances)))))


def chain(problem, reference, name, bound, random, longer=1):
    """Run one chain and measure it."""
    d = len(problem.means)
    sampler, draws, settings = SAMPLERS[name, d]
    target = Target(problem, bound)
    found, accepted = sampler(target, problem.near(random), longer * draws, random, **settings)
    kept = found[len(found) // 2 :: max(1, longer // 3)]
    return {
        "d": d,
        "sampler": name,
        "bound": bound,
        "longer": longer,
        "clipped": target.share_clipped(),
        "accepted": accepted,
        "width": width(problem, kept),
        "mmd": mmd(kept, reference, random=random),
    }


def walk(problem, reference, draws, random):
    """MMD of unclipped RWMH at d = 10 after so many draws."""
    found, _ = rwmh(Target(problem), problem.near(random), draws, random, **WALK)
    return mmd(found[draws // 2 :: max(1, draws // 4000)], reference, random=random)


def averages(rows, keys=("clipped", "accepted", "width", "mmd")):
    """One entry for each sampler, d, bound and length: means, and the sd of the MMD."""
    groups = {}
    for row in rows:
        groups.setdefault((row["sampler"], row["d"], row["bound"], row["longer"]), []).append(row)
    table = []
    for (name, d, bound, longer), some in groups.items():
        entry = {"sampler": name, "d": d, "bound": bound, "longer": longer, "chains": len(some)}
        entry |= {key: float(np.mean([row[key] for row in some])) for key in keys}
        entry["mmd_sd"] = (
            float(np.std([row["mmd"] for row in some], ddof=1)) if len(some) > 1 else 0.0
        )
        table.append(entry)
    return table


def figure(path, table, exact):
    """The thesis' four panels."""
    plots, panels = plt.subplots(2, 2, figsize=(10, 7), layout="constrained", sharey=True)
    for column, d in enumerate((2, 10)):
        for name, dimensions in SAMPLERS:
            if dimensions != d:
                continue
            index = ("RWMH", "HMC").index(name)
            style = {"color": COLOURS[index], "marker": MARKS[index], "markersize": 4}
            for longer, look in (
                (1, {"linestyle": "-"}),
                (LONGER, {"linestyle": ":", "fillstyle": "none"}),
            ):
                some = [
                    e
                    for e in table
                    if (e["sampler"], e["d"], e["longer"]) == (name, d, longer)
                    and np.isfinite(e["bound"])
                ]
                if not some:
                    continue
                draws = f"{longer * SAMPLERS[name, d][1]:,} draws"
                heights, sds = [e["mmd"] for e in some], [e["mmd_sd"] for e in some]
                for axes, key in ((panels[0, column], "bound"), (panels[1, column], "clipped")):
                    axes.errorbar(
                        [e[key] for e in some],
                        heights,
                        sds if longer == 1 else None,
                        label=f"{name}, {draws}",
                        capsize=2,
                        linewidth=1.2,
                        **style,
                        **look,
                    )
        for axes in panels[:, column]:
            for value in exact[d]:
                axes.axhline(value, color="black", linewidth=0.5, alpha=0.6)
            tidy(axes)
        panels[1, column].axvline(0.1, color="grey", linestyle="--", linewidth=0.8)
        panels[0, column].set(title=f"d = {d}", xlabel="clip bound", xscale="log")
        panels[0, column].legend(frameon=False, fontsize=8)
        panels[1, column].set(xlabel="fraction of ratios clipped (dashed: 10 %)")
    for axes in panels[:, 0]:
        axes.set_ylabel("MMD")
    plots.savefig(path, dpi=150)


def verdicts(table):
    """How far chains are from those without clipping, under and over 10 % clipped."""
    found = {}
    for name, d in SAMPLERS:
        for longer in (1, LONGER):
            some = [e for e in table if (e["sampler"], e["d"], e["longer"]) == (name, d, longer)]
            free = [e for e in some if np.isinf(e["bound"])]
            if not free:
                continue
            some = [e for e in some if e["clipped"] > 0.001]
            found[f"{name}, d = {d}, {longer * SAMPLERS[name, d][1]} draws"] = {
                "no_clipping": [free[0]["mmd"], free[0]["mmd_sd"]],
                "share_mmd_sd_width": [
                    [round(e[key], 4) for key in ("clipped", "mmd", "mmd_sd", "width")]
                    for e in sorted(some, key=lambda e: e["clipped"])
                ],
            }
    return found


def main():
    """Run every chain and draw the figure."""
    choice, start = choose("figure_7_1", __doc__), time.time()
    random = choice.random
    bounds = (*(QUICK_BOUNDS if choice.quick else BOUNDS), np.inf)
    repeats = 2 if choice.quick else 8
    rows, exact, walks = [], {}, {}
    for d in (2, 10):
        problem = Problem.simulated(d, ROWS, random)
        reference = problem.exact(REFERENCE, random)
        exact[d] = [
            mmd(problem.exact(REFERENCE, random), reference, random=random) for _ in range(EXACT)
        ]
        for name in [name for name, dimensions in SAMPLERS if dimensions == d]:
            for bound in bounds:
                rows += [chain(problem, reference, name, bound, random) for _ in range(repeats)]
                if not choice.quick:
                    rows.append(chain(problem, reference, name, bound, random, LONGER))
        if d == 10:
            for draws in (3000,) if choice.quick else (3000, 30_000, 300_000):
                walks[draws] = [walk(problem, reference, draws, random) for _ in range(3)]
    table = averages(rows)
    write_csv(choice.output / "figure_7_1.csv", rows)
    figure(choice.output / "figure_7_1.png", table, exact)
    settings = {
        "rows": ROWS,
        "reference_draws": REFERENCE,
        "repeats": repeats,
        "bounds": [str(bound) for bound in bounds],
        "samplers": {
            f"{name}, d = {d}": {"draws": draws, **rest}
            for (name, d), (_, draws, rest) in SAMPLERS.items()
        },
        "rwmh_in_10_dimensions": WALK,
        "start": "one posterior sd from the posterior mean in every straightened coordinate",
    }
    findings = {
        "exact_against_exact": exact,
        "chains": verdicts(table),
        "rwmh_in_10_dimensions_mmd": walks,
    }
    write_json(choice.output / "figure_7_1.json", choice, settings, findings, time.time() - start)


if __name__ == "__main__":
    main()
