"""Reuse of an earlier release's whitening for the same columns.

A whitening reads only covariates, so that one payment serves every response and every family. Any
coordinates are valid: the cost of an iterate follows from how its rows are clipped, whatever the
coordinates (docs/proofs/noisy_quadratic.md, section 2). Which whitening is used is decided from
public facts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from dpmcmc.base.errors import SpecError
from dpmcmc.formula.columns import Factor
from dpmcmc.formula.design import Design, make_design
from dpmcmc.inputs.options import FRESH
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.releases.newton_path import round_multipliers
from dpmcmc.releases.noisy_quadratic import blurred
from dpmcmc.releases.whitening import Whitening

POINTER = "/sampler/whitening"
# noise of a whitening, over what it saw: measured, below it none is missed
MAX_WHITENING_NOISE = 0.15
LARGEST_ENTRY, WORST_CONDITION = (
    1e100,
    1e12,
)  # of numbers in coordinates; of a direction over another


@dataclass(frozen=True, slots=True)
class Earlier:
    """A release whose whitening is paid for. name: how a job refers to it, such as a job's id.

    noise_multiplier: of the job, see `whitened_at`.
    """

    name: str
    formula: str
    noise_multiplier: float


def whitened_at(spec: JobSpec) -> float:
    """Return the noise multiplier of a job of one round whose whitening is as good."""
    options: Any = spec.sampler
    z = spec.privacy.noise_multiplier or 0.0
    return round_multipliers(z, getattr(options, "rounds", None) or 1)[0]


def reused(
    design: Design, spec: JobSpec, earlier: Sequence[Earlier], noise_multiplier: float | None
) -> tuple[JobSpec, str]:
    """Return the job with the whitening that it reuses, if any, and the reason.

    earlier: of the same dataset. noise_multiplier: of the job that is planned, where it is known.
    Raises SpecError where the job names one that is not of these columns.
    """
    options: Any = spec.sampler
    named = getattr(options, "whitening", None)
    if named == FRESH or not hasattr(options, "whitening"):
        return spec, ""
    same = [release for release in earlier if _same_columns(design, release)]
    if named is not None:
        if named not in {release.name for release in same}:
            raise SpecError(POINTER, _unknown(same))
        return spec, ""
    best = min(same, key=lambda release: release.noise_multiplier, default=None)
    if best is None or not _good(design, best, noise_multiplier):
        return spec, ""
    reason = (
        f"the whitening of job {best.name} is of the same columns: it is used again, and nothing is"
        " paid for another one"
    )
    return replace(spec, sampler=replace(options, whitening=best.name)), reason


def _good(design: Design, release: Earlier, noise_multiplier: float | None) -> bool:
    """Return whether a whitening's noise is harmless, or at most that of a new one."""
    if noise_multiplier is not None and release.noise_multiplier <= noise_multiplier:
        return True
    return (
        blurred(release.noise_multiplier, len(design.parameters), design.schema.units)
        <= MAX_WHITENING_NOISE
    )


def _unknown(same: Sequence[Earlier]) -> str:
    """Return advice where the named whitening is not among these releases."""
    known = ", ".join(release.name for release in same[:12]) or "there is none"
    return (
        f"must be {FRESH!r}, or a succeeded job of yours on this dataset with the same columns that"
        f" paid for a whitening: {known}"
    )


def _same_columns(design: Design, release: Earlier) -> bool:
    """Return whether the release has the design's columns."""
    return _alike(design, make_design(design.schema, release.formula))


def _alike(first: Design, second: Design) -> bool:
    """Return whether two designs have the same columns, of the same rows.

    One with groups is like none: its release stores no whitening, and uses none.
    """
    if first.grouping is not None or second.grouping is not None:
        return False
    gaps = [{column.name for column in design.gappy} for design in (first, second)]
    return set(_columns(first)) == set(_columns(second)) and gaps[0] == gaps[1]


def _columns(design: Design) -> list[frozenset[Factor]]:
    """Return a key for each column, independent of the order of its factors."""
    return [frozenset(term) for term in design.terms]


def in_order(white: Whitening, made: Design, wanted: Design) -> Whitening:
    """Return a whitening of one design, permuted to another's order of columns.

    Raises SpecError where they are not the same columns, or the numbers are none.
    """
    columns = _columns(made)
    if not _alike(made, wanted):
        raise SpecError(POINTER, "is of other columns: " + ", ".join(made.parameters))
    order = [columns.index(column) for column in _columns(wanted)]
    both = np.ix_(order, order)
    return checked(
        Whitening(white.root[order], white.known[both], white.sd, white.held[both]), len(order)
    )


def checked(white: Whitening, dimension: int) -> Whitening:
    """Return the whitening, checked to be well conditioned. Raises SpecError.

    This is no matter of privacy, for which any would do, but a run must not break off.
    """
    parts = (white.root, white.known, white.held)
    sized = all(part.shape == (dimension, dimension) for part in parts)
    if not sized or not all(np.abs(part).max() <= LARGEST_ENTRY for part in parts):
        raise SpecError(POINTER, "does not hold coordinates of these columns")
    values = np.linalg.svd(white.root, compute_uv=False)
    if not values[-1] * WORST_CONDITION >= values[0] > 0.0:
        raise SpecError(POINTER, "holds coordinates that cannot be told apart")
    return white


def passed_on(given: Any, kind: type[Any]) -> dict[str, Any]:
    """Return the whitening named in `given` as an option of `kind`; empty if it has none."""
    known = {field.name for field in fields(kind)}
    whitening = getattr(given, "whitening", None)
    return {"whitening": whitening} if "whitening" in known and whitening is not None else {}
