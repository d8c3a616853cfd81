"""Posteriors under priors that are not normal, from a released mixture of normals.

Given each of the released curvatures the likelihood is normal; the prior is a scale mixture of
normals whose variances are drawn in turn with the coefficients (Gibbs), within bounds along lines
(Gelfand, Smith and Lee 1992; Park and Casella 2008). This is exact once the chains are independent
of their starting points. Half of them begin at the estimate and half at the prior, and R-hat
compares the halves (Margossian et al. 2024). Where a coefficient may be exactly at a spike, it is
drawn together with whether it is, given the others (George and McCulloch 1997).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_ndtr, ndtri_exp

from dpmcmc.base.private import Released
from dpmcmc.posterior.diagnostics import summarise
from dpmcmc.posterior.free.priors import CoefficientPrior, Floats, Together
from dpmcmc.privacy.noise import RandomSource

FORGOTTEN, LEAST_KEPT = 60, 8  # rounds of the chains: of the warm-up, and at least kept
CHAINS, FEWEST_CHAINS, MOST_CELLS = 500, 200, 500_000  # limited by the memory of all matrices
COMPARED, TESTED = 4000, 4_000_000  # draws of each half; cells of matrices
START_SDS = 3.0  # sds from the estimate, a start for priors without a centre
PINNED = 1e12  # precision of a coefficient at its spike, in likelihoods' sds
COMMON = ("horseshoe", "r2d2")
LONGER = 3  # times as many rounds are forgotten where coefficients have scales in common
MOST_SDS = 37.0  # that a draw is from the middle of an interval without an end


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """The states of Gibbs chains, each on one component of the mixture.

    means: (k, p), covariances: (k, p, p) of the mixture without `priors`, which are of the
    coefficients at `positions` (a,). normals: mean and precision (p,) of the others, in `means`
    already. which: (c,) component of each chain. states, precisions: (round, c, a).
    r_hat: the worst, of chains that began at the estimate and of those that began at the prior.
    inclusion: probabilities that coefficients are not at their spikes, by index.
    """

    means: Floats
    covariances: Floats
    positions: list[int]
    priors: Sequence[CoefficientPrior]
    normals: tuple[Floats, Floats]
    which: np.ndarray
    states: Floats
    precisions: Floats
    r_hat: float
    inclusion: Mapping[int, float]

    @property
    def others(self) -> dict[int, CoefficientPrior]:
        """The priors by index."""
        return dict(zip(self.positions, self.priors, strict=True))

    def coefficients(self, count: int, random: RandomSource) -> tuple[Floats, np.ndarray]:
        """Return draws (count, p) and their components (count,); at most as many as states."""
        rounds, chains, a = self.states.shape
        picked = np.argsort(random.uniforms((rounds * chains,)))[:count]
        prior_coefficients, which = self.states.reshape(-1, a)[picked], self.which[picked % chains]
        draws = np.empty((len(picked), self.means.shape[1]))
        for k in range(len(self.means)):
            of_component = which == k
            draws[of_component] = self._completed(k, prior_coefficients[of_component], random)
        return draws, which

    def _completed(self, k: int, given: Floats, random: RandomSource) -> Floats:
        """Return all coefficients (m, p), drawn given those with non-normal priors (m, a)."""
        mean, covariance, indices = self.means[k], self.covariances[k], self.positions
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        free = mean + random.normals((len(given), len(mean))) @ root.T
        gain = np.linalg.solve(covariance[np.ix_(indices, indices)], covariance[indices])
        completed = free + (given - free[:, indices]) @ gain
        completed[:, indices] = given
        return np.asarray(completed)

    def bayes_factor(self, weights: Floats, values: Floats) -> tuple[float, float]:
        """Return ln of the Bayes factor against weights @ coefficients = values, and its error.

        weights: (k, p), one coefficient in each row, since a sum has no prior density in closed
        form. The posterior density is averaged over states, given the variances and the bounded
        coefficients that are not tested. At most one tested coefficient may have bounds.
        """
        indices = [int(np.flatnonzero(row)[0]) for row in weights]
        values = values / weights[range(len(indices)), indices]
        logs = self._log_densities(indices, values)  # (round, c)
        top = float(logs.max())
        densities = np.exp(logs - top).mean(axis=0)
        after = top + math.log(max(float(densities.mean()), 1e-300))
        error = (
            float(densities.std())
            / math.sqrt(len(densities))
            / max(float(densities.mean()), 1e-300)
        )
        return self._log_prior(indices, values) - after, error

    def _log_prior(self, indices: list[int], values: Floats) -> float:
        """Return the log prior density at values of these coefficients."""
        return sum(
            self._prior_at(k).log_density(value)
            for k, value in zip(indices, values.tolist(), strict=True)
        )

    def _prior_at(self, index: int) -> CoefficientPrior:
        """Return the prior of a coefficient: the requested one, or the default normal."""
        if index in self.others:
            return self.others[index]
        mean, precision = (float(part[index]) for part in self.normals)
        scale = max(precision, 1e-300) ** -0.5
        return CoefficientPrior(kind="normal", loc=mean, scale=scale)

    def _log_densities(self, indices: list[int], values: Floats) -> Floats:
        """Return log densities (round, c) of the last rounds, as many as memory allows."""
        p, chains = self.means.shape[1], len(self.which)
        rounds = max(1, min(len(self.states), TESTED // (chains * p * p)))
        inverse = np.linalg.inv(self.covariances)
        pulls = np.einsum("kij,kj->ki", inverse, self.means)
        loc = np.array([prior.loc for prior in self.priors])
        log_densities = []
        for state, drawn in zip(self.states[-rounds:], self.precisions[-rounds:], strict=True):
            precision, pull = inverse[self.which], pulls[self.which]
            precision[:, self.positions, self.positions] += drawn
            pull[:, self.positions] += drawn * loc
            covariance = np.linalg.inv(precision)
            mean = np.einsum("cij,cj->ci", covariance, pull)
            log_densities.append(self._log_density(indices, values, mean, covariance, state))
        return np.array(log_densities)

    def _log_density(
        self, indices: list[int], values: Floats, mean: Floats, covariance: Floats, state: Floats
    ) -> Floats:
        """Return log densities (c,) at values given bounded coefficients that are not tested."""
        bounded = [k for k, prior in enumerate(self.priors) if prior.bounded]
        given_bounded = [k for k in bounded if self.positions[k] not in indices]
        given_indices = [self.positions[k] for k in given_bounded]
        middle, tested_covariance = (
            mean[:, indices],
            covariance[np.ix_(range(len(mean)), indices, indices)],
        )
        if given_indices:
            cross = covariance[np.ix_(range(len(mean)), indices, given_indices)]
            inner = covariance[np.ix_(range(len(mean)), given_indices, given_indices)]
            gain = np.linalg.solve(inner, cross.swapaxes(1, 2)).swapaxes(1, 2)
            middle = middle + np.einsum(
                "cij,cj->ci", gain, state[:, given_bounded] - mean[:, given_indices]
            )
            tested_covariance = tested_covariance - gain @ cross.swapaxes(1, 2)
        deviation = values - middle
        _, size = np.linalg.slogdet(2.0 * math.pi * tested_covariance)
        log_density = -0.5 * (
            size
            + (deviation * np.linalg.solve(tested_covariance, deviation[:, :, None])[:, :, 0]).sum(
                axis=1
            )
        )
        for k in bounded:
            if self.positions[k] in indices:
                j = indices.index(self.positions[k])
                log_density = log_density - _log_mass(
                    middle[:, j], tested_covariance[:, j, j] ** 0.5, self.priors[k]
                )
        return np.asarray(log_density)


def walked(
    means: Floats,
    covariances: Floats,
    priors: Mapping[int, CoefficientPrior],
    normals: tuple[Floats, Floats],
    num_draws: int,
    random: RandomSource,
) -> Walk:
    """Return Gibbs chains on a mixture of normals times priors, given by coefficient index.

    Each chain stays on one component, so that all have the same weight, as under normal priors.
    """
    indices, prior_list = list(priors), list(priors.values())
    inner = covariances[:, indices][:, :, indices]
    units = np.sqrt(np.mean(np.diagonal(inner, axis1=1, axis2=2), axis=0))
    together = Together(prior_list, units)
    which = _chains(len(means), len(indices))
    base = inner / (units[:, None] * units)
    chain = _Chains(means[:, indices] / units, base, together, which, random)
    kept_rounds = max(LEAST_KEPT, -(-max(num_draws, 2 * COMPARED) // len(which)))
    for _ in range(
        FORGOTTEN * (LONGER if any(prior.kind in COMMON for prior in prior_list) else 1)
    ):
        chain.step()
    rounds, included = [], np.zeros(len(together.spikes))
    for _ in range(kept_rounds):
        rounds.append(chain.step())
        included += chain.probabilities.mean(axis=0) / kept_rounds
    states = np.array([state for state, _ in rounds]) * units
    precisions = np.array([drawn for _, drawn in rounds]) / units**2
    at_spikes = np.array([indices[k] for k in together.spikes], np.int64)
    inclusion = dict(zip(at_spikes.tolist(), included.tolist(), strict=True))
    compared = _spread(states / units, together, random)
    hat = _r_hat(compared)
    return Walk(
        means, covariances, indices, prior_list, normals, which, states, precisions, hat, inclusion
    )


def _spread(states: Floats, priors: Together, random: RandomSource) -> Floats:
    """Return states (round, c, a), with those at a spike replaced by normal draws."""
    at_spike = np.zeros(states.shape, np.bool_)
    at_spike[:, :, priors.spikes] = states[:, :, priors.spikes] == priors.loc[priors.spikes]
    return np.where(at_spike, random.normals(states.shape), states)


def _chains(components: int, size: int) -> np.ndarray:
    """Return the component of each chain, each equally often for both kinds of start."""
    least = max(FEWEST_CHAINS, min(CHAINS, MOST_CELLS // size**2))
    return np.tile(np.arange(components), 2 * -(-least // (2 * components)))


class _Chains:
    """The current states (c, a) of chains, in units of the likelihood's sds."""

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
        self._bounded, self._free = np.flatnonzero(priors.bounded), np.flatnonzero(~priors.bounded)
        self._directions = _directions(covariances.mean(axis=0), self._bounded)
        self._pulls = [(inverse @ direction)[which] for direction in self._directions]
        self._state = self._begun(means[which])
        self._included = self._state[:, priors.spikes] != priors.loc[priors.spikes]
        self.probabilities: Floats = self._included.astype(np.float64)

    def _begun(self, means: Floats) -> Floats:
        """Return starting points: half of the chains at the estimate, half at the prior."""
        priors, half = self._priors, len(means) // 2
        starts = means.copy()
        starts[half:] = np.where(priors.placed, priors.loc, means[half:] + START_SDS)
        return np.clip(starts, priors.low, priors.high)

    def step(self) -> tuple[Floats, Floats]:
        """Draw variances given coefficients, then coefficients given variances. Returns both."""
        drawn = self._priors.precisions(self._state, self._random)
        if len(self._priors.spikes):
            drawn[:, self._priors.spikes] = self._select()
        precision, a = self._inverse.copy(), drawn.shape[1]
        precision[:, range(a), range(a)] += drawn
        pull = self._pull + drawn * self._priors.loc
        if len(self._bounded):
            self._go_along(pull - np.einsum("cij,cj->ci", precision, self._state), drawn)
        if len(self._free):
            self._redraw(precision, pull)
        spikes = self._priors.spikes
        self._state[:, spikes] = np.where(
            self._included, self._state[:, spikes], self._priors.loc[spikes]
        )
        return self._state, drawn

    def _select(self) -> Floats:
        """Draw which coefficients are at their spikes, each given all others.

        Returns precisions (c, s) of their normals then.
        """
        priors, state = self._priors, self._state.copy()
        rates = priors.rates(self._included, self._random)
        uniforms, normals = (
            draw(self._included.shape) for draw in (self._random.uniforms, self._random.normals)
        )
        gradient = self._pull - np.einsum("cij,cj->ci", self._inverse, state)
        for k, j in enumerate(priors.spikes):
            curvature, slab = self._inverse[:, j, j], priors.slabs[k]
            away = state[:, j] - priors.loc[j]
            pull = gradient[:, j] + curvature * away  # at the spike
            log_odds = 0.5 * (np.log(slab / (slab + curvature)) + pull**2 / (slab + curvature))
            log_odds += np.log(rates[:, k] / (1.0 - rates[:, k]))
            self.probabilities[:, k] = expit(log_odds)
            self._included[:, k] = uniforms[:, k] < self.probabilities[:, k]
            drawn = pull / (slab + curvature) + normals[:, k] / np.sqrt(slab + curvature)
            moved = np.where(self._included[:, k], drawn, 0.0) - away
            state[:, j] += moved
            gradient -= self._inverse[:, :, j] * moved[:, None]
        self._state = state
        return np.where(self._included, priors.slabs, PINNED)

    def _go_along(self, gradient: Floats, drawn: Floats) -> None:
        """Draw along every direction from its conditional normal, within the bounds.

        left: (c, a) gradient of the log density, which follows the moves.
        """
        state, low, high = self._state, self._priors.low, self._priors.high
        for direction, pull in zip(self._directions, self._pulls, strict=True):
            gradient_along = pull + drawn * direction
            size = gradient_along @ direction
            ends = _segment(state, direction, low, high)
            uniforms = self._random.uniforms(size.shape)
            moved = between(gradient @ direction / size, size**-0.5, *ends, uniforms)[:, None]
            state, gradient = (
                np.clip(state + moved * direction, low, high),
                gradient - moved * gradient_along,
            )
        self._state = state

    def _redraw(self, precision: Floats, pull: Floats) -> None:
        """Draw all unbounded coefficients jointly, given the bounded ones."""
        free, bounded, state = self._free, self._bounded, self._state.copy()
        inner, outer = precision[:, free][:, :, free], precision[:, free][:, :, bounded]
        conditional = pull[:, free] - np.einsum("cij,cj->ci", outer, state[:, bounded])
        normals = self._random.normals(conditional.shape)
        conditional = conditional + np.einsum("cij,cj->ci", np.linalg.cholesky(inner), normals)
        state[:, free] = np.linalg.solve(inner, conditional[:, :, None])[:, :, 0]
        self._state = state


