"""Smooth terms, `y ~ s(x)`: their columns, the posterior of their sds, and what a fit answers."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpmcmc import (
    BinaryColumn,
    CategoryColumn,
    CoefficientPrior,
    NormalPrior,
    NumberColumn,
    Schema,
    load,
    plan,
    sample,
)
from dpmcmc.base.errors import SpecError
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.schema import Table
from dpmcmc.privacy.noise import SystemRandom
from dpmcmc.releases.hierarchy import Curves, drawn, on_grid

COLUMNS = (
    NumberColumn(name="x", lower=0, upper=100),
    NumberColumn(name="z", lower=0, upper=1),
    CategoryColumn(name="g", categories=("a", "b", "c")),
)
RESPONSES = {
    "linear": NumberColumn(name="y", lower=-8, upper=8),
    "logistic": BinaryColumn(name="y", categories=("no", "yes")),
    "poisson": NumberColumn(name="y", lower=0, upper=60),
}


def schema_of(family="linear", rows=4000):
    return Schema(columns=(*COLUMNS, RESPONSES[family]), rows=rows)


def curve(x):
    return np.sin(6.0 * x / 100) + 0.8 * (x / 100 - 0.5)


def rows_of(family, rows=4000, seed=3):
    rng = np.random.default_rng(seed)
    x, z = np.clip(rng.normal(50, 20, rows), 0, 100), rng.uniform(0, 1, rows)
    eta = curve(x) + 0.5 * z
    if family == "linear":
        y = np.clip(eta + rng.normal(0, 1, rows), -8, 8)
    elif family == "logistic":
        y = np.where(rng.random(rows) < 1 / (1 + np.exp(-eta)), "yes", "no")
    else:
        y = np.minimum(rng.poisson(np.exp(eta)), 60)
    return {"x": x, "z": z, "g": np.full(rows, "a"), "y": y}


def test_curves_are_apart_from_their_line_and_of_the_declared_size():
    design = make_design(schema_of(), "y ~ s(x, k=8) + z")
    (smooth,) = design.smooths
    assert (smooth.sd, smooth.penalised) == ("sd(s(x))", (2, 3, 4, 5, 6, 7))
    assert design.parameters[1:3] == ("s(x, k=8)[1]", "s(x, k=8)[2]")
    x = np.linspace(0, 100, 8001)
    table = Table(columns={"x": x, "z": 0 * x, "y": 0 * x}, rows=8001)
    built = design.build(table)[0][1:8]
    assert np.allclose(built[0], x / 50 - 1)
    assert np.abs(built).max(axis=1) == pytest.approx(np.ones(7), abs=1e-5)
    second = built @ built.T / 8001
    assert np.abs(second - np.diag(np.diag(second))).max() < 2e-3
    assert np.abs(built[1:].mean(axis=1)).max() < 2e-3
    whole = (np.array(smooth.sizes) ** 2) @ np.diag(second)[1:]
    assert whole == pytest.approx(1.0, abs=5e-3)  # root mean square over the bounds for an sd of 1
    assert list(smooth.sizes) == sorted(smooth.sizes, reverse=True)


def test_a_smooth_follows_from_declared_bounds_alone_and_k_is_read():
    sizes = {k: len(make_design(schema_of(), f"y ~ s(x, {k})").parameters) for k in (4, 6, 10)}
    assert sizes == {4: 4, 6: 6, 10: 10}
    assert len(make_design(schema_of(), "y ~ s(x)").parameters) == 6
    assert make_design(schema_of(), "y ~ s(x) + s(z, k=5)").sds == ("sd(s(x))", "sd(s(z))")


@pytest.mark.parametrize(
    ("formula", "remedy"),
    [
        ("y ~ s(x, by=g)", "ns(x, df=4):g"),
        ("y ~ s(x, bs='cr')", "write cr(x, df=5)"),
        ("y ~ s(g, bs='re')", "(1 | g)"),
        ("y ~ s(x, sp=0.1)", "give sd(s(x)) a prior"),
        ("y ~ s(x, fx=TRUE)", "ns(x, df=4)"),
        ("y ~ s(x, m=1)", "second differences"),
        ("y ~ s(x, z)", "write s(x) + s(z)"),
        ("y ~ te(x, z)", "s(x) + s(z)"),
        ("y ~ s(x, k=3)", "from 4 to 20"),
        ("y ~ s(x, k=100)", "from 4 to 20"),
        ("y ~ s(x):g", "ns(x, df=4)"),
        ("y ~ s(x) + s(x, k=8)", "has a smooth already"),
        ("y ~ s(g)", "no number column"),
        ("y ~ s(x) + (1 | g)", "write ns(x, df=4)"),
    ],
)
def test_what_a_smooth_cannot_have_is_refused_with_what_to_write(formula, remedy):
    with pytest.raises(SpecError) as refused:
        make_design(schema_of(), formula)
    assert remedy in str(refused.value)


def test_jobs_that_models_with_smooths_cannot_have_are_refused_by_name():
    def refusal(formula="y ~ s(x)", schema=None, **given):
        with pytest.raises(SpecError) as refused:
            plan(formula, schema or schema_of(), **({"family": "linear", "epsilon": 4.0} | given))
        return str(refused.value)

    assert "noisy_quadratic" in refusal(sampler="dp_penalty")
    assert "noisy_quadratic" in refusal(sampler="sufficient_statistics")
    assert "/model/prior/sd(s(x))/loc" in refusal(prior={"sd(s(x))": NormalPrior(loc=1)})
    assert "give that a prior" in refusal(prior={"s(x)[3]": NormalPrior(scale=1)})
    assert "ns(x, df=4)" in refusal("g ~ s(x)", family="multinomial")
    assert "follows from" in refusal("y ~ s(x) + x")
    assert "ns(x, df=4)" in refusal("g ~ s(x)", family="ordinal")


def test_a_plan_shows_the_priors_of_sds():
    planned = plan("y ~ s(x)", schema_of(rows=20_000), family="linear", epsilon=4.0)
    prior = planned.spec.model.prior
    assert prior["sd(s(x))"].scale == 4.0  # a quarter of the response's range
    assert "how smooth a curve is" in " ".join(planned.reasons)
    own = {"sd(s(x))": NormalPrior(scale=0.5)}
    again = plan("y ~ s(x)", schema_of(rows=20_000), family="linear", epsilon=4.0, prior=own)
    assert again.spec.model.prior["sd(s(x))"].scale == 0.5
    repeated = plan(schema_of(rows=20_000), again.spec)  # a resolved job is a job
    assert repeated.spec.model.prior == again.spec.model.prior


def likelihood(p, seed):
    """A precision (p, p) and that times a mean (p,)."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(p, 3 * p))
    whole = 4.0 * root @ root.T / (3 * p)
    return whole, whole @ rng.normal(0, 0.8, p)


