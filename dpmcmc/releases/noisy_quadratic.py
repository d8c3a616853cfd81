"""A noisy quadratic log likelihood of a regression, and the posterior given it.

Released are the coordinates in which covariates are round, then scores, curvatures and scales at a
few places, the last two of them near the posterior: see quadratic_way. The posterior knows of the
noise of each: see quadratic. A job costs mu = 1 / noise_multiplier, whatever the draws.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpmcmc.design import Design
from dpmcmc.errors import SpecError
from dpmcmc.families import FAMILIES, Family
from dpmcmc.families.given import heaviest_of, packed
from dpmcmc.privacy.events import Event
from dpmcmc.privacy.noise import RandomSource
from dpmcmc.releases import quadratic_way, whitening
from dpmcmc.releases.base import Facts, Release, prior_of
from dpmcmc.releases.joint_sums import MOST_ROWS, WIDEST
from dpmcmc.releases.quadratic import Mixture, Quadratic, pooled
from dpmcmc.releases.quadratic_verdict import BLURRED, POOREST, verdict
from dpmcmc.releases.whitening import Whitening
from dpmcmc.samplers.base import Floats
from dpmcmc.schema import Table

if TYPE_CHECKING:
    from dpmcmc.spec import JobSpec, ModelSpec

NUM_FAR, WITH_PILOT = 4, 6
LEAST_FAR, MOST_FAR = 3, 12
START = 2.0  # scale of the residuals to begin with, where an eighth of the response's range is 1
# The way has priors of its own, around where it starts, so that what is stored serves any prior: a
RANGE, FARTHEST = 8.0, 50.0  # response's declared range, and farther than predictors go
FRESH = "new"  # in place of a job's name: pay for a whitening of one's own
EFFICIENCY = 0.45  # of the score's share, where noise decides how rows are cut: see experiments


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyQuadraticOptions:
    """What is None is chosen by the planner. num_steps: independent draws of each chain.

    num_far: looks on the way, before the two near the posterior. whitening: the name of an earlier
    release of the same columns, whose coordinates are used again and not paid for; or "new".
    """

    algorithm: Literal["noisy_quadratic"] = "noisy_quadratic"
    num_steps: int | None = None
    num_chains: int | None = None
    num_warmup: int | None = None
    num_far: int | None = None
    whitening: str | None = None

    @property
    def clip_bound(self) -> None:
        """None: what is cut follows from what is released."""

    @property
    def paid(self) -> bool:
        """Whether the whitening was paid for by somebody else."""
        return self.whitening not in (None, FRESH)


@dataclass(frozen=True, slots=True)
class Rows:
    """Opened rows and public facts of a regression.

    x: (d, n). y: (n,). counted: see Problem. classes: number of predictors of a row. white:
    released coordinates of these columns, where the job is to use some again.
    """

    family: Family
    x: Floats
    y: Floats
    start: Floats
    prior_mean: Floats
    prior: Floats
    tempering: float
    fixed: bool
    counted: Floats | None = None
    classes: int = 1
    white: Whitening | None = None


def opened(design: Design, spec: "JobSpec", table: Table) -> Rows:
    """Return what `publish` reads. Nothing is compiled for it."""
    from dpmcmc.models import MODELS
    from dpmcmc.models.linear import unit_of

    family, form = FAMILIES[spec.model.family], MODELS[spec.model.family].form(design, spec)
    x, y = design.build(table)
    counted = np.where(np.isnan(y), 0.0, 1.0) if design.gappy else None
    unit = unit_of(design, spec.model) if family.additive else 1.0
    family, y = packed(family, design, spec.model, table, np.nan_to_num(y) / unit, unit)
    start = np.zeros(len(form.start))
    if "Intercept" in design.parameters:
        ends = form.public.response
        ends = np.log(np.maximum(ends, 0.0) + 0.5) if family.pilot else ends
        shift = design.middle_offset / unit
        start[design.parameters.index("Intercept")] = ends.mean() - shift
    tempering = spec.model.tempering or 1.0
    fixed, prior = spec.model.options.noise_scale is not None, prior_of(form, len(start))
    return Rows(family, x, y, start, *prior, tempering, fixed, counted, form.classes)


def event(options: NoisyQuadraticOptions, noise_multiplier: float, rows: int) -> Event:
    """Return all looks and the whitening. Proof: docs/proofs/noisy_quadratic.md."""
    num_far = options.num_far or NUM_FAR
    return quadratic_way.event(noise_multiplier, num_far, paid=options.paid)


def settle(
    options: NoisyQuadraticOptions, facts: Facts, noise_multiplier: float
) -> NoisyQuadraticOptions:
    """See Release."""
    num_far = options.num_far
    if num_far is None:
        num_far = WITH_PILOT if FAMILIES[facts.family].pilot else NUM_FAR
    if type(num_far) is not int or not LEAST_FAR <= num_far <= MOST_FAR:
        raise SpecError(
            "/sampler/num_far", f"must be a whole number between {LEAST_FAR} and {MOST_FAR}"
        )
    if facts.outlook.rows >= MOST_ROWS or len(facts.prior) > WIDEST:
        raise SpecError("/sampler/algorithm", "noisy_quadratic is for fewer rows or coefficients")
    return replace(options, num_far=num_far)


def widening(options: NoisyQuadraticOptions, facts: Facts, noise_multiplier: float) -> Floats:
    """See Release. In round coordinates the noise of the score is the same in all of them.

    Of a row's score a length of c sqrt(p) is kept; c is chosen as the way chooses it.
    """
    outlook = facts.outlook
    p, rows = len(facts.prior), outlook.rows * outlook.tempering
    near = _near(options, noise_multiplier)
    each = 2.0 * math.sqrt(p / (outlook.rows * EFFICIENCY)) * near
    clip = max(quadratic_way.QUIET / each, quadratic_way.FIRST_CLIP)
    clip = min(clip, quadratic_way.WIDEST_CLIP)
    extra = (clip * each) ** 2 * outlook.tempering
    precision = outlook.guess.precision
    rows_own = precision - np.diag(facts.prior)
    blur = _blur(near, p, rows)
    told = rows_own / (1.0 + extra) * max(0.0, 1.0 - blur) ** 2
    wide = np.diag(np.linalg.inv(np.diag(facts.prior) + told))
    found: Floats = np.sqrt(np.maximum(wide / np.diag(np.linalg.inv(precision)), 1.0))
    return found


def poor(options: NoisyQuadraticOptions, facts: Facts, noise_multiplier: float) -> bool:
    """See Release. What `quadratic.verdict` is expected to call too little."""
    p, rows = len(facts.prior), facts.outlook.rows
    few = rows / noise_multiplier**2 < POOREST * p
    return few or _blur(_near(options, noise_multiplier), p, rows) > BLURRED


def _near(options: NoisyQuadraticOptions, noise_multiplier: float) -> float:
    """Return the noise multiplier of both near looks together."""
    parts = quadratic_way.shares(options.num_far or NUM_FAR, options.paid)
    return noise_multiplier / math.sqrt(sum(parts[-2:]))


def blurred(noise_multiplier: float, d: int, rows: int) -> float:
    """Return the noise of a job's whitening, over what it sees, in round coordinates."""
    z = noise_multiplier * math.sqrt(whitening.ROUNDS / quadratic_way.WHITENING)
    return math.sqrt(2.0) * whitening.USUAL * d * z / rows * math.sqrt(2.0 * d)


