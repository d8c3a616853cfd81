"""The agreement experiment judges a sampler against exact draws, and keeps what it has run."""

import json

import numpy as np
import pytest

from experiments import agreement
from experiments.posteriors import EXACT, POSTERIORS

CELL = ["--quick", "--posterior", "means/tight", "--sampler"]


@pytest.fixture
def run(tmp_path, capsys):
    """Run a piece of the experiment: (its JSON, its CSV's rows)."""

    def command(*words):
        agreement.main([*CELL, *words, f"--output={tmp_path}"])
        capsys.readouterr()
        assert (tmp_path / "agreement.png").read_bytes().startswith(b"\x89PNG")
        rows = agreement.rows_of(tmp_path / "agreement.csv")
        return json.loads((tmp_path / "agreement.json").read_text()), rows

    return command


def test_an_exact_release_agrees_and_is_not_run_twice(run):
    report, first = run("noisy_mean")
    assert report["findings"]["noisy_mean"]["runs"] == len(first) == 1
    assert float(first[0]["mean"]) < agreement.MEAN
    assert float(first[0]["sd"]) < agreement.SD
    assert float(first[0]["ess"]) > 1000.0
    assert run("noisy_mean")[1] == first


def test_draws_that_are_off_miss_their_limits():
    posterior = agreement.reference("means/tight")[0]
    exact = posterior.draws[:4000]
    good = agreement.compared(exact, "means/tight")
    shifted = agreement.compared(exact + 0.3 * posterior.sds, "means/tight")
    spread = posterior.means + 1.2 * (exact - posterior.means)
    wide = agreement.compared(spread, "means/tight")
    assert good["mean"] < 0.1
    assert good["sd"] < 0.05
    assert shifted["mean"] > agreement.MEAN
    assert shifted["mmd"] > shifted["floor"] > 0.005
    assert wide["sd"] > agreement.SD


@pytest.mark.parametrize("name", ["linear/tight", "poisson/tight"])
def test_exact_draws_are_where_the_density_is_highest(name):
    """The gradient of the log posterior, averaged over its draws, is 0: no noise but their own."""
    from dpmcmc.families import MODELS
    from dpmcmc.families.rowwise import RowTarget
    from dpmcmc.fit.local import table_of
    from dpmcmc.formula.design import make_design
    from dpmcmc.inputs.options import DpHmcOptions
    from dpmcmc.inputs.spec import JobSpec, PrivacySpec

    made = POSTERIORS[name]()
    assert len(made.draws) == EXACT
    spec = JobSpec(
        model=made.model, sampler=DpHmcOptions(), privacy=PrivacySpec(delta=1e-6, epsilon=1.0)
    )
    design = make_design(made.schema, made.model.formula)
    form = MODELS[made.model.family].form(design, spec)
    target = RowTarget(form, spec, table_of(made.schema, made.columns), 1)
    released = MODELS[made.model.family].release(design, spec, np.zeros(len(form.start)))
    unit = MODELS[made.model.family].release(design, spec, np.ones(len(form.start))) - released
    positions = (made.draws[:4000] - released) / unit
    scores = target.gradient(positions, 1e3)[0] + target.log_prior_gradient(positions)
    errors = scores.std(axis=0) / len(scores) ** 0.5
    assert (np.abs(scores.mean(axis=0)) < 4.0 * errors).all()
    across = (scores * (positions - positions.mean(axis=0))).mean(axis=0)
    np.testing.assert_allclose(across, -1.0, atol=0.25)  # E[score (theta - mean)] = -1


@pytest.mark.parametrize("name", ["multinomial/tight", "negative-binomial/tight"])
def test_draws_of_what_no_chain_samples_are_exact_as_well(name):
    """The gradient of the log posterior, from the model's own formula, is 0 on average."""
    from dpmcmc.fit.local import table_of
    from dpmcmc.formula.design import make_design
    from experiments.posteriors import DISPERSION

    made = POSTERIORS[name]()
    x, y = make_design(made.schema, made.model.formula).build(table_of(made.schema, made.columns))
    draws, scores = made.draws[:1500], []
    for theta in draws:
        eta = theta.reshape(-1, len(x)) @ x
        if made.model.family == "multinomial":
            odds = np.exp(eta)
            psi = (y == np.arange(1.0, len(eta) + 1.0)[:, None]) - odds / (1.0 + odds.sum(axis=0))
        else:
            psi = DISPERSION * (y - np.exp(eta)) / (DISPERSION + np.exp(eta))
        scores.append((psi @ x.T).ravel() - theta / made.model.prior.scale**2)
    errors = np.std(scores, axis=0) / len(scores) ** 0.5
    assert (np.abs(np.mean(scores, axis=0)) < 4.0 * errors).all()
    across = (np.array(scores) * (draws - draws.mean(axis=0))).mean(axis=0)
    np.testing.assert_allclose(across, -1.0, atol=0.25)
    assert not agreement.suits("dp_penalty", name)
    assert agreement.suits("noisy_quadratic", name)
