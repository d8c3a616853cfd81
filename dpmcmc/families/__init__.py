"""The registry of models. A model is available once it has a line here, which is reviewed."""

from dpmcmc.families import (
    banana,
    beta,
    binomial,
    exponential,
    gamma,
    gaussian_mean,
    hurdle_poisson,
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
        hurdle_poisson.MODEL,
        student_t.MODEL,
        gamma.MODEL,
        beta.MODEL,
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
