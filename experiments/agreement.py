"""Every sampler with the planner's own settings beside posteriors that are known without privacy.

    .venv/bin/python experiments/agreement.py [--quick] [--output var/agreement]
        [--posterior NAME …] [--sampler NAME …] [--runs 1] [--epsilon 1e6]

With so large an epsilon the noise is next to nothing, so a chain has to be the posterior. One row
of agreement.csv is one run through dpmcmc.sample, with nothing chosen but the algorithm:
mean: worst |mean - reference| in posterior sds, at most 0.2. sd: worst |sd / reference - 1|, at
most 0.15. mmd: of 2,000 thinned draws against 2,000 draws of the reference (of up to five such
pairs, whose squares are averaged), below floor: what 95 of 100 pairs of exact samples of that size
stay below. reference: the standard error of the reference's own means, in sds, for the stored
posteriors are Monte Carlo as well; it is not added to any limit.
announced: the plan's expected_ess. ess, least: measured bulk ESS, mean and least of the parameters.
A chain has passed where no limit is missed; `missed` names those that are.
A second call runs only what the file does not hold yet. Writes agreement.csv, .json and .png.
Posteriors: experiments/posteriors.py; where ../shared/data is absent, only the simulated ones.
"""

import argparse
import json
import platform
import time
from functools import cache
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Released
from dpmcmc.families import MODELS
from dpmcmc.fit.local import sample
from dpmcmc.posterior.diagnostics import summarise
from dpmcmc.releases import RELEASES
from dpmcmc.samplers.algorithms import ALGORITHMS
from experiments.evaluation import median_bandwidth, mmd2
from experiments.posteriors import POSTERIORS, SHARED, STORED
from experiments.reporting import COLOURS, MARKS, add_row, rows_of, tidy

MEAN, SD = 0.2, 0.15
DRAWS, SETS = 2000, 5
LEADING, LAWS = 300, 4000  # eigenvalues, which leave out next to nothing, and draws of their law
DELTA = 1e-6
KEYS = ("posterior", "sampler", "run")
MEASURED = ("mean", "sd", "mmd", "floor", "reference", "announced", "ess", "least", "seconds")
COLUMNS = (*KEYS, *MEASURED, "num_steps", "num_chains", "num_warmup", "missed", "refused")
QUICK = ("means/tight", "linear/tight")


def parsed(words=None):
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two small posteriors, short chains")
    parser.add_argument("--output", type=Path, default=Path("var") / "agreement")
    parser.add_argument("--posterior", nargs="+", choices=tuple(POSTERIORS))
    parser.add_argument("--sampler", nargs="+", choices=tuple(ALGORITHMS))
    parser.add_argument("--runs", type=int, default=1, help="of each, numbered from 0")
    parser.add_argument("--epsilon", type=float, default=1e6)
    choice = parser.parse_args(words)
    there = (SHARED / "data" / "posteriors").is_dir()
    known = [name for name in POSTERIORS if there or name.split("/")[0] not in STORED]
    choice.posterior = choice.posterior or (list(QUICK) if choice.quick else known)
    choice.sampler = choice.sampler or list(ALGORITHMS)
    choice.output.mkdir(parents=True, exist_ok=True)
    return choice


