"""Hurdle Poisson regression: what a row says, what it costs, and what a release makes of it."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import poisson

from dpmcmc import check_fit
from dpmcmc.base.errors import SpecError
from dpmcmc.families.hurdle_poisson import drawn, information, log_rate, positive_moments
from dpmcmc.families.scores.base import UNCUT, Evaluation
from dpmcmc.fit.local import sample
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.inputs.schema import CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import ModelSpec, NormalPrior
from dpmcmc.mechanisms.sums import array_of
from dpmcmc.releases import hurdles
from dpmcmc.releases.design_rows import HeldRows
from dpmcmc.releases.newton_path import Look
from dpmcmc.releases.whitening import Whitening
from experiments.glms import fitted
from tests.cases import FAMILIES

HURDLE = FAMILIES["hurdle_poisson"]
RATE, ODDS = np.array([0.6, 0.7, -0.5]), np.array([-0.4, -0.8, 0.6])
NAMES = ("Intercept", "a", "g[yes]", "zero_Intercept", "zero_a", "zero_g[yes]")
GRID = [(-3.0, 0.5), (0.0, -1.0), (1.5, 2.0)]


def schema_of(rows, **answer):
    return Schema(
        columns=(
            NumberColumn(name="a", lower=-1.0, upper=1.0),
            CategoryColumn(name="g", categories=("no", "yes")),
            NumberColumn(name="visits", **{"lower": 0.0, "upper": 60.0} | answer),
        ),
        rows=rows,
    )


def people(rows, seed, rate=RATE, odds=ODDS):
    rng = np.random.default_rng(seed)
    x = np.stack([np.ones(rows), rng.uniform(-1, 1, rows), rng.integers(0, 2, rows)])
    none = np.exp(-np.exp(rate @ x))
    above = poisson.ppf(none + (1.0 - none) * rng.random(rows), np.exp(rate @ x))
    visits = np.where(rng.random(rows) < expit(odds @ x), 0.0, np.maximum(above, 1.0))
    data = {"a": x[1], "g": np.where(x[2] > 0.5, "yes", "no"), "visits": np.minimum(visits, 60.0)}
    return data, x, data["visits"]


def model_of(formula="visits ~ a + g", **told):
    return ModelSpec(family="hurdle_poisson", formula=formula, **told)


def fit(data, rows, epsilon, *, model=None, schema=None, **options):
    return sample(
        data, schema=schema or schema_of(rows), model=model or model_of(), epsilon=epsilon,
        delta=1e-6, accept_low_quality=True, **options,
    )  # fmt: skip


def log_likelihood(y, predictor, odds):
    """Of one row, up to a constant of its count."""
    if y == 0.0:
        return -np.logaddexp(0.0, -odds)
    return (
        y * predictor
        - np.exp(predictor)
        - np.log(-np.expm1(-np.exp(predictor)))
        - np.logaddexp(0.0, odds)
    )


def place(predictor, odds, rows, **more):
    each, nothing = np.ones(rows), np.zeros(rows)
    told = {"most": UNCUT, "curved": UNCUT, "scale": 1.0, "cut": UNCUT} | more
    eta, inner = np.stack((predictor * each, odds * each)), np.ones((2, 2, rows))
    return Evaluation(eta, nothing, nothing, **told, inner=inner)


@pytest.mark.parametrize(("predictor", "odds"), GRID)
def test_a_row_says_the_gradient_of_its_log_likelihood_and_its_curvature(predictor, odds):
    y, step = np.array([0.0, 1.0, 2.0, 7.0]), 1e-4
    terms = HURDLE.terms(y, place(predictor, odds, len(y)))
    curves = np.einsum("cjm,djm->cdm", terms.root, terms.root)
    for row, count in enumerate(y.tolist()):

        def log(a, b, count=count):
            return log_likelihood(count, predictor + a, odds + b)

        slopes = log(step, 0) - log(-step, 0), log(0, step) - log(0, -step)
        np.testing.assert_allclose(terms.psi[:, row], np.array(slopes) / 2.0 / step, atol=1e-6)
        middle = 2.0 * log(0, 0)
        bent = log(step, 0) + log(-step, 0) - middle, log(0, step) + log(0, -step) - middle
        np.testing.assert_allclose(
            np.diag(curves[..., row]), -np.array(bent) / step**2, rtol=1e-3, atol=1e-6
        )
        assert not curves[0, 1, row]


@pytest.mark.parametrize(("predictor", "odds"), GRID)
def test_scores_and_squares_have_the_moments_that_the_model_says(predictor, odds):
    rng, rows = np.random.default_rng(3), 400_000
    ends = np.stack((predictor * np.ones(rows), odds * np.ones(rows)))

    class Random:
        def uniforms(self, shape):
            return rng.random(shape)

        def normals(self, shape):
            return rng.standard_normal(shape)

    y = drawn(ends, Random())
    terms = HURDLE.terms(y, place(predictor, odds, rows))
    own = information(np.array([predictor, odds]))
    sds = np.sqrt(own / rows)
    assert (np.abs(terms.psi.mean(axis=1)) < 4.0 * sds).all()
    np.testing.assert_allclose((terms.psi**2).mean(axis=1), own, rtol=0.03)
    assert abs((terms.psi[0] * terms.psi[1]).mean()) < 4.0 * np.sqrt(own.prod() / rows)
    assert terms.square.mean() == pytest.approx(1.0, abs=0.03)
    assert y.mean() == pytest.approx(expit(-odds) * positive_moments(predictor)[0], rel=0.02)
    far = HURDLE.terms(y, place(predictor, odds, rows, most=1.0, curved=0.5 * own.sum()))
    weights = far.psi / np.where(terms.psi, terms.psi, 1.0)
    assert np.allclose(weights[terms.psi != 0.0], weights[1, 0])  # by covariates alone
    assert weights[1, 0] == pytest.approx(0.5)


@pytest.mark.parametrize("predictor", [-30.0, -9.0, -4.0, 0.0, 3.0, 30.0])
def test_moments_of_counts_above_0_hold_at_all_rates(predictor):
    mean, variance = positive_moments(np.array([predictor]))
    rate = np.exp(predictor)
    if predictor < 10.0:
        y = np.arange(1.0, 400.0)
        shares = poisson.pmf(y, rate) / -np.expm1(-rate)
        assert mean[0] == pytest.approx(shares @ y)
        assert variance[0] == pytest.approx(shares @ (y - shares @ y) ** 2, rel=1e-4)
        if predictor >= -4.0:
            found, steep = log_rate(float(shares @ np.log(y)))
            assert found == pytest.approx(predictor, abs=0.02)
            assert steep > 0.95
    else:
        assert mean[0] == pytest.approx(rate)
        assert variance[0] == pytest.approx(rate, rel=0.01)


def test_averages_over_the_posterior_are_those_of_normal_predictors():
    sds, n = np.array([0.3, 0.4]), 200_000
    cover = np.diag(sds**2)[:, :, None]
    at = Evaluation(
        np.array([[0.5], [-0.7]]), *np.zeros((2, 1)), UNCUT, UNCUT, 1.0, UNCUT,
        inner=np.ones((2, 2, 1)), cover=cover,
    )  # fmt: skip
    above, none = HURDLE.terms(np.ones(1), at), HURDLE.terms(np.zeros(1), at)
    z = np.random.default_rng(1).standard_normal((2, n))
    mean, variance = positive_moments(0.5 + sds[0] * z[0])
    assert above.psi[0, 0] == pytest.approx(1.0 - mean.mean(), abs=0.01)
    assert above.root[0, 0, 0] ** 2 == pytest.approx(variance.mean(), rel=0.01)
    assert none.psi[1, 0] == pytest.approx(1.0 - expit(-0.7 + sds[1] * z[1]).mean(), abs=0.005)
    assert none.psi[0, 0] == none.root[0, 0, 0] == 0.0


def test_one_row_has_one_vector_for_both_parts():
    x = np.array([[1.0, 1.0], [0.5, -0.5]])
    look = Look(HURDLE, np.zeros(4), np.eye(4), (UNCUT, UNCUT, 1.0, UNCUT), None, 1, 1.0)
    block = look.unclipped(HeldRows(x, np.array([3.0, 0.0])))
    mean = float(positive_moments(np.zeros(1))[0][0])
    expected = [np.r_[(3.0 - mean) * x[:, 0], -0.5 * x[:, 0]], np.r_[0.0 * x[:, 1], 0.5 * x[:, 1]]]
    np.testing.assert_allclose(array_of(block.vectors).T, expected)
    assert len(block.curvature) == 2


def test_with_all_the_budget_it_is_the_exact_posterior(seeded):
    rows = 4000
    data, x, y = people(rows, 1)
    result = fit(data, rows, 1e6, model=model_of(prior=NormalPrior(scale=3.0)), random=seeded(3))
    assert result.plan.parameters == NAMES
    assert result.verdict.status == "reliable"

    def log_density(theta):
        eta, odds = theta[:, :3] @ x, theta[:, 3:] @ x
        counts = y * eta - np.exp(eta) - np.log(-np.expm1(-np.exp(eta)))
        own = np.where(y > 0.0, counts - np.logaddexp(0.0, odds), -np.logaddexp(0.0, -odds))
        return own.sum(axis=1) - 0.5 * ((theta / 3.0) ** 2).sum(axis=1)

    _, sds = fitted("hurdle_poisson", x, y, None)
    mode = minimize(lambda t: -log_density(t[None])[0], np.append(RATE, ODDS), tol=1e-6).x
    each, pairs = 0.02 * np.diag(sds) / sds.max(), [(1, 1), (1, -1), (-1, 1), (-1, -1)]
    at = [mode + s * each[i] + t * each[j] for i in range(6) for j in range(6) for s, t in pairs]
    bent = log_density(np.array(at)).reshape(6, 6, 4) @ [-1.0, 1.0, 1.0, -1.0]
    sizes = np.diag(each)
    root = np.linalg.cholesky(np.linalg.inv(bent / 4.0 / sizes[:, None] / sizes))
    z = 1.1 * np.random.default_rng(2).standard_normal((2000, 6))
    draws = mode + z @ root.T
    log = log_density(draws) + 0.5 * ((z / 1.1) ** 2).sum(axis=1)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    assert 1.0 / (weights**2).sum() > 800.0
    mean = weights @ draws
    own_sds = np.sqrt(weights @ (draws - mean) ** 2)
    found = result.on("design").reshape(-1, 6)
    assert np.abs((found.mean(axis=0) - mean) / own_sds).max() < 0.15
    assert np.abs(found.std(axis=0) / own_sds - 1.0).max() < 0.15


def with_exposure(rows, seed):
    """Counts above 0 of people who were seen for different times; zeros do not hang on these."""
    rng = np.random.default_rng(seed)
    years = np.exp(rng.uniform(-1.5, 2.0, rows))
    x = np.stack([np.ones(rows), rng.uniform(-1, 1, rows), rng.integers(0, 2, rows)])
    rate = years * np.exp(RATE @ x)
    above = poisson.ppf(np.exp(-rate) + -np.expm1(-rate) * rng.random(rows), rate)
    y = np.where(rng.random(rows) < expit(ODDS @ x), 0.0, np.clip(above, 1.0, 120.0))
    data = {"a": x[1], "g": np.where(x[2] > 0.5, "yes", "no"), "visits": y, "years": years}
    columns = (*schema_of(rows).columns[:2], NumberColumn(name="visits", lower=0.0, upper=120.0))
    columns += (NumberColumn(name="years", lower=0.2, upper=7.5),)
    return data, x, Schema(columns=columns, rows=rows)


def test_an_offset_is_of_counts_above_0_alone(seeded):
    """As in brms and in R's pscl: exposure multiplies their rate, and no odds of a zero."""
    rows = 20_000
    data, x, schema = with_exposure(rows, 4)
    model = model_of("visits ~ a + g + offset(log(years))", prior=NormalPrior(scale=3.0))
    result = fit(data, rows, 1e6, model=model, schema=schema, random=seeded(6))
    assert result.verdict.status == "reliable"
    y, logs = data["visits"], np.log(data["years"])

    def minus(theta):
        eta, odds = theta[:3] @ x + logs, theta[3:] @ x
        counts = y * eta - np.exp(eta) - np.log(-np.expm1(-np.exp(eta)))
        own = np.where(y > 0.0, counts - np.logaddexp(0.0, odds), -np.logaddexp(0.0, -odds))
        return -own.sum() + 0.5 * ((theta / 3.0) ** 2).sum()

    mode = minimize(minus, np.append(RATE, ODDS), tol=1e-6).x
    found = result.on("design").reshape(-1, 6)
    assert np.abs((found.mean(axis=0) - mode) / found.std(axis=0)).max() < 0.3
    few, many = result.predict([{"a": 0, "g": "no", "years": t} for t in (0.5, 5.0)])
    assert few.probabilities["0"].mean == pytest.approx(many.probabilities["0"].mean)
    above = np.array([0.5, 5.0]) * np.exp(mode[0])
    expected = (1 - expit(mode[3])) * above / -np.expm1(-above)
    assert [few.expected.mean, many.expected.mean] == pytest.approx(expected, rel=0.02)
    assert not check_fit(result, data, epsilon=10.0, random=seeded(7)).misfit


