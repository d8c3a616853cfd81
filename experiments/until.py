"""What a job pays that goes on until its result is reliable, beside a fixed epsilon.

On real data, with real responses or with simulated ones of a known truth: mean paid epsilon, after
which round jobs ended, and of reliable results coverage of 90 % intervals and width over the fit
without privacy; the same of jobs with a fixed epsilon of the same cost, one for each; and how many
jobs are reliable that spend all of it at once. missed: jobs that ended as hopeless where that one
was reliable. `python -m experiments.until [--runs 10] [--cells NAME ...] [--up-to 1 4]` writes the
tables into experiments/README.md; data in ../shared/data.
"""

import argparse
from collections import Counter
from pathlib import Path

import numpy as np

from dpmcmc import ModelSpec, sample
from dpmcmc.inputs.options import NoisyQuadraticOptions
from experiments import real_responses
from experiments.baselines import DELTA
from experiments.calibration import LEVEL, code_version, fitted
from experiments.real_data import CELLS
from experiments.reporting import add_row, rows_of

CHOSEN = (
    "powerplant", "expenditure", "mental health", "air", "adult", "crashes", "insured", "outlays",
)  # fmt: skip
UP_TO = (1.0, 4.0)
MOST_AT_ENDS = 0.05  # of simulated responses; cells with more have real ones alone
COLUMNS = (
    "cell", "truth", "up_to", "runs", "paid", "rounds", "reliable", "held", "width",
    "fixed_reliable", "fixed_held", "fixed_width", "whole_reliable", "hopeless", "missed", "code",
)  # fmt: skip
HERE = Path(__file__).parent
DATA, TABLE = HERE / "data" / "until.csv", HERE / "README.md"
WITH_ROUNDS = HERE / "data" / "until_rounds.csv"  # with --rounds 5, below what the planner takes
BEGIN, END = "<!-- until.csv -->", "<!-- end of until.csv -->"


def drawn(case, columns, rng):
    """The columns with a response of a known truth, as they are declared."""
    y = case.simulated(rng)
    return columns | {"y": np.where(y > 0.5, "1", "0") if case.family == "logistic" else y}, y


def cut_off(name):
    """Whether simulated responses lie at their declared ends: their truth is not the model's."""
    case = CELLS[name]()
    if case.family == "logistic":
        return False
    at_ends = np.isin(case.simulated(np.random.default_rng(1)), case.ends)
    return bool(at_ends.mean() > MOST_AT_ENDS) and case.family == "linear"


def judged(fit, truth, sds):
    """(reliable, held, width) of a fit."""
    d = len(truth)
    draws = fit.draws[:, fit.plan.num_warmup :].reshape(-1, fit.draws.shape[2])[:, :d]
    low, high = np.quantile(draws, LEVEL, axis=0)
    held = float(np.mean((low < truth) & (truth < high)))
    return fit.verdict.status == "reliable", held, float(np.median(draws.std(axis=0) / sds))


def measured(name, truth, up_to, runs, rounds=None):
    """One row of the CSV. The noise is the system's: no two calls agree.

    rounds: where the planner is not to choose them.
    """
    case, y, schema, columns, formula = real_responses.observed(name)
    rng, model = np.random.default_rng(), ModelSpec(family=case.family, formula=formula)
    known = {"schema": schema, "model": model, "delta": DELTA, "accept_low_quality": True}
    known |= {"sampler": "noisy_quadratic"}
    of_until, of_fixed, whole, paid, ended, hopeless, missed = [], [], [], [], [], 0, 0
    for _ in range(runs):
        if truth == "simulated":
            columns, y = drawn(case, columns, rng)
        exact, sds, _ = fitted(case.family, case.x, y)
        target = case.theta if truth == "simulated" else exact
        until = {"up_to": up_to, "until": "reliable"}
        asked = known | {"sampler": NoisyQuadraticOptions(rounds=rounds)}
        fit = sample(columns, **asked, epsilon=until)
        result = judged(fit, target, sds)
        at_once = judged(sample(columns, **known, epsilon=up_to), target, sds)[0]
        stored = fit.release.to_dict()
        paid.append(fit.cost.epsilon)
        ended.append(max(stored["rounds"], 1))
        of_until.append(result)
        whole.append(at_once)
        if stored["stopped"]:
            hopeless, missed = hopeless + 1, missed + at_once
        if result[0]:
            fixed = sample(columns, **known, epsilon=fit.cost.epsilon)
            of_fixed.append(judged(fixed, target, sds))
    good = [row for row in of_until if row[0]]
    fixed_good = [row for row in of_fixed if row[0]]
    return {
        "cell": name,
        "truth": truth,
        "up_to": up_to,
        "runs": runs,
        "paid": round(float(np.mean(paid)), 3),
        "rounds": " ".join(f"{k}:{count}" for k, count in sorted(Counter(ended).items())),
        "reliable": round(len(good) / runs, 3),
        **_means("", good),
        "fixed_reliable": round(len(fixed_good) / len(of_fixed), 3) if of_fixed else "",
        **_means("fixed_", fixed_good),
        "whole_reliable": round(float(np.mean(whole)), 3),
        "hopeless": hopeless,
        "missed": missed,
        "code": code_version(),
    }


