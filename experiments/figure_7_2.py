"""Thesis A, Figure 7.2: MMD against epsilon for every private sampler, on banana posteriors.

    python experiments/figure_7_2.py [--quick] [--output var/figure_7_2]

Every registered sampler runs through dpmcmc.sample, one chain of STEPS steps and the rest as
planned, on d = 2 (n = 100,000) and d = 10 (n = 200,000), each in full and tempered to 1,000 rows,
at delta = 0.1 / n. Unlike the thesis no run knows where the posterior is: the declared bounds lie
half an sd off the data, and what finds the posterior is charged. Ratios are cut at SLOPE times the
length of a move. MMD of the draws after the planned warm-up, at most 2,000 of them evenly spaced,
against 2,000 exact draws. The grey line is the best of the thesis' own samplers, compiled and on
its settings, started about one posterior sd from the answer.
Writes figure_7_2.png, .csv (a row for each run) and .json. All data is simulated.
"""

import time

import numpy as np
from matplotlib import pyplot as plt
from non_private import Problem
from reporting import COLOURS, MARKS, choose, tidy, write_csv, write_json

from dpmcmc.base.errors import SpecError
from dpmcmc.fit.local import sample
from dpmcmc.inputs.schema import NumberColumn, Schema
from dpmcmc.inputs.spec import ModelOptions, ModelSpec, NormalPrior
from dpmcmc.samplers import SAMPLERS
from experiments.evaluation import mmd

REFERENCE, EXACT, SLOPE = 2000, 10, 2.0
PROBLEMS = {  # d, tempered to so many rows: n
    "d = 2, easy": (2, 100_000, None),
    "d = 2, tempered": (2, 100_000, 1000),
    "d = 10, easy": (10, 200_000, None),
    "d = 10, tempered": (10, 200_000, 1000),
}
THESIS = {  # the best of the thesis' samplers, mean of 5 to 10 seeds
    "d = 2, easy": {1: 0.46, 2: 0.33, 4: 0.17, 6: 0.09, 10: 0.09},
    "d = 2, tempered": {1: 0.34, 2: 0.33, 4: 0.27, 6: 0.16, 10: 0.09},
    "d = 10, easy": {2: 0.37, 4: 0.27, 6: 0.23, 10: 0.15},
}
EPSILONS, STEPS, REPEATS = (1.0, 2.0, 4.0, 10.0), 5000, 3
QUICK_PROBLEMS, QUICK_EPSILONS, QUICK_STEPS = ("d = 2, tempered",), (1.0, 4.0), 1000


def public_facts(problem):
    """The schema: eight sds of a column, declared half an sd off its middle."""
    middle = np.zeros(len(problem.columns))
    middle[1] = 3.0
    columns = [
        NumberColumn(name=f"x{j + 1}", lower=round(at - 3.5 * sd, 1), upper=round(at + 4.5 * sd, 1))
        for j, (at, sd) in enumerate(zip(middle, np.sqrt(problem.banana.variances), strict=True))
    ]
    return Schema(columns=tuple(columns), rows=problem.rows)


def question(problem, schema, tempering):
    """The model, with the thesis' constants."""
    return ModelSpec(
        family="banana",
        formula="~ " + " + ".join(column.name for column in schema.columns),
        prior=NormalPrior(scale=problem.banana.prior_variance**0.5),
        tempering=tempering,
        options=ModelOptions(variances=problem.banana.variances, ratio_slope=SLOPE),
    )


