"""The five methods of thesis B, chapter 7, on releases that are drawn by regression_data.

STEPS: of a chain and of its warm-up.
"""

from dataclasses import replace

import numpy as np

from dpmcmc.releases.regression import chains, joint_normal
from dpmcmc.releases.regression.fixed import fixed_s, fixed_s_fast
from dpmcmc.releases.regression.mixtures import adassp
from experiments.regression_data import adassp_noised, noised

DRAWS = 200
METHODS = {  # steps, warm-up; None: draws are independent
    "MCMC-normalX": (1200, 400),
    "MCMC-fixedS": None,
    "Bayes-fixedS-fast": None,
    "MCMC-B&S": (240, 60),
    "MCMC-B&S, weak": (240, 60),
    "adaSSP": None,
}


class Source:
    """What the library draws from, repeatable."""

    def __init__(self, rng):
        self.rng = rng

    def normals(self, shape):
        return self.rng.standard_normal(shape)

    def uniforms(self, shape):
        return 1.0 - self.rng.random(shape)


def drawn(name, rows, noisy, rng, steps=None):
    """Draws (count, runs, d) of one Bayesian method; MCMC-fixedS's are independent.

    weak: the conjugate prior of MCMC-B&S has the other methods' variance; else their matrix.
    """
    prior, source, steps = rows.prior(), Source(rng), steps or METHODS[name]
    if name == "Bayes-fixedS-fast":
        return fixed_s_fast(noisy, prior, rows.bounds[1] / 3.0).draws(DRAWS, source)
    if name == "MCMC-fixedS":
        return fixed_s(noisy, prior, DRAWS, source).coefficients
    if name == "MCMC-normalX":
        return chains.walk(noisy, prior, *steps, source, moving=True).coefficients
    if name.endswith("weak"):
        prior = replace(prior, precision=np.eye(len(prior.mean)))
    return joint_normal.walk(noisy, prior, *steps, source).coefficients


def means(name, rows, holders, noise, epsilon, runs, rng):
    """Estimates (runs, d). epsilon: of adaSSP, with Wang's noise unless noise is a multiplier."""
    if name == "adaSSP":
        multiplier = noise if isinstance(noise, float) else None
        return adassp(*adassp_noised(rows, holders, epsilon, runs, rng, multiplier))
    noisy = noised(rows, holders, noise, runs, rng, squares="B&S" in name)
    if name == "Bayes-fixedS-fast":
        return fixed_s_fast(noisy, rows.prior(), rows.bounds[1] / 3.0).mean
    return drawn(name, rows, noisy, rng).mean(axis=0)


def errors_of(name, rows, holders, noise, epsilon, runs, rng):
    """Mean squared errors (runs,) of predictions."""
    return rows.errors(means(name, rows, holders, noise, epsilon, runs, rng))
