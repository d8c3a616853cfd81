"""Groups of rows with hardly any events: right, or unreliable with a reason."""

import numpy as np
import pytest

from dpmcmc import (
    BinaryColumn,
    CategoryColumn,
    CoefficientPrior,
    ModelOptions,
    ModelSpec,
    NormalPrior,
    NumberColumn,
    Schema,
    sample,
)
from dpmcmc.families.multinomial import probabilities
from dpmcmc.fit.local import table_of
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.releases.few_events import (
    MAX_CHANGE,
    MOST_SPREAD,
    Expansion,
    Group,
    Link,
    Posterior,
    changes,
    groups_of,
)
from dpmcmc.releases.few_events import _spread as spread
from tests.sources import Seeded

ROWS, RARE = 20_000, 2000
KINDS, ANSWERS = ("u", "v", "w"), ("no", "some", "all")
DISPERSION = 2.0
FAMILIES = ("logistic", "multinomial", "poisson", "negative_binomial")
REMEDIES = ("join", "narrower priors", "larger epsilon")


def schema_of(family, *columns, rows=ROWS):
    answers = {
        "logistic": BinaryColumn(name="y", categories=("no", "yes")),
        "multinomial": CategoryColumn(name="y", categories=ANSWERS),
    }
    answer = answers.get(family, NumberColumn(name="y", lower=0.0, upper=40.0))
    return Schema(columns=(*columns, answer), rows=rows)


def model_of(family, formula, **told):
    k = DISPERSION if family == "negative_binomial" else None
    return ModelSpec(family=family, formula=formula, options=ModelOptions(dispersion=k), **told)


def responses(family, events, counts=None):
    """Responses by whether rows have an event (n,), or how many they have."""
    if family == "logistic":
        return np.where(events, "yes", "no")
    if family == "multinomial":
        return np.where(events, "all", np.where(np.arange(len(events)) % 2, "no", "some"))
    return events * (1.0 if counts is None else counts)


def fitted(schema, data, model, epsilon, seed=1, **told):
    given = {"epsilon": epsilon, "delta": 1e-6, "sampler": "noisy_quadratic"} | told
    return sample(
        data, schema=schema, model=model, random=Seeded(seed), **given, accept_low_quality=True
    )


def exact(family, rows, events, prior):
    """Means and sds (2,) of the intercept and of a category's coefficient, on a grid.

    rows, events: (2,), of the reference and of the category. prior: means and sds (2,).
    """
    base = np.log((events[0] + 0.5) / rows[0])
    first = np.linspace(base - 9.0, base + 4.0, 1300)[:, None]
    second = np.linspace(-16.0, 12.0, 1400)[None]
    log = 0.0
    for eta, n, k in zip((first, first + second), rows, events, strict=True):
        mean = np.exp(eta)
        if family == "logistic":
            log = log + k * eta - n * np.log1p(mean)
        elif family == "poisson":
            log = log + k * eta - n * mean
        else:  # events are single counts
            log = (
                log
                + k * (eta - np.log(mean + DISPERSION))
                - n * DISPERSION * np.log1p(mean / DISPERSION)
            )
    for value, loc, scale in zip((first, second), *prior, strict=True):
        log = log - 0.5 * ((value - loc) / scale) ** 2
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    means = [(weights * value).sum() for value in (first, second)]
    squares = [(weights * (v - m) ** 2).sum() for v, m in zip((first, second), means, strict=True)]
    return np.array(means), np.sqrt(squares)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["logistic", "poisson", "negative_binomial"])
@pytest.mark.parametrize("few", [0, 1, 4, 20, 200])
def test_a_category_with_few_events_is_right_or_unreliable(family, few):
    """At any budget: within three sds of the posterior without privacy, and about as wide."""
    schema = schema_of(family, BinaryColumn(name="b", categories=("x", "z")))
    rng = np.random.default_rng(few)
    rare, events = np.arange(ROWS) < RARE, rng.random(ROWS) < 0.2
    events[rare] = np.arange(RARE) < few
    data = {"b": np.where(rare, "z", "x"), "y": responses(family, events)}
    model, told = model_of(family, "y ~ b"), []
    for seed, epsilon in enumerate((1.0, 4.0, 30.0, 1e6)):
        fit = fitted(schema, data, model, epsilon, seed)
        told.append(fit.verdict.status)
        if fit.verdict.status == "unreliable":
            continue
        priors = fit.release.posterior(num_draws=1).priors
        prior = [(priors[n].loc, priors[n].scale) for n in ("Intercept", "b[z]")]
        sizes = (ROWS - RARE, RARE), (int(events[~rare].sum()), few)
        means, sds = exact(family, *sizes, np.array(prior).T)
        rows = fit.summary(mixing=False)
        for row, mean, sd in zip(rows, means, sds, strict=True):
            assert abs(row.mean - mean) < 3.0 * row.sd, (epsilon, row)
            assert row.sd > 0.6 * sd, (epsilon, row)
    if few == 0:
        assert set(told) == {"unreliable"}
    if few == 200:
        assert told[-2:] == ["reliable"] * 2