@cache
def reference(name):
    """(posterior, sets of its draws in sds, bandwidth, floor)."""
    posterior, rng = POSTERIORS[name](), np.random.default_rng(1)
    draws = posterior.draws / posterior.sds
    bandwidth = median_bandwidth(draws, draws, random=rng)
    parts = draws[: len(draws) // DRAWS * DRAWS].reshape(-1, DRAWS, draws.shape[1])
    return posterior, parts, bandwidth, _floor(draws, bandwidth, rng)


def _floor(draws, bandwidth, rng):
    """What 95 of 100 pairs of exact samples stay below.

    Of the unbiased estimate's limit law, n MMD^2 -> sum of lambda (z^2 - 2), z ~ N(0, 2), lambda
    being the eigenvalues of the centred kernel over n (Gretton et al. 2012, Theorem 12).
    """
    some = rng.permutation(draws)[:DRAWS]
    squares = sum(np.subtract.outer(column, column) ** 2 for column in some.T)
    kernel = np.exp(squares / (-2.0 * bandwidth**2))
    kernel -= kernel.mean(axis=0)
    kernel -= kernel.mean(axis=1, keepdims=True)
    values = np.linalg.eigvalsh(kernel)[-LEADING:] / len(some)
    apart = (2.0 * rng.normal(size=(LAWS, LEADING)) ** 2 - 2.0) @ values / DRAWS
    return float(np.sqrt(np.quantile(apart, 0.95)))


def compared(kept, name):
    """Distances of draws (draw, d), in the parameters of the reference, from the reference."""
    posterior, parts, bandwidth, floor = reference(name)
    thinned = [kept[k :: max(1, len(kept) // DRAWS)][:DRAWS] / posterior.sds for k in range(SETS)]
    apart = [mmd2(some, parts[k % len(parts)], bandwidth) for k, some in enumerate(thinned)]
    return {
        "mean": float(np.abs((kept.mean(axis=0) - posterior.means) / posterior.sds).max()),
        "sd": float(np.abs(kept.std(axis=0) / posterior.sds - 1.0).max()),
        "mmd": float(np.sqrt(max(np.mean(apart), 0.0))),
        "floor": floor,
        "reference": len(posterior.draws) ** -0.5,
    }


def measured(name, algorithm, run, epsilon, quick):
    """One run: a row of the CSV."""
    posterior = reference(name)[0]
    row = dict.fromkeys(COLUMNS, "") | {"posterior": name, "sampler": algorithm, "run": run}
    start, steps = time.time(), 2000 if quick else None
    try:
        result = sample(
            posterior.columns,
            schema=posterior.schema,
            model=posterior.model,
            delta=DELTA,
            epsilon=epsilon,
            sampler=ALGORITHMS[algorithm].options(num_steps=steps),
            accept_low_quality=True,
        )
    except SpecError as error:
        return row | {"refused": str(error)}
    seconds, plan = time.time() - start, result.plan
    kept = result.draws[:, plan.num_warmup :]
    sizes = [one.ess_bulk or 0.0 for one in summarise(Released(kept), plan.parameters)]
    found = compared(posterior.read(kept.reshape(-1, kept.shape[2])), name)
    limits = {"mean": MEAN, "sd": SD, "mmd": found["floor"]}
    return row | {
        **{key: round(value, 4) for key, value in found.items()},
        "announced": round(plan.expected_ess, 1),
        "ess": round(float(np.mean(sizes)), 1),
        "least": round(float(np.min(sizes)), 1),
        "seconds": round(seconds, 1),
        "num_steps": plan.num_steps,
        "num_chains": plan.num_chains,
        "num_warmup": plan.num_warmup,
        "missed": " ".join(key for key, most in limits.items() if not found[key] < most),
    }


def suits(algorithm, name):
    """Whether a sampler, or a release, is for the family of a posterior."""
    family = reference(name)[0].model.family
    return (
        family in RELEASES[algorithm].families if algorithm in RELEASES else MODELS[family].chains
    )


def run_missing(choice, path):
    """Append every run that was chosen, suits its model and is not there yet."""
    done = {tuple(row[key] for key in KEYS) for row in rows_of(path)}
    for run in range(choice.runs):
        for name in choice.posterior:
            for algorithm in choice.sampler:
                if (name, algorithm, str(run)) in done or not suits(algorithm, name):
                    continue
                row = measured(name, algorithm, run, choice.epsilon, choice.quick)
                add_row(path, COLUMNS, row)
                print(*(f"{row[key]:>8}" for key in (*KEYS, *MEASURED)), row["missed"], flush=True)


def findings(rows):
    """sampler -> how many runs there were, how many passed, and which missed what."""
    found = {}
    for row in rows:
        if row["refused"]:
            continue
        one = found.setdefault(row["sampler"], {"runs": 0, "passed": 0, "missed": {}})
        one["runs"] += 1
        one["passed"] += not row["missed"]
        if row["missed"]:
            one["missed"][row["posterior"]] = row["missed"]
    return found


def figure(path, rows):
    """Panels of the three distances over their limits, and of the announced ESS over measured."""
    rows = [row for row in rows if not row["refused"]]
    names = list(dict.fromkeys(row["posterior"] for row in rows))
    plots, panels = plt.subplots(
        1, 4, figsize=(15, 1.5 + 0.25 * len(names)), layout="constrained", sharey=True
    )
    ratios = {
        "|mean - reference| / 0.2 sd": lambda r: float(r["mean"]) / MEAN,
        "|sd ratio - 1| / 0.15": lambda r: float(r["sd"]) / SD,
        "MMD / floor": lambda r: float(r["mmd"]) / float(r["floor"]),
        "announced / measured ESS": lambda r: float(r["announced"]) / max(float(r["ess"]), 1.0),
    }
    for axes, (label, ratio) in zip(panels, ratios.items(), strict=True):
        for k, algorithm in enumerate(ALGORITHMS):
            some = [row for row in rows if row["sampler"] == algorithm]
            axes.plot(
                [max(ratio(row), 0.01) for row in some],
                [names.index(row["posterior"]) for row in some],
                linestyle="",
                marker=MARKS[k % len(MARKS)],
                color=COLOURS[k % len(COLOURS)],
                markersize=5,
                label=algorithm if some else None,
            )
        axes.axvline(1.0, color="black", linewidth=0.8)
        axes.set(xscale="log", xlabel=label)
        axes.set_yticks(range(len(names)), names)
        axes.minorticks_off()
        tidy(axes)
    handles, labels = panels[0].get_legend_handles_labels()
    plots.legend(handles, labels, loc="outside right upper", frameon=False)
    plots.savefig(path, dpi=120)
    plt.close(plots)


def main(words=None):
    """Run what is missing, then describe everything that the file holds."""
    choice, start = parsed(words), time.time()
    path = choice.output / "agreement.csv"
    run_missing(choice, path)
    rows = rows_of(path)
    figure(choice.output / "agreement.png", rows)
    report = {
        "settings": {"epsilon": choice.epsilon, "delta": DELTA, "runs": choice.runs},
        "limits": {"mean": MEAN, "sd": SD, "mmd": "floor"},
        "posteriors": choice.posterior,
        "samplers": choice.sampler,
        "quick": choice.quick,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "seconds": round(time.time() - start, 1),
        "findings": findings(rows),
    }
    (choice.output / "agreement.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report["findings"], indent=1))


if __name__ == "__main__":
    main()