def log_evidence(whole, pulled, held):
    """Up to a constant, coefficients integrated out. held: precisions of their prior."""
    both = whole + np.diag(held)
    penalised = held > 0
    return 0.5 * (
        pulled @ np.linalg.solve(both, pulled)
        - np.linalg.slogdet(both)[1]
        + np.log(held[penalised]).sum()
    )


def half_t(sds, scale, df):
    return -0.5 * (df + 1) * np.log1p((sds / scale) ** 2 / df) if df else -0.5 * (sds / scale) ** 2


@pytest.mark.parametrize("df", [0.0, 3.0])
def test_one_sd_is_the_integral_over_its_coefficients(df):
    whole, pulled = likelihood(6, 1)
    number, sizes = np.array([-1, 0, 0, 0, 0, -1]), np.array([0, 1.5, 0.7, 0.3, 0.2, 0])
    curves = Curves(number, sizes, np.array([0.8]), np.array([df]))
    grid = np.linspace(1e-3, 12.0 if df else 4.0, 6000)
    logs = [log_evidence(whole, pulled, curves.precisions(np.array([[s]]))[0]) for s in grid]
    logs = np.array(logs) + half_t(grid, 0.8, df)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ grid
    sd = math.sqrt(weights @ grid**2 - mean**2)
    count = 20_000
    drawn_sds = curves.sds(
        np.repeat(whole[None], count, axis=0),
        np.repeat(pulled[None], count, axis=0),
        SystemRandom(),
    )[:, 0]
    assert drawn_sds.mean() == pytest.approx(mean, abs=5 * sd / math.sqrt(count) + 0.01 * mean)
    assert drawn_sds.std() == pytest.approx(sd, rel=0.06)
    assert curves.sds(whole[None], pulled[None], None)[0, 0] == pytest.approx(mean, rel=0.01)


