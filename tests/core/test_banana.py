"""The banana's exact posterior against the model written down directly."""

import json

import numpy as np
import pytest

from dpmcmc.families.banana import (
    Banana,
    bend,
    draw_posterior,
    exact_posterior,
    simulate,
    straighten,
)


def log_joint(model, theta, rows, tempering):
    """Prior times tempered likelihood, straight from the definition of the model."""
    u = theta.copy()
    u[1] += model.a * (theta[0] - model.m) ** 2 + model.b
    prior = -0.5 * np.sum(u**2) / model.prior_variance
    return prior - 0.5 * tempering * np.sum((rows - u) ** 2 / np.array(model.variances))


@pytest.mark.parametrize("tempering", [1.0, 0.1])
def test_posterior_is_proportional_to_prior_times_likelihood(tempering):
    model = Banana(variances=(20.0, 2.5, 1.0), a=3.0, b=0.5, m=0.2, prior_variance=7.0)
    random = np.random.default_rng(1)
    rows = simulate(model, np.array([0.3, 3.0, -1.0]), 40, random=random)
    mean, variances = exact_posterior(model, rows.mean(axis=0), 40, tempering)
    points = random.normal(size=(50, 3))
    gaussian = -0.5 * np.sum((straighten(model, points) - mean) ** 2 / variances, axis=1)
    joint = np.array([log_joint(model, theta, rows, tempering) for theta in points])
    np.testing.assert_allclose(gaussian - gaussian[0], joint - joint[0], rtol=1e-9)


def test_bend_undoes_straighten_and_keeps_volume():
    model = Banana.thesis(4)
    points = np.random.default_rng(2).normal(size=(20, 4))
    np.testing.assert_allclose(bend(model, straighten(model, points)), points, atol=1e-12)
    step = 1e-6
    for point in points:
        columns = [
            (straighten(model, point + step * e) - straighten(model, point - step * e)) / (2 * step)
            for e in np.eye(4)
        ]
        assert np.linalg.det(np.array(columns)) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(("case", "rows"), [("d2_T1", 100_000), ("d2_T001", 100_000)])
def test_posterior_is_the_reference_one(shared_dir, case, rows):
    meta = json.loads((shared_dir / "data/banana/banana_meta.json").read_text())
    known = meta["cases"][case]
    model = Banana.thesis(known["d"])
    mean, variances = exact_posterior(model, np.array(known["xbar"]), rows, known["T"])
    np.testing.assert_allclose(mean, known["mu"], rtol=1e-12)
    np.testing.assert_allclose(variances, known["var"], rtol=1e-12)
    draws = draw_posterior(
        model,
        np.array(known["xbar"]),
        rows,
        200_000,
        random=np.random.default_rng(3),
        tempering=known["T"],
    )
    error = np.array(known["exact_sd"]) / np.sqrt(200_000)
    assert (np.abs(draws.mean(axis=0) - known["exact_mean"]) < 4 * error).all()
    np.testing.assert_allclose(draws.std(axis=0), known["exact_sd"], rtol=0.02)


def test_simulated_rows_have_the_models_means_and_variances():
    model, theta = Banana.thesis(3), np.array([0.1, 3.0, -2.0])
    rows = simulate(model, theta, 100_000, random=np.random.default_rng(4))
    error = np.sqrt(np.array(model.variances) / 100_000)
    assert (np.abs(rows.mean(axis=0) - [0.1, 3.2, -2.0]) < 4 * error).all()
    np.testing.assert_allclose(rows.var(axis=0), model.variances, rtol=0.02)


def test_no_rows_give_the_prior():
    model = Banana.thesis(2)
    mean, variances = exact_posterior(model, np.zeros(2), 0)
    np.testing.assert_allclose(mean, 0.0)
    np.testing.assert_allclose(variances, 1000.0)


def test_impossible_constants_and_shapes_are_refused():
    with pytest.raises(ValueError, match="2 dimensions"):
        Banana(variances=(1.0,))
    with pytest.raises(ValueError, match="variances"):
        Banana(variances=(1.0, 0.0))
    with pytest.raises(ValueError, match="finite"):
        Banana(variances=(1.0, 1.0), a=np.inf)
    model = Banana.thesis(2)
    with pytest.raises(ValueError, match="one mean"):
        exact_posterior(model, np.zeros(3), 10)
    with pytest.raises(ValueError, match="tempering"):
        exact_posterior(model, np.zeros(2), 10, 0.0)
    with pytest.raises(ValueError, match="one value"):
        simulate(model, np.zeros(3), 10, random=np.random.default_rng(5))
