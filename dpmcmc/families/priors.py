"""Normal priors of single coefficients, from what a job says and from public facts.

What a job leaves open follows from the declared bounds, so that it does not depend on the unit of
a response: see the `prior` of each family. A plan writes what applies into its job.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError, is_number, near
from dpmcmc.base.names import LOG_SCALES
from dpmcmc.formula import cuts
from dpmcmc.formula.design import Design
from dpmcmc.inputs.spec import ModelSpec, NormalPrior, Prior
from dpmcmc.inputs.written_priors import is_alone, read_prior

Floats = NDArray[np.float64]
RIGHT = 'such as NormalPrior(scale=1), or some by parameter, {"age": NormalPrior(scale=1)}'
LATER = "must be normal; ask the release for others afterwards: fit.release.posterior(...)"
Normals = tuple[Floats, Floats]  # means and sds, (d,) each, of parameters as they are released
POINTER = "/model/prior"
DEFAULT_SCALE = NormalPrior().scale
SMALLEST_SD, LARGEST_SD = 1e-3, 1e6  # sd of one prior for all coefficients
MOST_DEFAULT_SDS = 1e6  # from what applies by default, in its sds; of an sd, times that by default


def normal_priors(
    prior: Prior, names: Sequence[str], default: Normals, same: int | None = None
) -> Normals:
    """Return means and sds (d,) of the normal priors, `default` where the job names none.

    same: how many of the parameters one prior for all is of; the others keep the default.
    """
    means, sds = default[0].copy(), default[1].copy()
    if isinstance(prior, NormalPrior):
        means[:same], sds[:same] = prior.loc, prior.scale
        return means, sds
    check_names(prior, names)
    for name, entry in (prior or {}).items():
        k, entry = names.index(name), unwritten(entry, name)
        means[k], sds[k] = entry.loc, entry.scale
    return means, sds


def check_names(prior: Prior, names: Sequence[str]) -> None:
    """Raise SpecError where a prior by parameter is of none of these."""
    for name in prior if isinstance(prior, dict) else ():
        if name not in names:
            message = f"no such parameter; there are {', '.join(names)}{near(str(name), names)}"
            raise SpecError(pointer_to(name), message)


def unwritten(prior: NormalPrior | str, name: str) -> NormalPrior:
    """Return a prior as a record; raise where it is still text that `in_design` has not parsed."""
    if isinstance(prior, str):
        raise SpecError(pointer_to(name), "is in the units of a column: resolve the model first")
    return prior


def in_design(design: Design, model: ModelSpec, names: Sequence[str]) -> ModelSpec:
    """Return the model with priors in text, such as "normal(0, 0.02)", as NormalPrior records."""
    if not isinstance(model.prior, dict):
        return model
    prior: dict[str, NormalPrior | str] = {}
    for name, entry in model.prior.items():
        prior[name] = entry
        if isinstance(entry, str):
            numbers = _written(entry, pointer_to(name))
            unit = column_unit(design, names, name, pointer_to(name))
            loc, scale = numbers.get("loc", 0.0) / unit, numbers["scale"] / unit
            prior[name] = NormalPrior(loc=loc, scale=scale)
    return replace(model, prior=prior)


def column_unit(design: Design, names: Sequence[str], name: str, pointer: str) -> float:
    """Return the unit of a standardised coefficient, in units of the columns.

    Raises SpecError where there is no such parameter, or one in those units is a sum of several
    standardised ones, as an intercept is.
    """
    if name not in names:
        raise SpecError(pointer, f"no such parameter; there are {', '.join(names)}")
    if name in design.beside_families or name in LOG_SCALES:
        return design.slope_unit if name in design.of_slopes else 1.0
    between = cuts.count(design, names)
    k = max(names.index(name) - max(between - 1, 0), 0) % len(design.parameters)
    weights = {j: weight for row, j, weight in design.mixing if row == k and weight}
    if set(weights) != {k}:
        message = "is a sum of several in the units of the columns: give that of the standardised"
        raise SpecError(pointer, f'{message} one, {{"{name}": NormalPrior(loc=0, scale=1)}}')
    return weights[k]


def _written(text: str, pointer: str) -> dict[str, float]:
    """Return mean and sd of a prior in text. Raises SpecError where it is not normal(mean, sd)."""
    kind, numbers = read_prior(text, pointer)
    if kind != "normal" or set(numbers) - {"loc", "scale"}:
        raise SpecError(pointer, LATER)
    if not 0.0 < numbers.get("scale", 0.0) < math.inf:
        raise SpecError(pointer, "must have a scale above 0, such as normal(0, 0.02)")
    if not math.isfinite(numbers.get("loc", 0.0)):
        raise SpecError(pointer, "must have finite numbers")
    return numbers


def usual(count: int) -> Normals:
    """Return the default prior Normal(0, 2.5) for each of `count` coefficients."""
    return np.zeros(count), np.full(count, DEFAULT_SCALE)


def pointer_to(name: str) -> str:
    """Return the JSON pointer of one coefficient's prior."""
    name = str(name)
    return f"{POINTER}/{name.replace('~', '~0').replace('/', '~1')}"


