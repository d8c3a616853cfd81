"""Ordinal regression: what a row says, what it costs, and what a release makes of it."""

import json
import math

import numpy as np
import pytest
from scipy.special import expit

from dpmcmc.base.errors import SpecError
from dpmcmc.families.ordinal import LEAST_GAP, information, probabilities, slopes_of
from dpmcmc.families.scores.base import UNCUT, Evaluation
from dpmcmc.fit.local import sample
from dpmcmc.formula.cuts import spread_out
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelSpec, NormalPrior, PrivacySpec
from dpmcmc.mechanisms import sums
from dpmcmc.mechanisms.sums import Products
from dpmcmc.planner import plan
from dpmcmc.posterior.stored import StoredRelease
from dpmcmc.releases import newton_path, ordered
from dpmcmc.releases.design_rows import HeldRows
from dpmcmc.releases.reach import longest
from dpmcmc.releases.whitening import Whitening
from experiments.ordered import drawn, fitted, told
from tests.cases import FAMILIES
from tests.sources import Seeded

ORDINAL = FAMILIES["ordinal"]
WORDS = ("low", "medium", "high", "top")
CUTS, SLOPES = (-1.0, 0.5, 1.5), (1.0, -0.5)
TRUTH = np.array([*CUTS, *SLOPES])
NAMES = ("low|medium", "medium|high", "high|top", "age", "sex[m]")
FORMULA = "grade ~ age + sex"


def schema_of(rows, words=WORDS, **more):
    return Schema(
        columns=(
            NumberColumn(name="age", lower=20.0, upper=80.0),
            BinaryColumn(name="sex", categories=("f", "m")),
            CategoryColumn(name="grade", categories=words),
            NumberColumn(name="pay", lower=0.5, upper=9.0),
        ),
        rows=rows,
        **more,
    )


def covariates(rows, seed):
    rng = np.random.default_rng(seed)
    return np.stack([np.ones(rows), rng.uniform(-1, 1, rows), (rng.random(rows) < 0.4) * 1.0])


def people(rows, seed, theta=TRUTH, words=WORDS):
    x = covariates(rows, seed)
    codes = drawn(x, theta, np.random.default_rng(1000 + seed)).astype(int)
    data = {
        "age": 50.0 + 30.0 * x[1],
        "sex": np.where(x[2] > 0.5, "m", "f"),
        "grade": np.array(words)[codes],
        "pay": np.ones(rows),
    }
    return data, x, codes


def model_of(formula=FORMULA, **told):
    return ModelSpec(family="ordinal", formula=formula, **told)


def result(data, epsilon, seed=1, words=WORDS, **told):
    return sample(
        data,
        schema=schema_of(len(data["age"]), words),
        model=model_of(**told),
        delta=1e-6,
        epsilon=epsilon,
        random=Seeded(seed),
        accept_low_quality=True,
    )


def job(model=None, epsilon=1.0, sampler=None):
    privacy = PrivacySpec(delta=1e-6, epsilon=epsilon)
    sampler = {} if sampler is None else {"sampler": sampler}
    return JobSpec(model=model or model_of(), privacy=privacy, **sampler)


def place_of(eta, rng, most=UNCUT, curved=UNCUT):
    """A place whose inner products are those of random coordinates."""
    k, m = eta.shape
    ways, none = [rng.normal(size=(5, m)) for _ in range(k)], np.zeros(m)
    inner = newton_path.inner(ways)
    return Evaluation(eta, none, none, most, curved, 1.0, 1.0, inner=inner), ways


def in_order(rng, k, m):
    return np.sort(2.0 * rng.normal(size=(k, m)), axis=0)


# ---- what a row says ----


