"""Posteriors under priors that are not normal, from a released mixture of normals.

Given each of the released curvatures the likelihood is normal; the prior is a normal whose variance
is drawn in turn with the coefficients (Gibbs), within bounds by lines along which the rest is known
(Gelfand, Smith and Lee 1992; Park and Casella 2008). Nothing is approximated: what has to be shown
is that the chains forgot where they began. Half of them begin at the estimate and half at the
prior, and R-hat compares the halves (Margossian et al. 2024).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from dpmcmc.base.private import Released
from dpmcmc.posterior.diagnostics import summarise
from dpmcmc.posterior.free.priors import CoefficientPrior, Floats, Together
from dpmcmc.privacy.noise import RandomSource

FORGOTTEN, LEAST_KEPT = 60, 8  # rounds of the chains: before any is kept, and at least kept
CHAINS, FEWEST_CHAINS, MOST_CELLS = 500, 200, 500_000  # as many as matrices of all have room for
COMPARED, TESTED = 4000, 4_000_000  # draws of each half; cells of matrices
START_SDS = 3.0  # sds from the estimate, where a prior has no place to begin at
MOST_SDS = 37.0  # that a draw is from the middle of an interval without an end


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """What chains went through, by component of the mixture.

    means: (k, p), covariances: (k, p, p) of the mixture without `priors`, which are of the
    coefficients at `places` (a,). normals: mean and precision (p,) of the others, in `means`
    already. which: (c,) component of each chain. states, precisions: (round, c, a).
    r_hat: the worst, of chains that began at the estimate and of those that began at the prior.
    """

    means: Floats
    covariances: Floats
    places: list[int]
    priors: Sequence[CoefficientPrior]
    normals: tuple[Floats, Floats]
    which: np.ndarray
    states: Floats
    precisions: Floats
    r_hat: float

    @property
    def others(self) -> dict[int, CoefficientPrior]:
        """The priors by place."""
        return dict(zip(self.places, self.priors, strict=True))

    def coefficients(self, count: int, random: RandomSource) -> tuple[Floats, np.ndarray]:
        """Return (draws (count, p), component of each (count,)): no more than there are states."""
        rounds, chains, a = self.states.shape
        picked = np.argsort(random.uniforms((rounds * chains,)))[:count]
        known, which = self.states.reshape(-1, a)[picked], self.which[picked % chains]
        found = np.empty((len(picked), self.means.shape[1]))
        for k in range(len(self.means)):
            mine = which == k
            found[mine] = self._completed(k, known[mine], random)
        return found, which

    def _completed(self, k: int, known: Floats, random: RandomSource) -> Floats:
        """Return all coefficients (m, p) given those at the places (m, a)."""
        mean, covariance, at = self.means[k], self.covariances[k], self.places
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        free = mean + random.normals((len(known), len(mean))) @ root.T
        gain = np.linalg.solve(covariance[np.ix_(at, at)], covariance[at])
        found = free + (known - free[:, at]) @ gain
        found[:, at] = known
        return np.asarray(found)

    def bayes_factor(self, told: Floats, values: Floats) -> tuple[float, float]:
        """Return (ln of the Bayes factor against told @ coefficients = values, its error).

        told: (k, p), one coefficient a row: a sum of some has no prior density in closed form.
        Averaged is the density given the variances and the bounded coefficients that are not
        tested, in closed form. At most one of those that are tested has bounds.
        """
        places = [int(np.flatnonzero(row)[0]) for row in told]
        values = values / told[range(len(places)), places]
        logs = self._log_densities(places, values)  # (round, c)
        top = float(logs.max())
        each = np.exp(logs - top).mean(axis=0)
        after = top + math.log(max(float(each.mean()), 1e-300))
        error = float(each.std()) / math.sqrt(len(each)) / max(float(each.mean()), 1e-300)
        return self._log_prior(places, values) - after, error

    def _log_prior(self, places: list[int], values: Floats) -> float:
        return sum(
            self._prior_at(k).log_density(value)
            for k, value in zip(places, values.tolist(), strict=True)
        )

    def _prior_at(self, place: int) -> CoefficientPrior:
        """Return the prior of a coefficient: the one asked for, or the default normal."""
        if place in self.others:
            return self.others[place]
        mean, precision = (float(part[place]) for part in self.normals)
        scale = max(precision, 1e-300) ** -0.5
        return CoefficientPrior(kind="normal", loc=mean, scale=scale)

    def _log_densities(self, places: list[int], values: Floats) -> Floats:
        """Return (round, c), of as many rounds as memory has room for."""
        p, chains = self.means.shape[1], len(self.which)
        rounds = max(1, min(len(self.states), TESTED // (chains * p * p)))
        inverse = np.linalg.inv(self.covariances)
        pulls = np.einsum("kij,kj->ki", inverse, self.means)
        loc = np.array([one.loc for one in self.priors])
        found = []
        for state, drawn in zip(self.states[-rounds:], self.precisions[-rounds:], strict=True):
            precision, pull = inverse[self.which], pulls[self.which]
            precision[:, self.places, self.places] += drawn
            pull[:, self.places] += drawn * loc
            covariance = np.linalg.inv(precision)
            mean = np.einsum("cij,cj->ci", covariance, pull)
            found.append(self._log_density(places, values, mean, covariance, state))
        return np.array(found)

    def _log_density(
        self, places: list[int], values: Floats, mean: Floats, covariance: Floats, state: Floats
    ) -> Floats:
        """Return (c,) at values, given the bounded coefficients that are not tested."""
        held = [k for k, one in enumerate(self.priors) if one.bounded]
        rest = [k for k in held if self.places[k] not in places]
        at = [self.places[k] for k in rest]
        middle, own = mean[:, places], covariance[np.ix_(range(len(mean)), places, places)]
        if at:
            cross = covariance[np.ix_(range(len(mean)), places, at)]
            inner = covariance[np.ix_(range(len(mean)), at, at)]
            gain = np.linalg.solve(inner, cross.swapaxes(1, 2)).swapaxes(1, 2)
            middle = middle + np.einsum("cij,cj->ci", gain, state[:, rest] - mean[:, at])
            own = own - gain @ cross.swapaxes(1, 2)
        away = values - middle
        _, size = np.linalg.slogdet(2.0 * math.pi * own)
        found = -0.5 * (size + (away * np.linalg.solve(own, away[:, :, None])[:, :, 0]).sum(axis=1))
        for k in held:
            if self.places[k] in places:
                j = places.index(self.places[k])
                found = found - _log_mass(middle[:, j], own[:, j, j] ** 0.5, self.priors[k])
        return np.asarray(found)


def walked(
    means: Floats,
    covariances: Floats,
    priors: Mapping[int, CoefficientPrior],
    normals: tuple[Floats, Floats],
    num_draws: int,
    random: RandomSource,
) -> Walk:
    """Return chains on an even mixture of normals times priors of the coefficients at their keys.

    Each chain stays with one component, so that all of them weigh the same, as under normal priors.
    """
    at, own = list(priors), list(priors.values())
    inner = covariances[:, at][:, :, at]
    units = np.sqrt(np.mean(np.diagonal(inner, axis1=1, axis2=2), axis=0))
    together = Together(own, units)
    which = _chains(len(means), len(at))
    base = inner / (units[:, None] * units)
    chain = _Chains(means[:, at] / units, base, together, which, random)
    kept = max(LEAST_KEPT, -(-max(num_draws, 2 * COMPARED) // len(which)))
    for _ in range(FORGOTTEN):
        chain.step()
    rounds = [chain.step() for _ in range(kept)]
    states = np.array([state for state, _ in rounds]) * units
    precisions = np.array([drawn for _, drawn in rounds]) / units**2
    hat = _r_hat(states)
    return Walk(means, covariances, at, own, normals, which, states, precisions, hat)


def _chains(components: int, size: int) -> np.ndarray:
    """Return the component of each chain: all of them as often, from either start."""
    least = max(FEWEST_CHAINS, min(CHAINS, MOST_CELLS // size**2))
    return np.tile(np.arange(components), 2 * -(-least // (2 * components)))


class _Chains:
    """Chains (c, a) in units of the likelihood's sds, a step at a time."""

    def __init__(
        self,
        means: Floats,
        covariances: Floats,
        priors: Together,
        which: np.ndarray,
        random: RandomSource,
    ) -> None:
        inverse = np.linalg.inv(covariances)
        self._inverse = inverse[which]
        self._pull = np.einsum("kij,kj->ki", inverse, means)[which]
        self._priors, self._random = priors, random
        self._held, self._free = np.flatnonzero(priors.bounded), np.flatnonzero(~priors.bounded)
        self._directions = _directions(covariances.mean(axis=0), self._held)
        self._pulls = [(inverse @ direction)[which] for direction in self._directions]
        self._state = self._begun(means[which])

    def _begun(self, means: Floats) -> Floats:
        """Return where to begin: half of the chains at the estimate and half at the prior."""
        priors, half = self._priors, len(means) // 2
        begun = means.copy()
        begun[half:] = np.where(priors.placed, priors.loc, means[half:] + START_SDS)
        return np.clip(begun, priors.low, priors.high)

    def step(self) -> tuple[Floats, Floats]:
        """Draw variances given coefficients, then coefficients given variances. Returns both."""
        drawn = self._priors.precisions(self._state, self._random)
        precision, a = self._inverse.copy(), drawn.shape[1]
        precision[:, range(a), range(a)] += drawn
        pull = self._pull + drawn * self._priors.loc
        if len(self._held):
            self._go_along(pull - np.einsum("cij,cj->ci", precision, self._state), drawn)
        if len(self._free):
            self._redraw(precision, pull)
        return self._state, drawn

    def _go_along(self, left: Floats, drawn: Floats) -> None:
        """Move along every direction to a draw from the normal on it, within the bounds.

        left: (c, a) gradient of the log density, which follows the moves.
        """
        state, low, high = self._state, self._priors.low, self._priors.high
        for direction, pull in zip(self._directions, self._pulls, strict=True):
            own = pull + drawn * direction
            size = own @ direction
            ends = _segment(state, direction, low, high)
            uniforms = self._random.uniforms(size.shape)
            moved = between(left @ direction / size, size**-0.5, *ends, uniforms)[:, None]
            state, left = np.clip(state + moved * direction, low, high), left - moved * own
        self._state = state

    def _redraw(self, precision: Floats, pull: Floats) -> None:
        """Draw all coefficients without bounds at once, given those with bounds."""
        free, held, state = self._free, self._held, self._state.copy()
        inner, outer = precision[:, free][:, :, free], precision[:, free][:, :, held]
        given = pull[:, free] - np.einsum("cij,cj->ci", outer, state[:, held])
        normals = self._random.normals(given.shape)
        given = given + np.einsum("cij,cj->ci", np.linalg.cholesky(inner), normals)
        state[:, free] = np.linalg.solve(inner, given[:, :, None])[:, :, 0]
        self._state = state


