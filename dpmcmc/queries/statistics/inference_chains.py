"""Markov chains on the posterior of one parameter given released statistics; no row is read.

A chain moves on the prior's scale: its position u is the prior's distribution function at theta.
The prior of u is uniform, so that a ratio of posteriors is a ratio of likelihoods. B chains move
at once. Source: thesis B, Algorithms 9-13; Andrieu, Yildirim, Doucet & Chopin 2020; Deligiannidis,
Doucet & Pitt 2018.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpmcmc.privacy.noise import RandomSource
from dpmcmc.queries.statistics.families.base import Floats
from dpmcmc.queries.statistics.inference_targets import (
    EachRow,
    NormalSum,
    ParticleTarget,
    Responses,
    Several,
    WholeRows,
    group_means,
    log_estimate,
)

Bools = NDArray[np.bool_]


class PriorDistribution(Protocol):
    """A continuous distribution of theta: a frozen one of scipy.stats, for example."""

    def ppf(self, probability: Floats) -> Floats:
        """Return theta of each probability: the inverse distribution function."""


@dataclass
class State:
    """The state of B chains: positions (B,), and particles or estimates of the algorithm."""

    position: Floats
    particle: Floats | None = None
    log_estimate: Floats | None = None


def reflected(position: Floats) -> Floats:
    """Return positions reflected into (0, 1), which keeps a symmetric proposal symmetric."""
    folded = np.abs(position) % 2.0
    return np.clip(np.where(folded > 1.0, 2.0 - folded, folded), 1e-16, 1.0 - 1e-16)


@dataclass(frozen=True)
class Algorithm:
    """The common part of all algorithms. sd: (B,) of proposals, on the prior's scale."""

    prior: PriorDistribution
    sd: Floats
    random: RandomSource
    particles: int

    def theta(self, position: Floats) -> Floats:
        """Return theta at these positions."""
        return np.asarray(self.prior.ppf(position), np.float64)

    def proposed(self, position: Floats) -> Floats:
        """Return proposed positions."""
        return reflected(position + self.sd * self.random.normals(position.shape))

    def accepted(self, log_ratio: Floats) -> Bools:
        """Return whether each proposal is accepted; one with a ratio of NaN is rejected."""
        finite = np.nan_to_num(log_ratio, nan=-np.inf)
        return np.asarray(np.log(self.random.uniforms(finite.shape)) < finite)

    def drawn(self, log_weights: Floats, axis: int) -> NDArray[np.int64]:
        """Return indices along an axis, drawn in proportion to weights (Gumbel-max)."""
        gumbel = -np.log(-np.log(self.random.uniforms(log_weights.shape)))
        return np.asarray(np.argmax(log_weights + gumbel, axis=axis))


@dataclass(frozen=True)
class MetropolisHastings(Algorithm):
    """Algorithm 9: Metropolis-Hastings with the exact likelihood of the release."""

    target: NormalSum | Responses | Several

    def started(self, position: Floats) -> State:
        """Return the first state."""
        return State(position, None, self.target.log_likelihood(self.theta(position)))

    def step(self, state: State) -> State:
        """Return the next state."""
        position = self.proposed(state.position)
        proposed_log, current_log = (
            self.target.log_likelihood(self.theta(position)),
            _known(state.log_estimate),
        )
        accept = self.accepted(proposed_log - current_log)
        return State(
            np.where(accept, position, state.position),
            None,
            np.where(accept, proposed_log, current_log),
        )


@dataclass(frozen=True)
class PseudoMarginal(Algorithm):
    """Algorithm 10, pseudo-marginal MH; correlation: between a particle and its next value."""

    target: NormalSum | WholeRows | EachRow
    correlation: float = 0.0

    def started(self, position: Floats) -> State:
        """Return the first state."""
        z = _normals(self.target, self.particles, self.random)
        return State(position, z, log_estimate(self.target, self.theta(position), z))

    def step(self, state: State) -> State:
        """Return the next state."""
        position, z, current_log = (
            self.proposed(state.position),
            _known(state.particle),
            _known(state.log_estimate),
        )
        fresh = self.random.normals(z.shape)
        fresh = self.correlation * z + np.sqrt(1.0 - self.correlation**2) * fresh
        proposed_log = log_estimate(self.target, self.theta(position), fresh)
        accept = self.accepted(proposed_log - current_log)
        particle = np.where(accept[:, None, None, None], fresh, z) if self.correlation else z
        return State(
            np.where(accept, position, state.position),
            particle,
            np.where(accept, proposed_log, current_log),
        )


