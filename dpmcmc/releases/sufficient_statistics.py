"""Linear regression from one release of X'X, X'y and y'y, and what each method makes of it.

One exact Gaussian event releases the sums of all rows, within their public bounds; or one of each
data holder those of its own rows. MCMC-normalX,
MCMC-fixedS, Bayes-fixedS-fast, MCMC-B&S and adaSSP are five ways to a posterior given the sums,
without further cost: another prior needs no second release. noisy_quadratic, which looks where the
mode is and clips closely, was closer at the same cost on all but 827 rows at a small epsilon
(experiments/README.md): the planner never chooses these by itself. A job costs
mu = 1 / noise_multiplier, for any number of draws.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.base.names import INTERCEPT
from dpmcmc.families.linear import LinearForm, number_of, unit_of
from dpmcmc.families.target import Floats
from dpmcmc.formula.design import Design
from dpmcmc.inputs.options import SufficientStatisticsOptions
from dpmcmc.inputs.schema import Table
from dpmcmc.inputs.spec import JobSpec, ModelSpec
from dpmcmc.privacy.events import Event
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases.base import Facts, Release, prior_of
from dpmcmc.releases.regression import statistics
from dpmcmc.releases.regression.mixtures import METHODS
from dpmcmc.releases.sums_posterior import LEAST_CLEAR, Conditional, Sums, judge

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
    """Return what `publish` reads: responses about the middle of their range, if that is free."""
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
    """Return one Gaussian event, or one of each holder, in parallel.

    Proof: docs/proofs/sufficient_statistics.md.
    """
    return statistics.event(noise_multiplier, options.num_holders or 1)


def settle(
    options: SufficientStatisticsOptions, facts: Facts, noise_multiplier: float
) -> SufficientStatisticsOptions:
    """Return the options: nothing is left open but the numbers of draws. Raises SpecError."""
    d, rows = len(facts.prior), facts.assumptions.rows
    if rows >= statistics.MOST_ROWS or d > statistics.MOST_COEFFICIENTS:
        raise SpecError("/sampler/algorithm", "sufficient_statistics is for fewer rows or columns")
    if facts.assumptions.tempering != 1.0:
        raise SpecError("/model/tempering", "sufficient_statistics knows the likelihood alone")
    if facts.gaps:
        message = "knows no missing codes: noisy_quadratic leaves such rows out"
        raise SpecError("/sampler/algorithm", f"sufficient_statistics {message}")
    if options.method not in METHODS:
        raise SpecError("/sampler/method", f"must be one of {', '.join(METHODS)}")
    there = len(facts.holders) or 1
    if options.num_holders not in (None, 1, there):
        message = f"must be 1, for the sums of all rows, or {there}, the dataset's data holders"
        if there == 1:
            message = "must be 1 or left out: the dataset was declared to have one data holder"
        raise SpecError("/sampler/num_holders", message)
    return replace(options, num_holders=options.num_holders or 1)


def _noise(
    options: SufficientStatisticsOptions, facts: Facts, noise_multiplier: float
) -> tuple[float, float]:
    """Return the sds of X'X and X'y, of responses in eighths of their range."""
    one = statistics.sensitivity(1.0, squares=True) * noise_multiplier
    one *= math.sqrt(options.num_holders or 1)
    return one * facts.max_row_norm**2, one * facts.max_row_norm * HALF_RANGE


def widening(options: SufficientStatisticsOptions, facts: Facts, noise_multiplier: float) -> Floats:
    """Return (p,) expected sds of the draws over those of the posterior given the rows.

    For coefficients as large as the residuals, which the noise of X'X is multiplied by.
    """
    precision = facts.assumptions.guess.precision
    gram_sd, moment_sd = _noise(options, facts, noise_multiplier)
    back = np.linalg.inv(precision)
    noise = math.hypot(gram_sd, moment_sd) ** 2
    extra = noise * np.einsum("ij,ij->i", back, back)
    return np.asarray(np.sqrt(1.0 + extra / np.diag(back)))


def poor(options: SufficientStatisticsOptions, facts: Facts, noise_multiplier: float) -> bool:
    """Return whether X'X is not expected to stand out of its noise."""
    told = np.linalg.eigvalsh(facts.assumptions.guess.precision - np.diag(facts.prior))
    edge = math.sqrt(2.0 * len(told)) * _noise(options, facts, noise_multiplier)[0]
    return bool(LEAST_CLEAR * edge > float(np.median(told)))


def publish(
    rows: Opened,
    max_row_norm: float,
    options: SufficientStatisticsOptions,
    noise_multiplier: float,
    random: RandomSource,
) -> Conditional:
    """Return the posterior given the sums. Privacy: event(options). Never raises on the rows.

    Raises ValueError where the rows have not the holders that the event is of.
    """
    bounds, number = (max_row_norm, rows.half), options.num_holders or 1
    if number not in (1, len(rows.holders)):
        raise ValueError("the rows have not the holders that the job was charged for")
    ends = [sum(rows.holders[:at]) for at in range(1, number)]
    parts = zip(np.split(rows.x, ends, axis=1), np.split(rows.y, ends), strict=True)
    noisy = statistics.release_all(list(parts), bounds, noise_multiplier, random, squares=True)
    told = Sums(noisy, options.method, rows.start, known=rows.known, ones=rows.ones)
    return told.posterior(*rows.prior, random)


def unchanged(model: ModelSpec) -> ModelSpec:
    """Return the model: its own coordinates do."""
    return model


def passes(options: SufficientStatisticsOptions, dimension: int) -> int:
    """Return how often the rows are read: once."""
    return 1


RELEASE = Release(
    "sufficient_statistics",
    SufficientStatisticsOptions,
    families=frozenset({"linear"}),
    exact=False,
    event=event,
    settle=settle,
    widening=widening,
    passes=passes,
    publish=publish,
    model=unchanged,
    opened=opened,
    poor=poor,
    read=Sums.from_dict,
    judge=judge,
    automatic=False,
)