def _directions(covariance: Floats, held: np.ndarray) -> Floats:
    """Return directions (w, a) to go along: bounded axes, and those that the likelihood has."""
    axes: Floats = np.eye(len(covariance))[held]
    if len(covariance) == 1 or not len(held):
        return axes
    found: Floats = np.concatenate((axes, np.linalg.eigh(covariance)[1].T))
    return found


def _segment(found: Floats, direction: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return (c,) from where to where states may be moved along a direction."""
    goes = direction != 0.0
    one, other = ((end - found)[:, goes] / direction[goes] for end in (low, high))
    least, most = np.minimum(one, other).max(axis=1), np.maximum(one, other).min(axis=1)
    return np.minimum(least, 0.0), np.maximum(most, 0.0)


def between(mean: Floats, sd: Floats, low: Floats, high: Floats, uniforms: Floats) -> Floats:
    """Return draws (c,) of normals within intervals, by the inverse of their distribution."""
    a, b = (low - mean) / sd, (high - mean) / sd
    turned = a > 0.0  # the upper tail by the lower one
    a, b = np.where(turned, -b, a), np.where(turned, -a, b)
    with np.errstate(divide="ignore"):
        logs = np.logaddexp(log_ndtr(a) + np.log1p(-uniforms), log_ndtr(b) + np.log(uniforms))
    z = np.clip(ndtri_exp(np.minimum(logs, 0.0)), np.maximum(a, -1e300), np.minimum(b, MOST_SDS))
    return np.asarray(mean + sd * np.where(turned, -z, z))


def _log_mass(mean: Floats, sd: Floats, prior: CoefficientPrior) -> Floats:
    """Return ln of the probability of normals between a prior's bounds."""
    a, b = (prior.low - mean) / sd, (prior.high - mean) / sd
    turned = a > 0.0
    a, b = log_ndtr(np.where(turned, -b, a)), log_ndtr(np.where(turned, -a, b))
    with np.errstate(divide="ignore"):
        return np.asarray(b + np.log1p(-np.exp(np.minimum(a - b, 0.0))))


def _r_hat(states: Floats) -> float:
    """Return the worst R-hat of either start. states: (round, c, a)."""
    a = states.shape[2]
    halves = [half.reshape(-1, a) for half in np.split(states, 2, axis=1)]
    some = np.linspace(0, len(halves[0]) - 1, min(COMPARED, len(halves[0]))).astype(int)
    names = [str(k) for k in range(a)]
    told = summarise(Released(np.stack([half[some] for half in halves])), names)
    return max(math.inf if one.r_hat is None else one.r_hat for one in told)
