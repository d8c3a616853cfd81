"""What followed from a stored release, on a terminal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from dpmcmc.client.answers import Json
from dpmcmc.client.render import moments, table

SPREAD = ("mean", "sd", "90 % interval")


def tables(answer: Json) -> Iterator[Table]:
    """One table for each kind of thing that was asked for."""
    yield _spreads("Posterior", "parameter", [(one["name"], one) for one in answer["summary"]])
    parts = (
        (
            "Mean response",
            _by_category((_named(one["given"]), one) for one in answer["predictions"]),
        ),
        ("Contrasts", [(_named(one["weights"]), one) for one in answer["contrasts"]]),
        (
            "Differences in mean response",
            _by_category((_difference(one), one) for one in answer["comparisons"]),
        ),
        (f"Ratios of {_ratio(answer)}", _ratios(answer["comparisons"])),
        (
            "Effects on the mean response",
            _by_category((_effect(one), one) for one in answer["effects"]),
        ),
    )
    for title, rows in parts:
        if rows:
            yield _spreads(title, "of", rows)
    if answer["bayes_factors"]:
        yield _tests(answer["bayes_factors"])


def _ratio(answer: Json) -> str:
    return next((one["multiplies"] for one in answer["comparisons"]), "")


def _by_category(found: Iterable[tuple[str, Json]]) -> list[tuple[str, Json]]:
    """Mean responses by name, or the probability of each category where there are several."""
    return [
        row
        for name, one in found
        for row in (
            [(name, one["expected"])]
            if one["expected"] is not None
            else [(f"{word}: {name}", share) for word, share in one["probabilities"].items()]
        )
    ]


def _difference(one: Json) -> str:
    return f"{_named(one['given'])} against {_named(one['against'])}"


def _ratios(found: Sequence[Json]) -> list[tuple[str, Json]]:
    return [(_difference(one), one["ratio"]) for one in found if one["ratio"] is not None]


def _effect(one: Json) -> str:
    if one["value"] is None:
        return f"{one['covariate']}, per unit"
    return f"{one['covariate']} {one['value']} against {one['against']}"


def _named(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _spreads(title: str, head: str, rows: Sequence[tuple[str, Json]]) -> Table:
    made = table(title, head, *SPREAD)
    for name, one in rows:
        made.add_row(escape(name), *moments(one))
    return made


def _tests(found: Sequence[Json]) -> Table:
    made = table("Bayes factors", "coefficients fixed", "ln of the factor", "error", "favours")
    for one in found:
        log = one["log_bayes_factor"]
        favours = "the larger model" if log > 0.0 else "the smaller model"
        made.add_row(escape(_named(one["null"])), f"{log:.2f}", f"{one['error']:.2g}", favours)
    return made