def _directions(covariance: Floats, bounded: np.ndarray) -> Floats:
    """Return directions (w, a) of moves: bounded axes, and the likelihood's principal axes."""
    axes: Floats = np.eye(len(covariance))[bounded]
    if len(covariance) == 1 or not len(bounded):
        return axes
    directions: Floats = np.concatenate((axes, np.linalg.eigh(covariance)[1].T))
    return directions


def _segment(states: Floats, direction: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the least and the largest move (c,) of states along a direction within bounds."""
    nonzero = direction != 0.0
    to_low, to_high = ((end - states)[:, nonzero] / direction[nonzero] for end in (low, high))
    least, most = np.minimum(to_low, to_high).max(axis=1), np.maximum(to_low, to_high).min(axis=1)
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
    """Return the largest R-hat between the two kinds of start. states: (round, c, a)."""
    a = states.shape[2]
    halves = [half.reshape(-1, a) for half in np.split(states, 2, axis=1)]
    picked = np.linspace(0, len(halves[0]) - 1, min(COMPARED, len(halves[0]))).astype(int)
    names = [str(k) for k in range(a)]
    summaries = summarise(Released(np.stack([half[picked] for half in halves])), names)
    return max(math.inf if summary.r_hat is None else summary.r_hat for summary in summaries)
