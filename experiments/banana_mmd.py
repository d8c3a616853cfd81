"""MMD against epsilon on banana posteriors: every algorithm, beside the thesis' own code.

    python experiments/banana_mmd.py [--quick] [--output var/banana_mmd]
        [--only ALGORITHM …] [--problem "d2" …] [--eps 1 2 …] [--seeds 10] [--steps 5000]

One row is one run through dpmcmc.sample on data of its own (delta = 0.1 / n, declared bounds eight
sds wide and half an sd off the data), appended to banana_mmd.csv when it ends. A second call runs
only what the file does not hold yet, so the work can be done in pieces and stopped at any time:
choose a piece with --only, --problem, --eps and --seeds. MMD of the draws after the planned
warm-up, at most 2,000 of them evenly spaced, against 2,000 exact draws. --steps 0 lets the planner
choose the number of steps of a chain. `auto` is the planner's own choice of an algorithm, `exact`
stands for exact draws: the floor of what can be measured.
`thesis` in the JSON are the means of a compiled port of the thesis' samplers on its own settings,
started about one posterior sd from the answer; `one_release` is one Gaussian release of the clipped
mean with exact inference.
Writes banana_mmd.csv, .png and .json (means and standard errors). All data is simulated.
"""

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np
from figure_7_2 import public_facts, question
from matplotlib import pyplot as plt
from non_private import Problem
from reporting import COLOURS, MARKS, add_row, rows_of, tidy

from dpmcmc.base.errors import SpecError
from dpmcmc.fit.local import sample
from dpmcmc.inputs.options import AutoOptions
from dpmcmc.releases import RELEASES
from dpmcmc.samplers import SAMPLERS
from experiments.evaluation import mmd

REFERENCE = 2000
PROBLEMS = {  # d, n, tempered to so many rows
    "d2": (2, 100_000, None),
    "d2-tempered": (2, 100_000, 1000),
    "d10": (10, 200_000, None),
    "d10-tempered": (10, 200_000, 1000),
}
EPSILONS = (1.0, 2.0, 4.0, 6.0, 10.0)
FLOOR = "exact"
ALGORITHMS = {
    **{name: sampler.options for name, sampler in SAMPLERS.items()},
    **{name: r.options for name, r in RELEASES.items() if "banana" in r.families},
    "auto": AutoOptions,  # whichever the planner chooses
}
THESIS = {  # problem -> algorithm -> mean MMD at each of EPSILONS; None where it was not run
    "d2": {
        "dp_penalty": (0.47, 0.36, 0.17, 0.09, 0.09),
        "dp_penalty_guided": (0.46, 0.34, 0.26, 0.10, 0.09),
        "dp_hmc": (0.50, 0.33, 0.27, 0.13, 0.10),
        "dp_barker": (0.63, 0.60, 0.55, 0.47, 0.40),
        "dp_penalty_subsampled": (0.67, 0.61, 0.52, 0.49, 0.34),
        "one_release": (0.086, 0.053, 0.037, 0.034, 0.032),
    },
    "d2-tempered": {
        "dp_penalty": (0.45, 0.42, 0.33, 0.30, 0.29),
        "dp_hmc": (0.34, 0.33, 0.27, 0.16, 0.09),
        "dp_barker": (0.42, 0.38, 0.34, 0.37, 0.30),
        "dp_penalty_subsampled": (0.55, 0.45, 0.32, 0.33, 0.27),
        "one_release": (0.021, 0.021, 0.022, 0.022, 0.022),
    },
    "d10": {
        "dp_penalty": (None, 0.37, 0.34, 0.23, 0.15),
        "dp_penalty_guided": (None, 0.40, 0.27, 0.28, 0.18),
        "dp_hmc": (None, 0.48, 0.37, 0.35, 0.45),
        "dp_barker": (None, 0.73, 0.60, 0.60, 0.48),
        "dp_penalty_subsampled": (None, 0.71, 0.64, 0.59, 0.57),
        "one_release": (None, 0.050, 0.029, 0.021, 0.018),
    },
}
KEYS = ("problem", "algorithm", "epsilon", "seed")
COLUMNS = (
    *KEYS,
    "mmd",
    "chosen",
    "expected_ess",
    "num_steps",
    "num_chains",
    "num_warmup",
    "spent",
    "seconds",
    "refused",
)


