"""Priors that lie far from what the rows say: told, by how much, and mended for free."""

import dataclasses

import numpy as np
import pytest
from scipy.special import expit

from dpmcmc import CoefficientPrior, NormalPrior, Schema
from dpmcmc.fit.local import sample
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn
from dpmcmc.inputs.spec import ModelSpec
from dpmcmc.releases import prior_conflict
from tests.sources import Seeded

ROWS = 20_000
EFFECTS = {"x": 0.3, "z": -0.5}


def fitted(family, times, *, prior=None, epsilon=4.0, seed=1, slope=EFFECTS["x"]):
    """A result with the bounds of x so many times wider than those of z."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, ROWS))
    group = rng.choice(["a", "b"], ROWS)
    eta = slope * x + EFFECTS["z"] * z
    answers = {
        "linear": eta + rng.normal(size=ROWS),
        "logistic": (rng.random(ROWS) < expit(eta)).astype(int),
        "poisson": rng.poisson(np.exp(eta)),
    }
    response = {
        "linear": NumberColumn(name="y", lower=-8.0, upper=8.0),
        "logistic": BinaryColumn(name="y", categories=("0", "1")),
        "poisson": NumberColumn(name="y", lower=0.0, upper=40.0),
    }[family]
    columns = (
        NumberColumn(name="x", lower=-4.0 * times, upper=4.0 * times),
        NumberColumn(name="z", lower=-4.0, upper=4.0),
        CategoryColumn(name="group", categories=("a", "b")),
        response,
    )
    return sample(
        {"x": x, "z": z, "group": group, "y": answers[family]},
        schema=Schema(columns=columns, rows=ROWS),
        model=ModelSpec(family=family, formula="y ~ x + z + group", prior=prior),
        sampler="noisy_quadratic",
        epsilon=epsilon,
        delta=1e-6,
        random=Seeded(1000 + seed),
    )


@pytest.mark.parametrize(("family", "times"), [("linear", 200), ("logistic", 30), ("poisson", 100)])
def test_a_default_prior_that_bounds_make_too_narrow_is_told_and_mended(family, times):
    mended = 0
    for seed in range(5):
        found = fitted(family, times, seed=seed)
        assert found.verdict.status == "unreliable"
        assert found.verdict.reasons[-1].startswith("some declared bounds are so wide")
        wider = found.release.posterior({"x": NormalPrior(scale=1e4)})
        x = wider.summary()["x"]
        assert wider.verdict.status == "unreliable" or abs(x.mean - EFFECTS["x"]) < 5.0 * x.sd
        mended += wider.verdict.status == "reliable"
    # a path that went by the narrow prior may end too far away: it is told, most often of counts
    assert mended >= (2 if family == "poisson" else 3)


def two_numbers(seed):
    """A result whose bounds of x are 200 times wider than its rows, those of z 3 of its sds."""
    rng = np.random.default_rng(seed)
    x, z = np.clip(rng.normal(size=(2, ROWS)), -3, 3)
    y = (rng.random(ROWS) < expit(0.5 * x - 0.4 * z)).astype(int)
    columns = (
        NumberColumn(name="x", lower=-600, upper=600),
        NumberColumn(name="z", lower=-3, upper=3),
        BinaryColumn(name="y", categories=("0", "1")),
    )
    return sample(
        "y ~ x + z", {"x": x, "z": z, "y": y}, Schema(columns=columns, rows=ROWS), epsilon=1.0,
        delta=1e-6, random=Seeded(seed), accept_low_quality=True,
    )  # fmt: skip


def test_noise_between_columns_hides_no_conflict():
    """It turns the direction of a column that it hides, whose prior then holds another one back."""
    assert [two_numbers(seed).verdict.status for seed in range(12)] == ["unreliable"] * 12


@pytest.mark.parametrize("family", ["linear", "logistic", "poisson"])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_priors_near_what_the_rows_say_are_left_alone(family, epsilon):
    for times in (1, 5):
        found = fitted(family, times, epsilon=epsilon)
        assert found.verdict.status == "reliable", found.verdict.sentence


def test_no_conflict_where_the_rows_say_nothing_else():
    found = fitted("logistic", 3000, epsilon=1.0, slope=0.0)
    reasons = found.verdict.reasons
    assert not any("declared bounds" in reason for reason in reasons)


@pytest.mark.longer
def test_a_narrow_column_that_noise_hides_is_not_held_by_the_prior():
    """Years among bounds of three thousand, which noise does not tell from a constant."""
    bounds = {"year": (0, 3000), "z": (-5, 5), "y": ("a", "b", "c")}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        year, z = rng.integers(2015, 2021, 10_000).astype(float), rng.normal(size=10_000)
        eta = 0.2 * (year - 2017.5) + 0.4 * z
        shares = np.exp(np.outer([0.0, 1.0, -1.0], eta))
        ends = np.cumsum(shares / shares.sum(axis=0), axis=0)
        chosen = (rng.random(10_000) > ends[:2]).sum(axis=0)
        data = {"year": year, "z": z, "y": np.array(["a", "b", "c"])[chosen]}
        schema = Schema.from_frame(data, bounds=bounds)
        found = sample("y ~ year + z", data, schema, epsilon=4, random=Seeded(1000 + seed))
        slope = next(one for one in found.summary() if one.name == "b:year")
        assert found.verdict.status == "unreliable" or abs(slope.mean - 0.2) < 5.0 * slope.sd


def test_a_column_of_a_rare_value_is_not_narrow():
    rng = np.random.default_rng(1)
    rare, z = (rng.random(ROWS) < 0.01).astype(float), rng.normal(size=ROWS)
    data = {"rare": rare, "z": z, "y": 0.5 * z + rare + rng.normal(size=ROWS)}
    schema = Schema.from_frame(data, bounds={"rare": (0, 1), "z": (-400, 400), "y": (-8, 8)})
    found = sample("y ~ rare + z", data, schema, epsilon=4, random=Seeded(1))
    told = found.release._stored
    assert prior_conflict.narrow(told).tolist() == [False, False, True]


def test_bias_along_far_bounds_hides_no_conflict():
    told = fitted("linear", 200).release
    assert prior_conflict.pulls(told._stored, *told._prior)[0].max() > 0.0
    vague = dataclasses.replace(told._stored, left_sd=30.0 * told._stored.score_sd)
    assert vague.by_columns
    assert vague.unsure()[1, 1] > 2.0 * vague.unsure_sd**2
    assert prior_conflict.pulls(vague, *told._prior)[0].max() > 0.0


def test_what_is_told_is_by_how_much_the_posterior_moves():
    told = fitted("linear", 200).release
    mean, precision = told._prior
    wide = precision * [1.0, 1e-8, 1.0, 1.0, 1.0]
    draws = [
        told._stored.posterior(mean, held, Seeded(1)).draws(1, 100_000, Seeded(2))[0, :, 1]
        for held in (precision, wide)
    ]
    pull, _ = prior_conflict.pulls(told._stored, mean, precision)
    assert pull[1] == pytest.approx((draws[1] - draws[0]).mean() / draws[0].std(), rel=0.05)
    assert not pull[[0, 2, 3]].any()


def test_a_narrow_prior_that_is_meant_is_no_fault_where_bounds_fit():
    narrow = {"x": NormalPrior(scale=0.05)}
    assert fitted("logistic", 1, prior=narrow, slope=1.0).verdict.status == "reliable"


def test_an_intercept_that_bounds_took_far_away_is_told_with_its_column():
    """Of a column that fills one end of its bounds: its own prior alone mends nothing."""
    rng = np.random.default_rng(3)
    x = rng.uniform(0.0, 8.0, ROWS)
    y = np.where(rng.random(ROWS) < expit(0.3 * (x - 4.0)), "yes", "no")
    schema = Schema.from_frame({"x": x, "y": y}, bounds={"x": (0.0, 1600.0), "y": ("no", "yes")})
    found = sample("y ~ x", {"x": x, "y": y}, schema, epsilon=4.0, delta=1e-6, random=Seeded(1003))
    told = " ".join(found.verdict.reasons)
    assert "for x" in told
    assert "for Intercept" in told
    wide = NormalPrior(scale=1e3)
    half = found.release.posterior({"x": wide}).verdict
    assert "for Intercept" in " ".join(half.reasons)
    whole = found.release.posterior({"x": wide, "Intercept": wide})
    assert whole.verdict.status == "reliable"
    assert abs(whole.summary()["x"].mean - 0.3) < 5.0 * whole.summary()["x"].sd


@pytest.mark.parametrize("formula", ["y ~ poly(x, 3)", "y ~ x + I(x**2)"])
def test_powers_of_a_column_are_judged_together(formula):
    """Each of them is as wide as any column; it is their differences that rows hardly vary in."""
    rng = np.random.default_rng(4)
    x = rng.uniform(1.0, 5.0, ROWS)
    eta = 0.3 * (x - 3.0) - 0.2 * (x - 3.0) ** 2
    data = {"x": x, "y": np.where(rng.random(ROWS) < expit(eta), "yes", "no")}
    for upper, reliable in ((5.0, True), (43.0, False)):
        schema = Schema.from_frame(data, bounds={"x": (1.0, upper), "y": ("no", "yes")})
        found = sample(formula, data, schema, epsilon=4.0, delta=1e-6, random=Seeded(1004))
        assert (found.verdict.status == "reliable") is reliable, found.verdict.sentence
    assert "some declared bounds are so wide" in " ".join(found.verdict.reasons)


@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ 0 + g", "y ~ g", "y ~ 0 + x", "y ~ 0 + x + g"])
@pytest.mark.parametrize("family", ["poisson", "linear", "multinomial"])
@pytest.mark.parametrize("estimand", ["robust", "model"])
def test_models_without_an_intercept_or_a_number_have_a_verdict(family, formula, estimand):
    rng = np.random.default_rng(6)
    x, g = rng.uniform(0.0, 1.0, 3000), rng.choice(["a", "b", "c"], 3000)
    y = g if family == "multinomial" else rng.poisson(np.exp(3.0 * x)).astype(float)
    bounds = {"x": (0.0, 300.0), "g": ("a", "b", "c")}
    bounds["y"] = ("a", "b", "c") if family == "multinomial" else (0.0, 60.0)
    if family == "multinomial" and "g" in formula:
        y = rng.permutation(g)
    data = {"x": x, "g": g, "y": y}
    model = ModelSpec(family=family, formula=formula)
    schema = Schema.from_frame(data, bounds=bounds)
    sampler = NoisyQuadraticOptions(estimand=estimand)
    found = sample(data, schema=schema, model=model, sampler=sampler, epsilon=8.0, delta=1e-6)
    assert found.verdict.status in ("reliable", "unreliable")
    found.release.posterior({found.release.parameters[0]: NormalPrior(scale=100.0)})


def test_priors_asked_for_by_name_are_the_callers_own_and_others_the_jobs():
    found = fitted("logistic", 30).release
    spread = CoefficientPrior(kind="student_t", scale=100.0, df=4.0)
    for own in (NormalPrior(scale=200.0), NormalPrior(scale=3.0), spread):
        reasons = found.posterior({"x": own}).verdict.reasons
        assert not any("move x by" in reason for reason in reasons)
    again = found.posterior({"z": NormalPrior(scale=5.0)}).verdict
    assert "move x by" in again.reasons[-1]


def test_a_prior_that_moves_what_noise_nearly_hides_is_told():
    """Rows of persons, whose noise makes a conflict look like chance more often than one in 100."""
    rng = np.random.default_rng(1)
    owner = np.repeat(np.arange(3000), rng.integers(1, 6, 3000))
    income, z = np.clip(rng.gamma(4.5, 0.72, 3000), 0, 31)[owner], rng.integers(0, 2, 3000)[owner]
    income = np.clip(income * np.exp(rng.normal(0, 0.2, len(owner))), 0, 31)
    eta = 0.4 - 0.5 * income + 0.8 * z + 1.5 * rng.normal(size=3000)[owner]
    y = (rng.random(len(owner)) < 1 / (1 + np.exp(-eta))) * 1.0
    data = {"who": owner, "income": income, "z": z * 1.0, "y": y}
    bounds = {"income": (0, 31), "z": (0, 1), "y": (0, 1)}
    schema = Schema.from_frame(data, bounds=bounds, privacy_unit="who", max_rows=5)
    for seed in range(12):
        options = {"epsilon": 1, "delta": 1e-6, "random": Seeded(seed), "accept_low_quality": True}
        found = sample("y ~ income + z", data, schema, family="logistic", **options)
        assert "so wide that default priors" in found.verdict.sentence
