"""The bias that clips leave, along numbers whose declared bounds are far."""

import dataclasses

import numpy as np
import pytest

from dpmcmc.releases import far_columns
from dpmcmc.releases.quadratic import Quadratic
from tests.core.test_noisy_quadratic import stored


@pytest.fixture(scope="module")
def release():
    """A linear release by an intercept and numbers."""
    return stored("linear", 6000, 4.0, 1)[1]


def far(release, sds):
    """The release with its second column that many sds from its bounds, and no others."""
    p = len(release.place)
    root = np.eye(p)
    root[1, 1] = sds  # a column of sd 1 / sds
    curvature = float(release.rows) * np.eye(p)
    return dataclasses.replace(
        release,
        root=root,
        curvature=curvature,
        noise=curvature,
        curvature_sd=1e-3,
        noise_sd=1e-3,
        left_sd=2.0,
        indicators=np.zeros(p),
    )


def test_bounds_that_are_near_cost_nothing(release):
    near = far(release, 0.99 * far_columns.NEAR)
    assert not far_columns.bias(near).any()
    assert np.allclose(near.unsure(), near.unsure_sd**2 * np.eye(len(near.place)))


def test_bias_lies_along_the_column_whose_bound_is_far(release):
    """In proportion to what clips leave out, and to the square of the distance."""
    found = far(release, 20.0)
    assert far_columns.distances(found)[1] == pytest.approx(20.0, rel=0.01)
    added = found.unsure() - found.unsure_sd**2 * np.eye(len(found.place))
    along = np.zeros_like(added)
    along[1, 1] = far_columns.PER_SQUARE * (20.0**2 - far_columns.NEAR**2) * found.left_sd**2
    assert np.allclose(added, along, rtol=0.02)
    assert not (
        dataclasses.replace(found, left_sd=0.0).unsure() - found.score_sd**2 * np.eye(len(along))
    ).any()


def test_categories_have_no_far_bounds(release):
    found = far(release, 20.0)
    kinds = np.zeros(len(found.place))
    kinds[1] = 1.0
    assert not far_columns.bias(dataclasses.replace(found, indicators=kinds)).any()


def test_a_release_that_was_stored_before_keeps_its_posterior(release):
    found = far(release, 20.0)
    before = {k: v for k, v in found.to_dict().items() if k != "by_columns"}
    old = Quadratic.from_dict(before)
    assert not old.by_columns
    assert np.allclose(old.unsure(), old.unsure_sd**2 * np.eye(len(old.place)))


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_distances_are_of_the_columns_where_rows_have_weights(family):
    found = stored(family, 6000, 4.0, 1)[1]
    told = far_columns.distances(found)
    assert told.shape == found.place.shape
    assert told[0] == 0.0
    assert (told[1:] > 1.0).all()
    assert told.max() < 5.0