def test_an_offset_holds_the_truth_under_noise(seeded):
    held = []
    for seed in range(4):
        data, _, schema = with_exposure(20_000, 10 + seed)
        model = model_of("visits ~ a + g + offset(log(years))")
        result = fit(data, 20_000, 4.0, model=model, schema=schema, random=seeded(seed))
        assert result.verdict.status == "reliable", result.verdict.sentence
        low, high = np.quantile(result.on("design").reshape(-1, 6), (0.05, 0.95), axis=0)
        held += list((low < np.append(RATE, ODDS)) & (np.append(RATE, ODDS) < high))
    assert np.mean(held) > 0.7


@pytest.mark.parametrize(
    ("rate", "odds", "most"),
    [([2.8, 0.5, -0.3], [-2.5, 0.5, 0.3], 120.0), ([-0.5, 0.6, 0.3], [2.2, -0.5, 0.4], 60.0)],
    ids=["large counts, few zeros", "small counts, few above 0"],
)
def test_it_finds_places_that_are_far_from_where_it_starts(rate, odds, most, seeded):
    rows, truth = 20_000, np.append(rate, odds)
    data, x, y = people(rows, 5, np.array(rate), np.array(odds))
    result = fit(data, rows, 8.0, schema=schema_of(rows, upper=most), random=seeded(9))
    theta, _ = fitted("hurdle_poisson", x, y, None)
    draws = result.on("design").reshape(-1, 6)
    assert result.verdict.status == "reliable"
    assert np.abs((draws.mean(axis=0) - theta) / draws.std(axis=0)).max() < 3.5
    assert (np.abs(draws.mean(axis=0) - truth) < 5.0 * draws.std(axis=0)).all()


