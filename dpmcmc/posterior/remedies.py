"""Remedies of an unreliable result: an epsilon, a family, bounds or an estimand that would help.

Functions of released numbers and public facts, so that they cost nothing. What was released is
taken for what the rows say, so that an epsilon is about right, and no promise.
"""

import math

import numpy as np

from dpmcmc.families import MODELS
from dpmcmc.families.scores.base import TINY
from dpmcmc.formula.design import Design
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.privacy.accountant import epsilon_of_mu
from dpmcmc.releases import far_columns
from dpmcmc.releases.base import Judgement, Stored
from dpmcmc.releases.quadratic import Quadratic
from dpmcmc.releases.quadratic_verdict import OVERDISPERSION_RATIO

# of an interval: by less it is not worth a sentence; and columns that are named
MUCH_WIDER, MOST_NAMED = 1.25, 3
HIGHEST_EPSILON = 1000.0  # beyond it nothing is private, and none is named
LARGEST_LOG_MEAN = 30.0
TERMS = "fewer terms or narrower declared bounds of covariates"
# of each fault, beside a larger epsilon, with the algorithm's own answer
OTHERS = {
    "noise": TERMS,
    "place": "fewer terms",
    "uneven": 'estimand="model", which counts them in full, or narrower declared bounds of weights',
    "leverage": "narrower declared bounds of covariates, or the log of one with a long tail,",
    "wide": "narrower priors",
    "unseen": (
        "narrower declared bounds of the response, a family with tails as long, or"
        ' estimand="robust": another question'
    ),
    "mixing": "more draws (num_steps), which are free",
    "method": "another method",
    "variances": "larger declared variances",
}


def epsilon_at(spec: JobSpec, more: float | None) -> float | None:
    """Return the epsilon at which a release has its noise precision multiplied by `more`.

    Of two digits, and no smaller. None where it is not known, or too large to be of use.
    """
    z = spec.privacy.noise_multiplier
    if more is None or not z or not math.isfinite(more):
        return None
    epsilon = epsilon_of_mu(more / z, spec.privacy.delta)
    if not 0.0 < epsilon <= HIGHEST_EPSILON:
        return None
    digit = 10.0 ** (math.floor(math.log10(epsilon)) - 1)
    return float(f"{math.ceil(epsilon / digit) * digit:.2g}")


def remedy(judged: Judgement, spec: JobSpec) -> str:
    """Return the remedy of a release's problem in words; empty where there is no problem."""
    if not judged.fault:
        return ""
    epsilon = epsilon_at(spec, judged.more)
    ways = [] if epsilon is None else [f"about epsilon {epsilon:g}"]
    if judged.fault in ("noise", "place", "wide", "unseen") and epsilon is None:
        ways.append("a larger budget")
    if judged.fault == "place" and _robust(spec):
        ways.append('estimand="model", whose Newton steps agree more often')
    if judged.fault == "skewed":
        ways.append('estimand="model", which answers for the mean as it is, or a larger budget')
    other = OTHERS.get(judged.fault)
    if other is not None:
        ways.append(other)
    return f"{', or '.join(ways)} would mend it"


def _robust(spec: JobSpec) -> bool:
    """Return whether a job uses the robust estimand and could use the model's own."""
    return isinstance(spec.sampler, NoisyQuadraticOptions) and spec.sampler.estimand == "robust"


def remarks(judged: Judgement, stored: Stored, spec: JobSpec, design: Design) -> tuple[str, ...]:
    """Return notes on a result besides its width and its problems."""
    if not isinstance(stored, Quadratic):
        return (judged.remarks,)
    family, counts = room_for_counts(stored, spec, design), ""
    if family:
        counts = (
            f"counts vary {stored.dispersion:.2g} times as much as the model says, so that its own"
            f" intervals are too narrow whatever the privacy: {family} has room for that"
        )
    return (judged.remarks, far_bounds(stored, design), counts)


def far_bounds(stored: Quadratic, design: Design) -> str:
    """Return a note on columns whose far declared bounds make intervals wider; empty without."""
    times, sds = stored.inflation_by_columns, far_columns.distances(stored)
    first = stored.classes - 1 if stored.ordered else 0  # cuts but one
    worst: dict[str, tuple[float, float]] = {}
    for at in np.flatnonzero((times > MUCH_WIDER) & (sds > far_columns.NEAR)):
        name = design.parameters[(int(at) - first) % len(design.parameters)]
        worst[name] = max(worst.get(name, (0.0, 0.0)), (float(times[at]), float(sds[at])))
    if not worst:
        return ""
    first_named = sorted(worst, key=lambda name: worst[name], reverse=True)
    named = [
        f"of {name} reach {worst[name][1]:.2g} of its sds" for name in first_named[:MOST_NAMED]
    ]
    left = len(first_named) - len(named)
    others = f" and those of {left} more columns reach as far" if left else ""
    return (
        f"declared bounds {', '.join(named)}{others}, and few rows that far out could decide:"
        f" intervals are up to {worst[first_named[0]][0]:.2g} times as wide for that, and narrower"
        " bounds, where they are known, would mend it"
    )


def room_for_counts(stored: Stored, spec: JobSpec, design: Design) -> str:
    """Return advice on a family for overdispersed counts; empty where none is needed."""
    if not isinstance(stored, Quadratic) or stored.dispersion <= OVERDISPERSION_RATIO:
        return ""
    # squares that a robust fit cuts tell too little of how much counts vary
    ratio = None if stored.robust or stored.hurdle else stored.dispersion**2
    rooms = [model.room for model in MODELS.values() if model.room is not None]
    mean = _mean_count(stored, design)
    return ", or ".join(room(spec.model, mean, ratio) for room in rooms)


def _mean_count(stored: Quadratic, design: Design) -> float:
    """Return about the mean count, from the released coefficients and moments.

    With the log of it normal over rows.
    """
    second = stored.moments()[0]
    place = stored.places[1, : len(second)]
    middle = float(place @ second[0]) / max(float(second[0, 0]), TINY)
    spread = float(np.clip(place @ second @ place - middle**2, 0.0, 4.0))
    return math.exp(min(middle + 0.5 * spread + design.middle_offset, LARGEST_LOG_MEAN))
