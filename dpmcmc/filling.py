"""Fills what a job leaves open, from public facts and the budget: the planner's arithmetic."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmcmc.design import Design
from dpmcmc.errors import SpecError
from dpmcmc.models import MODELS, Guess
from dpmcmc.privacy import accountant
from dpmcmc.releases import RELEASES
from dpmcmc.releases.base import NUM_CHAINS, NUM_DRAWS, Facts, Release, prior_of
from dpmcmc.samplers import SAMPLERS
from dpmcmc.samplers.base import Law, Outlook, Pace
from dpmcmc.samplers.options import WarmStart
from dpmcmc.spec import JobSpec

FEWEST_STEPS = 100
MOST_DRAWS = 20_000  # of all chains, for each coefficient, where the planner chooses;
LEAST_MOST, MOST_CELLS = 40_000, 4_000_000  # at least so many, and no more numbers than that
AIM_SECONDS = 60.0
ROW_SECONDS, CELL_SECONDS, STEP_SECONDS = 2e-9, 5e-10, 2e-5  # measured, one core
WORTH_TWO = 50.0  # expected ESS above which a second chain, for R-hat, is worth its walk
KEEP_OF_ONE = 0.85
ARVIZ_FLOOR = 3.5  # what bulk ESS reports beyond the effective draws of a short chain
LEAST_WALK = 10  # part of a chain without a warm start: how far off the mode is, is a guess
NEARLY = 0.9  # of the most draws, with which a batch or a start that shapes the moves is as good
SAFER = 0.85  # the same of a way to a mode that is a guess: it takes a tenth of the budget
LARGER = (4, 2, 1)  # batches that are tried beside the usual one: parts of the rows
UNHIDDEN = 1.0  # noise multiplier below which a batch hides little
LEAST_MULTIPLIER = 1e-4
HIGHEST_EPSILON = 1000.0  # that is worth naming
ROUND_UP = 1.0 + 1e-12  # of a noise multiplier: several releases cost no more than one


@dataclass(frozen=True, slots=True)
class Filled:
    """A job with nothing left open. ess: expected, see planner.plan.

    widening: mean over the coefficients of expected sds of what the draws are from, over those of
    the posterior given the rows; 1 for chains.
    """

    spec: JobSpec
    ess: float
    widening: float = 1.0


def fill(design: Design, spec: JobSpec) -> Filled:
    """Fill a job whose algorithm is named. Raises SpecError."""
    if spec.sampler.algorithm in RELEASES:
        return _release(design, spec, RELEASES[spec.sampler.algorithm])
    guess = MODELS[spec.model.family].guess(design, spec)
    tries = [_begun(design, guess, spec, chains) for chains in _chain_counts(spec)]
    enough = [t for t in tries[1:] if t[1] >= KEEP_OF_ONE * tries[0][1] and t[1] >= WORTH_TWO]
    filled, draws = enough[-1] if enough else tries[0]
    return Filled(filled, draws + ARVIZ_FLOOR)


def outlook_of(design: Design, spec: JobSpec) -> Outlook:
    """Return what the planner knows of a model."""
    guess = MODELS[spec.model.family].guess(design, spec)
    return Outlook(guess, design.schema.rows, spec.model.tempering or 1.0)


def suits(release: Release, family: str) -> None:
    """Raise SpecError where a release does not know the family."""
    if family not in release.families:
        known = ", ".join(sorted(release.families))
        raise SpecError("/sampler/algorithm", f"{release.name} is for {known}")


def _release(design: Design, spec: JobSpec, release: Release) -> Filled:
    suits(release, spec.model.family)
    straight = replace(spec, model=release.model(spec.model))
    form = MODELS[spec.model.family].form(design, straight)
    facts = Facts(outlook_of(design, straight), form.reach, prior_of(form, len(form.start))[1])
    z = spec.privacy.noise_multiplier or max(_whole_budget(spec), LEAST_MULTIPLIER)
    options: Any = release.settle(spec.sampler, facts, z)
    options = replace(
        options,
        num_steps=options.num_steps or NUM_DRAWS,
        num_chains=options.num_chains or NUM_CHAINS,
        num_warmup=options.num_warmup or 0,
    )
    wide = float(np.mean(release.widening(options, facts, z)))
    privacy = replace(spec.privacy, epsilon=None, noise_multiplier=z)
    draws = options.num_chains * (options.num_steps - options.num_warmup)
    return Filled(replace(spec, sampler=options, privacy=privacy), float(draws), wide)


def _whole_budget(spec: JobSpec) -> float:
    """Return the noise multiplier of one release of everything."""
    mu = accountant.mu_of_epsilon(spec.privacy.epsilon or 0.0, spec.privacy.delta)
    return ROUND_UP / mu


def _chain_counts(spec: JobSpec) -> tuple[int, ...]:
    """Return what to try: with a noise multiplier every chain costs more, so one unless asked."""
    if spec.sampler.num_chains is not None:
        return (spec.sampler.num_chains,)
    return (1,) if spec.privacy.epsilon is None else (1, 2)


def _batched(guess: Guess, spec: JobSpec, rows: int, chains: int) -> Any:
    """Return the sampler's options with the batch of the most draws, or with one nearly as good.

    While batches hide rows, the smallest of those, which reads fewest. With so much budget that
    nothing needs to be hidden the largest, for the guess knows least of wide bounds, and all rows
    together need the least noise.
    The noise multiplier is a guess here, within a hundredth of a calibrated one while batches hide.
    """
    options: Any = replace(spec.sampler, num_chains=chains)
    mu = _mu(spec)
    if mu is None or getattr(options, "batch", rows) is not None:
        return spec.sampler
    law = SAMPLERS[options.algorithm].law
    outlook = Outlook(guess, rows, spec.model.tempering or 1.0, mu)
    usual = law.settle(options, outlook).batch
    found, hidden = [], False
    for batch in (usual, *(rows // part for part in LARGER if rows // part > usual)):
        some = law.settle(replace(options, batch=batch), outlook)
        steps = some.num_steps or _steps(law, some, outlook, mu)
        whole = math.sqrt(steps * chains) / mu
        hidden |= whole > UNHIDDEN
        z = max(batch / rows * whole, min(whole, UNHIDDEN))
        pace = law.pace(replace(some, num_steps=steps), outlook, z)
        found.append((steps * pace.draws, batch))
    best = max(draws for draws, _ in found)
    near = [batch for draws, batch in found if draws >= NEARLY * best]
    return replace(spec.sampler, batch=min(near) if hidden else max(near))


def _begun(design: Design, guess: Guess, spec: JobSpec, chains: int) -> tuple[JobSpec, float]:
    """Return the job with the beginning that most effective draws are expected of."""
    options: Any = _batched(guess, spec, design.schema.rows, chains)
    spec = replace(spec, sampler=options)
    if spec.privacy.epsilon is None or options.warm_start is not None:
        return _chain(design, guess, spec, chains)
    shares = SAMPLERS[options.algorithm].law.shares(_mu(spec) or 0.0)
    begun = [replace(options, warm_start=WarmStart(share=share)) for share in shares]
    tries = [_chain(design, guess, replace(spec, sampler=some), chains) for some in begun]
    best = max(reversed(tries), key=lambda found: found[1])  # a start where no chain is any good
    enough = (NEARLY if guess.known else SAFER) * best[1]
    safe = [t for t in tries if _safe(t[0].sampler, guess) and t[1] >= enough]
    return safe[0] if safe else best


def _safe(options: Any, guess: Guess) -> bool:
    """Whether a warm start is worth more than any law counts.

    How far the mode is, is a guess where the posterior is one, and fitted moves have its curvature
    to begin with.
    """
    adapt = getattr(getattr(options, "proposal", options), "adapt", False)
    return options.warm_start is not None and bool(adapt or not guess.known)


def _chain(design: Design, guess: Guess, spec: JobSpec, chains: int) -> tuple[JobSpec, float]:
    """Return the job with so many chains, and the effective draws to expect of it."""
    law, rows = SAMPLERS[spec.sampler.algorithm].law, design.schema.rows
    outlook = Outlook(guess, rows, spec.model.tempering or 1.0, _mu(spec))
    sampler: Any = replace(spec.sampler, num_chains=chains)
    options: Any = law.settle(sampler, outlook)
    epsilon, delta = spec.privacy.epsilon, spec.privacy.delta

    def paced(some: Any) -> tuple[float, Pace]:
        given = spec.privacy.noise_multiplier
        z = given or law.noise_multiplier(some, rows, epsilon or 0.0, delta)
        return z, law.pace(some, outlook, z)

    mu, open_ = outlook.mu or 0.0, options.num_steps is None
    if open_:
        options = replace(options, num_steps=_steps(law, options, outlook, mu))
    z, pace = paced(options)
    if (
        open_
        and pace.fitting
        and (fewer := _steps(law, pace.options, outlook, mu)) < options.num_steps
    ):
        options = replace(options, num_steps=fewer)  # fitted moves read more columns
        z, pace = paced(options)
    options, steps = pace.options, options.num_steps
    walk = pace.walk if options.warm_start else max(pace.walk, steps // LEAST_WALK)
    walk = max(walk, pace.fitting)
    if options.num_warmup is None:
        options = replace(options, num_warmup=min(walk, steps // 2))
    ess = chains * pace.draws * max(0, steps - max(walk, options.num_warmup))
    privacy = replace(spec.privacy, epsilon=None, noise_multiplier=z)
    return replace(spec, sampler=options, privacy=privacy), ess


def _mu(spec: JobSpec) -> float | None:
    """Return the budget, where an epsilon is given."""
    if spec.privacy.epsilon is None:
        return None
    return accountant.mu_of_epsilon(spec.privacy.epsilon, spec.privacy.delta)


def _steps(law: Law, options: Any, outlook: Outlook, mu: float) -> int:
    """Return the steps of a chain where only the budget is given, bounded by the time they take."""
    chains, rows, dimension = options.num_chains, outlook.rows, len(outlook.guess.width)
    each = step_seconds(rows, law.columns(options, rows, dimension), chains)
    draws = max(LEAST_MOST, min(MOST_DRAWS * dimension, MOST_CELLS // dimension))
    affordable = min(draws / chains, AIM_SECONDS / each)
    return int(max(FEWEST_STEPS, min(law.steps(options, outlook, mu, chains), affordable)))


def seconds(design: Design, spec: JobSpec) -> float:
    """Return about how long a filled job runs."""
    options, rows, d = spec.sampler, design.schema.rows, len(design.parameters)
    steps, chains = options.num_steps or 1, options.num_chains or 1
    release = RELEASES.get(options.algorithm)
    if release is not None:
        return step_seconds(rows, d, 1) * release.passes(options, d)
    columns = SAMPLERS[options.algorithm].law.columns(options, rows, d)
    return step_seconds(rows, columns, chains) * steps


def step_seconds(rows: int, columns: float, chains: int) -> float:
    """Return about how long a step of all chains takes that reads so many columns."""
    return STEP_SECONDS + chains * rows * (ROW_SECONDS + columns * CELL_SECONDS)


def smallest_epsilon(
    design: Design, spec: JobSpec, enough: Callable[[Filled], bool], above: float
) -> float | None:
    """Return about the smallest epsilon above at which enough(filled job) holds, within 10 %.

    None where none up to HIGHEST_EPSILON does. enough must be monotone.
    """
    low = high = above

    def holds(epsilon: float) -> bool:
        privacy = replace(spec.privacy, epsilon=epsilon, noise_multiplier=None)
        return enough(fill(design, replace(spec, privacy=privacy)))

    while not holds(high):
        low, high = high, 2.0 * high
        if high > HIGHEST_EPSILON:
            return None
    while high / low > 1.1:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