@pytest.fixture(scope="module")
def known():
    from tests.sources import Seeded

    data, x, y = people(8000, 7)
    return fit(data, 8000, 1e4, random=Seeded(11)), x, y


def test_predictions_are_the_mean_count_and_the_probability_of_none(known, seeded):
    result, _, _ = known
    free = result.release.posterior(None, 20_000, random=seeded(6))
    here, there = {"a": 0.5, "g": "no"}, {"a": -0.5, "g": "no"}
    (one,) = free.predict([here], random=seeded(7))
    odds, rate = ODDS[0] + 0.5 * ODDS[1], RATE[0] + 0.5 * RATE[1]
    mean = float(expit(-odds) * positive_moments(np.array([rate]))[0][0])
    assert one.predictor is None
    assert one.expected.mean == pytest.approx(mean, abs=0.1)
    assert one.probabilities["0"].mean == pytest.approx(expit(odds), abs=0.04)
    assert one.response.mean == pytest.approx(one.expected.mean, abs=0.05)
    assert one.response.q05 == 0.0
    effect = free.compare(here, there)
    before = float(expit(-(odds - ODDS[1])) * positive_moments(np.array([rate - RATE[1]]))[0][0])
    assert effect.multiplies == "mean count"
    assert effect.ratio.mean == pytest.approx(mean / before, rel=0.1)
    assert effect.odds.mean == pytest.approx(np.exp(ODDS[1]), rel=0.15)
    assert effect.expected.mean == pytest.approx(mean - before, abs=0.1)
    assert effect.probabilities["0"].mean < 0.0
    (slope,) = free.effects("a", [here])
    assert slope.expected.mean > 0.0 > slope.probabilities["0"].mean
    along = free.curve("a", points=5)
    assert along.expected[0].mean < along.expected[-1].mean
    assert along.probabilities["0"][0].mean > along.probabilities["0"][-1].mean
    assert "g no: 0" in repr(free.predict([here]))


