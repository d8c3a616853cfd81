"""Tables of a free posterior, for a terminal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from dpmcmc.client.answers import Json
from dpmcmc.client.render import moments, table

SPREAD = ("mean", "sd", "90 % interval")


def tables(answer: Json) -> Iterator[Table]:
    """Tables of the posterior and of whatever else was asked for."""
    yield _spreads(
        "Posterior",
        "parameter",
        [(parameter["name"], parameter) for parameter in answer["summary"]],
    )
    if any(parameter.get("inclusion") is not None for parameter in answer["summary"]):
        yield _inclusion(answer["summary"])
    parts = (
        (
            "Mean response",
            _by_category(
                (_named(prediction["given"]), prediction) for prediction in answer["predictions"]
            ),
        ),
        (
            "Contrasts",
            [(_named(contrast["weights"]), contrast) for contrast in answer["contrasts"]],
        ),
        (
            "Differences in mean response",
            _by_category(
                (_difference(comparison), comparison) for comparison in answer["comparisons"]
            ),
        ),
        (f"Ratios of {_ratio(answer)}", _ratios(answer["comparisons"])),
        (
            "Effects on the mean response",
            _by_category((_effect(effect), effect) for effect in answer["effects"]),
        ),
    )
    for title, rows in parts:
        if rows:
            yield _spreads(title, "of", rows)
    if answer["bayes_factors"]:
        yield _tests(answer["bayes_factors"])
    if answer.get("models"):
        yield _models(answer["models"])


def _inclusion(summary: Sequence[Json]) -> Table:
    """Probabilities that coefficients act."""
    grid = table("Probabilities to act, largest first", "coefficient", "probability")
    acting = [parameter for parameter in summary if parameter.get("inclusion") is not None]
    for parameter in sorted(acting, key=lambda parameter: -parameter["inclusion"]):
        grid.add_row(escape(parameter["name"]), f"{parameter['inclusion']:.3f}")
    return grid


def _models(models: Sequence[Json]) -> Table:
    """Models with their probabilities."""
    grid = table("Models", "formula", "probability", "ln of the factor", "error")
    for model in models:
        numbers = f"{model['log_bayes_factor']:.2f}", f"{model['error']:.2g}"
        grid.add_row(escape(model["formula"]), f"{model['probability']:.3f}", *numbers)
    return grid


def _ratio(answer: Json) -> str:
    return next((comparison["multiplies"] for comparison in answer["comparisons"]), "")


def _by_category(named_answers: Iterable[tuple[str, Json]]) -> list[tuple[str, Json]]:
    """Mean responses by name, or the probability of each category where there are several."""
    return [
        row
        for name, mean_response in named_answers
        for row in (
            *([(name, mean_response["expected"])] if mean_response["expected"] is not None else []),
            *(
                (f"{category}: {name}", share)
                for category, share in (mean_response["probabilities"] or {}).items()
            ),
        )
    ]


def _difference(comparison: Json) -> str:
    return f"{_named(comparison['given'])} against {_named(comparison['against'])}"


def _ratios(comparisons: Sequence[Json]) -> list[tuple[str, Json]]:
    """What changes multiply, by comparison."""
    return [
        (f"{_difference(comparison)}{of}", comparison[field])
        for comparison in comparisons
        for field, of in (("ratio", ""), ("odds", ": odds of 0"))
        if comparison.get(field) is not None
    ]


def _effect(effect: Json) -> str:
    if effect["value"] is None:
        return f"{effect['covariate']}, per unit"
    return f"{effect['covariate']} {effect['value']} against {effect['against']}"


def _named(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _spreads(title: str, head: str, rows: Sequence[tuple[str, Json]]) -> Table:
    """Means, sds and intervals of quantities, a row each."""
    grid = table(title, head, *SPREAD)
    for name, spread in rows:
        grid.add_row(escape(name), *moments(spread))
    return grid


def _tests(bayes_factors: Sequence[Json]) -> Table:
    """Bayes factors, and which model each favours."""
    grid = table("Bayes factors", "coefficients fixed", "ln of the factor", "error", "favours")
    for bayes_factor in bayes_factors:
        log = bayes_factor["log_bayes_factor"]
        favours = "the larger model" if log > 0.0 else "the smaller model"
        grid.add_row(
            escape(_named(bayes_factor["null"])),
            f"{log:.2f}",
            f"{bayes_factor['error']:.2g}",
            favours,
        )
    return grid
