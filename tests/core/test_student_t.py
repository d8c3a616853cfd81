"""Student-t regression: the posterior at large budgets, what its rows say, and other residuals."""

import numpy as np
import pytest
from scipy import optimize, stats

from dpmcmc.base.errors import SpecError
from dpmcmc.families import MODELS
from dpmcmc.families.scores.base import UNCUT, Evaluation
from dpmcmc.families.student_t import StudentT
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.inputs.schema import CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec, PrivacySpec
from dpmcmc.planner import plan
from dpmcmc.posterior.free.priors import CoefficientPrior
from tests.cases import posterior
from tests.sources import Seeded

ROWS, TRUTH, LOG_SIGMA = 4000, np.array([5.0, 2.0, -1.0]), np.log(1.5)
SCHEMA = Schema(
    columns=(
        NumberColumn(name="a", lower=-1.0, upper=1.0),
        CategoryColumn(name="g", categories=("no", "yes")),
        NumberColumn(name="base", lower=0.0, upper=10.0),
        NumberColumn(name="exact", lower=0.25, upper=4.0),
        NumberColumn(name="y", lower=-40.0, upper=60.0, missing=(99.0,)),
    ),
    rows=ROWS,
)
NAMES = ("Intercept", "a", "g[yes]", "log_sigma")


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(1)
    a, g, base = rng.uniform(-1, 1, ROWS), rng.integers(0, 2, ROWS), rng.uniform(0, 10, ROWS)
    exact = rng.choice([0.25, 1.0, 4.0], ROWS)
    errors = np.exp(LOG_SIGMA) * rng.standard_t(4, ROWS)
    y = TRUTH @ np.stack([np.ones(ROWS), a, g]) + errors
    return {"a": a, "g": np.array(["no", "yes"])[g], "base": base, "exact": exact, "y": y}


def model_of(formula="y ~ a + g", degrees=None, **more):
    options = ModelOptions(degrees_of_freedom=degrees)
    return ModelSpec(family="student_t", formula=formula, options=options, **more)


def design_of(data):
    return np.stack([np.ones(len(data["y"])), data["a"], data["g"] == "yes"])


def fitted(x, y, degrees=4.0, weight=1.0, unit=None):
    """The maximum likelihood fit, and its (cluster-)robust sds by numeric derivatives."""

    def each(theta):
        scale = np.exp(theta[-1]) / np.sqrt(weight)
        return stats.t.logpdf((y - theta[:-1] @ x) / scale, degrees) - np.log(scale)

    first = np.append(np.linalg.lstsq(x.T, y, rcond=None)[0], np.log(y.std()))
    theta = optimize.minimize(
        lambda t: -each(t).mean(), first, method="BFGS", options={"gtol": 1e-7}
    ).x
    step = 1e-4 * np.eye(len(theta))
    scores = np.stack([(each(theta + h) - each(theta - h)) / 2e-4 for h in step])
    curve = np.array(
        [
            [
                (each(theta + h + k) - each(theta + h - k) - each(theta - h + k)
                 + each(theta - h - k)).sum() / 4e-8
                for k in step
            ]
            for h in step
        ]
    )  # fmt: skip
    if unit is not None:
        together = np.zeros((unit.max() + 1, len(theta)))
        np.add.at(together, unit, scores.T)
        scores = together.T
    back = np.linalg.inv(curve)
    return theta, np.sqrt(np.diag(back @ scores @ scores.T @ back))


@pytest.mark.parametrize("case", ["plain", "offset", "weights", "missing", "Cauchy", "thirty"])
def test_without_noise_it_is_the_fit_of_the_model(people, case):
    data, x, weight, more, degrees = dict(people), design_of(people), 1.0, {}, 4.0
    there = np.ones(ROWS, bool)
    if case == "offset":
        data["y"], more = data["y"] + data["base"], {"formula": "y ~ a + g + offset(base)"}
    elif case == "weights":
        errors = data["y"] - TRUTH @ x
        weight, more = data["exact"], {"weights": "exact"}
        data["y"] = TRUTH @ x + errors / np.sqrt(weight)
    elif case == "missing":
        there = np.random.default_rng(2).random(ROWS) < 0.8
        data["y"] = np.where(there, data["y"], 99.0)
    elif case in ("Cauchy", "thirty"):
        degrees = {"Cauchy": 1.0, "thirty": 30.0}[case]
        more = {"degrees": degrees}
    y = data["y"] - (data["base"] if case == "offset" else 0.0)
    theta, sds = fitted(x[:, there], y[there], degrees, weight)
    result, draws = posterior(data, SCHEMA, model_of(**more), 3)
    assert result.verdict.status == "reliable", result.verdict.sentence
    assert result.plan.parameters == NAMES
    assert np.abs((draws.mean(axis=0) - theta) / sds).max() < 0.15
    assert draws.std(axis=0) / sds == pytest.approx(np.ones(4), abs=0.1)