def resolved(
    model: ModelSpec, names: Sequence[str], normals: Callable[[ModelSpec], Normals]
) -> ModelSpec:
    """Return the model with every coefficient's prior filled in. Raises SpecError.

    normals: what applies to a model.
    """
    if isinstance(model.prior, NormalPrior):
        return model
    means, sds = normals(model)
    _check_far(model.prior or {}, names, normals(replace(model, prior=None)))
    if not means.any() and (sds == sds[0]).all() and SMALLEST_SD <= sds[0] <= LARGEST_SD:
        return replace(model, prior=NormalPrior(scale=float(sds[0])))
    both = zip(means.tolist(), sds.tolist(), strict=True)
    named: dict[str, NormalPrior | str] = {
        name: NormalPrior(loc=mean, scale=sd) for name, (mean, sd) in zip(names, both, strict=True)
    }
    return replace(model, prior=named)


def _check_far(named: dict[str, NormalPrior | str], names: Sequence[str], default: Normals) -> None:
    """Refuse priors so far from the default that double precision would lose digits."""
    for name, entry in named.items():
        parsed = unwritten(entry, name)
        mean, sd = (float(part[names.index(name)]) for part in default)
        if not abs(parsed.loc - mean) <= MOST_DEFAULT_SDS * sd:
            low, high = mean - MOST_DEFAULT_SDS * sd, mean + MOST_DEFAULT_SDS * sd
            raise SpecError(f"{pointer_to(name)}/loc", f"must be between {low:g} and {high:g}")
        if not sd / MOST_DEFAULT_SDS <= parsed.scale <= MOST_DEFAULT_SDS * sd:
            message = f"must be between {sd / MOST_DEFAULT_SDS:g} and {MOST_DEFAULT_SDS * sd:g}"
            raise SpecError(f"{pointer_to(name)}/scale", message)


def check_numbers(prior: Prior) -> None:
    """Refuse priors that are not finite or not positive, before the design is known."""
    if prior is None:
        return
    if isinstance(prior, NormalPrior):
        _check_one(prior, POINTER, SMALLEST_SD, LARGEST_SD)
        return
    if isinstance(prior, str):
        kind, _ = read_prior(prior, POINTER)
        raise SpecError(POINTER, f"must be by parameter, {RIGHT}" if kind == "normal" else LATER)
    if not isinstance(prior, dict):
        raise SpecError(POINTER, f"must be a normal prior, {RIGHT}")
    for field in ("loc", "scale"):
        if is_alone(prior) and isinstance(prior.get(field), str):
            raise SpecError(f"{POINTER}/{field}", "must be a number")
    for name, entry in prior.items():
        if isinstance(entry, str) and "(" not in entry:
            raise SpecError(pointer_to(name), f"must be a normal prior, {RIGHT}")
        if isinstance(entry, str):
            _written(entry, pointer_to(name))
        else:
            _check_one(entry, pointer_to(name), 0.0, math.inf)


def _check_one(prior: NormalPrior, at: str, least: float, most: float) -> None:
    """Refuse one prior whose mean or sd is out of range."""
    kind = getattr(prior, "kind", "normal")
    if not isinstance(kind, str) or kind != "normal":
        raise SpecError(f"{at}/kind", LATER)
    if not isinstance(prior, NormalPrior):
        raise SpecError(at, f"must be a normal prior, {RIGHT}")
    for field in ("scale", "loc"):
        value = getattr(prior, field)
        if not is_number(value):
            raise SpecError(f"{at}/{field}", "must be a number")
    if not (least <= prior.scale <= most and 0.0 < prior.scale < math.inf):
        limits = f"between {least:g} and {most:g}" if least > 0.0 else "above 0 and finite"
        raise SpecError(f"{at}/scale", f"must be {limits}")
    largest = most if math.isfinite(most) else math.inf
    if not (abs(prior.loc) <= largest and math.isfinite(prior.loc)):
        limits = f"between -{most:g} and {most:g}" if math.isfinite(most) else "finite"
        raise SpecError(f"{at}/loc", f"must be {limits}")
