"""Public facts and a budget become a complete job: what it costs and what it is expected to give.

Pure: nothing here sees a row. experiments/ess_law.py measures the law of the budget and
the constants used here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, get_args, get_type_hints

from dpmcmc.advice import warnings
from dpmcmc.choice import MOST_SECONDS, choose, named, of_full_data
from dpmcmc.dependence import check_dependence
from dpmcmc.design import Design, make_design
from dpmcmc.errors import SpecError
from dpmcmc.filling import (
    Filled,
    chains_know,
    fill,
    seconds,
    smallest_epsilon,
    suits,
    whole_multiplier,
)
from dpmcmc.models import MODELS
from dpmcmc.models.priors import check_numbers
from dpmcmc.privacy import accountant
from dpmcmc.privacy.events import Event, Gaussian, WithoutReplacement
from dpmcmc.privacy.pld import leaves
from dpmcmc.privacy.sites import LEAST_MULTIPLIER, MOST_MULTIPLIER
from dpmcmc.privacy.types import Neighbouring
from dpmcmc.releases import ALGORITHMS, RELEASES, AutoOptions, NoisyQuadraticOptions
from dpmcmc.reuse import Earlier, reused
from dpmcmc.samplers import SAMPLERS, ComponentProposal, Proposal
from dpmcmc.samplers.penalty_law import MOST_STRETCH
from dpmcmc.schema import Schema
from dpmcmc.spec import JobSpec, ModelSpec

LEAST_DELTA = 1e-20  # smaller promises protect nobody more
MAX_STEPS = 1_000_000
MAX_CHAINS = 16
MOST_NUMBERS = 20_000_000


@dataclass(frozen=True, slots=True)
class Cost:
    """What a job costs under the dataset's relation. mu: of Gaussian DP, where it has one."""

    epsilon: float
    delta: float
    mu: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """A complete job. spec: with nothing left open.

    expected_ess, expected_width, usable, reasons: see `plan`.
    """

    spec: JobSpec
    event: Event
    cost: Cost
    noise_multiplier: float
    num_steps: int
    num_chains: int
    num_warmup: int
    expected_ess: float
    expected_width: float | None
    usable: bool
    warnings: tuple[str, ...]
    reasons: tuple[str, ...]
    parameters: tuple[str, ...]


def event(schema: Schema, spec: JobSpec) -> Event:
    """Return everything that a resolved job does to the data. Raises SpecError where it is open."""
    _check(schema, spec)
    if schema.neighbouring is not Neighbouring.REPLACE_ONE:
        raise SpecError("/sampler/algorithm", "this sampler needs replace_one neighbours")
    if spec.privacy.noise_multiplier is None:
        raise SpecError("/privacy/noise_multiplier", "is not resolved")
    if spec.sampler.num_steps is None or spec.sampler.num_chains is None:
        raise SpecError("/sampler", "is not resolved")
    if spec.sampler.algorithm not in ALGORITHMS:
        raise SpecError("/sampler/algorithm", "is not resolved")
    if spec.sampler.algorithm in RELEASES:
        suits(RELEASES[spec.sampler.algorithm], spec.model.family)
    else:
        chains_know(spec.model.family)
    algorithm = ALGORITHMS[spec.sampler.algorithm]
    happens = algorithm.event(spec.sampler, spec.privacy.noise_multiplier, schema.rows)
    _check_noise(happens)
    return happens


def _check_noise(happens: Event) -> None:
    """Refuse noise multipliers, asked for or derived, for which no noise is drawn."""
    for leaf in leaves(happens) or (happens,):  # parallel parts are no noise that is known
        base = leaf.event if isinstance(leaf, WithoutReplacement) else leaf
        z = base.noise_multiplier if isinstance(base, Gaussian) else math.nan
        if not LEAST_MULTIPLIER <= z <= MOST_MULTIPLIER:
            limits = f"it must be between {LEAST_MULTIPLIER:.3g} and {MOST_MULTIPLIER:.3g}"
            message = f"leads to a release with a noise multiplier of {z:.3g}: {limits}"
            raise SpecError("/privacy", message)


def _check_cost(cost: Cost) -> None:
    """Refuse a job that is booked at epsilon 0: what costs nothing gives nothing."""
    if not cost.epsilon > 0.0:
        message = f"the job costs epsilon 0 at delta {cost.delta:g}: ask for less noise"
        raise SpecError("/privacy/noise_multiplier", message)


