"""Mechanisms that are not as they should be, for the tests of the replay: run in a process of its
own, which has imported the real ones before."""

from typing import Any
from unittest import mock

import numpy as np

from dpmcmc.privacy.discrete import noisy_grid, noisy_sums
from dpmcmc.releases.noisy_mean import released_sum
from tests.audit import replay


def replayed(case: replay.Case, place: str, name: str) -> replay.Replay:
    """Replay a case with a function of this module in the place of another."""
    with mock.patch(place, globals()[name]):
        return replay.replayed(case)


def less_noise(*given: Any) -> Any:
    return 0.5 * noisy_grid(*given)


def leak(target: Any, centre: Any, clip: float, z: float, random: Any) -> Any:
    found, rows, sd = released_sum(target, centre, clip, z, random)
    return found + 1e-9 * target.gradient(centre[None], clip)[0][0], rows, sd


def curious_cells(sums: Any, sensitivity: float, z: float, noise: Any) -> Any:
    return noisy_sums(sums, sensitivity * (1.0 + 1e-9 * abs(sums).sum()), z, noise)


def noise_twice(sums: Any, sensitivity: float, z: float, noise: Any) -> Any:
    return noisy_sums(sums, sensitivity, z, np.full_like(noise, noise.flat[0]))


def other_draws(target: Any, centre: Any, clip: float, z: float, random: Any) -> Any:
    if target.gradient(centre[None], clip)[0].sum() > 0.0:
        random.normals((1,))
    return released_sum(target, centre, clip, z, random)