def _means(begin, rows):
    held, width = (np.array([row[k] for row in rows]) for k in (1, 2))
    return {
        f"{begin}held": round(float(held.mean()), 3) if len(rows) else "",
        f"{begin}width": round(float(width.mean()), 3) if len(rows) else "",
    }


def table(rows):
    """The CSV as lines of Markdown, and what all cells together say."""
    lines = [
        "| cell | truth | up to | paid | ended after round | reliable | cover | width"
        " | fixed: reliable, cover, width | at once: reliable |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        fixed = ", ".join(row[f"fixed_{key}"] or "-" for key in ("reliable", "held", "width"))
        start = [row[key] for key in ("cell", "truth", "up_to", "paid", "rounds", "reliable")]
        words = [*start, row["held"] or "-", row["width"] or "-", fixed, row["whole_reliable"]]
        lines.append(f"| {' | '.join(words)} |")
    for truth in ("real", "simulated"):
        some = [row for row in rows if row["truth"] == truth]
        if some:
            said = {key: _mean(some, key) for key in ("held", "fixed_held", "width", "fixed_width")}
            ratio = np.mean([float(row["paid"]) / float(row["up_to"]) for row in some])
            runs = sum(int(row["runs"]) for row in some)
            ended = [dict(part.split(":") for part in row["rounds"].split()) for row in some]
            first = sum(int(counts.get("1", 0)) for counts in ended)
            hopeless, missed = (
                sum(int(row[key]) for row in some) for key in ("hopeless", "missed")
            )
            ours = f"coverage {said['held']:.3f}, width {said['width']:.2f}"
            fixed = f"{said['fixed_held']:.3f} and {said['fixed_width']:.2f}"
            lines += [
                "",
                f"{truth.capitalize()} responses, {runs} jobs: {first} end after their first round,"
                f" and {ratio:.0%} of up_to is paid on average; {ours}, with a fixed epsilon of the"
                f" same cost {fixed}. {hopeless} ended as hopeless, {missed} of them wrongly.",
            ]
    return "\n".join(lines)


def tables():
    """Both CSVs as Markdown."""
    forced = "With five rounds whatever the budget, so that most of the first ones cannot succeed:"
    return f"{table(rows_of(DATA))}\n\n{forced}\n\n{table(rows_of(WITH_ROUNDS))}"


def _mean(rows, key):
    return float(np.mean([float(row[key]) for row in rows if row[key]]))


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--cells", nargs="*", default=list(CHOSEN))
    parser.add_argument("--truths", nargs="*", default=["real", "simulated"])
    parser.add_argument("--up-to", nargs="*", type=float, default=list(UP_TO))
    parser.add_argument("--rounds", type=int, help="by default the planner's choice")
    parser.add_argument("--output", type=Path, help="the CSV; rows in it are kept")
    choice = parser.parse_args(words)
    standard = choice.output is None
    choice.output = choice.output or (WITH_ROUNDS if choice.rounds else DATA)
    real_responses.REAL = CELLS
    done = {(row["cell"], row["truth"], float(row["up_to"])) for row in rows_of(choice.output)}
    for name in choice.cells:
        for truth in choice.truths:
            if truth == "simulated" and cut_off(name):
                continue
            for up_to in choice.up_to:
                if (name, truth, up_to) not in done:
                    row = measured(name, truth, up_to, choice.runs, choice.rounds)
                    add_row(choice.output, COLUMNS, row)
    if standard:
        text = TABLE.read_text()
        before, rest = text.split(BEGIN)
        after = rest.split(END)[1]
        TABLE.write_text(f"{before}{BEGIN}\n{tables()}\n{END}{after}")


if __name__ == "__main__":
    main()
