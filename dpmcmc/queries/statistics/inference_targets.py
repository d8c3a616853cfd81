"""Likelihoods of released statistics, and unbiased estimates of them by simulated particles.

Everything here works on B released sets of values at once, one for each chain. A particle is a set
of independent standard normals; a target maps it to simulated rows or sums, and gives its weight,
the density of the release given them. Reads released values only, at no cost.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.special import log_ndtr, logsumexp

from dpmcmc.base.errors import SpecError
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.queries.statistics.families.base import Family, Floats
from dpmcmc.queries.statistics.families.bernoulli import Bernoulli
from dpmcmc.queries.statistics.mechanisms import (
    GaussianNoise,
    LaplaceNoise,
    RandomisedResponse,
    ReleasedStatistic,
    SmoothLaplaceNoise,
    Statistic,
)

LEAST_VARIANCE = 1e-30  # of a sum of rows, in units of its sensitivity squared
AdditiveNoise = GaussianNoise | LaplaceNoise


class ParticleTarget(Protocol):
    """A released statistic and the family of its rows, for B chains.

    shape: of a particle's normals, (groups, width). groups: parts of the release that are
    independent given theta; each has its own particles.
    """

    @property
    def chains(self) -> int:
        """B."""

    @property
    def shape(self) -> tuple[int, int]:
        """Groups and width."""

    def log_weights(self, theta: Floats, z: Floats) -> Floats:
        """Return log p(released | particle), (B, N, groups). theta: (B,). z: (B, N, g, w)."""


def log_estimate(target: ParticleTarget, theta: Floats, z: Floats) -> Floats:
    """Return the log of an unbiased estimate of the likelihood, (B,), by N particles."""
    return group_means(target.log_weights(theta, z))


def group_means(log_weights: Floats) -> Floats:
    """Return logs of means over particles, added over groups. log_weights: (B, N, groups)."""
    means = logsumexp(log_weights, axis=1) - np.log(log_weights.shape[1])
    return np.asarray(means.sum(axis=-1))


@dataclass(frozen=True)
class NormalSum:
    """A batch whose sum over n rows is assumed normal. values: (B,). Source: thesis B, (4.5)."""

    values: Floats
    noise: AdditiveNoise
    statistic: Statistic
    rows: int
    family: Family

    @property
    def chains(self) -> int:
        """B."""
        return len(self.values)

    @property
    def shape(self) -> tuple[int, int]:
        """One number: the standardised sum."""
        return 1, 1

    def sums(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of the sum over rows."""
        mean, variance = self.family.moments(theta, self.statistic)
        floor = LEAST_VARIANCE * self.statistic.sensitivity**2
        return self.rows * mean, np.sqrt(self.rows * np.maximum(variance, floor))

    def log_noise(self, total: Floats) -> Floats:
        """Return log p(released | the sum), (B, N). total: (B, N)."""
        return self.noise.log_density(self.values[:, None] - total)

    def log_weights(self, theta: Floats, z: Floats) -> Floats:
        """Return log p(released | particle)."""
        mean, sd = self.sums(theta)
        total = mean[:, None] + sd[:, None] * z[:, :, 0, 0]
        return self.log_noise(total)[..., None]

    def log_likelihood(self, theta: Floats) -> Floats:
        """Return log p(released | theta), (B,), exact but for the normal approximation."""
        mean, sd = self.sums(theta)
        if isinstance(self.noise, GaussianNoise):
            return _wider(self.values - mean, sd, self.noise.sd)
        return normal_laplace(self.values - mean, sd, self.noise.scale)


def _wider(difference: Floats, sd: Floats, noise_sd: float) -> Floats:
    """Return the normal log density with both variances added."""
    total = np.hypot(sd, noise_sd)
    return np.asarray(-0.5 * (difference / total) ** 2 - np.log(total * np.sqrt(2.0 * np.pi)))


def normal_laplace(difference: Floats, sd: Floats, scale: float) -> Floats:
    """Return the log density of N(0, sd^2) plus Laplace(scale). Source: Reed 2006."""
    ratio, z = sd / scale, difference / sd
    ends = np.logaddexp(
        log_ndtr(z - ratio) - difference / scale,
        log_ndtr(-z - ratio) + difference / scale,
    )
    return np.asarray(0.5 * ratio**2 + ends - np.log(2.0 * scale))


@dataclass(frozen=True)
class WholeRows:
    """Any release of one number, with n simulated rows: no approximation. values: (B,)."""

    values: Floats
    noise: AdditiveNoise | SmoothLaplaceNoise
    statistic: Statistic
    rows: int
    family: Family

    @property
    def chains(self) -> int:
        """B."""
        return len(self.values)

    @property
    def shape(self) -> tuple[int, int]:
        """Return (1, rows): particles simulate all rows jointly."""
        return 1, self.rows

    def log_weights(self, theta: Floats, z: Floats) -> Floats:
        """Return log p(released | particle)."""
        x = self.family.rows(theta[:, None, None], z[:, :, 0])
        s, released = self.statistic.of(x), self.values[:, None]
        if isinstance(self.noise, SmoothLaplaceNoise):
            return self.noise.log_density(released, s)[..., None]
        return self.noise.log_density(released - s.sum(axis=-1))[..., None]


