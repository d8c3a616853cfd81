"""Posteriors from what a job stored of its release. Nothing here sees a row or a ledger."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.services.errors import Fault
from app.services.results.fetch import Kept
from dpmcmc.base.errors import SpecError
from dpmcmc.posterior.free.posterior import FreePosterior
from dpmcmc.posterior.free.priors import CoefficientPrior
from dpmcmc.posterior.stored import StoredRelease
from dpmcmc.posterior.units import Scale

MOST_NUMBERS = 200_000  # of an answer
FREE = "Nothing is charged: this follows from what the job has released and paid for already."
Setting = Mapping[str, float | str]


@dataclass(frozen=True, slots=True)
class EffectAsked:
    """The effect of one covariate, with all others as given. value, against: its two settings."""

    covariate: str
    given: Sequence[Setting]
    value: float | str | None
    against: float | str | None


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a stored release: another prior, predictions, contrasts, effects."""

    prior: Mapping[str, CoefficientPrior]
    num_draws: int
    given: Sequence[Setting] = ()
    contrasts: Sequence[Mapping[str, float]] = ()
    comparisons: Sequence[tuple[Setting, Setting]] = ()
    effects: Sequence[EffectAsked] = ()
    null: Sequence[Mapping[str, float]] = ()
    scale: Scale = "original"


@dataclass(frozen=True, slots=True)
class Drawn:
    """Draws (draw, parameter) of a posterior, without what else may be asked of it."""

    parameters: tuple[str, ...]
    draws: NDArray[np.float64]


def told(kept: Kept, asked: Question, head: dict[str, Any] | None) -> bytes | Drawn | Fault:
    """The answer as JSON behind `head`, or the draws alone without one; or what is wrong.

    Runs in a planner process: there may be hundreds of thousands of numbers.
    """
    release = StoredRelease.read(kept.schema, kept.spec, kept.content)
    if asked.num_draws * len(release.parameters) > MOST_NUMBERS:
        return Fault("/num_draws", f"Draws x parameters must be at most {MOST_NUMBERS}.")
    try:
        found = release.posterior(asked.prior, asked.num_draws, scale=asked.scale)
        if head is None:
            return Drawn(tuple(found.parameters), np.asarray(found.shown))
        return json.dumps(head | _answer(found, asked), allow_nan=False).encode()
    except SpecError as error:
        return Fault(error.pointer, error.message)


def _answer(found: FreePosterior, asked: Question) -> dict[str, Any]:
    return {
        "parameters": list(found.parameters),
        "priors": [{"name": name, **asdict(one)} for name, one in found.priors.items()],
        "draws": found.shown.tolist(),
        "summary": [{"name": n, **asdict(one)} for n, one in found.summary().items()],
        "predictions": _predictions(found, asked.given),
        "contrasts": [
            {"weights": dict(w), **asdict(found.contrast(w, pointer=f"/contrasts/{k}"))}
            for k, w in enumerate(asked.contrasts)
        ],
        "comparisons": [
            _comparison(found, *pair, f"/comparisons/{k}")
            for k, pair in enumerate(asked.comparisons)
        ],
        "effects": [
            asdict(one)
            for k, effect in enumerate(asked.effects)
            for one in _effects(found, effect, f"/effects/{k}")
        ],
        "bayes_factors": [_tested(found, n, f"/null/{k}") for k, n in enumerate(asked.null)],
        "verdict": asdict(found.verdict),
    }


def _predictions(found: FreePosterior, given: Sequence[Setting]) -> list[dict[str, Any]]:
    told = found.predict(given) if given else ()
    return [{"given": dict(one), **asdict(made)} for one, made in zip(given, told, strict=True)]


def _comparison(
    found: FreePosterior, given: Setting, against: Setting, pointer: str
) -> dict[str, Any]:
    made = found.compare(given, against, pointer=pointer)
    return {"given": dict(given), "against": dict(against), **asdict(made)}


def _effects(found: FreePosterior, asked: EffectAsked, pointer: str) -> list[Any]:
    ends = {"value": asked.value, "against": asked.against}
    return list(found.effects(asked.covariate, asked.given, **ends, pointer=pointer))


def _tested(found: FreePosterior, null: Mapping[str, float], pointer: str) -> dict[str, Any]:
    made = found.bayes_factor(null, pointer=pointer)
    return {"null": dict(null), "log_bayes_factor": made.log, "error": made.error}
