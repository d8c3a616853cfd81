"""Models with groups: what `(1 | ward)` adds to the parameters of a family.

Behind those of the family come the sd of the groups' effects and one effect for each group. The
prior of effects is normal with that sd, whose own prior is half normal.
"""

from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.families.base import Model
from dpmcmc.families.priors import Normals, pointer_to, unwritten
from dpmcmc.families.target import Floats
from dpmcmc.formula.design import POINTER, Design
from dpmcmc.inputs.spec import JobSpec, ModelSpec


def with_groups(family: Model) -> Model:
    """Return a family that knows designs with groups, or refuses them where it has none."""

    @wraps(family.check)  # whose module describes the family
    def check(design: Design, model: ModelSpec) -> None:
        if design.grouping is not None and family.group_sd is None:
            message = (
                f"groups are for linear, logistic and count regressions: {family.family} takes"
                f" C({design.grouping.column})"
            )
            raise SpecError(POINTER, message)
        family.check(design, model)

    def parameters(design: Design, model: ModelSpec) -> tuple[str, ...]:
        own = family.parameters(design, model)
        return own if design.grouping is None else (*own, *design.grouping.parameters)

    def release(design: Design, spec: JobSpec, positions: Floats) -> Floats:
        if design.grouping is None:
            return family.release(design, spec, positions)
        own = len(family.parameters(design, spec.model))
        first, last = positions[..., :own], positions[..., own:]
        unit = family.unit(design, spec.model)
        made = family.release(design, without_sd(design, spec), first)
        return np.concatenate((made, last * unit), axis=-1)

    def prior(design: Design, model: ModelSpec) -> Normals:
        means, sds = family.prior(design, _without_sd(design, model))
        if design.grouping is None or family.group_sd is None:
            return means, sds
        scale = family.group_sd(design, model)
        if isinstance(model.prior, dict) and design.grouping.sd in model.prior:
            name = design.grouping.sd
            own, at = unwritten(model.prior[name], name), pointer_to(name)
            if own.loc != 0.0:
                raise SpecError(f"{at}/loc", "must be 0: the prior of an sd is half of a normal")
            scale = own.scale
        return np.append(means, 0.0), np.append(sds, scale)

    def alone(made: Any) -> Any:
        """Return a function of a design and a job, or None, that does not see the prior of sds."""
        if made is None:
            return None
        return lambda design, spec: made(design, without_sd(design, spec))

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


def without_sd(design: Design, spec: JobSpec) -> JobSpec:
    """Return a job whose priors are of the family's own parameters."""
    model = _without_sd(design, spec.model)
    return spec if model is spec.model else replace(spec, model=model)


def _without_sd(design: Design, model: ModelSpec) -> ModelSpec:
    grouping = design.grouping
    if grouping is None or not isinstance(model.prior, dict) or grouping.sd not in model.prior:
        return model
    others = {name: own for name, own in model.prior.items() if name != grouping.sd}
    return replace(model, prior=others)