def plan(
    schema: Schema, spec: JobSpec, *, advise: bool = True, earlier: Sequence[Earlier] = ()
) -> Plan:
    """Fill what a job leaves open, and say what it costs and what to expect of it.

    expected_ess: bulk effective sample size that ArviZ is expected to report after warm-up, all
    chains together, averaged over the parameters; before any row is seen. ArviZ counts some three
    draws more than there are where there are few. A guess of the rows stands behind it: numbers are
    taken to vary by .4 of half their range, as those of public data do (experiments/ess_law.py).
    Where they crowd a small part of their bounds or say the same as others, or a response is rare,
    the chain gives several times fewer draws; `warnings` says how many where that matters. Draws of
    a release are independent and count in full.
    expected_width: sd of the draws over that of the posterior given the rows, median coefficient;
    for a chain with the error of its means. None where it is not known: the chain is too short, or
    cuts rows. usable: whether a result is expected that its own verdict calls reliable, or of a
    release one that is not wider than filling.WIDEST.
    reasons: why the algorithm was chosen, where the caller left that to the planner, and which
    whitening is used again. earlier: releases of the same dataset that paid for one.
    advise: whether to work out the warnings, which takes longer than all the rest.
    Raises SpecError.
    """
    _check(schema, spec)
    design = make_design(schema, spec.model.formula)
    family = MODELS[spec.model.family]
    family.check(design, spec.model)
    check_dependence(design)
    spec = replace(spec, model=family.resolved(design, spec.model))
    _check_numbers(design, spec)  # what was asked for, before anything is costed
    spec, again = reused(design, spec, earlier, whole_multiplier(spec))
    filled, reasons = _filled(design, spec)
    if again and getattr(filled.spec.sampler, "whitening", None) is not None:
        reasons = (*reasons, again)
    if isinstance(spec.sampler, AutoOptions):
        spec = named(spec, filled.spec.sampler.algorithm)
    resolved = filled.spec
    _check_size(design, resolved)
    happens = event(schema, resolved)
    mu = accountant.gdp_mu(happens)
    cost = Cost(
        epsilon=accountant.epsilon(happens, spec.privacy.delta),
        delta=spec.privacy.delta,
        mu=mu if math.isfinite(mu) else None,
    )
    _check_cost(cost)
    return Plan(
        spec=resolved,
        event=happens,
        cost=cost,
        noise_multiplier=resolved.privacy.noise_multiplier or math.nan,
        num_steps=resolved.sampler.num_steps or 0,
        num_chains=resolved.sampler.num_chains or 0,
        num_warmup=resolved.sampler.num_warmup or 0,
        expected_ess=filled.ess,
        expected_width=filled.width,
        usable=filled.usable,
        warnings=warnings(design, spec, filled, cost.epsilon) if advise else (),
        reasons=reasons,
        parameters=family.parameters(design, spec.model),
    )


def usable_at(schema: Schema, made: Plan, asked: JobSpec) -> float | None:
    """Return about the smallest epsilon at which a job would be usable that is not.

    made: its plan. asked: as the caller left it. None where none up to HIGHEST_EPSILON is, or where
    a sampler on secret minibatches would take too long to plan so often. Raises SpecError.
    """
    if not of_full_data(made.spec.sampler):
        return None
    if isinstance(asked.sampler, AutoOptions):
        asked = named(asked, made.spec.sampler.algorithm)
    if isinstance(made.spec.sampler, NoisyQuadraticOptions):
        options: Any = asked.sampler
        asked = replace(asked, sampler=replace(options, whitening=made.spec.sampler.whitening))
    design = make_design(schema, asked.model.formula)
    above = max(made.cost.epsilon, 1e-3)
    return smallest_epsilon(design, asked, lambda other: other.usable, above)


def expected_seconds(schema: Schema, spec: JobSpec) -> float:
    """Return about how long a resolved job runs, from public facts, above 0. Raises SpecError."""
    return seconds(make_design(schema, spec.model.formula), spec)


def _filled(design: Design, spec: JobSpec) -> tuple[Filled, tuple[str, ...]]:
    if isinstance(spec.sampler, AutoOptions):
        return choose(design, spec)
    return fill(design, spec), ()