def _blur(z: float, p: int, rows: float) -> float:
    """Return the noise of the last curvature, over the curvature, in round coordinates."""
    way = quadratic_way
    return math.sqrt(2.0 / way.MOST_CURVE) * way.TIGHT * p * z / rows * math.sqrt(2.0 * p)


def released(
    rows: Rows,
    reach: float,
    options: NoisyQuadraticOptions,
    z: float,
    random: RandomSource,
    white: Whitening | None = None,
) -> Quadratic:
    """Return what is stored. Privacy: event(options). Never raises on rows.

    white: coordinates of the same columns that were paid for before; what it costs then is
    quadratic_way.event(z, num_far, paid=True), all of it spent on the looks.
    """
    p = len(rows.x) * rows.classes
    problem = quadratic_way.Problem(
        family=rows.family,
        x=rows.x,
        y=rows.y,
        start=rows.start[:p],
        prior_mean=rows.start[:p],
        prior=np.full(p, RANGE**-2 if rows.family.additive else FARTHEST**-2),
        reach=reach,
        scale=START if rows.family.additive and not rows.fixed else 1.0,
        noise_multiplier=z,
        fixed=rows.fixed,
        white=white,
        counted=rows.counted,
    )
    white, looks = quadratic_way.travel(problem, options.num_far or NUM_FAR, random)
    return pooled(
        looks,
        white,
        problem.rows,
        rows.tempering,
        z,
        additive=rows.family.additive,
        has_scale=rows.family.scaled,
        fixed=rows.fixed,
        heaviest=heaviest_of(rows.family),
    )


def publish(
    rows: Rows,
    reach: float,
    options: NoisyQuadraticOptions,
    noise_multiplier: float,
    random: RandomSource,
) -> Mixture:
    """Return the posterior given the release. Privacy: event(options). Never raises on rows.

    Raises ValueError where coordinates are used that the job is not charged without, or not used.
    """
    if options.paid != (rows.white is not None):
        raise ValueError("the whitening that the event leaves out must be at hand, and no other")
    found = released(rows, reach, options, noise_multiplier, random, rows.white)
    return found.posterior(rows.prior_mean, rows.prior, random)


def unchanged(model: "ModelSpec") -> "ModelSpec":
    """Return the model: its own coordinates do."""
    return model


def passes(options: NoisyQuadraticOptions, dimension: int) -> int:
    """See Release. Two matrices a look."""
    return 3 + 2 * (options.num_far or NUM_FAR) * (1 + dimension // 8)


RELEASE = Release(
    "noisy_quadratic",
    NoisyQuadraticOptions,
    families=frozenset(FAMILIES),
    exact=False,
    event=event,
    settle=settle,
    widening=widening,
    passes=passes,
    publish=publish,
    model=unchanged,
    opened=opened,
    poor=poor,
    read=Quadratic.from_dict,
    judge=verdict,
)
