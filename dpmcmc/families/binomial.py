"""Binomial regression of log odds: a row is a count of cases among trials, `cases | trials(n) ~ x`.

A row counts as its trials do in logistic regression, where each has the same covariates. Where
trials of a row hang together, as those of a clinic do, cases vary more than the model says, and
intervals are by how much they do. A row with more cases than trials counts as one whose trials were
all cases. Priors are those of logistic regression: Normal(0, 2.5).
noisy_quadratic releases it; no chain samples it. Source: McCullagh and Nelder 1989, chapter 4.
"""

from dataclasses import replace

import numpy as np
from scipy.special import betainc, expit

from dpmcmc.base.errors import SpecError
from dpmcmc.families import logistic
from dpmcmc.families.assumptions import Guess
from dpmcmc.families.base import Model, usual_prior
from dpmcmc.families.forms import DesignForm
from dpmcmc.families.misfits import Misfits
from dpmcmc.families.poisson import moments, secant
from dpmcmc.families.scores.base import (
    BINOMIAL,
    TINY,
    UNCUT,
    Evaluation,
    Floats,
    Link,
    Terms,
    nodes_of,
    single,
)
from dpmcmc.families.scores.distributions import of_counts
from dpmcmc.families.scores.responses import YES
from dpmcmc.formula.design import POINTER, Design, check_measured, number_response
from dpmcmc.inputs.spec import JobSpec, ModelSpec
from dpmcmc.kernels.arithmetic.families import NOT_IN_KERNELS

MOST_TRIALS = 1e6


def check(design: Design, _: ModelSpec) -> None:
    """Refuse cases or trials that are no counts, and cases that may exceed trials."""
    cases, trials = number_response(design, "binomial regression"), design.beside
    if trials is None or trials.categories:
        raise SpecError(POINTER, "binomial regression needs trials(n) of a number n")
    check_measured(cases, MOST_TRIALS)
    if cases.lower < 0.0 or trials.lower[0] < 0.0 or not 1.0 <= trials.upper[0] <= MOST_TRIALS:
        message = (
            f"binomial regression counts {cases.name!r} among {trials.label!r}: declare lower"
            f" bounds of 0 or more, and an upper bound of trials of 1 to {MOST_TRIALS:g}"
        )
        raise SpecError(POINTER, message)
    if cases.upper > trials.upper[0]:
        message = (
            f"the declared bounds allow {cases.upper:g} of {cases.name!r} among at most"
            f" {trials.upper[0]:g} of {trials.label!r}: declare an upper bound that is no larger"
        )
        raise SpecError(POINTER, message)


class Binomial:
    """The score is y - n p. scale: residual sd over the binomial sd (overdispersion)."""

    link: Link = "logit"
    has_scale, log_scale, quadratic, variance = True, False, False, BINOMIAL

    def terms(self, y: Floats, at: Evaluation) -> Terms:
        """Return psi, its slope, its variance and the squared residual of each row.

        y: (m, 2) cases and trials, or (m,) cases of one trial each. Where scores are clipped, on
        the way to the mode, they are centred by truncated moments.
        """
        cases, trials = y.T if y.ndim == 2 else (y, np.ones_like(y))
        cases = np.minimum(cases, trials)
        p, slope = np.zeros_like(cases), np.zeros_like(cases)
        for eta, weight in nodes_of(at):
            at_node = expit(eta)
            p += weight * at_node
            slope += weight * at_node * (1.0 - at_node)
        mean, slope = trials * p, trials * slope
        square = (cases - mean) ** 2 / np.maximum(slope * at.scale**2, TINY)
        square = np.minimum(square, at.cut**2)
        if at.most >= UNCUT:
            return single(cases - mean, slope, slope, square)
        t = at.most / np.maximum(at.row_norm, TINY)
        low, high = np.maximum(mean - t, 0.0), np.minimum(mean + t, trials)

        def distribution(j: Floats) -> Floats:
            """Return P(Y <= j), (m,)."""
            inside = np.maximum(trials - j, TINY)
            return np.where(j >= trials, 1.0, betainc(inside, j + 1.0, 1.0 - p))

        off, variance, bend = moments(mean, low, high, distribution, -1.0 / trials)
        psi, bend = np.clip(cases, low, high) - mean - off, np.maximum(bend, 0.0)
        if not at.spread.any():
            apart = np.log((cases + 0.5) / (trials - cases + 0.5)) - at.eta[0]
            far = (cases < low) | (cases > high)
            bend = np.where(far, secant(psi, apart, bend, 0.25 * trials), bend)
        longest = np.maximum(high - mean - off, mean + off - low)
        w = np.minimum(1.0, t / np.maximum(longest, TINY))
        w = np.minimum(w, at.curved / np.maximum(bend * at.row_norm**2, TINY))
        return single(w * psi, w * bend, w * w * variance, square)


class BinomialForm(DesignForm):
    """Positions are the coefficients. See Form."""

    family = NOT_IN_KERNELS

    def __init__(self, design: Design, spec: JobSpec) -> None:
        cases = number_response(design, "binomial regression")
        super().__init__(design, usual_prior(design, spec.model), (cases.lower, cases.upper))


def guess(design: Design, spec: JobSpec) -> Guess:
    """Return the expected posterior: that of logistic regression with as many rows as trials."""
    known, prior = logistic.guess(design, spec), np.diag(usual_prior(design, spec.model)[1] ** -2.0)
    precision = prior + design.usual_trials * (known.precision - prior)
    most = design.most_trials
    return replace(
        known, precision=precision, width=most * known.width, joint_width=most * known.joint_width
    )


def distribution(
    y: Floats, trials: Floats, eta: Floats, _: Floats | float
) -> tuple[Floats, Floats]:
    """Return P(Y < y) and P(Y <= y) of cases among trials: see Distribution."""
    p = expit(eta)

    def cumulative(j: Floats) -> Floats:
        """Return P(Y <= j), (n,)."""
        inside = betainc(np.maximum(trials - j, TINY), j + 1.0, 1.0 - p)
        return np.where(j >= trials, 1.0, inside)

    return of_counts(np.minimum(y, trials), cumulative)


MODEL = Model(
    "binomial",
    check=check,
    form=BinomialForm,
    guess=guess,
    example=ModelSpec(family="binomial", formula="count | trials(count + 1) ~ x"),
    options=frozenset(),
    chains=False,
    rows=lambda _: Binomial(),
    response=lambda _: YES,
    distribution=lambda _: distribution,
    misfits=Misfits("cases"),
    pair="trials",
)