def _check(schema: Schema, spec: JobSpec) -> None:
    """Refuse every number that no plan can be made of."""
    model, options, privacy = spec.model, spec.sampler, spec.privacy
    if model.family not in MODELS:
        raise SpecError("/model/family", "no such model is registered")
    _check_options(model)
    if schema.rows < 1:
        raise SpecError("/dataset", "the dataset has no rows")
    check_numbers(model.prior)
    _check_number("/model/tempering", model.tempering, 1e-9, 1.0)
    _check_number("/privacy/delta", privacy.delta, LEAST_DELTA, 0.1)
    _check_number("/privacy/epsilon", privacy.epsilon, 1e-4, 1e9)
    _check_number("/privacy/noise_multiplier", privacy.noise_multiplier, 1e-5, 1e9)
    if hasattr(options, "proposal"):
        _check_proposal(options.proposal)
    _check_number("/sampler/clip_bound", options.clip_bound, 1e-9, 1e6)
    _check_number("/sampler/clip_width", getattr(options, "clip_width", None), 1e-9, 1e6)
    _check_count("/sampler/num_steps", options.num_steps, 1, MAX_STEPS)
    _check_count("/sampler/num_chains", options.num_chains, 1, MAX_CHAINS)
    _check_count("/sampler/num_warmup", options.num_warmup, 0, MAX_STEPS)
    if (privacy.epsilon is None) == (privacy.noise_multiplier is None):
        raise SpecError("/privacy", "give one of epsilon and noise_multiplier")
    if privacy.epsilon is None and options.num_steps is None and options.algorithm in SAMPLERS:
        raise SpecError("/sampler/num_steps", "is needed beside a noise multiplier")


def _check_proposal(proposal: Proposal | ComponentProposal) -> None:
    """Refuse words that only a caller from Python can give, and scales that are none."""
    for option in fields(proposal):
        value, pointer = getattr(proposal, option.name), f"/sampler/proposal/{option.name}"
        if option.name in ("kind", "shape"):
            known = get_args(get_type_hints(type(proposal))[option.name])
            if value not in known:
                raise SpecError(pointer, "must be one of " + ", ".join(known))
    _check_number("/sampler/proposal/scale", proposal.scale, 1e-60, 1e3)
    _check_number("/sampler/proposal/stretch", proposal.stretch, 1.0, MOST_STRETCH)


def _check_options(model: ModelSpec) -> None:
    """Refuse options that are another family's, and numbers that are none."""
    known = MODELS[model.family].options
    for option in fields(model.options):
        value, pointer = getattr(model.options, option.name), f"/model/options/{option.name}"
        if value is not None and option.name not in known:
            raise SpecError(pointer, f"does not belong to {model.family}")
        if option.name in ("a", "b", "m"):
            _check_number(pointer, value, -1e6, 1e6)
        elif option.name in ("ratio_slope", "noise_scale"):
            _check_number(pointer, value, 1e-9, 1e9)
    for number in model.options.variances or ():
        _check_number("/model/options/variances", number, 1e-12, 1e12)


def _check_number(pointer: str, value: float | None, least: float, most: float) -> None:
    """Refuse what is not within [least, most]; not a number is neither."""
    if value is not None and not least <= value <= most:
        raise SpecError(pointer, f"must be between {least:g} and {most:g}")


def _check_count(pointer: str, value: int | None, least: int, most: int) -> None:
    if value is not None and (type(value) is not int or not least <= value <= most):
        raise SpecError(pointer, f"must be a whole number between {least} and {most}")


def _check_numbers(design: Design, spec: JobSpec) -> None:
    """Refuse chains of too many numbers, and a warm-up that leaves no draw."""
    options, d = spec.sampler, len(MODELS[spec.model.family].parameters(design, spec.model))
    steps, chains = options.num_steps or 1, options.num_chains or 1
    warmup = options.num_warmup
    if warmup is not None and options.num_steps is not None and warmup >= steps:
        raise SpecError("/sampler/num_warmup", "must be below num_steps")
    if steps * chains * d > MOST_NUMBERS:
        raise SpecError("/sampler/num_steps", f"more than {MOST_NUMBERS} numbers in the chain")


def _check_size(design: Design, spec: JobSpec) -> None:
    """Refuse what would take a worker too long or too much memory."""
    _check_numbers(design, spec)
    if seconds(design, spec) > MOST_SECONDS:
        raise SpecError("/sampler/num_steps", f"would run for more than {MOST_SECONDS:g} seconds")
