"""noisy_quadratic on persons with several rows, beside the non-private cluster-robust fit."""

import numpy as np
import pytest

from dpmcmc import plan, sample
from dpmcmc.base.errors import SpecError
from dpmcmc.fit.local import table_of
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import ModelOptions, ModelSpec
from tests.sources import Seeded

BOUNDS = {
    "age": (-1, 1),
    "dose": (-1, 1),
    "cured": ("no", "yes"),
    "score": (-12, 12),
    "visits": (0, 20),
    "colour": ("blue", "green", "red"),
}
OPTIONS = {"negative_binomial": ModelOptions(dispersion=4.0)}
RESPONSES = {
    "logistic": "cured",
    "linear": "score",
    "poisson": "visits",
    "negative_binomial": "visits",
    "multinomial": "colour",
}


def panel(persons, most=6, seed=1, correlation=0.8):
    """Rows of persons with random intercepts; ages are the person's, doses the row's."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(persons), rng.integers(1, most + 1, persons))
    own = correlation * rng.normal(size=persons)[person]
    age = np.clip(rng.normal(0, 0.4, persons), -1, 1)[person]
    dose = np.clip(rng.normal(0, 0.4, len(person)), -1, 1)
    eta = -0.2 + 0.8 * age + 0.6 * dose + own
    odds = np.stack([np.zeros(len(eta)), eta, 0.5 * eta - 0.2])
    chosen = (odds + rng.gumbel(size=odds.shape)).argmax(axis=0)
    return {
        "patient": person,
        "age": age,
        "dose": dose,
        "cured": np.where(rng.random(len(eta)) < 1 / (1 + np.exp(-eta)), "yes", "no"),
        "score": np.clip(eta + rng.normal(size=len(eta)), -12, 12),
        "visits": np.minimum(rng.poisson(np.exp(0.5 + 0.5 * eta)), 20),
        "colour": np.array(["blue", "green", "red"])[chosen],
    }


def by_patient(rows, most=6):
    return Schema.from_frame(rows, bounds=BOUNDS, privacy_unit="patient", max_rows=most)


def clustered(rows, family):
    """The maximum likelihood fit and its cluster-robust sds. Source: Liang and Zeger 1986."""
    x = np.stack([np.ones(len(rows["age"])), rows["age"], rows["dose"]])
    classes = 2 if family == "multinomial" else 1
    theta = np.zeros((classes, 3))
    y = {
        "logistic": (rows["cured"] == "yes")[None],
        "linear": rows["score"][None],
        "multinomial": np.stack([rows["colour"] == "green", rows["colour"] == "red"]),
    }.get(family, rows["visits"][None])
    for _ in range(60):
        eta = theta @ x
        if family == "multinomial":
            odds = np.exp(eta)
            mean = odds / (1 + odds.sum(axis=0))
            slope = np.einsum("am,ab->abm", mean, np.eye(2)) - mean[:, None] * mean[None]
            psi = y - mean
        elif family == "negative_binomial":
            mean = np.exp(eta)
            psi, slope = (y - mean) / (1 + mean / 4), (mean / (1 + mean / 4))[None]
        else:
            mean = {"linear": eta, "logistic": 1 / (1 + np.exp(-eta))}.get(family, np.exp(eta))
            slopes = {"linear": np.ones_like(eta), "logistic": mean * (1 - mean)}
            psi, slope = y - mean, slopes.get(family, mean)[None]
        scores = np.einsum("am,dm->adm", psi, x).reshape(classes * 3, -1)
        curve = np.einsum("abm,dm,em->adbe", slope, x, x).reshape(classes * 3, -1)
        theta = theta + np.linalg.solve(curve, scores.sum(axis=1)).reshape(classes, 3)
    units = np.zeros((classes * 3, rows["patient"].max() + 1))
    np.add.at(units.T, rows["patient"], scores.T)
    back = np.linalg.inv(curve)
    return theta.ravel(), np.sqrt(np.diag(back @ (units @ units.T) @ back))


def fitted(rows, family, epsilon, most=6, **more):
    formula = f"{RESPONSES[family]} ~ age + dose"
    model = ModelSpec(family=family, formula=formula, options=OPTIONS.get(family, ModelOptions()))
    return sample(
        rows,
        schema=by_patient(rows, most),
        model=model,
        epsilon=epsilon,
        accept_low_quality=True,
        sampler="noisy_quadratic",
        **more,
    )


def coefficients(fit, count):
    draws = fit.on("design").reshape(-1, len(fit.plan.parameters))[:, :count]
    return draws.mean(axis=0), draws.std(axis=0)


@pytest.mark.parametrize("family", RESPONSES)
def test_without_noise_it_is_the_cluster_robust_fit(family):
    rows = panel(3000)
    mean, sd = clustered(rows, family)
    fit = fitted(rows, family, 1e6)
    found, width = coefficients(fit, len(mean))
    assert fit.verdict.status == "reliable", fit.verdict.sentence
    np.testing.assert_allclose(width / sd, 1.0, atol=0.12)
    assert np.abs((found - mean) / sd).max() < 0.25


def test_the_scale_of_residuals_is_that_of_rows():
    rows = panel(4000, correlation=0.8)
    fit = fitted(rows, "linear", 1e5)
    sigma = np.exp(fit.on("design")[..., -1].mean())
    x = np.stack([np.ones(len(rows["age"])), rows["age"], rows["dose"]], axis=1)
    left = rows["score"] - x @ np.linalg.lstsq(x, rows["score"], rcond=None)[0]
    assert sigma == pytest.approx(left.std(), rel=0.03)


@pytest.mark.parametrize("family", ["logistic", "linear", "poisson"])
def test_intervals_hold_the_cluster_robust_fit(family):
    rows, epsilon = panel(4000), 4.0 if family == "poisson" else 2.0  # counts reach further
    mean, _ = clustered(rows, family)
    off = []
    for _ in range(6):
        fit = fitted(rows, family, epsilon)
        found, width = coefficients(fit, len(mean))
        assert fit.plan.cost.epsilon <= epsilon
        if fit.verdict.status == "reliable":
            off.append((found - mean) / width)
    assert len(off) >= 3
    assert np.abs(off).max() < 4.0


def test_one_row_of_each_person_is_the_fit_of_rows():
    rows = {name: values[:500] for name, values in panel(2000, most=1).items()}
    fit = fitted(rows, "logistic", 1e5, most=1)
    plain = sample(
        "cured ~ age + dose",
        rows,
        Schema.from_frame(rows, bounds=BOUNDS),
        epsilon=1e5,
        sampler=NoisyQuadraticOptions(estimand="model"),
    )
    one, other = (f.on("design").reshape(-1, 3) for f in (fit, plain))
    np.testing.assert_allclose(one.mean(axis=0), other.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(one.std(axis=0), other.std(axis=0), rtol=0.15)


def test_a_robust_fit_of_persons_is_refused_by_name():
    rows = panel(300)
    with pytest.raises(SpecError, match="must be model where a person has several rows"):
        sample(
            "cured ~ dose",
            rows,
            by_patient(rows),
            epsilon=4,
            sampler=NoisyQuadraticOptions(estimand="robust"),
        )


def test_missing_codes_and_empty_slots_hold_together():
    rows = panel(3000)
    lost = np.random.default_rng(2).random(len(rows["dose"])) < 0.2
    coded = {**rows, "dose": np.where(lost, -9.0, rows["dose"])}
    schema = Schema.from_frame(
        coded, bounds=BOUNDS, missing={"dose": [-9.0]}, privacy_unit="patient", max_rows=6
    )
    design = make_design(schema, "cured ~ age + dose")
    table = table_of(schema, coded)
    assert design.left_out(table).sum() == table.rows - (~lost).sum()
    fit = sample("cured ~ age + dose", coded, schema, epsilon=1e5, sampler="noisy_quadratic")
    complete = {name: values[~lost] for name, values in rows.items()}
    mean, sd = clustered(complete, "logistic")
    found, width = coefficients(fit, 3)
    assert np.abs((found - mean) / sd).max() < 0.3
    np.testing.assert_allclose(width / sd, 1.0, atol=0.15)
    persons = len(np.unique(complete["patient"]))
    assert f"about {persons:,} persons have rows that are complete" in fit.verdict.sentence


def test_persons_with_many_rows_are_clipped_where_their_sums_lie():
    """Sums of many rows are shorter than those rows together: clips of rows would be noise."""
    rows = panel(2500, most=24, correlation=0.3)
    mean, sd = clustered(rows, "logistic")
    widths, off = [], []
    for seed in range(5):
        fit = fitted(rows, "logistic", 1.0, most=24, random=Seeded(seed))
        assert fit.verdict.status == "reliable", fit.verdict.sentence
        found, width = coefficients(fit, len(mean))
        widths.append(width / sd)
        off.append((found - mean) / width)
    assert np.median(widths) < 2.0
    assert np.abs(off).max() < 3.0


def test_large_effects_of_persons_are_reached():
    """The prior of a coefficient of 9 counts no more than once, however many rows persons have."""
    rng = np.random.default_rng(5)
    rows = panel(2400, most=12)
    rows["age"] = np.clip(0.6 + 0.1 * rng.normal(size=len(rows["age"])), -1, 1)
    odds = -6.0 + 9.0 * rows["age"] + 0.5 * rows["dose"]
    rows["cured"] = np.where(rng.random(len(odds)) < 1.0 / (1.0 + np.exp(-odds)), "yes", "no")
    mean, _ = clustered(rows, "logistic")
    off = []
    for seed in range(6):
        fit = fitted(rows, "logistic", 2.0, most=12, random=Seeded(seed))
        found, width = coefficients(fit, len(mean))
        if fit.verdict.status == "reliable":
            off.append((found - mean) / width)
    assert len(off) >= 3  # what is left is what the prior itself pulls by
    assert np.sqrt(np.mean(np.square(off))) < 1.0


def test_plans_of_persons_are_those_of_sums():
    """As panels gave, whose clips follow the noise: experiments/persons.py."""
    rows = panel(6000)
    for epsilon, low, high in ((1.0, 1.2, 1.7), (4.0, 1.02, 1.25)):
        expected = plan("cured ~ age + dose", by_patient(rows), epsilon=epsilon)
        assert expected.usable, expected.reasons
        assert low < expected.expected_width < high
