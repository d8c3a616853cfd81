"""What a job costs that uses coordinates again does not rest on those coordinates."""

import math
from contextlib import suppress

import numpy as np
import pytest

from dpmcmc.mechanisms import sums
from dpmcmc.privacy.accountant import gdp_mu
from dpmcmc.privacy.noise import SystemRandom
from dpmcmc.releases import newton_path
from dpmcmc.releases.design_rows import HeldRows
from dpmcmc.releases.whitening import Whitening
from tests.cases import FAMILIES, WEIGHTED

ROWS, D = 400, 3
MU = 0.7
FORGED = {
    "its own": np.eye(D),
    "far too small": np.eye(D) * 1e-9,
    "far too large": np.eye(D) * 1e9,
    "one way only": np.diag([1.0, 1e-6, 1e6]),
    "made to single out a row": np.array([[1.0, -50.0, 3.0], [0.0, 50.0, 1.0], [2.0, 7.0, -1e3]]),
}


class RecordedError(Exception):
    """The first sums are known."""


def looks(family, white, x, y, monkeypatch, stop=False):
    """Run the way on rows. Returns (sums before their noise, multiplier) of each release."""
    seen = []

    def noisy(flat, sensitivity, z, noise):
        seen.append((flat.copy(), z, sensitivity))
        if stop:
            raise RecordedError
        return flat + z * sensitivity * np.ones_like(flat)

    monkeypatch.setattr(sums, "noisy_sums", noisy)
    size = D + FAMILIES[family].log_scale
    problem = newton_path.Problem(
        family=FAMILIES[family],
        data=HeldRows(x, y),
        start=np.zeros(size),
        prior_mean=np.zeros(size),
        prior=np.full(size, 1e-2),
        max_row_norm=2.0,
        scale=2.0 if FAMILIES[family].link == "identity" else 1.0,
        noise_multiplier=1.0 / MU,
        white=white,
    )
    with suppress(RecordedError):
        newton_path.find_mode(problem, 6, SystemRandom())
    return seen


def table(seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, (D, ROWS))
    x[0] = 1.0
    return x, rng.integers(0, 2, ROWS).astype(float)


@pytest.mark.parametrize("family", sorted(WEIGHTED))
@pytest.mark.parametrize("forged", FORGED)
def test_neighbours_are_no_further_apart_in_forged_coordinates(family, forged, monkeypatch):
    white = Whitening(FORGED[forged], np.zeros((D, D)), 0.1, np.zeros((D, D)))
    x, y = table(1)
    here, *_ = looks(family, white, x, y, monkeypatch, stop=True)
    rng = np.random.default_rng(2)
    for _ in range(20):
        other, answer = x.copy(), y.copy()
        other[1:, 7] = rng.choice([-1.0, 1.0], D - 1)
        answer[7] = rng.choice([0.0, 1.0, 50.0])
        there, *_ = looks(family, white, other, answer, monkeypatch, stop=True)
        assert here[1:] == there[1:]
        assert np.linalg.norm(here[0] - there[0]) <= here[2]


@pytest.mark.parametrize("family", sorted(WEIGHTED))
@pytest.mark.parametrize("forged", FORGED)
def test_the_noise_drawn_is_that_of_the_event_in_forged_coordinates(family, forged, monkeypatch):
    white = Whitening(FORGED[forged], np.zeros((D, D)), 0.1, np.zeros((D, D)))
    seen = looks(family, white, *table(3), monkeypatch)
    spent = math.fsum(z**-2 for _, z, _ in seen)
    assert len(seen) == 6 + 2
    assert spent <= MU**2 * (1 + 1e-12)
    assert spent == pytest.approx(MU**2, rel=1e-9)
    whole = newton_path.event(1.0 / MU, 6, paid=True)
    assert gdp_mu(whole) == pytest.approx(MU, rel=1e-9)
    assert gdp_mu(whole) <= MU