@dataclass(frozen=True)
class AveragedRatios(Algorithm):
    """Algorithms 12 and 13: MHAAR on normals that do not depend on theta, one set for each group.

    A rejected proposal refreshes the particle too, as in Algorithm 13 and unlike Algorithm 12.
    """

    target: NormalSum | WholeRows | EachRow

    def started(self, position: Floats) -> State:
        """Return the first state, with a particle drawn among many in proportion to weights."""
        z = _normals(self.target, self.particles, self.random)
        weights = self.target.log_weights(self.theta(position), z)
        return State(position, self._chosen(z, weights))

    def step(self, state: State) -> State:
        """Return the next state."""
        position, z = (
            self.proposed(state.position),
            _normals(self.target, self.particles, self.random),
        )
        z[:, 0] = _known(state.particle)
        old = self.target.log_weights(self.theta(state.position), z)
        new = self.target.log_weights(self.theta(position), z)
        accept = self.accepted(group_means(new) - group_means(old))
        weights = np.where(accept[:, None, None], new, old)
        return State(np.where(accept, position, state.position), self._chosen(z, weights))

    def _chosen(self, z: Floats, log_weights: Floats) -> Floats:
        """Return particles drawn in proportion to weights."""
        at = self.drawn(log_weights, 1)[:, None, :, None]
        return np.take_along_axis(z, at, axis=1)[:, 0]


@dataclass(frozen=True)
class RaoBlackwellised(Algorithm):
    """Algorithm 11: MHAAR on the sum of a batch, proposed at the middle of both thetas."""

    target: NormalSum

    def started(self, position: Floats) -> State:
        """Return the first state."""
        mean, sd = self.target.sums(self.theta(position))
        z = self.random.normals((self.target.chains, self.particles))
        total = mean[:, None] + sd[:, None] * z
        return State(position, self._chosen(total, self.target.log_noise(total)))

    def step(self, state: State) -> State:
        """Return the next state."""
        position = self.proposed(state.position)
        theta, proposed_theta = self.theta(state.position), self.theta(position)
        middle = self.target.sums(0.5 * (theta + proposed_theta))
        total = _scaled(middle, self.random.normals((self.target.chains, self.particles)))
        total[:, 0] = _known(state.particle)
        common = self.target.log_noise(total) - _log_normal(total, middle)
        old = common + _log_normal(total, self.target.sums(theta))
        new = common + _log_normal(total, self.target.sums(proposed_theta))
        accept = self.accepted(logsumexp(new, axis=1) - logsumexp(old, axis=1))
        chosen = self._chosen(total, np.where(accept[:, None], new, old))
        return State(np.where(accept, position, state.position), chosen)

    def _chosen(self, total: Floats, log_weights: Floats) -> Floats:
        """Return sums drawn in proportion to weights."""
        at = self.drawn(log_weights, 1)[:, None]
        return np.take_along_axis(total, at, axis=1)[:, 0]


Chains = MetropolisHastings | PseudoMarginal | AveragedRatios | RaoBlackwellised


def walk(chains: Chains, position: Floats, warmup: int, draws: int) -> Floats:
    """Return theta of B chains after each of `draws` steps that follow the warm-up: (B, draws)."""
    state, positions = chains.started(position), np.empty((len(position), draws))
    for step in range(-warmup, draws):
        state = chains.step(state)
        if step >= 0:
            positions[:, step] = state.position
    return chains.theta(positions)


def _normals(target: ParticleTarget, particles: int, random: RandomSource) -> Floats:
    """Return standard normal particles for all chains."""
    return random.normals((target.chains, particles, *target.shape))


def _scaled(moments: tuple[Floats, Floats], z: Floats) -> Floats:
    """Return normals with these moments, from standard ones."""
    return np.asarray(moments[0][:, None] + moments[1][:, None] * z)


def _log_normal(x: Floats, moments: tuple[Floats, Floats]) -> Floats:
    """Return log normal densities with these moments."""
    mean, sd = moments[0][:, None], moments[1][:, None]
    return np.asarray(-0.5 * ((x - mean) / sd) ** 2 - np.log(sd))


def _known(value: Floats | None) -> Floats:
    """Return the value. Raises TypeError where it is None."""
    if value is None:
        raise TypeError("this state is of another algorithm")
    return value
