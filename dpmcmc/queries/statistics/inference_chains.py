"""Chains on the posterior of one number given released statistics. Nothing here can see a row.

A chain walks on the prior's scale: its place is the prior probability of being below theta, on
which the prior is flat, so that a ratio of posteriors is a ratio of likelihoods. B chains move at
once. Source: thesis B, Algorithms 9-13; Andrieu, Yildirim, Doucet & Chopin 2020; Deligiannidis,
Doucet & Pitt 2018.
"""

from collections.abc import Callable
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
    Responses,
    Several,
    Target,
    WholeRows,
    group_means,
    log_estimate,
)

Bools = NDArray[np.bool_]


class Prior(Protocol):
    """A continuous distribution of theta: a frozen one of scipy.stats, for example."""

    def ppf(self, probability: Floats) -> Floats:
        """Return theta of each probability: the inverse distribution function."""


@dataclass
class State:
    """Where B chains are: prior probabilities (B,), and what the algorithm keeps beside them."""

    place: Floats
    kept: Floats | None = None
    log_estimate: Floats | None = None


Step = Callable[[State, Floats, Bools | None], State]


def reflected(place: Floats) -> Floats:
    """Return places folded into (0, 1), which keeps a symmetric proposal symmetric."""
    folded = np.abs(place) % 2.0
    return np.clip(np.where(folded > 1.0, 2.0 - folded, folded), 1e-16, 1.0 - 1e-16)


@dataclass(frozen=True)
class Algorithm:
    """What all algorithms share. sd: (B,) of proposals, on the prior's scale."""

    prior: Prior
    sd: Floats
    random: RandomSource
    particles: int

    def theta(self, place: Floats) -> Floats:
        """Return theta of places."""
        return np.asarray(self.prior.ppf(place), np.float64)

    def proposed(self, place: Floats) -> Floats:
        """Return proposed places."""
        return reflected(place + self.sd * self.random.normals(place.shape))

    def accepted(self, log_ratio: Floats) -> Bools:
        """Return decisions; what is no number is refused."""
        finite = np.nan_to_num(log_ratio, nan=-np.inf)
        return np.asarray(np.log(self.random.uniforms(finite.shape)) < finite)

    def drawn(self, log_weights: Floats, axis: int) -> NDArray[np.int64]:
        """Return indices along an axis, drawn in proportion to weights (Gumbel-max)."""
        gumbel = -np.log(-np.log(self.random.uniforms(log_weights.shape)))
        return np.asarray(np.argmax(log_weights + gumbel, axis=axis))


@dataclass(frozen=True)
class MetropolisHastings(Algorithm):
    """Algorithm 9, wherever the likelihood of what was released is known."""

    target: NormalSum | Responses | Several

    def started(self, place: Floats) -> State:
        """Return the first state."""
        return State(place, None, self.target.log_likelihood(self.theta(place)))

    def step(self, state: State) -> State:
        """Return the next state."""
        place = self.proposed(state.place)
        found, old = self.target.log_likelihood(self.theta(place)), _known(state.log_estimate)
        yes = self.accepted(found - old)
        return State(np.where(yes, place, state.place), None, np.where(yes, found, old))


@dataclass(frozen=True)
class PseudoMarginal(Algorithm):
    """Algorithm 10, and its correlated form: correlation is that of a particle with its next."""

    target: NormalSum | WholeRows | EachRow
    correlation: float = 0.0

    def started(self, place: Floats) -> State:
        """Return the first state."""
        z = _normals(self.target, self.particles, self.random)
        return State(place, z, log_estimate(self.target, self.theta(place), z))

    def step(self, state: State) -> State:
        """Return the next state."""
        place, z, old = self.proposed(state.place), _known(state.kept), _known(state.log_estimate)
        fresh = self.random.normals(z.shape)
        fresh = self.correlation * z + np.sqrt(1.0 - self.correlation**2) * fresh
        found = log_estimate(self.target, self.theta(place), fresh)
        yes = self.accepted(found - old)
        kept = np.where(yes[:, None, None, None], fresh, z) if self.correlation else z
        return State(np.where(yes, place, state.place), kept, np.where(yes, found, old))


