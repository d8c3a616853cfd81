"""Warnings about budgets too large to protect: docs/guides/operation.md."""

import math

from dpmcmc.privacy.accountant import mu_of_epsilon

ROUNDING = 1e-9  # of a number of jobs
LARGEST_PROMISE = 1e4  # epsilon: beyond it a promise says nothing at all
WEAK = 20.0  # epsilon above which a promise says little


def warnings(epsilon: float) -> list[str]:
    """Return warnings about an epsilon that protects little."""
    if epsilon <= WEAK:
        return []
    return [
        f"epsilon {epsilon:g} is above {WEAK:g}: whoever knows all other rows can be nearly certain"
        " of the last one. Values up to 10 are usual"
    ]


def jobs_within(left: float, job: float, delta: float) -> int:
    """Return the number of Gaussian jobs of epsilon `job` within epsilon `left`, at delta.

    They add up in mu^2, so that it is more than left / job.
    """
    if left <= 0.0:
        return 0
    return math.floor((mu_of_epsilon(left, delta) / mu_of_epsilon(job, delta)) ** 2 + ROUNDING)
