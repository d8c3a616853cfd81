"""Linear regression from one release of X'X, X'y and y'y, by the method that a job names.

One exact Gaussian event releases the sums of all rows, within their public bounds; or one of each
data holder those of its own rows. MCMC-normalX,
MCMC-fixedS, Bayes-fixedS-fast, MCMC-B&S and adaSSP are five ways to a posterior given the sums,
without further cost: another prior needs no second release. noisy_quadratic, which looks where the
mode is and clips closely, was closer at the same cost on all but 827 rows at a small epsilon
(experiments/README.md): the planner never chooses these by itself. A job costs
mu = 1 / noise_multiplier, for any number of draws.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.base.names import INTERCEPT
from dpmcmc.families.linear import LinearForm, number_of, unit_of
from dpmcmc.families.target import Floats
from dpmcmc.formula.design import Design
from dpmcmc.inputs.options import SufficientStatisticsOptions
from dpmcmc.inputs.schema import Table
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.mechanisms.sums import MOST_COEFFICIENTS, MOST_ROWS, largest_noise
from dpmcmc.privacy.events import Event
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases.base import Facts, Fault, Judged, Release, Stored, prior_of
from dpmcmc.releases.regression import mixtures, statistics
from dpmcmc.releases.regression.fixed import nearest
from dpmcmc.releases.regression.mixtures import (
    DEGREES,
    METHODS,
    SMALL_SPREAD,
    Mixture,
    left_over,
    noise_of,
    squares_left,
)
from dpmcmc.releases.regression.statistics import Noisy

# The stored release of noisy sums: posteriors under other priors, and whether to believe them.
#
# All of it is a function of released numbers: nothing here reads a row or costs anything.
LEAST_CLEAR = 4.0  # least eigenvalue of X'X over the largest of its noise
WITH_COVARIANCE = ("mcmc_normalx", "mcmc_bs")  # methods with a prior of the covariates' covariance
WITH_GROUPS = ("bayes_fixeds_fast", "mcmc_fixeds", "adassp")  # that take sums of groups of rows
LEAST_HYPERPARAMETER, MOST_HYPERPARAMETER = 1e-6, 1e6
SAME_NOISE = 1e-6  # how far sds of the same noise differ, by what rounding adds for other rows
MAX_RHAT = 1.05  # of the chains that found the mixture's parts
# squares that are left over the noise of their sum, from which the rows and not the prior say how
# small residuals can be
CLEAR_SQUARES = 4.0
MAX_IGNORED = 0.1  # part of the coefficients' variance that a method leaves out
LEAST_FACTOR = 1e-9  # of the largest eigenvalue


@dataclass(frozen=True, slots=True)
class Conditional:
    """A mixture of normals of coefficients, each with its log sigma: see mixtures.Mixture.

    start: (p,) that positions are measured from. known: whether sigma is no parameter.
    """

    mixture: Mixture
    start: Floats
    known: bool
    release: Stored | None = None

    @property
    def _d(self) -> int:
        """Number of coefficients."""
        return int(self.mixture.means.shape[1])

    def parts(self) -> tuple[Floats, Floats]:
        """Return (means (k, d), roots (k, d, d)) of the coefficients."""
        return self.mixture.means + self.start[: self._d], self.mixture.roots

    def draws(self, chains: int, length: int, random: RandomSource) -> Floats:
        """Return independent positions (chain, length, p)."""
        which = random.integers(len(self.mixture.means), (chains * length,))
        means, roots = self.parts()
        normals = random.normals((len(which), self._d, 1))
        coefficients = means[which] + (roots[which] @ normals)[..., 0]
        return self.completed(coefficients, which, random).reshape(chains, length, -1)

    def completed(self, coefficients: Floats, which: Any, _: RandomSource) -> Floats:
        """Return positions (n, p), completing coefficients (n, d) of parts with their log sigma."""
        if self.known:
            return coefficients
        logs = self.start[-1] + 0.5 * np.log(self.mixture.variances[which])
        return np.column_stack((coefficients, logs))


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """A stored release. noisy: sums of one or several holders. method: of mixtures.METHODS.

    start: (p,), that positions are measured from. known: whether the variance of the residuals is
    1. ones: whether the first column is all ones. covariates: scale and further degrees of freedom
    of the prior of the covariates' covariance. found: under the job's prior, the mean (d,) of the
    coefficients and the chains' R-hat.
    """

    noisy: Noisy
    method: str
    start: Floats
    known: bool
    ones: bool
    covariates: tuple[float, float] = (SMALL_SPREAD, DEGREES)
    found: tuple[tuple[float, ...], float] = ((), 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as lists and numbers that JSON can hold."""
        squares = self.noisy.squares
        return {
            "gram": self.noisy.gram.tolist(),
            "moments": self.noisy.moments.tolist(),
            "squares": None if squares is None else squares.tolist(),
            "sds": list(self.noisy.sds),
            "rows": self.noisy.rows.tolist(),
            "method": self.method,
            "start": self.start.tolist(),
            "known": self.known,
            "ones": self.ones,
            "covariates": list(self.covariates),
            "found": [list(self.found[0]), self.found[1] if math.isfinite(self.found[1]) else None],
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "Sums":
        """Return the release that to_dict wrote."""
        gram, moments, rows = (
            np.array(stored[key], np.float64) for key in ("gram", "moments", "rows")
        )
        squares = None if stored["squares"] is None else np.array(stored["squares"], np.float64)
        first, second, third = stored["sds"]
        scale, degrees = stored.get("covariates", (SMALL_SPREAD, DEGREES))
        noisy = Noisy(gram, moments, squares, (first, second, third), rows)
        means, r_hat = stored["found"]
        fitted = tuple(means), math.inf if r_hat is None else float(r_hat)
        start = np.array(stored["start"], np.float64)
        known, ones = stored["known"], stored["ones"]
        return cls(noisy, stored["method"], start, known, ones, (scale, degrees), fitted)

    def moments(self) -> tuple[Floats, float] | None:
        """Return mean of x x^T (d, d), at least the noise in every direction, and its noise sd.

        None of sums of groups, which are not sums of rows.
        """
        if self.noisy.squares is None:
            return None
        rows, edge = float(self.noisy.rows.sum()), self.edge
        values, vectors = np.linalg.eigh(self.noisy.total.gram[0])
        return (vectors * np.maximum(values, edge)) @ vectors.T / rows, edge / rows

    @classmethod
    def joined(cls, parts: "Sequence[Sums]") -> "Sums":
        """Return the added sums of holders, each released from its rows with its own noise.

        Raises ValueError where noise or method differ, or sums are in two of them.
        """
        first = parts[0]
        for part in parts[1:]:
            if (part.method, part.covariates) != (first.method, first.covariates):
                raise ValueError("the releases are of different methods or priors of covariates")
            if not np.allclose(part.noisy.sds, first.noisy.sds, rtol=SAME_NOISE, atol=0.0):
                raise ValueError(
                    "the releases have noise of different size: give each holder's call the same"
                    " noise_multiplier, and the same bounds"
                )
        noisy = statistics.joined([part.noisy for part in parts])
        if len(np.unique(noisy.gram, axis=0)) < len(noisy.gram):  # noise tells all sums apart
            raise ValueError("the same sums are in two of the releases: give each holder's once")
        return replace(first, noisy=noisy)

    @property
    def edge(self) -> float:
        """About the largest eigenvalue of the noise of X'X."""
        return largest_noise(self.noisy.gram.shape[-1], self.noisy.total.sds[0])

    def posterior(self, mean: Floats, precision: Floats, random: RandomSource) -> Conditional:
        """Return the posterior under independent normal priors of positions (p,)."""
        d = self.noisy.gram.shape[-1]
        log_variance = None
        if not self.known:
            log_variance = 2.0 * float(mean[d] - self.start[d]), 2.0 * float(precision[d]) ** -0.5
        prior = mixtures.prior_of(
            mean[:d] - self.start[:d], precision[:d], log_variance, self.covariates
        )
        mixture = METHODS[self.method](self.noisy, prior, self.ones, random)
        fitted = tuple(mixture.means.mean(axis=0).tolist()), mixture.r_hat
        return Conditional(mixture, self.start, self.known, replace(self, found=fitted))


def judge(release: Sums, _: tuple[Floats, Floats] | None) -> Judged:
    """Return the verdict, from released numbers alone: free of privacy cost."""
    theta, r_hat = np.array(release.found[0]), release.found[1]
    total = release.noisy.total
    values, vectors = nearest(total.gram[0])
    values = np.maximum(values, LEAST_FACTOR * max(float(values[-1]), release.edge))
    variance = 1.0 if release.known else left_over(release.noisy, theta)
    noise = noise_of(total, theta)
    by_rows = np.einsum("dk,k,dk->d", vectors, variance / values, vectors)
    by_noise = np.einsum("dk,k,dk->d", vectors, noise / values**2, vectors)
    share = float(np.mean(by_noise / (by_rows + by_noise)))
    problem, fault, times = _problem(release, theta, by_rows + by_noise, vectors, values, r_hat)
    if problem:
        return Judged(False, share, problem, fault, times)
    remarks = "the sums stand out of their noise; intervals include it"
    return Judged(True, share, "", remarks=remarks)


def _problem(
    release: Sums,
    theta: Floats,
    variances: Floats,
    vectors: Floats,
    values: Floats,
    r_hat: float,
) -> tuple[str, Fault, float | None]:
    """Return a sentence, the kind of problem, and the noise precision factor that would mend it."""
    if not r_hat <= MAX_RHAT:
        return f"the chains given the sums have not mixed (R-hat {r_hat:.3f})", "mixing", None
    least = float(values[0])
    if least < LEAST_CLEAR * release.edge:
        problem = "the noise of X'X hides some direction of the columns"
        clear = least > release.edge  # of what is not, nobody knows how small it is
        return problem, "noise", LEAST_CLEAR * release.edge / least if clear else None
    if not release.known:
        residual, noise = squares_left(release.noisy, theta)
        if not residual > CLEAR_SQUARES * noise:
            problem = (
                "the noise of y'y hides how large residuals are (log_sigma): give noise_scale where"
                " it is known"
            )
            return problem, "noise", CLEAR_SQUARES * noise / residual if residual > noise else None
    if release.method == "mcmc_fixeds":
        total = release.noisy.total
        left_out = noise_of(total, theta) - total.sds[1] ** 2
        ignored = np.einsum("dk,k,dk->d", vectors, left_out / values**2, vectors)
        if float((ignored / variances).max()) > MAX_IGNORED:
            return "the method takes X'X to be exact, and its noise counts here", "method", None
    return "", "", None


HALF_RANGE = 4.0  # of a response about its middle, where positions are in eighths of its range


@dataclass(frozen=True, slots=True)
class Opened:
    """Opened rows x (d, n), y (n,), and public facts in the units of positions.

    half: largest |y|. start: (p,) that positions are measured from. prior: mean and precision (p,)
    of positions. known: whether the noise scale is, at 1. ones: whether the first column is.
    holders: how many rows each data holder has, where several do.
    """

    x: Floats
    y: Floats
    half: float
    start: Floats
    prior: tuple[Floats, Floats]
    known: bool
    ones: bool
    holders: tuple[int, ...] = ()


def opened(design: Design, spec: JobSpec, table: Table) -> Opened:
    """Return the opened rows that `publish` reads; with an intercept, y is centred at mid-range."""
    form, response = LinearForm(design, spec), number_of(design)
    unit, d = unit_of(design, spec.model), len(design.parameters)
    ones = design.parameters[:1] == (INTERCEPT,)
    x, y = form.rows(table)
    start = np.zeros(len(form.start))
    start[:d] = form.start[:d] if ones else 0.0
    middle = float(start[0]) if ones else 0.0
    half = max(abs(response.lower / unit - middle), abs(response.upper / unit - middle))
    prior = prior_of(form, len(form.start))
    known, holders = len(form.start) == d, design.schema.holders
    return Opened(x, y - middle, half, start, prior, known, ones, holders)


def event(options: SufficientStatisticsOptions, noise_multiplier: float, rows: int) -> Event:
    """Return one Gaussian event, or one for each holder, in parallel.

    Proof: docs/proofs/sufficient_statistics.md.
    """
    return statistics.event(noise_multiplier, options.num_holders or 1)


def settle(
    options: SufficientStatisticsOptions, facts: Facts, noise_multiplier: float
) -> SufficientStatisticsOptions:
    """Return the options with every field filled in but the numbers of draws. Raises SpecError."""
    d, rows = len(facts.prior), facts.assumptions.rows
    if rows >= MOST_ROWS or d > MOST_COEFFICIENTS:
        raise SpecError("/sampler/algorithm", "sufficient_statistics is for fewer rows or columns")
    if facts.assumptions.tempering != 1.0:
        raise SpecError("/model/tempering", "sufficient_statistics knows the likelihood alone")
    if facts.gaps:
        message = "knows no missing codes: noisy_quadratic leaves such rows out"
        raise SpecError("/sampler/algorithm", f"sufficient_statistics {message}")
    if options.method not in METHODS:
        raise SpecError("/sampler/method", f"must be one of {', '.join(METHODS)}")
    holders = len(facts.holders) or 1
    if options.num_holders not in (None, 1, holders):
        message = f"must be 1, for the sums of all rows, or {holders}, the dataset's data holders"
        if holders == 1:
            message = "must be 1 or left out: the dataset was declared to have one data holder"
        raise SpecError("/sampler/num_holders", message)
    _check_prior_of_covariates(options)
    many = options.num_holders or 1
    if options.group is not None:
        _check_group(options, facts, facts.holders if many > 1 else (rows,))
    return replace(options, num_holders=many)


def _check_prior_of_covariates(options: SufficientStatisticsOptions) -> None:
    """Refuse hyperparameters that the method lacks or that are out of range. Raises SpecError."""
    for name in ("covariance_scale", "covariance_degrees"):
        value = getattr(options, name)
        if value is None:
            continue
        if options.method not in WITH_COVARIANCE:
            methods = " and ".join(WITH_COVARIANCE)
            message = f"is of the methods {methods}: {options.method} models no covariates"
            raise SpecError(f"/sampler/{name}", message)
        if not LEAST_HYPERPARAMETER <= value <= MOST_HYPERPARAMETER:
            message = f"must lie between {LEAST_HYPERPARAMETER:g} and {MOST_HYPERPARAMETER:g}"
            raise SpecError(f"/sampler/{name}", message)


def _check_group(
    options: SufficientStatisticsOptions, facts: Facts, holders: tuple[int, ...]
) -> None:
    """Refuse groups of rows that cannot be averaged. Raises SpecError."""
    group = options.group or 0
    if group < 1 or any(rows % group for rows in holders):
        whose = "the dataset has" if len(holders) == 1 else "each data holder has"
        raise SpecError("/sampler/group", f"must divide the rows that {whose}")
    if group == 1:
        return
    if facts.persons:
        message = "is for rows in an order that is fixed, and persons have none: leave it out"
        raise SpecError("/sampler/group", message)
    if not facts.known_scale:
        message = "needs noise_scale: sums of groups tell nothing of the size of residuals"
        raise SpecError("/sampler/group", message)
    if options.method not in WITH_GROUPS:
        methods = ", ".join(WITH_GROUPS)
        raise SpecError("/sampler/group", f"is for the methods {methods}, not {options.method}")


def _noise(
    options: SufficientStatisticsOptions, facts: Facts, noise_multiplier: float
) -> tuple[float, float]:
    """Return the sds of X'X and X'y, of responses in eighths of their range."""
    noise_of_sums = (
        statistics.sensitivity_of(1.0, options.group or 1, squares=True) * noise_multiplier
    )
    noise_of_sums *= math.sqrt(options.num_holders or 1)
    return noise_of_sums * facts.max_row_norm**2, noise_of_sums * facts.max_row_norm * HALF_RANGE


def sd_inflation(
    options: SufficientStatisticsOptions, facts: Facts, noise_multiplier: float
) -> Floats:
    """Return the inflation (p,) of the sd by noise: expected sd of draws over the posterior's.

    For coefficients as large as the residuals, which the noise of X'X is multiplied by. Of k rows
    that are averaged, covariates about 0 keep a k-th of their information.
    """
    group = options.group or 1
    precision = facts.assumptions.guess.precision
    gram_sd, moment_sd = _noise(options, facts, noise_multiplier)
    back = np.linalg.inv(precision)
    noise = math.hypot(gram_sd, moment_sd) ** 2
    extra = noise * np.einsum("ij,ij->i", back, back)
    return np.asarray(np.sqrt(group + group**2 * extra / np.diag(back)))


def poor(options: SufficientStatisticsOptions, facts: Facts, noise_multiplier: float) -> bool:
    """Return whether X'X is expected to stay below its noise."""
    precision = facts.assumptions.guess.precision - np.diag(facts.prior)
    expected = np.linalg.eigvalsh(precision) / (options.group or 1)
    edge = largest_noise(len(expected), _noise(options, facts, noise_multiplier)[0])
    return bool(LEAST_CLEAR * edge > float(np.median(expected)))


def publish(
    rows: Opened,
    max_row_norm: float,
    options: SufficientStatisticsOptions,
    noise_multiplier: float,
    random: RandomSource,
) -> Conditional:
    """Return the posterior given the sums. Privacy: event(options). Never raises on the rows.

    Raises ValueError where the number of data holders is not that of the event.
    """
    bounds, number = (max_row_norm, rows.half), options.num_holders or 1
    if number not in (1, len(rows.holders)):
        raise ValueError("the job was charged for another number of data holders")
    ends = [sum(rows.holders[:at]) for at in range(1, number)]
    parts = zip(np.split(rows.x, ends, axis=1), np.split(rows.y, ends), strict=True)
    group = options.group or 1
    noisy = statistics.release_all(
        list(parts), bounds, noise_multiplier, random, squares=group == 1, group=group
    )
    chosen = options.covariance_scale, options.covariance_degrees
    scale, degrees = (
        default if value is None else value
        for value, default in zip(chosen, (SMALL_SPREAD, DEGREES), strict=True)
    )
    sums = Sums(noisy, options.method, rows.start, rows.known, rows.ones, (scale, degrees))
    return sums.posterior(*rows.prior, random)


def passes(options: SufficientStatisticsOptions, dimension: int) -> int:
    """Return the number of passes over the rows: one."""
    return 1


RELEASE = Release(
    "sufficient_statistics",
    SufficientStatisticsOptions,
    families=frozenset({"linear"}),
    exact=False,
    event=event,
    settle=settle,
    sd_inflation=sd_inflation,
    passes=passes,
    publish=publish,
    opened=opened,
    poor=poor,
    read=Sums.from_dict,
    judge=judge,
    automatic=False,
)
