"""The answer to the model that was asked for, on real responses: ours beside a simple release.

Of every data set of `real_data` and epsilon: rms distance of posterior means to the fit without
privacy, in its sds, of results that call themselves reliable; how often their 90 % intervals hold
it; how often results are reliable, and how often they say so more than three of their own sds off;
the same of `estimand="robust"`; and of a release without noise in curvatures that begins at the fit
itself (`simple`), which no release that has to find the place is expected to beat by much.
`python -m experiments.asked [--runs 20] [--cells NAME ...]` adds what is missing to the CSV and
writes the table into experiments/README.md; `--plans` prints what plans promised beside what came,
and runs nothing. Data in ../shared/data.
"""

import argparse
import math
import time
from collections import defaultdict
from functools import partial
from pathlib import Path

import numpy as np

from dpmcmc import JobSpec, ModelOptions, ModelSpec, PrivacySpec, plan, sample
from dpmcmc.families.multinomial import probabilities
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.privacy import accountant
from experiments import real_data
from experiments.baselines import DELTA
from experiments.calibration import LEVEL, REAL, code_version, fitted
from experiments.categories import curvature as curvature_of
from experiments.real_responses import observed
from experiments.reporting import add_missing, rows_of

EPSILONS = (0.5, 1.0, 2.0, 4.0)
ESTIMANDS = ("model", "robust")
COLUMNS = (
    "cell", "family", "rows", "coefficients", "epsilon", "runs", "estimand", "reliable", "rms",
    "held", "least_held", "wrong", "width", "all_rms", "all_held", "scale", "simple_rms",
    "simple_held", "seconds", "code",
)  # fmt: skip
HERE = Path(__file__).parent
DATA, TABLE = HERE / "data" / "asked.csv", HERE / "README.md"
BEGIN, END = "<!-- asked: begin -->", "<!-- asked: end -->"
LEAST_HELD, MOST_WRONG = 0.85, 0.15  # beyond them a cell is bold
REPEATS = 40  # of the simple release
MORE = 1.25  # times the planned width, that is about right
FAR_OFF = 3.0  # of a result's own sds
CLIPS = np.array([1.0, 1.5, 2, 3, 4, 6, 8, 12, 20, 40, 80])
COUNTS_SHARE, SCORE_SHARE, ONE_SIDED = 0.05, 0.55, 0.5


def excess(counts, sd, n, ends):
    """Mean of (length - end)+ for each end, from noisy counts of rows that are longer."""
    kept, before, out = [], float(n), []
    for k, v in enumerate(np.maximum(counts, 0.0)):
        if v < 2.0 * sd and k:
            v = min(v, before * (ends[k - 1] / ends[k]) ** 3)
        before = min(v, before)
        kept.append(before)
    for k in range(len(ends)):
        parts = np.diff(ends)[k:] * 0.5 * (np.array(kept)[k:-1] + np.array(kept)[k + 1 :])
        out.append((parts.sum() + kept[-1] * ends[-1] * 0.3) / n)
    return np.array(out)


def slopes(family, x, y, theta, scale, dispersion):
    """Derivatives (k, n) of log likelihoods by predictors, and the curvature of all rows."""
    if family == "multinomial":
        q = probabilities(theta.reshape(-1, len(x)) @ x)[1]
        return (y == np.arange(1.0, len(q) + 1.0)[:, None]) - q, curvature_of(x, q)
    eta = theta @ x
    mean = {
        "linear": eta,
        "logistic": 1.0 / (1.0 + np.exp(-np.clip(eta, -30.0, 30.0))),
    }.get(family, np.exp(np.minimum(eta, 30.0)))
    gain = dispersion / (dispersion + mean) if family == "negative_binomial" else 1.0
    gain = scale**-2 if family == "linear" else gain
    slope = {"linear": 1.0, "logistic": mean * (1.0 - mean)}.get(family, mean)
    return (gain * (y - mean))[None], (x * (gain * slope)) @ x.T


