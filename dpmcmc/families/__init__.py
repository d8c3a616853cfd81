"""The registry of models. A line here makes one live; the line is the reviewed moment."""

from dpmcmc.families import (
    banana,
    binomial,
    exponential,
    gamma,
    gaussian_mean,
    linear,
    logistic,
    multinomial,
    negative_binomial,
    ordinal,
    poisson,
    student_t,
    weibull,
)
from dpmcmc.families.assumptions import Guess
from dpmcmc.families.base import Model
from dpmcmc.families.grouping import with_groups
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import ModelSpec

MODELS: dict[str, Model] = {
    model.family: with_groups(model)
    for model in (
        logistic.MODEL,
        linear.MODEL,
        poisson.MODEL,
        negative_binomial.MODEL,
        student_t.MODEL,
        gamma.MODEL,
        binomial.MODEL,
        exponential.MODEL,
        weibull.MODEL,
        multinomial.MODEL,
        ordinal.MODEL,
        gaussian_mean.MODEL,
        banana.MODEL,
    )
}

__all__ = ["MODELS", "Guess", "Model", "parameters_of"]


def parameters_of(schema: Schema, model: ModelSpec) -> tuple[str, ...]:
    """Return the names of what a job releases. Raises SpecError where the formula does not suit."""
    return MODELS[model.family].parameters(make_design(schema, model.formula), model)
