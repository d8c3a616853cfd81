"""An unreliable result says what would mend it, and every result what privacy costs in width."""

import math

import numpy as np
import pytest

from dpmcmc import BinaryColumn, JobSpec, ModelSpec, NumberColumn, PrivacySpec, Schema, sample
from dpmcmc.client.answers import verdict_of
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.posterior.remedies import epsilon_at
from dpmcmc.posterior.stored import StoredRelease
from dpmcmc.posterior.verdicts import joined, widened
from dpmcmc.privacy.accountant import epsilon_of_mu
from tests.sources import Seeded

ROWS, DELTA = 6000, 1e-6


def fitted(family, response, y, epsilon, seed=1, **given):
    rng = np.random.default_rng(3)
    data = {"x": rng.uniform(-1, 1, ROWS), "y": y(rng)}
    schema = Schema(columns=(NumberColumn(name="x", lower=-1.0, upper=1.0), response), rows=ROWS)
    return sample(
        data, schema=schema, model=ModelSpec(family=family, formula="y ~ x"), epsilon=epsilon,
        delta=DELTA, random=Seeded(seed), accept_low_quality=True, **given,
    )  # fmt: skip


def yes_or_no(rng):
    return np.where(rng.random(ROWS) < 0.4, "yes", "no")


ANSWER = BinaryColumn(name="y", categories=("no", "yes"))
COUNT = NumberColumn(name="y", lower=0.0, upper=60.0)


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "widens these intervals by less than 1 %"),
        (0.03, "widens these intervals by 2 %"),
        (0.2, "widens these intervals by 12 %"),
        (0.9, "makes these intervals 3.2 times as wide"),
        (1.0, "makes these intervals 1e+02 times as wide"),
    ],
)
def test_what_privacy_costs_is_told_in_one_sentence(share, words):
    assert widened(share) == f"privacy {words}"


def test_a_reliable_result_begins_with_what_privacy_costs():
    fit = fitted("logistic", ANSWER, yes_or_no, 2.0)
    assert fit.verdict.sentence.startswith("Reliable: privacy widens these intervals by ")
    assert fit.verdict.mended_at is None


@pytest.mark.parametrize("spend", ["all", "until_hopeless"])
def test_the_epsilon_that_is_named_does(spend):
    poor = fitted("logistic", ANSWER, yes_or_no, 0.1, spend=spend).verdict
    assert poor.status == "unreliable"
    assert 0.1 < poor.mended_at < 2.0
    assert f"about epsilon {poor.mended_at:g}" in poor.sentence
    assert poor.sentence.count("would mend it") == 1
    again = [fitted("logistic", ANSWER, yes_or_no, poor.mended_at, s).verdict for s in range(5)]
    assert sum(one.status == "reliable" for one in again) >= 4


def test_counts_that_vary_more_name_the_family_and_its_dispersion():
    rng = np.random.default_rng(4)
    means = 3.0 * rng.gamma(0.5, 2.0, ROWS)
    counts = np.clip(rng.poisson(means), 0, 60)

    def told(estimand):
        options = NoisyQuadraticOptions(estimand=estimand)
        words = fitted("poisson", COUNT, lambda _: counts, 4.0, sampler=options).verdict.sentence
        assert "times as much as the model says" in words
        return words

    named = float(told("model").partition("negative_binomial with a dispersion of about ")[2][:3])
    assert 0.3 <= named <= 0.7  # .5 is the truth
    robust = told("robust")  # cuts what its dispersion is told by
    assert "negative_binomial has room for that" in robust
    assert "dispersion of about" not in robust


def test_a_column_with_far_bounds_is_named():
    """A tenth of its bounds is filled, beside a number that fills its own."""
    rng = np.random.default_rng(4)
    data = {"x": rng.uniform(-1, 1, ROWS), "income": rng.normal(0.0, 1.0, ROWS).clip(-40, 40)}
    data["y"] = np.where(rng.random(ROWS) < 0.5, "yes", "no")
    columns = (
        NumberColumn(name="x", lower=-1.0, upper=1.0),
        NumberColumn(name="income", lower=-40.0, upper=40.0),
        ANSWER,
    )
    fit = sample(
        data, schema=Schema(columns=columns, rows=ROWS), epsilon=2.0, delta=DELTA,
        model=ModelSpec(family="logistic", formula="y ~ x + income"), random=Seeded(1),
        sampler=NoisyQuadraticOptions(estimand="model"), accept_low_quality=True,
    )  # fmt: skip
    assert "declared bounds of income reach" in fit.verdict.sentence
    assert "declared bounds of x reach" not in fit.verdict.sentence


def test_remedies_are_a_function_of_what_was_stored():
    fit = fitted("logistic", ANSWER, yes_or_no, 0.1)
    schema, spec = fit.design.schema, fit.plan.spec
    assert StoredRelease.read(schema, spec, fit.release.to_dict()).verdict == fit.verdict


def test_an_epsilon_is_that_of_the_noise_that_is_asked_for():
    privacy = PrivacySpec(delta=DELTA, noise_multiplier=4.0)
    spec = JobSpec(model=ModelSpec(family="linear", formula="y ~ x"), privacy=privacy)
    exact = epsilon_of_mu(0.5, DELTA)
    assert exact <= epsilon_at(spec, 2.0) <= 1.1 * exact
    for more in (None, math.inf, 1e9):
        assert epsilon_at(spec, more) is None


def test_an_epsilon_that_a_sentence_names_is_given_beside_other_reasons():
    poor = fitted("logistic", ANSWER, yes_or_no, 0.1).verdict
    assert poor.mended_at is not None
    assert joined(poor, ()).mended_at == poor.mended_at
    both = joined(poor, ("these rows are few",))
    assert both.reasons[1:] == ("these rows are few",)
    assert f"about epsilon {both.mended_at:g}" in both.sentence


@pytest.mark.parametrize("epsilon", [0.1, 0.5])
def test_an_epsilon_is_given_wherever_a_sentence_names_one(epsilon):
    """Of counts without events in a category, which is a reason of its own."""
    rng = np.random.default_rng(8)
    group = rng.choice(["a", "b", "c"], ROWS, p=[0.5, 0.48, 0.02])
    y = np.where(rng.random(ROWS) < np.where(group == "c", 0.0, 0.3), "yes", "no")
    schema = Schema.from_frame({"g": group, "y": y}, {"g": ("a", "b", "c"), "y": ("no", "yes")})
    several = 0
    for seed in range(4):
        found = sample(
            "y ~ g", {"g": group, "y": y}, schema, epsilon=epsilon, delta=DELTA,
            random=Seeded(seed), accept_low_quality=True,
        ).verdict  # fmt: skip
        named = found.sentence.split("about epsilon ")[1:]
        assert (found.mended_at is not None) == bool(named), found.sentence
        assert all(word.startswith(f"{found.mended_at:g}") for word in named)
        several += len(found.reasons) > 1
    assert several


def test_clients_read_verdicts_of_services_that_name_no_epsilon():
    old = {"status": "reliable", "sentence": "", "reasons": [], "width_from_privacy": None}
    assert verdict_of({"verdict": old}).mended_at is None
    assert verdict_of({"verdict": old | {"mended_at": 2.0}}).mended_at == 2.0