@dataclass(frozen=True)
class AveragedRatios(Algorithm):
    """Algorithms 12 and 13: MHAAR on normals that do not depend on theta, one set a group.

    A refused proposal refreshes the particle too, as Algorithm 13 says and 12 does not.
    """

    target: NormalSum | WholeRows | EachRow

    def started(self, place: Floats) -> State:
        """Return the first state: a particle chosen among many, by weight."""
        z = _normals(self.target, self.particles, self.random)
        weights = self.target.log_weights(self.theta(place), z)
        return State(place, self._chosen(z, weights))

    def step(self, state: State) -> State:
        """Return the next state."""
        place, z = self.proposed(state.place), _normals(self.target, self.particles, self.random)
        z[:, 0] = _known(state.kept)
        old = self.target.log_weights(self.theta(state.place), z)
        new = self.target.log_weights(self.theta(place), z)
        yes = self.accepted(group_means(new) - group_means(old))
        weights = np.where(yes[:, None, None], new, old)
        return State(np.where(yes, place, state.place), self._chosen(z, weights))

    def _chosen(self, z: Floats, log_weights: Floats) -> Floats:
        at = self.drawn(log_weights, 1)[:, None, :, None]
        return np.take_along_axis(z, at, axis=1)[:, 0]


@dataclass(frozen=True)
class RaoBlackwellised(Algorithm):
    """Algorithm 11: MHAAR on the sum of a batch, proposed at the middle of both thetas."""

    target: NormalSum

    def started(self, place: Floats) -> State:
        """Return the first state."""
        mean, sd = self.target.sums(self.theta(place))
        z = self.random.normals((self.target.chains, self.particles))
        total = mean[:, None] + sd[:, None] * z
        return State(place, self._chosen(total, self.target.log_noise(total)))

    def step(self, state: State) -> State:
        """Return the next state."""
        place = self.proposed(state.place)
        theta, other = self.theta(state.place), self.theta(place)
        middle = self.target.sums(0.5 * (theta + other))
        total = _scaled(middle, self.random.normals((self.target.chains, self.particles)))
        total[:, 0] = _known(state.kept)
        common = self.target.log_noise(total) - _log_normal(total, middle)
        old = common + _log_normal(total, self.target.sums(theta))
        new = common + _log_normal(total, self.target.sums(other))
        yes = self.accepted(logsumexp(new, axis=1) - logsumexp(old, axis=1))
        chosen = self._chosen(total, np.where(yes[:, None], new, old))
        return State(np.where(yes, place, state.place), chosen)

    def _chosen(self, total: Floats, log_weights: Floats) -> Floats:
        at = self.drawn(log_weights, 1)[:, None]
        return np.take_along_axis(total, at, axis=1)[:, 0]


Chains = MetropolisHastings | PseudoMarginal | AveragedRatios | RaoBlackwellised


def walk(chains: Chains, place: Floats, warmup: int, draws: int) -> Floats:
    """Return theta of B chains after each of `draws` steps that follow the warm-up: (B, draws)."""
    state, found = chains.started(place), np.empty((len(place), draws))
    for at in range(-warmup, draws):
        state = chains.step(state)
        if at >= 0:
            found[:, at] = state.place
    return chains.theta(found)


def _normals(target: Target, particles: int, random: RandomSource) -> Floats:
    return random.normals((target.chains, particles, *target.shape))


def _scaled(at: tuple[Floats, Floats], z: Floats) -> Floats:
    return np.asarray(at[0][:, None] + at[1][:, None] * z)


def _log_normal(x: Floats, at: tuple[Floats, Floats]) -> Floats:
    mean, sd = at[0][:, None], at[1][:, None]
    return np.asarray(-0.5 * ((x - mean) / sd) ** 2 - np.log(sd))


def _known(value: Floats | None) -> Floats:
    if value is None:
        raise TypeError("this state is of another algorithm")
    return value
