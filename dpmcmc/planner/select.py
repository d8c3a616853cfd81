"""The planner's own choice of an algorithm, from public facts, with its reasons.

Chains are compared by the effective draws to expect of them, releases by how much wider than the
posterior their draws are expected to be.
"""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from dpmcmc.base.errors import SpecError
from dpmcmc.families import MODELS
from dpmcmc.families.scores.given import ALGORITHM, is_given
from dpmcmc.inputs.options import Start
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.planner.facts import PublicFacts
from dpmcmc.planner.resolve import Filled, fill, of_few_rows, of_full_data, seconds
from dpmcmc.releases import RELEASES, Release
from dpmcmc.releases.reuse import passed_on
from dpmcmc.samplers import SAMPLERS, Sampler
from dpmcmc.samplers.algorithms import ALGORITHMS
from dpmcmc.samplers.unmodelled import Unmodelled

MOST_SECONDS = 3600.0  # of a job
NO_CHAIN_REASON = "no chain samples this model"
EXACT_RELEASE_REASON = (
    "for this model it is exact: more budget brings it to the posterior, and a chain no nearer"
)
OFFSETS_REASON = "rows have offsets or weights, which chains do not read"
GROUPS_REASON = "no chain samples models with groups"
SMOOTHS_REASON = "no chain samples how smooth a curve is"
FEW_ROWS_REASON = "of so few rows no chain is judged by how it moves"
SAFE_ESS = 2000.0  # expected draws of a chain that its own R-hat, below 1.01, will hardly refuse
# posterior sds that a release's mean may be off before a chain can be worth its time
NEGLIGIBLE_BIAS = 0.1
PROBE, PROBED_SHARE = "dp_penalty", 0.1  # a sampler that is quickly filled, its start given
# times the draws of the probe no sampler is expected to have; 3 on what was measured
MAX_RATIO_TO_PROBE = 10.0
CLEARLY_NARROWER = 0.9  # widths below 1.02 are not told apart by their laws
SHARED_OPTIONS = ("num_steps", "num_chains", "num_warmup")  # what any algorithm takes


def choose(facts: PublicFacts, spec: JobSpec) -> tuple[Filled, tuple[str, ...]]:
    """Return the job with the most suitable algorithm, filled in, and the reasons.

    Releases outside the planner's choice are compared with it. One takes its place where its draws
    are expected to be clearly narrower and of use; on what was measured none does
    (experiments/README.md).
    """
    chosen, reasons = _chosen(facts, spec)
    if _name(chosen) not in RELEASES or RELEASES[_name(chosen)].exact:
        return chosen, reasons
    beside = _alternatives(facts, spec)
    narrow = [filled for filled in beside if filled.modelled < CLEARLY_NARROWER * chosen.modelled]
    if narrow:
        best = min(narrow, key=lambda filled: filled.modelled)
        return best, (_of_release(best), _compared(chosen))
    return chosen, (*reasons, *map(_compared, beside))


def _alternatives(facts: PublicFacts, spec: JobSpec) -> list[Filled]:
    """Return releases that are chosen by name alone, filled in, to compare with the choice.

    Of those that take this model, and whose result is expected to be usable.
    """
    if is_given(facts.design, spec.model) or facts.design.sds:
        return []
    jobs = []
    for release in RELEASES.values():
        known = not of_few_rows(facts.design.schema, release.name)
        if not release.automatic and spec.model.family in release.families and known:
            with suppress(SpecError):
                jobs.append(fill(facts, named(spec, release.name)))
    return [job for job in jobs if job.usable]


def _compared(filled: Filled) -> str:
    """Return in words how the algorithm compares."""
    known = RELEASES[_name(filled)].misfit is not None
    where = "" if known else ", where responses follow the model"
    return f"{_name(filled)} is expected to be {filled.sd_inflation:.3g} times as wide{where}"