@pytest.mark.parametrize("family", ["logistic", "poisson", "negative_binomial"])
@pytest.mark.parametrize("few", [0, 5, 20, 60])
def test_few_events_of_all_rows_are_right_or_unreliable(family, few):
    schema = schema_of(family, NumberColumn(name="a", lower=-1.0, upper=1.0))
    a, events = np.random.default_rng(few).uniform(-1, 1, ROWS), np.arange(ROWS) < few
    data, model = {"a": a, "y": responses(family, events)}, model_of(family, "y ~ a")
    for seed, epsilon in enumerate((0.1, 1.0, 4.0, 1e6)):
        fit = fitted(schema, data, model, epsilon, seed)
        if fit.verdict.status == "unreliable":
            continue
        assert few >= 20, epsilon
        row = fit.summary(mixing=False)["Intercept"]
        away = np.log(few / ROWS) - 0.5 / few - 0.5 * fit.summary(mixing=False)["a"].mean ** 2 / 3
        assert abs(row.mean - away) < 3.0 * row.sd + 0.1
        assert row.sd > 0.6 / np.sqrt(few)
    if few == 60:
        assert fit.verdict.status == "reliable"


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_results_of_few_events_are_as_wide_as_the_posterior_without_privacy(family):
    """The spread of thirteen scores tells no variance: of such intervals .80 held the slope."""
    ends = np.linspace(-1.0, 1.0, 201)
    intercepts, slopes = np.linspace(-13.0, -4.0, 181)[:, None], np.linspace(-7.0, 7.0, 281)
    mean_rates = np.exp(np.outer(slopes, ends)).mean(axis=1)
    schema = schema_of(family, NumberColumn(name="a", lower=-1.0, upper=1.0))
    reliable = 0
    for seed in (2, 6, 8, 10, 16, 19):
        rng = np.random.default_rng(1000 * seed + 13)
        a, events = rng.uniform(-1, 1, ROWS), rng.random(ROWS) < 13 / ROWS
        data = {"a": a, "y": responses(family, events)}
        fit = fitted(schema, data, model_of(family, "y ~ a"), 1e6, seed)
        if fit.verdict.status == "unreliable":
            continue
        reliable += 1
        priors = fit.release.posterior(num_draws=1).priors
        log = events.sum() * intercepts + slopes * a[events].sum()
        log = log - ROWS * np.exp(intercepts) * mean_rates
        for name, values in (("Intercept", intercepts), ("a", slopes)):
            log = log - 0.5 * ((values - priors[name].loc) / priors[name].scale) ** 2
        weights = np.exp(log - log.max())
        weights /= weights.sum()
        mean = (weights * slopes).sum()
        sd = np.sqrt((weights * (slopes - mean) ** 2).sum())
        row = fit.summary(mixing=False)["a"]
        assert row.sd > 0.85 * sd
        assert abs(row.mean - mean) < 0.5 * sd
    assert reliable


