"""Posteriors from stored releases. No rows and no ledger are accessed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.services.errors import Fault
from app.services.jobs.kinds.dry import DRY, dry_verdict
from app.services.results.fetch import Kept
from dpmcmc.base.errors import SpecError
from dpmcmc.posterior.free.posterior import FreePosterior, ModelWeight
from dpmcmc.posterior.free.priors import CoefficientPrior
from dpmcmc.posterior.stored import StoredRelease
from dpmcmc.posterior.units import Scale

MOST_NUMBERS = 200_000  # of an answer
FREE = "Nothing is charged: this follows from what the job has released and paid for already."
Setting = Mapping[str, float | str]


@dataclass(frozen=True, slots=True)
class EffectAsked:
    """The effect of one covariate at given settings. value, against: compared values."""

    covariate: str
    given: Sequence[Setting]
    value: float | str | None
    against: float | str | None


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a stored release: prior, predictions, contrasts, effects."""

    prior: Mapping[str, CoefficientPrior | str] | CoefficientPrior | str
    num_draws: int
    given: Sequence[Setting] = ()
    contrasts: Sequence[Mapping[str, float]] = ()
    comparisons: Sequence[tuple[Setting, Setting]] = ()
    effects: Sequence[EffectAsked] = ()
    null: Sequence[Mapping[str, float]] = ()
    models: Sequence[str] = ()
    curves: Sequence[tuple[str, Setting, int]] = ()
    scale: Scale = "original"


@dataclass(frozen=True, slots=True)
class Drawn:
    """Draws (draw, parameter) of a posterior alone."""

    parameters: tuple[str, ...]
    draws: NDArray[np.float64]


def free_answer(kept: Kept, asked: Question, head: dict[str, Any] | None) -> bytes | Drawn | Fault:
    """Return the JSON answer after `head`, the draws without one, or the question's fault.

    Runs in a planner process: there may be hundreds of thousands of numbers.
    """
    release = StoredRelease.read(kept.schema, kept.spec, kept.content)
    if asked.num_draws * len(release.parameters) > MOST_NUMBERS:
        return Fault("/num_draws", f"Draws x parameters must be at most {MOST_NUMBERS}.")
    try:
        posterior = release.posterior(asked.prior, asked.num_draws, scale=asked.scale)
        if head is None:
            return Drawn(tuple(posterior.parameters), np.asarray(posterior.shown))
        answer = head | _answer(posterior, asked)
        if kept.dry:
            answer |= {"dry_run": True, "note": DRY, "verdict": dry_verdict(answer["verdict"])}
        return json.dumps(answer, allow_nan=False).encode()
    except SpecError as error:
        return Fault(error.pointer, error.message)


def _answer(posterior: FreePosterior, asked: Question) -> dict[str, Any]:
    """Return the answer as JSON values."""
    return {
        "parameters": list(posterior.parameters),
        "priors": [{"name": name, **asdict(prior)} for name, prior in posterior.priors.items()],
        "draws": posterior.shown.tolist(),
        "summary": [
            {"name": n, **asdict(parameter), "inclusion": posterior.inclusion.get(n)}
            for n, parameter in posterior.summary().items()
        ],
        "predictions": _predictions(posterior, asked.given),
        "contrasts": [
            {"weights": dict(w), **asdict(posterior.contrast(w, pointer=f"/contrasts/{k}"))}
            for k, w in enumerate(asked.contrasts)
        ],
        "comparisons": [
            _comparison(posterior, *pair, f"/comparisons/{k}")
            for k, pair in enumerate(asked.comparisons)
        ],
        "effects": [
            asdict(change)
            for k, effect in enumerate(asked.effects)
            for change in _effects(posterior, effect, f"/effects/{k}")
        ],
        "bayes_factors": [_tested(posterior, n, f"/null/{k}") for k, n in enumerate(asked.null)],
        "models": [asdict(model) for model in _models(posterior, asked.models)],
        "curves": [
            asdict(posterior.curve(covariate, given, points=points, pointer=f"/curves/{k}"))
            for k, (covariate, given, points) in enumerate(asked.curves)
        ],
        "verdict": asdict(posterior.verdict),
    }


def _models(posterior: FreePosterior, formulas: Sequence[str]) -> Sequence[ModelWeight]:
    """Return the probabilities of smaller models."""
    return posterior.compare_models(formulas) if formulas else ()


def _predictions(posterior: FreePosterior, given: Sequence[Setting]) -> list[dict[str, Any]]:
    """Return predictions as JSON values."""
    predicted = posterior.predict(given) if given else ()
    return [
        {"given": dict(setting), **asdict(prediction)}
        for setting, prediction in zip(given, predicted, strict=True)
    ]


def _comparison(
    posterior: FreePosterior, given: Setting, against: Setting, pointer: str
) -> dict[str, Any]:
    """Return one comparison as JSON values."""
    comparison = posterior.compare(given, against, pointer=pointer)
    return {"given": dict(given), "against": dict(against), **asdict(comparison)}


def _effects(posterior: FreePosterior, asked: EffectAsked, pointer: str) -> list[Any]:
    """Return effects as JSON values."""
    ends = {"value": asked.value, "against": asked.against}
    return list(posterior.effects(asked.covariate, asked.given, **ends, pointer=pointer))


def _tested(posterior: FreePosterior, null: Mapping[str, float], pointer: str) -> dict[str, Any]:
    """Return a Bayes factor as JSON values."""
    factor = posterior.bayes_factor(null, pointer=pointer)
    return {"null": dict(null), "log_bayes_factor": factor.log, "error": factor.error}