def test_several_sds_in_turn_are_the_integral_over_both():
    whole, pulled = likelihood(7, 2)
    number, sizes = np.array([-1, 0, 0, 0, 1, 1, 1]), np.array([0, 1.5, 0.7, 0.3, 1.2, 0.8, 0.4])
    curves = Curves(number, sizes, np.array([1.0, 0.6]), np.zeros(2))
    axes = np.geomspace(2e-3, 5.0, 110), np.geomspace(2e-3, 3.0, 110)
    logs = np.array(
        [
            [
                log_evidence(whole, pulled, curves.precisions(np.array([[a, b]]))[0])
                + half_t(a, 1.0, 0)
                + half_t(b, 0.6, 0)
                for b in axes[1]
            ]
            for a in axes[0]
        ]
    )
    weights = np.exp(logs - logs.max()) * np.outer(*axes)
    weights /= weights.sum()
    means = np.array([weights.sum(axis=1) @ axes[0], weights.sum(axis=0) @ axes[1]])
    seconds = np.array([weights.sum(axis=1) @ axes[0] ** 2, weights.sum(axis=0) @ axes[1] ** 2])
    sds, count = np.sqrt(seconds - means**2), 8000
    found = curves.sds(
        np.repeat(whole[None], count, axis=0),
        np.repeat(pulled[None], count, axis=0),
        SystemRandom(),
    )
    error = 5 * sds / math.sqrt(count) + 0.02 * means
    assert (np.abs(found.mean(axis=0) - means) < error).all()
    assert found.std(axis=0) == pytest.approx(sds, rel=0.08)


def test_draws_on_a_grid_have_its_probabilities():
    grid, weights = on_grid(np.array([[3.0, 1.0]]), np.array([[2.0, -1.0]]), 0.5, 0.0)
    draws = drawn(grid, np.repeat(weights, 40_000, axis=0), SystemRandom())
    mean = float(weights[0] @ grid)
    assert draws.mean() == pytest.approx(mean, rel=0.02)
    assert weights.sum() == pytest.approx(1.0)


def exact(design, data, scale, prior_sds, draws=4000):
    """The posterior without privacy by Gibbs: coefficients, log sigma and the sd of the smooth."""
    table = Table(columns={k: data[k] for k in ("x", "z", "y")}, rows=len(data["y"]))
    x, y = design.build(table)
    rng, (smooth,) = np.random.default_rng(0), design.smooths
    own, sizes = list(smooth.penalised), np.array(smooth.sizes)
    gram, pull = x @ x.T, x @ y
    sd, sigma, kept = scale / 2, 1.0, []
    grid = scale * np.geomspace(1e-3, 5, 600)
    for step in range(draws + 300):
        held = prior_sds**-2.0
        held[own] = (sizes * sd) ** -2.0
        whole = gram / sigma**2 + np.diag(held)
        mean = np.linalg.solve(whole, pull / sigma**2)
        theta = mean + np.linalg.solve(np.linalg.cholesky(whole).T, rng.normal(size=len(mean)))
        left = y - theta @ x
        sigma = math.sqrt(left @ left / rng.chisquare(len(y)))
        square = float(((theta[own] / sizes) ** 2).sum())
        logs = -len(own) * np.log(grid) - 0.5 * square / grid**2 - 0.5 * (grid / scale) ** 2
        weights = np.exp(logs - logs.max()) * grid
        sd = rng.choice(grid, p=weights / weights.sum())
        if step >= 300:
            kept.append((*theta, math.log(sigma), sd))
    return np.array(kept)


def test_with_hardly_any_noise_a_smooth_has_the_posterior_without_privacy():
    data, schema = rows_of("linear"), schema_of()
    fit = sample("y ~ s(x) + z", data, schema, family="linear", epsilon=1e6, delta=1e-6)
    assert fit.verdict.status == "reliable"
    ours = fit.draws.reshape(-1, len(fit.plan.parameters))
    prior = fit.plan.spec.model.prior
    prior_sds = np.array([prior[name].scale for name in fit.design.parameters])
    wanted = exact(fit.design, data, prior["sd(s(x))"].scale, prior_sds)
    sds = wanted.std(axis=0)
    assert np.abs((ours.mean(axis=0) - wanted.mean(axis=0)) / sds).max() < 0.2
    wide = [np.subtract(*np.quantile(each, (0.9, 0.1), axis=0)) for each in (ours, wanted)]
    assert np.abs(np.log(wide[0] / wide[1])).max() < 0.15  # the sd of an sd is that of its tail


@pytest.fixture(scope="module")
def fit():
    data = rows_of("logistic", 20_000)
    schema = schema_of("logistic", 20_000)
    return sample("y ~ s(x) + z", data, schema, family="logistic", epsilon=4.0, delta=1e-6)


