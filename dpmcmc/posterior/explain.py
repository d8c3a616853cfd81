"""A plain-language explanation of a fit, from released numbers alone."""

import math
from collections.abc import Iterator, Sequence

from dpmcmc.base.names import ROW
from dpmcmc.families import MODELS
from dpmcmc.families.scores.base import TINY
from dpmcmc.families.scores.responses import TIME, YES
from dpmcmc.formula.columns import Factor
from dpmcmc.formula.design import Design
from dpmcmc.formula.variables import column_of
from dpmcmc.inputs.schema import DateColumn, NumberColumn
from dpmcmc.inputs.spec import ModelSpec
from dpmcmc.posterior.diagnostics import ParameterSummary
from dpmcmc.posterior.summary_table import rounded

MOST_EFFECTS = 5  # that have a sentence each: those that stand out most
UNIT_WIDTHS = 2.0, 30.0  # declared ranges whose unit is a step that readers have in mind
PART = 4.0  # else a step is the power of ten below this part of the range
CAUSE = " A difference between rows is not yet an effect of one column on another."
READABLE = 1e6  # beyond which a ratio is shown as a power of ten
MOST_LOG = 700.0  # whose exp is a number


def explained(
    design: Design,
    model: ModelSpec,
    summaries: Sequence[ParameterSummary],
    verdict: tuple[str, str],
    epsilon: float,
) -> tuple[str, ...]:
    """Return sentences on the question, the estimates, their uncertainty and the privacy noise.

    Parameters
    ----------
    design, model
        Of the job.
    summaries
        Of its parameters, in the units of the columns.
    verdict
        Status and sentence. Of a result that is not reliable no effect is told.
    epsilon
        What it cost.

    Returns
    -------
    tuple[str, ...]
        Plain text. Effects are of columns that stand in one term by themselves, by size over sd.
    """
    said, (status, sentence) = [_question(design)], verdict
    if status == "reliable":
        said += _effects(design, model, {row.name: row for row in summaries})
        said.append(
            "Each interval has a probability of 90 % of holding the value, if the model is right."
            + (CAUSE if design.response else "")
        )
    else:
        said.append("The numbers of this result are not to be relied on.")
    return (
        *said,
        sentence,
        f"It cost epsilon {epsilon:.3g} and protects {design.schema.protects}.",
    )


def _question(design: Design) -> str:
    """Return a sentence on what the model relates: response and covariates."""
    schema = design.schema
    whose = "row" if schema.unit == ROW else "person"
    counted = f"{schema.units:,} {whose}{'' if schema.units == 1 else 's'}"
    names = design.covariates
    shown = ", ".join(names[:MOST_EFFECTS]) + (" and others" if len(names) > MOST_EFFECTS else "")
    if not design.response:
        return f"The model estimates numbers of {shown} in {counted}."
    if not names:
        return f"The model describes {design.response} in {counted}."
    return f"The model describes how {design.response} goes with {shown} in {counted}."


def _effects(
    design: Design, model: ModelSpec, by_name: dict[str, ParameterSummary]
) -> Iterator[str]:
    """Yield a sentence on each effect of one coefficient, most significant first."""
    if not design.response:
        for row in list(by_name.values())[:MOST_EFFECTS]:
            low, high = rounded(row.q05, row.sd), rounded(row.q95, row.sd)
            yield f"{row.name} is {rounded(row.mean, row.sd)} (90 % interval {low} to {high})."
        return
    effects = [
        (factor, row, _subject(design, model, row.name.removesuffix(f":{name}")))
        for name, factor in zip(design.parameters, _alone(design), strict=True)
        for row in by_name.values()
        if factor is not None
        and (row.name == name or (name not in by_name and row.name.endswith(f":{name}")))
    ]
    family = MODELS[model.family].rows(model.options)
    if family is not None and family.link == "hurdle":
        effects = _of_hurdle(design, model, by_name)
    effects.sort(key=lambda effect: -abs(effect[1].mean) / max(effect[1].sd, TINY))
    for factor, row, subject in effects[:MOST_EFFECTS]:
        yield _effect(design, factor, row, subject)
    for smooth in design.smooths[:MOST_EFFECTS]:
        curve = "along a curve, which its plot shows"
        shape = "in steps from each value to the next" if smooth.walk else curve
        yield f"{design.response} goes with {smooth.column} {shape}."
    if len(effects) > MOST_EFFECTS:
        remaining = len(effects) - MOST_EFFECTS
        yield f"{remaining} more {'effect is' if remaining == 1 else 'effects are'} in the table."
    elif not effects and not design.smooths and len(design.parameters) > 1:
        yield "Its terms are curves or products of columns: ask for predictions to read them."