def _chosen(facts: PublicFacts, spec: JobSpec) -> tuple[Filled, tuple[str, ...]]:
    """Return the best of the automatic releases and the chains, and the reasons.

    An exact release comes first: its draws are independent, and only a little wider than the
    posterior. Else it is the release that chains start from; but a chain, where the mean of the
    release is clearly off and that of the chain nearer, for all that it costs beyond its start, and
    where so many effective draws are expected of it that it has mixed. Measured by
    experiments/chain_or_release.py.
    """
    if spec.privacy.epsilon is None:
        raise SpecError(
            "/sampler/algorithm", "must be named beside a noise multiplier: they differ in its use"
        )
    MODELS[spec.model.family].check_given(facts.design, spec.model)
    releases = _releases(facts, spec)
    exact = [filled for release, filled in releases if release.exact]
    if exact:
        return exact[0], (_of_release(exact[0]), EXACT_RELEASE_REASON)
    near = min((filled for _, filled in releases), key=lambda filled: filled.modelled, default=None)
    if near is not None and is_given(facts.design, spec.model):
        return near, (_of_release(near), OFFSETS_REASON)
    if near is not None and facts.design.sds:
        reason = SMOOTHS_REASON if facts.design.smooths else GROUPS_REASON
        return near, (_of_release(near), reason)
    if near is not None and not MODELS[spec.model.family].chains:
        return near, (_of_release(near), NO_CHAIN_REASON)
    if near is not None and of_few_rows(facts.design.schema, PROBE):
        return near, (_of_release(near), FEW_ROWS_REASON)
    if near is not None and near.error <= NEGLIGIBLE_BIAS:
        return near, (_of_release(near), f"{_off(near)}: no chain is worth its time beside that")
    if near is not None and (draws := _probed(facts, spec)) < SAFE_ESS / MAX_RATIO_TO_PROBE:
        return near, (_of_release(near), _off(near), _too_few(f"{PROBE}, a chain,", draws))
    chain = best_chain(facts, spec)
    fast = seconds(facts.design, chain.spec) <= MOST_SECONDS
    if near is None or (fast and chain.ess >= SAFE_ESS and chain.error < near.error):
        return chain, (_of_chain(chain), *(_instead(filled) for _, filled in releases))
    if chain.ess >= SAFE_ESS and fast:
        return near, (_of_release(near), _off(near), _off(chain))
    slow = "" if fast else " and takes too long"
    best = f"the best chain, {_name(chain)},"
    return near, (_of_release(near), _too_few(best, chain.ess, slow))


def named(spec: JobSpec, algorithm: str) -> JobSpec:
    """Return the job with this algorithm, and the options that the caller fixed."""
    shared = {name: getattr(spec.sampler, name) for name in SHARED_OPTIONS}
    kind = ALGORITHMS[algorithm].options
    return replace(spec, sampler=kind(**shared, **passed_on(spec.sampler, kind)))


def _releases(facts: PublicFacts, spec: JobSpec) -> list[tuple[Release[Any, Any, Any], Filled]]:
    """Return the releases that support the family, each with the filled-in job."""
    family = spec.model.family
    some = [release for release in RELEASES.values() if offered(release, family)]
    if facts.design.sds:
        some = [release for release in some if release.name == ALGORITHM]
    return [(release, fill(facts, named(spec, release.name))) for release in some]


def offered(release: Release[Any, Any, Any], family: str) -> bool:
    """Return whether the planner may choose this release for the family."""
    return release.automatic and family in release.families


def automatic(algorithm: str) -> bool:
    """Return whether the planner may choose the algorithm for some family."""
    release = RELEASES.get(algorithm)
    return chosen(SAMPLERS[algorithm]) if release is None else release.automatic


def best_chain(facts: PublicFacts, spec: JobSpec) -> Filled:
    """Return the job with the sampler of the most effective draws, compared by single chains."""
    tried = [named(spec, name) for name, sampler in SAMPLERS.items() if chosen(sampler)]
    full: list[Any] = [filled for filled in tried if of_full_data(filled.sampler)]
    alone = [
        fill(
            facts,
            replace(
                filled, sampler=replace(filled.sampler, num_chains=spec.sampler.num_chains or 1)
            ),
        )
        for filled in full
    ]
    best = max(alone, key=lambda filled: filled.ess)
    return fill(facts, named(spec, _name(best)))


def chosen(sampler: Sampler[Any, Any]) -> bool:
    """Return whether the planner may choose the sampler: exact, with a mixing model."""
    return sampler.exact and not isinstance(sampler.mixing, Unmodelled)


def _probed(facts: PublicFacts, spec: JobSpec) -> float:
    """Return about the most effective draws that any chain can have, by a quick probe."""
    probe = named(spec, PROBE)
    options: Any = probe.sampler
    options = replace(
        options, num_chains=spec.sampler.num_chains or 1, start=Start(share=PROBED_SHARE)
    )
    return fill(facts, replace(probe, sampler=options)).ess


def _name(filled: Filled) -> str:
    """Return the name of the job's algorithm."""
    return filled.spec.sampler.algorithm


def _of_release(filled: Filled) -> str:
    """Return in words what is expected of the release."""
    return (
        f"{_name(filled)} gives independent draws, expected to be {filled.sd_inflation:.3g} times"
        " as wide as the posterior"
    )


def _of_chain(filled: Filled) -> str:
    """Return in words what is expected of the chain."""
    return (
        f"{_name(filled)} should have an effective sample size of {filled.ess:.3g}, the most of all"
        " chains, and approximates nothing"
    )


def _too_few(who: str, draws: float, more: str = "") -> str:
    """Return in words that an algorithm has too few effective draws."""
    return (
        f"{who} is expected to have an effective sample size of {draws:.2g}{more};"
        f" {SAFE_ESS:g} are wanted of one"
    )


def _off(filled: Filled) -> str:
    """Return in words the expected error of an algorithm's mean."""
    return f"the mean of {_name(filled)} is expected to be {filled.error:.2g} posterior sds off"


def _instead(filled: Filled) -> str:
    """Return in words what a release gives, with the note that it is an approximation."""
    return f"{_of_release(filled)}, but from a normal approximation of it"