def test_a_private_curve_is_near_the_truth_and_wider_where_rows_are_few(fit):
    assert fit.verdict.status == "reliable"
    along = fit.release.posterior().curve("x", {"z": 0.5}, points=21)
    assert (along.at[0], along.at[-1], len(along.at)) == (0.0, 100.0, 21)
    truth = 1 / (1 + np.exp(-curve(np.array(along.at)) - 0.25))
    means, sds = (np.array([getattr(s, k) for s in along.expected]) for k in ("mean", "sd"))
    assert np.abs(means - truth)[3:18].max() < 0.06
    assert np.abs((means - truth) / sds).max() < 4.0
    assert sds[-1] > 2 * sds[10]
    assert "mean response along x" in str(along)
    predicted = fit.predict([{"x": 50.0, "z": 0.5}])[0].expected
    assert predicted.mean == pytest.approx(along.expected[10].mean, abs=0.01)


def test_the_prior_of_a_smooth_is_changed_for_free(fit, tmp_path):
    own = fit.release.posterior().summary()["sd(s(x))"]
    small = fit.release.posterior({"sd(s(x))": "normal(0, 0.05)"})
    assert small.summary()["sd(s(x))"].mean < 0.6 * own.mean
    t = CoefficientPrior(kind="student_t", df=3, scale=0.5)
    assert fit.release.posterior({"sd(s(x))": t}).summary()["sd(s(x))"].mean > 0.3
    # beside another prior that is not normal
    both = fit.release.posterior({"sd(s(x))": t, "z": "cauchy(0, 1)"}).summary()
    assert both["z"].mean == pytest.approx(0.5, abs=5 * both["z"].sd)
    assert list(fit.release.posterior("horseshoe()").priors) == ["Intercept", "s(x)[1]", "z"]
    fit.save(tmp_path / "fit.zip")
    again = load(tmp_path / "fit.zip")
    assert again.release.posterior().summary()["sd(s(x))"].mean == pytest.approx(own.mean, abs=0.1)
    assert again.verdict == fit.verdict


def test_what_a_smooth_does_not_answer_is_refused_by_name(fit):
    free = fit.release.posterior()
    for asked, words in (
        (lambda: fit.release.posterior({"s(x)[2]": "normal(0, 1)"}), "give that a prior"),
        (lambda: fit.release.posterior({"sd(s(x))": "laplace(0, 1)"}), "the half above 0"),
        (lambda: fit.release.compare(["y ~ z"]), "leaves out a curve"),
        (lambda: free.bayes_factor({"s(x)[3]": 0.0}), "part of a curve"),
        (lambda: free.curve("g"), "is no covariate"),
        (lambda: free.curve("x", points=1), "2 to"),
        (lambda: free.curve("x", {"z": 7.0}), "declared bounds"),
    ):
        with pytest.raises(SpecError, match=words.replace("(", r"\(")):
            asked()
    assert fit.release.compare(["y ~ s(x)"])[0].probability > 0.99


def test_a_fit_says_in_words_and_in_a_figure_what_a_curve_is(fit):
    assert "y goes with x along a curve" in fit.explain()
    figure = fit.plot("curve")
    assert [axes.get_xlabel() for axes in figure.axes] == ["x"]
    both = fit.plot("curve", parameters=["x", "z"])
    assert [axes.get_xlabel() for axes in both.axes] == ["x", "z"]


def test_the_verdict_knows_what_holds_a_curve(fit):
    """Directions that rows hardly tell are held by the prior of smooth curves, not by the rows."""
    stored = fit.release._stored
    p = len(stored.place)
    held = stored.prior_precisions(np.zeros(p), np.ones(p))
    (smooth,) = fit.design.smooths
    assert (held[list(smooth.penalised)] > 0.1).all()
    assert (np.delete(held, smooth.penalised) == 1.0).all()
    assert (replace(stored, smooth=None).prior_precisions(np.zeros(p), np.ones(p)) == 1.0).all()


@pytest.mark.parametrize("family", ["linear", "poisson"])
def test_other_families_have_curves_as_well(family):
    data, schema = rows_of(family, 20_000), schema_of(family, 20_000)
    fit = sample("y ~ s(x) + z", data, schema, family=family, epsilon=2.0, delta=1e-6)
    assert fit.verdict.status == "reliable"
    given = [{"x": x, "z": 0.5} for x in (25.0, 50.0, 75.0)]
    for prediction, x in zip(fit.predict(given), (25.0, 50.0, 75.0), strict=True):
        off = prediction.predictor.mean - curve(np.array(x)) - 0.25
        assert abs(off) < 4.5 * prediction.predictor.sd
        assert prediction.predictor.sd < 0.2