def measure(problem, reference, tempering, epsilon, sampler, steps, random):
    """Run one sampler once and measure it. Raises SpecError where it has no plan."""
    schema = public_facts(problem)
    model = question(problem, schema, tempering)
    chosen, start = sampler.options(num_steps=steps, num_chains=1), time.time()
    data = {c.name: x for c, x in zip(schema.columns, problem.columns, strict=True)}
    result = sample(
        data,
        schema=schema,
        model=model,
        delta=0.1 / problem.rows,
        epsilon=epsilon,
        sampler=chosen,
        accept_low_quality=True,
    )
    draws = result.draws[:, result.plan.num_warmup :].reshape(-1, len(problem.means))
    return {
        "sampler": sampler.name,
        "epsilon": epsilon,
        "mmd": mmd(draws[:: -(-len(draws) // REFERENCE)], reference, random=random),
        "expected_ess": result.plan.expected_ess,
        "num_steps": result.plan.num_steps,
        "num_chains": result.plan.num_chains,
        "num_warmup": result.plan.num_warmup,
        "spent": result.cost.epsilon,
        "seconds": time.time() - start,
    }


def run_all(choice, problems, epsilons, steps, repeats):
    """Every problem, epsilon and sampler; also exact against exact, and what was refused."""
    rows, exact, refused = [], {}, {}
    for name in problems:
        d, n, weight = PROBLEMS[name]
        tempering = None if weight is None else weight / n
        problem = Problem.simulated(d, n, choice.random)
        reference, *others = (
            problem.exact(REFERENCE, choice.random, tempering or 1.0) for _ in range(EXACT + 1)
        )
        exact[name] = [mmd(other, reference, random=choice.random) for other in others]
        for epsilon in epsilons:
            for sampler in SAMPLERS.values():
                try:
                    rows += [
                        {"problem": name}
                        | measure(
                            problem, reference, tempering, epsilon, sampler, steps, choice.random
                        )
                        for _ in range(repeats)
                    ]
                except SpecError as error:
                    refused[f"{name}, {sampler.name}, epsilon {epsilon:g}"] = str(error)
        write_csv(choice.output / "figure_7_2.csv", rows)
    return rows, exact, refused


def averages(rows):
    """problem -> sampler -> epsilon -> (mean MMD, its sd over runs)."""
    groups = {}
    for row in rows:
        samplers = groups.setdefault(row["problem"], {})
        found = samplers.setdefault(row["sampler"], {})
        found.setdefault(row["epsilon"], []).append(row["mmd"])
    return {
        problem: {
            name: {
                epsilon: (float(np.mean(some)), float(np.std(some, ddof=len(some) > 1)))
                for epsilon, some in found.items()
            }
            for name, found in samplers.items()
        }
        for problem, samplers in groups.items()
    }


def figure(path, table, exact):
    """A panel for each problem, MMD on a log scale."""
    plots, panels = plt.subplots(
        -(-len(table) // 2),
        2,
        figsize=(10.5, 3.8 * -(-len(table) // 2)),
        layout="constrained",
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    names = list(SAMPLERS)
    for axes, (problem, samplers) in zip(panels.flat, table.items(), strict=False):
        for name, found in samplers.items():
            index, epsilons = names.index(name), sorted(found)
            shift = 1.0 + 0.02 * (index - 0.5 * len(names))
            axes.errorbar(
                [shift * epsilon for epsilon in epsilons],
                [found[epsilon][0] for epsilon in epsilons],
                [found[epsilon][1] for epsilon in epsilons],
                label=name,
                color=COLOURS[index % len(COLOURS)],
                marker=MARKS[index % len(MARKS)],
                markersize=5,
                linewidth=1.2,
                elinewidth=0.7,
                capsize=2,
            )
        axes.axhspan(0.001, max(exact[problem]), color="black", alpha=0.08, label="exact samples")
        best = THESIS.get(problem)
        if best:
            axes.plot(*zip(*best.items(), strict=True), "--", color="grey", label="thesis, best")
        axes.set(title=problem, xscale="log", yscale="log", ylim=(0.004, 1.5))
        axes.set_xticks([1, 2, 4, 6, 10], ["1", "2", "4", "6", "10"])
        axes.minorticks_off()
        tidy(axes)
    for axes in panels[-1]:
        axes.set_xlabel(r"$\epsilon$  ($\delta$ = 0.1 / n)")
    for axes in panels[:, 0]:
        axes.set_ylabel("MMD")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    plots.legend(handles, labels, loc="outside right upper", frameon=False)
    plots.savefig(path, dpi=150)


def main():
    """Run every sampler and draw the figure."""
    choice, start = choose("figure_7_2", __doc__), time.time()
    epsilons, steps = (QUICK_EPSILONS, QUICK_STEPS) if choice.quick else (EPSILONS, STEPS)
    repeats = 1 if choice.quick else REPEATS
    problems = QUICK_PROBLEMS if choice.quick else tuple(PROBLEMS)
    rows, exact, refused = run_all(choice, problems, epsilons, steps, repeats)
    table = averages(rows)
    figure(choice.output / "figure_7_2.png", table, exact)
    settings = {
        "problems": {name: dict(zip("dn", PROBLEMS[name][:2], strict=True)) for name in problems},
        "tempered_to": 1000,
        "epsilons": epsilons,
        "delta": "0.1 / n",
        "steps": steps,
        "repeats": repeats,
        "ratio_slope": SLOPE,
        "samplers": list(SAMPLERS),
    }
    findings = {"exact_against_exact": exact, "mean_and_sd": table, "refused": refused}
    write_json(choice.output / "figure_7_2.json", choice, settings, findings, time.time() - start)


if __name__ == "__main__":
    main()
