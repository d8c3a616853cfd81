"""Checks of a fitted model: what is seen of a misfit, and how rarely of none."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import chdtrc, expit

from dpmcmc import (
    Budget,
    ModelOptions,
    ModelSpec,
    NumberColumn,
    PrivacySpec,
    Schema,
    SpecError,
    check_fit,
    sample,
)
from dpmcmc.families import MODELS, parameters_of
from dpmcmc.fit.local import table_of
from dpmcmc.queries.checks import call, findings
from dpmcmc.queries.checks.cells import MOST_DRAWS, histogram_of, some_of
from dpmcmc.queries.checks.moves import MOVES, moved_by, placed
from dpmcmc.queries.tasks import TaskSpec, answer_of, plan_task, run_task
from dpmcmc.queries.tasks.predictive_check import PredictiveCheckTask
from tests.sources import Seeded

ROWS = 20_000
RANDOM = np.random.default_rng(1)
X, U = RANDOM.uniform(-1.0, 1.0, ROWS), RANDOM.uniform(0.0, 1.0, ROWS)
GROUPS = RANDOM.integers(0, 3, ROWS)
ETA = 0.5 + 0.8 * X
TRIALS = RANDOM.integers(1, 13, ROWS).astype(float)
CUT_OFF = RANDOM.exponential(3.0, ROWS)
EFFECTS = np.array([-0.6, 0.1, 0.5])


def times(latent):
    """Times that are cut off, and whether an event ended them."""
    return {"t": np.minimum(latent, CUT_OFF), "e": (latent <= CUT_OFF).astype(float)}


def counts(distribution):
    return {"y": distribution.ppf(U).astype(float)}


POSITIVE = stats.poisson.ppf(np.exp(-np.exp(ETA)) + U * -np.expm1(-np.exp(ETA)), np.exp(ETA))
LATENT = 0.8 * X + stats.logistic.ppf(U)
CHOICES = np.stack((0.0 * X, ETA, -1.0 - 0.4 * X)) + RANDOM.gumbel(size=(3, ROWS))
WORDS = np.array(["a", "b", "c"])
# rows of each family at known parameters, those of the standardised design: x is in its bounds
CASES = {
    "linear": ("y ~ x", {"y": ETA + 0.7 * stats.norm.ppf(U)}, [0.5, 0.8, math.log(0.7)]),
    "student_t": ("y ~ x", {"y": ETA + 0.7 * stats.t(4).ppf(U)}, [0.5, 0.8, math.log(0.7)]),
    "poisson": ("y ~ x", counts(stats.poisson(np.exp(ETA))), [0.5, 0.8]),
    "negative_binomial": (
        "y ~ x",
        counts(stats.nbinom(1.5, 1.5 / (1.5 + np.exp(ETA)))),
        [0.5, 0.8, math.log(1.5)],
    ),
    "hurdle_poisson": (
        "y ~ x",
        {"y": np.where(RANDOM.random(ROWS) < expit(-0.4 + 0.9 * X), 0.0, POSITIVE)},
        [0.5, 0.8, -0.4, 0.9],
    ),
    "gamma": (
        "y ~ x",
        {"y": np.exp(ETA) * stats.gamma(4.0, scale=0.25).ppf(U)},
        [0.5, 0.8, math.log(0.5)],
    ),
    "beta": (
        "y ~ x",
        {"y": stats.beta(6.0 * expit(ETA), 6.0 * expit(-ETA)).ppf(U)},
        [0.5, 0.8, math.log(6.0)],
    ),
    "binomial": (
        "y | trials(n) ~ x",
        {"n": TRIALS, **counts(stats.binom(TRIALS, expit(ETA)))},
        [0.5, 0.8],
    ),
    "exponential": ("surv(t, e) ~ x", times(-np.log(U) * np.exp(-ETA)), [0.5, 0.8]),
    "weibull": (
        "surv(t, e) ~ x",
        times(np.exp(ETA) * (-np.log(U)) ** 0.6),
        [0.5, 0.8, math.log(0.6)],
    ),
    "logistic": ("y ~ x", {"y": np.where(expit(ETA) > U, "b", "a")}, [0.5, 0.8]),
    "ordinal": (
        "y ~ x",
        {"y": WORDS[1 * (LATENT > -0.5) + 1 * (LATENT > 0.7)]},
        [-0.5, 0.7, 0.8],
    ),
    "multinomial": ("y ~ x", {"y": WORDS[CHOICES.argmax(axis=0)]}, [0.5, 0.8, -1.0, -0.4]),
}
BOUNDS = {"beta": (1e-6, 1.0 - 1e-6), "gamma": (1e-3, 60.0)}


def rows_of(family):
    """Formula, rows, schema and parameters."""
    formula, data, theta = CASES[family]
    data = {"x": X, **data}
    bounds = {"x": (-1.0, 1.0), "t": (1e-4, 200.0), "e": (0.0, 1.0), "n": (0.0, 12.0)}
    words = data["y"].dtype.kind == "U" if "y" in data else False
    bounds["y"] = tuple(np.unique(data["y"])) if words else BOUNDS.get(family, (-50.0, 50.0))
    if family in ("poisson", "negative_binomial", "hurdle_poisson"):
        bounds["y"] = (0.0, 60.0)
    if family == "binomial":
        bounds["y"] = (0.0, 12.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        schema = Schema.from_frame(data, {name: bounds[name] for name in data})
    return formula, data, schema, np.array([theta])


def exact_p(family, theta, seed=5, formula=None):
    """The test without noise of rows of a family, at these parameters."""
    known, data, schema, _ = rows_of(family)
    model = ModelSpec(family=family, formula=formula or known)
    histogram = histogram_of(schema, model, 10)
    table = table_of(schema, data, histogram.read)
    counted = histogram.counts(table, theta, Seeded(seed)).astype(float)
    assert counted.sum() == ROWS
    return findings.found(histogram, counted, 1e-9, np.zeros((MOVES, 10)))


@pytest.mark.parametrize("family", CASES)
def test_rows_of_a_model_are_spread_evenly_over_its_predictions(family):
    theta = rows_of(family)[3]
    found = exact_p(family, theta)
    assert found.p_value > 0.001
    off = theta + np.array([0.3] + [0.0] * (theta.shape[1] - 1))
    assert exact_p(family, off).p_value < 1e-6


def test_every_family_with_a_distribution_has_rows_here():
    every = {
        family
        for family, model in MODELS.items()
        if model.categories is not None or model.distribution(model.example.options) is not None
    }
    assert every == set(CASES)
    for family in set(MODELS) - every:
        with pytest.raises(SpecError, match="fit a regression"):
            histogram_of(rows_of("linear")[2], ModelSpec(family=family, formula="~ x"), 10)


def test_effects_of_groups_move_what_is_predicted():
    data = {
        "x": X,
        "g": np.array(["p", "q", "r"])[GROUPS],
        "y": ETA + EFFECTS[GROUPS] + 0.7 * stats.norm.ppf(U),
    }
    schema = Schema.from_frame(data, {"x": (-1, 1), "g": ("p", "q", "r"), "y": (-50, 50)})
    model = ModelSpec(family="linear", formula="y ~ x + (1 | g)")
    histogram = histogram_of(schema, model, 10)
    table = table_of(schema, data, histogram.read)
    names = parameters_of(schema, model)
    theta = dict.fromkeys(names, 0.5) | {"x": 0.8, "log_sigma": math.log(0.7)}
    theta |= {f"g[{name}]": effect for name, effect in zip("pqr", EFFECTS, strict=True)}
    flat, nothing = np.zeros((MOVES, 10)), theta | dict.fromkeys(["g[p]", "g[q]", "g[r]"], 0.0)
    p = []
    for known in (theta, nothing):
        draws = np.array([[known[name] for name in names]])
        counted = histogram.counts(table, draws, Seeded(2)).astype(float)
        p.append(findings.found(histogram, counted, 1e-9, flat).p_value)
    assert p[0] > 0.001
    assert p[1] < 1e-6


def test_weights_of_a_linear_model_divide_variances():
    w = RANDOM.uniform(0.2, 5.0, ROWS)
    data = {"x": X, "w": w, "y": ETA + 0.7 / np.sqrt(w) * stats.norm.ppf(U)}
    schema = Schema.from_frame(data, {"x": (-1, 1), "w": (0.2, 5.0), "y": (-50, 50)})
    theta, flat = np.array([[0.5, 0.8, math.log(0.7)]]), np.zeros((MOVES, 10))
    p = []
    for weights in ("w", None):
        model = ModelSpec(family="linear", formula="y ~ x", weights=weights)
        histogram = histogram_of(schema, model, 10)
        table = table_of(schema, data, histogram.read)
        counted = histogram.counts(table, theta, Seeded(2)).astype(float)
        p.append(findings.found(histogram, counted, 1e-9, flat).p_value)
    assert p[0] > 0.001
    assert p[1] < 1e-6


def test_a_response_at_a_bound_stands_for_what_lies_beyond():
    """Incomes that are cut off at the top follow the model of those that are not."""
    data = {"x": X, "y": ETA + 0.7 * stats.norm.ppf(U)}
    schema = Schema.from_frame(data, {"x": (-1, 1), "y": (-0.3, 1.2)})
    histogram = histogram_of(schema, ModelSpec(family="linear", formula="y ~ x"), 10)
    table = table_of(schema, data, histogram.read)
    counted = histogram.counts(table, np.array([[0.5, 0.8, math.log(0.7)]]), Seeded(2))
    assert stats.chisquare(counted).pvalue > 0.001


@pytest.mark.longer
@pytest.mark.parametrize("noise_sd", [800.0, 420.0, 60.0, 4.0])
@pytest.mark.parametrize("family", ["poisson", "logistic"])
def test_the_test_rejects_a_model_that_holds_at_its_level(family, noise_sd):
    """Sampling and noise as they are, at epsilon .01 to 1: 5 % of 4000."""
    histogram = histogram_of(rows_of(family)[2], ModelSpec(family=family, formula="y ~ x"), 10)
    random, trials, flat = np.random.default_rng(3), 4000, np.zeros((MOVES, 10))
    shares = np.full(10, 0.1)
    if histogram.by_probability:
        rows = np.array([0, 0, 0.02, 0.18, 0.5, 0.3, 0, 0, 0, 0])
        p = histogram.middles
        shares = np.stack((rows * (1.0 - p), rows * p), axis=1).reshape(-1)
    rejected = 0
    for _ in range(trials):
        drawn = random.multinomial(ROWS, shares) + random.normal(0.0, noise_sd, len(shares))
        rejected += findings.found(histogram, drawn, noise_sd, flat).misfit
    assert abs(rejected / trials - 0.05) < 0.012


def fitted(family, formula=None, epsilon=1.0, seed=1, **data):
    """A fit of rows of a family, or of others, and these rows."""
    known, rows, schema, _ = rows_of(family)
    rows = {**rows, **data}
    fit = sample(
        formula or known,
        rows,
        schema,
        epsilon=epsilon,
        delta=1e-6,
        family=family,
        random=Seeded(seed),
        accept_low_quality=True,
    )
    return fit, rows


MORE = counts(stats.nbinom(1.5, 1.5 / (1.5 + np.exp(ETA))))["y"]
TAILS = np.clip(ETA + 0.7 * stats.t(4).ppf(U), -49.0, 49.0)
SKEWED = np.minimum(np.exp(0.8 * ETA + 0.6 * stats.norm.ppf(U)), 49.0)
ZEROS = np.where(RANDOM.random(ROWS) < 0.4, 0.0, POSITIVE)
BENT = np.where(expit(-1.0 + ETA + 2.0 * X**2) > U, "b", "a")


@pytest.mark.parametrize(
    ("family", "y", "word"),
    [
        ("poisson", MORE, "negative_binomial"),
        ("linear", TAILS, "student_t"),
        ("linear", SKEWED, "log of the response"),
        ("poisson", ZEROS, "hurdle_poisson"),
        ("logistic", BENT, "s(x)"),
    ],
)
def test_a_misfit_is_seen_and_has_a_remedy(family, y, word):
    fit, rows = fitted(family, epsilon=2.0, y=y)  # at 1 noise hides the scale of such tails
    check = check_fit(fit, rows, epsilon=0.2, random=Seeded(4))
    assert check.misfit
    assert word in check.explain()
    assert any(one.differs for one in check.bins)
    assert "is right" not in check.explain()  # of a model it is never said


@pytest.mark.longer
@pytest.mark.parametrize(
    ("family", "y"), [("negative_binomial", MORE), ("student_t", TAILS), ("poisson", None)]
)
def test_of_a_model_that_holds_nothing_is_seen_and_what_would_be_is_said(family, y):
    fit, rows = fitted(family, **({} if y is None else {"y": y}))
    checks = [check_fit(fit, rows, epsilon=0.1, random=Seeded(seed)) for seed in range(3)]
    told = next(check for check in checks if not check.misfit)
    assert told.explain().splitlines()[1].startswith("No misfit that this check can see")
    assert "would show nine times in ten" in told.explain()
    assert told.verdict.status == "reliable"
    assert "0.9 to 1 " in str(told)


def test_a_misfit_of_the_told_size_shows_nine_times_in_ten():
    histogram = histogram_of(
        rows_of("poisson")[2], ModelSpec(family="poisson", formula="y ~ x"), 10
    )
    random, noise_sd = np.random.default_rng(5), 60.0
    least = findings.least_misfit(histogram, ROWS, noise_sd)
    shares = np.full(10, (1.0 - 0.1 - least) / 9.0)
    shares[3] = 0.1 + least
    seen = 0
    for _ in range(400):
        drawn = random.multinomial(ROWS, shares) + random.normal(0.0, noise_sd, 10)
        seen += findings.found(histogram, drawn, noise_sd, np.zeros((MOVES, 10))).misfit
    assert seen / 400 > 0.85


def test_errors_of_the_fit_are_no_misfit():
    """A scale that noise has put off moves all bins, in a direction that is known."""
    family = "linear"
    theta = rows_of(family)[3]
    draws = theta + np.random.default_rng(2).normal(0.0, [0.01, 0.01, 0.06], (MOST_DRAWS, 3))
    histogram = histogram_of(rows_of(family)[2], ModelSpec(family=family, formula="y ~ x"), 10)
    moments = np.array([[1.0, 0.0], [0.0, 1.0 / 3.0]])
    moved = moved_by(histogram, draws, moments)
    table = table_of(rows_of(family)[2], rows_of(family)[1], histogram.read)
    off = draws + np.array([0.0, 0.0, 0.08])
    counted = histogram.counts(table, off, Seeded(2)).astype(float)
    flat = findings.found(histogram, counted, 5.0, np.zeros((MOVES, 10)))
    known = findings.found(histogram, counted, 5.0, moved)
    assert flat.p_value < 1e-6
    assert known.p_value > 0.01
    assert np.allclose(moved.sum(axis=1), 0.0, atol=1e-9)
    assert not moved_by(histogram, draws[:1], moments).any()


@pytest.mark.parametrize("family", CASES)
def test_errors_of_any_fit_are_small_beside_all_rows(family):
    """What moves is finite, and more where parameters are less known."""
    theta, schema = rows_of(family)[3], rows_of(family)[2]
    histogram = histogram_of(schema, ModelSpec(family=family, formula=CASES[family][0]), 10)
    errors = np.random.default_rng(2).normal(0.0, 0.01, (MOST_DRAWS, theta.shape[1]))
    moments = np.array([[1.0, 0.0], [0.0, 1.0 / 3.0]])
    few, many = (moved_by(histogram, theta + part * errors, moments) for part in (1.0, 2.0))
    assert 1e-5 < np.abs(few).max() < 0.05
    assert np.linalg.norm(many) == pytest.approx(2.0 * np.linalg.norm(few), rel=0.2)
    assert np.isfinite(moved_by(histogram, theta + errors, None)).all()


def test_rows_with_missing_values_are_left_out_and_their_number_is_not_known():
    x = np.where(RANDOM.random(ROWS) < 0.3, -9.0, X)
    data = {"x": x, "y": counts(stats.poisson(np.exp(ETA)))["y"]}
    columns = (
        NumberColumn(name="x", lower=-1.0, upper=1.0, missing=(-9.0,)),
        NumberColumn(name="y", lower=0.0, upper=60.0),
    )
    schema = Schema(columns=columns, rows=ROWS)
    fit = sample("y ~ x", data, schema, epsilon=2, family="poisson", random=Seeded(1))
    check = check_fit(fit, data, epsilon=1, random=Seeded(3))
    assert abs(check.released.sum() - (x > -9.0).sum()) < 5 * 10**0.5 * check.plan.noise_sd
    assert check.findings.p_value > 0.001
    assert sum(one.share for one in check.bins) == pytest.approx(1.0)


def test_a_check_is_paid_for_and_an_impossible_one_is_not():
    fit, rows = fitted("poisson")
    budget = Budget(epsilon=1.0, delta=1e-6)
    check = check_fit(fit, rows, epsilon=0.3, budget=budget, random=Seeded(1))
    assert budget.spent == pytest.approx(check.cost.epsilon)
    for wrong in ({"bins": 3}, {"bins": 21}, {"bins": 4.0}, {"epsilon": -1}, {"epsilon": None}):
        with pytest.raises(SpecError):
            check_fit(fit, rows, **({"epsilon": 0.1} | wrong), budget=budget)
    with pytest.raises(SpecError, match="the columns of the fit"):
        check_fit(fit, rows, schema=rows_of("linear")[2], epsilon=0.1, budget=budget)
    half = {name: values[::2] for name, values in rows.items()}
    smaller = replace(fit.design.schema, rows=ROWS // 2)
    assert sum(check_fit(fit, half, schema=smaller, epsilon=9.0).released) == pytest.approx(
        ROWS / 2, abs=100
    )
    with pytest.raises(SpecError, match="what sample returned"):
        check_fit(rows, fit, epsilon=0.1, budget=budget)
    assert budget.spent == pytest.approx(check.cost.epsilon)


def test_that_a_fit_is_unreliable_is_said_beside_what_does_not_fit():
    fit, rows = fitted("poisson", y=MORE)
    lost = replace(fit, verdict=replace(fit.verdict, status="unreliable"))
    words = [check_fit(one, rows, epsilon=0.2).explain().splitlines() for one in (fit, lost)]
    assert "negative_binomial" in words[0][-1]
    assert "negative_binomial" in words[1][-2]
    assert words[1][-1] == findings.UNRELIABLE


def test_noise_that_hides_every_misfit_is_told():
    fit, rows = fitted("poisson")
    check = check_fit(fit, rows, epsilon=0.005, random=Seeded(1))
    assert check.verdict.status == "unreliable"
    epsilon = float(check.verdict.sentence.partition("at epsilon ")[2].split()[0])
    enough = call.planned(
        fit.design.schema, fit.plan.spec.model, 10, PrivacySpec(delta=1e-6, epsilon=epsilon)
    )
    assert enough.verdict.status == "reliable"
    assert enough.detectable == pytest.approx(0.05, rel=0.15)


def test_a_task_says_what_the_library_does():
    fit, rows = fitted("logistic")
    task = PredictiveCheckTask(job="earlier", bins=8, model=fit.plan.spec.model)
    spec = TaskSpec(task=task, privacy=PrivacySpec(delta=1e-6, epsilon=0.5))
    plan = plan_task(fit.design.schema, spec)
    assert plan.numbers == 1 + 16 + MOVES * 8 + 15
    assert "would show" in plan.reasons[0]
    check = check_fit(fit, rows, epsilon=0.5, delta=1e-6, bins=8, random=Seeded(2))
    places = check.plan.histogram.fitted
    assert len(places) == 15
    first = np.concatenate(([1.0], check.released, check.moved.reshape(-1), places))
    told = answer_of(fit.design.schema, spec, first)
    assert told["sentences"] == check.explain().splitlines()
    assert (
        told["p_value"]
        == check.findings.p_value
        == pytest.approx(float(chdtrc(told["degrees"], told["statistic"])))
    )
    with pytest.raises(SpecError, match="draws"):
        next(run_task(fit.design.schema, spec, None, None))
    lacking = TaskSpec(task=PredictiveCheckTask(job="earlier"), privacy=spec.privacy)
    with pytest.raises(SpecError, match="that of the job"):
        plan_task(fit.design.schema, lacking)


def test_bins_of_fitted_probabilities_have_about_as_many_rows():
    """By the moments that a release has, or by those that the planner guesses."""
    known, data, schema, theta = rows_of("logistic")
    histogram = histogram_of(schema, ModelSpec(family="logistic", formula=known), 10)
    table = table_of(schema, data, histogram.read)
    wide = np.ptp(histogram.counts(table, theta, Seeded(1)).reshape(-1, 2).sum(axis=1))
    for moments in (np.array([[1.0, 0.0], [0.0, 1.0 / 3.0]]), None):
        better = placed(histogram, theta, moments)
        assert (np.diff(better.ends) > 0.0).all()
        rows = better.counts(table, theta, Seeded(1)).reshape(-1, 2).sum(axis=1)
        assert np.ptp(rows) < wide
    assert placed(histogram, 0.0 * theta, None) == histogram  # all have the same probability


def test_some_draws_of_all_chains_are_used_and_no_warm_up():
    draws = np.arange(2 * 50 * 1.0).reshape(2, 50, 1)
    some = some_of(draws, 10)[:, 0]
    assert (some.min(), some.max(), len(some)) == (10.0, 99.0, MOST_DRAWS)
    assert not set(some.tolist()) & (set(range(10)) | set(range(50, 60)))
    assert some_of(draws[:, :15], 10)[:, 0].tolist() == [*range(10, 15), *range(60, 65)]


def test_known_scales_are_those_of_the_options():
    options = ModelOptions(noise_scale=0.7)
    data, schema = rows_of("linear")[1], rows_of("linear")[2]
    model = ModelSpec(family="linear", formula="y ~ x", options=options)
    histogram = histogram_of(schema, model, 10)
    table = table_of(schema, data, histogram.read)
    counted = histogram.counts(table, np.array([[0.5, 0.8]]), Seeded(2))
    assert stats.chisquare(counted).pvalue > 0.001