@pytest.mark.parametrize("law", ["normal", "skewed", "clusters", "spike"])
def test_residuals_of_other_laws_have_the_fit_that_the_model_has_for_them(people, law):
    """Where the model is wrong the width is the sandwich's, or wider."""
    rng, x = np.random.default_rng(4), design_of(people)
    errors = {
        "normal": rng.normal(size=ROWS),
        "skewed": np.exp(rng.normal(size=ROWS)),
        "clusters": 6.0 * (rng.random(ROWS) < 0.3) + 0.5 * rng.normal(size=ROWS),
        "spike": np.where(rng.random(ROWS) < 0.3, 0.0, rng.exponential(2.0, ROWS)),
    }[law]
    y = TRUTH @ x + errors
    theta, sds = fitted(x, y)
    result, draws = posterior({**people, "y": y}, SCHEMA, model_of(), 5)
    assert result.verdict.status == "reliable", result.verdict.sentence
    assert np.abs((draws.mean(axis=0) - theta) / sds).max() < 0.2
    ratio = draws.std(axis=0) / sds
    assert ratio[:-1] == pytest.approx(np.ones(3), abs=0.12)
    assert 0.9 < ratio[-1] < 2.5


def test_persons_have_the_cluster_robust_width():
    rng = np.random.default_rng(6)
    person = np.repeat(np.arange(2500), rng.integers(1, 5, 2500))
    a = np.clip(rng.normal(0.0, 0.4, 2500), -1, 1)[person]
    y = 1.0 + a + 0.8 * rng.normal(size=2500)[person] + 0.5 * rng.standard_t(4, len(person))
    rows = {"patient": person, "a": a, "y": np.clip(y, -20, 20)}
    schema = Schema.from_frame(
        rows, bounds={"a": (-1, 1), "y": (-20, 20)}, privacy_unit="patient", max_rows=4
    )
    x = np.stack([np.ones(len(person)), a])
    theta, sds = fitted(x, rows["y"], unit=person)
    alone = fitted(x, rows["y"])[1]
    result, draws = posterior(rows, schema, model_of("y ~ a"), 7)
    assert result.verdict.status == "reliable", result.verdict.sentence
    assert np.abs((draws.mean(axis=0) - theta) / sds).max() < 0.25
    assert draws.std(axis=0) / sds == pytest.approx(np.ones(3), abs=0.12)
    assert (sds[:2] > 1.2 * alone[:2]).all()


@pytest.mark.longer
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_intervals_hold_the_truth_as_often_as_they_say(epsilon):
    held, runs = [], 60
    for seed in range(runs):
        rng = np.random.default_rng(100 + seed)
        a, g = rng.uniform(-1, 1, 12_000), rng.integers(0, 2, 12_000)
        y = TRUTH @ np.stack([np.ones(12_000), a, g]) + 1.5 * rng.standard_t(4, 12_000)
        rows = {"a": a, "g": np.array(["no", "yes"])[g], "y": np.clip(y, -40, 60)}
        schema = Schema.from_frame(rows, bounds={"a": (-1, 1), "g": ("no", "yes"), "y": (-40, 60)})
        result, draws = posterior(rows, schema, model_of(), 1000 + seed, epsilon)
        assert result.verdict.status == "reliable", result.verdict.sentence
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        truth = np.append(TRUTH, LOG_SIGMA)
        held.append((low < truth) & (truth < high))
    # four standard errors of 60 x 4 intervals, those of one fit taken for half independent
    assert np.mean(held) == pytest.approx(0.9, abs=4.0 * np.sqrt(0.09 / (2 * runs)))


@pytest.mark.parametrize("kind", ["category", "end of a number"])
@pytest.mark.parametrize("seed", [10, 13, 18, 20])
def test_what_few_rows_have_is_right_or_unreliable(kind, seed):
    """Curvatures far from such a coefficient are too small: it was up to four sds off."""
    rng, rows = np.random.default_rng(seed), 10_000
    g, x = rng.choice(3, rows, p=[0.6969, 0.2969, 0.0062]), rng.uniform(-1.0, 1.0, rows)
    y = 1.0 + 0.5 * x + np.array([0.0, 0.5, 1.0])[g] + rng.standard_t(4, rows)
    data = {"x": x, "g": np.array(["u", "v", "w"])[g], "z": 1.0 * (g == 2), "y": y.clip(-12, 15)}
    bounds = {"x": (-1, 1), "g": ("u", "v", "w"), "z": (0, 1), "y": (-12, 15)}
    schema = Schema.from_frame(data, bounds=bounds)
    name, formula = ("g[w]", "y ~ x + g") if kind == "category" else ("z", "y ~ x + z")
    truth = 1.0 if kind == "category" else 1.0 - 0.5 * 0.2969 / 0.9938
    result = posterior(data, schema, model_of(formula), seed, 10.0)[0]
    row = result.summary(mixing=False)[name]
    assert result.verdict.status == "unreliable" or abs(row.mean - truth) < 2.0 * row.sd