def parsed():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="under two minutes")
    parser.add_argument("--output", type=Path, default=Path("var") / "banana_mmd")
    parser.add_argument("--only", nargs="+", choices=(*ALGORITHMS, FLOOR))
    parser.add_argument("--problem", nargs="+", choices=tuple(PROBLEMS))
    parser.add_argument("--eps", nargs="+", type=float)
    parser.add_argument("--seeds", type=int, help="runs of each: seeds 0 to N - 1")
    parser.add_argument("--steps", type=int, help="of each chain; 0: the planner chooses")
    choice = parser.parse_args()
    quick = {"problem": ["d2-tempered"], "eps": [1.0, 4.0], "seeds": 1, "steps": 500}
    full = {"problem": list(PROBLEMS), "eps": list(EPSILONS), "seeds": 10, "steps": 5000}
    for name, value in (quick if choice.quick else full).items():
        if getattr(choice, name) is None:
            setattr(choice, name, value)
    choice.only = choice.only or [*ALGORITHMS, FLOOR]
    choice.output.mkdir(parents=True, exist_ok=True)
    return choice


def tempering_of(problem):
    """T, or None."""
    _, n, weight = PROBLEMS[problem]
    return None if weight is None else weight / n


def data_of(problem, seed):
    """The simulated rows, exact draws and a generator for the MMD, the same in every call."""
    d, n, _ = PROBLEMS[problem]
    random = np.random.default_rng((seed, d, n))
    simulated = Problem.simulated(d, n, random)
    return simulated, simulated.exact(REFERENCE, random, tempering_of(problem) or 1.0), random


