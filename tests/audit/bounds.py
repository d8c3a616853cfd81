"""Lower bounds of epsilon from how often an attack is right, valid at a chosen confidence.

An attack says "first dataset" or "second dataset" of a trial. Its false positive and false negative
rates are counted on trials that it was not tuned on, and bounded from above by Clopper and Pearson.
Any (epsilon, delta) guarantee needs 1 - FNR <= e^epsilon FPR + delta, and the same with the
datasets exchanged; mu-GDP needs Phi^-1(1 - FPR) - Phi^-1(FNR) <= mu.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr
from scipy.stats import beta, norm

Floats = NDArray[np.float64]
CONFIDENCE = 0.95  # of every bound that is shown
FALSE_ALARMS = 1e-3  # of a whole audit of a correct system: what fails is bounded for that
TAILS = (*np.geomspace(2e-5, 0.05, 30), *np.linspace(0.06, 0.94, 45))  # quantiles that are tried


@dataclass(frozen=True)
class Claim:
    """What one trial costs. mu: of Gaussian DP, where it is charged as such."""

    epsilon: float
    delta: float
    mu: float | None

    @property
    def conversion(self) -> str:
        """How error rates become an epsilon."""
        return "GDP" if self.mu is not None else "direct"


@dataclass(frozen=True)
class Counts:
    """Errors of an attack among n0 trials of the first dataset and n1 of the second."""

    false_positives: int
    n0: int
    false_negatives: int
    n1: int

    def bound(self, claim: Claim, alpha: float) -> float:
        """Return a lower bound of epsilon that is too large with probability alpha at most."""
        level = rate_level(
            self.false_positives, self.n0, self.false_negatives, self.n1, alpha, claim
        )
        return epsilon_of(float(level), claim)


def upper(count: Floats, n: int, alpha: float) -> Floats:
    """Return Clopper and Pearson's upper bound of a rate, one-sided."""
    count = np.asarray(count, dtype=np.float64)
    return np.where(
        count >= n, 1.0, beta.ppf(1.0 - alpha, count + 1.0, np.maximum(n - count, 1e-9))
    )


def rate_level(fp, n0, fn, n1, alpha, claim):  # type: ignore[no-untyped-def]
    """Return bounds of mu (GDP) or of epsilon (direct). fp, fn: counts, or arrays of them."""
    fpr, fnr = upper(fp, n0, 0.5 * alpha), upper(fn, n1, 0.5 * alpha)
    if claim.mu is not None:
        return norm.isf(fpr) - norm.ppf(fnr)
    with np.errstate(all="ignore"):
        one = np.log(np.maximum(1.0 - fnr - claim.delta, 1e-300) / fpr)
        other = np.log(np.maximum(1.0 - fpr - claim.delta, 1e-300) / fnr)
    return np.maximum(one, other)


def epsilon_of(level: float, claim: Claim) -> float:
    """Return the epsilon that a bound of mu or of epsilon amounts to at the claim's delta."""
    if claim.mu is None:
        return max(level, 0.0)
    return epsilon_of_mu(level, claim.delta)


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Return the epsilon of mu-GDP at delta. Written apart from what it checks."""

    def excess(epsilon: float) -> float:
        first = log_ndtr(0.5 * mu - epsilon / mu)
        second = epsilon + log_ndtr(-0.5 * mu - epsilon / mu)
        gap = first + np.log1p(-np.exp(min(second - first, -1e-300)))
        return float(gap - np.log(delta))

    if mu <= 0.0 or excess(0.0) <= 0.0:
        return 0.0
    return float(brentq(excess, 0.0, mu * (0.5 * mu + 50.0)))


def errors(zeros: Floats, ones: Floats, threshold: float) -> Counts:
    """Count errors of saying "second" at scores from the threshold on."""
    positive = int(np.sum(zeros >= threshold))
    return Counts(positive, len(zeros), int(np.sum(ones < threshold)), len(ones))


def best_threshold(zeros: Floats, ones: Floats, claim: Claim, alpha: float) -> tuple[float, float]:
    """Return (threshold, level) with the largest bound on these scores: for a training half."""
    zeros, ones = np.sort(zeros), np.sort(ones)
    both = np.sort(np.concatenate((zeros, ones)))
    picks = np.quantile(both, sorted({*TAILS, *(1.0 - t for t in TAILS)}), method="higher")
    tried = np.unique(np.concatenate((picks, np.nextafter(picks, np.inf))))
    fp = len(zeros) - np.searchsorted(zeros, tried, side="left")
    fn = np.searchsorted(ones, tried, side="left")
    levels = rate_level(fp, len(zeros), fn, len(ones), alpha, claim)
    best = int(np.argmax(levels))
    return float(tried[best]), float(levels[best])