def test_what_it_says_in_words(known):
    text = str(known[0].explain())
    assert "the rate of visits above 0 is multiplied by" in text
    assert "the odds of visits being 0 are multiplied by" in text
    assert "Where g is yes in place of no" in text
    assert known[0].release.verdict.status == "reliable"


def test_counts_that_vary_more_are_said_to(seeded):
    rows, rng = 20_000, np.random.default_rng(8)
    data, x, _ = people(rows, 8)
    visits = rng.poisson(np.exp(1.0 + 0.5 * x[1]) * rng.gamma(0.7, 1.0 / 0.7, rows))
    data["visits"] = np.minimum(visits, 60.0) * 1.0
    result = fit(data, rows, 8.0, random=seeded(2))
    assert "counts vary 1.9 times as much as the model says" in result.verdict.sentence
    assert "negative_binomial has room for that" in result.verdict.sentence
    theta, sds = fitted("hurdle_poisson", x, data["visits"], None)
    draws = result.on("design").reshape(-1, 6)
    assert (draws.std(axis=0) > 0.9 * sds).all()  # the sandwich's, and not the model's
    assert np.abs((draws.mean(axis=0) - theta) / draws.std(axis=0)).max() < 3.5


@pytest.mark.parametrize(("odds", "event"), [(6.5, "visits above 0"), (-7.5, "visits 0")])
def test_a_group_without_zeros_or_with_nothing_else_is_named(odds, event, seeded):
    rows = 20_000
    data, _, _ = people(rows, 4, odds=np.array([-0.4, 0.0, odds]))
    result = fit(data, rows, 2.0, random=seeded(1))
    assert result.verdict.status == "unreliable"
    assert f"{event} in rows where g is yes" in " ".join(result.verdict.reasons)