def separated(kind, family, rng):
    """Columns, data and formula of rows of which some group has no event, or nothing else."""
    a, codes = rng.uniform(-1, 1, ROWS), rng.choice(3, ROWS, p=(0.6, 0.1, 0.3))
    b, events = rng.random(ROWS) < 0.4, rng.random(ROWS) < 0.3
    columns = [
        NumberColumn(name="a", lower=-1.0, upper=1.0),
        CategoryColumn(name="k", categories=KINDS),
        BinaryColumn(name="b", categories=("x", "z")),
    ]
    data = {"a": a, "k": np.array(KINDS)[codes], "b": np.where(b, "z", "x")}
    formula, group = "y ~ a + k", codes == 1
    if kind == "baseline":
        group = codes == 0
    elif kind == "two":
        group = codes > 0
    elif kind == "cell":
        group, formula = (codes == 1) & b, "y ~ a + k*b"
    elif kind == "baseline cell":
        group, formula = (codes == 0) & ~b, "y ~ a + k*b"
    elif kind == "no intercept":
        formula = "y ~ 0 + k + a"
    elif kind == "number":
        columns.append(NumberColumn(name="z", lower=0.0, upper=1.0))
        group = rng.random(ROWS) < 0.03
        data["z"], formula = np.where(group, rng.uniform(0.4, 1, ROWS), 0.0), "y ~ a + z"
    elif kind == "slope in a cell":
        formula = "y ~ k + a:k"
    elif kind == "given":
        columns += [
            NumberColumn(name="o", lower=0.0, upper=2.0),
            NumberColumn(name="w", lower=0.5, upper=2.0),
        ]
        data["o"], data["w"] = rng.uniform(0, 2, ROWS), rng.uniform(0.5, 2, ROWS)
        formula = "y ~ a + k + offset(o)"
    events[group] = kind == "all"
    data["y"] = responses(family, events)
    return columns, data, formula


