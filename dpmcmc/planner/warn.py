"""The warnings of a plan, each with what would help. Public facts only."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dpmcmc.families import MODELS
from dpmcmc.families.moments import FILL
from dpmcmc.formula.design import Design
from dpmcmc.formula.variables import column_of
from dpmcmc.inputs.options import (
    DpPenaltySubsampledOptions,
    NoisyMeanOptions,
    NoisyQuadraticOptions,
)
from dpmcmc.inputs.schema import NumberColumn, zero_to_one
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.planner.facts import PublicFacts
from dpmcmc.planner.resolve import (
    ARVIZ_FLOOR,
    RELIABLE_ESS,
    Filled,
    asked_to_cut,
    draws_of,
    fill,
    of_full_data,
    promised,
    smallest_epsilon,
)
from dpmcmc.planner.select import named
from dpmcmc.releases import RELEASES
from dpmcmc.releases.noisy_quadratic import USUAL_DISPERSION
from dpmcmc.releases.quadratic_verdict import MAX_UNEVEN_WEIGHT
from dpmcmc.samplers import SAMPLERS
from dpmcmc.samplers.hamiltonian_mixing import gradient_clip
from dpmcmc.samplers.penalty_mixing import LARGEST_WIDTH

WORTHWHILE_ESS_RATIO = 2.0  # times the effective draws: worth a target that is a little off
SINGLE_RELEASE = (1.0,)  # shares of one release, around the middle of the bounds
MIN_BATCH_ROWS = 500  # rows: see docs/proofs/dp_penalty_subsampled.md, tests
# times as much as is guessed: bounds twice as wide, or columns correlated by .87
PESSIMISTIC_SCALE = 0.5
MAY_BE_YES_OR_NO = (
    "the response {name} is a number with bounds 0 and 1, and is fitted as linear: where it is 0 or"
    " 1 alone, family logistic takes it"
)
WIDE_RELEASE_RATIO = 1.25  # times the posterior's sds, from which a release is said to be wide


def warnings(facts: PublicFacts, spec: JobSpec, filled: Filled, epsilon: float) -> tuple[str, ...]:
    """Return the warnings of a filled job. spec: as the caller gave it; epsilon: its cost."""
    released = filled.spec.sampler.algorithm in RELEASES
    of_algorithm = (_of_release if released else _of_chain)(facts, spec, filled, epsilon)
    of_model = (
        *_yes_or_no(facts.design, spec),
        *_renamed(facts.design),
        *_left_out(facts.design),
        *_weighted(facts.design, spec),
    )
    return (*of_model, *of_algorithm)


def _renamed(design: Design) -> list[str]:
    """Return a warning where a coefficient's name differs from its column's."""
    return [
        f"the effect of {word} is called {name!r} in all results, as {word!r} is the name of"
        " something else there"
        for word, name in design.renamed.items()
    ]


def _yes_or_no(design: Design, spec: JobSpec) -> list[str]:
    """Return a warning where a response with bounds 0 and 1 might be binary."""
    answer, family = design.answer, spec.model.family
    if answer is None or not zero_to_one(answer):
        return []
    if family == "linear":
        return [MAY_BE_YES_OR_NO.format(name=answer.name)]
    if family == "logistic":
        return [
            f"the response {answer.name} is a number: values of a half or more count as 1, all"
            " others as 0"
        ]
    return []


def _left_out(design: Design) -> list[str]:
    """Return a warning where rows may be left out: their number is private."""
    names = ", ".join(column.name for column in design.gappy)
    if not names:
        return []
    return [
        f"rows with a missing code in {names} are left out: what is estimated holds for complete"
        " rows, which stand for all only where values are missing by chance. The plan expects all"
        f" {design.schema.rows:,} rows, as how many are complete is private"
    ]


def _weighted(design: Design, spec: JobSpec) -> list[str]:
    """Return a warning where rows have weights whose variation is not public."""
    if spec.model.weights is None:
        return []
    message = (
        f"the plan takes the weights in {spec.model.weights} for all alike, as how much they differ"
        " is private: where they do, draws are wider than expected"
    )
    column = column_of(design.schema, spec.model.weights)
    family = MODELS[spec.model.family].rows(spec.model.options)
    if family is None or family.link == "identity" or not isinstance(column, NumberColumn):
        return [message]
    part = MAX_UNEVEN_WEIGHT / max(column.upper - 1.0, MAX_UNEVEN_WEIGHT)
    if part == 1.0:
        return [message]
    return [
        f"{message}, and as they may reach {column.upper:g} a result is unreliable where"
        f" {100.0 * part:.2g} % or more of what rows count is cut away"
    ]


def _of_release(facts: PublicFacts, spec: JobSpec, filled: Filled, epsilon: float) -> list[str]:
    """Return the warnings of a release."""
    warnings, name = list[str](), filled.spec.sampler.algorithm
    options = filled.spec.sampler
    if isinstance(options, NoisyQuadraticOptions) and options.estimand == "robust":
        warnings.append(
            f"{name} answers as a robust fit does: rows that do not follow the model count less,"
            ' so that where many do not the answer is another one; sampler.estimand "model" asks'
            " for that of the fit without privacy"
        )
    elif isinstance(options, NoisyQuadraticOptions) and spec.model.family == "poisson":
        warnings.append(
            "no public fact tells how much counts vary: expected_width has residuals"
            f" {USUAL_DISPERSION:g} times as wide as the model's, about as real ones are"
        )
    if filled.sd_inflation > WIDE_RELEASE_RATIO:
        better = smallest_epsilon(
            facts, spec, lambda other: other.sd_inflation <= WIDE_RELEASE_RATIO, max(epsilon, 1e-3)
        )
        warnings.append(
            f"draws are expected to be {filled.sd_inflation:.3g} times as wide as the posterior;"
            f" {_at(better)} they would be {WIDE_RELEASE_RATIO:g} times"
        )
    return warnings + _clipped_rows(facts, spec, filled)


def _clipped_rows(facts: PublicFacts, spec: JobSpec, filled: Filled) -> list[str]:
    """Return a warning where clip bounds suit normal rows, with the width of draws without them."""
    options, requested = filled.spec.sampler, spec.sampler
    if not isinstance(options, NoisyMeanOptions) or not isinstance(requested, NoisyMeanOptions):
        return []
    if (
        options.shares == SINGLE_RELEASE
        or options.clip_bounds is None
        or requested.clip_bounds is not None
    ):
        return []
    uncut = replace(requested, shares=SINGLE_RELEASE, clip_bound=None)
    wide = fill(facts, replace(spec, sampler=uncut)).sd_inflation
    return [
        f"rows further than {options.clip_bounds[-1]:g} known sds from their mean are cut, which"
        " shifts it where columns are skewed or vary more than their declared variances:"
        f" sampler.shares [1.0] cuts none, for draws {wide:.3g} times as wide as the posterior"
    ]


def _of_chain(facts: PublicFacts, spec: JobSpec, filled: Filled, epsilon: float) -> list[str]:
    """Return the warnings of a chain."""
    warnings: list[str] = []
    sampler = SAMPLERS[filled.spec.sampler.algorithm]
    if not sampler.exact:
        warnings.append(
            f"{sampler.name} is not exact: its draws are off the posterior by what neither R-hat"
            " nor more of them can tell"
        )
    if math.isnan(filled.ess):
        warnings.append(
            f"nothing is known of how {sampler.name} mixes, so no effective draws are expected"
        )
        return warnings
    ess = promised(facts, spec, filled)
    if ess < RELIABLE_ESS:
        usual = "" if filled.ess < RELIABLE_ESS else f", {filled.ess:.3g} where they are as usual"
        warnings.append(
            f"expected_ess is {ess:.3g} where effects are large{usual}; with fewer than"
            f" {RELIABLE_ESS:g} draws no posterior can be described:"
            f" {_remedies(facts, spec, filled.spec.sampler.num_chains, epsilon)}"
        )
    options, rows = filled.spec.sampler, facts.design.schema.rows
    if isinstance(options, DpPenaltySubsampledOptions) and few(options.batch, rows):
        warnings.append(
            f"batch {options.batch} is too small for its variance to be known well, which shifts"
            f" the target a little: take {MIN_BATCH_ROWS} or more"
        )
    if asked_to_cut(spec.sampler):
        warnings.append("clipping cuts log ratios, so the chain targets a clipped model")
    warnings += _crowded(facts, spec, filled)
    return warnings + _far_rows(facts, spec, filled) + _narrower(facts, spec, filled)


def _crowded(facts: PublicFacts, spec: JobSpec, filled: Filled) -> list[str]:
    """Return a warning where columns that vary less than guessed leave too few draws."""
    options, known = filled.spec.sampler, facts.assumptions(spec)
    expected, guess = promised(facts, spec, filled), facts.guess_of_large
    part = np.ones(len(known.sds))
    for j, term in enumerate(facts.design.terms):
        if any(factor.code is None for factor in term):
            part[j] = PESSIMISTIC_SCALE
    if guess.known or part.min() == 1.0 or expected < RELIABLE_ESS:
        return []
    less = replace(guess, precision=part[:, None] * guess.precision * part)
    each = draws_of(filled.spec, replace(known, guess=less))
    kept = (options.num_steps or 0) - (options.num_warmup or 0)
    ess = (options.num_chains or 1) * kept * each + ARVIZ_FLOOR
    if ess >= RELIABLE_ESS or ess > PESSIMISTIC_SCALE * expected:
        return []
    return [
        f"expected_ess is {expected:.3g} where numbers vary by {FILL:g} of half their declared"
        f" range; where they vary by {PESSIMISTIC_SCALE:g} times that, in wide bounds or beside"
        f" columns that say the same, it is about {ess:.3g}"
    ]


def few(batch: int | None, rows: int) -> bool:
    """Return whether a batch is so small that its estimated variance biases a chain."""
    return batch is not None and batch < min(MIN_BATCH_ROWS, rows)


def _far_rows(facts: PublicFacts, spec: JobSpec, filled: Filled) -> list[str]:
    """Return a warning where the planner clips ratios within the declared bounds."""
    options: Any = filled.spec.sampler
    assumptions = facts.assumptions(spec)
    mixing, z = SAMPLERS[options.algorithm].mixing, filled.spec.privacy.noise_multiplier or 0.0
    if asked_to_cut(spec.sampler) or not mixing.clips_ratios(options, assumptions, z):
        return []
    where = "after the start ratios are cut at ten times what is typical of rows, or more"
    if options.clip_width is not None:
        where = (
            f"ratios are cut to an interval of clip_width {options.clip_width:g}, at ten times what"
            f" is typical of rows or more (clip_width {LARGEST_WIDTH:g} cuts none)"
        )
    return [
        f"{where}: the declared bounds allow some moves more than that, and noise would have to"
        " cover it. Rows that far out count less; with bounds that rows fill none would be cut"
    ]


def _remedies(facts: PublicFacts, spec: JobSpec, chains: int | None, epsilon: float) -> str:
    """Return remedies: an epsilon at which chains suffice, and a release at this epsilon."""
    remedies = []
    if of_full_data(spec.sampler):
        same = replace(spec, sampler=replace(spec.sampler, num_chains=chains))
        better = smallest_epsilon(
            facts,
            same,
            lambda other: promised(facts, same, other) >= RELIABLE_ESS,
            max(epsilon, 1e-3),
        )
        remedies.append(f"{_at(better)} the same job would have {RELIABLE_ESS:g}")
    if spec.privacy.epsilon is None:
        spec = replace(spec, privacy=replace(spec.privacy, epsilon=epsilon, noise_multiplier=None))
    for release in RELEASES.values():
        if release.automatic and spec.model.family in release.families:
            wide = fill(facts, _free(spec, release.name)).sd_inflation
            remedies.append(
                f"{release.name} at this epsilon would give independent draws {wide:.3g} times as"
                " wide as the posterior"
            )
    return "; ".join(remedies)


def _free(spec: JobSpec, algorithm: str) -> JobSpec:
    """Return the job with a release in place of a chain."""
    other = named(spec, algorithm)
    return replace(other, sampler=replace(other.sampler, num_steps=None, num_warmup=None))


def _narrower(facts: PublicFacts, spec: JobSpec, filled: Filled) -> list[str]:
    """Return a warning where clipping ratios would reduce the noise, with its bias."""
    options = spec.model.options
    known = "ratio_slope" in MODELS[spec.model.family].options
    clips = options.ratio_slope is not None or asked_to_cut(spec.sampler)
    if not known or clips or not of_full_data(spec.sampler):
        return []
    slope = gradient_clip(facts.assumptions(spec))
    model = replace(spec.model, options=replace(options, ratio_slope=slope))
    narrower = replace(spec, model=model)
    other = fill(facts.of(narrower), narrower)
    if other.ess < WORTHWHILE_ESS_RATIO * filled.ess:
        return []
    return [
        f"one row can change a ratio by as much as the declared bounds allow, which takes much"
        f" noise: with options.ratio_slope {slope:g} expected_ess would be {other.ess:.3g} in place"
        f" of {filled.ess:.3g}. The chain would then clip rows that change faster than that, a few"
        " in a hundred if rows fill their bounds as the plan guesses"
    ]


def _at(epsilon: float | None) -> str:
    """Return "at epsilon ..." in words, or that no epsilon suffices."""
    return "at no epsilon up to 1000" if epsilon is None else f"at epsilon {epsilon:.3g}"