def _of_hurdle(
    design: Design, model: ModelSpec, by_name: dict[str, ParameterSummary]
) -> list[tuple[Factor, ParameterSummary, str]]:
    """Return effects on counts above 0 and on the odds of a zero, as `_effects` has them."""
    names, d = MODELS[model.family].parameters(design, model), len(design.parameters)
    subjects = (
        f"the rate of {design.response} above 0 is",
        f"the odds of {design.response} being 0 are",
    )
    return [
        (factor, by_name[names[k + first]], subject)
        for k, factor in enumerate(_alone(design))
        for first, subject in zip((0, d), subjects, strict=True)
        if factor is not None and names[k + first] in by_name
    ]


def _subject(design: Design, model: ModelSpec, level: str) -> str:
    """Return the quantity that a ratio multiplies, with its verb; empty for additive effects.

    level: the category of the response that a coefficient is of, if there are several.
    """
    rule, answer = MODELS[model.family].response(model.options), design.answer
    words = () if answer is None or isinstance(answer, NumberColumn) else answer.categories
    family = MODELS[model.family].rows(model.options)
    if family is not None and family.link == "cumulative":
        return f"the odds of {design.response} being higher in order are"
    if len(words) > 2:
        return f"the odds of {design.response} being {level} rather than {words[0]} are"
    if rule is None or not rule.ratio:
        return ""
    if design.kind == "trials":
        return f"the odds of {design.response} in a trial are"
    if design.kind == "event" and design.beside is not None:
        what = f"{rule.ratio} {'to' if rule.ratio == TIME else 'of'}"
        return f"the {what} {design.beside.label} is"
    if rule is YES:
        return f"the odds of {design.response} being {words[1] if words else 1} are"
    return f"the {rule.ratio} of {design.response} is"


def _alone(design: Design) -> list[Factor | None]:
    """Return, for each coefficient, the factor whose whole effect it is; else None.

    That is a column that stands in no other term and is no function of a column.
    """
    counts: dict[str, set[tuple[str, ...]]] = {}
    for term in design.terms:
        columns = tuple(sorted({name for factor in term for name in factor.columns}))
        for name in columns:
            counts.setdefault(name, set()).add((*columns, *sorted(_sources(term))))
    alone: list[Factor | None] = []
    for term in design.terms:
        single = len(term) == 1 and term[0].source is None and len(counts[term[0].column]) == 1
        alone.append(term[0] if single and _has_reference(design, term[0]) else None)
    return alone


def _sources(term: tuple[Factor, ...]) -> set[str]:
    """Return the names of the columns that a term is computed from."""
    return {factor.label for factor in term if factor.source is not None}


def _has_reference(design: Design, factor: Factor) -> bool:
    """Return whether a factor is a number, or a category compared with a reference."""
    codes = {f.code for term in design.terms for f in term if f.column == factor.column}
    return factor.code is None or factor.reference not in codes


def _effect(design: Design, factor: Factor, row: ParameterSummary, subject: str) -> str:
    """Return the sentence on one coefficient. subject: what a ratio multiplies, or ""."""
    column = column_of(design.schema, factor.column)
    step = step_of(column) if isinstance(column, NumberColumn) else 1.0
    if isinstance(column, DateColumn):
        where = f"{column.name} {step:,.6g} {'day' if step == 1.0 else 'days'} later: "
    elif isinstance(column, NumberColumn):
        where = f"With {step:,.6g} more of {column.name}, "
    else:
        words = column.categories
        compared = f"{words[factor.code or 0]} in place of {words[factor.reference]}"
        where = f"Where {column.name} is {compared}, "
    changes = [step * value for value in (row.mean, row.q05, row.q95)]
    if subject:
        middle, low, high = (_ratio(change) for change in changes)
        change = f"{subject} multiplied by {middle}"
    else:
        size = step * row.sd
        middle, low, high = (rounded(change, size) for change in changes)
        way = "lower" if changes[0] < 0.0 else "higher"
        change = f"{design.response} is {middle.removeprefix('-')} {way}"
    clear = ", which may be no effect" if row.q05 <= 0.0 <= row.q95 else ""
    return f"{where}{change} (90 % interval {low} to {high}){clear}."


def _ratio(difference: float) -> str:
    """Return exp(difference) in words, as a power of ten where it is extreme."""
    value = math.exp(min(max(difference, -MOST_LOG), MOST_LOG))
    return f"{value:.3g}" if 1.0 / READABLE < value < READABLE else f"{value:.0e}"


def step_of(column: NumberColumn) -> float:
    """Return the change of a number for which its effect is reported, by its bounds."""
    width = column.upper - column.lower
    if UNIT_WIDTHS[0] <= width <= UNIT_WIDTHS[1]:
        return 1.0
    return float(10.0 ** math.floor(math.log10(width / PART)))