def test_coordinates_make_the_expected_curvature_round():
    rows = 50_000
    rng = np.random.default_rng(2)
    x = np.stack([np.ones(rows), 0.4 * rng.standard_normal(rows), 0.3 * rng.standard_normal(rows)])
    white = Whitening(
        np.linalg.inv(np.linalg.cholesky(x @ x.T / rows)).T, np.eye(3), 1e-6, np.zeros((3, 3))
    )
    theta = np.array([0.5, 0.9, -0.4, 0.3, -0.8, 1.0])
    root = hurdles.coordinates(theta, white)
    own = information(np.stack((theta[:3] @ x, theta[3:] @ x)))
    curve = np.zeros((6, 6))
    curve[:3, :3], curve[3:, 3:] = (x * own[0]) @ x.T / rows, (x * own[1]) @ x.T / rows
    np.testing.assert_allclose(root.T @ curve @ root, np.eye(6), atol=0.03)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            {"answer": {"lower": 1.0}},
            "0 is not its lower bound: without zeros write family poisson",
        ),
        ({"answer": {"missing": (0.0,)}}, "0 stands for missing values"),
        ({"formula": "g ~ a"}, "needs a count"),
        ({"weights": "a"}, "knows offsets and no weights"),
        ({"formula": "visits ~ a + (1 | g)"}, "hurdle_poisson"),
        ({"formula": "visits ~ s(a)"}, r"ns\(a, df=4\)"),
        ({"options": {"sampler": NoisyQuadraticOptions(estimand="robust")}}, "must be model"),
        ({"family": "zero_inflated_poisson"}, "write family hurdle_poisson"),
        ({"family": "ZIP"}, "write family hurdle_poisson"),
    ],
)
def test_what_it_cannot_be_is_refused_with_the_remedy(change, match):
    data, _, _ = people(50, 1)
    schema = schema_of(50, **change.get("answer", {}))
    with pytest.raises(SpecError, match=match):
        fit(
            data, 50, 1.0, schema=schema, **change.get("options", {}),
            model=ModelSpec(
                family=change.get("family", "hurdle"), formula=change.get("formula", "visits ~ a"),
                weights=change.get("weights"),
            ),
        )  # fmt: skip


def test_names_stay_apart_from_columns_called_like_them(seeded):
    schema = Schema(
        columns=(
            NumberColumn(name="a", lower=-1.0, upper=1.0),
            NumberColumn(name="zero_a", lower=-1.0, upper=1.0),
            NumberColumn(name="visits", lower=0.0, upper=60.0),
        ),
        rows=300,
    )
    data, _, _ = people(300, 1)
    data["zero_a"] = data.pop("g") == "yes"
    data["zero_a"] = data["zero_a"] * 1.0
    result = fit(data, 300, 5.0, schema=schema, model=model_of("visits ~ a + zero_a"))
    assert result.plan.parameters == (
        "Intercept", "a", "zero_a", "zero_Intercept", "zero_a_", "zero_zero_a",
    )  # fmt: skip
