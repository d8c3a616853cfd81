"""Bounds that are far wider than rows fill: said by a release, from what it released."""

import re

import numpy as np
import pytest

from dpmcmc.fit.local import sample
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import ModelSpec
from dpmcmc.posterior.breadth import MUCH_TOO_WIDE, notes
from dpmcmc.posterior.stored import StoredRelease

ROWS = 20_000


def schema_of(top, rows=ROWS):
    return Schema(
        columns=(
            NumberColumn(name="narrow", lower=0.0, upper=top),
            NumberColumn(name="full", lower=-1.0, upper=1.0),
            CategoryColumn(name="g", categories=("a", "b")),
            BinaryColumn(name="y", categories=("no", "yes")),
        ),
        rows=rows,
    )


def people(seed, rows=ROWS):
    rng = np.random.default_rng(seed)
    narrow, full = rng.normal(30.0, 2.0, rows), rng.uniform(-1, 1, rows)
    eta = 0.3 * (narrow - 30.0) - full
    return {
        "narrow": narrow,
        "full": full,
        "g": np.where(rng.random(rows) < 0.3, "b", "a"),
        "y": np.where(rng.random(rows) < 1 / (1 + np.exp(-eta)), "yes", "no"),
    }


def fitted(top, epsilon, formula="y ~ narrow + full + g", seed=1, rows=ROWS):
    return sample(
        people(seed, rows),
        schema=schema_of(top, rows),
        model=ModelSpec(family="logistic", formula=formula),
        delta=1e-6,
        epsilon=epsilon,
        sampler="noisy_quadratic",
        accept_low_quality=True,
    )


def test_a_column_in_far_too_wide_bounds_is_named_with_bounds_that_would_do():
    found = fitted(200.0, 8.0).verdict.notes
    assert [note.column for note in found] == ["narrow"]
    sentence = found[0].sentence
    assert "declared range of 0 to 200" in sentence
    around = re.search(r"around (\S+),", sentence)
    assert around
    assert float(around[1]) == pytest.approx(30.0, abs=1.0)
    assert "for the next dataset" in sentence


def test_what_is_computed_from_a_column_is_not_spoken_of():
    """I() and splines have bounds that follow from the column's."""
    found = fitted(200.0, 20.0, "y ~ I(narrow / 7) + bs(full, df=4) + g").verdict.notes
    assert found == ()


@pytest.mark.parametrize("epsilon", [2.0, 1e5])
def test_bounds_that_rows_fill_are_not_spoken_of(epsilon):
    """An sd of 2 in a half range of 18: 9 times, which is no more than usual."""
    assert fitted(36.0, epsilon).verdict.notes == ()


def test_where_noise_hides_how_far_rows_spread_nothing_is_said():
    assert fitted(200.0, 0.05).verdict.notes == ()


def test_without_an_intercept_a_column_is_seen_from_its_middle():
    """Rows around 30 of 0 to 200 are far from the middle: that they crowd there was not released"""
    assert fitted(200.0, 20.0, "y ~ 0 + narrow + full").verdict.notes == ()


def test_a_note_stays_with_the_stored_release_and_with_what_is_printed():
    result = fitted(200.0, 8.0)
    release = result.release
    again = StoredRelease.read(schema_of(200.0), release.spec, release.to_dict())
    assert again.verdict.notes == result.verdict.notes != ()
    assert f"note: {result.verdict.notes[0].sentence}" in " ".join(repr(result).split())
    assert result.verdict.notes[0].sentence in result._repr_html_()


@pytest.mark.parametrize(("times", "said"), [(0.98, False), (1.02, True)])
def test_the_threshold_is_of_the_sd_about_the_mean(times, said):
    design = make_design(schema_of(200.0), "y ~ narrow")
    mean, sd = -0.7, 1.0 / (times * MUCH_TOO_WIDE)
    moments = np.array([[1.0, mean], [mean, mean * mean + sd * sd]])
    assert bool(notes(design, moments, 0.0)) is said
    assert notes(design, moments, 0.3) == ()