def simple(family, x, y, theta, scale, mu, rng, dispersion):
    """Mean and covariance by one clipped score at the fit without privacy, as REPEATS draws."""
    d, n = len(theta), x.shape[1]
    psi, curvature = slopes(family, x, y, theta, scale, dispersion)
    values, vectors = np.linalg.eigh(curvature / n)
    root = vectors / np.sqrt(values)
    scores = root.T @ np.concatenate([x * part for part in psi])
    length, ends = np.linalg.norm(scores, axis=0), CLIPS * math.sqrt(d)
    longer = (length > ends[:, None]).sum(axis=1)
    z = 1.0 / (mu * math.sqrt(SCORE_SHARE))
    sd, found = math.sqrt(len(CLIPS)) / (mu * math.sqrt(COUNTS_SHARE)), []
    for _ in range(REPEATS):
        left = excess(longer + rng.normal(0.0, sd, len(ends)), sd, n, ends)
        cost = (2.0 * CLIPS * math.sqrt(d / n) * z) ** 2 + (ONE_SIDED * left) ** 2 * n / d
        k = int(np.argmin(cost))
        cut = scores * np.minimum(1.0, ends[k] / np.maximum(length, 1e-300))
        noise = 2.0 * ends[k] * z
        score = cut.sum(axis=1) + rng.normal(0.0, noise, d)
        own = cut @ cut.T + (noise**2 + (ONE_SIDED * n * left[k]) ** 2 / d) * np.eye(d)
        found.append((theta + root @ score / n, np.diag(root @ own @ root.T) / n**2))
    means, variances = (np.array(part) for part in zip(*found, strict=True))
    return means, np.sqrt(variances)


def model_of(case, formula):
    """The model of a data set, with the dispersion that is typed for it."""
    counts = case.family == "negative_binomial"
    options = ModelOptions(dispersion=case.dispersion if counts else None)
    return ModelSpec(family=case.family, formula=formula, options=options)


def measured(name, epsilon, runs):
    """Rows of the CSV. The noise is the system's: no two calls agree."""
    case, y, schema, columns, formula = observed(name)
    truth, sds, scale = fitted(case.family, case.x, y, case.dispersion)
    d, rng = len(truth), np.random.default_rng()
    linear = case.family == "linear"
    log_scale = 0.5 * math.log(np.mean((y - truth @ case.x) ** 2)) if linear else 0.0
    mu = accountant.mu_of_epsilon(epsilon, DELTA)
    means, wide = simple(case.family, case.x, y, truth, scale, mu, rng, case.dispersion)
    beside = {
        "simple_rms": rms((means - truth) / sds),
        "simple_held": round(float((np.abs(means - truth) < 1.645 * wide).mean()), 3),
    }
    model = model_of(case, formula)
    for estimand in ESTIMANDS:
        far, held, own, good, scales = [], [], [], [], []
        began = time.perf_counter()
        for _ in range(runs):
            result = sample(
                columns, schema=schema, model=model, delta=DELTA, epsilon=epsilon,
                sampler=NoisyQuadraticOptions(estimand=estimand), accept_low_quality=True,
            )  # fmt: skip
            draws = result.draws.reshape(-1, result.draws.shape[2])
            low, high = np.quantile(draws, LEVEL, axis=0)[:, :d]
            middle, sd = draws.mean(axis=0), draws.std(axis=0)
            far.append((middle[:d] - truth) / sds)
            own.append(sd[:d] / sds)
            held.append((low < truth) & (truth < high))
            good.append(result.verdict.status == "reliable")
            scales.append((middle[d] - log_scale) / sd[d] if len(middle) > d else 0.0)
        far, held, own, good = (np.array(part) for part in (far, held, own, good))
        off = np.abs(far / own) > FAR_OFF
        some = good.any()
        yield {
            "cell": name,
            "family": case.family,
            "rows": len(y),
            "coefficients": d,
            "epsilon": epsilon,
            "runs": runs,
            "estimand": estimand,
            "reliable": round(float(good.mean()), 3),
            "rms": rms(far[good]) if some else "",
            "held": round(float(held[good].mean()), 3) if some else "",
            "least_held": round(float(held[good].mean(axis=0).min()), 3) if some else "",
            "wrong": round(float(off[good].any(axis=1).mean()), 3) if some else "",
            "width": round(float(np.median(own)), 3),
            "all_rms": rms(far),
            "all_held": round(float(held.mean()), 3),
            "scale": rms(np.array(scales)[good]) if some else "",
            **beside,
            "seconds": round((time.perf_counter() - began) / runs, 3),
            "code": code_version(),
        }