@dataclass(frozen=True)
class EachRow:
    """A sequential release, with each row simulated independently. values: (B, n)."""

    values: Floats
    noise: AdditiveNoise | RandomisedResponse
    statistic: Statistic
    family: Family

    @property
    def chains(self) -> int:
        """B."""
        return len(self.values)

    @property
    def shape(self) -> tuple[int, int]:
        """One number for each row."""
        return self.values.shape[1], 1

    def log_weights(self, theta: Floats, z: Floats) -> Floats:
        """Return log p(released | particle)."""
        x = self.family.rows(theta[:, None, None], z[..., 0])
        released = self.values[:, None]
        if isinstance(self.noise, RandomisedResponse):
            keep = self.noise.keep_probability
            return np.asarray(np.where(x == released, np.log(keep), np.log1p(-keep)), np.float64)
        return self.noise.log_density(released - self.statistic.of(x))


@dataclass(frozen=True)
class Responses(EachRow):
    """Randomised responses of Bernoulli rows, whose likelihood is known."""

    @cached_property
    def ones(self) -> Floats:
        """Number of responses that are 1, (B,)."""
        return np.asarray(self.values.sum(axis=-1))

    def log_likelihood(self, theta: Floats) -> Floats:
        """Return log p(released | theta), (B,)."""
        if not isinstance(self.noise, RandomisedResponse):
            raise TypeError("responses have RandomisedResponse")
        probability, zeros = self.noise.probability(theta), self.values.shape[1] - self.ones
        return np.asarray(self.ones * np.log(probability) + zeros * np.log1p(-probability))


@dataclass(frozen=True)
class Several:
    """Independent releases of separate rows that share theta, each with a known likelihood."""

    parts: tuple[NormalSum | Responses, ...]

    @property
    def chains(self) -> int:
        """B."""
        return self.parts[0].chains

    def log_likelihood(self, theta: Floats) -> Floats:
        """Return log p(released | theta), (B,)."""
        return np.asarray(sum(part.log_likelihood(theta) for part in self.parts))


AnyTarget = NormalSum | WholeRows | EachRow | Responses
POINTER = "/released"


def target_of(
    released: ReleasedStatistic, values: Floats, family: Family, *, approximate: bool
) -> AnyTarget:
    """Return the likelihood of a release. values: (B, ...), each shaped as released.values.

    approximate: whether the sum of a batch is assumed normal. Raises SpecError.
    """
    noise, statistic = released.noise, released.statistic
    if isinstance(noise, RandomisedResponse):
        if not isinstance(family, Bernoulli):
            raise SpecError(POINTER, "randomised responses are read with the Bernoulli family")
        return Responses(values, noise, statistic, family)
    if released.form == "sequential":
        if isinstance(noise, SmoothLaplaceNoise):
            raise SpecError(POINTER, "no sequential release has such noise")
        return EachRow(values, noise, statistic, family)
    if isinstance(noise, SmoothLaplaceNoise) or not approximate:
        return WholeRows(values[:, 0], noise, statistic, released.rows, family)
    return NormalSum(values[:, 0], noise, statistic, released.rows, family)


def simulated(
    released: ReleasedStatistic, theta: Floats, family: Family, random: RandomSource
) -> Floats:
    """Return a simulated release at each theta (B,), shaped as released.values.

    released: gives form, statistic and noise; its values are not read. The noise here is not
    private (floating-point): it is for planning and for tests of an inference.
    """
    noise, statistic, theta = released.noise, released.statistic, np.asarray(theta)
    x = family.rows(theta[:, None], random.normals((len(theta), released.rows)))
    if isinstance(noise, RandomisedResponse):
        unflipped = random.uniforms(x.shape) < noise.keep_probability
        return np.asarray(np.where(unflipped, x, 1.0 - x))
    s = statistic.of(x)
    if isinstance(noise, SmoothLaplaceNoise):
        centre, scale = noise.law(s)
        return np.asarray(centre + scale * laplace(random, centre.shape))[:, None]
    true = s if released.form == "sequential" else s.sum(axis=-1, keepdims=True)
    if isinstance(noise, GaussianNoise):
        return np.asarray(true + noise.sd * random.normals(true.shape))
    return np.asarray(true + noise.scale * laplace(random, true.shape))


def laplace(random: RandomSource, shape: tuple[int, ...]) -> Floats:
    """Return standard Laplace draws, for simulation alone."""
    return np.asarray(np.log(random.uniforms(shape)) - np.log(random.uniforms(shape)))