WAVES = tuple(f"w{k}" for k in range(8))
STEPS = np.array([0.5, 0.4, -0.1, -0.3, 0.2, 0.0, -0.4])
WALK = Schema(
    columns=(
        CategoryColumn(name="wave", categories=WAVES),
        NumberColumn(name="year", lower=2001, upper=2008, integer=True),
        NumberColumn(name="x", lower=0, upper=1),
        RESPONSES["linear"],
    ),
    rows=20_000,
)


def walk_rows(rows=20_000, seed=5):
    rng = np.random.default_rng(seed)
    at, x = rng.integers(0, 8, rows), rng.uniform(0, 1, rows)
    levels = np.concatenate(([0.0], np.cumsum(STEPS)))
    y = np.clip(0.6 * x + levels[at] + rng.normal(0, 1, rows), -8, 8)
    return {"wave": np.array(WAVES)[at], "year": 2001.0 + at, "x": x, "y": y}


@pytest.mark.parametrize(("term", "labels"), [("rw(wave)", WAVES), ("rw(year)", range(2001, 2009))])
def test_a_walk_has_a_column_for_each_step_between_neighbours(term, labels):
    design = make_design(WALK, f"y ~ {term} + x")
    assert design.parameters == (
        "Intercept",
        *(f"{term}[{label}]" for label in list(labels)[1:]),
        "x",
    )
    (walk,) = design.smooths
    assert (walk.sd, walk.penalised, walk.sizes) == (f"sd({term})", tuple(range(1, 8)), (1.0,) * 7)
    rows = walk_rows(40)
    codes = {**rows, "wave": np.searchsorted(WAVES, rows["wave"]).astype(np.int32)}
    built = design.build(Table(columns=codes, rows=40))[0][1:8]
    at = (rows["year"] - 2001)[None]
    assert np.array_equal(built, (at > np.arange(7)[:, None]) * 1.0)
    assert design.max_norm == pytest.approx(math.sqrt(1 + 7 + 1))


@pytest.mark.parametrize(
    ("formula", "remedy"),
    [
        ("y ~ rw(x)", "write s(x)"),
        ("y ~ rw(wave, 2)", "write rw(wave)"),
        ("y ~ rw(wave) * x", "in products write C(wave)"),
        ("y ~ rw(wave) + (1 | wave)", "leave one of the two out"),
        (
            "y ~ rw(year) + (1 | wave)",
            "rw(year) beside groups is not available: write C(year), or ns(year, df=4)",
        ),
        ("y ~ rw()", "its first argument must be a column"),
        ("y ~ rw(other)", "has no column 'other'"),
        ("y ~ f(wave, model='rw1')", "write rw(wave) for a random walk"),
        ("rw(wave) ~ x", "the response must be one column"),
    ],
)
def test_what_a_walk_cannot_be_is_refused_with_what_to_write(formula, remedy):
    with pytest.raises(SpecError) as refused:
        make_design(WALK, formula)
    assert remedy in refused.value.message


def test_a_walk_beside_its_own_categories_is_refused():
    with pytest.raises(SpecError, match="leave one of these terms out"):
        plan("y ~ rw(wave) + wave", WALK, epsilon=1)


@pytest.mark.parametrize("count", [2, 31])
def test_a_walk_has_few_places_and_at_least_three(count):
    column = CategoryColumn(name="g", categories=tuple(f"c{k}" for k in range(count)))
    schema = Schema(columns=(column, RESPONSES["linear"]), rows=4000)
    with pytest.raises(SpecError, match="a random walk 3 to 30"):
        make_design(schema, "y ~ rw(g)")


def test_steps_of_a_walk_are_shrunk_and_hold_the_truth():
    fit = sample("y ~ rw(wave) + x", walk_rows(), WALK, epsilon=2.0, delta=1e-6)
    assert fit.verdict.status == "reliable"
    found = {row.name: row for row in fit.summary(mixing=False)}
    steps = [found[f"rw(wave)[{wave}]"] for wave in WAVES[1:]]
    off = [(row.mean - step) / row.sd for row, step in zip(steps, STEPS, strict=True)]
    assert max(map(abs, off)) < 4.5
    assert 0.05 < found["sd(rw(wave))"].mean < 1.0
    held = fit.release.posterior({"sd(rw(wave))": "normal(0, 0.02)"}).summary()
    assert abs(held["rw(wave)[w1]"].mean) < abs(found["rw(wave)[w1]"].mean)
    between = fit.release.posterior().compare({"wave": "w2", "x": 0.5}, {"wave": "w0", "x": 0.5})
    assert between.expected.mean == pytest.approx(0.9, abs=0.3)
    assert "goes with wave in steps from each value to the next." in fit.explain()