def promises(rows):
    """Lines: by family, estimand and epsilon, planned widths and promises beside what came.

    The last ones are over all of an estimand: how many of the promised results are reliable.
    """
    found, known, kept = defaultdict(list), {}, defaultdict(list)
    for row in rows:
        name, epsilon = row["cell"], float(row["epsilon"])
        if name not in known:
            known[name] = observed(name)
        case, _, schema, _, formula = known[name]
        spec = JobSpec(
            model=model_of(case, formula),
            privacy=PrivacySpec(epsilon=epsilon, delta=DELTA),
            sampler=NoisyQuadraticOptions(estimand=row["estimand"]),
        )
        made = plan(schema, spec)
        came = made.expected_width, float(row["width"]), made.usable, float(row["reliable"])
        found[case.family, row["estimand"], epsilon].append(came)
        if made.usable:
            kept[row["estimand"]].append((float(row["reliable"]), came[1] <= MORE * came[0]))
    for key, some in sorted(found.items()):
        planned, came, usable, reliable = np.array(some, float).T
        yield (
            f"{key}: width planned {np.median(planned):.2f}, came {np.median(came):.2f}, ratio"
            f" {np.median(came / planned):.2f}; usable {usable.sum():.0f} of {len(some)}, of whose"
            f" results {reliable[usable > 0].mean() if usable.any() else 0.0:.2f} are reliable"
        )

    for estimand, some in kept.items():
        reliable, narrow = np.array(some, float).T
        yield (
            f"{estimand}: {len(some)} cells are usable, {reliable.mean():.3f} of their results are"
            f" reliable; {narrow.mean():.3f} came at most {MORE:g} times as wide as planned"
        )


def rms(values):
    return round(float(np.sqrt(np.mean(np.square(values)))), 3)


def table(rows):
    """Markdown: a line for each data set, a column for each epsilon."""

    def cell(row):
        if row is None:
            return ""
        if not float(row["reliable"]):
            return "unreliable"
        odd = float(row["held"]) < LEAST_HELD or float(row["wrong"]) > MOST_WRONG
        told = f"{float(row['rms']):.2g}, {float(row['held']):.2f} ({float(row['reliable']):.2f})"
        return f"**{told}**" if odd else told

    at = {(row["cell"], float(row["epsilon"]), row["estimand"]): row for row in rows}
    names = list(dict.fromkeys(row["cell"] for row in rows))
    lines = ["| data set | answer |" + "".join(f" eps {e:g} |" for e in EPSILONS)]
    lines.append("|---" * (2 + len(EPSILONS)) + "|")
    for name in names:
        some = [at.get((name, e, "model")) for e in EPSILONS]
        beside = [
            f"{float(r['simple_rms']):.2g}, {float(r['simple_held']):.2f}" if r else ""
            for r in some
        ]
        shown = f"{name} ({some[0]['family']}, {some[0]['rows']} x {some[0]['coefficients']})"
        lines.append(f"| {shown} | model | " + " | ".join(map(cell, some)) + " |")
        lines.append("| | simple | " + " | ".join(beside) + " |")
        robust = [cell(at.get((name, e, "robust"))) for e in EPSILONS]
        lines.append("| | robust | " + " | ".join(robust) + " |")
    return "\n".join(lines)


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--cells", nargs="*", default=list(real_data.CELLS))
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(EPSILONS))
    parser.add_argument("--output", type=Path, default=DATA, help="the CSV; rows in it are kept")
    parser.add_argument("--plans", action="store_true", help="print what plans promised, alone")
    choice = parser.parse_args(words)
    code_version()
    REAL.update(real_data.CELLS)
    if choice.plans:
        print(*promises(rows_of(choice.output)), sep="\n")
        return
    run = partial(measured, runs=choice.runs)
    for row in add_missing(choice.output, COLUMNS, choice.cells, choice.epsilons, run):
        print(" ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    if choice.output == DATA:
        text = TABLE.read_text()
        before, after = text[: text.index(BEGIN)], text[text.index(END) :]
        TABLE.write_text(f"{before}{BEGIN}\n{table(rows_of(choice.output))}\n{after}")


if __name__ == "__main__":
    main()