@pytest.mark.parametrize("degrees", [1.0, 4.0, 30.0])
def test_scores_and_slopes_are_the_derivatives_of_the_log_likelihood(degrees):
    rng, m = np.random.default_rng(8), 200
    y, eta, log_sd = rng.standard_t(2, m), rng.normal(size=m), rng.normal(size=m)
    shape = rng.normal(size=(2, 2, m))
    inner = np.einsum("abm,cbm->acm", shape, shape)
    none = np.zeros(m)
    at = Evaluation(np.stack((eta, log_sd)), none, none, UNCUT, UNCUT, 1.0, 1.0, inner=inner)
    terms = StudentT(degrees).terms(y, at)

    def log_likelihood(eta, log_sd):
        return stats.t.logpdf((y - eta) / np.exp(log_sd), degrees) - log_sd

    h = 1e-5 * np.maximum(np.exp(log_sd), 1e-2)
    slopes = (
        (log_likelihood(eta + h, log_sd) - log_likelihood(eta - h, log_sd)) / (2 * h),
        (log_likelihood(eta, log_sd + 1e-5) - log_likelihood(eta, log_sd - 1e-5)) / 2e-5,
    )
    assert terms.psi == pytest.approx(np.stack(slopes), rel=1e-4, abs=1e-4)
    curve = np.einsum("abm,cbm->acm", terms.root, terms.root)
    curve -= np.einsum("abm,cbm->acm", terms.minus, terms.minus)

    def psi(eta, log_sd):
        there = Evaluation(np.stack((eta, log_sd)), none, none, UNCUT, UNCUT, 1.0, 1.0, inner=inner)
        return StudentT(degrees).terms(y, there).psi

    first = (psi(eta + h, log_sd) - psi(eta - h, log_sd)) / (2 * h)
    last = (psi(eta, log_sd + 1e-5) - psi(eta, log_sd - 1e-5)) / 2e-5
    wanted = -np.stack((first, last), axis=1)
    size = np.abs(wanted).max(axis=(0, 1))
    assert (np.abs(curve - wanted) / size).max() < 1e-4


@pytest.mark.parametrize("degrees", [1.0, 2.5, 4.0, 30.0])
def test_no_score_is_longer_than_the_longest_and_one_is_as_long(degrees):
    rng = np.random.default_rng(9)
    squares = rng.exponential(size=(2, 50))
    z = np.append(0.0, np.geomspace(1e-3, 1e6, 4000))
    q = degrees / (degrees + z * z)
    first, last = (degrees + 1.0) / degrees * q * z, degrees - (degrees + 1.0) * q
    lengths = np.sqrt(np.outer(squares[0], first**2) + np.outer(squares[1], last**2)).max(axis=1)
    assert StudentT(degrees).longest(squares) == pytest.approx(lengths, rel=1e-4)


def test_a_row_says_no_more_than_its_caps_on_the_way():
    rng, m = np.random.default_rng(10), 3000
    y, eta = 50.0 * rng.standard_t(1, m), rng.normal(size=(2, m))
    lengths = rng.uniform(0.01, 5.0, (2, m))
    inner = np.zeros((2, 2, m))
    inner[0, 0], inner[1, 1] = lengths**2
    at = Evaluation(eta, np.zeros(m), np.zeros(m), 1.5, 4.0, 1.0, 1.0, inner=inner)
    terms = StudentT(4.0).terms(y, at)
    size = np.sqrt(((terms.psi * lengths) ** 2).sum(axis=0))
    assert 0.95 * 1.5 < size.max() <= 1.5 * (1 + 1e-9)
    curve = ((terms.root * lengths[:, None]) ** 2).sum(axis=(0, 1))
    assert curve.max() <= 4.0 * (1 + 1e-9)


