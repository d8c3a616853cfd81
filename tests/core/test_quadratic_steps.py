"""Where a look leads: no stretching because rows count less, and what is far off comes back."""

import numpy as np
import pytest

from dpmcmc.families.scores.base import Evaluation
from dpmcmc.releases import scales
from dpmcmc.releases.quadratic_steps import downweighted, rescaled
from tests.cases import FAMILIES


def test_a_direction_whose_rows_are_weighted_down_is_not_stretched():
    """Its curvature is a quarter because its rows count a fifth: that it was 1 stands."""
    curve, noise, before = np.diag([1.0, 0.25]), np.diag([1.0, 0.05]), np.eye(2)
    stretch, known, close = rescaled(curve, noise, before, 1e-3, 1e-3)
    assert stretch == pytest.approx(np.eye(2), abs=1e-6)
    assert known == pytest.approx(before, abs=1e-6)
    assert close[0, 0] == 0.0
    assert close[1, 1] > 4.0  # and it is drawn in until its rows count in full


def test_a_direction_whose_rows_count_in_full_is_stretched():
    curve, noise, before = np.diag([1.0, 0.25]), np.diag([1.0, 0.24]), np.eye(2)
    stretch, known, close = rescaled(curve, noise, before, 1e-3, 1e-3)
    assert stretch[1, 1] == pytest.approx(2.0, rel=0.05)
    assert known[1, 1] == pytest.approx(0.25, rel=0.1)
    assert not close.any()


def test_noise_alone_neither_stretches_nor_draws_in():
    curve, noise, before = np.diag([1.0, 0.25]), np.diag([1.0, -0.1]), np.eye(2)
    stretch, _, close = rescaled(curve, noise, before, 0.03, 0.1)
    assert stretch == pytest.approx(np.eye(2), abs=1e-6)
    assert not close.any()


def test_looks_that_disagree_count_less_in_that_direction_alone():
    known, before = np.diag([4.0, 4.0]), np.diag([4.0, 4.0])
    assert downweighted(known, before, np.array([0.1, 0.1])) == pytest.approx(before)
    found = downweighted(known, before, np.array([0.1, 5.0]))
    assert found[0, 0] == pytest.approx(4.0)
    assert found[1, 1] < 0.1
    assert found[0, 1] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("family", "y", "eta", "wanted"),
    [("poisson", 10.0, 5.0, np.log(10.5) - 5.0), ("poisson", 150.0, 2.0, np.log(150.5) - 2.0),
     ("linear", 0.0, 6.0, -6.0), ("linear", 9.0, 0.0, 9.0)],
)  # fmt: skip
def test_rows_that_are_cut_far_off_come_back_in_one_step(family, y, eta, wanted):
    """The tangent of what is cut would lead there in dozens of steps."""
    one = np.ones(1)
    place = Evaluation(np.full((1, 1), eta), one, 0.0 * one, 1.0, 1e9, 1.0, 3.0)
    terms = FAMILIES[family].terms(np.array([y]), place)
    assert terms.psi[0, 0] / terms.root[0, 0, 0] ** 2 == pytest.approx(wanted, rel=1e-6)


def test_squares_are_cut_far_out_only_where_their_noise_stays_unheard():
    """Else a release is off the posterior's scale by a part of its own sd, at any budget."""
    for noise in np.geomspace(1e-8, 1.0, 33):
        cut = scales.best_cut(noise)
        k = np.array(cut)
        heard = noise * cut**2 / np.sqrt(float(scales.clipped_square_variance(k)))
        assert cut <= scales.UNCUT or heard <= scales.UNHEARD * 1.0001
    assert scales.best_cut(1e-8) == scales.TRIED_CUTS[-1]
    assert 1.2 <= scales.best_cut(1.0) < 3.0
