"""Logistic and multinomial responses that few rows have: found at once, and not sure and wrong."""

from dataclasses import replace

import numpy as np
import pytest

from dpmcmc import BinaryColumn, CategoryColumn, NumberColumn, Schema, sample
from dpmcmc.families.logistic import Logistic
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.releases import shares
from dpmcmc.releases.quadratic import Quadratic
from dpmcmc.releases.quadratic_verdict import verdict
from dpmcmc.releases.whitening import Whitening
from tests.sources import Seeded

NAMES, SLOPES = ("a", "b", "c"), np.array([-1.2, 0.6, -1.4])


def fits(share, rows, epsilon, seeds):
    """Fits of a response that this share of rows has, and the coefficients by name."""
    numbers = tuple(NumberColumn(name=name, lower=-1.0, upper=1.0) for name in NAMES)
    schema = Schema(columns=(*numbers, BinaryColumn(name="y", categories=("0", "1"))), rows=rows)
    grid = np.random.default_rng(0).uniform(-1, 1, (3, 100_000))
    level = np.log(share) - np.log(np.exp(SLOPES @ grid).mean())
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1, 1, (3, rows))
        chance = 1.0 / (1.0 + np.exp(-level - SLOPES @ x))
        data = dict(zip(NAMES, x, strict=True))
        data["y"] = np.where(rng.random(rows) < chance, "1", "0")
        robust = NoisyQuadraticOptions(estimand="robust")
        told = {"epsilon": epsilon, "delta": 1e-6, "sampler": robust}
        yield sample("y ~ a + b + c", data, schema, **told, random=Seeded(seed)), level


def test_a_share_is_found_from_the_mean_residual():
    half, none = np.zeros(1), np.full(1, 1e-4)
    change, slope = shares.shift(half, np.array([0.01 - 0.5]), none, np.full((1, 1), 0.25), 1.0)
    assert change == pytest.approx([np.log(0.01 / 0.99)])
    assert slope == pytest.approx(np.full((1, 1), 0.0099))
    near = np.array([0.2 - 0.5]), none, np.full((1, 1), 0.25), 1.0
    assert shares.shift(half, *near) is None
    weighted = np.array([0.5 * (0.01 - 0.5)]), none, np.full((1, 1), 0.125), 1.0
    assert shares.shift(half, *weighted)[0] == pytest.approx(change)


def test_no_share_is_less_than_the_noise():
    told = shares.shift(np.zeros(1), np.array([-0.6]), np.full(1, 0.02), np.full((1, 1), 0.25), 1.0)
    assert told[0] == pytest.approx([np.log(0.02 / 1.1)])


def test_shares_of_several_responses():
    third = np.zeros(2)
    slope = np.diag([1 / 3] * 2) - 1 / 9
    wanted = np.array([0.02, 0.9])
    change, _ = shares.shift(third, wanted - 1 / 3, np.full(2, 1e-5), slope, 1.0)
    assert change == pytest.approx(np.log(wanted / 0.08))


def test_the_expected_curvature_is_that_of_normal_covariates():
    rng = np.random.default_rng(1)
    mean, root = np.array([0.3, -0.2]), np.array([[0.5, 0.0], [0.3, 0.4]])
    x = np.vstack((np.ones(400_000), (mean + rng.standard_normal((400_000, 2)) @ root.T).T))
    place = np.array([-5.0, 0.8, -0.6])
    chance = 1.0 / (1.0 + np.exp(-(place @ x)))
    exact = (x * (chance * (1.0 - chance))) @ x.T / x.shape[1]
    back = np.linalg.cholesky(x @ x.T / x.shape[1])
    white = Whitening(np.linalg.inv(back).T, back @ back.T, 0.0, np.zeros((3, 3)))
    found = shares.expected(place, white, Logistic())
    assert found == pytest.approx(exact, rel=0.05, abs=0.02 * exact[0, 0])
    assert shares.expected(np.zeros(3), white, Logistic()) is None


def test_changes_are_those_of_rows_with_a_rare_response():
    curvature = np.diag([0.01, 0.02]) * 1000.0
    moves = np.array([[[0.3, 0.0]], [[0.0, 0.4]]])
    assert shares.changes(curvature, 1000.0, moves) == pytest.approx(np.sqrt(0.09 + 0.32))
    assert shares.changes(curvature * 20.0, 1000.0, moves) == 0.0


def test_intervals_of_a_rare_response_hold_the_truth():
    """A hundred of 20,000 rows: Newton steps from a half ended a unit of log odds away."""
    held, away = [], []
    for fit, level in fits(0.005, 20_000, 4.0, 25):
        if fit.verdict.status == "unreliable":
            continue
        rows = [fit.summary(mixing=False)[name] for name in ("Intercept", *NAMES)]
        truth = (level, *SLOPES)
        held += [row.q05 < value < row.q95 for row, value in zip(rows, truth, strict=True)]
        away += [abs(row.mean - value) / row.sd for row, value in zip(rows, truth, strict=True)]
    assert len(held) >= 4 * 12
    assert np.mean(held) > 0.78  # .38 without what is tested here
    assert max(away) < 5.0


def test_a_response_that_the_noise_hides_is_unreliable():
    verdicts = [fit.verdict.status for fit, _ in fits(0.005, 2000, 1.0, 12)]
    assert verdicts.count("unreliable") >= 10


@pytest.mark.parametrize(("estimand", "least"), [("robust", 12), ("model", 6)])
def test_a_rare_category_of_a_response_is_found(estimand, least):
    """Two hundred of 20,000 rows are in the third of three categories."""
    rows, away, reliable = 20_000, [], 0
    sampler = NoisyQuadraticOptions(estimand=estimand)
    columns = (
        NumberColumn(name="a", lower=-1.0, upper=1.0),
        CategoryColumn(name="y", categories=("u", "v", "w")),
    )
    for seed in range(12):
        rng = np.random.default_rng(seed)
        a = rng.uniform(-1, 1, rows)
        odds = np.exp(np.vstack((np.zeros(rows), 0.5 + a, -4.3 - 0.8 * a)))
        ends = np.cumsum(odds / odds.sum(axis=0), axis=0)
        y = np.array(["u", "v", "w"])[(rng.random(rows) > ends[:2]).sum(axis=0)]
        told = {"epsilon": 4, "delta": 1e-6, "random": Seeded(seed), "sampler": sampler}
        fit = sample("y ~ a", {"a": a, "y": y}, Schema(columns=columns, rows=rows), **told)
        reliable += fit.verdict.status == "reliable"
        row = fit.summary(mixing=False)["w:Intercept"]
        away.append((row.mean + 4.3) / row.sd)
    assert np.sqrt(np.mean(np.square(away))) < 1.8
    assert reliable >= least


@pytest.mark.parametrize("size", [0.0, 1e-200, 1e-20, 1.0, 1e20])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_verdict_is_given_whatever_noise_made(size, sign):
    """Curvatures and variances may be of any size and sign; the job has paid, and must not fail."""
    (fit, _) = next(fits(0.01, 2000, 1.0, 1))
    own = Quadratic.from_dict(fit.release.to_dict())
    p = len(own.place)
    prior = np.zeros(p), np.full(p, 2.5**-2)
    for curvature, noise in ((sign * size, -size), (size, sign * size), (sign * size, 0.0)):
        made = replace(own, curvature=curvature * np.eye(p), noise=noise * np.eye(p))
        found = verdict(made, prior)
        assert isinstance(found.sentence, str)
        assert not (found.reliable and size < 1e-9)
