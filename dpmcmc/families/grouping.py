"""Models with groups and smooths: what `(x | ward)` and `s(x)` add to the parameters of a family.

Behind those of the family come the sd of each smooth, and the sds of the groups' effects, perhaps
their correlation, and one or two effects for each group. The prior of what has an sd in common is
normal with that sd, whose own prior is half normal.
"""

import math
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.families.base import Model
from dpmcmc.families.priors import Normals, check_names, pointer_to, unwritten
from dpmcmc.families.scores.base import SEVERAL
from dpmcmc.families.target import Floats
from dpmcmc.formula.design import POINTER, Design
from dpmcmc.inputs.schema import NumberColumn
from dpmcmc.inputs.spec import JobSpec, ModelSpec

PART_OF_RANGE = 0.25  # of a response's declared range, that a curve may be away from its line


def with_groups(family: Model) -> Model:
    """Return the family extended by groups and smooths, or with a check that refuses them."""

    @wraps(family.check)  # whose module describes the family
    def check(design: Design, model: ModelSpec) -> None:
        """Refuse groups or smooths that the family, or the released model, cannot have."""
        if design.grouping is not None and family.group_sd is None:
            message = (
                f"groups are for linear, logistic and count regressions: {family.family} takes"
                f" C({design.grouping.label})"
            )
            raise SpecError(POINTER, message)
        family.check(design, model)
        rows = family.rows(model.options) if design.smooths else None  # of options that are checked
        if design.smooths and (rows is None or rows.link in SEVERAL):
            smooth = design.smooths[0]
            message = f"{smooth.term} is not for {family.family}: write {smooth.without_penalty}"
            raise SpecError(POINTER, message)

    def parameters(design: Design, model: ModelSpec) -> tuple[str, ...]:
        """Return parameter names: the family's, then sds and effects of groups and smooths."""
        return (*family.parameters(design, model), *design.beside_families)

    def release(design: Design, spec: JobSpec, positions: Floats) -> Floats:
        """Return positions as parameters, group effects and their sds included."""
        if not design.sds:
            return family.release(design, spec, positions)
        own = len(family.parameters(design, spec.model))
        first, last = positions[..., :own], positions[..., own:]
        laws = () if design.grouping is None else design.grouping.law
        correlations = [name in laws and name not in design.sds for name in design.beside_families]
        unit = np.where(correlations, 1.0, family.unit(design, spec.model))
        made = family.release(design, without_sds(design, spec), first)
        return np.concatenate((made, last * unit[: last.shape[-1]]), axis=-1)

    def prior(design: Design, model: ModelSpec) -> Normals:
        """Return the priors of coefficients, those of smooths' coefficients included."""
        check_names(model.prior, (*family.parameters(design, model), *design.sds))
        means, sds = family.prior(design, _without_sds(design, model))
        scales = [_scale(family, design, model, name) for name in design.sds]
        means, sds = means.copy(), sds.copy()
        for smooth, scale in zip(design.smooths, scales, strict=False):
            numbers, own = list(smooth.penalised), scale * np.array(smooth.sizes)
            for name, sd in zip((design.parameters[k] for k in numbers), own, strict=True):
                _check_penalised(model, name, float(sd), smooth.sd)
            means[numbers], sds[numbers] = 0.0, own
        return np.append(means, np.zeros(len(scales))), np.append(sds, scales)

    def alone(made: Any) -> Any:
        """Wrap a function of (design, job), so that its job has no priors of group sds."""
        if made is None:
            return None
        return lambda design, spec: made(design, without_sds(design, spec))

    return replace(
        family,
        check=check,
        form=alone(family.form),
        guess=alone(family.guess),
        guess_of_large=alone(family.guess_of_large),
        parameters=parameters,
        release=release,
        prior=prior,
    )


def _scale(family: Model, design: Design, model: ModelSpec, name: str) -> float:
    """Return the scale of the half normal prior of a group or smooth sd. Raises SpecError."""
    if isinstance(model.prior, dict) and name in model.prior:
        prior, at = unwritten(model.prior[name], name), pointer_to(name)
        if prior.loc != 0.0:
            raise SpecError(f"{at}/loc", "must be 0: the prior of an sd is half of a normal")
        return prior.scale
    if family.group_sd is not None:
        return family.group_sd(design, model)
    rows, answer = family.rows(model.options), design.answer
    of_numbers = rows is not None and rows.link == "identity" and design.kind != "event"
    if of_numbers and isinstance(answer, NumberColumn):
        return PART_OF_RANGE * (answer.upper - answer.lower)
    return 1.0


def _check_penalised(model: ModelSpec, name: str, sd: float, common: str) -> None:
    """Refuse a prior of one coefficient of a smooth that differs from the smooth's common prior."""
    if not isinstance(model.prior, dict) or name not in model.prior:
        return
    prior = unwritten(model.prior[name], name)
    if prior.loc != 0.0 or not math.isclose(prior.scale, sd, rel_tol=1e-9):
        message = f"has the prior that {common} is the sd of: give that a prior"
        raise SpecError(pointer_to(name), message)


def without_sds(design: Design, spec: JobSpec) -> JobSpec:
    """Return the job with the priors of the family's own parameters alone, without those of sds."""
    model = _without_sds(design, spec.model)
    return spec if model is spec.model else replace(spec, model=model)


def _without_sds(design: Design, model: ModelSpec) -> ModelSpec:
    """Return the model with the priors of the family's own parameters alone."""
    if not isinstance(model.prior, dict) or not set(design.sds) & set(model.prior):
        return model
    others = {name: entry for name, entry in model.prior.items() if name not in design.sds}
    return replace(model, prior=others)
