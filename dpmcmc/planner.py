"""Public facts and a budget become a complete job: what it costs and what it is expected to give.

Pure: nothing here sees a row. The law of the budget is that of docs/guides and of
experiments/ess_law.py, which measures the constants used here.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from dpmcmc.design import Design, make_design
from dpmcmc.errors import SpecError
from dpmcmc.models import MODELS
from dpmcmc.privacy import accountant
from dpmcmc.privacy.events import Event
from dpmcmc.privacy.types import Neighbouring
from dpmcmc.samplers import SAMPLERS
from dpmcmc.schema import Schema
from dpmcmc.spec import JobSpec

MAX_STEPS = 1_000_000
MAX_CHAINS = 16
USABLE_ESS = 10.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What a job costs under the dataset's relation. mu: its Gaussian-DP parameter."""

    epsilon: float
    delta: float
    mu: float


@dataclass(frozen=True, slots=True)
class Plan:
    """A complete job. spec: with nothing left open. expected_ess: see `plan`."""

    spec: JobSpec
    event: Event
    cost: Cost
    noise_multiplier: float
    num_steps: int
    num_chains: int
    num_warmup: int
    expected_ess: float
    warnings: tuple[str, ...]
    parameters: tuple[str, ...]


def event(schema: Schema, spec: JobSpec) -> Event:
    """Return everything that a resolved job does to the data. Raises SpecError where it is open."""
    if schema.neighbouring is not Neighbouring.REPLACE_ONE:
        raise SpecError("/sampler/algorithm", "this sampler needs replace_one neighbours")
    if spec.privacy.noise_multiplier is None:
        raise SpecError("/privacy/noise_multiplier", "is not resolved")
    sampler = SAMPLERS[spec.sampler.algorithm]
    return sampler.event(spec.sampler, spec.privacy.noise_multiplier)


def plan(schema: Schema, spec: JobSpec) -> Plan:
    """Fill what a job leaves open, and say what it costs and what to expect of it.

    expected_ess: bulk effective sample size after warm-up, all chains together, averaged over the
    parameters, expected before any row is seen. Raises SpecError.
    """
    _check(schema, spec)
    design = make_design(schema, spec.model.formula)
    MODELS[spec.model.family].check(schema, design)
    resolved, ess = _resolve(schema, design, spec)
    happens = event(schema, resolved)
    cost = Cost(
        epsilon=accountant.epsilon(happens, spec.privacy.delta),
        delta=spec.privacy.delta,
        mu=accountant.gdp_mu(happens),
    )
    return Plan(
        spec=resolved,
        event=happens,
        cost=cost,
        noise_multiplier=resolved.privacy.noise_multiplier or math.nan,
        num_steps=resolved.sampler.num_steps or 0,
        num_chains=resolved.sampler.num_chains or 0,
        num_warmup=resolved.sampler.num_warmup or 0,
        expected_ess=ess,
        warnings=_warnings(spec, ess),
        parameters=design.parameters,
    )


def _resolve(schema: Schema, design: Design, spec: JobSpec) -> tuple[JobSpec, float]:
    options = spec.sampler
    chains = options.num_chains or 1
    steps = options.num_steps or 20_000
    z = spec.privacy.noise_multiplier
    if z is None:
        z = accountant.noise_multiplier_for(
            spec.privacy.epsilon or math.nan, spec.privacy.delta, steps * chains
        )
    guess = MODELS[spec.model.family].guess(design, spec)
    d = len(design.parameters)
    curvature = schema.rows * np.diag(guess.information)
    scale = options.proposal.scale or float(
        np.mean(1.0 / np.hypot(0.5 * np.sqrt(curvature), z * guess.width / 1.5))
    )
    mu2 = steps * chains / z**2
    ess = float(np.mean(0.2 * mu2 * curvature / guess.width**2 / d))
    warmup = options.num_warmup if options.num_warmup is not None else steps // 5
    sampler = replace(
        options,
        num_steps=steps,
        num_chains=chains,
        num_warmup=warmup,
        proposal=replace(options.proposal, scale=scale),
    )
    privacy = replace(spec.privacy, epsilon=None, noise_multiplier=z)
    return replace(spec, sampler=sampler, privacy=privacy), ess


def _check(schema: Schema, spec: JobSpec) -> None:
    if spec.model.family not in MODELS:
        raise SpecError("/model/family", "no such model is registered")
    if (spec.privacy.epsilon is None) == (spec.privacy.noise_multiplier is None):
        raise SpecError("/privacy", "give one of epsilon and noise_multiplier")
    if spec.privacy.epsilon is None and spec.sampler.num_steps is None:
        raise SpecError("/sampler/num_steps", "is needed beside a noise multiplier")
    if schema.rows < 1:
        raise SpecError("/dataset", "the dataset is empty")


def _warnings(spec: JobSpec, ess: float) -> tuple[str, ...]:
    found = []
    if ess < USABLE_ESS:
        found.append(f"expected_ess is {ess:.2g}, too few draws to describe a posterior")
    if spec.sampler.clip_bound is not None:
        found.append("clip_bound cuts log ratios, so the chain targets a clipped model")
    return tuple(found)