def test_new_responses_have_tails_of_their_law(people):
    result, _ = posterior(people, SCHEMA, model_of(), 11)
    free = result.release.posterior(num_draws=40_000, random=Seeded(12))
    new = free.predict([{"a": 0.0, "g": "no"}], random=Seeded(13))[0].response
    wide = stats.t.ppf(0.95, 4) * 1.5
    assert new.q95 - new.q05 == pytest.approx(2.0 * wide, rel=0.06)
    sigma = np.exp(free.draws[:, -1].mean())
    assert new.sd == pytest.approx(sigma * np.sqrt(2.0), rel=0.1)


def test_other_priors_and_tests_of_coefficients_are_free(people):
    result, _ = posterior(people, SCHEMA, model_of(), 14)
    prior = {"a": CoefficientPrior(kind="normal", loc=0.0, scale=0.02)}
    held = result.release.posterior(prior, random=Seeded(15), scale="design").draws
    assert abs(held[:, 1].mean()) < 0.5
    tails = {"a": CoefficientPrior(kind="laplace", loc=0.0, scale=5.0)}
    walked = result.release.posterior(tails, random=Seeded(16), scale="design").draws
    plain = result.release.posterior(random=Seeded(17), scale="design").draws
    assert walked.mean(axis=0) == pytest.approx(plain.mean(axis=0), abs=0.02)
    assert walked.std(axis=0) == pytest.approx(plain.std(axis=0), rel=0.1)
    assert np.corrcoef(walked[:, [0, 3]].T)[0, 1] == pytest.approx(
        np.corrcoef(plain[:, [0, 3]].T)[0, 1], abs=0.08
    )
    assert result.release.posterior(random=Seeded(18)).bayes_factor({"a": 0.0}).log > 50.0


@pytest.mark.parametrize("kind", ["constant", "most at a point", "at a bound", "follows"])
@pytest.mark.parametrize("epsilon", [1.0, 30.0])
def test_responses_without_a_fit_are_unreliable_and_raise_nothing(people, kind, epsilon):
    rng = np.random.default_rng(19)
    y = {
        "constant": np.full(ROWS, 3.0),
        "most at a point": np.where(rng.random(ROWS) < 0.95, 0.0, rng.exponential(9.0, ROWS)),
        "at a bound": np.full(ROWS, 60.0),
        "follows": TRUTH @ design_of(people),
    }[kind]
    result, draws = posterior({**people, "y": y}, SCHEMA, model_of(), 20, epsilon)
    assert result.verdict.status == "unreliable"
    assert np.isfinite(draws).all()


@pytest.mark.parametrize(
    ("model", "pointer"),
    [
        (model_of(degrees=0.5), "/model/options/degrees_of_freedom"),
        (model_of(degrees=200.0), "/model/options/degrees_of_freedom"),
        (model_of(degrees=float("nan")), "/model/options/degrees_of_freedom"),
        (model_of("g ~ a"), "/model/formula"),
        (ModelSpec(family="student_t", formula="y ~ a", options=ModelOptions(noise_scale=1.0)),
         "/model/options/noise_scale"),
        (ModelSpec(family="linear", formula="y ~ a", options=ModelOptions(degrees_of_freedom=4.0)),
         "/model/options/degrees_of_freedom"),
    ],
)  # fmt: skip
def test_what_is_no_student_t_regression_is_refused(model, pointer):
    privacy = PrivacySpec(epsilon=1.0, delta=1e-6)
    with pytest.raises(SpecError) as error:
        plan(SCHEMA, JobSpec(model=model, privacy=privacy))
    assert error.value.pointer == pointer


def test_a_robust_answer_is_the_family_itself():
    options = NoisyQuadraticOptions(estimand="robust")
    spec = JobSpec(model=model_of(), sampler=options, privacy=PrivacySpec(epsilon=1.0, delta=1e-6))
    with pytest.raises(SpecError, match="robust regression by itself"):
        plan(SCHEMA, spec)


def test_it_has_four_degrees_of_freedom_where_none_are_given():
    assert MODELS["student_t"].rows(ModelOptions()).degrees == 4.0
    assert MODELS["student_t"].rows(ModelOptions(degrees_of_freedom=7.0)).degrees == 7.0


@pytest.mark.parametrize("formula", ["y ~ x", "y ~ s(x)", "~ x"])
def test_no_degrees_of_freedom_are_refused_in_any_formula(formula):
    number = NumberColumn(name="x", lower=0, upper=1)
    schema = Schema(columns=(number, NumberColumn(name="y", lower=0, upper=1)), rows=1000)
    model = ModelSpec(
        family="student_t", formula=formula, options=ModelOptions(degrees_of_freedom=0.0)
    )
    with pytest.raises(SpecError):
        plan(schema, JobSpec(model=model, privacy=PrivacySpec(epsilon=1.0, delta=1e-6)))