def test_a_row_says_the_gradient_of_its_log_likelihood():
    rng = np.random.default_rng(1)
    eta, y = in_order(rng, 3, 60), rng.integers(4, size=60).astype(float)
    terms = ORDINAL.terms(y, place_of(eta, rng)[0])

    def log_likelihood(eta):
        ends = np.vstack([np.zeros(60), expit(eta), np.ones(60)])
        return np.log(np.diff(ends, axis=0)[y.astype(int), np.arange(60)])

    slopes = np.empty((3, 3, 60))
    for c in range(3):
        step = 1e-5 * np.minimum(1.0, np.diff(eta, axis=0).min(axis=0))
        moved = [eta + sign * step * np.eye(3)[c][:, None] for sign in (1, -1)]
        both = [log_likelihood(there) for there in moved]
        assert terms.psi[c] == pytest.approx((both[0] - both[1]) / (2 * step), rel=1e-4, abs=1e-4)
        ends = [ORDINAL.terms(y, place_of(there, rng)[0]).psi for there in moved]
        slopes[:, c] = (ends[1] - ends[0]) / (2 * step)
    told = np.einsum("cjm,ejm->cem", terms.root, terms.root)
    assert told == pytest.approx(slopes, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("most", [1e6, 1.0, 0.01])
def test_under_the_model_a_row_says_nothing_on_average_however_it_is_weighted(most):
    """Over its response; and what it says then varies as `noise` tells."""
    rng = np.random.default_rng(2)
    eta = in_order(rng, 3, 200)
    place, _ = place_of(eta, rng, most, 5.0 * most)
    chances = probabilities(eta)
    assert chances.sum(axis=0) == pytest.approx(1.0)
    each = [ORDINAL.terms(np.full(200, float(code)), place) for code in range(4)]
    mean = sum(q * one.psi for q, one in zip(chances, each, strict=True))
    assert np.abs(mean).max() < 1e-12
    spread = sum(q * one.psi[:, None] * one.psi[None] for q, one in zip(chances, each, strict=True))
    for one in each:
        assert np.einsum("cjm,ejm->cem", one.noise, one.noise) == pytest.approx(spread, abs=1e-12)
        assert (one.root == each[0].root).all()


def test_the_expected_curvature_is_the_mean_of_the_observed_one():
    rng = np.random.default_rng(2)
    eta, y = in_order(rng, 3, 200), np.zeros(200)
    chances, free = probabilities(eta), place_of(eta, rng, 1e9, 1e9)[0]
    root = ORDINAL.terms(y, free).root
    assert np.einsum("cjm,ejm->cem", root, root) == pytest.approx(information(eta))
    near = place_of(eta, rng)[0]
    observed = [ORDINAL.terms(y + code, near).root for code in range(4)]
    curves = [np.einsum("cjm,ejm->cem", root, root) for root in observed]
    wanted = sum(q * curve for q, curve in zip(chances, curves, strict=True))
    assert wanted == pytest.approx(information(eta))


@pytest.mark.parametrize("most", [3.0, 0.1])
def test_a_row_is_weighted_to_within_its_caps(most):
    """So that the sums cut nothing: a cut there would shift what rows say on average."""
    rng = np.random.default_rng(3)
    place, ways = place_of(in_order(rng, 3, 500), rng, most, 2.0 * most**2)
    longest_score, largest = np.zeros(500), np.zeros(500)
    for code in range(4):
        terms = ORDINAL.terms(np.full(500, float(code)), place)
        length = np.linalg.norm(Products(ways, terms.psi).array(), axis=0)
        longest_score = np.maximum(longest_score, length)
        parts = [Products(ways, part).array() for part in terms.root.swapaxes(0, 1)]
        largest = np.maximum(largest, sum((part**2).sum(axis=0) for part in parts))
    assert longest_score.max() <= most * (1 + 1e-12)
    assert largest.max() <= 2.0 * most**2 * (1 + 1e-12)
    reached = np.maximum(longest_score / most, largest / (2.0 * most**2))
    if most == 0.1:
        assert reached.min() > 1 - 1e-12  # and no row counts less than it may


def test_far_and_crossed_cuts_leave_finite_numbers():
    eta = np.array([[-700.0, 0.0, 1e300, 5.0], [700.0, 1e-300, 1e300, -5.0]])
    shares = probabilities(eta)
    assert np.isfinite(shares).all()
    assert (shares >= 0.0).all()
    assert shares.sum(axis=0) == pytest.approx(1.0)
    for part in slopes_of(eta):
        assert np.isfinite(part).all()
        assert np.abs(part).max() <= 2.0 / LEAST_GAP**2


def test_no_score_is_longer_than_public_bounds_say():
    rng, box = np.random.default_rng(4), (np.array([1.0, -1.0, 0.0]), np.array([1.0, 1.0, 1.0]))
    worst = 0.0
    for _ in range(50):
        place = np.concatenate((np.sort(rng.normal(size=3)), rng.normal(size=2)))
        root = spread_out(3, 3) @ rng.normal(size=(5, 5))
        most = longest(root, place, 1.0, ORDINAL, None, box, (3, math.sqrt(3.0)))
        corners = np.array([[1.0, a, b] for a in (-1.0, 1.0) for b in (0.0, 1.0)]).T
        ways = newton_path.jacobians_of(corners, root)
        eta = (spread_out(3, 3) @ place).reshape(3, 3) @ corners
        at = Evaluation(eta, np.zeros(4), np.zeros(4), UNCUT, UNCUT, 1.0, 1.0)
        for code in range(4):
            psi = ORDINAL.terms(np.full(4, float(code)), at).psi
            length = np.linalg.norm(Products(ways, psi).array(), axis=0).max() / math.sqrt(5.0)
            worst = max(worst, length / most)
    assert 0.9 < worst <= 1.0


# ---- what it costs ----


def looks_of(monkeypatch, x, y, place, root, *, asked=False):
    """The vector that noise is added to in one look, and the sensitivity it is charged at."""
    seen = {}

    def spy(total, sensitivity, z, noise):
        seen["flat"], seen["sensitivity"] = np.array(total), sensitivity
        return total

    p, d = len(place), len(x)
    none = np.zeros((d, d))
    white = Whitening(np.eye(d), none, 0.0, none)
    start = np.concatenate((np.arange(p - d + 1.0), np.zeros(d - 1)))
    problem = newton_path.Problem(
        *(ORDINAL, HeldRows(x, y), start, np.zeros(p), np.full(p, 1e-2), 1.0, 1.0, 1.0), white=white
    )
    path = newton_path._Path(problem, white, Seeded(1))
    path._root, path._place = root, place
    monkeypatch.setattr(sums, "noisy_sums", spy)
    with np.errstate(all="ignore"):
        if asked:
            caps = newton_path.Clips(p, (0.5, 0.4, 0.1, 0.0), 2.0, 3.0)
            path._query_model(1.0, caps)
        else:
            path._query(1.0, 1.0, 0.1)
    monkeypatch.undo()
    return seen["flat"], seen["sensitivity"]


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("stretch", [0.1, 1.0, 30.0, 1e160])
def test_no_neighbour_is_further_away_than_is_paid_for(monkeypatch, stretch, asked):
    """Random ones: rows of any length, cuts of any gap, in any coordinates."""
    rng, worst = np.random.default_rng(6), 0.0
    for _ in range(40):
        d, n, k = int(rng.integers(1, 4)), int(rng.integers(1, 6)), int(rng.integers(2, 5))
        p = k + d - 1
        x, y = stretch * rng.normal(size=(d, n)), rng.integers(k + 1, size=n).astype(float)
        place, root = rng.normal(size=p), rng.normal(size=(p, p)) * 10.0 ** rng.uniform(-2, 2)
        place[:k] = np.sort(place[:k]) * 10.0 ** rng.uniform(-6, 1)
        other, answers = x.copy(), y.copy()
        other[:, 0] = rng.normal(size=d) * 10.0 ** rng.uniform(-3, 3) * stretch
        answers[0] = rng.choice([0.0, k, -7.0, math.nan, 1e300])
        if rng.random() < 0.2:
            other[0, 0] = rng.choice([math.nan, math.inf, -math.inf])
        first, charged = looks_of(monkeypatch, x, y, place, root, asked=asked)
        second, _ = looks_of(monkeypatch, other, answers, place, root, asked=asked)
        assert np.isfinite(first).all()
        assert np.isfinite(second).all()
        worst = max(worst, float(np.linalg.norm(first - second)) / charged)
    assert worst <= 1.0
    assert worst > 0.3 or stretch > 30.0  # nothing is left of such rows


# ---- what a release makes of it ----


def test_the_own_fit_without_privacy_is_where_scores_vanish():
    """By differences of the log likelihood, which the comparisons below rest on."""
    _, x, y = people(500, 3)
    theta, _ = fitted(x, y * 1.0)
    scores, whole = told(x, y * 1.0, theta)
    assert np.abs(scores.sum(axis=0)).max() < 1e-6

    def log_likelihood(theta):
        etas = (spread_out(3, 3) @ theta).reshape(3, 3) @ x
        ends = np.vstack([np.zeros(500), expit(etas), np.ones(500)])
        return np.log(np.diff(ends, axis=0)[y, np.arange(500)]).sum()

    for way in np.eye(5):
        ends = [log_likelihood(theta + sign * 1e-3 * way) for sign in (-1, 0, 1)]
        assert (ends[0] - 2 * ends[1] + ends[2]) / 1e-6 == pytest.approx(
            -way @ whole @ way, rel=1e-3
        )


def test_cuts_stay_in_order_whatever_a_step_says():
    rng = np.random.default_rng(5)
    for _ in range(200):
        before = np.concatenate((np.sort(rng.normal(size=4)), rng.normal(size=2)))
        after = before + 3.0 * rng.normal(size=6)
        made = ordered.in_order(before, after, 4)
        least = 0.25 * np.diff(before[:4])
        assert (np.diff(made[:4]) >= least * (1 - 1e-9)).all()
        assert (made[4:] == after[4:]).all()
        assert made[:4].mean() == pytest.approx(after[:4].mean())
        if (np.diff(after[:4]) >= least).all():
            assert made == pytest.approx(after)


@pytest.mark.parametrize("theta", [TRUTH, np.array([-2.0, 0.0, 2.5, 3.0, -1.5])])
def test_without_noise_it_is_the_maximum_likelihood_fit(theta):
    data, x, y = people(20_000, 2, theta)
    fit = result(data, 1e6)
    found = fit.release.posterior(num_draws=20_000, scale="design", random=Seeded(2)).draws
    mode, sds = fitted(x, y, precision=2.5**-2)
    assert fit.release.verdict.status == "reliable"
    assert fit.release.parameters == NAMES
    assert np.abs((found.mean(axis=0) - mode) / sds).max() < 0.1
    assert found.std(axis=0) == pytest.approx(sds, rel=0.06)


def test_of_persons_it_is_the_cluster_robust_fit():
    """Rows of a person are alike, so that the score of a person varies more than rows say."""
    rng, persons = np.random.default_rng(8), 4_000
    _, x, codes = people(persons, 8)
    person = np.repeat(np.arange(persons), rng.integers(1, 5, persons))
    x, codes = x[:, person], codes[person]
    data = {
        "who": person,
        "age": 50.0 + 30.0 * x[1],
        "sex": np.where(x[2] > 0.5, "m", "f"),
        "grade": np.array(WORDS)[codes],
    }
    schema = Schema.from_frame(
        data,
        bounds={"age": (20, 80), "sex": ("f", "m"), "grade": WORDS},
        privacy_unit="who",
        max_rows=4,
    )
    fit = sample(data, schema=schema, model=model_of(), epsilon=1e6, random=Seeded(1))
    found = fit.release.posterior(num_draws=20_000, scale="design", random=Seeded(2)).draws
    mode, plain = fitted(x, codes * 1.0)
    scores, whole = told(x, codes * 1.0, mode)
    units, back = np.zeros((persons, 5)), np.linalg.inv(whole)
    np.add.at(units, person, scores)
    sds = np.sqrt(np.diag(back @ (units.T @ units) @ back))
    assert (sds > 1.3 * plain).all()
    assert np.abs((found.mean(axis=0) - mode) / sds).max() < 0.2
    assert found.std(axis=0) == pytest.approx(sds, rel=0.1)


def test_rows_with_missing_values_are_left_out():
    data, x, codes = people(20_000, 9)
    gone = np.random.default_rng(1).random(20_000) < 0.3
    columns = (
        NumberColumn(name="age", lower=20.0, upper=80.0, missing=(-1.0,)),
        *schema_of(20_000).columns[1:],
    )
    data["age"] = np.where(gone, -1.0, data["age"])
    fit = sample(
        data, schema=Schema(columns=columns, rows=20_000), model=model_of(), epsilon=1e6,
        delta=1e-6, random=Seeded(1),
    )  # fmt: skip
    found = fit.release.posterior(num_draws=20_000, scale="design", random=Seeded(2)).draws
    mode, sds = fitted(x[:, ~gone], codes[~gone] * 1.0)
    assert np.abs((found.mean(axis=0) - mode) / sds).max() < 0.2
    assert found.std(axis=0) == pytest.approx(sds, rel=0.1)


def test_a_job_goes_on_until_it_is_reliable():
    fit = result(people(20_000, 10)[0], {"up_to": 4, "until": "reliable"})
    assert fit.release.verdict.status == "reliable"
    assert fit.cost.epsilon < 4.0
    draws = fit.release.posterior(scale="design", random=Seeded(2)).draws
    assert np.abs((draws.mean(axis=0) - TRUTH) / draws.std(axis=0)).max() < 4.0


def test_intervals_hold_the_truth_as_often_as_they_say():
    held, reliable = [], 0
    for seed in range(25):
        fit = result(people(5_000, 50 + seed)[0], 2.0, seed)
        draws = fit.release.posterior(num_draws=1500, scale="design", random=Seeded(seed)).draws
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        held.append((low <= TRUTH) & (high >= TRUTH))
        reliable += fit.release.verdict.status == "reliable"
    assert reliable >= 20
    assert 0.82 < np.mean(held) < 0.97


def test_a_category_that_hardly_any_row_has_is_said():
    theta = np.array([-1.0, -0.99, 1.5, *SLOPES])
    fit = result(people(5_000, 3, theta)[0], 1.0)
    assert fit.release.verdict.status != "reliable"


@pytest.mark.parametrize("end", ["low", "top"])
def test_a_group_that_is_all_at_an_end_is_said_with_its_name(end):
    """Its coefficient has no mode: the likelihood is flat on one side."""
    data, x, _ = people(10_000, 3)
    data["grade"] = np.where(x[2] > 0.5, end, data["grade"])
    for epsilon in (1.0, 100.0):
        fit = result(data, epsilon)
        assert fit.release.verdict.status != "reliable"
    assert f"grade other than {end} in rows where sex is m" in fit.release.verdict.sentence


def test_coefficients_are_told_in_the_units_of_columns():
    data, _, _ = people(20_000, 4)
    fit = result(data, 1e4)
    own = fit.release.posterior(random=Seeded(1))
    on_design = fit.release.posterior(scale="design", random=Seeded(1)).draws.mean(axis=0)
    told = {name: part.mean for name, part in own.summary().items()}
    assert told["age"] == pytest.approx(on_design[3] / 30.0)
    shift = 50.0 / 30.0 * on_design[3]  # a cut is where all columns are 0
    assert told["low|medium"] == pytest.approx(on_design[0] + shift)
    assert own.contrast({"medium|high": 1.0, "low|medium": -1.0}).mean == pytest.approx(
        on_design[1] - on_design[0]
    )


def test_predictions_are_the_probabilities_of_categories_in_order():
    data, _, _ = people(20_000, 5)
    posterior = result(data, 1e4).release.posterior(random=Seeded(3))
    asked = [{"age": 65.0, "sex": "m"}, {"age": 20.0, "sex": "f"}]
    for one, row in zip(posterior.predict(asked), ([1.0, 0.5, 1.0], [1.0, -1.0, 0.0]), strict=True):
        etas = (spread_out(3, 3) @ TRUTH).reshape(3, 3) @ row
        wanted = np.diff([0.0, *expit(etas), 1.0])
        assert tuple(one.probabilities) == WORDS
        assert [part.mean for part in one.probabilities.values()] == pytest.approx(wanted, abs=0.02)
        assert sum(part.mean for part in one.probabilities.values()) == pytest.approx(1.0)
        assert one.predictor is one.expected is one.response is None
    changed = posterior.compare(asked[0], asked[1]).probabilities
    assert sum(part.mean for part in changed.values()) == pytest.approx(0.0, abs=1e-9)
    assert changed["top"].mean > 0.0 > changed["low"].mean
    (effect,) = posterior.effects("sex", asked)
    assert effect.probabilities["low"].mean > 0.0
    (slope,) = posterior.effects("age", asked)
    assert slope.probabilities["top"].mean > 0.0


def test_free_priors_contrasts_and_smaller_models():
    data, _, _ = people(20_000, 6)
    release = result(data, 4.0).release
    tight = release.posterior({"age": NormalPrior(scale=0.05)}, random=Seeded(1))
    assert tight.summary()["age"].mean < release.posterior().summary()["age"].mean
    written = release.posterior({"age": "normal(0, 0.001)"}, random=Seeded(1))
    assert written.summary()["age"].mean < 0.8 * release.posterior().summary()["age"].mean
    assert set(release.posterior("horseshoe()", random=Seeded(2)).summary()) == set(NAMES)
    whole, smaller = release.compare(["grade ~ age"])
    assert smaller.without == ("sex[m]",)
    assert whole.probability > 0.99
    with pytest.raises(SpecError, match="intercept"):
        release.compare(["grade ~ 0 + age + sex"])
    with pytest.raises(SpecError, match="sum of several"):
        release.posterior({"low|medium": "normal(0, 1)"})
    assert release.posterior().bayes_factor({"age": 0.0, "sex[m]": 0.0}).log > 100.0


def test_a_stored_release_is_read_as_it_was():
    fit = result(people(5_000, 7)[0], 4.0)
    kept = json.loads(json.dumps(fit.release.to_dict()))
    again = StoredRelease.read(schema_of(5_000), fit.plan.spec, kept)
    one, other = (r.posterior(random=Seeded(1)).draws for r in (fit.release, again))
    assert (one == other).all()
    assert again.verdict == fit.release.verdict


def test_a_slope_is_told_as_odds_of_a_higher_category():
    text = result(people(20_000, 8)[0], 4.0).explain()
    assert "the odds of grade being higher in order are multiplied by" in text


@pytest.mark.parametrize(
    ("words", "formula", "message"),
    [
        (WORDS, "pay ~ age", "category column"),
        (WORDS, "sex ~ age", "category column"),
        (WORDS, "~ age", "response"),
        (WORDS, "grade ~ 0 + age", "in the place of the intercept"),
        (WORDS[:2], "grade ~ age", "use logistic"),
        (tuple(map(str, range(21))), "grade ~ age", "3 to 20 categories, not 21"),
        (WORDS, "grade ~ age + (1 | sex)", "groups are for"),
        (WORDS, "grade ~ age + offset(pay)", "no offsets and no weights"),
    ],
)
def test_what_it_is_not_for_is_refused(words, formula, message):
    with pytest.raises(SpecError, match=message):
        plan(schema_of(5_000, words), job(model_of(formula)))


def test_weights_chains_and_robust_fits_are_refused():
    with pytest.raises(SpecError, match="no offsets and no weights"):
        plan(schema_of(5_000), job(model_of(weights="pay")))
    with pytest.raises(SpecError, match="must be model for ordinal") as caught:
        plan(schema_of(5_000), job(sampler=NoisyQuadraticOptions(estimand="robust")))
    assert caught.value.pointer == "/sampler/estimand"


def test_a_plan_knows_about_how_wide_runs_are_and_where_rows_do_not_stand_out():
    made = plan(schema_of(20_000), job(epsilon=2.0))
    assert made.parameters == NAMES
    data, x, y = people(20_000, 9)
    fit, (_, sds) = result(data, 2.0), fitted(x, y)
    wide = fit.release.posterior(scale="design", random=Seeded(1)).draws.std(axis=0) / sds
    assert made.expected_width / 1.4 < np.median(wide) < 1.4 * made.expected_width
    assert made.usable
    assert not plan(schema_of(500), job(epsilon=0.05)).usable


@pytest.mark.longer
@pytest.mark.parametrize("epsilon", [1e-4, 1e-2, 1.0, 1e9])
@pytest.mark.parametrize("formula", [FORMULA, "grade ~ 1", "grade ~ age * sex + pay"])
def test_no_rows_and_no_noise_end_in_an_error(formula, epsilon):
    """Where noise is all that there is of moments, too, or all rows have one category."""
    for seed in range(6):
        rows = (1, 2, 40)[seed % 3]
        data, _, _ = people(rows, seed)
        if seed > 2:
            data["grade"] = np.full(rows, WORDS[seed % 4])
        fit = sample(
            data, schema=schema_of(rows), model=model_of(formula), epsilon=epsilon, delta=1e-6,
            random=Seeded(seed), accept_low_quality=True, sampler="noisy_quadratic",
        )  # fmt: skip
        assert np.isfinite(fit.release.posterior(num_draws=50, random=Seeded(1)).draws).all()
        assert fit.release.verdict.sentence