def measured(problem, algorithm, epsilon, seed, steps):
    """One run: a row of the CSV."""
    simulated, reference, random = data_of(problem, seed)
    row = dict.fromkeys(COLUMNS, "")
    row |= {"problem": problem, "algorithm": algorithm, "epsilon": epsilon, "seed": seed}
    start = time.time()
    if algorithm == FLOOR:
        draws = simulated.exact(REFERENCE, random, tempering_of(problem) or 1.0)
        return row | {"mmd": mmd(draws, reference, random=random)}
    schema = public_facts(simulated)
    data = {c.name: x for c, x in zip(schema.columns, simulated.columns, strict=True)}
    chosen = ALGORITHMS[algorithm]
    try:
        result = sample(
            data,
            schema=schema,
            model=question(simulated, schema, tempering_of(problem)),
            delta=0.1 / simulated.rows,
            epsilon=epsilon,
            sampler=chosen(
                num_steps=REFERENCE if algorithm not in SAMPLERS else steps or None, num_chains=1
            ),
            accept_low_quality=True,
        )
    except SpecError as error:
        return row | {"refused": str(error)}
    plan = result.plan
    draws = result.draws[:, plan.num_warmup :].reshape(-1, len(simulated.means))
    return row | {
        "mmd": mmd(draws[:: -(-len(draws) // REFERENCE)], reference, random=random),
        "chosen": plan.spec.sampler.algorithm,
        "expected_ess": plan.expected_ess,
        "num_steps": plan.num_steps,
        "num_chains": plan.num_chains,
        "num_warmup": plan.num_warmup,
        "spent": result.cost.epsilon,
        "seconds": time.time() - start,
    }


def key_of(row):
    """What tells one run from another."""
    return row["problem"], row["algorithm"], float(row["epsilon"]), int(row["seed"])


def run_missing(choice, path):
    """Append every run that was chosen and is not there yet."""
    done = {key_of(row) for row in rows_of(path)}
    wanted = [
        (problem, algorithm, epsilon, seed)
        for seed in range(choice.seeds)
        for problem in choice.problem
        for epsilon in choice.eps
        for algorithm in choice.only
    ]
    for key in wanted:
        if key in done:
            continue
        row = measured(*key, choice.steps)
        add_row(path, COLUMNS, row)
        print(*key, row["mmd"] or row["refused"], flush=True)


def averages(rows):
    """problem -> algorithm -> epsilon -> mean MMD, its standard error, and how many runs."""
    groups = {}
    for row in rows:
        if row["mmd"]:
            some = groups.setdefault(row["problem"], {}).setdefault(row["algorithm"], {})
            some.setdefault(float(row["epsilon"]), []).append(float(row["mmd"]))
    return {
        problem: {
            name: {
                epsilon: {
                    "mean": round(float(np.mean(some)), 4),
                    "standard_error": round(
                        float(np.std(some, ddof=len(some) > 1) / np.sqrt(len(some))), 4
                    ),
                    "runs": len(some),
                }
                for epsilon, some in sorted(found.items())
            }
            for name, found in algorithms.items()
        }
        for problem, algorithms in groups.items()
    }


def thesis(problem):
    """What the thesis' code reached: algorithm -> epsilon -> mean MMD."""
    return {
        name: {e: v for e, v in zip(EPSILONS, values, strict=True) if v is not None}
        for name, values in THESIS.get(problem, {}).items()
    }


def figure(path, table):
    """A panel for each problem: ours with standard errors, the thesis' dashed."""
    height = 3.8 * -(-len(table) // 2)
    plots, panels = plt.subplots(
        -(-len(table) // 2), 2, figsize=(10.5, height), layout="constrained", squeeze=False
    )
    names = list(ALGORITHMS)
    for axes, (problem, algorithms) in zip(panels.flat, table.items(), strict=False):
        for name, found in algorithms.items():
            if name == FLOOR:
                continue
            index = names.index(name)
            style = {"color": COLOURS[index % len(COLOURS)], "marker": MARKS[index % len(MARKS)]}
            axes.errorbar(
                list(found),
                [one["mean"] for one in found.values()],
                [one["standard_error"] for one in found.values()],
                label=name,
                markersize=5,
                linewidth=1.2,
                capsize=2,
                **style,
            )
            if name in thesis(problem):
                axes.plot(
                    *zip(*thesis(problem)[name].items(), strict=True),
                    color=style["color"],
                    linestyle=":",
                    linewidth=1.2,
                )
        floor = [one["mean"] for one in algorithms.get(FLOOR, {}).values()]
        if floor:
            axes.axhline(float(np.mean(floor)), color="black", linewidth=0.8, label="exact draws")
        axes.set(title=problem, xscale="log", yscale="log", ylim=(0.004, 1.5))
        axes.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
        axes.minorticks_off()
        tidy(axes)
        axes.set(xlabel=r"$\epsilon$  ($\delta$ = 0.1 / n)", ylabel="MMD (dotted: the thesis')")
    for axes in panels.flat[len(table) :]:
        axes.set_visible(False)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    plots.legend(handles, labels, loc="outside right upper", frameon=False)
    plots.savefig(path, dpi=150)


def main():
    """Run what is missing, then describe everything that the file holds."""
    choice, start = parsed(), time.time()
    path = choice.output / "banana_mmd.csv"
    run_missing(choice, path)
    rows = rows_of(path)
    table = averages(rows)
    figure(choice.output / "banana_mmd.png", table)
    report = {
        "settings": {"problems": PROBLEMS, "delta": "0.1 / n", "steps": choice.steps},
        "quick": choice.quick,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "seconds": round(time.time() - start, 1),
        "runs": len(rows),
        "refused": sorted({f"{r['problem']}, {r['algorithm']}" for r in rows if r["refused"]}),
        "findings": table,
        "thesis": {problem: thesis(problem) for problem in PROBLEMS},
    }
    (choice.output / "banana_mmd.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report["findings"], indent=1))


if __name__ == "__main__":
    main()