KINDS_OF_GROUPS = (
    "category", "baseline", "two", "cell", "baseline cell", "no intercept", "number",
    "slope in a cell", "given", "all",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", KINDS_OF_GROUPS)
def test_groups_without_events_are_unreliable_and_say_what_would_mend_it(family, kind):
    if family == "multinomial" and kind == "given":
        return  # it has no offsets
    if family in ("poisson", "negative_binomial") and kind == "all":
        return  # a count of 1 in all rows of a group is no fault
    columns, data, formula = separated(kind, family, np.random.default_rng(3))
    told = {"weights": "w"} if kind == "given" else {}
    model = model_of(family, formula, **told)
    for seed, epsilon in enumerate((1.0, 100.0)):
        fit = fitted(schema_of(family, *columns), data, model, epsilon, seed)
        assert fit.verdict.status == "unreliable", epsilon
    few = [reason for reason in fit.verdict.reasons if "too few events" in reason]
    assert few or kind == "number"
    assert all(word in reason for word in REMEDIES for reason in few)


@pytest.mark.parametrize("missing", ANSWERS)
def test_a_response_that_no_row_has_is_unreliable(missing):
    schema = schema_of("multinomial", NumberColumn(name="a", lower=-1.0, upper=1.0))
    rng, others = np.random.default_rng(4), [one for one in ANSWERS if one != missing]
    data = {"a": rng.uniform(-1, 1, ROWS), "y": rng.choice(others, ROWS)}
    for epsilon in (1.0, 100.0, 1e6):
        fit = fitted(schema, data, model_of("multinomial", "y ~ a"), epsilon)
        assert fit.verdict.status == "unreliable"


def test_groups_are_those_of_the_rows_of_a_design():
    columns, data, _ = separated("cell", "logistic", np.random.default_rng(5))
    schema = schema_of("logistic", *columns)
    for formula in (
        "y ~ a*k + b + k:b",
        "y ~ 0 + k + a",
        "y ~ k:b",
        "y ~ a:k",
        "y ~ poly(a, 2) + b",
    ):
        design = make_design(schema, formula)
        x, _ = design.build(table_of(schema, data))
        groups = groups_of(design)
        for group in groups:
            inside, weight = group.inside @ x, group.weight @ x
            assert np.isclose(inside, 0.0).sum() + np.isclose(inside, 1.0).sum() == ROWS
            assert weight.min() > -1e-9
            assert np.abs(weight[np.isclose(inside, 0.0)]).max(initial=0.0) < 1e-9
        names = [group.name for group in groups]
        assert len(set(names)) == len(names)
    assert "rows where b is x" in names
    names = [group.name for group in groups_of(make_design(schema, "y ~ k*b"))]
    assert "rows where b is x and k is u" in names
    assert len(names) == 1 + 3 + 2 + 6


def test_ordinary_categories_stay_reliable():
    rng = np.random.default_rng(6)
    columns, data, _ = separated("category", "logistic", rng)
    shift = np.array([0.0, 0.5, -0.5])[[KINDS.index(word) for word in data["k"]]]
    eta = -0.5 + data["a"] + shift
    for family in ("logistic", "poisson"):
        mean = np.exp(eta)
        answer = rng.random(ROWS) < mean / (1.0 + mean)
        data["y"] = responses(family, answer) if family == "logistic" else rng.poisson(mean) * 1.0
        for seed, epsilon in enumerate((1.0, 2.0, 4.0)):
            fit = fitted(
                schema_of(family, *columns), data, model_of(family, "y ~ a + k"), epsilon, seed
            )
            assert fit.verdict.status == "reliable"


def test_other_priors_of_a_release_are_judged_by_themselves():
    """A prior that holds the coefficient is reliable, and one that lets it go is not."""
    columns, data, formula = separated("category", "logistic", np.random.default_rng(7))
    schema, held = schema_of("logistic", *columns), {"k[v]": NormalPrior(loc=-5.0, scale=0.2)}
    robust = NoisyQuadraticOptions(estimand="robust")
    model = model_of("logistic", formula, prior=held)
    fit = fitted(schema, data, model, 100.0, sampler=robust)
    assert fit.verdict.status == "reliable"
    assert fit.release.posterior(num_draws=100).verdict.status == "reliable"
    wide = (
        NormalPrior(scale=2.5),
        CoefficientPrior(kind="cauchy", scale=2.5),
        CoefficientPrior(kind="normal", scale=2.5, upper=0.0),
        CoefficientPrior(kind="uniform", lower=-30.0, upper=30.0),
    )
    for prior in wide:
        found = fit.release.posterior({"k[v]": prior}, 500, random=Seeded(2))
        assert any("too few events" in reason for reason in found.verdict.reasons), prior


@pytest.mark.compiled("thousands of gradients")
def test_variational_inference_is_judged_alike():
    columns, data, formula = separated("category", "logistic", np.random.default_rng(8))
    schema = schema_of("logistic", *columns)
    fit = fitted(schema, data, model_of("logistic", formula), 1e5, sampler="dp_vi")
    assert any("too few events" in reason for reason in fit.verdict.reasons)


def test_a_curvature_is_compared_with_the_mean_slope_of_rows_and_not_that_of_their_mean():
    """Predictors that vary make slopes of rare events larger: that is no noise."""
    covariance = np.array([[0.0, 0.0, 0.0], [0.0, 0.25, 0.1], [0.0, 0.1, 0.5]])
    place, everyone = np.array([-5.0, 1.2, -0.8]), Group(np.eye(3)[0], np.eye(3)[0], "all rows")

    def size(covariance, group):
        return float(np.linalg.norm(spread(covariance, group, place[None])))

    assert size(covariance, everyone) ** 2 == pytest.approx(place @ covariance @ place)
    named = Group(np.eye(3)[1], np.eye(3)[1], "rows where b is z")
    rest = covariance[2, 2] - covariance[1, 2] ** 2 / covariance[1, 1]
    assert size(covariance, named) ** 2 == pytest.approx(0.64 * rest)
    assert size(0.0 * covariance, named) == 0.0
    assert size(1e6 * covariance, everyone) ** 2 == pytest.approx(MOST_SPREAD)
    both = spread(covariance, everyone, np.stack((place, 2.0 * place)))
    assert both[1] == pytest.approx(2.0 * both[0])


def test_a_curvature_of_several_categories_is_compared_with_the_slopes_of_all_rows():
    """A mean row is sure of one of them, so that its slope is less than that of most rows."""
    x = np.stack((np.ones(2001), np.linspace(-1.0, 1.0, 2001)))
    place, rows = np.array([[5.0, -3.0], [0.0, -6.0]]), 12_000.0
    _, q = probabilities(place @ x)
    slopes = np.einsum("am,ab->abm", q, np.eye(2)) - q[:, None] * q[None]
    curvature = rows * np.einsum("abm,dm,em->adbe", slopes, x, x).reshape(4, 4) / 2001
    second = x @ x.T / 2001
    spread_of_rows = second - np.outer(second[0], second[0])
    seen = Expansion(place.ravel(), curvature, second, spread_of_rows, rows)
    posterior = Posterior(place.ravel(), np.linalg.inv(curvature))
    everyone = Group(*(np.eye(2)[0],) * 2, "all rows")
    found = changes(seen, [everyone], Link(False), posterior)
    assert len(found) == 3
    assert max(change for change, *_ in found) < 0.9 * MAX_CHANGE


@pytest.mark.parametrize(("family", "share"), [("logistic", 0.1), ("poisson", 0.02)])
def test_a_slope_alone_in_a_category_without_events_is_unreliable(family, share):
    """Where a category has a slope and no coefficient of its own (`x:g`) nothing asked of its rows.

    Of ten such results up to eight were reliable, and the slope was up to sixteen sds off.
    """
    columns = (
        NumberColumn(name="x", lower=0.0, upper=10.0),
        CategoryColumn(name="g", categories=KINDS),
    )
    for seed in range(6):
        rng = np.random.default_rng(seed)
        kinds = rng.choice(3, 5000, p=[0.6 - share / 2, 0.4 - share / 2, share])
        x = rng.uniform(0.0, 10.0, 5000)
        eta = (1.8 if family == "poisson" else -1.0) + np.array([-0.3, 0.1, 0.0])[kinds] * x
        if family == "poisson":
            y = np.minimum(rng.poisson(np.exp(eta)), 40) * (kinds < 2.0)
        else:
            events = (rng.random(5000) < 1.0 / (1.0 + np.exp(-eta))) & (kinds < 2)
            y = np.where(events, "yes", "no")
        data = {"x": x, "g": np.array(KINDS)[kinds], "y": y}
        fit = fitted(
            schema_of(family, *columns, rows=5000), data, model_of(family, "y ~ x:g"), 2.0, seed
        )
        assert fit.verdict.status == "unreliable"


@pytest.mark.parametrize("seed", [11, 12, 29, 37])
def test_a_rare_category_with_many_events_is_right_or_unreliable(seed):
    """Slopes of negative binomial scores depend on the counts: they are no lines in the rate.

    Taken for lines they put such a coefficient six sds off where the path ended below it.
    """
    rng = np.random.default_rng(seed)
    kinds = rng.choice(3, ROWS, p=[0.7 - 0.004, 0.3 - 0.004, 0.008])
    rates = np.exp(np.array([0.0, 0.3, 4.0])[kinds] - 1.0) * rng.gamma(2.0, 0.5, ROWS)
    counts = np.minimum(rng.poisson(rates), 40) * 1.0
    schema = schema_of("negative_binomial", CategoryColumn(name="g", categories=KINDS))
    data = {"g": np.array(KINDS)[kinds], "y": counts}
    fit = fitted(schema, data, model_of("negative_binomial", "y ~ g"), 4.0, seed)
    row = fit.summary(mixing=False)["g[w]"]
    right = np.log(counts[kinds == 2].mean() / counts[kinds == 0].mean())
    assert fit.verdict.status == "unreliable" or abs(row.mean - right) < 3.0 * row.sd


@pytest.mark.longer
@pytest.mark.parametrize(
    ("family", "epsilon", "rows", "share"),
    [
        ("poisson", 0.5, 20_000, 0.03),
        ("poisson", 2.0, 60_000, 0.1),
        ("negative_binomial", 0.5, 20_000, 0.1),
    ],
)
def test_a_category_without_events_is_unreliable_whatever_noise_makes_of_it(
    family, epsilon, rows, share
):
    """Clips far below 1 tell a count from 0 alone, and noise makes curvatures too large.

    Of sixty such results of Poisson models at epsilon 0.5 forty-six were reliable, and their
    coefficient was up to twenty sds off.
    """
    reliable = 0
    column = CategoryColumn(name="g", categories=KINDS)
    schema = schema_of(family, column, rows=rows)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        kinds = rng.choice(KINDS, rows, p=[0.7 - share / 2, 0.3 - share / 2, share])
        counts = np.where(kinds == "w", 0, rng.poisson(3.0, rows)) * 1.0
        data = {"g": kinds, "y": np.minimum(counts, 40.0)}
        fit = fitted(schema, data, model_of(family, "y ~ g"), epsilon, seed)
        reliable += fit.verdict.status == "reliable"
    assert reliable == 0


def test_rare_events_of_all_rows_have_a_remedy_of_their_own():
    random = np.random.default_rng(1)
    rows = {"y": random.poisson(0.002, ROWS).astype(float)}
    schema = schema_of("poisson")
    fit = fitted(schema, rows, model_of("poisson", "y ~ 1"), 1.0)
    assert fit.verdict.status == "unreliable"
    assert "y above 0 in all rows" in fit.verdict.sentence
    assert "narrower priors, or take a larger epsilon" in fit.verdict.sentence
    assert "category" not in fit.verdict.sentence
